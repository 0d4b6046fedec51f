"""Right-hand sides with denominators, from integrals along clean paths."""

import numpy as np
import pytest

from fim_dynsys import CallableField, simulate
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.observed import observe
from fim_dynsys.search.exact.identification import ExactSearch
from fim_dynsys.search.functions.regressions import Integrals, Piece
from fim_dynsys.search.problem import Search


def sampled(rates, start, t_end):
    field = CallableField(lambda x: np.stack(rates(*x.T), axis=1), len(start))
    t = np.linspace(0.0, t_end, 200)
    return t, simulate(field, np.array([start]), t, rtol=1e-11, atol=1e-13).x[0]


def preferred(rates, start, t_end, functions=16):
    t, x = sampled(rates, start, t_end)
    search = Search.polynomial([(t, x)])
    found = ExactSearch(search, [(t, x)])
    found.run(functions)
    return found.models[0]


def test_integrals_over_a_state_are_differences_of_its_powers():
    t, x = sampled(lambda a, b: (b, -a), [1.0, 0.2], 3.0)
    observations = observe([(t, x)])
    z = observations.samples[0][1]
    fine = np.linspace(0.0, 3.0, 2 * 199 + 1)
    path = np.stack([np.interp(fine, t, z[:, k]) for k in range(2)], axis=1)
    piece = Piece(path, np.full(199, t[1] - t[0]), np.arange(200), np.zeros((0, 4, 0)))
    regressions = Integrals(observations, [piece], np.ones(2), 1)
    columns = regressions.against(Dictionary([[0, 0], [1, 0], [0, 1]]))
    weights = np.concatenate(observations.weights_over(np.ones(2)))
    for k, column in enumerate(columns):
        np.testing.assert_allclose(column[:, 0], regressions.targets[k], atol=1e-12)
        half = z[:, k] ** 2 / 2.0
        expected = np.sqrt(weights[:, k]) * (half - np.average(half, weights=weights[:, k]))
        np.testing.assert_allclose(column[:, 1 + k], expected, atol=1e-10)


MODELS = {
    "excess": (lambda x: (0.8 * x / (0.5 + x + 0.3 * x**2) - 0.15 * x,), [0.05], 20.0, 4),
    "elimination": (lambda x: (1.3 - 2.4 * x / (0.7 + x),), [0.1], 12.0, 3),
    "chemostat": (
        lambda s, x: (0.4 * (5 - s) - 1.9 * s * x / (0.9 + s), x * (1.1 * s / (0.9 + s) - 0.4)),
        [1.0, 2.0],
        20.0,
        6,
    ),
    "two predators": (
        lambda x, y: (
            x * (1 - x / 5) - 1.2 * x * y / (1 + 0.4 * x + 0.25 * y),
            0.9 * x * y / (1 + 0.4 * x + 0.25 * y) - 0.5 * y,
        ),
        [1.0, 1.0],
        30.0,
        7,
    ),
    "a switch of two orders": (
        lambda x, y: (2.6 / (1 + y**3) - x, 2.2 / (1 + x**2) - y),
        [0.2, 1.0],
        10.0,
        6,
    ),
    "tanks": (
        lambda x, y: (0.8 - 0.6 * np.sqrt(x), 0.6 * np.sqrt(x) - 0.45 * np.sqrt(y)),
        [0.3, 2.0],
        20.0,
        4,
    ),
    "attraction": (lambda r, v: (v, 0.8 / r**3 - 1.1 / r**2), [0.7, -0.1], 15.0, 3),
}


@pytest.mark.parametrize("name", MODELS)
def test_laws_with_denominators_and_powers(name):
    rates, start, t_end, parameters = MODELS[name]
    model = preferred(rates, start, t_end)
    assert model.misses < 1e-8
    assert model.parameters == parameters


def test_what_leaves_one_state_enters_another():
    model = preferred(
        lambda s, p: (0.8 - 1.9 * s * p / (1.1 + s), 1.9 * s * p / (1.1 + s) - 1.4 * p / (0.6 + p)),
        [1.0, 0.5],
        20.0,
    )
    assert (model.parameters, len(model.item.labels)) == (6, 2)


def test_polynomials_are_left_as_they_are():
    model = preferred(lambda a, b: (b, -0.3 * b - a + 0.2 * a**3), [1.0, 0.0], 10.0)
    assert (model.item.n_functions, model.parameters) == (0, 4)
