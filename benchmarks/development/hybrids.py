"""Hybrids of operator and sparse regression: the portfolio of `auto` with candidates of another kind."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from benchmarks.harness.rows import View
from fim_dynsys.fields.base import VectorField
from fim_dynsys.models.auto import Auto
from fim_dynsys.regression.observed import SPLINE
from fim_dynsys.search.candidates import Candidate, judge, propose
from fim_dynsys.search.pool import SOLVE, Opinion
from fim_dynsys.search.portfolio import Portfolio
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import compiled_maps, fit_samples, improve
from fim_dynsys.trajectories.container import Trajectories

Slopes = list[tuple[np.ndarray, np.ndarray]]
"""States (n, d) and their slopes, of each trajectory."""
STRUCTURES = 3
"""Regressed structures that are fitted to the trajectories."""


def field_slopes(search: Search, solve: np.ndarray) -> Slopes:
    """Smoothed states, and the operator's field there as their slopes."""
    return [(states, search.dictionary.evaluate(states) @ solve) for states, _ in search.observations.splines]


def smoothed_about(search: Search, solve: np.ndarray) -> Slopes | None:
    """States smoothed about the operator's path: what it leaves of the samples is smoothed and added.

    None where its field leaves every bound on the way.
    """
    paths = search.paths(solve[None], search.observations.start[None])[0]
    if not np.isfinite(paths).all():
        return None
    fits = []
    for (t, z), path in zip(search.observations.samples, paths, strict=True):
        path = path[: len(t)]
        rest, slopes = SPLINE(t, z - path)
        fits.append((path + rest, search.dictionary.evaluate(path) @ solve + slopes))
    return fits


def regressed(smooth: Callable[..., Slopes | None], search: Search, opinion: Opinion) -> list[Candidate]:
    """Sparse regressions of what `smooth` gives; the best are fitted to the trajectories and pruned."""
    fits = smooth(search, opinion.solves[-1])
    if fits is None:
        return []
    about = replace(search, observations=replace(search.observations, splines=fits))
    ranked = judge(about, propose(about, range(1, search.dictionary.degree + 1), (SPLINE,)))
    return improve(about, ranked, STRUCTURES)


def fitted_about(search: Search, opinion: Opinion) -> list[Candidate]:
    """All coefficients fitted to the trajectories; prior: the last solve with the operator's precision."""
    solve = opinion.solves[-1]
    (start,) = judge(search, [Candidate(solve, search.observations.start, "solve", SOLVE)])
    fit, known = fit_samples(
        search.observations,
        start,
        solve.ravel(),
        compiled_maps(search.dictionary, np.ones(solve.shape, dtype=bool)),
        search.observations.path,
        prior_precision=1.0 / opinion.variance.ravel(),
    )
    fitted = replace(start, coefficients=fit.parameters.reshape(solve.shape), **known)
    return judge(search, [fitted]) if fitted.is_finite else []


KINDS = {
    "field": partial(regressed, field_slopes),
    "smoothed": partial(regressed, smoothed_about),
    "prior": fitted_about,
}


class HybridAuto(Auto):
    """`auto` with candidates of one of `KINDS` in its portfolio."""

    def __init__(self, kind: str, budget: str = "full", seed: int = 0) -> None:
        super().__init__(budget, seed)
        self.kind = kind

    def portfolio(self, trajectories: Trajectories) -> Portfolio:
        """Return the portfolio with these candidates beside the others."""
        found = super().portfolio(trajectories)
        if found.opinion is None:
            return found
        known = [m.candidate for m in found.members if not m.n_functions]
        grown = [m for m in found.members if m.n_functions]
        own = KINDS[self.kind](found.search, found.opinion)
        more = [replace(c, origin=f"{self.kind}: {c.origin}") for c in own]
        polynomials = sorted(known + more, key=lambda c: c.score)
        return Portfolio.of(found.search, found.opinion, polynomials, grown)


@dataclass(frozen=True)
class HybridRow:
    """`HybridAuto` as a row."""

    kind: str
    sees_truth: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Name of the model and of the hybrids."""
        return f"auto, hybrids {self.kind}"

    @property
    def version(self) -> str:
        """Version of `auto`."""
        return HybridAuto(self.kind).version

    def infer(self, view: View) -> VectorField:
        """Return the model's choice for one context."""
        return HybridAuto(self.kind).infer(view.context)

    def candidates(self, context: Trajectories) -> list[VectorField]:
        """Return the fields that the model chooses among, its own choice first."""
        return HybridAuto(self.kind).candidates(context)
