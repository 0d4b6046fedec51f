"""Trajectories and states in an order that the data determine, and fields found there in that of the user."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self, overload

import numpy as np

from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.local import LocalField
from fim_dynsys.fields.terms import Dictionary, reordered
from fim_dynsys.regression.criteria import Known, Noise
from fim_dynsys.regression.dimensionless import dimensionless
from fim_dynsys.trajectories.container import Trajectories


@dataclass(frozen=True)
class CanonicalOrder:
    """Trajectories in an order that does not depend on how they were given.

    Sums depend in their last digits on the order of what is summed, and random draws on the order of what is
    drawn from; searches decide between near equals. States are sorted by their first values and means, then
    trajectories by number of samples, span and the same of each state.

    Attributes
    ----------
    trajectories : Trajectories
        Sorted.
    states : array (d,) of int
        Which of the given states each one is.
    numbers : array (K,) of int
        Which of the given trajectories each one is.
    """

    trajectories: Trajectories
    states: np.ndarray
    numbers: np.ndarray

    @classmethod
    def of(cls, trajectories: Trajectories) -> Self:
        """Sort complete trajectories."""
        samples = dimensionless(trajectories.arrays()).samples
        marks = [[(float(column[0]), float(column.mean())) for column in x.T.copy()] for _, x in samples]
        states = sorted(range(trajectories.dim), key=lambda i: sorted(each[i] for each in marks))
        numbers = sorted(
            range(len(samples)),
            key=lambda k: (len(samples[k][0]), samples[k][0][-1], [marks[k][i] for i in states]),
        )
        if numbers != list(range(len(numbers))):
            trajectories = trajectories[numbers]
        if states != list(range(len(states))):
            trajectories = trajectories.select_states([trajectories.state_names[i] for i in states])
        return cls(trajectories, np.array(states), np.array(numbers))

    @classmethod
    def as_given(cls, trajectories: Trajectories) -> Self:
        """Complete trajectories in their own order."""
        return cls(trajectories, np.arange(trajectories.dim), np.arange(len(trajectories)))

    @overload
    def field(self, found: DictionaryField, context: Trajectories) -> DictionaryField: ...

    @overload
    def field(self, found: LocalField, context: Trajectories) -> LocalField: ...

    @overload
    def field(self, found: DrivenField, context: Trajectories) -> DrivenField: ...

    def field(
        self, found: DictionaryField | LocalField | DrivenField, context: Trajectories
    ) -> DictionaryField | LocalField | DrivenField:
        """A field inferred from the sorted trajectories, in the order in which the context was given.

        Parameters
        ----------
        found : DictionaryField, LocalField or DrivenField
            Of the sorted trajectories; inputs keep their order.
        context : Trajectories
            As given, incomplete samples included.

        Returns
        -------
        DictionaryField, LocalField or DrivenField
        """
        info = found.fit_info
        starts, noise = info.initial_states, info.noise_level
        if starts is not None:
            every = len(self.numbers) == len(context) and self._from_the_first(context)
            starts = starts[np.ix_(self._place(self.numbers), self._place(self.states))] if every else None
        if noise is not None:
            noise = noise[self._place(self.states)]
        info = replace(info, initial_states=starts, noise_level=noise)
        if isinstance(found, LocalField):
            place = self._place(self.states)
            samples, lengths = (found.states[:, place], found.slopes[:, place]), found.lengths[place]
            return LocalField(*samples, lengths, found.ridge, found.rate, context=context, fit_info=info)
        terms_of = found.extended if isinstance(found, DrivenField) else found
        assert isinstance(terms_of, DictionaryField)
        terms = reordered(terms_of.dictionary, self._coordinates(terms_of.dictionary))[0]
        coefficients = self.coefficients(terms_of.dictionary, terms_of.coefficients)
        if isinstance(found, DrivenField):
            return DrivenField.of(terms, coefficients, context, info)
        return DictionaryField(terms, coefficients, context=context, fit_info=info)

    def _from_the_first(self, context: Trajectories) -> bool:
        """Whether the sorted trajectories begin with the first samples of the given ones."""
        sorted_pairs = self.trajectories.arrays()
        given = context.arrays()
        return all(sorted_pairs[k][0][0] == given[number][0][0] for k, number in enumerate(self.numbers))

    def errors(self, given: Known | None) -> Known | None:
        """Errors (n, d) of the samples as given, for the sorted ones of trajectories of two and more."""
        if given is None or isinstance(given, Noise):
            return given
        return [given[k][:, self.states] for k in self.numbers if len(given[k]) >= 2]

    def coefficients(self, dictionary: Dictionary, values: np.ndarray) -> np.ndarray:
        """Numbers (..., m, d) of each term and state, both as in `field`."""
        states = self._coordinates(dictionary)
        _, rows = reordered(dictionary, states)
        return values[..., rows, :][..., self._place(states[: values.shape[-1]])]

    def information(self, dictionary: Dictionary, values: np.ndarray) -> np.ndarray:
        """Numbers (d, m, m) of each state and two terms, all as in `field`."""
        _, rows = reordered(dictionary, self.states)
        return values[np.ix_(self._place(self.states), rows, rows)]

    def free(self, dictionary: Dictionary, free: Iterable[Sequence[int]]) -> list[list[int]]:
        """Fitted numbers inside functions, see `Candidate`, their terms as in `field`."""
        _, rows = reordered(dictionary, self._coordinates(dictionary))
        place = self._place(rows)
        return [[int(place[term]), int(slot), int(number)] for term, slot, number in free]

    @property
    def coordinates(self) -> tuple[int, ...]:
        """The given number of each of the sorted states, and of the inputs behind them."""
        inputs = range(len(self.states), len(self.states) + len(self._inputs))
        return *self.states.tolist(), *inputs

    @property
    def _inputs(self) -> tuple[str, ...]:
        return self.trajectories.input_names

    def _coordinates(self, dictionary: Dictionary) -> np.ndarray:
        """Which of the given states and inputs the coordinates (D,) of a dictionary are."""
        return np.concatenate([self.states, np.arange(len(self.states), dictionary.dim)])

    @staticmethod
    def _place(of: np.ndarray) -> np.ndarray:
        """Where each of the given ones is."""
        return np.argsort(of)
