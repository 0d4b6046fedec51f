"""Weights files: read, checked, given parts beside the network, and shipped with the package.

Nothing here needs torch; `networks` writes networks and builds them.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from fim_dynsys.writing import replace_file

FORMAT_VERSION = 1  # of the file; rises when older readers would misread it
HEADER_KEY = "fim_dynsys"
CALIBRATION, MANY = "calibration.", "many."
"""Prefixes of what may stand beside a network's tensors: those of a `Calibration`, and of a second network of
the same sizes, trained on more states than the first."""
PARTS = CALIBRATION, MANY, "selector."  # the last is of older files, and is not read
_Config = TypeVar("_Config")
_Tensor = TypeVar("_Tensor")
SHIPPED = Path(__file__).parent / "weights"

# Architecture name -> module, configuration class, network class; imported when a file asks for it.
ARCHITECTURES = {
    "published": ("fim_dynsys.models.fim_ode.published", "PublishedConfig", "PublishedNetwork"),
    "amortised": ("fim_dynsys.models.fim_ode.amortised", "AmortisedConfig", "AmortisedNetwork"),
}


def _write(path: str | os.PathLike, header: dict, arrays: dict[str, np.ndarray]) -> Path:
    return replace_file(path, save(arrays, metadata=metadata(header)))


def metadata(header: dict) -> dict[str, str]:
    """What a safetensors file with such a header carries about itself."""
    return {HEADER_KEY: json.dumps(header, sort_keys=True)}


def read_weights(path: str | os.PathLike) -> tuple[dict, dict[str, np.ndarray]]:
    """Header and arrays of a weights file in our format, as stored.

    Returns
    -------
    header : dict
        ``format_version``, ``architecture``, ``config``, ``max_dim``, ``extra``.
    arrays : dict of str to array

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is corrupt, truncated, pickled, of another origin or of a newer format.
    """
    return header_of_ours(path), read_safetensors(path)[1]


def header_of_ours(path: str | os.PathLike) -> dict:
    """Header of a weights file in our format; raises as `read_weights`."""
    header = read_header(path)
    if header is None:
        raise ValueError(
            f"read_weights: expected a file written by save_weights, got {str(path)!r}, a safetensors file "
            f"without the header {HEADER_KEY!r}; published FIM-ODE checkpoints are read by "
            'load("fim-ode-published", weights=...).'
        )
    return header


def read_header(path: str | os.PathLike) -> dict | None:
    """Header of a weights file in our format, None for a safetensors file of another origin.

    Raises
    ------
    FileNotFoundError, ValueError
        As `read_weights`; a checkpoint of training is named as such.
    """
    with opened_safetensors(path, "numpy") as file:
        about = file.metadata() or {}
    if HEADER_KEY in about:
        return _parse_header(path, about[HEADER_KEY])
    if _is_training_checkpoint(path):
        raise ValueError(
            f"read_weights: expected exported weights, got {str(path)!r}, a training "
            f"checkpoint; take {str(Path(path).with_name('weights.safetensors'))!r}, which training "
            "writes when it ends, or resume it with `python -m training.pretrain`."
        )
    return None


def _is_training_checkpoint(path: str | os.PathLike) -> bool:
    """Whether a file holds networks, averages and an optimiser, as `training.checkpoint` writes them."""
    with opened_safetensors(path, "numpy") as file:
        numbers = set(file.metadata() or {})
        return {"step", "total"} <= numbers and any(name.startswith("average.") for name in file.keys())  # noqa: SIM118


def read_config(caller: str, path: str | os.PathLike, header: dict, kind: type[_Config]) -> _Config:
    """The configuration that a file's header holds.

    Raises
    ------
    ValueError
        If it is none of this version of the architecture.
    """
    config = _tuples(header["config"])
    if not isinstance(config, dict):
        raise ValueError(f"{caller}: expected an object as config in {str(path)!r}, got {config!r}.")
    for key in getattr(kind, "retired", ()):
        if config.pop(key, ()):
            raise ValueError(
                f"{caller}: expected no {key} in {str(path)!r}, got {header['config'][key]!r}, which "
                "only earlier releases of fim-dynsys take."
            )
    try:
        return kind(**config)
    except TypeError as error:
        raise ValueError(
            f"{caller}: the configuration in {str(path)!r} does not fit the architecture "
            f"{header['architecture']!r} of this version ({error}); upgrade fim-dynsys."
        ) from error
    except ValueError as error:
        raise ValueError(f"{caller}: the configuration in {str(path)!r}: {error}") from error


def check_shapes(
    caller: str,
    path: str | os.PathLike,
    network: str,
    expected: Mapping[str, tuple[int, ...]],
    got: Mapping[str, tuple[int, ...]],
) -> None:
    """ValueError unless names and shapes of a network's parameters agree exactly."""
    if expected == got:
        return
    missing, extra = sorted(expected.keys() - got.keys()), sorted(got.keys() - expected.keys())
    differing = [
        f"{n} {got[n]} for {expected[n]}" for n in expected.keys() & got.keys() if expected[n] != got[n]
    ]
    kinds = {"missing": missing, "unknown": extra, "of another shape": sorted(differing)}
    problems = [f"{len(names)} {kind} ({', '.join(names[:3])})" for kind, names in kinds.items() if names]
    raise ValueError(
        f"{caller}: expected the {len(expected)} tensors of {network}, got {str(path)!r} with "
        f"{', '.join(problems)}; these weights belong to another network."
    )


def read_parameters(caller: str, path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Arrays of the network in a weights file in our format, without the parts beside it.

    Raises
    ------
    FileNotFoundError, ValueError
        As `read_weights`; also ValueError where one is not finite.
    """
    _, arrays = read_weights(path)
    network = part_of(arrays)
    check_finite(caller, path, [name for name, array in network.items() if not np.isfinite(array).all()])
    return network


def part_of(named: Mapping[str, _Tensor], prefix: str = "") -> dict[str, _Tensor]:
    """What has one of ``PARTS`` as its prefix, named without it; by default what has none, the network."""
    if not prefix:
        return {name: value for name, value in named.items() if not name.startswith(PARTS)}
    return {n.removeprefix(prefix): value for n, value in named.items() if n.startswith(prefix)}


def check_finite(caller: str, path: str | os.PathLike, broken: list[str]) -> None:
    """ValueError if there are names of tensors that hold NaN or infinity."""
    if broken:
        raise ValueError(
            f"{caller}: expected finite weights in {str(path)!r}, got NaN or infinity in {sorted(broken)}."
        )


def read_part(path: str | os.PathLike, prefix: str) -> dict[str, np.ndarray]:
    """Arrays in float64 of what a weights file in our format holds under a prefix; empty if nothing.

    Raises
    ------
    FileNotFoundError, ValueError
        As `read_weights`.
    """
    _, arrays = read_weights(path)
    part = {name: array.astype(float) for name, array in part_of(arrays, prefix).items()}
    check_finite("Weights", path, [prefix + n for n, values in part.items() if not np.isfinite(values).all()])
    return part


def write_part(
    source: str | os.PathLike,
    path: str | os.PathLike,
    prefix: str,
    arrays: dict[str, np.ndarray],
    extra_metadata: dict,
    dtype: type[np.floating] = np.float32,
) -> Path:
    """Write a copy of a weights file with arrays under a prefix, replacing what was there.

    Parameters
    ----------
    source, path : path-like
        Of the file to copy and of the copy; may be the same.
    prefix : str
        One of ``PARTS``.
    arrays : dict of str to array
        Without the prefix.
    extra_metadata : dict
        Added to the header's ``extra``.
    dtype : type
        Of the stored arrays.

    Returns
    -------
    Path

    Raises
    ------
    FileNotFoundError, ValueError
        As `read_weights`; also ValueError for arrays that are not finite.
    """
    header, stored = read_weights(source)
    header["extra"] |= extra_metadata
    stored = {name: array for name, array in stored.items() if not name.startswith(prefix)}
    stored |= {prefix + name: _stored(name, values, dtype) for name, values in arrays.items()}
    return _write(path, header, stored)


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


def read_safetensors(path: str | os.PathLike) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Metadata and arrays of a safetensors file of any origin; raises as `opened_safetensors`."""
    with opened_safetensors(path, "numpy") as file:
        return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


@contextmanager
def opened_safetensors(path: str | os.PathLike, framework: str) -> Iterator[Any]:
    """A safetensors file of any origin, whose tensors come as those of a framework.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is anything else, while it is read too; a pickled file is refused unopened.
    """
    with _opened(path) as stream:
        start = stream.read(9)
    # a safetensors file has its header's length in 8 bytes and then the header, a JSON object
    if start[8:] != b"{" and (start.startswith(b"PK") or start.startswith(b"\x80")):
        raise ValueError(
            f"Weights: expected a safetensors file, got {str(path)!r}: it looks pickled (torch.save). Such "
            "files are never opened, for that could run any code. Convert it to safetensors first."
        )
    try:
        with safe_open(path, framework=framework) as file:
            yield file
    except (SafetensorError, OSError, TypeError, ValueError) as error:  # TypeError: a type numpy has not
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
    check_architecture(f"Weights {str(path)!r}", header["architecture"])
    return header


def check_architecture(caller: str, name: str) -> None:
    """ValueError unless the name is one of an architecture."""
    if name not in ARCHITECTURES:
        raise ValueError(f"{caller}: expected an architecture among {sorted(ARCHITECTURES)}, got {name!r}.")


def _tuples(value: Any) -> Any:
    """JSON's lists back to the tuples that frozen configurations hold."""
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _stored(name: str, values: np.ndarray, dtype: type[np.floating]) -> np.ndarray:
    values = np.asarray(values)
    with np.errstate(over="ignore"):
        stored = np.ascontiguousarray(values, dtype=dtype)
    if not np.isfinite(stored).all():
        raise refused_weights(name, dtype.__name__, float(np.abs(values).max()))
    return stored


def refused_weights(name: str, dtype: str, largest: float) -> ValueError:
    """For weights that a floating-point type cannot hold."""
    return ValueError(
        f"save_weights: expected finite weights in {dtype}, got {name!r} with largest magnitude "
        f"{largest:.3g}; store as float32 or look at the training run."
    )
