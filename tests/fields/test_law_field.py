"""Fields of clean data: errors, bands and draws from one joint posterior of all numbers."""

import numpy as np
import pytest
from scipy.stats import norm, t

from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.posterior import FittedField, LawField, PosteriorField, law_deviates
from fim_dynsys.fields.terms import Dictionary

X = np.linspace(-2.0, 2.0, 7)[:, None]


def saturating(rate=0.7):
    """``-1.5 x + 2 sin(rate x)``."""
    terms = Dictionary(np.array([[1], [0]]), np.array([0, Kind.SIN]), np.array([0, 0]), np.array([1.0, rate]))
    return DictionaryField(terms, [[-1.5], [2.0]])


def law(roots):
    return LawField.of(saturating(), roots)


def test_errors_and_bands_are_those_of_the_roots():
    roots = np.zeros((2, 2, 4))
    roots[0, 0, 0], roots[1, 1, 1] = 3e-3, 4e-4  # of the first coefficient, and of the number inside
    field = law(roots)
    np.testing.assert_allclose(field.standard_errors, [[3e-3], [0.0]])
    np.testing.assert_allclose(field._inner_errors, [[0.0, 0.0, 0.0], [4e-4, 0.0, 0.0]])
    by_rate = 2.0 * X * np.cos(0.7 * X)
    mimic = 0.79 * t.ppf(0.95, 1) / norm.ppf(0.95)  # a law may not be the true one
    expected = mimic * np.hypot(3e-3 * X, 4e-4 * by_rate)
    np.testing.assert_allclose(field.scale(X), expected, rtol=1e-3, atol=1e-12)


@pytest.mark.filterwarnings("error")
def test_errors_that_are_found_when_asked_for_warn_of_nothing():
    """Whoever prints a field is told nothing of numbers that overflowed on the way."""

    def infinite(shape):
        return lambda field: np.full(shape, 1e308) * np.float64(10) / np.zeros(1)

    with pytest.raises(ValueError, match="LawField: expected finite roots"):
        law(infinite((2, 2, 4))).standard_errors  # noqa: B018
    with pytest.raises(ValueError, match="FittedField: expected finite errors"):
        FittedField.of(saturating(), infinite((2, 4))).standard_errors  # noqa: B018
    large = PosteriorField.of(
        DictionaryField(Dictionary.polynomial(1, 1), np.ones((2, 1))), np.full((1, 2, 2), 1e200)
    )
    assert np.isinf(large.standard_errors).all()


def test_deviates_are_student_s():
    off = np.abs(law_deviates(np.random.default_rng(0), 200_000, 1, 0.9, 2.0))
    np.testing.assert_allclose(np.quantile(off, [0.5, 0.9]), 0.9 * t.ppf([0.75, 0.95], 2), rtol=0.01)
    together = law_deviates(np.random.default_rng(0), 200_000, 2, 1.0, 1.0)
    sizes = np.log(np.abs(together))
    assert np.corrcoef(sizes.T)[0, 1] > 0.3  # the numbers of a draw are far off together


def test_draws_spread_as_the_band_says():
    roots = np.zeros((2, 2, 4))
    roots[0, :, 0], roots[1, 1, 1] = (3e-4, -2e-4), 4e-5
    field = law(roots)
    draws = field.draws(3000, seed=3)
    away = np.abs([member(X) - field(X) for member in draws])
    half = norm.ppf(0.95) * field.scale(X)  # sampling errors are 6 % of it, 3 % of the median
    np.testing.assert_allclose(np.quantile(away, 0.9, axis=0), half, rtol=0.18, atol=1e-12)
    typical = half / t.ppf(0.95, 1)  # of one degree of freedom
    np.testing.assert_allclose(np.median(away, axis=0), typical, rtol=0.1, atol=1e-12)
    np.testing.assert_array_equal(field.draws(2, seed=3)[0].coefficients, draws[0].coefficients)


def test_unknown_errors_are_none_and_known_ones_are_found_once():
    field = law(lambda own: None)
    assert field.roots is None and field.standard_errors is None
    assert field.scale(X) is None and field.draws(2) is None
    assert "roots" not in field.to_arrays()
    calls = []
    lazy = law(lambda own: calls.append(own) or np.ones((1, 2, 4)))
    assert not calls
    assert (lazy.standard_errors == 1.0).all() and (lazy.roots == 1.0).all() and len(calls) == 1
    again = LawField.from_arrays(lazy.to_arrays())
    np.testing.assert_array_equal(again.scale(X), lazy.scale(X))


def test_roots_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"LawField: expected finite roots of shape \('q', 2, 4\)"):
        law(np.zeros((2, 2, 3)))


def test_a_posterior_without_its_roots_is_refused():
    """As in a saved model that was cut."""
    field = PosteriorField.of(saturating(), np.eye(2)[None])
    arrays = {name: values for name, values in field.to_arrays().items() if name != "roots"}
    with pytest.raises(ValueError, match="PosteriorField: expected the roots of its covariances, got none"):
        PosteriorField.from_arrays(arrays)
