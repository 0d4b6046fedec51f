"""Fixed points of a vector field in a region: zeros, slow points, kinds, and a check that none was missed.

A little above five hundred lines: the result with its errors and the search that makes it are read together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from fim_dynsys.analyze.conserved import ConservedSums, sampled
from fim_dynsys.analyze.equilibria.balance import Balance, Checker, IndexCheck
from fim_dynsys.analyze.equilibria.drawn import DrawnPoints, follow_into
from fim_dynsys.analyze.equilibria.kinds import Kind, classify, eigen
from fim_dynsys.analyze.equilibria.newton import REFINED_ROWS, ROOT_RESIDUAL, Meter, Refined, minima, refine
from fim_dynsys.analyze.equilibria.seeding import starting_points
from fim_dynsys.analyze.levels import LevelLike, LevelSet, level_set
from fim_dynsys.analyze.results import (
    SUPPORTED,
    Effort,
    FieldLike,
    RegionLike,
    Result,
    Table,
    Variables,
    counted,
    resolve_region,
    scales_within,
    state_labels,
    unwrap,
    with_steps,
)
from fim_dynsys.deadline import time_limit
from fim_dynsys.errors import check_number, check_whole
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.regions import Region

# Iterates may go this far beyond the region, as a share of its size; zeros there serve the index check.
_BEYOND = 0.1
_ROUNDING = 1e-8  # a zero is known to about this share of the region where it is of second order: sqrt(eps)
_EDGE = 1e-6  # a zero so near the boundary may be on either side of it: a hundred times that share
# Zeros of second order end as far apart as they are known, 1e-8 of a length; simple ones at 1e-15. Of higher
# order the step still to go tells how far: it shrinks by a constant factor a round, (1 - 1/p) for order p, so
# that up to ten such steps remain for p <= 10, and never more than a hundredth of a length.
_MERGED = 1e-6
_STEPS_LEFT, _LONGEST_STEP = 10.0, 1e-3
# Where the Jacobian is so nearly singular, the index is not the sign of its determinant but measured.
_SINGULAR = 1e-6
# Along a direction without slope, an isolated zero attracts from this distance, one among many does not.
_PROBE = 1e-2
# A continuum of zeros is shown, not sampled: a few points that a table holds, well apart in the region.
_SPACING = 0.1
_MOST_REPRESENTATIVES = 16
_MOST_MINIMA = 64  # polishing costs some 8 (4 d + 2) points each: in the plane 5,000 of the budget in all
_CHECKED = 3  # dimensions up to which indices tell what was missed; beyond, how often zeros were met
_MISSED = 0.5  # estimated number of missed zeros below which the search ends
_MET = 1e-4  # lengths within which iterations have ended at the same zero
_MOSTLY = 0.5  # share of the zeros with a singular Jacobian at which they are taken to form a continuum
_ROUNDS = 4  # each with four times the starts of the one before, 64 to 4,096


class PointStatus(StrEnum):
    """How a fixed point was established."""

    ISOLATED = "isolated"
    """A zero with no other nearby."""
    NOT_ISOLATED = "not isolated"
    """One of a continuum of zeros, of which a few are listed."""
    ON_EDGE = "on the edge"
    """An isolated zero on the boundary of the region."""
    MINIMUM = "minimum"
    """No zero: a local minimum of |f|."""


@dataclass(frozen=True, eq=False, repr=False)
class FixedPoints(Result):
    """Fixed points found in a region: zeros first, supported ones before others, then by coordinates.

    Attributes
    ----------
    x : ndarray (n, d)
        Positions.
    eigenvalues : ndarray (n, d) of complex
        Of the Jacobian, by falling real part; on a level set of k conserved sums the d - k ones along it.
    kind : ndarray (n,) of Kind
        What they are.
    status : ndarray (n,) of PointStatus
        How they were established.
    residual : ndarray (n,)
        |f| in units of the field's speed.
    support : ndarray (n,)
        Support by the data, see `VectorField.support`.
    index : ndarray (n,)
        Topological index: the sign of det J, for zeros of higher order the degree round them; NaN where
        unknown and for slow points.
    index_check : IndexCheck
        Whether the indices add up to the degree on the boundary; a mismatch means that zeros were missed.
    balance : Balance
        The two sums, and the box they refer to (on a level set, in its coordinates).
    region : Region
        Where they were sought.
    non_finite : int
        Starting points at which the field was not finite.
    missed : float or None
        From four dimensions on, a lower bound of how many zeros were not met, estimated from how many were
        met once and twice; None below, where indices are checked.
    draws : DrawnPoints or None
        The points in fields drawn from the posterior; None for a field without one. A slow point is there
        where a draw has a zero.
    errors_missing : bool
        Whether draws were wanted of an inferred field that has no posterior.
    """

    drawn_by = "fim_dynsys.plot.objects:fixed_points"

    x: np.ndarray
    eigenvalues: np.ndarray
    kind: np.ndarray
    status: np.ndarray
    residual: np.ndarray
    support: np.ndarray
    index: np.ndarray
    balance: Balance
    region: Region
    non_finite: int
    missed: float | None = None
    draws: DrawnPoints | None = None
    errors_missing: bool = False

    @property
    def position_errors(self) -> np.ndarray | None:
        """Standard errors of the positions, (n, d), see `draws`; NaN where too few draws have the point."""
        return None if self.draws is None else self.draws.position_errors

    @property
    def eigenvalue_errors(self) -> np.ndarray | None:
        """Those of the eigenvalues' real and imaginary parts, as real and imaginary parts, (n, d)."""
        return None if self.draws is None else self.draws.eigenvalue_errors

    def margins(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Half widths of intervals that hold position and eigenvalues with a probability.

        Parameters
        ----------
        level : float
            The probability.

        Returns
        -------
        positions : ndarray (n, d)
            Round `x`; NaN where fewer than two draws have the point.
        eigenvalues : ndarray (n, d) of complex
            Of the eigenvalues' real and imaginary parts, as real and imaginary parts.

        Raises
        ------
        ValueError
            For points without draws.
        """
        if self.draws is None:
            raise ValueError(
                "FixedPoints.margins: expected points of a field with a posterior, got none; pass "
                "draws=model.ensemble(64) to fixed_points."
            )
        return self.draws.margins(self.x, self.eigenvalues, level)

    @property
    def existence(self) -> np.ndarray | None:
        """Share of the draws in which each point exists, (n,)."""
        return None if self.draws is None else self.draws.existence

    @property
    def kind_shares(self) -> tuple[dict[Kind, float], ...] | None:
        """Probability of each kind given that the point exists, a dict for each point."""
        return None if self.draws is None else self.draws.kind_shares

    @property
    def index_check(self) -> IndexCheck:
        """Whether the indices of the zeros add up to the degree on the boundary."""
        return self.balance.check

    @property
    def is_root(self) -> np.ndarray:
        """Which points are zeros of the field rather than slow points, (n,) of bool."""
        return np.array([status is not PointStatus.MINIMUM for status in self.status], dtype=bool)

    def __len__(self) -> int:
        return len(self.x)

    def _rows(self) -> Table:
        drawn = ["exists"] if self.draws is not None else []
        columns = [*self.state_names, "kind", "eigenvalues", *drawn]
        rows = zip(
            self._positions(),
            self._kinds(),
            self._spectra(),
            *([] if self.existence is None else [self.existence]),
            self.residual,
            self.support,
            self.index,
            self.status,
            strict=True,
        )
        return [*columns, "residual", "support", "index", "status"], [[*x, *rest] for x, *rest in rows]

    def _positions(self) -> list:
        shown = np.where(np.abs(self.x) > 1e-12 * self.region.size, self.x, 0.0)
        if self.position_errors is None:
            return list(shown)
        pairs = zip(shown, self.position_errors, strict=True)
        return [[f"{v:.4g} ± {e:.2g}" for v, e in zip(*pair, strict=True)] for pair in pairs]

    def _kinds(self) -> list:
        if self.kind_shares is None:
            return list(self.kind)
        return [
            f"{kind} ({', '.join(f'{name} {share:.0%}' for name, share in shares.items())})"
            if set(shares) - {kind}
            else kind
            for kind, shares in zip(self.kind, self.kind_shares, strict=True)
        ]

    def _spectra(self) -> list:
        if self.eigenvalue_errors is None:
            return list(self.eigenvalues)
        pairs = zip(self.eigenvalues, self.eigenvalue_errors, strict=True)
        return [", ".join(f"{v:.4g} ± {_size(e):.2g}" for v, e in zip(*pair, strict=True)) for pair in pairs]

    def _headline(self) -> str:
        counts = {status: sum(status is s for s in self.status) for status in PointStatus}
        isolated = counts[PointStatus.ISOLATED] + counts[PointStatus.ON_EDGE]
        slow, shown = counts[PointStatus.MINIMUM], counts[PointStatus.NOT_ISOLATED]
        outside = int((self.support < SUPPORTED).sum())
        parts = [counted(isolated, "fixed point")]
        parts += [f"a continuum of zeros ({shown} shown)"] if shown else []
        parts += [counted(slow, "slow point")] if slow else []
        parts += [f"{outside} of all not backed by data"] if outside else []
        return f"{', '.join(parts)} in {self.region}"

    def _notes(self) -> list[str]:
        balance = self.balance
        text = f"index check {balance.check}"
        if balance.check is IndexCheck.NOT_RUN:
            text += f": {balance.reason}"
        else:
            text += f": indices add up to {balance.found}, {balance.boundary} on the boundary"
        if self.missed is not None:
            unmet = f"an estimated {self.missed:,.0f} more" if self.missed >= _MISSED else "no more"
            text += f"; {unmet} by how often each zero was met"
        if (
            self.conserved
            and PointStatus.NOT_ISOLATED in self.status
            and not any("=" in s for s in self.conserved)
        ):
            text += f"; level={{{self.conserved[0]!r}: ...}} finds those of one level"
        lost = [f"the field was not finite at {self.non_finite} of the seeds"] if self.non_finite else []
        missing = (
            "no errors: the field has no posterior of its own; draws=model.ensemble(64) takes them from "
            "fields that the model infers from resampled data or draws itself"
        )
        return [text, *lost, *([missing] if self.errors_missing else []), str(self.effort)]

    def _variables(self) -> Variables:
        point = ("fixed_point",)
        by_point = {name: getattr(self, name) for name in ("kind", "status", "residual", "support", "index")}
        return {
            "x": (("fixed_point", "state"), self.x),
            "eigenvalue": (("fixed_point", "mode"), self.eigenvalues),
            **self._errors(),
            **{name: (point, value) for name, value in by_point.items()},
            "index_check": ((), np.array(self.index_check.value)),
        }

    def _errors(self) -> Variables:
        if self.draws is None:
            return {}
        kinds = list(Kind)
        shares = [[share.get(kind, 0.0) for kind in kinds] for share in self.draws.kind_shares]
        return {
            "x_error": (("fixed_point", "state"), self.draws.position_errors),
            "eigenvalue_error": (("fixed_point", "mode"), self.draws.eigenvalue_errors),
            "existence": (("fixed_point",), self.draws.existence),
            "kind_name": (("kind_name",), np.array([str(kind) for kind in kinds])),
            "kind_probability": (("fixed_point", "kind_name"), np.array(shares).reshape(-1, len(kinds))),
        }


def fixed_points(
    field: FieldLike,
    region: RegionLike | None = None,
    *,
    n_seeds: int | None = None,
    budget: int = 200_000,
    slow: float = 0.05,
    seed: int = 0,
    draws: int | EnsembleField = 64,
    level: LevelLike | None = None,
    max_seconds: float | None = None,
) -> FixedPoints:
    """Find the fixed points of a field in a region.

    Damped Newton iterations run at once from scrambled Sobol points, observed states, and (in one to three
    dimensions) every small cell in which all components of the field may vanish. The zeros are merged and
    their topological indices compared with the degree of the field on the region's boundary; where the two
    differ, the parts of the region that contradict are searched again. A pair of zeros with opposite indices
    can be missed without a mismatch. From four dimensions on there is no check; there the search goes on,
    within its budget, until hardly a zero was met only once, and estimates how many were missed.

    Parameters
    ----------
    field : VectorField or fitted model
        What to analyse.
    region : Region, dict or pairs, optional
        Where to search; default the box of the field's data widened by 10 % on each side. Its boundary
        belongs to it.
    n_seeds : int, optional
        Number of Sobol points; default 64 per dimension, from four dimensions on 256.
    budget : int
        Largest number of points at which the field or its Jacobian is evaluated.
    slow : float
        Minima of |f| that are no zeros count as slow points up to this share of the field's speed; 0 for
        none.
    seed : int
        Of the Sobol points, and of the draws.
    draws : int or EnsembleField
        Number of fields drawn from the field's posterior, into which each point is followed for the errors
        of its position, its eigenvalues and its kind; 0 for none, and a field without a posterior has none.
        ``model.ensemble(64)`` makes fields of other models. What that takes is not in the budget.
    level : dict or array_like (d,), optional
        Where the field conserves linear sums of its states, the level set on which points are sought: totals
        such as ``{"S+I+R": 1}``, or a state on it; default that of the field's data. Without either, zeros
        form continua, of which a few are shown.
    max_seconds : float, optional
        Time on the clock after which the search ends with what it has; default no limit.

    Returns
    -------
    FixedPoints

    Raises
    ------
    TypeError, ValueError
        For something that has no field, a model that is not fitted, a region that does not fit, or none where
        the field has no data; for a level of sums that the field does not conserve.

    References
    ----------
    Golub and Sussillo, J. Open Source Softw. 3 (2018) 1003: slow points and zeros of learned fields.
    Strogatz, Nonlinear Dynamics and Chaos, section 6.8: index theory.
    A. Chao, Scand. J. Statist. 11 (1984) 265: the number of classes that a sample has missed.

    Examples
    --------
    >>> from fim_dynsys import CallableField
    >>> logistic = CallableField(lambda x: x * (1 - x), dim=1)
    >>> found = fixed_points(logistic, [(-0.5, 2.0)])
    >>> found.x.round(12).ravel().tolist(), [kind.value for kind in found.kind]
    ([0.0, 1.0], ['unstable node', 'stable node'])
    """
    field = unwrap(field, "fixed_points")
    region = resolve_region(field, region, "fixed_points")
    check_whole("fixed_points", 1, n_seeds=1 if n_seeds is None else n_seeds, budget=budget)
    check_whole("fixed_points", 0, seed=seed)
    check_number("fixed_points", "slow", slow, 0.0)
    drawn = draws if isinstance(draws, EnsembleField) else None
    if not isinstance(draws, EnsembleField):
        check_whole("fixed_points", 0, draws=draws)
    if not isinstance(draws, EnsembleField) and draws > 0:
        fields = field.draws(draws, seed)
        drawn = None if fields is None else EnsembleField(fields)
    if drawn is not None and drawn.dim != field.dim:
        raise ValueError(f"fixed_points: expected draws of dimension {field.dim}, got {drawn.dim}.")
    sums, on_level = level_set(field, region, level, "fixed_points")
    given, box = field, region
    if on_level is not None:
        field, box = on_level.field(given, region), on_level.region(region)
        along = None if drawn is None else on_level.draws(drawn)
        if along is None and isinstance(draws, EnsembleField):
            raise ValueError(
                f"fixed_points: expected draws that conserve {', '.join(sums.names)}, as the field does, got "
                "some that do not; pass draws=0, or those of a model with Knowledge(conserved=...)."
            )
        drawn = along
    search = _Search(field, box, budget, sums if on_level is None else None)
    missing = drawn is None and draws != 0 and given.context is not None
    with time_limit("fixed_points", max_seconds):
        search.run(n_seeds, seed)
        found = search.result(slow, drawn)
    result = replace(
        found, errors_missing=missing, conserved=sums.names, fit_problems=given.fit_info.problems
    )
    return result if on_level is None else _embedded(result, on_level, given, region)


def _embedded(found: FixedPoints, level: LevelSet, field: VectorField, region: Region) -> FixedPoints:
    """Points found in the coordinates of a level set as states, those in the region."""
    x = level.states(found.x)
    inside = np.flatnonzero(level.inside(x, region))
    names, units = state_labels(field)
    drawn = found.draws
    if drawn is not None:
        drawn = replace(
            drawn,
            x=level.states(drawn.x)[inside],
            eigenvalues=drawn.eigenvalues[inside],
            kind=drawn.kind[inside],
        )
    rows = ("eigenvalues", "kind", "status", "residual", "support", "index")
    return replace(
        found,
        x=x[inside],
        draws=drawn,
        region=region,
        state_names=names,
        units=units,
        conserved=level.text,
        **{name: getattr(found, name)[inside] for name in rows},
    )


class _Search:
    """The zeros and minima known so far, in a region and a little beyond it."""

    def __init__(self, field: VectorField, region: Region, budget: int, sums: ConservedSums | None) -> None:
        self.given = field
        # Zeros of a field with conserved sums form continua, one point of each on every level.
        self.conserving = sums is not None and len(sums) > 0
        self.scales = scales_within(field, region)
        self.field, self.region = with_steps(field, self.scales), region
        self.meter = Meter(self.field, budget)
        self.meter.points = sampled(field.dim)
        self.around = region.widened(_BEYOND)
        self.checker = Checker(self.meter, region, self.scales)
        self.seeds = self.iterations = self.non_finite = 0
        d = field.dim
        self.roots = Refined(np.empty((0, d)), np.empty(0), np.empty(0), np.empty(0), np.empty(0, dtype=int))
        self.stalled = self.roots
        self.index = np.empty(0)
        self.isolated = np.empty(0, dtype=bool)
        self.met: list[np.ndarray] = []
        self.missed: float | None = None

    def run(self, n_seeds: int | None, seed: int) -> None:
        self.refine(starting_points(self.meter, self.region, n_seeds, seed))
        if self.region.dim > _CHECKED and not self.conserving:
            self._until_met(seed)
        self.balance = self.checker.balance(self.roots.x, self.measure())
        for attempt in range(_ROUNDS):
            if self.balance.check is not IndexCheck.MISMATCH or self.meter.exhausted:
                break
            starts = self.checker.where_missed(self.balance.box, self.roots.x, self.index, seed + 1 + attempt)
            more = self.region.sobol(4 ** (attempt + 1) * 16, seed + 1 + attempt)
            self.refine(np.concatenate([starts, more]))
            self.balance = self.checker.balance(self.roots.x, self.measure())

    def _until_met(self, seed: int) -> None:
        """Start from as many points again until few zeros seem to be missed."""
        # Deflation finds one zero at a time, and among many known ones iterations are pushed away from all:
        # of 243 zeros in five dimensions it finds fewer with twice as many points.
        while True:
            self.missed = self._estimate()
            continuum = np.mean(self.roots.slope <= _SINGULAR) > _MOSTLY if len(self.roots.x) else False
            if self.missed < _MISSED or continuum or not self.meter.affords(self.seeds):
                return
            seed += 1
            self.refine(self.region.sobol(self.seeds, seed))

    def _estimate(self) -> float:
        """Chao's lower bound of the number of zeros in the region that no iteration ended at."""
        regular = (
            self.roots.slope > _SINGULAR
        )  # others may belong to a continuum, no point of which is met twice
        inside = self.roots.x[np.asarray(self.region.contains(self.roots.x), dtype=bool) & regular]
        ended = np.concatenate([*self.met, np.empty((0, self.region.dim))])
        if not len(inside):
            return 0.0
        tree = cKDTree(inside / self.scales.length)
        distance, which = tree.query(ended / self.scales.length, distance_upper_bound=_MET)
        met = np.bincount(which[np.isfinite(distance)], minlength=len(inside))
        once, twice = np.count_nonzero(met == 1), np.count_nonzero(met == 2)
        return once * (once - 1) / (2.0 * (twice + 1))

    def refine(self, starts: np.ndarray) -> None:
        """Add what is reached from more starting points."""
        self.seeds += len(starts)
        ended = refine(self.meter, starts, self.scales, self.around)
        self.non_finite += ended.non_finite
        self.iterations += ended.iterations
        self.met += [ended.x[ended.is_root]] if self.region.dim > _CHECKED else []
        self.roots = self._distinct(_joined(self.roots, ended[ended.is_root]))
        self.stalled = _joined(self.stalled, ended[~ended.is_root & self.region.contains(ended.x)])

    def _distinct(self, roots: Refined) -> Refined:
        """One of each group of zeros that lie within their own errors, that of least residual."""
        z = roots.x / self.scales.length
        kept: list[int] = []
        left = np.argsort(roots.residual, kind="stable")
        while len(left):
            i, left = int(left[0]), left[1:]
            if not self._continues(roots, z, i, kept):
                kept.append(i)
                gap = np.linalg.norm(z[left] - z[i], axis=1)
                steps = np.minimum(_LONGEST_STEP, roots.step[left] + roots.step[i])
                left = left[~(gap <= _MERGED + _STEPS_LEFT * steps)]
        return roots[np.array(kept, dtype=int)]

    def _continues(self, roots: Refined, z: np.ndarray, i: int, kept: Sequence[int]) -> bool:
        """Whether a zero of higher order is one with another such one, from which rounding has parted it."""
        if roots.slope[i] > _SINGULAR or not kept:
            return False
        gap = np.linalg.norm(z[kept] - z[i], axis=1)
        flat = (gap <= _PROBE / 2) & (roots.slope[kept] <= _SINGULAR)
        return self._vanishes_between(roots.x[i], roots.x[kept][flat])

    def _vanishes_between(self, x: np.ndarray, others: np.ndarray) -> bool:
        """Whether f is as good as zero halfway to another zero of higher order: then the two are one."""
        if not len(others) or not self.meter.affords(len(others)):
            return False
        residual = np.linalg.norm(self.meter.rhs((x + others) / 2) / self.scales.speed, axis=1)
        return bool((residual <= ROOT_RESIDUAL).any())

    def measure(self) -> np.ndarray:
        """Indices of the zeros; those that are not isolated have none."""
        x = self.roots.x
        self.index, self.isolated = np.full(len(x), np.nan), np.ones(len(x), dtype=bool)
        # Until it is known better, a zero at which the Jacobian is singular is one of many.
        self.isolated[self.roots.slope <= _SINGULAR] = False
        if not len(x) or not self.meter.affords(len(x)):
            return self.index
        jac = self.meter.jacobian(x) * (self.scales.length / self.scales.speed[:, None])
        self.index = np.linalg.slogdet(jac)[0]
        singular = np.flatnonzero(self.roots.slope <= _SINGULAR)
        if len(singular) and not self.conserving:
            self.isolated[singular] = self._are_isolated(x[singular], jac[singular])
        for i in singular:
            alone = self.isolated[i]
            self.index[i] = self.checker.local_index(x[i], np.delete(x, i, axis=0)) if alone else np.nan
        return self.index

    def _are_isolated(self, x: np.ndarray, jac: np.ndarray) -> np.ndarray:
        """Whether Newton's method returns to each zero from both sides along its direction of least slope."""
        flat = np.linalg.svd(jac)[2][:, -1] * self.scales.length
        starts = np.concatenate([x + _PROBE * flat, x - _PROBE * flat])
        back = refine(self.meter, starts, self.scales, self.around)
        came_from = back.origin % len(x)
        moved = np.linalg.norm((back.x - x[came_from]) / self.scales.length, axis=1)
        alone = np.ones(len(x), dtype=bool)
        alone[came_from[back.is_root & (moved > _PROBE / 2)]] = False
        return alone

    def slow_points(self, slow: float) -> tuple[np.ndarray, np.ndarray]:
        """Strict minima of |f| in the region, up to `slow`, and |f| there."""
        starts = self.stalled[self.stalled.residual <= 2.0 * slow]
        starts = starts.x[self._apart(starts.x, starts.residual, _PROBE)][:_MOST_MINIMA]
        x = minima(self.meter, starts, self.scales)
        x = x[self.region.contains(x)]
        x = x[: max(0, self.meter.budget - self.meter.points)]
        residual = np.linalg.norm(self.meter.rhs(x) / self.scales.speed, axis=1)
        x, residual = x[residual <= slow], residual[residual <= slow]
        x, residual = (values[self._apart(x, residual, _PROBE / 10)] for values in (x, residual))
        gaps = np.linalg.norm((x[:, None] - self.roots.x) / self.scales.length, axis=2)
        genuine = gaps.min(axis=1, initial=np.inf) > _PROBE
        return x[genuine], residual[genuine]

    def _apart(self, x: np.ndarray, residual: np.ndarray, distance: float) -> np.ndarray:
        """Indices of points, by rising residual, that keep a distance in lengths."""
        kept = np.empty(0, dtype=int)
        z = x / self.scales.length
        for i in np.argsort(residual, kind="stable"):
            if not (np.linalg.norm(z[kept] - z[i], axis=1) <= distance).any():
                kept = np.append(kept, i)
        return kept

    def result(self, slow: float, draws: EnsembleField | None) -> FixedPoints:
        roots, how = self._inside()
        still, speed = self.slow_points(slow)
        x = np.concatenate([self.roots.x[roots], still])
        residual = np.concatenate([self.roots.residual[roots], speed])
        status = np.array([*how, *[PointStatus.MINIMUM] * len(still)], dtype=object)
        index = np.concatenate([self.index[roots], np.full(len(still), np.nan)])
        support = self.given.support(x)
        minimum = np.array([s is PointStatus.MINIMUM for s in status], dtype=bool)
        order = np.lexsort((*(x / self.scales.length).round(6).T[::-1], support < SUPPORTED, minimum))
        x, residual, status, index = x[order], residual[order], status[order], index[order]
        jac = self.field.jacobian(x)
        values, _, _ = eigen(jac, self.scales.length)
        singular = np.concatenate([self.roots.slope[roots] <= _SINGULAR, np.zeros(len(still), dtype=bool)])
        kind = classify(values, singular[order], 1.0 / self.scales.time)
        # Where rounding decides the sign of an eigenvalue, an index would contradict the kind.
        largest = np.maximum(np.abs(values).max(axis=1, initial=0.0), np.finfo(float).tiny)
        contrary = np.sign(np.prod(values / largest[:, None], axis=1).real) == -index
        index[contrary & (np.abs(index) == 1) & ~singular[order]] = np.nan
        drawn = None if draws is None else follow_into(draws, x, values, self.scales, self.region)
        if drawn is not None:
            drawn = drawn.without([s is PointStatus.NOT_ISOLATED for s in status])
            kind[drawn.undecided(values)] = Kind.INDETERMINATE
        kind[minimum[order]] = Kind.SLOW
        return FixedPoints(
            x=x,
            eigenvalues=values,
            kind=kind,
            status=status,
            residual=residual,
            support=support[order],
            index=index,
            balance=self.balance,
            region=self.region,
            non_finite=self.non_finite,
            missed=self.missed,
            draws=drawn,
            effort=Effort(
                self.seeds, self.iterations, self.meter.points, self.meter.budget, self.meter.exhausted
            ),
            state_names=tuple(self.given.state_names),
            units=state_labels(self.given)[1],
        )

    def _inside(self) -> tuple[np.ndarray, list[PointStatus]]:
        """Which zeros lie in the closed region, a few of each continuum, and their statuses."""
        unit = (self.roots.x - self.region.low) / self.region.size
        outside = np.maximum(-unit, unit - 1.0).max(axis=1, initial=-np.inf)
        inside = np.flatnonzero(outside <= _ROUNDING)
        isolated = inside[self.isolated[inside]]
        many = inside[~self.isolated[inside]]
        spread = many[_spaced(unit[many])]
        on_edge = np.abs(outside[isolated]) <= _EDGE
        status = [PointStatus.ON_EDGE if edge else PointStatus.ISOLATED for edge in on_edge]
        return np.concatenate([isolated, spread]), status + [PointStatus.NOT_ISOLATED] * len(spread)


def _size(error: complex) -> float:
    """One error for a complex number: the larger of those of its parts."""
    return max(error.real, error.imag)


def _joined(a: Refined, b: Refined) -> Refined:
    both = ((name, getattr(a, name), getattr(b, name)) for name in REFINED_ROWS)
    rows: dict[str, Any] = {name: np.concatenate(pair) for name, *pair in both}
    return Refined(**rows, iterations=max(a.iterations, b.iterations))


def _spaced(unit: np.ndarray) -> np.ndarray:
    """Indices of a few points of the unit cube that keep their distance, in order of their coordinates."""
    kept: list[int] = []
    for i in np.lexsort(unit.T):
        if len(kept) < _MOST_REPRESENTATIVES and all(
            np.abs(unit[i] - unit[k]).max() > _SPACING for k in kept
        ):
            kept.append(i)
    return np.array(kept, dtype=int)
