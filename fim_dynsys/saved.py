"""A fitted model on disk: its parameters as JSON, its observations as netCDF, its field as arrays."""

import hashlib
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.frame import FitInfo, Scales
from fim_dynsys.fields.posterior import PosteriorField
from fim_dynsys.fields.terms import ARRAYS, Dictionary
from fim_dynsys.regions import Region
from fim_dynsys.trajectories import Trajectories

FORMAT = "fim-dynsys-fitted"
FORMAT_VERSION = 1
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
    arrays : dict of array, or None
        The field in closed form; None where it is inferred again from the context.
    field_context : Trajectories or None
        The observations that the field carries, where they are fewer than `context`.
    report : dict
        The field's fit report, as far as JSON holds it.
    """

    model: str
    version: str
    params: dict
    context: Trajectories
    arrays: dict | None
    field_context: Trajectories | None
    report: dict

    def write(self, folder) -> Path:
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
        if self.arrays is not None:
            np.savez(folder / _FIELD, **self.arrays)
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
            "report": {key: value for key, value in self.report.items() if _is_plain(value)},
            "sha256": {name: _sha256(folder / name) for name in files},
        }
        (folder / _HEADER).write_text(json.dumps(header, indent=2) + "\n", encoding="utf-8")
        return folder

    @classmethod
    def read(cls, folder) -> "SavedModel":
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
        return cls(
            model=header["model"],
            version=header["version"],
            params=header["params"],
            context=Trajectories.from_file(folder / _CONTEXT),
            arrays=_read_arrays(folder / _FIELD) if _FIELD in files else None,
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
    if header.get("format_version") != FORMAT_VERSION:
        raise ValueError(
            f"load_fitted: expected format_version {FORMAT_VERSION} in {path}, got "
            f"{header.get('format_version')!r}; read it with the release of fim-dynsys that wrote it."
        )
    wrong = [key for key, kind in _HEADER_TYPES.items() if not isinstance(header.get(key), kind)]
    if not wrong and not {_CONTEXT} <= set(header["sha256"]) <= {_CONTEXT, _FIELD, _FIELD_CONTEXT}:
        wrong = ["sha256"]
    if wrong:
        raise ValueError(
            f"load_fitted: expected well-formed {', '.join(wrong)} in {path}, got a damaged file; "
            "save the model again."
        )
    return header


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


def _read_arrays(path: Path) -> dict:
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {key: stored[key] for key in stored.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"load_fitted: expected plain arrays in {path}, got a damaged file ({error})."
        ) from error


def _plain_parameter(model, key, value):
    """A parameter as JSON holds it; a path becomes a string."""
    value = str(value) if isinstance(value, Path) else value
    if not _is_plain(value):
        raise ValueError(
            f"save: expected parameters of {model} that JSON can hold, got {key}={value!r}; "
            "keep the data and fit again."
        )
    return value


def _is_plain(value) -> bool:
    """Whether JSON gives the value back unchanged."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ---------------------------------------------------------------------- fields of closed form


def dictionary_field_arrays(field: DictionaryField) -> dict[str, np.ndarray]:
    """A dictionary field as plain arrays; its context is kept beside them.

    Parameters
    ----------
    field : DictionaryField
        The field.

    Returns
    -------
    dict of array
        What `dictionary_field_from_arrays` takes.
    """
    arrays = {name: getattr(field.dictionary, name) for name in ARRAYS}
    arrays["coefficients"] = field.coefficients
    if isinstance(field, PosteriorField):
        arrays["roots"] = field.roots
    return {**arrays, **description_arrays(field)}


def description_arrays(field) -> dict[str, np.ndarray]:
    """Region, scales and inferred numbers of a field as plain arrays.

    Parameters
    ----------
    field : VectorField
        A field with a region.

    Returns
    -------
    dict of array
        What `description_from_arrays` takes.
    """
    info = field.fit_info
    arrays = {"region_low": field.region.low, "region_high": field.region.high}
    arrays |= {
        "scales_length": field.scales.length,
        "scales_speed": field.scales.speed,
        "scales_time": field.scales.time,
    }
    arrays |= {"initial_states": info.initial_states, "noise_level": info.noise_level}
    return {name: np.asarray(value) for name, value in arrays.items() if value is not None}


def description_from_arrays(arrays, context: Trajectories, report=None) -> dict:
    """Keyword arguments of `VectorField` from what `description_arrays` took apart.

    Parameters
    ----------
    arrays : dict of array
        The arrays.
    context : Trajectories
        The field's context.
    report : dict, optional
        Its fit report.

    Returns
    -------
    dict
    """
    names = context.state_names
    return {
        "context": context,
        "state_names": names,
        "region": Region(arrays["region_low"], arrays["region_high"], names=names),
        "scales": Scales(arrays["scales_length"], arrays["scales_speed"], float(arrays["scales_time"])),
        "fit_info": FitInfo(arrays.get("initial_states"), arrays.get("noise_level"), dict(report or {})),
    }


def dictionary_field_from_arrays(arrays, context: Trajectories, report=None) -> DictionaryField:
    """The field that `dictionary_field_arrays` took apart, on its context.

    Parameters
    ----------
    arrays : dict of array
        Its arrays.
    context : Trajectories
        Its context.
    report : dict, optional
        Its fit report.

    Returns
    -------
    DictionaryField
    """
    dictionary = Dictionary(*(arrays.get(name) for name in ARRAYS))
    description = description_from_arrays(arrays, context, report)
    field = DictionaryField(dictionary, arrays["coefficients"], **description)
    return PosteriorField.of(field, arrays["roots"]) if "roots" in arrays else field
