"""Smoothing spline and least squares: a cubic field from slopes, with no choice of terms."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from benchmarks.harness.rows import View
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.observed import SPLINE


@dataclass(frozen=True)
class SplineRow:
    """All monomials up to degree 3, by least squares of a smoothing spline's slopes at its states."""

    name: str = "spline"
    version: str = "1"
    sees_truth: ClassVar[bool] = False

    def infer(self, view: View) -> VectorField:
        """Return the field for one context."""
        fits = [SPLINE(t, x) for t, x in view.context.arrays()]
        states, slopes = (np.concatenate(part) for part in zip(*fits, strict=True))
        terms = Dictionary.polynomial(view.context.dim, 3)
        coefficients = np.linalg.lstsq(terms.evaluate(states), slopes, rcond=None)[0]
        return DictionaryField(terms, coefficients, context=view.context)
