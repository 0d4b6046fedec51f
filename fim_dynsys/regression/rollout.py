"""Integration of many candidate fields at once over the observation times."""

import numpy as np

_COMPACT_EVERY = 16


def substeps(t, limit):
    """Number of Runge-Kutta steps in each interval so that none is longer than ``limit``.

    Parameters
    ----------
    t : array (..., n)
        Times; padded ones repeat the last and get one (empty) step.
    limit : float
        Longest step.

    Returns
    -------
    int array (..., n - 1)
    """
    return np.maximum(np.ceil(np.diff(t, axis=-1) / limit - 1e-9), 1).astype(np.int64)


def rollout(dictionary, coefficients, x0, t, limit, bound=1e6):
    """Trajectories of many dictionary fields by the classical Runge-Kutta method with fixed steps.

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
    limit : float
        Longest step.
    bound : float
        A field that leaves ``|x| <= bound`` is given up.

    Returns
    -------
    array (K, T, n, d)
        nan from where a field was given up (on all its trajectories).
    """
    n_fields, n_trajectories, d = x0.shape
    n = t.shape[1]
    active = np.flatnonzero(coefficients.any(axis=(0, 2)))
    terms = dictionary.subset(active)
    c = np.ascontiguousarray(coefficients[:, active].transpose(2, 1, 0))[..., None]
    state = np.ascontiguousarray(x0.transpose(2, 0, 1))
    out = np.full((n, d, n_fields, n_trajectories), np.nan)
    out[0] = state
    alive = np.arange(n_fields)
    counts = substeps(t, limit).max(axis=0)
    steps = np.diff(t, axis=1) / counts

    def rhs(x):
        columns = terms.columns(x.reshape(d, -1)).reshape(len(terms), x.shape[1], n_trajectories)
        return np.einsum("dmkt,mkt->dkt", c, columns)

    with np.errstate(over="ignore", invalid="ignore"):
        for j in range(n - 1):
            h = steps[:, j] if n_trajectories > 1 else steps[0, j]
            for _ in range(counts[j]):
                state = runge_kutta(rhs, state, h)
            if j % _COMPACT_EVERY == 0 or j == n - 2:
                fine = (np.abs(state) <= bound).all(axis=(0, 2))
                if not fine.all():
                    alive, state, c = alive[fine], state[:, fine], np.ascontiguousarray(c[:, :, fine])
                    if not len(alive):
                        break
            if len(alive) == n_fields:
                out[j + 1] = state
            else:
                out[j + 1][:, alive] = state
    return out.transpose(2, 3, 0, 1)


def runge_kutta(rhs, x, h):
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
