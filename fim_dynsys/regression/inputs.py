"""Inputs between their samples: cubics by which integrations follow them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fim_dynsys.trajectories.holding import Hold

_FEW = 8  # samples
_HELD = 0.5  # of the gaps between samples: an input that stays exactly the same in so many has plateaus
_DIRECT = 0.8  # of its changes that lead from one plateau to the next at once: it jumps
_FEW_LEVELS = 3  # different values, and each four times in the mean: a switch
_SUDDEN = 8.0  # times the change in the gaps beside it, and in most gaps: noise alone reaches half of that
_CLOSE = 0.2  # of the usual gap
_ROUNDING = 1e-9  # of scaled inputs, by which a curve through samples may miss them
_PLAIN, _DOUBTFUL = 8.0, 6.0
"""Times by which polynomials from both sides of a jump miss more than elsewhere: it is plain, or may be one.

Of 7800 inputs of 13 kinds with noise of 0, 2 and 10 %, 13 pass the former, most of which rise within a gap.
Decays with noise of 10 % come to the latter at least.
"""
_DEGREES = (1, 2, 3)  # of these
_FEWEST = 3  # samples on each side: a line and one that it predicts
_LARGE = 0.1  # standard deviations that each side misses, over what noise makes of it: less matters little
_OTHERS = 4.0  # times the usual change from one sample to the next
_STAYS = 0.25  # of a jump that is left one sample later, and was there one before: else it is an outlier
_WIDE = 2.0  # usual gaps: in longer ones smooth inputs go far, too
_AT_ONCE = 1e-4  # of the usual gap: samples so near are the two sides of a jump
_SHOWN = 1e-3  # standard deviations: an input that changes less where others jump is smooth there
_SPLINED = 4  # samples: shorter pieces are lines
_UNPREDICTED = 0.7  # of its standard deviation by which neighbours miss a sample: no curve goes through these


class Inputs(NamedTuple):
    """Inputs at the samples of several records."""

    values: Sequence[np.ndarray]  # (n, m) each
    hold: Hold = Hold.AUTO


class Curves(NamedTuple):
    """Inputs between their samples."""

    cubics: np.ndarray  # (n - 1, 4, m) coefficients of powers of the fraction of each interval gone by
    error: np.ndarray  # (m,) by how much they may be off, root mean square
    hold: tuple[Hold, ...]  # (m,) what was taken for each of them
    sure: np.ndarray  # (m,) bool: given, or plain to see


def curves(t: np.ndarray, u: np.ndarray, hold: Hold = Hold.AUTO) -> Curves:
    """Interpolation of values (n, m) at increasing times (n,).

    Smooth inputs follow a cubic spline, or Akima's cubics where these predict every second sample better from
    the others; lines where there are fewer than eight samples. The error is that at the samples left out,
    times 2^-3 for the wider gaps. Inputs that are held, or go along lines, have no error.

    ``Hold.AUTO`` takes as held what has two or three values, or jumps from plateau to plateau; as lines what
    has plateaus with ramps between them; as pieces what jumps plainly and is smooth elsewhere, see `breaks`.
    Each piece has a curve of its own, and goes on to the sample of the next jump. It is not sure where
    neighbours tell nothing of a sample, or where an input changes suddenly that is smooth elsewhere.

    References
    ----------
    H. Akima, A new method of interpolation and smooth curve fitting based on local procedures, J. ACM 17
    (1970) 589.
    """
    n_inputs = u.shape[1]
    rise = np.diff(u, axis=0)
    nothing = np.zeros_like(rise)
    held = np.stack([u[:-1], nothing, nothing, nothing], axis=1)
    lines = np.stack([u[:-1], rise, nothing, nothing], axis=1)
    if hold in (Hold.PREVIOUS, Hold.LINEAR) or not n_inputs:
        chosen = held if hold == Hold.PREVIOUS else lines
        return Curves(chosen, np.zeros(n_inputs), (hold,) * n_inputs, np.ones(n_inputs, dtype=bool))
    kinds, missed = zip(*(_kind(t, column, hold) for column in u.T), strict=True)
    found, error, sure = lines, np.zeros(n_inputs), np.ones(n_inputs, dtype=bool)
    smooth = np.array([kind in (Hold.SMOOTH, Hold.PIECES) for kind in kinds])
    if len(t) >= _FEW and smooth.any():
        whole = np.array([kind == Hold.SMOOTH for kind in kinds])
        if whole.any():
            found, error = _splines(t, u)
        found, error = np.where(whole, found, lines), np.where(whole, error, 0.0)
        broken, doubtful = np.zeros(u.shape, dtype=bool), np.zeros(n_inputs, dtype=bool)
        for k, (kind, times) in enumerate(zip(kinds, missed, strict=True)):
            if kind == Hold.PIECES:
                broken[:, k] = breaks(t, u[:, k], times)
                found[:, :, k], error[k] = _in_pieces(t, u[:, k], broken[:, k])
            elif times is not None:
                doubtful[k] = (times > _DOUBTFUL).any()
        # nothing predicts its samples: it may as well be held, or go along lines
        predicted = 8.0 * error <= _UNPREDICTED * np.std(u, axis=0)
        sure = ~smooth | (hold != Hold.AUTO) | (predicted & ~_leaps(t, u, broken) & ~doubtful)
        jumping = broken & (np.abs(np.diff(u, axis=0, prepend=u[:1])) > _SHOWN * np.std(u, axis=0))
        pairs = zip(kinds, jumping.any(axis=0), strict=True)
        kinds = tuple(Hold.SMOOTH if kind == Hold.PIECES and not any_ else kind for kind, any_ in pairs)
    found = np.where([kind == Hold.PREVIOUS for kind in kinds], held, found)
    return Curves(np.ascontiguousarray(found), error, kinds, sure)


def kinks(t: np.ndarray, u: np.ndarray, hold: Hold = Hold.AUTO) -> np.ndarray:
    """Samples (n,) at which inputs (n, m) jump, and rates of states with them."""
    found = np.zeros(len(t), dtype=bool)
    for values, kind in zip(u.T, held_as(t, u, hold), strict=True):
        if kind == Hold.PREVIOUS:
            found |= np.diff(values, prepend=values[:1]) != 0.0
        elif kind == Hold.PIECES:
            found |= breaks(t, values)
    return found


def jumps(cubics: np.ndarray) -> np.ndarray:
    """Samples (n,) at which cubics (n - 1, 4, m) between them jump."""
    ends, begins = cubics.sum(axis=1)[:-1], cubics[1:, 0]
    apart = np.abs(ends - begins) > _ROUNDING * (1.0 + np.abs(begins))
    return np.pad(apart.any(axis=1), 1)


def held_as(t: np.ndarray, u: np.ndarray, hold: Hold) -> tuple[Hold, ...]:
    """What each of the inputs (n, m) does between its samples, recognised where that is left open."""
    return tuple(_kind(t, column, hold)[0] for column in u.T)


def _splines(t: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cubics (n - 1, 4, m) through samples and errors (m,), by the better of two interpolations for each."""
    from scipy.interpolate import Akima1DInterpolator, CubicSpline  # deferred: fits without inputs need none

    kinds = (CubicSpline, Akima1DInterpolator)
    missed = np.stack([u[1:-1:2] - kind(t[::2], u[::2])(t[1:-1:2]) for kind in kinds])
    errors = np.sqrt(np.nanmean(missed**2, axis=1))
    gaps = np.diff(t)[:, None, None]
    found = [kind(t, u).c.transpose(1, 0, 2)[:, ::-1] * gaps ** np.arange(4)[:, None] for kind in kinds]
    return np.where(errors[1] < errors[0], found[1], found[0]), errors.min(axis=0) / 8.0


def _kind(t: np.ndarray, u: np.ndarray, hold: Hold) -> tuple[Hold, np.ndarray | None]:
    """As `_recognised`, of one input (n,) under a hold; pieces may be constant, as those of a switch."""
    if hold == Hold.AUTO:
        return _recognised(t, u)
    constant = hold == Hold.PIECES and _recognised(t, u)[0] == Hold.PREVIOUS
    return (Hold.PREVIOUS if constant else hold), None


def _recognised(t: np.ndarray, u: np.ndarray) -> tuple[Hold, np.ndarray | None]:
    """What one input (n,) does between its samples, and `_missed_by_both` where that was asked."""
    change = np.diff(u) != 0.0
    if len(u) < 3 or not change.any():
        return Hold.SMOOTH, None
    if len(np.unique(u)) <= min(_FEW_LEVELS, len(u) // 4):
        return Hold.PREVIOUS, None
    if np.mean(~change) < _HELD:
        missed = _missed_by_both(t, u)
        return (Hold.PIECES if (missed > _PLAIN).any() else Hold.SMOOTH), missed
    inner = np.flatnonzero(change[1:-1]) + 1
    direct = ~change[inner - 1] & ~change[inner + 1]
    return (Hold.PREVIOUS if not len(inner) or direct.mean() >= _DIRECT else Hold.LINEAR), None


def _leaps(t: np.ndarray, u: np.ndarray, broken: np.ndarray) -> np.ndarray:
    """Whether each input (n, m) changes somewhere by far more than just before, just after and mostly.

    A step between two samples close to each other is known well enough, and so is one to a break.
    """
    gaps = np.diff(t)[:, None]
    speed = np.abs(np.diff(u, axis=0)) / gaps
    usual = np.maximum(np.maximum(speed[:-2], speed[2:]), np.median(speed, axis=0))
    wide = (gaps[1:-1] > _CLOSE * np.median(gaps)) & ~broken[2:-1]
    return (wide & (speed[1:-1] > _SUDDEN * usual)).any(axis=0)


def breaks(t: np.ndarray, u: np.ndarray, missed: np.ndarray | None = None) -> np.ndarray:
    """Samples (n,) to which one input (n,) of pieces jumps; and those that follow another at once.

    Polynomials through the samples before a jump miss the one behind it by far more than they miss others,
    and polynomials through those behind miss the one before it; ``missed`` is `_missed_by_both` where known.
    """
    if len(t) < _FEW:
        return np.zeros(len(t), dtype=bool)
    missed = _missed_by_both(t, u) if missed is None else missed
    gaps = np.diff(t)
    at_once = np.append(False, gaps < _AT_ONCE * np.median(gaps))
    return at_once | (missed > _DOUBTFUL)


def _missed_by_both(t: np.ndarray, u: np.ndarray) -> np.ndarray:
    """How many times more (n,) than elsewhere both sides of the gap before each sample miss the other side.

    Of polynomials of the first to the third degree it is the best of each side: noise is for low ones, fast
    decay for high ones. Zero where that is no jump: where both sides meet within the gap, as at a kink;
    where the next sample is back, as behind an outlier; where other changes are as large, as those of rounded
    values; and for jumps that are small, or in a wide gap.
    """
    rise, gaps, found = np.diff(u), np.diff(t), np.zeros(len(t))
    step, changing = np.abs(rise), rise != 0.0
    if len(t) < _FEW:
        return found
    usual, least = np.median(step[changing]) if changing.any() else np.inf, _LARGE * np.std(u)
    places = np.flatnonzero((step > _OTHERS * usual) & (gaps <= _WIDE * np.median(gaps))) + 1
    places = places[(places >= _FEWEST) & (places <= len(t) - _FEWEST)]
    stays = [np.sign(rise[places - 1]) * (u[places + k] - u[places + k - 2]) for k in (0, 1)]
    places = places[(np.minimum(*stays) > _STAYS * step[places - 1])]
    if not len(places):
        return found
    sides = []
    for times, values, to in ((t, u, places), (-t[::-1], u[::-1], len(t) - places)):
        ratio, missed = np.zeros(len(places)), np.zeros(len(places))
        for degree in _DEGREES:
            off = np.divide(*_missed(times, values, degree))
            size = np.abs(off)
            beside = np.fmax(np.fmax(size[to - 1], size[to - 2]), np.nanmedian(size))
            own = np.nan_to_num(size[to] / np.maximum(beside, _ROUNDING * np.std(u)))
            own[np.isnan(size[to - 1])] = 0.0
            missed, ratio = np.where(own > ratio, off[to], missed), np.maximum(own, ratio)
        sides.append((ratio, missed))
    (before, missed_before), (behind, missed_behind) = sides
    large = np.minimum(np.abs(missed_before), np.abs(missed_behind)) > least
    found[places] = np.where(large & (missed_before * missed_behind < 0.0), np.minimum(before, behind), 0.0)
    return found


def _missed(t: np.ndarray, u: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """By how much (n,) polynomials through the samples before each one miss it, and noise of variance 1 does.

    NaN for the first samples.
    """
    rows = np.arange(degree + 1, len(t))
    before = [rows - k for k in range(1, degree + 2)]
    predicted, noise = np.zeros(len(rows)), np.ones(len(rows))
    for one in before:
        others = [other for other in before if other is not one]
        weight = np.prod([(t[rows] - t[other]) / (t[one] - t[other]) for other in others], axis=0)
        predicted, noise = predicted + weight * u[one], noise + weight**2
    first = np.full(degree + 1, np.nan)
    return np.append(first, u[rows] - predicted), np.append(first, np.sqrt(noise))


def _in_pieces(t: np.ndarray, u: np.ndarray, broken: np.ndarray) -> tuple[np.ndarray, float]:
    """Cubics (n - 1, 4) of one input (n,) that jumps to some samples (n,), and its error.

    Each piece has its own spline, and goes on to the next jump by the polynomial through its last samples
    whose degree predicts samples best.
    """
    cubics = np.stack([u[:-1], np.diff(u), *np.zeros((2, len(u) - 1))], axis=1)
    squares, weight, degree = 0.0, 0, _degree(t, u, broken)
    for rows in np.split(np.arange(len(t)), np.flatnonzero(broken)):
        if len(rows) >= _SPLINED:
            found, error = _splines(t[rows], u[rows, None])
            cubics[rows[:-1]] = found[:, :, 0]
            squares, weight = squares + len(rows) * float(error[0]) ** 2, weight + len(rows)
        last = rows[-1] if len(rows) else 0
        if len(rows) and last + 1 < len(t):
            used = rows[-degree - 1 :]
            span = t[last] - t[used[0]] if len(used) > 1 else 1.0
            powers = np.arange(len(used))
            ahead = np.linalg.solve(((t[used] - t[last]) / span)[:, None] ** powers, u[used])
            cubics[last] = np.pad(ahead * ((t[last + 1] - t[last]) / span) ** powers, (0, 4 - len(used)))
    return cubics, float(np.sqrt(squares / max(weight, 1)))


def _degree(t: np.ndarray, u: np.ndarray, broken: np.ndarray) -> int:
    """That of the polynomials which predict samples of one input best from those before them."""
    piece, errors = np.cumsum(broken), []
    for degree in _DEGREES:
        missed, _ = _missed(t, u, degree)
        within = missed[degree + 1 :][piece[degree + 1 :] == piece[: -degree - 1]]
        errors.append(np.mean(within**2) if len(within) else np.inf)
    return _DEGREES[int(np.argmin(errors))]


def at(curves: np.ndarray, fraction: float | np.ndarray) -> np.ndarray:
    """Values (n, m) of cubics (n, 4, m) at fractions () or (n,) of their intervals."""
    s = np.asarray(fraction, dtype=np.float64)[..., None]
    return curves[:, 0] + s * (curves[:, 1] + s * (curves[:, 2] + s * curves[:, 3]))


def divided(curves: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """The same curves over equal parts of their intervals, ``parts`` (n,) of each: array (sum, 4, m)."""
    width = np.repeat(1.0 / parts, parts)[:, None]
    first = np.concatenate([[0], np.cumsum(parts)[:-1]])
    s = (np.arange(int(parts.sum())) - np.repeat(first, parts))[:, None] * width
    whole = np.repeat(curves, parts, axis=0)
    slope = whole[:, 1] + s * (2.0 * whole[:, 2] + 3.0 * s * whole[:, 3])
    bend = whole[:, 2] + 3.0 * s * whole[:, 3]
    value = whole[:, 0] + s * (whole[:, 1] + s * (whole[:, 2] + s * whole[:, 3]))
    return np.stack([value, slope * width, bend * width**2, whole[:, 3] * width**3], axis=1)
