"""The row that chooses among a model's candidates by the truth."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from benchmarks.harness.rows import View
from benchmarks.harness.run import Integrator, score
from benchmarks.harness.trials import TASKS, Problem, Trial
from benchmarks.report import THRESHOLDS
from fim_dynsys.fields.base import VectorField
from fim_dynsys.trajectories.container import Trajectories


class Chooser(Protocol):
    """A row whose model says what it chooses among."""

    @property
    def version(self) -> str:
        """Version of the model."""

    def candidates(self, context: Trajectories) -> list[VectorField]:
        """Return the fields that the model chooses among, its own choice first."""


@dataclass(frozen=True)
class OracleRow:
    """The candidate of a model that the truth would choose: the ceiling of its choice.

    Of the fields that the model chooses among, the one with most tasks above R2 = 0.9, and of those the one
    with the largest mean of both R2 clipped to [0, 1]. Its seconds include the scoring.
    """

    chooser: Chooser
    name: str = "oracle"
    sees_truth: ClassVar[bool] = True

    @property
    def version(self) -> str:
        """Version of the model."""
        return self.chooser.version

    def infer(self, view: View) -> VectorField:
        """Return the best candidate by the true score, the model's own choice where it is as good."""
        fields = self.chooser.candidates(view.context)
        return max(fields, key=lambda field: true_score(field, view.problem, view.trial))


def true_score(field: VectorField, problem: Problem, trial: Trial) -> tuple[int, float]:
    """Return the number of tasks above R2 = 0.9 and the mean of both R2 clipped to [0, 1] (failures: 0)."""
    scores = score(field, problem, trial, Integrator())
    r2 = np.array([scores[f"r2_{task}"] for task in TASKS])
    return int((r2 > THRESHOLDS[0]).sum()), float(np.fmax(np.minimum(r2, 1), 0).mean())
