"""Functions grown over windows, where no polynomial follows whole records."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fim_dynsys.regression.windows import in_windows, split_at
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.comparison import path_of
from fim_dynsys.search.functions.combination import FunctionEffort, grow_functions
from fim_dynsys.search.functions.fits import FunctionCandidate, judge_functions
from fim_dynsys.search.pool import Pool
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import refine

_LENGTH = 8.0  # units of time: what a wrong field still follows well enough to be regressed along
_FITTED = 6  # structures that are fitted over the longer windows that all are compared over


def grow_over_windows(
    found: Pool, effort: FunctionEffort, done: Callable[[], object]
) -> list[FunctionCandidate]:
    """Fields with functions, grown over short windows and compared over those of the polynomials.

    Parameters
    ----------
    found : Pool
        Over windows; the first candidate is what functions are grown from.
    effort : FunctionEffort
        See `grow_functions`.
    done : callable
        Called after each stage.

    Returns
    -------
    list of FunctionCandidate
        Judged by integration over the windows, best first.
    """
    seen, best = found.search.observations, found.candidates[0]
    nodes = path_of(found.search, best)
    if not np.isfinite(nodes).all():
        return []
    short = replace(found.search, observations=in_windows(seen, _LENGTH))
    grown = grow_functions(short, _fitted(short, best, nodes), effort, done)
    candidates, structures = [], set()
    for item in grown:
        if item.structure in structures or not np.isfinite(item.score):
            continue
        structures.add(item.structure)
        own = path_of(item.on(short.observations), item.candidate)
        candidates.append(item.fitted(seen, split_at(seen, own), (1,))[0])
        if len(candidates) == _FITTED:
            break
    return judge_functions(seen, [item for item in candidates if np.isfinite(item.parameters).all()])


def _fitted(search: Search, candidate: Candidate, nodes: np.ndarray) -> Candidate:
    """A candidate fitted over other windows."""
    paths = split_at(search.observations, nodes)
    return refine(search, replace(candidate, start=np.stack([own[0] for own in paths])), paths, (1,))[0]
