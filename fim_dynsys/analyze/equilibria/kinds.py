"""Kinds of equilibria: eigenvalues of the Jacobian, and the names that follow."""

from enum import StrEnum

import numpy as np

# A complex pair is on the imaginary axis where its real part is below this share of its modulus. A real one
# is 0 where it is below this share of the field's rate (1 / its time scale) and the Jacobian, in units of the
# scales, is singular. Jacobians by finite differences are good to some 1e-10.
AXIS = 1e-6


class Kind(StrEnum):
    """What an equilibrium is; a complex pair makes a focus."""

    STABLE_NODE = "stable node"
    STABLE_FOCUS = "stable focus"
    UNSTABLE_NODE = "unstable node"
    UNSTABLE_FOCUS = "unstable focus"
    SADDLE = "saddle"
    SADDLE_FOCUS = "saddle-focus"
    SADDLE_CENTRE = "saddle-centre"
    """A complex pair on the imaginary axis, and states that leave along another direction."""
    CENTRE_LIKE = "centre-like"
    """A complex pair on the imaginary axis: nonlinear terms decide."""
    DEGENERATE_UNSTABLE = "degenerate, unstable"
    """A zero eigenvalue, and states that leave along another direction."""
    DEGENERATE = "degenerate"
    """A zero eigenvalue: nonlinear terms decide, or the equilibrium is not isolated."""
    SLOW = "slow point"
    """A minimum of |f| that is not a zero."""
    INDETERMINATE = "indeterminate"
    """Fields drawn from the posterior disagree on which side of the imaginary axis an eigenvalue is, or
    derivatives by differences depend on the steps."""

    @property
    def stable(self) -> bool | None:
        """Whether nearby states return; None where the linear part does not tell."""
        if self in (Kind.STABLE_NODE, Kind.STABLE_FOCUS):
            return True
        open_kinds = (Kind.CENTRE_LIKE, Kind.DEGENERATE, Kind.SLOW, Kind.INDETERMINATE)
        return None if self in open_kinds else False


def eigen(jac: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues in order of falling real, then imaginary part, with right and left vectors.

    Parameters
    ----------
    jac : ndarray (n, d, d)
        Jacobians.
    length : ndarray (d,)
        Lengths per state, in units of which the Jacobian is decomposed (the result is in its own).

    Returns
    -------
    values : ndarray (n, d) of complex
    right, left : ndarray (n, d, d) of complex
        Vectors as columns of `right` and rows of `left`, with ``left @ right`` the identity; `left` is
        infinite where the Jacobian has too few eigenvectors.
    """
    values, right = np.linalg.eig(jac * (length / length[:, None]))
    order = np.lexsort((-values.imag, -values.real))
    values = np.take_along_axis(values.astype(complex), order, axis=1)
    right = np.take_along_axis(right.astype(complex), order[:, None, :], axis=2) * length[:, None]
    left = np.full_like(right, np.inf)
    regular = np.linalg.cond(right / length[:, None]) < 1 / np.finfo(float).eps
    left[regular] = np.linalg.inv(right[regular])
    return values, right, left


def classify(values: np.ndarray, singular: np.ndarray, rate: float) -> np.ndarray:
    """Kinds of zeros from their eigenvalues.

    Parameters
    ----------
    values : ndarray (n, d) of complex
        Eigenvalues.
    singular : ndarray (n,) of bool
        Whether the Jacobian is singular in units of the scales.
    rate : float
        The field's rate, 1 / its time scale.

    Returns
    -------
    ndarray (n,) of Kind
    """
    real, modulus = values.real, np.abs(values)
    zero = singular & (modulus <= AXIS * rate).any(axis=1)
    neutral = ((values.imag != 0) & (np.abs(real) <= AXIS * modulus)).any(axis=1)
    turns = (np.abs(values.imag) > AXIS * modulus).any(axis=1)  # a double eigenvalue splits by rounding
    stable, unstable = (real < 0).all(axis=1), (real > 0).all(axis=1)
    signs = np.select([stable, unstable], [0, 1], 2)
    kinds = np.array(_BY_SIGNS, dtype=object)[signs, turns.astype(int)]
    leaves = ((real > AXIS * modulus) & (modulus > AXIS * rate)).any(axis=1)
    kinds[neutral], kinds[neutral & leaves] = Kind.CENTRE_LIKE, Kind.SADDLE_CENTRE
    kinds[zero], kinds[zero & leaves] = Kind.DEGENERATE, Kind.DEGENERATE_UNSTABLE
    return kinds


_BY_SIGNS = (
    (Kind.STABLE_NODE, Kind.STABLE_FOCUS),
    (Kind.UNSTABLE_NODE, Kind.UNSTABLE_FOCUS),
    (Kind.SADDLE, Kind.SADDLE_FOCUS),
)
"""All real parts below, above, on both sides of zero; without and with a complex pair."""
