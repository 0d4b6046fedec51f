"""Distillation recovers fields that are finite sums, and states its error for others."""

import numpy as np
import pytest

from fim_dynsys import CallableField, Region, Trajectories, distill, simulate
from fim_dynsys.distillation import sparse_fit
from fim_dynsys.fields.terms import Dictionary

BOX = Region([-20.0, -25.0, 0.0], [20.0, 25.0, 50.0], names=("x", "y", "z"))


def lorenz(x):
    return np.stack(
        [10 * (x[:, 1] - x[:, 0]), x[:, 0] * (28 - x[:, 2]) - x[:, 1], x[:, 0] * x[:, 1] - 8 / 3 * x[:, 2]],
        axis=1,
    )


def lorenz_coefficients(names):
    coefficients = np.zeros((len(names), 3))
    for state, terms in enumerate(
        ({"x": -10, "y": 10}, {"x": 28, "y": -1, "x z": -1}, {"z": -8 / 3, "x y": 1})
    ):
        for name, value in terms.items():
            coefficients[names.index(name), state] = value
    return coefficients


@pytest.mark.parametrize("unit", [1.0, 1e-4, 1e5])
def test_lorenz_is_recovered_exactly_in_any_unit(unit):
    """f(x) = unit * lorenz(x / unit): each coefficient carries its power of the unit."""
    region = Region(BOX.low * unit, BOX.high * unit, names=BOX.names)
    field = CallableField(lambda x: unit * lorenz(x / unit), 3, region=region, state_names=BOX.names)
    result = distill(field)
    names = result.field.get_feature_names()
    degrees = result.field.dictionary.exponents.sum(axis=1)
    recovered = result.field.coefficients * unit ** (degrees - 1.0)[:, None]
    assert np.count_nonzero(recovered) == 7
    assert recovered == pytest.approx(lorenz_coefficients(names), abs=1e-11)
    assert result.residual_supported < 1e-12
    assert np.isnan(result.residual_unsupported)
    assert (result.n_supported, result.n_unsupported) == (512, 0)


def test_pendulum_needs_its_sine():
    region = Region([-3.0, -3.0], [3.0, 3.0])
    field = CallableField(
        lambda x: np.stack([x[:, 1], -np.sin(x[:, 0]) - 0.1 * x[:, 1]], axis=1), 2, region=region
    )
    exact = distill(field, trigonometric=True)
    assert exact.equations(2) == ["x1", "-0.1 x1 - sin(x0)"]
    assert exact.residual_supported < 1e-12
    # least squares of sin on [-3, 3] by x and x^3: the residual is a known integral
    x = np.linspace(-3, 3, 20001)
    columns = np.stack([x, x**3], axis=1)
    error = np.sin(x) - columns @ np.linalg.lstsq(columns, np.sin(x), rcond=None)[0]
    expected = np.sqrt(np.mean(error**2) / (np.mean(np.sin(x) ** 2) + 0.01 * 3.0))
    cubic = distill(field)
    assert cubic.residual_supported == pytest.approx(expected, rel=0.03)  # 512 quasi-random points
    assert cubic.field.complexity == 4
    assert distill(field, degree=7).residual_supported < 1e-3


def test_supported_and_unsupported_points_are_told_apart():
    """Data on a cycle: the field is cubic there and bent away from it, where nothing was observed."""

    def bent(x):
        radius = np.hypot(x[:, 0], x[:, 1])
        outside = np.maximum(radius - 1.5, 0.0)[:, None]
        return np.stack([x[:, 1], -x[:, 0]], axis=1) * (1 + np.sin(3 * outside) * outside)

    t = np.linspace(0, 6.2, 200)
    circle = Trajectories.from_arrays(np.stack([np.cos(t), -np.sin(t)], axis=1), t)
    field = CallableField(bent, 2, context=circle, region=Region([-4, -4], [4, 4]))
    result = distill(field)
    assert result.n_supported >= 200
    assert result.n_unsupported > 400
    assert result.residual_supported < 0.05
    assert result.residual_unsupported > 0.3


def test_simulated_context_recovers_a_limit_cycle():
    def van_der_pol(x):
        return np.stack([x[:, 1], (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], axis=1)

    context = simulate(CallableField(van_der_pol, 2), [[0.5, 0.0], [3.0, 1.0]], np.linspace(0, 10, 150))
    result = distill(CallableField(van_der_pol, 2, context=context))
    assert result.equations(3) == ["x1", "-x0 + x1 - x0^2 x1"]
    assert result.residual_supported < 1e-11


def test_weights_decide_between_two_lines():
    """Weighted least squares on a line: the closed form."""
    x = np.array([[0.0], [1.0], [2.0], [3.0]])
    y = np.array([[0.0], [1.0], [1.0], [4.0]])
    weights = np.array([1.0, 5.0, 2.0, 1.0])
    coefficients = sparse_fit(x, y, weights)
    assert coefficients[0, 0] == pytest.approx(
        np.sum(weights * x[:, 0] * y[:, 0]) / np.sum(weights * x[:, 0] ** 2)
    )


def test_a_field_that_vanishes_gives_no_terms():
    zero = CallableField(lambda x: np.zeros_like(x), 2, region=Region([-1, -1], [1, 1]))
    result = distill(zero)
    assert result.field.complexity == 0
    assert result.residual_supported == 0.0


def test_one_column_more_is_not_kept_for_rounding():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (300, 2))
    dictionary = Dictionary.polynomial(2, 4)
    truth = np.zeros((len(dictionary), 1))
    truth[[1, 4, 9], 0] = 1.0, 1e-4, 3.0
    found = sparse_fit(dictionary.evaluate(x), dictionary.evaluate(x) @ truth, np.ones(300))
    assert np.flatnonzero(found) == pytest.approx([1, 4, 9])
    assert found == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "expected a region, since the field has none, got None"),
        ({"region": Region([0.0], [1.0])}, "each of the states x0, x1, got 1 of 2"),
        ({"region": Region([2.0, 0.0], [3.0, 1.0])}, "finite at 20 points at least, got 0"),
    ],
)
def test_refusals(arguments, words):
    field = CallableField(lambda x: np.where(x[:, :1] > 1, np.nan, 1.0) * x, 2)
    with pytest.raises(ValueError, match=words):
        distill(field, **arguments)


def test_numbers_whose_squares_overflow_are_refused():
    field = CallableField(lambda x: -x, 1, region=Region([-1e60], [1e60]))
    with pytest.raises(
        ValueError, match=r"rates and terms of at most 1e.150.*states up to .*e.59; change the"
    ):
        distill(field)


@pytest.mark.filterwarnings("error")
def test_columns_that_repeat_each_other_are_dropped():
    x = np.linspace(-1, 1, 30)
    found = sparse_fit(np.stack([x, 0 * x, x], axis=1), 2 * x[:, None], np.ones(30))
    assert found.sum() == pytest.approx(2) and np.count_nonzero(found) == 1 and found[1] == 0


def test_printed_form():
    field = CallableField(lambda x: -2 * x, 1, region=Region([-1.0], [1.0]))
    assert repr(distill(field)).startswith("x0' = -2 x0\nrelative residual ")
