"""Trajectory fits: exact recovery, known likelihood, chaos, missing values, guards."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.refinement import FitStatus, fit_trajectory
from fim_dynsys.regression.rollout import rollout

RNG = np.random.default_rng(4)
DICTIONARY = Dictionary.polynomial(2, 3)
NAMES = DICTIONARY.names()
VAN_DER_POL = np.zeros((10, 2))
VAN_DER_POL[NAMES.index("x1"), 0] = 1.0
VAN_DER_POL[NAMES.index("x0"), 1] = -1.0
VAN_DER_POL[NAMES.index("x1"), 1] = 1.5
VAN_DER_POL[NAMES.index("x0^2 x1"), 1] = -1.5
SUPPORT = VAN_DER_POL != 0


def sparse_problem(dictionary, support):
    """Right-hand side and derivatives of a polynomial field as functions of its non-zero coefficients."""
    d = dictionary.dim
    terms = dictionary.subset(np.flatnonzero(support.any(axis=1)))
    term, coordinate = np.nonzero(support[support.any(axis=1)])
    table, parameter = terms.table, np.arange(len(term))
    rows = table.index[term]
    by_coefficient = np.zeros((len(table), d * d, len(term)))
    for j in range(d):
        power = table.exponents[rows, j]
        by_coefficient[table.lowered[rows, j], coordinate * d + j, parameter] += power

    def rhs(x, p):
        c = np.zeros((len(table), d))
        c[rows, coordinate] = p
        return table.columns(x.T).T @ c

    def jac_x(x, p):
        return (table.columns(x.T).T @ (by_coefficient @ p)).reshape(len(x), d, d)

    def jac_p(x, p):
        out = np.zeros((len(x), d, len(term)))
        out[:, coordinate, parameter] = table.columns(x.T)[rows].T
        return out

    return rhs, jac_x, jac_p


PROBLEM = sparse_problem(DICTIONARY, SUPPORT)
TRUE = VAN_DER_POL[SUPPORT]


def orbit(t, x0):
    rhs = PROBLEM[0]
    options = {"rtol": 1e-11, "atol": 1e-12}
    return solve_ivp(lambda _, x: rhs(x[None], TRUE)[0], (t[0], t[-1]), x0, t_eval=t, **options).y.T


T = np.linspace(0, 12, 160)
NOISE_FREE = orbit(T, [0.5, 0.2])


@pytest.mark.parametrize("segments", [(1,), (5, 1), (12, 5, 1)])
def test_clean_data_give_the_parameters_back(segments):
    fit = fit_trajectory(
        *PROBLEM,
        TRUE * 1.2,
        NOISE_FREE[:1],
        [(T, NOISE_FREE)],
        segments=segments,
        max_step=0.02,
        max_iterations=30,
    )
    np.testing.assert_allclose(fit.parameters, TRUE, atol=2e-7)
    np.testing.assert_allclose(fit.initial_states[0], [0.5, 0.2], atol=1e-7)
    assert fit.misfit < 1e-10


def test_gradient_of_the_misfit_vanishes_at_the_fit():
    noisy = NOISE_FREE + 0.1 * RNG.normal(size=NOISE_FREE.shape)
    weights = [RNG.uniform(0.5, 2.0, size=NOISE_FREE.shape)]
    fit = fit_trajectory(*PROBLEM, TRUE, noisy[:1], [(T, noisy)], weights, max_step=0.03, max_iterations=50)

    def misfit(p, x0):
        start = fit_trajectory(
            *PROBLEM, p, x0[None], [(T, noisy)], weights, segments=(), paths=[NOISE_FREE], max_step=0.03
        )
        return start.misfit

    variables = np.concatenate([fit.parameters, fit.initial_states[0]])
    scale = np.sqrt(np.diag(fit.information)).max()  # of a gradient one standard error away
    for step in 1e-4 * np.eye(len(variables)):
        up, down = variables + step, variables - step
        slope = (misfit(up[:4], up[4:]) - misfit(down[:4], down[4:])) / 2e-4
        assert abs(slope) < 1e-2 * scale
    assert fit.misfit <= misfit(TRUE, NOISE_FREE[0])


def test_information_is_the_curvature_of_the_profiled_misfit():
    linear = Dictionary.polynomial(1, 1)
    problem = sparse_problem(linear, np.array([[False], [True]]))
    t = np.linspace(0, 1, 30)
    x = np.exp(-2.0 * t)[:, None]
    fit = fit_trajectory(*problem, [-2.0], [[1.0]], [(t, x)], segments=(1,), max_step=0.01)
    # x = c exp(a t): sensitivities t exp(a t) and exp(a t), the start projected out
    by_rate, by_start = t * x[:, 0], x[:, 0]
    expected = by_rate @ by_rate - (by_rate @ by_start) ** 2 / (by_start @ by_start)
    assert fit.information[0, 0] == pytest.approx(expected, rel=1e-5)


def test_estimates_scatter_as_their_covariance_says():
    estimates, t = [], T[::4]
    for seed in range(40):
        noisy = NOISE_FREE[::4] + 0.05 * np.random.default_rng(seed).normal(size=(40, 2))
        fit = fit_trajectory(
            *PROBLEM, TRUE, NOISE_FREE[:1], [(t, noisy)], segments=(1,), paths=[NOISE_FREE[::4]]
        )
        estimates.append(fit.parameters)
    predicted = 0.05**2 * np.diag(np.linalg.inv(fit.information))
    # a variance from 40 draws has a standard error of 22 %
    np.testing.assert_allclose(np.var(estimates, axis=0) / predicted, 1.0, atol=0.75)
    assert (np.abs(np.mean(estimates, axis=0) - TRUE) < 4 * np.sqrt(predicted / 40)).all()


def test_several_ragged_trajectories_with_missing_values():
    first, second = orbit(T[:90], [0.5, 0.2]), orbit(T[20:70], [-1.0, 2.0])
    first[3:8, 0] = np.nan
    second[::3, 1] = np.nan
    data = [(T[:90], first), (T[20:70], second)]
    fit = fit_trajectory(*PROBLEM, TRUE * 0.9, [[0.5, 0.2], [-1, 2]], data, max_step=0.02, max_iterations=30)
    np.testing.assert_allclose(fit.parameters, TRUE, atol=1e-6)
    assert [path.shape for path in fit.paths] == [(90, 2), (50, 2)]
    assert fit.initial_states.shape == (2, 2)


def test_chaos_is_fitted_from_the_noisy_samples():
    def rhs(x, p):
        return np.stack(
            [
                p[0] * (x[:, 1] - x[:, 0]),
                x[:, 0] * (p[1] - x[:, 2]) - x[:, 1],
                x[:, 0] * x[:, 1] - p[2] * x[:, 2],
            ],
            1,
        )

    def jac_x(x, p):
        out = np.zeros((len(x), 3, 3))
        out[:, 0, 0], out[:, 0, 1], out[:, 1, 1], out[:, 2, 2] = -p[0], p[0], -1.0, -p[2]
        out[:, 1, 0], out[:, 1, 2], out[:, 2, 0], out[:, 2, 1] = p[1] - x[:, 2], -x[:, 0], x[:, 1], x[:, 0]
        return out

    def jac_p(x, p):
        out = np.zeros((len(x), 3, 3))
        out[:, 0, 0], out[:, 1, 1], out[:, 2, 2] = x[:, 1] - x[:, 0], x[:, 0], -x[:, 2]
        return out

    truth = np.array([10.0, 28.0, 8 / 3])
    t = np.linspace(0, 8, 400)
    options = {"rtol": 1e-10, "atol": 1e-10}
    x = solve_ivp(lambda _, z: rhs(z[None], truth)[0], (0, 8), [1, 1, 1], t_eval=t, **options).y.T
    sigma = 0.05 * x.std(axis=0)
    noisy = x + sigma * np.random.default_rng(0).normal(size=x.shape)
    start = truth * [0.9, 1.05, 1.1]
    fit = fit_trajectory(rhs, jac_x, jac_p, start, noisy[:1], [(t, noisy)], [np.tile(sigma**-2, (400, 1))])
    np.testing.assert_allclose(fit.parameters, truth, rtol=0.01)
    assert fit.misfit / noisy.size == pytest.approx(1.0, abs=0.1)


def test_a_prior_pulls_towards_the_start():
    data = [(T, NOISE_FREE + 0.1 * RNG.normal(size=NOISE_FREE.shape))]
    free = fit_trajectory(*PROBLEM, TRUE * 1.1, NOISE_FREE[:1], data)
    held = fit_trajectory(*PROBLEM, TRUE * 1.1, NOISE_FREE[:1], data, prior_precision=np.full(4, 1e9))
    np.testing.assert_allclose(held.parameters, TRUE * 1.1, rtol=1e-5)
    assert np.abs(free.parameters - TRUE * 1.1).max() > 0.02


def test_a_prior_of_the_start_keeps_a_wrong_model_near_the_data():
    # a line cannot follow the orbit; free, its start wanders to lower the misfit elsewhere
    linear = Dictionary.polynomial(2, 1)
    problem = sparse_problem(linear, np.ones((3, 2), dtype=bool))
    start = [np.zeros(6), NOISE_FREE[:1], [(T, NOISE_FREE)]]
    free = fit_trajectory(*problem, *start, paths=[NOISE_FREE], max_iterations=30)
    held = fit_trajectory(
        *problem, *start, paths=[NOISE_FREE], max_iterations=30, start_precision=[[1e8, 1e8]]
    )
    assert np.abs(free.initial_states - NOISE_FREE[:1]).max() > 0.1
    np.testing.assert_allclose(held.initial_states, NOISE_FREE[:1], atol=1e-5)
    assert free.misfit < held.misfit


def test_a_field_that_leaves_the_data_is_never_returned():
    explosive = VAN_DER_POL.copy()
    explosive[NAMES.index("x0^2 x1"), 1] = 40.0
    noisy = NOISE_FREE + 0.3 * RNG.normal(size=NOISE_FREE.shape)
    fit = fit_trajectory(*PROBLEM, explosive[SUPPORT], noisy[:1], [(T, noisy)], max_iterations=1)
    assert fit.status is FitStatus.DIVERGED
    np.testing.assert_array_equal(fit.parameters, explosive[SUPPORT])


def test_time_limit_returns_the_best_so_far():
    noisy = NOISE_FREE + 0.1 * RNG.normal(size=NOISE_FREE.shape)
    fit = fit_trajectory(*PROBLEM, TRUE, NOISE_FREE[:1], [(T, noisy)], time_limit=0.0)
    assert fit.status is FitStatus.TIME_LIMIT
    np.testing.assert_array_equal(fit.parameters, TRUE)


def test_rollout_is_of_fourth_order_and_gives_up_alone():
    fields = np.stack([VAN_DER_POL, -5.0 * VAN_DER_POL + 1.0, VAN_DER_POL * 0.5])
    starts = np.tile([0.5, 0.2], (3, 1, 1))
    coarse, fine = (rollout(DICTIONARY, fields, starts, T[None], step)[0, 0] for step in (0.08, 0.04))
    ratio = np.abs(coarse - NOISE_FREE).max() / np.abs(fine - NOISE_FREE).max()
    assert 12 < ratio < 22
    paths = rollout(DICTIONARY, fields, starts, T[None], 0.04, bound=1e3)
    assert np.isnan(paths[1, 0, -1]).all()
    assert np.isfinite(paths[[0, 2]]).all()


def test_rollout_of_ragged_trajectories_equals_single_ones():
    starts = np.array([[[0.5, 0.2], [-1.0, 2.0]]])
    times = np.stack([T[:50], np.concatenate([T[5:35], np.full(20, T[34])])])
    together = rollout(DICTIONARY, VAN_DER_POL[None], starts, times, 0.05)[0]
    alone = rollout(DICTIONARY, VAN_DER_POL[None], starts[:, 1:], T[None, 5:35], 0.05)[0, 0]
    np.testing.assert_allclose(together[1, :30], alone, rtol=1e-12)
    np.testing.assert_array_equal(together[1, 30:], np.tile(together[1, 29], (20, 1)))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"fit_trajectory: expected parameters .*\(1, 2\).*got .*\(2, 2\)"):
        fit_trajectory(*PROBLEM, TRUE, NOISE_FREE[:2], [(T, NOISE_FREE)])
    with pytest.raises(ValueError, match=r"fit_trajectory: expected times.*\(159,\)"):
        fit_trajectory(*PROBLEM, TRUE, NOISE_FREE[:1], [(T[1:], NOISE_FREE)])
    with pytest.raises(ValueError, match=r"fit_trajectory: expected prior_precision \(4,\), got \(3,\)"):
        fit_trajectory(*PROBLEM, TRUE, NOISE_FREE[:1], [(T, NOISE_FREE)], prior_precision=np.ones(3))
