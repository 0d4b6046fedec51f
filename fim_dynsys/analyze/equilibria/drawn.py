"""Where the fixed points of a field lie in fields drawn from its posterior, and what they are there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from fim_dynsys.analyze.equilibria.kinds import Kind, classify, eigen
from fim_dynsys.analyze.equilibria.newton import ROOT_RESIDUAL
from fim_dynsys.fields.base import StackedRates, VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.frame import Scales
from fim_dynsys.regions import Region

_NEWTON_STEPS = 24  # Newton's method takes five to ten; some draws are far from the mean
_LONGEST_STEP = 0.5  # lengths
_SHORTEST_STEP = 1e-4  # share of Newton's: where less does not lower |f| either, a minimum of it is near
_SETTLED = 1e-6  # lengths: the next step would be its square
# Further from where it lies in the field itself, as a share of the region's size, a zero is another one.
_FARTHEST = 0.5
# Share of the draws that must agree on the number of unstable directions: two standard errors.
_AGREED = 0.95
_FEWEST = 2  # draws for a standard deviation


@dataclass(frozen=True, eq=False)
class DrawnPoints:
    """Fixed points followed into m drawn fields.

    Attributes
    ----------
    x : ndarray (n, m, d)
        Position in each draw; NaN where the draw has no such point.
    eigenvalues : ndarray (n, m, d) of complex
        In the order of the point's own ones; NaN likewise.
    kind : ndarray (n, m) of Kind
        None likewise.
    weights : ndarray (m,)
        Of the draws, with sum 1.
    points : int
        Points at which drawn fields were evaluated.
    """

    x: np.ndarray
    eigenvalues: np.ndarray
    kind: np.ndarray
    weights: np.ndarray
    points: int

    @property
    def existence(self) -> np.ndarray:
        """Share of the draws in which each point exists, (n,)."""
        return self._present.astype(float) @ self.weights

    @property
    def position_errors(self) -> np.ndarray:
        """Standard deviations of the positions over the draws, (n, d); NaN where fewer than two have it."""
        return self._deviation(self.x)

    @property
    def eigenvalue_errors(self) -> np.ndarray:
        """Those of real and imaginary parts, as real and imaginary parts, (n, d)."""
        return self._deviation(self.eigenvalues.real) + 1j * self._deviation(self.eigenvalues.imag)

    @property
    def kind_shares(self) -> tuple[dict[Kind, float], ...]:
        """Probability of each kind, given that the point exists, the most probable first; one dict each."""
        found = []
        for kinds in self.kind:
            shares: dict[Kind, float] = {}
            for kind, weight in zip(kinds, self.weights, strict=True):
                if kind is not None:
                    shares[kind] = shares.get(kind, 0.0) + float(weight)
            total = sum(shares.values())
            ordered = sorted(shares.items(), key=lambda item: -item[1])
            found.append({kind: share / total for kind, share in ordered})
        return tuple(found)

    def margins(
        self, x: np.ndarray, eigenvalues: np.ndarray, level: float = 0.9
    ) -> tuple[np.ndarray, np.ndarray]:
        """Half widths of intervals round the field's own points that hold the truth with a probability.

        Parameters
        ----------
        x : ndarray (n, d)
            Positions in the field itself.
        eigenvalues : ndarray (n, d) of complex
            Eigenvalues there.
        level : float
            The probability.

        Returns
        -------
        positions : ndarray (n, d)
            Of x; NaN where fewer than two draws have the point.
        eigenvalues : ndarray (n, d) of complex
            Of real and imaginary parts, as real and imaginary parts.
        """
        off, turned = self.x - x[:, None], self.eigenvalues - eigenvalues[:, None]
        real, imaginary = self._quantile(turned.real, level), self._quantile(turned.imag, level)
        return self._quantile(off, level), real + 1j * imaginary

    def undecided(self, eigenvalues: np.ndarray) -> np.ndarray:
        """Whether too few draws have as many unstable directions as the field itself, (n,) of bool."""
        same = (self.eigenvalues.real > 0).sum(axis=2) == (eigenvalues.real > 0).sum(axis=1)[:, None]
        varies = self._deviation(self.eigenvalues.real).max(axis=1, initial=0.0) > 0
        exists = self.existence
        return varies & ((same & self._present) @ self.weights < _AGREED * exists)

    @property
    def _present(self) -> np.ndarray:
        return np.isfinite(self.x).all(axis=2)

    def _deviation(self, values: np.ndarray) -> np.ndarray:
        present = self._present
        weight = np.where(present, self.weights, 0.0)
        weight = (weight / np.maximum(weight.sum(axis=1, keepdims=True), np.finfo(float).tiny))[:, :, None]
        known = np.where(present[:, :, None], values, 0.0)
        mean = (weight * known).sum(axis=1, keepdims=True)
        variance = (weight * (known - mean) ** 2).sum(axis=1)
        return np.where(present.sum(axis=1)[:, None] >= _FEWEST, np.sqrt(variance), np.nan)

    def _quantile(self, values: np.ndarray, level: float) -> np.ndarray:
        """Weighted quantile of the moduli over the draws, (n, d)."""
        size = np.where(np.isfinite(values), np.abs(values), np.inf)
        order = np.argsort(size, axis=1)
        weight = np.where(self._present, self.weights, 0.0)
        ranked = np.take_along_axis(np.broadcast_to(weight[:, :, None], size.shape), order, axis=1)
        total = np.cumsum(ranked, axis=1)
        place = np.argmax(total >= level * total[:, -1:], axis=1)
        found = np.take_along_axis(size, np.take_along_axis(order, place[:, None], axis=1), axis=1)[:, 0]
        return np.where(self._present.sum(axis=1)[:, None] >= _FEWEST, found, np.nan)

    def without(self, left_out: ArrayLike) -> "DrawnPoints":
        """The same, where some points (n,) of bool are in no draw: members of a continuum are not matched."""
        rows = np.asarray(left_out, dtype=bool)[:, None]
        return replace(
            self,
            x=np.where(rows[:, :, None], np.nan, self.x),
            eigenvalues=np.where(rows[:, :, None], np.nan, self.eigenvalues),
            kind=np.where(rows, np.array(None, dtype=object), self.kind),
        )


def follow_into(
    draws: EnsembleField, x: np.ndarray, eigenvalues: np.ndarray, scales: Scales, region: Region
) -> DrawnPoints:
    """Follow fixed points into each drawn field by damped Newton iterations, all at once.

    Two points that meet in a draw count as the nearer one, the other as gone.

    Parameters
    ----------
    draws : EnsembleField
        The fields.
    x : ndarray (n, d)
        Fixed points of the field that they were drawn round.
    eigenvalues : ndarray (n, d) of complex
        Theirs.
    scales : Scales
        Units of state and field.
    region : Region
        Where the fixed points were sought.

    Returns
    -------
    DrawnPoints
    """
    n, m, d = len(x), len(draws), x.shape[1]
    fields: Sequence[VectorField] = tuple(draws)
    kinds = {type(field) for field in fields}
    rates = (kinds.pop() if len(kinds) == 1 else VectorField).stack(fields)
    rows = _Rows(rates, np.tile(np.arange(m), n), scales)
    with np.errstate(all="ignore"):  # a step may lead where a draw overflows; it is not taken then
        ended, settled = _newton(rows, np.repeat(x, m, axis=0), scales)
        jac = rows.jacobian(ended)
    settled &= np.isfinite(jac).all(axis=(1, 2))
    settled &= (np.abs(ended - np.repeat(x, m, axis=0)) <= _FARTHEST * region.size).all(axis=1)
    there = ended.reshape(n, m, d)
    settled = _nearest_alone(there, settled.reshape(n, m), x, scales).ravel()
    position = np.full((n * m, d), np.nan)
    values = np.full((n * m, d), np.nan + 0j)
    kind = np.full(n * m, None, dtype=object)
    position[settled] = ended[settled]
    if settled.any():
        found, _, _ = eigen(jac[settled], scales.length)
        slopes = np.linalg.svd(jac[settled] * (scales.length / scales.speed[:, None]), compute_uv=False)
        singular = slopes[:, -1] <= 1e-6 * np.maximum(1.0, slopes[:, 0])
        kind[settled] = classify(found, singular, 1.0 / scales.time)
        values[settled] = _paired(found, np.repeat(eigenvalues, m, axis=0)[settled])
    return DrawnPoints(
        position.reshape(n, m, d), values.reshape(n, m, d), kind.reshape(n, m), draws.weights, rows.points
    )


class _Rows(VectorField):
    """Row i of a fixed number of points is evaluated by the draw ``which[i]``."""

    def __init__(self, rates: StackedRates, which: np.ndarray, scales: Scales) -> None:
        super().__init__(len(scales.length), scales=scales)
        self._rates, self._which, self._scales = rates, which, scales
        self.points = 0

    def subset(self, rows: np.ndarray) -> "_Rows":
        """Some of the rows."""
        return _Rows(self._rates, self._which[rows], self._scales)

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        self.points += len(x)
        return self._rates(x, np.tile(self._which, len(x) // max(1, len(self._which))))


def _newton(field: _Rows, x: np.ndarray, scales: Scales) -> tuple[np.ndarray, np.ndarray]:
    """Where each row ends, and whether in a zero of its field."""
    x = x.copy()
    f = field(x) / scales.speed
    size, damping = np.linalg.norm(f, axis=1), np.ones(len(x))
    last = np.full(len(x), np.inf)
    for _ in range(_NEWTON_STEPS):
        done = (size <= ROOT_RESIDUAL) & (last <= _SETTLED)
        rows = np.flatnonzero(np.isfinite(size) & ~done & (damping > _SHORTEST_STEP))
        if not len(rows):
            break
        part = field.subset(rows)
        jac = part.jacobian(x[rows]) * (scales.length / scales.speed[:, None])
        usable = np.isfinite(jac).all(axis=(1, 2))
        inverse = np.linalg.pinv(np.where(usable[:, None, None], jac, np.eye(x.shape[1])))
        step = -np.einsum("nij,nj->ni", inverse, np.where(usable[:, None], f[rows], 0.0))
        length = np.linalg.norm(step, axis=1)
        shortened = damping[rows] * np.minimum(1.0, _LONGEST_STEP / np.maximum(length, _LONGEST_STEP))
        trial = x[rows] + shortened[:, None] * step * scales.length
        f_trial = part(trial) / scales.speed
        field.points += part.points
        size_trial = np.linalg.norm(f_trial, axis=1)
        better = (size_trial < size[rows]) | (size_trial <= ROOT_RESIDUAL)
        damping[rows] = np.where(better, np.minimum(1.0, 4.0 * damping[rows]), damping[rows] / 4.0)
        rows = rows[better]
        x[rows], f[rows], size[rows] = trial[better], f_trial[better], size_trial[better]
        last[rows] = length[better]
    return x, (size <= ROOT_RESIDUAL) & (last <= _SETTLED)


def _nearest_alone(there: np.ndarray, settled: np.ndarray, x: np.ndarray, scales: Scales) -> np.ndarray:
    """`settled` (n, m) without those that came to the zero of a nearer point in the same draw."""
    alone = settled.copy()
    moved = np.linalg.norm((there - x[:, None]) / scales.length, axis=2)
    for i in range(len(x)):
        for j in range(i):
            same = alone[i] & alone[j]
            same &= np.linalg.norm((there[i] - there[j]) / scales.length, axis=1) <= _SETTLED
            alone[i] &= ~same | (moved[i] < moved[j])
            alone[j] &= ~same | (moved[i] >= moved[j])
    return alone


def _paired(values: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Eigenvalues (k, d) in the order of least total distance from others (k, d)."""
    paired = np.empty_like(values)
    for i, distance in enumerate(np.abs(reference[:, :, None] - values[:, None, :])):
        paired[i] = values[i, linear_sum_assignment(distance)[1]]
    return paired
