"""Starts of searches: Latin hypercubes over bounds, or about natural sizes."""

import numpy as np

from fim_dynsys.estimation.parameters import Parameter, ParameterSpace, Scale

_DECADES = 1.5  # about a natural size, to either side
_FAR = 3.0  # the same of every third start: rates may be much faster than the record is long
_NEAR = 0.5  # decades about a value that the user named
_WIDE = 4.0  # decades of bounds; of wider ones every second start is drawn about the natural size
_NEGATIVE = 0.25  # share of negative starts where a number may be so: rates and sizes are mostly positive
_LN10 = float(np.log(10.0))


def draw_starts(space: ParameterSpace, n: int, seed: int) -> np.ndarray:
    """Coordinates (n, q), the first of them at the values that are known to be near.

    Parameters
    ----------
    space : ParameterSpace
        What is searched.
    n : int
        How many.
    seed : int
        Of the hypercube.
    """
    from scipy.stats import qmc

    q = len(space)
    if not q:
        return np.zeros((n, 0))
    cube = qmc.LatinHypercube(2 * q, rng=seed).random(n)
    starts = np.empty((n, q))
    for k, parameter in enumerate(space.parameters):
        starts[:, k] = _drawn(parameter, cube[:, k], cube[:, q + k], space.low[k], space.high[k])
    return space.inside(starts)


def _drawn(parameter: Parameter, u: np.ndarray, v: np.ndarray, low: float, high: float) -> np.ndarray:
    """Coordinates (n,) of one parameter at uniform numbers in (0, 1)."""
    logs = parameter.scale is Scale.LOG
    if parameter.start is not None:
        values = parameter.start * 10.0 ** (2.0 * _NEAR * (u - 0.5))
        if parameter.start == 0.0:
            values = parameter.size * (u - 0.5)
        values[0] = parameter.start
        return np.log(np.maximum(values, 1e-300)) if logs else values / parameter.size
    decades = np.where(np.arange(len(u)) % 3 == 2, _FAR, _DECADES)
    about = np.log(parameter.size) + 2.0 * decades * _LN10 * (u - 0.5)
    if logs:
        if not (np.isfinite(low) and np.isfinite(high)):
            return about
        across = low + u * (high - low)
        if high - low <= _WIDE * _LN10:
            return across
        # what lies beyond the bounds comes back in, so that no start sits on one
        inner = low + np.mod(about - low, high - low)
        about = np.where((about > low) & (about < high), about, inner)
        return np.where(np.arange(len(u)) % 2, about, across)
    if np.isfinite(low) and np.isfinite(high):
        return low + u * (high - low)
    magnitude = np.exp(about) / parameter.size
    negative = high <= 0 or (low < 0 and parameter.low == -np.inf)
    return np.where(v < (1.0 if high <= 0 else _NEGATIVE), -magnitude, magnitude) if negative else magnitude
