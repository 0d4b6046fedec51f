"""netCDF, HDF5 and MATLAB files as other programs write them."""

import warnings

import h5py
import numpy as np
import pytest
import scipy.io
import xarray as xr

from fim_dynsys import Trajectories
from fim_dynsys.errors import ReadingWarning

T = np.linspace(0.0, 12.0, 121)
X, V = np.cos(T), -np.sin(T)
WITH_CODE = np.where(np.arange(len(T)) == 5, -999.0, X)


@pytest.mark.parametrize("dims", [("station", "time"), ("time", "run")])
def test_variables_of_several_stations_are_states(tmp_path, dims):
    both = np.array([X, 2.0 * X]), np.array([V, V])
    x, v = both if dims[1] == "time" else [values.T for values in both]
    labels = next(name for name in dims if name != "time")
    data = xr.Dataset({"x": (dims, x), "v": (dims, v)}, coords={"time": T, labels: ["A", "B"]})
    data.to_netcdf(tmp_path / "a.nc")
    found = Trajectories.from_file(tmp_path / "a.nc")
    assert found.state_names == ("x", "v") and found.coords["trajectory"].tolist() == ["A", "B"]
    np.testing.assert_array_equal(found.arrays()[1][1], np.column_stack([2.0 * X, V]))


def test_one_variable_over_states_stays_one(tmp_path):
    xr.Dataset({"x": (("time", "place"), np.column_stack([X, V]))}, coords={"time": T}).to_netcdf(
        tmp_path / "a.nc"
    )
    assert Trajectories.from_file(tmp_path / "a.nc").dim == 2


def test_flags_are_no_states():
    for extra in (("x_qc", {}), ("state_of_sensor", {"flag_meanings": "good bad"})):
        flags = ("time", np.ones(len(T), dtype=int), extra[1])
        data = xr.Dataset({"x": ("time", X), extra[0]: flags}, coords={"time": T})
        with pytest.warns(ReadingWarning, match=f"left out: {extra[0]}, which mark samples"):
            assert Trajectories.from_dataset(data).state_names == ("x",)


def test_codes_for_missing_values_are_refused(tmp_path):
    xr.Dataset({"x": ("time", WITH_CODE)}, coords={"time": T}).to_netcdf(tmp_path / "a.nc")
    with pytest.raises(ValueError, match=r"-999 in 1 rows of .a\.nc., far from all others; write NaN where"):
        Trajectories.from_file(tmp_path / "a.nc")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["time"], file["x"], file["v"] = T, WITH_CODE, V
    np.savez(tmp_path / "a.npz", t=T, x=WITH_CODE)
    np.savez(tmp_path / "b.npz", t=T, x=np.stack([np.column_stack([WITH_CODE, V])] * 2))
    scipy.io.savemat(tmp_path / "a.mat", {"t": T, "x": WITH_CODE})
    for name in ("a.h5", "a.npz", "b.npz", "a.mat"):
        with pytest.raises(ValueError, match="give missing=-999 if it stands for missing values"):
            Trajectories.from_file(tmp_path / name)
        x = Trajectories.from_file(tmp_path / name, missing=-999).arrays()[0][1]
        assert np.isnan(x).sum() == 1 and np.nanmin(x) > -2.0
        assert np.nanmin(Trajectories.from_file(tmp_path / name, missing=[]).x) == -999.0


def test_own_files_are_taken_as_they_are(tmp_path):
    data = Trajectories.from_arrays(WITH_CODE, T)
    data.to_file(tmp_path / "own.nc")
    assert Trajectories.from_file(tmp_path / "own.nc").equals(data)


def test_attributes_say_units(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["t"], file["x"] = 1000.0 * T, np.column_stack([X, V])
        file["t"].attrs["units"], file["x"].attrs["unit"] = "ms", np.bytes_("mm")
    found = Trajectories.from_file(tmp_path / "a.h5")
    assert found.units == {"t": "ms", "x0": "mm", "x1": "mm"}


@pytest.mark.parametrize("order", [("t", "X"), ("X", "t")])
def test_cells_share_their_times(tmp_path, order):
    cells = np.empty((1, 3), dtype=object)
    cells[0, :] = [np.column_stack([k * X, V]) for k in (1.0, 2.0, 3.0)]
    content = {"t": T, "X": cells}
    scipy.io.savemat(tmp_path / "a.mat", {name: content[name] for name in order})
    found = Trajectories.from_file(tmp_path / "a.mat")
    assert len(found) == 3 and found.dim == 2
    for k, (t, x) in enumerate(found.arrays()):
        np.testing.assert_array_equal(t, T)
        np.testing.assert_array_equal(x[:, 0], (k + 1) * X)


def test_steps_count_from_the_start_of_each_trajectory(tmp_path):
    cells = np.empty((1, 2), dtype=object)
    cells[0, :] = [np.column_stack([X, V])] * 2
    scipy.io.savemat(tmp_path / "a.mat", {"X": cells, "dt": 0.1})
    rows = "".join(f"{run},{x},{v}\n" for run in "AB" for x, v in zip(X, V, strict=True))
    (tmp_path / "a.csv").write_text("run,x,v\n" + rows)
    with pytest.warns(ReadingWarning):
        matlab = Trajectories.from_file(tmp_path / "a.mat")
    for found in (matlab, Trajectories.from_file(tmp_path / "a.csv", step=0.1)):
        assert [t[0] for t, _ in found.arrays()] == [0.0, 0.0]
    with pytest.warns(ReadingWarning, match="row numbers"):
        counted = Trajectories.from_file(tmp_path / "a.csv")
    assert [t[-1] for t, _ in counted.arrays()] == [120.0, 120.0]


@pytest.mark.parametrize("names", ["x,v,x,v,x,v", "x,v,x.1,v.1,x.2,v.2"])
def test_columns_of_one_name_may_be_trials(tmp_path, names):
    rows = "".join(f"{t},{x},{v},{2 * x},{v},{3 * x},{v}\n" for t, x, v in zip(T, X, V, strict=True))
    (tmp_path / "a.csv").write_text(f"t,{names}\n{rows}")
    with pytest.warns(ReadingWarning, match="columns of one name as states"):
        together = Trajectories.from_file(tmp_path / "a.csv")
    assert together.state_names == ("x", "v", "x.1", "v.1", "x.2", "v.2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadingWarning)
        found = Trajectories.from_file(tmp_path / "a.csv", trials="suffix")
    assert len(found) == 3 and found.state_names == ("x", "v")
    np.testing.assert_allclose([x[0, 0] for _, x in found.arrays()], [1.0, 2.0, 3.0])
