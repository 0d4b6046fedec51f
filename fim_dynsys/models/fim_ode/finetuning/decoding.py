"""Decoding with gradients to the weights: the context is collapsed once a step, not once an evaluation."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fim_dynsys.models.fim_ode.finetuning.delta import DOWN, UP
from fim_dynsys.models.fim_ode.published import (
    NORM_EPS,
    STABILISER,
    PublishedNetwork,
    at_distance,
    summarise,
)

MOVES = ("all", "decoder", "low-rank", "last")
_RANK = 4  # of what is added to a weight: few numbers, so that few data do not overfit
_ENCODER = ("embedding.", "encoder.")
_DECODER = ("query_embedding.", "decoder.", "field_head.")
_FACTORS = 1e-2  # of the down factors: the up factors start at zero

Weights = Mapping[str, Tensor]


class _Layer(NamedTuple):
    """One decoder block with the context in it."""

    query: tuple[Tensor, Tensor]
    total: Tensor | None  # (H, C), what queries are divided by; None for the legacy map
    mixed: tuple[Tensor, Tensor]  # the context's matrices and the output layer in one
    norm1: tuple[Tensor, Tensor]
    expand: tuple[Tensor, Tensor]
    contract: tuple[Tensor, Tensor]
    norm2: tuple[Tensor, Tensor]


class FoldedDecoder:
    """The decoder of one context: `PublishedNetwork.decode` in evaluation mode, in fewer operations.

    Each head's summary of the context and the block's output layer are multiplied once; an evaluation is left
    with one product where there were two for each head.

    Parameters
    ----------
    network : PublishedNetwork
        For its sizes.
    weights : mapping of str to Tensor
        Of the decoder, named as in the network.
    tokens, mask : Tensor (1, J, width), (1, J)
        The encoded context.
    """

    def __init__(self, network: PublishedNetwork, weights: Weights, tokens: Tensor, mask: Tensor) -> None:
        config = self._config = network.config

        def pair(name: str) -> tuple[Tensor, Tensor]:
            return weights[f"{name}.weight"], weights[f"{name}.bias"]

        def turned(name: str) -> tuple[Tensor, Tensor]:
            weight, bias = pair(name)
            return bias, weight.t()

        self._embedding = [turned(f"query_embedding.{i}") for i in (0, 2)]
        self._head = [turned(f"field_head.{i}") for i in (0, 3, 6)]
        self._layers = []
        for i in range(config.decoder_layers):
            block = f"decoder.{i}"
            keys = F.linear(tokens, *pair(f"{block}.attention.key"))
            values = F.linear(tokens, *pair(f"{block}.attention.value"))
            summary = summarise(keys, values, mask, config.heads, config.attention)
            out, bias = pair(f"{block}.attention.out")
            heads = out.view(config.width, config.heads, -1).permute(1, 2, 0)  # (H, C, width)
            folded = (summary.matrix[0] @ heads).reshape(config.width, config.width)
            self._layers.append(
                _Layer(
                    turned(f"{block}.attention.query"),
                    None if summary.weight is None else summary.weight[0],
                    (bias, folded),
                    pair(f"{block}.norm1"),
                    turned(f"{block}.expand"),
                    turned(f"{block}.contract"),
                    pair(f"{block}.norm2"),
                )
            )

    def __call__(self, z: Tensor) -> Tensor:
        """Normalised field (n, d) at normalised states (n, d)."""
        dim, shape = z.shape[-1], (self._config.width,)
        (bias, matrix), second = self._embedding
        h = _affine(second, F.relu(_affine((bias, matrix[:dim]), z)))
        for layer in self._layers:
            queries = _affine(layer.query, h).view(len(z), self._config.heads, -1).softmax(-1)
            if layer.total is not None:
                queries = queries / ((queries * layer.total).sum(-1, keepdim=True) + STABILISER)
            read = _affine(layer.mixed, queries.reshape(len(z), -1))
            h = F.layer_norm(h + read, shape, *layer.norm1, NORM_EPS)
            hidden = F.gelu(_affine(layer.expand, h))
            changed = _affine(layer.contract, hidden)
            h = F.layer_norm(h + changed, shape, *layer.norm2, NORM_EPS)
        for part in self._head[:-1]:
            h = F.gelu(_affine(part, h))
        return at_distance(_affine(self._head[-1], h)[:, :dim], z, self._config)


def _affine(part: tuple[Tensor, Tensor], h: Tensor) -> Tensor:
    """Rows (n, a) times a matrix (a, b), and a bias: one operation where a linear layer records two."""
    bias, matrix = part
    return torch.addmm(bias, h, matrix)


def movable(network: PublishedNetwork, moves: str, generator: torch.Generator) -> dict[str, Tensor]:
    """The tensors that learn: weights of the network itself, or factors of what is added to them.

    Parameters
    ----------
    network : PublishedNetwork
        Its weights get gradients where they move.
    moves : {"all", "decoder", "low-rank", "last"}
        All but the uncertainty head; the decoder with its query embedding and output layers; products of rank
        4 added to the decoder's matrices; the last layer.
    generator : torch.Generator
        Of the factors.

    Returns
    -------
    dict of str to Tensor
    """
    prefixes = {"all": (*_ENCODER, *_DECODER), "last": ("field_head.6.",)}.get(moves, _DECODER)
    moved = {name: p for name, p in network.named_parameters() if name.startswith(prefixes)}
    if moves != "low-rank":
        return {name: parameter.requires_grad_() for name, parameter in moved.items()}
    found: dict[str, Tensor] = {}
    for name, parameter in moved.items():
        if parameter.ndim == 2 and min(parameter.shape) > _RANK:
            down = torch.randn(_RANK, parameter.shape[1], generator=generator).to(parameter) * _FACTORS
            found[name + DOWN] = down.requires_grad_()
            found[name + UP] = parameter.new_zeros(len(parameter), _RANK).requires_grad_()
    return found


def effective(network: PublishedNetwork, moved: Weights) -> dict[str, Tensor]:
    """The network's weights by name, with the products of moved factors added."""
    weights: dict[str, Tensor] = dict(network.named_parameters())
    for name in moved:
        if name.endswith(UP):
            plain = name.removesuffix(UP)
            weights[plain] = weights[plain] + moved[name] @ moved[plain + DOWN]
    return weights
