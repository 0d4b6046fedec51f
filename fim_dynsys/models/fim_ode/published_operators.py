"""The published network ready for inference: read from its files once, shared like `operators`."""

import os
from functools import lru_cache
from typing import NamedTuple

import torch

from fim_dynsys.models.fim_ode.checkpoint import Checkpoint, find_checkpoint, locate, read_checkpoint
from fim_dynsys.models.fim_ode.devices import checked_device
from fim_dynsys.models.fim_ode.field import Decoder, parse_precision
from fim_dynsys.models.fim_ode.operators import FILES_KEPT, Stamp, kept, stamp
from fim_dynsys.models.fim_ode.published import PublishedNetwork
from fim_dynsys.models.fim_ode.weights import weights_version


class DecodedOperator(NamedTuple):
    """The published network.

    Attributes
    ----------
    network : PublishedNetwork
        In the type in which contexts are encoded.
    decoder : Decoder
        In float64.
    version : str
        First 8 hexadecimal digits of the sha256 of its weights file.
    max_dim : int
    """

    network: PublishedNetwork
    decoder: Decoder
    version: str
    max_dim: int


def decoded_operator(
    caller: str, weights: str | os.PathLike | None, attention: str | None, precision: str, device: str
) -> DecodedOperator:
    """The published network from its files; read once for each content of the files and setting.

    Raises
    ------
    FileNotFoundError, ValueError
        As `find_checkpoint` and `read_checkpoint`; ValueError also for an unknown precision or a device that
        is not there.

    Warns
    -----
    WeightsWarning
        As `find_checkpoint`, at the first reading.
    """
    files = [file for file in locate(weights) if file is not None]
    checkpoint, version = _found(str(weights), attention, tuple(map(stamp, files)))
    key = ("decoded", version, checkpoint.attention, repr(checkpoint.settings), precision, device)
    return kept(key, lambda: _read_decoded(caller, checkpoint, version, precision, device))


@lru_cache(FILES_KEPT)
def _found(path: str, attention: str | None, stamps: tuple[Stamp | None, ...]) -> tuple[Checkpoint, str]:
    checkpoint = find_checkpoint(path, attention)
    return checkpoint, weights_version(checkpoint.tensors)


def _read_decoded(
    caller: str, checkpoint: Checkpoint, version: str, precision: str, device: str
) -> DecodedOperator:
    dtype, where = parse_precision(caller, precision), checked_device(caller, device)
    network = read_checkpoint(checkpoint).to(where).requires_grad_(False)
    decoder = Decoder(network, torch.float64)
    return DecodedOperator(network.to(dtype), decoder, version, network.config.max_dim)
