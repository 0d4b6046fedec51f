"""Structures near good ones."""

from dataclasses import replace

import numpy as np
import pytest

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.observed import observe
from fim_dynsys.regression.rollout import rollout
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.growth import _gains, grow
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import refine

DICTIONARY = Dictionary.polynomial(2, 3)
NAMES = DICTIONARY.names()
TRUE = np.zeros((10, 2))
TRUE[NAMES.index("x1"), 0] = 1.0
TRUE[NAMES.index("x0"), 1] = -1.0
TRUE[NAMES.index("x1"), 1] = -0.1
TRUE[NAMES.index("x0^2"), 1] = 0.3  # an oscillator that is softer on one side
MISSING = NAMES.index("x0^2"), 1
T = np.linspace(0.0, 12.0, 150)
CLEAN = rollout(DICTIONARY, TRUE[None], np.array([[[1.5, 0.0]]]), T[None], 0.01)[0, 0]
NOISY = CLEAN * (1.0 + 0.02 * np.random.default_rng(0).normal(size=CLEAN.shape))


@pytest.fixture(scope="module")
def without_one_term():
    """Observations; the truth and the truth without one of its terms, in scaled units."""
    search = Search(observe([(T, NOISY)]), DICTIONARY)
    observations = search.observations
    factor = np.prod(observations.scale**DICTIONARY.exponents, axis=1)[:, None]
    scaled = TRUE * factor * observations.time_unit / observations.scale
    without = scaled.copy()
    without[MISSING] = 0.0
    return search, *(Candidate(c, observations.start, Origin(Stage.GIVEN), "none") for c in (scaled, without))


def test_gains_are_those_of_fits_with_one_term_more(without_one_term):
    """To first order: a term that changes little promises what its own fit then gives."""
    search, true, _ = without_one_term
    best, fit = refine(search, true, search.observations.path)
    best, fit = refine(search, best, fit.paths)  # with the variance of its own residuals
    gains = _gains(search, best, fit).reshape(10, 2)
    assert (gains[best.support] == 0.0).all()
    for term, coordinate in ((0, 0), (3, 1), (7, 1)):
        wider = best.coefficients.copy()
        wider[term, coordinate] = 1e-9
        _, again = refine(search, replace(best, coefficients=wider), fit.paths)
        np.testing.assert_allclose(gains[term, coordinate], fit.misfit - again.misfit, rtol=0.2, atol=0.2)


def test_a_missing_term_comes_back(without_one_term):
    search, _, start = without_one_term
    found = grow(search, start)
    assert np.array_equal(found[0].support, TRUE != 0)
    assert found[0].origin.source is Stage.GIVEN and found[0].origin.parent is not None
    assert [c.score for c in found] == sorted(c.score for c in found)
    observations = search.observations
    field = found[0].coefficients / (
        np.prod(observations.scale**DICTIONARY.exponents, axis=1)[:, None]
        * observations.time_unit
        / observations.scale
    )
    np.testing.assert_allclose(field[TRUE != 0], TRUE[TRUE != 0], rtol=0.05)


def test_growth_is_noted_once(without_one_term):
    search, _, start = without_one_term
    assert max(c.origin.text().count(Stage.GROWTH.value) for c in grow(search, start)) == 1
