"""Fields that know how far each coefficient may be off, and with a posterior the field at any point."""

import abc
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.terms import NUMBERS, Dictionary

_WIDTH, _FREEDOM = 0.79, 1.0  # python -m training.calibration.laws --model fim-ode
_WIDEST = 30.0  # times the width: beyond all bands that are asked for
STATED = _WIDTH * 6.314 / 1.645
"""Width of the 90 % band of an exact model's draws, relative to the normal one of its fit."""


def law_deviates(rng: np.random.Generator, n: int, q: int, width: float, freedom: float) -> np.ndarray:
    """Deviates (n, q) of the numbers of exact models, in independent standard errors of their fits.

    A model with the right terms is as wrong as its fit says, one that mimics the truth by more: the numbers
    of a draw are together those of Student's distribution, as heavy-tailed as errors on known systems are.
    """
    out = np.empty((n, q))
    for row in out:  # one after the other: fewer draws are the first of more
        stretch = min(np.sqrt(freedom / rng.chisquare(freedom)), _WIDEST)
        row[:] = width * stretch * rng.standard_normal(q)
    return out


class _WithErrors(DictionaryField):
    """A dictionary field and an array of how far its numbers may be off, given or found when first needed.

    Parameters
    ----------
    dictionary, coefficients, **kwargs
        As for `DictionaryField`.
    known : array, callable or None
        The array; or what returns it, given the field; None where it is not known.
    """

    _stored: ClassVar[str]  # name of the array in `to_arrays` and in errors

    def __init__(self, dictionary: Dictionary, coefficients: ArrayLike, known: Any, **kwargs: Any):
        super().__init__(dictionary, coefficients, **kwargs)
        self._given = known if callable(known) else self._checked(known)

    @classmethod
    def of(cls, field: DictionaryField, known: Any) -> Self:
        """A `DictionaryField` with what is known of its errors."""
        return cls(field.dictionary, field.coefficients, known, frame=field.frame, fit_info=field.fit_info)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """As of `DictionaryField`, with the errors where they are known."""
        return super().to_arrays() | ({} if self._known is None else {self._stored: self._known})

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], **description: Any) -> Self:
        """The field that `to_arrays` took apart, with keyword arguments of `VectorField`."""
        return cls.of(DictionaryField.from_arrays(arrays, **description), arrays.get(cls._stored))

    @cached_property
    def _known(self) -> np.ndarray | None:
        if not callable(self._given):
            return self._given
        with np.errstate(all="ignore"):  # as while it was fitted; what overflows is refused
            return self._checked(self._given(self))

    def _checked(self, given: ArrayLike | None) -> np.ndarray | None:
        if given is None:
            return None
        values = np.array(given, dtype=np.float64)
        shape, axes, least = self._expected()
        alike = values.ndim == len(shape) and all(
            n in (m, "q") for n, m in zip(shape, values.shape, strict=True)
        )
        if not alike or not (np.isfinite(values) & (values >= least)).all():
            raise ValueError(
                f"{type(self).__name__}: expected finite {self._stored} of shape {shape} ({axes}), got shape "
                f"{values.shape} with {int(np.sum(~np.isfinite(values)))} values that are not finite."
            )
        values.setflags(write=False)
        return values

    @abc.abstractmethod
    def _expected(self) -> tuple[tuple[int | str, ...], str, float]:
        """Shape of the array (``"q"`` for any length), its axes in words, and the least value allowed."""


class FittedField(_WithErrors):
    """A dictionary field that was fitted to trajectories, with the standard errors of its numbers.

    They hold for its terms: that others may be the right ones is not in them. So they are no errors of the
    field at a point, and `scale` and `draws` give none.

    Parameters
    ----------
    dictionary : Dictionary
        The terms.
    coefficients : array (m, d)
        In units of the state per unit of time and per unit of the term.
    known : array (m, d + 3), callable or None
        Standard errors of the coefficients, then of the terms' `numbers`; 0 for what was not fitted. A
        callable is given the field and returns them when they are first needed. None: not known.
    **kwargs
        As for `DictionaryField`.

    Raises
    ------
    ValueError
        If the errors have another shape, are negative or not finite.
    """

    _stored = "errors"

    @property
    def _errors(self) -> np.ndarray | None:
        return self._known

    def _expected(self) -> tuple[tuple[int | str, ...], str, float]:
        m, d = self.coefficients.shape
        return (m, d + len(NUMBERS)), "terms, states and numbers inside functions; none negative", 0.0

    @property
    def standard_errors(self) -> np.ndarray | None:
        """Standard errors (m, d) of the coefficients; None where they are not known."""
        return None if self._errors is None else self._errors[:, : self.dim]

    @property
    def _inner_errors(self) -> np.ndarray | None:
        """Standard errors (m, 3) of the numbers inside functions; None where they are not known."""
        return None if self._errors is None else self._errors[:, self.dim :]


class PosteriorField(_WithErrors):
    """A dictionary field whose coefficients are Gaussian, independently for each coordinate.

    Parameters
    ----------
    dictionary : Dictionary
        The terms.
    coefficients : array (m, d)
        Means.
    known : array (d, m, m), or callable
        R of the covariances ``R^T R``; a callable is given the field and returns them when they are first
        needed.
    **kwargs
        As for `DictionaryField`.

    Raises
    ------
    ValueError
        If the roots are missing, have another shape or are not finite.
    """

    _stored = "roots"

    @property
    def roots(self) -> np.ndarray:
        """R (d, m, m) of the coefficients' covariances ``R^T R``."""
        assert self._known is not None  # `_checked` refuses it
        return self._known

    def _checked(self, given: ArrayLike | None) -> np.ndarray | None:
        if given is None:
            raise ValueError("PosteriorField: expected the roots of its covariances, got none.")
        return super()._checked(given)

    def _expected(self) -> tuple[tuple[int | str, ...], str, float]:
        m, d = self.coefficients.shape
        return (d, m, m), "states, terms, terms", -np.inf

    @property
    def standard_errors(self) -> np.ndarray:
        """Standard errors (m, d) of the coefficients."""
        with np.errstate(over="ignore"):
            return np.linalg.norm(self.roots, axis=1).T

    def scale(self, x: ArrayLike) -> np.ndarray:
        """One calibrated standard deviation of f at points ``(..., d)``, in the units of f."""
        points, rows = self._rows(x)
        with np.errstate(all="ignore"):  # what overflows is infinite, and comes out as that
            columns = self.dictionary.evaluate(rows)
            return np.linalg.norm(self.roots @ columns.T, axis=1).T.reshape(points.shape)

    def draws(self, n: int, seed: int = 0) -> EnsembleField:
        """Whole fields drawn from the posterior.

        Parameters
        ----------
        n : int
            Number of draws.
        seed : int
            Equal seeds give equal draws.

        Returns
        -------
        EnsembleField of DictionaryField
        """
        noise = np.random.default_rng(seed).standard_normal((n, *self.roots.shape[:2]))
        coefficients = self.coefficients + np.einsum("nik,ikm->nmi", noise, self.roots)
        return EnsembleField([DictionaryField(self.dictionary, c, frame=self.frame) for c in coefficients])


class LawField(FittedField):
    """A field fitted to numerical precision to noise-free data, with one posterior of all its numbers.

    Draws have the tails of Student's distribution, learned on known systems: the model may be a mimic of the
    true one. Standard errors are those of the numbers, the terms being given.

    Parameters
    ----------
    dictionary : Dictionary
        The terms.
    coefficients : array (m, d)
        Means.
    known : array (q, m, d + 3), callable or None
        Roots: independent deviations of the coefficients, then of the terms' `numbers`; a callable is given
        the field and returns them when they are first needed. None: not known.
    **kwargs
        As for `DictionaryField`.

    Raises
    ------
    ValueError
        If the roots have another shape or are not finite.
    """

    _stored = "roots"

    @property
    def roots(self) -> np.ndarray | None:
        """Independent deviations (q, m, d + 3) of all numbers; None where they are not known."""
        return self._known

    def _expected(self) -> tuple[tuple[int | str, ...], str, float]:
        m, d = self.coefficients.shape
        return ("q", m, d + len(NUMBERS)), "deviations, terms, states and numbers inside functions", -np.inf

    @cached_property
    def _errors(self) -> np.ndarray | None:
        return None if self.roots is None else np.sqrt(np.sum(self.roots**2, axis=0))

    def _moved(self, by: np.ndarray) -> DictionaryField:
        d = self.dictionary
        numbers = (number + change for number, change in zip(d.numbers, by[:, self.dim :].T, strict=True))
        moved = d.with_numbers(*numbers)
        return DictionaryField(moved, self.coefficients + by[:, : self.dim], frame=self.frame)

    def scale(self, x: ArrayLike) -> np.ndarray | None:
        """One standard deviation of f at points ``(..., d)``, in the units of f; None as for `roots`.

        Of the normal distribution whose 90 % band is as wide as that of `draws`.
        """
        points, rows = self._rows(x)
        if self.roots is None:
            return None
        with np.errstate(all="ignore"):  # what overflows is infinite, and comes out as that
            squares = np.zeros_like(rows)
            for root in self.roots:
                squares += (0.5 * (self._moved(root)._rhs(rows) - self._moved(-root)._rhs(rows))) ** 2
            return STATED * np.sqrt(squares).reshape(points.shape)

    def draws(self, n: int, seed: int = 0) -> EnsembleField | None:
        """Whole fields drawn from the posterior.

        Parameters
        ----------
        n : int
            Number of draws.
        seed : int
            Equal seeds give equal draws.

        Returns
        -------
        EnsembleField of DictionaryField, or None
            None as for `roots`.
        """
        if self.roots is None:
            return None
        off = law_deviates(np.random.default_rng(seed), n, len(self.roots), _WIDTH, _FREEDOM)
        return EnsembleField([self._moved(by) for by in np.einsum("nq,qmk->nmk", off, self.roots)])
