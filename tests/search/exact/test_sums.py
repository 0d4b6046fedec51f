"""Functions of sums and squares of states, sums of two functions, ratios, absolute values: clean paths."""

import numpy as np
import pytest

from fim_dynsys import CallableField, simulate
from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.observed import observe
from fim_dynsys.search.exact.selection import Terms, side_of, tuned
from fim_dynsys.search.functions.families import INNER, SECOND, Bundle, Function
from fim_dynsys.search.functions.regressions import Integrals, Piece
from tests.search.exact.test_quotients import preferred


def logistic(z):
    return 1.0 / (1.0 + np.exp(-z))


MODELS = {
    "two neurons": (
        lambda a, b: (np.tanh(1.6 * a - 2.1 * b) - a, np.tanh(1.9 * a + 0.8 * b) - b),
        [0.5, 0.1],
        15.0,
        8,
    ),
    "Wilson and Cowan": (
        lambda e, i: (
            -e + (1 - e) * logistic(12 * e - 12 * i - 2),
            0.5 * (-i + (1 - i) * logistic(10 * e - 2 * i - 4)),
        ),
        [0.1, 0.05],
        20.0,
        16,
    ),
    "two rates with thresholds": (
        lambda a, b: (-a + logistic(12 * a - 10 * b - 1.5), -b + logistic(9 * a - 3 * b - 2.5)),
        [0.6, 0.05],
        15.0,
        12,
    ),
    "a Gaussian well": (lambda x, v: (v, -x + x * np.exp(-(x**2)) - 0.1 * v), [2.0, 0.0], 15.0, 5),
    "a tuning curve": (
        lambda x, y: (1 - x - 2 * x * np.exp(-(((y - 1.2) / 0.5) ** 2)), x - 0.6 * y),
        [0.2, 0.1],
        12.0,
        7,
    ),
    "quadratic drag": (lambda x, v: (v, -1.5 * x - 0.6 * v * np.abs(v)), [2.0, 0.0], 10.0, 3),
    "ratio-dependent predator": (
        lambda x, y: (
            x * (1.2 - x / 3) - x * y / (x + 0.6 * y),
            y * (0.9 * x / (x + 0.6 * y) - 0.5),
        ),
        [1.0, 1.0],
        25.0,
        7,
    ),
    "Morse": (
        lambda x, v: (v, -1.8 * (np.exp(-0.9 * x) - np.exp(-1.8 * x)) - 0.05 * v),
        [1.2, 0.0],
        20.0,
        6,
    ),
    "Butler and Volmer": (lambda x: (0.8 - 0.3 * (np.exp(1.1 * x) - np.exp(-0.7 * x)),), [-2.0], 5.0, 5),
    "a phase driven by another": (
        lambda a, b: (0.9 + 0.6 * np.sin(b - a), 1.4 + 0.6 * np.sin(a - b)),
        [0.0, 2.0],
        10.0,
        8,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_laws_of_sums(name):
    rates, start, t_end, parameters = MODELS[name]
    model = preferred(rates, start, t_end)
    assert model.misses < 1e-8
    assert model.parameters <= parameters


def test_numbers_that_start_at_zero_are_fitted():
    t = np.linspace(0.0, 12.0, 399)
    field = CallableField(
        lambda x: np.stack([x[:, 1], -x[:, 0] + 0.8 * np.exp(-((1.5 * x[:, 1] - 0.3) ** 2))], axis=1), 2
    )
    x = simulate(field, np.array([[1.2, 0.0]]), t, rtol=1e-11, atol=1e-13).x[0]
    observations = observe([(t[::2], x[::2])])
    unit = np.ptp(x[::2], axis=0) / np.ptp(observations.samples[0][1], axis=0)
    piece = Piece(x / unit, np.full(199, t[2]), np.arange(200), np.zeros((0, 4, 0)))
    regressions = Integrals(observations, [piece], np.full(2, 1e-12), 1)
    start = Bundle("gaussian", (Function(Kind.GAUSSIAN, 1, 1.0),), ((0, INNER, 0), (0, SECOND, 1)), 0)
    side = side_of(regressions, 1, Terms(Dictionary.polynomial(2, 1)) + Terms.of_bundle(start, 2))
    inner, second, _ = tuned(regressions, 1, side, 30).terms.numbers
    np.testing.assert_allclose([inner[-1] / unit[1], second[-1]], [1.5, -0.3], rtol=1e-4)
