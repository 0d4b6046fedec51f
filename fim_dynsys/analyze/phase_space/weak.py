"""Foci in the plane whose linear part is neutral and whose higher terms, or kinks, attract."""

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.frame import Scales
from fim_dynsys.simulation.problem import Status
from fim_dynsys.simulation.solution import integrate

_TURNS = 10  # that paths are followed: a drift of 1e-7 a turn then shows beside errors of the integration
_RADII = np.geomspace(1e-3, 1.0, 10)  # of the distance to the next object: cubic terms then fall by 1e-6
_RTOL = 1e-10  # closed orbits then close to 1e-8 after ten turns
_CHANGED = 1e-6  # logarithm of a distance over all turns, by which a path comes nearer, a hundred errors
_LONGEST = 4.0  # times as long as so many turns of the linear part take: kinks slow some
_PATH = 400  # samples of a path, on which it is seen how near it comes
_TOGETHER = 2  # neighbouring circles at least from which paths come nearer
_SAFETY = 0.9  # of the nearest sample


class WeakSink:
    """A disc round a focus, in the units of its rotation, that paths from its edge only wind into.

    Parameters
    ----------
    x : ndarray (2,)
        The focus.
    root : ndarray (2, 2)
        Distances are ``|root (y - x)|``.
    radius : float
        Largest distance from which paths stay.
    """

    def __init__(self, x: np.ndarray, root: np.ndarray, radius: float) -> None:
        self.x, self.root, self.radius = x, root, radius

    def holds(self, path: np.ndarray) -> np.ndarray:
        """Which of the paths ``(n, s, 2)`` end inside, (n,) of bool."""
        return np.linalg.norm((path[:, -1] - self.x) @ self.root.T, axis=1) < self.radius


def weak_sink(
    field: VectorField, x: np.ndarray, jac: np.ndarray, length: np.ndarray, room: float
) -> WeakSink | None:
    """The disc of a neutral focus that attracts; None for centres and foci that repel, or that show neither.

    Paths start on circles of ten sizes and are followed for ten turns. It attracts where those from
    neighbouring circles come nearer from turn to turn, and none from a smaller one goes away.

    Parameters
    ----------
    field : VectorField
        The field, in the plane.
    x : ndarray (2,)
        The focus.
    jac : ndarray (2, 2)
        Jacobian there.
    length : ndarray (2,)
        Units of the states.
    room : float
        Distance to the next object or the edge, in these units.
    """
    scaled = jac * (length / length[:, None])
    spin = np.sqrt(abs(np.linalg.det(scaled)))
    if not (np.isfinite(spin) and spin > 0.0 and scaled[0, 1] * scaled[1, 0] < 0.0):
        return None
    # The linear part conserves y' form y, in which its ellipses are circles.
    off = (scaled[1, 1] - scaled[0, 0]) / 2.0
    form = np.array([[abs(scaled[1, 0]), 0.0], [0.0, abs(scaled[0, 1])]]) / spin
    form[0, 1] = form[1, 0] = off / spin * np.sign(scaled[1, 0])
    if np.linalg.eigvalsh(form)[0] <= 0.0:
        return None
    root = np.linalg.cholesky(form).T
    shrunk = room * np.sqrt(np.linalg.eigvalsh(form)[0])  # the circle that fits
    radii = shrunk * _RADII
    around = CallableField(
        lambda y: field(x + y * length) / length, 2, scales=Scales(np.ones(2), np.ones(2), 1.0)
    )
    starts = radii[:, None] * np.linalg.inv(root)[:, 0]
    turned = _Turned(starts[0], float(np.sign(scaled[1, 0])))
    t = np.linspace(0.0, _LONGEST * _TURNS * 2.0 * np.pi / spin, _PATH * 10)
    atol = _RTOL * np.abs(starts).max(axis=1, keepdims=True) * np.ones(2)
    with np.errstate(all="ignore"):
        found = integrate([around], starts, t, rtol=_RTOL, atol=atol, events=turned)
    distances: list[list[float]] = [[] for _ in radii]
    for row, _, _, state in found.occurrences:
        distances[row].append(float(np.linalg.norm(root @ state)))
    signs = [_sign([radius, *passed]) for radius, passed in zip(radii, distances, strict=True)]
    signs = [sign if status == Status.EVENT else 1 for sign, status in zip(signs, found.status, strict=True)]
    first = next((i for i, sign in enumerate(signs) if sign), len(signs))
    last = next((i for i in range(first, len(signs)) if signs[i] >= 0), len(signs))
    if last - first < _TOGETHER:
        return None
    path = found.x[last - 1]
    nearest = np.linalg.norm(path[np.isfinite(path).all(axis=1)] @ root.T, axis=1).min()
    return WeakSink(x, root / length, _SAFETY * float(nearest))


def _sign(distances: list[float]) -> int:
    """-1 where distances fall from turn to turn, 1 where they grow, and 0 where they stay."""
    change = np.log(distances[-1] / distances[0])
    if abs(change) <= _CHANGED:
        return 0
    return -1 if change < 0.0 and (np.diff(distances) < 0.0).all() else 1


class _Turned:
    """The event of a whole turn about 0, which ends a path after some of them."""

    terminal = _TURNS

    def __init__(self, start: np.ndarray, sense: float) -> None:
        self.normal = np.array([-start[1], start[0]]) / np.linalg.norm(start)
        self.direction = int(sense)

    def __call__(self, t: np.ndarray, y: np.ndarray) -> np.ndarray:
        return y @ self.normal
