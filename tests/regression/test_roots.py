"""Roots of covariances: inverses of sound matrices, and no less than the prior where rounding spoilt them."""

import numpy as np
import pytest

from fim_dynsys.regression.refinement import FitStatus, TrajectoryFit, parameter_covariance, parameter_roots
from fim_dynsys.regression.roots import inverse_root


def test_a_sound_information_is_inverted():
    factor = np.random.default_rng(0).normal(size=(3, 6, 4))
    least = np.array([0.1, 0.2, 0.3, 0.4])
    information = factor.swapaxes(1, 2) @ factor + np.diag(least)
    roots = inverse_root(information, least)
    assert np.allclose(roots.swapaxes(1, 2) @ roots @ information, np.eye(4), atol=1e-12)


def fit(information, parameters):
    return TrajectoryFit(parameters, np.zeros((1, 1)), 5.0, [], information, FitStatus.CONVERGED, 1)


def test_what_rounding_made_negative_is_known_by_the_prior_alone():
    information = np.array([[1e6, 1e6], [1e6, 1e6 * (1.0 - 1e-10)]])  # an eigenvalue of -5e-5
    found = fit(information, np.array([2.0, -2.0]))
    covariance = parameter_covariance(found, 10)
    assert np.linalg.eigvalsh(information)[0] < 0 <= np.linalg.eigvalsh(covariance)[0]
    along, across = np.array([1.0, 1.0]) / np.sqrt(2), np.array([1.0, -1.0]) / np.sqrt(2)
    assert across @ covariance @ across == pytest.approx((10 * 2.0) ** 2, rel=1e-6)
    assert along @ covariance @ along == pytest.approx(0.5e-6, rel=1e-3)
    assert np.array_equal(covariance, covariance.T)


def test_a_bad_fit_widens_and_an_infinite_information_says_nothing():
    information = np.diag([4.0, 9.0])
    roots = parameter_roots(fit(information, np.array([1.0, 1.0])), 2)
    assert np.linalg.norm(roots, axis=0) == pytest.approx(np.sqrt(2.5) / np.array([2.0, 3.0]), rel=2e-3)
    assert np.isnan(inverse_root(np.diag([4.0, np.inf]), np.ones(2))).all()
