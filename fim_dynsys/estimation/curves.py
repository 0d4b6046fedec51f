"""Inputs between their samples, and functions of time, as pieces of cubics."""

from collections.abc import Callable

import numpy as np

from fim_dynsys.estimation.experiments import InputCurve
from fim_dynsys.regression.inputs import curves
from fim_dynsys.trajectories.holding import Hold

_ACCURATE = 1e-9  # of a function's range
_NARROW = 1e-12  # of the record: a jump is no wider
_PIECES = 5000  # of one function
_FIRST = 64  # pieces that each function is looked at in
# Of an interval, between the nodes: where a cubic through these is checked.
_PROBES = np.array([1 / 6, 1 / 2, 5 / 6])
_NODES = np.array([0.0, 1 / 3, 2 / 3, 1.0])  # of an interval, through which a cubic goes
_TO_CUBIC = np.linalg.inv(np.vander(_NODES, 4, increasing=True))  # from values at the nodes to coefficients


def sampled_curve(t: np.ndarray, u: np.ndarray, holds: list[Hold]) -> tuple[InputCurve, list[Hold]]:
    """Inputs (n, m) sampled at increasing times, each as it is held, and how that is."""
    m = u.shape[1]
    if not m:
        return InputCurve.none(), []
    if len(t) < 2:
        cubics = np.zeros((1, 4, m))
        cubics[0, 0] = u[0]
        return InputCurve(t[:1].astype(float), cubics), holds
    cubics, found = np.zeros((len(t), 4, m)), []
    cubics[:, 0] = u
    powers = np.diff(t)[:, None] ** np.arange(4)
    for k, hold in enumerate(holds):
        own = curves(t, u[:, k : k + 1], hold)
        cubics[:-1, :, k] = own.cubics[:, :, 0] / powers
        found.append(own.hold[0])
    return InputCurve(t.astype(float), np.ascontiguousarray(cubics)), found


def function_curve(u: Callable[[np.ndarray], np.ndarray], first: float, last: float) -> InputCurve:
    """A function of time (n,) -> (n, m) by cubics that agree with it; jumps are located.

    Raises
    ------
    ValueError
        Where it is not finite, or takes more than 5000 pieces.
    """
    span = max(last - first, 1e-300)
    todo = [
        (float(a), float(b))
        for a, b in zip(*(np.linspace(first, last, _FIRST + 1)[k : _FIRST + k] for k in (0, 1)), strict=True)
    ][::-1]
    scale = np.ptp(u(np.linspace(first, last, 8 * _FIRST + 1)), axis=0)
    size = np.abs(u(np.linspace(first, last, 8 * _FIRST + 1))).max(axis=0)
    scale = np.where(scale > 0, scale, np.where(size > 0, size, 1.0))
    starts: list[float] = []
    found: list[np.ndarray] = []
    while todo:
        a, b = todo.pop()
        values = u(a + (b - a) * np.concatenate([_NODES, _PROBES]))
        if not np.isfinite(values).all():
            raise ValueError(f"equations: expected finite inputs u(t) from {first:g} to {last:g}.")
        cubic = _TO_CUBIC @ values[:4]
        residual = values[4:] - np.vander(_PROBES, 4, increasing=True) @ cubic
        if (np.abs(residual) > _ACCURATE * scale).any() and b - a > _NARROW * span:
            middle = 0.5 * (a + b)
            todo += [(middle, b), (a, middle)]
            if len(starts) + len(todo) > _PIECES:
                raise ValueError(
                    f"equations: expected inputs u(t) that are smooth between jumps, got ones that take more "
                    f"than {_PIECES} cubics; give samples of them."
                )
            continue
        if b - a <= _NARROW * span and starts:
            continue  # the jump itself: what was before holds up to here
        cubic = cubic / (b - a) ** np.arange(4)[:, None]
        if starts and _continues(found[-1], a - starts[-1], cubic, b - a, scale):
            continue
        starts.append(a)
        found.append(cubic)
    return InputCurve(np.array(starts), np.ascontiguousarray(found))


def _continues(before: np.ndarray, gone: float, cubic: np.ndarray, width: float, scale: np.ndarray) -> bool:
    """Whether a cubic is the one before it, seen from later."""
    points = width * _NODES
    late = np.vander(gone + points, 4, increasing=True) @ before
    own = np.vander(points, 4, increasing=True) @ cubic
    return bool((np.abs(late - own) <= _ACCURATE * scale).all())
