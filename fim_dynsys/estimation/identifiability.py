"""What the data determine: directions of parameters that no measurement depends on, or hardly any."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fim_dynsys.estimation.fits import Fit
from fim_dynsys.estimation.problem import Problem
from fim_dynsys.estimation.starts import draw_starts
from fim_dynsys.estimation.summary import at_bounds, covariance_at

_DEAF = 1e-9  # of the largest singular value: no measurement depends on the direction
_VAGUE = 3.0  # sizes, or units of a logarithm: a larger error determines nothing
_IMPRECISE = 0.3  # the same: what is known to less than a third
_SHARE = 0.1  # of a direction: numbers that take part in it
_DRAWS = 6  # at which sensitivities are looked at
_DENSE = 1e-9  # tolerance of these


@dataclass(frozen=True, eq=False)
class Identifiability:
    """Which numbers the measurements determine.

    Attributes
    ----------
    table : DataFrame
        A row for each estimated number: ``value``, ``error``, ``relative`` error (of logarithms where these
        are searched), and ``verdict``: determined, imprecise, not determined, no effect, at its bound, or
        error unknown where as many numbers are estimated as were measured. The last two have no error.
    rank : int
        Directions that the measurements depend on.
    count : int
        Estimated numbers.
    combinations : tuple of str
        Combinations that may change without any effect, such as ``b^1 N^1``: exponents of a power product
        along which the measurements stay as they are.
    """

    table: pd.DataFrame
    rank: int
    count: int
    combinations: tuple[str, ...]

    def __repr__(self) -> str:
        lines = [f"{self.rank} of {self.count} directions determined", self.table.to_string()]
        lines += [f"without effect: {text}" for text in self.combinations]
        return "\n".join(lines)


def _design(problem: Problem, theta: np.ndarray) -> np.ndarray | None:
    """Derivatives (N, q) of what is measured by the coordinates, each column in its natural size."""
    objective, space = problem.objective, problem.space
    paths = objective.paths(theta, _DENSE)
    if paths is None:
        return None
    design = np.zeros((objective.n, len(space)))
    first = 0
    for e, p in zip(objective.experiments, paths, strict=True):
        rows = np.arange(first, first + len(e.rows))
        design[rows[:, None], p.columns] = p.tangent[e.rows, objective.at[e.kinds]]
        first += len(e.rows)
    size = np.where(space.log, 1.0, np.maximum(np.abs(theta), 1e-12))
    design *= space.slope(theta) * size
    scale = np.array(
        [np.abs(design[objective.kinds == k]).max(initial=0.0) for k in range(len(objective.at))]
    )
    design /= np.where(scale > 0, scale, 1.0)[objective.kinds][:, None]
    # nothing expected depends on scales of errors, which what is left over determines
    of_errors = [name in problem.of_errors for name in space.names]
    design = np.concatenate([design, np.eye(len(space))[of_errors]])
    return design if np.isfinite(design).all() else None


def _null_directions(designs: Sequence[np.ndarray]) -> np.ndarray:
    """Directions (n, q) that no measurement depends on at any of the draws: exact in each of them."""
    q = designs[0].shape[1]
    rank = 0
    chosen = designs[0]
    for design in designs:
        values = np.linalg.svd(design, compute_uv=False)
        own = int(np.sum(values > _DEAF * max(values[0], 1e-300) * q))
        if own > rank:
            rank, chosen = own, design
    _, _, rows = np.linalg.svd(chosen, full_matrices=True)
    return rows[rank:]


def _named(names: Sequence[str], direction: np.ndarray) -> str:
    """A direction as text, by the numbers that take part in it."""
    size = np.abs(direction) / np.abs(direction).max()
    chosen = [k for k in range(len(names)) if size[k] > _SHARE]
    chosen.sort(key=lambda k: (-round(float(size[k]), 4), names[k]))
    return " ".join(f"{names[k]}^{direction[k] / direction[chosen[0]]:.3g}" for k in chosen)


def structural(problem: Problem, seed: int = 0) -> tuple[int, tuple[str, ...]]:
    """Rank of the sensitivities at draws of the parameters, before any fit, and combinations without effect.

    Parameters
    ----------
    problem : Problem
        What is to be estimated; its measured values do not matter.
    seed : int
        Of the draws.

    References
    ----------
    J. A. Jacquez, P. Greif, Numerical parameter identifiability and estimability, Math. Biosci. 77 (1985)
    201.
    """
    draws = draw_starts(problem.space, 8 * _DRAWS, seed)
    designs = []
    for theta in draws:
        design = _design(problem, theta)
        if design is not None and np.abs(design).max(initial=0.0) > 0:
            designs.append(design)
        if len(designs) == _DRAWS:
            break
    if not designs:
        return 0, ()
    null = _null_directions(designs)
    return len(problem.space) - len(null), tuple(_named(problem.space.names, row) for row in null)


def identifiability(fit: Fit) -> Identifiability:
    """What the measurements determine, at the fit.

    Parameters
    ----------
    fit : Fit
        Of a problem.

    Raises
    ------
    ValueError
        Where nothing was estimated.
    """
    if not len(fit.space):
        raise ValueError(
            "identifiability: expected a fit with estimated numbers, got one in which all are known; leave "
            "some out of fixed and initial."
        )
    space, theta = fit.space, fit.descent.theta
    covariance, _ = covariance_at(fit)
    natural, slope = fit.natural, space.slope(theta)
    held = at_bounds(fit)
    error = np.where(held, np.nan, np.sqrt(np.maximum(np.diagonal(covariance), 0.0)))
    coordinate = error / np.where(slope != 0, slope, 1.0)
    relative = np.where(space.log, coordinate, coordinate / np.maximum(np.abs(theta), 1e-12))
    rank, combinations = _near(fit)
    design = _design(fit.problem, theta)
    deaf = np.zeros(len(space), dtype=bool)
    if design is not None:
        size = np.sqrt(np.sum(design**2, axis=0))
        deaf = size <= _DEAF * size.max(initial=0.0)
    verdict = np.select(
        [deaf, held, np.isnan(error), relative > _VAGUE, relative > _IMPRECISE],
        ["no effect", "at its bound", "error unknown", "not determined", "imprecise"],
        "determined",
    )
    table = pd.DataFrame(
        {"value": natural, "error": error, "relative": relative, "verdict": verdict}, index=space.names
    )
    return Identifiability(table, rank, len(space), combinations)


def _near(fit: Fit) -> tuple[int, tuple[str, ...]]:
    """Rank of the sensitivities at the fit and near it, and combinations without effect."""
    designs = [d for d in [_design(fit.problem, fit.descent.theta)] if d is not None]
    if not designs:
        return 0, ()
    null = _null_directions(designs)
    return len(fit.space) - len(null), tuple(_named(fit.space.names, row) for row in null)
