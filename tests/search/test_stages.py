"""Stages of a search: each adds to a pool, a row without one does all but that."""

import numpy as np
import pytest

from fim_dynsys.search import stages
from fim_dynsys.search.origins import Stage
from fim_dynsys.search.pool import Pool
from fim_dynsys.search.problem import Search
from fim_dynsys.search.stages import POLYNOMIALS, Effort, Row

T = np.linspace(0.0, 12.0, 120)
EFFORT = Effort(2, Effort().smoothers[3:4], windowed=0)


@pytest.fixture(scope="module")
def search():
    """A damped oscillation with 3 % noise."""
    x = np.exp(-0.1 * T)[:, None] * np.stack([np.cos(T), -np.sin(T)], 1)
    return Search.polynomial([(T, x + 0.03 * np.random.default_rng(0).normal(size=x.shape))], 3)


def test_each_stage_keeps_what_was_met_and_only_adds(search):
    pool = Pool(search)
    for stage in POLYNOMIALS:
        after = stage(pool, EFFORT)
        kept = {c.coefficients.astype(np.float32).tobytes() for c in after.candidates}
        assert {c.coefficients.astype(np.float32).tobytes() for c in pool.candidates} <= kept
        assert len(kept) == len(after.candidates)
        assert [c.score for c in after.candidates] == sorted(c.score for c in after.candidates)
        pool = after


def test_a_row_without_a_stage_makes_no_candidates_of_it(search):
    row = Row(POLYNOMIALS, EFFORT)
    calls = []
    whole = row.search(Pool(search), lambda: calls.append(1)).candidates
    assert len(calls) == len(row.stages)
    assert any(c.origin.passed(Stage.RESELECTION) for c in whole)
    fewer = row.without(stages.reselection)
    assert fewer.stages == tuple(s for s in POLYNOMIALS if s is not stages.reselection)
    without = fewer.search(Pool(search)).candidates
    assert not any(c.origin.passed(Stage.RESELECTION) for c in without)
    assert without[0].score >= whole[0].score


def test_a_pool_keeps_the_better_of_equal_coefficients(search):
    pool = stages.regressions(Pool(search), EFFORT)
    best = pool.candidates[0]
    assert pool.adding(pool.candidates).candidates == pool.candidates
    assert pool.preferred is best
    assert all(c.refined and np.isfinite(c.score) for c in pool.fitted)
