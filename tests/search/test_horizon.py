"""Chaotic data: fits over short windows that are merged; terms that a fit leaves undetermined."""

from types import SimpleNamespace

import numpy as np
import pytest

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.observed import observe
from fim_dynsys.regression.rollout import rollout
from fim_dynsys.regression.smoothing import TIME_AWARE
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.horizon import explains, fit_in_windows, merged
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.pool import Pool
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import _droppable, distinct_structures
from fim_dynsys.search.stages import POLYNOMIALS, Effort, Row, windows

DICTIONARY = Dictionary.polynomial(3, 3)
SMOOTHERS = [TIME_AWARE[k] for k in (3, 6, 8)]


def lorenz_terms():
    names, out = DICTIONARY.names(), np.zeros((20, 3))
    terms = {"x0": (-10.0, 28.0, 0.0), "x1": (10.0, -1.0, 0.0), "x2": (0.0, 0.0, -8.0 / 3.0)}
    terms |= {"x0 x1": (0.0, 0.0, 1.0), "x0 x2": (0.0, -1.0, 0.0)}
    for name, values in terms.items():
        out[names.index(name)] = values
    return out


@pytest.fixture(scope="module")
def lorenz():
    """Thirteen turns on the attractor, twenty samples per unit of time, 5 % noise."""
    t = np.linspace(0.0, 10.0, 200)
    start, settled = np.array([[[1.0, 1.0, 20.0]]]), np.array([[0.0, 5.0]])
    start = rollout(DICTIONARY, lorenz_terms()[None], start, settled, 0.001)[:, :, -1]
    clean = rollout(DICTIONARY, lorenz_terms()[None], start, t[None], 0.002)[0, 0]
    noisy = clean * (1.0 + 0.05 * np.random.default_rng(1).normal(size=clean.shape))
    return Search(observe([(t, noisy)]), DICTIONARY)


def test_windows_find_what_fits_in_one_piece_do_not(lorenz):
    row = Row(POLYNOMIALS, Effort(6, SMOOTHERS))
    plain = row.without(windows).search(Pool(lorenz)).candidates
    assert not explains(lorenz.observations, plain[0])
    found = row.search(Pool(lorenz, whole=True)).candidates
    assert explains(lorenz.observations, found[0])
    assert found[0].score < plain[0].score - 500.0
    observations = lorenz.observations
    true = DICTIONARY.rescaled(found[0].coefficients, observations.scale, observations.time_unit)[1]
    large = np.abs(lorenz_terms()) > 5.0
    np.testing.assert_allclose(true[large], lorenz_terms()[large], rtol=0.15)


def test_no_windows_where_the_best_explains_the_samples(lorenz, monkeypatch):
    t = np.linspace(0.0, 6.0, 120)
    spiral = np.stack([np.exp(-0.1 * t) * np.cos(t), np.exp(-0.1 * t) * np.sin(t)], 1)
    noisy = spiral * (1.0 + 0.02 * np.random.default_rng(0).normal(size=spiral.shape))
    search = Search.polynomial([(t, noisy)], 3)
    monkeypatch.setattr("fim_dynsys.search.comparison.fit_in_windows", None)
    found = Row(POLYNOMIALS, Effort(2, SMOOTHERS)).search(Pool(search)).candidates
    assert explains(search.observations, found[0])


def test_merging_starts_from_the_structures_given(lorenz):
    observations = lorenz.observations
    factor = np.prod(observations.scale**DICTIONARY.exponents, axis=1)[:, None]
    scale = factor * observations.time_unit / observations.scale
    given = Candidate(lorenz_terms() * scale, observations.start, lorenz.dictionary, Origin(Stage.GIVEN))
    found = merged(lorenz.observations, *fit_in_windows(lorenz, [given], 1))
    assert explains(lorenz.observations, found[0]) and np.array_equal(found[0].support, given.support)
    assert [c.score for c in found] == sorted(c.score for c in found)


def test_structures_are_distinct_and_few():
    def candidate(support, score):
        values, terms = np.array(support, dtype=float)[:, None], Dictionary.polynomial(1, 2)
        return Candidate(values, np.zeros((1, 1)), terms, Origin(Stage.GIVEN), score=score)

    ranked = [candidate([1, 1, 1], 0.0), candidate([1, 0, 0], 1.0), candidate([2, 0, 0], 2.0)]
    ranked += [candidate([0, 0, 0], 3.0), candidate([0, 1, 0], np.inf), candidate([0, 0, 1], 5.0)]
    assert list(distinct_structures(ranked, 5, 2)) == [ranked[1], ranked[5]]
    assert list(distinct_structures(ranked, 1, 3)) == ranked[:1]


def test_terms_that_the_data_cannot_tell_apart_are_dropped(lorenz):
    """An information that rounding leaves indefinite, as of two terms that are equal along the path."""
    information = np.array([[1.0, 1.0 + 1e-14, 0.0], [1.0 + 1e-14, 1.0, 0.0], [0.0, 0.0, 1e4]])
    fit = SimpleNamespace(parameters=np.array([2.0, 2.0, 2.0]), information=information, misfit=600.0)
    free = Candidate(np.ones((3, 1)), np.zeros((1, 1)), Dictionary.polynomial(1, 2), Origin(Stage.GIVEN))
    dropped = _droppable(lorenz.observations, free, fit)
    assert len(dropped) == 1 and dropped[0] in (0, 1)
