"""Tables with two columns of times: one sensor read by two clocks, or two sensors with a clock each."""

import warnings

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
from forms import written

from fim_dynsys import Trajectories
from fim_dynsys.errors import ReadingWarning

A = np.linspace(0, 12, 121)
LATER = {"slower": 3 * A + 1, "shifted": A + 0.05, "shorter": np.where(A < 6, 2 * A, np.nan)}
HEADERS = ["time_x,x,time_v,v", "Time (s),Temp,Time (min),Press", "Time,x,Time,v", "t,x,t,v", "x,Time,v,Time"]


def in_place(header, first, x, second, v):
    return [first, x, second, v] if not header.startswith("x") else [x, first, v, second]


def cells(values):
    return ["" if np.isnan(value) else f"{value:.6f}" for value in values]


@pytest.mark.filterwarnings("ignore::fim_dynsys.errors.ReadingWarning")
@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("later", LATER)
def test_two_sensors_with_a_clock_each_are_refused(header, later, tmp_path):
    second = LATER[later] / (60 if "min" in header else 1)
    columns = in_place(header, A, np.cos(A), cells(second), cells(np.sin(LATER[later])))
    with pytest.raises(
        ValueError, match="which are not the same times; name those of one sensor by time= and"
    ):
        Trajectories.from_file(written(tmp_path, header, *columns))


@pytest.mark.filterwarnings("ignore::fim_dynsys.errors.ReadingWarning")
@pytest.mark.parametrize("header", HEADERS)
def test_the_same_times_beside_each_sensor_are_read_once(header, tmp_path):
    second = cells(A / (60 if "min" in header else 1))
    data = Trajectories.from_file(
        written(tmp_path, header, *in_place(header, A, np.cos(A), second, np.sin(A)))
    )
    np.testing.assert_allclose(data.arrays()[0][0], A)
    np.testing.assert_allclose(data.arrays()[0][1], np.c_[np.cos(A), np.sin(A)], atol=1e-5)


def test_one_of_two_sensors_is_read_by_names(tmp_path):
    path = written(tmp_path, "time_x,x,time_v,v", A, np.cos(A), 3 * A + 1, np.sin(3 * A + 1))
    data = Trajectories.from_file(path, time="time_v", states=["v"])
    np.testing.assert_allclose(data.arrays()[0][1][:, 0], np.sin(data.arrays()[0][0]), atol=1e-4)


@pytest.mark.filterwarnings("ignore::fim_dynsys.errors.ReadingWarning")
def test_trials_side_by_side_keep_their_own_times(tmp_path):
    path = written(tmp_path, "Time,x,Time,x", A, np.cos(A), 3 * A + 1, np.sin(3 * A + 1))
    data = Trajectories.from_file(path, trials="suffix")
    np.testing.assert_allclose([t[-1] for t, _ in data.arrays()], [12, 37])


def test_dates_of_two_sensors_are_compared_by_their_origin(tmp_path):
    stamps = pd.Timestamp("2024-05-01") + pd.to_timedelta(A, unit="s")
    first, second = (list((stamps + pd.Timedelta(k, "s")).strftime("%Y-%m-%dT%H:%M:%S.%f")) for k in (0, 30))
    path = written(tmp_path, "Timestamp,x,Timestamp,v", first, np.cos(A), second, np.sin(A))
    with pytest.raises(ValueError, match="not the same times"):
        Trajectories.from_file(path)
    path = written(tmp_path, "Timestamp,x,elapsed,v", first, np.cos(A), A, np.sin(A))
    assert Trajectories.from_file(path).state_names == ("x", "v")


@pytest.mark.parametrize("header", ["epoch,elapsed,x,v", "epoch,x,elapsed,v", "elapsed,x,v,time since boot"])
def test_a_second_clock_of_one_sensor_may_have_another_origin(header, tmp_path):
    values = {"epoch": [f"{1_700_000_000 + a:.1f}" for a in A], "elapsed": A, "time since boot": 532.1 + A}
    values |= {"x": np.cos(A), "v": np.sin(A)}
    data = Trajectories.from_file(written(tmp_path, header, *(values[name] for name in header.split(","))))
    assert data.state_names == ("x", "v")
    np.testing.assert_allclose(data.arrays()[0][0] - data.arrays()[0][0][0], A, atol=1e-6)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("time_s,x,locationTimestamp_since1970(s),v", 1_715_594_280 + A),
        ("time_s,sensorTimestamp,x,v", 1e9 * A + 5e12),
        ("Test Time,Cycle Time,x,v", 0.1 * (np.arange(121) % 40)),
        ("Test_Time(s),Step_Time(s),x,v", 0.1 * (np.arange(121) % 30)),
        ("Time,StepTime,x,v", 0.1 * (np.arange(121) % 40)),
    ],
)
def test_clocks_in_one_word_and_clocks_that_start_again_are_no_states(header, seconds, tmp_path):
    named = {"x": np.cos(A), "v": np.sin(A)}
    others = iter([[f"{a:.1f}" for a in A], [f"{s:.1f}" for s in np.round(seconds, 1)]])
    columns = [named[name] if name in named else next(others) for name in header.split(",")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadingWarning)
        data = Trajectories.from_file(written(tmp_path, header, *columns))
    assert data.state_names == ("x", "v") and data.n_obs.tolist() == [121]
    np.testing.assert_allclose(data.arrays()[0][0], A)
    assert "clock" in data.dataset.attrs["read"]


K = np.arange(60)
X, V = np.cos(0.2 * K), np.sin(0.2 * K)
STATES = {
    "leadTime": (3 + np.abs(V), None),
    "runTime": (np.cumsum(1 + 7 * K % 5), "t"),
    "reactionTime": (2 + V, "day"),
    "time_since_feeding": (K % 12, "t"),
    "time since dose": (K % 20, "t"),
    "green_time": (K % 20, "t"),
    "elapsed": (K % 15, "t"),
    "temps": (20 + 2 * (K % 20), "t"),
    "tempo": (60 + 2 * (K % 20), "t"),
    "cycle time": (4.0 * (K % 20), "t"),  # grows faster than the time
}


@pytest.mark.filterwarnings("ignore::fim_dynsys.errors.ReadingWarning")
@pytest.mark.parametrize("name", STATES)
def test_spans_and_ramps_are_states(name, tmp_path):
    values, time = STATES[name]
    columns = {time: K} if time else {}
    path = written(tmp_path, ",".join([*columns, name, "x"]), *columns.values(), values, X)
    data = Trajectories.from_file(path)
    assert data.state_names == (name, "x") and data.n_obs.tolist() == [60]
    np.testing.assert_array_equal(data.arrays()[0][0], K)


def test_arrays_of_two_sensors_with_a_clock_each_are_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for group, times, name in (("a", A, "x"), ("b", 3 * A + 1, "y")):
            file[f"{group}/time"], file[f"{group}/{name}"] = times, np.sin(times)
    scipy.io.savemat(tmp_path / "a.mat", {"time_x": A, "time_y": A + 0.05, "x": np.sin(A), "y": np.cos(A)})
    for name in ("a.h5", "a.mat"):
        with pytest.raises(ValueError, match="not the same times"):
            Trajectories.from_file(tmp_path / name)
    np.savez(tmp_path / "a.npz", time=A, x=np.sin(A), elapsed=A - 3)
    assert Trajectories.from_file(tmp_path / "a.npz").state_names == ("x",)


def test_the_time_that_a_simulation_took_is_no_clock_of_a_sensor(tmp_path):
    took = 0.01 * A + 1e-4 * np.sin(A)
    data = Trajectories.from_file(written(tmp_path, "time,x,cpu time,v", A, np.cos(A), took, np.sin(A)))
    assert data.state_names == ("x", "v") and data.arrays()[0][0][-1] == 12


@pytest.mark.parametrize("header", ["time,x,time,v", "Time (s),x (m),Time (s),v (m)", "t,x,t,v"])
def test_another_sensor_that_is_read_a_little_later_is_refused(header, tmp_path):
    for late in (0.1, 0.2):
        path = written(tmp_path, header, 0.5 * K, X, [f"{0.5 * k + late:.1f}" for k in K], V)
        with pytest.raises(ValueError, match="not the same times"):
            Trajectories.from_file(path)
    with pytest.warns(ReadingWarning, match="a second clock"):  # the same times, rounded
        Trajectories.from_file(written(tmp_path, header, 0.53 * K, X, [f"{0.53 * k:.1f}" for k in K], V))
