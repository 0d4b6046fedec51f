"""Any file of observations as arrays and names, and an account of how it was read."""

import difflib
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fim_dynsys.errors import ReadingWarning, warn
from fim_dynsys.trajectories.observations import with_free_names
from fim_dynsys.trajectories.parts import READ, Parts
from fim_dynsys.trajectories.reading.arrays import read_arrays
from fim_dynsys.trajectories.reading.contents import looks_like
from fim_dynsys.trajectories.reading.encoding import as_utf8, decompressed, without_compression
from fim_dynsys.trajectories.reading.options import WHO, Notes, Options, refusal
from fim_dynsys.trajectories.reading.roles import assign
from fim_dynsys.trajectories.reading.sheets import read_typed, sheet_as_text
from fim_dynsys.trajectories.reading.suspects import GIVE_MISSING, check_codes
from fim_dynsys.trajectories.reading.text import Table, read_text

STANDARD_INPUT = "-"
_KINDS = {
    "text": (
        ".csv",
        ".tsv",
        ".txt",
        ".dat",
        ".asc",
        ".tab",
        ".lvm",
        ".prn",
        ".xvg",
        ".log",
        ".out",
        ".data",
        ".text",
    ),
    "excel": (".xlsx", ".xlsm"),
    "matlab": (".mat",),
    "numpy": (".npy", ".npz"),
    "hdf5": (".h5", ".hdf5", ".hdf", ".he5"),
    "parquet": (".parquet", ".pq"),
    "feather": (".feather", ".arrow"),
    "netcdf": (".nc", ".nc4", ".netcdf"),
}


def kind_of(path: str | Path, options: Options) -> str:
    """What kind of file it is, by its name.

    Raises
    ------
    OSError
        If there is no such file, or it is a folder.
    ValueError
        For a name that says nothing.
    """
    name = name_of(path)
    if name != STANDARD_INPUT:
        _check_there(Path(path))
    if options.format is not None:
        return "text" if options.format == "csv" else options.format
    suffix = Path(without_compression(name)).suffix.lower()
    found = next((kind for kind, suffixes in _KINDS.items() if suffix in suffixes), None)
    if found is None and name == STANDARD_INPUT:
        return "text"
    if found is None:
        what, remedy = looks_like(_beginning(Path(path)))
        raise refusal(
            f"a file name that says its kind, as {', '.join(suffixes[0] for suffixes in _KINDS.values())}",
            f"{name!r}, which holds {what}",
            remedy,
        )
    return found


def name_of(path: str | Path) -> str:
    """The name of a file, or that of standard input."""
    return STANDARD_INPUT if str(path) == STANDARD_INPUT else Path(path).name


def _check_there(path: Path) -> None:
    if path.is_dir():
        inside = sorted(item.name for item in path.iterdir() if item.is_file())
        shown = f"{len(inside)} files, the first {inside[0]!r}" if inside else "no files"
        raise IsADirectoryError(f"{WHO}: expected a file, got the folder {str(path)!r} with {shown}")
    if not path.exists():
        beside = sorted(item.name for item in path.parent.iterdir()) if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, beside, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise FileNotFoundError(f"{WHO}: expected an existing file, got {str(path)!r}{meant}")


def _beginning(path: Path) -> bytes:
    with open(path, "rb") as stream:
        return stream.read(1 << 16)


def read(path: str | Path, given: Mapping[str, Any]) -> Parts:
    """Read a file; how is said in ``attrs["read"]``, and by a warning where it left something open.

    Parameters
    ----------
    path : path
        The file, or ``-`` for standard input.
    given : mapping
        Arguments of ``Trajectories.from_file``.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it cannot be read, or in several ways.
    ImportError
        If the package that reads such files is not installed.

    Warns
    -----
    ReadingWarning
        With all that was decided about the file.
    """
    options, notes = Options.of(given), Notes()
    name = name_of(path)
    kind = kind_of(path, options)
    content = sys.stdin.buffer.read() if name == STANDARD_INPUT else Path(path).read_bytes()
    if not content:
        raise refusal("a table of numbers", f"{name!r}, which is empty (0 bytes)")
    content = decompressed(name, content, notes)
    found: Table | Parts
    if kind in ("matlab", "numpy", "hdf5"):
        found = read_arrays(name, content, kind, options, notes)
    elif kind in ("parquet", "feather"):
        found = read_typed(name, content, kind, notes)
    else:
        if kind == "excel":
            content = sheet_as_text(name, content, options, notes)
        found = read_text(name, as_utf8(name, content, options, notes), options, notes)
    parts = assign(found, options, notes) if isinstance(found, Table) else found
    parts = _with_free_names(parts, notes)
    if kind not in ("text", "excel"):  # of which all cells are looked at, those of the time too
        parts = _without_codes(name, parts, options)
    account = summary(parts, notes)
    if notes.decided:
        warn(f"{name}: {account}", ReadingWarning)
    return replace(parts, attrs={**parts.attrs, READ: account})


def _with_free_names(parts: Parts, notes: Notes) -> Parts:
    """Values per trajectory under names that no axis of the data has."""
    coords = parts.coords or {}
    free = with_free_names(coords, [*coords, *(parts.state_names or ()), *(parts.input_names or ())])
    renamed = {name: new for name, new in free.items() if new != name}
    if not renamed:
        return parts
    notes.say("; ".join(f"label {name!r} called {new!r}" for name, new in renamed.items()))
    units = parts.units
    if isinstance(units, Mapping):
        units = {name if name == "t" else renamed.get(name, name): unit for name, unit in units.items()}
    return replace(parts, coords={free[name]: values for name, values in coords.items()}, units=units)


def _without_codes(name: str, parts: Parts, options: Options) -> Parts:
    """States with NaN for numbers that stand for missing values; these are refused where none are given."""
    _, codes = options.missing_values
    if codes:
        return replace(parts, x=[np.where(np.isin(x, codes), np.nan, x) for x in parts.x])
    if options.missing is None:
        names = parts.state_names or [f"x{k}" for k in range(parts.x[0].shape[1])]
        check_codes(name, zip(names, np.concatenate(parts.x).T, strict=True), GIVE_MISSING)
    return parts


def summary(parts: Parts, notes: Notes) -> str:
    """What was read, in one line of parts."""
    samples = sum(len(x) for x in parts.x)
    values = sum(x.size for x in parts.x)
    missing = values - sum(int((x == x).sum()) for x in parts.x)  # NaN is not equal to itself
    names = parts.state_names or [f"x{k}" for k in range(parts.x[0].shape[1])]
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    said = [f"read {samples} samples of {shown}", *notes.done]
    said += [f"inputs: {', '.join(parts.input_names)}"] if parts.input_names else []
    said += [f"{missing} missing"] if missing else []
    return "; ".join(said)
