"""Samples that noise does not explain: found beside their neighbours, and about a fitted path."""

from collections.abc import Iterable, Sequence

import numpy as np

from fim_dynsys.regression.criteria import NORMAL, autocorrelation, pseudo_residuals
from fim_dynsys.threads import on_one_thread
from fim_dynsys.trajectories.container import Trajectories

_FEWEST = 20  # samples of a trajectory, from which scales are known
_CERTAIN, _SEVERAL, _FAR = 7.0, 4.5, 4.0  # deviations: of one alone, of two, of more where there are any
_LEAST = 1e-3  # of the spread of a state: deviations are not taken to be smaller
_BESIDE = 0.5  # of an outlier's deviation, at most so much is left beside it without it
_PAST = 0.2  # of its deviation, an outlier is at least so far past both of its neighbours
_JUMP, _LASTS = 2.0, 0.3  # times the changes beside it, and of how far it bends: a change that is a jump
_MOST = 0.15  # of the samples: what is more frequent is no outlier
_SHARES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.001)  # of constant variance, as in a noise model
_INTERPOLATION = (0.0, 0.3, 3.0, 30.0)  # what cubics miss, likewise, where gaps differ
_ABOUT = 5.5  # deviations from a path
_EXPLAINED = 0.3  # of the signal: paths that miss more in most samples tell nothing
_ALIKE, _BOUND = 0.5, 3.0  # autocorrelation of residuals of one piece, each at most so many deviations
_REMOVALS = 10  # of removal and refit, as each may uncover others


@on_one_thread
def without_outliers(trajectories: Trajectories) -> Trajectories:
    """The samples that are no outliers beside their neighbours; the same object where all are none.

    A sample is one where it is far from the cubic through its four neighbours, in robust standard deviations,
    past both of its neighbours, and those are near cubics through theirs once it is left out, while no state
    jumps from one of them to the other: so an isolated error is distinguished from a fast motion. The first
    and last two samples are never left out.

    Parameters
    ----------
    trajectories : Trajectories
        Samples with a missing state are left out, too.

    Returns
    -------
    Trajectories

    Warns
    -----
    DataWarning
        Where samples have a missing state.

    See Also
    --------
    add_outliers : Makes some.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> t = np.linspace(0, 5, 50)
    >>> data = fim_dynsys.Trajectories.from_arrays(3.0 * np.exp(-0.5 * t), t)
    >>> noisy = fim_dynsys.add_noise(data, 0.01, rng=0)
    >>> x = noisy.x[0].copy()
    >>> x[20] = 9.0
    >>> kept = fim_dynsys.without_outliers(fim_dynsys.Trajectories.from_arrays(x, t))
    >>> bool(kept.n_obs[0] < 50)
    True
    """
    trajectories = trajectories.drop_incomplete("without_outliers")
    outliers = beside(trajectories.arrays())
    if not any(rows.any() for rows in outliers):
        return trajectories
    return trajectories.select_samples([np.flatnonzero(~rows) for rows in outliers])


def beside(samples: Iterable[tuple[np.ndarray, np.ndarray]]) -> list[np.ndarray]:
    """Which samples are outliers beside their neighbours, see `without_outliers`.

    Parameters
    ----------
    samples : iterable of (t (n,), x (n, d))
        Of each trajectory.

    Returns
    -------
    list of bool arrays (n,)
    """
    return [~_kept(t, x) for t, x in samples]


def beyond(
    samples: Sequence[np.ndarray], paths: Sequence[np.ndarray], suspected: Sequence[np.ndarray]
) -> list[np.ndarray] | None:
    """Which samples are outliers about fitted paths, in robust standard deviations.

    Where what the paths miss is of one piece, they miss fast motions rather than errors: then only samples
    that are far from their neighbours, too, are outliers.

    Parameters
    ----------
    samples, paths : lists of arrays (n, d)
        Of each trajectory.
    suspected : list of bool arrays (n,)
        Of each trajectory, from `beside`.

    Returns
    -------
    list of bool arrays (n,), or None
        The first sample of a trajectory, from which its path starts, is none. None where the paths do not
        explain the others.
    """
    x, path = np.concatenate(list(samples)), np.concatenate(list(paths))
    residuals = x - path
    typical = NORMAL * np.median(np.abs(residuals), axis=0)
    if not np.isfinite(path).all() or (typical > _EXPLAINED * np.std(path, axis=0)).any():
        return None
    square = path**2 / np.maximum(np.mean(path**2, axis=0), 1e-300)
    z = _standardised(residuals, square, np.zeros(len(path)), _least(path))
    far = (np.abs(z) > _ABOUT).any(axis=1)
    if np.mean(far) > _MOST:
        return None
    ends = np.cumsum([len(piece) for piece in samples])[:-1]
    if any(_of_one_piece(piece) for piece in np.split(z, ends)):
        far &= np.concatenate(list(suspected))
    parts = np.split(far, ends)
    for part in parts:
        part[0] = False
    return parts


def _of_one_piece(z: np.ndarray) -> bool:
    """Whether neighbours among residuals (n, d) in standard deviations are alike, in any state."""
    return len(z) >= _FEWEST and bool((autocorrelation(np.clip(z, -_BOUND, _BOUND)) > _ALIKE).any())


def _kept(t: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Which samples (n,) of one trajectory are no outliers."""
    n = len(t)
    kept = np.ones(n, dtype=bool)
    if n < _FEWEST:
        return kept
    z = _beside(t, x)
    peaks = _peaks(t, x, z, _SEVERAL)
    if not (len(peaks) > 1 or any(np.abs(z[i]).max() > _CERTAIN for i in peaks)):
        return kept
    for _ in range(_REMOVALS):
        left = np.flatnonzero(kept)
        z = _beside(t[left], x[left])
        peaks = _peaks(t[left], x[left], z, _FAR)
        if not peaks:
            break
        kept[left[peaks]] = False
        if np.mean(~kept) > _MOST:
            return np.ones(n, dtype=bool)
    return kept


def _beside(t: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Pseudo-residuals (n, d) in robust standard deviations; 0 for the first and last two samples."""
    residuals, errors = pseudo_residuals(t, x)
    weights = np.array([1.0, 16.0, 36.0, 16.0, 1.0]) / 70.0  # of five samples in the variance of a residual
    square = sum(w * x[k : len(x) - 4 + k] ** 2 for k, w in enumerate(weights))
    z = np.zeros(x.shape)
    rms = np.maximum(np.mean(x**2, axis=0), 1e-300)
    z[2:-2] = _standardised(residuals, square / rms, errors**2 / np.mean(errors**2), _least(x))
    return z


def _standardised(
    residuals: np.ndarray, square: np.ndarray, errors: np.ndarray, least: np.ndarray
) -> np.ndarray:
    """Residuals (n, d) in robust standard deviations, by the likeliest of Student's distributions.

    Variances are constant, in proportion to ``square`` (n, d) and to ``errors`` (n,), each about 1;
    deviations are at least ``least`` (d,).
    """
    best, lowest = residuals, np.full(residuals.shape[1], np.inf)
    for share in _SHARES:
        for interpolation in _INTERPOLATION:
            relative = np.sqrt(share + (1.0 - share) * square + interpolation * errors[:, None])
            scaled = residuals / relative
            level = np.maximum(NORMAL * np.median(np.abs(scaled), axis=0), least)
            z = scaled / level
            deviance = np.log(level) + np.mean(np.log(relative) + 2.5 * np.log1p(z**2 / 4.0), axis=0)
            best = np.where(deviance < lowest, z, best)
            lowest = np.minimum(deviance, lowest)
    return best


def _least(x: np.ndarray) -> np.ndarray:
    return np.maximum(_LEAST * np.std(x, axis=0), 1e-300)


def _peaks(t: np.ndarray, x: np.ndarray, z: np.ndarray, far: float) -> list[int]:
    """Samples farther than all within two of them that are isolated errors, beside which no state has jumped.

    A fast transient that is seen once may look like an error in one state; then another has not come back.
    """
    found: list[int] = []
    for i, j in np.argwhere(np.abs(z) > far):
        if np.abs(z[i, j]) < np.abs(z[max(i - 2, 0) : i + 3, j]).max() or i in found:
            continue
        rows = np.arange(max(i - 6, 0), min(i + 7, len(t)))
        rows = rows[rows != i]
        if len(rows) < 9 or _jumped(x, z, i):
            continue
        residuals = pseudo_residuals(t[rows], x[rows, j : j + 1])[0][:, 0]
        places = rows[2:-2]
        five = slice(i - 2, i + 3)
        outlying = np.abs(pseudo_residuals(t[five], x[five, j : j + 1])[0][0, 0])
        ends = x[i - 1, j], x[i + 1, j]
        past = max(x[i, j] - max(ends), min(ends) - x[i, j])
        left = np.abs(residuals[np.abs(places - i) <= 2]).max(initial=0.0)
        if left <= _BESIDE * outlying and past > _PAST * outlying:
            found.append(int(i))
    return found


def _jumped(x: np.ndarray, z: np.ndarray, i: int) -> bool:
    """Whether a state that is far from its cubics about a sample changes across it, and little else about."""
    across = np.abs(x[i + 1] - x[i - 1])
    around = np.abs(x[i - 1] - x[i - 2]) + np.abs(x[i + 2] - x[i + 1])
    five = x[i - 2 : i + 3]
    bent = np.abs(five[1:-1] - (five[:-2] + five[2:]) / 2.0).max(axis=0)
    far = (np.abs(z[i - 1 : i + 2]) > _FAR).any(axis=0)
    return bool((far & (across > _JUMP * around) & (across > _LASTS * bent)).any())
