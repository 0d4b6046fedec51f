"""Bifurcation points of equilibria solved for exactly, and the coefficients that tell their kinds apart."""

from collections.abc import Callable

import numpy as np

from fim_dynsys.analyze.lengths import with_lengths
from fim_dynsys.analyze.tracing.equations import Equations
from fim_dynsys.fields.base import VectorField

_EPS = np.finfo(float).eps
_ORTHOGONAL = 1e-6  # cosine of null vectors at a double zero: differences leave them known to 1e-8
_DOUBLE = 1e-5  # singular values below it, of the largest, are those of the double zero
_CLOSER, _GROWS = 0.25, 2.0  # steps of second derivatives, and their growth where there are none: fourfold
# Of a continuum: singular value of its Jacobian, which differences leave; corrections and residual of a
# neighbour, where a cubic would leave 1e-6.
_SINGULAR, _CORRECTIONS_ACROSS, _ACROSS = 1e-6, 4, 1e-9
_BESIDE = 2e-3  # lengths to both sides of a kink, out of reach of differences
_JUMPS = 0.02  # of the Jacobian: its least jump at a kink
_MAX_ITERATIONS = 12  # from a located sign change some four are enough; more mean that it leads elsewhere


def solve_fold(equations: Equations, u: np.ndarray) -> tuple[np.ndarray, float]:
    """Fold near u: f = 0, J v = 0, |v| = 1.

    Parameters
    ----------
    equations : object
        ``values(u) -> (d,)`` and ``jacobian(u) -> (d, d)`` by the states, for u = (x, p) (d + 1,), scaled to
        order one.
    u : ndarray (d + 1,)
        Guess.

    Returns
    -------
    u : ndarray (d + 1,)
    residual : float
        Largest entry of the equations.

    Raises
    ------
    FloatingPointError
        If Newton's method does not converge, or the guess has derivatives that are not finite.

    References
    ----------
    G. Moore, A. Spence, The calculation of turning points of nonlinear equations, SIAM J. Numer. Anal. 17
    (1980) 567, eq. 2.1.
    """
    d = len(u) - 1
    guess = np.linalg.svd(finite(equations.jacobian(u)))[2][-1]

    def system(z: np.ndarray) -> np.ndarray:
        u, v = z[: d + 1], z[d + 1 :]
        return np.concatenate([equations.values(u), equations.jacobian(u) @ v, [v @ guess - 1.0]])

    z, residual = _newton(system, np.concatenate([u, guess]))
    return z[: d + 1], residual


def solve_hopf(equations: Equations, u: np.ndarray, eigenvalue: complex) -> tuple[np.ndarray, float, float]:
    """Hopf point near u: f = 0, J q = i omega q, a normalisation of q.

    Parameters
    ----------
    equations, u
        As for `solve_fold`.
    eigenvalue : complex
        Of the Jacobian at u: the one of the pair with positive imaginary part.

    Returns
    -------
    u : ndarray (d + 1,)
    omega : float
        Imaginary part in scaled time, positive.
    residual : float

    Raises
    ------
    FloatingPointError
        If Newton's method does not converge, or the guess has derivatives that are not finite.

    References
    ----------
    Yu. A. Kuznetsov, Elements of Applied Bifurcation Theory, 3rd ed., Springer 2004, eq. 10.86.
    """
    d = len(u) - 1
    values, vectors = np.linalg.eig(finite(equations.jacobian(u)))
    q = vectors[:, np.argmin(abs(values - eigenvalue))]
    real, imaginary = q.real, q.imag

    def system(z: np.ndarray) -> np.ndarray:
        u, a, b, w = z[: d + 1], z[d + 1 : 2 * d + 1], z[2 * d + 1 : 3 * d + 1], z[-1]
        jac = equations.jacobian(u)
        norms = [real @ a + imaginary @ b - 1.0, real @ b - imaginary @ a]
        return np.concatenate([equations.values(u), jac @ a + w * b, jac @ b - w * a, norms])

    z, residual = _newton(system, np.concatenate([u, real, imaginary, [eigenvalue.imag]]))
    return z[: d + 1], float(z[-1]), residual


def solve_branch_point(equations: Equations, u: np.ndarray) -> tuple[np.ndarray, float]:
    """Branch point near u: f + beta psi = 0, psi^T [J, f_p] = 0, |psi| = 1.

    An exact branch point has beta = 0; in a family that breaks it, beta is the size of the imperfection.

    Parameters
    ----------
    equations : object
        As for `solve_fold`, and ``matrix(u) -> (d, d + 1)``, the Jacobian with the derivative by p.
    u : ndarray (d + 1,)
        Guess.

    Returns
    -------
    u : ndarray (d + 1,)
    residual : float
        Largest of |beta| and the entries of the equations.

    Raises
    ------
    FloatingPointError
        If Newton's method does not converge, or the guess has derivatives that are not finite.

    References
    ----------
    A. Griewank, G. W. Reddien, Characterization and computation of generalized turning points, SIAM J.
    Numer. Anal. 21 (1984) 176, section 2.
    """
    d = len(u) - 1
    guess = np.linalg.svd(finite(equations.matrix(u)).T)[2][-1]

    def system(z: np.ndarray) -> np.ndarray:
        u, beta, psi = z[: d + 1], z[d + 1], z[d + 2 :]
        return np.concatenate(
            [equations.values(u) + beta * psi, psi @ equations.matrix(u), [psi @ guess - 1.0]]
        )

    z, residual = _newton(system, np.concatenate([u, [0.0], guess]))
    return z[: d + 1], max(residual, abs(float(z[d + 1])))


def crossing_tangent(equations: Equations, u: np.ndarray, tangent: np.ndarray) -> np.ndarray | None:
    """Direction of the other branch through a simple branch point.

    The two directions are the zeros of the quadratic form psi^T D^2 F on the null space of [J, f_p].

    Parameters
    ----------
    equations, u
        As for `solve_branch_point`; u is the branch point.
    tangent : ndarray (d + 1,)
        Direction of the known branch.

    Returns
    -------
    ndarray (d + 1,) or None
        None where the form is definite: no other branch crosses.

    References
    ----------
    H. B. Keller, Lectures on Numerical Methods in Bifurcation Problems, Springer 1987, section 5.26.
    """
    left, _, right = np.linalg.svd(equations.matrix(u))
    psi, null = left[:, -1], right[-2:]
    h = _EPS ** (1 / 3)
    form = np.empty((2, 2))
    for j in range(2):
        change = equations.matrix(u + h * null[j]) - equations.matrix(u - h * null[j])
        form[:, j] = null @ (psi @ change) / (2.0 * h)
    values, axes = np.linalg.eigh((form + form.T) / 2.0)
    if not values[0] < 0 < values[1]:
        return None
    along = axes @ np.array([np.sqrt(values[1]), np.sqrt(-values[0])])
    across = axes @ np.array([np.sqrt(values[1]), -np.sqrt(-values[0])])
    directions = [v @ null / np.linalg.norm(v) for v in (along, across)]
    return min(directions, key=lambda v: abs(v @ tangent) / np.linalg.norm(tangent))


def on_continuum(equations: Equations, u: np.ndarray) -> bool:
    """Whether equilibria at one parameter value form a curve or more through one of them.

    Along a null vector of the Jacobian, on both sides and at two distances, equilibria are solved for in the
    hyperplanes across it: at folds and branch points there is none.

    Parameters
    ----------
    equations : Equations
        The family and its units.
    u : ndarray (d + 1,)
        The equilibrium, scaled.

    Returns
    -------
    bool
    """
    _, sizes, directions = np.linalg.svd(equations.jacobian(u))
    if sizes[-1] > _SINGULAR * max(1.0, sizes[0]):
        return False
    along = directions[-1]
    return all(_equilibrium_across(equations, u, along, step) for step in (-2e-2, -1e-2, 1e-2, 2e-2))


def _equilibrium_across(equations: Equations, u: np.ndarray, along: np.ndarray, step: float) -> bool:
    """Whether an equilibrium lies in the hyperplane across a direction, a step away."""
    moved = u.copy()
    moved[:-1] += step * along
    for _ in range(_CORRECTIONS_ACROSS):
        f = equations.values(moved)
        if not np.isfinite(f).all():
            return False
        matrix = np.vstack([equations.jacobian(moved), along])
        moved[:-1] += np.linalg.lstsq(matrix, np.append(-f, 0.0), rcond=_SINGULAR)[0]
    near = np.linalg.norm(moved - u) < 2.0 * abs(step)
    return bool(near and np.abs(equations.values(moved)).max() < _ACROSS)


def at_kink(equations: Equations, u: np.ndarray) -> bool:
    """Whether the Jacobian jumps next to scaled unknowns u (d + 1,), where a branch may turn sharply.

    The change between both sides of a kink does not grow with the distance, as that of a smooth field does.
    """

    def change(distance: float) -> float:
        moves = np.diag(distance * equations.unit / equations.length)
        around = [[equations.jacobian(u + np.append(way, 0.0)) for way in (move, -move)] for move in moves]
        return max(float(np.abs(ahead - behind).max()) for ahead, behind in around)

    near = change(_BESIDE)
    return near > _JUMPS * np.abs(equations.jacobian(u)).max() and change(4.0 * _BESIDE) < 2.0 * near


def has_double_zero(jac: np.ndarray) -> bool:
    """Whether a singular matrix has a second zero eigenvalue.

    Parameters
    ----------
    jac : ndarray (d, d)
        Scaled Jacobian at a fold.

    Returns
    -------
    bool
        Whether the null vectors of the matrix and of its transpose are orthogonal.
    """
    left, _, right = np.linalg.svd(jac)
    return len(jac) > 1 and bool(abs(left[:, -1] @ right[-1]) < _ORTHOGONAL)


def cusp_coefficient(field: VectorField, x: np.ndarray) -> float:
    """Cubic coefficient c of a cusp, w' = ... + c w^3 on the centre manifold.

    Parameters
    ----------
    field : VectorField
        The field at the cusp's parameters.
    x : ndarray (d,)
        The equilibrium.

    Returns
    -------
    float
        For a null vector of length 1, in units of 1 / (state^2 time).

    References
    ----------
    Yu. A. Kuznetsov, Elements of Applied Bifurcation Theory, 3rd ed., Springer 2004, eq. 8.126.
    """
    jac, d = field.jacobian(x), len(x)
    left, _, right = np.linalg.svd(jac)
    q = right[-1]
    adjoint = left[:, -1] / (left[:, -1] @ q)
    quadratic = field.directional(x, q, q)
    bordered = np.block([[jac, q[:, None]], [adjoint[None], np.zeros((1, 1))]])
    second = np.linalg.solve(bordered, np.append((adjoint @ quadratic) * q - quadratic, 0.0))[:d]
    cubic = field.directional(x, q, q, q) + 3.0 * field.directional(x, q, second)
    return float(adjoint @ cubic / 6.0)


def double_zero_coefficients(field: VectorField, x: np.ndarray) -> tuple[float, float]:
    """Coefficients a and b of a Bogdanov-Takens point, w0' = w1, w1' = ... + a w0^2 + b w0 w1.

    Parameters
    ----------
    field : VectorField
        The field at the point's parameters.
    x : ndarray (d,)
        The equilibrium.

    Returns
    -------
    a, b : float
        For a null vector of length 1 and a generalised one orthogonal to it, turned so that a >= 0.

    References
    ----------
    Yu. A. Kuznetsov, Elements of Applied Bifurcation Theory, 3rd ed., Springer 2004, eqs. 8.36 and 8.37.
    """
    jac = field.jacobian(x)
    left, _, right = np.linalg.svd(jac)
    q0 = right[-1]
    q1 = _orthogonal(np.linalg.lstsq(jac, q0, rcond=_DOUBLE)[0], q0)
    p1 = left[:, -1]
    p0 = np.linalg.lstsq(jac.T, p1, rcond=_DOUBLE)[0]
    p1, p0 = p1 / (p1 @ q1), p0 / (p1 @ q1)
    p0 = p0 - (p0 @ q1) * p1
    quadratic = field.directional(x, q0, q0)
    a, b = float(p1 @ quadratic / 2.0), float(p0 @ quadratic + p1 @ field.directional(x, q0, q1))
    return (a, b) if a >= 0 else (-a, -b)


def _orthogonal(v: np.ndarray, unit: np.ndarray) -> np.ndarray:
    return v - (v @ unit) * unit


def first_lyapunov_coefficient(field: VectorField, x: np.ndarray) -> float:
    """First Lyapunov coefficient of a Hopf point.

    Parameters
    ----------
    field : VectorField
        The field at the critical parameter.
    x : ndarray (d,)
        The equilibrium; the eigenvalues nearest the imaginary axis are taken as the critical pair.

    Returns
    -------
    float
        For an eigenvector of Euclidean length 1, in units of 1 / (state^2 time) over the frequency.

    References
    ----------
    Yu. A. Kuznetsov, Elements of Applied Bifurcation Theory, 3rd ed., Springer 2004, eq. 5.39.
    """
    jac = field.jacobian(x)
    omega, q, adjoint = _critical_pair(jac)

    def derivative(*directions: np.ndarray) -> np.ndarray:
        return field.directional(x, *directions)

    mean = np.linalg.solve(jac, derivative(q, q.conj()))
    second = np.linalg.solve(2j * omega * np.eye(len(x)) - jac, derivative(q, q))
    total = derivative(q, q, q.conj()) - 2.0 * derivative(q, mean) + derivative(q.conj(), second)
    return float(np.real(adjoint.conj() @ total) / (2.0 * omega))


def smooth_lyapunov_coefficient(field: VectorField, x: np.ndarray, lengths: np.ndarray) -> float | None:
    """The first Lyapunov coefficient, or None where the field is not smooth enough to have one.

    Derivatives by differences of a term like ``|x| x`` grow as their steps shrink, so that two steps tell.

    Parameters
    ----------
    field, x
        As for `first_lyapunov_coefficient`.
    lengths : ndarray (d,)
        On which the field varies.
    """
    coefficient = first_lyapunov_coefficient(field, x)
    if not np.isfinite(coefficient):
        return None
    closer = first_lyapunov_coefficient(with_lengths(field, _CLOSER * lengths), x)
    grows = not abs(closer) < _GROWS * abs(coefficient)
    size = abs(coefficient) * float(np.mean(lengths)) ** 2
    return None if grows and size > _EPS**0.25 else coefficient  # below, rounding decides


def _critical_pair(jac: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Frequency, eigenvector q of i omega with |q| = 1, and adjoint eigenvector with <adjoint, q> = 1."""
    values, vectors = np.linalg.eig(jac)
    above = np.flatnonzero(values.imag > 0)
    critical = above[np.argmin(abs(values[above].real))]
    omega, q = values[critical].imag, vectors[:, critical]
    left_values, left = np.linalg.eig(jac.T)
    adjoint = left[:, np.argmin(abs(left_values + 1j * omega))]
    return omega, q, adjoint / np.conj(adjoint.conj() @ q)


def finite(jac: np.ndarray) -> np.ndarray:
    """The matrix as it is; raises FloatingPointError where the field is not smooth."""
    if not np.isfinite(jac).all():
        raise FloatingPointError("derivatives are not finite")
    return jac


def _newton(system: Callable[[np.ndarray], np.ndarray], z: np.ndarray) -> tuple[np.ndarray, float]:
    """Solve a square system by Newton's method with central differences; raises FloatingPointError."""
    previous = np.inf
    for _ in range(_MAX_ITERATIONS):
        h = _EPS ** (1 / 3) * np.maximum(1.0, np.abs(z))
        changes = [system(z + step) - system(z - step) for step in np.diag(h)]
        value = system(z)
        try:
            delta = np.linalg.solve(np.stack(changes, axis=1) / (2.0 * h), -value)
        except np.linalg.LinAlgError as error:
            raise FloatingPointError("singular") from error
        z = z + delta
        size = np.abs(delta).max() / max(1.0, np.abs(z).max())
        # Differences leave the matrix with an error of 1e-10: below 1e-9 steps no longer shrink by much.
        if size < 1e-13 or (size < 1e-9 and size > 0.1 * previous):
            return z, float(np.abs(system(z)).max())
        if not np.isfinite(size):
            break
        previous = size
    raise FloatingPointError("not converged")
