"""Candidate fields of a search: terms, numbers and scores, and how well each is followed by integration."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.inference import NOTHING_KNOWN, Inference
from fim_dynsys.fields.terms import NUMBERS, Dictionary
from fim_dynsys.regression.criteria import bic
from fim_dynsys.regression.observed import SPLINE, Observations
from fim_dynsys.regression.refinement import TrajectoryFit, parameter_roots
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.problem import Search
from fim_dynsys.search.restrictions import Restriction
from fim_dynsys.trajectories.container import Trajectories

_SHARED = 0.1
"""Price of a term whose coefficient follows from others, in those of one that is fitted: of fields that fit
alike, the one with fewer terms."""

_LARGEST = 2e6  # numbers in the paths that are integrated at once: 16 MB

_FIRST: dict[int, Kind] = {Kind.COS: Kind.SIN, Kind.RECIPROCAL: Kind.HILL, Kind.INHIBITION: Kind.SATURATION}


@dataclass(frozen=True)
class Candidate:
    """One candidate in the units of a search, and where it came from.

    Attributes
    ----------
    coefficients : array (m, d)
        Of the terms.
    start : array (P, d)
        Initial states of the pieces.
    dictionary : Dictionary
        ``m`` terms: all those of a search, or those that the candidate uses.
    origin : Origin
        Which stage made it, and how.
    smoother : str
        Name of the smoother whose slopes were regressed; empty for none.
    score : float
        BIC on the noisy samples, fitted numbers included.
    variance : array (d,) or None
        Weighted residual variances of the integrated candidate.
    refined : bool
        Whether the coefficients were fitted to the trajectories.
    restriction : Restriction or None
        Prior knowledge of the coefficients; None where all are free.
    free : int array (f, 3), optional
        Numbers inside functions that are fitted: term, slot (place in `NUMBERS`), and which number it is.
        Default: none.
    labels : tuple of int
        What each number was called before those out of use were left out.
    """

    coefficients: np.ndarray
    start: np.ndarray
    dictionary: Dictionary
    origin: Origin
    smoother: str = ""
    score: float = math.inf
    variance: np.ndarray | None = None
    refined: bool = False
    restriction: Restriction | None = None
    free: np.ndarray = field(default_factory=partial(np.zeros, (0, 3), dtype=np.intp))
    labels: tuple[int, ...] = ()

    @property
    def n_parameters(self) -> int:
        """Fitted numbers: coefficients that are not zero and not decided by others, and inner ones."""
        if self.restriction is None:
            return int(np.count_nonzero(self.coefficients)) + len(self.labels)
        return self.restriction.count(self.coefficients) + len(self.labels)

    @property
    def n_shared(self) -> int:
        """Coefficients beyond one for each fitted number, which known equalities give the others."""
        if self.restriction is None:
            return 0
        given = self.restriction.offset != 0.0
        return max(int(np.count_nonzero(self.support & ~given)) - (self.n_parameters - len(self.labels)), 0)

    @property
    def support(self) -> np.ndarray:
        """Which coefficients are not zero (m, d)."""
        return self.coefficients != 0

    @property
    def is_finite(self) -> bool:
        """Whether the coefficients and the initial states are numbers."""
        return bool(np.isfinite(self.coefficients).all() and np.isfinite(self.start).all())

    def in_use(self, free: Iterable[Sequence[int]] | None = None) -> "Candidate":
        """The terms in use alone, and what is free in them: (term, slot, number); default: what was."""
        known = self.restriction
        used = np.flatnonzero(self.support.any(axis=1) if known is None else known.rows_of(self.coefficients))
        place = {int(term): i for i, term in enumerate(used)}
        rows = self.labelled if free is None else free
        rows = [(place[int(t)], int(slot), int(k)) for t, slot, k in rows if int(t) in place]
        labels = tuple(sorted({k for *_, k in rows}))
        rows = [(t, slot, labels.index(k)) for t, slot, k in rows]
        return replace(
            self,
            coefficients=self.coefficients[used],
            dictionary=self.dictionary.subset(used),
            restriction=None if known is None else known.subset(used),
            free=np.array(rows, dtype=np.intp).reshape(-1, 3),
            labels=labels,
        )

    def paths(self, observations: Observations) -> list[np.ndarray]:
        """States (n, d) at the samples of each piece, integrated; nan from where they leave every bound."""
        search = Search(observations, self.dictionary)
        found = search.paths(self.coefficients[None], self.start[None])[0]
        return [path[: len(t)] for path, (t, _) in zip(found, observations.samples, strict=True)]

    def field(
        self,
        observations: Observations,
        trajectories: Trajectories,
        report: dict,
        inference: Inference = NOTHING_KNOWN,
    ) -> DictionaryField | DrivenField:
        """The candidate as a field in the units of the trajectories it was inferred from.

        Parameters
        ----------
        observations : Observations
            Data.
        trajectories : Trajectories
            Context of the field.
        report, inference
            For ``field.fit_info``.

        Returns
        -------
        DictionaryField, or DrivenField where there are inputs
        """
        terms, coefficients = self._in_units_of(observations)
        complete = len(observations.first) == len(trajectories)
        info = FitInfo(
            initial_states=observations.initial_states(self.start) * observations.scale if complete else None,
            noise_level=observations.noise_level,
            report=report,
            inference=inference,
        )
        if observations.n_inputs:
            return DrivenField.of(terms, coefficients, trajectories, info)
        return DictionaryField(terms, coefficients, context=trajectories, fit_info=info)

    @property
    def n_functions(self) -> int:
        """Number of different functions; complements, multiples and given powers of a state counted once."""
        d = self.dictionary
        fitted = np.isin(np.arange(len(d)), self.free[:, 0])
        second = np.where((d.kind == Kind.POWER) & ~fitted, 0.0, d.second)
        rows = zip(d.kind, d.coordinate, d.inner, second, d.partner, d.shift, strict=True)
        return len({(_FIRST.get(int(kind), int(kind)), *rest) for kind, *rest in rows if kind})

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
        parts = (shapes, d.exponents, d.partner, self.support, given)
        return b"|".join([*(np.ascontiguousarray(part[order]).tobytes() for part in parts), number.tobytes()])

    @property
    def parameters(self) -> np.ndarray:
        """Coefficients that are not zero, or the free numbers of a restriction, then those inside (q,)."""
        known, coefficients = self.restriction, self.coefficients
        if known is None:
            return np.concatenate([coefficients[self.support], self.numbers])
        return np.concatenate([known.numbers(coefficients)[known.active(coefficients)], self.numbers])

    @property
    def numbers(self) -> np.ndarray:
        """Free numbers."""
        numbers = np.zeros(len(self.labels))
        for term, slot, k in self.free:
            numbers[k] = self.dictionary.numbers[slot][term]
        return numbers

    @property
    def labelled(self) -> list[tuple[int, int, int]]:
        """Rows of ``free`` with what the numbers were called."""
        return [(int(term), int(slot), self.labels[k]) for term, slot, k in self.free]

    def fixed(self, number: int, value: float) -> "Candidate":
        """The candidate with one of its numbers given."""
        parameters = self.parameters
        parameters[len(parameters) - len(self.labels) + number] = value
        free = [(t, slot, self.labels[k]) for t, slot, k in self.free if k != number]
        return self.with_parameters(parameters).in_use(free)

    def with_numbers(self, parameters: np.ndarray) -> list[np.ndarray]:
        """The dictionary's `numbers` by parameters (q,)."""
        numbers = [part.copy() for part in self.dictionary.numbers]
        first = len(parameters) - len(self.labels)
        for term, slot, k in self.free:
            numbers[slot][term] = parameters[first + k]
        return numbers

    def packed(self, parameters: np.ndarray) -> tuple[np.ndarray, ...]:
        """The dictionary's `packed` with its numbers by parameters (q,)."""
        if not len(self.free):
            return self.dictionary.packed
        numbers = self.with_numbers(parameters)
        for array in numbers:  # as those of a dictionary are, for which the kernels are compiled
            array.flags.writeable = False
        return *self.dictionary.packed[: -len(numbers)], *numbers

    def with_parameters(self, parameters: np.ndarray, **known: Any) -> "Candidate":
        """The candidate with other parameters (q,) and attributes."""
        support, restriction = self.support, self.restriction
        outer = parameters[: len(parameters) - len(self.labels)]
        if restriction is None:
            coefficients = np.zeros(support.shape)
            coefficients[support] = outer
        else:
            free = restriction.numbers(self.coefficients)
            free[restriction.active(self.coefficients)] = outer
            coefficients = restriction.coefficients(free)
        moved = replace(self, coefficients=coefficients, **known)
        if not self.labels:
            return moved
        return replace(moved, dictionary=self.dictionary.with_numbers(*self.with_numbers(parameters)))

    def _in_units_of(self, observations: Observations) -> tuple[Dictionary, np.ndarray]:
        """Terms and their coefficients (m, d + inputs) in the units of the data."""
        still = np.zeros((len(self.coefficients), observations.n_inputs))
        return self.dictionary.rescaled(
            np.concatenate([self.coefficients, still], axis=1),
            observations.extended_scale,
            observations.time_unit,
        )

    @property
    def within_bounds(self) -> "Candidate":
        """The nearest that keeps the bounds of the restriction."""
        if self.restriction is None:
            return self
        return replace(self, coefficients=self.restriction.clipped(self.coefficients))

    def drawn(
        self, observations: Observations, fit: TrajectoryFit, deviates: np.ndarray
    ) -> list["Candidate"]:
        """Candidates with parameters drawn about these by the linearised fit.

        Parameters
        ----------
        observations : Observations
            Data.
        fit : TrajectoryFit
            From `refine`, about these parameters.
        deviates : array (n, q)
            In independent standard errors of the parameters; normal ones give the normal approximation of
            the posterior.

        Returns
        -------
        list of Candidate
            This one, where the fit is nowhere near linear: its information, or what is drawn, is not finite.
        """
        roots = parameter_roots(fit, observations.n_values)
        if not np.isfinite(roots).all():
            return [self] * len(deviates)
        draws = self.parameters + deviates @ roots
        found = [self.with_parameters(parameters).within_bounds for parameters in draws]
        # numbers in functions may be drawn so far off that coefficients overflow in the units of the data
        with np.errstate(all="ignore"):
            finite = [np.isfinite(candidate._in_units_of(observations)[1]).all() for candidate in found]
        return [own if usable else self for own, usable in zip(found, finite, strict=True)]


def shares(values: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Largest size (m, d) of each term, over that of the rate of the coordinate.

    Parameters
    ----------
    values : array (n, m)
        Of the terms at the samples.
    coefficients : array (m, d)
        Of the terms.
    """
    largest = np.abs(values).max(axis=0)[:, None] * np.abs(coefficients)
    return largest / np.maximum(np.abs(values @ coefficients).max(axis=0), 1e-300)


def no_motion(search: Search) -> Candidate:
    """States that stay at their means, as far as what is known allows."""
    seen, known = search.observations, search.restriction
    at_rest = np.stack([z.mean(axis=0) for _, z in seen.samples])
    still = np.zeros((len(search.dictionary), seen.dim)) if known is None else known.still
    return Candidate(
        still, at_rest, search.dictionary, Origin(Stage.NO_MOTION), SPLINE.name, restriction=known
    )


def score(observations: Observations, candidate: Candidate, variance: np.ndarray) -> Candidate:
    """The candidate with residual variances (d,) and its BIC."""
    return _scored(observations, [candidate], variance[None])[0]


def _scored(
    observations: Observations, candidates: list[Candidate], variances: np.ndarray
) -> list[Candidate]:
    active = [c.n_parameters + _SHARED * c.n_shared for c in candidates]
    signal, starts = observations.signal_variance, len(observations.samples)
    seen = variances + observations.unknown_variance if observations.n_inputs else variances
    values = bic(seen, observations.counts, np.array(active), signal, starts)
    return [
        replace(c, score=float(value), variance=variance)
        for c, value, variance in zip(candidates, values, variances, strict=True)
    ]


def log_alike(dictionary: Dictionary, dim: int) -> np.ndarray:
    """Logarithm (m, d) of the number of monomials that are of a kind with each, in each right-hand side.

    A kind is those of one degree that hold the state itself, or that do not: of what is linear, or holds the
    state, there is little, of products of others much. Extended BIC with gamma = 1 has twice that as the
    price of having chosen a term among its like.

    References
    ----------
    J. Chen, Z. Chen, Extended Bayesian information criteria, Biometrika 95 (2008) 759, sect. 2.
    """
    degree = dictionary.exponents.sum(axis=1)
    counts = []
    for state in range(dim):
        kind = 2 * degree + (dictionary.exponents[:, state] > 0)
        _, place, alike = np.unique(kind, return_inverse=True, return_counts=True)
        counts.append(alike[place])
    return np.log(np.column_stack(counts))


def residual_variances(observations: Observations, candidates: Sequence[Candidate]) -> np.ndarray:
    """What candidates leave of the samples (C, d) from their own starts; infinite where they diverge."""
    of_terms: dict[int, list[int]] = {}
    for place, candidate in enumerate(candidates):
        of_terms.setdefault(id(candidate.dictionary), []).append(place)
    variances = np.empty((len(candidates), observations.dim))
    chunk = max(1, int(_LARGEST / observations.z.size))
    for places in of_terms.values():
        for first in range(0, len(places), chunk):
            part = [candidates[place] for place in places[first : first + chunk]]
            coefficients, start = np.stack([c.coefficients for c in part]), np.stack([c.start for c in part])
            paths = Search(observations, part[0].dictionary).paths(coefficients, start)
            variances[places[first : first + chunk]] = observations.residual_variance(paths)
    return variances


def judge(observations: Observations, candidates: list[Candidate]) -> list[Candidate]:
    """Integrate every candidate from its own start over the observation times and score it by BIC.

    Parameters
    ----------
    observations : Observations
        Data.
    candidates : list of Candidate
        Any scores are replaced.

    Returns
    -------
    list of Candidate
        The same, scored, best first; candidates that diverge score infinity.
    """
    if not candidates:
        return []
    variances = residual_variances(observations, candidates)
    return sorted(_scored(observations, candidates, variances), key=lambda c: c.score)
