"""GP-DNF, our reading: a Gaussian-process field sent through a flow, its posterior through another."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from fim_dynsys.fields.base import VectorField
from fim_dynsys_common.data import Units
from fim_dynsys_common.training import generator
from fim_dynsys_gp_dnf.field import FlowField
from fim_dynsys_gp_dnf.flows import OutputFlow, PlanarPosterior
from fim_dynsys_gpode.training import Bound, VariationalModel, array


@dataclass(eq=False, repr=False)
class GPDNF(VariationalModel):
    """A Bayesian ODE whose field is a monotone map of a Gaussian process, with a non-Gaussian posterior.

    What is published leaves the form and the number of the layers open; these are ours. The field of the
    fitted model is the flow of the mean process; `ensemble(n)` gives whole functions from the posterior.

    Parameters
    ----------
    n_planar_layers : int
        Planar layers of the inducing vectors.
    n_output_layers : int
        Monotone layers of each coordinate of the field.
    method, n_inducing, length_scale, variance, constraint, n_samples, iterations, learning_rate, seed
        As of `fim_dynsys_gpode.training.VariationalModel`, as are max_seconds and progress.

    References
    ----------
    J. Xu et al., Bayesian Gaussian process ODEs via double normalizing flows, AISTATS 2025, PMLR 258:235-243.
    """

    n_planar_layers: int = 4
    n_output_layers: int = 2
    iterations: int = 600
    learning_rate: float = 0.02

    name = "gp-dnf"
    version = "1"
    field_classes = (FlowField,)

    def _posterior(self, vectors: Tensor) -> tuple[PlanarPosterior, OutputFlow]:
        if min(self.n_planar_layers, self.n_output_layers) < 0:
            raise ValueError(
                f"{self._caller}: expected numbers of layers of 0 or more, got {self.n_planar_layers} and "
                f"{self.n_output_layers}."
            )
        posterior = PlanarPosterior(vectors, self.n_planar_layers, generator(self.seed))
        return posterior, OutputFlow(self.n_output_layers, len(vectors))

    def _field(self, bound: Bound, units: Units, **description: Any) -> VectorField:
        process, posterior = bound.process, bound.posterior
        assert isinstance(posterior, PlanarPosterior) and bound.layers is not None
        return FlowField(
            units.outer(array(process.centres)),
            units.scale * np.exp(array(process.log_lengths)),
            np.exp(array(process.log_signal)),
            array(posterior.base.means),
            array(posterior.base.roots),
            array(posterior.layers()),
            array(bound.layers()),
            units.outer_rates(np.ones(len(units.scale))),
            **description,
        )
