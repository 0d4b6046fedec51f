"""Weights files: written, read, checked, and shipped with the package."""

import dataclasses
import hashlib
import importlib
import json
import os
from collections.abc import Callable, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from fim_dynsys.writing import replace_file

FORMAT_VERSION = 1
HEADER_KEY = "fim_dynsys"
SELECTOR, CALIBRATION = "selector.", "calibration."
"""Prefixes of the tensors of a `Selector` and a `Calibration`, which may stand beside the network's."""
_Network = TypeVar("_Network", bound=nn.Module)
SHIPPED = Path(__file__).parent / "weights"

# Architecture name -> module, configuration class, network class; imported when a file asks for it.
ARCHITECTURES = {
    "published": ("fim_dynsys.models.fim_ode.published", "PublishedConfig", "PublishedNetwork"),
    "amortised": ("fim_dynsys.models.fim_ode.amortised", "AmortisedConfig", "AmortisedNetwork"),
}


def save_weights(
    path: str | os.PathLike,
    network: nn.Module,
    architecture: str,
    config: Any,
    max_dim: int,
    extra_metadata: Mapping[str, Any] | None = None,
    dtype: torch.dtype = torch.float16,
    selector: dict | None = None,
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
    selector : dict of str to Tensor, optional
        Tensors of a `Selector` to store beside the network's.

    Returns
    -------
    Path

    Raises
    ------
    ValueError
        If the architecture is unknown or a weight is not finite in `dtype`.
    """
    _check_architecture("save_weights", architecture)
    header = {
        "format_version": FORMAT_VERSION,
        "architecture": architecture,
        "config": dataclasses.asdict(config),
        "max_dim": int(max_dim),
        "extra": dict(extra_metadata or {}),
    }
    tensors = network.state_dict() | {f"{SELECTOR}{name}": value for name, value in (selector or {}).items()}
    tensors = {name: _stored(name, tensor, dtype) for name, tensor in tensors.items()}
    return _write(path, header, tensors)


def _write(path: str | os.PathLike, header: dict, tensors: dict[str, Tensor]) -> Path:
    return replace_file(path, save(tensors, metadata={HEADER_KEY: json.dumps(header, sort_keys=True)}))


def read_weights(path: str | os.PathLike) -> tuple[dict, dict[str, Tensor]]:
    """Header and tensors of a weights file in our format, as stored.

    Returns
    -------
    header : dict
        ``format_version``, ``architecture``, ``config``, ``max_dim``, ``extra``.
    tensors : dict of str to Tensor

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is corrupt, truncated, pickled, of another origin or of a newer format.
    """
    header = read_header(path)
    if header is None:
        raise ValueError(
            f"read_weights: expected a file written by save_weights, got {str(path)!r}, a safetensors file "
            f"without the header {HEADER_KEY!r}; published FIM-ODE checkpoints are read by "
            'load("fim-ode-published", weights=...).'
        )
    return header, read_safetensors(path)[1]


def read_header(path: str | os.PathLike) -> dict | None:
    """Header of a weights file in our format, None for a safetensors file of another origin.

    Raises
    ------
    FileNotFoundError, ValueError
        As `read_weights`.
    """
    metadata, _ = read_safetensors(path, tensors=False)
    return _parse_header(path, metadata[HEADER_KEY]) if HEADER_KEY in metadata else None


def build_network(path: str | os.PathLike) -> tuple[nn.Module, dict]:
    """Network of a weights file in our format, in evaluation mode and float32 on the CPU, and its header.

    Raises
    ------
    FileNotFoundError, ValueError
        As `read_weights`; also ValueError when tensors and configuration do not fit each other.
    """
    header, tensors = read_weights(path)
    tensors = {n: tensor for n, tensor in tensors.items() if not n.startswith((SELECTOR, CALIBRATION))}
    config_class, network_class = _classes(header["architecture"])
    config = _tuples(header["config"])
    if not isinstance(config, dict):
        raise ValueError(f"build_network: expected an object as config in {str(path)!r}, got {config!r}.")
    for key in getattr(config_class, "retired", ()):
        if config.pop(key, ()):
            raise ValueError(
                f"build_network: expected no {key} in {str(path)!r}, got {header['config'][key]!r}, which "
                "only earlier releases of fim-dynsys take."
            )
    try:
        checked = config_class(**config)
    except TypeError as error:
        raise ValueError(
            f"build_network: the configuration in {str(path)!r} does not fit the architecture "
            f"{header['architecture']!r} of this version ({error}); upgrade fim-dynsys."
        ) from error
    except ValueError as error:
        raise ValueError(f"build_network: the configuration in {str(path)!r}: {error}") from error
    return built("build_network", path, lambda: network_class(checked), tensors).eval(), header


def read_part(path: str | os.PathLike, prefix: str) -> dict[str, np.ndarray]:
    """Arrays in float64 of what a weights file in our format holds under a prefix; empty if nothing.

    Raises
    ------
    FileNotFoundError, ValueError
        As `read_weights`.
    """
    _, tensors = read_weights(path)
    part = {n.removeprefix(prefix): t.double().numpy() for n, t in tensors.items() if n.startswith(prefix)}
    broken = sorted(prefix + name for name, values in part.items() if not np.isfinite(values).all())
    if broken:
        raise ValueError(
            f"Weights: expected finite weights in {str(path)!r}, got NaN or infinity in {broken}."
        )
    return part


def write_part(
    source: str | os.PathLike,
    path: str | os.PathLike,
    prefix: str,
    arrays: dict[str, np.ndarray],
    extra_metadata: dict,
) -> Path:
    """Write a copy of a weights file with float32 arrays under a prefix, replacing what was there.

    Parameters
    ----------
    source, path : path-like
        Of the file to copy and of the copy; may be the same.
    prefix : str
        ``SELECTOR`` or ``CALIBRATION``.
    arrays : dict of str to array
        Without the prefix.
    extra_metadata : dict
        Added to the header's ``extra``.

    Returns
    -------
    Path

    Raises
    ------
    FileNotFoundError, ValueError
        As `read_weights`; also ValueError for arrays that are not finite.
    """
    header, tensors = read_weights(source)
    header["extra"] |= extra_metadata
    tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith(prefix)}
    for name, values in arrays.items():
        tensors[prefix + name] = _stored(name, torch.as_tensor(values), torch.float32)
    return _write(path, header, tensors)


def save_selector(path: str | os.PathLike, tensors: dict[str, Tensor], about: dict) -> Path:
    """Write a `Selector` of its own, float16, with what JSON can say about it; replaced in one step.

    Raises
    ------
    ValueError
        For tensors that are not finite in float16.
    """
    tensors = {name: _stored(name, tensor, torch.float16) for name, tensor in tensors.items()}
    return _write(path, {"format_version": FORMAT_VERSION, "selector": about}, tensors)


def read_selector(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Arrays in float64 of a file written by `save_selector`.

    Raises
    ------
    FileNotFoundError, ValueError
        As `read_safetensors`.
    """
    return {name: tensor.double().numpy() for name, tensor in read_safetensors(path)[1].items()}


def weights_version(path: str | os.PathLike) -> str:
    """First 8 hexadecimal digits of the file's sha256."""
    with _opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:8]


def shipped(name: str) -> Path:
    """Path of a weights file inside the package, by its name without the suffix.

    Raises
    ------
    FileNotFoundError
        Naming the file expected and those that are there.
    """
    path = SHIPPED / f"{name}.safetensors"
    if not path.is_file():
        there = sorted(p.stem for p in SHIPPED.glob("*.safetensors"))
        raise FileNotFoundError(
            f"shipped: expected {str(path)!r} in the package, got none; shipped are {there}."
        )
    return path


# --- reading ---------------------------------------------------------------------------------------------


def _opened(path: str | os.PathLike) -> BufferedReader:
    try:
        return open(path, "rb")
    except IsADirectoryError as error:
        raise ValueError(f"Weights: expected a safetensors file, got the folder {str(path)!r}.") from error
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"Weights: expected a safetensors file at {str(path)!r}, got nothing."
        ) from error


def read_safetensors(path: str | os.PathLike, tensors: bool = True) -> tuple[dict, dict[str, Tensor]]:
    """Metadata and tensors (none if `tensors` is False) of a safetensors file of any origin.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is anything else; a pickled file is refused unopened.
    """
    with _opened(path) as file:
        start = file.read(9)
    # a safetensors file has its header's length in 8 bytes and then the header, a JSON object
    if start[8:] != b"{" and (start.startswith(b"PK") or start.startswith(b"\x80")):
        raise ValueError(
            f"Weights: expected a safetensors file, got {str(path)!r}: it looks pickled (torch.save). Such "
            "files are never opened, for that could run any code. Convert it to safetensors first."
        )
    try:
        with safe_open(path, framework="pt") as file:
            loaded = {name: file.get_tensor(name) for name in file.keys()} if tensors else {}  # noqa: SIM118
            return file.metadata() or {}, loaded
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(
            f"Weights: expected a whole safetensors file, got {str(path)!r}, which is corrupt, truncated "
            f"or of another kind ({error}); fetch it again."
        ) from error


def _parse_header(path: str | os.PathLike, text: str) -> dict:
    required = {"format_version", "architecture", "config", "max_dim", "extra"}
    try:
        header = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(
            f"Weights: the header of {str(path)!r} is not JSON ({error}); fetch it again."
        ) from error
    if not isinstance(header, dict) or not required <= header.keys():
        raise ValueError(
            f"Weights: expected the header of {str(path)!r} to hold {sorted(required)}, got {text!r}."
        )
    if header["format_version"] != FORMAT_VERSION:
        raise ValueError(
            f"Weights: expected format version {FORMAT_VERSION} in {str(path)!r}, got "
            f"{header['format_version']!r}; upgrade fim-dynsys."
        )
    if not isinstance(header["architecture"], str):
        raise ValueError(f"Weights: expected the name of an architecture in {str(path)!r}, got another type.")
    _check_architecture(f"Weights {str(path)!r}", header["architecture"])
    return header


def _check_architecture(who: str, name: str) -> None:
    if name not in ARCHITECTURES:
        raise ValueError(f"{who}: expected an architecture among {sorted(ARCHITECTURES)}, got {name!r}.")


def _classes(architecture: str) -> tuple[type, type]:
    module, config, network = ARCHITECTURES[architecture]
    loaded = importlib.import_module(module)
    return getattr(loaded, config), getattr(loaded, network)


def _tuples(value: Any) -> Any:
    """JSON's lists back to the tuples that frozen configurations hold."""
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _stored(name: str, tensor: Tensor, dtype: torch.dtype) -> Tensor:
    tensor = tensor.detach().cpu()
    if not tensor.is_floating_point():
        return tensor.contiguous().clone()
    stored = tensor.to(dtype, copy=True).contiguous()
    if not stored.isfinite().all():
        raise ValueError(
            f"save_weights: expected finite weights in {dtype}, got {name!r} with largest magnitude "
            f"{tensor.abs().max().item():.3g}; store as float32 or look at the training run."
        )
    return stored


def built(
    who: str, path: str | os.PathLike, make: Callable[[], _Network], tensors: dict[str, Tensor]
) -> _Network:
    """A network filled with `tensors`; ValueError unless names and shapes agree exactly and all are finite.

    Its shapes are compared before memory is taken for it.
    """
    with torch.device("meta"):
        outline = make()
    expected = {name: tuple(tensor.shape) for name, tensor in outline.state_dict().items()}
    got = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if expected == got:
        broken = sorted(name for name, tensor in tensors.items() if not tensor.isfinite().all())
        if broken:
            raise ValueError(
                f"{who}: expected finite weights in {str(path)!r}, got NaN or infinity in {broken}."
            )
        network = make()
        network.load_state_dict(tensors)
        return network
    missing, extra = sorted(expected.keys() - got.keys()), sorted(got.keys() - expected.keys())
    differing = [
        f"{n} {got[n]} for {expected[n]}" for n in expected.keys() & got.keys() if expected[n] != got[n]
    ]
    kinds = {"missing": missing, "unknown": extra, "of another shape": sorted(differing)}
    problems = [f"{len(names)} {kind} ({', '.join(names[:3])})" for kind, names in kinds.items() if names]
    raise ValueError(
        f"{who}: expected the {len(expected)} tensors of {type(outline).__name__}, got {str(path)!r} with "
        f"{', '.join(problems)}; these weights belong to another network."
    )
