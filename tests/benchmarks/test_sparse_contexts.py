"""The benchmark of sparse contexts: what each shows of a system, and how it is scored."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.harness.rows import ConstantRow, TruthRow
from benchmarks.harness.run import Integrator
from benchmarks.harness.trials import Problem
from benchmarks.sparse import __main__ as command
from benchmarks.sparse import contexts
from benchmarks.sparse.contexts import AMOUNTS, Sparse, observe
from fim_dynsys.fields.callable import CallableField

T = np.linspace(0.0, 6.0, 512)
TURN = CallableField(lambda x: x[:, ::-1] * [-1.0, 1.0], 2)


@pytest.fixture(autouse=True)
def problem(monkeypatch):
    """A rotation, seen from two starts, in place of the development systems."""
    states = np.stack([np.cos(T), np.sin(T)], axis=1)
    made = Problem("turning", T, np.stack([states, 2 * states]))
    monkeypatch.setattr(contexts, "true_field", lambda problem: TURN)
    monkeypatch.setattr(command, "true_field", lambda problem: TURN)
    monkeypatch.setattr(command, "problems", lambda: (made,))
    return made


def seen(problem, kind, amount, sigma=0.0, seed=0):
    return observe(problem, Sparse(problem.system, kind, amount, sigma, seed)).arrays()


def test_points_are_samples_of_the_first_reference(problem):
    for kind in ("points", "irregular"):
        ((t, x),) = seen(problem, kind, 20)
        assert len(t) == 20 and t[0] == 0.0
        np.testing.assert_array_equal(x, np.stack([np.cos(t), np.sin(t)], axis=1))
    assert np.ptp(np.diff(t)) > 0.05  # irregular


def test_coordinates_are_missing_at_their_rates(problem):
    ((_, rates),) = seen(problem, "several rates", 50)
    np.testing.assert_array_equal(np.isfinite(rates).sum(axis=0), [50, 25])
    ((_, some),) = seen(problem, "missing coordinates", 50)
    assert 60 < np.isfinite(some).sum() < 95  # of 100, a fifth missing: 20 +- 4


def test_pieces_are_short_ragged_and_near(problem):
    pieces = seen(problem, "pieces", 8)
    assert len(pieces) == 8 and len({len(t) for t, _ in pieces}) > 1
    for t, x in pieces:
        assert 5 <= len(t) <= 12 and 0.6 <= t[-1] <= 1.8
        np.testing.assert_allclose(np.linalg.norm(x, axis=1), np.linalg.norm(x[0]), rtol=1e-6)
        assert 0.5 < np.linalg.norm(x[0]) < 1.5


def test_seeds_and_noise_make_other_contexts(problem):
    ((_, clean),), ((_, noisy),), ((_, other),) = (
        seen(problem, "points", 8, sigma, seed) for sigma, seed in ((0.0, 0), (0.05, 0), (0.05, 1))
    )
    assert not np.array_equal(clean, noisy) and not np.array_equal(noisy, other)


def test_failures_are_outcomes_and_the_truth_succeeds(problem):
    class Failing(ConstantRow):
        def infer(self, view):
            raise ValueError("too few")

    key = Sparse("turning", "points", 8, 0.03, 0)
    failed = command.evaluate(Failing(), problem, key, Integrator())
    assert failed["status_reconstruction"] == "ValueError" and np.isnan(failed["r2_generalisation"])
    known = command.evaluate(TruthRow(command.true_field), problem, key, Integrator())
    assert min(known["r2_reconstruction"], known["r2_generalisation"]) > 0.999


def test_command_writes_a_line_for_each_context(tmp_path, capsys):
    assert command.main(["--models", "truth", "constant", "--workers", "1", "--out", str(tmp_path)]) == 0
    summary = pd.read_csv(tmp_path / "summary.csv")
    assert len(summary) == 2 * 2 * sum(map(len, AMOUNTS.values()))
    assert "100.0 / 100.0" in capsys.readouterr().out
    assert (tmp_path / "sparse.png").exists()
