"""From noise-free samples to their models."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.observed import Observations
from fim_dynsys.regression.precise import RESOLVED, Precise, resolution
from fim_dynsys.regression.windows import every, in_windows
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.exact.constrained import satisfying
from fim_dynsys.search.exact.models import (
    KNEE_OF_SIMULATIONS,
    NOISE_FREE,
    NOISELESS,
    TRACE,
    ExactModel,
    effective_sample_size,
    fitted,
    from_sample_to_sample,
    missed_between,
    ranked,
    smaller,
    systematic,
    with_complements,
    with_constants,
    with_one_state,
    with_plain_parts,
    without_traces,
)
from fim_dynsys.search.exact.structures import (
    newton,
    of_few_terms,
    over,
    right_hand_sides,
    starts,
    subsets,
    tuned,
    widened,
    with_functions,
)
from fim_dynsys.search.functions.reduction import reduced
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import MAX_TERMS
from fim_dynsys.search.reselection import MOST_COEFFICIENTS
from fim_dynsys.search.state_equations import StateEquation, combined, state_equations_of, together

SURE = 2e-3
"""Of the signal: models that miss less, and nothing systematic, need no other search beside them."""

_WINDOW = 50.0  # units of time: over much longer ones rounding grows beyond the samples of chaotic records
_MOST_SAMPLES = 3000  # among which models are sought; more are thinned
_GAP, _FEWEST = 0.1, 150  # units of time between samples that suffice to find a model, and samples
_CHECKED = 6  # models of thinned samples that are fitted to all samples
_HIGHER = {1: 6, 2: 5}  # degrees by number of states, where no lower one is exact
_UNEXPLAINED = 0.1  # of the signal, by polynomials from one noise-free sample to the next
_FUNCTIONS_UP_TO = 4  # states
_NOISES = 3.0  # noise levels: a misfit above it is not noise
_SIMPLER = 2  # parameters less, for functions where a polynomial leaves noise
_FEW, _FEW_READ = 4, 3  # parameters of a state; more are read again along the model's own path
_SPARSE, _AS_CLOSE, _CLOSER = 0.75, 2.0, 0.1  # of its terms, times what it misses or one of lower degree
_LONGER, _FEW_FITS = 2, 4  # of functions where a model is exact: so much longer ones are pruned, so many fits
# Equations whose numbers are tuned; reselected; from which terms are dropped.
_TUNED, _RESELECTED, _PRUNED = 4, 2, 3
_RECOMBINED = 6  # models
_PRUNINGS = 3  # in turn: rounds that end where no new model comes first
_RESELECTIONS = 6  # of choosing terms again about a model
_READ, _NEARER_READ = 4, 0.8  # times that sides are read, each time along a path that is nearer by this
_NEARER = 0.1  # than a polynomial: functions are sought again, along the model
_WHITE = 0.5  # of the samples, that residuals are worth which are noise
_NEAR = 5e-4  # of the signal: what misses more is not improved by its numbers alone
_OPEN = 10.0  # in BIC: models closer than this are not distinguished
_SIMULATED = 1e-5  # of the signal: errors of usual simulations
_INTEGRATED = 1e-6  # of the signal: careful simulations err by it, and no wrong model of few terms comes near
_WIDE = {**_HIGHER, 3: 4}  # degrees by number of states: what a model misses falls with all monomials
_RESOLVED = 50.0  # times what counts as rounding, and the error of usual simulations: a model is found


class ExactSearch:
    """Models of one data set, each structure fitted once, over windows of long records.

    Parameters
    ----------
    search : Search
        Data and monomials. Models are sought without its restriction; those that satisfy it are answers.
    samples : list of (t (n,), x (n, d))
        As they were given, for their rounding.
    composed : bool
        Whether functions of squares and of reciprocals are sought where no others do.

    Attributes
    ----------
    search : Search
        The same over the windows, from whose starts models are fitted.
    """

    def __init__(
        self, search: Search, samples: Sequence[tuple[np.ndarray, np.ndarray]], composed: bool = False
    ) -> None:
        self.search = replace(search, observations=in_windows(search.observations, _WINDOW))
        self._search, self._composed = replace(self.search, restriction=None), composed
        self._precise = Precise.of(self.search.observations, resolution(samples))
        self._fits: dict[bytes, ExactModel | None] = {}
        self._pruned: set[bytes] = set()
        self._as_samples: dict[bytes, bool] = {}  # whether models err as the samples do
        self._allowed: dict[bytes, bool] = {}  # whether models satisfy the restriction
        self._varied: set[bytes] = set()  # models about which structures were sought

    @property
    def models(self) -> list[ExactModel]:
        """All that was found and misses little, the preferred one first."""
        return ranked([model for model in self._fits.values() if model is not None])

    @property
    def answers(self) -> list[ExactModel]:
        """The models allowed, with numbers that satisfy the restriction.

        Those that are hardly less preferred than the first have their final numbers.
        """
        models = self.allowed
        final = [
            from_sample_to_sample(self._precise, model)
            if model.item.score < models[0].item.score + _OPEN
            else model
            for model in models
        ]
        found = (
            self._satisfying(new) or self._satisfying(old) for new, old in zip(final, models, strict=True)
        )
        return [model for model in found if model is not None]

    @property
    def allowed(self) -> list[ExactModel]:
        """The models that satisfy the restriction, with the numbers that they have without it."""
        return [model for model in self.models if self._is_allowed(model)]

    def _is_allowed(self, model: ExactModel) -> bool:
        known = _identity(model)
        if known not in self._allowed:
            self._allowed[known] = self._satisfying(model) is not None
        return self._allowed[known]

    def _satisfying(self, model: ExactModel) -> ExactModel | None:
        return satisfying(model, self.search)

    @property
    def _best(self) -> ExactModel | None:
        """The preferred model."""
        return next(iter(self.models), None)

    @property
    def settled(self) -> bool:
        """Whether the preferred model allowed misses hardly anything, and nothing systematic."""
        best = next(iter(self.allowed), None)
        return best is not None and self._settles(best)

    @property
    def preferred_allowed(self) -> bool:
        """Whether a model that satisfies the restriction is hardly less preferred than any other."""
        allowed = self.allowed
        return bool(allowed) and allowed[0].item.score < self.models[0].item.score + _OPEN

    def _settles(self, best: ExactModel) -> bool:
        if not best.misses < SURE or self._systematic(best):
            return False
        white = effective_sample_size(best.residuals) > _WHITE * len(best.residuals)
        return best.misses < NOISELESS or bool(white.all())

    @property
    def found(self) -> bool:
        """Whether the preferred model misses hardly more than rounding, by few terms: no other is needed."""
        best = self._best
        return best is not None and self._found(best)

    @property
    def is_nearly_noise_free(self) -> bool:
        """Whether the samples have so little noise that they may be fitted to numerical precision."""
        return self._noise < NOISE_FREE

    @property
    def is_free_of_noise(self) -> bool:
        """Whether what the preferred model misses is not noise; False where there is no model to tell."""
        best = self._best
        return best is not None and (best.misses < NOISELESS or self._systematic(best))

    def run(self, functions: int, simpler: bool = True) -> None:
        """Seek models: polynomials, and functions where they miss something or might be simpler.

        Parameters
        ----------
        functions : int
            Number of structures with functions whose numbers are fitted.
        simpler : bool
            Whether functions are sought where a polynomial is exact, too.

        Notes
        -----
        Between samples that are close little happens, and many cost much: models are first sought on every
        k-th, and the best fitted to all. Where that finds none, they are sought on all up to three thousand.
        """
        search, precise = self._search, self._precise
        for stride in _strides(search.observations):
            self._forget()
            if stride > 1:
                self._search = replace(search, observations=every(search.observations, stride))
                self._precise = Precise.of(
                    self._search.observations, precise.resolution * search.observations.scale
                )
            self._seek(functions, simpler)
            self._recombine()
            self._reselect()
            if stride > 1:
                found = [model.item for model in self.models[:_CHECKED]]
                self._forget()
                self._search, self._precise = search, precise
                self.fit(found)
            best = self._best
            if best is not None and (self._settles(best) or self._simulated(best)):
                return

    def _forget(self) -> None:
        """Begin again, with other samples."""
        self._fits.clear()
        self._pruned.clear()
        self._as_samples.clear()
        self._allowed.clear()
        self._varied.clear()

    def _seek(self, functions: int, simpler: bool) -> None:
        dictionary, n = self._search.dictionary, self._search.observations.n
        coefficients = len(dictionary) * dictionary.dim
        if not 2 * len(dictionary) <= n <= _MOST_SAMPLES or coefficients > MOST_COEFFICIENTS:
            return
        largest = _UNEXPLAINED if self._noise < NOISE_FREE else NOISE_FREE
        dense = None
        for start in starts(self._search):
            item, missed = newton(self._precise, start)
            if missed < largest:
                dense, misses = item, missed
                self.fit(subsets(self._precise, dense))
                if self.models:
                    break
        if dense is None:
            return
        self._prune()
        self._reselect()
        best, most = self._best, MAX_TERMS
        higher = _HIGHER.get(dictionary.dim, 0)
        if higher > dictionary.degree and not (best and best.is_exact):
            wide, missed = newton(self._precise, over(Dictionary.polynomial(dictionary.dim, higher), dense))
            if missed < misses:
                self._fit_high_degrees(wide, missed, _CLOSER * misses)
                best = self._best
        if best is not None and not self._systematic(best):
            degree = best.item.dictionary.degree
            if (best.is_exact or self._is_complete(best)) and not simpler:
                if functions and degree > dictionary.degree:  # may follow a function along one orbit
                    self._read_sides(best.item, best.misses)
                return
            highest = degree >= dictionary.degree
            most = best.parameters - _SIMPLER if highest else 0
            if best.misses < misses:
                dense, misses = best.item, best.misses
        if functions and dictionary.dim <= min(_FUNCTIONS_UP_TO, most):
            self._read_repeatedly(dense, misses)
            read = self._better_than(best)
            if read is None:
                self._read_sides(dense, misses)
                read = self._better_than(best)
            if read is not None:
                if read.parameters > _FEW_READ * dictionary.dim:
                    self._read_sides(read.item, read.misses)
                    read = self._best or read
                if read.parameters <= _FEW * dictionary.dim:
                    return
                most = read.parameters - _SIMPLER
            self._seek_functions(dense, misses, functions, most)
            self._prune()
            self._seek_again(dense, misses, functions, most)

    def fit(self, items: Iterable[Candidate]) -> None:
        """Fit structures that were not tried, without what is known of their numbers."""
        for item in items:
            self._fitted(item if item.restriction is None else replace(item, restriction=None).in_use())

    def fit_state_equations(self, proposed: Sequence[Sequence[StateEquation]], by: str) -> None:
        """Fit models of right-hand sides proposed for each state, and what those that come nearest lead to.

        Parameters
        ----------
        proposed : d lists of StateEquation
            In the units of the search, best first.
        by : str
            The proposer's name.
        """
        self._improve(self._combine(proposed, Stage.PROPOSED, by))
        self._prune()

    def _recombine(self) -> None:
        """Fit models with only the terms that show, and with shorter right-hand sides of other models."""
        best = self._best
        if best is None or self._found(best):
            return
        equations = state_equations_of(best.item)
        by_state: list[dict[bytes, StateEquation]] = [{side.structure: side} for side in equations]
        for model in sorted(self.models, key=lambda model: model.item.score)[:_RECOMBINED]:
            coefficients = model.item.coefficients
            for state, side in enumerate(state_equations_of(model.item)):
                shares = model.shares[coefficients[:, state] != 0.0, state]
                shown = np.flatnonzero(shares > TRACE).tolist()
                side = side.subset(shown, side.coefficients[shown].tolist(), side.score)
                if 0 < side.parameters <= equations[state].parameters:
                    by_state[state].setdefault(side.structure, side)
        if max(map(len, by_state)) > 1:
            self._combine([list(known.values()) for known in by_state], Stage.CROSSING)
            self._prune()

    def _reselect(self) -> None:
        """Structures near the best model and the nearest one, while they improve on it."""
        for _ in range(_RESELECTIONS):
            models = self.models
            if not models or self._found(models[0]):
                return
            for model in (models[0], min(models, key=lambda model: model.misses)):
                known = _identity(model)
                if known not in self._varied:
                    self._varied.add(known)
                    self.fit(subsets(self._precise, widened(self._search, model.item)))
            self._prune()
            if self.models[0].item.structure == models[0].item.structure:
                return

    def _combine(
        self, proposed: Sequence[Sequence[StateEquation]], stage: Stage, by: str = ""
    ) -> list[ExactModel]:
        """Models of right-hand sides proposed for each state, near the best model and the best of them."""
        best = self._best
        fits: dict[bytes, ExactModel | None] = {}

        def fit(sides: Sequence[StateEquation]) -> float:
            item = together(sides, self._search.observations.start, stage, by)
            model = fits[item.structure] = self._fitted(item)
            return np.inf if model is None else model.score

        if best is None:
            combined(proposed, [], np.inf, fit)
        else:
            combined(proposed, state_equations_of(best.item), best.score, fit)
        return [model for model in fits.values() if model is not None]

    def _fit_high_degrees(self, dense: Candidate, missed: float, closer: float) -> None:
        """As `fit` of its subsets, but only exact models are kept: high-degree polynomials overfit.

        Or models of far fewer terms that miss no more than ``closer``, if they have few parameters in each
        state or miss hardly more than the dense one, ``missed``; and those that are better than the best:
        shorter, and miss hardly more, or no longer, and miss less.
        """
        best, size = self._best, dense.coefficients.size
        few = _FEW * dense.dictionary.dim
        for item in subsets(self._precise, dense):
            if item.structure in self._fits:
                continue
            model = self._fitted(item)
            if model is None:
                continue
            most = closer if model.parameters <= few else min(_AS_CLOSE * missed, closer)
            if best is not None and model.parameters <= best.parameters:
                shorter = model.parameters < best.parameters
                most = max(most, (_AS_CLOSE if shorter else 1.0) * best.misses)
            if self._found(model) or (model.parameters <= _SPARSE * size and model.misses < most):
                for less in smaller(self._precise, model):
                    self._fits[less.item.structure] = less
            else:
                self._fits[item.structure] = None

    def _fitted(self, item: Candidate) -> ExactModel | None:
        """A structure's model, fitted once."""
        item = reduced(item)
        known = item.structure
        if known not in self._fits:
            few = 0 < item.support.sum() <= MAX_TERMS
            self._fits[known] = fitted(self._precise, item) if few else None
        return self._fits[known]

    def _better_than(self, polynomial: ExactModel | None) -> ExactModel | None:
        """The preferred model where nothing is left, or hardly anything and it is not a given polynomial."""
        best = self._best
        if best is None or best.is_exact:
            return best
        other = polynomial is None or best.item.structure != polynomial.item.structure
        return best if other and self._found(best) else None

    def _read_repeatedly(self, dense: Candidate, misses: float) -> None:
        """Fit models of right-hand sides without sums, read again along their paths while these come nearer.

        Between samples far from each other a polynomial is no good path for sharp functions.
        """
        for _ in range(_READ):
            self._read_sides(dense, misses, with_sums=False)
            self._recombine()
            best = self._best
            if best is None or self._found(best) or not best.misses < _NEARER_READ * misses:
                return
            dense, misses = best.item, best.misses

    def _read_sides(self, dense: Candidate, misses: float, with_sums: bool = True) -> None:
        """Fit models of right-hand sides read off the samples, those of each state alone."""
        sides = right_hand_sides(self._precise, self._search, dense, misses, self._composed, with_sums)
        self._combine(sides, Stage.IMPLICIT_REGRESSION)
        self._prune()

    def _seek_functions(self, dense: Candidate, misses: float, functions: int, most: int) -> None:
        fits: list[ExactModel] = []
        exact = most < MAX_TERMS
        for item in with_functions(self._precise, self._search, dense, misses, functions):
            if exact and (len(item.parameters) > most + _LONGER or len(fits) == _FEW_FITS):
                continue
            model = self._fitted(item)
            if model is not None:
                fits.append(model)
                if model.is_exact and model.parameters < most:
                    exact, most = True, model.parameters - 1
        self._improve(fits)

    def _improve(self, fits: Iterable[ExactModel]) -> None:
        """Structures suggested by the best models with numbers tuned and all terms about them."""
        by_function: dict[Origin, ExactModel] = {}
        for model in sorted(fits, key=lambda model: model.score):
            by_function.setdefault(model.item.origin, model)
        wide = []
        for model in list(by_function.values())[:_TUNED]:
            near = not model.is_exact and model.misses < _NEAR
            item = tuned(self._precise, self._search, model.item) if near else model.item
            wide.append(newton(self._precise, widened(self._search, item)))
            if wide[-1][1] < _RESOLVED * RESOLVED:
                break
        for item, misses in sorted(wide, key=lambda pair: pair[1])[:_RESELECTED]:
            if misses < NOISE_FREE:
                self.fit(subsets(self._precise, item))

    def _seek_again(self, dense: Candidate, misses: float, functions: int, most: int) -> None:
        """Functions along the path of the best model, where it is the better one, and few terms."""
        best = self._best
        if best is None or self._found(best):
            return
        if best.misses < _NEARER * misses:
            dense, misses = best.item, best.misses
            self._read_sides(dense, misses)
            best = self._best or best
            if self._found(best):
                return
            if best.misses < _RESOLVED * RESOLVED or most < MAX_TERMS:
                most = best.parameters - _SIMPLER
            if most > self._search.dictionary.dim:
                self._seek_functions(dense, misses, functions, most)
        few = of_few_terms(self._precise, self._search, dense, misses, most - 1)
        self.fit(itertools.islice(few, _FEW_FITS))
        self._prune()

    def _found(self, model: ExactModel) -> bool:
        """Whether a model misses hardly more than rounding, by few terms."""
        per_state = model.parameters / self._search.dictionary.dim
        return (
            model.is_exact
            or (per_state <= _FEW and model.misses < _RESOLVED * RESOLVED)
            or (per_state <= _FEW_READ and model.misses < _INTEGRATED)
        )

    def _simulated(self, model: ExactModel) -> bool:
        """Whether a model of few terms misses no more than the integration error of the simulated samples."""
        return model.misses < _SIMULATED and model.parameters <= _FEW * self._search.dictionary.dim

    def _prune(self) -> None:
        traces = [
            model
            for model in self.models[:_CHECKED]
            if not model.is_plain and model.item.structure not in self._pruned
        ]
        self.fit(without_traces(model) for model in traces)
        for _ in range(_PRUNINGS):  # what is left of a model is another, with less
            for model in self._new():
                rewritten = with_constants(model), with_one_state(model), with_complements(model)
                self.fit(itertools.chain(*rewritten, with_plain_parts(model)))
            new = self._new()
            for model in new:
                self._pruned.add(model.item.structure)
                for less in smaller(self._precise, model, self._errs_as_its_samples(model)):
                    self._fits[less.item.structure] = less
            if not new:
                return

    def _new(self) -> list[ExactModel]:
        """Of the best models, those that were not pruned before."""
        return [model for model in self.models[:_PRUNED] if model.item.structure not in self._pruned]

    def _systematic(self, model: ExactModel) -> bool:
        if model.is_exact:
            return False
        missing = model.misses > _NOISES * self._noise or systematic(self._precise, model)
        return missing and not self._is_complete(model)

    def _is_complete(self, model: ExactModel) -> bool:
        """Whether a model has few terms in each state, and misses the integration error of its samples."""
        return bool(model.item.support.sum(axis=0).max() <= _FEW) and self._errs_as_its_samples(model)

    def _errs_as_its_samples(self, model: ExactModel) -> bool:
        """Whether what a model misses is the integration error of the simulated samples.

        What a model misses for want of a term is a function of the state, and falls where all monomials join.
        """
        known = _identity(model)
        if known not in self._as_samples:
            degree = _WIDE.get(self._search.dictionary.dim)
            simulated = degree is not None and model.misses < _SIMULATED and not self._falls(model, degree)
            self._as_samples[known] = simulated
        return self._as_samples[known]

    def _falls(self, model: ExactModel, degree: int) -> bool:
        """Whether from one sample to the next less is missed where all monomials up to a degree join."""
        wide = replace(self._search, dictionary=Dictionary.polynomial(model.item.dictionary.dim, degree))
        with np.errstate(all="ignore"):
            missed = missed_between(self._precise, model)
        rest = newton(self._precise, widened(wide, model.item))[1]
        return not np.isfinite(rest) or bool(rest <= np.sqrt(np.mean(missed**2)) / KNEE_OF_SIMULATIONS)

    @property
    def _noise(self) -> float:
        """At most so large is the noise, in standard deviations of the coordinates."""
        return float(np.max(self._search.observations.noise.level / np.sqrt(self._precise.signal)))


def _identity(model: ExactModel) -> bytes:
    """A model's structure and numbers."""
    return model.item.structure + model.item.parameters.tobytes()


def _strides(observations: Observations) -> list[int]:
    """Strides of the samples that models are sought on: few that show the motion, then as many as may be."""
    n = observations.n
    gap = float(np.median(np.concatenate([np.diff(t) for t, _ in observations.samples])))
    coarse = max(min(int(_GAP / gap) if gap > 0 else 1, n // _FEWEST), 1)
    most = -(-n // _MOST_SAMPLES)
    return sorted({max(coarse, most), most}, reverse=True)
