"""Networks in torch and their weights files: written, read and built."""

import dataclasses
import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import save
from torch import Tensor, nn

from fim_dynsys.models.fim_ode.weights import (
    ARCHITECTURES,
    FORMAT_VERSION,
    check_architecture,
    check_finite,
    check_shapes,
    header_of_ours,
    metadata,
    opened_safetensors,
    part_of,
    read_config,
    refused_weights,
)
from fim_dynsys.writing import replace_file

_Network = TypeVar("_Network", bound=nn.Module)


def save_weights(
    path: str | os.PathLike,
    network: nn.Module,
    architecture: str,
    config: Any,
    max_dim: int,
    extra_metadata: Mapping[str, Any] | None = None,
    dtype: torch.dtype = torch.float16,
) -> Path:
    """Write a network to a safetensors file whose header says what it is.

    Parameters
    ----------
    path : path-like
        Replaced in one step; a reader never sees half a file.
    network : nn.Module
        Its state dict is stored; floating-point tensors as `dtype`, all others unchanged.
    architecture : str
        A name in ``ARCHITECTURES``.
    config : dataclass
        What the network was built from; plain numbers, strings and tuples.
    max_dim : int
        Largest dimension of the states the network takes.
    extra_metadata : dict, optional
        Anything JSON can hold: how and on what the network was trained.
    dtype : torch.dtype
        Type of the stored floating-point tensors.

    Returns
    -------
    Path

    Raises
    ------
    ValueError
        If the architecture is unknown or a weight is not finite in `dtype`.
    """
    check_architecture("save_weights", architecture)
    header = {
        "format_version": FORMAT_VERSION,
        "architecture": architecture,
        "config": dataclasses.asdict(config),
        "max_dim": int(max_dim),
        "extra": dict(extra_metadata or {}),
    }
    tensors = {name: _stored(name, tensor, dtype) for name, tensor in network.state_dict().items()}
    return replace_file(path, save(tensors, metadata=metadata(header)))


def read_tensors(path: str | os.PathLike) -> dict[str, Tensor]:
    """Tensors of a safetensors file of any origin; raises as `weights.opened_safetensors`."""
    with opened_safetensors(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def build_network(path: str | os.PathLike, prefix: str = "") -> tuple[nn.Module, dict]:
    """Network of a weights file in our format, in evaluation mode and float32 on the CPU, and its header.

    The one whose tensors have a prefix, such as ``MANY``, or the file's own.

    Raises
    ------
    FileNotFoundError, ValueError
        As `weights.read_weights`; also ValueError when tensors and configuration do not fit each other.
    """
    header = header_of_ours(path)
    tensors = part_of(read_tensors(path), prefix)
    config_class, network_class = _classes(header["architecture"])
    config: Any = read_config("build_network", path, header, config_class)
    return built("build_network", path, lambda: network_class(config), tensors).eval(), header


def _classes(architecture: str) -> tuple[type, type]:
    module, config, network = ARCHITECTURES[architecture]
    loaded = importlib.import_module(module)
    return getattr(loaded, config), getattr(loaded, network)


def built(
    caller: str, path: str | os.PathLike, make: Callable[[], _Network], tensors: dict[str, Tensor]
) -> _Network:
    """A network filled with `tensors`; ValueError unless names and shapes agree exactly and all are finite.

    Its shapes are compared before memory is taken for it.
    """
    with torch.device("meta"):
        outline = make()
    expected = {name: tuple(tensor.shape) for name, tensor in outline.state_dict().items()}
    got = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    check_shapes(caller, path, type(outline).__name__, expected, got)
    check_finite(caller, path, [name for name, tensor in tensors.items() if not tensor.isfinite().all()])
    network = make()
    network.load_state_dict(tensors)
    return network


def _stored(name: str, tensor: Tensor, dtype: torch.dtype) -> Tensor:
    tensor = tensor.detach().cpu()
    if not tensor.is_floating_point():
        return tensor.contiguous().clone()
    stored = tensor.to(dtype, copy=True).contiguous()
    if not stored.isfinite().all():
        raise refused_weights(name, str(dtype), tensor.abs().max().item())
    return stored
