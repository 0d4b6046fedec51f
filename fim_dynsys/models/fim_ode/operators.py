"""Operators ready for inference: read from their files once, and shared by all models of a process."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from fim_dynsys.errors import check_installed
from fim_dynsys.models.fim_ode.calibration import Calibration
from fim_dynsys.models.fim_ode.configuration import AmortisedConfig
from fim_dynsys.models.fim_ode.inference import AmortisedInference, Estimate, Samples
from fim_dynsys.models.fim_ode.weights import (
    CALIBRATION,
    MANY,
    check_shapes,
    header_of_ours,
    read_config,
    read_header,
    read_parameters,
    read_part,
    weights_version,
)

_NETWORKS_KEPT = 4  # in memory, the ones used last
FILES_KEPT = 32  # of which hashes and headers are remembered


class Network(Protocol):
    """What infers coefficients: `AmortisedInference` on the CPU, `devices.DeviceInference` elsewhere."""

    @property
    def config(self) -> AmortisedConfig:
        """Sizes."""

    def estimates(self, contexts: Sequence[Samples]) -> list[Estimate]:
        """What the operator says of contexts of one dimension."""


class ByDimension(NamedTuple):
    """Two networks of the same sizes, one of which was trained on more states.

    Attributes
    ----------
    few, many : Network
        For contexts of up to `most` states, and of more.
    most : int
    """

    few: Network
    many: Network
    most: int

    @property
    def config(self) -> AmortisedConfig:
        """The sizes of both."""
        return self.few.config

    def estimates(self, contexts: Sequence[Samples]) -> list[Estimate]:
        """What the network for so many states says of contexts of one dimension."""
        dim = contexts[0][0][1].shape[1]
        return (self.few if dim <= self.most else self.many).estimates(contexts)


class OwnOperator(NamedTuple):
    """Our operator.

    Attributes
    ----------
    network : Network
    version : str
        First 8 hexadecimal digits of the sha256 of its weights file.
    max_dim : int
    calibration : Calibration or None
        Where the file holds one.
    """

    network: Network
    version: str
    max_dim: int
    calibration: Calibration | None


def own_operator(path: str, device: str) -> OwnOperator:
    """Our operator from a weights file; read once for each content of the file and device.

    Raises
    ------
    FileNotFoundError, ValueError
        As `weights.read_parameters`; ValueError also for a file with another network, or a device that is not
        there.
    """
    version = _own_version(path, stamp(path))
    return kept(("own", version, device), lambda: _read_own(path, version, device))


# --- what is kept ----------------------------------------------------------------------------------------

_Operator = TypeVar("_Operator")
Stamp = tuple[int, int]
_networks: OrderedDict[tuple, Any] = OrderedDict()
_networks_lock = threading.Lock()


def kept(key: tuple, read: Callable[[], _Operator]) -> _Operator:
    """An operator by its key, read where it is not kept."""
    with _networks_lock:
        if key not in _networks:
            _networks[key] = read()
            if len(_networks) > _NETWORKS_KEPT:
                _networks.popitem(last=False)
        _networks.move_to_end(key)
        return _networks[key]


def stamp(path: str | Path) -> Stamp | None:
    """What changes when a file is written; None where there is none, of which reading will complain."""
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size


@lru_cache(FILES_KEPT)
def _own_version(path: str, stamp: Stamp | None) -> str:
    """Version of a file that holds our operator."""
    architecture = "published"  # folders and files without our header can be nothing else
    if not os.path.isdir(path) and (header := read_header(path)) is not None:
        architecture = header["architecture"]
    if architecture != "amortised":
        raise ValueError(
            f"fim-ode: expected weights of our own operator, got {path!r}, which holds the published "
            f'network; load("fim-ode-published", weights={path!r}) takes it.'
        )
    return weights_version(path)


# --- reading ---------------------------------------------------------------------------------------------


def _read_own(path: str, version: str, device: str) -> OwnOperator:
    header = header_of_ours(path)
    config = read_config("fim-ode", path, header, AmortisedConfig)
    network = _network(path, config, read_parameters("fim-ode", path), device)
    if many := read_part(path, MANY):
        most = header["extra"].get("many", {}).get("up to", config.max_dim)
        network = ByDimension(network, _network(path, config, many, device, MANY), most)
    calibration = read_part(path, CALIBRATION)
    return OwnOperator(
        network,
        version,
        config.largest_dim,
        Calibration(calibration) if calibration else None,
    )


def _network(
    path: str, config: AmortisedConfig, parameters: dict[str, np.ndarray], device: str, prefix: str = ""
) -> Network:
    shapes = {name: array.shape for name, array in parameters.items()}
    check_shapes("fim-ode", path, "AmortisedNetwork", config.shapes(), shapes)
    if device == "cpu":
        return AmortisedInference(config, parameters)
    check_installed(f"fim-ode with device={device!r}", "torch", "torch")
    from fim_dynsys.models.fim_ode.devices import DeviceInference  # loads torch, which the CPU needs not

    return DeviceInference(path, device, prefix)
