"""GPODE: a Gaussian-process field whose posterior is found by variational inference."""

import numpy as np

from fim_dynsys.deadline import Deadline
from fim_dynsys.fields.base import VectorField
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys_common.posterior import PosteriorModel
from fim_dynsys_gpode.field import GaussianProcessField
from fim_dynsys_gpode.process import GaussianPosterior
from fim_dynsys_gpode.training import Bound, Settings, array, begun, fitted


class GPODE(PosteriorModel):
    """A Bayesian ODE whose field is a sparse variational Gaussian process.

    The field of the fitted model is the posterior mean; `ensemble(n)` and the field's `draws(n)` give whole
    functions from the posterior, its `scale(x)` their standard deviation.

    Parameters
    ----------
    method : {"shooting", "full"}
        Whether every interval between samples is solved from a start of its own, inferred too; else the paths
        are solved whole, from their first states.
    n_inducing : int
        Inducing points; where they lie is trained.
    length_scale, variance : float
        Of the squared-exponential kernels, where training starts; in standard deviations of the states, and
        of rates of one such deviation in the time in which the state travels it.
    constraint : float
        Standard deviation, in those of the states, by which a path may jump between segments in the end.
    n_samples : int
        Draws of the starts for each function drawn.
    iterations, learning_rate
        Of Adam.
    seed : int
        Of all that is drawn.
    max_seconds : float, optional
        Wall-clock limit of a fit; the schedule follows the clock where it would not end in time.
    progress : bool, optional
        Whether a bar is shown; default on a terminal.

    References
    ----------
    P. Hegde et al., Variational multiple shooting for Bayesian ODEs with Gaussian processes, UAI 2022.
    """

    name = "gpode"
    version = "2"
    min_observations = 5
    field_classes = (GaussianProcessField,)

    def __init__(
        self,
        method: str = "shooting",
        n_inducing: int = 16,
        length_scale: float = 1.3,
        variance: float = 0.5,
        constraint: float = 1e-2,
        n_samples: int = 1,
        iterations: int = 5000,
        learning_rate: float = 0.005,
        seed: int = 0,
        max_seconds: float | None = 600.0,
        progress: bool | None = None,
    ) -> None:
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
            An unknown method, or a setting that is not positive.
        FitError
            Where training diverges at once.
        """
        settings = Settings.of(self)
        deadline = Deadline(self._caller, self.max_seconds)
        batch, process, vectors = begun(
            trajectories, self._caller, self.n_inducing, self.length_scale, self.variance, self.seed
        )
        posterior = GaussianPosterior(vectors)
        bound = Bound(batch, process, posterior, settings)
        found = fitted(self._caller, bound, self.seed, deadline, self.progress)
        bound.load_state_dict(found.state)
        units = batch.units
        return GaussianProcessField(
            units.outer(array(process.centres)),
            units.scale * np.exp(array(process.log_lengths)),
            units.outer_rates(np.exp(array(process.log_signal))),
            array(posterior.means),
            array(posterior.roots),
            context=trajectories,
            fit_info=bound.fit_info(found, trajectories),
        )
