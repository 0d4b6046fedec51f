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


def covariance_root(covariance: np.ndarray) -> np.ndarray:
    """Root R (q, q) of a covariance ``R^T R`` (q, q), in which rounding may have left negative variances."""
    size = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    scale = np.where(size > 0.0, size, 1.0)
    values, axes = np.linalg.eigh(covariance / scale[:, None] / scale)
    return np.sqrt(np.maximum(values, 0.0))[:, None] * axes.T * scale
