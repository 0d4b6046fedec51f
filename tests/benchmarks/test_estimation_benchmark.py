"""Problems of ``benchmarks.estimation``."""

import numpy as np
import pytest

from benchmarks.estimation.problems import PROBLEMS


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
