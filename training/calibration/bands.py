"""How good a field's deviations are as error bars: coverage and interval score at known points."""

import numpy as np

from fim_dynsys.metrics import coverage, interval_score

QUANTILES = {50: 0.674490, 90: 1.644854}  # of the normal distribution, on both sides
_MARGIN = 0.1  # of the box, on each side


def draw_points(paths: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """n points of each place (3 n, d): the observed path ``paths[0]``, the other paths, the box of all."""
    own, others = paths[0], paths[1:].reshape(-1, paths.shape[-1])
    low, high = paths.min((0, 1)), paths.max((0, 1))
    margin = _MARGIN * (high - low)
    inside = rng.uniform(low - margin, high + margin, (n, paths.shape[-1]))
    on = [path[rng.integers(len(path), size=n)] for path in (own, others)]
    return np.concatenate([*on, inside])


def typical_rate(truth: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """By which errors of one system are made comparable, (d,).

    The mean of the true rates (n, d) over points and coordinates, each in its unit (d,), in these units.
    """
    return unit * np.mean(np.abs(truth) / unit)


def band_scores(errors: np.ndarray, deviations: np.ndarray) -> dict[str, float]:
    """Coverage and mean interval score of the bands of all errors and deviations, of one shape.

    Beside them the score of the band of constant width that is best in hindsight: no rule that ignores the
    data can do better.
    """
    scores: dict[str, float] = {}
    for percent, z in QUANTILES.items():
        alpha = 1 - percent / 100
        best = float(np.quantile(np.abs(errors), 1 - alpha))
        scores[f"cover {percent}"] = 100 * coverage(errors, -z * deviations, z * deviations)
        scores[f"score {percent}"] = interval_score(errors, -z * deviations, z * deviations, alpha)
        scores[f"constant {percent}"] = interval_score(errors, np.full_like(errors, -best), best, alpha)
    return scores
