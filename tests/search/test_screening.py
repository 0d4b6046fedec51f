"""Many states whose equations have few neighbours."""

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.metrics import r2_score
from fim_dynsys.search.problem import Search
from fim_dynsys.search.screening import FEWEST_SAMPLES, FEWEST_STATES, screened
from fim_dynsys.simulation.solution import simulate


def chain(dim, before, own, after):
    """Matrix of a line of states that see their neighbours."""
    return own * np.eye(dim) + before * np.eye(dim, k=-1) + after * np.eye(dim, k=1)


def observed(matrix, t, low, high, noise):
    """A start, its path and noisy samples of it."""
    rng = np.random.default_rng(0)
    field = CallableField(lambda x: x @ matrix.T, len(matrix))
    clean = simulate(field, rng.uniform(low, high, len(matrix)), t).x[0]
    return clean, clean * (1.0 + noise * rng.standard_normal(clean.shape))


def test_all_neighbours_of_ten_states_are_found():
    matrix, t = chain(10, -0.7, -0.5, 0.5), np.linspace(0.0, 15.0, 200)
    _, noisy = observed(matrix, t, -1.5, 1.5, 0.02)
    search, models = screened(Search.polynomial([(t, noisy)]))
    best = min(models, key=lambda model: model.score)
    exponents = search.dictionary.exponents
    terms = {(*exponents[m].tolist(), int(i)) for m, i in np.argwhere(best.support)}
    true = {(*np.eye(10, dtype=int)[j].tolist(), int(i)) for i, j in np.argwhere(matrix)}
    assert terms == true


def test_a_chain_of_twenty_states():
    matrix, t = chain(20, -0.7, -0.5, 0.5), np.linspace(0.0, 15.0, 200)
    clean, noisy = observed(matrix, t, -1.5, 1.5, 0.02)
    model = fim_dynsys.load("auto").fit(noisy, t)
    assert r2_score(clean, model.simulate(clean[0], t)) > 0.9
    other, _ = observed(matrix, t, -1.0, 2.0, 0.0)
    assert r2_score(other, model.simulate(other[0], t)) > 0.9


@pytest.mark.parametrize(("dim", "n"), [(FEWEST_STATES - 1, 200), (FEWEST_STATES, FEWEST_SAMPLES - 1)])
def test_few_states_and_few_samples_are_left_alone(dim, n):
    t = np.linspace(0.0, 5.0, n)
    search = Search.polynomial([(t, observed(chain(dim, -0.7, -0.5, 0.5), t, -1.0, 1.0, 0.0)[1])])
    assert screened(search) == (search, [])
