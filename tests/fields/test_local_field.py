"""Locally linear fields: the regression near the samples, and the way back from afar."""

import numpy as np
import pytest

from fim_dynsys.fields.local import LocalField
from fim_dynsys.fields.residual import RadialBasis, ResidualField
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.testing import check_field

MATRIX = np.array([[-0.1, -1.0, 0.2], [1.0, -0.1, 0.0], [0.0, 0.3, -0.5]])


@pytest.fixture(scope="module")
def field():
    states = np.random.default_rng(0).normal(size=(300, 3))
    return LocalField(states, states @ MATRIX.T, np.full(3, 0.5), 1e-3, 2.0)


def test_contract(field):
    check_field(field)


def test_linear_slopes_are_found_near_the_samples(field):
    points = 0.3 * np.random.default_rng(1).normal(size=(20, 3))
    np.testing.assert_allclose(field(points), points @ MATRIX.T, atol=0.02)
    np.testing.assert_allclose(field.jacobian(points).mean(axis=0), MATRIX, atol=0.05)


@pytest.mark.parametrize("distance", [1e2, 1e5])
def test_paths_lead_back_from_afar(field, distance):
    starts = distance * np.array([[1.0, 1.0, -1.0], [-1.0, 0.0, 0.5]])
    outward = np.einsum("nd,nd->n", field(starts), starts)
    np.testing.assert_allclose(outward / np.einsum("nd,nd->n", starts, starts), -field.rate, rtol=0.1)
    ends = simulate(field, starts, np.linspace(0.0, 30.0, 4)).x[:, -1]
    assert np.abs(ends).max() < 5.0


def test_units_and_origin_do_not_matter(field):
    units, origin = np.array([1024.0, 1.0, 2.0**-10]), np.array([3.0, -2.0, 0.5])
    other = LocalField(
        field.states * units + origin, field.slopes * units, field.lengths * units, field.ridge, field.rate
    )
    points = np.random.default_rng(2).normal(size=(20, 3))
    np.testing.assert_allclose(other(points * units + origin) / units, field(points), atol=1e-9)


def test_arrays_bring_the_field_back(field):
    points = np.random.default_rng(3).normal(size=(10, 3))
    again = LocalField.from_arrays(field.to_arrays())
    np.testing.assert_array_equal(again(points), field(points))
    tuned = ResidualField(field, RadialBasis(points[:2], np.ones(3)), np.ones((2, 3)))
    again = ResidualField.beside(field, tuned.to_arrays())
    np.testing.assert_array_equal(again(points), tuned(points))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slopes": np.zeros((2, 3))}, r"expected states and slopes \(n, d\)"),
        ({"lengths": np.array([1.0, 0.0, 1.0])}, "lengths, ridge and rate above 0"),
        ({"rate": 0.0}, "lengths, ridge and rate above 0"),
        ({"ridge": np.nan}, "lengths, ridge and rate above 0"),
    ],
)
def test_parts_are_checked(field, change, message):
    with pytest.raises(ValueError, match=f"LocalField: expected.*{message}|LocalField: {message}"):
        LocalField(**(field.to_arrays() | change))
