"""Held inputs that switch at unknown times between samples: fits that leave out these intervals.

Where an input switches in an interval between two samples, nothing says when. Equations that take the later
sample for that time make up for it by terms that are not there. What lies between two such intervals is a
record of its own, under constant inputs, and tells the equations without it.
"""

from collections.abc import Callable

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
_FEWEST = 5  # intervals without a switch, with which those with one are compared
_MOST = 1000  # of either in a record, which take some 50 ms
_ROUNDING = 1e-9  # of its range, by which an input misses a sample to which it does not jump
_SHORTEST = 3  # samples of a stretch that is kept
_KEPT = 0.75  # of the samples in such stretches, at least


def switch_between_samples(field: DrivenField, trajectories: Trajectories) -> bool:
    """Whether held inputs switch at other times than those of the samples, as far as a field shows it.

    From each sample the field is followed to the next, and back from that with its inputs. At samples the
    first path misses by the errors of samples and field alone. Where an input switches in between, the two
    paths meet at that time.

    Parameters
    ----------
    field : DrivenField
        Fitted to them.
    trajectories : Trajectories
        With inputs.
    """
    pairs = trajectories.arrays()
    scale = np.nanstd(np.concatenate([x for _, x in pairs]), axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    explained, usual = [], []
    for (t, x), u in zip(pairs, trajectories.input_arrays(), strict=True):
        seen = np.isfinite(x).all(axis=1)
        seen, switches = seen[1:] & seen[:-1], kinks(t, u, trajectories.hold)[1:]
        if not (seen & switches).any():
            continue
        places = [np.flatnonzero(seen & which) for which in (switches, ~switches)]
        between = np.concatenate([own[evenly(len(own), _MOST)] for own in places])
        apart = _apart(field, t, x, u, trajectories.hold, between) / scale
        missed, nearest = np.sum(apart[-1] ** 2, axis=1), _nearest(apart)
        switching = switches[between]
        finite = np.isfinite(missed) & np.isfinite(nearest)
        explained.append((missed - nearest)[finite & switching])
        usual.append(missed[finite & ~switching])
    with_switch, others = ([value for part in parts for value in part] for parts in (explained, usual))
    if not with_switch or len(others) < _FEWEST:
        return False
    return bool(np.mean(with_switch) > max(_GAIN * np.mean(others), _EXACT**2))


def stretches(trajectories: Trajectories) -> Trajectories | None:
    """The records between intervals in which held inputs switch; None where too little is left.

    Parameters
    ----------
    trajectories : Trajectories
        With inputs. Labels and other coordinates go with each part.
    """
    chosen: list[tuple[int, np.ndarray]] = []
    kinds = set[Hold]()
    for k, ((t, _), u) in enumerate(zip(trajectories.arrays(), trajectories.input_arrays(), strict=True)):
        begins = np.flatnonzero(kinks(t, u, trajectories.hold)[1:]) + 1
        parts = np.split(np.arange(len(t)), begins)
        kinds.update(held_as(t, u, trajectories.hold) if len(t) > 1 else ())
        chosen += [(k, part) for part in parts if len(part) >= _SHORTEST]
    kept = sum(len(part) for _, part in chosen)
    if kept < _KEPT * trajectories.n_obs.sum():
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
