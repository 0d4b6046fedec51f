"""Given right-hand sides of whose states only functions were observed: parameters and hidden states."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.linalg import LinAlgError, solveh_banded

from fim_dynsys.regression.criteria import ADDITIVE_SHARES, VARIANCE_FLOOR, Noise, NoiseModel
from fim_dynsys.regression.expression_fits import ExpressionProblem, natural_starts
from fim_dynsys.regression.observed import Observations
from fim_dynsys.regression.refinement import FitStatus
from fim_dynsys.regression.shooting import Data, tangent_maps

_STARTS = 64  # places from which fits may begin; the best of them are followed
_KEPT = (32, 24, 20, 16, 12, 8, 6, 4, 4, 3, 2)  # how many go on after each level
# weights of the dynamics over that of the data
_LEVELS = 10.0 ** np.concatenate([[-2.0, -2.0], np.arange(-2.0, 4.1, 0.75)])
_NEAR = 6  # levels that are left out
_ATTEMPTS = 2  # with other starts, while none explains the data
_EXPLAINED = 2.0  # noise variances that are left
_ITERATIONS = 4  # of each level
_LAST, _ROUND = 20, 12  # rounds of the last, and iterations of each
_COLLINEAR = 1e-3  # of the largest singular value: what is less determined stays
_GAP = 1e-7  # of a state's size: a path without larger ones is a solution
_CONVERGED = 1e-6  # relative decrease
_LEAST_DAMPING, _MOST_DAMPING = 1e-9, 1e6  # of unit curvatures; beyond the latter a descent ends
_REWEIGHTINGS = 3  # in which observations are weighed by what the fit expects of them
_LEAST_MEAN = 1e-2  # of counts that are weighed
_UNKNOWN = 3.0  # sizes: numbers whose errors are larger are not determined
_PRIOR = 10.0  # sizes, of the wide prior that holds these


@dataclass(frozen=True)
class HiddenFit:
    """Parameters and states of right-hand sides that were observed in part.

    Attributes
    ----------
    parameters : dict of str to float
        In the units of the data.
    covariance : array (q, q)
        Of the parameters in the order of their names.
    paths : list of arrays (n, d)
        States at the samples of each piece, in the units of the data.
    expected : list of arrays (n, m)
        What is expected of the observations there.
    undetermined : tuple of str
        Parameters, and starts of states as in ``"s(0)"``, of which the data do not tell the size.
    score : float
        Weighted misfit, and the logarithm of the number of observations for each number that was fitted.
    status : FitStatus
        Of the last level.
    """

    parameters: dict[str, float]
    covariance: np.ndarray
    paths: list[np.ndarray]
    expected: list[np.ndarray]
    undetermined: tuple[str, ...]
    score: float
    status: FitStatus


@dataclass(frozen=True)
class HiddenProblem:
    """What is fitted.

    Attributes
    ----------
    rates : ExpressionProblem
        Right-hand sides of d states.
    seen : ExpressionProblem
        What was observed as m functions of states and inputs, with the same parameters.
    observations : Observations
        Of the m observed functions, and of the inputs.
    direct : int array (m,)
        The state that an observed function is, -1 where it is none.
    noise : Noise
        Of the observations.
    """

    rates: ExpressionProblem
    seen: ExpressionProblem
    observations: Observations
    direct: np.ndarray
    noise: Noise


def fit_hidden(
    problem: HiddenProblem,
    guesses: Sequence[tuple[np.ndarray, np.ndarray]] | None = None,
    start: dict[str, float] | None = None,
    state_names: Sequence[str] = (),
    seed: int = 0,
) -> HiddenFit:
    """Fit parameters and all states, observed or not, to what was observed.

    The states at all samples are variables beside the parameters. What counts is the misfit of the
    observations and that of the dynamics from each sample to the next. The weight of the dynamics grows from
    little, where the path follows the data; many starts begin, the best go on. In the end multipliers make
    the path a solution.

    Parameters
    ----------
    problem : HiddenProblem
        Data and right-hand sides.
    guesses : list of (states (N, d), parameters (q,)), optional
        Starts; default constant hidden states and parameters at multiples of the natural sizes.
    start : dict of str to float, optional
        Where named parameters, and hidden states, start.
    state_names : sequence of str
        Names of the d states.
    seed : int
        Of the starts.

    Returns
    -------
    HiddenFit

    Raises
    ------
    ValueError
        If a start names neither a parameter nor a state, or the right-hand sides are nowhere finite.

    References
    ----------
    J. Ye et al., Improved variational methods in statistical data assimilation, Nonlin. Processes Geophys. 22
    (2015) 205 (the growing weight of the dynamics); M. J. D. Powell, A method for nonlinear constraints in
    minimization problems, in Optimization, ed. R. Fletcher (1969) 283 (multipliers).
    """
    annealed = _Annealing(problem)
    known = dict(start or {})
    wrong = sorted(set(known) - set(problem.rates.names) - set(state_names))
    if wrong:
        raise ValueError(
            f"fit_hidden: expected starts of parameters or states among "
            f"{[*problem.rates.names, *state_names]}, got {wrong}."
        )
    # where all states were seen no start is far; else the best of some may still be none
    levels = _LEVELS if guesses is None else _LEVELS[_NEAR:]
    fits: list[tuple[float, float, HiddenFit]] = []
    for attempt in range(_ATTEMPTS if guesses is None else 1):
        begun = annealed.starts(known, list(state_names), seed + attempt) if guesses is None else guesses
        for x, p in _best(annealed, begun, levels):
            weighted = annealed
            for _ in range(1 if problem.noise is Noise.GIVEN else _REWEIGHTINGS):
                weighted = weighted.reweighted(x, p)
                x, p, status = weighted.closed(x, p)
            misfit, gaps = annealed.misfit_and_gaps(x, p)
            fits.append((misfit + gaps, gaps, weighted.answer(x, p, status, state_names)))
        if fits and min(misfit for misfit, *_ in fits) < _EXPLAINED * np.count_nonzero(annealed.weights):
            break
    if not fits:
        raise ValueError(
            "fit_hidden: expected right-hand sides that are finite on the data for some values of "
            f"{', '.join(problem.rates.names) or 'no parameters'}, got none; give start={{name: value}}."
        )
    return min(fits, key=lambda item: item[2].score + item[1])[2]


def _best(
    annealed: "_Annealing", guesses: Sequence[tuple[np.ndarray, np.ndarray]], levels: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The starts that are left once the weight of the dynamics has grown."""
    alive, kept = list(guesses), _KEPT[-len(levels) :]
    for k, level in enumerate(levels):
        moved = [annealed.descended(x, p, float(level), _ITERATIONS) for x, p in alive]
        moved = sorted((m for m in moved if np.isfinite(m[2])), key=lambda m: m[2])
        alive = []
        for x, p, _, _ in moved[: kept[k]]:
            if not any(np.allclose(p, q, rtol=1e-3) and np.allclose(x, y, rtol=1e-3) for y, q in alive):
                alive.append((x, p))
    return alive


class _Annealing:
    """Gauss-Newton over the states at all samples and the parameters."""

    def __init__(self, problem: HiddenProblem) -> None:
        seen = problem.observations
        self.problem, self.rates = problem, problem.rates
        unit = seen.time_unit
        self.scale = seen.scale
        variance = seen.noise_variance
        self.data = Data.of(seen.samples, seen.weights_over(variance))
        self.weights = self.data.weights
        self.inputs = np.concatenate(seen.inputs) * seen.input_scale
        curves = seen.interval_curves * seen.input_scale if seen.n_inputs else None
        rates = problem.rates

        def scaled(function: Callable) -> Callable:
            return lambda x, p: unit * function(x, p)

        self.maps = tangent_maps(scaled(rates.rhs), scaled(rates.jac_x), scaled(rates.jac_p), curves)
        gaps = np.diff(self.data.times)
        self.linked = np.ones(len(gaps), dtype=bool)
        self.linked[self.data.first[1:-1] - 1] = False
        gaps[~self.linked] = 0.0
        self.counts = np.maximum(np.ceil(gaps / seen.interval_limits - 1e-9), 1).astype(np.int64)
        self.steps = gaps / self.counts
        self.typical = float(np.mean(self.weights))
        self.dim = rates.dim

    # ------------------------------------------------------------------ starts

    def starts(
        self, known: dict[str, float], names: list[str], seed: int
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Smoothed states where these were seen; constants, and parameters, of natural sizes."""
        seen, direct = self.problem.observations, self.problem.direct
        smooth = np.concatenate(seen.path) * self.scale
        hidden = [i for i in range(self.dim) if i not in direct]
        parameters = self.rates.names
        found = []
        for values in natural_starts(len(parameters) + len(hidden), seen, seed, _STARTS):
            p = np.array([known.get(n, v) for n, v in zip(parameters, values, strict=False)])
            x = np.empty((len(smooth), self.dim))
            for i, value in zip(hidden, values[len(parameters) :], strict=True):
                x[:, i] = known.get(names[i], abs(value)) if names else abs(value)
            for k, i in enumerate(direct):
                if i >= 0:
                    x[:, i] = smooth[:, k]
            found.append((x, self.regressed(x, p, known)))
        return found

    def regressed(self, x: np.ndarray, p: np.ndarray, known: dict[str, float]) -> np.ndarray:
        """Parameters, the linear ones moved as little as it takes to the slopes of states that were seen."""
        rates, seen, direct = self.rates, self.problem.observations, self.problem.direct
        columns = np.flatnonzero(rates.linear & ~np.isin(rates.names, list(known)))
        shown = np.flatnonzero(direct >= 0)
        if not len(columns) or not len(shown):
            return p
        points = np.concatenate([x, self.inputs], axis=1)
        slopes = np.concatenate([v for _, v in seen.splines])[:, shown] / seen.time_unit * self.scale[shown]
        unit = np.sqrt(np.mean(slopes**2, axis=0))
        unit = np.where(unit > 0, unit, 1.0)
        residual = (slopes - rates.rhs(points, p)[:, direct[shown]]) / unit
        design = rates.jac_p(points, p)[:, direct[shown]][:, :, columns] / unit[:, None] * p[columns]
        if not (np.isfinite(residual).all() and np.isfinite(design).all()):
            return p
        moved = np.linalg.lstsq(design.reshape(-1, len(columns)), residual.ravel(), rcond=_COLLINEAR)[0]
        p[columns] *= 1.0 + moved
        return p

    # ------------------------------------------------------------------ one level

    def linearised(
        self, x: np.ndarray, p: np.ndarray, shift: np.ndarray | float = 0.0
    ) -> tuple[np.ndarray, ...] | None:
        """Residuals, shifted defects and their derivatives; None where they are not finite."""
        ends, tangent = self.maps(p, x, self.steps, self.counts)
        points = np.concatenate([x, self.inputs], axis=1)
        seen = self.problem.seen
        residual = self.data.residuals(seen.rhs(points, p) / self.scale)
        by_x = seen.jac_x(points, p) / self.scale[:, None]
        by_p = seen.jac_p(points, p) / self.scale[:, None]
        defect = np.where(self.linked[:, None], x[1:] - ends + shift, 0.0)
        tangent = np.where(self.linked[:, None, None], tangent, 0.0)
        parts = (residual, by_x, by_p, defect, tangent)
        return parts if all(np.isfinite(part).all() for part in parts) else None

    def sizes(self, x: np.ndarray) -> np.ndarray:
        """Standard deviation (d,) of the states, and a tenth of their root mean square."""
        size = np.sqrt(np.var(x, axis=0) + 0.01 * np.mean(x**2, axis=0))
        return np.where(size > 0, size, 1.0)

    def cost(self, parts: tuple[np.ndarray, ...], precision: np.ndarray) -> float:
        residual, _, _, defect, _ = parts
        total = float(np.sum(self.weights * residual**2) + np.sum(precision * defect**2))
        return total if np.isfinite(total) else np.inf

    def closed(self, x: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, FitStatus]:
        """The best path that is a solution: the defects vanish as their multipliers grow."""
        shift, last = np.zeros((len(x) - 1, self.dim)), np.inf
        for _ in range(_LAST):
            x, p, *_ = self.descended(x, p, float(_LEVELS[-1]), _ROUND, shift, _LEAST_DAMPING)
            parts = self.linearised(x, p)
            if parts is None:
                return x, p, FitStatus.DIVERGED
            residual, defect = parts[0], parts[3]
            misfit = float(np.sum(self.weights * residual**2))
            small = np.abs(defect / self.sizes(x)).max() < _GAP
            if small and abs(last - misfit) < _CONVERGED * misfit:
                return x, p, FitStatus.CONVERGED
            shift, last = shift + defect, misfit
        return x, p, FitStatus.MAX_ITERATIONS

    def descended(
        self,
        x: np.ndarray,
        p: np.ndarray,
        level: float,
        iterations: int,
        shift: np.ndarray | float = 0.0,
        damping: float = 1e-4,
    ) -> tuple[np.ndarray, np.ndarray, float, FitStatus]:
        """Levenberg-Marquardt at one weight of the dynamics: states, parameters, cost, how it ended."""
        precision = level * self.typical / self.sizes(x) ** 2
        parts = self.linearised(x, p, shift)
        if parts is None:
            return x, p, np.inf, FitStatus.DIVERGED
        cost = self.cost(parts, precision)
        for _ in range(iterations):
            step = self.step(parts, precision, damping)
            if step is None:
                damping *= 100.0
                continue
            trial = self.linearised(x + step[0], p + step[1], shift)
            new = np.inf if trial is None else self.cost(trial, precision)
            if trial is not None and new <= cost:
                x, p, parts = x + step[0], p + step[1], trial
                small = cost - new <= _CONVERGED * cost
                cost, damping = new, max(damping * 0.1, _LEAST_DAMPING)
                if small:
                    return x, p, cost, FitStatus.CONVERGED
                continue
            damping *= 10.0
            if damping > _MOST_DAMPING:
                return x, p, cost, FitStatus.STALLED
        return x, p, cost, FitStatus.MAX_ITERATIONS

    def normal(
        self, parts: tuple[np.ndarray, ...], precision: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Normal equations: blocks on and beside the diagonal, border, corner; and minus the gradient."""
        residual, by_x, by_p, defect, tangent = parts
        a, b = tangent[:, :, : self.dim], tangent[:, :, self.dim :]
        weighed = self.weights[:, :, None] * by_x
        v = precision * self.linked[:, None]
        va = v[:, :, None] * a
        vb = v[:, :, None] * b
        blocks = np.swapaxes(weighed, 1, 2) @ by_x
        border = np.swapaxes(weighed, 1, 2) @ by_p
        moment = np.einsum("nki,nk->ni", weighed, residual)
        blocks[:-1] += np.swapaxes(a, 1, 2) @ va
        blocks[1:] += v[:, :, None] * np.eye(self.dim)
        beside = -np.swapaxes(va, 1, 2)
        border[:-1] += np.swapaxes(va, 1, 2) @ b
        border[1:] -= vb
        moment[:-1] += np.einsum("nki,nk->ni", va, defect)
        moment[1:] -= v * defect
        corner = np.einsum("nki,nk,nkj->ij", by_p, self.weights, by_p) + np.einsum("nki,nkj->ij", b, vb)
        right = np.einsum("nki,nk,nk->i", by_p, self.weights, residual) + np.einsum("nki,nk->i", vb, defect)
        return blocks, beside, border, corner, moment, right

    def banded(self, blocks: np.ndarray, beside: np.ndarray) -> np.ndarray:
        """A block tridiagonal matrix as scipy's banded solvers take it."""
        n, d = len(blocks), self.dim
        upper = 2 * d - 1
        band = np.zeros((2 * d, n * d))
        for i in range(d):
            for j in range(d):
                if j >= i:
                    band[upper + i - j, j::d] = blocks[:, i, j]
                band[upper + i - d - j, d + j :: d] = beside[:, i, j]
        return band

    def step(
        self, parts: tuple[np.ndarray, ...], precision: np.ndarray, damping: float
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Changes of states and parameters; None where the equations cannot be solved."""
        blocks, beside, border, corner, moment, right = self.normal(parts, precision)
        d = self.dim
        blocks[:, range(d), range(d)] *= 1.0 + damping
        corner[range(len(corner)), range(len(corner))] *= 1.0 + damping
        try:
            solved = solveh_banded(
                self.banded(blocks, beside),
                np.column_stack([border.reshape(len(blocks) * d, -1), moment.ravel()]),
                check_finite=False,
            )
            rest = corner - border.reshape(-1, len(corner)).T @ solved[:, :-1]
            if not (np.isfinite(rest).all() and np.isfinite(solved).all() and np.isfinite(right).all()):
                return None  # LAPACK would say so on its own
            size = np.sqrt(np.maximum(np.diagonal(rest), 1e-300))
            change = (
                np.linalg.lstsq(
                    rest / size / size[:, None],
                    (right - border.reshape(-1, len(corner)).T @ solved[:, -1]) / size,
                    rcond=1e-13,
                )[0]
                / size
            )
        except (LinAlgError, np.linalg.LinAlgError):
            return None
        states = (solved[:, -1] - solved[:, :-1] @ change).reshape(-1, d)
        return (states, change) if np.isfinite(states).all() and np.isfinite(change).all() else None

    # ------------------------------------------------------------------ noise

    def reweighted(self, x: np.ndarray, p: np.ndarray) -> "_Annealing":
        """The same with observations weighed by what the fit expects of them, where that is to be found out.

        Counts by Fisher's scoring; noise of unknown distribution by the likeliest of its `ADDITIVE_SHARES`.
        """
        kind = self.problem.noise
        if kind is Noise.GIVEN:
            return self
        points = np.concatenate([x, self.inputs], axis=1)
        expected = self.problem.seen.rhs(points, p) / self.scale
        other, known = copy(self), self.data.weights > 0
        if kind is Noise.POISSON:
            other.weights = np.where(known, self.scale / np.maximum(expected, _LEAST_MEAN / self.scale), 0.0)
            return other
        residual = self.data.residuals(expected)
        floor = VARIANCE_FLOOR * self.problem.observations.signal_variance
        best = np.full(self.scale.shape, np.inf)
        other.weights = np.zeros_like(self.weights)
        for share in ADDITIVE_SHARES:
            noise = NoiseModel(np.ones(len(best)), np.full(len(best), share), np.ones(len(best)))
            relative = noise.relative_variance(expected)
            variance = np.maximum(np.mean(residual**2 / relative, axis=0), floor)
            cost = np.log(variance) + np.mean(np.log(relative), axis=0)
            better = cost < best
            best = np.where(better, cost, best)
            other.weights = np.where(better & known, 1.0 / (variance * relative), other.weights)
        return other

    def misfit_and_gaps(self, x: np.ndarray, p: np.ndarray) -> tuple[float, float]:
        """What is left of the observations, in variances of their noise, and of the dynamics."""
        parts = self.linearised(x, p)
        if parts is None:
            return np.inf, np.inf
        precision = float(_LEVELS[-1]) * self.typical / self.sizes(x) ** 2
        residual, defect = parts[0], parts[3]
        return float(np.sum(self.weights * residual**2)), float(np.sum(precision * defect**2))

    def unlikelihood(self, x: np.ndarray, p: np.ndarray) -> float:
        """Minus twice the log-likelihood of the observations, up to what all fits share."""
        points = np.concatenate([x, self.inputs], axis=1)
        expected = self.problem.seen.rhs(points, p) / self.scale
        if self.problem.noise is Noise.POISSON:
            mean = np.maximum(expected * self.scale, 1e-300)
            values = np.where(self.weights > 0, self.data.values * self.scale, 0.0)
            return 2.0 * float(np.sum(np.where(self.weights > 0, mean - values * np.log(mean), 0.0)))
        residual = self.data.residuals(expected)
        used = self.weights > 0
        return float(np.sum(self.weights * residual**2) - np.sum(np.log(self.weights[used])))

    # ------------------------------------------------------------------ answer

    def answer(
        self, x: np.ndarray, p: np.ndarray, status: FitStatus, state_names: Sequence[str]
    ) -> HiddenFit:
        """The fit with its errors, in which a wide prior holds what the data do not determine."""
        names, d, q, first = self.rates.names, self.dim, len(p), self.data.first
        parts = self.linearised(x, p)
        assert parts is not None  # else it were no fit
        residual, by_x, by_p, _, tangent = parts
        columns = (len(first) - 1) * d + q
        slopes = np.zeros((*residual.shape, columns))
        for k, (a, b) in enumerate(pairwise(first)):
            moved = np.concatenate([np.eye(d), np.zeros((d, q))], axis=1)
            for j in range(a, b):
                slopes[j, :, k * d : (k + 1) * d] = by_x[j] @ moved[:, :d]
                slopes[j, :, columns - q :] = by_x[j] @ moved[:, d:] + by_p[j]
                if j < b - 1:
                    moved = tangent[j, :, :d] @ moved
                    moved[:, d:] += tangent[j, :, d:]
        design = (np.sqrt(self.weights)[:, :, None] * slopes).reshape(-1, columns)
        information = np.sum(design**2, axis=0)
        alone = np.where(information > 0, 1.0 / np.where(information > 0, information, 1.0), 0.0)
        root = np.sqrt(np.mean(x**2, axis=0))
        size = np.concatenate([np.tile(np.where(root > 0, root, 1.0), len(first) - 1), np.abs(p)])
        size = np.sqrt(np.maximum(size**2 + alone, 1e-300))
        _, singular, rows = np.linalg.svd(
            np.concatenate([design * size, np.eye(columns) / _PRIOR]), full_matrices=False
        )
        covariance = (rows.T / singular**2) @ rows * size * size[:, None]
        errors = np.sqrt(np.diagonal(covariance))
        vague = errors > _UNKNOWN * size
        unknown = [name for name, is_vague in zip(names, vague[columns - q :], strict=True) if is_vague]
        states = vague[: columns - q].reshape(-1, d).any(axis=0)
        unknown += [f"{name}(0)" for name, is_vague in zip(state_names, states, strict=True) if is_vague]
        points = np.concatenate([x, self.inputs], axis=1)
        n = int(np.count_nonzero(self.weights))
        return HiddenFit(
            dict(zip(names, map(float, p), strict=True)),
            covariance[columns - q :, columns - q :],
            self.data.split(x),
            self.data.split(self.problem.seen.rhs(points, p)),
            tuple(unknown),
            self.unlikelihood(x, p) + float(np.log(n)) * columns,
            status,
        )
