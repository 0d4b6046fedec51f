"""Right-hand sides that plugins propose to a search, besides what it finds itself."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fim_dynsys.entry_points import listed, loaded, owner
from fim_dynsys.errors import PluginError
from fim_dynsys.regression.observed import Observations
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.problem import Search
from fim_dynsys.search.state_equations import StateEquation

GROUP = "fim_dynsys.proposers"
NO_PLUGIN = "not asked: no plugin makes any; `pip install ./plugins/operon` in a checkout adds one"
"""What a report says where there is none."""


@dataclass(frozen=True)
class Proposals:
    """What a plugin proposes.

    Attributes
    ----------
    sides : list of d lists of StateEquation
        For each state, in the units of the observations, best first; `StateEquation.regressed` makes them.
    note : str
        What a report says of them.
    """

    sides: list[list[StateEquation]]
    note: str


@runtime_checkable
class Proposer(Protocol):
    """Proposes right-hand sides of single states: the target of an entry point in the group `GROUP`.

    Attributes
    ----------
    name : str
        In reports, and of the candidates made of its proposals.
    api_version : str
        Version of this contract that it is written for.
    """

    name: str
    api_version: str

    @property
    def steps(self) -> int:
        """How often it calls ``done`` for each state."""

    def refusal(self, search: Search) -> str:
        """Why it cannot be asked about a search, in words; empty where it can."""

    def propose(
        self, observations: Observations, noise_free: bool, seed: int, done: Callable[[], object]
    ) -> Proposals:
        """What it finds in samples that are, or are not, free of noise; equal seeds give equal proposals."""

    def fitted(self, observations: Observations, proposals: Proposals, best: Candidate) -> list[Candidate]:
        """Proposals about the best candidate so far, fitted to noisy trajectories and judged, best first."""


def proposers() -> dict[str, Proposer]:
    """All that are installed, by their plugins, which are imported only here; of one name, the first."""
    found = listed(GROUP) or listed(GROUP, fresh=True)  # it may have been installed meanwhile
    return {owner(first): loaded(first, Proposer) for _, (first, *_) in sorted(found.items())}


@contextmanager
def named(asked: str) -> Iterator[None]:
    """Say of errors inside which plugin failed."""
    try:
        yield
    except Exception as error:
        raise PluginError(f"{asked}: {type(error).__name__}: {error}") from error
