"""Curves of bifurcations over two parameters, the points of codimension two on them, and their units."""

from dataclasses import dataclass, field

import numpy as np

from fim_dynsys.analyze.lengths import family_lengths, sized
from fim_dynsys.analyze.results import Result, Table, Variables
from fim_dynsys.analyze.tracing.branches import BifurcationKind, Branch
from fim_dynsys.analyze.tracing.curve import BranchEnd
from fim_dynsys.analyze.tracing.equations import ROOT
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.plane import FieldPlane
from fim_dynsys.regions import Region
from fim_dynsys.wording import counted

_STEP = np.finfo(float).eps ** 0.25  # Jacobians known to 1e-11 are differenced with an error of 1e-7
_ESCAPE = 1e6  # multiple of the length scale beyond which a curve without a region is given up
_LOOKED_AT = 3  # values of the first parameter between the ends, and states, where lengths are taken from
_SAME = 1e-4  # scaled distance in which two points of codimension two are one


@dataclass(frozen=True, eq=False)
class CodimensionTwo:
    """A point where a curve of bifurcations meets another.

    Attributes
    ----------
    kind : BifurcationKind
        ``CP``, ``BT``, ``GH``, ``ZH`` or ``HH``; of cycles ``CPC``, ``LPPD``, ``R1``, ``R2``, ``R3``, ``R4``.
    p, q : float
        Values of the parameters.
    x : ndarray (d,)
        The equilibrium; of a cycle the point where the first state is largest.
    eigenvalues : ndarray (d,) complex
        Of the Jacobian; of cycles Floquet multipliers.
    residual : float
        How well the equations of the curve hold, in scaled units.
    coefficients : dict of str to float
        Of the normal form: ``c`` of a cusp, ``a`` and ``b`` of a Bogdanov-Takens point, for null vectors of
        length one, a positive. Empty for the other kinds.
    period : float or None
        Of a cycle.
    """

    kind: BifurcationKind
    p: float
    q: float
    x: np.ndarray
    eigenvalues: np.ndarray
    residual: float
    coefficients: dict[str, float] = field(default_factory=dict)
    period: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class BifurcationCurve:
    """A curve of bifurcations, as n points in order along it.

    Attributes
    ----------
    kind : BifurcationKind
        ``LP`` or ``HB``; ``LPC``, ``PD``, ``NS`` of cycles; ``HOM`` for cycles of one long period.
    p, q : ndarray (n,)
        Values of the parameters.
    x : ndarray (n, d)
        Equilibria; of cycles the points where the first state is largest.
    eigenvalues : ndarray (n, d) complex
        Of the Jacobian; of cycles Floquet multipliers.
    lyapunov_coefficient : ndarray (n,) or None
        Of Hopf points: negative where the cycles born are stable; else None.
    residual : ndarray (n,)
        How well the defining equations hold, in scaled units.
    points : tuple of CodimensionTwo
        In order along the curve.
    ends : (BranchEnd, BranchEnd)
        Why the curve ends at its first and its last point.
    period : ndarray (n,) or None
        Of cycles.
    error : ndarray (n,) or None
        Of ``HOM``: a bound of the distance from cycles of infinite period, across the curve and as a share of
        the ranges.
    """

    kind: BifurcationKind
    p: np.ndarray
    q: np.ndarray
    x: np.ndarray
    eigenvalues: np.ndarray
    lyapunov_coefficient: np.ndarray | None
    residual: np.ndarray
    points: tuple[CodimensionTwo, ...]
    ends: tuple[BranchEnd, BranchEnd]
    period: np.ndarray | None = None
    error: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.p)

    def __repr__(self) -> str:
        return (
            f"BifurcationCurve({self.kind.value}, {counted(len(self), 'point')}, p from {self.p.min():.5g} "
            f"to {self.p.max():.5g}, q from {self.q.min():.5g} to {self.q.max():.5g}, ends: "
            f"{self.ends[0].value}; {self.ends[1].value}{self._long()})"
        )

    def _long(self) -> str:
        """What curves of cycles of one long period say of their error."""
        if self.error is None or self.period is None:
            return ""
        return f"; period {self.period[0]:.5g}, off by at most {self.error.max():.1g} of the ranges"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BifurcationCurves(Result):
    """Curves of bifurcations over two parameters; made by `bifurcation_curves`.

    Attributes
    ----------
    parameters : (str, str)
        Names of the parameters.
    p_range, q_range : (float, float)
        Ranges that were followed.
    curves : tuple of BifurcationCurve
        In the order in which they were found.
    q0 : float
        Value of the second parameter at which they begin.
    branch_points : tuple of float
        Values of the first one at which branches of equilibria cross there; these are not followed.
    """

    drawn_by = "fim_dynsys.plot.diagrams:two_parameter"

    parameters: tuple[str, str]
    p_range: tuple[float, float]
    q_range: tuple[float, float]
    curves: tuple[BifurcationCurve, ...]
    q0: float = np.nan
    branch_points: tuple[float, ...] = ()

    @property
    def points(self) -> tuple[CodimensionTwo, ...]:
        """Points of codimension two of all curves, each once."""
        size = np.array([np.ptp(self.p_range), np.ptp(self.q_range)])
        kept: list[CodimensionTwo] = []
        for point in (point for curve in self.curves for point in curve.points):
            gaps = [np.abs((other.p - point.p, other.q - point.q) / size).max() for other in kept]
            twins = [other.kind is point.kind and gap < _SAME for other, gap in zip(kept, gaps, strict=True)]
            kept += [] if any(twins) else [point]
        return tuple(kept)

    def _headline(self) -> str:
        return (
            f"{counted(len(self.curves), 'curve')} of bifurcations over {self.parameters[0]} and "
            f"{self.parameters[1]}, {counted(len(self.points), 'point')} of codimension two"
        )

    def _rows(self) -> Table:
        columns = ["kind", *self.parameters, *self.state_names, "coefficients", "residual"]
        rows = []
        for point in self.points:
            text = ", ".join(f"{name} = {value:.5g}" for name, value in point.coefficients.items())
            rows.append([point.kind, point.p, point.q, *point.x, text, point.residual])
        return columns, rows

    def _notes(self) -> list[str]:
        crossings = []
        if self.branch_points:
            places = ", ".join(f"{value:.5g}" for value in self.branch_points)
            crossings = [
                f"branches of equilibria cross (BP) at {self.parameters[0]} = {places} where "
                f"{self.parameters[1]} = {self.q0:g}: curves of branch points are not followed"
            ]
        curves = [f"curve {i}: {curve!r}" for i, curve in enumerate(self.curves)]
        return [*curves, *crossings, *super()._notes()]

    def _variables(self) -> Variables:
        d = len(self.state_names)
        sizes = [len(curve) for curve in self.curves]
        kinds = np.empty(len(self.points), dtype=object)
        kinds[:] = [point.kind for point in self.points]

        def joined(name: str, *shape: int) -> np.ndarray:
            return np.concatenate([np.zeros((0, *shape)), *(getattr(c, name) for c in self.curves)])

        by_point, by_event = ("point",), ("codimension_two",)
        return {
            "curve": (by_point, np.repeat(np.arange(len(sizes)), sizes)),
            "p": (by_point, joined("p")),
            "q": (by_point, joined("q")),
            "x": (("point", "state"), joined("x", d)),
            "residual": (by_point, joined("residual")),
            "curve_kind": (("curve_number",), np.array([c.kind for c in self.curves] + [None], object)[:-1]),
            "period": (by_point, np.concatenate([np.zeros(0), *(_or_nan(c.period, c) for c in self.curves)])),
            "codimension_two_kind": (by_event, kinds),
            "codimension_two_p": (by_event, np.array([point.p for point in self.points], dtype=float)),
            "codimension_two_q": (by_event, np.array([point.q for point in self.points], dtype=float)),
        }


class System:
    """Field and Jacobian in units of the region, the two ranges and a time of the dynamics.

    Scaled points are ``z = (x, p, q)``, (d + 2,).
    """

    def __init__(
        self,
        plane: FieldPlane,
        p_range: tuple[float, float],
        q_range: tuple[float, float],
        region: Region | None,
        branches: tuple[Branch, ...],
    ) -> None:
        self.plane, self.region = plane, region
        states = np.concatenate([branch.x for branch in branches])
        d = states.shape[1]
        ranges = np.sort(np.array([p_range, q_range], dtype=float), axis=1)
        family = plane.family(float(q_range[0]))
        values = np.linspace(ranges[0, 0], ranges[0, 1], _LOOKED_AT + 2)[1:-1].tolist()
        self.unit = family_lengths(family, values, states[:: max(1, len(states) // _LOOKED_AT)], region)
        size = _sizes(states, self.unit) if region is None else region.size / 2.0
        self.centre = np.concatenate([np.zeros(d) if region is None else region.centre, ranges[:, 0]])
        self.size = np.concatenate([size, ranges[:, 1] - ranges[:, 0]])
        rates = np.concatenate([_rates(branch) for branch in branches])
        self.time = 1.0 / float(np.median(rates)) if np.median(rates) > 0 else 1.0
        self.p_range, self.q_first = p_range, float(q_range[0])
        self.d, self.points = d, 0

    def scaled(self, x: np.ndarray, p: float, q: float) -> np.ndarray:
        """Scaled point of a state and two values."""
        return (np.concatenate([x, [p, q]]) - self.centre) / self.size

    def unscaled(self, z: np.ndarray) -> tuple[np.ndarray, float, float]:
        """State and values of a scaled point."""
        value = self.centre + self.size * z
        return value[:-2], float(value[-2]), float(value[-1])

    def field(self, z: np.ndarray) -> VectorField:
        """The unscaled field at a point's parameters."""
        _, p, q = self.unscaled(z)
        return self.at(p, q)

    def at(self, p: float, q: float) -> VectorField:
        """The unscaled field of two values, with steps of differences that suit it."""
        return sized(self.plane.at(p, q), self.unit)

    def value(self, z: np.ndarray) -> np.ndarray:
        """Scaled field (d,)."""
        self.points += 1
        return self.field(z)(self.unscaled(z)[0]) * self.time / self.size[:-2]

    def jacobians(self, z: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Scaled Jacobians (k, d, d) at a point moved by rows (k, d) of the states alone."""
        self.points += len(moves)
        length = self.size[:-2]
        x, _, _ = self.unscaled(z)
        return self.field(z).jacobian(x + moves * length) * (self.time * length / length[:, None])

    def derivatives(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Field (d,), Jacobian (d, d), field by parameters (d, 2), Jacobian by all (d + 2, d, d)."""
        d = self.d
        steps = _STEP * np.eye(d)
        jacs = self.jacobians(z, np.concatenate([np.zeros((1, d)), steps, -steps]))
        by_states = (jacs[1 : d + 1] - jacs[d + 1 :]) / (2.0 * _STEP)
        by_parameters, changes = [], []
        for direction in np.eye(d + 2)[d:]:
            ahead, behind = z + _STEP * direction, z - _STEP * direction
            far, back = z + 2.0 * _STEP * direction, z - 2.0 * _STEP * direction
            near = self.value(ahead) - self.value(behind)
            by_parameters.append((8.0 * near - self.value(far) + self.value(back)) / (12.0 * _STEP))
            still = np.zeros((1, d))
            changes.append((self.jacobians(ahead, still) - self.jacobians(behind, still))[0] / (2.0 * _STEP))
        return self.value(z), jacs[0], np.array(by_parameters).T, np.concatenate([by_states, changes])

    def room(self, z: np.ndarray) -> dict[BranchEnd, float]:
        """Distances from the edges of the ranges and of the region, negative outside."""
        limit = _ESCAPE if self.region is None else 1.0
        return {
            BranchEnd.P_RANGE: float(np.minimum(z[-2:], 1.0 - z[-2:]).min()),
            BranchEnd.REGION: float(limit - np.abs(z[:-2]).max()),
        }


def _sizes(states: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Length of each state among states (n, d): the unit, less only where all are smaller."""
    largest = np.abs(states).max(axis=0)
    return np.maximum(np.minimum(unit, largest.max()) if (largest > ROOT * unit).any() else unit, largest)


def _or_nan(values: np.ndarray | None, curve: BifurcationCurve) -> np.ndarray:
    return np.full(len(curve), np.nan) if values is None else values


def _rates(branch: Branch) -> np.ndarray:
    """Largest eigenvalues of equilibria, or angular frequencies of cycles, (n,)."""
    return np.abs(branch.eigenvalues).max(axis=1) if branch.period is None else 2.0 * np.pi / branch.period
