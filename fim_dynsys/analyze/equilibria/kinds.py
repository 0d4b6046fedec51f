"""Kinds of equilibria: eigenvalues of the Jacobian, their first-order errors, and the names that follow."""

from enum import StrEnum

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.frame import Scales

# A complex pair is on the imaginary axis where its real part is below this share of its modulus. A real one
# is 0 where it is below this share of the field's rate (1 / its time scale) and the Jacobian, in units of the
# scales, is singular. Jacobians by finite differences are good to some 1e-10.
AXIS = 1e-6
# A real part is told from zero when it exceeds this many of its standard errors.
_SIGMAS = 2.0


class Kind(StrEnum):
    """What an equilibrium is; a complex pair makes a focus."""

    STABLE_NODE = "stable node"
    STABLE_FOCUS = "stable focus"
    UNSTABLE_NODE = "unstable node"
    UNSTABLE_FOCUS = "unstable focus"
    SADDLE = "saddle"
    SADDLE_FOCUS = "saddle-focus"
    CENTRE_LIKE = "centre-like"
    """A complex pair on the imaginary axis: nonlinear terms decide."""
    DEGENERATE = "degenerate"
    """A zero eigenvalue: nonlinear terms decide, or the equilibrium is not isolated."""
    SLOW = "slow point"
    """A minimum of |f| that is not a zero."""
    INDETERMINATE = "indeterminate"
    """The field's error leaves open on which side of the imaginary axis an eigenvalue is."""

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


def eigenvalue_errors(field: VectorField, x: np.ndarray, scales: Scales) -> np.ndarray | None:
    """First-order standard errors of eigenvalues at zeros of an uncertain field.

    The field's error is taken to have independent components of standard deviation ``field.scale(x)`` and to
    vary over the length scales of the data, as a Gaussian process with a squared-exponential kernel does: its
    derivative by x_j then has standard deviation scale / length_j, independent of its value. The derivative
    changes the Jacobian itself; the value moves the zero, and with it the Jacobian.

    Parameters
    ----------
    field : VectorField
        The field.
    x : ndarray (n, d)
        Zeros of it.
    scales : Scales
        Its length scales.

    Returns
    -------
    ndarray (n, d) of complex, or None
        Standard errors of the real and of the imaginary parts, as real and imaginary parts, in the order of
        `eigen`; infinite where the eigenvalue is not differentiable. None for a field without a spread.
    """
    spread = field.scale(x)
    if spread is None:
        return None
    jac = field.jacobian(x)
    _, right, left = eigen(jac, scales.length)
    with np.errstate(invalid="ignore", over="ignore"):
        # change[n, k, i, j] = d lambda_k / d J_ij
        change = np.einsum("nki,njk->nkij", left, right)
        through_slope = change * (spread[:, None, :, None] / scales.length)
        through_shift = _through_shift(field, x, jac, change, spread)
        parts = [
            np.sqrt((part(through_slope) ** 2).sum(axis=(2, 3)) + (part(through_shift) ** 2).sum(axis=2))
            for part in (np.real, np.imag)
        ]
    return np.where(np.isnan(parts[0]), np.inf, parts[0]) + 1j * np.where(
        np.isnan(parts[1]), np.inf, parts[1]
    )


def _through_shift(
    field: VectorField, x: np.ndarray, jac: np.ndarray, change: np.ndarray, spread: np.ndarray
) -> np.ndarray:
    """d lambda_k / d f_m * spread_m by the shift of the zero, (n, k, m)."""
    d = x.shape[1]
    basis = np.eye(d)
    # hessian[n, i, j, l] = d^2 f_i / dx_j dx_l
    hessian = np.stack(
        [np.stack([field.directional(x, basis[j], basis[k]) for k in range(d)], axis=-1) for j in range(d)],
        axis=2,
    )
    shift = -np.linalg.pinv(jac) * spread[:, None, :]
    return np.einsum("nkij,nijl,nlm->nkm", change, hessian, shift)


def classify(values: np.ndarray, errors: np.ndarray | None, singular: np.ndarray, rate: float) -> np.ndarray:
    """Kinds of zeros from their eigenvalues.

    Parameters
    ----------
    values : ndarray (n, d) of complex
        Eigenvalues.
    errors : ndarray (n, d) of complex or None
        Standard errors as by `eigenvalue_errors`.
    singular : ndarray (n,) of bool
        Whether the Jacobian is singular in units of the scales.
    rate : float
        The field's rate, 1 / its time scale.

    Returns
    -------
    ndarray (n,) of Kind
    """
    errors = np.zeros_like(values) if errors is None else errors
    out = np.empty(len(values), dtype=object)
    for i in range(len(values)):
        out[i] = _kind(values[i], errors[i], singular[i], rate)
    return out


def _kind(values: np.ndarray, errors: np.ndarray, singular: bool, rate: float) -> Kind:
    real, modulus = values.real, np.abs(values)
    if ((np.abs(real) <= _SIGMAS * errors.real) & (errors.real > 0)).any():
        return Kind.INDETERMINATE
    if singular and (modulus <= AXIS * rate).any():
        return Kind.DEGENERATE
    if ((values.imag != 0) & (np.abs(real) <= AXIS * modulus)).any():
        return Kind.CENTRE_LIKE
    turns = np.abs(values.imag) > AXIS * modulus  # a double eigenvalue splits by rounding
    if (real < 0).all():
        return Kind.STABLE_FOCUS if turns.any() else Kind.STABLE_NODE
    if (real > 0).all():
        return Kind.UNSTABLE_FOCUS if turns.any() else Kind.UNSTABLE_NODE
    return Kind.SADDLE_FOCUS if turns.any() else Kind.SADDLE
