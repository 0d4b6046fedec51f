"""Held inputs that switch at unknown times between samples: fits that leave out these intervals.

Where an input switches in an interval between two samples, nothing says when. Equations that take the later
sample for that time make up for it by terms that are not there. What lies between two such intervals is a
record of its own, under constant inputs, and tells the equations without it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.regression.inputs import at, curves, held_as, kinks
from fim_dynsys.regression.thinning import evenly
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.holding import Hold

_STEPS = 8  # of the classical Runge-Kutta method in an interval: 1e-4 of what the states move there
_GAIN = 2.0
"""Mean square errors of an interval without a switch that the time of a switch explains, in the mean.

The one number for each switch explains 1 at most by noise alone. Of 216 records that switch at samples (18
systems, three kinds of inputs, noise 0 to 5 %) the largest is 1.5; of 8 that switch between samples with
noise up to 2 %, 4.8 is the smallest.
"""
_EXACT = 1e-4  # standard deviations that equations of noise-free samples may be off, as the steps here are
_EARLY = 0.05  # of a gap, in the mean of switches in one direction: less hardly changes equations
_SURE = 3.5  # standard errors of it
_BESIDE = 2.0  # times what the intervals beside switches show of the same: wrong fields miss these too
_FEWEST = 5  # intervals without a switch, with which those with one are compared
_MOST = 1000  # of either in a record, which take some 50 ms
_ROUNDING = 1e-9  # of its range, by which an input misses a sample to which it does not jump
_SHORTEST = 3  # samples of a stretch that is kept
_KEPT = 0.75  # of the samples in such stretches, at least


class Intervals(NamedTuple):
    """Intervals between samples, and how paths of a field from both ends miss each other there.

    From each sample the field is followed to the next, and back from that with its inputs. At samples the
    first path misses by the errors of samples and field alone. Where an input switches in between, the two
    paths meet at that time.
    """

    apart: np.ndarray  # (`_STEPS` + 1, k, d) differences at equal parts of each
    beside: np.ndarray  # (2, k, d) what paths miss at the ends of the intervals before and behind switches
    changes: np.ndarray  # (k, m) signs of the changes of inputs that switch there; 0: none

    @classmethod
    def of(cls, field: DrivenField, trajectories: Trajectories) -> "Intervals | None":
        """Those of trajectories with inputs, in standard deviations; None where either kind is scarce."""
        pairs, found = trajectories.arrays(), []
        scale = np.nanstd(np.concatenate([x for _, x in pairs]), axis=0)
        scale = np.where(scale > 0.0, scale, 1.0)
        for (t, x), u in zip(pairs, trajectories.input_arrays(), strict=True):
            seen = np.isfinite(x).all(axis=1)
            seen = seen[1:] & seen[:-1]
            columns = [kinks(t, u[:, [j]], trajectories.hold)[1:] for j in range(u.shape[1])]
            changes = np.where(np.stack(columns, axis=1), np.sign(np.diff(u, axis=0)), 0.0)
            switches = (changes != 0.0).any(axis=1)
            if not (seen & switches).any():
                continue
            places = [np.flatnonzero(seen & which) for which in (switches, ~switches)]
            between = np.concatenate([own[evenly(len(own), _MOST)] for own in places])
            apart = _apart(field, t, x, u, trajectories.hold, between) / scale
            beside = np.full((2, *apart.shape[1:]), np.nan)
            for own, step in zip(beside, (-1, 1), strict=True):
                near = np.clip(between + step, 0, len(seen) - 1)
                known = switches[between] & seen[near] & ~switches[near]
                own[known] = _apart(field, t, x, u, trajectories.hold, near[known])[-1] / scale
            finite = np.isfinite(apart).all(axis=(0, 2))
            found.append((apart[:, finite], beside[:, finite], changes[between][finite]))
        if not found:
            return None
        apart, beside = (np.concatenate([one[k] for one in found], axis=1) for k in (0, 1))
        all_of_them = cls(apart, beside, np.concatenate([one[2] for one in found]))
        switching = all_of_them.switching
        return all_of_them if switching.any() and (~switching).sum() >= _FEWEST else None

    @property
    def switching(self) -> np.ndarray:
        """Whether an input switches in each (k,)."""
        return (self.changes != 0.0).any(axis=1)

    def meet_within(self) -> bool:
        """Whether the time of each switch explains more than noise would let it."""
        switching, missed = self.switching, np.sum(self.apart[-1] ** 2, axis=1)
        explained = (missed - _nearest(self.apart))[switching].mean()
        return bool(explained > max(_GAIN * missed[~switching].mean(), _EXACT**2))

    def are_early(self) -> bool:
        """Whether switches in one direction are early in the mean, by weighted least squares.

        Noise hides that less, of a field that does not make up for it, as one fitted to `stretches`.
        """
        variance = np.mean(self.apart[-1][~self.switching] ** 2, axis=0) + _EXACT**2
        for change in np.unique(self.changes[self.switching], axis=0):
            own = (self.changes == change).all(axis=1)
            missed, rise = self.apart[-1][own], self.apart[-1][own] - self.apart[0][own]
            weighed = rise / variance
            information = float(np.sum(weighed * rise))
            if not information > 0.0:
                continue
            early = float(np.sum(weighed * missed)) / information
            each = np.sum(weighed * (missed - early * rise), axis=1)
            error = np.sqrt(max(information, float(np.sum(each**2)))) / information
            others = max(abs(float(np.nansum(weighed * one[own]))) / information for one in self.beside)
            if early > max(_EARLY, _SURE * error, _BESIDE * others):
                return True
        return False


def stretches(trajectories: Trajectories) -> Trajectories | None:
    """The records between intervals in which inputs switch; None where none does, or too little is left.

    Parameters
    ----------
    trajectories : Trajectories
        With inputs. Labels and other coordinates go with each part.
    """
    chosen: list[tuple[int, np.ndarray]] = []
    kinds = set[Hold]()
    switches = total = kept = 0
    for k, ((t, x), u) in enumerate(zip(trajectories.arrays(), trajectories.input_arrays(), strict=True)):
        seen = np.isfinite(x).all(axis=1)
        begins = np.flatnonzero(kinks(t, u, trajectories.hold)[1:]) + 1
        parts = np.split(np.arange(len(t)), begins)
        kinds.update(held_as(t, u, trajectories.hold) if len(t) > 1 else ())
        own = [part for part in parts if seen[part].sum() >= _SHORTEST]
        chosen += [(k, part) for part in own]
        switches += len(begins)
        total, kept = total + int(seen.sum()), kept + sum(int(seen[part].sum()) for part in own)
    if not (switches and chosen) or kept < _KEPT * total:
        return None
    found = trajectories[[k for k, _ in chosen]].select_samples([part for _, part in chosen])
    # a part of a record does not show that its inputs are held
    return found.with_hold(Hold.PREVIOUS) if kinds == {Hold.PREVIOUS} else found


def _apart(
    field: DrivenField, t: np.ndarray, x: np.ndarray, u: np.ndarray, hold: Hold, between: np.ndarray
) -> np.ndarray:
    """Differences (`_STEPS` + 1, k, d) of paths from both ends of k intervals, at equal parts of each."""
    every, gaps = curves(t, u, hold).cubics, np.diff(t)
    cubics, width = every[between], gaps[between]
    following = np.minimum(between + 1, len(gaps) - 1)
    last, shorter = (between == following)[:, None], width / gaps[following]
    jumping = np.abs(cubics.sum(axis=1) - u[between + 1]) > _ROUNDING * np.ptp(u, axis=0)

    def before(part: float) -> np.ndarray:
        return at(cubics, part)

    def behind(part: float) -> np.ndarray:
        back = np.where(last, u[between + 1], at(every[following], -part * shorter))
        return np.where(jumping, back, at(cubics, 1.0 - part))

    with np.errstate(all="ignore"):  # what overflows is not compared
        forwards = _path(field, x[between], width, before)
        backwards = _path(field, x[between + 1], -width, behind)
    return forwards - backwards[::-1]


def _path(
    field: DrivenField, x: np.ndarray, width: np.ndarray, inputs: Callable[[float], np.ndarray]
) -> np.ndarray:
    """Paths (`_STEPS` + 1, n, d) from states (n, d) over times (n,), with inputs by the part gone by."""
    found, h = [x], (width / _STEPS)[:, None]
    for step in range(_STEPS):
        first, middle, last = (inputs((step + part) / _STEPS) for part in (0.0, 0.5, 1.0))
        k1 = field(x, first)
        k2 = field(x + 0.5 * h * k1, middle)
        k3 = field(x + 0.5 * h * k2, middle)
        x = x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + field(x + h * k3, last))
        found.append(x)
    return np.array(found)


def _nearest(apart: np.ndarray) -> np.ndarray:
    """Least squared distances (n,) of differences (m, n, d) along the lines between them."""
    rise = apart[1:] - apart[:-1]
    square = np.sum(rise**2, axis=2)
    part = np.clip(-np.sum(apart[:-1] * rise, axis=2) / np.where(square > 0.0, square, 1.0), 0.0, 1.0)
    return np.sum((apart[:-1] + part[..., None] * rise) ** 2, axis=2).min(axis=0)
