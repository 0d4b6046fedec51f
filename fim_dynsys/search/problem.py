"""What a search is about: the observations, and the terms that fields may have."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.observed import STEP_LIMIT, Observations, largest_degree, observe
from fim_dynsys.regression.rollout import rollout


@dataclass(frozen=True)
class Search:
    """Observations and terms, which all candidates of a search have in common.

    Attributes
    ----------
    observations : Observations
        Data, in units of their size and pace.
    dictionary : Dictionary
        Terms, in the same units; of the states and, behind them, the inputs.
    """

    observations: Observations
    dictionary: Dictionary

    @classmethod
    def polynomial(
        cls,
        samples: Sequence[tuple[np.ndarray, np.ndarray]],
        degree: int | None = None,
        radians: np.ndarray | None = None,
        inputs: Sequence[np.ndarray] | None = None,
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
        inputs : list of arrays (n, m), optional
            See `observe`; the monomials are then of states and inputs.
        """
        observations = observe(samples, radians, inputs)
        dim = observations.dim + observations.n_inputs
        if degree is None:
            degree = largest_degree(dim, observations.n)
        return cls(observations, _polynomial(dim, degree))

    def paths(self, coefficients: np.ndarray, starts: np.ndarray, limit: float = STEP_LIMIT) -> np.ndarray:
        """Paths (K, P, n, d) of fields (K, m, d) from starts (K, P, d) at the observation times.

        As `rollout`: nan from where a field leaves every bound.
        """
        seen = self.observations
        return rollout(self.dictionary, coefficients, starts, seen.t, limit, inputs=seen.padded_curves)


@cache
def _polynomial(dim: int, degree: int) -> Dictionary:
    return Dictionary.polynomial(dim, degree)
