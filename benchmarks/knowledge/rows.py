"""Models that are given the one fact of the system at hand."""

from dataclasses import dataclass
from typing import Any, ClassVar

import fim_dynsys
from benchmarks.harness.rows import ModelRow, View
from benchmarks.knowledge.facts import known
from fim_dynsys.fields.base import VectorField


@dataclass(frozen=True)
class ConstrainedRow:
    """A registered model that is given the context and one true fact."""

    model: ModelRow
    sees_truth: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """Name of the model, and that it is constrained."""
        return f"{self.model.name}, constrained"

    @property
    def version(self) -> str:
        """Version of the model."""
        return self.model.version

    def infer(self, view: View) -> VectorField:
        """Return the model's field, which honours the fact."""
        fact = known(view.problem.system, view.context.state_names)
        model: Any = fim_dynsys.load(self.model.model, **dict(self.model.params), knowledge=fact)
        return model.infer(view.context)
