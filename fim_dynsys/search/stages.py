"""The stages of a search, and rows of them: what a model searches, in which order and how much."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from fim_dynsys.regression.smoothing import TIME_AWARE, Smoother
from fim_dynsys.search.candidates import judge
from fim_dynsys.search.comparison import compared
from fim_dynsys.search.functions.combination import FULL, FunctionEffort, grow_functions
from fim_dynsys.search.functions.windowed import grow_over_windows
from fim_dynsys.search.initial_estimate import fit_estimate, solves
from fim_dynsys.search.judges import BIC, Judge
from fim_dynsys.search.part import fitted_to_all, part_of, restricted
from fim_dynsys.search.pool import Pool
from fim_dynsys.search.proposals import propose
from fim_dynsys.search.pruning import improve
from fim_dynsys.search.reselection import FITS, ROUNDS, reselect

FUNCTIONS_UP_TO = 4
"""States and inputs beyond which only monomials are searched: there are too many functions."""


@dataclass(frozen=True)
class Effort:
    """Amounts of search, counted in work: results do not depend on the machine's load.

    Attributes
    ----------
    structures : int
        Regressed structures that are fitted.
    smoothers : sequence of Smoother
        Whose slopes are regressed.
    fits, rounds : int
        Fits about whose paths terms are chosen again, and how often from each.
    windowed : int
        Structures fitted over short windows, where the best of the others leaves more than noise.
    functions : FunctionEffort
        Of the search for functions.
    functions_up_to : float
        States and inputs beyond which no functions are searched.
    exact_structures : int, optional
        Structures with functions that are tried on noise-free data; None to seek no exact equations.
    composed : bool
        Whether functions of reciprocals and squares are tried there where no others leave nothing.
    simpler : bool
        Whether functions are tried where a polynomial is exact too, and exact equations sought in samples
        that do not look free of noise.
    local : bool
        Whether a field of no equation is fitted where no candidate explains several trajectories.
    ask_plugins : bool
        Whether plugins propose right-hand sides besides, see `proposers`.
    """

    structures: int = 3
    smoothers: Sequence[Smoother] = field(default=TIME_AWARE, repr=False)
    fits: int = FITS
    rounds: int = ROUNDS
    windowed: int = 8
    functions: FunctionEffort = FULL
    functions_up_to: float = FUNCTIONS_UP_TO
    exact_structures: int | None = 16
    composed: bool = True
    simpler: bool = True
    local: bool = True
    ask_plugins: bool = False


def _nothing() -> None:
    return None


class Stage(Protocol):
    """Makes candidates from those that a pool holds, or compares them again."""

    __name__: str

    def __call__(self, pool: Pool, effort: Effort, done: Callable[[], object] = _nothing) -> Pool:
        """The pool with what was found; ``done()`` is called as the work goes on."""


@dataclass(frozen=True)
class Row:
    """What a model searches.

    Attributes
    ----------
    stages : tuple of Stage
        In their order.
    effort : Effort
        Amounts of each.
    judge : Judge
        What decides among the candidates.
    """

    stages: tuple[Stage, ...]
    effort: Effort = Effort()
    judge: Judge = BIC

    def without(self, *left_out: Stage) -> "Row":
        """The row with some stages left out."""
        return replace(self, stages=tuple(stage for stage in self.stages if stage not in left_out))

    def search(self, pool: Pool, done: Callable[[], object] = _nothing) -> Pool:
        """All stages on one pool; of a long record on a part of it, and what is found fitted to all."""
        part = None if pool.whole or not self.effort.windowed else part_of(pool.search.observations)
        if part is not None:
            found = fitted_to_all(pool, self._through(restricted(pool, part), done))
            if found is not None:
                return found
        return self._through(pool, done)

    def _through(self, pool: Pool, done: Callable[[], object]) -> Pool:
        for stage in self.stages:
            pool = stage(pool, self.effort, done)
            done()
        return pool


def regressions(pool: Pool, effort: Effort, done: Callable[[], object] = _nothing) -> Pool:
    """Sparse regressions of smoothed slopes, the best structures fitted to the trajectories and pruned."""
    search, seen = pool.search, pool.search.observations
    ranked = judge(seen, propose(search, range(1, search.dictionary.degree + 1), effort.smoothers))
    return pool.adding(improve(seen, ranked, effort.structures))


def operator(pool: Pool, effort: Effort, done: Callable[[], object] = _nothing) -> Pool:
    """What a pretrained operator says, as it stands, and the terms it is sure of, fitted and pruned."""
    search, estimate = pool.search, pool.estimate
    if estimate is None:
        return pool
    suggested = fit_estimate(search, estimate, pool.candidates)
    return pool.adding(judge(search.observations, solves(search, estimate) + suggested))


def reselection(pool: Pool, effort: Effort, done: Callable[[], object] = _nothing) -> Pool:
    """Terms chosen again about the paths of the best fits."""
    return pool.adding(reselect(pool.search, pool.candidates, effort.fits, effort.rounds))


def windows(pool: Pool, effort: Effort, done: Callable[[], object] = _nothing) -> Pool:
    """Structures fitted over windows where none follows the records, and compared over them."""
    return compared(replace(pool.adding(pool.besides), besides=[]), effort.windowed)


def functions(pool: Pool, effort: Effort, done: Callable[[], object] = _nothing) -> Pool:
    """Fields with functions beyond monomials, grown from the best polynomial.

    Not of too many states and inputs, nor where polynomials explain the windows.
    """
    if pool.search.dictionary.dim > effort.functions_up_to or (pool.in_windows and not pool.lacking):
        return pool
    if pool.in_windows:
        found = grow_over_windows(pool, effort.functions, done)
    else:
        found = grow_functions(pool.search, pool.candidates[0], effort.functions, done)
    return replace(pool, functions=[*pool.functions, *found])


POLYNOMIALS = regressions, operator, reselection, windows
"""Stages of monomials."""
