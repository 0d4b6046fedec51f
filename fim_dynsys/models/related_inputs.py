"""Inputs that follow from the states by a linear relation, as of a controller: their effects are one."""

import numpy as np

from fim_dynsys.fields.notation import plain_sum
from fim_dynsys.trajectories.container import Trajectories

_SPARE = 3  # samples for each column, below which nothing is said
_ROUNDING = 1e-6  # of an input's standard deviation
_NOISE = 1.2  # times the noise of the states, passed through the relation: few samples leave a little more
_BEYOND_CHANCE = 3.3  # standard deviations of a correlation: one in a thousand is beyond by chance
_SLIGHT = 0.05  # such a correlation of neighbours may be due to noise of the states in the regression
_SHOWN = 1e-3  # share of the standard deviation below which an addend is left out
_DIGITS = 3  # of the numbers of a relation


def related_inputs(trajectories: Trajectories, noise: np.ndarray) -> dict[str, tuple[str, list[str]]]:
    """Inputs that are constant, or sums of states and other inputs: how each is written, and what is in it.

    A sum may miss an input by what the noise of the states explains, where what is left is noise: a state
    that follows an input closely lags behind it, and what is left then follows the rate of the input.

    Parameters
    ----------
    trajectories : Trajectories
        With inputs.
    noise : array (d,)
        Standard deviations of the errors of the states.
    """
    pairs = zip(trajectories.arrays(), trajectories.input_arrays(), strict=True)
    records = [
        (t[rows], np.column_stack([x, u])[rows]) for (t, x), u in pairs if (rows := _complete(x)).sum() > 2
    ]
    dim, names = trajectories.dim, (*trajectories.state_names, *trajectories.input_names)
    n = sum(len(t) for t, _ in records)
    if n < _SPARE * (len(names) + 1):
        return {}
    every = np.concatenate([values for _, values in records])
    centre, spread = every.mean(axis=0), every.std(axis=0)
    spread = np.where(np.ptp(every, axis=0) > 0.0, spread, 0.0)
    errors = np.append(noise, np.zeros(len(names) - dim))
    found: dict[str, tuple[str, list[str]]] = {}
    for k in range(dim, len(names)):
        others = [j for j in range(len(names)) if j != k and spread[j] > 0.0 and names[j] not in found]
        if spread[k] == 0.0:
            found[names[k]] = f"{centre[k]:.{_DIGITS}g}", ["a constant"]
            continue
        factors = _relation(records, k, others, errors)
        if factors is None:
            continue
        weight = np.abs(factors) * spread
        for j in sorted(others, key=weight.__getitem__):
            fewer = [other for other in others if other != j]
            simpler = _relation(records, k, fewer, errors) if fewer else None
            if simpler is not None:
                others, factors = fewer, simpler
        constant = centre[k] - factors @ centre
        constant = constant if abs(constant) > _SHOWN * spread[k] else 0.0
        said = plain_sum(np.append(constant, factors[others]), ["1", *(names[j] for j in others)], _DIGITS)
        found[names[k]] = said, [names[j] for j in others]
    return found


def _complete(x: np.ndarray) -> np.ndarray:
    return np.isfinite(x).all(axis=1)


def _relation(
    records: list[tuple[np.ndarray, np.ndarray]], k: int, others: list[int], errors: np.ndarray
) -> np.ndarray | None:
    """Factors (d + m,) of the columns whose sum one column is; None where it is none."""
    every = np.concatenate([values for _, values in records])
    unit = np.where((spread := every.std(axis=0)) > 0.0, spread, 1.0)
    shifted = (every - every.mean(axis=0)) / unit
    shares = np.linalg.lstsq(shifted[:, others], shifted[:, k], rcond=None)[0]
    factors = np.zeros(len(unit))
    factors[others] = shares * unit[k] / unit[others]
    left = float(np.sqrt(np.mean((shifted[:, k] - shifted[:, others] @ shares) ** 2)))
    if left < _ROUNDING:
        return factors
    if left * unit[k] > _NOISE * float(np.sqrt(np.sum((factors * errors) ** 2))):
        return None
    # Inputs are exact and states are not: what the sum of these has beside the inputs is noise, or a lag.
    exact = [k, *(j for j in others if not errors[j])]
    of_states = shifted[:, others] @ np.where(errors[others] > 0.0, shares, 0.0)
    lag = of_states - _projected(of_states, shifted[:, exact])
    parts = np.split(lag, np.cumsum([len(t) for t, _ in records])[:-1])
    neighbours = sum(float(part[1:] @ part[:-1]) for part in parts) / float(lag @ lag)
    rates = np.concatenate([np.gradient(values[:, k], t) for t, values in records])
    rates = rates - rates.mean()
    beside = rates - _projected(rates, shifted[:, exact])
    size, whole = np.linalg.norm(beside), np.linalg.norm(rates)
    along = float(beside @ lag) / (size * np.linalg.norm(lag)) if size > _SHOWN * whole else 0.0
    chance = _BEYOND_CHANCE / np.sqrt(len(lag))
    return factors if abs(neighbours) < max(chance, _SLIGHT) and abs(along) < chance else None


def _projected(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return columns @ np.linalg.lstsq(columns, values, rcond=None)[0]
