"""Where a field jumps or has a pole: found along straight lines, and named."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fim_dynsys.regions import Region

_POINTS = 48  # of a line to begin with
_STEEPEST = 3  # intervals of a line, for each component, in which a jump is looked for
_HALVINGS = 44  # of an interval: to 1e-13 of the line, where a slope of 1e9 still leaves 1e-4
_LASTING = 0.05  # share of the change over the first interval that a jump still makes over the last
_NOTHING = 1e-6  # speeds: a change over the first interval that is rounding, or no matter
_LARGE = 1e6  # speeds beyond which a field that changes sign has a pole
_FLAT = 1e-9  # of the size, by which the places of jumps may differ if they are at one value of a state
_LINES = 16  # through a region


@dataclass(frozen=True, eq=False)
class Discontinuity:
    """A place at which a component of a field jumps.

    Attributes
    ----------
    component : int
        Number of the state whose rate of change it is.
    x : ndarray (d,)
        Where.
    sides : (float, float)
        The rate on both sides.
    pole : bool
        Whether it grows without bounds instead.
    """

    component: int
    x: np.ndarray
    sides: tuple[float, float]
    pole: bool


def discontinuities(
    rates: Callable[[np.ndarray], np.ndarray], starts: np.ndarray, ends: np.ndarray, speed: np.ndarray
) -> list[Discontinuity]:
    """Jumps and poles of a field on straight lines.

    Parameters
    ----------
    rates : callable
        The field, ``(n, d) -> (n, d)``.
    starts, ends : ndarray (m, d)
        Ends of the lines.
    speed : ndarray (d,)
        Size of each component.

    Returns
    -------
    list of Discontinuity
        Each interval is halved towards the larger change again and again: a slope leaves nothing of it, a
        jump all.
    """
    share = np.linspace(0.0, 1.0, _POINTS)
    with np.errstate(all="ignore"):
        x = starts[:, None] + share[:, None] * (ends - starts)[:, None]
        f = np.asarray(rates(x.reshape(-1, x.shape[2]))).reshape(x.shape) / speed
        change = np.abs(np.diff(f, axis=1))
    change = np.where(np.isfinite(change), change, -1.0)
    steepest = np.argsort(-change, axis=1)[:, :_STEEPEST]  # (m, k, d)
    lines, _, components = np.indices(steepest.shape)
    line, place, component = lines.ravel(), steepest.ravel(), components.ravel()
    first = change[line, place, component]
    keep = first > _NOTHING
    line, place, component, first = line[keep], place[keep], component[keep], first[keep]
    if not len(line):
        return []
    low, high = x[line, place], x[line, place + 1]
    at_low, at_high = f[line, place, component], f[line, place + 1, component]
    rows = np.arange(len(line))
    with np.errstate(all="ignore"):
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            value = np.asarray(rates(middle))[rows, component] / speed[component]
            before = np.abs(value - at_low) >= np.abs(at_high - value)
            high, at_high = np.where(before[:, None], middle, high), np.where(before, value, at_high)
            low, at_low = np.where(before[:, None], low, middle), np.where(before, at_low, value)
        last = np.abs(at_high - at_low)
        poles = (np.maximum(np.abs(at_low), np.abs(at_high)) > _LARGE) | ~np.isfinite(last)
        jumps = ~poles & (last > _LASTING * first)
    found = []
    for i in np.flatnonzero(poles | jumps):
        k = int(component[i])
        sides = float(at_low[i] * speed[k]), float(at_high[i] * speed[k])
        found.append(Discontinuity(k, (low[i] + high[i]) / 2.0, sides, bool(poles[i])))
    return found


def discontinuities_within(
    rates: Callable[[np.ndarray], np.ndarray], region: Region, speed: np.ndarray, seed: int = 0
) -> list[Discontinuity]:
    """As `discontinuities`, on lines through a region."""
    ends = region.sobol(2 * _LINES, seed)
    return discontinuities(rates, ends[::2], ends[1::2], speed)


def described(found: Sequence[Discontinuity], state_names: Sequence[str], size: np.ndarray) -> str:
    """Jumps and poles in words, such as ``v' jumps where v = 0``.

    Parameters
    ----------
    found : list of Discontinuity
        At least one.
    state_names : sequence of str
        Names of the states.
    size : ndarray (d,)
        Sizes of the states.

    Returns
    -------
    str
    """
    parts = []
    for pole in (False, True):
        for k in sorted({jump.component for jump in found if jump.pole is pole}):
            alike = [jump for jump in found if jump.component == k and jump.pole is pole]
            places = np.array([jump.x for jump in alike])
            flat = np.flatnonzero(np.ptp(places, axis=0) <= _FLAT * size)
            if len(alike) > 1 and len(flat):
                i = int(flat[0])
                value = float(np.median(places[:, i]))
                value = 0.0 if abs(value) <= _FLAT * size[i] else value
                where = f"where {state_names[i]} = {value:.6g}"
            else:
                pairs = zip(state_names, places[0].tolist(), strict=True)
                where = f"near {', '.join(f'{name} = {value:.4g}' for name, value in pairs)}"
            parts.append(f"{state_names[k]}' {'has a pole' if pole else 'jumps'} {where}")
    return "; ".join(parts)
