"""Functions grown over windows, where no polynomial follows whole records."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fim_dynsys.regression.observed import Observations
from fim_dynsys.regression.windows import in_windows, split_at
from fim_dynsys.search.candidates import Candidate, judge
from fim_dynsys.search.functions.combination import FunctionEffort, grow_functions
from fim_dynsys.search.pool import Pool
from fim_dynsys.search.pruning import refine

_LENGTH = 8.0  # units of time: what a wrong field still follows well enough to be regressed along
_FITTED = 6  # structures that are fitted over the longer windows that all are compared over


def grow_over_windows(found: Pool, effort: FunctionEffort, done: Callable[[], object]) -> list[Candidate]:
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
    list of Candidate
        Judged by integration over the windows, best first.
    """
    seen, best = found.search.observations, found.candidates[0]
    nodes = np.concatenate(best.paths(seen))
    if not np.isfinite(nodes).all():
        return []
    short = replace(found.search, observations=in_windows(seen, _LENGTH))
    grown = grow_functions(short, _fitted(short.observations, best, nodes), effort, done)
    candidates, structures = [], set()
    for item in grown:
        if item.structure in structures or not np.isfinite(item.score):
            continue
        structures.add(item.structure)
        states = np.concatenate(item.paths(short.observations))
        candidates.append(refine(seen, item, split_at(seen, states), (1,))[0])
        if len(candidates) == _FITTED:
            break
    return judge(seen, [item for item in candidates if np.isfinite(item.parameters).all()])


def _fitted(windows: Observations, candidate: Candidate, nodes: np.ndarray) -> Candidate:
    """A candidate fitted over other windows."""
    paths = split_at(windows, nodes)
    return refine(windows, replace(candidate, start=np.stack([path[0] for path in paths])), paths, (1,))[0]
