"""Lengths on which fields vary, where neither data nor a region say, and families differenced with them."""

from collections.abc import Callable, Sequence

import numpy as np

from fim_dynsys.analyze.results import has_exact_jacobian, with_steps
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.family import FieldFamily, differenced
from fim_dynsys.fields.frame import Scales
from fim_dynsys.regions import Region

_SHARES = 10.0 ** np.arange(-15.0, 12.5, 0.5)  # of the sizes looked at: from rounding to galaxies in metres
_WAYS = 4  # in which states are moved: a single one may miss terms that cancel
_BENT = 0.3  # nonlinear part of a change, of its linear one: at the length of squares, cubes and sines
_SMOOTH = 4  # shares, two decades, over which a rate is linear first: else rounding or a kink bends it
_FITS = 10.0  # up to such a factor a length is as good as another: steps of fourth order are off by 1e-8
_FINEST = 1e-3  # of a region: with shorter steps rounding outweighs what they gain
_ZERO = 1e-12  # of the largest state: a smaller one is 0
# Of the largest state: one that starts near zero need not stay so small; unless units differ by more.
_LEAST = (0.1, 0.0)
_MOST_STARTS = 3  # at which a family is looked at: its scale is the median
_OF_RANGE = 0.03  # of the range of a parameter: its steps resolve a thirtieth of it to 1e-13


def family_lengths(
    family: FieldFamily, values: Sequence[float], starts: np.ndarray, region: Region | None
) -> np.ndarray:
    """Lengths (d,) on which a family varies, to which steps of differences are relative.

    Those it knows, else those of a region, less where the family bends within a tenth of them. Without both
    they are the sizes of the starts, at least one, where the family bends at about these, and else where it
    bends. A state that starts at 0 is as large as where the family bends along it, else as the largest one.
    In a linear family any lengths will do.

    Parameters
    ----------
    family : FieldFamily
        A smooth one.
    values : sequence of float
        Of its parameter.
    starts : ndarray (k, d)
        States near which it is used.
    region : Region or None
        Box in which it is used.
    """
    if family.scales is not None:
        return family.scales.length
    fields = [family.at(p) for p in values]

    def share(sizes: np.ndarray) -> float:
        found = [_bends_at(field, x, sizes) for field in fields for x in starts[:_MOST_STARTS]]
        known = [value for value in found if np.isfinite(value)]
        return float(np.median(known)) if known else np.nan

    if region is not None:
        deviation = region.size / np.sqrt(12.0)
        bends = share(deviation)
        return deviation * max(bends, _FINEST) if bends < 1.0 / _FITS else deviation
    largest = np.abs(starts).max(axis=0)
    for axis in np.flatnonzero((largest <= _ZERO * largest.max()) & largest.any()):
        along = largest.max() * np.eye(len(largest))[axis]
        bends = share(along)
        largest[axis] = largest.max() * (bends if np.isfinite(bends) else 1.0)
    usual = np.maximum(1.0, largest)
    bends = share(usual)
    if _suits(bends):
        return usual
    own = [np.maximum(largest, least * largest.max()) for least in _LEAST]
    tried = [(bends, usual), *((share(sizes), sizes) for sizes in own if sizes.any())]
    known = [pair for pair in tried if np.isfinite(pair[0])]
    bends, sizes = min(known, key=lambda pair: abs(np.log(pair[0])))
    return bends * sizes


def _suits(share: float) -> bool:
    return not np.isfinite(share) or 1.0 / _FITS <= share <= _FITS


def _bends_at(field: VectorField, x: np.ndarray, sizes: np.ndarray) -> float:
    """Multiple of the sizes at which a rate first bends that is linear on shorter ways; NaN where none does.

    It needs no unit: in others, the lengths are the same.
    """
    ways = np.cos(np.outer(np.arange(1, _WAYS + 1), np.arange(1, len(x) + 1)))
    ways /= np.abs(ways).max(axis=1, keepdims=True)
    moves = _SHARES[:, None, None] * ways * sizes
    try:
        here, ahead, behind, far, back = field(x + np.multiply.outer([0.0, 1.0, -1.0, 2.0, -2.0], moves))
    except Exception:  # functions raise whatever they run into at states that they are not made for
        return np.nan
    with np.errstate(all="ignore"):
        even, odd = ahead + behind - 2.0 * here, (far - back) / 2.0 - (ahead - behind)
        bend = np.maximum(abs(even), abs(odd)).max(axis=1) / abs(ahead - behind).max(axis=1)
        bend[~np.isfinite(ahead + behind + far + back).all(axis=1)] = np.inf  # an edge of the domain
    straight = np.all(np.lib.stride_tricks.sliding_window_view(bend < _BENT, _SMOOTH, axis=0), axis=-1)
    begins = straight[:-1] & (bend[_SMOOTH:] >= _BENT)
    return float(_SHARES[int(begins.any(axis=1).argmax()) + _SMOOTH]) if begins.any() else np.nan


def sized(field: VectorField, lengths: np.ndarray) -> VectorField:
    """The field, differenced with steps relative to lengths (d,) where it is, and knows no others."""
    return with_steps(field, Scales(lengths, lengths, 1.0))


def with_lengths(field: VectorField, lengths: np.ndarray) -> VectorField:
    """The field, differenced with steps relative to lengths (d,), also where it knows others or derivatives.

    A Jacobian that is exact stays so.
    """
    jac = field.jacobian if has_exact_jacobian(field) else None
    scales = Scales(lengths, lengths, 1.0)
    return CallableField(field, field.dim, jac, state_names=field.state_names, scales=scales)


class SizedFamily(FieldFamily):
    """A family whose derivatives are taken from changed fields.

    Parameters
    ----------
    family : FieldFamily
        The family.
    change : callable
        ``change(field) -> VectorField``, the same field, differenced in another way.
    width : float
        Range of the parameter.
    """

    def __init__(
        self, family: FieldFamily, change: Callable[[VectorField], VectorField], width: float
    ) -> None:
        super().__init__(family.dim, family.parameter, state_names=family.state_names, scales=family.scales)
        self._family, self._change, self._width = family, change, width

    def _at(self, p: float) -> VectorField:
        return self._change(self._family.at(p))

    def _dp(self, x: np.ndarray, p: float) -> np.ndarray:
        if self._family.knows_dp:
            return self._family.dp(x, p)
        return differenced(lambda p: self._family(x, p), p, _OF_RANGE * self._width)
