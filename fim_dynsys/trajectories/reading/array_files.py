"""Arrays by name out of MATLAB, numpy and HDF5 files; groups that are alike are trajectories."""

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import h5py
import numpy as np

from fim_dynsys.trajectories.files import check_self_contained
from fim_dynsys.trajectories.reading import clocks

TRIAL = "trial"  # column of the number or name of the trajectory, of cells, structures and groups
_LABEL = re.compile(r"\D*?(\d+)")


def load_arrays(content: bytes, kind: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Arrays of numbers, dates and text by name, and units of some; settings are arrays of one number.

    Raises
    ------
    Exception
        Of a damaged file: whatever its reader runs into.
    """
    if kind == "numpy":
        return _numpy(content), {}
    if content.startswith(b"\x89HDF") or content[512:516] == b"\x89HDF":
        return _hdf5(content)
    if kind == "hdf5":
        raise ValueError("it does not begin as such a file does")
    return _matlab(content), {}


def _numpy(content: bytes) -> dict[str, np.ndarray]:
    loaded = np.load(io.BytesIO(content), allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        if loaded.dtype.names:
            return {field: loaded[field] for field in loaded.dtype.names}
        return {"": loaded}
    with loaded:
        return {key: loaded[key] for key in loaded.files}


def _matlab(content: bytes) -> dict[str, np.ndarray]:
    import scipy.io  # when used: it takes a fifth of a second

    loaded = scipy.io.loadmat(io.BytesIO(content), squeeze_me=False, struct_as_record=False)
    items = {key: value for key, value in loaded.items() if not key.startswith("__")}
    structures: dict[str, dict[str, np.ndarray]] = {}
    for key, value in items.items():
        if getattr(_bare(value), "_fieldnames", None):
            structures[key] = {}
            _add(structures[key], key, value)
    alike = len({tuple(sorted(fields)) for fields in structures.values()}) == 1
    if len(structures) > 1 and len(structures) == len(items) and alike:
        return _numbered(structures)
    found: dict[str, np.ndarray] = {}
    for key, value in items.items():
        _add(found, key, value)
    return _for_all_trials(found) if TRIAL in found else found


def _for_all_trials(found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """With arrays of as many numbers as each trajectory has samples, as times they share, once for each."""
    lengths = set(np.unique(found[TRIAL], return_counts=True)[1].tolist())
    if len(lengths) > 1:
        return found
    n = lengths.pop()
    times = len(found[TRIAL]) // n
    shared = {name for name, array in found.items() if array.size == n > 1 and array.dtype.kind in "iufb"}
    return {name: np.tile(a.ravel(), times) if name in shared else a for name, a in found.items()}


def _bare(value: Any) -> Any:
    """What stands alone in an array of objects."""
    if isinstance(value, np.ndarray) and value.dtype == object and value.size == 1:
        return value.flat[0]
    return value


def _add(found: dict[str, np.ndarray], key: str, value: Any) -> None:
    """An array, or the fields of a structure, under their own names where these are not taken.

    Cells and arrays of structures are trajectories, which are joined with their number. Cells of text are
    names.
    """
    value = _bare(value)
    if isinstance(value, np.ndarray) and value.dtype == object and value.size > 1:
        texts = [_text(item) for item in value.flat]
        if all(text is not None for text in texts):
            found[key] = np.array(texts)
            return
        parts: dict[str, dict[str, np.ndarray]] = {}
        for number, item in enumerate(value.flat, start=1):
            kept: dict[str, np.ndarray] = {}
            _add(kept, key, item)
            parts[str(number)] = {name: array for name, array in kept.items() if array.dtype.kind in "iufb"}
        found |= _numbered(parts)
        return
    fields = getattr(value, "_fieldnames", None)
    if fields is not None:
        for field in fields:
            _add(found, field if field not in found else f"{key}.{field}", getattr(value, field))
    elif isinstance(value, np.ndarray):
        found[key] = value


def _text(item: Any) -> str | None:
    if isinstance(item, np.ndarray) and item.dtype.kind == "U" and item.size == 1:
        return str(item.flat[0])
    return item if isinstance(item, str) else None


def _numbered(parts: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Arrays of several trajectories below each other, with the number or name of each row's trajectory.

    Raises
    ------
    ValueError
        If they hold different names, or arrays that do not go together.
    """
    first = next(iter(parts.values()))
    if not first or any(set(part) != set(first) for part in parts.values()):
        raise ValueError("its cells, structures or groups hold different names")
    numbers = [_LABEL.fullmatch(label) for label in parts]
    labels: Sequence[Any] = list(parts)
    if all(numbers) and len({found[1] for found in numbers if found}) == len(parts):
        labels = [int(found[1]) for found in numbers if found]
    joined: dict[str, list[np.ndarray]] = {}
    trials = []
    for label, part in zip(labels, parts.values(), strict=True):
        n = max(max(array.shape, default=1) for array in part.values())
        for name, array in part.items():
            if n not in array.shape:
                continue  # settings of the trajectory
            tall = array if array.shape[0] == n else array.T
            joined.setdefault(name, []).append(tall.reshape(n, -1))
        trials.append(np.full(n, label))
    whole = {name: rows for name, rows in joined.items() if len(rows) == len(parts)}
    if any(len({block.shape[1] for block in blocks}) > 1 for blocks in whole.values()):
        raise ValueError("its trajectories have different numbers of columns")
    return {name: np.concatenate(rows) for name, rows in whole.items()} | {TRIAL: np.concatenate(trials)}


def _hdf5(content: bytes) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    units: dict[str, str] = {}
    with h5py.File(io.BytesIO(content), "r") as file:
        check_self_contained(file, len(content))
        # MATLAB writes columns first, so that its arrays stand on their sides; it keeps text as numbers.
        matlab = "MATLAB_class" in {key for item in file.values() for key in item.attrs}
        root, settings = file, _settings(file)
        while len(inside := _items(root)) == 1 and isinstance(inside[0], h5py.Group):
            root = inside[0]
            settings |= _settings(root)
        groups = [item for item in _items(root) if isinstance(item, h5py.Group)]
        names = [sorted(group) for group in groups]
        if len(groups) > 1 and len(groups) == len(root) and names[0] and all(n == names[0] for n in names):
            by_name = {group.name.rsplit("/", 1)[-1]: _datasets(group, matlab, units) for group in groups}
            return _numbered({label: by_name[label] for label in sorted(by_name, key=_natural)}), units
        return settings | _datasets(root, matlab, units), units


def _items(group: h5py.Group) -> list[Any]:
    return [group[name] for name in group if not name.startswith("#")]


def _natural(label: str) -> list[tuple[int, str]]:
    """Order in which run 10 comes behind run 2."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", label)]


def _settings(item: Any) -> dict[str, np.ndarray]:
    """Steps, rates and names of columns among the attributes of a group or dataset."""
    found = {}
    for key, value in item.attrs.items():
        values = np.asarray(value)
        number = values.size == 1 and values.dtype.kind in "iuf"
        if number and clocks.step_of_name(key, float(values.flat[0])) is not None:
            found[key] = values
        elif values.ndim == 1 and values.size > 1 and values.dtype.kind in "SOU":
            found[key] = _decoded(values)
    return found


def _decoded(values: np.ndarray) -> np.ndarray:
    return np.array([v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in values.flat])


def _unpacked(values: np.ndarray, attrs: Mapping[str, Any]) -> np.ndarray:
    """Numbers by the attributes that conventions of climate and forecast data have for packed ones."""
    codes = [attrs[key] for key in ("_FillValue", "missing_value") if key in attrs]
    if values.dtype.kind not in "iuf" or not (codes or {"scale_factor", "add_offset"} & set(attrs)):
        return values
    missing = np.isin(values, np.concatenate([np.ravel(code) for code in codes])) if codes else False
    scale, offset = attrs.get("scale_factor", 1.0), attrs.get("add_offset", 0.0)
    return np.where(
        missing, np.nan, values * np.float64(np.ravel(scale)[0]) + np.float64(np.ravel(offset)[0])
    )


def _datasets(root: h5py.Group, matlab: bool, units: dict[str, str]) -> dict[str, np.ndarray]:
    """Arrays of a group; what their attributes say of units is added."""
    found: dict[str, np.ndarray] = {}

    def visit(path: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset) or path.startswith("#"):
            return
        if item.attrs.get("MATLAB_class") in (b"char", b"cell") or h5py.check_ref_dtype(item.dtype):
            return
        name = path.rsplit("/", 1)[-1]
        name = path if name in found else name
        unit = next((item.attrs[key] for key in ("units", "unit") if key in item.attrs), None)
        if isinstance(unit, str | bytes):
            said = unit.decode("utf-8", "replace") if isinstance(unit, bytes) else unit
            units[name] = said.split(" since ")[0]  # minutes since 2000-01-01
        values = np.asarray(item[()])
        if not matlab:
            found.update({key: value for key, value in _settings(item).items() if key not in found})
        if values.dtype.names:
            found.update({field: values[field] for field in values.dtype.names})
        elif values.dtype.kind in "SO":
            found[name] = _decoded(values)
        else:
            values = _unpacked(values, item.attrs)
            found[name] = values.T if matlab else values

    root.visititems(visit)
    return found
