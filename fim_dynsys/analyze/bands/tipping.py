"""tipping: how probably a ramp of a parameter, or noise, drives a state away from where it rested."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from fim_dynsys.analyze.bands.draws import drawn_fields
from fim_dynsys.analyze.bifurcation.measured import DataBifurcations
from fim_dynsys.analyze.equilibria.kinds import AXIS
from fim_dynsys.analyze.results import (
    Effort,
    FieldLike,
    RegionLike,
    Result,
    Table,
    Variables,
    check_no_inputs,
    labels,
    progress_bar,
    resolve_region,
    scales_within,
    unwrap,
    with_steps,
    with_steps_within,
)
from fim_dynsys.analyze.settled import settled_jacobian
from fim_dynsys.analyze.tracing.equations import ROOT, Equations
from fim_dynsys.errors import check_number, check_positive, check_whole, renamed
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.family import FieldFamily
from fim_dynsys.fields.frame import Scales
from fim_dynsys.regions import Region
from fim_dynsys.threads import on_one_thread
from fim_dynsys.wording import counted

_LEVELS = 48  # of the ramp: between two of them rates change linearly
_SHORTEST = 40  # steps in the field's unit of time
_RESOLVED = 0.25  # steps times the fastest rate at rest: the variance of noise there is right to 1 %
_STABLE = 2.0  # the same, at which Heun's steps begin to grow
_MOST_STEPS = 20_000  # of one noisy path, which all draws take together
_TIMES = 200  # at which what has tipped is counted
_QUANTILES = 200  # of each family's share, blurred by its number of paths, which are pooled


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Tipping(Result):
    """Probability that a state tips; made by `tipping`.

    Attributes
    ----------
    probability : float
        Share of the paths that are away from their state of rest at the end, over all members.
    interval : (float, float)
        Interval of that share over the members and for the number of paths of each.
    level : float
        Probability that the interval is meant to have.
    by_member : ndarray (m,)
        The share in each member: the field itself first where there are no others.
    times : ndarray (n,)
        Times from the start of the ramp.
    away : ndarray (n,)
        Share of all paths away at each of them.
    ramp : ndarray (n,)
        Values of the parameter; NaN without one.
    noise : ndarray (d,)
        Intensity of the noise.
    n_paths : int
        Paths of each member.
    """

    drawn_by = "fim_dynsys.plot.bands:tipping"

    probability: float
    interval: tuple[float, float]
    level: float
    by_member: np.ndarray
    times: np.ndarray
    away: np.ndarray
    ramp: np.ndarray
    noise: np.ndarray
    n_paths: int

    def _headline(self) -> str:
        low, high = self.interval
        return f"P(tipping) = {self.probability:.3g}, {100 * self.level:g} % interval {low:.3g} to {high:.3g}"

    def _rows(self) -> Table:
        rows = [
            [t, p, share]
            for t, p, share in zip(self.times[::20], self.ramp[::20], self.away[::20], strict=True)
        ]
        return ["t", "parameter", "away"], rows

    def _notes(self) -> list[str]:
        members, paths = counted(len(self.by_member), "member"), counted(self.n_paths, "path")
        return [f"{members}, {paths} each", *super()._notes()]

    def _variables(self) -> Variables:
        return {
            "t": (("time",), self.times),
            "ramp": (("time",), self.ramp),
            "away": (("time",), self.away),
            "probability_by_member": (("member",), self.by_member),
            "probability": ((), np.array(self.probability)),
            "interval": (("end",), np.array(self.interval)),
        }


@on_one_thread
@renamed(members="n_draws")
def tipping(
    fields: FieldLike | FieldFamily | DataBifurcations,
    x0: ArrayLike,
    duration: float,
    *,
    ramp: tuple[float, float] | None = None,
    hold: float = 0.0,
    noise: ArrayLike = 0.0,
    n_draws: int | Sequence[FieldFamily] | EnsembleField = 50,
    n_paths: int = 100,
    region: RegionLike | None = None,
    limit: float = 0.25,
    dt: float | None = None,
    level: float = 0.9,
    seed: int = 0,
    progress: bool | None = None,
) -> Tipping:
    """Probability that a ramp of the parameter, or noise, drives a system away from its state of rest.

    Each member starts in its own equilibrium near `x0`. The parameter changes evenly during `duration` and is
    then held; white noise acts on all states (dx = f dt + noise dW, Heun's scheme). A path is away where it
    is further from that equilibrium, followed to the present value of the parameter, than `limit` times the
    region's size; where a fold has destroyed it, from where it was last. The probability is that of being
    away at the end: hold long enough for what has tipped to go.

    Parameters
    ----------
    fields : DataBifurcations, FieldFamily, VectorField or fitted model
        The system. A ramp needs one of the first two.
    x0 : array_like (d,)
        Near the equilibrium at the start.
    duration : float
        Time of the ramp, or for which noise acts.
    ramp : (float, float), optional
        Value of the parameter before and after.
    hold : float
        Time after the ramp.
    noise : float or array_like (d,)
        Intensity, in units of the state per square root of time.
    n_draws : int, sequence of FieldFamily or EnsembleField
        For data, the size of the ensemble of fits to resampled values; for a field with a posterior, the
        number of draws; or the members themselves. A family without others is taken to be exact.
    n_paths : int
        Paths of each member; one without noise.
    region : Region, dict or pairs, optional
        What `limit` is a share of; default the fields' own.
    limit : float
        As a share of the region's size.
    dt : float, optional
        Step; default a fortieth of the field's unit of time, or a quarter of its fastest at rest.
    level : float
        Probability that the interval is meant to have.
    seed : int
        Of the noise, and of draws and resampling.
    progress : bool, optional
        Whether to show how far the work is; by default on a terminal only.

    Returns
    -------
    Tipping

    Raises
    ------
    ValueError
        If no member has an equilibrium near `x0`, a ramp is asked of a single field, or an option does not
        fit.
    TypeError
        For something else than fields.

    References
    ----------
    P. Ashwin, S. Wieczorek, R. Vitolo, P. Cox, Tipping points in open systems, Phil. Trans. R. Soc. A 370
    (2012) 1166 (tipping by bifurcation, noise and rate).

    See Also
    --------
    basins : Which states lead where.

    Examples
    --------
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze
    >>> box = fim_dynsys.Region([-2], [2])
    >>> fields = fim_dynsys.FieldFamily.from_callable(lambda x, p: p + x - x**3, 1, "p", region=box)
    >>> found = analyze.tipping(fields, [-1.1], 40.0, ramp=(0.0, 0.8), hold=20.0, n_paths=1)
    >>> float(round(found.probability, 2))
    1.0
    """
    check_positive("tipping", duration=duration, limit=limit, dt=1.0 if dt is None else dt)
    check_number("tipping", "hold", hold, 0.0)
    check_whole("tipping", 1, n_paths=n_paths)
    check_whole("tipping", 0, seed=seed)
    system = _System.of(fields, ramp, n_draws, seed, region)
    d = len(system.names)
    x0, intensity = np.asarray(x0, dtype=float), np.broadcast_to(np.asarray(noise, dtype=float), (d,))
    if x0.shape != (d,) or not np.isfinite(x0).all() or not (np.isfinite(intensity) & (intensity >= 0)).all():
        raise ValueError(
            f"tipping: expected a state of shape ({d},) and noise >= 0, got {x0} and {intensity}."
        )
    level = check_number("tipping", "level", level, 0.0, 1.0)
    n_paths = n_paths if intensity.any() else 1
    end = duration + hold
    rest = system.rest(x0)
    found = ~np.isnan(rest).any(axis=(1, 2))
    if not found.any():
        raise ValueError(f"tipping: expected an equilibrium near {x0.tolist()} at the start, found none.")
    repels = found & system.repels(rest[:, 0])
    if repels[found].all():
        raise ValueError(
            f"tipping: expected a stable equilibrium near {x0.tolist()} at the start, got an unstable one at "
            f"{rest[found][0, 0].tolist()}; give a state near the one that is left."
        )
    found &= ~repels
    n = _n_steps(end, dt, system.scales.time, system.fastest(rest[found], np.flatnonzero(found)))
    paths = _Paths(system, rest, np.flatnonzero(found), n_paths, limit)
    times, away, by_member = paths.run(duration, end, n, intensity, seed, progress)
    weights = system.weights[found] / system.weights[found].sum()
    return Tipping(
        probability=float(weights @ by_member),
        interval=_interval(by_member, weights, n_paths if intensity.any() else np.inf, level),
        level=level,
        by_member=by_member,
        times=times,
        away=away,
        ramp=np.array([system.parameter(min(t / duration, 1.0)) for t in times]),
        noise=intensity,
        n_paths=n_paths,
        effort=Effort(int(found.sum()), n, paths.points, paths.points, False),
        state_names=system.names,
        units=system.units,
    )


def _n_steps(end: float, dt: float | None, time: float, fastest: float) -> int:
    """Number of steps: given ones have to be stable, others resolve the fastest rate at rest.

    Parameters
    ----------
    end, time : float
        Of the paths; unit of time of the field.
    dt : float or None
        Step that was asked for.
    fastest : float
        Largest rate at which states return to rest.
    """
    unit = 1.0 / max(fastest, 1e-300)
    most = _STABLE * unit
    if dt is not None and dt > most:
        raise ValueError(
            f"tipping: expected dt below {most:.3g}, because the system returns to rest at rates of "
            f"{fastest:.3g}, got {dt:g}."
        )
    step = min(time / _SHORTEST, _RESOLVED * unit) if dt is None else dt
    n = max(int(np.ceil(end / step)), 2 * _TIMES)
    if n > _MOST_STEPS and dt is None:
        raise ValueError(
            f"tipping: expected at most {_MOST_STEPS} steps of {step:.3g} in a time of {end:g}, got {n}; "
            f"shorten the time, or pass a larger dt below {most:.3g}, if the motion is slow enough for it."
        )
    return n


@dataclass(frozen=True, eq=False)
class _System:
    """Members with a parameter that runs from 0 to 1 along the ramp."""

    at: tuple[Callable[[float], VectorField], ...]  # of each member, at a parameter value
    families: tuple[FieldFamily, ...]
    ramp: tuple[float, float] | None
    weights: np.ndarray
    region: Region
    scales: Scales
    names: tuple[str, ...]
    units: dict[str, str]

    @classmethod
    def of(
        cls,
        fields: FieldLike | FieldFamily | DataBifurcations,
        ramp: tuple[float, float] | None,
        members: int | Sequence[FieldFamily] | EnsembleField,
        seed: int,
        region: RegionLike | None,
    ) -> _System:
        if isinstance(fields, DataBifurcations | FieldFamily):
            return cls._of_families(fields, ramp, members, seed, region)
        field = unwrap(fields, "tipping")
        check_no_inputs("tipping", field)
        if ramp is not None:
            raise ValueError(
                f"tipping: expected a FieldFamily or a diagram of data for a ramp, got "
                f"{type(field).__name__}."
            )
        if not isinstance(members, int | EnsembleField):
            raise ValueError("tipping: expected draws or an EnsembleField as members of a single field.")
        exact = isinstance(members, int) and field.draws(1) is None and field.context is None
        chosen = EnsembleField([field]) if exact else drawn_fields(field, members, seed, "tipping")
        box = resolve_region(field, region, "tipping")
        families = tuple(_constant(member, box) for member in chosen)
        own = labels(field)
        return cls(
            tuple(family.at for family in families),
            families,
            None,
            np.array(chosen.weights),
            box,
            scales_within(field, box),
            tuple(own["state_names"]),
            own["units"],
        )

    @classmethod
    def _of_families(
        cls,
        fields: FieldFamily | DataBifurcations,
        ramp: tuple[float, float] | None,
        members: int | Sequence[FieldFamily] | EnsembleField,
        seed: int,
        region: RegionLike | None,
    ) -> _System:
        family = fields.family if isinstance(fields, DataBifurcations) else fields
        if ramp is None or np.shape(ramp) != (2,) or not np.isfinite(ramp).all():
            raise ValueError(f"tipping: expected two values of {family.parameter} as ramp, got {ramp}.")
        if isinstance(members, EnsembleField):
            raise ValueError("tipping: expected FieldFamilies as members of a family, got an EnsembleField.")
        chosen: Sequence[FieldFamily]
        if not isinstance(members, int):
            chosen = list(members)
        elif isinstance(fields, DataBifurcations):
            chosen = fields.family.bootstrap(members, seed)
        else:
            chosen = [fields]
        first = family.at(ramp[0])
        box = resolve_region(first, family.region if region is None else region, "tipping")
        scales = scales_within(first, box) if family.scales is None else family.scales
        units = dict(fields.units) if isinstance(fields, DataBifurcations) else {}
        return cls(
            tuple(member.at for member in chosen),
            tuple(chosen),
            (float(ramp[0]), float(ramp[1])),
            np.full(len(chosen), 1.0 / len(chosen)),
            box,
            scales,
            tuple(family.state_names),
            units,
        )

    def parameter(self, share: float) -> float:
        return np.nan if self.ramp is None else self.ramp[0] + share * (self.ramp[1] - self.ramp[0])

    def fields(self, share: float) -> tuple[VectorField, ...]:
        p = 0.0 if self.ramp is None else self.parameter(share)
        return tuple(at(p) for at in self.at)

    def repels(self, rest: np.ndarray) -> np.ndarray:
        """Whether each member's field leads away from its own state (m, d) at the start, (m,)."""
        away = np.zeros(len(rest), dtype=bool)
        for k, (field, x) in enumerate(zip(self.fields(0.0), rest, strict=True)):
            if np.isfinite(x).all():
                values = self._rates(field, x)
                away[k] = values.real.max() > AXIS * np.abs(values).max()
        return away

    def fastest(self, rest: np.ndarray, members: np.ndarray) -> float:
        """Largest rate, by size, at the states (m, levels, d) of some members (m,)."""
        shares = np.linspace(0.0, 1.0, rest.shape[1])
        return max(
            float(np.abs(self._rates(fields[k], places[level])).max())
            for level, fields in enumerate(map(self.fields, shares))
            for k, places in zip(members, rest, strict=True)
        )

    def _rates(self, field: VectorField, x: np.ndarray) -> np.ndarray:
        """Eigenvalues (d,) at a state (d,)."""
        return np.linalg.eigvals(settled_jacobian(with_steps(field, self.scales), x, self.scales.length))

    def rest(self, x0: np.ndarray) -> np.ndarray:
        """The equilibrium of each member at each level of the ramp, (m, levels, d).

        Its last place where it ends; NaN for a member that has none at the start.
        """
        n_levels = 1 if self.ramp is None or self.ramp[0] == self.ramp[1] else _LEVELS + 1
        ends = (0.0, 1.0) if self.ramp is None else self.ramp
        ends = ends if ends[0] != ends[1] else (ends[0], ends[0] + 1.0)
        rest = np.full((len(self.families), n_levels, len(x0)), np.nan)
        nearby = 0.5 * self.region.size
        for family, places in zip(self.families, rest, strict=True):
            equations, x, alive = Equations(family, ends, self.region), x0, True
            for k, share in enumerate(np.linspace(0.0, 1.0, n_levels)):
                p = ends[0] if self.ramp is None else self.parameter(float(share))
                if alive:
                    u, residual = equations.find_root(x, p)
                    root = equations.unscaled(u[:-1], u[-1])[0]
                    jump = np.abs(root - x) > (nearby if k == 0 else nearby / 4.0)
                    alive = residual < ROOT and not jump.any()
                    if not alive and k == 0:
                        break
                    x = root if alive else x
                places[k] = x
        return rest


def _constant(field: VectorField, region: Region) -> FieldFamily:
    """A field as a family whose parameter changes nothing."""
    steady = with_steps_within(field, region)
    return FieldFamily.from_callable(
        lambda x, p: field(x),
        field.dim,
        jac=lambda x, p: steady.jacobian(x),
        state_names=field.state_names,
        scales=field.scales,
    )


class _Paths:
    """Paths of all members side by side."""

    def __init__(
        self, system: _System, rest: np.ndarray, members: np.ndarray, n_paths: int, limit: float
    ) -> None:
        self.system, self.rest, self.members = system, rest, members
        self.which = np.repeat(members, n_paths)
        self.n_paths = n_paths
        self.limit = limit * system.region.size
        self.points = 0

    def run(
        self,
        duration: float,
        end: float,
        n: int,
        intensity: np.ndarray,
        seed: int,
        progress: bool | None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Times, the share away at each, and the share away at the end by member."""
        rng = np.random.default_rng(seed)
        x, dt = self.rest[self.which, 0].copy(), end / n
        kick = intensity * np.sqrt(dt)
        counted = np.unique(np.linspace(0, n, _TIMES + 1).astype(int))
        times, away = [0.0], [0.0]
        last = self._away(x, 0.0)
        low = self.system.region.low - 2.0 * self.system.region.size
        high = self.system.region.high + 2.0 * self.system.region.size
        rates = _Ramp(self.system, self.rest.shape[1] - 1)
        with progress_bar(progress, n, "tipping", "steps") as bar, np.errstate(all="ignore"):
            for k in range(n):
                start, stop = (min(t * dt / duration, 1.0) for t in (k, k + 1))
                noise = kick * rng.standard_normal(x.shape) if kick.any() else 0.0
                f = rates(x, self.which, start)
                guess = x + dt * f + noise
                moved = x + 0.5 * dt * (f + rates(guess, self.which, stop)) + noise
                self.points += 2 * len(x)
                # what has left for good stays where it left
                gone = ~(np.isfinite(moved) & (moved >= low) & (moved <= high)).all(axis=1)
                x = np.where(gone[:, None], np.clip(np.nan_to_num(x, nan=np.inf), low, high), moved)
                x[gone] = high + 1.0
                if k + 1 in counted:
                    last = self._away(x, stop)
                    times.append((k + 1) * dt)
                    away.append(float(self._by_member(last) @ self._weights))
                bar.update()
        return np.array(times), np.array(away), self._by_member(last)

    @property
    def _weights(self) -> np.ndarray:
        weights = self.system.weights[self.members]
        return weights / weights.sum()

    def _away(self, x: np.ndarray, share: float) -> np.ndarray:
        levels = self.rest.shape[1] - 1
        place = self.rest[self.which, round(share * levels)]
        return (np.abs(x - place) > self.limit).any(axis=1)

    def _by_member(self, away: np.ndarray) -> np.ndarray:
        return away.reshape(len(self.members), self.n_paths).mean(axis=1)


class _Ramp:
    """Rates of change along the ramp, linear between its levels."""

    def __init__(self, system: _System, n_levels: int) -> None:
        self.system, self.n = system, n_levels
        self._known: dict[int, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {}

    def __call__(self, x: np.ndarray, which: np.ndarray, share: float) -> np.ndarray:
        if self.n == 0:
            return self._level(0)(x, which)
        below = min(int(share * self.n), self.n - 1)
        weight = share * self.n - below
        if weight == 1.0:
            return self._level(below + 1)(x, which)
        return (1.0 - weight) * self._level(below)(x, which) + weight * self._level(below + 1)(x, which)

    def _level(self, k: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        if k not in self._known:
            fields = self.system.fields(k / self.n if self.n else 0.0)
            kinds = {type(field) for field in fields}
            self._known[k] = (kinds.pop() if len(kinds) == 1 else VectorField).stack(fields)
        return self._known[k]


def _interval(
    by_member: np.ndarray, weights: np.ndarray, n_paths: float, level: float
) -> tuple[float, float]:
    """Quantiles of what members say, each blurred by the scatter of its number of paths (Jeffreys' prior)."""
    tail = (1.0 - level) / 2.0
    if len(by_member) == 1 and not np.isfinite(n_paths):
        return float(by_member[0]), float(by_member[0])
    if not np.isfinite(n_paths):  # each member tips or does not: as many trials as members
        by_member, weights, n_paths = (weights @ by_member)[None], np.ones(1), len(by_member)
    shares = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    tipped = by_member[:, None] * n_paths
    values = betaincinv(tipped + 0.5, n_paths - tipped + 0.5, shares).ravel()
    order = np.argsort(values)
    total = np.cumsum(np.repeat(weights / _QUANTILES, _QUANTILES)[order])
    low, high = values[order][np.minimum(np.searchsorted(total, [tail, 1.0 - tail]), len(values) - 1)]
    probability = float(weights @ by_member)  # of no paths or all, Jeffreys' quantiles leave it out
    return min(float(low), probability), max(float(high), probability)
