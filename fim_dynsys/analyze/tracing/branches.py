"""Branches of equilibria and cycles over a parameter, and the bifurcations on them."""

import enum
from dataclasses import dataclass

import numpy as np

from fim_dynsys.analyze.results import Result, Table, Variables
from fim_dynsys.analyze.tracing.curve import BranchEnd
from fim_dynsys.wording import counted

_VANISHING = 1e-2  # coefficient, in units of the cycle's size, that differences do not tell from zero


class BifurcationKind(enum.StrEnum):
    """What happens at a point of a branch; values are the customary labels."""

    FOLD = "LP"
    """Two equilibria meet and vanish (limit point, saddle-node)."""
    HOPF = "HB"
    """A pair of eigenvalues crosses the imaginary axis; a cycle is born."""
    BRANCH_POINT = "BP"
    """Branches cross (transcritical, pitchfork)."""
    NEAR_MISS = "NM"
    """An eigenvalue comes close to zero, or a pair to the axis, and turns back: an imperfect branch point,
    or a bifurcation that a slightly different field would have."""
    DEGENERATE = "DB"
    """Several eigenvalues cross at once, or one touches zero where branches meet; which bifurcation this is
    depends on symmetries."""
    CIRCLE = "O2"
    """Two eigenvalues pass zero together, and circles of equilibria are born: a pitchfork with the symmetry
    of rotations, O(2)."""
    CUSP = "CP"
    """A fold without quadratic term: two folds meet. The branch only stands upright here."""
    BOGDANOV_TAKENS = "BT"
    """A fold with a second zero eigenvalue: a curve of Hopf points ends here."""
    GENERALIZED_HOPF = "GH"
    """A Hopf point whose first Lyapunov coefficient vanishes (Bautin)."""
    ZERO_HOPF = "ZH"
    """A fold that is a Hopf point as well (Gavrilov-Guckenheimer)."""
    DOUBLE_HOPF = "HH"
    """Two pairs of eigenvalues on the imaginary axis."""
    CYCLE_FOLD = "LPC"
    """Two cycles meet and vanish (fold, limit point of cycles)."""
    PERIOD_DOUBLING = "PD"
    """A multiplier passes -1; a cycle of twice the period is born."""
    NEIMARK_SACKER = "NS"
    """A pair of multipliers crosses the unit circle; a torus is born."""
    HOMOCLINIC = "HOM"
    """Cycles of a period so long that they stand for homoclinic orbits."""
    CYCLE_CUSP = "CPC"
    """Two folds of cycles meet."""
    FOLD_FLIP = "LPPD"
    """A fold of cycles that is a period doubling as well."""
    RESONANCE_1 = "R1"
    """Multipliers 1, 1 beside the trivial one: a curve of tori ends on one of folds."""
    RESONANCE_2 = "R2"
    """Multipliers -1, -1: a curve of tori ends on one of period doublings."""
    RESONANCE_3 = "R3"
    """A pair of multipliers at a third of a turn."""
    RESONANCE_4 = "R4"
    """A pair of multipliers at a quarter of a turn."""


class BranchKind(enum.StrEnum):
    """What a branch consists of."""

    EQUILIBRIA = "equilibria"
    CYCLES = "cycles"


@dataclass(frozen=True, eq=False)
class Bifurcation:
    """A located bifurcation.

    Attributes
    ----------
    kind : BifurcationKind
    p : float
        Parameter value.
    x : ndarray (d,)
        Equilibrium; for cycles the point of the cycle where the first state is largest.
    residual : float
        How well the defining equations hold, in units of the field's length and time scales (largest entry);
        for cycles |mu_trivial - 1|, for a near miss the smallest distance |Re lambda| itself.
    eigenvalues : ndarray (d,) complex
        Of the Jacobian; of the monodromy matrix for cycles (multipliers).
    support : float
        Support of the field there.
    period : float or None
        Of the cycle; at a Hopf point that of the cycles born.
    lyapunov_coefficient : float or None
        First Lyapunov coefficient of a Hopf point: negative where the cycles born are stable on the centre
        manifold (supercritical), positive where they are unstable (subcritical); None where the field is not
        three times differentiable there, as ``-|x| x`` is not at 0.
    normal_form : float or None
        Of the return map, in units of 1 / size^2 of the cycle: c of w -> -w + c w^3 at a period doubling,
        which is supercritical where c > 0; d of w -> exp(i a) w (1 + d |w|^2) at a torus point, supercritical
        where d < 0; c of r' = c r^3 for the radius of a circle of equilibria, supercritical where c < 0; None
        where neighbours of the cycle cannot be followed, or part too fast for differences.
    """

    kind: BifurcationKind
    p: float
    x: np.ndarray
    residual: float
    eigenvalues: np.ndarray
    support: float
    period: float | None = None
    lyapunov_coefficient: float | None = None
    normal_form: float | None = None

    @property
    def criticality(self) -> str:
        """``supercritical`` where what is born is stable, ``subcritical`` where not; else empty."""
        value = self.lyapunov_coefficient
        if self.kind is BifurcationKind.GENERALIZED_HOPF:
            return ""
        if value is None and self.normal_form is not None and abs(self.normal_form) > _VANISHING:
            value = self.normal_form
        if value is None:
            return ""
        stable = value > 0 if self.kind is BifurcationKind.PERIOD_DOUBLING else value < 0
        return "supercritical" if stable else "subcritical"


class LimitKind(enum.StrEnum):
    """What cycles of ever longer period tend to."""

    HOMOCLINIC = "homoclinic orbit"
    """An orbit from a saddle to itself: T ~ -log |p - p*| / lambda, lambda its eigenvalue nearest zero."""
    HETEROCLINIC = "heteroclinic loop"
    """Orbits from saddle to saddle and back: T ~ -log |p - p*| as well."""
    SNIC = "saddle-node on an invariant circle"
    """Two equilibria meet on the cycle: T ~ |p - p*|^(-1/2)."""


@dataclass(frozen=True, eq=False)
class LongPeriod:
    """Where cycles end because their period grows without bounds.

    Attributes
    ----------
    kind : LimitKind
    p : float
        Parameter value at which the period would be infinite, extrapolated.
    error : float
        Bound of its distance from the last cycle's value, for either scaling: |dp / d log T| / 2.
    x : ndarray (k, d)
        The equilibria passed, at the last cycle's parameter value; at a SNIC the slowest state.
    exponent : float
        Measured: of homoclinic orbits and loops minus dT / d log |p - p*|, a time; at a SNIC minus
        d log |p - p*| / d log T, close to 2.
    expected : float
        What it is by theory: at homoclinic orbits the sum of 1 / |lambda| over passages; at a SNIC 2; NaN
        at loops.
    """

    kind: LimitKind
    p: float
    error: float
    x: np.ndarray
    exponent: float
    expected: float

    def __repr__(self) -> str:
        law = "|p - p*|^(-1/2)" if self.kind is LimitKind.SNIC else f"-{self.exponent:.4g} log |p - p*|"
        return f"{self.kind.value} at p* = {self.p:.7g}, T ~ {law}"


@dataclass(frozen=True, eq=False, repr=False)
class Branch:
    """A connected curve of equilibria or cycles, as n points in order along it.

    Attributes
    ----------
    kind : BranchKind
    p : ndarray (n,)
        Parameter values; they turn round at folds.
    x : ndarray (n, d)
        Equilibria; for cycles the points where the first state is largest.
    n_unstable : ndarray (n,) of int
        Number of unstable directions: eigenvalues with positive real part, multipliers outside the unit
        circle. At a located bifurcation, that of the point before.
    eigenvalues : ndarray (n, d) complex
        Of the Jacobian; for cycles Floquet multipliers, the trivial one among them. On a level set of k
        conserved sums the d - k ones along it.
    residual : ndarray (n,)
        Field at the equilibrium in units of the length and time scales (largest entry); for cycles
        |mu_trivial - 1|, which also measures the discretisation.
    support : ndarray (n,)
        Support of the field there; for cycles the least along the cycle.
    bifurcations : tuple of Bifurcation
        In order along the branch; their points are among those of the branch.
    ends : (BranchEnd, BranchEnd)
        Why the branch ends at its first and its last point.
    period : ndarray (n,) or None
        Periods of cycles.
    orbits : tuple of n arrays (k, d), or None
        Each cycle's states over one period, first state repeated at the end.
    phases : tuple of n arrays (k,), or None
        At which shares of the period these are, from 0 to 1.
    limits : (LongPeriod or None, LongPeriod or None)
        What cycles tend to at either end, where their period grows without bounds.
    """

    kind: BranchKind
    p: np.ndarray
    x: np.ndarray
    n_unstable: np.ndarray
    eigenvalues: np.ndarray
    residual: np.ndarray
    support: np.ndarray
    bifurcations: tuple[Bifurcation, ...]
    ends: tuple[BranchEnd, BranchEnd]
    period: np.ndarray | None = None
    orbits: tuple[np.ndarray, ...] | None = None
    phases: tuple[np.ndarray, ...] | None = None
    limits: tuple[LongPeriod | None, LongPeriod | None] = (None, None)

    @property
    def low(self) -> np.ndarray:
        """Smallest value of each state, (n, d): the equilibrium itself, or over the cycle."""
        return self.x if self.orbits is None else np.array([orbit.min(axis=0) for orbit in self.orbits])

    @property
    def high(self) -> np.ndarray:
        """Largest value of each state, (n, d)."""
        return self.x if self.orbits is None else np.array([orbit.max(axis=0) for orbit in self.orbits])

    def __len__(self) -> int:
        return len(self.p)

    def __repr__(self) -> str:
        size, events = counted(len(self), "point"), counted(len(self.bifurcations), "bifurcation")
        ends = []
        for end, limit, place in zip(self.ends, self.limits, (0, -1), strict=True):
            said = "" if limit is None else f" ({limit!r})"
            spent = end in (BranchEnd.ACCURACY, BranchEnd.POINTS, BranchEnd.BUDGET)
            if limit is None and spent and self.period is not None:
                said += f" at p = {self.p[place]:.9g}, period {self.period[place]:.5g}"
            ends.append(f"{end.value}{said}")
        return (
            f"Branch({self.kind.value}, {size}, p from {self.p.min():.5g} to {self.p.max():.5g}, "
            f"{events}, ends: {'; '.join(ends)})"
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Continuation(Result):
    """Branches of a family over a range of its parameter; made by `continuation`.

    Attributes
    ----------
    parameter : str
        Name of the parameter.
    p_range : (float, float)
        Range that was followed.
    branches : tuple of Branch
        Equilibria first, then cycles.
    """

    drawn_by = "fim_dynsys.plot.diagrams:bifurcation_diagram"

    parameter: str
    p_range: tuple[float, float]
    branches: tuple[Branch, ...]

    @property
    def bifurcations(self) -> tuple[Bifurcation, ...]:
        """Those of all branches, in order."""
        return tuple(event for branch in self.branches for event in branch.bifurcations)

    @property
    def equilibria(self) -> tuple[Branch, ...]:
        """The branches of equilibria."""
        return tuple(branch for branch in self.branches if branch.kind is BranchKind.EQUILIBRIA)

    @property
    def cycles(self) -> tuple[Branch, ...]:
        """The branches of cycles."""
        return tuple(branch for branch in self.branches if branch.kind is BranchKind.CYCLES)

    def _rows(self) -> Table:
        columns = ["branch", "kind", self.parameter, *self.state_names, "period", "l1", "criticality"]
        rows = [
            [i, b.kind, b.p, *b.x, b.period, b.lyapunov_coefficient, b.criticality, b.residual, b.support]
            for i, branch in enumerate(self.branches)
            for b in branch.bifurcations
        ]
        return [*columns, "residual", "support"], rows

    def _headline(self) -> str:
        low, high = self.p_range
        return (
            f"{counted(len(self.bifurcations), 'bifurcation')} on "
            f"{counted(len(self.branches), 'branch', 'branches')}, "
            f"{self.parameter} from {low:g} to {high:g}"
        )

    def _notes(self) -> list[str]:
        notes = [f"branch {i}: {branch!r}" for i, branch in enumerate(self.branches)]
        if any(BranchEnd.CONTINUUM in branch.ends for branch in self.branches):
            level = f" even where {', '.join(self.conserved)}" if self.conserved else ""
            notes.append(
                f"Equilibria form a continuum{level}, along which no branch is followed: expected a start at "
                "an isolated equilibrium, such as one that fixed_points lists at another value of "
                f"{self.parameter}."
            )
        if any(BranchEnd.CIRCLE in branch.ends for branch in self.branches):
            notes.append("A circle of equilibria is listed by one of its points at each parameter value.")
        ratios = self.feigenbaum_ratios
        if len(ratios):
            notes.append(
                f"ratios of the distances between doublings: {', '.join(f'{r:.3f}' for r in ratios)}"
            )
        return notes + super()._notes()

    @property
    def feigenbaum_ratios(self) -> np.ndarray:
        """Ratios of successive distances in p between the first doublings of the first cascade followed.

        They tend to 4.669 where doublings accumulate.
        """
        places: list[float] = []
        for branch in self.cycles:
            doublings = [b.p for b in branch.bifurcations if b.kind is BifurcationKind.PERIOD_DOUBLING]
            cascades = BranchEnd.DOUBLING in branch.ends
            if doublings and (cascades or not places):
                places.append(doublings[0])
        gaps = np.diff(places)
        return gaps[:-1] / gaps[1:]

    def _variables(self) -> Variables:
        branches, d = self.branches, len(self.state_names)
        modes = branches[0].eigenvalues.shape[1] if branches else d  # fewer on a level set
        index = np.repeat(np.arange(len(branches)), [len(b) for b in branches])
        events = [(i, b) for i, branch in enumerate(branches) for b in branch.bifurcations]
        kinds = np.empty(len(events), dtype=object)
        kinds[:] = [b.kind for _, b in events]

        def joined(name: str, shape: tuple[int, ...] = ()) -> np.ndarray:
            return np.concatenate([np.zeros((0, *shape)), *(getattr(b, name) for b in branches)])

        by_point, by_event = ("point",), ("bifurcation",)
        return {
            "branch": (by_point, index),
            "p": (by_point, joined("p")),
            "x": (("point", "state"), joined("x", (d,))),
            "low": (("point", "state"), joined("low", (d,))),
            "high": (("point", "state"), joined("high", (d,))),
            "n_unstable": (by_point, joined("n_unstable").astype(int)),
            "eigenvalues": (("point", "eigenvalue"), joined("eigenvalues", (modes,)).astype(complex)),
            "residual": (by_point, joined("residual")),
            "support": (by_point, joined("support")),
            "bifurcation_branch": (by_event, np.array([i for i, _ in events], dtype=int)),
            "bifurcation_kind": (by_event, kinds),
            "bifurcation_p": (by_event, np.array([b.p for _, b in events], dtype=float)),
            "bifurcation_x": (("bifurcation", "state"), np.array([b.x for _, b in events]).reshape(-1, d)),
            "bifurcation_residual": (by_event, np.array([b.residual for _, b in events], dtype=float)),
        }
