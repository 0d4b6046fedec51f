"""Columns of labels by any name, rows without a time and rows that are doubled."""

import numpy as np
import pandas as pd
import pytest
from forms import written

from fim_dynsys import Trajectories
from fim_dynsys.errors import ReadingWarning

K = np.arange(40.0)
X = 5 + np.cos(K / 6)


@pytest.mark.parametrize("name", ["sample", "state", "input", "n_obs", "u", "x"])
def test_labels_are_kept_by_any_name(name, tmp_path):
    labels = ["WT"] * 20 + ["mutant"] * 20
    path = written(tmp_path, f"{name},time,OD", labels, K % 20, X)
    for data in (
        Trajectories.from_file(path, trajectory=name),
        Trajectories.from_dataframe(pd.read_csv(path), trajectory=name),
    ):
        assert len(data) == 2 and data.state_names == ("OD",)
        assert list(data.dataset[f"{name}_"].values) == ["WT", "mutant"]
    assert f"{name!r} called '{name}_'" in Trajectories.from_file(path, trajectory=name).dataset.attrs["read"]


def test_a_constant_is_kept_by_the_name_of_an_axis(tmp_path):
    with pytest.warns(ReadingWarning, match="label 'x' called 'x_'"):
        data = Trajectories.from_file(written(tmp_path, "t,x,y", K, 3 + 0 * K, X))
    assert data.state_names == ("y",) and data.dataset["x_"].values == [3]


def test_rows_without_a_time_are_dropped_where_that_is_asked_for(tmp_path):
    times = ["" if k in (0, 7) else f"2024-05-14 10:{k:02d}:00" for k in range(40)]
    for header, column in (
        ("Timestamp,x", times),
        ("t,x", ["" if k in (0, 7) else str(k) for k in range(40)]),
    ):
        path = written(tmp_path, header, column, X)
        with pytest.raises(ValueError, match='none in row 1; fill it, or give bad_rows="drop"'):
            Trajectories.from_file(path)
        with pytest.warns(ReadingWarning, match="dropped 2 rows without a time"):
            data = Trajectories.from_file(path, bad_rows="drop")
        t, x = data.arrays()[0]
        np.testing.assert_allclose(x[:, 0], np.delete(X, (0, 7)), rtol=1e-5)
        np.testing.assert_allclose((t - t[0]) / (t[1] - t[0]), np.delete(K, (0, 7)) - 1)
    falling = written(tmp_path, "t,x", ["" if k == 3 else str((7 * k) % 40) for k in range(40)], X)
    with pytest.raises(ValueError, match="2 after 35 in row 7"):
        Trajectories.from_file(falling, bad_rows="drop")


@pytest.mark.parametrize("times", [2, 3])
def test_rows_that_are_all_doubled_are_read_once(times, tmp_path):
    path = written(tmp_path, "t,x", np.repeat(K, times), np.repeat(X, times))
    with pytest.warns(ReadingWarning, match=f"dropped {40 * (times - 1)} rows repeated"):
        data = Trajectories.from_file(path)
    np.testing.assert_allclose(data.arrays()[0][1][:, 0], X, rtol=1e-5)
    other = np.where(np.arange(40 * times) == 5, 0.1, 0)
    with pytest.raises(ValueError, match="several times, with other values"):
        Trajectories.from_file(written(tmp_path, "t,x", np.repeat(K, times), np.repeat(X, times) + other))
