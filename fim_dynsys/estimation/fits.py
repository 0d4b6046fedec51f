"""Fits of a problem from many starts, by pieces of the runs first where their states were measured."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice, pairwise, product

import numpy as np

from fim_dynsys.estimation.aliases import prefers_slow, slowest
from fim_dynsys.estimation.descent import FAR, Descent, Outcome, descend
from fim_dynsys.estimation.experiments import Path
from fim_dynsys.estimation.objective import LEAST_SHARE, Objective
from fim_dynsys.estimation.parameters import ParameterSpace, Scale
from fim_dynsys.estimation.problem import Problem, Run, piece
from fim_dynsys.estimation.starts import draw_starts

_SCREENING = 1e-3  # relative tolerance of the integration of draws that are only compared
_COARSE = 1e-5  # relative tolerance of the integration during a search
_SCREENED = 8  # draws for each start that is followed
_TOGETHER = 2  # starts that are chosen from the draws that are screened together
_ROUGH, _LAST = 200, 300  # iterations
_GAPS = 30  # between samples where a switch is looked for
_CLOSEST = 3  # values of a number, of those that were tried, from which it is then fitted
_SEARCHED = 1e-6  # log-likelihood units that one more step of a search promises: it ends
SAME = 0.05
"""Log-likelihood units: the same minimum."""

TOLERANCE = 1e-9
"""Relative tolerance of the integration at the end of a fit."""

_OFTEN = 0.4  # share of the searches that end there, for that
_EFFECT = 0.1  # standard deviations that a logarithm is to move the data by, for a minimum that is no plateau
_ENOUGH = 4  # searches that end in the best minimum: others are not needed
_AT_LEAST = 8  # searches that are made in any case
# The same where pieces of measured states led to the starts: of 3 searches two agreed on the second-best
# minimum of a Hill rate with basal supply (2 of 8 records).
_ENOUGH_SHOWN, _AT_LEAST_SHOWN = 3, 6
_MANY_SHOWN = 10  # searches there, of which two that agree will do
_LONG = 20  # pieces of one run: its whole path may be chaotic, and is followed from few starts
_LONGEST = 60  # the same: not even a fit that leaves more than the noise is followed from more
_CLOSE = 10.0  # log-likelihood units of the best within which a minimum is polished
_NEAR = 0.03  # of coordinates, or of 1: the same place
_FOLLOWED = 1e-3  # of an observable's size: what pieces leave beyond counts
_PER_ERROR = 0.01  # integration error per relative error of a sample, where that is known
_POLISHED = 3  # minima at most
_MOST_STARTS = 600  # first states of pieces that are estimated together
_SAMPLES = 4  # of a piece at least
_MERGED = 4  # pieces that are joined at a time
_WORSE = 1.5  # ratio of the errors' scales beyond which joined pieces no longer follow the data
_EXPLAINED = 2.0  # mean squared residual, in known errors: nothing is to be gained by pieces
_LOOKED_AT = 24  # short pieces, spread over all runs, to which these are fitted
_REGRESSED = 6  # starts that are fitted to pieces from measured states
_AGREED = 2  # searches that end in the best minimum before it is believed


@dataclass(frozen=True, eq=False)
class Fit:
    """The best of many searches.

    Attributes
    ----------
    problem : Problem
        What was fitted: its runs are pieces of the given ones where no whole path can be followed.
    descent : Descent
        The best search.
    values : array (s,)
        Objectives that all searches ended in, in the order in which they were made.
    outcomes : tuple of Outcome
        How they ended.
    starts, ends : arrays (s, q)
        Coordinates where each began and ended.
    n_pieces : int
        Number of pieces that the runs were cut into; that of the runs where they were not.
    evaluations : int
        Of the objective, all searches together.
    """

    problem: Problem
    descent: Descent
    values: np.ndarray
    outcomes: tuple[Outcome, ...]
    starts: np.ndarray
    ends: np.ndarray
    n_pieces: int
    evaluations: int

    @property
    def space(self) -> ParameterSpace:
        """What was estimated."""
        return self.problem.space

    @property
    def natural(self) -> np.ndarray:
        """Estimated numbers (q,) in their own units."""
        return self.space.natural(self.descent.theta)

    @cached_property
    def paths(self) -> list[Path]:
        """Paths of the runs at the best minimum."""
        found = self.problem.objective.paths(self.descent.theta, self.descent.rtol, sensitivities=False)
        assert found is not None  # its objective is finite
        return found

    @property
    def converged(self) -> np.ndarray:
        """Which searches (s,) ended in the best minimum."""
        if not len(self.values):
            return np.zeros(0, dtype=bool)
        near = same_place(self.ends, self.descent.theta)
        return near | (self.values <= min(self.descent.value, self.values.min()) + 2.0 * SAME)

    @property
    def converged_share(self) -> float:
        """Share of the searches that ended in the best minimum."""
        return float(np.mean(self.converged)) if len(self.values) else 0.0

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why a better minimum may exist; empty where several searches agree on the best one."""
        found = []
        if self.descent.outcome is not Outcome.CONVERGED:
            found.append(f"the best search ended without convergence ({self.descent.outcome.value})")
        agreed = int(np.sum(self.converged))
        if agreed < _AGREED <= len(self.values) and not explains(self.problem.objective, self.descent):
            found.append(
                f"{agreed} of {len(self.values)} searches ended in the best minimum; a better one may exist, "
                "so fit again with more starts or narrower bounds"
            )
        return tuple(found)


def explains(objective: Objective, descent: Descent) -> bool:
    """Whether a fit leaves what known errors make of the truth: no other minimum can be much better.

    Its squares are within a standard deviation of their number; half of that is what could be gained.
    """
    if not np.isfinite(descent.value) or objective.estimated.any() or not objective.n:
        return False
    return descent.evaluation.misfit <= 1.0 + float(np.sqrt(2.0 / objective.n))


def on_plateau(space: ParameterSpace, descent: Descent) -> bool:
    """Whether a number is at its bound or its logarithm has hardly any effect: searches agree on plateaus."""
    theta = descent.theta
    effect = np.sqrt(np.maximum(np.diagonal(descent.evaluation.curvature), 0.0))
    return bool(np.any((theta <= space.low) | (theta >= space.high) | (space.log & (effect < _EFFECT))))


def same_place(ends: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Which coordinates (s, q) are those of a minimum (q,)."""
    if ends.shape[1] != len(theta):
        return np.zeros(len(ends), dtype=bool)
    return np.all(np.abs(ends - theta) <= _NEAR * np.maximum(np.abs(theta), 1.0), axis=1)


def fit_problem(
    problem: Problem,
    shown: Sequence[np.ndarray] | None = None,
    n_starts: int = 20,
    seed: int = 0,
    first: Sequence[np.ndarray] = (),
) -> Fit | None:
    """The best fit from many starts; None where the equations are nowhere finite.

    Parameters
    ----------
    problem : Problem
        What is fitted.
    shown : list of arrays (K, d), optional
        Measured states at the samples of each run, where all were: then pieces of the runs are fitted first.
    n_starts : int
        Searches at most.
    seed : int
        Of their starts.
    first : sequence of arrays (q,)
        Coordinates to begin with.
    """
    shown = _cuttable(problem, shown)
    objective, space, coarse = problem.objective, problem.space, coarse_tolerance(problem)
    draws = draw_starts(space, _SCREENED * n_starts, seed)
    regressed = [] if shown is None else _regressed(problem, shown, draws)
    q = len(problem.parameters)
    begun = [np.asarray(theta, dtype=float) for theta in first]
    begun += [np.concatenate([theta, draws[0, q:]]) for theta in regressed]
    if any(p.start is not None for p in problem.parameters):
        begun += [draws[0]]
    begun = list(_where_finite(objective, np.array(begun), q)[0]) if begun else []
    screened = _Screening(objective, draws, q)
    enough, least = (_ENOUGH_SHOWN, _AT_LEAST_SHOWN) if regressed else (_ENOUGH, _AT_LEAST)
    if shown is not None and max(len(c) for c in _all_cuts(problem, shown)) > _LONG:
        n_starts = min(n_starts, least)
    searches: list[Descent] = []
    starts = []
    for theta in chain(begun, screened):
        if len(searches) >= n_starts:
            break
        found = descend(objective, theta, coarse, _ROUGH, decrement=_SEARCHED, damping=FAR)
        if found.outcome is Outcome.FAILED or (found.iterations == 0 and found.value > screened.best + SAME):
            continue  # on a plateau, where nothing depends on the parameters
        searches.append(found)
        starts.append(theta)
        values = np.array([s.value for s in searches])
        if len(values) >= least:
            best_so_far = searches[int(np.argmin(values))]
            same = same_place(np.array([s.theta for s in searches]), best_so_far.theta)
            hits = np.sum(same | (values < values.min() + SAME))
            agreed = hits >= max(enough, _OFTEN * len(values))
            agreed |= bool(regressed) and hits >= _AGREED and len(values) >= _MANY_SHOWN
            agreed &= not on_plateau(space, best_so_far)
            if agreed or (hits >= _AGREED and explains(objective, best_so_far)):
                break
    whole = _polished(problem, searches)
    best = (
        None
        if whole is None
        else Fit(
            problem,
            whole,
            np.array([s.value for s in searches]),
            tuple(s.outcome for s in searches),
            np.array(starts),
            np.array([s.theta for s in searches]),
            len(problem.runs),
            objective.evaluations,
        )
    )
    if shown is None:
        return best
    by_pieces = _by_pieces(problem, shown, regressed, best)
    return _between_poles(problem, shown, draws) if by_pieces is None else by_pieces


def _where_finite(objective: Objective, thetas: np.ndarray, q: int) -> tuple[np.ndarray, np.ndarray]:
    """Starts (n, s) and their values; first states, behind q parameters, with other signs where that helps.

    Noise measures levels below 0, from which equations with roots or logarithms do not go on.
    """
    thetas, values = thetas.copy(), objective.values(thetas, _SCREENING)
    below = np.isinf(values) & (thetas[:, q:] < 0.0).any(axis=1)
    if below.any():
        thetas[below, q:] = np.abs(thetas[below, q:])
        values[below] = objective.values(thetas[below], _SCREENING)
    return thetas, values


class _Screening:
    """Draws worth following, best first: as many are looked at as the searches need.

    Parameters
    ----------
    objective : Objective
        What is minimised.
    draws : array (n, s)
        Coordinates.
    q : int
        How many are those of parameters; the others are first states.

    Attributes
    ----------
    best : float
        The least objective so far.
    """

    def __init__(self, objective: Objective, draws: np.ndarray, q: int) -> None:
        self._objective, self._draws, self._q = objective, draws, q
        self.best = np.inf

    def __iter__(self) -> Iterator[np.ndarray]:
        left: list[tuple[float, np.ndarray]] = []
        for first in range(0, len(self._draws), _SCREENED * _TOGETHER):
            own = self._draws[first : first + _SCREENED * _TOGETHER]
            own, values = _where_finite(self._objective, own, self._q)
            self.best = min(self.best, float(values.min()))
            order = [k for k in np.argsort(values, kind="stable") if np.isfinite(values[k])]
            yield from (own[k] for k in order[:_TOGETHER])
            left += [(values[k], own[k]) for k in order[_TOGETHER:]]
        yield from (theta for _, theta in sorted(left, key=lambda pair: pair[0]))


def refined(fit: Fit | None, problem: Problem, starts: Sequence[np.ndarray]) -> Fit | None:
    """A fit, or a better one from other starts (q,)."""
    coarse = coarse_tolerance(problem)
    searches = [descend(problem.objective, theta, coarse, _LAST, decrement=_SEARCHED) for theta in starts]
    found = _polished(problem, [s for s in searches if np.isfinite(s.value)])
    if found is None or (fit is not None and not is_better(problem, found, fit.descent)):
        return fit
    return _replaced(fit, problem, found, len(problem.runs))


def without_named_starts(
    problem: Problem, shown: Sequence[np.ndarray] | None, n_starts: int, seed: int
) -> Fit | None:
    """The best fit from no starts that the user named, in the coordinates of the problem; None for none."""
    if not problem.has_named_starts:
        return None
    parameters = tuple(p if p.otherwise is None else p.otherwise for p in problem.parameters)
    runs = [replace(run, guess=run.measured) for run in problem.runs]
    found = fit_problem(replace(problem, parameters=parameters, runs=tuple(runs)), shown, n_starts, seed)
    if found is None or len(found.natural) != len(problem.space):
        return None
    own, space = found.problem.space, problem.space

    def moved(thetas: np.ndarray) -> np.ndarray:
        return np.array([space.inside(space.coordinates(own.natural(theta))) for theta in thetas])

    theta = moved(found.descent.theta[None])[0]
    descent = descend(problem.objective, theta, TOLERANCE, _LAST)
    return replace(
        found, problem=problem, descent=descent, starts=moved(found.starts), ends=moved(found.ends)
    )


def is_slower(fit: Fit, other: Fit) -> bool:
    """Whether another fit is as good as the first one, and moves less between the samples."""
    near = abs(other.descent.value - fit.descent.value) <= SAME
    return near and not slowest(fit.problem, [fit.descent.theta, other.descent.theta])[0]


def with_switches_moved(fit: Fit, switches: Mapping[str, tuple[float, float]]) -> Fit:
    """A fit of whole runs, or a better one of which equations switch between other samples.

    The objective has minima between many pairs of samples, of which searches find the nearest. Each gap is
    looked at.

    Parameters
    ----------
    fit : Fit
        Of whole runs.
    switches : mapping
        By the names of parameters, see `fim_dynsys.estimation.switches.timing`.
    """
    times = np.unique(np.concatenate([run.times for run in fit.problem.runs]))
    between = (times[1:] + times[:-1]) / 2.0
    if not switches or len(between) < 2:
        return fit
    between = between[np.unique(np.linspace(0, len(between) - 1, _GAPS).round().astype(int))]
    values = {name: begins + growth * between for name, (begins, growth) in switches.items()}
    return with_values_tried(fit, values)


def with_values_tried(fit: Fit, values: Mapping[str, Sequence[float] | np.ndarray], n_ends: int = 1) -> Fit:
    """A fit of whole runs, or a better one in which a number has another value.

    With each value held, the other numbers are fitted; searches begin at the best of these.

    Parameters
    ----------
    fit : Fit
        Of whole runs.
    values : mapping
        What is tried, by the names of parameters; others than those that are estimated are left out.
    n_ends : int
        How many minima the other numbers are taken from, at most: at the best one they may be such that there
        is no path with another value.
    """
    problem, space, rtol = fit.problem, fit.space, coarse_tolerance(fit.problem)
    ends = [fit.descent.theta]
    for end in fit.ends[np.argsort(fit.values, kind="stable")]:
        if len(ends) < n_ends and not any(same_place(end[None], own)[0] for own in ends):
            ends.append(end)
    for name, tried in values.items():
        if name not in space.names:
            continue
        held = np.array([own == name for own in space.names])
        found = []
        for value, end in product(tried, ends):
            natural = np.where(held, value, space.natural(end))
            theta = space.coordinates(natural)
            if np.isfinite(theta).all() and np.array_equal(theta[held], space.inside(theta)[held]):
                found.append(descend(problem.objective, theta, rtol, _ROUGH, held, _SEARCHED, damping=FAR))
        found = sorted((s for s in found if np.isfinite(s.value)), key=lambda s: s.value)[:_CLOSEST]
        free = [descend(problem.objective, s.theta, rtol, _LAST, decrement=_SEARCHED) for s in found]
        fit = joined(fit, [s.theta for s in found], free)
    return fit


def joined(fit: Fit, starts: Sequence[np.ndarray], searches: list[Descent]) -> Fit:
    """A fit with more searches of the same problem."""
    if not searches:
        return fit
    best = _polished(fit.problem, [s for s in searches if np.isfinite(s.value)])
    return replace(
        fit,
        descent=fit.descent if best is None or not is_better(fit.problem, best, fit.descent) else best,
        values=np.append(fit.values, [s.value for s in searches]),
        outcomes=(*fit.outcomes, *(s.outcome for s in searches)),
        starts=np.vstack([fit.starts, *starts]),
        ends=np.vstack([fit.ends, *(s.theta for s in searches)]),
        evaluations=fit.problem.objective.evaluations,
    )


def restarted(
    fit: Fit | None, problem: Problem, shown: Sequence[np.ndarray] | None, n_starts: int, seed: int
) -> Fit | None:
    """The fit of whole paths from as many starts as are allowed, after pieces of these misled the searches.

    None where no more starts are left, or the runs are so long that their whole paths may be chaotic.
    """
    shown = _cuttable(problem, shown)
    if shown is None or (fit is not None and len(fit.values) >= n_starts):
        return None
    if max(len(c) for c in _all_cuts(problem, shown)) > _LONGEST:
        return None
    return fit_problem(problem, None, n_starts, seed)


def held_at_zero(fit: Fit) -> Fit:
    """The fit of whole runs in which numbers are 0 whose logarithms have run off to there without effect.

    They are searched in their own scale then, where 0 is a bound that holds them. The fit itself where there
    are none.
    """
    space, now = fit.space, fit.descent.evaluation
    effect = np.sqrt(np.maximum(np.diagonal(now.curvature), 0.0))
    off = space.log & (space.natural_low <= 0.0) & (effect < _EFFECT) & (fit.natural < space.size)
    names = [name for name, is_off in zip(space.names, off, strict=True) if is_off]
    if not names:
        return fit
    problem = with_zeros(fit.problem, names)
    natural = np.where(off, 0.0, fit.natural)
    found = descend(problem.objective, problem.space.coordinates(natural), TOLERANCE, _LAST)
    at_zero = problem.space.natural(found.theta)[off] == 0.0
    if not (at_zero.all() and found.value <= fit.descent.value + SAME):
        return fit
    of_log = np.vstack([fit.starts, fit.ends]).reshape(-1, len(space))
    starts, ends = np.split(
        np.array([problem.space.coordinates(space.natural(theta)) for theta in of_log]).reshape(of_log.shape),
        2,
    )
    return replace(fit, problem=problem, descent=found, starts=starts, ends=ends)


def with_zeros(problem: Problem, names: Sequence[str]) -> Problem:
    """The problem with some numbers searched in their own scale, which has a 0."""
    parameters = [
        replace(p, scale=Scale.LINEAR, otherwise=None) if p.name in names else p for p in problem.parameters
    ]
    return replace(problem, parameters=tuple(parameters))


def resumed(problem: Problem, theta: np.ndarray) -> Fit:
    """The fit that ended at coordinates (q,)."""
    return _replaced(None, problem, descend(problem.objective, theta, TOLERANCE, 0), len(problem.runs))


def is_better(problem: Problem, one: Descent, other: Descent) -> bool:
    """Whether a minimum fits better than another one, or as well and is no alias of it."""
    if len(one.theta) == len(other.theta) and abs(one.value - other.value) <= SAME:
        if same_place(one.theta[None], other.theta)[0]:
            return one.value < other.value
        slow = slowest(problem, [one.theta, other.theta])
        if not slow.all():
            return bool(slow[0]) and prefers_slow(problem)
    return one.value < other.value


def _polished(problem: Problem, searches: list[Descent]) -> Descent | None:
    """The best minimum, to the accuracy of the arithmetic; of those that fit alike none of the fast ones."""
    objective = problem.objective
    ordered = sorted((s for s in searches), key=lambda s: s.value)
    chosen: list[Descent] = []
    for s in ordered:
        near = not chosen or s.value < chosen[0].value + _CLOSE
        if near and not any(same_place(s.theta[None], c.theta)[0] for c in chosen):
            chosen.append(s)
    alike = [s for s in chosen if s.value <= chosen[0].value + SAME]
    prefers = prefers_slow(problem)
    if len(alike) > 1 and prefers:  # aliases fit alike: of these the slowest
        slow = slowest(problem, [s.theta for s in alike])
        order = np.argsort(~slow, kind="stable")
        chosen = [*(alike[k] for k in order), *chosen[len(alike) :]]
    fine = [descend(objective, s.theta, TOLERANCE, _LAST) for s in chosen[:_POLISHED]]
    fine = [s for s in fine if np.isfinite(s.value)]
    if not fine:
        return None
    best = min(s.value for s in fine)
    fine = [s for s in fine if s.value <= best + SAME]
    if len(fine) > 1 and prefers:
        slow = slowest(problem, [s.theta for s in fine])
        fine = [s for s, is_slow in zip(fine, slow, strict=True) if is_slow]
    parameters = objective.space.parameters
    named = [abs(p.start) if p.otherwise and p.start else np.nan for p in parameters]
    log_size = np.log(objective.space.size if np.isnan(named).all() else named)

    def unlikely(s: Descent) -> float:
        """How far from named starts and natural sizes: what decides between minima that fit alike."""
        value = np.abs(objective.space.natural(s.theta))
        return float(np.nansum((np.log(np.maximum(value, 1e-300)) - log_size) ** 2))

    return min(fine, key=unlikely)


def coarse_tolerance(problem: Problem) -> float:
    """Relative tolerance of a search: well below the errors of the samples where these are known."""
    objective = problem.objective
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nanmin(np.abs(objective.errors / objective.measured), initial=np.inf)
    return float(np.clip(_PER_ERROR * share, 1e-8, _COARSE))


# ---------------------------------------------------------------------- pieces


def _cuttable(problem: Problem, shown: Sequence[np.ndarray] | None) -> Sequence[np.ndarray] | None:
    """Measured states, from which pieces begin; None where a run has one sample, which no piece follows."""
    return None if any(len(run.times) < 2 for run in problem.runs) else shown


def _cuts(times: np.ndarray, shown: np.ndarray, most: int) -> np.ndarray:
    """First samples of pieces over which the states move about two standard deviations."""
    spread = shown.std(axis=0)
    z = shown / np.where(spread > 0, spread, 1.0)
    speed = np.diff(z, axis=0) / np.diff(times)[:, None]
    turns = float(np.sqrt(np.mean(speed**2)) * (times[-1] - times[0])) / 2.0
    count = int(np.clip(np.ceil(turns), 1, max(min((len(times) - 1) // _SAMPLES, most), 1)))
    return np.unique(np.round(np.linspace(0, len(times) - 1, count + 1)).astype(int))


def _cut(problem: Problem, states: Sequence[np.ndarray], cuts: Sequence[np.ndarray], free: bool) -> Problem:
    """The problem of the pieces of all runs, each from states of its own."""
    runs: list[Run] = []
    for run, own, bounds in zip(problem.runs, states, cuts, strict=True):
        for number, (a, b) in enumerate(pairwise(bounds)):
            part = piece(run, int(a), int(b), own[a], free)
            known = number == 0 and run.begin == run.times[0]
            if known and free:  # what is known of the first states is known of the first piece's
                part = Run(**{**vars(part), "first": run.first})
            runs.append(part)
    return problem.with_runs(runs)


def _all_cuts(problem: Problem, shown: Sequence[np.ndarray]) -> list[np.ndarray]:
    most = max(_MOST_STARTS // (len(problem.states) * len(problem.runs)), 1)
    return [_cuts(run.times, own, most) for run, own in zip(problem.runs, shown, strict=True)]


def _regressed(problem: Problem, shown: Sequence[np.ndarray], draws: np.ndarray) -> list[np.ndarray]:
    """Parameters that fit pieces which begin at measured states, best first."""
    q = len(problem.parameters)
    if not q:
        return []
    short = [np.arange(0, len(run.times), max((len(run.times) - 1) // 60, 1)) for run in problem.runs]
    cut = _cut(problem, shown, short, False)
    cut = cut.with_runs(cut.runs[:: max(len(cut.runs) // _LOOKED_AT, 1)])
    objective, found = cut.objective, []
    for theta in islice(_Screening(objective, draws[: _SCREENED * _REGRESSED, :q], q), _REGRESSED):
        found.append(descend(objective, theta, _COARSE, _ROUGH, decrement=_SEARCHED, damping=FAR))
        values = [s.value for s in found]
        if np.sum(np.array(values) < min(values) + SAME) >= _AGREED:
            break
    found.sort(key=lambda s: s.value)
    kept: list[np.ndarray] = []
    for s in found:
        if not any(np.allclose(s.theta, theta, rtol=1e-2, atol=1e-2) for theta in kept):
            kept.append(s.theta)
    return kept[:3]


def _by_pieces(
    problem: Problem, shown: Sequence[np.ndarray], regressed: Sequence[np.ndarray], whole: Fit | None
) -> Fit | None:
    """Pieces with estimated starts, joined while they follow the data, if they are better than whole runs."""
    cuts = _all_cuts(problem, shown)
    if not regressed or all(len(c) <= 2 for c in cuts):
        return whole
    states, theta, last = list(shown), regressed[0], None
    least = problem.objective.least
    q = len(problem.parameters)
    while True:
        pieces = _cut(problem, states, cuts, True)
        start = np.concatenate([theta, [_start(p.start, p.size) for p in pieces.space.parameters[q:]]])
        found = descend(pieces.objective, start, coarse_tolerance(problem), _ROUGH)
        if not np.isfinite(found.value) or (last is not None and _worse(found, last[1], least)):
            break
        last = pieces, found
        theta, states = found.theta[:q], _joined_states(problem.runs, pieces, found, cuts)
        if all(len(c) <= 2 for c in cuts):
            break
        cuts = [np.unique(np.append(c[:-1:_MERGED], c[-1])) for c in cuts]
    if last is None:
        return whole
    pieces, found = last
    joined = all(len(c) <= 2 for c in cuts) and len(pieces.runs) == len(problem.runs)
    if joined:
        begun = problem.space.inside(found.theta) if len(found.theta) == len(problem.space) else None
        if begun is not None:
            fine = descend(problem.objective, begun, TOLERANCE, _LAST)
            if np.isfinite(fine.value) and (whole is None or is_better(problem, fine, whole.descent)):
                return _replaced(whole, problem, fine, len(problem.runs))
        return whole
    if whole is not None and not _worse(whole.descent, found, least):
        return whole
    if whole is not None and whole.descent.outcome is Outcome.CONVERGED:
        # equations that miss the data have a least-squares fit too: pieces are for paths that lead astray
        begun = np.concatenate([found.theta[:q], whole.descent.theta[q:]])
        again = descend(problem.objective, problem.space.inside(begun), TOLERANCE, _LAST)
        if again.outcome is Outcome.CONVERGED and abs(again.value - whole.descent.value) <= SAME:
            return whole
        if again.outcome is Outcome.CONVERGED and not _worse(again, found, least):
            return _replaced(whole, problem, again, len(problem.runs))
    fine = descend(pieces.objective, found.theta, TOLERANCE, _ROUGH)
    return _replaced(whole, pieces, fine if np.isfinite(fine.value) else found, len(pieces.runs))


def _between_poles(problem: Problem, shown: Sequence[np.ndarray], draws: np.ndarray) -> Fit | None:
    """A fit of the gaps between samples that can be integrated, where no whole path can."""
    q = len(problem.parameters)
    cut = _cut(problem, shown, [np.arange(len(run.times)) for run in problem.runs], False)
    fine = [
        run for run in cut.runs if cut.with_runs([run]).objective.paths(draws[0, :q], TOLERANCE) is not None
    ]
    if not fine:
        return None
    pieces = problem.with_runs(fine)
    found = descend(pieces.objective, draws[0, :q], TOLERANCE, _ROUGH)
    if not np.isfinite(found.value):
        return None
    found = replace(found, outcome=Outcome.BROKEN)
    return _replaced(None, pieces, found, len(fine))


def _start(value: float | None, size: float) -> float:
    return (0.0 if value is None else value) / size


def _worse(found: Descent, before: Descent, least: np.ndarray) -> bool:
    """Whether the errors' scales are larger than those of pieces; of known scales, the misfit."""
    now, then = found.evaluation.scales, before.evaluation.scales
    estimated = np.isfinite(now) & np.isfinite(then)
    if estimated.any():
        floor = _FOLLOWED / LEAST_SHARE * least
        return bool(np.any(now[estimated] > _WORSE * np.maximum(then, floor)[estimated]))
    return found.evaluation.misfit > max(_WORSE**2 * before.evaluation.misfit, _EXPLAINED)


def _joined_states(
    runs: Sequence[Run], pieces: Problem, found: Descent, cuts: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Fitted states (K, d) of pieces at the samples of each run."""
    paths = iter(pieces.objective.paths(found.theta, found.rtol, sensitivities=False) or ())
    states = []
    for run, bounds in zip(runs, cuts, strict=True):
        own = np.empty((len(run.times), len(pieces.states)))
        for a, b in pairwise(bounds):
            own[a : b + 1] = next(paths).states
        states.append(own)
    return states


def _replaced(whole: Fit | None, problem: Problem, descent: Descent, n_pieces: int) -> Fit:
    """A fit that pieces led to."""
    values = np.zeros(0) if whole is None else whole.values
    outcomes = () if whole is None else whole.outcomes
    q = len(problem.space)
    starts = np.zeros((0, q)) if whole is None else whole.starts
    ends = np.zeros((0, q)) if whole is None else whole.ends
    count = problem.objective.evaluations + (0 if whole is None else whole.evaluations)
    return Fit(problem, descent, values, outcomes, starts, ends, n_pieces, count)
