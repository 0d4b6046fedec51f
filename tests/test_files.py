"""Tables, xarray objects and files: what goes out comes back, foreign layouts are read, damage is refused."""

import subprocess
import sys

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from fim_dynsys.trajectories.container import Trajectories

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


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_dates_become_seconds_since_the_first(zone):
    hours = pd.to_timedelta([0, 24, 12, 12.25], unit="h")
    dates = (pd.Timestamp("2020-01-01") + hours).tz_localize(zone)
    frame = pd.DataFrame({"date": dates, "k": [0, 0, 1, 1], "x": [1.0, 2, 3, 4]})
    data = Trajectories.from_dataframe(frame, trajectory="k")
    assert data.state_names == ("x",) and data.units == {"t": "s"}
    np.testing.assert_array_equal(data.t, [[0, 86400], [43200, 44100]])
    spans = frame.assign(date=frame["date"] - dates[0])
    np.testing.assert_array_equal(Trajectories.from_dataframe(spans, trajectory="k").t, data.t)
    assert Trajectories.from_dataframe(frame, "date", "k", units={"x": "m"}).units == {"x": "m"}


def test_an_index_of_times_is_the_time():
    x = np.arange(6.0).reshape(3, 2)
    numbers = Trajectories.from_dataframe(pd.DataFrame(x, index=[0.0, 0.5, 2.0], columns=["u", "v"]))
    np.testing.assert_array_equal(numbers.t, [[0, 0.5, 2]])
    assert numbers.state_names == ("u", "v")
    days = pd.date_range("2020-01-01", periods=3)
    for index in (days, days.rename("day"), days - days[0]):
        dated = Trajectories.from_dataframe(pd.DataFrame(x, index=index, columns=["u", "v"]))
        np.testing.assert_array_equal(dated.t, [[0, 86400, 172800]])
        assert dated.state_names == ("u", "v") and dated.units == {"t": "s"}


def test_dates_in_xarray_become_seconds_since_the_first():
    days = np.array(["2020-01-01", "2020-01-03"], dtype="datetime64[ns]")
    array = xr.DataArray([[1.0, 2]], dims=("trajectory", "time"), coords={"time": days})
    data = Trajectories.from_dataset(array)
    np.testing.assert_array_equal(data.t, [[0, 172800]])
    assert data.units["t"] == "s"


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
        (pd.DataFrame({"t": ["2020"], "x": [1]}), {}, "real numbers in column 't'"),
        (
            pd.DataFrame({"t": pd.to_datetime(["2020", None]), "x": [1, 2]}),
            {},
            "a time in every row of column 't'",
        ),
        (pd.DataFrame({"t": [0], "time": [0], "x": [1]}), {}, "a time column named t or time"),
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


def test_a_dataset_of_states_over_time_and_a_state_dimension():
    x = rng.normal(size=(2, 4, 3))
    dataset = xr.Dataset(
        {"x": (("trajectory", "time", "state"), x)}, {"time": np.arange(4.0), "state": ["a", "b", "c"]}
    )
    data = Trajectories.from_dataset(dataset)
    np.testing.assert_array_equal(data.x, x)
    assert data.state_names == ("a", "b", "c")
    assert Trajectories.from_dataset(dataset.transpose("state", "time", "trajectory")).equals(data)


@pytest.mark.parametrize("dim", ["trial", "run", "subject", "replicate", "trial_id"])
def test_a_dimension_of_trials_holds_trajectories_and_no_states(dim):
    x, times = rng.normal(size=(2, 4)), {"time": np.arange(4.0)}
    array = xr.DataArray(x, dims=(dim, "time"), coords=times, name="x")
    labelled = array.assign_coords({dim: ["s1", "s2"]})
    several = xr.Dataset({"x": array, "v": 2 * array})
    for given in (array, array.T, labelled, xr.Dataset({"x": array}), xr.Dataset({"x": labelled}), several):
        data = Trajectories.from_dataset(given)
        assert len(data) == 2 and data.state_names[0] == "x"
        np.testing.assert_array_equal(data.x[..., 0], x)
    assert Trajectories.from_dataset(labelled).coords["trajectory"].tolist() == ["s1", "s2"]
    states = array.rename({dim: "channel"}).assign_coords(channel=["p", "q"])
    assert Trajectories.from_dataset(states).state_names == ("p", "q")
    named = array.assign_coords({dim: ["hare", "lynx"]})
    assert Trajectories.from_dataset(named).state_names == ("hare", "lynx")


def test_dimensions_of_animals_and_of_side_variables_hold_no_trajectories():
    x = rng.normal(size=(4, 2))
    for dim, labels in (("animal", ["hare", "lynx"]), ("id", [3, 5]), ("experiment", ["e1", "e2"])):
        array = xr.DataArray(x, dims=("time", dim), coords={"time": np.arange(4.0), dim: labels})
        assert Trajectories.from_dataset(array).state_names == tuple(map(str, labels))
    beside = xr.Dataset({"x": ("time", x[:, 0]), "t": ("time", np.arange(4.0))})
    single = beside.assign_coords(trial=[1, 2], mass=("trial", [1.0, 2.0]))
    assert len(Trajectories.from_dataset(single)) == 1


def test_a_dataset_keeps_a_state_beside_one_called_x():
    dataset = xr.Dataset({"x": ("t", [1.0, 2]), "y": ("t", [3.0, 4])}, coords={"t": [0.0, 1]})
    for given in (dataset, dataset.rename_dims(t="sample").drop_indexes("t").reset_coords("t")):
        data = Trajectories.from_dataset(given)
        assert data.state_names == ("x", "y")
        np.testing.assert_array_equal(data.x, [[[1, 3], [2, 4]]])
        np.testing.assert_array_equal(data.t, [[0, 1]])


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
        ("bad.csv", b"\xff\xfe\x00", "text in utf-16-le, got 'bad.csv'"),
        ("empty.csv", b"", "a table of numbers, got 'empty.csv'"),
        ("rows.csv", b"t,x\n0,1\n1,2,3,4\n", "rows of numbers, got 'rows.csv'"),
        ("mark.csv", b"# fim-dynsys []\nt,x\n0,1\n", "a CSV file with a header row"),
        ("text.csv", b'# fim-dynsys "t"\nt,x\n0,1\n', "a CSV file with a header row"),
        ("deep.csv", b"# fim-dynsys " + b"[" * 100_000 + b"\nt,x\n0,1\n", "a CSV file with a header row"),
        ("cut.csv", b'# fim-dynsys {"time": "t"}\nt,x\n0,1\n', "a CSV file with a header row"),
        (
            "long.csv",
            b'# fim-dynsys {"time": "t", "trajectory": "k", "states": ["x"], "coords": [], "units": {}, '
            b'"kinds": {"k": "i"}}\nk,t,x\n' + b"9" * 400 + b",0,1\n",
            "a CSV file with a header row",
        ),
        ("data.txt", b"t x", "rows of numbers, got 'data.txt'"),
    ],
)
def test_damaged_files_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"^Trajectories.*: expected {message}"):
        Trajectories.from_file(tmp_path / name)


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file["x"].attrs.create("coordinates", np.arange(3)),
        lambda file: file["x"].attrs.create("scale_factor", "text"),
        lambda file: file.pop("state"),
    ],
)
def test_netcdf_that_its_readers_do_not_understand_is_refused(full, tmp_path, change):
    full.to_file(tmp_path / "data.nc")
    with h5py.File(tmp_path / "data.nc", "r+") as file:
        change(file)
    with pytest.raises(ValueError, match=r"expected a netCDF 4 file, got 'data\.nc'"):
        Trajectories.from_file(tmp_path / "data.nc")


def test_truncated_netcdf_is_refused(full, tmp_path):
    full.to_file(tmp_path / "data.nc")
    content = (tmp_path / "data.nc").read_bytes()
    for part in (0.1, 0.5, 0.99):
        (tmp_path / "data.nc").write_bytes(content[: int(part * len(content))])
        with pytest.raises(ValueError, match="expected a netCDF 4 file"):
            Trajectories.from_file(tmp_path / "data.nc")


def test_a_half_written_csv_is_refused(full, tmp_path):
    path = tmp_path / "data.csv"
    full.to_file(path)
    text = path.read_text()
    for kept in (
        text[:-1],
        text[:-5],
        "".join(text.splitlines(keepends=True)[:-1]),
        text + text.splitlines()[-1] + "\n",
    ):
        path.write_text(kept)
        with pytest.raises(ValueError, match=r"rows are announced and \d+ found, the file is not whole"):
            Trajectories.from_file(path)
    path.write_text(text.replace(', "rows": 11', "").removesuffix("\n"))  # as earlier releases wrote it
    assert Trajectories.from_file(path).equals(full)


def _outside(file: h5py.File, secret: str, how: str) -> None:
    with h5py.File(f"{secret}.nc", "w") as other:
        other["x"] = np.arange(3.0)
    if how == "external storage":
        file.create_dataset("x", (3,), "u1", external=[(secret, 0, 3)])
    elif how == "external link":
        file["x"] = h5py.ExternalLink(f"{secret}.nc", "x")
    elif how == "link to a link":
        file["y"] = h5py.SoftLink("/group/x")
        file["group/x"] = h5py.ExternalLink(f"{secret}.nc", "x")
    elif how == "in a group":
        file["group/x"] = h5py.ExternalLink(f"{secret}.nc", "x")
    elif how == "virtual":
        layout = h5py.VirtualLayout((3,), "f8")
        layout[:] = h5py.VirtualSource(f"{secret}.nc", "x", (3,))
        file.create_virtual_dataset("x", layout)
    elif how == "huge":
        file.create_dataset("x", (10**12,), "f8", chunks=(1000,))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("external storage", "stored in other files"),
        ("external link", "is a link"),
        ("link to a link", "is a link"),
        ("in a group", "is a link"),
        ("virtual", "stored in other files"),
        ("huge", "does not fit"),
    ],
)
def test_netcdf_that_leads_to_other_files_is_refused(tmp_path, how, message):
    (tmp_path / "secret").write_bytes(b"abc")
    with h5py.File(tmp_path / "data.nc", "w") as file:
        file["t"] = np.arange(3.0)
        _outside(file, str(tmp_path / "secret"), how)
        file["group/self"] = file["/"]  # a cycle
    with pytest.raises(ValueError, match=f"expected a netCDF 4 file, got 'data.nc': .*{message}"):
        Trajectories.from_file(tmp_path / "data.nc")


FULL = """
import resource, sys
from fim_dynsys.trajectories.container import Trajectories
data = Trajectories.from_arrays([[float(i)] for i in range(20_000)], 1.0)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    data.to_file(sys.argv[1])
except OSError as error:
    print(error.filename)
"""


@both_formats
def test_a_full_disk_is_an_error_and_the_old_file_stays(full, path):
    full.to_file(path)
    run = subprocess.run([sys.executable, "-c", FULL, path], capture_output=True, text=True)
    assert (run.returncode, run.stdout.strip(), run.stderr) == (0, str(path), "")
    assert Trajectories.from_file(path).equals(full) and list(path.parent.iterdir()) == [path]


def test_missing_files_and_needless_options(full, tmp_path):
    for name in ("none.csv", "none.nc"):
        with pytest.raises(FileNotFoundError, match=name):
            Trajectories.from_file(tmp_path / name)
    full.to_file(tmp_path / "data.nc")
    with pytest.raises(ValueError, match=r"no arguments but units with netCDF files, got \['time'\]"):
        Trajectories.from_file(tmp_path / "data.nc", time="t")
    with pytest.raises(ValueError, match="a file name ending in"):
        full.to_file(tmp_path / "data.parquet")
