"""MDBench's data, measures and grid."""

import math

import numpy as np
import pytest
import sympy

from benchmarks.harness.rows import ConstantRow, TruthRow, View
from benchmarks.mdbench import __main__ as mdbench
from benchmarks.mdbench import grid
from benchmarks.mdbench.contexts import LEVELS, SEEN, Case, records
from benchmarks.mdbench.scores import complexity, fitness, nmse
from fim_dynsys.trajectories.container import Trajectories


def test_noise_has_its_decibels_and_clean_is_clean():
    for level in ("40", "10"):
        pairs = [(r.observed[r.clean != 0.0], r.clean[r.clean != 0.0]) for r in records(level)]
        noise = np.concatenate([observed / clean - 1.0 for observed, clean in pairs])
        decibels = -10.0 * math.log10(np.var(noise))
        assert decibels == pytest.approx(float(level), abs=0.1)
    assert all(np.array_equal(r.observed, r.clean) for r in records("clean"))
    assert len(records("clean")) == 61
    assert {len(r.context().t[0]) for r in records("10")} == {SEEN}


def test_measures():
    true = np.array([[1.0], [2.0]])
    assert nmse(true, true) == 0.0
    assert nmse(true, 0 * true) == pytest.approx(1.0)
    assert nmse(true, true * np.nan) == math.inf
    x = sympy.Symbol("x0")
    assert complexity([x**2 + 3]) == 5
    assert fitness(0.0, 0) == 2.0 and fitness(math.inf, 200) == pytest.approx(math.exp(-1.0))


def test_the_grid_finds_a_law_of_its_terms(monkeypatch):
    monkeypatch.setattr(grid, "THRESHOLDS", np.array([1e-3, 0.1]))
    t = np.linspace(0.0, 8.0, 120)
    x = np.stack([np.cos(t), -np.sin(t)], axis=1)
    field = grid.SindyGridRow().infer(View(Trajectories.from_arrays(x, t)))
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (50, 2))
    np.testing.assert_allclose(field(points), np.stack([points[:, 1], -points[:, 0]], axis=1), atol=0.02)


def test_the_truth_has_no_error_on_clean_states_and_rest_counts_one(tmp_path):
    rows = [TruthRow(mdbench.truth), ConstantRow()]
    trials = mdbench.run(rows, ["clean", "10"], tmp_path, limit=3)
    summary = mdbench.summarise(trials).set_index(["model", "level"])
    assert summary.loc[("truth", "10"), "nmse_clean_median"] == 0.0
    assert summary.loc[("truth", "10"), "nmse_observed_median"] > 0.0
    assert summary.loc[("constant", "clean"), "nmse_clean_median"] == pytest.approx(1.0)
    text = mdbench.format_tables(summary.reset_index())
    assert "10 dB" in text and [level for level in LEVELS if level in text] != []


def test_a_failure_is_an_infinite_error():
    class Broken:
        name, version, sees_truth = "broken", "1", False

        def infer(self, view):
            raise ValueError("no")

    record = records("clean")[0]
    outcome = mdbench.evaluate(Broken(), record, Case(record.system, "clean"))
    assert outcome["nmse_clean"] == math.inf and outcome["status"] == "ValueError"
