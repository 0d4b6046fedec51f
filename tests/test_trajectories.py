"""Trajectories: what goes in, what comes out, what is refused."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from fim_dynsys.errors import DataWarning
from fim_dynsys.regions import Region
from fim_dynsys.trajectories.container import Trajectories, concatenate

T = np.linspace(0, 1, 6)
X = np.random.default_rng(0).normal(size=(6, 2))


@pytest.fixture
def ragged():
    """Two trajectories of six and three samples with everything that can be attached."""
    return Trajectories.from_arrays(
        [X, X[:3] + 1],
        [T, 2 * T[:3]],
        state_names=["prey", "predator"],
        coords={"mu": [0.5, 1.5], "site": ["north", "south"]},
        units={"prey": "1/km^2", "t": "d", "mu": "1/d"},
    )


@pytest.fixture
def holes():
    """A trajectory with one missing coordinate and one missing sample."""
    x = X.copy()
    x[1, 0] = np.nan
    x[4] = np.nan
    return Trajectories.from_arrays(x, T)


# Ways in


def test_layout_of_ragged_input(ragged):
    assert len(ragged) == 2 and ragged.dim == 2
    assert ragged.n_obs.tolist() == [6, 3]
    assert ragged.x.shape == (2, 6, 2) and ragged.t.shape == (2, 6)
    np.testing.assert_array_equal(ragged.x[1, :3], X[:3] + 1)
    assert np.isnan(ragged.x[1, 3:]).all() and np.isnan(ragged.t[1, 3:]).all()
    assert ragged.state_names == ("prey", "predator")
    assert ragged.units == {"prey": "1/km^2", "t": "d", "mu": "1/d"}
    assert ragged.coords["mu"].tolist() == [0.5, 1.5] and ragged.coords["site"].tolist() == ["north", "south"]
    assert ragged.dataset["x"].dims == ("trajectory", "sample", "state")
    assert ragged.dataset["t"].attrs["units"] == "d"
    assert ragged.dataset["x"].sel(state="prey").values[0, 0] == X[0, 0]


@pytest.mark.parametrize(
    ("x", "t"),
    [
        (X, T),
        ([X], T),
        ([X], [T]),
        (X, [T]),
        (X.tolist(), T.tolist()),
        ([X.tolist()], [T.tolist()]),
        (X, 0.2),
        ([X], np.array(0.2)),
        (X.astype(">f8"), T),
        (np.asfortranarray(X), T),
        (pd.DataFrame(X), pd.Series(T)),
        (xr.DataArray(X), xr.DataArray(T)),
        (np.ma.masked_array(X, mask=False), np.ma.masked_array(T, mask=False)),
    ],
)
def test_equivalent_forms_of_one_trajectory(x, t):
    data = Trajectories.from_arrays(x, t)
    assert len(data) == 1 and data.state_names == ("x0", "x1")
    np.testing.assert_array_equal(data.x, X[None])
    np.testing.assert_allclose(data.t, T[None], rtol=0, atol=1e-15)  # 0.2 * arange against linspace


def test_one_dimensional_and_shared_inputs():
    assert Trajectories.from_arrays([1, 2, 3], 0.5).x.shape == (1, 3, 1)
    assert Trajectories.from_arrays([X[:, 0], X[:, 1]], T).x.shape == (2, 6, 1)
    shared = Trajectories.from_arrays((X, X), T)
    np.testing.assert_array_equal(shared.t, [T, T])
    steps = Trajectories.from_arrays([X, X[:2]], 0.5)
    np.testing.assert_array_equal(steps.t[1], [0, 0.5, np.nan, np.nan, np.nan, np.nan])
    assert len(Trajectories.from_arrays([X.tolist(), X.tolist()], T)) == 2


def test_other_number_types_become_float64():
    for dtype in ("f4", "f2", "i8", "u1", "g"):
        data = Trajectories.from_arrays(np.arange(4, dtype=dtype), np.arange(4, dtype=dtype))
        assert data.x.dtype == data.t.dtype == np.float64
        np.testing.assert_array_equal(data.x[0, :, 0], [0, 1, 2, 3])


def test_masked_entries_are_missing_observations():
    data = Trajectories.from_arrays(np.ma.masked_array(X, mask=X < 0), T)
    np.testing.assert_array_equal(np.isnan(data.x[0]), X < 0)


def test_input_is_copied():
    x, t, mu = X.copy(), T.copy(), np.array([1.0])
    data = Trajectories.from_arrays(x, t, coords={"mu": mu})
    x[:], t[:], mu[:] = 9, 9, 9
    np.testing.assert_array_equal(data.x[0], X)
    np.testing.assert_array_equal(data.t[0], T)
    assert data.coords["mu"] == 1


def test_values_cannot_be_written(ragged):
    for array in (ragged.x, ragged.t, ragged.n_obs, ragged.coords["mu"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


# Ways out


def test_padded_is_finite_and_masks_each_coordinate(holes):
    both = concatenate([holes, holes[0].select_samples([[0, 1]])])
    t, x, mask = both.padded()
    assert np.isfinite(t).all() and np.isfinite(x).all()
    assert mask[0].tolist() == [[1, 1], [0, 1], [1, 1], [1, 1], [0, 0], [1, 1]]
    assert mask[1].tolist() == [[1, 1], [0, 1], *[[0, 0]] * 4]
    np.testing.assert_array_equal(t[1], [T[0], T[1], *[T[1]] * 4])
    assert (x[~mask] == 0).all()
    np.testing.assert_array_equal(x[mask], both.x[mask])
    x[:] = 7
    assert not (both.x == 7).any()


def test_arrays_and_iteration_agree(ragged):
    for (t, x), single in zip(ragged.arrays(), ragged, strict=True):
        assert single.x.shape == (1, *x.shape)
        np.testing.assert_array_equal(single.x[0], x)
        np.testing.assert_array_equal(single.t[0], t)
        assert single.units == ragged.units
    assert [single.coords["site"].item() for single in ragged] == ["north", "south"]


@pytest.mark.parametrize(
    ("index", "expected"),
    [(0, [0]), (-1, [1]), (slice(None, None, -1), [1, 0]), ([1, 1], [1, 1]), (np.array([False, True]), [1])],
)
def test_indexing(ragged, index, expected):
    chosen = ragged[index]
    assert chosen.n_obs.tolist() == ragged.n_obs[expected].tolist()
    assert chosen.x.shape[1] == chosen.n_obs.max()
    assert chosen.coords["mu"].tolist() == ragged.coords["mu"][expected].tolist()


@pytest.mark.parametrize("index", [2, -3, [0, 5], slice(2, None), "prey", 1.5, np.array([True])])
def test_indices_out_of_range_are_refused(ragged, index):
    with pytest.raises(IndexError, match=r"^Trajectories: expected"):
        ragged[index]


def test_concatenate_undoes_splitting(ragged):
    assert concatenate(list(ragged)).equals(ragged)
    assert concatenate([ragged, ragged[0]]).n_obs.tolist() == [6, 3, 6]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.select_states(["predator", "prey"]), "state_names"),
        (lambda d: d.with_units({}), "units"),
        (lambda d: d.with_coords(mu=None), r"coordinates \['mu', 'site'\] as in item 0"),
    ],
)
def test_concatenate_refuses_what_does_not_fit(ragged, change, message):
    with pytest.raises(ValueError, match=f"^concatenate: expected .*{message}.*item 1"):
        concatenate([ragged, change(ragged)])
    with pytest.raises(ValueError, match="list of Trajectories"):
        concatenate([])


def test_with_x_keeps_all_but_the_values(ragged):
    doubled = ragged.with_x(2 * ragged.x)
    np.testing.assert_array_equal(doubled.x, 2 * ragged.x)
    assert doubled.with_x(ragged.x).equals(ragged)
    assert ragged.with_x([x for _, x in ragged.arrays()]).equals(ragged)
    assert ragged.with_x(np.zeros((2, 6, 2))).n_obs.tolist() == [6, 3]
    norm = ragged.with_x(np.linalg.norm(ragged.x, axis=2, keepdims=True), state_names=["norm"])
    assert norm.state_names == ("norm",) and norm.units == {"t": "d", "mu": "1/d"}
    for wrong in (np.zeros((2, 5, 2)), np.zeros((2, 6, 3)), [X, X], np.zeros((2, 6, 2), complex)):
        with pytest.raises(ValueError, match=r"^Trajectories.*expected"):
            ragged.with_x(wrong)


def test_coordinates_and_units_can_be_changed(ragged):
    changed = ragged.with_coords(mu=None, batch=[3, 4])
    assert set(changed.coords) == {"site", "batch"} and changed.units == {"prey": "1/km^2", "t": "d"}
    assert ragged.with_units(["m", "kg"]).units == {"prey": "m", "predator": "kg"}


def test_select_states_keeps_their_units(ragged):
    swapped = ragged.select_states(["predator", "prey"])
    np.testing.assert_array_equal(swapped.x, ragged.x[:, :, ::-1])
    assert swapped.select_states(["prey", "predator"]).equals(ragged)
    assert ragged.select_states("predator").units == {"t": "d", "mu": "1/d"}
    with pytest.raises(ValueError, match=r"among \['prey', 'predator'\], got \['wolf'\]"):
        ragged.select_states(["wolf"])


def test_drop_incomplete_warns_once_with_the_count(holes):
    with pytest.warns(DataWarning, match=r"^Model needs complete samples: dropped 2 of 6") as record:
        complete = holes.drop_incomplete("Model")
    assert len(record) == 1
    np.testing.assert_array_equal(complete.t[0], T[[0, 2, 3, 5]])
    np.testing.assert_array_equal(complete.x[0], X[[0, 2, 3, 5]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert complete.drop_incomplete("Model") is complete


def test_drop_incomplete_drops_whole_trajectories_and_refuses_to_drop_all(holes):
    empty = holes.with_x(np.full((1, 6, 2), np.nan))
    with pytest.warns(DataWarning, match=r"dropped 8 of 12 .* with them 1 whole trajectories"):
        assert concatenate([empty, holes]).drop_incomplete("Model").n_obs.tolist() == [4]
    with pytest.raises(
        ValueError, match=r"^Model: expected samples with every coordinate observed, got none"
    ):
        empty.drop_incomplete("Model")


def test_box(holes, ragged):
    seen = X[[0, 2, 3, 5]]
    expected = Region(seen.min(axis=0), seen.max(axis=0))
    np.testing.assert_array_equal(holes.box().low, np.minimum(expected.low, [np.inf, X[1, 1]]))
    assert ragged.box().names == ("prey", "predator")
    still = Trajectories.from_arrays(np.column_stack([T, 0 * T + 40, 0 * T, 0 * T - 1e-300]), T).box()
    np.testing.assert_allclose(still.size[:3], [1, 0.04, 0.001])
    assert still.contains([0.5, 40, 0, -1e-300])
    with pytest.raises(ValueError, match="got none of 'x1'"):
        Trajectories.from_arrays(np.column_stack([T, np.nan * T]), T).box()


def test_box_scales_with_the_data():
    x = np.column_stack([T + 1, 0 * T + 3])
    small, large = (Trajectories.from_arrays(scale * x, T).box() for scale in (1.0, 1024.0))
    np.testing.assert_allclose(large.low, 1024 * small.low, rtol=1e-15)
    np.testing.assert_allclose(large.high, 1024 * small.high, rtol=1e-15)


def test_simulated_trajectories_have_a_status_and_may_run_backwards():
    back = Trajectories.from_arrays(
        [X, X[:2]], [-T, T[:2]], coords={"status": np.int8([0, 3]), "t_stop": [-1, 0.2]}
    )
    assert back.status.tolist() == [0, 3] and back.t_stop.tolist() == [-1, 0.2]
    forth = back.select_samples([np.arange(len(T))[::-1], np.arange(2)])
    np.testing.assert_array_equal(forth.t[0], -T[::-1])
    np.testing.assert_array_equal(forth.x[0], X[::-1])
    np.testing.assert_array_equal(forth.t[1, :2], T[:2])
    with pytest.raises(ValueError, match="unsorted"):
        back.with_coords(status=None)
    with pytest.raises(ValueError, match=r"repeated ones, 0 then 0, at sample 1 of trajectory 0"):
        Trajectories.from_arrays(X[:3], [0.0, 0.0, -1.0], coords={"status": 0})
    with pytest.raises(AttributeError, match="'status' exists for simulated trajectories only"):
        _ = forth.with_coords(status=None).status


def test_copies_are_equal_and_equality_sees_every_part(ragged):
    assert pickle.loads(pickle.dumps(ragged)).equals(ragged)
    assert copy.deepcopy(ragged).equals(ragged)
    others = [
        ragged.with_x(ragged.x + 1e-15),
        ragged.with_units({}),
        ragged.with_coords(mu=[0.5, 1.4]),
        ragged.with_coords(mu=None),
        ragged[::-1],
        ragged.with_x(ragged.x, state_names=["a", "b"]),
    ]
    assert not any(ragged.equals(other) for other in others)


def test_displays_name_states_units_and_ranges(ragged, holes):
    text = repr(ragged)
    assert (
        "2 trajectories, 3 to 6 samples each" in text
        and "prey [1/km^2]" in text
        and "per trajectory: mu, site" in text
    )
    assert f"{np.nanmin(ragged.x[:, :, 0]):.4g} to {np.nanmax(ragged.x[:, :, 0]):.4g}" in text
    assert "3 values missing" in repr(holes)
    html = ragged.with_x(ragged.x, state_names=["<b>", "&"])._repr_html_()
    assert "&lt;b&gt;" in html and "<b>&" not in html and html.count("<polyline") == 2


def test_further_variables_stay_until_values_or_samples_change(ragged):
    data = Trajectories(ragged.dataset.assign(x_stop=(("trajectory", "state"), [[1.0, 2.0], [3.0, 4.0]])))
    assert data[1].dataset["x_stop"].values.tolist() == [[3, 4]]
    assert "x_stop" in data.with_coords(k=[1, 2]).dataset
    assert "x_stop" in Trajectories.from_dataset(data.dataset).dataset
    assert "x_stop" not in data.with_x(data.x).dataset


# Refusals

BAD_INPUT = {
    "NaN time": (X, [0, np.nan, 2, 3, 4, 5], "finite times, got nan at sample 1 of trajectory 0; drop"),
    "infinite time": ([X, X], [T, [0, 1, 2, 3, 4, np.inf]], "got inf at sample 5 of trajectory 1"),
    "two trials": (
        np.vstack([X, X]),
        np.r_[T, T],
        "got times that start again, .*; give each trial by itself, or in tables a column of labels",
    ),
    "unsorted": ([X, X[:3]], [T, [0, 2, 1]], "unsorted ones, 2 then 1, at sample 2 of trajectory 1; sort"),
    "repeated": (
        X,
        [0, 1, 1, 2, 3, 4],
        "repeated ones, 1 then 1, at sample 2 of trajectory 0; average or drop",
    ),
    "complex x": (X * 1j, T, "for x of trajectory 0, got dtype complex128; give real and imaginary part"),
    "complex t": (X, T * 1j, "for t, got dtype complex128"),
    "boolean x": (X > 0, T, "got dtype bool"),
    "text x": (X.astype(str), T, "got dtype <U"),
    "text t": (X, "now", "for t, got dtype <U3"),
    "object x": (X.astype(object), T, "got dtype object; pass a list of arrays"),
    "dates": (X, np.arange(6).astype("M8[s]"), "got dtype datetime64.*convert to numbers in one unit"),
    "no times": (X, None, "for t, got dtype object"),
    "uneven rows": ([[1, 2], [3]], [0, 1], "got list that numpy cannot convert"),
    "three axes": (X[None], T, r"got \(1, 6, 2\); pass list\(x\)"),
    "a number": (3.0, T, r"shape \(n, d\) or \(n,\) for x of trajectory 0, got \(\)"),
    "nothing": ([], [], "at least one sample"),
    "empty": (np.zeros((0, 2)), [], r"at least one sample .* got shape \(0, 2\)"),
    "no coordinate": (np.zeros((6, 0)), T, r"got shape \(6, 0\)"),
    "one empty": ([X, X[:0]], [T, []], "for x of trajectory 1, got shape"),
    "lengths": (X, T[:5], "as many times as samples, got 5 times and 6 samples in trajectory 0"),
    "shared lengths": ([X, X[:4]], T, "6 times and 4 samples in trajectory 1; pass a list of times"),
    "number of times": ([X, X], [T, T, T], "2 arrays of times, one per trajectory, got 3"),
    "column of times": (X, T[:, None], r"times of shape \(n,\) for trajectory 0, got \(6, 1\)"),
    "dimensions": ([X, X[:, :1]], T, "2 coordinates as in trajectory 0, got 1 in trajectory 1"),
    "negative step": (X, -0.1, "positive, finite time step, got t = -0.1"),
    "zero step": (X, 0, "positive, finite time step, got t = 0"),
    "infinite step": (X, np.inf, "positive, finite time step, got t = inf"),
    "flag for a step": (X, True, "for t, got dtype bool"),
    "masked time": (X, np.ma.masked_array(T, mask=T == 0), "finite times, got nan at sample 0"),
    "masks in lists": ([[1, np.ma.masked]], [0], "list with masked entries"),
    "infinite value": (
        [X, np.where(X[2, 1] == X, -np.inf, X)],
        T,
        "got -inf in coordinate 1 at sample 2 of traj",
    ),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_refused_by_name_and_place(case):
    x, t, message = BAD_INPUT[case]
    with pytest.raises(ValueError, match=f"^Trajectories: expected .*{message}"):
        Trajectories.from_arrays(x, t)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state_names": ["a"]}, r"2 different state names \(str\), got \('a',\)"),
        ({"state_names": ["a", "a"]}, "2 different state names"),
        ({"state_names": ["a", 1]}, "2 different state names"),
        ({"state_names": 5}, "2 different state names"),
        ({"state_names": "ab"}, "2 different state names"),
        ({"state_names": ["t", "x"]}, "state names other than 't', which is the time; rename"),
        ({"coords": {"mu": [1, 2]}}, r"1 values for coordinate 'mu', one per trajectory, got shape \(2,\)"),
        ({"coords": {"x": [1]}}, "a coordinate name other than"),
        ({"coords": {"mu": [1j]}}, "numbers or strings for coordinate 'mu', got dtype complex128"),
        ({"coords": [1]}, "coords as a mapping"),
        ({"units": {"wolf": "m"}}, "names among .*got 'wolf'"),
        ({"units": {"x0": 3}}, "units as text"),
        ({"units": ["m"]}, "2 units, one per state, got 1"),
    ],
)
def test_bad_names_coordinates_and_units_are_refused(options, message):
    with pytest.raises(ValueError, match=f"^Trajectories: expected .*{message}"):
        Trajectories.from_arrays(X, T, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["x"], "an xarray Dataset, got DataArray"),
        (lambda d: d.drop_vars("n_obs"), "variable 'n_obs' over"),
        (lambda d: d.transpose("state", ...), "variable 'x' over"),
        (lambda d: d.astype("f4"), "float64 in 'x', got float32"),
        (lambda d: d.drop_vars("state"), "a coordinate 'state'"),
        (
            lambda d: d.assign(n_obs=d["n_obs"] + 1),
            r"1 to 6 samples in each trajectory, got n_obs = \[7, 4\]",
        ),
        (lambda d: d.assign(n_obs=d["n_obs"] - 1), "NaN beyond the 5 samples of trajectory 0"),
        (lambda d: d.isel(state=[]), "samples in each trajectory"),
    ],
)
def test_datasets_that_break_the_layout_are_refused(ragged, change, message):
    with pytest.raises(ValueError, match=f"^Trajectories: expected .*{message}"):
        Trajectories(change(ragged.dataset))


# Inputs


@pytest.fixture
def driven():
    """Two trajectories with two measured inputs."""
    u = np.arange(12.0).reshape(6, 2)
    return Trajectories.from_arrays(
        [X, X[:3]], [T, T[:3]], ["a", "b"], {"mu": [1.0, 2.0]}, {"F": "N"}, [u, u[3:]], ["F", "heat"]
    )


def test_inputs_stay_with_their_samples(driven, tmp_path):
    assert driven.input_names == ("F", "heat") and driven.u.shape == (2, 6, 2)
    assert np.isnan(driven.u[1, 3:]).all()
    assert [u.shape for u in driven.input_arrays()] == [(6, 2), (3, 2)]
    np.testing.assert_array_equal(driven[1].u[0], np.arange(6.0, 12.0).reshape(3, 2))
    np.testing.assert_array_equal(driven.select_samples([[0, 4], [1]]).u[0, :, 0], [0.0, 8.0])
    assert driven.with_x(2 * driven.x).u is not None
    assert concatenate([driven, driven]).input_arrays()[3].tolist() == driven.input_arrays()[1].tolist()
    alone = driven.without_inputs()
    assert alone.u is None and alone.units == {} and not alone.equals(driven)
    assert [u.shape for u in alone.input_arrays()] == [(6, 0), (3, 0)]
    assert "inputs: F, heat" in repr(driven) and "F, heat" in driven._repr_html_()
    for name in ("driven.csv", "driven.nc"):
        driven.to_file(tmp_path / name)
        assert Trajectories.from_file(tmp_path / name).equals(driven)
    frame = driven.to_dataframe()
    frame.attrs.clear()
    again = Trajectories.from_dataframe(frame, inputs=["F", "heat"], coords=["mu"], units={"F": "N"})
    assert again.equals(driven)
    assert pickle.loads(pickle.dumps(driven)).equals(driven)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"u": np.ones(5)}, r"inputs u of shape \(6, m\) .*got \(5, 1\)"),
        ({"u": [np.ones(6), np.ones(6)]}, "inputs u of 1 trajectories, got 2"),
        ({"u": np.full(6, np.nan)}, "finite inputs u at every sample"),
        ({"u": np.ones(6), "input_names": ["x0"]}, "1 different names of inputs"),
        ({"u": np.ones(6), "input_names": ["a", "b"]}, "1 different names of inputs"),
        ({"u": np.ones(6), "units": {"u1": "N"}}, "names among .*got 'u1'"),
    ],
)
def test_bad_inputs_are_refused(options, message):
    with pytest.raises(ValueError, match=f"^Trajectories: expected .*{message}"):
        Trajectories.from_arrays(X, T, **options)


def test_a_frame_of_another_library_is_named():
    frame = type("DataFrame", (), {"__module__": "polars.dataframe", "to_pandas": None})()
    with pytest.raises(ValueError, match=r"got polars.DataFrame; give frame.to_pandas\(\)"):
        Trajectories.from_dataframe(frame)
    with pytest.raises(ValueError, match="got dict; use from_arrays"):
        Trajectories.from_dataframe({})
