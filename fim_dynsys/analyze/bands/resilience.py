"""resilience: basin share, smallest fatal shock and return time of attractors along a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.analyze.bands.draws import half_width
from fim_dynsys.analyze.bifurcation.measured import DataBifurcations
from fim_dynsys.analyze.matching import assigned, extents
from fim_dynsys.analyze.phase_space.basin import BasinLabel, Labelling
from fim_dynsys.analyze.phase_space.capture import Attractor, AttractorKind
from fim_dynsys.analyze.results import (
    Effort,
    RegionLike,
    Result,
    Table,
    Variables,
    progress_bar,
    resolve_region,
)
from fim_dynsys.deadline import out_of_time, time_limit
from fim_dynsys.errors import check_number, check_whole, real_array, renamed
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.family import FieldFamily, PooledFamily
from fim_dynsys.regions import Region
from fim_dynsys.threads import on_one_thread
from fim_dynsys.wording import counted

_FARTHEST = 0.25  # of the region's size by which an attractor may move from one value to the next
_RADII = np.geomspace(0.02, 1.0, 16)  # of the region's size, at which shocks are looked for first
_BASES = 4  # points of a cycle or recurrent set that are shocked
_BEST = 6  # directions whose boundary is located
_HALVINGS = 10  # of the bracket of a shock: located to 0.02 %
# Shocks tried round the best one: how many times and how many each time, by how much they are turned, and
# by which part of a cycle their base is moved, at first and halved each time.
_REFINEMENTS, _AROUND, _TURN, _MOVED = 4, 16, 0.3, 0.5 / _BASES


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Resilience(Result):
    """How firmly each attractor holds along a parameter; made by `resilience`.

    Attributes
    ----------
    parameter : str
        Name of the parameter.
    values : ndarray (v,)
        Its values.
    kinds : tuple of k AttractorKind
        What the attractors are.
    places : ndarray (k, v, d)
        Centre of each attractor, NaN where it does not exist.
    share, share_error : ndarray (k, v)
        Share of the region that leads to it, 0 where it does not exist, and its binomial standard error.
    shock : ndarray (k, v)
        Size of the smallest shock found from which the state does not come back, in units of `unit`; infinite
        where none was found up to the size of the region.
    shock_vector : ndarray (k, v, d)
        The shock itself, in units of the states.
    return_time : ndarray (k, v)
        Time in which small disturbances decay by e; NaN for recurrent sets.
    unit : ndarray (d,)
        Unit of each state in `shock`.
    share_drawn, shock_drawn, return_time_drawn : ndarray (m, k, v)
        The same in m fields that represent the uncertainty; m = 0 without.
    level : float
        Probability that intervals are meant to have.
    """

    drawn_by = "fim_dynsys.plot.phases:resilience"

    parameter: str
    values: np.ndarray
    kinds: tuple[AttractorKind, ...]
    places: np.ndarray
    share: np.ndarray
    share_error: np.ndarray
    shock: np.ndarray
    shock_vector: np.ndarray
    return_time: np.ndarray
    unit: np.ndarray
    share_drawn: np.ndarray
    shock_drawn: np.ndarray
    return_time_drawn: np.ndarray
    level: float

    def interval(self, quantity: str, level: float | None = None) -> np.ndarray:
        """Interval of ``"share"``, ``"shock"`` or ``"return_time"`` over the drawn fields, (k, v, 2).

        Parameters
        ----------
        quantity : str
            Which.
        level : float, optional
            Probability that it is meant to have; default that of the result.

        Raises
        ------
        ValueError
            For another quantity.
        """
        if quantity not in ("share", "shock", "return_time"):
            raise ValueError(
                f"interval: expected quantity among share, shock and return_time, got {quantity!r}."
            )
        centre, drawn = getattr(self, quantity), getattr(self, f"{quantity}_drawn")
        if not len(drawn):
            return np.full((*centre.shape, 2), np.nan)
        weights = np.full(len(drawn), 1.0 / len(drawn))
        finite = np.where(np.isfinite(drawn), drawn, np.nan)
        half = half_width(np.moveaxis(finite, 0, 1), centre, weights, self.level if level is None else level)
        return np.stack([centre - half, centre + half], axis=-1)

    def _headline(self) -> str:
        ends = f"{self.values[0]:.4g} to {self.values[-1]:.4g}"
        return f"{counted(len(self.kinds), 'attractor')} along {self.parameter} from {ends}"

    def _rows(self) -> Table:
        columns = ["attractor", self.parameter, "kind", "share", "+-", "smallest shock", "return time"]
        rows = []
        for k, kind in enumerate(self.kinds):
            for v in np.flatnonzero(np.isfinite(self.places[k, :, 0])).tolist():
                numbers = (self.share, self.share_error, self.shock, self.return_time)
                rows.append([k, self.values[v], kind, *(number[k, v] for number in numbers)])
        return columns, rows

    def _notes(self) -> list[str]:
        size = ", ".join(
            f"{value:.4g} {name}" for value, name in zip(self.unit, self.state_names, strict=True)
        )
        drawn = [f"intervals over {counted(len(self.share_drawn), 'field')}"] if len(self.share_drawn) else []
        return [f"Shocks in units of {size}; smaller ones may exist.", *drawn, *super()._notes()]

    def _variables(self) -> Variables:
        by_value, drawn = ("attractor", "value"), ("draw", "attractor", "value")
        return {
            "value": (("value",), self.values),
            "kind": (("attractor",), np.array(self.kinds, dtype=object)),
            "place": ((*by_value, "state"), self.places),
            "shock_vector": ((*by_value, "state"), self.shock_vector),
            **{
                name: (by_value, getattr(self, name))
                for name in ("share", "share_error", "shock", "return_time")
            },
            **{
                name: (drawn, getattr(self, name))
                for name in ("share_drawn", "shock_drawn", "return_time_drawn")
            },
            "unit": (("state",), self.unit),
        }


@dataclass(frozen=True, eq=False)
class _Held:
    """One attractor of one field and how firmly it holds."""

    attractor: Attractor
    share: float
    error: float
    shock: float
    vector: np.ndarray
    return_time: float


@on_one_thread
@renamed(members="n_draws")
def resilience(
    family: FieldFamily | DataBifurcations,
    values: ArrayLike | None = None,
    region: RegionLike | None = None,
    *,
    n_draws: int | Sequence[FieldFamily] = 0,
    n_sample: int = 256,
    n_directions: int = 32,
    unit: ArrayLike | None = None,
    level: float = 0.9,
    budget: int = 20_000_000,
    seed: int = 0,
    progress: bool | None = None,
    max_seconds: float | None = None,
) -> Resilience:
    """Follow how firmly attractors hold along a parameter, to where they are lost.

    At each value: the share of the region that leads to each attractor; the smallest shock, among many
    directions, from which the state does not come back; and the time in which small disturbances decay. A
    share that falls or a shock that shrinks warns of tipping where the return time does not.

    Parameters
    ----------
    family : FieldFamily or DataBifurcations
        Fields by parameter; or a diagram of data, whose interpolated family and ensemble are used.
    values : array_like (v,), optional
        Parameter values, rising or falling; default those measured, where a diagram is given.
    region : Region, dict or pairs, optional
        The box in which attractors and starts lie; default the family's.
    n_draws : int or sequence of FieldFamily
        For intervals: families that represent the uncertainty; a number of them resamples the measured values
        of a diagram or of a family fitted to fields. 0 for none.
    n_sample : int
        States behind the shares.
    n_directions : int
        Directions of shocks.
    unit : array_like (d,), optional
        Shock of each state that counts as 1; default the region's size.
    level : float
        Probability that the intervals are meant to have.
    budget : int
        Number of field evaluations for one value of one family.
    seed : int
        Of samples, directions and resampling.
    progress : bool, optional
        Whether to show how far the work is; by default on a terminal only.
    max_seconds : float, optional
        Time on the clock after which it ends; what was not reached does not exist in the result.

    Returns
    -------
    Resilience

    Raises
    ------
    TypeError
        For something that is no family.
    ValueError
        If there are no values or no region, or members are wanted of a family that has none.

    See Also
    --------
    basins : Where states lead, at one value.
    tipping : Whether a change of the parameter in time tips the state.

    References
    ----------
    G. Datseris, K. Luiz Rossi, A. Wagemakers: Framework for global stability analysis of dynamical systems,
    Chaos 33 (2023) 073151.

    Examples
    --------
    >>> from fim_dynsys import FieldFamily
    >>> wells = FieldFamily.from_callable(lambda x, p: p + x - x**3, 1, "p")
    >>> held = resilience(wells, [0.0, 0.3], [(-2, 2)], unit=[1.0])
    >>> held.shock[:, 0].round(3).tolist()
    [1.0, 1.0]
    """
    if isinstance(family, DataBifurcations):
        values = family.values if values is None else values
        family = family.family
    if not isinstance(family, FieldFamily):
        raise TypeError(
            f"resilience: expected a FieldFamily or what bifurcations_from_data returns, got "
            f"{type(family).__name__}."
        )
    if values is None:
        raise ValueError("resilience: expected values of the parameter, got none; pass values=[...].")
    p = real_array(values, "resilience", "values")
    if p.ndim != 1 or not p.size or not np.isfinite(p).all():
        raise ValueError(f"resilience: expected finite values (v,) of the parameter, got {values!r}.")
    check_whole("resilience", 1, n_sample=n_sample, n_directions=n_directions, budget=budget)
    check_whole("resilience", 0, seed=seed)
    level = check_number("resilience", "level", level, 0.0, 1.0)
    others = _members(family, n_draws, seed)
    example = family.at(p[0])
    box = resolve_region(example, family.region if region is None else region, "resilience")
    scale = box.size if unit is None else real_array(unit, "resilience", "unit")
    if scale.shape != (box.dim,) or not (scale > 0).all():
        raise ValueError(f"resilience: expected one positive unit per state, got {unit!r}.")
    meter = _Meter(box, scale, n_sample, n_directions, budget, seed)
    total = len(p) * (1 + len(others))
    with time_limit("resilience", max_seconds), progress_bar(progress, total, "resilience", "fields") as bar:
        found = []
        for value in p:
            found.append([] if out_of_time() else meter.measure(family.at(value)))
            bar.update()
        tracks = _tracks(found, box)
        drawn = np.full((3, len(others), len(tracks), len(p)), np.nan)
        drawn[0] = 0.0
        for m, member in enumerate(others):
            for v, value in enumerate(p):
                if not out_of_time():
                    _match(drawn[:, m, :, v], tracks, v, meter.measure(member.at(value)), box)
                bar.update()
    meter.exhausted |= len(found) < len(p)
    arrays = _arrays(tracks, box.dim)
    return Resilience(
        parameter=family.parameter,
        values=p,
        kinds=tuple(next(h for h in track if h is not None).attractor.kind for track in tracks),
        unit=scale,
        share_drawn=drawn[0],
        shock_drawn=drawn[1],
        return_time_drawn=drawn[2],
        level=level,
        effort=Effort(meter.seeds, 0, meter.points, budget * total, meter.exhausted),
        state_names=tuple(family.state_names),
        units={},
        **arrays,
    )


def _members(family: FieldFamily, members: int | Sequence[FieldFamily], seed: int) -> Sequence[FieldFamily]:
    if not isinstance(members, int):
        return members
    check_whole("resilience", 0, n_draws=members)
    if members and not isinstance(family, PooledFamily):
        raise ValueError(
            "resilience: expected families as members of one that was not fitted to fields, got a number; "
            "pass n_draws=[...], or 0 for no intervals."
        )
    return family.bootstrap(members, seed) if members and isinstance(family, PooledFamily) else []


class _Meter:
    """Measures one field after the other with the same samples."""

    def __init__(
        self, region: Region, unit: np.ndarray, n_sample: int, n_directions: int, budget: int, seed: int
    ) -> None:
        self.region, self.unit, self.budget, self.seed = region, unit, budget, seed
        self.sample = region.sobol(n_sample, seed)
        self.directions = _spread(region.dim, n_directions, seed)
        self.radii = _RADII * float((region.size / unit).max())
        self.points = self.seeds = 0
        self.exhausted = False

    def measure(self, field: VectorField) -> list[_Held]:
        """All attractors of a field in the region."""
        run = Labelling(field, self.region, None, False, self.budget, len(self.sample), False)
        sampled, _ = run.label(self.sample, explore=True)
        held = []
        for k, attractor in enumerate(run.attractors):
            share = float(np.mean(sampled == k))
            smoothed = (share * len(sampled) + 1) / (len(sampled) + 2)
            shock, vector = self._shock(run, k)
            held.append(
                _Held(
                    attractor,
                    share,
                    float(np.sqrt(smoothed * (1 - smoothed) / (len(sampled) + 2))),
                    shock,
                    vector,
                    run.return_times.get(k, np.nan),
                )
            )
        run.bar.close()
        self.points += run.field.points
        self.seeds += len(self.sample)
        self.exhausted |= run.exhausted
        return held

    def _shock(self, run: Labelling, k: int) -> tuple[float, np.ndarray]:
        """Size and vector of the smallest shock found that attractor k does not survive."""
        points = run.attractors[k].points
        chosen = np.linspace(0, len(points), min(_BASES, len(points)), endpoint=False, dtype=int)
        bases = points[chosen]
        base = np.repeat(np.arange(len(bases)), len(self.directions))
        along = np.tile(self.directions, (len(bases), 1))
        lost = np.stack(
            [self._lost(run, k, bases[base], along, np.full(len(base), r)) for r in self.radii], axis=1
        )
        first = np.where(lost.any(axis=1), lost.argmax(axis=1), len(self.radii))
        best = np.argsort(first, kind="stable")[:_BEST]
        best = best[first[best] < len(self.radii)]
        if not len(best):
            return np.inf, np.full(self.region.dim, np.nan)
        low = np.where(first[best] > 0, self.radii[np.maximum(first[best] - 1, 0)], 0.0)
        radii = self._located(run, k, bases[base[best]], along[best], low, self.radii[first[best]])
        i = int(radii.argmin())
        radius, origin, direction = float(radii[i]), chosen[base[best[i]]], along[best[i]]
        rng = np.random.default_rng(self.seed)
        wider = 1.0
        for _ in range(_REFINEMENTS if self.region.dim > 1 else 0):
            near = direction + wider * _TURN * rng.standard_normal((_AROUND, self.region.dim))
            near /= np.linalg.norm(near, axis=1, keepdims=True)
            moved = rng.standard_normal(_AROUND) if len(points) > 1 else np.zeros(_AROUND)
            start = (origin + np.round(wider * _MOVED * len(points) * moved).astype(int)) % len(points)
            worse = self._lost(run, k, points[start], near, np.full(_AROUND, radius))
            if worse.any():
                near, start = near[worse], start[worse]
                high = np.full(len(near), radius)
                radii = self._located(run, k, points[start], near, np.zeros(len(near)), high)
                i = int(radii.argmin())
                radius, origin, direction = float(radii[i]), start[i], near[i]
            wider /= 2
        return radius, radius * direction * self.unit

    def _located(
        self, run: Labelling, k: int, x: np.ndarray, along: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> np.ndarray:
        """Radii between one that is survived and one that is not, by bisection."""
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            lost = self._lost(run, k, x, along, middle)
            low, high = np.where(lost, low, middle), np.where(lost, middle, high)
        return high

    def _lost(
        self, run: Labelling, k: int, x: np.ndarray, along: np.ndarray, radius: np.ndarray
    ) -> np.ndarray:
        """Which shocks lead elsewhere; those that stay undecided are not known to."""
        labels, _ = run.label(x + radius[:, None] * along * self.unit)
        return (labels != k) & (labels != BasinLabel.UNDECIDED)


def _spread(d: int, n: int, seed: int) -> np.ndarray:
    """Unit vectors (n, d) in all directions: both on the line, evenly spaced in the plane."""
    if d == 1:
        return np.array([[1.0], [-1.0]])
    if d == 2:
        angle = 2 * np.pi * np.arange(n) / n
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _tracks(found: Sequence[Sequence[_Held]], region: Region) -> list[list[_Held | None]]:
    """Attractors matched from value to value, each as a list by value with None where it is absent."""
    tracks: list[list[_Held | None]] = []
    for v, held in enumerate(found):
        latest = [(t, track[-1]) for t, track in enumerate(tracks) if track and track[-1] is not None]
        pairs = _pairs([h for _, h in latest if h is not None], held, region)
        taken = {j: latest[i][0] for i, j in pairs}
        for track in tracks:
            track.append(None)
        for j, one in enumerate(held):
            if j in taken:
                tracks[taken[j]][v] = one
            else:
                tracks.append([None] * v + [one])
    return tracks


def _pairs(a: Sequence[_Held], b: Sequence[_Held], region: Region) -> list[tuple[int, int]]:
    if not a or not b:
        return []
    ours, theirs = (extents([h.attractor.points for h in side], region) for side in (a, b))
    return assigned(ours, theirs, _FARTHEST * np.sqrt(region.dim))


def _match(
    out: np.ndarray, tracks: Sequence[Sequence[_Held | None]], v: int, held: Sequence[_Held], region: Region
) -> None:
    """Write share, shock and return time (3, k) of a drawn field at the field's own attractors."""
    known = [(t, track[v]) for t, track in enumerate(tracks) if track[v] is not None]
    for i, j in _pairs([h for _, h in known if h is not None], held, region):
        out[:, known[i][0]] = held[j].share, held[j].shock, held[j].return_time


def _arrays(tracks: Sequence[Sequence[_Held | None]], d: int) -> dict[str, Any]:
    shape = (len(tracks), max(map(len, tracks), default=0))
    out = {name: np.full(shape, np.nan) for name in ("share", "share_error", "shock", "return_time")}
    out |= {name: np.full((*shape, d), np.nan) for name in ("places", "shock_vector")}
    out["share"][:] = 0.0
    for k, track in enumerate(tracks):
        for v, held in enumerate(track):
            if held is not None:
                out["share"][k, v], out["share_error"][k, v] = held.share, held.error
                out["shock"][k, v], out["return_time"][k, v] = held.shock, held.return_time
                out["places"][k, v] = held.attractor.points.mean(axis=0)
                out["shock_vector"][k, v] = held.vector
    return out
