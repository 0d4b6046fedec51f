"""Rows whose contexts hold outliers besides their noise."""

import hashlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from benchmarks.harness.rows import Inferred, ModelRow, View
from fim_dynsys.corruption import add_outliers

MODELS = ("fim-ode", "auto", "sindy-strong")
SHARE, SIZE = 0.03, 0.16  # of the values; relative, eight deviations of 2 % noise


@dataclass(frozen=True)
class SpoiltRow:
    """A model that sees the context with outliers, the same ones as other models."""

    model: ModelRow
    sees_truth: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Name of the model and of what is done to its context."""
        return f"{self.model.name}, outliers"

    @property
    def version(self) -> str:
        """Version of the model."""
        return self.model.version

    def infer(self, view: View) -> Inferred:
        """Return the model's field for the context with outliers."""
        digest = hashlib.sha256(np.ascontiguousarray(view.context.x).tobytes()).digest()
        rng = np.random.default_rng(int.from_bytes(digest[:16], "big"))
        return self.model.infer(View(add_outliers(view.context, SHARE, SIZE, rng)))
