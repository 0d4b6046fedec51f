"""Candidates round an operator's initial estimate, and the shortlist of them."""

from dataclasses import replace

import numpy as np
import pytest

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.observed import observe
from fim_dynsys.regression.rollout import rollout
from fim_dynsys.regression.smoothing import TIME_AWARE
from fim_dynsys.search.initial_estimate import InitialEstimate
from fim_dynsys.search.origins import Stage
from fim_dynsys.search.pool import SHORTLIST, Pool, shortlist
from fim_dynsys.search.problem import Search
from fim_dynsys.search.stages import POLYNOMIALS, Effort, Row
from fim_dynsys.trajectories.container import Trajectories

DICTIONARY = Dictionary.polynomial(2, 3)
NAMES = DICTIONARY.names()
TRUE = np.zeros((10, 2))
TRUE[NAMES.index("x1"), 0] = 1.0
TRUE[NAMES.index("x0"), 1] = -1.0
TRUE[NAMES.index("x1"), 1] = 1.0
TRUE[NAMES.index("x0^2 x1"), 1] = -1.0  # Van der Pol
T = np.linspace(0.0, 8.0, 120)
NOISE_FREE = rollout(DICTIONARY, TRUE[None], np.array([[[1.0, 0.5]]]), T[None], 0.01)[0, 0]
NOISY = NOISE_FREE * (1.0 + 0.03 * np.random.default_rng(0).normal(size=NOISE_FREE.shape))


def estimate_of(search, error=0.02):
    """An operator that is sure of the true terms, unsure of the others, and a little wrong in all."""
    rng = np.random.default_rng(1)
    deviation = np.where(TRUE != 0, error, 2.0 * error)
    solves = TRUE + deviation * rng.uniform(0.2, 0.9, size=(2, 10, 2))
    return InitialEstimate.scaled(search, solves, deviation**2)


@pytest.fixture(scope="module")
def considered():
    search = Search(observe([(T, NOISY)]), DICTIONARY)
    estimate = estimate_of(search)
    row = Row(POLYNOMIALS, Effort(0, TIME_AWARE[3:4]))
    return search, estimate, row.search(Pool(search, estimate=estimate, whole=True)).candidates


def test_the_operators_structure_is_fitted_and_found(considered):
    search, _, found = considered
    best = found[0]
    assert best.refined
    assert np.array_equal(best.support, TRUE != 0)
    field = best.field(search.observations, Trajectories.from_arrays(NOISY, T), {"chosen": "best"})
    np.testing.assert_allclose(field.coefficients[TRUE != 0], TRUE[TRUE != 0], atol=0.05)
    assert field.fit_info.report == {"chosen": "best"}
    assert any(c.origin.source is Stage.STRUCTURE for c in found)
    assert sum(c.origin.source is Stage.SOLVE for c in found) == 2
    assert [c.score for c in found] == sorted(c.score for c in found)
    assert len({c.coefficients.astype(np.float32).tobytes() for c in found}) == len(found)


def test_without_an_opinion_only_regressions_remain():
    search = Search(observe([(T, NOISY)]), DICTIONARY)
    row = Row(POLYNOMIALS, Effort(smoothers=TIME_AWARE[3:4]))
    found = row.search(Pool(search, whole=True)).candidates
    assert not any(c.origin.source in (Stage.SOLVE, Stage.STRUCTURE) for c in found)


def test_an_opinion_is_rescaled_like_a_field():
    observations = observe([(3.0 * T, NOISY * [10.0, 0.2])])
    estimate = estimate_of(Search(observations, DICTIONARY))
    x = np.random.default_rng(2).normal(size=(5, 2))
    physical = InitialEstimate(estimate.solves, estimate.variance)
    terms, back = DICTIONARY.rescaled(physical.solves[-1], observations.scale, observations.time_unit)
    slope = DICTIONARY.evaluate(x) @ physical.solves[-1] * observations.scale / observations.time_unit
    np.testing.assert_allclose(terms.evaluate(x * observations.scale) @ back, slope, rtol=1e-10)


def test_the_shortlist_keeps_the_best_and_the_last_solves(considered):
    _, _, found = considered
    short = shortlist(found, 6)
    assert len(short) == 6
    assert short[0] is found[0]
    assert sum(c.origin.source is Stage.SOLVE for c in short) == 2
    assert [c.score for c in short] == sorted(c.score for c in short)
    supports = [c.support.tobytes() for c in shortlist(found) if c.origin.source is not Stage.SOLVE]
    assert max(supports.count(s) for s in supports) <= 2
    assert len(shortlist(found)) <= SHORTLIST
    lost = [replace(c, score=np.inf) for c in found]
    assert len(shortlist(lost)) == 1
