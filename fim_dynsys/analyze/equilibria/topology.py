"""Topological degree of a field on a box in one to three dimensions: the sum of its zeros' indices."""

from collections.abc import Callable

import numpy as np

from fim_dynsys.regions import Region

# Neighbouring samples whose directions differ by more than this (radians) get another between them: half a
# turn could not be distinguished from half a turn the other way.
_LARGEST_TURN = 0.6
# Samples to begin with; finer ones follow where f turns. A whole turn between two of these goes unnoticed.
_FIRST_ARC = 128
_FIRST_SIDE = 6  # squares along an edge of a face; where turns are large they are divided
# Neighbours at this share of an edge that still differ have a zero of the field between them.
_SHORTEST = 1e-9
_MOST_VERTICES = 40_000  # a fifth of the default budget of `fixed_points`
# Triangles looked at over all rounds: 1,200 to 5,000 for ordinary fields, without end where a curve of zeros
# comes close to the surface and is followed down to the shortest edge.
_MOST_VISITS = 300_000


def degree(rhs: Callable[[np.ndarray], np.ndarray], box: Region) -> int | None:
    """Sum of sign(det J) over the zeros of f in a box, from values of f on its boundary alone.

    Parameters
    ----------
    rhs : callable
        ``f((n, d)) -> (n, d)``, continuous; units of its components do not matter as long as their sizes are
        alike.
    box : Region
        Of dimension 1 to 3.

    Returns
    -------
    int or None
        None where the boundary comes too close to a zero, or f is not finite on it.

    Raises
    ------
    ValueError
        For a box of another dimension.

    References
    ----------
    Van Oosterom and Strackee, IEEE Trans. Biomed. Eng. 30 (1983) 125, eq. (8): solid angle of a triangle.
    """
    if box.dim not in (1, 2, 3):
        raise ValueError(f"degree: expected a box of dimension 1, 2 or 3, got {box.dim}.")
    return (_on_interval, _winding, _solid_degree)[box.dim - 1](_Directions(rhs, box))


class _Directions:
    """Unit vectors of f at points given in the unit cube."""

    def __init__(self, rhs: Callable[[np.ndarray], np.ndarray], box: Region) -> None:
        self.rhs, self.box = rhs, box

    def __call__(self, unit: np.ndarray) -> np.ndarray:
        f = self.rhs(self.box.low * (1 - unit) + self.box.high * unit)
        with np.errstate(invalid="ignore", divide="ignore"):  # NaN where f vanishes, is infinite or NaN
            f = f / np.abs(f).max(axis=1, keepdims=True)  # huge values have a norm only after that
            return f / np.linalg.norm(f, axis=1, keepdims=True)


def _on_interval(directions: _Directions) -> int | None:
    low, high = directions(np.array([[0.0], [1.0]]))[:, 0]
    return int(high - low) // 2 if np.isfinite(high - low) else None


def _winding(directions: _Directions) -> int | None:
    """Turns of f along the perimeter, sampled more where f turns quickly and at last twice as densely."""
    t = 4.0 * np.arange(_FIRST_ARC) / _FIRST_ARC
    angle = _angles(directions, t)
    doubled = False
    while True:
        gap = np.diff(t, append=t[0] + 4.0)
        turn = (np.diff(angle, append=angle[0]) + np.pi) % (2 * np.pi) - np.pi
        coarse = np.abs(turn) > _LARGEST_TURN
        if not np.isfinite(turn).all() or (coarse & (gap < _SHORTEST)).any():
            return None
        if not coarse.any():
            if doubled:
                return round(turn.sum() / (2 * np.pi))
            coarse[:], doubled = True, True
        between = t[coarse] + gap[coarse] / 2
        position = np.flatnonzero(coarse) + 1
        t, angle = np.insert(t, position, between), np.insert(angle, position, _angles(directions, between))


def _angles(directions: _Directions, t: np.ndarray) -> np.ndarray:
    side, along = np.divmod(t % 4.0, 1)
    zero, one = np.zeros_like(t), np.ones_like(t)
    x = np.choose(side.astype(int), [along, one, 1 - along, zero])
    y = np.choose(side.astype(int), [zero, along, one, 1 - along])
    f = directions(np.stack([x, y], axis=1))
    return np.arctan2(f[:, 1], f[:, 0])


def _solid_degree(directions: _Directions) -> int | None:
    """Solid angle that f sweeps over the triangulated surface of the cube, by 4 pi."""
    vertices, triangles = _cube_surface(_FIRST_SIDE)
    f, visits = directions(vertices), 0
    while True:
        visits += len(triangles)
        if visits > _MOST_VISITS:
            return None
        both = np.sort(
            np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]), axis=1
        )
        numbers, which = np.unique(both[:, 0] * len(vertices) + both[:, 1], return_inverse=True)
        edges = np.stack(np.divmod(numbers, len(vertices)), axis=1)
        cosine = np.einsum("ni,ni->n", f[edges[:, 0]], f[edges[:, 1]])
        coarse = cosine < np.cos(_LARGEST_TURN)
        size = np.abs(vertices[edges[:, 0]] - vertices[edges[:, 1]]).max(axis=1)
        if not np.isfinite(cosine).all() or (coarse & (size < _SHORTEST)).any():
            return None
        if not coarse.any():
            return round(_solid_angles(*np.moveaxis(f[triangles], 1, 0)).sum() / (4 * np.pi))
        # All edges of a triangle with a coarse one: were only that one halved, slivers could go on for ever.
        which = which.reshape(3, -1)
        coarse[which[:, coarse[which].any(axis=0)]] = True
        middle = np.full(len(edges), -1)
        middle[coarse] = len(vertices) + np.arange(coarse.sum())
        between = vertices[edges[coarse]].mean(axis=1)
        if len(vertices) + len(between) > _MOST_VERTICES:
            return None
        vertices, f = np.concatenate([vertices, between]), np.concatenate([f, directions(between)])
        triangles = _split(triangles, middle[which].T)


def _solid_angles(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    volume = np.einsum("ni,ni->n", a, np.cross(b, c))
    ab, bc, ca = (np.einsum("ni,ni->n", p, q) for p, q in ((a, b), (b, c), (c, a)))
    return 2.0 * np.arctan2(volume, 1.0 + ab + bc + ca)


def _cube_surface(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (m, 3) of the unit cube's surface and outward triangles (k, 3), n squares along an edge."""
    i, j = (index.ravel() for index in np.meshgrid(np.arange(n), np.arange(n), indexing="ij"))
    corners = [np.stack([i + a, j + b], axis=1) for a, b in ((0, 0), (1, 0), (1, 1), (0, 1))]
    faces = []
    for axis in range(3):
        for level in (0, n):
            # The other two axes in cyclic order have the outward normal on the upper face.
            quads = np.empty((len(i), 4, 3), dtype=int)
            quads[:, :, axis] = level
            for k, corner in enumerate(corners if level else corners[::-1]):
                quads[:, k, (axis + 1) % 3], quads[:, k, (axis + 2) % 3] = corner.T
            faces += [quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]]
    points, index = np.unique(np.concatenate(faces).reshape(-1, 3), axis=0, return_inverse=True)
    return points / n, index.reshape(-1, 3)


def _split(triangles: np.ndarray, middles: np.ndarray) -> np.ndarray:
    """Triangles after bisecting the edges (ab, bc, ca) that have a midpoint; neighbours stay conforming."""
    count = (middles >= 0).sum(axis=1)
    # Turned so that with one midpoint it is on ab, with two they are on ab and bc.
    first = np.where(count == 1, np.argmax(middles >= 0, axis=1), (np.argmin(middles >= 0, axis=1) + 1) % 3)
    turn = (first[:, None] + np.arange(3)) % 3
    a, b, c = np.take_along_axis(triangles, turn, axis=1).T
    ab, bc, ca = np.take_along_axis(middles, turn, axis=1).T
    pieces = {
        0: [(a, b, c)],
        1: [(a, ab, c), (ab, b, c)],
        2: [(ab, b, bc), (a, ab, bc), (a, bc, c)],
        3: [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)],
    }
    parts = [np.stack(piece, axis=1)[count == n] for n, several in pieces.items() for piece in several]
    return np.concatenate(parts)
