"""Fields started again in windows of a record, from states smoothed or corrected within the noise."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.symbolic import SymbolicField
from fim_dynsys.models.judging import judged
from fim_dynsys.regression.thinning import evenly

_WINDOWS = 64  # in which the field is started again, at most
_FARTHEST = 1e3  # standard deviations that a path counts as being away at most
_CORRECTIONS, _MOVED = 3, 1e-3  # of starts, and standard deviations by which they are moved for derivatives
_WITHIN = 2.0  # noise levels by which a start may be corrected: smoothed states are hardly farther off


class Stretch(NamedTuple):
    """Samples that the field is to follow from one start."""

    t: np.ndarray  # (n,) from 0
    x: np.ndarray  # (n, d) in standard deviations
    start: np.ndarray  # (d,) likewise
    root: np.ndarray  # (n, d) roots of the weights of the samples
    rows: np.ndarray  # (r,) times at which inputs are known, those of the samples among them
    inputs: np.ndarray  # (r - 1, 4, m) cubics between these


def windows_of(
    records: Sequence[Stretch], smooth: Sequence[tuple[np.ndarray, np.ndarray]], pace: float
) -> list[Stretch]:
    """Stretches of about one unit of time, of three samples at least where there are as many."""
    found = []
    for (t, z, _, root, rows, inputs), (states, _) in zip(records, smooth, strict=True):
        count = max(min(round(t[-1] / pace), (len(t) - 1) // 2), 1)
        bounds = np.round(np.linspace(0, len(t) - 1, count + 1)).astype(int)
        for a, b in pairwise(bounds):
            part, (first, last) = slice(a, b + 1), np.searchsorted(rows, t[[a, b]])
            own = rows[first : last + 1] - t[a], inputs[first:last]
            found.append(Stretch(t[part] - t[a], z[part], states[a], root[part], *own))
    return [found[k] for k in evenly(len(found), _WINDOWS)]


def distances(
    stretches: Sequence[Stretch], paths: Sequence[np.ndarray], unit: np.ndarray
) -> list[np.ndarray]:
    """Distances (n, d) of the paths to each stretch; `_FARTHEST` where they have ended."""
    apart = []
    for stretch, path in zip(stretches, paths, strict=True):
        with np.errstate(over="ignore", invalid="ignore"):
            apart.append(bounded(np.abs(path / unit - stretch.x) * stretch.root))
    return apart


def bounded(gap: np.ndarray) -> np.ndarray:
    return np.minimum(np.nan_to_num(gap, nan=_FARTHEST), _FARTHEST)


def paths_over(
    field: VectorField, stretches: Sequence[Stretch], unit: np.ndarray, records: int
) -> tuple[list[np.ndarray], list[str]]:
    """The field's path (n, d) over each stretch, and why those of the first ``records`` end early."""
    found = judged(
        field, [s.start * unit for s in stretches], [s.rows for s in stretches], [s.inputs for s in stretches]
    )
    endings = [found.ending(k, float(stretches[k].t[-1])) for k in range(records)]
    paths = [path[np.searchsorted(s.rows, s.t)] for s, path in zip(stretches, found.paths, strict=True)]
    return paths, [said for said in endings if said is not None]


def quick(field: VectorField) -> bool:
    """Whether hundreds of short paths cost little: those of a network take seconds."""
    terms = field.extended if isinstance(field, DrivenField) else field
    return isinstance(terms, DictionaryField | SymbolicField | CallableField)


class Corrected(NamedTuple):
    """Starts of windows corrected within the noise: where paths diverge, errors of starts grow."""

    field: VectorField
    unit: np.ndarray  # (d,) standard deviations
    least: np.ndarray  # (d,) noise in these
    observed: np.ndarray  # (d,) states that are; others keep their starts

    def apart(self, windows: Sequence[Stretch], paths: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Distances (n, d) of the paths to the samples, by Gauss-Newton steps from given starts and paths.

        The squares of samples and of the change of a start count alike, each over that of the noise; a window
        whose sum of these does not fall keeps its start.
        """
        kept, paths = list(windows), list(paths)
        costs = list(map(self._cost, windows, kept, paths))
        for _ in range(_CORRECTIONS):
            moved = self._moved(windows, kept, paths)
            ends, _ = paths_over(self.field, moved, self.unit, 0)
            for k, cost in enumerate(map(self._cost, windows, moved, ends)):
                if cost < costs[k]:
                    kept[k], paths[k], costs[k] = moved[k], ends[k], cost
        return distances(kept, paths, self.unit)

    def _moved(
        self, given: Sequence[Stretch], kept: Sequence[Stretch], paths: Sequence[np.ndarray]
    ) -> list[Stretch]:
        """The windows from starts of the least sum of squares, the paths being linear in these."""
        d, states = len(self.unit), np.flatnonzero(self.observed)
        aside = [w._replace(start=w.start + _MOVED * np.eye(d)[i]) for i in states for w in kept]
        beside, _ = paths_over(self.field, aside, self.unit, 0)
        moved = []
        for k, window in enumerate(kept):
            weight = window.root / self.least
            slopes = [(beside[j * len(kept) + k] - paths[k]) / self.unit / _MOVED for j in range(len(states))]
            by_start = np.stack([(slope * weight).ravel() for slope in slopes], axis=-1)
            changed = (window.start - given[k].start)[states]
            residual = ((window.x - paths[k] / self.unit) * weight).ravel() + by_start @ changed
            matrix = np.concatenate([by_start, np.diag(1.0 / self.least[states])])
            right = np.concatenate([residual, np.zeros(len(states))])
            start = window.start.copy()
            if np.isfinite(matrix).all() and np.isfinite(right).all():
                most = _WITHIN * self.least[states]
                change = np.clip(np.linalg.lstsq(matrix, right, rcond=None)[0], -most, most)
                start[states] = given[k].start[states] + change
            moved.append(window._replace(start=start))
        return moved

    def _cost(self, given: Stretch, window: Stretch, path: np.ndarray) -> float:
        (apart,) = distances([window], [path], self.unit)
        change = (window.start - given.start)[self.observed] / self.least[self.observed]
        return float(np.sum((apart / self.least) ** 2) + np.sum(change**2))
