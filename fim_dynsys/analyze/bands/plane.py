"""curves_from_data: folds and Hopf points over two parameters, with bands, from trajectories."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fim_dynsys.analyze.bands.draws import half_width
from fim_dynsys.analyze.bands.lines import distances
from fim_dynsys.analyze.bifurcation.curves import BifurcationCurve, BifurcationCurves, bifurcation_curves
from fim_dynsys.analyze.bifurcation.measured import InfersFields, solved_bifurcation
from fim_dynsys.analyze.equilibria.points import fixed_points
from fim_dynsys.analyze.results import (
    WIDENED,
    Effort,
    RegionLike,
    Result,
    Table,
    Variables,
    progress_bar,
    region_of,
    resolve_region,
)
from fim_dynsys.analyze.tracing.branches import Bifurcation
from fim_dynsys.analyze.tracing.equations import Equations
from fim_dynsys.errors import check_number, check_whole, earlier_name, renamed
from fim_dynsys.fields.plane import FieldPlane, PooledPlane
from fim_dynsys.regions import Region
from fim_dynsys.threads import on_one_thread
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.wording import counted

_POINTS = 25  # of a curve that are followed into the ensemble
# Where curves are sought from: shares of the ranges of both parameters.
_STARTS = ((0.0, 0.5), (1.0, 0.5), (0.0, 0.25), (1.0, 0.75))
_FARTHEST = 0.5  # scaled distance between a member's bifurcation and that of all data
_SAME = 0.02  # share of the ranges within which two curves are one


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CurvesFromData(Result):
    """Curves of bifurcations over two parameters with bands; made by `curves_from_data`.

    Attributes
    ----------
    curves : BifurcationCurves
        Those of the interpolated field.
    plane : PooledPlane
        That field.
    rows : tuple of ndarray (n,) of int
        Points of each curve that were followed into the ensemble.
    axis : tuple of ndarray (n,) of int
        Along which parameter the band is measured there: the one across which the curve runs.
    half_widths : tuple of ndarray (n,)
        Half width of the band along it; NaN where fewer than two members have the point.
    share : tuple of ndarray (n,)
        Share of the members that have it.
    values : ndarray (K, 2)
        Measured pairs.
    level : float
        Probability that the bands are meant to have, at each point.
    n_draws : int
        Size of the ensemble.
    """

    drawn_by = "fim_dynsys.plot.bands:curves_from_data"

    curves: BifurcationCurves
    plane: PooledPlane
    rows: tuple[np.ndarray, ...]
    axis: tuple[np.ndarray, ...]
    half_widths: tuple[np.ndarray, ...]
    share: tuple[np.ndarray, ...]
    values: np.ndarray
    level: float
    n_draws: int
    n_members = earlier_name("n_members", "n_draws")

    def _headline(self) -> str:
        p, q = self.curves.parameters
        return (
            f"{counted(len(self.curves.curves), 'curve')} of bifurcations over {p} and {q} from "
            f"{len(self.values)} measured pairs, {100 * self.level:g} % bands"
        )

    def _rows(self) -> Table:
        p, q = self.curves.parameters
        rows = []
        for curve, picked, axis, half, share in zip(
            self.curves.curves, self.rows, self.axis, self.half_widths, self.share, strict=True
        ):
            for i in range(0, len(picked), 4):
                row = picked[i]
                name = self.curves.parameters[axis[i]]
                rows.append([curve.kind, curve.p[row], curve.q[row], half[i], name, share[i]])
        return ["kind", p, q, "+-", "along", "share"], rows

    def _notes(self) -> list[str]:
        points = [f"{point.kind.value} at ({point.p:.4g}, {point.q:.4g})" for point in self.curves.points]
        degree = f"coefficients are polynomials of total degree {self.plane.degree}"
        return [*points, f"{degree}; {counted(self.n_draws, 'member')}", *super()._notes()]

    def _variables(self) -> Variables:
        index = np.repeat(np.arange(len(self.rows)), [len(rows) for rows in self.rows])

        def joined(parts: Sequence[np.ndarray], kind: type = float) -> np.ndarray:
            return np.concatenate([np.empty(0, dtype=kind), *parts])

        curves = self.curves.curves
        kinds = np.empty(len(curves), dtype=object)
        kinds[:] = [curve.kind for curve in curves]
        return {
            "curve": (("point",), index),
            "kind": (("curve_",), kinds),
            "p": (("point",), joined([c.p[rows] for c, rows in zip(curves, self.rows, strict=True)])),
            "q": (("point",), joined([c.q[rows] for c, rows in zip(curves, self.rows, strict=True)])),
            "half_width": (("point",), joined(self.half_widths)),
            "along": (("point",), joined(self.axis, int)),
            "share": (("point",), joined(self.share)),
            "values": (("value", "parameter"), self.values),
        }


@on_one_thread
@renamed(n_members="n_draws")
def curves_from_data(
    model: InfersFields,
    trajectories: Trajectories,
    parameters: tuple[str, str],
    region: RegionLike | None = None,
    *,
    n_draws: int = 30,
    level: float = 0.9,
    budget: int = 5_000_000,
    seed: int = 0,
    progress: bool | None = None,
) -> CurvesFromData:
    """Folds and Hopf points over two parameters, of trajectories measured at several pairs of their values.

    One field is inferred for each pair. Polynomials of both parameters are fitted to all fields, and the
    curves of the interpolated field are followed over the measured ranges. Each of some 25 points of a curve
    is followed into fits to resampled pairs, across the curve: along the parameter that changes less on it.
    The bands hold the scatter of inference and the choice of the degree, not what all fields have in common.

    Parameters
    ----------
    model : VectorFieldModel
        Infers the fields; need not be fitted.
    trajectories : Trajectories
        With two numeric coordinates, at least five different pairs of values, not on a line.
    parameters : (str, str)
        Names of these coordinates.
    region : Region, dict or pairs, optional
        Where to search; default the box of all data widened by 10 % on each side.
    n_draws : int
        Size of the ensemble.
    level : float
        Probability that the bands are meant to have.
    budget : int
        Largest number of points at which the interpolated field is evaluated to follow its curves.
    seed : int
        Of the resampling.
    progress : bool, optional
        Whether to show how far the work is; by default on a terminal only.

    Returns
    -------
    CurvesFromData

    Raises
    ------
    TypeError
        If the model infers no field.
    ValueError
        If a coordinate is missing or not numeric, or there are too few pairs.

    See Also
    --------
    bifurcation_curves : Of one plane of fields.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze
    >>> pairs = [(h, r) for h in (-0.5, 0.0, 0.5) for r in (0.5, 1.0)]
    >>> t = np.linspace(0, 6, 40)
    >>> fields = [fim_dynsys.SymbolicField([f"{h} + {r}*x0 - x0**3"]) for h, r in pairs]
    >>> paths = [fim_dynsys.simulate(field, [[1.5], [-1.5]], t).x for field in fields]
    >>> coords = {"h": np.repeat([h for h, _ in pairs], 2), "r": np.repeat([r for _, r in pairs], 2)}
    >>> x = [path for both in paths for path in both]
    >>> data = fim_dynsys.Trajectories.from_arrays(x, [t] * 12, coords=coords)
    >>> model = fim_dynsys.load("sindy-strong")
    >>> found = analyze.curves_from_data(model, data, ("h", "r"), n_draws=2, progress=False)
    >>> type(found).__name__
    'CurvesFromData'
    """
    check_whole("curves_from_data", 2, n_draws=n_draws)
    check_whole("curves_from_data", 1, budget=budget)
    check_whole("curves_from_data", 0, seed=seed)
    level = check_number("curves_from_data", "level", level, 0.0, 1.0)
    if not hasattr(model, "infer_many"):
        raise TypeError(
            f"curves_from_data: expected a model that infers vector fields, got {type(model).__name__}."
        )
    if region is not None:
        region = region_of(trajectories.state_names, region, "curves_from_data")
    values, contexts = _by_pair(trajectories, parameters)
    with progress_bar(progress, 2 + n_draws, "curves", "step") as bar:
        plane = FieldPlane.from_fields(values, model.infer_many(contexts), parameters)
        bar.update()
        if region is None and plane.region is not None:
            region = plane.region.widened(WIDENED)
        region = resolve_region(plane.fields[0], region, "curves_from_data")
        curves = _followed(plane, values, region, budget)
        bar.update()
        (p_low, q_low), (p_high, q_high) = values.min(axis=0).tolist(), values.max(axis=0).tolist()
        ends = (p_low, p_high), (q_low, q_high)
        followers = [_Follower(curve, ends, region) for curve in curves.curves]
        places: list[list[np.ndarray]] = [[] for _ in followers]
        for member in plane.bootstrap(n_draws, seed):
            for own, follower in zip(places, followers, strict=True):
                own.append(follower.into(member))
            bar.update()
    weights = np.full(n_draws, 1.0 / n_draws)
    drawn = [np.array(rows).T for rows in places]
    return CurvesFromData(
        curves=curves,
        plane=plane,
        rows=tuple(follower.rows for follower in followers),
        axis=tuple(follower.axis for follower in followers),
        half_widths=tuple(
            half_width(rows, follower.own, weights, level)
            for rows, follower in zip(drawn, followers, strict=True)
        ),
        share=tuple(np.isfinite(rows).mean(axis=1) for rows in drawn),
        values=values,
        level=level,
        n_draws=n_draws,
        effort=curves.effort,
        state_names=tuple(region.names or plane.fields[0].state_names),
        units=trajectories.units,
    )


def _by_pair(data: Trajectories, parameters: tuple[str, str]) -> tuple[np.ndarray, list[Trajectories]]:
    """The different pairs of values (K, 2), and the trajectories measured at each."""
    columns = [data.coords.get(name) for name in parameters]
    known = [c for c in columns if c is not None and c.dtype.kind in "iuf" and np.isfinite(c).all()]
    if len(known) != 2:
        raise ValueError(
            f"curves_from_data: expected finite numbers as coordinates {list(parameters)} of trajectories, "
            f"got coordinates {sorted(data.coords)}."
        )
    given = np.stack([column.astype(float) for column in known], axis=1)
    values, index = np.unique(given, axis=0, return_inverse=True)
    return values, [data[np.flatnonzero(index.ravel() == k)] for k in range(len(values))]


def _followed(plane: PooledPlane, values: np.ndarray, region: Region, budget: int) -> BifurcationCurves:
    """Curves found from equilibria at several values of the second parameter, each once."""
    (p_low, q_low), (p_high, q_high) = values.min(axis=0), values.max(axis=0)
    kept: list[BifurcationCurve] = []
    found: BifurcationCurves | None = None
    points = 0
    ends = (float(p_low), float(p_high)), (float(q_low), float(q_high))
    for place in _STARTS:
        p0, q0 = (float(low + share * (high - low)) for share, (low, high) in zip(place, ends, strict=True))
        roots = fixed_points(plane.at(p0, q0), region, n_draws=0)
        starts = roots.x[roots.is_root]
        points += roots.effort.points
        if not len(starts) or points >= budget:
            continue
        remaining = max(1000, budget - points)
        found = bifurcation_curves(plane, starts, *ends, region, p0=p0, q0=q0, budget=remaining)
        points += found.effort.points
        for curve in found.curves:
            if not any(_same(curve, other, ends) for other in kept):
                kept.append(curve)
    if found is None:
        raise ValueError(f"curves_from_data: expected equilibria in {region}, found none to start from.")
    return BifurcationCurves(
        state_names=found.state_names,
        units=found.units,
        effort=Effort(found.effort.seeds, found.effort.iterations, points, budget, points >= budget),
        parameters=found.parameters,
        p_range=found.p_range,
        q_range=found.q_range,
        curves=tuple(kept),
    )


def _same(
    a: BifurcationCurve, b: BifurcationCurve, ends: tuple[tuple[float, float], tuple[float, float]]
) -> bool:
    """Whether every point of one curve lies near the other."""
    size = np.ptp(np.array(ends), axis=1)
    here, there = (np.stack([curve.p, curve.q], axis=1) / size for curve in (a, b))
    return a.kind is b.kind and bool((distances(here, there) < _SAME).all())


class _Follower:
    """Points of one curve, and where other planes have them."""

    def __init__(
        self, curve: BifurcationCurve, ends: tuple[tuple[float, float], ...], region: Region
    ) -> None:
        self.curve, self.ends, self.region = curve, ends, region
        self.rows = np.unique(np.linspace(0, len(curve) - 1, _POINTS).astype(int))
        p_change, q_change = (
            np.abs(np.gradient(v)) / (high - low)
            for v, (low, high) in zip((curve.p, curve.q), ends, strict=True)
        )
        # across the curve: along the parameter that changes less on it
        self.axis = (p_change > q_change).astype(int)[self.rows]
        self.own = np.where(self.axis == 0, curve.p[self.rows], curve.q[self.rows])

    def into(self, plane: PooledPlane) -> np.ndarray:
        """The value along each point's axis at which a plane has the bifurcation; NaN without one."""
        return np.array(
            [self._value(plane, row, axis) for row, axis in zip(self.rows, self.axis, strict=True)]
        )

    def _value(self, plane: PooledPlane, row: int, axis: int) -> float:
        curve = self.curve
        p, q = float(curve.p[row]), float(curve.q[row])
        family = plane.family(q) if axis == 0 else _turned(plane).family(p)
        equations = Equations(family, self.ends[axis], self.region)
        event = Bifurcation(curve.kind, (p, q)[axis], curve.x[row], 0.0, curve.eigenvalues[row], 1.0)
        start = equations.scaled(event.x, event.p)
        u = solved_bifurcation(equations, event, start)
        if u is None or not np.isfinite(u).all() or np.linalg.norm(u - start) > _FARTHEST:
            return np.nan
        return float(equations.unscaled(u[:-1], u[-1])[1])


def _turned(plane: FieldPlane) -> FieldPlane:
    """The plane with its parameters in the other order."""
    return FieldPlane(lambda q, p: plane.at(p, q), plane.parameters[::-1])
