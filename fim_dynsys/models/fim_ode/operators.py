"""Networks ready for inference: read from their files once, and shared by all models of a process."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from fim_dynsys.models.fim_ode.amortised import AmortisedNetwork
from fim_dynsys.models.fim_ode.calibration import Calibration
from fim_dynsys.models.fim_ode.checkpoint import Checkpoint, find_checkpoint, locate, read_checkpoint
from fim_dynsys.models.fim_ode.choice import N_CHOICE_FEATURES
from fim_dynsys.models.fim_ode.field import Decoder, parse_precision
from fim_dynsys.models.fim_ode.published import PublishedNetwork
from fim_dynsys.models.fim_ode.weights import (
    CALIBRATION,
    SELECTOR,
    build_network,
    read_header,
    read_part,
    weights_version,
)
from fim_dynsys.search.selector import Selector

_NETWORKS_KEPT = 4
_FILES_KEPT = 32  # of which hashes and headers are remembered


class OwnOperator(NamedTuple):
    """Our operator.

    Attributes
    ----------
    network : AmortisedNetwork
    version : str
        First 8 hexadecimal digits of the sha256 of its weights file.
    max_dim : int
    selector : Selector or None
        Where the file holds one.
    calibration : Calibration or None
        Likewise.
    """

    network: AmortisedNetwork
    version: str
    max_dim: int
    selector: Selector | None
    calibration: Calibration | None


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


def own_operator(path: str, device: str) -> OwnOperator:
    """Our operator from a weights file; read once for each content of the file and device.

    Raises
    ------
    FileNotFoundError, ValueError
        As `build_network`; ValueError also for a file with another network, or a device that is not there.
    """
    version = _own_version(path, _stamp(path))
    return _kept(("own", version, device), lambda: _read_own(path, version, device))


def decoded_operator(
    weights: str | os.PathLike | None, attention: str | None, precision: str, device: str
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
    checkpoint, version = _found(str(weights), attention, tuple(map(_stamp, files)))
    key = ("decoded", version, checkpoint.attention, repr(checkpoint.settings), precision, device)
    return _kept(key, lambda: _read_decoded(checkpoint, version, precision, device))


# --- what is kept ----------------------------------------------------------------------------------------

_Operator = TypeVar("_Operator", OwnOperator, DecodedOperator)
_Stamp = tuple[int, int]
_networks: OrderedDict[tuple, Any] = OrderedDict()
_networks_lock = threading.Lock()


def _kept(key: tuple, read: Callable[[], _Operator]) -> _Operator:
    with _networks_lock:
        if key not in _networks:
            _networks[key] = read()
            if len(_networks) > _NETWORKS_KEPT:
                _networks.popitem(last=False)
        _networks.move_to_end(key)
        return _networks[key]


def _stamp(path: str | Path) -> _Stamp | None:
    """What changes when a file is written; None where there is none, of which reading will complain."""
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size


@lru_cache(_FILES_KEPT)
def _own_version(path: str, stamp: _Stamp | None) -> str:
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


@lru_cache(_FILES_KEPT)
def _found(path: str, attention: str | None, stamps: tuple[_Stamp | None, ...]) -> tuple[Checkpoint, str]:
    checkpoint = find_checkpoint(path, attention)
    return checkpoint, weights_version(checkpoint.tensors)


# --- reading ---------------------------------------------------------------------------------------------


def _read_own(path: str, version: str, device: str) -> OwnOperator:
    where = _checked_device("fim-ode", device)
    network, _ = build_network(path)
    assert isinstance(network, AmortisedNetwork)
    network = network.to(where).requires_grad_(False)
    selector, calibration = read_part(path, SELECTOR), read_part(path, CALIBRATION)
    return OwnOperator(
        network,
        version,
        len(network.tables),
        _selector(path, selector) if selector else None,
        Calibration(calibration) if calibration else None,
    )


def _selector(path: str, tensors: dict[str, np.ndarray]) -> Selector:
    try:
        selector = Selector.from_tensors(tensors)
        selector.logits(np.zeros((2, N_CHOICE_FEATURES)))
    except (IndexError, KeyError, ValueError) as error:
        raise ValueError(
            f"fim-ode: expected the arrays of a selector in {path!r}, got others "
            f"({type(error).__name__}: {error})."
        ) from error
    return selector


def _read_decoded(checkpoint: Checkpoint, version: str, precision: str, device: str) -> DecodedOperator:
    dtype = parse_precision("fim-ode-published", precision)
    where = _checked_device("fim-ode-published", device)
    network = read_checkpoint(checkpoint).to(where).requires_grad_(False)
    decoder = Decoder(network, torch.float64)
    return DecodedOperator(network.to(dtype), decoder, version, network.config.max_dim)


def _checked_device(who: str, device: str) -> torch.device:
    try:
        where = torch.device(device)
        torch.empty(0, dtype=torch.float64, device=where)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise ValueError(
            f"{who}: expected a torch device that is there and holds float64, got {device!r} ({error}); "
            "device='cpu' always works."
        ) from error
    return where
