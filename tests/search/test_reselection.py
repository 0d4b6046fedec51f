"""Structures chosen anew about the paths of fits."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.observed import observe
from fim_dynsys.regression.rollout import rollout
from fim_dynsys.regression.smoothing import TIME_AWARE
from fim_dynsys.search import reselection, stages
from fim_dynsys.search.candidates import Candidate, judge, log_alike
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.pool import Pool
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import refine
from fim_dynsys.search.reselection import PRICES, _response, chosen_subsets, reselect
from fim_dynsys.search.stages import POLYNOMIALS, Effort, Row
from training.contexts import draw

DICTIONARY = Dictionary.polynomial(3, 3)
NAMES = DICTIONARY.names()
SMOOTHERS = [TIME_AWARE[k] for k in (3, 6, 8)]
TERMS = {  # a food chain with saturation of second order
    "x0": (1.0, 0.0, 0.0),
    "x0^2": (-0.3, 0.0, 0.0),
    "x0 x1": (-1.0, 0.7, 0.0),
    "x1": (0.0, -0.4, 0.0),
    "x1 x2": (0.0, -0.8, 0.6),
    "x2": (0.0, 0.0, -0.3),
}


@pytest.fixture(scope="module")
def known():
    """Noisy observations and the true structure."""
    true = np.zeros((20, 3))
    for name, values in TERMS.items():
        true[NAMES.index(name)] = values
    t = np.linspace(0.0, 20.0, 200)
    clean = rollout(DICTIONARY, true[None], np.array([[[1.0, 0.6, 0.8]]]), t[None], 0.01)[0, 0]
    noisy = clean * (1.0 + 0.03 * np.random.default_rng(0).normal(size=clean.shape))
    search = Search(observe([(t, noisy)]), DICTIONARY)
    observations = search.observations
    factor = np.prod(observations.scale**DICTIONARY.exponents, axis=1)[:, None]
    scaled = true * factor * observations.time_unit / observations.scale
    return search, Candidate(scaled, observations.start, search.dictionary, Origin(Stage.GIVEN))


def test_search_finds_better_structures():
    """Six sparse systems in three dimensions, with noise: the search with and without the new step."""
    rng, drops, met = np.random.default_rng(0), [], []
    for _ in range(6):
        context = draw("sparse", 3, rng)
        search = Search(observe([(context.t, context.x)]), DICTIONARY)
        true = np.asarray(context.field.coefficients) != 0
        row = Row(POLYNOMIALS, Effort(smoothers=SMOOTHERS))
        without = row.without(stages.reselection).search(Pool(search, whole=True)).candidates
        found = row.search(Pool(search, whole=True)).candidates
        assert any(c.origin.passed(Stage.RESELECTION) for c in found)
        assert [c.score for c in found] == sorted(c.score for c in found)
        drops.append(found[0].score - without[0].score)
        met.append([any(np.array_equal(c.support, true) for c in own) for own in (without, found)])
    assert max(drops) < 1e-6 and sum(drop < -5.0 for drop in drops) >= 4
    before, after = np.sum(met, axis=0)
    assert after > before


def test_only_fits_that_follow_the_data_are_taken(known):
    search, true = known
    (plain,) = judge(search.observations, [true])
    assert reselect(search, [plain]) == []  # never fitted
    lost = replace(plain, refined=True, variance=search.observations.signal_variance, score=0.0)
    assert reselect(search, [lost]) == []


def test_large_dictionaries_are_left_alone(known, monkeypatch):
    search, true = known
    start = judge(search.observations, [refine(search.observations, true, search.observations.path)[0]])
    assert reselect(search, start)
    monkeypatch.setattr(reselection, "MOST_COEFFICIENTS", 59)
    assert reselect(search, start) == []


def test_terms_that_are_linear_or_hold_the_state_have_few_like_them():
    alike = dict(zip(NAMES, np.exp(log_alike(DICTIONARY, 3)), strict=True))
    np.testing.assert_allclose(alike["1"], 1.0)
    np.testing.assert_allclose(alike["x1"], [2.0, 1.0, 2.0])
    np.testing.assert_allclose(alike["x0 x1"], [3.0, 3.0, 3.0])
    np.testing.assert_allclose(alike["x1^2"], [3.0, 3.0, 3.0])
    np.testing.assert_allclose(alike["x0^3"], [6.0, 4.0, 4.0])


def test_response_is_that_of_the_misfit(known):
    """Half the derivatives of the misfit by all coefficients, terms that the fit does not have included."""
    search, true = known
    best, fit = refine(search.observations, true, search.observations.path, (5, 1), 30)
    best, fit = refine(search.observations, best, fit.paths, (1,), 30)
    information, score, misfit, about, alike, n, least = _response(search, best, fit.paths)
    np.testing.assert_array_equal(about, best.coefficients)
    np.testing.assert_array_equal(alike, 2.0 * log_alike(search.dictionary, 3))
    assert n == 200 and least == pytest.approx(0.1, rel=0.5)
    assert misfit == pytest.approx(fit.misfit, rel=0.05)
    k = np.ravel_multi_index((NAMES.index("x0^2"), 2), (20, 3))
    active = np.append(np.flatnonzero(best.support), k)
    step = np.linalg.solve(information[np.ix_(active, active)], score[active])
    promised = score[active] @ step
    wider = best.coefficients.copy()
    wider.flat[k] = 1e-9
    _, again = refine(search.observations, replace(best, coefficients=wider), fit.paths, (1,), 30)
    assert fit.misfit - again.misfit == pytest.approx(promised, rel=0.25, abs=0.1)


def test_subsets_of_a_linear_problem():
    """With a quadratic misfit the chosen subset is that of the data, and dearer terms are fewer."""
    rng = np.random.default_rng(3)
    true, n = np.zeros((10, 2)), 150
    true[1, 0], true[4, 0], true[2, 1] = 1.0, -0.5, 0.8
    columns, noise = rng.normal(size=(2 * n, 20)), rng.normal(size=2 * n)
    data = 3.0 * columns @ true.ravel() + noise
    about = np.where(rng.random((10, 2)) < 0.3, 0.5, 0.0)
    left = data - 3.0 * columns @ about.ravel()
    alike = np.full((10, 2), 2.0 * math.log(5.0))
    linear = 9.0 * columns.T @ columns, 3.0 * columns.T @ left, left @ left
    found = chosen_subsets(*linear, about, alike, n, 0.1)
    assert len(found) == len(PRICES)
    supports = [values != 0 for values in found]
    assert np.array_equal(supports[-1], true != 0)
    assert [s.sum() for s in supports] == sorted((s.sum() for s in supports), reverse=True)
    best = np.linalg.lstsq(3.0 * columns[:, supports[-1].ravel()], data, rcond=None)[0]
    np.testing.assert_allclose(found[-1][supports[-1]], best, rtol=1e-8)
    assert chosen_subsets(np.full((20, 20), np.nan), np.zeros(20), math.inf, about, alike, n, 0.1) == []
