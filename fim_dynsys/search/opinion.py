"""What a pretrained operator says of the coefficients, and the candidates that it suggests."""

from dataclasses import dataclass, replace

import numpy as np

from fim_dynsys.search.candidates import Candidate, judge
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import MAX_TERMS, refine_and_prune
from fim_dynsys.search.restrictions import Restriction

RATIOS = (1.0, 2.0, 4.0)
"""A coefficient of the operator is kept where it is so many of its standard deviations."""


@dataclass(frozen=True)
class Opinion:
    """What a pretrained operator says of the coefficients, in the units of the `Observations`.

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
    def scaled(cls, search: Search, solves: np.ndarray, variance: np.ndarray) -> "Opinion":
        """From coefficients (S, m, d) and variances (m, d) in the units of the data."""
        seen = search.observations
        sizes = np.prod(seen.extended_scale**search.dictionary.exponents, axis=1)
        factor = sizes[:, None] * seen.time_unit / seen.scale
        return cls(solves * factor, variance * factor**2).allowed(search.restriction)

    def allowed(self, restriction: Restriction | None) -> "Opinion":
        """The same of coefficients that a restriction allows: the nearest to each solve, by the variances."""
        if restriction is None:
            return self
        precision = 1.0 / np.maximum(self.variance, 1e-300)
        return replace(
            self, solves=np.stack([restriction.nearest(solve, precision) for solve in self.solves])
        )


def fit_opinion(search: Search, opinion: Opinion, known: list[Candidate]) -> list[Candidate]:
    """Trajectory fits of the terms that the operator's last solve is sure of.

    Parameters
    ----------
    search : Search
        Data and terms.
    opinion : Opinion
        Of a pretrained operator.
    known : list of Candidate
        Structures fitted among them are not fitted again.

    Returns
    -------
    list of Candidate
        Scored on the nodes of their fits; `judge` integrates them.
    """
    seen = {c.support.tobytes() for c in known if c.refined}
    known_facts = search.restriction
    origin = Origin(Stage.SOLVE, number=len(opinion.solves) - 1)
    seen_samples = search.observations
    said = Candidate(
        opinion.solves[-1], seen_samples.start, search.dictionary, origin, restriction=known_facts
    )
    (solve,) = judge(seen_samples, [said])
    met = []
    for ratio in RATIOS:
        support = np.abs(solve.coefficients) > ratio * np.sqrt(opinion.variance)
        if support.tobytes() in seen or not 0 < np.count_nonzero(support) <= MAX_TERMS:
            continue
        seen.add(support.tobytes())
        kept = np.where(support, solve.coefficients, 0.0)
        if known_facts is not None:
            kept = known_facts.clipped(kept)
        start = replace(
            solve,
            coefficients=kept,
            origin=Origin(Stage.STRUCTURE, f"at {ratio:g} deviations"),
        )
        met += refine_and_prune(seen_samples, start, seen_samples.path)
    return [c for c in met if c.is_finite]


def solves(search: Search, opinion: Opinion) -> list[Candidate]:
    """The operator's successive estimates as candidates, not judged."""
    return [
        Candidate(
            values,
            search.observations.start,
            search.dictionary,
            Origin(Stage.SOLVE, number=k),
            restriction=search.restriction,
        )
        for k, values in enumerate(opinion.solves)
        if np.isfinite(values).all()
    ]
