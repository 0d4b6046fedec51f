"""Samples as plain numbers: the same bits in whatever units, from whatever origin of time, they are given.

Conversion of units, and another origin of time, round every number. Searches decide between near equals, so
that their answers would depend on those last digits; on a grid that is coarser than these and finer than any
digit that matters the numbers are the same again.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_STATE = 2.0**36  # steps of the grid in the range of a state
_TIME = 2.0**40  # and in the span of a trajectory, over which the state may travel many ranges
_REGULAR = 2.0**-42  # of the span: how far times are off a regular grid where rounding alone moved them


class Dimensionless(NamedTuple):
    """Samples without units."""

    samples: list[tuple[np.ndarray, np.ndarray]]  # times (n,) from 0 in `span`, states (n, d) in `unit`
    unit: np.ndarray  # (d,) range of each state; its size, or 1, where it does not vary
    span: float  # longest observed time; 1 where there is none


def dimensionless(samples: Sequence[tuple[np.ndarray, np.ndarray]]) -> Dimensionless:
    """States in units of their ranges and times in units of the longest, without their last digits.

    States are rounded to 2^-36 (1.5e-11) of their range. Times that are multiples of one step but for 2^-42
    of the trajectory's span become exactly that, others are rounded to 2^-40 of it unless two are so close.

    Parameters
    ----------
    samples : list of (t (n,), x (n, d))
        Increasing times and complete states.
    """
    stacked = np.concatenate([x for _, x in samples])
    size = np.abs(stacked).max(axis=0)
    size = np.where(size > 0, size, 1.0)
    width = np.ptp(stacked / size, axis=0)
    width = np.where(width > 0, width, 1.0)
    spans = [float(t[-1] - t[0]) for t, _ in samples]
    longest = max(spans) or 1.0
    written = [
        (_written(t - t[0], span) * _share(span, longest), _rounded(x / size / width, _STATE))
        for (t, x), span in zip(samples, spans, strict=True)
    ]
    return Dimensionless(written, size * width, longest)


def still(samples: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Which states (d,) are the same in all samples."""
    first = samples[0][1][0]
    return np.all([(x == first).all(axis=0) for _, x in samples], axis=0)


def _written(t: np.ndarray, span: float) -> np.ndarray:
    """Times (n,) from 0 in units of their span."""
    if len(t) < 2:
        return t
    t = t / span
    step = np.diff(t).min()
    if step * _TIME < 2.0:
        return t
    number = np.round(t / step)
    regular = number / number[-1]
    return regular if np.abs(regular - t).max() <= _REGULAR else _rounded(t, _TIME)


def _rounded(values: np.ndarray, steps: float) -> np.ndarray:
    """Values on a grid, and in one order in memory, which sums depend on."""
    return np.ascontiguousarray(np.round(values * steps) / steps)


def _share(span: float, longest: float) -> float:
    """Span in units of the longest, to 36 binary digits."""
    digits, exponent = np.frexp(span / longest)
    return float(np.ldexp(np.round(digits * _STATE) / _STATE, exponent))
