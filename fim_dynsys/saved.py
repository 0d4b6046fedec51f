"""A fitted model on disk: its parameters as JSON, its observations as netCDF, its field as arrays."""

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.frame import FitInfo, Scales
from fim_dynsys.fields.posterior import PosteriorField
from fim_dynsys.fields.symbolic import SymbolicField
from fim_dynsys.regions import Region
from fim_dynsys.trajectories import Trajectories

FORMAT = "fim-dynsys-fitted"
FORMAT_VERSION = 2
_HEADER, _CONTEXT, _FIELD, _FIELD_CONTEXT = "model.json", "context.nc", "field.npz", "field_context.nc"


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
        The field, as `field_arrays` gives it; empty where it is inferred again.
    field_context : Trajectories or None
        The observations that the field carries, where they are fewer than `context`.
    report : dict
        The field's fit report, as far as JSON holds it.
    """

    model: str
    version: str
    params: dict
    context: Trajectories
    content: str | None
    arrays: dict[str, np.ndarray]
    field_context: Trajectories | None
    report: dict

    def write(self, folder: str | os.PathLike) -> Path:
        """Write the folder, created where it does not exist; the header comes last.

        Raises
        ------
        ValueError
            Where a parameter is an object that JSON cannot hold.
        """
        params = {key: _plain_parameter(self.model, key, value) for key, value in self.params.items()}
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for stale in (_HEADER, _FIELD, _FIELD_CONTEXT):
            (folder / stale).unlink(missing_ok=True)
        self.context.to_file(folder / _CONTEXT)
        files = [_CONTEXT]
        if self.content is not None:
            np.savez(folder / _FIELD, allow_pickle=False, **self.arrays)
            files.append(_FIELD)
        if self.field_context is not None:
            self.field_context.to_file(folder / _FIELD_CONTEXT)
            files.append(_FIELD_CONTEXT)
        header = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "model": self.model,
            "version": self.version,
            "params": params,
            "content": self.content,
            "report": {key: value for key, value in self.report.items() if _is_plain(value)},
            "sha256": {name: _sha256(folder / name) for name in files},
        }
        (folder / _HEADER).write_text(json.dumps(header, indent=2) + "\n", encoding="utf-8")
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
        files = header["sha256"]
        arrays = _read_arrays(folder / _FIELD) if _FIELD in files else {}
        if header["format_version"] == 1:
            header = _as_today(header, arrays)
        return cls(
            model=header["model"],
            version=header["version"],
            params=header["params"],
            context=Trajectories.from_file(folder / _CONTEXT),
            content=header["content"],
            arrays=arrays,
            field_context=(
                Trajectories.from_file(folder / _FIELD_CONTEXT) if _FIELD_CONTEXT in files else None
            ),
            report=header["report"],
        )


_HEADER_TYPES = {"model": str, "version": str, "params": dict, "report": dict, "sha256": dict}


def _read_header(folder: Path) -> dict:
    path = folder / _HEADER
    if not path.is_file():
        raise FileNotFoundError(
            f"load_fitted: expected a folder that model.save wrote, got {folder} without {_HEADER}."
        )
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"load_fitted: expected JSON in {path}, got a damaged file ({error}); save the model again."
        ) from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"load_fitted: expected a file of format {FORMAT!r} in {path}, got a foreign one.")
    if header.get("format_version") not in (1, FORMAT_VERSION):
        raise ValueError(
            f"load_fitted: expected format_version 1 to {FORMAT_VERSION} in {path}, got "
            f"{header.get('format_version')!r}; read it with the release of fim-dynsys that wrote it."
        )
    wrong = [key for key, kind in _HEADER_TYPES.items() if not isinstance(header.get(key), kind)]
    if not wrong and not {_CONTEXT} <= set(header["sha256"]) <= {_CONTEXT, _FIELD, _FIELD_CONTEXT}:
        wrong = ["sha256"]
    if (
        not wrong
        and header["format_version"] > 1
        and isinstance(header.get("content"), str) != (_FIELD in header["sha256"])
    ):
        wrong = ["content"]
    if wrong:
        raise ValueError(
            f"load_fitted: expected well-formed {', '.join(wrong)} in {path}, got a damaged file; "
            "save the model again."
        )
    return header


# Parameters of earlier releases that had no effect on the model of that name.
_RETIRED = {"fim-ode": ("attention", "precision"), "fim-ode-published": ("refine",)}


def _as_today(header: dict, arrays: Mapping[str, np.ndarray]) -> dict:
    """A header of format 1, which did not name its content and held parameters that had no effect."""
    classes = {"expressions": SymbolicField, "roots": PosteriorField, "coefficients": DictionaryField}
    kind = next((cls.__name__ for name, cls in classes.items() if name in arrays), None)
    retired = _RETIRED.get(header["model"], ())
    params = {key: value for key, value in header["params"].items() if key not in retired}
    return header | {"content": kind, "params": params}


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
        with np.load(path, allow_pickle=False) as stored:
            return {key: stored[key] for key in stored.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"load_fitted: expected plain arrays in {path}, got a damaged file ({error})."
        ) from error


def _plain_parameter(model: str, key: str, value: Any) -> Any:
    """A parameter as JSON holds it; a path becomes a string."""
    value = str(value) if isinstance(value, Path) else value
    if not _is_plain(value):
        raise ValueError(
            f"save: expected parameters of {model} that JSON can hold, got {key}={value!r}; "
            "keep the data and fit again."
        )
    return value


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


FIELD_CLASSES: tuple[type[KeptField], ...] = (DictionaryField, PosteriorField, SymbolicField)
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
    """The field of a class that `field_arrays` took apart, on its context and with its fit report."""
    names = context.state_names
    region = None
    if "region_low" in arrays:
        region = Region(arrays["region_low"], arrays["region_high"], names=names)
    return kind.from_arrays(
        arrays,
        context=context,
        state_names=names,
        region=region,
        scales=Scales(arrays["scales_length"], arrays["scales_speed"], float(arrays["scales_time"])),
        fit_info=FitInfo(arrays.get("initial_states"), arrays.get("noise_level"), dict(report)),
    )
