"""SINDy that tunes itself."""

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.inference import Inference
from fim_dynsys.models.constraints_applied import honoured
from fim_dynsys.models.inputs import assumed
from fim_dynsys.models.question import Question
from fim_dynsys.models.searched import SearchedModel
from fim_dynsys.models.second_order import knowledge_with_positions
from fim_dynsys.regression.criteria import Known
from fim_dynsys.regression.gaps import completed, errors_of_pairs
from fim_dynsys.regression.observed import complete_inputs, complete_samples, observe
from fim_dynsys.regression.smoothing import TIME_AWARE
from fim_dynsys.regression.windows import in_windows
from fim_dynsys.search.comparison import refine_through
from fim_dynsys.search.horizon import follows, gather_windowed, resolves_motion
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.search.pool import Pool
from fim_dynsys.search.problem import Search
from fim_dynsys.search.proposals import refit
from fim_dynsys.search.pruning import refine
from fim_dynsys.search.stages import Effort, Row, regressions, windows
from fim_dynsys.trajectories.container import Trajectories

_MAX_MONOMIALS = 500  # whose normal matrices, one for each smoother and state, fill some hundred MB
_STAGES = regressions, windows
_IN_WINDOWS = 2  # times as many structures are fitted over short windows, where that is needed


class StrongSINDy(SearchedModel):
    """Sparse regression that chooses smoother, degree and sparsity itself; nothing to tune, nothing trained.

    Slopes from nine time-aware smoothers are regressed on monomials of degree 1 to `degree` along ten sparse
    paths (thresholded least squares and backward elimination). Every candidate is integrated from its
    smoothed first state over the observation times and scored by its misfit to the noisy samples and the
    Bayesian information criterion. The best structures are then fitted to the trajectories themselves and
    pruned of terms that do not improve the fit enough. Where none of them explains the samples from start to
    end, as on long chaotic records, candidates are fitted and compared over windows instead, as long as what
    the best leaves does not rise. `field_.fit_info.report` says which candidate won, and over what.
    At most 500 monomials are searched.
    Gaps of more than ten times the time in which the state travels one standard deviation (an oscillator
    turns one and a half times) are not bridged: what follows counts as another trajectory.
    Samples that neither their neighbours nor the fitted path explain are left out; not with inputs, known
    errors or positions alone.

    Parameters
    ----------
    degree : int
        Largest total degree of the monomials.
    refined : int
        Number of structures fitted to the trajectories; 0 leaves it at the regression of slopes.
    knowledge : Knowledge, optional
        Prior knowledge of the field; every candidate satisfies it.

    References
    ----------
    S. L. Brunton, J. L. Proctor, J. N. Kutz, PNAS 113 (2016) 3932; N. M. Mangan, J. N. Kutz, S. L. Brunton,
    J. L. Proctor, Model selection for dynamical systems via sparse regression and information criteria, Proc.
    R. Soc. A 473 (2017) 20170009, sect. 2.
    """

    name = "sindy-strong"
    version = "9"
    scale_equivariance = 1e-6
    _asks: ClassVar[dict[str, Any]] = {"angles": False}

    def __init__(self, degree: int = 3, refined: int = 4, knowledge: Knowledge | None = None) -> None:
        self.degree = degree
        self.refined = refined
        self.knowledge = knowledge

    def _degree_of(self, complete: Trajectories) -> int:
        self._check(complete)
        return self.degree

    def _answer(self, question: Question) -> DictionaryField | DrivenField:
        search = question.search
        effort = Effort(structures=self.refined, windowed=_IN_WINDOWS * self.refined)
        found = Row(_STAGES, effort).search(Pool(search))
        lost = not (self.refined or follows(search.observations, found.candidates[0]))
        if lost and resolves_motion(search.observations):
            found = Pool(search, gather_windowed(search, 0, TIME_AWARE))
        best = found.preferred
        report = {
            "chosen": best.origin.text(question.order.coordinates),
            "score": best.score,
            "candidates": len(found.candidates),
            "diverged": int(sum(not np.isfinite(c.score) for c in found.candidates)),
        }
        facts = Inference(noise=assumed(question.sigma), smoother=best.smoother, refined=best.refined)
        return question.answer(best, report, facts, found.search)

    def _refit_member(self, field: VectorField, context: Trajectories) -> DictionaryField | DrivenField:
        return self._refit_weighed(field, context, None)

    def _refit_weighed(
        self, field: VectorField, context: Trajectories, sigma: Known | None
    ) -> DictionaryField | DrivenField:
        """Refit the chosen terms: to smoothed slopes, then to the trajectories if the fit did so."""
        terms = field.extended if isinstance(field, DrivenField) else field
        assert isinstance(terms, DictionaryField)
        facts, names = field.fit_info.inference, context.state_names
        whole = completed(self._caller, context, sigma)
        positions = facts.positions or None
        knowledge = knowledge_with_positions(Knowledge.of(self.knowledge), positions)
        inputs = complete_inputs(whole.trajectories, self._caller)
        samples = complete_samples(whole.trajectories, self._caller, self.min_observations)
        search = Search(observe(samples, inputs=inputs), terms.dictionary)
        search = search.knowing(knowledge, names, context.input_names).observing(positions, names)
        search = search.measured(errors_of_pairs(whole))
        if facts.window is not None:
            length = facts.window / search.observations.time_unit
            search = replace(search, observations=in_windows(search.observations, length))
        support = terms.coefficients[:, : context.dim] != 0
        assert facts.smoother is not None  # `infer` gives it
        candidate = refit(search, support, facts.smoother)
        if facts.refined and support.any():
            if facts.window is None:
                again, _ = refine(search.observations, candidate, search.observations.path)
            else:
                again = refine_through(search.observations, candidate)
            candidate = again if np.isfinite(again.score) else candidate
        found = candidate.field(search.observations, context, field.fit_info.report, facts)
        return honoured(found, knowledge, self.degree)

    def _check(self, trajectories: Trajectories) -> None:
        """Whether the parameters allow a search of so many states and inputs."""
        if not isinstance(self.degree, int) or self.degree < 1:
            raise ValueError(f"sindy-strong: expected an integer degree >= 1, got {self.degree!r}.")
        if not isinstance(self.refined, int) or self.refined < 0:
            raise ValueError(f"sindy-strong: expected an integer refined >= 0, got {self.refined!r}.")
        dim = trajectories.dim + len(trajectories.input_names)
        terms = math.comb(dim + self.degree, self.degree)
        if terms > _MAX_MONOMIALS:
            raise ValueError(
                f"sindy-strong: expected at most {_MAX_MONOMIALS} monomials, got {terms} of degree "
                f"{self.degree} in {dim} states and inputs; lower the degree, or reduce the states first, "
                "for example with PCAReduction."
            )
