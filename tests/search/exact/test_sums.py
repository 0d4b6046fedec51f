"""Functions of sums of two states, sums of two functions, ratios and absolute values, from clean paths."""

import numpy as np
import pytest

from tests.search.exact.test_quotients import preferred

MODELS = {
    "two neurons": (
        lambda a, b: (np.tanh(1.6 * a - 2.1 * b) - a, np.tanh(1.9 * a + 0.8 * b) - b),
        [0.5, 0.1],
        15.0,
        8,
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
