"""What all results share: tables, datasets, the deferred picture, and what analyses accept."""

import enum
import importlib
import json
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from fim_dynsys import analyze
from fim_dynsys.analyze.equilibria.points import fixed_points
from fim_dynsys.analyze.results import Effort, Result, frame_of, labels, resolve_region, unwrap
from fim_dynsys.errors import earlier_name
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.family import FieldFamily
from fim_dynsys.models.base import ModelKind, VectorFieldModel
from fim_dynsys.plot.space import Space
from fim_dynsys.regions import Region
from fim_dynsys.trajectories.container import Trajectories

EFFORT = Effort(seeds=64, iterations=7, points=1234, budget=5000, exhausted=False)


class Kind(enum.Enum):
    STABLE = "stable"
    UNSTABLE = "un<stable"


@dataclass(frozen=True, eq=False, repr=False)
class Things(Result):
    x: np.ndarray
    eigenvalues: np.ndarray
    kind: np.ndarray

    def _rows(self):
        rows = zip(self.x, self.eigenvalues, self.kind, strict=True)
        return ["place", "eigenvalues", "kind"], [list(row) for row in rows]

    def _variables(self):
        return {
            "x": (("thing", "state"), self.x),
            "eigenvalues": (("thing", "mode"), self.eigenvalues),
            "kind": (("thing",), self.kind),
        }


def things():
    return Things(
        np.array([[0.5, 1.0], [2.0, 1e-9]]),
        np.array([[-1 + 2j, -1 - 2j], [3.0, 4.0]]),
        np.array([Kind.STABLE, Kind.UNSTABLE]),
        state_names=("u", "v"),
        units={"u": "mV"},
        effort=EFFORT,
    )


def line_field(**kwargs):
    return CallableField(lambda x: -x, 2, **kwargs)


def data(units=None):
    x = np.array([[0.0, -1.0], [2.0, 3.0], [1.0, 1.0]])
    return Trajectories.from_arrays(x, np.arange(3.0), state_names=["u", "v"], units=units)


def test_table_has_one_line_per_thing_and_the_effort():
    lines = str(things()).splitlines()
    assert lines == repr(things()).splitlines()
    assert lines[1].split() == ["place", "eigenvalues", "kind"]
    assert lines[2] == "(0.5, 1)    (-1+2i, -1-2i)  stable"
    assert "1,234 of 5,000 field points" in lines[-1]
    assert len({line.index(word) for line, word in zip(lines[1:3], ("eigen", "(-1+2i"), strict=True)}) == 1


def test_html_is_escaped():
    page = things()._repr_html_()
    assert page.count("<tr>") == 3
    assert "<td>un&lt;stable</td>" in page


def test_data_frame_has_the_numbers():
    frame = things().to_dataframe()
    assert list(frame) == ["place u", "place v", "eigenvalues 0", "eigenvalues 1", "kind"]
    assert frame["place v"].tolist() == [1.0, 1e-9] and frame["kind"].tolist() == ["stable", "un<stable"]
    assert frame["eigenvalues 1"][0] == -1 - 2j


def test_data_frame_of_unequal_cells_and_repeated_names():
    frame = frame_of(["x", "x"], [[(1, 2), ""], [(3,), 0.5]])
    assert list(frame) == ["x 0", "x 1", "x"] and np.isnan(frame["x 1"][1]) and np.isnan(frame["x"][0])
    assert list(frame_of(["kind", "kind"], [[1, 2]])) == ["kind", "kind_"]


def test_dataset_survives_netcdf(tmp_path):
    things().to_xarray().to_netcdf(tmp_path / "things.nc", engine="h5netcdf")
    read = xr.load_dataset(tmp_path / "things.nc", engine="h5netcdf")
    eigenvalues = read.eigenvalues.sel(part="real") + 1j * read.eigenvalues.sel(part="imag")
    np.testing.assert_array_equal(eigenvalues, things().eigenvalues)
    assert read.x.sel(state="v").values.tolist() == [1.0, 1e-9]
    assert read.kind.values.tolist() == ["stable", "un<stable"]
    assert json.loads(read.attrs["units"]) == {"u": "mV"}
    assert (read.attrs["effort_points"], read.attrs["effort_exhausted"]) == (1234, 0)


def test_a_kind_of_one_s_own_names_what_draws_it():
    class Drawn(Things):
        def drawn_by(self, ax=None, *, states=None):
            space = Space.opened(ax, states, self.state_names, self.units, "things")
            return space.drawing({"things": space.ax.plot(*space.coordinates(self.x), "x")})

    drawn = Drawn(**vars(things()))
    drawing = drawn.plot()
    np.testing.assert_array_equal(drawing.artists["things"][0].get_xydata(), drawn.x)
    drawing.close()
    with pytest.raises(TypeError, match=r"draw: expected .* drawn_by, got Things"):
        things().plot()


def test_default_region_is_the_data_s_box_widened():
    box = resolve_region(line_field(context=data()), None, "who")
    np.testing.assert_allclose(box.low, [-0.2, -1.4], rtol=1e-15)
    np.testing.assert_allclose(box.high, [2.2, 3.4], rtol=1e-15)
    assert box.names == ("u", "v")
    own = Region([-1, -1], [1, 1])
    assert resolve_region(line_field(region=own), None, "who") == own
    with pytest.raises(ValueError, match=r"^fixed_points: expected a region"):
        resolve_region(line_field(), None, "fixed_points")


def test_region_may_name_states_in_any_order():
    box = resolve_region(line_field(context=data()), {"v": (0, 1), "u": (5, 6)}, "who")
    assert box.low.tolist() == [5, 0]
    box = resolve_region(line_field(context=data()), [(0, 1), (5, 6)], "who")
    assert (box.low.tolist(), box.names) == ([0, 5], ("u", "v"))
    with pytest.raises(ValueError, match="bounds of each of the states x0, x1, got 1 of 2"):
        resolve_region(line_field(), [(0, 1)], "who")


def test_labels_come_from_the_field():
    found = {"state_names": ("x0", "x1"), "units": {}, "conserved": (), "fit_problems": ()}
    assert labels(line_field()) == found
    assert labels(line_field(context=data({"u": "mV"})))["units"] == {"u": "mV"}


class _Model(VectorFieldModel):
    name = "line"
    min_observations = 3

    def infer(self, trajectories):
        return line_field(context=trajectories)


class _Latent:
    name = "latent-something"
    kind = ModelKind.LATENT
    field_ = line_field()


def test_models_are_unwrapped_or_refused_by_name():
    field = line_field()
    assert unwrap(field, "who") is field
    model = _Model()
    with pytest.raises(ValueError, match=r"^cycles: expected a fitted model, got 'line'"):
        unwrap(model, "cycles")
    model.fit(data())
    assert unwrap(model, "who") is model.field_
    with pytest.raises(TypeError, match=r"got 'latent-something', whose kind is 'latent dynamics'"):
        unwrap(_Latent(), "who")
    with pytest.raises(TypeError, match=r"analyze\.ensemble\(who"):
        unwrap(EnsembleField([field, field]), "who")
    with pytest.raises(TypeError, match="got function"):
        unwrap(lambda x: x, "who")
    for record in (np.zeros(9), [1.0, 2.0], data(), pd.Series([1.0])):
        with pytest.raises(TypeError, match=r"^lyapunov: .* got data .*fit a model.*delay_embedding"):
            analyze.lyapunov(record, [0.0])


def test_public_names_are_those_of_their_files():
    for name, file in analyze._PUBLIC.items():
        value = getattr(analyze, name)
        assert value is getattr(importlib.import_module(f"fim_dynsys.analyze.{file}"), name)
        assert name in dir(analyze)
        assert name != file
        if isinstance(value, type) and issubclass(value, Result):
            assert value.__repr__ is Result.__repr__, f"{name}: declare the dataclass with repr=False"
    with pytest.raises(AttributeError, match="no attribute 'fixed_pints'"):
        _ = analyze.fixed_pints


@pytest.mark.parametrize("n", [0, 1, 2])
def test_numbers_agree_with_what_they_count(n):
    """No result says "1 branches", and none counts in one line what another line contradicts."""
    zeros = [[], [0.0], [0.2, 0.6]][n]
    field = CallableField(lambda x: np.prod([x - z for z in zeros], axis=0) if n else np.ones_like(x), 1)
    points = analyze.fixed_points(field, [(-1, 1)])
    assert len(points) == n
    family = FieldFamily.from_callable(lambda x, p: [x, p - x**2, (p - x**2) * (0.5 - p)][n], 1, "p")
    traced = analyze.continuation(
        family, [[0.0], [0.7], [0.7]][n], (0.2, 1), [(-2, 2)], p0=[0.2, 0.49, 0.49][n]
    )
    plane = CallableField(lambda x: x * [1.0, -1.0] if n else np.ones_like(x), 2)
    box = Region([-1, -1], [1, 1])
    members = analyze.ensemble(analyze.fixed_points, [field] * max(n, 1), [(-1, 1)])
    section = analyze.poincare(plane, [[0.5, 0.1]] * max(n, 1), (0, 0.7), n=1)
    results = [points, traced, members, section, analyze.limit_cycles(plane, box, n_seeds=4)]
    results += [analyze.manifolds(plane, box), analyze.basins(plane, box, resolution=2, n_sample=2)]
    nouns = "points?|objects?|members?|branch(?:es)?|bifurcations?|crossings?|orbits?|attractors?|seeds?"
    for result in results:
        for number, noun in re.findall(
            rf"(?<![\d,.])([\d,]+) (?:[a-z]+ )?({nouns}|iterations?)\b", str(result)
        ):
            singular = not noun.strip().endswith("s")
            assert singular == (number == "1"), (number, noun, str(result))
    assert "found" not in str(points).splitlines()[-2]


def test_earlier_names_of_arguments_and_attributes_work_and_say_so():
    field = CallableField(lambda x: 1.0 - x, 1)
    with pytest.warns(DeprecationWarning, match="fixed_points: draws is called n_draws since"):
        found = fixed_points(field, [(0, 2)], draws=0)
    assert np.array_equal(found.x, fixed_points(field, [(0, 2)], n_draws=0).x)
    with pytest.raises(TypeError, match="expected n_draws alone"):
        fixed_points(field, [(0, 2)], draws=0, n_draws=0)

    class Counted:
        n_draws = 3
        n_members = earlier_name("n_members", "n_draws")

    with pytest.warns(DeprecationWarning, match="Counted: n_members is called n_draws since"):
        assert Counted().n_members == 3
