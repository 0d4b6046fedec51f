"""Problems of ``benchmarks.estimation``."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.estimation import __main__ as command
from benchmarks.estimation.problems import CALLS, PROBLEMS, Work

TRIAL = command.trial


def named(name):
    return next(p for p in PROBLEMS if p.name == name)


def test_the_truth_of_a_dose_is_the_closed_form():
    problem = named("one compartment, oral")
    ka, ke, volume = (problem.truth[k] for k in ("ka", "ke", "V"))
    t = problem.times
    exact = 4.0 * ka / volume / (ka - ke) * (np.exp(-ke * t) - np.exp(-ka * t))
    np.testing.assert_allclose(problem.path(problem.truth)[:, 0], exact, rtol=1e-5)


def test_inputs_jump_at_their_times():
    problem = named("room")
    y = problem.path(problem.truth, 1e-10)[:, 0]
    # the same heat balance, by many short Euler steps over the first twelve hours
    temperature, step, seen = 15.0, 1e-4, {}
    for k in range(120_000):
        t = k * step
        outside, heat = (u(t) for u in problem.inputs.values())
        temperature += step * ((outside - temperature) / 12.0 + heat / 4.0)
        seen[round((k + 1) * step, 6)] = temperature
    assert y[11] == pytest.approx(seen[12.0], abs=1e-3)


def test_noise_is_what_it_is_said_to_be():
    problem = named("Michaelis-Menten")
    clean = problem.path(problem.truth)
    y, sigma = problem.data(0.05, 0)
    assert sigma[0] == pytest.approx(0.05 * clean.std(), rel=1e-4)
    assert np.std(y - clean) == pytest.approx(sigma[0], rel=0.4)


def test_paths_of_scipy_are_bounded_by_the_calls_that_are_left():
    problem, work = named("FitzHugh-Nagumo"), Work(100)
    assert np.isnan(problem.path(problem.truth, 1e-7, work=work)).all()
    assert work.left < 0
    work = Work(10 * CALLS)
    assert np.isfinite(problem.path(problem.truth, 1e-7, work=work)).all()
    assert 9 * CALLS < work.left < 10 * CALLS


def test_an_interrupted_run_goes_on(tmp_path, monkeypatch, capsys):
    arguments = ["--draws", "1", "--only", "one compartment, oral", "--out", str(tmp_path)]
    done = []

    def fit(problem, noise, seed, y, sigma):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(noise)
        return {"failed": "", "seconds": 1.0}

    monkeypatch.setattr(command, "trial", fit)
    with pytest.raises(KeyboardInterrupt):
        command.main(arguments)
    kept = [line for path in tmp_path.rglob("*.jsonl") for line in path.read_text().splitlines()[1:]]
    assert len(kept) == 1  # the first fit, by which everything is compiled, is no row
    monkeypatch.setattr(command, "trial", TRIAL)
    assert command.main(arguments) == 0
    table = pd.read_csv(tmp_path / "trials.csv")
    assert list(table["noise"]) == list(command.NOISES)
    assert table["seconds"][0] == 1.0 and (table["seconds"][1:] < 1.0).all()
    assert not table["outside"][1:].any() and (table["behind"][1:] < 1e-3).all()
    assert "ratio_far_at_most" in capsys.readouterr().out
