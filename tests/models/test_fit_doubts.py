"""Whether a fit of known equations says that a better minimum may exist."""

from dataclasses import replace

import numpy as np
import pytest

from fim_dynsys import load
from fim_dynsys.estimation.descent import Outcome


@pytest.fixture(scope="module")
def decay():
    t = np.linspace(0.0, 3.0, 12)
    x = 2.0 * np.exp(-0.8 * t) + 0.01 * np.random.default_rng(0).standard_normal(12)
    return load("equations", expressions={"x": "-k*x"}).fit(x[:, None], t, feature_names=["x"]).fit_


def test_agreeing_searches_leave_no_doubt(decay):
    agreed = replace(
        decay, values=np.full(10, decay.descent.value), ends=np.tile(decay.descent.theta, (10, 1))
    )
    assert agreed.doubts == ()


def test_a_minimum_that_one_search_found_is_doubted(decay):
    values = decay.descent.value + np.arange(10.0) * 50.0
    ends = decay.descent.theta + np.arange(10.0)[:, None]
    assert "1 of 10 searches ended in the best minimum" in replace(decay, values=values, ends=ends).doubts[0]


def test_a_search_that_did_not_converge_is_said(decay):
    stopped = replace(decay, descent=replace(decay.descent, outcome=Outcome.FAILED))
    assert "without convergence" in stopped.doubts[0]
