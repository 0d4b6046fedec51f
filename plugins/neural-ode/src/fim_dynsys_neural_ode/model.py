"""The model: a network as the field, chosen and trained on the data alone."""

import torch

from fim_dynsys.deadline import Deadline
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys_common.data import Batch
from fim_dynsys_common.networks import NetworkField
from fim_dynsys_common.settings import check_counts
from fim_dynsys_neural_ode.training import Settings, Shooting

_DECAYS = (1e-4, 3e-4, 1e-3, 3e-3)


class NeuralODE(VectorFieldModel):
    """A multilayer perceptron with a linear part as the field, fitted to trajectories.

    Parameters
    ----------
    width, depth : int
        Units in each hidden layer, and number of these layers; tanh.
    segment : int or None
        Intervals between samples in each segment of multiple shooting; None for single shooting, where each
        trajectory is one.
    weight_decay : float or None
        Weight of the squared weights against the mean squared error in normalised units; None: the one of
        1e-4, 3e-4, 1e-3 and 3e-3 that predicts held-out blocks best.
    steps : int
        Steps of Adam at most; where to stop is chosen by held-out blocks too.
    learning_rate : float
        Of Adam; falls to a hundredth along a cosine.
    folds : int
        Parts of the data that are held out in turn.
    seed : int
        Of the first weights.
    max_seconds : float or None
        Wall-clock time after which the best so far is the answer.
    progress : bool or None
        Whether a bar is shown; default on a terminal.

    References
    ----------
    R. T. Q. Chen et al., Neural ordinary differential equations, NeurIPS 2018, equation 2.
    E. M. Turan and J. Jäschke, Multiple shooting for training neural differential equations on time series,
    IEEE Control Systems Letters 6 (2022) (continuity as a penalty).
    """

    name, version = "neural-ode", "1"
    min_observations = 8
    field_classes = (NetworkField,)

    def __init__(
        self,
        width: int = 32,
        depth: int = 2,
        segment: int | None = 5,
        weight_decay: float | None = None,
        steps: int = 300,
        learning_rate: float = 3e-3,
        folds: int = 5,
        seed: int = 0,
        max_seconds: float | None = 300.0,
        progress: bool | None = None,
    ):
        self.width = width
        self.depth = depth
        self.segment = segment
        self.weight_decay = weight_decay
        self.steps = steps
        self.learning_rate = learning_rate
        self.folds = folds
        self.seed = seed
        self.max_seconds = max_seconds
        self.progress = progress

    def infer(self, trajectories: Trajectories) -> NetworkField:
        """Infer the field; see `VectorFieldModel.infer`.

        Raises
        ------
        FitError
            Where training diverges at once.
        """
        deadline = Deadline(self._caller, self.max_seconds)
        settings = self._settings()
        data = trajectories.drop_incomplete(self.name)
        batch = Batch.of(data, dtype=torch.float32)
        shooting = Shooting(batch, settings)
        shooting.match_slopes(deadline)
        choice = shooting.shoot(self.name, deadline, self.progress)
        report = {
            "weight_decay": choice.weight_decay,
            "held_out_error": choice.held_out,
            "steps": choice.step,
            "ended": choice.ended,
        }
        starts = batch.units.outer(choice.starts)
        return NetworkField(
            choice.weights, batch.units, context=data, fit_info=FitInfo(initial_states=starts, report=report)
        )

    def _refit_member(self, field: VectorField, context: Trajectories) -> NetworkField:
        """Keep the weight decay; where to stop is chosen again."""
        decay = field.fit_info.report["weight_decay"]
        return type(self)(**self.get_params() | {"weight_decay": decay}).infer(context)

    def _settings(self) -> Settings:
        check_counts(self.name, self, "width", "depth", "steps", "folds")
        if self.segment is not None:
            check_counts(self.name, self, "segment")
        if not self.learning_rate > 0 or (self.weight_decay is not None and not self.weight_decay >= 0):
            raise ValueError(
                f"{self.name}: expected a positive learning_rate and a weight_decay of at least 0, got "
                f"{self.learning_rate!r} and {self.weight_decay!r}."
            )
        return Settings(
            hidden=(self.width,) * self.depth,
            segment=self.segment,
            decays=_DECAYS if self.weight_decay is None else (float(self.weight_decay),),
            steps=self.steps,
            learning_rate=self.learning_rate,
            folds=self.folds,
            seed=self.seed,
        )
