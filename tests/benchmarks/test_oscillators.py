"""The oscillator benchmark: its data are those of the literature, its scores mean squared errors."""

import math
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from benchmarks.harness.rows import ConstantRow, FineTunedRow, TruthRow
from benchmarks.harness.run import Integrator
from benchmarks.oscillators import __main__ as command
from benchmarks.oscillators import contexts
from benchmarks.oscillators.starts import START_NAMES, start_of
from benchmarks.oscillators.tasks import FIXED_SEED, tasks
from fim_dynsys.fields.callable import CallableField

T1, T2, FHN = tasks()


@dataclass
class CountingRow:
    """The true field, with a count of its calls; it fails for observations that begin high."""

    calls: list = field(default_factory=list)
    fails: bool = False
    name: str = "counting"
    version: str = "1"
    sees_truth: ClassVar[bool] = True

    def infer(self, view):
        self.calls.append(view.context)
        if self.fails:
            raise np.linalg.LinAlgError("singular matrix")
        return view.problem.field


# ------------------------------------------------------------------------------------------------ the data


def test_times_are_those_of_the_shared_files():
    # published: 50 times on [0, 7], test grids to 14.1429 and from 7.024, gaps from 0.0008 to 0.60
    assert (len(T1.t), T1.t[-1]) == (50, 7.0)
    np.testing.assert_allclose(T1.target_t[[0, -1]], [7.142857, 14.142857], atol=1e-6)
    np.testing.assert_allclose([T2.t[0], T2.t[-1], T2.target_t[0]], [0.0, 6.953, 7.024], atol=5e-4)
    np.testing.assert_allclose([np.diff(T2.t).min(), np.diff(T2.t).max()], [0.0008, 0.60], atol=5e-3)
    assert len(T1.target_t) == len(T2.target_t) == 50


def test_the_hidden_quadrant_is_one_run_of_twelve_clean_states():
    assert (FHN.hidden.start, FHN.hidden.stop) == (27, 39)
    np.testing.assert_allclose(FHN.target_t[[0, -1]], [2.755, 3.878], atol=5e-4)
    assert (FHN.target_x[:, 0] > 0).all() and (FHN.target_x[:, 1] < 0).all()
    noisy = FHN.observations(FIXED_SEED)
    inside = np.flatnonzero((noisy[:, 0] > 0) & (noisy[:, 1] < 0))
    assert (inside[0], inside[-1]) == (28, 39)  # as published of the noisy values


def test_contexts_hold_what_may_be_seen():
    (whole,) = T1.context(FIXED_SEED).arrays()
    before, after = FHN.context(FIXED_SEED).arrays()
    assert (len(whole[0]), len(before[0]), len(after[0])) == (50, 27, 11)
    np.testing.assert_array_equal(after[1], FHN.observations(FIXED_SEED)[39:])


def test_noise_has_the_stated_variance_and_one_draw_per_seed():
    for task in tasks():
        noise = np.concatenate([task.observations(seed) - task.x for seed in range(1000, 1100)])
        # 10,000 normal values: the standard error of their variance is 1.4 %
        assert np.var(noise) == pytest.approx(task.variance, rel=0.06)
    np.testing.assert_allclose(T1.observations(7) - T1.x, T2.observations(7) - T2.x, atol=1e-12)


def test_targets_lie_on_the_solution_that_is_observed():
    for task in tasks():
        again, status = Integrator().solve(task.field, task.start[None], task.t, 3.0)
        np.testing.assert_allclose(again[0], task.x, atol=1e-6)  # odeint's default accuracy
        assert [s.name for s in status] == ["SUCCESS"]


# --------------------------------------------------------------------------------------------- the scores


def test_the_true_field_is_exact_and_noisy_targets_cost_their_variance():
    outcomes = [
        command.evaluate(TruthRow(command.true_field), FHN, seed, Integrator()) for seed in range(1000, 1020)
    ]
    assert max(outcome["mse"] for outcome in outcomes) < 1e-11
    # 480 noisy values: the standard error of their mean square is 6 %
    assert np.mean([outcome["mse_noisy"] for outcome in outcomes]) == pytest.approx(0.025, rel=0.25)


def test_a_prediction_that_stays_is_scored_from_the_clean_start():
    outcome = command.evaluate(ConstantRow(), T1, FIXED_SEED, Integrator())
    assert outcome["mse"] == pytest.approx(np.mean((T1.target_x - T1.start) ** 2), rel=1e-12)
    assert math.isnan(outcome["mse_noisy"])


def test_failures_count_as_infinite_errors():
    outcome = command.evaluate(CountingRow(fails=True), FHN, 1000, Integrator())
    assert (outcome["mse"], outcome["mse_noisy"], outcome["status"]) == (math.inf, math.inf, "LinAlgError")
    lines = [
        {"task": "FHN", "model": "m", "version": "1", "seed": seed, "infer_seconds": 0.1, **scores}
        for seed, scores in enumerate(
            [{"mse": value, "mse_noisy": value} for value in (1.0, math.inf, 3.0, 2.0)], start=1000
        )
    ]
    summary = command.summarise(pd.DataFrame(lines)).iloc[0]
    assert (summary["median"], summary["worst"], summary["failures"]) == (2.5, math.inf, 1)
    assert math.isnan(summary["fixed"])


def test_stored_outcomes_are_not_computed_again(tmp_path):
    row = CountingRow()
    first = command.run([row], [FIXED_SEED, 1000], tmp_path)
    again = command.run([row], [FIXED_SEED, 1000, 1001], tmp_path)
    assert len(row.calls) == 9  # three tasks, three draws
    assert list(first["seed"]) == [FIXED_SEED, 1000] * 3
    assert again[again["seed"] == 1000]["mse"].tolist() == first[first["seed"] == 1000]["mse"].tolist()


def test_command_writes_tables_with_published_rows_beside(tmp_path, capsys):
    options = ["--models", "truth", "constant", "--limit", "2", "--only", "draws", "--workers", "1"]
    assert command.main([*options, "--out", str(tmp_path)]) == 0
    printed: Any = capsys.readouterr().out
    assert "GP-DNF" in printed and "0.178±0.117" in printed
    trials, summary = (pd.read_csv(tmp_path / name) for name in ("trials.csv", "summary.csv"))
    assert len(trials) == 3 * 3 * 2
    assert set(summary["targets"]) == set(command.TARGETS)
    assert (tmp_path / "oscillators.png").exists()
    assert summary.groupby("model")["failures"].sum().to_dict() == {"truth": 0, "constant": 0}


# --------------------------------------------------------------------------- starts, tuning, larger contexts


def test_a_fitted_start_is_nearer_than_the_first_observation():
    seeds = range(1000, 1005)
    off = {
        name: [np.linalg.norm(start_of(name, T1.field, T1, seed) - T1.start) for seed in seeds]
        for name in START_NAMES
    }
    assert max(off["true"]) == 0.0
    assert np.mean(off["fitted"]) < 0.3 * np.mean(off["first observation"])


def test_every_start_has_its_error():
    outcome = command.evaluate(
        TruthRow(command.true_field), FHN, FIXED_SEED, Integrator(), starts=START_NAMES
    )
    assert outcome["mse"] < 1e-11 < outcome["mse_fitted"] < outcome["mse_first"]


class TunedRow(FineTunedRow):
    """The zero field as if it came from fine-tuning; of one trajectory."""

    def fit(self, context):
        assert [len(t) for t, _ in context.arrays()] in ([50], [38])  # FitzHugh-Nagumo's with a gap
        history = pd.DataFrame(
            {"step": [0, 10, 40], "seconds": [0.5, 1.0, 2.0], "best": [False, True, False]}
        )
        return SimpleNamespace(field_=CallableField(np.zeros_like, 2), history_=history)


def test_what_fine_tuning_took_is_told(tmp_path):
    row = TunedRow("still+finetune", "still", "1")
    trials = command.run([row], [FIXED_SEED], tmp_path)
    assert trials[list(command.TUNING)].values.tolist() == [[10.0, 0.05, 1.0]] * 3
    text = command.format_tables(command.summarise(trials), trials)
    assert "CPU s to the best" in text and "FIM-ODE (paper)" in text


def test_larger_contexts_hold_the_shared_draw_and_cut_what_is_hidden():
    for task, mode in ((T1, "perturbed"), (FHN, "random")):
        known = task.context(FIXED_SEED).arrays()
        pieces = contexts.context(task, contexts.Enlarged(task.name, mode, 9, 0)).arrays()
        for (t, x), (u, y) in zip(known, pieces, strict=False):
            np.testing.assert_array_equal(t, u)
            np.testing.assert_array_equal(x, y)
        for _, x in pieces[len(known) :]:
            assert len(x) > 1
            assert task is T1 or not ((x[:, 0] > 0) & (x[:, 1] < 0)).any()
    starts = [
        contexts.context(T1, contexts.Enlarged("VDP T1", "perturbed", 50, k)).arrays()[1:] for k in (0, 1)
    ]
    near = np.array([x[0] for run in starts for _, x in run]) - T1.start
    # variances of start and noise; 196 numbers: the standard error is 10 %
    assert near.var() == pytest.approx(contexts.VARIANCE + T1.variance, rel=0.4)


def test_sizes_of_contexts_are_compared_with_the_published(tmp_path):
    trials = contexts.run([TruthRow(command.true_field)], 2, tmp_path, sizes=(3,))
    assert len(trials) == 3 * 2 * 2 and trials["mse"].max() < 1e-10
    text = contexts.format_table(contexts.summarise(trials))
    assert ", 0.47" in text and ", 1.3\n" in text
