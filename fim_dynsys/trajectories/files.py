"""Files that this package writes, CSV and netCDF: written, and read back exactly."""

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from fim_dynsys.trajectories.holding import Hold
from fim_dynsys.trajectories.parts import ROLES_KEY
from fim_dynsys.writing import replace_file

if TYPE_CHECKING:
    import h5py

_SUFFIXES = {".csv": "csv", ".nc": "netcdf", ".nc4": "netcdf", ".netcdf": "netcdf"}
_CSV_MARK = "# fim-dynsys "
# Deflate packs a byte into no less than a thousandth; what declares more than ten times that holds no data.
_LARGEST_RATIO = 10_000


def file_format(path: str | Path) -> str:
    """``"csv"`` or ``"netcdf"`` by the suffix, or a ValueError."""
    suffix = Path(path).suffix.lower()
    if suffix not in _SUFFIXES:
        raise ValueError(
            f"Trajectories: expected a file name ending in {', '.join(_SUFFIXES)}, got {Path(path).name!r}"
        )
    return _SUFFIXES[suffix]


def write_csv(frame: pd.DataFrame, path: str | Path) -> None:
    """Write a table of :func:`join_frame` under one comment line, which tells columns and number of rows."""
    roles = dict(frame.attrs[ROLES_KEY])
    typed = [*roles["coords"], *([roles["trajectory"]] if roles["trajectory"] else [])]
    roles["kinds"] = {name: frame[name].dtype.kind for name in typed}
    roles["rows"] = len(frame)
    header = _CSV_MARK + json.dumps(roles, ensure_ascii=False) + "\n"
    replace_file(path, header + frame.to_csv(index=False, lineterminator="\n"))


def is_ours(path: str | Path) -> bool:
    """Whether a text file begins as those that :func:`write_csv` writes."""
    mark = _CSV_MARK.encode()
    with open(path, "rb") as stream:
        return stream.read(len(mark) + 3).removeprefix(b"\xef\xbb\xbf").startswith(mark)


def read_csv(path: str | Path) -> pd.DataFrame:
    """Read a CSV file that :func:`write_csv` wrote, exactly, types of coordinates included.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is damaged, or does not hold all its rows.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as stream:
            first = stream.readline()
            roles = _checked_roles(json.loads(first[len(_CSV_MARK) :]))
            # As text first: strings like "NA" or "01" stay what they are, and numbers come back exactly.
            text = stream.read()
            frame = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
            rows = roles.pop("rows", None)
            if rows is not None and (rows != len(frame) or not text.endswith("\n")):
                raise ValueError(f"{rows} rows are announced and {len(frame)} found, the file is not whole")
            kinds = (
                dict.fromkeys([roles["time"], *roles["states"], *roles.get("inputs", [])], "f")
                | roles["kinds"]
            )
            frame = pd.DataFrame({name: _typed(frame[name], kind) for name, kind in kinds.items()})
    except (  # pandas' ParserError is a ValueError
        ValueError,
        LookupError,
        TypeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise ValueError(
            f"Trajectories.from_file: expected a CSV file with a header row, got {Path(path).name!r}: {error}"
        ) from error
    frame.attrs[ROLES_KEY] = roles
    return frame


def _checked_roles(roles: Any) -> dict[str, Any]:
    """What the first line of a file of ours says, or a ValueError where that cannot be what was written."""
    if not isinstance(roles, dict):
        raise ValueError("its first line does not say what the columns are")
    lists = {name: roles.get(name) for name in ("states", "coords")} | {"inputs": roles.get("inputs", [])}
    maps = {name: roles.get(name) for name in ("units", "kinds")}
    wrong = [name for name, value in lists.items() if not isinstance(value, list) or not _are_text(value)]
    wrong += [
        name for name, value in maps.items() if not isinstance(value, dict) or not _are_text(value.values())
    ]
    if "hold" in roles:
        Hold.of("Trajectories.from_file", roles["hold"])
    if wrong or not isinstance(roles.get("time"), str) or not isinstance(roles.get("trajectory"), str | None):
        raise ValueError(f"its first line is damaged: {', '.join(wrong) or 'time or trajectory'}")
    return roles


def _are_text(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _typed(column: pd.Series, kind: str) -> np.ndarray:
    text = column.to_numpy(dtype=object)
    if kind == "f":
        return np.where(text == "", "nan", text).astype(np.float64)
    if kind == "b":
        return text == "True"
    return text.astype(np.int64) if kind in "iu" else text


def write_netcdf(dataset: xr.Dataset, path: str | Path) -> None:
    """Write a Dataset as netCDF 4; attributes that netCDF cannot hold are written as JSON."""
    replace_file(path, netcdf_content(dataset))


def netcdf_content(dataset: xr.Dataset) -> bytes:
    """What `write_netcdf` writes; made in memory, for on a full disk HDF5 ends the process."""
    attrs = {
        name: value if isinstance(value, str | int | float | np.number | np.ndarray) else json.dumps(value)
        for name, value in dataset.attrs.items()
    }
    return bytes(dataset.assign_attrs(attrs).to_netcdf(engine="h5netcdf"))


def read_netcdf(path: str | Path) -> xr.Dataset:
    """Read a netCDF 4 file into memory; times stay numbers.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no netCDF 4 file, a damaged one, or one that refers to other files.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"Trajectories.from_file: no such file: {path}")
    import h5py  # deferred: only files of this kind need it

    try:
        with h5py.File(path, "r") as file:
            dict(file.attrs)  # where these cannot be read, h5netcdf complains once more when it is collected
            check_self_contained(file, Path(path).stat().st_size)
        return xr.load_dataset(path, engine="h5netcdf", decode_times=False)
    except Exception as error:  # of a damaged file the readers raise whatever they run into
        raise ValueError(
            f"Trajectories.from_file: expected a netCDF 4 file, got {Path(path).name!r}: {error}"
        ) from error


def check_self_contained(file: "h5py.File", size: int) -> None:
    """Refuse what would make HDF5 read other files, and arrays larger than the file can hold.

    HDF5 opens the files that links, external storage and virtual datasets name, whatever they are.
    """
    import h5py  # deferred, as above

    groups, seen = [file], set[int]()
    while groups:
        group = groups.pop()
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise ValueError(f"{name!r} is a link, which may lead to another file")
            item = group[name]
            address = h5py.h5o.get_info(item.id).addr
            if address in seen:
                continue
            seen.add(address)
            if isinstance(item, h5py.Group):
                groups.append(item)
            elif isinstance(item, h5py.Dataset) and (item.external or item.is_virtual):
                raise ValueError(f"the values of {name!r} are stored in other files")
            elif isinstance(item, h5py.Dataset) and item.nbytes > _LARGEST_RATIO * size:
                raise ValueError(f"{name!r} of shape {item.shape} does not fit into {size} bytes")
