"""What a pretrained operator estimates of the coefficients, and the candidates that it suggests."""

from dataclasses import dataclass, replace

import numpy as np

from fim_dynsys.search.candidates import Candidate, judge
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import MAX_TERMS, pruned
from fim_dynsys.search.restrictions import Restriction

RATIOS = (1.0, 2.0, 4.0)
"""A coefficient of the operator is kept where it is so many of its standard deviations."""


@dataclass(frozen=True)
class InitialEstimate:
    """What a pretrained operator estimates of the coefficients, in the units of the `Observations`.

    Attributes
    ----------
    solves : array (S, m, d)
        Its successive estimates, the last is the best.
    variance : array (m, d)
        Posterior variances of the last.
    """

    solves: np.ndarray
    variance: np.ndarray

    @classmethod
    def scaled(cls, search: Search, solves: np.ndarray, variance: np.ndarray) -> "InitialEstimate":
        """From coefficients (S, m, d) and variances (m, d) in the units of the data."""
        seen = search.observations
        sizes = np.prod(seen.extended_scale**search.dictionary.exponents, axis=1)
        factor = sizes[:, None] * seen.time_unit / seen.scale
        return cls(solves * factor, variance * factor**2).allowed(search.restriction)

    def allowed(self, restriction: Restriction | None) -> "InitialEstimate":
        """The same of coefficients that a restriction allows: the nearest to each solve, by the variances."""
        if restriction is None:
            return self
        precision = 1.0 / np.maximum(self.variance, 1e-300)
        return replace(
            self, solves=np.stack([restriction.nearest(solve, precision) for solve in self.solves])
        )


def fit_estimate(search: Search, estimate: InitialEstimate, known: list[Candidate]) -> list[Candidate]:
    """Trajectory fits of the terms that the operator's last solve is sure of.

    Parameters
    ----------
    search : Search
        Data and terms.
    estimate : InitialEstimate
        Of a pretrained operator.
    known : list of Candidate
        Structures fitted among them are not fitted again.

    Returns
    -------
    list of Candidate
        Scored on the nodes of their fits; `judge` integrates them.
    """
    seen = {c.support.tobytes() for c in known if c.refined}
    restriction = search.restriction
    origin = Origin(Stage.SOLVE, number=len(estimate.solves) - 1)
    observations = search.observations
    initial = Candidate(
        estimate.solves[-1], observations.start, search.dictionary, origin, restriction=restriction
    )
    (solve,) = judge(observations, [initial])
    fits = []
    for ratio in RATIOS:
        support = np.abs(solve.coefficients) > ratio * np.sqrt(estimate.variance)
        if support.tobytes() in seen or not 0 < np.count_nonzero(support) <= MAX_TERMS:
            continue
        seen.add(support.tobytes())
        kept = np.where(support, solve.coefficients, 0.0)
        if restriction is not None:
            kept = restriction.clipped(kept)
        start = replace(
            solve,
            coefficients=kept,
            origin=Origin(Stage.STRUCTURE, f"at {ratio:g} deviations"),
        )
        fits += pruned(observations, start, observations.path)[0]
    return [c for c in fits if c.is_finite]


def solves(search: Search, estimate: InitialEstimate) -> list[Candidate]:
    """The operator's successive estimates as candidates, not judged."""
    return [
        Candidate(
            values,
            search.observations.start,
            search.dictionary,
            Origin(Stage.SOLVE, number=k),
            restriction=search.restriction,
        )
        for k, values in enumerate(estimate.solves)
        if np.isfinite(values).all()
    ]
