"""Steps of rollouts and trajectory fits by the errors that they make."""

from functools import cache

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.kernels.integration import finer_counts
from fim_dynsys.regression.kernels.sensitivities import interval_maps
from fim_dynsys.regression.observed import STEP_LIMIT, observe
from fim_dynsys.regression.rollout import rollout, substeps
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import ITERATIONS, affordable, refine

TERMS = Dictionary.polynomial(2, 3)
ALLOWED = np.full(2, 1e-4)


def van_der_pol(mu):
    found = {(0, 1): (1.0, mu), (2, 1): (0.0, -mu), (1, 0): (0.0, -1.0)}
    return np.array([found.get(tuple(powers), (0.0, 0.0)) for powers in TERMS.exponents.tolist()])


@cache
def orbit(mu, end, n):
    """Times and states; not to be written to, as they are shared."""
    t = np.linspace(0.0, end, n)
    path = solve_ivp(
        lambda _, z: [z[1], mu * (1.0 - z[0] ** 2) * z[1] - z[0]],
        (0.0, end),
        [2.0, 0.0],
        "LSODA",
        t,
        rtol=1e-10,
        atol=1e-11,
    )
    return t, path.y.T


def test_stiff_paths_are_accurate_beside_smooth_ones_that_stay_as_they_were():
    t, _ = orbit(10.0, 20.0, 161)
    fields = np.stack([van_der_pol(mu) for mu in (0.3, 10.0, 0.4, 20.0)])
    starts = np.tile([2.0, 0.0], (4, 1, 1))
    fixed = rollout(TERMS, fields, starts, t[None], STEP_LIMIT)[:, 0]
    found = rollout(TERMS, fields, starts, t[None], STEP_LIMIT, allowed=ALLOWED)[:, 0]
    assert np.array_equal(fixed[[0, 2]], found[[0, 2]])
    assert not np.isfinite(fixed[1, -1]).all()
    for k, mu in ((1, 10.0), (3, 20.0)):
        _, true = orbit(mu, 20.0, 161)
        assert np.sqrt(np.mean(((found[k] - true) / true.std(0)) ** 2)) < 3e-3
    alone = rollout(TERMS, fields[3:], starts[3:], t[None], STEP_LIMIT, allowed=ALLOWED)[0, 0]
    assert np.array_equal(alone, found[3])


def test_an_input_that_jumps_is_followed_in_shorter_steps():
    """x' = -80 (x - u) with u held: relaxation within each sample, exactly known."""
    t, u = np.linspace(0.0, 2.0, 21), np.where(np.arange(20) % 6 < 3, 1.0, 0.0)
    terms = Dictionary.polynomial(2, 1)
    field = np.array([[{(1, 0): -80.0, (0, 1): 80.0}.get(tuple(k), 0.0)] for k in terms.exponents.tolist()])
    curves = np.zeros((1, 20, 4, 1))
    curves[0, :, 0, 0] = u
    path = rollout(
        terms, field[None], np.zeros((1, 1, 1)), t[None], STEP_LIMIT, inputs=curves, allowed=np.full(1, 1e-5)
    )
    exact = np.zeros(21)
    for k in range(20):
        exact[k + 1] = u[k] + (exact[k] - u[k]) * np.exp(-8.0)
    assert np.abs(path[0, 0, :, 0] - exact).max() < 1e-4


def test_counts_keep_the_error_of_every_interval_and_maps_do_not_depend_on_their_order():
    t, x = orbit(10.0, 20.0, 161)
    nodes = np.ascontiguousarray(x)
    row, column = map(np.ascontiguousarray, np.nonzero(van_der_pol(1.0)))
    p = van_der_pol(10.0)[row, column]
    lengths, least = np.diff(t), substeps(t, STEP_LIMIT)
    given = TERMS.packed, row, column, p
    none = np.zeros((160, 4, 0))
    counts = finer_counts(*given, nodes, lengths, least, none, ALLOWED, 64)
    assert (counts >= least).all() and 1 < counts.max() <= 64
    free = np.zeros((0, 3), dtype=np.intp)
    ends, tangents = interval_maps(*given, free, nodes, lengths / counts, counts, none)
    assert np.abs(ends - nodes[1:]).max() < 1e-4
    one = int(np.argmax(counts))
    alone = interval_maps(
        *given,
        free,
        nodes[one : one + 2].copy(),
        lengths[one : one + 1] / counts[one],
        counts[one : one + 1],
        none[:1],
    )
    assert np.array_equal(alone[0][0], ends[one]) and np.array_equal(alone[1][0], tangents[one])


def test_steps_are_bounded_in_all():
    least = np.ones(100, dtype=np.int64)
    assert affordable(np.full(100, 64), least).sum() <= 2400
    assert affordable(least, least) is least


@pytest.mark.parametrize("off", [0.05, 0.2])
def test_a_stiff_structure_is_fitted_from_wrong_coefficients(off):
    """Without shorter steps the fit diverges at once and returns its start."""
    observations = observe([orbit(10.0, 40.0, 300)])
    dictionary, true = TERMS.rescaled(
        van_der_pol(10.0), 1.0 / observations.scale, 1.0 / observations.time_unit
    )
    wrong = true * (1.0 + off * np.random.default_rng(0).uniform(-1.0, 1.0, true.shape))
    start = Candidate(wrong, observations.start, dictionary, Origin(Stage.REFIT))
    found, _ = refine(observations, start, observations.path)
    assert found.coefficients[true != 0] == pytest.approx(true[true != 0], rel=1e-3)


def test_a_fit_in_one_piece_goes_on_from_another():
    """Free starts everywhere and the iterations that these take are for first fits."""
    observations = observe([orbit(10.0, 40.0, 161)])
    dictionary, coefficients = TERMS.rescaled(
        van_der_pol(10.0), 1.0 / observations.scale, 1.0 / observations.time_unit
    )
    begun = Candidate(1.01 * coefficients, observations.start, dictionary, Origin(Stage.GIVEN))
    first, fit = refine(observations, begun, observations.path)
    _, again = refine(observations, first, fit.paths, (1,))
    assert again.iterations <= ITERATIONS < fit.iterations
    np.testing.assert_allclose(again.parameters, fit.parameters, rtol=1e-2)


def test_fields_too_stiff_for_explicit_steps_are_followed_implicitly():
    """Robertson's reaction over forty seconds in sixty samples: rates of thousands times the gaps."""
    terms = Dictionary.polynomial(3, 2)
    found = {
        (1, 0, 0): (-0.04, 0.04, 0.0),
        (0, 1, 1): (1e4, -1e4, 0.0),
        (0, 2, 0): (0.0, -3e7, 3e7),
    }
    field = np.array([found.get(tuple(powers), (0.0, 0.0, 0.0)) for powers in terms.exponents.tolist()])
    t = np.linspace(0.0, 40.0, 60)
    x = solve_ivp(
        lambda _, s: terms.evaluate(s[None])[0] @ field,
        (0.0, 40.0),
        [1.0, 0.0, 0.0],
        "Radau",
        t,
        rtol=1e-9,
        atol=1e-14,
    ).y.T
    observations = observe([(t, x)])
    dictionary, scaled = terms.rescaled(field, 1.0 / observations.scale, 1.0 / observations.time_unit)
    search = Search(observations, dictionary)
    start = (x[0] / observations.scale)[None]
    wild = -scaled  # leaves every bound: nothing stiff about that
    paths = search.paths(np.stack([scaled, wild]), np.stack([start, start])) * observations.scale
    assert np.sqrt(np.mean(((paths[0, 0] - x) / x.std(axis=0)) ** 2)) < 1e-5
    assert not np.isfinite(paths[1, 0, -1]).all()
