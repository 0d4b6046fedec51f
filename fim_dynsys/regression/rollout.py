"""Integration of many candidate fields at once over the observation times."""

from collections.abc import Callable

import numpy as np

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.kernels.integration import integrate


def substeps(t: np.ndarray, limit: float | np.ndarray) -> np.ndarray:
    """Number of Runge-Kutta steps in each interval so that none is longer than ``limit``.

    Parameters
    ----------
    t : array (..., n)
        Times; padded ones repeat the last and get one (empty) step.
    limit : float or array (..., n - 1)
        Longest step.

    Returns
    -------
    int array (..., n - 1)
    """
    return np.maximum(np.ceil(np.diff(t, axis=-1) / limit - 1e-9), 1).astype(np.int64)


def rollout(
    dictionary: Dictionary,
    coefficients: np.ndarray,
    x0: np.ndarray,
    t: np.ndarray,
    limit: float | np.ndarray,
    bound: float = 1e6,
    inputs: np.ndarray | None = None,
    allowed: np.ndarray | None = None,
) -> np.ndarray:
    """Trajectories of many dictionary fields by the classical Runge-Kutta method.

    Parameters
    ----------
    dictionary : Dictionary
        Terms common to all fields.
    coefficients : array (K, m, d)
        One field each.
    x0 : array (K, T, d)
        Initial states, one per field and trajectory.
    t : array (T, n)
        Observation times; shorter trajectories are padded by repeating the last time.
    limit : float or array (T, n - 1)
        Longest step.
    bound : float
        A field that leaves ``|x| <= bound`` is given up.
    inputs : array (T, n - 1, 4, m), optional
        Inputs, on which the terms depend as on coordinates behind the states: cubics of the fraction of each
        interval, see `fim_dynsys.regression.inputs`.
    allowed : array (d,), optional
        Largest error of a step: a field that errs by more takes shorter ones, up to 64 times as many in an
        interval and 48 times as many in all; default none is looked at.

    Returns
    -------
    array (K, T, n, d)
        nan from where a field was given up, and on its later trajectories.
    """
    dim = np.shape(coefficients)[2]
    return integrate(
        dictionary.packed,
        # Writable: a second type is compiled again.
        np.array(coefficients, dtype=np.float64, order="C"),
        np.array(x0, dtype=np.float64, order="C"),
        np.ascontiguousarray(t, dtype=np.float64),
        substeps(t, limit),
        float(bound),
        np.zeros((*np.shape(t)[:1], 0, 4, 0)) if inputs is None else np.ascontiguousarray(inputs, np.float64),
        np.full(dim, np.inf) if allowed is None else np.array(allowed, dtype=np.float64),
    )


def runge_kutta(rhs: Callable[[np.ndarray], np.ndarray], x: np.ndarray, h: float | np.ndarray) -> np.ndarray:
    """One step of the classical Runge-Kutta method of order four from ``x`` over ``h``."""
    k1 = rhs(x)
    k2 = rhs(x + (0.5 * h) * k1)
    k3 = rhs(x + (0.5 * h) * k2)
    k4 = rhs(x + h * k3)
    k2 += k3
    k2 *= 2.0
    k1 += k2
    k1 += k4
    k1 *= h / 6.0
    k1 += x
    return k1
