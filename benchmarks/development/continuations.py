"""What a field does outside the data: rows that continue a model's field beyond the box of its context."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from benchmarks.harness.rows import ModelRow, View
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.trajectories.container import Trajectories

MARGIN = 0.5  # of the box's widths, on each side, where the field is left as it is
KINDS = ("clamped", "linear", "returning")


def continued(field: VectorField, context: Trajectories, kind: str) -> VectorField:
    """Return the field, replaced outside the widened box by what its nearest point p in the box tells.

    clamped: f(p). linear: f(p) + J(p) (x - p). returning: f(p) and a pull towards p that equals the largest
    speed on the data one width away.
    """
    states = np.concatenate([x for _, x in context.drop_incomplete("continued").arrays()])
    low, high = states.min(axis=0), states.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    low, high = low - MARGIN * width, high + MARGIN * width
    speed = np.abs(field(states)).max(axis=0)

    def rates(x: np.ndarray) -> np.ndarray:
        nearest = np.clip(x, low, high)
        beyond = x - nearest
        values = field(nearest)
        if kind == "linear":
            return values + np.einsum("nij,nj->ni", field.jacobian(nearest), beyond)
        return values - (speed / width * beyond if kind == "returning" else 0.0)

    return CallableField(rates, context.dim)


@dataclass(frozen=True)
class ContinuedRow:
    """A model whose field is continued beyond the data; it sees what the model sees."""

    model: ModelRow
    kind: str
    sees_truth: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Name of the model and of the continuation."""
        return f"{self.model.name}, {self.kind}"

    @property
    def version(self) -> str:
        """Version of the model."""
        return self.model.version

    def infer(self, view: View) -> VectorField:
        """Return the continued field for one context."""
        field = self.model.infer(view)
        assert isinstance(field, VectorField)  # of the operator that is continued
        return continued(field, view.context, self.kind)
