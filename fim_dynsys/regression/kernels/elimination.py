"""Compiled backward elimination of regressors."""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled


@compiled
def eliminate(inverses: np.ndarray, estimates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Order in which regressions give up their terms, the cheapest one first, and the costs.

    Parameters
    ----------
    inverses : array (K, m, m)
        Inverse normal matrices of unit diagonal; overwritten.
    estimates : array (K, m)
        Least-squares coefficients; overwritten.

    Returns
    -------
    order : int array (K, m)
    costs : array (K, m)
        Rise of the residual sum of squares at each drop.
    """
    count, m = estimates.shape
    order, costs = np.empty((count, m), np.intp), np.empty((count, m))
    active = np.empty(m, np.bool_)
    for problem in range(count):
        inverse, c = inverses[problem], estimates[problem]
        for i in range(m):
            active[i] = True
        for step in range(m):
            j, least, pivot = -1, np.inf, 1.0
            for i in range(m):
                if active[i]:
                    # with unit diagonal the inverse's is at least one; less is rounding
                    own = max(inverse[i, i], 1.0)
                    rise = c[i] * c[i] / own
                    if rise < least or j < 0:
                        j, least, pivot = i, rise, own
            order[problem, step], costs[problem, step] = j, least
            active[j] = False
            for i in range(m):
                if active[i]:
                    factor = inverse[i, j] / pivot
                    c[i] -= factor * c[j]
                    for k in range(m):
                        inverse[i, k] -= factor * inverse[j, k]
    return order, costs
