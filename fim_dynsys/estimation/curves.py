"""Inputs between their samples, and functions of time, as pieces of cubics."""

from collections.abc import Callable

import numpy as np

from fim_dynsys.estimation.experiments import InputCurve
from fim_dynsys.regression.inputs import curves
from fim_dynsys.trajectories.holding import Hold

_ACCURATE = 1e-8  # of a function's range
_NARROW = 1e-12  # of the record: a jump is no wider
_PIECES = 5000  # of one function
_FIRST = 64  # pieces that each function is looked at in
# Of an interval, between the nodes: where a cubic through these is checked.
_PROBES = np.array([1 / 6, 1 / 2, 5 / 6])
_NODES = np.array([0.0, 1 / 3, 2 / 3, 1.0])  # of an interval, through which a cubic goes
_LOOKED_AT = np.concatenate([_NODES, _PROBES])
_AT_PROBES = np.vander(_PROBES, 4, increasing=True)
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
    seen = u(np.linspace(first, last, 8 * _FIRST + 1))
    scale, size = np.ptp(seen, axis=0), np.abs(seen).max(axis=0)
    scale = np.where(scale > 0, scale, np.where(size > 0, size, 1.0))
    ends = np.linspace(first, last, _FIRST + 1)
    todo = np.column_stack([ends[:-1], ends[1:]])
    starts, found = np.zeros(0), np.zeros((0, 4, seen.shape[1]))
    while len(todo):
        a, width = todo[:, :1], np.diff(todo, axis=1)
        values = u((a + width * _LOOKED_AT).ravel()).reshape(len(todo), len(_LOOKED_AT), -1)
        if not np.isfinite(values).all():
            raise ValueError(f"equations: expected finite inputs u(t) from {first:g} to {last:g}.")
        cubics = _TO_CUBIC @ values[:, :4]
        off = np.abs(values[:, 4:] - _AT_PROBES @ cubics)
        wide = (width > _NARROW * span).ravel()
        rough = (off > _ACCURATE * scale).any(axis=(1, 2))
        fine = ~rough & (wide | (todo[:, 0] == first))  # of a jump, what was before holds up to its end
        starts = np.append(starts, todo[fine, 0])
        found = np.concatenate([found, cubics[fine] / width[fine, :, None] ** np.arange(4)[:, None]])
        middle = todo.mean(axis=1)
        halves = np.stack([todo[:, 0], middle, middle, todo[:, 1]], axis=1)
        todo = halves[rough & wide].reshape(-1, 2)
        if len(starts) + len(todo) > _PIECES:
            raise ValueError(
                f"equations: expected inputs u(t) that are smooth between jumps, got ones that take more "
                f"than {_PIECES} cubics; give samples of them."
            )
    order = np.argsort(starts)
    return _joined(starts[order], found[order], last, scale)


def _joined(starts: np.ndarray, cubics: np.ndarray, last: float, scale: np.ndarray) -> InputCurve:
    """A curve of those pieces that do not go on with the piece before them."""
    kept = [0]
    points = np.diff(np.append(starts, last))[:, None] * _NODES
    values = np.sum(points[:, :, None, None] ** np.arange(4)[:, None] * cubics[:, None], axis=2)
    for k in range(1, len(starts)):
        late = (starts[k] - starts[kept[-1]] + points[k])[:, None] ** np.arange(4) @ cubics[kept[-1]]
        if (np.abs(late - values[k]) > _ACCURATE * scale).any():
            kept.append(k)
    return InputCurve(starts[kept], np.ascontiguousarray(cubics[kept]))
