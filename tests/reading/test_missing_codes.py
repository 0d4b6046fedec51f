"""Numbers that stand for missing values, far from all others or outside of them again and again."""

import h5py
import numpy as np
import pytest
from forms import written

from fim_dynsys import Trajectories

T = np.linspace(0, 12, 121)
X = np.round(24 + 20 * np.cos(T), 2)  # 4 to 44


@pytest.mark.parametrize("code", [-1e34, 1e36, 9.96921e36])
def test_sizes_of_no_quantity_are_refused(code, tmp_path):
    path = written(tmp_path, "t,x", T, np.where(np.arange(121) % 40 == 5, code, X))
    with pytest.raises(ValueError, match=r"in 3 rows of .*give missing="):
        Trajectories.from_file(path)


@pytest.mark.parametrize("code", [9999, 999, 888, -999, -99, -99.9, 99, 99.9, 99.99, -9])
def test_codes_that_repeat_themselves_outside_of_the_data_are_refused(code, tmp_path):
    path = written(tmp_path, "t,x", T, np.where(np.arange(121) % 10 == 5, code, X))
    with pytest.raises(ValueError, match=f"{code:g} in 12 rows of .*give missing={code:g} if it stands"):
        Trajectories.from_file(path)
    assert np.isnan(Trajectories.from_file(path, missing=code).arrays()[0][1]).sum() == 12
    assert np.nanmax(np.abs(Trajectories.from_file(path, missing=[]).arrays()[0][1])) == max(44, abs(code))


@pytest.mark.parametrize("code", [-1, 6999])
@pytest.mark.parametrize("rows", [1, 4])
def test_codes_far_from_positive_data_are_refused(code, rows, tmp_path):
    path = written(tmp_path, "t,x", T, np.where(np.arange(121) % 30 == 20, code, 10 + np.cos(T)))
    if rows == 1:
        path = written(tmp_path, "t,x", T, np.where(np.arange(121) == 20, code, 10 + np.cos(T)))
    with pytest.raises(ValueError, match=f"{code} in {rows} rows of .*give missing={code} if"):
        Trajectories.from_file(path)


@pytest.mark.parametrize(
    "values",
    [
        np.where(np.arange(121) == 5, 99, X),  # once
        np.where(np.arange(121) == 5, -1, np.round(np.cos(T), 2)),  # among others
        np.where(np.arange(121) == 5, -1, X),  # near positive values
        np.where(np.arange(121) > 100, -1, 10 + np.cos(T)),  # from one row on
        np.where(np.arange(121) % 10 == 5, 99, np.round(98 + np.cos(T), 2)),  # among others
        np.where(np.arange(121) % 10 == 5, 99.0, 20.0 + np.arange(121) % 3),  # levels of a setting
        np.where(np.arange(121) % 2 == 0, 99, X),  # as often as others
        np.minimum(60 + 60 * np.cos(T), 99.9),  # a sensor at its limit
    ],
)
def test_values_that_look_like_codes_are_kept(values, tmp_path):
    data = Trajectories.from_file(written(tmp_path, "t,x", T, values))
    np.testing.assert_allclose(data.arrays()[0][1][:, 0], values, rtol=1e-5)


@pytest.mark.parametrize("key", ["_FillValue", "missing_value"])
def test_attributes_of_hdf5_say_what_is_missing_and_how_numbers_are_scaled(key, tmp_path):
    counts = np.round(100 * np.cos(T)).astype("i2")
    counts[5] = -999
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["t"], file["x"] = T, counts
        file["x"].attrs.update({key: np.array([-999], "i2"), "scale_factor": 0.01, "add_offset": 3.0})
    x = Trajectories.from_file(tmp_path / "a.h5").arrays()[0][1][:, 0]
    assert np.isnan(x[5]) and np.isnan(x).sum() == 1
    np.testing.assert_allclose(np.delete(x, 5), 3 + np.delete(np.round(100 * np.cos(T)), 5) / 100)
