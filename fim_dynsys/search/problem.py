"""What a search is about: the observations, and the terms that fields may have."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.observed import STEP_LIMIT, Observations, largest_degree, observe
from fim_dynsys.regression.rollout import rollout
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.search.restrictions import Restriction


@dataclass(frozen=True)
class Search:
    """Observations and terms, which all candidates of a search have in common.

    Attributes
    ----------
    observations : Observations
        Data, in units of their size and pace.
    dictionary : Dictionary
        Terms, in the same units.
    restriction : Restriction or None
        What is known of the coefficients beforehand, in the same units.
    """

    observations: Observations
    dictionary: Dictionary
    restriction: Restriction | None = None

    @classmethod
    def polynomial(
        cls,
        samples: Sequence[tuple[np.ndarray, np.ndarray]],
        degree: int | None = None,
        radians: np.ndarray | None = None,
    ) -> "Search":
        """A search among polynomials.

        Parameters
        ----------
        samples : list of (t (n,), x (n, d))
            Complete samples.
        degree : int, optional
            Largest total degree; default the `largest_degree` for so many samples.
        radians : array (d,), optional
            See `observe`.
        """
        observations = observe(samples, radians)
        if degree is None:
            degree = largest_degree(observations.dim, observations.n)
        return cls(observations, _polynomial(observations.dim, degree))

    def knowing(self, knowledge: Knowledge | None, state_names: Sequence[str]) -> "Search":
        """The same search among the fields that some facts allow.

        Raises
        ------
        ValueError
            Where the facts contradict each other, or do not fit the terms.
        """
        if knowledge is None:
            return self
        given = knowledge.restriction(self.dictionary, state_names)
        scale, unit = self.observations.scale, self.observations.time_unit
        factor = np.prod(scale**self.dictionary.exponents, axis=1)[:, None] * unit / scale
        return replace(self, restriction=given.rescaled(factor))

    def measured(self, errors: Sequence[np.ndarray] | None) -> "Search":
        """The same search where the errors of the samples are known, see `Observations.measured`."""
        if errors is None:
            return self
        return replace(self, observations=self.observations.measured(errors))

    def observing(self, seen: Sequence[str] | None, state_names: Sequence[str]) -> "Search":
        """The same search where only these states were observed; None: all of them."""
        if seen is None:
            return self
        hidden = np.array([name not in seen for name in state_names])
        return replace(self, observations=self.observations.unseen(hidden))

    def paths(self, coefficients: np.ndarray, starts: np.ndarray, limit: float = STEP_LIMIT) -> np.ndarray:
        """Paths (K, P, n, d) of fields (K, m, d) from starts (K, P, d) at the observation times.

        As `rollout`: nan from where a field leaves every bound.
        """
        return rollout(self.dictionary, coefficients, starts, self.observations.t, limit)


@cache
def _polynomial(dim: int, degree: int) -> Dictionary:
    return Dictionary.polynomial(dim, degree)
