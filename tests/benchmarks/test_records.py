"""Records of many kinds as the benchmark makes them, and how it counts fits by their trust."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.records import __main__ as records
from benchmarks.records.kinds import KINDS, Record, error, observe, true_field


@pytest.mark.parametrize(
    ("kind", "missing", "samples"),
    [
        ("in turns", 0.5, 301),
        ("slow state", 0.4, 301),
        ("two fifths missing", 0.4, 301),
        ("long gap", 1 / 6, 301),
        ("rates", 0.0, 31),
        ("dense", 0.0, 3001),
        ("short", 0.0, 12),
    ],
)
def test_kinds_miss_what_they_say(kind, missing, samples):
    seen = observe(Record("predator_prey", kind, 0.02, 0))
    assert kind in KINDS and len(seen.t) == samples
    assert np.isnan(seen.x).mean() == pytest.approx(missing, abs=0.03)
    assert (seen.x_dot is not None) == (kind == "rates")
    off = (seen.x - seen.states) / seen.states.std(axis=0)
    assert np.nanstd(off) == pytest.approx(0.02, rel=0.35)


def test_true_rates_have_no_error():
    field = true_field("lorenz")
    states = observe(Record("lorenz", "short", 0.0, 0)).states
    assert error(field(states), field(states)) == 0.0
    assert error(1.1 * field(states), field(states)) == pytest.approx(0.1)


def test_fits_are_counted_by_their_trust():
    trials = pd.DataFrame(
        {
            "model": "m",
            "version": "1",
            "draw": 1,
            "trust": ["high"] * 4 + ["low"] * 2 + ["limited"] * 2,
            "trust_along": ["high"] * 3 + ["low"] * 3 + ["limited"] * 2,
            "held_out_r2": [0.99, 0.95, 0.97, 0.2, -3.0, 0.1, 0.95, 0.4],
            "status": "SUCCESS",
        }
    )
    found = records.summarise_trust(trials)
    by = found[found["of"] == "trust"].set_index("level")
    assert by["n"].to_dict() == {"high": 4, "limited": 2, "low": 2}
    assert by["percent_wrong"].to_dict() == {"high": 25.0, "limited": 50.0, "low": 100.0}
    assert by["of_wrong"].sum() == by["of_good"].sum() == 100.0
    along = found[found["of"] == "trust_along"].set_index("level")
    assert along["of_wrong"].to_dict() == {"high": 0.0, "limited": 25.0, "low": 75.0}


def test_textbook_fits_are_exact_marked_or_silent():
    trials = pd.DataFrame(
        {
            "model": "m",
            "version": "1",
            "system": ["a", "b", "c", "d"],
            "n": 100,
            "rtol": 1e-8,
            "r2": [1.0, 1.0, 0.2, 0.99],
            "error": [1e-6, 0.01, 1.0, 0.1],
            "warned": [False, False, True, False],
            "trust": ["high", "high", "high", "low"],
            "status": "SUCCESS",
            "seconds": 1.0,
        }
    )
    (line,) = records.summarise_textbook(trials).to_dict("records")
    assert line["exact"] == 1 and line["exact_marked"] == 0 and line["silent"] == "b"


def test_worse_integrations_are_farther_from_the_true_path():
    best, worst = (records.Integrated("van der Pol", 100, rtol).observed()[1] for rtol in (1e-12, 1e-6))
    off = np.abs(best - worst).max()
    assert 1e-8 < off < 1e-3
