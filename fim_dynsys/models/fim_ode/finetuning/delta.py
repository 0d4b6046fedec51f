"""What fine-tuning changed of a network, applied to it."""

import copy
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import torch
from torch import nn

from fim_dynsys.delta import Delta
from fim_dynsys.models.fim_ode.field import Decoder
from fim_dynsys.models.fim_ode.published_operators import DecodedOperator

DOWN, UP = ".down", ".up"
"""Suffixes of the two factors whose product is added to a weight; a name without them replaces it."""


@lru_cache(maxsize=4)
def tuned_operator(operator: DecodedOperator, delta: Delta) -> DecodedOperator:
    """The network with a delta applied; the one given stays as it is.

    Raises
    ------
    ValueError
        If the delta belongs to other weights.
    """
    if delta.base != operator.version:
        raise ValueError(
            f"Delta: expected weights of version {delta.base}, from which the fine-tuned ones "
            f'{delta.version} were made, got {operator.version}; load("fim-ode-published", weights=FILE, '
            "delta=...) with the file of that version."
        )
    network = copy.deepcopy(operator.network)
    _apply(network, delta.tensors)
    return DecodedOperator(
        network, Decoder(network, torch.float64), f"{operator.version}+{delta.version}", operator.max_dim
    )


def _apply(network: nn.Module, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the changes into a network's own parameters."""
    parameters = dict(network.named_parameters())
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    changed = {name.removesuffix(DOWN).removesuffix(UP) for name in tensors}
    if unknown := sorted(changed - parameters.keys()):
        raise ValueError(f"Delta: expected names of the network's weights, got {', '.join(unknown[:3])}.")
    with torch.no_grad():
        for name in changed:
            weight = parameters[name]
            if name in tensors:
                new = tensors[name].to(weight)
            else:
                new = weight + (tensors[name + UP] @ tensors[name + DOWN]).to(weight)
            if new.shape != weight.shape or not new.isfinite().all():
                raise ValueError(
                    f"Delta: expected finite values of shape {tuple(weight.shape)} for {name}, got others of "
                    f"shape {tuple(new.shape)}."
                )
            weight.copy_(new)
