"""One of a thing is written in the singular."""

import numpy as np

from fim_dynsys import SymbolicField, Trajectories, add_noise, simulate
from fim_dynsys.analyze import fixed_points
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.inference import Inference
from fim_dynsys.models.scarcity import noting_gaps
from fim_dynsys.wording import counted


def test_what_is_counted_has_its_number():
    assert [counted(n, "row") for n in (0, 1, 1000)] == ["0 rows", "1 row", "1,000 rows"]
    assert [counted(n, "axis", "axes") for n in (1, 2)] == ["1 axis", "2 axes"]


def test_one_sample_value_row_and_window_are_singular():
    one = Trajectories.from_arrays([[[1.0, np.nan]]], [[0.0]])
    assert "1 trajectory, 1 sample, dimension 2" in str(one) and "1 value missing" in str(one)
    x, u = np.ones((5, 1)), np.ones((5, 1))
    x[2] = np.nan
    data = Trajectories.from_arrays(x, 0.1, u=u)
    (note,) = noting_gaps(FitInfo(), data).inference.notes
    assert note.startswith("1 row is of")
    assert Inference(windows=1, window=2.0).entries()["judged over"] == "1 window of 2 time units"


def test_one_fixed_point_beyond_the_data_is_not_one_of_all():
    field = SymbolicField(["-x"], state_names=["x"])
    data = add_noise(simulate(field, [[5.0]], np.linspace(0.0, 0.5, 40)), 0.01, rng=0)
    seen = SymbolicField(["-x"], context=data)
    said = str(fixed_points(seen, [(-1.0, 1.0)])).splitlines()[0]
    assert said.startswith("1 fixed point, unsupported by data in")
