"""What a fit says: estimates with errors, what is not determined, and how well the paths follow the data."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fim_dynsys.estimation.aliases import slowest
from fim_dynsys.estimation.descent import Outcome
from fim_dynsys.estimation.description import Description
from fim_dynsys.estimation.experiments import Path
from fim_dynsys.estimation.fits import TOLERANCE, Fit, same_place
from fim_dynsys.estimation.objective import Errors
from fim_dynsys.estimation.problem import Problem
from fim_dynsys.regression.criteria import NORMAL, autocorrelation, noise_model

_WIDE = 10.0  # sizes: a wide prior, which makes every error finite
_RESOLVED = 1e-13  # of the largest eigenvalue of the information: hundreds of rounding errors
_UNKNOWN = 3.0  # sizes, or units of a logarithm: a larger error determines nothing
_ROUGH = 0.3  # the same, of its value: a larger error is worth a word
_RUN_AWAY = 1e6  # natural sizes
_AT_BOUND = 1e-6  # of a coordinate, or of 1
_APART = 0.5  # standard deviations beyond twice the noise: the path no longer follows
_ERROR_OF_FEW = 0.3  # of a value: samples too few to show their noise are not believed to have more
_POOR, _POOR_AHEAD = 0.5, 0.6  # shares of the variance that whole paths and pieces are to explain
_NOTICED, _SMALL = 3.0, 0.1  # noise levels, and standard deviations, that are not to be left
_AS_KNOWN = 1.5  # noise levels: a fit that leaves no more is as good as the data
_LEAST_COUNT = 1.0  # expected, of Pearson's statistic: below, one event more is worth any number of errors
_ENOUGH = 10  # samples of a column from which its noise can be estimated
_FEWEST_RANKED = 20  # of a column, whose residuals are ranked
_BEYOND_CHANCE = 3.5  # standard deviations of a correlation without any relation
_SPREADS = 3.0  # times the residuals at small values: standard errors are off by a half and more
_VISIBLE = 0.01  # of a column's spread: less is hardly of interest
_ROUNDING = 1e-5  # of a column's spread: residuals of simulated samples
_AS_LIKELY = 1.92  # log-likelihood units of the best: 95 % for one number, half of chi-squared's 3.84
_BY_CHANCE = 1e-4  # chance of residuals that small: once in ten thousand right fits
_AS_EXACT = 0.05  # given errors: samples that scatter less have no noise
_OTHER = 4.0  # standard errors, beyond which a minimum is another one
_ELSEWHERE = 0.05  # the same, of a coordinate, or of 1


@dataclass(frozen=True, eq=False)
class Summary:
    """What was found.

    Attributes
    ----------
    described : Description
        What was asked.
    fit : Fit
        What was found.
    parameters : dict
        All parameters of equations and observables, known ones too.
    covariance : array (q, q)
        Of the estimated numbers, in their own units.
    undetermined, rough, at_bounds, run_away, alternatives, uneven, unequal, missed : tuple of str
        What a reader is to be warned of; ``rough`` are parameters that the data determine within a third at
        best, with their relative errors, ``uneven`` columns whose residuals grow with their values, with
        the share of these, ``unequal`` those whose noise differs between experiments, and ``missed`` those
        whose residuals are more than noise and not independent.
    states : list of arrays (K, d)
        Fitted states at the samples of each trajectory.
    noise_level : array (m,)
        Standard deviations of the columns: as estimated, or the typical one where they are known.
    quality : dict
        The numbers of `fim_dynsys.fields.frame.FitInfo`.
    """

    described: Description
    fit: Fit
    parameters: dict[str, float]
    covariance: np.ndarray
    undetermined: tuple[str, ...]
    rough: tuple[str, ...]
    at_bounds: tuple[str, ...]
    run_away: tuple[str, ...]
    alternatives: tuple[str, ...]
    uneven: tuple[str, ...]
    unequal: tuple[str, ...]
    missed: tuple[str, ...]
    states: list[np.ndarray]
    noise_level: np.ndarray
    quality: dict[str, Any]

    @cached_property
    def estimates(self) -> dict[str, float]:
        """Estimated numbers by name, without first states where the runs were cut into pieces."""
        problem = self.described.problem
        whole = self.fit.problem is problem
        count = len(problem.space) if whole else len(problem.parameters)
        return dict(zip(problem.space.names[:count], map(float, self.fit.natural[:count]), strict=True))

    @property
    def errors(self) -> dict[str, float]:
        """Standard errors of the estimates by name; NaN of those that a bound holds, which have none."""
        place = {name: k for k, name in enumerate(self.fit.space.names)}
        errors = np.sqrt(np.maximum(np.diagonal(self.covariance), 0.0))
        errors = np.where(at_bounds(self.fit), np.nan, errors)
        return {name: float(errors[place[name]]) for name in self.estimates}

    @property
    def initial_states(self) -> np.ndarray | None:
        """Fitted states (K, d) at the first samples; None where one is not finite."""
        first = np.stack([own[0] for own in self.states])
        return first if np.isfinite(first).all() else None

    def covariance_of(self, names: Sequence[str]) -> np.ndarray:
        """Covariance (k, k) of parameters, zero of those that are known."""
        place = {name: k for k, name in enumerate(self.fit.space.names)}
        rows = [place.get(name, -1) for name in names]
        found = np.zeros((len(names), len(names)))
        own = [k for k, row in enumerate(rows) if row >= 0]
        chosen = [rows[k] for k in own]
        found[np.ix_(own, own)] = self.covariance[np.ix_(chosen, chosen)]
        return found

    def report(self) -> dict[str, Any]:
        """Plain values for a fit report."""
        space, fit = self.described.problem.space, self.fit
        symbols = {s.name for e in self.described.problem.equations for s in e.free_symbols}
        own = sorted(name for name in self.described.problem.names if name in symbols)
        return {
            "score": 2.0 * fit.descent.value + float(np.log(self.n_measured)) * len(fit.space),
            "objective": fit.descent.value,
            "status": fit.descent.outcome.value,
            "covariance": self.covariance_of(own).tolist(),
            "estimates": self.estimates,
            "errors": self.errors,
            "logarithms": [name for name, log in zip(space.names, space.log, strict=True) if log],
            "limits": {
                p.name: [_plain(p.low), _plain(p.high)]
                for p in space.parameters
                if np.isfinite(p.low) or np.isfinite(p.high)
            },
            "rough": list(self.rough),
            "at_bounds": list(self.at_bounds),
            "run_away": list(self.run_away),
            "alternatives": list(self.alternatives),
            "uneven": list(self.uneven),
            "unequal": list(self.unequal),
            "missed": list(self.missed),
            "searches": [float(v) for v in fit.values],
            "converged_share": fit.converged_share,
            "pieces": fit.n_pieces,
            "quality": {**self.quality, "problems": list(self.quality["problems"])},
        }

    @property
    def n_measured(self) -> int:
        """Number of measurements."""
        return self.described.problem.objective.n


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def summarise(described: Description, fit: Fit) -> Summary:
    """What a fit says."""
    problem, space, theta = described.problem, fit.space, fit.descent.theta
    natural = fit.natural
    covariance, vague = covariance_at(fit)
    fixed = {name: float(problem.fixed[name]) for name in problem.names if name in problem.fixed}
    found = dict(zip(space.names, map(float, natural), strict=True))
    parameters = fixed | {name: found[name] for name in problem.names if name in found}
    count = len(space) if fit.problem is problem else len(problem.parameters)
    near = _AT_BOUND * np.maximum(np.abs(theta), 1.0)
    at = (theta - space.low < near) | (space.high - theta < near)
    far = np.abs(np.log10(np.maximum(np.abs(natural), 1e-300) / space.size)) > np.log10(_RUN_AWAY)
    far &= (natural != 0.0) & np.where(space.log, True, np.abs(natural) > space.size) & vague
    q = len(problem.parameters)
    error = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))[:q]
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = error / np.abs(natural[:q])
    rough = [k for k in range(q) if relative[k] > _ROUGH and not vague[k]]
    states, whole = _paths(problem, fit)
    level, quality = _quality(described, fit, whole)

    def named(which: np.ndarray) -> tuple[str, ...]:
        return tuple(n for n, is_so in zip(space.names[:count], which[:count], strict=True) if is_so)

    missed = () if quality["residual_over_noise"] < _AS_KNOWN else _missed(described, fit)
    return Summary(
        described,
        fit,
        parameters,
        covariance,
        named(vague),
        tuple(f"{space.names[k]} ({_percent(relative[k])}{_open_ends(fit, k)})" for k in rough),
        tuple(f"{name} = {found[name]:.4g}" for name in named(at)),
        tuple(f"{name} = {found[name]:.3g}" for name in named(far)),
        _alternatives(problem, fit),
        () if quality["residual_over_noise"] > _AS_KNOWN else _uneven(described, fit),
        () if missed else _unequal(described, fit),
        missed,
        states,
        level,
        quality,
    )


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %" if share < _WIDE else f"more than {100.0 * _WIDE:.0f} %"


def larger_errors(fit: Fit) -> list[str]:
    """That given errors are larger than residuals by more than chance, as text; nothing of exact samples."""
    from scipy.stats import chi2

    objective, squares = fit.problem.objective, fit.descent.evaluation.misfit
    free = objective.n - fit.problem.n_of_paths
    exact = squares < _AS_EXACT**2 or not np.isfinite(objective.errors).all()
    if exact or free < 1 or chi2.cdf(objective.n * squares, free) > _BY_CHANCE:
        return []
    ratio = float(np.sqrt(free / (objective.n * squares)))
    return [
        f"the errors that were given are {ratio:.2g} times what the residuals show: standard errors are that "
        "much too large; give smaller ones, or leave sigma out"
    ]


def _open_ends(fit: Fit, number: int) -> str:
    """Where searches ran away with a number and fit about as well, as text."""
    space, best = fit.space, fit.descent
    if fit.ends.shape[1:] != best.theta.shape:
        return ""
    ends = fit.ends[fit.values <= best.value + _AS_LIKELY]
    far = np.abs(np.array([space.natural(theta)[number] for theta in ends])) / space.size[number]
    found = ["above"] if (far > _RUN_AWAY).any() else []
    found += ["below"] if space.log[number] and (far < 1.0 / _RUN_AWAY).any() else []
    return f", not determined {' and '.join(found)}" if found else ""


def at_bounds(fit: Fit) -> np.ndarray:
    """Which estimates (q,) a bound holds: the data would have them beyond it."""
    space, theta, gradient = fit.space, fit.descent.theta, fit.descent.evaluation.gradient
    return ((theta <= space.low) & (gradient > 0)) | ((theta >= space.high) & (gradient < 0))


def covariance_at(fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """Covariance (q, q) of the estimates in their own units, and which of them are not determined.

    By the expected curvature, with a prior of ten times each number's size. Numbers at their bounds count as
    known. NaN where nothing tells the size of the errors.
    """
    space, theta, now = fit.space, fit.descent.theta, fit.descent.evaluation
    information = np.diagonal(now.curvature)
    alone = np.where(information > 0, 1.0 / np.where(information > 0, information, 1.0), 0.0)
    first = np.array([name.partition("[")[0].endswith("(0)") for name in space.names], dtype=bool)
    size = np.where(first, np.maximum(np.abs(theta), 1.0), np.sqrt(theta**2 + alone))
    size = np.where(space.log, 1.0, np.where(size > 0, size, 1.0))
    free = np.flatnonzero(~at_bounds(fit))
    prior = np.diag(space.prior(theta)[2])
    # the estimated scales of errors are too small by the degrees of freedom that other numbers take: of as
    # large a share of the measurements as have them
    problem = fit.problem
    taken, n = sum(space.names[k] not in problem.of_errors for k in free), problem.objective.n
    factor = 1.0 + taken / max(n - taken, 1) * float(problem.errors_are_estimated.mean()) if n else 1.0

    def inverse(curvature: np.ndarray) -> np.ndarray:
        found = np.zeros((len(space), len(space)))
        found[np.ix_(free, free)] = _inverse(curvature[np.ix_(free, free)], 1.0 / (_WIDE * size[free]) ** 2)
        return found

    covariance = factor * inverse(now.curvature + (factor - 1.0) * prior)  # the prior's part is no estimate
    vague = np.sqrt(np.diagonal(inverse(now.curvature))) > _UNKNOWN * size
    if problem.is_saturated(problem.n_of_paths - taken):
        covariance = np.full_like(covariance, np.nan)
    slope = space.slope(theta)
    return covariance * slope * slope[:, None], vague


def _inverse(information: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Inverse of an information (q, q) with a prior's diagonal (q,) added.

    The information may be known to rounding and yet differ by twenty powers of ten from number to number, as
    with relative errors of states that begin at 0. So its units are those in which each number alone has an
    error of 1, and what rounding leaves of its directions without information does not count.
    """
    scale = 1.0 / np.sqrt(np.diagonal(information) + prior)
    values, axes = np.linalg.eigh(information * scale * scale[:, None])
    values = np.where(values > _RESOLVED * values.max(initial=0.0), values, 0.0)
    whole = np.diag(values) + axes.T * (prior * scale**2) @ axes
    even = 1.0 / np.sqrt(np.diagonal(whole))
    axes = scale[:, None] * axes * even
    return axes @ np.linalg.inv(whole * even * even[:, None]) @ axes.T


def _paths(problem: Problem, fit: Fit) -> tuple[list[np.ndarray], list[Path] | None]:
    """Fitted states at the samples of each trajectory; whole paths, None where one breaks off."""
    if fit.problem is problem:
        return [p.states for p in fit.paths], fit.paths
    states = [np.full((len(run.times), len(problem.states)), np.nan) for run in problem.runs]
    number = 0
    for run, path in zip(fit.problem.runs, fit.paths, strict=True):
        while problem.runs[number].inputs is not run.inputs:  # each run has a curve of its own
            number += 1
        first = int(np.searchsorted(problem.runs[number].times, run.times[0]))
        states[number][first : first + len(run.times)] = path.states
    begun = [
        own[0, i]
        for run, own in zip(problem.runs, states, strict=True)
        for i, f in enumerate(run.first)
        if f is None
    ]
    natural = np.append(fit.natural[: len(problem.parameters)], begun)
    theta = problem.space.coordinates(natural)
    return states, problem.objective.paths(theta, TOLERANCE, sensitivities=False)


def _quality(described: Description, fit: Fit, whole: list[Path] | None) -> tuple[np.ndarray, dict[str, Any]]:
    """Noise (m,) of the columns, and how well whole paths and fitted pieces follow the data."""
    problem = described.problem
    m = len(described.columns)
    objective = problem.objective
    values, kinds = objective.measured, objective.kinds
    spread = np.array([np.std(values[kinds == k]) if (kinds == k).any() else 0.0 for k in range(m)])
    size = np.array([np.abs(values[kinds == k]).max(initial=0.0) for k in range(m)])
    spread = np.where(spread > 0, spread, np.where(size > 0, size, 1.0))
    residuals = _residuals(fit.problem, fit.paths)
    window = np.array(
        [
            np.sqrt(np.mean(residuals[1][residuals[0] == k] ** 2)) if (residuals[0] == k).any() else 0.0
            for k in range(m)
        ]
    )
    level = np.where(
        np.isfinite(fit.descent.evaluation.scales[:m]), fit.descent.evaluation.scales[:m], window
    )
    known = objective.errors[np.isfinite(objective.errors)]
    weight = np.ones(objective.n)
    if len(known):
        weight = np.where(np.isfinite(objective.errors), np.median(known) / objective.errors, 1.0)

    def explained(kind: np.ndarray, off: np.ndarray, own: np.ndarray, of_values: np.ndarray) -> float:
        sums = np.bincount(kinds, of_values**2, m), np.bincount(kinds, of_values**2 * values, m)
        centre = sums[1] / np.where(sums[0] > 0, sums[0], 1.0)
        total = float(np.sum((of_values * (values - centre[kinds]) / spread[kinds]) ** 2))
        lost = float(np.sum((own * off / spread[kind]) ** 2))
        return 1.0 - lost / total if total > 0 else 1.0

    noise = _noise(described)
    differ = any(o.errors.of_logarithm or o.scale_at >= 0 for o in objective.observables)
    left = _in_their_errors(described, fit, whole) if differ else None
    path_r2, follows, follows_for = -np.inf, 0.0, 0.0
    if whole is not None:
        kind, off = _residuals(problem, whole)
        path_r2 = explained(kind, off, weight, weight)
        own = np.where(np.isfinite(noise), noise, 0.0)[kinds]
        if left is not None:
            size, shown = _sizes(problem, whole), left[1][kinds]
            few = np.minimum(left[0][kinds] * size, _ERROR_OF_FEW * np.abs(values + off))
            own = np.where(np.isfinite(shown), shown * size, few)
        follows, follows_for = _followed(problem, whole, spread, own)
    same = fit.problem is problem
    alike = np.ones(objective.n)
    window_r2 = path_r2 if same else explained(*residuals, np.ones(len(residuals[1])), alike)
    over = _over_noise(*((window, noise) if left is None else left), fit)
    problems = []
    expected = bool(len(known) or objective.counts.any()) and over < _AS_KNOWN
    said = np.isfinite(path_r2) or fit.descent.outcome is Outcome.BROKEN  # that has a warning of its own
    by_pieces = not same and said and window_r2 >= _POOR_AHEAD and over < _AS_KNOWN
    if not (path_r2 > _POOR or by_pieces or expected):
        problems.append(f"its path has R2 {path_r2:.2g} and follows {100 * follows:.0f} % of the record")
    if over > _NOTICED and np.max(window / spread, initial=0.0) > _SMALL:
        problems.append(f"it leaves {over:.2g} times the noise")
    return level, {
        "path_r2": float(path_r2),
        "window_r2": float(window_r2),
        "residual_over_noise": over,
        "follows": follows,
        "follows_for": follows_for,
        "problems": tuple(problems),
    }


def _residuals(problem: Problem, paths: Sequence[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Observable and residual of each measurement."""
    objective = problem.objective
    off = [
        path.values[e.rows, objective.at[e.kinds]] - e.values
        for e, path in zip(objective.experiments, paths, strict=True)
    ]
    return objective.kinds, np.concatenate(off)


def _uneven(described: Description, fit: Fit) -> tuple[str, ...]:
    """Columns of unknown noise whose residuals grow with their values, as text."""
    objective, found = fit.problem.objective, []
    kinds, off = _residuals(fit.problem, fit.paths)
    fitted, left = np.abs(objective.measured + off), np.abs(off)  # measured values have the errors in them
    normal = np.array([o.errors is Errors.NORMAL for o in objective.observables])
    for k, name in enumerate(described.columns):
        own = np.flatnonzero((kinds == k) & objective.estimated & normal[kinds])
        if len(own) < _FEWEST_RANKED or left[own].max() <= _ROUNDING * np.std(objective.measured[own]):
            continue
        own, third = own[np.argsort(fitted[own], kind="stable")], len(own) // 3
        ranks = np.argsort(np.argsort(left[own], kind="stable"), kind="stable")
        related = np.corrcoef(ranks, np.arange(len(own)))[0, 1] * np.sqrt(len(own) - 1)  # Spearman's
        small, large = own[:third], own[-third:]
        if related > _BEYOND_CHANCE and np.median(left[large]) > _SPREADS * np.median(left[small]):
            share = NORMAL * float(np.median(left[large] / fitted[large]))
            found.append(f"{name} (about {100.0 * share:.2g} % of it)")
    return tuple(found)


def _unequal(described: Description, fit: Fit) -> tuple[str, ...]:
    """Columns of unknown noise whose residuals are larger in some experiments than in others, as text.

    References
    ----------
    M. S. Bartlett, Properties of sufficiency and statistical tests, Proc. R. Soc. A 160 (1937) 268.
    """
    objective, found = fit.problem.objective, []
    kinds, off = _residuals(fit.problem, fit.paths)
    number = np.repeat(np.arange(len(objective.experiments)), [len(e.rows) for e in objective.experiments])
    normal = np.array([o.errors is Errors.NORMAL for o in objective.observables])
    for k, name in enumerate(described.columns):
        own = (kinds == k) & objective.estimated & normal[kinds]
        sizes = np.bincount(number[own], minlength=len(objective.experiments))
        several = sizes >= _ENOUGH
        squares = np.bincount(number[own], off[own] ** 2, minlength=len(sizes))[several]
        freedom = sizes[several] - 1.0  # each has at least a first state of its own
        if several.sum() < 2 or not (squares > 0.0).all():
            continue
        variances, beyond = squares / freedom, int(several.sum()) - 1
        pooled = squares.sum() / freedom.sum()
        correction = 1.0 + (np.sum(1.0 / freedom) - 1.0 / freedom.sum()) / (3.0 * beyond)
        statistic = np.sum(freedom * np.log(pooled / variances)) / correction
        # chi-squared as a normal number, by Wilson and Hilferty
        ninth = 2.0 / (9.0 * beyond)
        related = ((statistic / beyond) ** (1.0 / 3.0) - 1.0 + ninth) / np.sqrt(ninth)
        least, most = np.sqrt([variances.min(), variances.max()])
        if related > _BEYOND_CHANCE and most > _SPREADS * least:
            found.append(f"{name} ({least:.2g} to {most:.2g})")
    return tuple(found)


def _missed(described: Description, fit: Fit) -> tuple[str, ...]:
    """Columns whose residuals follow each other, as no noise does, as text."""
    objective = fit.problem.objective
    kinds, off = _residuals(fit.problem, fit.paths)
    times = np.concatenate([e.times[e.rows] for e in objective.experiments])
    number = np.repeat(np.arange(len(objective.experiments)), [len(e.rows) for e in objective.experiments])
    found = []
    for k, name in enumerate(described.columns):
        own = np.flatnonzero(kinds == k)
        own = own[np.lexsort((times[own], number[own]))]
        spread = np.std(objective.measured[own]) if len(own) else 0.0
        share = float(np.sqrt(np.mean(off[own] ** 2))) / spread if spread > 0 else 0.0
        if len(own) < _ENOUGH or share < _VISIBLE:
            continue
        if autocorrelation(off[own][:, None])[0] > _BEYOND_CHANCE / np.sqrt(len(own)):
            found.append(f"{name} (by {100.0 * share:.2g} % of its spread)")
    return tuple(found)


def _followed(
    problem: Problem, whole: Sequence[Path], spread: np.ndarray, level: np.ndarray
) -> tuple[float, float]:
    """Share of the records, and mean time, before a path is half a standard deviation off, and noise.

    The noise ``level`` (n,) is that of each measurement: relative errors grow with what is measured.
    """
    reached, ends = [], []
    first = np.cumsum([0, *(len(e.rows) for e in problem.objective.experiments)])
    for experiment, path, at in zip(problem.objective.experiments, whole, first, strict=False):
        e = experiment
        off = (path.values[e.rows, problem.objective.at[e.kinds]] - e.values) / spread[e.kinds]
        squares = np.bincount(e.rows, off**2, minlength=len(e.times))
        counts = np.maximum(np.bincount(e.rows, minlength=len(e.times)), 1)
        noise = (level[at : at + len(e.rows)] / spread[e.kinds]) ** 2
        limit = _APART + 2.0 * np.sqrt(np.bincount(e.rows, noise, minlength=len(e.times)) / counts)
        far = np.sqrt(squares / counts) > limit
        begin = e.stops[0]  # of the path, before the first sample where t0 says so
        span = float(e.times[-1] - begin)
        reached.append(float(e.times[np.argmax(far)] - begin) if far.any() else span)
        ends.append(span)
    return (sum(reached) / sum(ends) if sum(ends) > 0 else 1.0), float(np.mean(reached))


def _noise(described: Description, sizes: np.ndarray | None = None) -> np.ndarray:
    """Noise (m,) that the samples show, in units of ``sizes`` (n,) of each; NaN where there are too few."""
    objective = described.problem.objective
    values = objective.measured if sizes is None else objective.measured / sizes
    first = np.cumsum([0, *(len(e.rows) for e in objective.experiments)])
    found = np.full(len(described.columns), np.nan)
    for k in range(len(found)):
        parts = []
        for e, begin in zip(objective.experiments, first, strict=False):
            own = np.flatnonzero(e.kinds == k)
            if len(own) >= _ENOUGH:
                own = own[np.argsort(e.times[e.rows[own]])]
                times = e.times[e.rows[own]]
                parts.append((times - times[0], values[begin + own][:, None]))
        spread = float(np.std(np.concatenate([x for _, x in parts]))) if parts else 0.0
        if spread > 0:
            level = float(noise_model([(t, x / spread) for t, x in parts]).level[0])
            found[k] = max(level, 1e-3) * spread
    return found


def _in_their_errors(
    described: Description, fit: Fit, whole: Sequence[Path] | None
) -> tuple[np.ndarray, np.ndarray] | None:
    """Root mean square residuals and noise (m,) of the columns, measurements in units of their own errors.

    Errors in proportion to what is measured, or given by an expression, differ between measurements: one
    level of noise for all would be that of the largest or of the smallest. None where their sizes are not
    known.
    """
    if whole is None:
        return None
    kinds, off = _residuals(fit.problem, fit.paths)
    fitted, along = _sizes(fit.problem, fit.paths), _sizes(described.problem, whole)
    if not (np.isfinite(fitted).all() and np.isfinite(along).all()):
        return None
    left = np.zeros(len(described.columns))
    for k in np.unique(kinds):
        left[k] = np.sqrt(np.mean((off[kinds == k] / fitted[kinds == k]) ** 2))
    return left, _noise(described, along)


def _sizes(problem: Problem, paths: Sequence[Path]) -> np.ndarray:
    """How large the errors (n,) of the measurements are among each other, NaN where they are not positive."""
    sizes = []
    for e, path in zip(problem.objective.experiments, paths, strict=True):
        own = np.ones(len(e.rows))
        for k, observable in enumerate(problem.objective.observables):
            at = observable.at if observable.errors.of_logarithm else observable.scale_at
            if at >= 0:
                own[e.kinds == k] = path.values[e.rows[e.kinds == k], at]
        sizes.append(own)
    found = np.concatenate(sizes)
    return np.where(found > 0.0, found, np.nan)


def _over_noise(window: np.ndarray, noise: np.ndarray, fit: Fit) -> float:
    """What is left, over the noise: as known, or as the samples show it."""
    counts, measured = fit.problem.objective.counts, fit.problem.objective.measured
    squares = [] if np.isnan(fit.problem.objective.errors).all() else [fit.descent.evaluation.misfit]
    if counts.any():
        _, off = _residuals(fit.problem, fit.paths)
        expected = np.maximum(measured[counts] + off[counts], _LEAST_COUNT)
        squares.append(float(np.mean(off[counts] ** 2 / expected)))
    if max(squares, default=0.0) > 0.0:
        return float(np.sqrt(max(squares)))
    ratios = window / noise
    return float(np.nanmax(ratios)) if np.isfinite(ratios).any() else 1.0


def _alternatives(problem: Problem, fit: Fit) -> tuple[str, ...]:
    """Other minima that fit about as well, as text."""
    best, found = fit.descent, []
    space = problem.space
    if fit.problem is not problem or not len(fit.values) or best.outcome is not Outcome.CONVERGED:
        return ()
    others = fit.ends[fit.values <= best.value + _AS_LIKELY]
    kept: list[np.ndarray] = []
    covariance, vague = covariance_at(fit)
    errors = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    for theta in others:
        natural = space.natural(theta)
        away = np.abs(np.log(np.maximum(np.abs(natural), 1e-300) / space.size)) > np.log(_RUN_AWAY)
        if (away & (space.log | (np.abs(natural) > space.size))).any():
            continue  # a flat end, no minimum
        far = np.abs(natural - fit.natural) > _OTHER * errors
        apart = far & (np.abs(theta - best.theta) > _ELSEWHERE * np.maximum(np.abs(best.theta), 1.0))
        if not (apart & ~vague).any() or any(same_place(theta[None], own)[0] for own in kept):
            continue
        if slowest(problem, [best.theta, theta])[1]:  # no alias
            kept.append(theta)
            values = ", ".join(f"{name} = {v:.3g}" for name, v in zip(space.names, natural, strict=True))
            found.append(f"({values})")
    return tuple(found[:3])
