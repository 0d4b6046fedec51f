"""simulate: orders of convergence, exact solutions, failures that stay alone, events, stiff methods."""

import time
import warnings

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from fim_dynsys.deadline import out_of_time, time_limit
from fim_dynsys.errors import SimulationWarning
from fim_dynsys.fields.affine import AffineField
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.symbolic import SymbolicField
from fim_dynsys.simulation.pairs import DenseOutput, pair
from fim_dynsys.simulation.problem import Status
from fim_dynsys.simulation.solution import integrate, simulate
from fim_dynsys.trajectories.container import Trajectories

METHODS = ["dop853", "rk45", "radau", "lsoda"]
EXPLICIT = METHODS[:2]


def rotation(x):
    return np.column_stack([-x[:, 1], x[:, 0]])


def van_der_pol(x, mu=2.0):
    return np.column_stack([x[:, 1], mu * (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]])


def lorenz(x):
    a, b, c = x.T
    return np.column_stack([10 * (b - a), a * (28 - c) - b, a * b - 8 / 3 * c])


def on_circle(t):
    return np.stack([np.cos(t), np.sin(t)], axis=-1)


CIRCLE = CallableField(rotation, 2, lambda x: np.broadcast_to([[0.0, -1.0], [1.0, 0.0]], (len(x), 2, 2)))
SQUARE = CallableField(lambda x: x**2, 1, lambda x: 2 * x[:, :, None])


def fixed_step(pair, f, x, h):
    """One step of a pair without control: columns and new state."""
    s = pair.n_stages
    columns = np.zeros((*x.shape, s + 2))
    columns[:, :, 0], columns[:, :, 1] = x, h * f(x)
    for weights in (*pair.stages, pair.result):
        x = np.vecdot(columns[:, :, : len(weights)], weights)
        columns[:, :, len(weights)] = h * f(x)
    return columns, x


def logistic(x):
    return x * (1 - x)


def exact_logistic(t):
    return 1 / (1 + 4 * np.exp(-t))


def slope(steps, errors):
    return np.polyfit(np.log(steps), np.log(errors), 1)[0]


# ---------------------------------------------------------------- orders


@pytest.mark.parametrize(("name", "order", "steps"), [("dop853", 8, [8, 10, 12]), ("rk45", 5, [40, 80, 160])])
def test_order_of_the_pair_with_fixed_steps(name, order, steps):
    errors = []
    for n in steps:
        x = np.array([[exact_logistic(0.0)]])
        for _ in range(n):
            _, x = fixed_step(pair(name), logistic, x, 4.0 / n)
        errors.append(abs(x[0, 0] - exact_logistic(4.0)))
    assert slope([4.0 / n for n in steps], errors) == pytest.approx(order, abs=0.2)


@pytest.mark.parametrize(
    ("name", "order", "steps"), [("dop853", 7, [0.6, 0.5, 0.4]), ("rk45", 4, [0.2, 0.1, 0.05])]
)
def test_order_of_the_dense_output(name, order, steps):
    """The interpolant over one step has error O(h^(order + 1))."""
    theta = np.linspace(0.1, 0.9, 9)
    errors = []
    for h in steps:
        columns, _ = fixed_step(pair(name), logistic, np.array([[exact_logistic(0.7)]]), h)
        dense = DenseOutput(pair(name), columns, logistic, np.array([[h]]))
        values = dense(theta, np.zeros(9, dtype=int))[:, 0]
        errors.append(np.abs(values - exact_logistic(0.7 + theta * h)).max())
    assert slope(steps, errors) == pytest.approx(order + 1, abs=0.5)


@pytest.mark.parametrize("name", EXPLICIT)
def test_error_estimate_and_tolerance_go_together(name):
    """The global error over a turn stays within a factor of the tolerance over eight decades."""
    t = np.linspace(0, 2 * np.pi, 50)
    for rtol in 10.0 ** -np.arange(4, 12, 2):
        x = simulate(CIRCLE, [1.0, 0.0], t, rtol=rtol, method=name).x[0]
        assert np.abs(x - on_circle(t)).max() < 30 * rtol


# ---------------------------------------------------------------- exact solutions and scipy


@pytest.mark.parametrize("method", METHODS)
def test_linear_system(method):
    matrix = np.array([[-0.3, 2.0, 0.0], [-2.0, -0.3, 0.0], [0.5, 0.0, -1.0]])
    values, vectors = np.linalg.eig(matrix)
    t = np.linspace(0, 5, 23)
    x0 = np.array([[1.0, -1.0, 2.0], [0.0, 3.0, -1.0]])
    modes = np.linalg.solve(vectors, x0.T)
    expected = np.einsum("ij,jn,jt->nti", vectors, modes, np.exp(values[:, None] * t)).real
    field = CallableField(lambda x: x @ matrix.T, 3, lambda x: np.broadcast_to(matrix, (len(x), 3, 3)))
    result = simulate(field, x0, t, rtol=1e-9, method=method)
    assert result.x == pytest.approx(expected, abs=2e-7)
    assert result.status.tolist() == [Status.SUCCESS] * 2
    assert result.t_stop.tolist() == [5.0, 5.0]
    assert np.array_equal(result.t, [t, t])


@pytest.mark.parametrize("name", EXPLICIT)
@pytest.mark.parametrize(("rhs", "dim", "end"), [(van_der_pol, 2, 10.0), (lorenz, 3, 2.0)])
def test_a_batch_gives_the_answers_of_scipy(name, rhs, dim, end):
    x0 = np.random.default_rng(0).normal(size=(8, dim)) * 3
    t = np.linspace(0, end, 40)
    field = CallableField(rhs, dim)
    found = simulate(field, x0, t, rtol=1e-10, atol=1e-10, method=name).x
    for start, path in zip(x0, found, strict=True):
        reference = solve_ivp(field.ivp, (0, end), start, "DOP853", t, rtol=1e-12, atol=1e-12).y.T
        assert path == pytest.approx(reference, abs=1e-6)


def test_one_field_call_per_stage_for_the_whole_batch():
    calls = []

    def counted(x):
        calls.append(len(x))
        return van_der_pol(x)

    field = CallableField(counted, 2)
    field(np.ones((2, 2)))  # where it is made sure, once, that the function takes rows
    calls.clear()
    x0 = np.random.default_rng(1).normal(size=(50, 2))
    solution = integrate((field,), x0, np.linspace(0, 5, 100))
    # two calls for the start, three for all interpolants together
    assert len(calls) == 12 * solution.n_steps.max() + 5
    # finished rows have left: no more rows than steps taken, plus start and interpolants
    assert sum(calls) <= 12 * solution.n_steps.sum() + 2 * 50 + 3 * solution.n_steps.sum()


def test_as_many_steps_as_scipy():
    """Same pair, same control: the number of attempted steps differs only through the first step."""
    t = np.array([0.0, 20.0])
    ours = integrate((CallableField(van_der_pol, 2),), np.array([[2.0, 0.0]]), t, rtol=1e-7, atol=1e-7)
    theirs = solve_ivp(lambda t, x: van_der_pol(x[None])[0], t, [2.0, 0.0], "DOP853", rtol=1e-7, atol=1e-7)
    assert ours.n_steps[0] == pytest.approx((theirs.nfev - 2) / 12, rel=0.05)


@pytest.mark.parametrize("method", METHODS)
def test_backwards_returns_to_the_start(method):
    t = np.linspace(3.0, -1.0, 9)
    result = simulate(CIRCLE, on_circle(3.0), t, rtol=1e-9, method=method)
    assert result.x[0] == pytest.approx(on_circle(t), abs=1e-7)
    assert np.array_equal(result.t[0], t)
    assert result.t_stop[0] == -1.0


def test_result_does_not_depend_on_when_the_clock_starts():
    t = np.linspace(0, 4, 17)
    early = simulate(CIRCLE, [1.0, 0.0], t)
    late = simulate(CIRCLE, [1.0, 0.0], t + 1024.0)
    assert np.array_equal(early.x, late.x)
    assert late.t_stop[0] == 1028.0


def test_result_scales_with_units():
    """Tolerances are relative to the field's scales, so that other units change nothing but rounding."""
    t = np.linspace(0, 10, 21)
    context = simulate(CallableField(van_der_pol, 2), [2.0, 0.0], t)
    inner = CallableField(van_der_pol, 2, context=Trajectories.from_arrays(context.x[0], t))
    outer = AffineField(inner, [1e6, 1e-6], 0.0, time_unit=1e-3)
    plain = simulate(inner, [1.0, 1.0], t)
    scaled = simulate(outer, [1e6, 1e-6], 1e-3 * t)
    assert scaled.x / [1e6, 1e-6] == pytest.approx(plain.x, abs=1e-9)


def test_times_may_differ_by_trajectory_and_in_direction_and_number():
    rows = [np.linspace(0, 2, 5), np.linspace(1, -4, 7), np.array([2.0])]
    result = simulate(CIRCLE, [on_circle(r[0]) for r in rows], rows, rtol=1e-10)
    assert result.n_obs.tolist() == [5, 7, 1]
    for (t, x), row in zip(result.arrays(), rows, strict=True):
        assert np.array_equal(t, row)
        assert x == pytest.approx(on_circle(row), abs=1e-8)
    grid = np.array([[0.0, 1.0, 5.0], [0.0, 0.1, 0.2]])
    shared_start = simulate(CIRCLE, [1.0, 0.0], grid, rtol=1e-10)
    assert shared_start.x == pytest.approx(on_circle(grid), abs=1e-8)


def test_requested_times_do_not_change_the_steps():
    coarse = simulate(CIRCLE, [1.0, 0.0], [0.0, 6.0])
    fine = simulate(CIRCLE, [1.0, 0.0], np.linspace(0, 6, 1001))
    assert np.array_equal(coarse.x[0, -1], fine.x[0, -1])


def test_largest_step():
    n = integrate((CIRCLE,), np.array([[1.0, 0.0]]), np.array([0.0, 1.0]), max_step=0.01).n_steps[0]
    assert 100 <= n <= 102


def test_until_ends_trajectories_at_the_end_of_a_step():
    """Round the circle until the first coordinate is negative: a quarter, and no more than a step beyond."""
    x0, t = np.array([[1.0, 0.0], [0.5, 0.0], [-1.0, 0.0]]), np.linspace(0.0, 6.0, 61)
    free = integrate((CIRCLE,), x0, t, max_step=0.1)
    ended = integrate((CIRCLE,), x0, t, max_step=0.1, until=lambda x: (x[:, 0] < 0) & (x[:, 1] > 0))
    assert ended.status.tolist() == [Status.EVENT, Status.EVENT, Status.EVENT]
    assert ((ended.t_stop[:2] > np.pi / 2) & (ended.t_stop[:2] < np.pi / 2 + 0.1)).all()
    assert (ended.x_stop[:2, 0] < 0).all()
    for x, other, t_stop in zip(ended.x, free.x, ended.t_stop, strict=True):
        np.testing.assert_array_equal(x[t <= t_stop], other[t <= t_stop])
        assert np.isnan(x[t > t_stop]).all()
    with pytest.raises(ValueError, match="method among"):
        integrate((CIRCLE,), x0, t, method="radau", until=lambda x: x[:, 0] < 0)


# ---------------------------------------------------------------- failures stay alone


@pytest.mark.parametrize("name", EXPLICIT)
def test_a_row_is_bitwise_the_same_alone_and_in_a_batch(name):
    x0 = np.random.default_rng(3).normal(size=(37, 2)) * 3
    t = np.linspace(0, 7, 50)
    field = CallableField(van_der_pol, 2)
    together = simulate(field, x0, t, method=name).x
    for i in (0, 17, 36):
        assert np.array_equal(simulate(field, x0[i], t, method=name).x[0], together[i])


@pytest.mark.parametrize("method", METHODS)
def test_a_blow_up_ends_alone(method):
    """x' = x^2 from 1 and 1/2 reaches infinity at 1 and 2; from -1 it decays like -1 / (1 + t)."""
    t = np.linspace(0, 3, 13)
    x0 = np.array([[1.0], [-1.0], [0.5]])
    with pytest.warns(SimulationWarning) as caught:
        result = simulate(SQUARE, x0, t, method=method)
    assert len(caught) == 1
    assert "2 of 3 trajectories stopped early (LEFT_BOUNDS 2)" in str(caught[0].message)
    assert result.status.tolist() == [Status.LEFT_BOUNDS, Status.SUCCESS, Status.LEFT_BOUNDS]
    assert result.t_stop == pytest.approx([1.0, 3.0, 2.0], abs=2e-5)
    assert np.isnan(result.x[0, 4:]).all() and np.isnan(result.x[2, 8:]).all()
    assert result.x[0, :4, 0] == pytest.approx(1 / (1 - t[:4]), rel=1e-4)
    assert result.x[2, :8, 0] == pytest.approx(1 / (2 - t[:8]), rel=1e-4)
    alone = simulate(SQUARE, x0[1], t, method=method)
    assert np.array_equal(alone.x[0], result.x[1])
    assert np.array_equal(result.t, [t] * 3)


@pytest.mark.parametrize("method", METHODS)
def test_a_field_that_ends_somewhere(method):
    """x' = -1 / sqrt(x) reaches 0 at t = 2/3 x0^1.5 and is NaN beyond."""
    field = CallableField(lambda x: -1 / np.sqrt(x), 1, lambda x: 0.5 * x[:, :, None] ** -1.5)
    t = np.linspace(0, 1, 11)
    with pytest.warns(SimulationWarning):
        result = simulate(field, [[1.0], [4.0]], t, method=method)
    assert result.status[0] in (Status.NON_FINITE, Status.STEP_TOO_SMALL)
    assert result.status[1] == Status.SUCCESS
    assert result.t_stop[0] == pytest.approx(2 / 3, abs=1e-3)
    expected = np.maximum([[1.0], [8.0]] - 1.5 * t, 0) ** (2 / 3)
    seen = np.isfinite(result.x[..., 0])
    assert seen.sum(axis=1).tolist() == [7, 11]
    assert result.x[seen, 0] == pytest.approx(expected[seen], abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_a_field_that_is_not_finite_at_the_start(method):
    field = CallableField(lambda x: np.log(x), 1, lambda x: 1 / x[:, :, None])
    with pytest.warns(SimulationWarning, match=r"1 of 2 .*NON_FINITE 1"):
        result = simulate(field, [[-1.0], [1.0]], [0.0, 1.0, 2.0], method=method)
    assert result.status.tolist() == [Status.NON_FINITE, Status.SUCCESS]
    assert result.t_stop.tolist() == [0.0, 2.0]
    assert result.x[0, :, 0] == pytest.approx([-1, np.nan, np.nan], nan_ok=True)
    assert result.x[1, :, 0] == pytest.approx([1, 1, 1])


@pytest.mark.parametrize("method", METHODS)
def test_steps_run_out(method):
    t = np.linspace(0, 100, 101)
    with pytest.warns(SimulationWarning, match="MAX_STEPS 1"):
        result = simulate(CIRCLE, [1.0, 0.0], t, max_steps=10, method=method)
    assert result.status[0] == Status.MAX_STEPS
    reached = t <= result.t_stop[0]
    assert 0 < reached.sum() < 100
    assert result.x[0, reached] == pytest.approx(on_circle(t[reached]), abs=1e-5)
    assert np.isnan(result.x[0, ~reached]).all()


def test_a_trajectory_that_would_need_far_too_many_steps_ends_early_and_alone():
    """Two coupled decays 1e12 times faster than the time asked for; the other trajectory is at rest there."""
    stiff = CallableField(lambda x: 1e12 * (x[:, ::-1] - x) * [1.0, 2.0], 2)
    with pytest.warns(SimulationWarning, match="MAX_STEPS 1"):
        result = simulate(stiff, [[1.0, 0.0], [1.0, 1.0]], [0.0, 1.0], method="dop853")
    assert result.status.tolist() == [Status.MAX_STEPS, Status.SUCCESS]
    solution = integrate([stiff], np.array([[1.0, 0.0]]), [0.0, 1.0])
    assert solution.n_steps[0] == 5_000 and 0.0 < solution.t_stop[0] < 1e-6
    enough = integrate([stiff], np.array([[1.0, 0.0]]), [0.0, 2e-8])
    assert enough.status[0] == Status.SUCCESS and enough.n_steps[0] > 5_000


def test_a_stiff_trajectory_is_gone_on_with_by_an_implicit_method_alone():
    """Robertson's kinetics, over ten decades, beside a state at rest."""

    def rates(y):
        slow, fast, back = 0.04 * y[:, 0], 3e7 * y[:, 1] ** 2, 1e4 * y[:, 1] * y[:, 2]
        return np.stack([back - slow, slow - back - fast, fast], 1)

    t = np.r_[0.0, np.logspace(-4, 5, 30)]
    exact = solve_ivp(
        lambda _, y: rates(y[None])[0], (0, t[-1]), [1, 0, 0], "Radau", t, rtol=1e-11, atol=1e-16
    )
    counted = []
    field = CallableField(lambda y: counted.append(len(y)) or rates(y), 3)
    result = simulate(field, [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], t)
    assert result.status.tolist() == [Status.SUCCESS] * 2
    np.testing.assert_allclose(result.x[0], exact.y.T, rtol=1e-3, atol=1e-9)
    np.testing.assert_allclose(result.x[1], np.tile([0.0, 0.0, 1.0], (31, 1)))
    assert len(counted) < 10_000


def test_an_event_behind_the_switch_to_an_implicit_method():
    fast = CallableField(lambda x: np.stack([-1e5 * (x[:, 0] - x[:, 1]), -x[:, 1]], 1), 2)
    result = simulate(fast, [1.0, 1.0], [0.0, 0.5, 2.0], events=lambda t, x: x[:, 0] - np.exp(-1.0))
    assert result.status[0] == Status.EVENT
    assert result.dataset.event_time.values[0, 0] == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("options", [{}, {"rtol": 1e-8}, {"method": "dop853"}])
def test_a_population_close_to_the_axis_stays_positive(options):
    """The prey falls to 1e-11 of its peak and comes back; logarithms have no such zero."""

    def rates(y):
        return np.stack([3.0 - 8.0 * np.exp(y[:, 1]), 8.0 * np.exp(y[:, 0]) - 3.0], 1)

    t = np.linspace(0.0, 25.0, 200)
    logs = simulate(CallableField(rates, 2), np.log([10.0, 0.4]), t, rtol=1e-11, atol=1e-13).x[0]
    field = SymbolicField(["3*a-8*a*b", "8*a*b-3*b"], {}, state_names=["a", "b"])
    path = simulate(field, [10.0, 0.4], t, **options).x[0]
    assert path.min() > 0.0 and logs.min() < -20.0
    np.testing.assert_allclose(np.log(path), logs, atol=2e-4)


def test_a_jump_that_no_step_resolves():
    """Across x = 1 the field reverses: no step can follow it within the tolerance."""
    field = CallableField(lambda x: np.where(x < 1, 1.0, -1.0), 1)
    with pytest.warns(SimulationWarning):
        result = simulate(field, [0.0], [0.0, 0.5, 2.0], rtol=1e-13, max_steps=2000)
    assert result.status[0] in (Status.STEP_TOO_SMALL, Status.MAX_STEPS)
    assert result.x[0, :, 0] == pytest.approx([0.0, 0.5, np.nan], nan_ok=True)
    assert result.t_stop[0] == pytest.approx(1.0, abs=1e-6)


def test_bounds_are_relative_to_length_scale_and_can_be_moved():
    grow = CallableField(lambda x: x, 1)
    with pytest.warns(SimulationWarning):
        result = simulate(grow, [2.0], [0.0, 100.0], escape=1e3)
    assert result.t_stop[0] == pytest.approx(np.log(1e3), abs=1.0)
    assert simulate(grow, [2.0], [0.0, 100.0], escape=np.inf).x[0, -1, 0] == pytest.approx(
        2 * np.exp(100), rel=1e-4
    )


def test_nothing_warns_without_failure():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulate(CallableField(lorenz, 3), [1.0, 1.0, 1.0], np.linspace(0, 1, 5))


# ---------------------------------------------------------------- stiff


@pytest.mark.parametrize("method", ["radau", "lsoda"])
def test_stiff_problem_uses_the_jacobian(method):
    """Robertson's kinetics to t = 1e4, against the reference of Hairer and Wanner's kind: mass is kept."""
    calls = []

    def kinetics(x):
        a, b, c = x.T
        slow, fast, quadratic = 0.04 * a, 1e4 * b * c, 3e7 * b**2
        return np.column_stack([fast - slow, slow - fast - quadratic, quadratic])

    def jacobian(x):
        calls.append(len(x))
        _, b, c = x.T
        zero = np.zeros_like(b)
        rows = [
            -0.04 + zero,
            1e4 * c,
            1e4 * b,
            0.04 + zero,
            -1e4 * c - 6e7 * b,
            -1e4 * b,
            zero,
            6e7 * b,
            zero,
        ]
        return np.stack(rows, axis=1).reshape(-1, 3, 3)

    field = CallableField(kinetics, 3, jacobian)
    t = np.array([0.0, 0.4, 40.0, 4000.0])
    result = simulate(field, [1.0, 0.0, 0.0], t, rtol=1e-8, atol=1e-12, method=method)
    assert result.status[0] == Status.SUCCESS
    assert calls
    assert result.x[0].sum(axis=1) == pytest.approx(np.ones(4), abs=1e-9)
    # values printed with LSODE (A. C. Hindmarsh, ACM SIGNUM Newsletter 15 (1980) 10)
    assert result.x[0, 1:, 0] == pytest.approx([9.8517e-01, 7.1582e-01, 1.8320e-01], rel=1e-4)
    assert result.x[0, 1:, 1] == pytest.approx([3.3864e-05, 9.1851e-06, 8.9424e-07], rel=1e-3)


# ---------------------------------------------------------------- several fields


def test_a_list_of_fields_runs_field_i_from_state_i():
    rates = [-1.0, -2.0, 0.5]
    fields = [CallableField(lambda x, k=k: k * x, 1) for k in rates]
    t = np.linspace(0, 2, 9)
    result = simulate(fields, [[1.0], [2.0], [3.0]], t, rtol=1e-10)
    expected = np.array([1.0, 2.0, 3.0])[:, None] * np.exp(np.outer(rates, t))
    assert result.x[..., 0] == pytest.approx(expected, abs=1e-8)
    shared = simulate(fields, [1.0], t, rtol=1e-10)
    assert shared.x[..., 0] == pytest.approx(np.exp(np.outer(rates, t)), abs=1e-8)
    stiff = simulate(fields, [1.0], t, rtol=1e-10, method="lsoda")
    assert stiff.x[..., 0] == pytest.approx(np.exp(np.outer(rates, t)), abs=1e-8)


def test_fields_of_different_kinds_run_together():
    inner = CallableField(lambda x: -x, 1)
    result = simulate([AffineField(inner, 2.0, time_unit=0.5), inner], [1.0], [0.0, 1.0], rtol=1e-10)
    assert result.x[:, 1, 0] == pytest.approx(np.exp([-2.0, -1.0]), abs=1e-9)


@pytest.mark.parametrize("method", ["dop853", "radau"])
def test_absolute_tolerances_of_each_trajectory(method):
    """Each is integrated as with its own tolerance alone, of an ensemble too."""
    t, starts, atol = np.linspace(0, 9, 10), [[1.0, 0.0], [1.0, 0.0]], [[1e-3, 1e-3], [1e-11, 1e-11]]
    solved = simulate(CIRCLE, starts, t, rtol=1e-11, atol=atol, method=method).x
    for own, start, tolerance in zip(solved, starts, atol, strict=True):
        alone = simulate(CIRCLE, start, t, rtol=1e-11, atol=tolerance, method=method).x
        np.testing.assert_array_equal(own, alone[0])
    assert np.abs(solved[0] - solved[1]).max() > 1e-6
    both = simulate(EnsembleField([CIRCLE, CIRCLE]), starts, t, rtol=1e-11, atol=atol, method=method).x
    np.testing.assert_allclose(both, np.concatenate([solved, solved]), rtol=1e-12)
    with pytest.raises(ValueError, match=r"atol >= 0, one number, 2 or \(2, 2\)"):
        simulate(CIRCLE, starts, t, atol=np.ones((3, 2)))


def test_an_ensemble_stacks_its_members_with_a_coordinate():
    ensemble = EnsembleField([CallableField(lambda x, k=k: k * x, 1) for k in (-1.0, 1.0)])
    t = np.array([0.0, 0.5, 1.0])
    result = simulate(ensemble, [[1.0], [2.0], [3.0]], t, rtol=1e-10)
    assert result.coords["member"].tolist() == [0, 0, 0, 1, 1, 1]
    expected = np.array([1, 2, 3, 1, 2, 3])[:, None] * np.exp(np.outer([-1, -1, -1, 1, 1, 1], t))
    assert result.x[..., 0] == pytest.approx(expected, abs=1e-8)
    rows = simulate(ensemble, [[1.0], [2.0]], [[0.0, 1.0], [0.0, 2.0]], rtol=1e-10)
    assert rows.t.tolist() == [[0, 1], [0, 2], [0, 1], [0, 2]]
    assert rows.x[3, 1, 0] == pytest.approx(2 * np.exp(2), abs=1e-6)


def test_names_and_units_travel():
    t = np.linspace(0, 1, 5)
    context = Trajectories.from_arrays(
        on_circle(t), t, state_names=["prey", "predator"], units={"t": "d", "prey": "1/km2"}
    )
    result = simulate(CallableField(rotation, 2, context=context), [1.0, 0.0], t)
    assert result.state_names == ("prey", "predator")
    assert result.units == {"t": "d", "prey": "1/km2"}


# ---------------------------------------------------------------- events


def crossing(direction=0, terminal=None):
    def event(t, x):
        return x[:, 0]

    event.direction = direction
    if terminal is not None:
        event.terminal = terminal
    return event


@pytest.mark.parametrize("method", METHODS)
def test_terminal_event_at_the_exact_time(method):
    """cos vanishes at pi/2; a start at the angle pi/2 does not count, so that it next vanishes at 3 pi/2."""
    t = np.linspace(0, 10, 101)
    result = simulate(CIRCLE, [[1.0, 0.0], [0.0, 1.0]], t, rtol=1e-11, events=crossing(), method=method)
    assert result.status.tolist() == [Status.EVENT] * 2
    assert result.t_stop == pytest.approx([np.pi / 2, np.pi], abs=1e-8)
    assert result.dataset.x_stop.values == pytest.approx(np.array([[0, 1], [0, -1]]), abs=1e-8)
    assert np.isfinite(result.x[0, :16]).all() and np.isnan(result.x[0, 16:]).all()
    assert result.x[0, :16] == pytest.approx(on_circle(t[:16]), abs=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_events_that_do_not_stop_are_listed_in_order(method):
    falling, any_way = crossing(direction=-1, terminal=False), crossing(terminal=3)
    result = simulate(
        CIRCLE, [1.0, 0.0], np.linspace(0, 20, 5), 1e-11, events=[falling, any_way], method=method
    )
    assert result.status[0] == Status.EVENT
    assert result.t_stop[0] == pytest.approx(2.5 * np.pi, abs=1e-7)
    found = result.dataset
    assert found.event_index.values.tolist() == [[0, 1, 1, 0, 1]]
    expected = np.pi * np.array([0.5, 0.5, 1.5, 2.5, 2.5])
    assert found.event_time.values[0] == pytest.approx(expected, abs=1e-7)
    assert found.event_state.values[0, :, 1] == pytest.approx(np.sin(expected), abs=1e-7)


def test_events_backwards_in_time():
    rising = crossing(direction=1, terminal=2)
    result = simulate(CIRCLE, [1.0, 0.0], [0.0, -20.0], 1e-11, events=rising)
    # cos(-s) rises along the way at s = 3 pi / 2 and 7 pi / 2
    assert result.t_stop[0] == pytest.approx(-3.5 * np.pi, abs=1e-8)


def test_an_event_of_time():
    def halfway(t, x):
        return t - 0.3

    result = simulate(CIRCLE, [1.0, 0.0], [0.0, 1.0], events=halfway)
    assert result.t_stop[0] == pytest.approx(0.3, abs=1e-15)


def test_without_an_occurrence_nothing_is_listed():
    result = simulate(CIRCLE, [1.0, 0.0], [0.0, 1.0], events=[crossing()])
    assert result.status[0] == Status.SUCCESS
    assert result.dataset.event_time.shape == (1, 0)


# ---------------------------------------------------------------- the rest


def test_progress_ends_at_one():
    seen = []
    simulate(CIRCLE, [[1.0, 0.0], [0.5, 0.0]], [0.0, 200.0], progress=seen.append)
    assert seen[-1] == 1.0
    assert len(seen) > 3
    assert np.all(np.diff(seen) >= 0)


def test_a_field_that_scribbles_on_its_input_or_reuses_its_output():
    buffer = np.empty((1, 2))

    def rude(x):
        buffer[:, 0], buffer[:, 1] = -x[:, 1], x[:, 0]
        x[:] = np.nan
        return buffer

    t = np.linspace(0, 5, 11)
    x = simulate(CallableField(rude, 2), [[1.0, 0.0]], t[[0, -1]], rtol=1e-6).x
    assert x == pytest.approx(simulate(CIRCLE, [1.0, 0.0], t[[0, -1]], rtol=1e-6).x, abs=0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: simulate(CIRCLE, [1.0, 0.0, 0.0], [0, 1]), ["(2,) or (n, 2)", "(1, 3)"]),
        (lambda: simulate(CIRCLE, [1.0, np.nan], [0, 1]), ["finite initial states", "nan", "row 0"]),
        (lambda: simulate(CIRCLE, [1j, 0], [0, 1]), ["complex128"]),
        (lambda: simulate(CIRCLE, np.ones((2, 3, 2)), [0, 1]), ["(2, 3, 2)"]),
        (lambda: simulate(CIRCLE, [1.0, 0.0], [0, 1, 1]), ["strictly increasing", "[0. 1. 1.]"]),
        (lambda: simulate(CIRCLE, [1.0, 0.0], [0, 2, 1]), ["strictly increasing", "[0. 2. 1.]"]),
        (lambda: simulate(CIRCLE, [1.0, 0.0], [0, np.inf]), ["finite times", "inf"]),
        (lambda: simulate(CIRCLE, [1.0, 0.0], [0, np.nan, 1]), ["finite times", "nan"]),
        (lambda: simulate(CIRCLE, [1.0, 0.0], []), ["times (m,) or (n, m)", "(0,)"]),
        (lambda: simulate(CIRCLE, [1.0, 0.0], 3.0), ["times (m,) or (n, m)", "()"]),
        (lambda: simulate(CIRCLE, np.ones((3, 2)), np.ones((2, 4))), ["3 states", "(2, 4)"]),
        (lambda: simulate([CIRCLE] * 2, np.ones((3, 2)), [0, 1]), ["3 states", "2 fields"]),
        (lambda: simulate([], [1.0], [0, 1]), ["at least one field"]),
        (lambda: simulate(CIRCLE, [1.0, 0.0], [0, 1], method="euler"), ["dop853", "'euler'"]),
        (
            lambda: simulate(CIRCLE, [1.0, 0.0], [0, 1], rtol=0.0),
            ["rtol as a finite number of at least 2", "0.0"],
        ),
        (lambda: simulate(CIRCLE, [1.0, 0.0], [0, 1], rtol=np.inf), ["rtol as a finite number", "inf"]),
        (lambda: simulate(CIRCLE, [1.0, 0.0], [0, 1], atol=np.inf), ["finite atol", "inf"]),
        (lambda: simulate(CIRCLE, [1.0, 0.0], [0, 1], atol=[1.0, np.nan]), ["finite atol", "nan"]),
        (lambda: simulate(CIRCLE, [1.0, 0.0], [0, 1], atol=[1.0]), ["atol", "2", "[1.]"]),
        (lambda: simulate(CIRCLE, [1.0, 0.0], [0, 1], max_steps=0), ["max_steps", "0"]),
        (lambda: simulate(CIRCLE, [1.0, 0.0], [0, 1], events=lambda t, x: 1.0), ["event", "(1,)", "()"]),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError) as error:
        call()
    assert all(word in str(error.value) for word in ["simulate", *words]), str(error.value)


@pytest.mark.parametrize("method", METHODS)
def test_a_jacobian_with_infinities_ends_its_own_trajectory(method):
    field = CallableField(
        lambda x: np.where(x < 2, -x, x**2), 1, lambda x: np.where(x < 2, -1.0, np.inf)[:, :, None]
    )
    t = np.linspace(0.0, 1.0, 4)
    with pytest.warns(SimulationWarning):
        run = simulate(field, [[1.0], [3.0], [1.5]], t, method=method)
    assert run.status[[0, 2]].tolist() == [Status.SUCCESS] * 2 and run.status[1] != Status.SUCCESS
    np.testing.assert_allclose(run.x[[0, 2], :, 0], np.outer([1.0, 1.5], np.exp(-t)), rtol=1e-5)


def test_errors_of_a_field_are_not_taken_for_the_solver_s():
    def broken(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$"):
        simulate(CallableField(lambda x: -x, 1, broken), [1.0], [0, 1], method="radau")


def test_a_fitted_model_stands_for_its_field():
    class Model:
        field_ = CIRCLE

    for given in (Model(), [Model(), CIRCLE]):
        run = simulate(given, [[1.0, 0.0], [0.0, 1.0]], [0.0, 1.0])
        np.testing.assert_allclose(run.x[0, 1], on_circle(1.0), rtol=1e-6)


def test_what_is_not_a_field_is_named():
    class Unfitted:
        field_ = None

    for thing in (rotation, [CIRCLE, rotation], 3, Unfitted(), object()):
        with pytest.raises(TypeError, match=r"simulate: expected a VectorField, .* CallableField"):
            simulate(thing, [1.0, 0.0], [0, 1])
    with pytest.raises(TypeError, match="functions g"):
        simulate(CIRCLE, [1.0, 0.0], [0, 1], events=[3])


@pytest.mark.parametrize("method", ["dop853", "lsoda"])
def test_a_time_limit_ends_what_is_still_under_way_and_keeps_what_was_reached(method):
    def slow(x):
        time.sleep(0.002)
        return -x

    t = np.linspace(0.0, 1e4, 4001)
    with pytest.warns(SimulationWarning, match="OUT_OF_TIME 1"):
        began = time.perf_counter()
        result = simulate(CallableField(slow, 1), [1.0], t, max_step=0.5, method=method, max_seconds=0.3)
    assert time.perf_counter() - began < 5.0  # unlimited it takes 40 s and more
    reached = float(result.t_stop[0])
    assert result.status[0] == Status.OUT_OF_TIME and 0.0 < reached < 1e4
    x = np.asarray(result.arrays()[0][1]).ravel()
    np.testing.assert_allclose(x[t <= reached], np.exp(-t[t <= reached]), atol=1e-4)
    assert np.isnan(x[t > reached]).all()


def test_a_time_limit_inside_another_can_only_be_shorter():
    with time_limit("outer", 1e-9), time_limit("inner", 1e3):
        assert out_of_time()
    assert not out_of_time()


def test_states_within_the_default_tolerance_are_named():
    field = SymbolicField(["-1e-3*a", "v", "(1-(x*1e12)**2)*v-x"], state_names=["a", "x", "v"])
    with pytest.warns(SimulationWarning, match="simulate: x may be wrong.*pass atol"):
        simulate(field, [1.0, 2e-12, 0.0], [0.0, 50.0])
    fine = simulate(field, [1.0, 2e-12, 0.0], [0.0, 50.0], atol=[1e-9, 1e-20, 1e-20])
    alone = simulate(SymbolicField(["v", "(1-x**2)*v-x"], state_names=["x", "v"]), [2.0, 0.0], [0.0, 50.0])
    np.testing.assert_allclose(fine.x[0, -1, 1:] * 1e12, alone.x[0, -1], rtol=1e-4)


@pytest.mark.parametrize(
    ("rates", "start"),
    [(["v", "-x-v"], [1.0, 0.0]), (["-x", "-3*v"], [1.0, 1e-13]), (["v", "-x"], [1e-9, 0.0])],
)
def test_states_that_decay_or_grow_small_are_not_named(rates, start):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulate(SymbolicField(rates, state_names=["x", "v"]), start, [0.0, 60.0])


def test_complex_rates_are_refused_by_name():
    with pytest.raises(ValueError, match="CallableField: expected fn to return real numbers, got complex"):
        simulate(CallableField(lambda x: 1j * x, 2), [1.0, 0.0], [0.0, 1.0])
