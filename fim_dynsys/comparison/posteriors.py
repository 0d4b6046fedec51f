"""Evidence of one model and weighted draws of its parameters, whatever method found them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from fim_dynsys.comparison.priors import JointPrior


@dataclass(frozen=True)
class Posterior:
    """Evidence of one model and weighted points of its posterior.

    Attributes
    ----------
    log_evidence, error : float
        Natural logarithm, and its standard error; nan where the method does not know its error.
    points : array (n, q)
        Parameters.
    log_weights : array (n,)
        Logarithms of the posterior weights of the points, which sum to 1.
    log_likelihood : array (n,)
        Of the points.
    calls : int
        Likelihoods evaluated.
    seed : int
        Of the choice of equally weighted draws.
    """

    log_evidence: float
    error: float
    points: np.ndarray
    log_weights: np.ndarray
    log_likelihood: np.ndarray
    calls: int
    seed: int = 0

    @classmethod
    def of_draws(
        cls, log_evidence: float, draws: np.ndarray, log_likelihood: np.ndarray, calls: int, seed: int = 0
    ) -> Self:
        """From equally weighted draws (n, q), by a method that does not know its error."""
        equal = np.full(len(draws), -np.log(len(draws)))
        return cls(float(log_evidence), np.nan, draws, equal, log_likelihood, calls, seed)

    @cached_property
    def chosen(self) -> np.ndarray:
        """Indices (m,) of equally weighted points by systematic resampling: as many as the weights merit."""
        weights = np.exp(self.log_weights)
        rng = np.random.default_rng(self.seed)
        size = max(round(1.0 / float(np.sum(weights**2))), 1)
        positions = (np.arange(size) + rng.random()) / size * weights.sum()
        found = np.searchsorted(np.cumsum(weights), positions)
        return rng.permutation(np.minimum(found, len(weights) - 1))

    @property
    def draws(self) -> np.ndarray:
        """Equally weighted draws (m, q)."""
        return self.points[self.chosen]

    @property
    def information(self) -> float:
        """Nats by which the data narrow the prior: the divergence of the posterior from it."""
        return float(np.exp(self.log_weights) @ self.log_likelihood - self.log_evidence)

    def log_evidence_under(self, prior: "JointPrior", other: "JointPrior") -> float:
        """Log evidence under another prior, by reweighting the points.

        Parameters
        ----------
        prior, other : JointPrior
            That of the points, and the other.

        Returns
        -------
        float
            -inf where the other prior excludes all points.
        """
        terms = self.log_weights + other.log_density(self.points) - prior.log_density(self.points)
        return self.log_evidence + float(np.logaddexp.reduce(terms))
