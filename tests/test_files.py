"""Tables, xarray objects and files: what goes out comes back, foreign layouts are read, damage is refused."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from fim_dynsys.trajectories import Trajectories

rng = np.random.default_rng(0)


@pytest.fixture
def full():
    """Ragged, irregular, with holes, awkward names, coordinates of all types, units and a status."""
    x = rng.normal(size=(8, 2)) * 10.0 ** rng.integers(-300, 300, size=(8, 2))
    x[2, 1] = np.nan
    x[5] = np.nan
    return Trajectories.from_arrays(
        [x, x[:3]],
        [np.cumsum(rng.random(8)) / 3, -np.arange(3) / 7],
        state_names=['prey, "wild"', "x"],
        coords={
            "status": np.array([0, 4], dtype=np.int8),
            "t_stop": [1 / 3, np.nan],
            "mu": [0.1, 1e300],
            "site": ["01", "NA"],
            "warm": [True, False],
        },
        units={"x": "µm", "t": "s", "mu": "1/s"},
    )


@pytest.fixture
def path(tmp_path, request):
    return tmp_path / f"data{request.param}"


both_formats = pytest.mark.parametrize("path", [".csv", ".nc"], indirect=True)


@both_formats
def test_everything_survives_a_file(full, path):
    full.to_file(path)
    again = Trajectories.from_file(path)
    assert again.equals(full)
    assert again.units == full.units and again.state_names == full.state_names
    assert again.status.tolist() == [0, 4]
    np.testing.assert_array_equal(again.x, full.x)  # to the last bit
    np.testing.assert_array_equal(again.t, full.t)
    assert {k: v.dtype.kind for k, v in again.coords.items()} == {
        k: v.dtype.kind for k, v in full.coords.items()
    }


@both_formats
def test_one_trajectory_and_labels_survive_a_file(full, path):
    full[0].to_file(path)
    assert Trajectories.from_file(path).equals(full[0])
    labelled = full.with_coords(trajectory=["b", "a"])
    labelled.to_file(str(path))
    again = Trajectories.from_file(str(path))
    assert again.equals(labelled)
    assert again.dataset.sel(trajectory="a")["n_obs"] == 3


def test_attributes_survive_netcdf(full, tmp_path):
    dataset = full.dataset.assign_attrs(source="field trip", run=3, options={"a": [1, None]})
    Trajectories.from_dataset(dataset).to_file(tmp_path / "data.nc")
    attrs = Trajectories.from_file(tmp_path / "data.nc").dataset.attrs
    assert attrs["source"] == "field trip" and attrs["run"] == 3
    assert attrs["options"] == '{"a": [1, null]}'


def test_csv_is_a_plain_long_table_below_its_first_line(full, tmp_path):
    full.to_file(tmp_path / "data.csv")
    frame = pd.read_csv(tmp_path / "data.csv", comment="#")
    assert list(frame.columns) == ["trajectory", "t", 'prey, "wild"', "x", *full.coords]
    assert frame["trajectory"].tolist() == [0] * 8 + [1] * 3
    full[0].to_file(tmp_path / "data.csv")
    assert "trajectory" not in pd.read_csv(tmp_path / "data.csv", comment="#")


@pytest.mark.parametrize("header", [b"", b"\xef\xbb\xbf"])  # without and with a byte order mark
def test_foreign_csv(tmp_path, header):
    path = tmp_path / "lab.csv"
    path.write_bytes(header + b"time,hare,lynx\n0,1,2\n0.5,NA,3\n1,2,\n")
    data = Trajectories.from_file(path)
    assert data.state_names == ("hare", "lynx")
    np.testing.assert_array_equal(data.x[0], [[1, 2], [np.nan, 3], [2, np.nan]])
    np.testing.assert_array_equal(data.t[0], [0, 0.5, 1])
    chosen = Trajectories.from_file(path, states=["lynx"], time="time", units={"lynx": "thousands"})
    assert chosen.state_names == ("lynx",) and chosen.units == {"lynx": "thousands"}


def test_dataframe_round_trip(full):
    frame = full.to_dataframe()
    assert Trajectories.from_dataframe(frame).equals(full)
    assert len(frame) == full.n_obs.sum()


def test_long_dataframe_of_a_user():
    frame = pd.DataFrame(
        {
            "animal": ["b", "a", "b", "a", "b"],
            "hour": [0, 0, 1, 2, 5],
            "weight": [1.0, 2, 3, 4, 5],
            "dose": [7, 8, 7, 8, 7],
        }
    )
    data = Trajectories.from_dataframe(frame, time="hour", trajectory="animal", coords=["dose"])
    assert data.state_names == ("weight",) and data.n_obs.tolist() == [3, 2]
    assert data.coords["animal"].tolist() == ["b", "a"] and data.coords["dose"].tolist() == [7, 8]
    np.testing.assert_array_equal(data.t, [[0, 1, 5], [0, 2, np.nan]])
    np.testing.assert_array_equal(data.x[..., 0], [[1, 3, 5], [2, 4, np.nan]])
    indexed = frame.set_index(["animal", "hour"])
    assert Trajectories.from_dataframe(indexed, "hour", "animal", coords=["dose"]).equals(data)
    nullable = frame.astype({"weight": "Float64", "hour": "Int64"})
    nullable.loc[0, "weight"] = pd.NA
    assert np.isnan(Trajectories.from_dataframe(nullable, "hour", "animal", "weight").x[0, 0, 0])


def test_trajectory_numbers_that_count_from_zero_are_no_coordinate():
    frame = pd.DataFrame({"trajectory": [0, 0, 1], "t": [0, 1, 0], "x": [1, 2, 3]})
    assert Trajectories.from_dataframe(frame).coords == {}
    labels = Trajectories.from_dataframe(frame.assign(trajectory=[4, 4, 2])).coords["trajectory"]
    assert labels.tolist() == [4, 2]


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        ([1, 2], {}, "a pandas DataFrame, got list"),
        (pd.DataFrame({"x": [1]}), {}, r"time column named t or time, got columns \['x'\]"),
        (pd.DataFrame({"t": [0], "x": [1]}), {"time": "when"}, r"columns \['when'\] once"),
        (pd.DataFrame({"t": [0], "x": [1]}), {"states": ["y"]}, r"columns \['y'\] once"),
        (pd.DataFrame({"t": [0], "x": [1]}), {"states": ["x"], "coords": "x"}, r"got two for \['x'\]"),
        (pd.DataFrame([[0, 1, 2]], columns=["t", "x", "x"]), {}, r"columns \['x', 'x'\] once"),
        (pd.DataFrame({"t": [0], "x": ["one"]}), {}, "real numbers in column 'x'"),
        (pd.DataFrame({"t": [0], "x": [True]}), {}, "real numbers in column 'x', got dtype bool"),
        (pd.DataFrame({"t": [0], "x": [1j]}), {}, "real numbers in column 'x', got dtype complex128"),
        (pd.DataFrame({"t": pd.to_datetime(["2020"]), "x": [1]}), {}, "real numbers in column 't'"),
        (pd.DataFrame({"t": [], "x": []}, dtype=float), {}, "got 0 rows"),
        (pd.DataFrame({"t": [0]}), {}, "at least one state column"),
        (
            pd.DataFrame({"t": [0, 1], "k": ["a", None], "x": [1, 2]}),
            {"trajectory": "k"},
            "got none in row 1",
        ),
        (
            pd.DataFrame({"t": [0, 1], "x": [1, 2], "mu": [1, 2]}),
            {"coords": ["mu"]},
            "several in trajectory 0",
        ),
    ],
)
def test_bad_tables_are_refused(frame, options, message):
    with pytest.raises(ValueError, match=f"^Trajectories.from_dataframe: expected .*{message}"):
        Trajectories.from_dataframe(frame, **options)


def test_unsorted_rows_are_refused_with_their_place():
    frame = pd.DataFrame({"id": [9, 9, 9, 4, 4], "t": [0, 1, 2, 5, 3], "x": range(5)})
    with pytest.raises(ValueError, match="unsorted ones, 5 then 3, at sample 1 of trajectory 1"):
        Trajectories.from_dataframe(frame, trajectory="id")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.with_x(d.x, state_names=["t", "x"]), r"got \['t'\] twice"),
        (lambda d: d.with_coords(x=None, prey=[1, 2]).with_x(d.x, ["prey", "y"]), r"got \['prey'\] twice"),
        (lambda d: d.with_coords(trajectory=["a", "a"]), r"label for each trajectory, got \['a', 'a'\]"),
    ],
)
def test_tables_with_clashing_names_are_not_written(full, tmp_path, change, message):
    with pytest.raises(ValueError, match=f"^to_dataframe: expected .*{message}"):
        change(full).to_file(tmp_path / "data.csv")
    assert not (tmp_path / "data.csv").exists()


def test_dataset_round_trip(full):
    assert Trajectories.from_dataset(full.dataset).equals(full)
    assert Trajectories.from_dataset(full.dataset.drop_vars("n_obs")).equals(full)
    assert Trajectories.from_dataset(full.dataset.transpose("state", "sample", "trajectory")).equals(full)
    assert Trajectories.from_dataset(full.dataset.isel(trajectory=0)).equals(full[0])


def test_data_arrays_of_users():
    values = rng.normal(size=(3, 10, 2))
    array = xr.DataArray(
        values,
        dims=("trajectory", "time", "variable"),
        coords={
            "time": ("time", np.arange(10.0), {"units": "h"}),
            "variable": ["u", "v"],
            "mu": ("trajectory", [1, 2, 3], {"units": "mM"}),
        },
        attrs={"units": "V"},
    )
    data = Trajectories.from_dataset(array)
    np.testing.assert_array_equal(data.x, values)
    np.testing.assert_array_equal(data.t, np.tile(np.arange(10.0), (3, 1)))
    assert data.state_names == ("u", "v") and data.coords["mu"].tolist() == [1, 2, 3]
    assert data.units == {"u": "V", "v": "V", "t": "h", "mu": "mM"}
    assert Trajectories.from_dataset(array.transpose()).equals(data)
    single = Trajectories.from_dataset(array.isel(trajectory=1))
    np.testing.assert_array_equal(single.x, values[1:2])
    assert single.coords["mu"].tolist() == [2]
    one_state = Trajectories.from_dataset(array.sel(variable="v", drop=True).rename("v"))
    assert one_state.state_names == ("v",)
    np.testing.assert_array_equal(one_state.x[..., 0], values[..., 1])


def test_dataset_of_one_variable_per_state():
    dataset = xr.Dataset(
        {
            "u": (("trajectory", "t"), [[1.0, 2, 3], [4, 5, np.nan]], {"units": "m"}),
            "v": ("t", [7.0, 8, 9]),
            "mu": ("trajectory", [0.1, 0.2]),
        },
        coords={"t": [0, 1, 2]},
    )
    data = Trajectories.from_dataset(dataset)
    assert data.state_names == ("u", "v") and data.units == {"u": "m"}
    assert data.coords["mu"].tolist() == [0.1, 0.2]
    np.testing.assert_array_equal(data.x[1], [[4, 7], [5, 8], [np.nan, 9]])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.eye(3), "an xarray Dataset or DataArray, got ndarray"),
        (xr.DataArray(np.eye(3)), r"dimensions time .*got \('dim_0', 'dim_1'\)"),
        (xr.DataArray(np.zeros((2, 2, 2)), dims=("time", "a", "b")), "dimensions time"),
        (xr.DataArray(np.zeros(3), dims="time"), "times as coordinate t or time over 'time'"),
        (xr.Dataset({"u": ("place", [1.0])}), r"one variable per state over a dimension time.*\('place',\)"),
        (xr.Dataset(), "a variable x over"),
    ],
)
def test_foreign_xarray_layouts_are_refused(data, message):
    with pytest.raises(ValueError, match=f"^Trajectories.from_dataset: expected .*{message}"):
        Trajectories.from_dataset(data)


def test_wrong_counts_in_a_dataset_are_refused(full):
    with pytest.raises(ValueError, match=r"expected n_obs as 2 integers from 1 to 8, got \[9, 3\]"):
        Trajectories.from_dataset(full.dataset.assign(n_obs=("trajectory", [9, 3])))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bad.nc", b"no netCDF", "a netCDF 4 file, got 'bad.nc'"),
        ("empty.nc", b"", "a netCDF 4 file, got 'empty.nc'"),
        ("bad.csv", b"\xff\xfe\x00", "a CSV file with a header row, got 'bad.csv'"),
        ("empty.csv", b"", "a CSV file with a header row, got 'empty.csv'"),
        ("rows.csv", b"t,x\n0,1\n1,2,3,4\n", "a CSV file with a header row"),
        ("mark.csv", b"# fim-dynsys []\nt,x\n0,1\n", "a CSV file with a header row"),
        ("cut.csv", b'# fim-dynsys {"time": "t"}\nt,x\n0,1\n', "a CSV file with a header row"),
        ("data.txt", b"t x", "a file name ending in .csv"),
    ],
)
def test_damaged_files_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"^Trajectories.*: expected {message}"):
        Trajectories.from_file(tmp_path / name)


def test_truncated_netcdf_is_refused(full, tmp_path):
    full.to_file(tmp_path / "data.nc")
    content = (tmp_path / "data.nc").read_bytes()
    for part in (0.1, 0.5, 0.99):
        (tmp_path / "data.nc").write_bytes(content[: int(part * len(content))])
        with pytest.raises(ValueError, match="expected a netCDF 4 file"):
            Trajectories.from_file(tmp_path / "data.nc")


def test_missing_files_and_needless_options(full, tmp_path):
    for name in ("none.csv", "none.nc"):
        with pytest.raises(FileNotFoundError, match=name):
            Trajectories.from_file(tmp_path / name)
    full.to_file(tmp_path / "data.nc")
    with pytest.raises(ValueError, match=r"with CSV files only, got \['time'\]"):
        Trajectories.from_file(tmp_path / "data.nc", time="t")
    with pytest.raises(ValueError, match="a file name ending in"):
        full.to_file(tmp_path / "data.parquet")
