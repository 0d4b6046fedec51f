"""Columns that look like clocks, errors and codes, and are none."""

import warnings

import numpy as np
import pytest
from forms import written

from fim_dynsys import Trajectories
from fim_dynsys.errors import ReadingWarning

K = np.arange(24)
DAYS = [f"2024-07-{day:02d}" for day in 1 + K]
LATER = [f"2024-07-{day:02d}" for day in 2 + K]
X, Y = np.sin(K) + 2, np.cos(K) + 3

FILES = {
    "hours of sleep": ("day,hours,mood", (1 + K, 6 + K % 3, X), ("hours", "mood"), 23),
    "a temperature beside dates": ("date,T,p", (DAYS, 300 + K % 4, X), ("T", "p"), 23 * 86_400),
    "a heart rate beside dates": ("date,HR", (DAYS, 118 + K % 13), ("HR",), 23 * 86_400),
    "a temperature beside days": ("day,T,p", (1 + K, 300 + K % 4, X), ("T", "p"), 23),
    "minutes with a gap": ("time,x", (100 + 50 * K + 100 * (K > 9), X), ("x",), 1250),
    "an enzyme and its complex": ("t,E,S,SE,P", (K, X, 9 - 0.1 * K, 0.1 * K, Y), ("E", "S", "SE", "P"), 23),
    "positions and velocities": ("t,x,y,u_x,u_y", (K, X, Y, Y - 3, X - 2), ("x", "y", "u_x", "u_y"), 23),
    "hours past midnight": (
        "date,hour,x",
        (np.repeat(DAYS[:2], [1, 23]), (23 + K) % 24, X),
        ("x",),
        23 * 3600,
    ),
    "a second clock of the logger": ("time,video_time,x", (K, 12.25 + K, X), ("x",), 23),
    "dates of settlement": ("date,price,settlement_date", (DAYS, X, LATER), ("price",), 23 * 86_400),
    "a rounded clock": ("time,x,time (h),y", (20 * K, X, np.round(20 * K / 3600, 2), Y), ("x", "y"), 460),
    "steps, a number and cells": (
        "t,steps,number,cells,step_rate,x",
        (K, 9 * K + K % 2, 40 + 2 * K + K % 3, 100 + 10 * K, 5 * K, X),
        ("steps", "number", "cells", "step_rate", "x"),
        23,
    ),
    "whole numbers called n and k": ("t,n,k,x", (K, 5 + 2 * K, 3 * K, X), ("n", "k", "x"), 23),
    "a step": ("t,step,x", (K, 1 * (K > 4), X), ("step", "x"), 23),
    "steps of trials": ("t,index,x", (K, 1 + K // 12, X), ("index", "x"), 23),
    "a stair": ("t,step,x", (K, K // 8, X), ("step", "x"), 23),
    "a motor": ("t,step,x", (K, 8 * K, X), ("step", "x"), 23),
    "a population": ("t,number,x", (K, 1000 + 50 * K, X), ("number", "x"), 23),
    "a sawtooth": ("t,step,seq,x", (K, K % 6, K % 4, X), ("step", "seq", "x"), 23),
    "nitric oxide": ("t,NO,NO2,x", (K, 20 + 5 * K, 30 + K % 7, X), ("NO", "NO2", "x"), 23),
    "observations": ("t,obs,model", (K, 5 * K, X), ("obs", "model"), 23),
    "laps and cycles": ("t,lap,cycle,x", (K, 1 + K // 12, K // 6, X), ("lap", "cycle", "x"), 23),
    "parts that are not alike": (
        "t,step no,x",
        (K, 1 * (K > 1) + (K > 12), X),
        ("step no", "x"),
        23,
    ),
    "a limit": ("t,u,x", (K, np.where(K < 8, 99.9, 50 - 0.3 * K), X), ("u", "x"), 23),
}


COUNTERS = {
    "Frame": 100 + 2 * K,
    "Sample": 100 * K,
    "Step": 1000 * K,
    "Record #": 1 + K + (K > 11),
    "sample_id": 1000 + 3 * K,
    "Index": 10 * K,
    "seq": K % 16,
    "seq number": K % 8,
    "Step_Index": 1 + K // 8,
    "cycle num": K // 6,
}


@pytest.mark.parametrize("name", COUNTERS)
def test_counters_beside_a_time_are_no_states(name, tmp_path):
    path = written(tmp_path, f"{name},time,x", COUNTERS[name], K / 10, X)
    with pytest.warns(ReadingWarning, match=rf"dropped: {name} \(a counter\) \(states=\)"):
        assert Trajectories.from_file(path).state_names == ("x",)
    assert Trajectories.from_file(path, states=[name, "x"]).state_names == (name, "x")
    with_unit = written(tmp_path, f"{name} (mm),time,x", COUNTERS[name], K / 10, X)
    assert len(Trajectories.from_file(with_unit).state_names) == 2


@pytest.mark.parametrize("name", FILES)
def test_ordinary_columns_are_read_as_they_are(name, tmp_path):
    header, columns, states, length = FILES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadingWarning)
        data = Trajectories.from_file(written(tmp_path, header, *columns))
    (t, x), *others = data.arrays()
    assert data.state_names == states and not others and len(t) == len(K)
    assert t[-1] - t[0] == pytest.approx(length)
    given = dict(zip(header.split(","), columns, strict=True))
    np.testing.assert_allclose(x, np.column_stack([given[state] for state in states]), rtol=1e-4)


def test_machines_called_t_and_v_are_no_units(tmp_path):
    path = written(tmp_path, "unit,time,level", ["T"] * 12 + ["V"] * 12, K % 12, X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadingWarning)
        assert Trajectories.from_file(path).n_obs.tolist() == [12, 12]
