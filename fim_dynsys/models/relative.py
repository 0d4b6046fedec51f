"""Relative errors of states that are fitted in their logarithms."""

from collections.abc import Sequence

import numpy as np

from fim_dynsys.regression.criteria import NORMAL, noise_model, pseudo_residuals
from fim_dynsys.trajectories.container import Trajectories

_FEWEST = 9  # samples of a trajectory from which its noise is estimated
_SMALL = 1e-3  # of a state's size: smaller values count as so large, for fits cannot weigh endless decades
_LEAST = 1e-3  # relative error: nothing is asked beyond
_DECADES, _LOW = 30.0, 0.1  # ratio of the largest value to this quantile, from which small values matter too
_SAME = 2.0  # ratio of noise levels that are known within some 20 %; curvature gives 4 and more
_ADDITIVE = 0.2  # share of the noise variance that does not grow with the values


def checked_names(caller: str, log: Sequence[str], trajectories: Trajectories) -> tuple[str, ...]:
    """Names of states of which logarithms are taken.

    Raises
    ------
    ValueError
        For other names, none or the same twice, and states with samples that are not positive.
    """
    names = trajectories.state_names
    wanted = f"{caller}: expected log as a list of different states among {', '.join(names)}"
    if isinstance(log, str | bytes) or not isinstance(log, Sequence) or not log:
        raise ValueError(f"{wanted}, got {log!r}.")
    if len(set(log)) < len(log) or not set(log) <= set(names):
        raise ValueError(f"{wanted}, got {', '.join(map(str, log))}.")
    for name in log:
        values = np.concatenate([x[:, names.index(name)] for _, x in trajectories.arrays()])
        lowest = np.nanmin(values, initial=np.inf)
        if not lowest > 0.0:
            raise ValueError(
                f"{caller}: expected positive samples of {name}, whose logarithms are fitted, got "
                f"{lowest:.4g}; leave {name} out of log, or give NaN for what was below detection."
            )
    return tuple(log)


def relative_errors(
    caller: str, log: Sequence[str], trajectories: Trajectories
) -> tuple[list[np.ndarray], dict[str, float]]:
    """Standard deviations (n, d) of the samples of each trajectory, and the relative ones by name.

    Those of states in ``log`` are in proportion to the samples, from a thousandth of their root mean square
    on; of the others each state has one. How large they are, differences from cubics through the neighbouring
    samples show.

    Raises
    ------
    ValueError
        Where no trajectory has nine samples of a state.
    """
    errors = [np.empty(x.shape) for _, x in trajectories.arrays()]
    relative = {}
    for j, name in enumerate(trajectories.state_names):
        values, whole = _samples_of(trajectories, j)
        size = float(np.sqrt(np.mean(values**2))) or 1.0
        if not whole:
            raise ValueError(
                f"{caller}: expected {_FEWEST} samples of {name} in a trajectory, of which log estimates the "
                "errors, got fewer; give them as sigma instead, such as 0.05 * x."
            )
        if name in log:
            missed = [pseudo_residuals(_from_zero(t), np.log(x)[:, None])[0] for t, x in whole]
            level = NORMAL * float(np.median(np.abs(np.concatenate(missed))))
            relative[name] = max(level, _LEAST)
        else:
            level = float(noise_model([(_from_zero(t), x[:, None] / size) for t, x in whole]).level[0])
        for own, (_, x) in zip(errors, trajectories.arrays(), strict=True):
            sizes = np.hypot(np.nan_to_num(x[:, j]), _SMALL * size) if name in log else size
            own[:, j] = max(level, _LEAST) * sizes
    return errors, relative


def over_decades(trajectories: Trajectories) -> list[str]:
    """Positive states whose values span decades, with errors in proportion to them rather than alike."""
    found = []
    for j, name in enumerate(trajectories.state_names):
        values, whole = _samples_of(trajectories, j)
        if not whole or values.min() <= 0.0 or values.max() < _DECADES * np.quantile(values, _LOW):
            continue
        if np.all(values == np.floor(values)):  # counts, whose errors are as their roots
            continue
        scaled = [(_from_zero(t), x[:, None] / values.max()) for t, x in whole]
        noise = noise_model(scaled)
        if noise.share[0] < _ADDITIVE and noise.level[0] > _LEAST * noise.rms[0]:
            # sudden changes of noise-free values look like noise, but grow with the gaps between samples
            seldom = [(t[::2], x[::2]) for t, x in scaled if len(t) >= 2 * _FEWEST]
            if seldom and noise_model(seldom).level[0] < _SAME * noise.level[0]:
                found.append(name)
    return found


def _samples_of(trajectories: Trajectories, j: int) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Values of a state that were observed, and times and values of trajectories that show its noise."""
    seen = [(t[np.isfinite(x[:, j])], x[np.isfinite(x[:, j]), j]) for t, x in trajectories.arrays()]
    return np.concatenate([x for _, x in seen]), [(t, x) for t, x in seen if len(t) >= _FEWEST]


def _from_zero(t: np.ndarray) -> np.ndarray:
    return (t - t[0]) / (t[-1] - t[0])
