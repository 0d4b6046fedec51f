"""Fields with a posterior: how far each coefficient may be off, and hence the field at any point."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.ensemble import EnsembleField


class PosteriorField(DictionaryField):
    """A dictionary field whose coefficients are Gaussian, independently for each coordinate.

    Parameters
    ----------
    dictionary : Dictionary
        The terms.
    coefficients : array (m, d)
        Means.
    roots : array (d, m, m), or callable
        R of the covariances ``R^T R``; a callable is given the field and returns them when they are first
        needed.
    **kwargs
        As for `DictionaryField`.

    Raises
    ------
    ValueError
        If ``roots`` have another shape or are not finite.
    """

    def __init__(self, dictionary, coefficients, roots: np.ndarray | Callable, **kwargs):
        super().__init__(dictionary, coefficients, **kwargs)
        self._roots_of = roots if callable(roots) else None
        self._roots = None if callable(roots) else self._checked_roots(roots)

    @classmethod
    def of(cls, field, roots):
        """A `DictionaryField` with the posterior that ``roots`` give it."""
        return cls(
            field.dictionary,
            field.coefficients,
            roots,
            context=field._context,
            state_names=field._state_names,
            region=field._region,
            scales=field._scales,
            fit_info=field.fit_info,
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        """As of `DictionaryField`, with the roots."""
        return {**super().to_arrays(), "roots": self.roots}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], **description: Any) -> Self:
        """The field that `to_arrays` took apart, with keyword arguments of `VectorField`."""
        return cls.of(DictionaryField.from_arrays(arrays, **description), arrays["roots"])

    @property
    def roots(self):
        """R (d, m, m) of the coefficients' covariances ``R^T R``."""
        if self._roots is None:
            self._roots = self._checked_roots(self._roots_of(self))
        return self._roots

    def _checked_roots(self, roots):
        roots = np.array(roots, dtype=np.float64)
        m, d = self.coefficients.shape
        if roots.shape != (d, m, m) or not np.isfinite(roots).all():
            raise ValueError(
                f"PosteriorField: expected finite roots of shape {(d, m, m)} (states, terms, terms), got "
                f"shape {roots.shape} with {int(np.sum(~np.isfinite(roots)))} values that are not finite."
            )
        roots.setflags(write=False)
        return roots

    def scale(self, x):
        """One calibrated standard deviation of f at points ``(..., d)``, in the units of f."""
        x, rows = self._rows(x)
        columns = self.dictionary.evaluate(rows)
        return np.linalg.norm(self.roots @ columns.T, axis=1).T.reshape(x.shape)

    def draws(self, n, seed=0):
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
        kept = {"context": self._context, "state_names": self._state_names, "region": self._region}
        return EnsembleField([DictionaryField(self.dictionary, c, **kept) for c in coefficients])
