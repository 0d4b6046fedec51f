"""The model: draws from the posterior over networks, and their mean as the field."""

from fim_dynsys.deadline import Deadline
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys_bayesian_neural_ode.posterior import Posterior
from fim_dynsys_bayesian_neural_ode.sampling import FEWEST_DRAWS, convergence, maxima, sample
from fim_dynsys_common.data import Batch
from fim_dynsys_common.networks import NetworkField
from fim_dynsys_common.posterior import PosteriorModel
from fim_dynsys_common.settings import check_counts
from fim_dynsys_common.training import generator, private_rng

_KEPT = 400  # networks in the field at most
_PROBES = 32  # states at which chains are compared
_AGREED = 1.1  # largest R-hat without a note


class BayesianNeuralODE(PosteriorModel):
    """A posterior over networks with one hidden layer and a linear part, as fields.

    `field_` is the posterior mean, its `scale` the posterior standard deviation, and `ensemble` gives draws.
    `field_.fit_info.report` says how far the chains agree: ``rhat``, ``rhat_median``, ``ess``, ``ess_median``
    of the field along the data, and ``divergences``.

    Parameters
    ----------
    width : int
        Units of the hidden layer, tanh.
    segment : int or None
        Intervals between samples in each segment of multiple shooting; None for single shooting.
    continuity : float
        Standard deviation of the jumps between segments, in standard deviations of the data.
    chains, warmup, draws : int
        Chains, and steps of each before and after adaptation ends.
    tree_depth : int
        Depth of the no-U-turn sampler's trees at most.
    map_steps : int
        Steps of Adam to the maxima of the density, where chains start.
    seed : int
        Of the first weights and the sampler.
    max_seconds : float or None
        Wall-clock time after which the draws so far are the answer.
    progress : bool or None
        Whether a bar is shown; default on a terminal.

    References
    ----------
    R. Dandekar et al., Bayesian neural ordinary differential equations, arXiv:2012.07244 (2020)
    (the posterior over weights, sampled by NUTS).
    M. D. Hoffman and A. Gelman, The No-U-Turn Sampler, JMLR 15 (2014), algorithm 6.
    """

    name, version = "bayesian-neural-ode", "2"
    min_observations = 8
    field_classes = (NetworkField,)

    def __init__(
        self,
        width: int = 20,
        segment: int | None = 5,
        continuity: float = 0.02,
        chains: int = 2,
        warmup: int = 150,
        draws: int = 150,
        tree_depth: int = 5,
        map_steps: int = 600,
        seed: int = 0,
        max_seconds: float | None = 900.0,
        progress: bool | None = None,
    ):
        self.width = width
        self.segment = segment
        self.continuity = continuity
        self.chains = chains
        self.warmup = warmup
        self.draws = draws
        self.tree_depth = tree_depth
        self.map_steps = map_steps
        self.seed = seed
        self.max_seconds = max_seconds
        self.progress = progress

    def infer(self, trajectories: Trajectories) -> NetworkField:
        """Infer the field; see `VectorFieldModel.infer`.

        Raises
        ------
        FitError
            Where the density is not finite, or time is out during warm-up.
        """
        deadline = Deadline(self._caller, self.max_seconds)
        self._check_settings()
        data = trajectories.drop_incomplete(self.name)
        batch = Batch.of(data)
        posterior = Posterior(batch, self.width, self.segment, self.continuity)
        first = posterior.first_guess(self.chains, generator(self.seed))
        starts = maxima(self.name, posterior, first, self.map_steps, deadline, self.progress)
        with private_rng(self.seed):
            found = sample(
                self.name,
                posterior,
                starts,
                self.warmup,
                self.draws,
                self.tree_depth,
                deadline,
                self.progress,
            )
        theta = found.theta.flatten(0, 1)
        weights, parts = posterior.weights(theta), posterior.parts(theta)
        probes = posterior.states[:: -(-len(posterior.states) // _PROBES)].numpy()
        rates = weights.rates(probes)
        agreement = convergence(rates.reshape(*found.theta.shape[:2], *probes.shape))
        report: dict[str, object] = {
            "chains": self.chains,
            "draws": found.theta.shape[1],
            "ended": found.ended,
            "divergences": found.divergences,
            **agreement,
        }
        if agreement["rhat_median"] > _AGREED:
            report["note"] = (
                f"chains differ: R-hat {agreement['rhat_median']:.3g} in the median; raise warmup and draws"
            )
        first_states = parts.starts[:, posterior.segments.is_first].mean(dim=0).numpy()
        return NetworkField(
            weights[:: -(-len(weights) // _KEPT)],
            batch.units,
            context=data,
            fit_info=FitInfo(
                initial_states=batch.units.outer(first_states),
                noise_level=parts.noise.mean(dim=0).flatten().numpy() * batch.units.scale,
                report=report,
            ),
        )

    def _check_settings(self) -> None:
        counts = ("width", "chains", "warmup", "draws", "tree_depth", "map_steps")
        check_counts(self.name, self, *counts, *(() if self.segment is None else ("segment",)))
        if self.draws < FEWEST_DRAWS or not self.continuity > 0:
            raise ValueError(
                f"{self.name}: expected at least {FEWEST_DRAWS} draws and a positive continuity, got "
                f"{self.draws!r} and {self.continuity!r}."
            )
