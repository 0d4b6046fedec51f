"""Structures on the front of complexity against misfit, and those that the samples do not tell apart."""

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from fim_dynsys.search.candidates import Candidate, judge
from fim_dynsys.search.portfolio import Portfolio
from fim_dynsys.search.problem import Search
from fim_dynsys.search.proposals import propose
from fim_dynsys.search.pruning import distinct_structures, improve

if TYPE_CHECKING:
    from tqdm import tqdm

_EQUAL = 1.2  # times the misfit of another model: as good
_STARTED = 2  # structures of every size
_TIED = 1  # parameters more, of forms of exact models that are listed for being equal


@dataclass(frozen=True)
class FrontMember:
    """One structure.

    Attributes
    ----------
    place : int
        Among the members of the portfolio.
    item : Candidate
        Terms and numbers.
    misses : float
        Root mean square of what it leaves of the samples, in standard deviations of the coordinates.
    tied : bool
        Whether another of the front follows the samples as well with no more parameters.
    """

    place: int
    item: Candidate
    misses: float
    tied: bool


def simpler(search: Search, size: int, bar: "tqdm | None" = None) -> list[Candidate]:
    """The best regressed structures of every number of terms below `size`, fitted and pruned.

    A choice keeps few of them: one that leaves clearly more of the samples is out of the question as an
    answer, but may be the model that a reader knows.

    Parameters
    ----------
    search : Search
        Data and monomials.
    size : int
        Number of terms.
    bar : tqdm, optional
        Told how many structures are fitted, and of each that is.

    Returns
    -------
    list of Candidate
        Scored.
    """
    ranked = judge(search.observations, propose(search, range(1, search.dictionary.degree + 1)))
    started: list[Candidate] = []
    for n in range(1, size):
        of_size = [c for c in ranked if np.count_nonzero(c.support) == n]
        started += list(distinct_structures(of_size, _STARTED, n))
    if bar is not None:
        bar.reset(len(started))
    fitted = improve(search.observations, started, len(started), done=bar.update if bar is not None else None)
    return [c.in_use() for c in fitted if c.refined and np.isfinite(c.score)]


def front(found: Portfolio, preferred: int) -> list[FrontMember]:
    """The structures that leave least of the samples for their number of parameters, simplest first.

    And the preferred one, and forms that leave as much as it with as many parameters, or as the best of
    their own number.

    Parameters
    ----------
    found : Portfolio
        Members with their residual variances.
    preferred : int
        Place of the answer among its members.

    Returns
    -------
    list of FrontMember
    """
    signal = np.maximum(found.search.observations.signal_variance, 1e-300)
    best: dict[bytes, tuple[int, float, int]] = {}
    for place, item in enumerate(found.members):
        variance = item.variance
        if variance is None or not np.isfinite(variance).all():
            continue
        misses = float(np.sqrt(np.mean(np.maximum(variance, 0.0) / signal)))
        if found.exact_models:
            misses = found.exact_models[place].misses
        key = item.in_use().structure
        if place == preferred or key not in best or (misses < best[key][1] and best[key][0] != preferred):
            best[key] = place, misses, len(item.parameters)
    rows = sorted(best.values(), key=lambda row: (row[2], row[1]))
    chosen = next((row for row in rows if row[0] == preferred), None)
    out, least = [], np.inf
    for size, group in groupby(rows, key=lambda row: row[2]):
        of_size = list(group)
        best_of_size = of_size[0][1]
        gains = best_of_size < least / _EQUAL
        for place, misses, _ in of_size:
            as_good = misses <= _EQUAL * best_of_size
            first = misses == best_of_size
            tied = False
            if chosen is not None and place != preferred:
                longest = chosen[2] + _TIED * bool(found.exact_models)
                tied = misses <= _EQUAL * chosen[1] and size <= longest
                first |= as_good and size < chosen[2] and not found.exact_models
            if (gains and first) or place == preferred or tied:
                out.append(FrontMember(place, found.members[place], misses, tied))
        least = min(least, best_of_size)
    return out
