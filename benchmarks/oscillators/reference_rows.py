"""Rows to compare with: a cubic field from a spline's slopes, and the true form with its constants fitted."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from benchmarks.harness.rows import View
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models.equations import EquationsModel
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


_VAN_DER_POL = ("a*x1", "b*x1 + c*x0**2*x1 + d*x0")
FORMS = {
    "VDP T1": _VAN_DER_POL,
    "VDP T2": _VAN_DER_POL,
    "FHN": ("a*x0 + b*x0**3 + c*x1", "d + e*x0 + f*x1"),
}
"""The true right-hand sides, by task, with free constants."""


@dataclass(frozen=True)
class TruthFitRow:
    """The true form with its constants fitted to the same observations: what these say of the field."""

    name: str = "truth-fit"
    version: str = "1"
    sees_truth: ClassVar[bool] = True

    def infer(self, view: View) -> VectorField:
        """Return the fitted field."""
        return EquationsModel(list(FORMS[view.problem.name])).infer(view.context)
