"""A fitted model on disk: its parameters as JSON, its observations as netCDF, its field as arrays.

A little above five hundred lines: all formats of the folder, the earlier ones too.
"""

import hashlib
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from fim_dynsys.delta import Delta, arrays_digest
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.frame import FitInfo, Scales
from fim_dynsys.fields.inference import Inference
from fim_dynsys.fields.local import LocalField
from fim_dynsys.fields.posterior import FittedField, LawField, PosteriorField
from fim_dynsys.fields.residual import ResidualField
from fim_dynsys.fields.symbolic import DrivenExpressions, SymbolicField
from fim_dynsys.fields.terms import NUMBERS
from fim_dynsys.regions import Region
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.trajectories import files
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.writing import replace_file

FORMAT = "fim-dynsys-fitted"
FORMAT_VERSION = 6  # of the folder; rises when older readers would misread it
_HEADER = "model.json"  # makes a folder a fitted model: names the other files, and is written last

_SUFFIXES = {
    "context": ".nc",
    "field": ".npz",
    "field_context": ".nc",
    "residual": ".safetensors",
    "delta": ".safetensors",
}
_NAME = re.compile(rf"({'|'.join(_SUFFIXES)})(-[0-9a-f]{{16}})?(\.nc|\.npz|\.safetensors)")
_LARGEST_HEADER = 1 << 24  # bytes
_MAX_MONOMIALS = 100_000  # that divide those of a field: all are tabulated


@dataclass(frozen=True)
class SavedModel:
    """What a folder holds of a fitted model.

    Attributes
    ----------
    model, version : str
        Registry name, and version of the model that wrote the folder.
    params : dict
        The model's parameters.
    context : Trajectories
        The observations it was fitted to.
    content : str or None
        What the arrays are: the name of the field's class, or what a model without a field calls its own;
        None where the model is inferred again from the context.
    arrays : dict of array
        The field, as `field_arrays` gives it, without a residual; empty where it is inferred again.
    field_context : Trajectories or None
        The observations that the field carries, where they are fewer than `context`.
    report : dict
        The field's fit report, as far as JSON holds it.
    residual : Delta or None
        What fine-tuning learnt beside the field.
    delta : Delta or None
        What fine-tuning changed of the model's weights.
    """

    model: str
    version: str
    params: dict
    context: Trajectories
    content: str | None
    arrays: dict[str, np.ndarray]
    field_context: Trajectories | None
    report: dict
    residual: Delta | None = None
    delta: Delta | None = None

    def write(self, folder: str | os.PathLike) -> Path:
        """Write the folder, created where it does not exist.

        The other files are named by their content; the header, which names them, replaces the old one in one
        step. Until then the folder holds the old model, from then on the new one; what it held of the old one
        is removed last.

        Raises
        ------
        ValueError
            Where a parameter is an object that JSON cannot hold.
        OSError
            Where the folder cannot be written to or the disk is full; the old model is then whole.
        """
        params = {key: _plain_parameter(self.model, key, value) for key, value in self.params.items()}
        contents = {"context": files.netcdf_content(self.context.dataset)}
        if self.content is not None:
            buffer = io.BytesIO()
            np.savez(buffer, allow_pickle=False, **self.arrays)
            contents["field"] = buffer.getvalue()
        if self.field_context is not None:
            contents["field_context"] = files.netcdf_content(self.field_context.dataset)
        deltas = {"residual": self.residual, "delta": self.delta}
        contents |= {part: delta.content for part, delta in deltas.items() if delta is not None}
        digests = {}
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise FileExistsError(f"save: expected a folder to save into, got the file {folder}.")
        folder.mkdir(parents=True, exist_ok=True)
        for part, content in contents.items():
            digest = hashlib.sha256(content).hexdigest()
            name = f"{part}-{digest[:16]}{_SUFFIXES[part]}"
            replace_file(folder / name, content)
            digests[name] = digest
        header = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "model": self.model,
            "version": self.version,
            "params": params,
            "content": self.content,
            "report": {key: value for key, value in self.report.items() if _is_plain(value)},
            "sha256": digests,
        }
        replace_file(folder / _HEADER, json.dumps(header, indent=2) + "\n")
        for path in folder.iterdir():
            if _NAME.fullmatch(path.name) and path.name not in digests:
                path.unlink(missing_ok=True)
        return folder

    @classmethod
    def read(cls, folder: str | os.PathLike) -> "SavedModel":
        """Read a folder that `write` made; nothing in it is executed or unpickled.

        Raises
        ------
        FileNotFoundError
            No fitted model in the folder.
        ValueError
            A file is missing, damaged or foreign, or was written by a later version of the format.
        """
        folder = Path(folder)
        header = _read_header(folder)
        for name, digest in header["sha256"].items():
            _check_file(folder, name, digest)
        paths = {_part(name): folder / name for name in header["sha256"]}
        arrays = _read_arrays(paths["field"]) if "field" in paths else {}
        if header["format_version"] == 1:
            header = _as_today(header, arrays)
        residual = Delta.read(paths["residual"]) if "residual" in paths else None
        if header["content"] == _WHOLE_RESIDUAL:
            header, arrays, residual = _apart(header, arrays)
        if header["format_version"] < _FORMAT_OF_SHIFTS:
            arrays = _with_shifts(header["content"], arrays)
        return cls(
            model=header["model"],
            version=header["version"],
            params={key: _with_keys(value) for key, value in header["params"].items()},
            context=Trajectories.from_file(paths["context"]),
            content=header["content"],
            arrays=arrays,
            field_context=(
                Trajectories.from_file(paths["field_context"]) if "field_context" in paths else None
            ),
            report=header["report"],
            residual=residual,
            delta=Delta.read(paths["delta"]) if "delta" in paths else None,
        )


_PAIRS = "pairs of keys and values"
_HEADER_TYPES = {"model": str, "version": str, "params": dict, "report": dict, "sha256": dict}


def _read_header(folder: Path) -> dict:
    path = folder / _HEADER
    if not path.is_file():
        raise FileNotFoundError(
            f"load_fitted: expected a folder that model.save wrote, got {folder} without {_HEADER}."
        )
    try:
        if path.stat().st_size > _LARGEST_HEADER:
            raise ValueError(f"it has {path.stat().st_size} bytes")
        header = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"load_fitted: expected JSON in {path}, got a damaged file ({error}); save the model again."
        ) from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"load_fitted: expected a file of format {FORMAT!r} in {path}, got a foreign one.")
    if type(header.get("format_version")) is not int or not 1 <= header["format_version"] <= FORMAT_VERSION:
        raise ValueError(
            f"load_fitted: expected format_version 1 to {FORMAT_VERSION} in {path}, got "
            f"{header.get('format_version')!r}; read it with the release of fim-dynsys that wrote it."
        )
    wrong = [key for key, kind in _HEADER_TYPES.items() if not isinstance(header.get(key), kind)]
    wrong = wrong or [key for key, right in _consistent(header).items() if not right]
    if wrong:
        raise ValueError(
            f"load_fitted: expected well-formed {', '.join(wrong)} in {path}, got a damaged file; "
            "save the model again."
        )
    return header


def _consistent(header: dict) -> dict[str, bool]:
    """Whether what a header says of its files fits together."""
    expected = {}
    for name, digest in header["sha256"].items():
        part = _part(name)
        mark = f"-{str(digest)[:16]}" if header["format_version"] >= 3 else ""
        expected[part] = f"{part}{mark}{_SUFFIXES.get(part)}"
    named = list(expected.values()) == list(header["sha256"]) and "context" in expected
    has_field = isinstance(header.get("content"), str)
    return {
        "sha256": named and all(_NAME.fullmatch(name) for name in header["sha256"]),
        "content": header["format_version"] == 1 or has_field == ("field" in expected),
    }


def _part(name: str) -> str:
    """What a file of the folder holds, by its name."""
    return re.split(r"[-.]", name)[0]


# Parameters of earlier releases that had no effect on the model of that name.
_RETIRED = {"fim-ode": ("attention", "precision"), "fim-ode-published": ("refine",)}


def _as_today(header: dict, arrays: Mapping[str, np.ndarray]) -> dict:
    """A header of format 1, which did not name its content and held parameters that had no effect."""
    classes = {"expressions": SymbolicField, "roots": PosteriorField, "coefficients": DictionaryField}
    kind = next((cls.__name__ for name, cls in classes.items() if name in arrays), None)
    retired = _RETIRED.get(header["model"], ())
    params = {key: value for key, value in header["params"].items() if key not in retired}
    return header | {"content": kind, "params": params}


_FORMAT_OF_SHIFTS = 5  # the first with three numbers inside functions


def _with_shifts(content: str | None, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays of earlier formats, whose errors were those of two numbers inside functions."""
    name = {"FittedField": "errors", "LawField": "roots"}.get(content or "")
    if name is None or name not in arrays:
        return arrays
    wider = [(0, 0)] * (arrays[name].ndim - 1) + [(0, 1)]
    return {**arrays, name: np.pad(arrays[name], wider)}


_WHOLE_RESIDUAL = "ResidualField"  # of formats 2 to 5, whose field held its base and what was added in one


def _apart(header: dict, arrays: Mapping[str, np.ndarray]) -> tuple[dict, dict[str, np.ndarray], Delta]:
    """A header and arrays of earlier formats as today's: the field, and what was learnt beside it."""
    names = {"centres": "centres", "widths": "widths", "residual": "coefficients"}
    with _arrays_of(_WHOLE_RESIDUAL):
        added = {names[name]: arrays[name] for name in names}
        kind = str(arrays["base"])
    remaining = {name: array for name, array in arrays.items() if name not in {*names, "base"}}
    base = {name.removeprefix("base_"): array for name, array in remaining.items()}
    return header | {"content": kind}, base, Delta.of(arrays_digest(base), "residual", added)


def _check_file(folder: Path, name: str, digest: str) -> None:
    path = folder / name
    if not path.is_file():
        raise ValueError(
            f"load_fitted: expected {name} in {folder}, got a folder without it; save the model again."
        )
    if _sha256(path) != digest:
        raise ValueError(
            f"load_fitted: expected {path} with sha256 {digest[:8]}..., got {_sha256(path)[:8]}...; the "
            "file is damaged, save the model again."
        )


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        _check_archive(path)
        with np.load(path, allow_pickle=False) as stored:
            return {key: stored[key] for key in stored.files}
    except (ValueError, OSError, KeyError, EOFError, NotImplementedError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"load_fitted: expected plain arrays in {path}, got a damaged file ({error})."
        ) from error


def _check_archive(path: Path) -> None:
    """Refuse arrays whose headers declare more, or something else, than the file holds; none is read."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED or member.file_size > path.stat().st_size:
                raise ValueError(f"{member.filename} is not stored as it is")
            with archive.open(member) as stream:
                if np.lib.format.read_magic(stream) != (1, 0):
                    raise ValueError(f"{member.filename} has a header of another version")
                shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
                held = member.file_size - stream.tell()
            if dtype.kind not in "biufU" or min(shape, default=0) < 0:
                raise ValueError(f"{member.filename} holds {dtype} of shape {shape}")
            if math.prod(shape) * dtype.itemsize != held:
                raise ValueError(f"{member.filename} of shape {shape} does not fit into {held} bytes")


def _plain_parameter(model: str, key: str, value: Any) -> Any:
    """A parameter as JSON holds it; a path becomes a string, knowledge a dict."""
    value = str(value) if isinstance(value, Path) else value
    value = value.plain() if isinstance(value, Knowledge) else _plain(value)
    if not _is_plain(value):
        raise ValueError(
            f"save: expected parameters of {model} that JSON can hold, got {key}={value!r}; "
            "keep the data and fit again."
        )
    return value


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's, tuples as lists, and dicts by other keys than text as their pairs."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    if all(isinstance(key, str) for key in value):
        return {key: _plain(item) for key, item in value.items()}
    return {_PAIRS: [[_plain(key), _plain(item)] for key, item in value.items()]}


def _with_keys(value: Any) -> Any:
    """What `_plain` was given, but for tuples."""
    if isinstance(value, list):
        return [_with_keys(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_PAIRS}:
        return {key: _with_keys(item) for key, item in value[_PAIRS]}
    return {key: _with_keys(item) for key, item in value.items()}


def _is_plain(value: Any) -> bool:
    """Whether JSON gives the value back unchanged."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ---------------------------------------------------------------------- fields


class KeptField(Protocol):
    """A class of fields that a folder can hold as arrays.

    A model names those of its own in `VectorFieldModel.field_classes`; a field of any other class is inferred
    again from the context.
    """

    def to_arrays(self) -> dict[str, np.ndarray]:
        """What makes the field, without what every field carries."""

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], **description: Any) -> VectorField:
        """The field again; `description` are keyword arguments of `VectorField`."""


FIELD_CLASSES: tuple[type[KeptField], ...] = (
    DictionaryField,
    FittedField,
    LawField,
    PosteriorField,
    SymbolicField,
    DrivenExpressions,
    LocalField,
)
"""Classes of the package that a folder can hold, whatever the model."""


def field_arrays(field: VectorField) -> dict[str, np.ndarray]:
    """A field as plain arrays: its own, with region, scales and inferred numbers.

    Parameters
    ----------
    field : VectorField
        Of a class that is a `KeptField`.

    Returns
    -------
    dict of array
        What `field_from_arrays` takes.
    """
    info, region, scales = field.fit_info, field.region, field.scales
    description = {
        "region_low": None if region is None else region.low,
        "region_high": None if region is None else region.high,
        "scales_length": scales.length,
        "scales_speed": scales.speed,
        "scales_time": scales.time,
        "initial_states": info.initial_states,
        "noise_level": info.noise_level,
    }
    arrays = {name: np.asarray(value) for name, value in description.items() if value is not None}
    return cast(KeptField, field).to_arrays() | arrays


def field_from_arrays(
    kind: type[KeptField], arrays: Mapping[str, np.ndarray], context: Trajectories, report: dict
) -> VectorField:
    """The field of a class that `field_arrays` took apart, on its context and with its fit report.

    Raises
    ------
    ValueError
        Where arrays are missing or are not those of a field of that class.
    """
    with _arrays_of(kind.__name__):
        if issubclass(kind, DictionaryField) or "exponents" in arrays:
            _check_terms(arrays)
        return _restored(kind, arrays, context, report)


@contextmanager
def _arrays_of(kind: str) -> Iterator[None]:
    """Whatever arrays of another kind lead to is one ValueError."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        reason = f"no array {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(
            f"load_fitted: expected the arrays of a {kind}, got others ({reason}); save the model again."
        ) from error


def with_residual(field: VectorField, delta: Delta, base: str) -> ResidualField:
    """A field with what a delta says was learnt beside it.

    Parameters
    ----------
    field : VectorField
        The field that was tuned.
    delta : Delta
        What `ResidualField.to_arrays` gave.
    base : str
        What the field is known by: the digest of its arrays, or the version of the model that inferred it.

    Raises
    ------
    ValueError
        If the delta belongs to another field, or is not of a residual.
    """
    if delta.base != base:
        raise ValueError(
            f"load_fitted: expected the field {delta.base[:8]}, beside which a residual was learnt, got "
            f"{base[:8]}; fine-tune the model again."
        )
    try:
        return ResidualField.beside(field, delta.tensors)
    except (LookupError, TypeError, ValueError) as error:
        reason = f"no array {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"load_fitted: expected a residual, got other arrays ({reason}).") from error


def _restored(
    kind: type[KeptField], arrays: Mapping[str, np.ndarray], context: Trajectories, report: dict
) -> VectorField:
    names, d = context.state_names, context.dim
    region = None
    if "region_low" in arrays:
        region = Region(arrays["region_low"], arrays["region_high"], names=names)
    length = _numbers(arrays, "scales_length", (d,), positive=True)
    speed = _numbers(arrays, "scales_speed", (d,), positive=True)
    time = float(_numbers(arrays, "scales_time", (), positive=True))
    known = {name: arrays.get(name) for name in ("initial_states", "noise_level")}
    if known["initial_states"] is not None:
        known["initial_states"] = _numbers(arrays, "initial_states", (len(known["initial_states"]), d))
    if known["noise_level"] is not None:
        known["noise_level"] = _numbers(arrays, "noise_level", (d,))
    return kind.from_arrays(
        arrays,
        context=context,
        state_names=names,
        region=region,
        scales=Scales(length, speed, time),
        fit_info=FitInfo(
            known["initial_states"],
            known["noise_level"],
            dict(report),
            inference=Inference.of_entries(report),
        ),
    )


def _numbers(
    arrays: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...], positive: bool = False
) -> np.ndarray:
    """An array that holds finite numbers in this shape."""
    array = arrays[name]
    if array.dtype.kind not in "iuf" or array.shape != shape or not np.isfinite(array).all():
        raise ValueError(f"{name} is not finite numbers of shape {shape}, but {array.dtype} of {array.shape}")
    if positive and not (array > 0).all():
        raise ValueError(f"{name} is not positive")
    return array


def _check_terms(arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse what `Dictionary` would round, wrap or take long over; folders of format 1 lack some arrays."""
    for name in ("exponents", "kind", "coordinate", "partner"):
        array = arrays.get(name, np.zeros(0, int)) if name == "partner" else arrays[name]
        if array.dtype.kind not in "iu" or (np.abs(array.astype(float)) > np.iinfo(np.int8).max).any():
            raise ValueError(f"{name} are not small whole numbers, but {array.dtype}")
    for name in {"inner", "coefficients", *arrays} & {*NUMBERS, "coefficients", "roots", "errors"}:
        _numbers(arrays, name, arrays[name].shape)
    divisors = np.prod(arrays["exponents"].astype(float) + 1.0, axis=-1)
    if float(np.sum(divisors)) > _MAX_MONOMIALS:
        raise ValueError("exponents of too many monomials")
