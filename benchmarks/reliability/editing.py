"""Edited files: bytes, JSON, arrays, HDF5, tables and weights, each changed in a way made from a seed."""

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.lib import format as npy

Rng = np.random.Generator
DIGITS = (64, 32, 16, 12, 8)  # of a digest, as names and headers may hold it


def redigest(folder: Path, before: dict[str, str]) -> None:
    """Make the digests in names and headers fit the changed files again, as an attacker would."""
    for path in sorted(folder.iterdir()):
        old, new = before.get(path.name, ""), sha(path)
        if path.suffix == ".json" or not old or new == old:
            continue
        for header in folder.glob("*.json"):
            text = header.read_text(encoding="utf-8", errors="surrogateescape")
            for n in DIGITS:
                text = text.replace(old[:n], new[:n])
            header.write_text(text, encoding="utf-8", errors="surrogateescape")
        name = path.name
        for n in DIGITS:
            name = name.replace(old[:n], new[:n])
        path.rename(folder / name)


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of each file of a folder, by its name."""
    return {path.name: sha(path) for path in folder.iterdir() if path.is_file()}


def sha(path: Path) -> str:
    """Return the sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ------------------------------------------------------------------------------------------------ bytes


def flip(rng: Rng, path: Path) -> None:
    """Change one to twenty bytes, most of them early on."""
    content = bytearray(path.read_bytes())
    reach = len(content) if rng.random() < 0.5 else min(len(content), 512)
    for place in rng.integers(0, reach, int(rng.integers(1, 21))):
        content[place] = int(rng.integers(256))
    path.write_bytes(content)


def cut(rng: Rng, path: Path) -> None:
    """Leave off the end, more than a line break."""
    content = path.read_bytes()
    path.write_bytes(content[: rng.integers(0, len(content) - 2)])


def insert(rng: Rng, path: Path) -> None:
    """Put foreign bytes somewhere."""
    content, place = path.read_bytes(), int(rng.integers(64))
    foreign = [b"\x00" * 16, b"\xff\xfe", b"\xef\xbb\xbf", b"{", b"\r\n", b"PK\x03\x04", b"9" * 5000]
    path.write_bytes(content[:place] + foreign[rng.integers(len(foreign))] + content[place:])


BYTES: dict[str, Callable[[Rng, Path], None]] = {"flip": flip, "cut": cut, "insert": insert}


# ------------------------------------------------------------------------------------------------- JSON


def hostile_value(rng: Rng) -> Any:
    """Something that no field of a header should be."""
    nested: list[Any] = []
    for _ in range(200):
        nested = [nested]
    values: list[Any] = [None, -1, 0, 10**6, 10**30, 2**63, 1e308, float("nan"), float("-inf"), 0.5, "x", ""]
    values += [[], {}, nested, True, "../../../etc/passwd", [1, [2]], {"a": {"b": []}}, [None] * 3]
    values += ["x" * 10**5, -(2**31), "nan", "__import__('os')", [-1, -2], [[0.0]], {"0": 0}]
    return values[rng.integers(len(values))]


def change_json(rng: Rng, tree: Any) -> None:
    """Replace, remove or add something at a random place."""
    nodes = _containers(tree)
    places = [(node, key) for node in nodes for key in (node if isinstance(node, dict) else range(len(node)))]
    node, key = places[rng.integers(len(places))]
    way = rng.random()
    if way < 0.15:
        del node[key]
    elif way < 0.25 and isinstance(node, dict):
        node[str(rng.choice(["unknown", "", "__class__"]))] = hostile_value(rng)
    else:
        node[key] = hostile_value(rng)


def _containers(tree: Any) -> list[Any]:
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else []
    own = [tree] if isinstance(tree, dict | list) and tree else []
    return own + [node for value in inner for node in _containers(value)]


def edit_json(rng: Rng, path: Path) -> None:
    """Change a header in one to three places, or nest it beyond measure."""
    if rng.random() < 0.05:
        path.write_text('{"format": ' + "[" * 100_000)
        return
    tree = json.loads(path.read_text())
    for _ in range(rng.integers(1, 4)):
        change_json(rng, tree)
    path.write_text(json.dumps(tree))


# ----------------------------------------------------------------------------------------------- arrays


def hostile_array(rng: Rng, values: np.ndarray) -> np.ndarray:
    """The array with strange values, another type or another shape."""
    values = np.array(values)
    changes: list[Callable[[], np.ndarray]] = [
        lambda: _with(rng, values, [np.nan, np.inf, -np.inf]),
        lambda: _with(rng, values, [1e308, -1e308, 5e-324, 1e30]),
        lambda: _with(rng, values, [-1, 127, -128, 10**6, 2**62]),
        lambda: _with(rng, values, [0.5, -0.5, 2.5]),
        lambda: np.full(values.shape, np.nan),
        lambda: np.zeros_like(values),
        lambda: values.astype("c16"),
        lambda: values.astype("U"),
        lambda: values.astype("f2"),
        lambda: values.astype("M8[s]"),
        lambda: values.astype("?"),
        lambda: values.astype(">f8"),
        lambda: values[None],
        lambda: values.T,
        lambda: values.ravel(),
        lambda: values[:0],
        lambda: values[:1],
        lambda: np.concatenate([values, values]),
        lambda: np.zeros((0, 3)),
        lambda: np.array(1.0),
    ]
    with np.errstate(all="ignore"):
        try:
            return changes[rng.integers(len(changes))]()
        except (ValueError, TypeError, IndexError, OverflowError):
            return np.zeros(values.shape, "f4")


def _with(rng: Rng, values: np.ndarray, strange: list) -> np.ndarray:
    kept = values.astype(np.float64) if any(isinstance(v, float) for v in strange) else values.copy()
    if kept.size:
        count = int(rng.integers(1, kept.size + 1))
        kept.flat[rng.integers(0, kept.size, count)] = rng.choice(strange, count).astype(kept.dtype)
    return kept


def edit_npz(rng: Rng, path: Path) -> None:
    """Change, remove or add an array; among the changes are shapes that nobody could hold and pickles."""
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    name = str(rng.choice(list(arrays)))
    way = rng.random()
    if way < 0.15:
        del arrays[name]
        np.savez(path, **arrays)
    elif way < 0.25:
        np.savez(path, **{**arrays, str(rng.choice(["unknown", "coefficients2"])): np.zeros(3)})
    elif way < 0.35:
        np.savez(path, **{**arrays, name: np.array([{"a": 1}, None], dtype=object)})
    elif way < 0.45:
        _declare(path, name, rng)
    else:
        np.savez(path, **{**arrays, name: hostile_array(rng, arrays[name])})


def _declare(path: Path, name: str, rng: Rng) -> None:
    """Declare an array of a size that is not there."""
    shapes = [(10**12,), (2**40, 2**20), (10**5, 10**5), (-1,), (2**63,)]
    header = io.BytesIO()
    about = {"descr": "<f8", "fortran_order": False, "shape": shapes[rng.integers(len(shapes))]}
    npy.write_array_header_1_0(header, about)
    with zipfile.ZipFile(path) as old:
        members = {each: old.read(each) for each in old.namelist()}
    members[f"{name}.npy"] = header.getvalue() + b"\0" * 64
    with zipfile.ZipFile(path, "w") as new:
        for each, content in members.items():
            new.writestr(each, content)


# ------------------------------------------------------------------------------------------------- HDF5


def edit_hdf5(rng: Rng, path: Path) -> str:
    """Change a dataset, an attribute or how the data are stored; the way, by name in `HDF5`."""
    name = str(rng.choice(list(HDF5)))
    with h5py.File(path, "r+") as file:
        datasets = [key for key in file if isinstance(file.get(key), h5py.Dataset)]
        HDF5[name](rng, file, datasets, path)
    return name


def _some(rng: Rng, names: list[str]) -> str:
    return str(rng.choice([n for n in names if n in ("x", "t", "n_obs")] if rng.random() < 0.8 else names))


def _replace(file: h5py.File, name: str, **options: Any) -> None:
    attrs = {k: v for k, v in file[name].attrs.items() if k in ("_Netcdf4Coordinates", "_Netcdf4Dimid")}
    scales = [[scale for scale in dim.values()] for dim in file[name].dims]
    del file[name]
    made = file.create_dataset(name, **options)
    for key, value in attrs.items():
        made.attrs[key] = value
    for dim, of_dim in zip(made.dims, scales, strict=False):
        for scale in of_dim:
            dim.attach_scale(scale)


def _values(rng: Rng, file: h5py.File, names: list[str], path: Path) -> None:
    name = _some(rng, names)
    changed = hostile_array(rng, file[name][()] if file[name].dtype.kind in "iuf" else np.zeros(3))
    _replace(file, name, data=changed.astype("S") if changed.dtype.kind in "UM" else changed)


def _missing(rng: Rng, file: h5py.File, names: list[str], path: Path) -> None:
    del file[_some(rng, names)]


def _external_storage(rng: Rng, file: h5py.File, names: list[str], path: Path) -> None:
    name = str(rng.choice(["x", "t"]))
    shape = file[name].shape
    size = 8 * int(np.prod(shape))
    _replace(file, name, shape=shape, dtype="f8", external=[("/etc/passwd", 0, size)])


def _external_link(rng: Rng, file: h5py.File, names: list[str], path: Path) -> None:
    name = str(rng.choice(["x", "t", "n_obs"]))
    other = path.with_name("other.h5")
    with h5py.File(other, "w") as target:
        target[name] = file[name][()]
    del file[name]
    file[name] = h5py.ExternalLink(str(other), name)


def _virtual(rng: Rng, file: h5py.File, names: list[str], path: Path) -> None:
    name = str(rng.choice(["x", "t"]))
    other = path.with_name("other.h5")
    with h5py.File(other, "w") as target:
        target[name] = file[name][()]
    layout = h5py.VirtualLayout(shape=file[name].shape, dtype="f8")
    layout[...] = h5py.VirtualSource(str(other), name, shape=file[name].shape)
    del file[name]
    file.create_virtual_dataset(name, layout)


def _soft_link(rng: Rng, file: h5py.File, names: list[str], path: Path) -> None:
    name = _some(rng, names)
    if rng.random() < 0.5:
        file.move(name, "elsewhere")
    else:
        del file[name]
    file[name] = h5py.SoftLink("/elsewhere")


def _huge(rng: Rng, file: h5py.File, names: list[str], path: Path) -> None:
    name = str(rng.choice(["x", "t", "n_obs"]))
    rank = len(file[name].shape)
    _replace(file, name, shape=(2**20,) * rank, dtype="f8", chunks=(64,) * rank)


def _attribute(rng: Rng, file: h5py.File, names: list[str], path: Path) -> None:
    owner = file if rng.random() < 0.3 else file[_some(rng, names)]
    kept = list(owner.attrs)
    name = str(rng.choice([*kept, "units", "_FillValue", "scale_factor", "calendar", "coordinates", "dtype"]))
    values: list[Any] = [b"\xff\xfe", np.arange(3), -1, float("nan"), "days since 0000-00-00", ""]
    owner.attrs[name] = values[rng.integers(len(values))]


def _group(rng: Rng, file: h5py.File, names: list[str], path: Path) -> None:
    name = _some(rng, names)
    del file[name]
    file.create_group(name)


HDF5: dict[str, Callable[[Rng, h5py.File, list[str], Path], None]] = {
    "values": _values,
    "missing": _missing,
    "external storage": _external_storage,
    "external link": _external_link,
    "virtual": _virtual,
    "soft link": _soft_link,
    "huge": _huge,
    "attribute": _attribute,
    "group": _group,
}
FROM_OUTSIDE = ("external storage", "external link", "virtual")


# ------------------------------------------------------------------------------------------------ tables


def edit_csv(rng: Rng, path: Path) -> str:
    """Change the header line, the names, a row or a cell; the way, by name."""
    lines = path.read_text().splitlines(keepends=True)
    row = int(rng.integers(2, len(lines)))
    way = str(rng.choice(["header", "names", "lost row", "row twice", "cell", "more columns", "no header"]))
    if way == "header":
        tree = json.loads(re.sub(r"^# fim-dynsys ", "", lines[0]))
        change_json(rng, tree)
        lines[0] = f"# fim-dynsys {json.dumps(tree)}\n"
    elif way == "names":
        lines[1] = lines[1].replace("x", str(rng.choice(["", "t", "trajectory", "é", '"', "x,x", "\x00"])), 1)
    elif way == "lost row":
        del lines[row]
    elif way == "row twice":
        lines.insert(row, lines[row])
    elif way == "cell":
        cells = lines[row].rstrip("\n").split(",")
        strange = ["", "nan", "inf", "1e999", "abc", "1;2", '"', "0x10", "9" * 400, "1,2", "True", "\x00"]
        cells[rng.integers(len(cells))] = str(strange[rng.integers(len(strange))])
        lines[row] = ",".join(cells) + "\n"
    elif way == "more columns":
        lines[row] = lines[row].rstrip("\n") + ",1\n"
    else:
        del lines[: rng.integers(1, 3)]
    path.write_text("".join(lines))
    return way


# ----------------------------------------------------------------------------------------------- weights


def edit_weights(rng: Rng, path: Path) -> None:
    """Change the header's own JSON, the table of tensors or a tensor of a safetensors file."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), bytearray(content[8 + length :])
    way = rng.random()
    if way < 0.55:
        about = json.loads(header["__metadata__"]["fim_dynsys"])
        part = about["config"] if rng.random() < 0.7 else about
        change_json(rng, part)
        header["__metadata__"]["fim_dynsys"] = json.dumps(about)
    elif way < 0.6:
        header["__metadata__"] = {"fim_dynsys": str(rng.choice(["", "[", "null", "[" * 10_000]))}
    elif way < 0.75:
        name = str(rng.choice([each for each in header if each != "__metadata__"]))
        change_json(rng, header[name])
    elif way < 0.95:
        name = str(rng.choice([each for each in header if each != "__metadata__"]))
        start, end = header[name]["data_offsets"]
        kind = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}.get(header[name]["dtype"], "u1")
        values = np.frombuffer(bytes(data[start:end]), kind).copy()
        strange = [0] if kind == "u1" else [np.nan, np.inf, 6e4, 0.0]
        values[rng.integers(0, len(values), 1 + len(values) // 3)] = rng.choice(strange)
        data[start:end] = values.tobytes()
    else:
        del header[str(rng.choice([each for each in header if each != "__metadata__"]))]
    text = json.dumps(header).encode()
    size = len(text) if rng.random() < 0.97 else int(rng.choice([0, 2**40, 2**63]))
    path.write_bytes(size.to_bytes(8, "little") + text + bytes(data))
