"""Roots of covariances: what draws are made with, positive semidefinite whatever rounding did."""

import numpy as np


def inverse_root(information: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Root R of the covariance ``R^T R`` that is the inverse of an information.

    By its eigenvalues, those that rounding made smaller than they can be raised to that.

    Parameters
    ----------
    information : array (..., q, q)
        Symmetric but for rounding, with ``least`` in it.
    least : array (q,)
        Diagonal of a part of it, positive: the rest is positive semidefinite, but for rounding.

    Returns
    -------
    array (..., q, q)
        Its rows are independent deviations; NaN where the information is not finite.
    """
    if not np.isfinite(information).all():
        return np.full(information.shape, np.nan)
    values, axes = np.linalg.eigh((information + information.swapaxes(-1, -2)) / 2.0)
    rows = axes.swapaxes(-1, -2)
    return rows / np.sqrt(np.maximum(values, rows**2 @ least))[..., None]
