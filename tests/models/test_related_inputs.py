"""Inputs that the states determine, as of a controller: said at the fit, and of no other inputs."""

import warnings

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys.errors import DataWarning
from fim_dynsys.models.related_inputs import related_inputs
from fim_dynsys.trajectories.container import Trajectories

T = np.linspace(0.0, 20.0, 200)
CLOSED = 0.8 + 2.2 * np.exp(-1.5 * T)[:, None]  # x' = -0.3 x + 0.8 u with u = 1.5 (1 - x)


def noisy(x, sigma, seed=0):
    return x + sigma * np.random.default_rng(seed).standard_normal(x.shape)


def found(x, u, sigma, t=T):
    data = Trajectories.from_arrays(x, t, u=u)
    return {name: text for name, (text, _) in related_inputs(data, np.full(data.dim, sigma)).items()}


def lagging(rate, wave, t):
    """x' = rate (wave(t) - x), by fine steps of the exponential of a straight input."""
    fine = np.linspace(t[0], t[-1], 40 * (len(t) - 1) + 1)
    u, x, kept = wave(fine), wave(fine[0]), [wave(fine[0])]
    for k, step in enumerate(np.diff(fine)):
        x = x + (1.0 - np.exp(-rate * step)) * (0.5 * (u[k] + u[k + 1]) - x)
        kept.append(x)
    return np.array(kept)[::40, None]


@pytest.mark.parametrize("sigma", [0.0, 0.02, 0.1])
def test_control_by_the_measured_or_the_true_state_is_a_relation(sigma):
    measured = noisy(CLOSED, sigma)
    assert found(measured, 1.5 * (1.0 - measured), sigma) == {"u0": "1.5 - 1.5 x0"}
    assert set(found(measured, 1.5 * (1.0 - CLOSED), sigma)) == {"u0"}


def test_inputs_that_are_linear_functions_of_each_other_are_said_once():
    wave = np.sin(0.7 * T)
    u = np.stack([wave, 3.0 - 2.0 * wave, np.cos(0.3 * T)], axis=1)
    assert found(lagging(1.0, np.sin, T), u, 0.0) == {"u0": "1.5 - 0.5 u1"}


@pytest.mark.parametrize("rate", [1.0, 5.0, 20.0])
@pytest.mark.parametrize("sigma", [0.0, 0.01, 0.03])
def test_a_state_that_follows_its_input_closely_is_none(rate, sigma):
    for seed in range(4):
        w = np.random.default_rng(seed).uniform(0.1, 0.6, 3)

        def wave(s, w=w):
            return np.sin(w[0] * s) + np.sin(w[1] * s + 1.0) + np.sin(w[2] * s + 2.0)

        t = np.linspace(0.0, 60.0, 300)
        assert not found(noisy(lagging(rate, wave, t), sigma, seed), wave(t), sigma, t)


@pytest.mark.parametrize("name", ["fim-ode", "sindy-strong"])
def test_a_closed_loop_is_said_at_the_fit(name):
    x = noisy(CLOSED, 0.02)
    with pytest.warns(DataWarning, match=r"F = 1\.5 - 1\.5 x along the data: the effects of F and of x"):
        fim_dynsys.load(name).fit(x, T, u=1.5 * (1.0 - x), feature_names=["x", "F"], hold="previous")


def test_a_constant_input_is_said_and_one_that_differs_between_records_is_none():
    t, x = T[:50], [level + np.exp(-T[:50, None]) for level in (1.0, 2.0)]
    for levels, said in (((2.0, 2.0), {"u0": "2"}), ((1.0, 2.0), {})):
        u = [np.full((50, 1), level) for level in levels]
        assert found(x, u, 0.0, [t, t]) == said


def test_few_samples_say_nothing_and_waves_are_no_inputs():
    assert not found(CLOSED[:8], 1.5 * (1.0 - CLOSED[:8]), 0.0, T[:8])
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        fim_dynsys.load("sindy-strong").fit(lagging(1.0, np.sin, T), T, forcing={"omega": 1.0})
