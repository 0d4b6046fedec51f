"""Candidates with fitted numbers inside their functions: trajectory fits and scores."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.inference import NOTHING_KNOWN, Inference
from fim_dynsys.fields.terms import NUMBERS, Dictionary
from fim_dynsys.regression.kernels.sensitivities import interval_maps
from fim_dynsys.regression.observed import Observations
from fim_dynsys.regression.refinement import TrajectoryFit, parameter_roots
from fim_dynsys.search.candidates import Candidate, score
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import affine, combined, compiled_counts, fit_samples
from fim_dynsys.trajectories.container import Trajectories

_FIRST: dict[int, Kind] = {Kind.COS: Kind.SIN, Kind.RECIPROCAL: Kind.HILL, Kind.INHIBITION: Kind.SATURATION}


@dataclass(frozen=True)
class FunctionCandidate:
    """A candidate with a dictionary of its own, of terms that it uses.

    Attributes
    ----------
    candidate : Candidate
        Over the dictionary.
    dictionary : Dictionary
        Terms, in the units of the search.
    free : int array (f, 3), optional
        Numbers that are fitted: term, slot (place in `NUMBERS`), and which number it is. Default: none.
    labels : tuple of int
        What each number was called before those out of use were left out.
    """

    candidate: Candidate
    dictionary: Dictionary
    free: np.ndarray = field(default_factory=partial(np.zeros, (0, 3), dtype=np.intp))
    labels: tuple = ()

    @classmethod
    def of(
        cls, candidate: Candidate, dictionary: Dictionary, free: Iterable[Sequence[int]] = ()
    ) -> "FunctionCandidate":
        """Keep the terms in use and number what is free in them."""
        known = candidate.restriction
        used = np.flatnonzero(
            candidate.support.any(axis=1) if known is None else known.rows_of(candidate.coefficients)
        )
        place = {int(term): i for i, term in enumerate(used)}
        rows = [(place[int(t)], int(slot), int(k)) for t, slot, k in free if int(t) in place]
        labels = tuple(sorted({k for *_, k in rows}))
        rows = [(t, slot, labels.index(k)) for t, slot, k in rows]
        kept = replace(
            candidate,
            coefficients=candidate.coefficients[used],
            inner=len(labels),
            restriction=None if known is None else known.subset(used),
        )
        return cls(kept, dictionary.subset(used), np.array(rows, dtype=np.intp).reshape(-1, 3), labels)

    def on(self, observations: Observations) -> Search:
        """The observations with the candidate's own terms."""
        return Search(observations, self.dictionary)

    def field(
        self,
        observations: Observations,
        trajectories: Trajectories,
        report: dict,
        inference: Inference = NOTHING_KNOWN,
    ) -> DictionaryField | DrivenField:
        """The candidate as a field in the units of the trajectories, see `Candidate.field`."""
        return self.candidate.field(self.on(observations), trajectories, report, inference)

    @property
    def n_functions(self) -> int:
        """Number of different functions; complements, multiples and given powers of a state counted once."""
        d = self.dictionary
        fitted = np.isin(np.arange(len(d)), self.free[:, 0])
        second = np.where((d.kind == Kind.POWER) & ~fitted, 0.0, d.second)
        rows = zip(d.kind, d.coordinate, d.inner, second, d.partner, d.shift, strict=True)
        return len({(_FIRST.get(int(kind), int(kind)), *rest) for kind, *rest in rows if kind})

    @property
    def score(self) -> float:
        """BIC, fitted numbers included."""
        return self.candidate.score

    @cached_property
    def structure(self) -> bytes:
        """What candidates of the same terms have in common, whatever is fitted: numbers given or shared."""
        d = self.dictionary
        shapes = np.where(d.kind > 0, d.coordinate * 100 + d.kind, 0)
        number = np.full((len(d), len(NUMBERS)), -1)
        number[self.free[:, 0], self.free[:, 1]] = self.free[:, 2]
        given = np.where((number >= 0) | (d.kind == 0)[:, None], 0.0, np.stack(d.numbers, axis=1))
        given = np.char.mod("%.9g", given + 0.0)  # whatever rounding did; no -0
        order = np.lexsort((*given.T, *(number.T >= 0), d.partner, *d.exponents.T, shapes))
        places = {-1: -1}
        number = np.array([places.setdefault(k, len(places)) for k in number[order].ravel().tolist()])
        parts = (shapes, d.exponents, d.partner, self.candidate.support, given)
        return b"|".join([*(np.ascontiguousarray(part[order]).tobytes() for part in parts), number.tobytes()])

    @property
    def parameters(self) -> np.ndarray:
        """Coefficients that are not zero, or the free numbers of a restriction, then those inside (q,)."""
        known, coefficients = self.candidate.restriction, self.candidate.coefficients
        if known is None:
            return np.concatenate([coefficients[self.candidate.support], self.numbers])
        return np.concatenate([known.numbers(coefficients)[known.active(coefficients)], self.numbers])

    @property
    def numbers(self) -> np.ndarray:
        """Free numbers."""
        numbers = np.zeros(self.candidate.inner)
        for term, slot, k in self.free:
            numbers[k] = self.dictionary.numbers[slot][term]
        return numbers

    @property
    def labelled(self) -> list[tuple[int, int, int]]:
        """Rows of ``free`` with what the numbers were called."""
        return [(int(term), int(slot), self.labels[k]) for term, slot, k in self.free]

    def fixed(self, number: int, value: float) -> "FunctionCandidate":
        """The candidate with one of its numbers given."""
        parameters = self.parameters
        parameters[len(parameters) - self.candidate.inner + number] = value
        free = [(t, slot, self.labels[k]) for t, slot, k in self.free if k != number]
        given = self.with_parameters(parameters)
        return FunctionCandidate.of(given.candidate, given.dictionary, free)

    def with_numbers(self, parameters: np.ndarray) -> list[np.ndarray]:
        """The dictionary's `numbers` by parameters (q,)."""
        numbers = [part.copy() for part in self.dictionary.numbers]
        first = len(parameters) - self.candidate.inner
        for term, slot, k in self.free:
            numbers[slot][term] = parameters[first + k]
        return numbers

    def packed(self, parameters: np.ndarray) -> tuple[np.ndarray, ...]:
        """The dictionary's `packed` with its numbers by parameters (q,)."""
        numbers = self.with_numbers(parameters)
        for array in numbers:  # as those of a dictionary are, for which the kernels are compiled
            array.flags.writeable = False
        return *self.dictionary.packed[: -len(numbers)], *numbers

    def with_parameters(self, parameters: np.ndarray, **known: Any) -> "FunctionCandidate":
        """The candidate with other parameters (q,) and attributes."""
        support, restriction = self.candidate.support, self.candidate.restriction
        outer = parameters[: len(parameters) - self.candidate.inner]
        if restriction is None:
            coefficients = np.zeros(support.shape)
            coefficients[support] = outer
        else:
            free = restriction.numbers(self.candidate.coefficients)
            free[restriction.active(self.candidate.coefficients)] = outer
            coefficients = restriction.coefficients(free)
        dictionary = self.dictionary.with_numbers(*self.with_numbers(parameters))
        return replace(
            self, candidate=replace(self.candidate, coefficients=coefficients, **known), dictionary=dictionary
        )

    def maps(
        self,
        parameters: np.ndarray,
        nodes: np.ndarray,
        steps: np.ndarray,
        counts: np.ndarray,
        inputs: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The `interval_maps` of `fit_trajectory`, compiled; ``inputs`` as in `compiled_maps`."""
        packed = self.packed(parameters)
        support, values, derivative = self._outer(parameters)
        row, column = map(np.ascontiguousarray, np.nonzero(support))
        ends, slopes = interval_maps(packed, row, column, values, self.free, nodes, steps, counts, inputs)
        return ends, slopes if derivative is None else combined(slopes, nodes.shape[1], derivative)

    def finer(
        self,
        parameters: np.ndarray,
        nodes: np.ndarray,
        lengths: np.ndarray,
        counts: np.ndarray,
        observations: Observations,
    ) -> np.ndarray:
        """The ``finer`` of `fit_trajectory`."""
        support, values, _ = self._outer(parameters)
        return compiled_counts(self.packed(parameters), support, observations)(values, nodes, lengths, counts)

    def _outer(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Support, its coefficients row by row, and their derivative by the free numbers of a restriction."""
        restriction, coefficients = self.candidate.restriction, self.candidate.coefficients
        if restriction is None:
            support = self.candidate.support
            return support, parameters[: int(support.sum())], None
        support, own, derivative = affine(restriction, coefficients, restriction.active(coefficients))
        return support, own + derivative @ parameters[: derivative.shape[1]], derivative

    def fitted(
        self, observations: Observations, paths: Sequence[np.ndarray], segments: Sequence[int] = (5, 1)
    ) -> tuple["FunctionCandidate", TrajectoryFit]:
        """Coefficients, numbers and starts fitted to the trajectories.

        Parameters
        ----------
        observations : Observations
            Data.
        paths : list of arrays (n, d)
            States to linearise about first.
        segments : sequence of int
            Stages of free starts, see `fit_trajectory`.

        Returns
        -------
        candidate : FunctionCandidate
            Scored on the nodes of the fit.
        fit : TrajectoryFit
        """
        own, restriction = self._within_bounds(), self.candidate.restriction
        while True:
            maps = partial(own.maps, inputs=observations.interval_curves)
            finer = partial(own.finer, observations=observations)
            fit, known = fit_samples(
                observations, own.candidate, own.parameters, maps, paths, segments, finer=finer
            )
            new = own.with_parameters(fit.parameters, **known)
            found = new.candidate.coefficients
            if restriction is None or restriction.within(found) or not np.isfinite(found).all():
                break
            own, paths, segments = new._within_bounds(), fit.paths, segments[-1:]
        return replace(new, candidate=score(observations, new.candidate, known["variance"])), fit

    def _within_bounds(self) -> "FunctionCandidate":
        restriction = self.candidate.restriction
        if restriction is None:
            return self
        clipped = restriction.clipped(self.candidate.coefficients)
        return replace(self, candidate=replace(self.candidate, coefficients=clipped))

    def drawn(
        self, observations: Observations, fit: TrajectoryFit, deviates: np.ndarray
    ) -> list["FunctionCandidate"]:
        """Candidates with parameters drawn about these by the linearised fit.

        Parameters
        ----------
        observations : Observations
            Data.
        fit : TrajectoryFit
            From `fitted`, about these parameters.
        deviates : array (n, q)
            In independent standard errors of the parameters; normal ones give the normal approximation of
            the posterior.

        Returns
        -------
        list of FunctionCandidate
            This one, where the fit is nowhere near linear: its information is not finite.
        """
        roots = parameter_roots(fit, observations.n_values)
        if not np.isfinite(roots).all():
            return [self] * len(deviates)
        draws = self.parameters + deviates @ roots
        return [self.with_parameters(parameters)._within_bounds() for parameters in draws]


def judge_functions(observations: Observations, found: list[FunctionCandidate]) -> list[FunctionCandidate]:
    """Integrate candidates with dictionaries of their own over the observation times and score them by BIC.

    Parameters
    ----------
    observations : Observations
        Data.
    found : list of FunctionCandidate
        Any scores are replaced.

    Returns
    -------
    list of FunctionCandidate
        The same, best first.
    """
    judged = []
    for item in found:
        candidate = item.candidate
        path = item.on(observations).paths(candidate.coefficients[None], candidate.start[None])
        variance = observations.residual_variance(path)[0]
        judged.append(replace(item, candidate=score(observations, candidate, variance)))
    return sorted(judged, key=lambda item: item.score)
