"""Curves that cross: lines drawn by signs bend away from a crossing, these go through it."""

from collections.abc import Mapping, Sequence

import numpy as np

Crossing = tuple[np.ndarray, np.ndarray]
"""Where m lines cross, (2,), and the rays (2 m, 2) along which they leave: 0 and 1 opposite, 2 and 3, ..."""

_End = tuple[int, bool]  # which piece, and whether its last point or its first

# Within so many cells of a crossing lines are replaced by straight ones through it.
_CLEARANCE = 2.5
_OPPOSITE = 0.2  # radians by which opposite rays may differ from a straight line, two cells away


def turns(line: np.ndarray) -> np.ndarray:
    """Angle (m,) between the segments before and after each point of a line (m, 2); 0 at open ends."""
    steps = np.diff(line, axis=0)
    angle = np.arctan2(steps[:, 1], steps[:, 0])
    turn = np.abs((np.diff(angle, prepend=angle[-1:], append=angle[:1]) + np.pi) % (2 * np.pi) - np.pi)
    if not np.array_equal(line[0], line[-1]):
        turn[[0, -1]] = 0.0
    return turn


def asymptotes(h: np.ndarray) -> np.ndarray:
    """The four rays (4, 2), opposite ones in turn, along which a saddle's quadratic form h vanishes."""
    (low, high), axes = np.linalg.eigh(h)
    u = axes @ [np.sqrt(high), np.sqrt(-low)]
    w = axes @ [np.sqrt(high), -np.sqrt(-low)]
    rays = np.array([u, -u, w, -w])
    return rays / np.linalg.norm(rays, axis=1, keepdims=True)


def rays_by_signs(values: np.ndarray, angles: np.ndarray) -> np.ndarray | None:
    """Rays (2 m, 2), opposite ones in turn, at which a function changes sign round a point.

    Parameters
    ----------
    values : ndarray (n,)
        On a circle round the point, at equal angles.
    angles : ndarray (n,)
        These.

    Returns
    -------
    ndarray or None
        None where the rays are not opposite in pairs.
    """
    at = np.flatnonzero(values * np.roll(values, -1) < 0)
    ahead = np.roll(values, -1)[at]
    found = angles[at] + (angles[1] - angles[0]) * values[at] / (values[at] - ahead)
    m = len(found) // 2
    if m < 2 or len(found) % 2 or np.abs(found[m:] - found[:m] - np.pi).max() > _OPPOSITE:
        return None
    rays = np.column_stack([np.cos(found), np.sin(found)])
    return np.stack([rays[:m], rays[m:]], axis=1).reshape(-1, 2)


def untangled(lines: Sequence[np.ndarray], crossings: Sequence[Crossing]) -> Sequence[np.ndarray]:
    """Lines that go straight on at crossings.

    Parameters
    ----------
    lines : list of ndarray (m, 2)
        Drawn by signs alone; closed ones repeat their first point. In cells.
    crossings : list of (ndarray (2,), ndarray (2 m, 2))
        Points and rays; 0 and 1 are opposite, 2 and 3, and so on.

    Returns
    -------
    list of ndarray (m, 2)
    """
    if not crossings:
        return lines
    points = np.array([point for point, _ in crossings])
    gaps = np.linalg.norm(points[:, None] - points, axis=2) + np.diag(np.full(len(points), np.inf))
    # The more lines cross, the longer they stay close to each other.
    clearance = _CLEARANCE * np.array([len(rays) / 4 for _, rays in crossings])
    radius = np.minimum(clearance, 0.4 * gaps.min(axis=1))
    pieces: list[np.ndarray] = []
    open_ends: dict[tuple[int, int], _End] = {}
    for line in lines:
        for piece, before, after in _outside(line, points, radius):
            for last, crossing in ((False, before), (True, after)):
                if crossing is not None:
                    out = piece[-1 if last else 0] - points[crossing]
                    ray = int(np.argmax(crossings[crossing][1] @ out))
                    open_ends.setdefault((crossing, ray), (len(pieces), last))
            pieces.append(piece)
    return _chained(pieces, open_ends, points)


def _outside(
    line: np.ndarray, points: np.ndarray, radius: np.ndarray
) -> list[tuple[np.ndarray, int | None, int | None]]:
    """Parts of a line outside all discs, each with the discs (or None) that it comes from and goes to."""
    distance = np.linalg.norm(line[:, None] - points, axis=2) / radius
    disc = np.where(distance.min(axis=1) < 1, distance.argmin(axis=1), -1)
    if (disc < 0).all():
        return [(line, None, None)]
    if np.array_equal(line[0], line[-1]):
        first = int(np.argmax(disc >= 0))  # a closed line is opened in a disc
        order = np.concatenate([np.arange(first, len(line) - 1), np.arange(first + 1)])
        line, disc = line[order], disc[order]
    parts = []
    for run in np.split(np.arange(len(line)), np.flatnonzero(np.diff(disc)) + 1):
        if disc[run[0]] < 0:
            before = int(disc[run[0] - 1]) if run[0] > 0 else None
            after = int(disc[run[-1] + 1]) if run[-1] + 1 < len(line) else None
            parts.append((line[run], before, after))
    return parts


def _chained(
    pieces: Sequence[np.ndarray], open_ends: Mapping[tuple[int, int], _End], points: np.ndarray
) -> list[np.ndarray]:
    """Pieces connected through the crossings, from the ray that each ends on to the opposite one."""
    through = {
        end: (open_ends.get((crossing, ray ^ 1)), points[crossing])
        for (crossing, ray), end in open_ends.items()
    }
    unused, lines = set(range(len(pieces))), []
    free = [
        (i, last)
        for i in range(len(pieces))
        for last in (False, True)
        if through.get((i, last), (None, None))[0] is None
    ]
    for start in [*free, *((i, False) for i in range(len(pieces)))]:
        if start[0] not in unused:
            continue
        begins_here = start in through and through[start][0] is None
        parts = [through[start][1][None]] if begins_here else []
        end: _End | None = start
        while end is not None and end[0] in unused:
            i, last = end
            unused.remove(i)
            parts.append(pieces[i][::-1] if last else pieces[i])
            end, crossing = through.get((i, not last), (None, None))
            parts += [] if crossing is None else [crossing[None]]
        line = np.concatenate(parts)
        # a ring of pieces comes back to its start
        lines.append(np.concatenate([line, line[:1]]) if end is not None and end == start else line)
    return lines
