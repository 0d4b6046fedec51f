"""Functions of sums and squares of states, sums of two functions, ratios, absolute values: clean paths."""

import numpy as np
import pytest

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
    law = preferred(rates, start, t_end)
    assert law.misses < 1e-8
    assert law.parameters <= parameters
