"""GPODE: a Gaussian-process field whose posterior is found by variational inference."""

from typing import Any

import numpy as np
from torch import Tensor

from fim_dynsys.fields.base import VectorField
from fim_dynsys_common.data import Units
from fim_dynsys_gpode.field import GaussianProcessField
from fim_dynsys_gpode.process import GaussianPosterior
from fim_dynsys_gpode.training import Bound, VariationalModel, array


class GPODE(VariationalModel):
    """A Bayesian ODE whose field is a sparse variational Gaussian process.

    The field of the fitted model is the posterior mean; `ensemble(n)` and the field's `draws(n)` give whole
    functions from the posterior, its `scale(x)` their standard deviation.

    Parameters
    ----------
    method, n_inducing, length_scale, variance, constraint, n_samples, iterations, learning_rate, seed
        As of `fim_dynsys_gpode.training.VariationalModel`, as are max_seconds and progress.

    References
    ----------
    P. Hegde et al., Variational multiple shooting for Bayesian ODEs with Gaussian processes, UAI 2022.
    """

    name = "gpode"
    version = "2"
    field_classes = (GaussianProcessField,)

    def _posterior(self, vectors: Tensor) -> tuple[GaussianPosterior, None]:
        return GaussianPosterior(vectors), None

    def _field(self, bound: Bound, units: Units, **description: Any) -> VectorField:
        process, posterior = bound.process, bound.posterior
        assert isinstance(posterior, GaussianPosterior)
        return GaussianProcessField(
            units.outer(array(process.centres)),
            units.scale * np.exp(array(process.log_lengths)),
            units.outer_rates(np.exp(array(process.log_signal))),
            array(posterior.means),
            array(posterior.roots),
            **description,
        )
