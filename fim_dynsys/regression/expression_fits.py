"""Free parameters of given right-hand sides, fitted to trajectories from many starts."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.stats import qmc

from fim_dynsys.errors import check_named
from fim_dynsys.fields.expressions import compiled, slope
from fim_dynsys.fields.symbolic import parameter_names
from fim_dynsys.regression.criteria import bic
from fim_dynsys.regression.observed import Observations
from fim_dynsys.regression.refinement import FitStatus, fit_trajectory, parameter_covariance

_STARTS = 64  # tried per inner parameter, up to four times as many
_POLISHED = 6  # of the starts, on slopes
_FITTED = 3  # of those, on trajectories
_SEGMENTS = (10, 3, 1)  # pieces with starts of their own, merged in turn
_EVALUATIONS = 40  # of the slopes' misfit: only a start for the fit to trajectories
_ITERATIONS = 60  # of each fit to trajectories
_DECADES = 1.5  # of a natural size, to either side
_LARGEST = 1e100  # of a value whose square is summed
_NEGATIVE = 0.25  # share of negative starts: rates and sizes are mostly positive


class ExpressionProblem:
    """Right-hand sides as numpy functions of states, inputs and parameters.

    Parameters
    ----------
    expressions : tuple of sympy.Expr
        Right-hand sides, or other functions of the states.
    symbols : tuple of sympy.Symbol
        The states.
    inputs : tuple of sympy.Symbol
        What else is known at each point: points (n, d + m) then hold the inputs behind the states.
    names : list of str, optional
        The parameters; default those of the expressions.

    Attributes
    ----------
    names : list of str
        The parameters, sorted.
    linear : bool array (q,)
        A largest set, greedily found, of parameters in which the right-hand sides are jointly linear.
    """

    def __init__(
        self, expressions: tuple, symbols: tuple, inputs: tuple = (), names: list[str] | None = None
    ) -> None:
        import sympy

        self.names = parameter_names(expressions, (*symbols, *inputs)) if names is None else names
        self.dim = len(expressions)
        parameters = [sympy.Symbol(name, real=True) for name in self.names]
        by_parameter = [[slope(f, p) for p in parameters] for f in expressions]
        self.linear = _linear(by_parameter, parameters)
        everything = (*symbols, *inputs, *parameters)
        self._f = compiled(tuple(expressions), everything)
        self._by_x = compiled(tuple(slope(f, s) for f in expressions for s in symbols), everything)
        self._by_p = compiled(tuple(entry for row in by_parameter for entry in row), everything)

    def rhs(self, x: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Values (n, k) of k expressions at points (n, d) and parameters (q,)."""
        return self._f(*x.T, *p).T

    def jac_x(self, x: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Derivatives (n, k, d) by the states."""
        return self._by_x(*x.T, *p).T.reshape(len(x), self.dim, -1)

    def jac_p(self, x: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Derivatives (n, k, q) by the parameters."""
        if not self.names:
            return np.zeros((len(x), self.dim, 0))
        return self._by_p(*x.T, *p).T.reshape(len(x), self.dim, len(self.names))


@dataclass(frozen=True)
class ExpressionFit:
    """Fitted parameters of given right-hand sides.

    Attributes
    ----------
    parameters : dict of str to float
        In the units of the data.
    covariance : array (q, q)
        Of the parameters in the order of their names, that of the linearised fit.
    starts : array (P, d)
        Initial states of the pieces, in the units of the search.
    variance : array (d,)
        Weighted residual variances, in the units of the search.
    score : float
        BIC.
    status : FitStatus
        Of the trajectory fit.
    """

    parameters: dict
    covariance: np.ndarray
    starts: np.ndarray
    variance: np.ndarray
    score: float
    status: FitStatus


def fit_expressions(
    expressions: tuple,
    symbols: tuple,
    observations: Observations,
    start: dict[str, float] | None = None,
    seed: int = 0,
    time_limit: float | None = None,
) -> ExpressionFit:
    """Fit the free parameters of right-hand sides to observed trajectories.

    Parameters that enter linearly are regressed for given values of the others (variable projection, Golub &
    Pereyra 1973). The others start at many multiples of the natural sizes of states and times, are polished
    on smoothed slopes, and the best few are fitted to the trajectories together with the initial states.

    Parameters
    ----------
    expressions : tuple of sympy.Expr
        Right-hand sides in the units of the data.
    symbols : tuple of sympy.Symbol
        The states.
    observations : Observations
        Data.
    start : dict of str to float, optional
        Where named parameters start.
    seed : int
        Of the starts.
    time_limit : float, optional
        CPU seconds after which a trajectory fit, of which there are up to three, returns the best so far.

    Returns
    -------
    ExpressionFit

    Raises
    ------
    ValueError
        If a start names no parameter, or the right-hand sides are nowhere finite on the data.
    """
    problem = ExpressionProblem(expressions, symbols)
    start = check_named("fit_expressions", "start", start)
    unknown = sorted(set(start) - set(problem.names))
    if unknown:
        raise ValueError(
            f"fit_expressions: expected starts of parameters among {problem.names}, got {unknown}."
        )
    guesses = slope_guesses(problem, observations, start, seed)
    fits = [_fitted(problem, observations, guess, time_limit) for guess in guesses]
    return min(fits, key=lambda fit: fit.score)


def _linear(by_parameter: list[list], parameters: list) -> np.ndarray:
    chosen: list[int] = []
    for k, p in enumerate(parameters):
        others = [p, *(parameters[j] for j in chosen)]
        if all(slope(row[k], q) == 0 for row in by_parameter for q in others):
            chosen.append(k)
    return np.isin(np.arange(len(parameters)), chosen)


class _Slopes:
    """Smoothed slopes as a regression on the linear parameters, each state in units of its speed."""

    def __init__(self, problem: ExpressionProblem, observations: Observations) -> None:
        self.problem = problem
        scale, unit = observations.scale, observations.time_unit
        states = observations.with_inputs(np.concatenate(observations.path))
        self.x = states * observations.extended_scale
        slopes = np.concatenate([s for _, s in observations.splines]) * scale / unit
        speed = np.sqrt(np.mean(slopes**2, axis=0))
        self.root = 1.0 / np.where(speed > 0, speed, 1.0)
        self.target = slopes * self.root

    def profiled(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Parameters, the linear ones regressed, and residuals (n d,); None where values are not finite."""
        problem, linear = self.problem, self.problem.linear
        p = np.where(linear, 0.0, p)
        rest = self.problem.rhs(self.x, p) * self.root
        columns = problem.jac_p(self.x, p)[:, :, linear] * self.root[:, None]
        if not (np.abs(rest) < _LARGEST).all() or not (np.abs(columns) < _LARGEST).all():
            return None
        design, target = columns.reshape(rest.size, -1), (self.target - rest).ravel()
        size = np.sqrt(np.sum(design**2, axis=0))
        size = np.where(size > 0, size, 1.0)
        solution = np.linalg.lstsq(design / size, target, rcond=1e-10)[0]
        p[linear] = solution / size
        return p, target - design / size @ solution

    def judged(self, p: np.ndarray) -> tuple[float, np.ndarray]:
        """Misfit, infinite where values are not finite, and the parameters, the linear ones regressed."""
        result = self.profiled(p)
        return (np.inf, p) if result is None else (float(result[1] @ result[1]), result[0])


def slope_guesses(
    problem: ExpressionProblem, observations: Observations, start: dict[str, float], seed: int
) -> list[np.ndarray]:
    """The best few parameter vectors (q,) on smoothed slopes of all states.

    Raises
    ------
    ValueError
        Where the right-hand sides are nowhere finite on the data.
    """
    slopes = _Slopes(problem, observations)
    inner = np.flatnonzero(~problem.linear)
    p = np.array([start.get(name, 0.0) for name in problem.names])
    free = np.array([k for k in inner if problem.names[k] not in start], dtype=int)
    found = []
    tried = _STARTS * 2 ** min(max(len(free) - 1, 0), 2)
    for values in natural_starts(len(free), observations, seed, tried):
        p[free] = values
        result = slopes.profiled(p)
        if result is not None:
            found.append((float(result[1] @ result[1]), p.copy()))
    found.sort(key=lambda item: item[0])
    polished = [_polished(slopes, p, inner) for _, p in found[:_POLISHED]]
    polished.sort(key=lambda item: item[0])
    guesses: list[np.ndarray] = []
    for misfit, p in polished:
        if np.isfinite(misfit) and not any(np.allclose(p, known, rtol=1e-2) for known in guesses):
            guesses.append(_with_given(problem, p, start))
    if not guesses:
        raise ValueError(
            "fit_expressions: expected right-hand sides that are finite on the data for some values of "
            f"{', '.join(problem.names) or 'no parameters'}, got none; give start={{name: value}}."
        )
    return guesses[:_FITTED]


def _with_given(problem: ExpressionProblem, p: np.ndarray, start: dict[str, float]) -> np.ndarray:
    return np.array([start.get(name, value) for name, value in zip(problem.names, p, strict=True)])


def natural_starts(count: int, observations: Observations, seed: int, n: int) -> np.ndarray:
    """Values (n, count), log-uniform about the natural sizes: 1, states, their inverses, times and rates.

    A single row where ``count`` is 0.
    """
    if not count:
        return np.zeros((1, 0))
    span = max(t[-1] for t, _ in observations.samples) * observations.time_unit
    sizes = np.concatenate([[1.0, 2.0], observations.scale, [observations.time_unit, span]])
    sizes = np.concatenate([sizes, 1.0 / sizes])
    draws = qmc.Sobol(3 * count, seed=seed).random(n).reshape(n, count, 3)
    which = np.minimum((draws[:, :, 0] * len(sizes)).astype(int), len(sizes) - 1)
    sign = np.where(draws[:, :, 1] < _NEGATIVE, -1.0, 1.0)
    return sign * sizes[which] * 10.0 ** (_DECADES * (2.0 * draws[:, :, 2] - 1.0))


def _polished(slopes: _Slopes, p: np.ndarray, inner: np.ndarray) -> tuple[float, np.ndarray]:
    """Inner parameters where the smoothed slopes are fitted best near ``p``: misfit and parameters."""
    if not len(inner):
        return slopes.judged(p)
    worst = np.full(slopes.target.size, 1e3)

    def residuals(values: np.ndarray) -> np.ndarray:
        q = p.copy()
        q[inner] = values
        result = slopes.profiled(q)
        return worst if result is None else result[1]

    solution = least_squares(residuals, p[inner], x_scale=np.abs(p[inner]) + 1e-12, max_nfev=_EVALUATIONS)
    q = p.copy()
    q[inner] = solution.x
    return slopes.judged(q)


def _fitted(
    problem: ExpressionProblem, observations: Observations, guess: np.ndarray, time_limit: float | None
) -> ExpressionFit:
    """Trajectory fit in the units of the search."""
    scale, unit = observations.scale, observations.time_unit
    ratio = scale / scale[:, None]

    def rhs(z: np.ndarray, p: np.ndarray) -> np.ndarray:
        return problem.rhs(z * scale, p) * (unit / scale)

    def jac_x(z: np.ndarray, p: np.ndarray) -> np.ndarray:
        return problem.jac_x(z * scale, p) * (unit * ratio)

    def jac_p(z: np.ndarray, p: np.ndarray) -> np.ndarray:
        return problem.jac_p(z * scale, p) * (unit / scale)[:, None]

    fit = fit_trajectory(
        rhs,
        jac_x,
        jac_p,
        guess,
        observations.start,
        observations.samples,
        observations.weights_over(observations.noise_variance),
        _SEGMENTS,
        time_limit=time_limit,
        start_precision=1.0 / observations.start_variance,
        paths=observations.path,
        max_step=observations.interval_limits,
        max_iterations=_ITERATIONS,
    )
    padded = np.zeros_like(observations.z)
    for k, path in enumerate(fit.paths):
        padded[k, : len(path)] = path
    variance = observations.residual_variance(padded)
    count = len(problem.names)
    score = bic(variance, observations.counts, count, observations.signal_variance, len(observations.samples))
    n = observations.n_values
    covariance = parameter_covariance(fit, n)
    return ExpressionFit(
        dict(zip(problem.names, map(float, fit.parameters), strict=True)),
        covariance,
        fit.initial_states,
        variance,
        float(score),
        fit.status,
    )
