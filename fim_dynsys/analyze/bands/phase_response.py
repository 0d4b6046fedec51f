"""phase_response: how much small shifts advance an oscillation, with bands over drawn fields."""

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline

from fim_dynsys.analyze.bands.conditioned import conditioned_draws
from fim_dynsys.analyze.bands.cycles import follow_orbit
from fim_dynsys.analyze.bands.draws import FEWEST, drawn_fields, half_width
from fim_dynsys.analyze.cycles.adjoint import adjoint_response
from fim_dynsys.analyze.cycles.periodic import LimitCycles, check_stable, limit_cycles
from fim_dynsys.analyze.cycles.shooting import lengths_of, shoot
from fim_dynsys.analyze.results import (
    Effort,
    FieldLike,
    RegionLike,
    Result,
    Table,
    Variables,
    check_result,
    labels,
    resolve_region,
    unwrap,
    with_steps_within,
)
from fim_dynsys.deadline import time_limit
from fim_dynsys.errors import check_number, check_whole, renamed
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.simulation.solution import integrate
from fim_dynsys.threads import on_one_thread
from fim_dynsys.wording import counted

_RTOL = 1e-10  # of a step: the response is a derivative of what is integrated
_PHASES = 64  # of the response; a relaxation oscillation needs more, and `n_phases` gives them


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PhaseResponse(Result):
    """Phase response curve of a cycle; made by `phase_response`.

    Attributes
    ----------
    phase : ndarray (k,)
        Shares of the period, 0 at the point ``cycles.x``.
    response : ndarray (k, d)
        Advance of the phase, in periods, by a small shift of each state, per unit of the shift.
    orbit : ndarray (k, d)
        States at these phases.
    period : float
        The period.
    residual : float
        Largest difference of response times velocity from one period per period: 0 for the exact curve.
    drawn : ndarray (m, k, d)
        The curve in each of m draws, NaN where a draw lacks the cycle; m = 0 without draws.
    drawn_period : ndarray (m,)
        Periods there.
    weights : ndarray (m,)
        Of the draws, with sum 1.
    level : float
        Probability that the bands are meant to have.
    """

    drawn_by = "fim_dynsys.plot.phases:phase_response"

    phase: np.ndarray
    response: np.ndarray
    orbit: np.ndarray
    period: float
    residual: float
    drawn: np.ndarray
    drawn_period: np.ndarray
    weights: np.ndarray
    level: float

    @property
    def existence(self) -> float:
        """Share of the draws that have the cycle; NaN without draws."""
        here = np.isfinite(self.drawn_period)
        return float(here @ self.weights) if len(here) else np.nan

    def interval(self, level: float | None = None) -> np.ndarray:
        """Band round the curve, (k, d, 2); NaN without draws or where fewer than two have the cycle."""
        if len(self.drawn) == 0:
            return np.full((*self.response.shape, 2), np.nan)
        level = self.level if level is None else level
        half = half_width(np.moveaxis(self.drawn, 0, 1), self.response, self.weights, level)
        return np.stack([self.response - half, self.response + half], axis=-1)

    def _headline(self) -> str:
        return f"Phase response of a cycle of period {self.period:.5g}, in periods per unit of each state"

    def _rows(self) -> Table:
        bands = self.interval()
        columns = ["state", "largest advance", "at phase", "largest delay", "at phase "]
        drawn = len(self.drawn) > 0
        percent = f"its {100 * self.level:g} %"
        rows = []
        for i, name in enumerate(self.state_names):
            first, last = int(self.response[:, i].argmax()), int(self.response[:, i].argmin())
            row = [name, self.response[first, i], self.phase[first], self.response[last, i], self.phase[last]]
            rows.append([*row, bands[first, i], bands[last, i]] if drawn else row)
        return ([*columns, percent, f"{percent} "] if drawn else columns), rows

    def _notes(self) -> list[str]:
        check = f"response times velocity off by {self.residual:.2g} at most"
        draws = (
            [f"the cycle exists in {self.existence:.0%} of {counted(len(self.weights), 'draw')}"]
            if len(self.weights)
            else []
        )
        return [check, *draws, *super()._notes()]

    def _variables(self) -> Variables:
        return {
            "phase": (("phase",), self.phase),
            "response": (("phase", "state"), self.response),
            "orbit": (("phase", "state"), self.orbit),
            "period": ((), np.array(self.period)),
            "response_drawn": (("draw", "phase", "state"), self.drawn),
            "period_drawn": (("draw",), self.drawn_period),
            "weight": (("draw",), self.weights),
        }


@on_one_thread
@renamed(draws="n_draws")
def phase_response(
    field: FieldLike,
    region: RegionLike | None = None,
    *,
    cycles: LimitCycles | None = None,
    which: int = 0,
    n_phases: int = _PHASES,
    n_draws: int | EnsembleField = 64,
    level: float = 0.9,
    seed: int = 0,
    progress: bool | None = None,
    max_seconds: float | None = None,
) -> PhaseResponse:
    """Compute how much a small shift of each state advances an oscillation, at every phase.

    The infinitesimal phase response curve solves the adjoint of the equations linearised about the cycle. Its
    product with the field is one period per period, which is the check. In fields drawn from the posterior
    the cycle is corrected first, and each has a curve of its own; the bands are over these.

    Parameters
    ----------
    field : VectorField or fitted model
        The field under analysis.
    region : Region, dict or pairs, optional
        Where the cycle is sought; default the data's box widened by 10 % on each side.
    cycles : LimitCycles, optional
        Those of the field, where they are known already; default `limit_cycles` of it.
    which : int
        Number of the cycle among them.
    n_phases : int
        Phases at which the curve is given.
    n_draws : int or EnsembleField
        Number of fields drawn from the field's posterior for the bands, 0 for none; a field without a
        posterior has none. Or an ensemble such as ``model.ensemble(64)``.
    level : float
        Probability that the bands are meant to have.
    seed : int
        Of the search and the draws.
    progress : bool, optional
        Whether to show how far the work is; by default on a terminal only.
    max_seconds : float, optional
        Time on the clock after which the search for the cycle ends; default no limit.

    Returns
    -------
    PhaseResponse

    Raises
    ------
    ValueError
        If there is no such cycle, or an option does not fit.
    TypeError
        If `field` has no vector field in the space of the observations.

    See Also
    --------
    isochrons : Phases of states away from the cycle.
    cycle_bands : Periods and multipliers over the same draws.

    References
    ----------
    G. B. Ermentrout, D. H. Terman: Mathematical Foundations of Neuroscience, Springer 2010, section 8.2.

    Examples
    --------
    >>> import numpy as np
    >>> from fim_dynsys import CallableField
    >>> def clock(x):  # a circle turned at a constant speed: a shift along it by s advances it by s / (2 pi)
    ...     turned = np.stack([-x[:, 1], x[:, 0]], axis=1)
    ...     return x * (1 - np.sum(x**2, axis=1, keepdims=True)) + turned
    >>> curve = phase_response(CallableField(clock, 2), [(-2, 2), (-2, 2)])
    >>> bool(abs(np.linalg.norm(curve.response, axis=1) * 2 * np.pi - 1).max() < 1e-6)
    True
    """
    field = unwrap(field, "phase_response")
    box = resolve_region(field, region, "phase_response")
    check_whole("phase_response", 8, n_phases=n_phases)
    check_whole("phase_response", 0, which=which, seed=seed)
    level = check_number("phase_response", "level", level, 0.0, 1.0)
    if cycles is not None:
        check_result("phase_response", "cycles", cycles, (LimitCycles,), "limit_cycles")
    with time_limit("phase_response", max_seconds):
        if cycles is None:
            cycles = limit_cycles(field, box, seed=seed, progress=progress)
    check_stable("phase_response", cycles, which)
    orbit, period = cycles.orbits[which], float(cycles.period[which])
    share = np.arange(n_phases) / n_phases
    nodes = _at(orbit, share)
    length = lengths_of(nodes, box.size)
    response, residual = _curve(with_steps_within(field, box), nodes, period, length)
    fields = _draws(field, n_draws, seed)
    drawn = np.full((0 if fields is None else len(fields), n_phases, field.dim), np.nan)
    drawn_period, points = np.full(len(drawn), np.nan), 0
    if fields is not None:
        followed = follow_orbit(tuple(fields), orbit, period, box.size)
        points = followed.points
        for i in np.flatnonzero(followed.exists).tolist():
            drawn_period[i] = followed.period[i]
            start = _refined(fields[i], followed.nodes[i], drawn_period[i], n_phases)
            drawn[i], _ = _curve(with_steps_within(fields[i], box), start, drawn_period[i], length)
    spent = cycles.effort
    return PhaseResponse(
        phase=share,
        response=response,
        orbit=nodes,
        period=period,
        residual=residual,
        drawn=drawn,
        drawn_period=drawn_period,
        weights=np.empty(0) if fields is None else np.array(fields.weights),
        level=level,
        effort=Effort(
            spent.seeds, spent.iterations, spent.points + points, spent.budget + points, spent.exhausted
        ),
        **labels(field, box),
    )


def _draws(field: VectorField, draws: int | EnsembleField, seed: int) -> EnsembleField | None:
    """The fields for the bands: conditioned on whole trajectories as for `cycle_bands`; None without."""
    if isinstance(draws, EnsembleField):
        return drawn_fields(field, draws, seed, "phase_response")
    check_whole("phase_response", 0, n_draws=draws)
    if draws == 0 or field.draws(FEWEST, seed) is None:
        return None
    if isinstance(field, DictionaryField) and field.context is not None:
        return conditioned_draws(field, draws, seed=seed)
    return drawn_fields(field, draws, seed, "phase_response")


def _at(orbit: np.ndarray, share: np.ndarray) -> np.ndarray:
    """States of a sampled orbit (k + 1, d) at shares of its period."""
    closed = np.concatenate([orbit[:-1], orbit[:1]])
    return np.asarray(CubicSpline(np.linspace(0.0, 1.0, len(closed)), closed, bc_type="periodic")(share))


def _refined(field: VectorField, nodes: np.ndarray, period: float, n: int) -> np.ndarray:
    """States at n equal shares of the period, each integrated from the node before it."""
    place = np.arange(n) * len(nodes) / n
    before = place.astype(int)
    time = (place - before) * period / len(nodes)
    x = nodes[before].copy()
    later = np.flatnonzero(time > 1e-9 * period)
    if len(later):
        t = np.stack([np.zeros(len(later)), time[later]], axis=1)
        x[later] = integrate([field], x[later], t, rtol=_RTOL).x_stop
    return x


def _curve(
    field: VectorField, nodes: np.ndarray, period: float, length: np.ndarray
) -> tuple[np.ndarray, float]:
    """Response at nodes of a cycle, and the largest difference of its product with the field from one."""
    flow = field(nodes)
    response = adjoint_response(shoot(field, nodes, period, length, _RTOL), flow, length, period)
    return response, float(np.abs(np.sum(response * flow, axis=1) * period - 1.0).max())
