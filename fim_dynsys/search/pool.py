"""All candidates of a search, each once, and over what they were compared."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fim_dynsys.fields.inference import Inference
from fim_dynsys.regression.observed import Observations
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.initial_estimate import InitialEstimate
from fim_dynsys.search.judges import BIC, ExtendedBic, totals
from fim_dynsys.search.origins import Stage
from fim_dynsys.search.problem import Search

SHORTLIST = 24
"""Number of candidates among which one is chosen, or draws are made."""

_PER_SUPPORT, _UNFITTED = 2, 4  # of a shortlist


@dataclass(frozen=True)
class Pool:
    """Candidates of one search, best first.

    Attributes
    ----------
    search : Search
        Data, in windows where that was needed, and terms.
    candidates : list of Candidate
        Of the search's terms, integrated over the whole records or the windows and scored by BIC, best
        first, without two of the same coefficients.
    functions : list of Candidate
        Of terms of their own, scored likewise.
    estimate : InitialEstimate or None
        Of a pretrained operator.
    besides : list of Candidate
        Judged before the search began; they join where candidates are compared.
    whole : bool
        Whether records must be compared whole, never in windows.
    lacking : bool
        Whether the best leaves clearly more than noise of the windows: what is chosen then pays for having
        been chosen among many terms.
    """

    search: Search
    candidates: list[Candidate] = field(default_factory=list)
    functions: list[Candidate] = field(default_factory=list)
    estimate: InitialEstimate | None = None
    besides: list[Candidate] = field(default_factory=list)
    whole: bool = False
    lacking: bool = False

    @property
    def in_windows(self) -> bool:
        """Whether candidates were compared over windows."""
        return self.search.observations.cut is not None

    @property
    def preferred(self) -> Candidate:
        """The smallest BIC, extended where something is lacking."""
        judge = ExtendedBic() if self.lacking else BIC
        return self.candidates[int(np.argmin(totals(judge, self.search, self.candidates)))]

    @property
    def fitted(self) -> list[Candidate]:
        """Those that were fitted to the trajectories and follow them, best first."""
        return [c for c in self.candidates if c.refined and np.isfinite(c.score)]

    def adding(self, judged: Sequence[Candidate]) -> "Pool":
        """The pool with more candidates; of the same coefficients the better one stays."""
        return replace(self, candidates=distinct([*self.candidates, *judged]))


def over_windows(observations: Observations, known: Inference) -> Inference:
    """Facts of an inference, with the windows that its candidates were compared over."""
    if observations.cut is None:
        return known
    ends = [t[-1] for t, _ in observations.cut.whole.samples]
    count = len(observations.samples)
    return replace(known, windows=count, window=float(sum(ends) / count * observations.time_unit))


def distinct(candidates: list[Candidate]) -> list[Candidate]:
    """Candidates with coefficients of their own, best first."""
    kept, seen = [], set()
    for candidate in sorted(candidates, key=lambda c: c.score):
        if _key(candidate) not in seen:
            seen.add(_key(candidate))
            kept.append(candidate)
    return kept


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
