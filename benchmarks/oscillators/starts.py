"""From where predictions start: the clean state, the first observation, or a fitted one."""

import numpy as np
from scipy.optimize import least_squares

from benchmarks.harness.rows import Inferred
from benchmarks.harness.run import Integrator
from benchmarks.oscillators.tasks import Oscillation

START_NAMES = ("true", "first observation", "fitted")
_STEP = 1e-4  # of the data's size, for differences
_LOST = 10.0  # in the data's size: how far off a path is that is not finite
_EXACT = 1e-4  # relative change of the start at which a fit ends
_MOST = 50  # evaluations
_ROUGH = Integrator(rtol=1e-6, max_steps=300)


def start_of(name: str, inferred: Inferred, task: Oscillation, seed: int) -> np.ndarray:
    """Return a start (d,) at time 0 by its name among `START_NAMES`; only the first is told the truth."""
    if name == START_NAMES[0]:
        return task.start
    first = task.observations(seed)[0]
    return first if name == START_NAMES[1] else _fitted(inferred, task, seed, first)


def _fitted(inferred: Inferred, task: Oscillation, seed: int, first: np.ndarray) -> np.ndarray:
    """The start whose path is nearest to what is seen, in the sense of least squares."""
    seen = np.concatenate(task.pieces)
    t, x = task.t[seen], task.observations(seed)[seen]
    size = np.abs(x).max()

    def off(starts: np.ndarray) -> np.ndarray:
        paths, _ = _ROUGH.predict(inferred, starts, t, size)
        return np.where(np.isfinite(paths), paths - x, _LOST * size).reshape(len(starts), -1)

    def slopes(start: np.ndarray) -> np.ndarray:
        steps = _STEP * size * np.eye(len(start))
        values = off(np.concatenate([start + steps, start - steps]))
        return (values[: len(start)] - values[len(start) :]).T / (2 * _STEP * size)

    found = least_squares(
        lambda start: off(start[None])[0], first, slopes, method="lm", xtol=_EXACT, max_nfev=_MOST
    )
    return found.x
