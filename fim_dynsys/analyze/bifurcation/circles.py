"""Circles of equilibria, born where two eigenvalues pass zero together by a symmetry of rotation."""

from typing import NamedTuple

import numpy as np

from fim_dynsys.analyze.tracing.branches import Branch, BranchKind
from fim_dynsys.analyze.tracing.curve import BranchEnd
from fim_dynsys.analyze.tracing.equations import Equations

_SINGULAR = 1e-5  # singular value, of the largest or 1, that counts as zero where two are so at once
_ANGLES = (0.3, 1.7, 3.0, 4.9)  # no symmetry of a polygon: only a rotation makes all of them equilibria
_RADII = (0.02, 0.05)  # scaled: a term that breaks the symmetry leaves a residual of their third power
_SOLVED = 1e-10  # largest residual, scaled: Newton's method squares it each step, down to rounding
_NEWTON_STEPS = 30  # where an equilibrium is nearly double each only halves the error: 1e-9 is left
_STEP, _MOST_POINTS = 0.01, 500  # of the radius, scaled, along a branch
_ALONG = 1e-6  # eigenvalue, by the field's rate, of the direction along the circle


class Circle(NamedTuple):
    """Equilibria of one direction on the circles, over the parameter; with the cubic term of the radius."""

    branch: Branch
    coefficient: float


def circle_from(equations: Equations, u: np.ndarray, n_unstable: int) -> Circle | None:
    """The circles of equilibria that leave a point where two eigenvalues vanish, if they do.

    Equilibria in several directions of the null plane, at two distances: there is one in each only where the
    field has the symmetry of rotations of this plane.

    Parameters
    ----------
    equations : Equations
        The family and its units.
    u : ndarray (d + 1,)
        The point, scaled.
    n_unstable : int
        Unstable directions of the equilibrium before it.

    Returns
    -------
    Circle or None

    References
    ----------
    M. Golubitsky, I. Stewart, D. G. Schaeffer, Singularities and Groups in Bifurcation Theory II, Springer
    1988, section XIII.3 (pitchforks with the symmetry O(2)).
    """
    _, sizes, directions = np.linalg.svd(equations.jacobian(u))
    zero = sizes <= _SINGULAR * max(1.0, sizes[0])
    if np.count_nonzero(zero) != 2:
        return None
    plane = directions[-2:]
    for radius in _RADII:
        for angle in _ANGLES:
            place = radius * np.array([np.cos(angle), np.sin(angle)])
            if _equilibrium(equations, u, plane, place, u) is None:
                return None
    points, guess = [u], u
    end = BranchEnd.POINTS
    while len(points) <= _MOST_POINTS:
        found = _equilibrium(equations, u, plane, np.array([_STEP * len(points), 0.0]), guess)
        if found is None:
            end = BranchEnd.STEP
            break
        _, p = equations.unscaled(found[:-1], found[-1])
        if equations.room_in_range(p) < 0 or equations.room_in_region(found[:-1]) < 0:
            end = BranchEnd.P_RANGE if equations.room_in_range(p) < 0 else BranchEnd.REGION
            break
        points.append(found)
        guess = 2.0 * found - points[-2]
    if len(points) < 2:
        return None
    return _of_points(equations, points, n_unstable, end)


def _equilibrium(
    equations: Equations, u: np.ndarray, plane: np.ndarray, place: np.ndarray, guess: np.ndarray
) -> np.ndarray | None:
    """The equilibrium at a place in the null plane, with the parameter free; None if there is none."""
    v = guess.copy()
    v[:-1] += (place - plane @ (v - u)[:-1]) @ plane
    held = np.column_stack([plane, np.zeros(2)])
    for _ in range(_NEWTON_STEPS):
        residual = np.append(equations.values(v), plane @ (v - u)[:-1] - place)
        if not np.isfinite(residual).all():
            return None
        if np.abs(residual).max() < _SOLVED:
            return v
        v = v - np.linalg.lstsq(np.vstack([equations.matrix(v), held]), residual, rcond=None)[0]
    return None


def _of_points(equations: Equations, points: list[np.ndarray], n_unstable: int, end: BranchEnd) -> Circle:
    states = [equations.unscaled(v[:-1], v[-1]) for v in points]
    values = [np.linalg.eigvals(equations.jacobian(v)) for v in points]
    x = np.array([state for state, _ in states])
    # Across the circle, the rate changes from 0 by twice the cubic term times the square of the radius.
    near = min(2, len(points) - 1)
    across = values[near][np.argsort(np.abs(values[near]))[1]].real / equations.time
    branch = Branch(
        kind=BranchKind.EQUILIBRIA,
        p=np.array([p for _, p in states]),
        x=x,
        n_unstable=np.array([n_unstable, *(int((v.real > _ALONG).sum()) for v in values[1:])]),
        eigenvalues=np.array(values).astype(complex) / equations.time,
        residual=np.array([np.abs(equations.values(v)).max() for v in points]),
        support=np.array([equations.support(state, p) for state, p in states]),
        bifurcations=(),
        ends=(BranchEnd.CIRCLE, end),
    )
    return Circle(branch, float(across / (2.0 * np.sum((x[near] - x[0]) ** 2))))
