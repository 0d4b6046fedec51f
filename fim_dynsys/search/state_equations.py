"""Right-hand sides of single states, and fields made of one for each.

A side is scored by a regression of its state alone, before anything is integrated, and sides of different
origin are combined. An `ExactModel` says instead how a whole `Candidate`, whose states share starts and
numbers, fits the samples: it holds no terms of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.terms import Dictionary, Term, union
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.functions.families import SECOND, SHIFT
from fim_dynsys.search.origins import Origin, Stage, named

_EXCHANGES = 2  # rounds in which each state in turn is given the best of its sides
_RANK = 1e-9  # of unit columns: what is left of one that others explain


@dataclass(frozen=True)
class StateEquation:
    """The rate of change of one state as a sum of terms.

    Attributes
    ----------
    terms : Dictionary
        ``m`` terms, in the units of a search.
    coefficients : array (m,)
        Of the terms.
    free : tuple of (term, slot)
        Numbers inside functions that are to be fitted; slots are places in `NUMBERS`.
    score : float
        BIC, of whatever proposed it; the less the better.
    """

    terms: Dictionary
    coefficients: np.ndarray
    free: tuple[tuple[int, int], ...]
    score: float = np.inf

    @classmethod
    def regressed(
        cls, rows: Sequence[tuple[Term, tuple[int, ...]]], states: np.ndarray, slopes: np.ndarray
    ) -> Self | None:
        """Coefficients by least squares; terms that others explain are left out.

        Parameters
        ----------
        rows : sequence of (Term, slots)
            Terms and the slots of their functions that are free.
        states, slopes : arrays (n, d), (n,)
            Samples.

        Returns
        -------
        StateEquation or None
            None where a term is not finite at the samples.
        """
        terms = Dictionary(*zip(*(term for term, _ in rows), strict=True)) if rows else None
        if terms is None:
            return None
        with np.errstate(all="ignore"):
            columns = terms.evaluate(states)
            size = np.linalg.norm(columns, axis=0)
        if not (np.isfinite(columns).all() and (size > 0.0).all()):
            return None
        kept: list[int] = []
        basis = np.zeros((len(columns), 0))
        for k, column in enumerate((columns / size).T):
            rest = column - basis @ (basis.T @ column)
            rest -= basis @ (basis.T @ rest)
            if np.linalg.norm(rest) > _RANK:
                kept.append(k)
                basis = np.column_stack([basis, rest / np.linalg.norm(rest)])
        values = np.linalg.lstsq(columns[:, kept] / size[kept], slopes, rcond=None)[0]
        free = tuple((place, slot) for place, k in enumerate(kept) for slot in rows[k][1])
        residual = slopes - columns[:, kept] / size[kept] @ values
        n, count = len(slopes), len(kept) + len(free)
        mean = max(float(residual @ residual) / n, np.finfo(float).tiny)
        return cls(
            terms.subset(np.array(kept)), values / size[kept], free, n * np.log(mean) + count * np.log(n)
        )

    @property
    def parameters(self) -> int:
        """Number of coefficients and of numbers that are to be fitted."""
        return len(self.terms) + len(self.free)

    @property
    def structure(self) -> bytes:
        """What sides of the same terms have in common, whatever their numbers."""
        of_function = np.column_stack([self.terms.kind, self.terms.coordinate, self.terms.partner])
        given = np.column_stack([self.terms.second, self.terms.shift])
        for column, slot in enumerate((SECOND, SHIFT)):
            given[[term for term, of in self.free if of == slot], column] = 0.0
        whole = np.column_stack([self.terms.exponents, of_function, given])
        return whole[np.lexsort(whole.T)].tobytes()

    def subset(self, kept: Sequence[int], coefficients: Sequence[float], score: float) -> "StateEquation":
        """Some of the terms, with other coefficients."""
        place = {term: k for k, term in enumerate(kept)}
        free = tuple((place[term], slot) for term, slot in self.free if term in place)
        return StateEquation(
            self.terms.subset(np.array(kept, dtype=np.intp)), np.array(coefficients), free, score
        )


def state_equations_of(item: Candidate) -> list[StateEquation]:
    """The right-hand sides (d,) of a candidate."""
    sides = []
    for column in item.coefficients.T:
        rows = np.flatnonzero(column)
        place = {int(row): k for k, row in enumerate(rows)}
        free = tuple((place[int(t)], int(slot)) for t, slot, _ in item.free if int(t) in place)
        sides.append(StateEquation(item.dictionary.subset(rows), column[rows], free))
    return sides


def together(sides: Sequence[StateEquation], start: np.ndarray, stage: Stage, by: str = "") -> Candidate:
    """Right-hand sides (d,) as one candidate from starts (P, d); equal numbers in them are one number.

    ``stage`` is what proposed the sides, ``by`` the name of the proposer where it was a plugin's.
    """
    terms, places = union([side.terms for side in sides])
    coefficients = np.zeros((len(terms), len(sides)))
    labels: dict[tuple, int] = {}
    free = set()
    for column, side, rows in zip(coefficients.T, sides, places, strict=True):
        column[rows] = side.coefficients
        for term, slot in side.free:
            row = int(rows[term])
            number = float(terms.numbers[slot][row])
            key = int(terms.coordinate[row]), int(terms.partner[row]), slot, number
            free.add((row, slot, labels.setdefault(key, len(labels))))
    functions = zip(terms.kind.tolist(), terms.coordinate.tolist(), strict=True)
    names = dict.fromkeys(f"{Kind(kind).name.lower()} {named(of)}" for kind, of in functions if kind)
    origin = Origin(stage, (f"{by}: " if by else "") + (", ".join(names) or "monomials"))
    return Candidate(coefficients, start, terms, origin).in_use(sorted(free))


def combined(
    proposed: Sequence[Sequence[StateEquation]],
    given: Sequence[StateEquation],
    least: float,
    fit: Callable[[Sequence[StateEquation]], float],
) -> None:
    """Fit fields of proposed sides: about given ones and about the best of all, one state at a time replaced.

    Parameters
    ----------
    proposed : d lists of StateEquation
        For each state, best first.
    given : list of StateEquation
        The sides (d,) of the best candidate so far; empty for none.
    least : float
        Its score.
    fit : callable
        From sides (d,) to a score, the less the better; it keeps what it fits.
    """
    starts = [(list(given), least)] if given else []
    if all(proposed):
        best_sides = [of_state[0] for of_state in proposed]
        starts.append((best_sides, fit(best_sides)))
    for current, least in starts:
        for _ in range(_EXCHANGES if len(current) > 1 else 1):
            before = least
            for i, of_state in enumerate(proposed):
                tried = [(fit([*current[:i], side, *current[i + 1 :]]), k) for k, side in enumerate(of_state)]
                score, best = min(tried, default=(np.inf, 0))
                if score < least:
                    least, current[i] = score, of_state[best]
            if not least < before:
                break
