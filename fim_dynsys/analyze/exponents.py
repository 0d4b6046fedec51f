"""Lyapunov exponents: QR decompositions of tangent vectors along many pieces of one orbit at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.analyze.jumps import described, discontinuities
from fim_dynsys.analyze.lengths import sized
from fim_dynsys.analyze.results import (
    SUPPORTED,
    Effort,
    FieldLike,
    Result,
    Table,
    Variables,
    has_exact_jacobian,
    labels,
    progress_bar,
    unwrap,
)
from fim_dynsys.analyze.tangent import STAGES, CountedField, carry, carry_by_neighbours
from fim_dynsys.deadline import out_of_time, time_limit
from fim_dynsys.errors import SimulationWarning, check_number, check_positive, check_whole, real_array, warn
from fim_dynsys.fields.base import VectorField
from fim_dynsys.regions import Region
from fim_dynsys.simulation.problem import FAILURES, SPENT, Status
from fim_dynsys.simulation.solution import integrate
from fim_dynsys.threads import on_one_thread
from fim_dynsys.wording import counted

_RTOL = 1e-6  # of the exponents in the end: `_Estimate` adds it to their errors
_TRANSIENT = 100.0  # in the orbit's own units of time: what attracts at a tenth of its rate has lost e^-10
# Steps of one orbit, each as dear as a step of many side by side: a smooth one takes some thousands.
_FEWEST_STEPS, _MOST_STEPS = 5_000, 50_000
_SPACING = 2.0  # between the starts of neighbouring pieces, in the same
_LONGEST_SEGMENT = 3.0  # in the same: support is looked at between segments only
# Tangent vectors may part by so many powers of e within a segment: at tolerance 1e-6 the shortest is then
# still known to some per cent in the worst piece, and far better in the others.
_SPREAD = 10.0
_BESIDE = 0.02  # of the range of a path: a jump that it slides along is nearer
_PILOT = 16  # segments that find their own length, which at most doubles from one to the next: 65,000 times
_FEWEST_SEGMENTS = 40  # ten to a block before errors are believed
# Whatever the budget: half of them may be left out, and `_BLOCKS` blocks need two each.
_FEWEST_IN_ANY_CASE = 16
# The start of each piece in which its tangent vectors find their directions: a tenth of it, or so many units
# of time, but never more than half of it.
_DISCARDED = 0.1
_ALIGNED = 50.0  # time scales in which tangent vectors turn to their directions
_CHORDS = 48  # between states of the orbit, on which jumps of the field are looked for
_BY_NEIGHBOURS = 1e-4  # of the largest exponent, that differences of neighbouring orbits leave
_TAPERED = 0.4  # share of the time on both flanks together; the other six tenths count in full
_BLOCKS = 4  # the fewest whose scatter says something: Student's t with three degrees of freedom
_DEPENDENT = 2.0  # blocks that vary so much more than independent pieces would show that these are not
_NOTHING = 1e-12  # of the largest state: less is rounding
_BALANCED = 3  # times that the size of a state that starts at 0 is found beside those of the others
_OTHER_UNITS = 10.0  # times as fast in units of the field's lengths as in those of its states
_TELLING = 1e-2  # of the sum of the moduli: an error below which an exponent may be called 0
_PASSES = 4  # two there and two back: two periods of an oscillation, slow or fast
_CHANGES = 1e-6  # of an entry of the Jacobian, below which it counts as constant
_GROUPS = 8  # of neighbouring pieces, whose scatter says whether pieces are independent
_NORMAL, _STUDENT = 1.96, 3.18  # 97.5 % quantiles: for many pieces, for `_BLOCKS` blocks
# Times in which an error of the tolerance grows to the size of the orbit, until pieces count as independent.
_PARTED = 2.0
_SIGNIFICANT = 2.5  # standard errors: one in eighty by chance
# What is left of an error that falls like 1 / t or a little more slowly, as a multiple of the change from the
# mean to its last half.
_DRIFT = 5.0


@dataclass(frozen=True, eq=False, repr=False)
class LyapunovSpectrum(Result):
    """Lyapunov exponents of one orbit.

    Attributes
    ----------
    exponents : ndarray (d,)
        Mean exponential growth rates per unit of time, largest first; NaN if the orbit failed (`status`).
    error : ndarray (d,)
        Half widths of their 95 % confidence intervals.
    running : ndarray (n_steps, d)
        Plain means up to each of `times`.
    times : ndarray (n_steps,)
        Time along each piece of the orbit.
    divergence : float
        Mean divergence of the field along the same pieces; NaN for a field that jumps.
    sum_error : float
        Sum of the exponents less that mean: should be zero; NaN likewise.
    duration : float
        Time that the estimate rests on, all pieces together.
    span : float
        Time along the orbit from the start of the first piece to the end of the last one.
    passes : float
        How often the slowest entry of the field's Jacobian went from the lowest third of its range to the
        highest or back within `span`: twice in a period of an oscillation, once in a drift; infinite where
        all are constant.
    supported : float
        Share of it at which the field is supported.
    status : Status
        ``SUCCESS``, or how the integration of the orbit failed.
    jumps : str
        Where the field jumps or has a pole near the orbit, in words. The exponents then come from
        neighbouring orbits, which cross the jump as the orbit does.
    """

    drawn_by = "fim_dynsys.plot.spectra:lyapunov_convergence"

    exponents: np.ndarray
    error: np.ndarray
    running: np.ndarray
    times: np.ndarray
    divergence: float
    sum_error: float
    duration: float
    span: float
    passes: float
    supported: float
    status: Status
    jumps: str = ""

    @property
    def settled(self) -> bool:
        """Whether the orbit was followed for long enough, on its own time scale, to have a long-time mean."""
        return self.passes >= _PASSES

    @property
    def dimension(self) -> float:
        """Kaplan-Yorke dimension: 0 on a fixed point, 1 on a cycle, NaN without exponents.

        References
        ----------
        P. Frederickson, J. L. Kaplan, E. D. Yorke, J. A. Yorke, The Liapunov dimension of strange attractors,
        J. Differential Equations 49 (1983) 185.
        """
        if not np.isfinite(self.exponents).all():
            return np.nan
        values = self.exponents.copy()  # those along the flow and along a torus are 0, where errors can tell
        zero = np.abs(values) <= self.error
        nearest = np.arange(len(values)) == np.abs(values).argmin()  # that along the flow
        # where all are 0, as in a family of closed orbits, what grows by less than 1 % along the orbit counts
        small = _TELLING * max(float(np.abs(values).sum()), 1.0 / self.span if self.span > 0.0 else 0.0)
        values[zero & (nearest | (self.error <= small))] = 0.0
        sums = np.cumsum(values)
        held = np.flatnonzero(sums >= 0)
        if not len(held):
            return 0.0
        k = int(held[-1])
        return float(k + 1 if k + 1 == len(values) else k + 1 + sums[k] / abs(values[k + 1]))

    def _headline(self) -> str:
        end = self.status.name.lower() if self.settled or self.status in FAILURES else "not settled"
        return f"Lyapunov exponents from {self.duration:.5g} units of time ({end})"

    def _rows(self) -> Table:
        rows = zip(self.exponents, self.error, strict=True)
        return ["exponent", "+- (95 %)"], [list(row) for row in rows]

    def _notes(self) -> list[str]:
        if self.status in FAILURES:
            return super()._notes()
        if self.jumps:
            check = f"{self.jumps}: by neighbouring orbits; supported {self.supported:.0%} of the time"
        else:
            check = (
                f"sum less mean divergence {self.sum_error:.2g}; supported {self.supported:.0%} of the time"
            )
        return [f"Kaplan-Yorke dimension {self.dimension:.5g}", check, *super()._notes(), self._window()]

    def _window(self) -> str:
        """How long the orbit was followed, on its own time scale."""
        along = f"followed for {self.span:.5g} units of time"
        if np.isinf(self.passes):
            return f"{along}; the Jacobian is constant there"
        times = counted(int(self.passes), "time")
        went = f"{along}, in which the slowest entry of the Jacobian passed through its range {times}"
        if self.settled:
            return went
        return (
            f"{went}: too short for long-time means, and the errors do not cover the rest. "
            "Expected a larger budget with fewer n_pieces, or limit_cycles for the multipliers of a cycle."
        )

    def _variables(self) -> Variables:
        return {
            "dimension": ((), np.array(self.dimension)),
            "exponents": (("mode",), self.exponents),
            "error": (("mode",), self.error),
            "running": (("step", "mode"), self.running),
            "times": (("step",), self.times),
            "divergence": ((), np.array(self.divergence)),
            "duration": ((), np.array(self.duration)),
            "span": ((), np.array(self.span)),
            "passes": ((), np.array(self.passes)),
            "supported": ((), np.array(self.supported)),
            "status": ((), np.array(self.status, dtype=object)),
        }


@on_one_thread
def lyapunov(
    field: FieldLike,
    x0: ArrayLike,
    n_pieces: int = 256,
    precision: float = 1e-4,
    budget: int = 25_000_000,
    transient: float | None = None,
    progress: bool | None = None,
    max_seconds: float | None = None,
) -> LyapunovSpectrum:
    """Estimate all Lyapunov exponents of the orbit through a state.

    After a transient, states along the orbit become the starts of pieces that are continued side by side,
    each with d tangent vectors that are made orthonormal again from time to time. Pieces are weighted with
    a taper over time, which takes away the noise that a sharp beginning and end leave. The stated error is
    that of the mean over pieces, or over blocks of time where that is larger, with the error of the sum
    added.

    Parameters
    ----------
    field : VectorField or fitted model
        The field under analysis.
    x0 : array_like (d,)
        A state of the orbit, or of the basin of its attractor.
    n_pieces : int
        Number of pieces continued side by side.
    precision : float
        The estimate is complete when every stated error is at most this multiple of the sum of the moduli
        of the exponents.
    budget : int
        Number of field evaluations after which it ends in any case, but not before 16 segments.
    transient : float, optional
        Time before the first piece; default a hundred times the time in which the orbit moves by its own
        size.
    progress : bool, optional
        Whether to show how far the work is; by default on a terminal only.
    max_seconds : float, optional
        Time on the clock after which it ends with what it has, NaN before 16 segments; default no limit.

    Returns
    -------
    LyapunovSpectrum

    Raises
    ------
    ValueError
        If `x0` is not a finite state or an option is not positive.
    TypeError
        If `field` has no vector field in the space of the observations.

    Warns
    -----
    SimulationWarning
        If the orbit could not be followed; the exponents are then NaN. If it was followed for a time too
        short for means, as budgets are on stiff fields; the exponents are then those of that stretch.

    References
    ----------
    G. Benettin, L. Galgani, A. Giorgilli, J.-M. Strelcyn: Lyapunov characteristic exponents for smooth
    dynamical systems, part 2, Meccanica 15 (1980) 21.

    See Also
    --------
    zero_one_test : For records without a field.
    fim_dynsys.plot.lyapunov_convergence : Draws how they converge.

    Examples
    --------
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze
    >>> box = fim_dynsys.Region([-1, -1], [1, 1])
    >>> decay = fim_dynsys.SymbolicField(["-x0", "-2*x1"], region=box)
    >>> analyze.lyapunov(decay, [0.5, 0.5]).exponents.round(3)
    array([-1., -2.])
    """
    field = unwrap(field, "lyapunov")
    x0 = _checked(field, x0, n_pieces, precision, budget, transient)
    without_lengths = field.frame.length is None and not has_exact_jacobian(field)
    size = _sizes(field, x0)  # steps of differences for the Jacobian, until the orbit gives them
    followed = CountedField(field, Region(x0 - size, x0 + size) if without_lengths and x0.any() else None)
    jumps = ""
    try:
        with time_limit("lyapunov", max_seconds):
            x, length, unit = _pieces(followed, x0, size, n_pieces, transient, budget)
            if without_lengths:
                followed = followed.within(Region(x.min(axis=0) - length, x.max(axis=0) + length))
            jumps = _jumps(followed, x, length)
            estimate = _Estimate(followed, x, length, unit, jumps)
            estimate.run(precision, budget, progress)
    except _Failure as failure:
        jumps = failure.jumps or jumps
        warn(
            f"lyapunov: the orbit through {x0} could not be followed ({failure.status.name}"
            f"{'; ' * bool(jumps)}{jumps}); its exponents are NaN.",
            SimulationWarning,
        )
        exhausted = failure.status in SPENT
        return _failed(field, failure.status, _effort(1, 0, followed, budget, exhausted))
    found = estimate.result(field, budget)
    if not found.settled:
        warn(f"lyapunov: not settled, {found._window()}", SimulationWarning)
    return found


class _Failure(Exception):
    """The integration of the orbit or of a piece of it failed."""

    def __init__(self, status: int, jumps: str = "") -> None:
        super().__init__(status)
        self.status, self.jumps = Status(int(status)), jumps


def _checked(
    field: VectorField, x0: ArrayLike, n_pieces: int, precision: float, budget: int, transient: float | None
) -> np.ndarray:
    x0 = real_array(x0, "lyapunov", "x0")
    if x0.shape != (field.dim,) or not np.isfinite(x0).all():
        raise ValueError(f"lyapunov: expected one finite state of shape ({field.dim},), got {x0}.")
    check_whole("lyapunov", 2, n_pieces=n_pieces)
    check_whole("lyapunov", 1, budget=budget)
    check_positive("lyapunov", precision=precision)
    check_number("lyapunov", "transient", 0.0 if transient is None else transient, 0.0)
    return x0


# -------------------------------------------------------------------- the orbit


def _sizes(field: VectorField, x0: np.ndarray) -> np.ndarray:
    """Sizes (d,) of the states at a start: that of the largest, or their own where the Jacobian asks for it.

    A state may be small because it starts near 0, or for its unit. The Jacobian shows which: in sizes that
    fit, its norm is a rate, in others it is larger by the ratio of the units. A state that starts at 0 is as
    large as makes its row of the Jacobian as large as its column (balancing).
    """
    alike = np.full(len(x0), np.abs(x0).max() or 1.0)
    if field.frame.length is not None or not x0.any():
        return alike

    def scaled(size: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.abs(sized(field, size).jacobian(x0)) * (size / size[:, None])

    own = np.where(x0 != 0.0, np.abs(x0), alike)
    for axis in np.tile(np.flatnonzero(x0 == 0.0), _BALANCED):
        entries = scaled(own)
        others = np.arange(len(x0)) != axis
        row, column = np.linalg.norm(entries[axis, others]), np.linalg.norm(entries[others, axis])
        rest = np.linalg.norm(entries[np.ix_(others, others)])
        with np.errstate(all="ignore"):  # a column of 0 may be one of rounding: the row is then a rate
            share = np.sqrt(row / column) if column > 0.0 else row / rest
        own[axis] *= share if 0.0 < share < np.inf else 1.0
    norms = [np.linalg.norm(scaled(size)) for size in (own, alike)]
    fits = np.isfinite(norms[0]) and not norms[1] <= _OTHER_UNITS * norms[0]
    return own if fits else alike


def _pieces(
    field: CountedField,
    x0: np.ndarray,
    size: np.ndarray,
    n_pieces: int,
    transient: float | None,
    budget: int,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Starts ``(n, d)`` of the pieces, the unit of each state ``(d,)``, and the orbit's own unit of time."""
    x, unit = _own_unit(field, x0, size, budget)
    if transient is None:
        transient = _TRANSIENT * unit
    if transient > 0:
        x = _follow(field, x, np.array([0.0, transient]), budget)[-1]
    states = _follow(field, x, _SPACING * unit * np.arange(n_pieces + 1), budget)[1:]
    return states, _lengths(field, states, size), unit


def _lengths(field: CountedField, states: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The field's lengths (d,); where it has none, how far states (n, d) vary, or a share of their size.

    A state that rests at 0 has none: it is as large as the largest, in units of the sizes (d,) at the start.
    """
    length = field.inner.frame.length
    if length is not None:
        return length
    size = np.abs(states).max(axis=0) / start
    size = np.where(size > _NOTHING * size.max(), size, size.max()) * start
    length = np.maximum(states.std(axis=0), 1e-3 * size)
    return np.where(length > 0, length, 1.0)


def _jumps(field: CountedField, x: np.ndarray, length: np.ndarray) -> str:
    """Where the field jumps between states (n, d) of the orbit, in words; empty where it does not."""
    every = max(1, len(x) // _CHORDS)
    some = x[::every]
    speed = np.sqrt(np.mean(field(x) ** 2, axis=0))
    found = discontinuities(field, some[:-1], some[1:], np.where(speed > 0, speed, 1.0))
    size = np.maximum(np.ptp(x, axis=0), length)
    return described(found, field.inner.state_names, size) if found else ""


def _own_unit(field: CountedField, x0: np.ndarray, size: np.ndarray, budget: int) -> tuple[np.ndarray, float]:
    """A state further on, and the time in which the orbit moves by its own size."""
    fastest = _fastest_rate(field, x0[None], _lengths(field, x0[None], size))
    window = 10.0 / fastest if fastest > 0 else 1.0
    for _ in range(12):
        states = _follow(field, x0, np.linspace(0.0, window, 401), budget)[200:]
        spread = states.std(axis=0)
        moves = spread > 1e-9 * _lengths(field, states, size)
        speed = field(states)[:, moves] / spread[moves]
        with np.errstate(over="ignore"):
            unit = 1.0 / np.sqrt(np.mean(speed**2)) if moves.any() else window / 10.0
        if not np.finfo(float).tiny < unit * _SPACING < np.inf:
            raise _Failure(Status.NON_FINITE)
        x0 = states[-1]
        if window >= 20 * unit or not moves.any():
            break
        window *= 4
    return x0, unit


def _fastest_rate(field: VectorField, x: np.ndarray, length: np.ndarray) -> float:
    """Largest norm of the Jacobian at rows of states, with states in units of the field's lengths.

    Or of those of the states (d,), where it is far smaller in these: then the field's are none of its states.
    """
    jac, units = field.jacobian(x), (field.scales.length, length)
    if not np.isfinite(jac).all():
        raise _Failure(Status.NON_FINITE)
    with np.errstate(over="ignore"):
        norms = [float(np.linalg.norm(jac * (u / u[:, None]), axis=(1, 2)).max()) for u in units]
    fastest = norms[0] if norms[0] <= _OTHER_UNITS * norms[1] else norms[1]
    if not np.isfinite(fastest):
        raise _Failure(Status.NON_FINITE)
    return fastest


def _follow(field: CountedField, x0: np.ndarray, t: np.ndarray, budget: int) -> np.ndarray:
    steps = np.clip((budget - field.points) // STAGES, _FEWEST_STEPS, _MOST_STEPS)
    # a field without a length of its own has that of the state, and a small one may grow to the largest
    length = field.scales.length
    room = float(length.max() / length.min()) if field.inner.frame.length is None else 1.0
    escape = 1e6 * room * max(1.0, float(np.abs(x0 / length).max()))
    solution = integrate([field], x0[None], t, rtol=_RTOL, max_steps=int(steps), escape=escape)
    if solution.status[0] in FAILURES:
        raise _Failure(solution.status[0], _jumps_beside(field, solution.x[0]))
    return solution.x[0]


def _jumps_beside(field: CountedField, path: np.ndarray) -> str:
    """Where the field jumps beside the end of a path (n, d) that failed, nan behind it, in words.

    An orbit that slides along a jump crosses it again and again, in ever smaller steps.
    """
    path = path[np.isfinite(path).all(axis=1)]
    if len(path) < 2:
        return ""
    size = np.maximum(np.ptp(path, axis=0), 1e-3 * np.abs(path).max(axis=0))
    size = np.where(size > 0.0, size, 1.0)
    speed = np.sqrt(np.mean(field(path) ** 2, axis=0))
    reach = _BESIDE * np.diag(size)
    found = discontinuities(field, path[-1] - reach, path[-1] + reach, np.where(speed > 0, speed, 1.0))
    if not found:
        return ""
    return f"it stays where {described(found, field.inner.state_names, size)}, see limit_cycles(...).sliding"


# -------------------------------------------------------------------- the estimate


class _Estimate:
    """Pieces under way, and the growth of their tangent vectors segment by segment."""

    def __init__(
        self, field: CountedField, x: np.ndarray, length: np.ndarray, unit: float, jumps: str
    ) -> None:
        n, d = x.shape
        self.jumps = jumps
        self.field, self.x, self.length, self.unit = field, x, length, unit
        self.vectors = np.broadcast_to(np.eye(d), (n, d, d))
        self.orbit = list(x)  # states in their order: the starts, then the way of the last piece
        self._forget()
        self.run_for = 0.0
        self.segment = self._choose_segment()
        self._forget()

    def _forget(self) -> None:
        self.growth: list[np.ndarray] = []  # (n, d) of each segment
        self.divergence: list[np.ndarray] = []  # (n,)
        self.supported: list[float] = []

    def _choose_segment(self) -> float:
        """Duration over which the tangent vectors part by `_SPREAD` at most."""
        longest = _LONGEST_SEGMENT * self.unit
        fastest = _fastest_rate(self.field, self.x, self.length)
        duration = 0.1 / fastest if fastest > 0 else longest
        for _ in range(_PILOT):
            self._advance(min(duration, longest))
            spread = np.ptp(self.growth[-1], axis=1).max()
            duration = min(duration, longest) * np.clip(_SPREAD / max(spread, 1e-9), 0.5, 2.0)
        return min(duration, longest)

    def _advance(self, duration: float) -> None:
        if self.jumps:
            end = carry_by_neighbours(self.field, self.x, self.vectors, duration, self.length)
        else:
            end = carry(self.field, self.x, self.vectors, duration, self.length, _RTOL)
        if end.failed.any():
            raise _Failure(end.status[end.failed][0])
        self.x = end.x
        self.orbit.append(end.x[-1])
        self.run_for += duration
        self.vectors, triangle = np.linalg.qr(end.vectors)
        with np.errstate(divide="ignore"):
            growth = np.log(np.abs(np.diagonal(triangle, axis1=1, axis2=2)))
        if not np.isfinite(growth).all():
            raise _Failure(Status.NON_FINITE)
        self.growth.append(growth)
        self.divergence.append(end.divergence)
        if self.field.inner.context is not None:
            self.supported.append(float(np.mean(self.field.support(self.x) >= SUPPORTED)))

    def run(self, precision: float, budget: int, progress: bool | None) -> None:
        """Add segments until the errors are small enough or the budget is spent."""
        check = _FEWEST_SEGMENTS
        with progress_bar(progress, budget, "exponents", "points") as bar:
            while True:
                enough = len(self.growth) >= _FEWEST_IN_ANY_CASE
                try:
                    self._advance(self.segment)
                except _Failure as failure:
                    if not (enough and failure.status == Status.OUT_OF_TIME):
                        raise
                bar.update(self.field.points - bar.n)
                self.exhausted = enough and (self.field.points >= budget or out_of_time())
                if len(self.growth) < check and not self.exhausted:
                    continue
                self._evaluate()
                if self.exhausted or (self.error <= precision * np.abs(self.exponents).sum()).all():
                    return
                check = int(1.2 * check)

    def _evaluate(self) -> None:
        """Exponents and errors from the segments so far."""
        growth = np.array(self.growth) / self.segment
        aligned = min(0.5, max(_DISCARDED, _ALIGNED * self.unit / (len(growth) * self.segment)))
        kept = growth[int(aligned * len(growth)) :]
        each = np.tensordot(_taper(len(kept)), kept, 1)
        self.exponents = each.mean(axis=0)
        self.n_kept = len(kept)
        pieces = _scatter(each)
        rate = np.array(self.divergence)[-len(kept) :] / self.segment
        self.mean_divergence = float((_taper(len(kept)) @ rate).mean())
        self.sum_error = float(self.exponents.sum() - self.mean_divergence)
        unchecked = _BY_NEIGHBOURS * np.abs(self.exponents).max() if self.jumps else abs(self.sum_error)
        systematic = unchecked + _RTOL * np.abs(self.exponents).max()
        self.error = np.maximum(_NORMAL * pieces, self._shared_error(kept, pieces)) + systematic
        growing = self.exponents.max()  # chaos, in which pieces of one stretch part as this grows
        if self.error[self.exponents.argmax()] < growing < _PARTED * np.log(1.0 / _RTOL) / self.run_for:
            self.error = np.maximum(self.error, self._error_along(kept) + systematic)

    def _passes(self) -> float:
        """How often the slowest changing entry of the Jacobian went through its range along the orbit.

        Across jumps, which the Jacobian does not show, also the rates themselves.
        """
        x = np.array(self.orbit)
        entries = (self.field.jacobian(x) * (self.length / self.length[:, None])).reshape(len(x), -1)
        if self.jumps:
            entries = np.hstack([entries, self.field(x) / self.length])
        extent = np.ptp(entries, axis=0)
        changes = extent > _CHANGES * np.abs(entries).max(axis=0)
        if not changes.any():
            return np.inf
        share = (entries[:, changes] - entries[:, changes].min(axis=0)) / extent[changes]
        sides = np.sign(np.trunc(3.0 * share.T) - 1.0)  # lowest third, between, highest third
        return float(min(np.count_nonzero(np.diff(side[side != 0])) for side in sides))

    def _shared_error(self, kept: np.ndarray, pieces: np.ndarray) -> np.ndarray:
        """Half widths for what the pieces have in common, 0 where they vary as if independent.

        Pieces that have not parted yet err together, and so does their mean from one block of time to the
        next. Tangent vectors that have not found their directions yet, or that part like a power of t, leave
        a drift in all of them.
        """
        together = kept.mean(axis=1)
        joint = _scatter_of_blocks(together)
        late = together[len(together) // 2 :]
        drift = np.abs(self.exponents - _taper(len(late)) @ late)
        dependent = joint > _DEPENDENT * pieces
        noise = np.where(dependent, _STUDENT * joint, 0.0)
        drifting = dependent | (drift > _SIGNIFICANT * pieces)
        return np.maximum(noise, np.where(drifting, _DRIFT * drift, 0.0))

    def _error_along(self, kept: np.ndarray) -> np.ndarray:
        """Half widths by means of stretches of the orbit (m, n, d), where pieces still follow one another.

        Then they see the same stretches again and again, and how they scatter tells little.
        """
        m, n, d = kept.shape
        place = _SPACING * self.unit * np.arange(n) + self.segment * np.arange(m)[:, None]
        stretch = (place / self.segment).astype(int).ravel()
        counts = np.bincount(stretch)
        sums = np.stack([np.bincount(stretch, each) for each in kept.reshape(-1, d).T], axis=1)
        return _STUDENT * _scatter_of_blocks(sums[counts > 0] / counts[counts > 0, None])

    def result(self, field: VectorField, budget: int) -> LyapunovSpectrum:
        """The estimate as a result."""
        order = np.argsort(-self.exponents, kind="stable")
        growth = np.array(self.growth)[-self.n_kept :].mean(axis=1) / self.segment
        counts = np.arange(1, self.n_kept + 1)
        n = len(self.x)
        return LyapunovSpectrum(
            exponents=self.exponents[order],
            error=self.error[order],
            running=np.cumsum(growth, axis=0)[:, order] / counts[:, None],
            times=counts * self.segment,
            divergence=self.mean_divergence,
            sum_error=self.sum_error,
            duration=self.n_kept * self.segment * n,
            span=_SPACING * self.unit * (n - 1) + self.run_for,
            passes=self._passes(),
            supported=float(np.mean(self.supported)) if self.supported else 1.0,
            status=Status.SUCCESS,
            jumps=self.jumps,
            effort=_effort(n, len(self.growth), self.field, budget, self.exhausted),
            **labels(field),
        )


def _scatter(each: np.ndarray) -> np.ndarray:
    """Standard error of the mean over pieces (n, d), or over groups of neighbours where these are alike."""
    alone = each.std(axis=0, ddof=1) / np.sqrt(len(each))
    if len(each) < 2 * _GROUPS:
        return alone
    groups = np.array([group.mean(axis=0) for group in np.array_split(each, _GROUPS)])
    joint = groups.std(axis=0, ddof=1) / np.sqrt(_GROUPS)
    return np.where(joint > _DEPENDENT * alone, joint, alone)


def _scatter_of_blocks(rates: np.ndarray) -> np.ndarray:
    """Standard error of the mean of rates (n, d) that follow each other, by blocks of them."""
    blocks = np.array([_taper(len(block)) @ block for block in np.array_split(rates, _BLOCKS)])
    return blocks.std(axis=0, ddof=1) / np.sqrt(len(blocks))


def _taper(n: int) -> np.ndarray:
    """Weights that add up to 1, with cosine flanks (Tukey's window)."""
    place = (np.arange(n) + 0.5) / n
    edge = np.minimum(place, 1.0 - place) / (_TAPERED / 2)
    weight = np.where(edge < 1.0, 0.5 - 0.5 * np.cos(np.pi * np.minimum(edge, 1.0)), 1.0)
    return weight / weight.sum()


def _effort(seeds: int, iterations: int, field: CountedField, budget: int, exhausted: bool) -> Effort:
    return Effort(seeds, iterations, field.points, budget, exhausted)


def _failed(field: VectorField, status: Status, effort: Effort) -> LyapunovSpectrum:
    nothing = np.full(field.dim, np.nan)
    return LyapunovSpectrum(
        exponents=nothing,
        error=nothing,
        running=np.empty((0, field.dim)),
        times=np.empty(0),
        divergence=np.nan,
        sum_error=np.nan,
        duration=0.0,
        span=0.0,
        passes=0.0,
        supported=np.nan,
        status=status,
        effort=effort,
        **labels(field),
    )
