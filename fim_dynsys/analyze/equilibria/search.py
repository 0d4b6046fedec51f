"""The search for zeros: refined from many starts, merged, their indices measured and balanced."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from fim_dynsys.analyze.conserved import ConservedSums, sampled
from fim_dynsys.analyze.equilibria.balance import NO_DEGREE, Balance, Checker, IndexCheck
from fim_dynsys.analyze.equilibria.domain import zeros_on_faces
from fim_dynsys.analyze.equilibria.drawn import follow_into
from fim_dynsys.analyze.equilibria.kinds import Kind, classify, eigen
from fim_dynsys.analyze.equilibria.newton import (
    REFINED_ROWS,
    ROOT_RESIDUAL,
    Meter,
    Refined,
    full_steps,
    minima,
    refine,
)
from fim_dynsys.analyze.equilibria.result import MISSED, FixedPoints, PointStatus
from fim_dynsys.analyze.equilibria.seeding import even_points, starting_points
from fim_dynsys.analyze.jumps import described, discontinuities_within
from fim_dynsys.analyze.results import (
    SUPPORTED,
    Effort,
    has_exact_jacobian,
    state_labels,
    with_steps,
)
from fim_dynsys.analyze.settled import Settled
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.frame import Scales
from fim_dynsys.regions import Region

# Iterates may go this far beyond the region, as a share of its size; zeros there serve the index check.
_BEYOND = 0.1
_ROUNDING = 1e-8  # a zero is known to about this share of the region where it is of second order: sqrt(eps)
_EDGE = 1e-6  # a zero so near the boundary may be on either side of it: a hundred times that share
# Zeros of second order end as far apart as they are known, 1e-8 of a length; simple ones at 1e-15. Of higher
# order the step still to go tells how far: it shrinks by a constant factor a round, (1 - 1/p) for order p, so
# that up to ten such steps remain for p <= 10, and never more than a hundredth of a length.
_MERGED = 1e-6  # of a length
_STEPS_LEFT, _LONGEST_STEP = 10.0, 1e-3  # steps, and a length's share that one of them counts at most
# Where the Jacobian is so nearly singular, the index is not the sign of its determinant but measured.
_SINGULAR = 1e-6
# Along a direction without slope, an isolated zero attracts from this distance, one among many does not.
_PROBE = 1e-2
# A continuum of zeros is shown, not sampled: a few points that a table holds, well apart in the region.
_SPACING = 0.1
_MOST_REPRESENTATIVES = 16  # zeros that stand for a continuum
_MOST_IN_VALLEY = 64  # starts that go on by full steps: 4,096 of the budget
_MOST_MINIMA = 64  # polishing costs some 8 (4 d + 2) points each: in the plane 5,000 of the budget in all
CHECKED = 3
"""Dimensions up to which indices tell what was missed; beyond, only how often zeros were met."""
_MET = 1e-4  # lengths within which iterations have ended at the same zero
_BEYOND_EDGE = 1e-6  # lengths from a zero within which a field that is undefined there has its edge at it
_FINER_FROM_EDGE = 1e-8 / 256  # step of the second of two one-sided differences, in lengths
_DIVERGES = 1.05  # ratio of one-sided derivatives at steps of ratio 256 from which they are infinite: log h
_FALLS = 4.0  # likewise from which they are 0: h^0.25
_ONE_SIDED = 1e-6  # lengths, of one-sided differences: curvature and rounding leave 1e-6 and 1e-10 of a slope
_KINK = 1e-2  # of the largest slope, by which it changes at a kink
_SINGULAR_BESIDE = 1e-5  # of the largest slope: one that curvature may leave of a singular direction
_ALONG = 1e-3  # lengths, along which a continuum is looked for
_WORTH_A_LOOK = 20_000  # field evaluations spent in vain, after which jumps are looked for
_ACROSS, _JUMPS = 1e-9, 1e-3  # lengths across a zero, and the change of the field in speeds that is a jump
_ON_THE_LINE, _BISECTIONS = 1025, 60  # places at which the sign is looked at; halvings between two of them
_CONTINUOUS = 1e-3  # speeds next to a change of sign: more are those of a jump or a pole
# Of the Jacobian's norm, to which eigenvalues are known: from differences, and from derivatives.
_KNOWN_TO, _EXACTLY_KNOWN_TO = 1e-9, 1e-13
_RETURNS = 1e-3  # of the distance at which zeros are merged, from which iterations come back to a simple one
_NEWTON_STEPS = 6  # leave a 64th of the distance to a double zero, and nothing to a simple one
_MOSTLY = 0.5  # share of the zeros with a singular Jacobian at which they are taken to form a continuum
_SEED_ROUNDS = 4  # each with four times the starts of the one before, 64 to 4,096


class Search:
    """The zeros and minima known so far, in a region and a little beyond it."""

    def __init__(
        self,
        field: VectorField,
        region: Region,
        budget: int,
        sums: ConservedSums | None,
        scales: Scales,
    ) -> None:
        self.given = field
        # Zeros of a field with conserved sums form continua, one point of each on every level.
        self.conserving = sums is not None and len(sums) > 0
        self.scales = scales
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
        self.isolated = self.at_domain_edge = self.on_jump = self.ends_continuum = np.empty(0, dtype=bool)
        self.balance = Balance(IndexCheck.NOT_RUN, None, None, region, "nothing was searched")
        self.met: list[np.ndarray] = []
        self.missed: float | None = None

    @property
    def confirmed(self) -> bool:
        """Whether the indices of the zeros found agree with the boundary."""
        return self.balance.check is IndexCheck.BALANCED

    def run(self, n_seeds: int | None, seed: int) -> None:
        self.refine(starting_points(self.meter, self.region, n_seeds, seed))
        if self.meter.undefined:
            self._add_edges(seed)
        if not self.conserving:
            self._until_met(seed)
        if self.region.dim == 1:
            self._add_crossings()
        self.balance = self.checker.balance(self.roots.x, self.measure())
        for attempt in range(_SEED_ROUNDS):
            if self.balance.check is not IndexCheck.MISMATCH or self.meter.exhausted:
                break
            starts = self.checker.where_missed(self.balance.box, self.roots.x, self.index, seed + 1 + attempt)
            more = self.region.sobol(4 ** (attempt + 1) * 16, seed + 1 + attempt)
            self.refine(np.concatenate([starts, more]))
            self.balance = self.checker.balance(self.roots.x, self.measure())
        if self.missed is not None and not self.isolated.all():
            self.missed = self._estimate()  # without those that turned out to belong to a continuum
        vague = self.balance.check is IndexCheck.MISMATCH or self.balance.reason == NO_DEGREE
        # Newton's method on the steps of a staircase uses the budget up; to see them costs a tenth or less.
        in_vain = self.meter.exhausted and not len(self.roots.x) and self.meter.budget >= _WORTH_A_LOOK
        if vague or self.on_jump.any() or in_vain:
            self._name_discontinuities(seed)

    def _name_discontinuities(self, seed: int) -> None:
        """Say where the field jumps or has a pole, which indices know nothing of."""
        found = discontinuities_within(self.meter.rhs, self.region, self.scales.speed, seed)
        if found:
            where = described(found, self.given.state_names, self.region.size)
            reason = f"indices need a continuous field, and {where}"
            self.balance = replace(self.balance, reason=reason)

    def _add_edges(self, seed: int) -> None:
        """Add zeros on the faces beyond which the field is undefined: Newton's method is blind to many."""
        x = zeros_on_faces(self.meter, self.region, self.scales, seed)
        if not len(x) or not self.meter.affords(len(x)):
            return
        by_scale = self.scales.length / self.scales.speed[:, None]
        jac = self.meter.jacobian_beside(x, self.scales.length) * by_scale
        jac = np.where(np.isfinite(jac), jac, 0.0)
        singular = np.linalg.svd(jac, compute_uv=False)
        residual = np.linalg.norm(self.meter.rhs(x) / self.scales.speed, axis=1)
        slope = singular[:, -1] / np.maximum(1.0, singular[:, 0])
        found = Refined(x, residual, np.zeros(len(x)), slope, np.zeros(len(x), dtype=int))
        self.roots = self._distinct(_joined(found, self.roots))

    def _add_crossings(self) -> None:
        """Add zeros on the line that Newton's method does not reach, such as those with vertical tangents.

        They lie where the field changes its sign, and are found by bisection; jumps and poles are left out.
        """
        if not self.meter.affords(2 * _ON_THE_LINE):
            return
        x = np.linspace(self.region.low, self.region.high, _ON_THE_LINE)
        f = self.meter.rhs(x)[:, 0]
        known = np.sort(self.roots.x[:, 0])
        has_zero = np.searchsorted(known, x[1:, 0], "right") > np.searchsorted(known, x[:-1, 0], "left")
        k = np.flatnonzero((f[:-1] * f[1:] < 0) & ~has_zero)
        low, high, sign = x[k], x[k + 1], np.sign(f[k])
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2.0
            before = np.sign(self.meter.rhs(middle)[:, 0]) == sign
            low, high = np.where(before[:, None], middle, low), np.where(before[:, None], high, middle)
        ends = np.abs([self.meter.rhs(low)[:, 0], self.meter.rhs(high)[:, 0]]) / self.scales.speed[0]
        vanishes = ends.max(axis=0) < _CONTINUOUS
        place = np.where((ends[0] <= ends[1])[:, None], low, high)[vanishes]
        residual = ends.min(axis=0)[vanishes]
        still = (f[1:-1] == 0) & (f[:-2] * f[2:] < 0) & ~has_zero[:-1] & ~has_zero[1:]
        place, residual = np.concatenate([place, x[1:-1][still]]), np.append(residual, np.zeros(still.sum()))
        n = len(place)
        found = Refined(place, residual, np.zeros(n), np.ones(n), np.zeros(n, dtype=int))
        self.roots = self._distinct(_joined(found, self.roots))

    def _until_met(self, seed: int) -> None:
        """Start from as many points again until few zeros seem to be missed."""
        # Deflation finds one zero at a time, and among many known ones iterations are pushed away from all:
        # of 243 zeros in five dimensions it finds fewer with twice as many points.
        while True:
            self.missed = self._estimate()
            continuum = np.mean(self.roots.slope <= _SINGULAR) > _MOSTLY if len(self.roots.x) else False
            if self.missed < MISSED or continuum or not self.meter.affords(self.seeds):
                break
            seed += 1
            self.refine(even_points(self.meter, self.region, self.seeds, seed))
        if self.region.dim <= CHECKED and self.missed < MISSED:
            self.missed = None  # the indices say more

    def _estimate(self) -> float:
        """Chao's lower bound of the number of zeros in the region that no iteration ended at."""
        regular = self.roots.slope > _SINGULAR  # others may be of a continuum, no point of which is met twice
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
        self.met.append(ended.x[ended.is_root])
        valley = ended.x[ended.in_valley][:_MOST_IN_VALLEY]
        beyond = full_steps(self.meter, valley, self.around, self.scales)
        found = refine(self.meter, beyond, self.scales, self.around)
        found = _joined(ended[ended.is_root], found[found.is_root])
        self.roots = self._distinct(_joined(self.roots, found))
        self.stalled = _joined(self.stalled, ended[~ended.is_root & self.region.contains(ended.x)])

    def _distinct(self, roots: Refined) -> Refined:
        """One of each group of zeros that lie within their own errors, that of least residual."""
        z = roots.x / self.scales.length
        kept: list[int] = []
        remaining = np.argsort(roots.residual, kind="stable")
        while len(remaining):
            i, remaining = int(remaining[0]), remaining[1:]
            if not self._continues(roots, z, i, kept):
                kept.append(i)
                gap = np.linalg.norm(z[remaining] - z[i], axis=1)
                steps = np.minimum(_LONGEST_STEP, roots.step[remaining] + roots.step[i])
                remaining = remaining[~(gap <= _MERGED + _STEPS_LEFT * steps)]
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
        self.at_domain_edge = self.on_jump = np.zeros(len(x), dtype=bool)
        self.ends_continuum = np.zeros(len(x), dtype=bool)
        # Until it is known better, a zero at which the Jacobian is singular is one of many.
        self.isolated[self.roots.slope <= _SINGULAR] = False
        if not len(x) or not self.meter.affords(len(x)):
            return self.index
        by_scale = self.scales.length / self.scales.speed[:, None]
        self.meter.points += len(x)
        settled = Settled.of(self.field, x, self.scales.length)
        jac = settled.jac * by_scale
        self._slope_again(jac, settled)
        self.at_domain_edge = self._beyond_is_undefined(x)
        if self.at_domain_edge.any():
            beside = self.meter.jacobian_beside(x[self.at_domain_edge], self.scales.length)
            jac[self.at_domain_edge] = beside * by_scale
            jac[~np.isfinite(jac).all(axis=(1, 2))] = 0.0
        self.index = np.linalg.slogdet(jac)[0]
        self.index[self.at_domain_edge] = np.nan
        self.on_jump = self._jumps_at(x)
        self.index[self.on_jump] = np.nan
        for i in np.flatnonzero(self._at_kinks(x) & self.isolated):
            if self._ends_continuum(x[i]):
                self.isolated[i], self.ends_continuum[i], self.index[i] = False, True, np.nan
                self.roots.slope[i] = 0.0  # that of one side
        self.checker.undefined = bool(self.at_domain_edge.any())
        singular = np.flatnonzero(self.roots.slope <= _SINGULAR)
        if len(singular) and not self.conserving:
            simple = self._are_simple(x[singular], jac[singular] / by_scale)
            self.isolated[singular[simple]] = True  # with the sign of the determinant as index
            singular = singular[~simple]
        if len(singular) and not self.conserving:
            self.isolated[singular] = self._are_isolated(x[singular], jac[singular])
        for i in singular:
            alone = self.isolated[i]
            self.index[i] = self.checker.local_index(x[i], np.delete(x, i, axis=0)) if alone else np.nan
        return self.index

    def _slope_again(self, jac: np.ndarray, settled: Settled) -> None:
        """Correct the slopes of zeros at which the usual steps of differences are too long."""
        rows = np.flatnonzero(settled.refined & settled.settled)
        if len(rows):
            singular = np.linalg.svd(jac[rows], compute_uv=False)
            slope = self.roots.slope.copy()
            slope[rows] = singular[:, -1] / np.maximum(1.0, singular[:, 0])
            self.roots = replace(self.roots, slope=slope)
            self.isolated[rows] = slope[rows] > _SINGULAR

    def _beyond_is_undefined(self, x: np.ndarray) -> np.ndarray:
        """Which zeros lie at the edge of the field's domain, (n,) of bool."""
        n, d = x.shape
        if not self.meter.undefined or not self.meter.affords(2 * n * d):
            return np.zeros(n, dtype=bool)
        steps = _BEYOND_EDGE * self.scales.length * np.concatenate([np.eye(d), -np.eye(d)])
        f = self.meter.rhs((x[:, None] + steps).reshape(-1, d)).reshape(n, -1)
        return np.isnan(f).any(axis=1)

    def _jumps_at(self, x: np.ndarray) -> np.ndarray:
        """Which of the zeros are those of one side of a jump, (n,) of bool."""
        d, jumps = x.shape[1], np.zeros(len(x), dtype=bool)
        rows = np.flatnonzero(~self.at_domain_edge)
        if len(rows) and self.meter.affords(2 * d * len(rows)):
            steps = _ACROSS * self.scales.length * np.concatenate([np.eye(d), -np.eye(d)])
            f = self.meter.rhs((x[rows, None] + steps).reshape(-1, d)) / self.scales.speed
            jumps[rows] = np.abs(f).reshape(len(rows), -1).max(axis=1) > _JUMPS
        return jumps

    def _at_kinks(self, x: np.ndarray) -> np.ndarray:
        """Which of the zeros (n, d) have other slopes to one side than to the other, (n,) of bool."""
        n, d = x.shape
        kinks, rows = np.zeros(n, dtype=bool), np.flatnonzero(~self.at_domain_edge & ~self.on_jump)
        if len(rows) and self.meter.affords(2 * d * len(rows)):
            ahead, behind = self._beside(x[rows])
            largest = np.maximum(np.abs(ahead), np.abs(behind)).max(axis=(1, 2))
            kinks[rows] = np.abs(ahead + behind).max(axis=(1, 2)) > _KINK * largest
        return kinks

    def _beside(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The field a little ahead of and behind zeros (n, d) along each axis, in speeds, (n, axis, d)."""
        n, d = x.shape
        steps = _ONE_SIDED * self.scales.length * np.concatenate([np.eye(d), -np.eye(d)])
        f = self.meter.rhs((x[:, None] + steps).reshape(-1, d)) / self.scales.speed
        f = f.reshape(n, 2 * d, d)
        return f[:, :d], f[:, d:]

    def _ends_continuum(self, x: np.ndarray) -> bool:
        """Whether a zero (d,) at a kink is the end of a continuum, as of a dead zone.

        In one of the orthants round it the Jacobian, of one-sided differences, is singular then, and the
        field vanishes along its null vector.
        """
        d = len(x)
        if not self.meter.affords(2 * d + 2 ** (d + 1)):
            return False
        ahead, behind = (part[0] / _ONE_SIDED for part in self._beside(x[None]))
        largest = max(np.abs(ahead).max(), np.abs(behind).max())
        for signs in product((1.0, -1.0), repeat=d):
            jac = np.where(np.array(signs)[:, None] > 0, ahead, -behind).T
            _, sizes, vectors = np.linalg.svd(jac)
            if sizes[-1] > _SINGULAR_BESIDE * largest:
                continue
            moves = _ALONG * self.scales.length * vectors[-1]
            residual = np.abs(self.meter.rhs(x + np.stack([moves, -moves])) / self.scales.speed).max(axis=1)
            if (residual <= _SINGULAR_BESIDE * _ALONG * largest).any():
                return True
        return False

    def _are_isolated(self, x: np.ndarray, jac: np.ndarray) -> np.ndarray:
        """Whether Newton's method returns to each zero from both sides along its direction of least slope."""
        came_from, moved, is_root = self._from_both_sides(x, jac, _PROBE)
        alone = np.ones(len(x), dtype=bool)
        alone[came_from[is_root & (moved > _PROBE / 2)]] = False
        return alone

    def _from_both_sides(
        self, x: np.ndarray, jac: np.ndarray, distance: float, rounds: int = 60
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where Newton's method ends that starts a distance from zeros along their directions of least slope.

        Of each start the zero's number, how far from it the end is, in lengths, and whether that is a zero.
        """
        flat = np.linalg.svd(jac)[2][:, -1] * self.scales.length
        starts = np.concatenate([x + distance * flat, x - distance * flat])
        back = refine(self.meter, starts, self.scales, self.around, rounds)
        came_from = back.origin % len(x)
        moved = np.linalg.norm((back.x - x[came_from]) / self.scales.length, axis=1)
        return came_from, moved, back.is_root

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

    def _are_simple(self, x: np.ndarray, jac: np.ndarray) -> np.ndarray:
        """Whether zeros (n, d) are alone within the distance of merged ones, and their eigenvalues known.

        In scales of a wide region, or beside fast directions, an eigenvalue may be small and yet not zero.
        """
        known = np.isfinite(jac).all(axis=(1, 2))
        values = eigen(jac[known], self.scales.length)[0]
        known_to = _EXACTLY_KNOWN_TO if has_exact_jacobian(self.given) else _KNOWN_TO
        known[known] = np.abs(values).min(axis=1) > known_to * np.linalg.norm(jac[known], axis=(1, 2))
        simple, rows = np.zeros(len(x), dtype=bool), np.flatnonzero(known)
        if len(rows):
            scaled = jac[rows] * (self.scales.length / self.scales.speed[:, None])
            came_from, moved, _ = self._from_both_sides(x[rows], scaled, _MERGED, _NEWTON_STEPS)
            returned = came_from[moved <= _RETURNS * _MERGED]
            simple[rows] = np.bincount(returned, minlength=len(rows)) == 2
        return simple

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
        settled = Settled.of(self.field, x, self.scales.length)
        jac = settled.jac
        edge = np.concatenate([self.at_domain_edge[roots], np.zeros(len(still), dtype=bool)])[order]
        values = self._spectra(x, jac, edge)
        singular = np.concatenate([self.roots.slope[roots] <= _SINGULAR, np.zeros(len(still), dtype=bool)])
        vanishing = singular[order] | (edge & (values == 0).any(axis=1))
        vanishing[vanishing] = ~self._are_simple(x[vanishing], jac[vanishing])
        kind = classify(values, vanishing, 1.0 / self.scales.time)
        kind[self._undetermined(settled, vanishing, edge) | np.isnan(values).any(axis=1)] = Kind.INDETERMINATE
        jump = np.array([s is PointStatus.ON_JUMP for s in status], dtype=bool)
        values[jump], kind[jump] = np.nan, Kind.DEGENERATE
        ends = np.concatenate([self.ends_continuum[roots], np.zeros(len(still), dtype=bool)])[order]
        values[ends], kind[ends] = np.nan, Kind.DEGENERATE  # other ones to each side
        # Where rounding decides the sign of an eigenvalue, an index would contradict the kind.
        largest = np.maximum(np.abs(values).max(axis=1, initial=0.0), np.finfo(float).tiny)
        with np.errstate(invalid="ignore"):  # infinite ones have no index
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
                self.seeds,
                self.iterations,
                self.meter.points,
                self.meter.budget,
                self.meter.exhausted or self.meter.points > self.meter.budget,
            ),
            state_names=tuple(self.given.state_names),
            units=state_labels(self.given)[1],
        )

    def _undetermined(self, settled: Settled, vanishing: np.ndarray, edge: np.ndarray) -> np.ndarray:
        """Whether the kind of a point depends on the steps of differences, which do not settle, (n,)."""
        open_to = ~settled.settled & ~edge
        open_to &= np.isfinite([settled.longer, settled.jac, settled.shorter]).all(axis=(0, 2, 3))
        rows = np.flatnonzero(open_to)
        kinds = [
            classify(eigen(jac[rows], self.scales.length)[0], vanishing[rows], 1.0 / self.scales.time)
            for jac in (settled.longer, settled.jac, settled.shorter)
        ]
        open_to[rows] = (kinds[0] != kinds[1]) | (kinds[1] != kinds[2])
        return open_to

    def _spectra(self, x: np.ndarray, jac: np.ndarray, edge: np.ndarray) -> np.ndarray:
        """Eigenvalues (n, d); at the domain's edge of one-sided derivatives, infinite where these grow.

        NaN elsewhere without a Jacobian, as beside a root or a logarithm that steps of differences leave.
        """
        known = edge | np.isfinite(jac).all(axis=(1, 2))
        if not edge.any():
            values = np.full(jac.shape[:2], np.nan, dtype=complex)
            values[known] = eigen(jac[known], self.scales.length)[0]
            return values
        fine = self.meter.jacobian_beside(x[edge], self.scales.length)
        finer = self.meter.jacobian_beside(x[edge], self.scales.length, _FINER_FROM_EDGE)
        jac = np.where(known[:, None, None], jac, 0.0)
        jac[edge] = np.where(np.isfinite(finer), finer, 0.0)
        values = eigen(jac, self.scales.length)[0]
        before = eigen(np.where(np.isfinite(fine), fine, 0.0), self.scales.length)[0]
        grown = np.abs(values[edge]) > _DIVERGES * np.abs(before)
        values[edge] = np.where(grown, np.sign(values[edge].real) * np.inf + 0j, values[edge])
        fallen = _FALLS * np.abs(values[edge]) < np.abs(before)  # as those of x^1.5, which are 0 there
        values[edge] = np.where(fallen, 0.0, values[edge])
        values[~known] = np.nan
        return values

    def _inside(self) -> tuple[np.ndarray, list[PointStatus]]:
        """Which zeros lie in the closed region, a few of each continuum, and their statuses."""
        unit = (self.roots.x - self.region.low) / self.region.size
        outside = np.maximum(-unit, unit - 1.0).max(axis=1, initial=-np.inf)
        inside = np.flatnonzero(outside <= _ROUNDING)
        isolated = inside[self.isolated[inside]]
        many = inside[~self.isolated[inside]]
        spread = many[_spaced(unit[many])]
        on_edge = np.abs(outside[isolated]) <= _EDGE
        texts = np.where(on_edge, PointStatus.ON_EDGE, PointStatus.ISOLATED).astype(object)
        texts[self.at_domain_edge[isolated]] = PointStatus.DOMAIN_EDGE
        texts[self.on_jump[isolated]] = PointStatus.ON_JUMP
        status = [PointStatus(text) for text in texts]
        return np.concatenate([isolated, spread]), status + [PointStatus.NOT_ISOLATED] * len(spread)


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
