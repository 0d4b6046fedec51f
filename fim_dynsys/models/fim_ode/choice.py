"""From the operator's initial estimate to one field: candidates fitted to trajectories, and a learned choice.

Noise-free samples are fitted to numerical precision: exact models need no learned choice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fim_dynsys.fields.inference import Inference, Judge
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models.law_notes import preference_note
from fim_dynsys.regression.criteria import Known, equal_errors, looks_clean
from fim_dynsys.regression.observed import complete_inputs, observe
from fim_dynsys.regression.smoothing import TIME_AWARE
from fim_dynsys.search.candidates import Candidate, price_of_choice
from fim_dynsys.search.exact.identification import ExactSearch
from fim_dynsys.search.exact.laws import Law
from fim_dynsys.search.features import N_FEATURES, N_START_FEATURES, features, start_features
from fim_dynsys.search.functions.families import radians_per_unit
from fim_dynsys.search.functions.fits import FunctionCandidate
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.search.opinion import Opinion
from fim_dynsys.search.pool import Pool, over_windows, shortlist
from fim_dynsys.search.portfolio import Portfolio
from fim_dynsys.search.problem import Search, distinguishable
from fim_dynsys.search.selector import Selector, beaten, unfitted_and_far_behind
from fim_dynsys.search.stages import POLYNOMIALS, Effort, Row
from fim_dynsys.trajectories.container import Trajectories

MIN_OBSERVATIONS = 12
"""Complete samples below which the operator's own field stands."""

N_CHOICE_FEATURES = N_FEATURES + N_START_FEATURES
"""Columns of `Shortlist.features`."""

_SMOOTHERS = [
    TIME_AWARE[k] for k in (3, 6, 8)
]  # one of each kind; all nine find hardly more, for twice the time

ROW = Row(POLYNOMIALS, Effort(smoothers=_SMOOTHERS, composed=False), Judge.SELECTOR)
"""What the operator's search consists of."""

_MET = 12  # candidates of the search that are fitted to the digits, too
_TEMPERATURE = 3.0  # of the selector's weights where members are drawn: chosen by coverage on development


@dataclass(frozen=True)
class Shortlist:
    """Candidates of one data set and what they are judged by.

    Attributes
    ----------
    search : Search
        Data and terms.
    opinion : Opinion
        The operator's.
    candidates : list of Candidate
        The shortlist, best BIC first; none where an exact model leaves nothing systematic.
    laws : list of Law
        Of noise-free data, the preferred one first, which is chosen.
    compared : Pool or None
        Over what the candidates were compared.
    """

    search: Search
    opinion: Opinion
    candidates: list[Candidate]
    laws: list[Law] = field(default_factory=list)
    compared: Pool | None = None

    @classmethod
    def searched(cls, search: Search, opinion: Opinion, compare: bool = True, row: Row = ROW) -> "Shortlist":
        """Of a search from an initial estimate, with each kind of smoother; ``compare``: over windows too."""
        found = row.search(Pool(search, opinion=opinion, whole=not compare))
        return cls(found.search, opinion, shortlist(found.candidates), compared=found)

    @property
    def in_windows(self) -> bool:
        """Whether candidates were compared over windows, where the smallest BIC is chosen."""
        return self.search.observations.cut is not None

    def features(self) -> np.ndarray:
        """What a selector sees (C, `N_CHOICE_FEATURES`)."""
        seen = features(self.search, self.candidates, self.opinion)
        return np.column_stack([seen, start_features(self.search, self.candidates)])

    @property
    def coefficients(self) -> np.ndarray:
        """Of all candidates (C, m, d), in the units of the data."""
        scaled = np.stack([c.coefficients for c in self.candidates])
        observations = self.search.observations
        return self.search.dictionary.rescaled(scaled, observations.scale, observations.time_unit)[1]

    def preferred(self, selector: Selector | None) -> Candidate:
        """The candidate that a `Selector` ranks first; without one the best BIC, with inputs the extended.

        The best BIC too where windows were compared, which selectors have not learned from.
        """
        if self.in_windows and self.compared is not None:
            return self.compared.preferred
        if selector is not None:
            logits = np.where(
                unfitted_and_far_behind(self.candidates), -np.inf, selector.logits(self.features())
            )
            return self.candidates[int(np.argmax(logits))]
        terms = len(self.search.dictionary) if self.search.observations.n_inputs else 0
        prices = [price_of_choice(c, terms) if terms else 0.0 for c in self.candidates]
        return min(zip(self.candidates, prices, strict=True), key=lambda pair: pair[0].score + pair[1])[0]

    def draws(self, selector: Selector, n: int, rng: np.random.Generator) -> list[FunctionCandidate]:
        """Candidates drawn by a selector's weights, each with coefficients from the posterior of its fit."""
        terms = self.search.dictionary
        members = [FunctionCandidate(c, terms) for c in self.candidates]
        if self.in_windows:
            weights = -0.5 * np.array([c.score for c in self.candidates])
        else:
            weights = selector.logits(self.features()) / _TEMPERATURE
        return Portfolio(self.search, members).draws(weights, n, rng)

    def choose(self, selector: Selector | None) -> tuple[Candidate | FunctionCandidate, dict, Inference]:
        """The preferred candidate or exact model, a report on it, and the facts of the choice."""
        if self.laws:
            law = self.laws[0]
            report = {
                "chosen": law.item.candidate.origin.text(),
                "candidates": len(self.laws),
                "misses": law.misses,
            }
            return law.item, report, Inference(Judge.EXACT)
        lacking = self.compared is not None and self.compared.lacking
        by = Judge.EXTENDED_BIC if self.search.observations.n_inputs or lacking else Judge.BIC
        selector = None if self.in_windows else selector
        best = self.preferred(selector)
        report = {
            "chosen": best.origin.text(),
            "candidates": len(self.candidates),
            "BIC behind the best": best.score - self.candidates[0].score,
        }
        better = None if selector is None else beaten(self.candidates, best)
        known = over_windows(self.search.observations, Inference(by if selector is None else Judge.SELECTOR))
        return best, report, known if better is None else known.noting(preference_note(*better))


def consider(
    context: Trajectories,
    dictionary: Dictionary,
    solves: np.ndarray,
    variances: np.ndarray,
    knowledge: Knowledge | None = None,
    laws: bool = True,
    known: Known | None = None,
    row: Row = ROW,
    positions: Sequence[str] | None = None,
) -> Shortlist | None:
    """Candidates for one context, and exact models where its samples are noise-free.

    Parameters
    ----------
    context : Trajectories
        Complete samples, of inputs too where there are any.
    dictionary : Dictionary
        Monomials, of states and inputs.
    solves, variances : arrays (S, m, d), (m, d)
        The operator's coefficients in the units of the data.
    knowledge : Knowledge, optional
        What every candidate satisfies.
    laws : bool
        Whether exact models are sought where samples are noise-free; a selector is trained on shortlists
        alone.
    known : list of arrays (n, d) or Noise, optional
        Errors of the samples of trajectories of two and more, as they were given; exact models are only read
        off samples of one precision.
    row : Row
        What is searched.
    positions : sequence of str, optional
        States that were observed, the others being their velocities.

    Returns
    -------
    Shortlist or None
        None where there are too few samples to judge by.
    """
    samples = [(t, x) for t, x in context.arrays() if len(t) >= 2]
    if sum(len(t) for t, _ in samples) < MIN_OBSERVATIONS:
        return None
    inputs = complete_inputs(context, "fim-ode")
    observations = observe(samples, radians_per_unit(context), inputs)
    if inputs is not None:
        kept = distinguishable(dictionary, observations)
        dictionary, solves, variances = dictionary.subset(kept), solves[:, kept], variances[kept]
    search = Search(observations, dictionary).knowing(knowledge, context.state_names, context.input_names)
    search = search.observing(positions, context.state_names).measured(known)
    opinion = Opinion.scaled(search, solves, variances)
    clean = None
    free = (
        inputs is None and positions is None and search.restriction is None and equal_errors(known)
    )  # laws are read off without
    if laws and row.effort.laws is not None and free and looks_clean(samples):
        clean = ExactSearch(search, samples, row.effort.composed)
        clean.run(row.effort.laws, simpler=False)
        if clean.settled:
            return Shortlist(search, opinion, [], clean.answers)
    exact = clean is not None and bool(clean.laws)
    found = Shortlist.searched(search, opinion, laws and not exact, row)
    if clean is None:
        return found
    if clean.laws:
        candidates = found.candidates[:_MET]
        clean.meet(FunctionCandidate.of(c, search.dictionary) for c in candidates)
    return replace(found, laws=clean.answers)
