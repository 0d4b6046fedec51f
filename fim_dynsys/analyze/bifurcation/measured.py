"""bifurcations_from_data: the bifurcation diagram behind trajectories at several parameter values.

A little above five hundred lines: the result, its table and the steps from data to it are read together.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import combinations
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from scipy.special import ndtri, stdtrit

from fim_dynsys.analyze.bifurcation.arclength import EXACT, follow
from fim_dynsys.analyze.bifurcation.normal_forms import (
    finite,
    solve_branch_point,
    solve_fold,
    solve_hopf,
)
from fim_dynsys.analyze.bifurcation.tracks import Track, follow_objects
from fim_dynsys.analyze.misfit import FITS, SMALL, residuals
from fim_dynsys.analyze.results import (
    WIDENED,
    RegionLike,
    Result,
    Table,
    Variables,
    progress_bar,
    region_of,
    resolve_region,
)
from fim_dynsys.analyze.tracing.branches import (
    Bifurcation,
    BifurcationKind,
    Branch,
    BranchKind,
    Continuation,
)
from fim_dynsys.analyze.tracing.equations import ROOT, Equations
from fim_dynsys.errors import check_flags, check_number, check_whole, earlier_name, renamed
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.family import FieldFamily, PooledFamily
from fim_dynsys.threads import on_one_thread
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.wording import counted

if TYPE_CHECKING:
    from tqdm import tqdm

_AT_A_VALUE = 1e-9  # of the range: a bifurcation at a measured value is on either side of it by rounding
_CODIMENSION_ONE = (BifurcationKind.FOLD, BifurcationKind.HOPF, BifurcationKind.BRANCH_POINT)
_FEWEST_VALUES = 4  # a parabola with one degree of freedom left, by which intervals are widened
_FARTHEST = 0.5  # scaled distance between a member's bifurcation and that of all data
_CROSSING = (
    "Branches that cross (transcritical, pitchfork) come apart by small errors of coefficients; "
    "measure at more values there"
)


_Guess = tuple[np.ndarray, float]  # of an equilibrium, and the parameter value


class InfersFields(Protocol):
    """A model that infers a field from each of several sets of trajectories."""

    def infer_many(self, contexts: Sequence[Trajectories]) -> Sequence[VectorField]:
        """One field for each."""
        ...


@runtime_checkable
class HasAlternatives(Protocol):
    """A model that knows others which infer the same fields under other assumptions."""

    def alternatives(self) -> Sequence[InfersFields]:
        """Those."""
        ...


@dataclass(frozen=True, eq=False)
class MeasuredBifurcation(Bifurcation):
    """A bifurcation of the fields that were inferred from data.

    Attributes
    ----------
    interval : (float, float) or None
        Interval of the parameter value, at the level of the result, widened by the disagreement between
        models and by the misfit; None where fewer than two members of the ensemble have the bifurcation.
    share : float
        Share of the members in which it exists.
    members : ndarray (m,)
        Its parameter value in each of those.
    others : ndarray (k,)
        Its parameter value by each of the other models; NaN where that has no such bifurcation.
    """

    interval: tuple[float, float] | None = None
    share: float = 0.0
    members: np.ndarray = field(default_factory=lambda: np.empty(0))
    others: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def disagreement(self) -> float:
        """Largest distance of another model's parameter value; NaN where none has the bifurcation."""
        known = self.others[np.isfinite(self.others)]
        return float(np.abs(known - self.p).max()) if len(known) else np.nan


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class DataBifurcations(Result):
    """Bifurcation diagram of data; made by `bifurcations_from_data`.

    Attributes
    ----------
    parameter : str
        Name of the parameter.
    values : ndarray (K,)
        Its measured values.
    fields : tuple of K VectorField
        The field inferred at each.
    tracks : tuple of Track
        Equilibria and cycles of those fields, matched from value to value.
    family : PooledFamily
        The field interpolated in the parameter.
    continuation : Continuation
        Its branches.
    bifurcations : tuple of MeasuredBifurcation
        Its folds, Hopf points and branch points, best supported first.
    level : float
        Probability that the intervals are meant to have.
    n_draws : int
        Members of the ensemble behind them.
    misfit : ndarray (K,)
        Residual over noise of predictions eight samples ahead by the field at each value: about one for a
        field that fits its data, above two where it does not.
    """

    drawn_by = "fim_dynsys.plot.diagrams:bifurcation_diagram"

    parameter: str
    values: np.ndarray
    fields: tuple
    tracks: tuple[Track, ...]
    family: PooledFamily
    continuation: Continuation
    bifurcations: tuple[MeasuredBifurcation, ...]
    level: float
    n_draws: int
    n_members = earlier_name("n_members", "n_draws")
    misfit: np.ndarray

    @property
    def fits(self) -> bool:
        """Whether the fields fit their data: no residual is above twice the noise."""
        return not (self.misfit > FITS).any()

    @property
    def branches(self) -> tuple[Branch, ...]:
        """Branches of the interpolated field; equilibria first, then cycles."""
        return self.continuation.branches

    def _rows(self) -> Table:
        percent = f"{100 * self.level:g} % interval"
        compared = ["other models"] if any(len(b.others) for b in self.bifurcations) else []
        columns = ["kind", self.parameter, percent, *compared, "share", *self.state_names]
        rows = [
            [
                *(b.kind, b.p, b.interval),
                *([_opinions(b.others)] if compared else []),
                *(b.share, *b.x, b.period, b.lyapunov_coefficient, b.support),
            ]
            for b in self.bifurcations
        ]
        return [*columns, "period", "l1", "support"], rows

    def _headline(self) -> str:
        return (
            f"{counted(len(self.bifurcations), 'bifurcation')} between {counted(len(self.values), 'value')} "
            f"of {self.parameter} from {self.values[0]:g} to {self.values[-1]:g}"
        )

    def _notes(self) -> list[str]:
        tracks = [
            f"track {i}: {track.kind.value}, found at {len(track)} of {len(self.values)} values, unstable "
            f"directions {_changes(track)}"
            for i, track in enumerate(self.tracks)
        ]
        branches = [f"branch {i}: {branch!r}" for i, branch in enumerate(self.branches)]
        pooled = f"coefficients are polynomials of degree {self.family.degree} in {self.parameter}"
        return [
            *tracks,
            *branches,
            f"{pooled}; {counted(self.n_draws, 'member')}",
            *self._unexplained(),
            self._fit(),
            *super()._notes(),
        ]

    def _unexplained(self) -> list[str]:
        """Where a track changes its stability between values that no bifurcation lies between, in words."""
        near = _AT_A_VALUE * float(np.ptp(self.values))
        places = [
            f"track {i} between {low:g} and {high:g}"
            for i, track in enumerate(self.tracks)
            for low, high, change in zip(track.p, track.p[1:], np.diff(track.n_unstable), strict=False)
            if change and not any(low - near <= b.p <= high + near for b in self.bifurcations)
        ]
        said = []
        if places:
            said = [f"stability changes where no bifurcation was found: {', '.join(places)}. {_CROSSING}"]
        for a, b in _twin_folds(self.bifurcations, self.values):
            said.append(
                f"folds at {a.p:.4g} and {b.p:.4g} have hardly a measured value between them, and may stand "
                f"for branches that cross there, outside both intervals. {_CROSSING}"
            )
        return said

    def _fit(self) -> str:
        known = self.misfit[np.isfinite(self.misfit) | np.isposinf(self.misfit)]
        if not len(known):
            return "residuals: not known, too few complete samples at every value"
        text = f"residual over noise from {known.min():.2g} to {known.max():.2g}"
        if self.fits:
            return text
        wrong = self.values[self.misfit > FITS]
        places = ", ".join(f"{value:g}" for value in wrong)
        return f"the model does not fit these data at {self.parameter} = {places}: {text}"

    def _variables(self) -> Variables:
        branches = self.continuation._variables()
        points = {name: value for name, value in branches.items() if not name.startswith("bifurcation")}
        events, d = self.bifurcations, len(self.state_names)
        members = np.full((len(events), self.n_draws), np.nan)
        for row, event in zip(members, events, strict=True):
            row[: len(event.members)] = event.members
        kinds = np.empty(len(events), dtype=object)
        kinds[:] = [event.kind for event in events]
        ends = [(np.nan, np.nan) if event.interval is None else event.interval for event in events]
        by_event, by_object = ("bifurcation",), ("object",)
        index = np.repeat(np.arange(len(self.tracks)), [len(track) for track in self.tracks])

        def joined(name: str, shape: tuple[int, ...] = ()) -> np.ndarray:
            return np.concatenate([np.zeros((0, *shape)), *(getattr(track, name) for track in self.tracks)])

        return {
            **points,
            "values": (("value",), self.values),
            "track": (by_object, index),
            "track_p": (by_object, joined("p")),
            **{f"track_{name}": (("object", "state"), joined(name, (d,))) for name in ("x", "low", "high")},
            "track_n_unstable": (by_object, joined("n_unstable").astype(int)),
            "track_support": (by_object, joined("support")),
            "bifurcation_kind": (by_event, kinds),
            "bifurcation_p": (by_event, np.array([event.p for event in events], dtype=float)),
            "bifurcation_interval": (("bifurcation", "end"), np.array(ends, dtype=float).reshape(-1, 2)),
            "bifurcation_share": (by_event, np.array([event.share for event in events], dtype=float)),
            "bifurcation_x": (("bifurcation", "state"), np.array([e.x for e in events]).reshape(-1, d)),
            "misfit": (("value",), self.misfit),
            "bifurcation_disagreement": (by_event, np.array([e.disagreement for e in events], dtype=float)),
            "bifurcation_members": (("bifurcation", "member"), members),
        }


@on_one_thread
@renamed(n_members="n_draws")
@np.errstate(all="ignore")  # fields that are not defined everywhere are judged by what comes of them
def bifurcations_from_data(
    model: InfersFields,
    trajectories: Trajectories,
    parameter: str = "mu",
    region: RegionLike | None = None,
    *,
    cycles: bool = True,
    n_draws: int = 100,
    level: float = 0.9,
    seed: int = 0,
    others: Sequence[InfersFields] | None = None,
    progress: bool | None = None,
) -> DataBifurcations:
    """Bifurcation diagram of trajectories measured at several values of a parameter.

    One field is inferred per value. Its equilibria and cycles are found and matched from value to value,
    which assumes nothing about the values between. Then polynomials in the parameter are fitted to all fields
    (see `FieldFamily.from_fields`, ``interpolate="polynomial"``) and continued between the measured values,
    which locates bifurcations. Intervals come from an ensemble of such fits to resampled parameter values:
    they cover the scatter of inference from one value to the next and the choice of the degree. For errors
    that all fields share they are widened by what other models find, and by the residuals over the noise.

    Parameters
    ----------
    model : VectorFieldModel
        Infers the fields; need not be fitted.
    trajectories : Trajectories
        With a numeric coordinate `parameter`, at least four different values.
    parameter : str
        Name of that coordinate.
    region : Region, dict or pairs, optional
        Where to search; default the box of all data widened by 10 % on each side.
    cycles : bool
        Whether to search and follow cycles.
    n_draws : int
        Size of the ensemble.
    level : float
        Probability that the intervals are meant to have.
    seed : int
        Of the resampling.
    others : sequence of models, optional
        Infer the same fields under other assumptions; default the model's own ``alternatives()``, if it has
        any. How far their bifurcations lie from the model's adds to the intervals. With none, ``[]``, a model
        that has some takes a fraction of the time.
    progress : bool, optional
        Whether to show how far the work is; by default on a terminal only.

    Returns
    -------
    DataBifurcations

    Raises
    ------
    TypeError
        If the model infers no field.
    ValueError
        If the coordinate is missing or not numeric, or takes fewer than four values.

    See Also
    --------
    branch_bands : Bands of the branches.
    next_measurement : Where to measure next.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze
    >>> rates = np.array([-0.5, -0.25, 0.25, 0.5])
    >>> t = np.linspace(0, 8, 60)
    >>> fields = [fim_dynsys.SymbolicField([f"{mu}*x0 - x0**3"]) for mu in rates for _ in (0, 1)]
    >>> x = [fim_dynsys.simulate(f, [s], t).x[0] for f, s in zip(fields, [1.2, -0.9] * 4)]
    >>> data = fim_dynsys.Trajectories.from_arrays(x, [t] * 8, coords={"mu": np.repeat(rates, 2)})
    >>> model = fim_dynsys.load("sindy-strong")
    >>> found = analyze.bifurcations_from_data(model, data, n_draws=5, progress=False)
    >>> [(b.kind.name, round(float(b.p), 1) + 0.0) for b in found.bifurcations]
    [('FOLD', 0.0)]
    """
    _check([model, *(others or ())], n_draws, level, seed)
    check_flags("bifurcations_from_data", cycles=cycles)
    if region is not None:
        region = region_of(trajectories.state_names, region, "bifurcations_from_data")
    values, contexts = _by_value(trajectories, parameter)
    others = _alternatives(model, contexts) if others is None else others
    with progress_bar(progress, 3 + len(others) + n_draws, "bifurcations", "step") as bar:
        inferred = model.infer_many(contexts)
        bar.update()
        family = FieldFamily.from_fields(values, inferred, "polynomial", parameter)
        assert isinstance(family, PooledFamily)  # what polynomials make
        if region is None and family.region is not None:
            region = family.region.widened(WIDENED)
        region = resolve_region(inferred[0], region, "bifurcations_from_data")
        tracks = follow_objects(values, inferred, region, cycles)
        bar.update()
        guesses = _guesses(tracks, values)
        equations = Equations(family, (values[0], values[-1]), region)
        found = follow(equations, _roots(equations, guesses), cycles)
        bar.update()
        located = [event for event in found.bifurcations if event.kind in _CODIMENSION_ONE]
        elsewhere = _Ensemble(equations, _families(others, contexts, values, parameter, bar), guesses)
        ensemble = _Ensemble(equations, family.bootstrap(n_draws, seed), guesses)
        positions = [ensemble.positions(located, i, bar) for i in range(n_draws)]
    quality = np.array([residuals(f, data) for f, data in zip(inferred, contexts, strict=True)])
    wider = _widening(quality)
    measured = []
    for k, event in enumerate(located):
        known = np.array([row[k] for row in positions])
        said = np.array([elsewhere.position(i, event) for i in range(len(others))], dtype=float)
        measured.append(_measured(event, known[np.isfinite(known)], said, family, wider, level, n_draws))
    return DataBifurcations(
        state_names=family.state_names,
        units=trajectories.units,
        effort=found.effort,
        parameter=parameter,
        values=values,
        fields=tuple(inferred),
        tracks=tuple(tracks),
        family=family,
        continuation=found,
        bifurcations=tuple(sorted(measured, key=lambda event: (-event.support, -event.share))),
        level=level,
        n_draws=n_draws,
        misfit=quality[:, 0],
    )


def _alternatives(model: InfersFields, contexts: Sequence[Trajectories]) -> Sequence[InfersFields]:
    """Those of the model's own that can infer from as few points as there are."""
    if not isinstance(model, HasAlternatives):
        return ()
    complete = [sum(np.isfinite(x).all(axis=1).sum() for _, x in data.arrays()) for data in contexts]
    return [other for other in model.alternatives() if getattr(other, "min_observations", 0) <= min(complete)]


def _families(
    others: Sequence[InfersFields],
    contexts: Sequence[Trajectories],
    values: np.ndarray,
    parameter: str,
    bar: "tqdm",
) -> Iterator[FieldFamily]:
    """What other models make of the same data."""
    for other in others:
        yield FieldFamily.from_fields(values, other.infer_many(contexts), "polynomial", parameter)
        bar.update()


def _check(models: Sequence[object], n_draws: int, level: float, seed: int) -> None:
    for model in models:
        name = getattr(model, "name", None) or type(model).__name__
        if not hasattr(model, "infer_many"):
            raise TypeError(
                f"bifurcations_from_data: expected a model that infers vector fields (infer_many), got "
                f"{name!r}; what has no field in the space of the observations has no equilibria to follow "
                "there."
            )
    check_whole("bifurcations_from_data", 2, n_draws=n_draws)
    check_whole("bifurcations_from_data", 0, seed=seed)
    if not 0.0 < check_number("bifurcations_from_data", "level", level, 0.0, 1.0) < 1.0:
        raise ValueError(f"bifurcations_from_data: expected 0 < level < 1, got {level}.")


def _by_value(trajectories: Trajectories, parameter: str) -> tuple[np.ndarray, list[Trajectories]]:
    """The different parameter values, and the trajectories measured at each."""
    if not isinstance(trajectories, Trajectories) or not isinstance(parameter, str):
        raise TypeError(
            "bifurcations_from_data: expected Trajectories and the name of a coordinate, got "
            f"{type(trajectories).__name__} and {parameter!r}."
        )
    given = trajectories.coords.get(parameter)
    if given is None or given.dtype.kind not in "iuf" or not np.isfinite(given).all():
        raise ValueError(
            f"bifurcations_from_data: expected finite numbers as coordinate {parameter!r} of trajectories, "
            f"got coordinates {sorted(trajectories.coords)}; pass coords={{'{parameter}': [...]}} with the "
            "data."
        )
    values = np.unique(given.astype(float))
    if len(values) < _FEWEST_VALUES:
        raise ValueError(
            f"bifurcations_from_data: expected at least {_FEWEST_VALUES} values of {parameter}, got "
            f"{values.tolist()}; measure at more."
        )
    return values, [trajectories[np.flatnonzero(given == value)] for value in values]


def _guesses(tracks: Sequence[Track], values: np.ndarray) -> list[_Guess]:
    """Equilibria of single fields as (x, p), the most central values first."""
    middle = (values[0] + values[-1]) / 2.0
    equilibria = [track for track in tracks if track.kind is BranchKind.EQUILIBRIA]
    guesses = [(x, p) for track in equilibria for x, p in zip(track.x, track.p, strict=True)]
    return sorted(guesses, key=lambda guess: abs(guess[1] - middle))


def _roots(equations: Equations, guesses: Sequence[_Guess]) -> list[np.ndarray]:
    """Equilibria of an interpolated field near guesses, for those guesses that lead to one."""
    roots = [equations.find_root(x, p) for x, p in guesses]
    return [u for u, residual in roots if residual < ROOT and equations.room_in_region(u[:-1]) >= 0]


class _Ensemble:
    """Fits to resampled parameter values, and where each has the bifurcations of the fit to all."""

    def __init__(self, whole: Equations, members: Iterable[FieldFamily], guesses: Sequence[_Guess]) -> None:
        self.whole, self.guesses = whole, guesses
        ends = (whole.low, whole.high)
        self.members = [Equations(member, ends, whole.region) for member in members]
        self.diagrams: dict[int, tuple[Bifurcation, ...]] = {}

    def positions(self, events: Sequence[Bifurcation], i: int, bar: "tqdm") -> list[float]:
        """Parameter values of bifurcations in member i; NaN for those it does not have."""
        found = [self.position(i, event) for event in events]
        bar.update()
        return found

    def position(self, i: int, event: Bifurcation) -> float:
        """Parameter value of a bifurcation in member i; NaN where it does not have it."""
        p = self._position(i, event)
        return np.nan if p is None else p

    def _position(self, i: int, event: Bifurcation) -> float | None:
        """Parameter value in one member: by Newton's method from the whole, else among all of its events."""
        equations = self.members[i]
        start = self.whole.scaled(event.x, event.p)
        u = solved_bifurcation(equations, event, start)
        if u is None or np.linalg.norm(u - start) > _FARTHEST:
            u = self._nearest(i, event, start)
        if u is None or equations.room_in_region(u[:-1]) < 0 or not 0 <= u[-1] <= 1:
            return None
        return equations.unscaled(u[:-1], u[-1])[1]

    def _nearest(self, i: int, event: Bifurcation, start: np.ndarray) -> np.ndarray | None:
        """The nearest bifurcation of the same kind on the member's branches, if it is near."""
        equations = self.members[i]
        if i not in self.diagrams:
            found = follow(equations, _roots(equations, self.guesses), cycles=False)
            self.diagrams[i] = found.bifurcations
        same = [equations.scaled(b.x, b.p) for b in self.diagrams[i] if b.kind is event.kind]
        near = [u for u in same if np.linalg.norm(u - start) <= _FARTHEST]
        return min(near, key=lambda u: np.linalg.norm(u - start), default=None)


def solved_bifurcation(equations: Equations, event: Bifurcation, u: np.ndarray) -> np.ndarray | None:
    """The bifurcation of a family near u, (d + 1,); None if it has none, or no exact branch point."""
    try:
        if event.kind is BifurcationKind.FOLD:
            return solve_fold(equations, u)[0]
        if event.kind is BifurcationKind.BRANCH_POINT:
            solved, residual = solve_branch_point(equations, u)
            return solved if residual < EXACT else None
        values = np.linalg.eigvals(finite(equations.jacobian(u)))
        above = values[values.imag > 0]
        if not len(above):
            return None
        return solve_hopf(equations, u, above[np.argmin(np.abs(above.real))])[0]
    except FloatingPointError:
        return None


def _measured(
    event: Bifurcation,
    positions: np.ndarray,
    others: np.ndarray,
    family: PooledFamily,
    wider: float,
    level: float,
    n_draws: int,
) -> MeasuredBifurcation:
    """The bifurcation with what the ensemble and other models say of it."""
    given = {field.name: getattr(event, field.name) for field in fields(event)}
    share = len(positions) / n_draws
    measured = MeasuredBifurcation(**given, share=share, members=positions, others=others)
    if len(positions) < 2:
        return measured
    below, above = (wider * half for half in _scatter(event.p, positions, family, level))
    apart = 0.0 if np.isnan(measured.disagreement) else measured.disagreement
    interval = event.p - float(np.hypot(below, apart)), event.p + float(np.hypot(above, apart))
    return replace(measured, interval=interval)


def _scatter(p: float, positions: np.ndarray, family: PooledFamily, level: float) -> tuple[float, float]:
    """Half widths of the percentile interval below and above p, for the degrees of freedom of polynomials.

    Deviations from p grow by sqrt(K / (K - q - 1)), as residuals of a regression with q + 1 coefficients
    are too small by that, and by the ratio of the quantiles of Student's t and the normal distribution.

    References
    ----------
    A. C. Davison, D. V. Hinkley, Bootstrap Methods and their Application, Cambridge 1997, section 6.2.
    """
    free = len(family.p) - family.degree - 1
    tail = (1.0 + level) / 2.0
    wider = np.sqrt(len(family.p) / free) * stdtrit(free, tail) / ndtri(tail)
    low, high = np.quantile(positions, [1.0 - tail, tail])
    return wider * max(p - low, 0.0), wider * max(high - p, 0.0)


def _widening(quality: np.ndarray) -> float:
    """How much wider intervals become by residuals (K, 2), over the noise and over the data's deviation."""
    known = quality[np.isfinite(quality).all(axis=1)]
    if not len(known):
        return 1.0
    over_noise, over_deviation = np.sqrt(np.mean(known**2, axis=0))
    return max(1.0, float(min(over_noise, over_deviation / SMALL)))


def _twin_folds(
    found: Sequence[MeasuredBifurcation], values: np.ndarray
) -> list[tuple[MeasuredBifurcation, MeasuredBifurcation]]:
    """Pairs of folds within each other's reach: at most one measured value between, or by their intervals.

    An error c of a constant moves folds of ``mu x - x^2 - c`` to ``-2 sqrt(c)`` and ``2 sqrt(c)``, further
    than the intervals are wide.
    """
    folds = [event for event in found if event.kind is BifurcationKind.FOLD]
    pairs = []
    for a, b in combinations(folds, 2):
        low, high = sorted((a.p, b.p))
        ends = [event.interval for event in (a, b) if event.interval is not None]
        width = sum(end[1] - end[0] for end in ends)
        if np.count_nonzero((values > low) & (values < high)) <= 1 or high - low <= width:
            pairs.append((a, b))
    return pairs


def _opinions(others: np.ndarray) -> str:
    return ", ".join("none" if np.isnan(p) else f"{p:.5g}" for p in others)


def _changes(track: Track) -> str:
    """Numbers of unstable directions along a track, as text: "0 to 1.8, 2 from 2"."""
    starts = np.flatnonzero(np.diff(track.n_unstable, prepend=-1))
    ends = np.append(starts[1:], len(track)) - 1
    return ", ".join(
        f"{track.n_unstable[i]} from {track.p[i]:g} to {track.p[j]:g}"
        for i, j in zip(starts, ends, strict=True)
    )
