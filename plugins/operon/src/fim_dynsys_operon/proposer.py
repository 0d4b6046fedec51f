"""Genetic programming as a proposer of right-hand sides, which `auto` asks with ``effort="thorough"``."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fim_dynsys.regression.observed import Observations
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.problem import Search
from fim_dynsys.search.proposers import Proposals
from fim_dynsys.search.stages import FUNCTIONS_UP_TO
from fim_dynsys_operon.engine import GENETIC, GeneticEffort


@dataclass
class GeneticProposer:
    """Asks Operon for the slopes of each state; see `fim_dynsys.search.proposers.Proposer`.

    Attributes
    ----------
    effort : GeneticEffort
        Amount of work.
    """

    effort: GeneticEffort = GENETIC
    name = "genetic programming"
    api_version = "1"

    @property
    def steps(self) -> int:
        """Searches of each state."""
        return self.effort.searches

    def refusal(self, search: Search) -> str:
        """Where right-hand sides of states alone say nothing, or are too many."""
        seen = search.observations
        if seen.n_inputs or search.restriction is not None or seen.dim > FUNCTIONS_UP_TO:
            return f"only without inputs and knowledge, in up to {FUNCTIONS_UP_TO} states"
        return ""

    def propose(
        self, observations: Observations, noise_free: bool, seed: int, done: Callable[[], object]
    ) -> Proposals:
        """From the slopes of splines, quintic ones through samples without noise."""
        # deferred: sympy, which a search that needs no proposals does without
        from fim_dynsys_operon.proposals import interpolated, propose

        curves = interpolated(observations) if noise_free else observations.splines
        states, slopes = (np.concatenate(part) for part in zip(*curves, strict=True))
        return propose(states, slopes, self.effort, seed, done)

    def fitted(self, observations: Observations, proposals: Proposals, best: Candidate) -> list[Candidate]:
        """Proposals thinned, combined and fitted to noisy trajectories, best first."""
        from fim_dynsys_operon.proposals import fitted_proposals  # deferred: sympy

        return fitted_proposals(observations, proposals, best, self.effort.kept, self.name)


proposer = GeneticProposer()
"""What the entry point names."""
