"""Arrays of all sorts into Trajectories: only sound results or our own ValueErrors come out."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fim_dynsys.trajectories.container import Trajectories

SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)

shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
floats = st.floats(allow_nan=True, allow_infinity=True, width=64)
dtypes = st.sampled_from(
    ["f8", "f4", "f2", "g", "i8", "u1", "?", "c16", "O", "U3", "S2", "M8[s]", "m8[D]", "V4", ">f8"]
)


@st.composite
def odd_arrays(draw):
    """Arrays of any type and shape, sometimes masked or not contiguous."""
    dtype = np.dtype(draw(dtypes))
    shape = draw(shapes)
    if dtype.kind == "O":
        array = np.empty(shape, dtype=object)
        array[...] = draw(st.sampled_from([None, 1, "a", 1j, 2**70]))
    elif dtype.kind == "V":
        array = np.zeros(shape, dtype)
    else:
        array = draw(hnp.arrays(dtype, shape))
    if draw(st.booleans()) and array.ndim > 0:
        array = array[::-1].T
    if draw(st.booleans()) and dtype.kind in "fi":
        array = np.ma.masked_array(array, mask=draw(hnp.arrays(bool, array.shape)))
    return array


numbers = st.one_of(
    floats, st.integers(), st.booleans(), st.none(), st.complex_numbers(), st.text(max_size=2)
)
nested = st.recursive(numbers, lambda inner: st.lists(inner, max_size=4), max_leaves=12)
anything = st.one_of(
    odd_arrays(),
    nested,
    st.lists(odd_arrays(), max_size=3),
    st.tuples(odd_arrays(), nested),
    st.dictionaries(st.text(max_size=2), floats, max_size=2),
    st.just({1.0, 2.0}),
    st.just(object()),
)


@st.composite
def nearly_valid(draw):
    """Trajectories of fitting shapes, in which at most a few values may be wrong."""
    n_states = draw(st.integers(1, 3))
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    values = draw(st.sampled_from([floats, st.floats(-10, 10), st.just(1e308), st.just(-0.0)]))
    x = [draw(hnp.arrays("f8", (n, n_states), elements=values)) for n in lengths]
    steps = draw(st.sampled_from([st.floats(0.01, 1), st.floats(0, 1), floats, st.just(1e308)]))
    with np.errstate(over="ignore", invalid="ignore"):
        t = [np.cumsum(draw(hnp.arrays("f8", n, elements=steps))) for n in lengths]
    return x, t


def assert_sound(data):
    """The promises of the class, checked on one result."""
    t, x, mask = data.padded()
    assert x.shape == mask.shape == (len(data), data.n_obs.max(), data.dim) == (*t.shape, data.dim)
    assert np.isfinite(t).all() and np.isfinite(x).all()
    np.testing.assert_array_equal(mask, np.isfinite(data.x))
    for k, (times, values) in enumerate(data.arrays()):
        assert values.shape == (data.n_obs[k], data.dim) == (times.size, data.dim)
        assert (times[1:] > times[:-1]).all()
    again = Trajectories.from_arrays([x for _, x in data.arrays()], [t for t, _ in data.arrays()])
    assert again.equals(data)
    assert isinstance(repr(data), str) and isinstance(data._repr_html_(), str)


def build_or_refuse(x, t, **options):
    """The result, or None after one of our own errors; anything else propagates."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return Trajectories.from_arrays(x, t, **options)
        except ValueError as error:
            assert str(error).startswith("Trajectories: expected "), error
            return None


@SETTINGS
@given(x=anything, t=anything)
def test_anything_goes_in_only_results_or_our_errors_come_out(x, t):
    data = build_or_refuse(x, t)
    if data is not None:
        assert_sound(data)


@SETTINGS
@given(nearly_valid())
def test_nearly_valid_input_is_refused_exactly_when_a_value_breaks_a_rule(pair):
    x, t = pair
    with np.errstate(invalid="ignore"):
        valid = not any(np.isinf(values).any() for values in x) and all(
            np.isfinite(times).all() and (times[1:] > times[:-1]).all() for times in t
        )
    data = build_or_refuse(x, t)
    assert (data is not None) == valid
    if valid:
        assert_sound(data)
        for (_, got), given_ in zip(data.arrays(), x, strict=True):
            np.testing.assert_array_equal(got, given_)


@SETTINGS
@given(names=anything, coords=anything, units=anything, values=anything)
def test_names_coordinates_and_units_of_all_sorts(names, coords, units, values):
    x, t = np.eye(3)[:, :2], [0.0, 1.0, 2.0]
    for options in (
        {"state_names": names},
        {"coords": coords},
        {"coords": {"mu": values}},
        {"units": units},
        {"units": {"x0": values}},
    ):
        data = build_or_refuse(x, t, **options)
        if data is not None:
            assert data.dim == len(data.state_names) == 2
            assert all(len(array) == 1 for array in data.coords.values())


@SETTINGS
@given(pair=nearly_valid(), x=anything)
def test_with_x_takes_fitting_values_or_refuses(pair, x):
    data = build_or_refuse(*pair)
    if data is None:
        return
    try:
        other = data.with_x(x)
    except ValueError as error:
        assert str(error).startswith("Trajectories"), error
    else:
        assert other.x.shape == data.x.shape
        np.testing.assert_array_equal(other.t, data.t)


@pytest.mark.parametrize("suffix", [".csv", ".nc"])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(pair=nearly_valid(), name=st.text(min_size=1, max_size=4), unit=st.text(max_size=4))
def test_what_is_accepted_survives_a_file(tmp_path_factory, suffix, pair, name, unit):
    data = build_or_refuse(*pair)
    if data is None or not name.isprintable() or name in ("t", "trajectory"):
        return
    names = [name, *(f"y{i}" for i in range(1, data.dim))]
    data = Trajectories.from_arrays(*pair, state_names=names, units={name: unit})
    path = tmp_path_factory.mktemp("fuzz") / f"data{suffix}"
    data.to_file(path)
    assert Trajectories.from_file(path).equals(data)
