"""Trajectory fits: parameters and initial states by multiple shooting with forward sensitivities."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.regression.roots import inverse_root
from fim_dynsys.regression.shooting import DAMPING, PACE_LIMIT, Data, Linearisation, Shooting, tangent_maps
from fim_dynsys.trajectories.container import Trajectories

_EVERY, _LONG = 1_000_000, 25  # free starts, as many as there may be, and iterations where steps are refined
_NEAR = 1.2  # noise variances that nodes leave, gaps included, where a fit begins with few free starts
_AGAIN = 2  # times that a stage which has converged goes on in shorter steps
_DECREASE = 1e-5  # relative decrease of the merit below which a stage has converged


class FitStatus(Enum):
    """How a trajectory fit ended."""

    CONVERGED = "converged"
    MAX_ITERATIONS = "largest number of iterations reached"
    TIME_LIMIT = "time limit reached"
    STALLED = "no damped step lowers the misfit"
    DIVERGED = "the fitted field leaves the data: the start is returned"


@dataclass(frozen=True)
class TrajectoryFit:
    """Result of `fit_trajectory`.

    Attributes
    ----------
    parameters : array (q,)
        Fitted parameters.
    initial_states : array (T, d)
        Fitted states at each trajectory's first time.
    misfit : float
        Weighted sum of squared residuals of the integrated trajectories, the prior not included; ``inf``
        where they are not finite.
    paths : list of arrays (n, d)
        The integrated trajectories at the observation times.
    information : array (q, q)
        Half the Hessian of the misfit (Gauss-Newton), initial states eliminated, prior included.
    status : FitStatus
        Of the last stage.
    iterations : int
        Linearisations in all stages.
    """

    parameters: np.ndarray
    initial_states: np.ndarray
    misfit: float
    paths: list
    information: np.ndarray
    status: FitStatus
    iterations: int


def fit_trajectory(
    rhs: Callable | None,
    jac_x: Callable | None,
    jac_p: Callable | None,
    parameters: ArrayLike,
    initial_states: ArrayLike,
    trajectories: Trajectories | Sequence[tuple[np.ndarray, np.ndarray]],
    weights: Sequence[np.ndarray] | None = None,
    segments: Sequence[int] = (5, 1),
    prior_precision: ArrayLike | None = None,
    time_limit: float | None = None,
    *,
    start_precision: ArrayLike | None = None,
    paths: Sequence[np.ndarray] | None = None,
    max_step: float | np.ndarray | None = None,
    max_iterations: int = 12,
    check: bool = True,
    interval_maps: Callable | None = None,
    finer: Callable | None = None,
) -> TrajectoryFit:
    """Fit the parameters and initial states of a field to observed trajectories.

    Weighted least squares by lifted multiple shooting: the states at all observation times are kept as
    variables, the integrator is linearised between them for all intervals at once (exact derivatives of the
    classical Runge-Kutta scheme), and the free start of each segment and the gaps are eliminated, so that
    the step is that of Gauss-Newton over parameters and segment starts. Levenberg-Marquardt damping guards
    each step by the merit misfit + gaps. A last integration in one piece decides whether the result is kept.

    Parameters
    ----------
    rhs : callable
        ``(x (n, d), p (q,)) -> (n, d)``.
    jac_x : callable
        ``(x, p) -> (n, d, d)``, derivative by the state.
    jac_p : callable
        ``(x, p) -> (n, d, q)``, derivative by the parameters.
    parameters : array (q,)
        Start, and mean of the prior.
    initial_states : array (T, d)
        Start, one per trajectory.
    trajectories : Trajectories or list of (t (n,), x (n, d))
        Observations; NaN where missing.
    weights : list of arrays (n, d), optional
        Inverse noise variances, up to a common factor; default 1.
    segments : sequence of int
        Number of segments with a free start in each stage, per trajectory; the last is normally 1.
    prior_precision : array (q,) or (q, q), optional
        Precision of a Gaussian prior, in units of the weights.
    time_limit : float, optional
        CPU seconds after which the best so far is returned.
    start_precision : array (T, d), optional
        Precision of independent Gaussian priors of the initial states about ``initial_states``.
    paths : list of arrays (n, d), optional
        States to linearise about first, for example smoothed observations. Default: the field integrated from
        ``initial_states`` where that stays near the data, else the observations.
    max_step : float or array (N - 1,), optional
        Longest Runge-Kutta step, of each interval; default 0.15 of the time in which the state travels one
        standard deviation.
    max_iterations : int
        Largest number of accepted or rejected steps in each stage.
    check : bool
        Whether to integrate the result in one piece, and to return the start where that fits better.
        Otherwise ``paths`` of the result are the nodes, whose gaps vanish as the iterations converge, and
        ``misfit`` is theirs, gaps included.
    interval_maps : callable, optional
        A faster equal of what `rhs`, `jac_x` and `jac_p` give: from ``(p, nodes (N + 1, d), steps (N,),
        counts (N,))`` the ends (N, d) and their derivatives (N, d, d + q) by start and parameters, after
        ``counts`` classical Runge-Kutta steps of length ``steps`` from each node but the last. With it, and
        with `paths`, `max_step` and ``check=False``, the first three arguments may be None.
    finer : callable, optional
        From ``(p, nodes, lengths (N,), counts (N,))`` the counts (N,) by which no interval errs by more than
        it may. It is asked as each stage begins, and where one has converged, which then goes on in shorter
        steps. Where it asks for more at first, and `paths` are far from any of the field, a stage with a free
        start every other sample, and more iterations, come before the others. Default: `max_step` is all.

    Returns
    -------
    TrajectoryFit

    Raises
    ------
    ValueError
        If shapes do not fit together.

    References
    ----------
    H. G. Bock, Recent advances in parameter identification techniques for ODE (1983), sect. 3 (multiple
    shooting); J. Albersmeyer, M. Diehl, The lifted Newton method and its application in optimization, SIAM J.
    Optim. 20 (2010) 1655, algorithm 2.
    """
    p0 = np.array(parameters, dtype=np.float64)
    data = Data.of(trajectories, weights)
    x0 = np.array(initial_states, dtype=np.float64).reshape(-1, data.dim)
    if p0.ndim != 1 or len(x0) != len(data.first) - 1:
        raise ValueError(
            "fit_trajectory: expected parameters (q,) and initial states "
            f"({len(data.first) - 1}, {data.dim}), got {p0.shape} and {np.shape(initial_states)}."
        )
    prior = np.zeros((len(p0), len(p0)))
    if prior_precision is not None:
        given = np.asarray(prior_precision, dtype=np.float64)
        prior = np.diag(given) if given.ndim == 1 else given
        if prior.shape != (len(p0), len(p0)):
            raise ValueError(f"fit_trajectory: expected prior_precision ({len(p0)},), got {given.shape}.")
    pull = np.zeros_like(x0)
    if start_precision is not None:
        pull = np.broadcast_to(np.asarray(start_precision, dtype=np.float64), x0.shape)
    if interval_maps is None:
        if rhs is None or jac_x is None or jac_p is None:
            raise ValueError("fit_trajectory: expected rhs, jac_x and jac_p, or interval_maps, got neither.")
        interval_maps = tangent_maps(rhs, jac_x, jac_p)
    deadline = None if time_limit is None else time.process_time() + time_limit
    with np.errstate(all="ignore"):
        if max_step is None:
            max_step = _default_step(rhs, p0, data)
        problem = Shooting(rhs, interval_maps, data, (prior, p0), (pull, x0), max_step, finer)
        return _staged(problem, p0, x0, paths, segments, max_iterations, deadline, check)


def parameter_roots(fit: TrajectoryFit, n: int) -> np.ndarray:
    """Root R of the covariance ``R^T R`` of fitted parameters by the linearised fit.

    A prior as wide as ten times each parameter holds those that the data do not determine. No direction is
    known less well than by the prior, though rounding may leave an information that is not positive.

    Parameters
    ----------
    fit : TrajectoryFit
        Its weights are the inverse noise variances, up to a common factor that raises the variance.
    n : int
        Number of observed values.

    Returns
    -------
    array (q, q)
    """
    diagonal = np.diagonal(fit.information)
    alone = np.where(diagonal > 0, 1.0 / np.where(diagonal > 0, diagonal, 1.0), 0.0)
    prior = 0.01 / np.maximum(fit.parameters**2 + alone, 1e-300)
    scale = 1.0 / np.sqrt(diagonal + prior)
    least = prior * scale**2
    root = inverse_root(fit.information * scale[:, None] * scale + np.diag(least), least)
    return root * scale * np.sqrt(max(fit.misfit / n, 1.0))


def parameter_covariance(fit: TrajectoryFit, n: int) -> np.ndarray:
    """Covariance (q, q) of fitted parameters, see `parameter_roots`."""
    root = parameter_roots(fit, n)
    return root.T @ root


def path_response(
    interval_maps: Callable,
    parameters: ArrayLike,
    paths: Sequence[np.ndarray],
    trajectories: Trajectories | Sequence[tuple[np.ndarray, np.ndarray]],
    weights: Sequence[np.ndarray],
    expected_starts: np.ndarray,
    start_precision: ArrayLike,
    max_step: float | np.ndarray,
    finer: Callable | None = None,
) -> tuple[np.ndarray, np.ndarray, float]:
    """How the misfit of given paths depends on all parameters, to second order; the starts are free.

    Parameters
    ----------
    interval_maps, trajectories, weights, max_step, finer
        As for `fit_trajectory`.
    parameters : array (q,)
        With which the paths were integrated.
    paths : list of arrays (n, d)
        At the observation times.
    expected_starts, start_precision : arrays (T, d)
        Means and precisions of priors of the initial states.

    Returns
    -------
    information : array (q, q)
        Half the second derivatives (Gauss-Newton), initial states eliminated; zeros where the misfit is not
        finite.
    score : array (q,)
        Minus half the first derivatives; zeros likewise.
    misfit : float
        Of the paths, with the priors of the starts; ``inf`` where it is not finite.
    """
    p = np.asarray(parameters, dtype=np.float64)
    data = Data.of(trajectories, weights)
    nodes = np.concatenate(paths)
    prior = np.zeros((len(p), len(p))), p
    pull = np.broadcast_to(np.asarray(start_precision, dtype=np.float64), expected_starts.shape)
    with np.errstate(all="ignore"):
        problem = Shooting(None, interval_maps, data, prior, (pull, expected_starts), max_step, finer)
        problem.adapt(p, nodes)
        linear = problem.linearise(p, nodes, data.segments(1))
        if not np.isfinite(linear.merit):
            return problem.prior, problem.rest, np.inf
        information, score, _ = problem._eliminated(linear, 0.0, p)
    return information, score, linear.merit


def _staged(
    problem: Shooting,
    p0: np.ndarray,
    x0: np.ndarray,
    paths: Sequence[np.ndarray] | np.ndarray | None,
    segments: Sequence[int],
    max_iterations: int,
    deadline: float | None,
    check: bool,
) -> TrajectoryFit:
    data = problem.data
    first = problem.integrate(p0, x0) if check or paths is None else None
    if paths is None:
        assert first is not None
        paths = first if data.stays_near(first) else data.filled()
    nodes = np.array(paths if isinstance(paths, np.ndarray) else np.concatenate(paths), dtype=np.float64)
    p, status, iterations, information, merit = p0, FitStatus.STALLED, 0, problem.prior, np.inf
    if problem.adapt(p0, nodes) and not _is_near(problem, p0, nodes, segments[0]):
        segments, max_iterations = (_EVERY, *segments), max(max_iterations, _LONG)
    for count in segments:
        p, nodes, linear, status, used = _stage(problem, p, nodes, count, max_iterations, deadline)
        information, merit = problem.information(linear), linear.merit
        iterations += used
        if status is FitStatus.TIME_LIMIT:
            break
    starts = nodes[data.first[:-1]]
    if not check:
        misfit = merit - problem.prior_cost(p, starts)
        return TrajectoryFit(p, starts, misfit, data.split(nodes), information, status, iterations)
    assert first is not None
    start_misfit = data.misfit(first)
    final = problem.integrate(p, starts)
    misfit = data.misfit(final)
    if not np.isfinite(misfit):
        return TrajectoryFit(
            p0, x0, start_misfit, data.split(first), information, FitStatus.DIVERGED, iterations
        )
    if start_misfit + problem.prior_cost(p0, x0) < misfit + problem.prior_cost(p, starts):
        return TrajectoryFit(
            p0, x0, start_misfit, data.split(first), information, FitStatus.STALLED, iterations
        )
    return TrajectoryFit(p, starts, misfit, data.split(final), information, status, iterations)


def _is_near(problem: Shooting, p: np.ndarray, nodes: np.ndarray, count: int) -> bool:
    """Whether nodes are a path near the data but for gaps that one step or two will close."""
    seen = np.count_nonzero(problem.data.weights)
    return bool(problem.linearise(p, nodes, problem.data.segments(count)).merit < _NEAR * seen)


def _stage(
    problem: Shooting,
    p: np.ndarray,
    nodes: np.ndarray,
    count: int,
    max_iterations: int,
    deadline: float | None,
) -> tuple[np.ndarray, np.ndarray, Linearisation, FitStatus, int]:
    """Levenberg-Marquardt steps with ``count`` free starts per trajectory."""
    segments = problem.data.segments(count)
    problem.adapt(p, nodes)
    linear = problem.linearise(p, nodes, segments)
    again = _AGAIN
    if not np.isfinite(linear.merit):
        return p, nodes, linear, FitStatus.DIVERGED, 0
    damping, status, used = DAMPING[0], FitStatus.MAX_ITERATIONS, 0
    while used < max_iterations:
        if deadline is not None and time.process_time() > deadline:
            status = FitStatus.TIME_LIMIT
            break
        used += 1
        p_new, nodes_new = problem.step(linear, p, nodes, damping)
        trial = problem.linearise(p_new, nodes_new, segments)
        if trial.merit <= linear.merit:
            converged = linear.merit - trial.merit <= _DECREASE * linear.merit
            p, nodes, linear = p_new, nodes_new, trial
            damping = max(damping * 0.1, 1e-12)
            if converged:
                if again and problem.adapt(p, nodes):
                    again -= 1
                    linear = problem.linearise(p, nodes, segments)
                    continue
                status = FitStatus.CONVERGED
                break
            continue
        if trial.merit <= linear.merit * (1.0 + 1e-9):
            status = FitStatus.CONVERGED
            break
        damping *= 10.0
        if damping > DAMPING[1]:
            status = FitStatus.STALLED
            break
    return p, nodes, linear, status, used


def _default_step(rhs: Callable | None, p: np.ndarray, data: Data) -> float:
    if rhs is None:
        raise ValueError("fit_trajectory: expected rhs or max_step, got neither.")
    points = data.filled()
    speed = np.mean(rhs(points, p) ** 2)
    spread = np.mean(np.var(points, axis=0))
    longest = np.max(data.times[data.first[1:] - 1] - data.times[data.first[:-1]])
    return PACE_LIMIT * np.sqrt(spread / speed) if speed > 0 and spread > 0 else longest
