"""Poincare sections: where trajectories cross a hyperplane, located on the integrator's dense output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.analyze.results import Effort, FieldLike, Result, Table, Variables, labels, share_bar, unwrap
from fim_dynsys.analyze.tangent import STAGES, CountedField
from fim_dynsys.deadline import time_limit
from fim_dynsys.errors import check_number, check_positive, check_whole, real_array
from fim_dynsys.fields.base import VectorField
from fim_dynsys.simulation.problem import SPENT, Status
from fim_dynsys.simulation.solution import integrate
from fim_dynsys.threads import on_one_thread
from fim_dynsys.wording import counted

_RTOL = 1e-9  # crossings are results, not guesses
_MOST_STEPS = 50_000  # of a trajectory: those of 200 crossings, each of them 250 steps apart
_LONGEST = 10_000.0  # time scales: 200 crossings of a loop that takes fifty of them


@dataclass(frozen=True, eq=False, repr=False)
class PoincareSection(Result):
    """Crossings of a hyperplane, trajectory by trajectory in order of time.

    Attributes
    ----------
    points : ndarray (n, d)
        Where the hyperplane was crossed.
    times : ndarray (n,)
        When.
    trajectory : ndarray (n,) of int
        By which trajectory.
    residual : ndarray (n,)
        Distance of each point from the hyperplane, with every state in units of its length scale.
    support : ndarray (n,)
        Support of the field there.
    status : ndarray (k,) of Status
        How each trajectory ended: ``EVENT`` after all the crossings asked for, ``SUCCESS`` where time was up.
    normal : ndarray (d,)
        Normal of the hyperplane ``normal . x = offset``.
    offset : float
        Its offset.
    """

    drawn_by = "fim_dynsys.plot.objects:section"

    points: np.ndarray
    times: np.ndarray
    trajectory: np.ndarray
    residual: np.ndarray
    support: np.ndarray
    status: np.ndarray
    normal: np.ndarray
    offset: float

    def __len__(self) -> int:
        return len(self.times)

    def returns(self, coordinate: int | str) -> np.ndarray:
        """Pairs of successive values of one coordinate, ``(m, 2)``: the return map.

        Parameters
        ----------
        coordinate : int or str
            Number or name of a state.

        Returns
        -------
        ndarray (m, 2)
        """
        values = self.points[:, _state(coordinate, self.state_names, "returns")]
        same = self.trajectory[1:] == self.trajectory[:-1]
        return np.stack([values[:-1], values[1:]], axis=1)[same]

    def _headline(self) -> str:
        terms = " + ".join(
            f"{weight:.4g} {name}"
            for weight, name in zip(self.normal, self.state_names, strict=True)
            if weight
        )
        by = counted(len(self.status), "trajectory", "trajectories")
        return f"{counted(len(self), 'crossing')} of {terms} = {self.offset:.4g} by {by}"

    def _rows(self) -> Table:
        columns = ["trajectory", "status", "crossings", "first", "last", "worst residual", "least support"]
        rows = []
        for i, status in enumerate(self.status):
            own = self.trajectory == i
            times, count = self.times[own], int(own.sum())
            ends = (
                [times[0], times[-1], self.residual[own].max(), self.support[own].min()]
                if count
                else [""] * 4
            )
            rows.append([i, status, count, *ends])
        return columns, rows

    def _variables(self) -> Variables:
        crossing = ("crossing",)
        return {
            "points": (("crossing", "state"), self.points),
            "times": (crossing, self.times),
            "trajectory": (crossing, self.trajectory),
            "residual": (crossing, self.residual),
            "support": (crossing, self.support),
            "status": (("trajectory_number",), self.status.astype(object)),
            "normal": (("state",), self.normal),
            "offset": ((), np.array(self.offset)),
        }


@on_one_thread
def poincare(
    field: FieldLike,
    x0: ArrayLike,
    plane: tuple[int | str | ArrayLike, float],
    n: int = 200,
    direction: int = 1,
    transient: float = 0.0,
    t_max: float | None = None,
    max_step: float | None = None,
    budget: int = 20_000_000,
    progress: bool | None = None,
    max_seconds: float | None = None,
) -> PoincareSection:
    """Collect the crossings of a hyperplane by the trajectories from given states.

    Parameters
    ----------
    field : VectorField or fitted model
        The field under analysis.
    x0 : array_like (d,) or (k, d)
        States to start from.
    plane : tuple
        ``(state, value)`` with the number or name of a state for the hyperplane on which it has that value,
        or ``(normal, offset)`` with an array (d,) for ``normal . x = offset``.
    n : int
        Crossings per trajectory after which it ends.
    direction : {1, -1, 0}
        Count crossings on which ``normal . x`` grows, falls, or both.
    transient : float
        Time before which crossings are not counted.
    t_max : float, optional
        Time after which a trajectory ends in any case; default 10,000 time scales of the field.
    max_step : float, optional
        Largest step of the integrator: two crossings within one step escape notice. Default a time scale.
    budget : int
        Number of field evaluations, shared evenly, after which trajectories end in any case, as after 50,000
        steps each.
    progress : bool, optional
        Whether a bar with the time left at most is shown after two seconds; default on a terminal.
    max_seconds : float, optional
        Time on the clock after which the search ends with what it has; default no limit.

    Returns
    -------
    PoincareSection

    Raises
    ------
    ValueError
        For states, a plane or options that do not fit.
    TypeError
        If `field` has no vector field in the space of the observations.

    See Also
    --------
    limit_cycles : Finds closed orbits.

    Examples
    --------
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze
    >>> box = fim_dynsys.Region([-3, -3], [3, 3])
    >>> vdp = fim_dynsys.SymbolicField(["x1", "mu*(1 - x0**2)*x1 - x0"], {"mu": 1.0}, region=box)
    >>> section = analyze.poincare(vdp, [2.0, 0.0], ("x0", 0.0), n=5)
    >>> section.state_names
    ('x0', 'x1')
    """
    field = unwrap(field, "poincare")
    x0 = np.atleast_2d(real_array(x0, "poincare", "x0"))
    normal, offset = _plane(plane, field)
    check_whole("poincare", 1, n=n, budget=budget)
    check_whole("poincare", -1, direction=direction)
    if direction > 1:
        raise ValueError(f"poincare: expected direction among 1, -1, 0, got {direction}.")
    check_number("poincare", "transient", transient, 0.0)
    check_positive("poincare", t_max=1.0 if t_max is None else t_max)
    check_positive("poincare", infinite=True, max_step=1.0 if max_step is None else max_step)
    metered, unit = CountedField(field), field.scales.time
    options: dict[str, Any] = {
        "rtol": _RTOL,
        "max_step": unit if max_step is None else max_step,
        "max_steps": min(_MOST_STEPS, max(1, budget // (STAGES * len(x0)))),
    }
    status, start = np.full(len(x0), Status.SUCCESS), x0
    found = []
    with time_limit("poincare", max_seconds):
        if transient > 0:
            before = integrate([metered], x0, np.array([0.0, transient]), **options)
            status, start = before.status.copy(), before.x_stop
        alive = np.flatnonzero(status == Status.SUCCESS)
        if len(alive):
            event = _Crossing(normal, offset, direction, n)
            t = transient + np.array([0.0, _LONGEST * unit if t_max is None else t_max])
            with share_bar(progress, "section") as report_share:
                solution = integrate(
                    [metered], start[alive], t, events=event, progress=report_share, **options
                )
            status[alive] = solution.status
            found = sorted(solution.occurrences, key=lambda entry: entry[:2])
    points = np.array([state for *_, state in found]).reshape(-1, field.dim)
    return PoincareSection(
        points=points,
        times=np.array([t for _, t, *_ in found]),
        trajectory=alive[np.array([row for row, *_ in found], dtype=int)],
        residual=np.abs(points @ normal - offset) / np.linalg.norm(normal * field.scales.length),
        support=field.support(points),
        status=np.array([Status(int(value)) for value in status], dtype=object),
        normal=normal,
        offset=offset,
        effort=Effort(len(x0), 0, metered.points, budget, bool(np.isin(status, list(SPENT)).any())),
        **labels(field),
    )


class _Crossing:
    """The event of crossing a hyperplane, which ends a trajectory after n occurrences."""

    def __init__(self, normal: np.ndarray, offset: float, direction: int, n: int) -> None:
        self.normal, self.offset = normal, offset
        self.direction, self.terminal = direction, n

    def __call__(self, t: np.ndarray, x: np.ndarray) -> np.ndarray:
        return x @ self.normal - self.offset


def _plane(plane: tuple[int | str | ArrayLike, float], field: VectorField) -> tuple[np.ndarray, float]:
    """Normal ``(d,)`` and offset of the hyperplane a user describes."""
    try:
        first, offset = plane
        offset = check_number("poincare", "offset", offset)
    except (TypeError, ValueError):
        raise ValueError(
            f"poincare: expected a plane (state, value) or (normal, offset), got {plane!r}."
        ) from None
    if np.ndim(first) == 0:
        normal = np.zeros(field.dim)
        normal[_state(first, field.state_names, "poincare")] = 1.0
    else:
        normal = real_array(first, "poincare", "the normal of a plane")
    if normal.shape != (field.dim,) or not (
        np.isfinite(normal).all() and normal.any() and np.isfinite(offset)
    ):
        raise ValueError(
            f"poincare: expected a finite normal of shape ({field.dim},) that is not zero and a finite "
            f"offset, got {first!r}, {offset}."
        )
    return normal, offset


def _state(which: object, names: Sequence[str], caller: str) -> int:
    """Number of a state given by number or name."""
    if isinstance(which, str) and which in names:
        return list(names).index(which)
    if isinstance(which, int | np.integer) and 0 <= which < len(names):
        return int(which)
    raise ValueError(f"{caller}: expected a state among {list(names)} or its number, got {which!r}.")
