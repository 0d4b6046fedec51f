"""Multipliers of periodic orbits of fields that jump: by neighbours that cross the jump as the orbit does."""

import numpy as np

from fim_dynsys.analyze.cycles.shooting import Floquet, lengths_of
from fim_dynsys.analyze.jumps import Discontinuity, discontinuities
from fim_dynsys.analyze.tangent import carry_by_neighbours
from fim_dynsys.fields.base import VectorField

_RESTS = 1e-7  # of its size, by which a state moves in a turn: less is rounding
_CHORD = 16  # samples of an orbit from end to end of the lines on which jumps are looked for


def jumps_along(field: VectorField, orbit: np.ndarray) -> list[Discontinuity]:
    """Places near an orbit (k, d), given at equal times, at which the field jumps."""
    speed = np.sqrt(np.mean(field(orbit) ** 2, axis=0))
    extent, size = np.ptp(orbit, axis=0), np.abs(orbit).max(axis=0)
    moves = extent > _RESTS * size
    rate = float(np.max(speed[moves] / extent[moves], initial=0.0))
    speed = np.maximum(speed, _RESTS * rate * size)
    speed = np.where(speed > 0, speed, 1.0)
    return discontinuities(field, orbit[:-_CHORD:_CHORD], orbit[_CHORD::_CHORD], speed)


def floquet_across(field: VectorField, orbit: np.ndarray, period: float) -> Floquet:
    """Multipliers of an orbit that contain the jumps of the field on the way.

    Parameters
    ----------
    field : VectorField
        The field.
    orbit : ndarray (k, d)
        States of the orbit.
    period : float
        Its period.

    Returns
    -------
    Floquet
        NaN where neighbours cannot be followed; the divergence along the orbit says nothing of jumps, so that
        there is no error against it.

    References
    ----------
    R. I. Leine, H. Nijmeijer, Dynamics and Bifurcations of Non-Smooth Mechanical Systems, Springer 2004,
    section 7.1 (saltation matrix).
    """
    length = lengths_of(orbit, np.ones(field.dim))
    end = carry_by_neighbours(field, orbit[:1], np.eye(field.dim)[None], period, length)
    values = np.full(field.dim, np.nan + 0j)
    if not end.failed[0] and np.isfinite(end.vectors).all():
        values = np.linalg.eigvals(end.vectors[0]).astype(complex)
    trivial = int(np.argmin(np.abs(values - 1.0)))
    others = np.delete(values, trivial)
    others = others[np.argsort(-np.abs(others))]
    with np.errstate(divide="ignore"):
        logs = np.log(np.abs(others))
    multipliers = np.concatenate([values[[trivial]], others])
    return Floquet(multipliers, np.concatenate([[0.0], logs]), float(np.abs(values[trivial] - 1.0)), np.nan)
