"""The network of the FIM-ODE paper as a model: fields that are decoded point by point."""

import os
from collections.abc import Sequence

import torch

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.models.fim_ode.batching import PretrainedModel, padded_batch, power_units, scaled_samples
from fim_dynsys.models.fim_ode.field import make_fields
from fim_dynsys.models.fim_ode.published_operators import DecodedOperator, decoded_operator
from fim_dynsys.trajectories.container import Trajectories


class PublishedFIMODE(PretrainedModel):
    """The pretrained network of the FIM-ODE paper, with its authors' weights.

    What is inferred is a field that the network decodes point by point; its equations are a distillation.
    Contexts may hold any number of trajectories, ragged and irregularly sampled. Results do not depend on the
    order of trajectories, nor on units or the origin of time. Weights are read when first needed, and shared
    by the models of a process; a saved or pickled model holds the path only, a pickled field the numbers it
    needs.

    Parameters
    ----------
    weights : path-like
        A folder with ``config.json`` and ``model.safetensors`` as the authors publish it, their safetensors
        file alone (then give `attention`), or a file in our format. The package does not hold them.
    attention : {"softmax-gnot", "softmax"}, optional
        The attention map, overriding what the configuration says.
    precision : {"float32", "float64"}
        Type in which contexts are encoded. Fields are decoded in float64.
    device : str
        Where to compute, as torch names it.

    Examples
    --------
    >>> model = PublishedFIMODE(weights="path/to/published")  # doctest: +SKIP
    >>> model.fit(x, t).predict(x)  # doctest: +SKIP
    """

    name = "fim-ode-published"

    def __init__(
        self,
        weights: str | os.PathLike | None = None,
        attention: str | None = None,
        precision: str = "float32",
        device: str = "cpu",
    ) -> None:
        self.weights = weights
        self.attention = attention
        self.precision = precision
        self.device = device

    @property
    def operator(self) -> DecodedOperator:
        """The network, read at first use."""
        return decoded_operator(self.weights, self.attention, self.precision, str(self.device))

    @property
    def version(self) -> str:
        """First 8 hexadecimal digits of the weights' sha256."""
        return self.operator.version

    @property
    def max_dim(self) -> int:
        """Largest dimension of the states that the weights take."""
        return self.operator.max_dim

    def infer_batch(
        self, complete: Sequence[Trajectories], contexts: Sequence[Trajectories]
    ) -> Sequence[VectorField]:
        """Fields of contexts that are encoded together; states are scaled by powers of two on the way."""
        operator = self.operator
        units = [power_units(context) for context in complete]
        dim = max(context.dim for context in complete)
        device = next(operator.network.parameters()).device
        batch = padded_batch([scaled_samples(*pair) for pair in zip(complete, units, strict=True)], dim)
        t, x, mask = (torch.as_tensor(part, device=device) for part in batch)
        report = {
            "operator": self.name,
            "weights": operator.version,
            "attention": operator.network.config.attention,
        }
        options = [{"context": context, "fit_info": FitInfo(report=dict(report))} for context in contexts]
        dims = [context.dim for context in complete]
        with (
            torch.inference_mode(False),
            torch.no_grad(),
        ):  # an inference-mode tensor would refuse gradients later
            encoding = operator.network.encode(t, x, mask)
            return make_fields(operator.decoder, encoding, dims, units, options)


def fim_ode_published(
    weights: str | os.PathLike | None = None,
    attention: str | None = None,
    precision: str = "float32",
    device: str = "cpu",
) -> PublishedFIMODE:
    """The network of the FIM-ODE paper, with its authors' weights; see `PublishedFIMODE`.

    Returns
    -------
    PublishedFIMODE
        Not yet fitted; the weights have been read.

    Warns
    -----
    WeightsWarning
        Where the configuration says ``softmax`` and `attention` is not given.

    Raises
    ------
    FileNotFoundError
        Naming the files expected.
    ValueError
        If the weights are not those of the published network, or leave the attention map open.
    """
    model = PublishedFIMODE(weights, attention, precision, device)
    _ = model.operator  # wrong weights are an error now, not at the first fit
    return model
