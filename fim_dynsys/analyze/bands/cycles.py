"""cycle_bands: limit cycles in fields drawn from a posterior, with intervals of periods and multipliers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fim_dynsys.analyze.bands.conditioned import conditioned_draws
from fim_dynsys.analyze.bands.draws import drawn_fields, half_width
from fim_dynsys.analyze.cycles.periodic import LimitCycles, limit_cycles
from fim_dynsys.analyze.cycles.shooting import Orbit, Shot, floquet, lengths_of, shooting_matrix
from fim_dynsys.analyze.misfit import FITS, residuals
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
    unwrap,
)
from fim_dynsys.errors import check_number, check_whole, renamed
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.posterior import PosteriorField
from fim_dynsys.simulation.solution import integrate
from fim_dynsys.threads import on_one_thread
from fim_dynsys.wording import counted

_NODES = 16  # segments of an orbit: short enough that errors grow little within one
_BETWEEN = 4  # states from one node to the next
_NEWTON_STEPS = 15  # of Newton's method, which is quadratic near the end
_CLOSED = 1e-6  # defect of an accepted orbit in length scales: intervals are wider by far
_RTOL, _DIFFERENCE = 1e-9, 1e-4  # the differences are then good to 1e-5, relative
_LONGEST_STEP = 0.3  # of the orbit's size
_FARTHEST = 0.5  # of the region's size
_SMALLEST = 0.2  # of the orbit's own size: a smaller one has shrunk to a fixed point
_STRETCH = 2.0  # of the period
_MOST_STEPS = 2000  # of one segment: what needs more is stiff and counts as lost
_WRONG = "the field does not fit its data, and intervals may be too narrow"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CycleBands(Result):
    """Limit cycles of a field and what becomes of them in m drawn fields; made by `cycle_bands`.

    Attributes
    ----------
    cycles : LimitCycles
        The n cycles of the field itself.
    period : ndarray (n, m)
        Period in each draw; NaN where the draw has no such cycle.
    log_moduli : ndarray (n, m, d)
        Logarithms of the moduli of the Floquet multipliers there, the trivial one first.
    multipliers : ndarray (n, m, d) complex
        The multipliers.
    orbits : ndarray (n, m, k, d)
        States at equal shares of the period, the first repeated at the end.
    weights : ndarray (m,)
        Of the draws, with sum 1.
    level : float
        Probability that the intervals are meant to have.
    misfit : float
        Residual over noise of short predictions of the data: about one where the field fits them, above two
        where it does not, and intervals may be too narrow; NaN without data.
    """

    drawn_by = "fim_dynsys.plot.bands:cycle_bands"

    cycles: LimitCycles
    period: np.ndarray
    log_moduli: np.ndarray
    multipliers: np.ndarray
    orbits: np.ndarray
    weights: np.ndarray
    level: float
    misfit: float = np.nan

    def __len__(self) -> int:
        return len(self.cycles)

    @property
    def fits(self) -> bool:
        """Whether residuals are no larger than twice the noise, as far as they are known."""
        return not self.misfit > FITS

    @property
    def existence(self) -> np.ndarray:
        """Share of the draws that have each cycle, (n,)."""
        return np.isfinite(self.period).astype(float) @ self.weights

    @property
    def stable_share(self) -> np.ndarray:
        """Probability that each cycle is stable, given that it exists, (n,)."""
        with np.errstate(invalid="ignore"):
            stable = (self.log_moduli[:, :, 1:] < 0).all(axis=2) & np.isfinite(self.period)
            return np.asarray(stable @ self.weights / self.existence)

    def period_interval(self, level: float | None = None) -> np.ndarray:
        """Intervals of the periods round the field's own, (n, 2); NaN where fewer than two draws have it."""
        return self._interval(self.period, self.cycles.period, level)

    def log_moduli_interval(self, level: float | None = None) -> np.ndarray:
        """Intervals of the logarithms of the multipliers' moduli, (n, d, 2)."""
        return self._interval(self.log_moduli, self.cycles.log_moduli, level)

    def _interval(self, drawn: np.ndarray, centre: np.ndarray, level: float | None) -> np.ndarray:
        half = half_width(drawn, centre, self.weights, self.level if level is None else level)
        return np.stack([centre - half, centre + half], axis=-1)

    def _headline(self) -> str:
        return f"{counted(len(self), 'periodic orbit')} in {counted(len(self.weights), 'draw')}"

    def _rows(self) -> Table:
        percent = f"{100 * self.level:g} %"
        moduli = np.exp(np.minimum(self.log_moduli_interval()[:, 1:], 700.0))
        rows = zip(
            self.cycles.period,
            self.period_interval(),
            self.cycles.kind,
            self.existence,
            self.stable_share,
            np.abs(self.cycles.multipliers[:, 1:]),
            moduli[:, :, 0],
            moduli[:, :, 1],
            self.cycles.support,
            strict=True,
        )
        columns = ["period", f"its {percent}", "kind", "exists", "stable", "|multipliers|"]
        return [*columns, f"{percent} from", f"{percent} to", "support"], [list(row) for row in rows]

    def _notes(self) -> list[str]:
        text = f"residual over noise {self.misfit:.2g}"
        known = [] if np.isnan(self.misfit) else [text if self.fits else f"{_WRONG}: {text}"]
        return [*known, *super()._notes()]

    def _variables(self) -> Variables:
        by_draw = ("cycle", "draw")
        return {
            "period": (("cycle",), self.cycles.period),
            "existence": (("cycle",), self.existence),
            "period_drawn": (by_draw, self.period),
            "log_moduli_drawn": ((*by_draw, "mode"), self.log_moduli),
            "multipliers_drawn": ((*by_draw, "mode"), self.multipliers),
            "orbits": ((*by_draw, "phase", "state"), self.orbits),
            "weight": (("draw",), self.weights),
            "level": ((), np.array(self.level)),
            "misfit": ((), np.array(self.misfit)),
        }


@on_one_thread
@renamed(draws="n_draws")
def cycle_bands(
    field: FieldLike,
    region: RegionLike | None = None,
    *,
    cycles: LimitCycles | None = None,
    n_draws: int | EnsembleField = 64,
    level: float = 0.9,
    seed: int = 0,
    progress: bool | None = None,
) -> CycleBands:
    """Follow the limit cycles of a field into fields drawn from its posterior.

    Each cycle is corrected by Newton's method on multiple shooting in all draws side by side. A draw has the
    cycle where the correction closes near the field's own orbit.

    Parameters
    ----------
    field : VectorField or fitted model
        The field under analysis.
    region : Region, dict or pairs, optional
        Where cycles are sought; default the data's box widened by 10 % on each side.
    cycles : LimitCycles, optional
        Those of the field, where they are known already; default `limit_cycles` of it.
    n_draws : int or EnsembleField
        How many fields to draw from the posterior, conditioned on whole trajectories (see
        `conditioned_draws`); or an ensemble such as ``model.ensemble(64)``, taken as it is.
    level : float
        Probability that the intervals are meant to have.
    seed : int
        Of the draws.
    progress : bool, optional
        Whether to show how far the work is; by default on a terminal only.

    Returns
    -------
    CycleBands

    Raises
    ------
    ValueError
        If the field has no posterior and no ensemble is given.
    TypeError
        If `field` has no vector field in the space of the observations.

    See Also
    --------
    limit_cycles : Of one field.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze
    >>> box = fim_dynsys.Region([-3, -3], [3, 3])
    >>> vdp = fim_dynsys.SymbolicField(["x1", "mu*(1 - x0**2)*x1 - x0"], {"mu": 1.0}, region=box)
    >>> rng = np.random.default_rng(0)
    >>> t = np.linspace(0, 12, 120)
    >>> exact = fim_dynsys.simulate(vdp, [[0.5, 0.0], [3.0, 1.0]], t)
    >>> noisy = [x + 0.02 * rng.standard_normal(x.shape) for x in exact.x]
    >>> model = fim_dynsys.load("fim-ode").fit(noisy, t)
    >>> bands = analyze.cycle_bands(model, n_draws=8, progress=False)
    >>> bands.period.shape
    (1, 8)
    """
    check_whole("cycle_bands", 0, seed=seed)
    level = check_number("cycle_bands", "level", level, 0.0, 1.0)
    field = unwrap(field, "cycle_bands")
    check_no_inputs("cycle_bands", field)
    region = resolve_region(field, region, "cycle_bands")
    if isinstance(n_draws, EnsembleField) or field.context is None or not isinstance(field, PosteriorField):
        drawn = drawn_fields(field, n_draws, seed, "cycle_bands")
    else:
        drawn = conditioned_draws(field, n_draws, seed=seed)
    cycles = limit_cycles(field, region, seed=seed, progress=progress) if cycles is None else cycles
    n, m, d = len(cycles), len(drawn), field.dim
    period, logs = np.full((n, m), np.nan), np.full((n, m, d), np.nan)
    multipliers = np.full((n, m, d), np.nan + 0j)
    orbits = np.full((n, m, _NODES * _BETWEEN + 1, d), np.nan)
    points = 0
    with progress_bar(progress, n, "cycles in draws", "cycles") as bar:
        for k in range(n):
            found = follow_orbit(tuple(drawn), cycles.orbits[k], cycles.period[k], region.size)
            points += found.points
            here = found.exists
            period[k, here], orbits[k, here] = found.period[here], found.orbits[here]
            for i in np.flatnonzero(here).tolist():
                exponents = floquet(drawn[i], found.orbit(i))
                multipliers[k, i], logs[k, i] = exponents.multipliers, exponents.log_moduli
            bar.update()
    spent = cycles.effort
    return CycleBands(
        cycles=cycles,
        period=period,
        log_moduli=logs,
        multipliers=multipliers,
        orbits=orbits,
        weights=np.array(drawn.weights),
        level=level,
        misfit=np.nan if field.context is None else residuals(field, field.context)[0],
        effort=Effort(
            spent.seeds, spent.iterations, spent.points + points, spent.budget + points, spent.exhausted
        ),
        **labels(field),
    )


@dataclass(frozen=True, eq=False)
class FollowedOrbits:
    """One closed orbit in each of m fields.

    Attributes
    ----------
    exists : ndarray (m,) of bool
        Whether the field has it.
    period : ndarray (m,)
        Periods.
    nodes : ndarray (m, K, d)
        States at equal shares of the period.
    orbits : ndarray (m, k, d)
        The same at more of them, the first repeated at the end.
    defect, velocity : ndarray (m, K, d)
        End of each segment less the next node, and the field there.
    transition : ndarray (m, K, d, d)
        Derivative of the end of each segment by its start, in units of the length scale.
    length : ndarray (d,)
        The length scale: the extent of the orbit that was followed.
    points : int
        Points at which fields were evaluated.
    """

    exists: np.ndarray
    period: np.ndarray
    nodes: np.ndarray
    orbits: np.ndarray
    defect: np.ndarray
    velocity: np.ndarray
    transition: np.ndarray
    length: np.ndarray
    points: int

    def orbit(self, i: int) -> Orbit:
        """The orbit of field i as `shooting` has it."""
        shot = Shot(self.defect[i], self.transition[i], self.velocity[i], np.nan, False)
        residual = float(np.abs(self.defect[i] / self.length).max())
        x = self.nodes[i]
        return Orbit(x[0], float(self.period[i]), x, residual, True, 0.0, 0, shot, self.length)


def follow_orbit(
    fields: Sequence[VectorField], orbit: np.ndarray, period: float, farthest: np.ndarray
) -> FollowedOrbits:
    """Correct one closed orbit in several fields at once, by Newton's method on multiple shooting.

    Parameters
    ----------
    fields : sequence of m VectorField
        The fields.
    orbit : ndarray (k, d)
        States at equal intervals of time once round, the last equal to the first.
    period : float
        Its period.
    farthest : ndarray (d,)
        Size of the region: an orbit that has moved by half of it is another one.

    Returns
    -------
    FollowedOrbits
    """
    share = np.linspace(0.0, 1.0, len(orbit))
    start = np.stack([np.interp(np.arange(_NODES) / _NODES, share, column) for column in orbit.T], axis=1)
    shooter = _Shooter(fields, lengths_of(orbit, farthest))
    nodes = np.repeat(start[None], len(fields), axis=0)
    time = np.full(len(fields), period)
    going, closed = np.arange(len(fields)), np.zeros(len(fields), dtype=bool)
    flow = shooter.rates(start[None].repeat(len(fields), axis=0)[:, 0], going) / shooter.length
    normal = flow / np.linalg.norm(flow, axis=1, keepdims=True)
    for _ in range(_NEWTON_STEPS):
        if not len(going):
            break
        shot = shooter.shoot(nodes[going], time[going], going)
        defect = np.abs(shot.defect / shooter.length).max(axis=(1, 2))
        closed[going] = defect <= _CLOSED
        usable = np.isfinite(defect) & np.isfinite(shot.transition).all(axis=(1, 2, 3))
        kept = []
        for row in np.flatnonzero(usable & ~closed[going]).tolist():
            i = going[row]
            step, change = _step(shot.of(row), normal[i], time[i], shooter.length)
            nodes[i] += step
            time[i] += change
            if period / _STRETCH < time[i] < period * _STRETCH and np.isfinite(nodes[i]).all():
                kept.append(i)
        going = np.array(kept, dtype=int)
    last = shooter.shoot(nodes, np.where(closed, time, period), np.arange(len(fields)), central=True)
    orbits = shooter.trace(nodes, np.where(closed, time, period))
    known = closed & np.isfinite(orbits).all(axis=(1, 2)) & np.isfinite(last.transition).all(axis=(1, 2, 3))
    with np.errstate(invalid="ignore"):
        moved = np.abs(nodes - start).max(axis=1) > _FARTHEST * farthest
        shrunk = (np.ptp(orbits, axis=1) / shooter.length).max(axis=1) < _SMALLEST
    exists = known & ~moved.any(axis=1) & ~shrunk
    return FollowedOrbits(
        exists,
        time,
        nodes,
        orbits,
        last.defect,
        last.velocity,
        last.transition,
        shooter.length,
        shooter.points,
    )


@dataclass(frozen=True, eq=False)
class _Shots:
    """`Shot` of several fields, with a first axis for them."""

    defect: np.ndarray
    transition: np.ndarray
    velocity: np.ndarray

    def of(self, i: int) -> Shot:
        return Shot(self.defect[i], self.transition[i], self.velocity[i], np.nan, False)


class _Shooter:
    """Passes along the segments of orbits of several fields, transitions by differences."""

    def __init__(self, fields: Sequence[VectorField], length: np.ndarray) -> None:
        self.fields = tuple(fields)
        self.length = length
        kinds = {type(field) for field in fields}
        self._stacked = (kinds.pop() if len(kinds) == 1 else VectorField).stack(self.fields)
        self.points = 0

    def rates(self, x: np.ndarray, which: np.ndarray) -> np.ndarray:
        self.points += len(x)
        return self._stacked(x, which)

    def shoot(
        self, nodes: np.ndarray, period: np.ndarray, which: np.ndarray, central: bool = False
    ) -> _Shots:
        m, n, d = nodes.shape
        steps = _DIFFERENCE * np.concatenate([np.eye(d), -np.eye(d)] if central else [np.eye(d)])
        shifts = np.concatenate([np.zeros((1, d)), steps]) * self.length
        start = nodes[:, :, None] + shifts
        rows = np.repeat(which, n * len(shifts))
        end = self._carried(start.reshape(-1, d), np.repeat(period / n, n * len(shifts)), rows)
        end = end.reshape(m, n, len(shifts), d)
        middle = end[:, :, 0]
        if central:
            slopes = (end[:, :, 1 : d + 1] - end[:, :, d + 1 :]) / (2 * _DIFFERENCE)
        else:
            slopes = (end[:, :, 1:] - middle[:, :, None]) / _DIFFERENCE
        transition = np.swapaxes(slopes / self.length, 2, 3)
        velocity = self.rates(middle.reshape(-1, d), np.repeat(which, n)).reshape(m, n, d)
        return _Shots(middle - np.roll(nodes, -1, axis=1), transition, velocity)

    def trace(self, nodes: np.ndarray, period: np.ndarray) -> np.ndarray:
        """States at `_BETWEEN` equal shares of each segment, the first repeated, (m, k, d)."""
        m, n, d = nodes.shape
        t = np.linspace(0.0, 1.0, _BETWEEN + 1) * np.repeat(period / n, n)[:, None]
        x = self._integrated(nodes.reshape(-1, d), t, np.repeat(np.arange(m), n))
        x = x[:, :-1].reshape(m, n * _BETWEEN, d)
        return np.concatenate([x, x[:, :1]], axis=1)

    def _carried(self, x: np.ndarray, duration: np.ndarray, which: np.ndarray) -> np.ndarray:
        return self._integrated(x, np.stack([np.zeros_like(duration), duration], axis=1), which)[:, 1]

    def _integrated(self, x: np.ndarray, t: np.ndarray, which: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            solution = integrate(
                self.fields,
                x,
                t,
                which=which,
                rtol=_RTOL,
                atol=_RTOL * self.length,
                max_steps=_MOST_STEPS,
            )
        self.points += 12 * int(solution.n_steps.sum())
        return solution.x


def _step(shot: Shot, normal: np.ndarray, period: float, length: np.ndarray) -> tuple[np.ndarray, float]:
    """Changes of the nodes (K, d) and of the period, no longer than a share of the orbit's size."""
    n, d = shot.defect.shape
    matrix = shooting_matrix(shot, normal, length)
    matrix[:, -1] *= period
    right = np.append(-(shot.defect / length).ravel(), 0.0)
    solution = np.linalg.lstsq(matrix, right, rcond=None)[0]
    longest = np.abs(solution[:-1]).max()
    solution *= _LONGEST_STEP / max(longest, _LONGEST_STEP)
    return solution[:-1].reshape(n, d) * length, float(solution[-1] * period * n)
