"""Draws of the parameters from the likelihood, for intervals of whatever depends on them."""

import numpy as np

from fim_dynsys.estimation.fits import Fit

_THINNED = 10  # steps for each draw that is kept
_LEARNT = 0.5  # as many steps, over those that are kept, go before
_STEP = 2.38  # over the root of the number of parameters: the best step along a normal density
_TOLERANCE = 1e-6  # of the integration
_STEADY = 0.6  # power of the number of a step by which the width is adapted less


def draw_parameters(fit: Fit, n: int, seed: int) -> np.ndarray:
    """Values (n, q) of the estimated numbers in proportion to their likelihood and prior, within the bounds.

    An adaptive Metropolis walk, from the fit, over coordinates in which bounds without an end count as flat
    priors. Estimated scales of errors are at their best at each step.

    Parameters
    ----------
    fit : Fit
        A fit that converged.
    n : int
        Draws.
    seed : int
        Equal seeds give equal draws.

    References
    ----------
    H. Haario, E. Saksman, J. Tamminen, An adaptive Metropolis algorithm, Bernoulli 7 (2001) 223.
    """
    objective, space = fit.problem.objective, fit.space
    rng = np.random.default_rng(seed)
    q = len(space)
    if not q:
        return np.zeros((n, 0))
    matrix = fit.descent.evaluation.curvature
    size = np.where(space.log, 1.0, np.maximum(np.abs(fit.descent.theta), 1e-6))
    values, vectors = np.linalg.eigh(matrix * size * size[:, None] + 1e-2 * np.eye(q))
    root = size[:, None] * vectors / np.sqrt(np.maximum(values, 1e-2))
    count = int(objective.estimated.sum())
    # the likelihood with the scale integrated out falls as that at the best scale with q fewer samples
    power = max(count - q, 1) / count if count else 1.0
    steps = int(n * _THINNED * (1.0 + _LEARNT))
    theta, value = fit.descent.theta, float(objective.values(fit.descent.theta[None], _TOLERANCE)[0])
    width = np.log(_STEP / np.sqrt(q))
    kept = np.empty((n, q))
    first = steps - n * _THINNED
    for step in range(steps):
        trial = theta + np.exp(width) * root @ rng.standard_normal(q)
        accepted = 0.0
        if ((trial >= space.low) & (trial <= space.high)).all():
            new = float(objective.values(trial[None], _TOLERANCE)[0])
            accepted = float(np.exp(min(power * (value - new), 0.0)))
            if rng.random() < accepted:
                theta, value = trial, new
        if step < first:
            width += (accepted - 0.234) / (step + 1.0) ** _STEADY
        elif (step - first) % _THINNED == _THINNED - 1:
            kept[(step - first) // _THINNED] = theta
    return np.array([space.natural(own) for own in kept])
