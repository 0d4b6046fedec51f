"""Candidate fields for one data set: sparse regressions, an operator's opinion, and their trajectory fits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fim_dynsys.regression.smoothing import TIME_AWARE, Smoother
from fim_dynsys.search.candidates import Candidate, judge, propose
from fim_dynsys.search.comparison import Compared, compared
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import MAX_TERMS, improve, refine_and_prune
from fim_dynsys.search.reselection import FITS, ROUNDS, reselect
from fim_dynsys.search.restrictions import Restriction

RATIOS = (1.0, 2.0, 4.0)
"""A coefficient of the operator is kept where it is so many of its standard deviations."""

SHORTLIST = 24
"""Number of candidates among which the selector chooses."""

_PER_SUPPORT, _UNFITTED = 2, 4  # of a shortlist

STRUCTURES, WINDOWED = 3, 8
"""Regressed structures that are fitted, and those that are fitted over short windows."""


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


def gather(
    search: Search,
    opinion: Opinion | None = None,
    structures: int = STRUCTURES,
    smoothers: Sequence[Smoother] = TIME_AWARE,
    windowed: int = WINDOWED,
    fits: int = FITS,
    rounds: int = ROUNDS,
) -> list[Candidate]:
    """Candidates worth choosing from, each integrated over the observation times and scored by BIC.

    Sparse regressions of smoothed slopes; the best structures among them fitted to the trajectories and
    stripped of terms that do not pay; the operator's solves, and the structures that its last one suggests,
    fitted and stripped likewise. Terms are chosen anew about the paths of the best fits, see `reselect`.
    Where the best of all leaves more than noise, as with chaotic data, structures are also fitted over short
    windows, which are then merged, see `merge_windows`.

    Parameters
    ----------
    search : Search
        Data and terms.
    opinion : Opinion, optional
        Of a pretrained operator.
    structures : int
        Number of regressed structures that are fitted.
    smoothers : sequence of Smoother
        Whose slopes are regressed.
    windowed : int
        Number of structures that are fitted over short windows where that is needed.
    fits, rounds : int
        See `reselect`.

    Returns
    -------
    list of Candidate
        Best first, without two of the same coefficients.
    """
    return gather_compared(search, opinion, structures, smoothers, windowed, fits, rounds, False).candidates


def gather_compared(
    search: Search,
    opinion: Opinion | None = None,
    structures: int = STRUCTURES,
    smoothers: Sequence[Smoother] = TIME_AWARE,
    windowed: int = WINDOWED,
    fits: int = FITS,
    rounds: int = ROUNDS,
    windows: bool = True,
    known: Sequence[Candidate] = (),
) -> Compared:
    """As `gather`, all compared over windows where no candidate follows the whole records.

    ``windows`` says whether that may be, see `compared`; ``known`` are more candidates, judged before.
    """
    degrees = range(1, search.dictionary.degree + 1)
    ranked = improve(search, judge(search, propose(search, degrees, smoothers)), structures)
    if opinion is not None:
        said = [
            Candidate(
                values,
                search.observations.start,
                Origin(Stage.SOLVE, number=k),
                Stage.SOLVE.value,
                restriction=search.restriction,
            )
            for k, values in enumerate(opinion.solves)
            if np.isfinite(values).all()
        ]
        fitted = fit_opinion(search, opinion, ranked)
        ranked = ranked + judge(search, said + fitted)
    found = distinct(ranked)
    found = distinct(found + reselect(search, found, fits, rounds))
    result = compared(search, distinct([*found, *known]), windowed, windows)
    return replace(result, candidates=distinct(result.candidates))


def fit_opinion(search: Search, opinion: Opinion, known: list[Candidate]) -> list[Candidate]:
    """Trajectory fits of the terms that the operator's last solve is sure of.

    Parameters
    ----------
    search, opinion
        See `gather`.
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
    said = Candidate(
        opinion.solves[-1], search.observations.start, origin, Stage.SOLVE.value, restriction=known_facts
    )
    (solve,) = judge(search, [said])
    candidates = []
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
        candidates += refine_and_prune(search, start, search.observations.path)
    return [c for c in candidates if c.is_finite]


def distinct(candidates: list[Candidate]) -> list[Candidate]:
    """Candidates with coefficients of their own, best first."""
    kept, seen = [], set()
    for candidate in sorted(candidates, key=lambda c: c.score):
        if _key(candidate) not in seen:
            seen.add(_key(candidate))
            kept.append(candidate)
    return kept


def including(candidates: list[Candidate], one: Candidate) -> list[Candidate]:
    """The candidates with this one, in the place of any of its coefficients."""
    return [c for c in candidates if _key(c) != _key(one)] + [one]


def _key(candidate: Candidate) -> bytes:
    return candidate.coefficients.astype(np.float32).tobytes()


def shortlist(candidates: list[Candidate], size: int = SHORTLIST) -> list[Candidate]:
    """The candidates worth a closer look: best first, few of one support, the operator's last solves too.

    Parameters
    ----------
    candidates : list of Candidate
        Scored, best first.
    size : int
        Largest number returned.

    Returns
    -------
    list of Candidate
        Best first; not empty, though none may have a finite score.
    """
    finite = [c for c in candidates if np.isfinite(c.score)] or candidates[:1]
    solves = sorted((c for c in finite if c.origin.stage is Stage.SOLVE), key=lambda c: c.origin.number)[-2:]
    kept: list[Candidate] = []
    supports: dict[bytes, int] = {}
    unfitted = 0
    for candidate in finite:
        if any(candidate is solve for solve in solves):
            continue
        key = candidate.support.tobytes()
        if supports.get(key, 0) == _PER_SUPPORT or not (candidate.refined or unfitted < _UNFITTED):
            continue
        supports[key] = supports.get(key, 0) + 1
        unfitted += not candidate.refined
        kept.append(candidate)
        if len(kept) + len(solves) == size:
            break
    return sorted(kept + solves, key=lambda c: c.score)
