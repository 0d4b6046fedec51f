"""GP-DNF, our reading: a Gaussian-process field sent through a flow, its posterior through another."""

import numpy as np

from fim_dynsys.deadline import Deadline
from fim_dynsys.fields.base import VectorField
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys_common.posterior import PosteriorModel
from fim_dynsys_common.training import generator
from fim_dynsys_gp_dnf.field import FlowField
from fim_dynsys_gp_dnf.flows import OutputFlow, PlanarPosterior
from fim_dynsys_gpode.training import Bound, Settings, array, begun, fitted


class GPDNF(PosteriorModel):
    """A Bayesian ODE whose field is a monotone map of a Gaussian process, with a non-Gaussian posterior.

    What is published leaves the form and the number of the layers open; these are ours. The field of the
    fitted model is the flow of the mean process; `ensemble(n)` gives whole functions from the posterior.

    Parameters
    ----------
    n_planar_layers : int
        Planar layers of the inducing vectors.
    n_output_layers : int
        Monotone layers of each coordinate of the field.
    method, n_inducing, length_scale, variance, constraint, n_samples, iterations, learning_rate
        As of GPODE.
    seed : int
        Of all that is drawn.
    max_seconds : float, optional
        Wall-clock limit of a fit; the schedule follows the clock where it would not end in time.
    progress : bool, optional
        Whether a bar is shown; default on a terminal.

    References
    ----------
    J. Xu et al., Bayesian Gaussian process ODEs via double normalizing flows, AISTATS 2025, PMLR 258:235-243.
    """

    name = "gp-dnf"
    version = "1"
    min_observations = 5
    field_classes = (FlowField,)

    def __init__(
        self,
        n_planar_layers: int = 4,
        n_output_layers: int = 2,
        method: str = "shooting",
        n_inducing: int = 16,
        length_scale: float = 1.3,
        variance: float = 0.5,
        constraint: float = 1e-2,
        n_samples: int = 1,
        iterations: int = 600,
        learning_rate: float = 0.02,
        seed: int = 0,
        max_seconds: float | None = 600.0,
        progress: bool | None = None,
    ) -> None:
        self.n_planar_layers = n_planar_layers
        self.n_output_layers = n_output_layers
        self.method = method
        self.n_inducing = n_inducing
        self.length_scale = length_scale
        self.variance = variance
        self.constraint = constraint
        self.n_samples = n_samples
        self.iterations = iterations
        self.learning_rate = learning_rate
        self.seed = seed
        self.max_seconds = max_seconds
        self.progress = progress

    def infer(self, trajectories: Trajectories) -> VectorField:
        """Train on all trajectories together.

        Raises
        ------
        ValueError
            An unknown method, a setting that is not positive, or a negative number of layers.
        FitError
            Where training diverges at once.
        """
        settings = Settings.of(self)
        if min(self.n_planar_layers, self.n_output_layers) < 0:
            raise ValueError(
                f"{self._caller}: expected numbers of layers of 0 or more, got {self.n_planar_layers} and "
                f"{self.n_output_layers}."
            )
        deadline = Deadline(self._caller, self.max_seconds)
        batch, process, vectors = begun(
            trajectories, self._caller, self.n_inducing, self.length_scale, self.variance, self.seed
        )
        posterior = PlanarPosterior(vectors, self.n_planar_layers, generator(self.seed))
        flow = OutputFlow(self.n_output_layers, batch.dim)
        bound = Bound(batch, process, posterior, settings, flow)
        found = fitted(self._caller, bound, self.seed, deadline, self.progress)
        bound.load_state_dict(found.state)
        units = batch.units
        return FlowField(
            units.outer(array(process.centres)),
            units.scale * np.exp(array(process.log_lengths)),
            np.exp(array(process.log_signal)),
            array(posterior.base.means),
            array(posterior.base.roots),
            array(posterior.layers()),
            array(flow()),
            units.outer_rates(np.ones(batch.dim)),
            context=trajectories,
            fit_info=bound.fit_info(found, trajectories),
        )
