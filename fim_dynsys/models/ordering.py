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
from fim_dynsys.regression.dimensionless import dimensionless, still
from fim_dynsys.trajectories.container import Trajectories


@dataclass(frozen=True)
class CanonicalOrder:
    """Trajectories in an order that does not depend on how they were given.

    Sums depend in their last digits on the order of what is summed, and random draws on the order of what is
    drawn from; searches decide between near equals. States are sorted by their first values and means, then
    trajectories by number of samples, span and the same of each state.

    States that never change say nothing of the others, yet would multiply the terms among which a search
    chooses. They may be left out; in fields their rates are zero, and no term has them.

    Attributes
    ----------
    trajectories : Trajectories
        Sorted.
    states : array (d,) of int
        Which of the given states each one is.
    numbers : array (K,) of int
        Which of the given trajectories each one is.
    given : array (D,)
        One state with all that were given, by which those that were left out are known.
    """

    trajectories: Trajectories
    states: np.ndarray
    numbers: np.ndarray
    given: np.ndarray

    @classmethod
    def of(cls, trajectories: Trajectories, changing: bool = False) -> Self:
        """Sort complete trajectories; ``changing`` leaves states out that never change, unless none does."""
        samples = dimensionless(trajectories.arrays()).samples
        marks = [[(float(column[0]), float(column.mean())) for column in x.T.copy()] for _, x in samples]
        out = still(trajectories.arrays()) if changing else np.zeros(trajectories.dim, bool)
        among = np.flatnonzero(out.all() | ~out).tolist()
        states = sorted(among, key=lambda i: sorted(each[i] for each in marks))
        numbers = sorted(
            range(len(samples)),
            key=lambda k: (len(samples[k][0]), samples[k][0][-1], [marks[k][i] for i in states]),
        )
        if numbers != list(range(len(numbers))):
            trajectories = trajectories[numbers]
        given = trajectories.arrays()[0][1][0]
        if states != list(range(trajectories.dim)):
            trajectories = trajectories.select_states([trajectories.state_names[i] for i in states])
        return cls(trajectories, np.array(states), np.array(numbers), given)

    @classmethod
    def as_given(cls, trajectories: Trajectories) -> Self:
        """Complete trajectories in their own order."""
        given = trajectories.arrays()[0][1][0]
        return cls(trajectories, np.arange(trajectories.dim), np.arange(len(trajectories)), given)

    def left_out(self, names: Sequence[str]) -> list[str]:
        """Those of the given states (D,) that the sorted ones lack."""
        return [name for k, name in enumerate(names) if k not in self.states]

    def whole(self, states: np.ndarray) -> np.ndarray:
        """All given coordinates (n, D) of states (n, d) in the sorted order."""
        x = np.tile(self.given, (len(states), 1))
        x[:, self.states] = states
        return x

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
            starts = self.whole(starts)[np.argsort(self.numbers)] if every else None
        if noise is not None:
            noise = self._of_states(noise)
        info = replace(info, initial_states=starts, noise_level=noise)
        if isinstance(found, LocalField):
            samples = self.whole(found.states), self._of_states(found.slopes)
            lengths = np.ones(len(self.given))
            lengths[self.states] = found.lengths
            return LocalField(*samples, lengths, found.ridge, found.rate, context=context, fit_info=info)
        terms_of = found.extended if isinstance(found, DrivenField) else found
        assert isinstance(terms_of, DictionaryField)
        terms = self._terms(terms_of.dictionary)[0]
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
        _, rows = self._terms(dictionary)
        return self._of_states(values[..., rows, :])

    def information(self, dictionary: Dictionary, values: np.ndarray) -> np.ndarray:
        """Numbers (d, m, m) of each state and two terms, all as in `field`."""
        _, rows = self._terms(dictionary)
        out = np.zeros((len(self.given), len(rows), len(rows)), values.dtype)
        out[self.states] = values[:, rows][:, :, rows]
        return out

    def free(self, dictionary: Dictionary, free: Iterable[Sequence[int]]) -> list[list[int]]:
        """Fitted numbers inside functions, see `Candidate`, their terms as in `field`."""
        place = np.argsort(self._terms(dictionary)[1])
        return [[int(place[term]), int(slot), int(number)] for term, slot, number in free]

    @property
    def coordinates(self) -> tuple[int, ...]:
        """The given number of each of the sorted states, and of the inputs behind them."""
        return tuple(self._places(len(self.states) + len(self.trajectories.input_names)).tolist())

    def _places(self, dim: int) -> np.ndarray:
        """Which of the given states and inputs ``dim`` sorted ones are; inputs stand behind all states."""
        inputs = np.arange(len(self.states), dim) + self._n_left_out
        return np.concatenate([self.states, inputs])

    @property
    def _n_left_out(self) -> int:
        return len(self.given) - len(self.states)

    def _terms(self, dictionary: Dictionary) -> tuple[Dictionary, np.ndarray]:
        """Terms of the given states, and which of the terms of the sorted ones each is."""
        dim = dictionary.dim
        return reordered(dictionary, self._places(dim), dim + self._n_left_out)

    def _of_states(self, values: np.ndarray) -> np.ndarray:
        """Numbers (..., d) of the sorted states, and inputs, as of the given ones; zero where left out."""
        dim = values.shape[-1]
        out = np.zeros((*values.shape[:-1], dim + self._n_left_out), values.dtype)
        out[..., self._places(dim)] = values
        return out
