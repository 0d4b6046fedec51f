"""What the observations alone can tell of each candidate field."""

from functools import cache

import numpy as np
from scipy.special import ndtri

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.criteria import VARIANCE_FLOOR
from fim_dynsys.regression.observed import STEP_LIMIT, Observations
from fim_dynsys.regression.rollout import rollout
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.opinion import Opinion
from fim_dynsys.search.origins import Stage
from fim_dynsys.search.problem import Search

_POINTS = 48  # of the data, at which fields are compared
_STARTS = 8  # round the data, from which paths are followed
_PLAUSIBLE = 4  # starts besides the smoothed one
_LEAST_VARIANCE, _MOST_VARIANCE = (
    1e-3,
    1e4,
)  # of the samples' variance, in units of what noise and start allow
_SAMPLES = 48  # of each of these paths
_ESCAPE = 1e3  # in root mean squares of the data
_FAR = 30.0  # extents and ratios beyond this say no more


def features(search: Search, candidates: list[Candidate], opinion: Opinion | None = None) -> np.ndarray:
    """What a selector sees of each candidate.

    Parameters
    ----------
    search : Search
        Data and terms.
    candidates : list of Candidate
        A `shortlist`.
    opinion : Opinion, optional
        Of a pretrained operator.

    Returns
    -------
    array (C, `N_FEATURES`)
    """
    coefficients = np.stack([c.coefficients for c in candidates])
    with np.errstate(all="ignore"):
        parts = [
            _fit(search.observations, candidates),
            _structure(search.dictionary, candidates),
            _opinion(coefficients, opinion),
            _fields(search, coefficients, opinion),
            _motion(search, coefficients),
            _context(search.observations, len(candidates)),
        ]
    values = np.concatenate(parts, axis=1)
    return _bounded(values)


def start_features(search: Search, candidates: list[Candidate]) -> np.ndarray:
    """How well each candidate still explains the samples from other plausible starts than its own.

    A fit can make up for wrong terms by where it starts. The right field, unless chaotic, does not depend on
    that: it follows the samples from all starts that the noise allows.

    Parameters
    ----------
    search : Search
        Data and terms.
    candidates : list of Candidate
        A `shortlist`.

    Returns
    -------
    array (C, `N_START_FEATURES`)
    """
    with np.errstate(all="ignore"):
        values = _starts(search, candidates)
    return _bounded(values)


def _starts(search: Search, candidates: list[Candidate]) -> np.ndarray:
    observations = search.observations
    d, start = observations.dim, observations.start
    unit = ndtri(_sobol(d, 8)[1 : _PLAUSIBLE + 1])
    away = np.concatenate([np.zeros((1, d)), unit]) * np.sqrt(observations.start_variance)
    starts = start + away[:, None]
    count = len(candidates)
    each = np.repeat(np.stack([c.coefficients for c in candidates]), len(starts), axis=0)
    paths = search.rough_paths(each, np.tile(starts, (count, 1, 1)))
    allowed = np.maximum(observations.law.level**2 + 2.0 * observations.start_variance, 1e-300)
    residual_variance = np.mean(observations.residual_variance(paths) / allowed, axis=1).reshape(count, -1)
    residual_variance = np.log(
        np.where(
            np.isfinite(residual_variance),
            np.clip(residual_variance, _LEAST_VARIANCE, _MOST_VARIANCE),
            _MOST_VARIANCE,
        )
    )
    own = _variances(candidates, d)
    own = np.log(np.clip(np.mean(own / allowed, axis=1), _LEAST_VARIANCE, _MOST_VARIANCE))
    mean, worst = residual_variance.mean(axis=1), residual_variance.max(axis=1)
    moved = np.stack([c.start for c in candidates]) - start
    moved = np.sqrt(np.mean(moved**2 / observations.start_variance, axis=(1, 2)))
    return np.column_stack(
        [
            mean,
            worst,
            mean - own,
            worst - own,
            mean - mean.min(),
            worst - worst.min(),
            (residual_variance < 1.0).mean(axis=1),  # less than e times what is allowed
            np.log(moved + 1e-2),
        ]
    )


def _variances(candidates: list[Candidate], dim: int) -> np.ndarray:
    """What each leaves of the samples (C, d); infinite where that is unknown."""
    unknown = np.full(dim, np.inf)
    return np.stack([unknown if c.variance is None else c.variance for c in candidates])


def _bounded(values: np.ndarray) -> np.ndarray:
    return np.clip(np.where(np.isfinite(values), values, _FAR), -_FAR, _FAR)


def _fit(observations: Observations, candidates: list[Candidate]) -> np.ndarray:
    """How well each explains the samples, absolutely and beside the others (C, 11)."""
    n, d = observations.n, observations.dim
    scores = np.array([c.score for c in candidates])
    signal = observations.signal_variance
    variance = _variances(candidates, d)
    floored = np.maximum(variance, VARIANCE_FLOOR * signal)
    deviance = n * np.log(np.maximum(floored, 1e-300)).sum(axis=1)
    noise = np.maximum(observations.law.level**2, VARIANCE_FLOOR * signal)
    ratio = 0.5 * np.log(floored / noise)
    share = 0.5 * np.log(floored / np.maximum(signal, 1e-300))
    volume = np.array([c.log_information for c in candidates])
    fitted = np.isfinite(volume)
    evidence = deviance + np.where(fitted, volume, 0.0)
    best_evidence = evidence[fitted].min() if fitted.any() else deviance.min()
    behind, worse = scores - scores.min(), deviance - deviance.min()
    return np.column_stack(
        [
            np.log1p(behind),
            np.minimum(behind / n, 3.0),
            np.log1p(worse),
            np.minimum(worse / n, 3.0),
            np.argsort(np.argsort(scores)) / 10.0,
            ratio.mean(axis=1),
            ratio.max(axis=1),
            share.mean(axis=1),
            share.max(axis=1),
            fitted,
            np.where(fitted, np.arcsinh(evidence - best_evidence), 0.0),
        ]
    )


def _structure(dictionary: Dictionary, candidates: list[Candidate]) -> np.ndarray:
    """What terms each has and where it comes from (C, 14)."""
    degree = dictionary.exponents.sum(axis=1)
    crossing = (dictionary.exponents > 0).sum(axis=1) > 1
    rows = []
    for c in candidates:
        d = c.coefficients.shape[1]
        support = c.support
        by_degree = [support[degree == k].sum() / d for k in range(4)]
        size = np.abs(c.coefficients[support])
        rows.append(
            [
                support.sum() / d,
                np.log1p(support.sum()),
                *by_degree,
                support[crossing].sum() / d,
                support.any(axis=0).mean(),
                np.log(size.max() + 1e-6) if len(size) else -5.0,
                np.log(size.min() + 1e-6) if len(size) else -5.0,
                c.refined,
                c.origin.source is Stage.SOLVE,
                c.origin.source is Stage.STRUCTURE,
                c.origin.stage is Stage.NO_MOTION,
            ]
        )
    fewest = min(row[0] for row in rows)
    return np.column_stack([np.array(rows, dtype=float), [row[0] - fewest for row in rows]])


def _opinion(coefficients: np.ndarray, opinion: Opinion | None) -> np.ndarray:
    """How far each is from the operator's last solve, in its standard deviations (C, 5)."""
    if opinion is None:
        return np.zeros((len(coefficients), 5))
    mean, deviation = opinion.solves[-1], np.sqrt(opinion.variance) + 1e-12
    z = np.abs(coefficients - mean) / deviation
    sure = np.abs(mean) / deviation > 2.0
    has = coefficients != 0
    count = max(coefficients.shape[2], 1)
    return np.column_stack(
        [
            np.ones(len(z)),
            np.log1p(np.mean(np.minimum(z, 1e3), axis=(1, 2))),
            np.log1p(np.max(np.minimum(z, 1e3), axis=(1, 2))),
            (sure & ~has).sum(axis=(1, 2)) / count,
            (~sure & has).sum(axis=(1, 2)) / count,
        ]
    )


def _fields(search: Search, coefficients: np.ndarray, opinion: Opinion | None) -> np.ndarray:
    """Distances between the fields on the smoothed path and in a widened box (C, 10)."""
    states = np.concatenate([z for _, z in search.observations.samples])
    path = np.concatenate(search.observations.path)
    path = path[np.linspace(0, len(path) - 1, min(_POINTS, len(path))).astype(int)]
    low, high = states.min(axis=0), states.max(axis=0)
    margin = 0.5 * (high - low)
    unit = _sobol(len(low), 64)[:_POINTS]
    box = low - margin + unit * (high - low + 2.0 * margin)
    columns = []
    for points in (path, box):
        values = np.einsum("nm,cmd->cnd", search.dictionary.evaluate(points), coefficients)
        size = np.abs(values).mean(axis=(1, 2)) + 1e-9
        apart = np.abs(values[:, None] - values[None]).mean(axis=(2, 3))
        apart = np.log(apart / (0.5 * (size[:, None] + size[None])) + 1e-4)
        typical = np.median(size)
        columns += [apart[:, 0], np.median(apart, axis=1), np.log(size / typical)]
        if opinion is None:
            columns += [np.zeros(len(size)), np.zeros(len(size))]
            continue
        said = search.dictionary.evaluate(points) @ opinion.solves[-1]
        gap = np.abs(values - said).mean(axis=(1, 2))
        columns += [
            np.log(gap / (0.5 * (size + np.abs(said).mean())) + 1e-4),
            np.log(size / np.abs(said).mean()),
        ]
    return np.column_stack(columns)


# Of coordinates 2 to 6: a primitive polynomial's inner coefficients and the first direction numbers.
_DIRECTIONS = ((0, (1,)), (1, (1, 3)), (1, (1, 3, 1)), (2, (1, 1, 1)), (1, (1, 1, 3, 3)))


@cache
def _sobol(dim: int, n: int) -> np.ndarray:
    """The first ``n`` points (n, dim) of the Sobol sequence, as `scipy.stats.qmc.Sobol` has them unscrambled.

    References
    ----------
    S. Joe, F. Y. Kuo, Constructing Sobol sequences with better two-dimensional projections, SIAM J. Sci.
    Comput. 30 (2008) 2635.
    """
    if dim > len(_DIRECTIONS) + 1:
        from scipy.stats import qmc  # deferred: half a second, which few fits need

        return qmc.Sobol(dim, scramble=False).random(n)
    bits = n.bit_length()
    gray = np.arange(n) ^ (np.arange(n) >> 1)
    points = np.zeros((n, dim), dtype=np.int64)
    for j in range(dim):
        directions = [1] * bits
        if j:
            inner, first = _DIRECTIONS[j - 1]
            degree = len(first)
            directions[:degree] = first
            for k in range(degree, bits):
                value = directions[k - degree] ^ (directions[k - degree] << degree)
                for i in range(1, degree):
                    if inner >> (degree - 1 - i) & 1:
                        value ^= directions[k - i] << i
                directions[k] = value
        for k in range(bits):
            points[:, j] ^= (gray >> k & 1) * (directions[k] << (bits - 1 - k))
    return points / 2.0**bits


def _motion(search: Search, coefficients: np.ndarray) -> np.ndarray:
    """How each moves from elsewhere in the data's box, for as long as was observed (C, 6)."""
    states = np.concatenate([z for _, z in search.observations.samples])
    low, high = states.min(axis=0), states.max(axis=0)
    middle, half = 0.5 * (low + high), 0.5 * (high - low) + 1e-9
    d, count = len(low), len(coefficients)
    unit = _sobol(d, _STARTS)
    starts = middle + (2.0 * unit - 1.0) * half * np.linspace(0.6, 1.5, _STARTS)[:, None]
    t = np.linspace(0.0, search.observations.span, _SAMPLES)[None]
    each = np.repeat(coefficients, _STARTS, axis=0)
    begin = np.tile(starts, (count, 1))[:, None]
    paths = rollout(search.dictionary, each, begin, t, 2.0 * STEP_LIMIT, _ESCAPE)
    paths = paths.reshape(count, _STARTS, _SAMPLES, d)
    gone = ~np.isfinite(paths[:, :, -1]).all(axis=2)
    extent = np.abs(paths - middle) / half
    reach = np.log(np.nanmax(extent, axis=(2, 3)) + 1e-3)
    reach = np.where(gone, np.log(_ESCAPE), reach)
    settled = np.where(
        gone, 0.0, np.log(np.abs(paths[:, :, -1] - paths[:, :, -2]).max(axis=2) / half.max() + 1e-4)
    )
    apart = np.abs(paths - paths[:1]) / half
    apart = np.where(np.isfinite(apart), np.minimum(apart, 5.0), 5.0).mean(axis=(2, 3))
    return np.column_stack(
        [
            gone.mean(axis=1),
            reach.mean(axis=1),
            reach.max(axis=1),
            settled.mean(axis=1) / 5.0,
            apart.mean(axis=1),
            np.median(apart, axis=1),
        ]
    )


def _context(observations: Observations, count: int) -> np.ndarray:
    """What is the same for all candidates of a data set (C, 8)."""
    noise = observations.law.level / np.sqrt(np.maximum(observations.signal_variance, 1e-300))
    gaps = np.concatenate([np.diff(t) for t, _ in observations.samples])
    row = [
        observations.dim,
        np.log(observations.n) - 5.0,
        0.5 * np.log(np.mean(noise**2) + 1e-10),
        observations.law.share.mean(),
        np.log(observations.span),
        np.log(np.mean(gaps)),
        np.log(np.mean(gaps**2) / np.mean(gaps) ** 2),
        count / 10.0,
    ]
    return np.tile(row, (count, 1))


N_FEATURES = 11 + 15 + 5 + 10 + 6 + 8
"""Columns of `features`."""

N_START_FEATURES = 8
"""Columns of `start_features`."""
