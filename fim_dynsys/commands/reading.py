"""Options of commands that read a file of observations, and errors in their words."""

import argparse
import re
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from fim_dynsys.errors import ReadingWarning
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.parts import READ
from fim_dynsys.trajectories.reading.options import Options

_PICTURES = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".eps", ".webp")  # that matplotlib writes
_NAMES = tuple(item.name for item in fields(Options))
# `time="Zeit"` and `step=` of an error: arguments of Python, which are options here.
_ARGUMENT = re.compile(rf"\b({'|'.join(_NAMES)})=(?:(\[\])|(\"[^\"]*\"|'[^']*'|-?[\w.]+)|)")

# What messages say of calls in Python, and the same of the command line.
_CALLS = (
    (r"Trajectories\.from_(file|dataframe): ", ""),
    (r"See field_\.fit_info; more", "More"),
    (r"^\w+: expected (no )?inputs(?= with values|, which)", r"expected \1--input"),
    (r"; model\.ensemble\(n\) shows how far they may vary", ""),
    (r", and their noise is not known \(sigma= gives it\)", ""),
    (r"; with observed=\[\.\.\.\] not all need to be in the data", ""),
    (r"Trajectories: expected units as text for", "expected --units with"),
    (r"\bKnowledge\.(nonnegative|conserved)\b", r"--\1"),
    (r"the data contradict what is to be conserved: ", "the data contradict --conserved: "),
    (r"\bKnowledge: ", "--nonnegative and --conserved: "),
    (
        r"\bload: expected the name of a registered model",
        "expected --model as the name of a registered model",
    ),
    (r"\bfim_dynsys\.available\(\)", "`fim-dynsys available`"),
    (r"\bload_fitted: expected a folder that model\.save wrote", "expected a folder that `fit --out` wrote"),
    (r"[\w-]+\.explore: expected n_draws", "expected --members"),
    (r"[\w-]+\.fit: expected order 1;", "expected --order 1;"),
    (r"[\w-]+\.fit: expected log as", "expected --log as"),
    (r"trust is low; check a path with trust_along\(\), ensemble\(\) shows others\.", "trust is low."),
    (
        r"expected a search with order=2, .* got refine=True and (\d+) samples; .* at least (\d+)",
        r"expected at least \2 samples with --order 2, got \1",
    ),
    (r"\border=2\b", "--order 2"),
    (r"n_draws=model\.ensemble\(64\)", "--members 64"),
    (r"analyze\.cycle_bands\(model\) gives", "--members 64 gives"),
    (r"\[Errno \d+\] (No such file or directory): ('.*')", r"expected a file, got \2 (\1)"),
    (rf"\bexpected ({'|'.join(_NAMES)}) as ", lambda found: f"expected --{found[1].replace('_', '-')} as "),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, and how it is written."""
    parser.add_argument(
        "data", help="the file: CSV and other text, Excel, MATLAB, numpy, HDF5, netCDF; - for standard input"
    )
    columns = parser.add_argument_group("columns")
    columns.add_argument("--time", metavar="COLUMN", help="the times; default found by names and values")
    columns.add_argument(
        "--step", type=float, metavar="DT", help="time between rows, where no column holds times"
    )
    columns.add_argument("--states", nargs="+", metavar="COLUMN", help="states; default every other column")
    columns.add_argument(
        "--inputs", nargs="+", metavar="COLUMN", help="measured inputs, such as a force or a voltage"
    )
    columns.add_argument("--trajectory", nargs="+", metavar="COLUMN", help="labels of trajectories")
    columns.add_argument(
        "--coords", nargs="+", metavar="COLUMN", help="values per trajectory, such as a parameter"
    )
    columns.add_argument(
        "--units", nargs="+", type=_unit, metavar="NAME=UNIT", help="units of columns, t=s for the time"
    )
    columns.add_argument("--every", type=int, metavar="N", help="keep every Nth sample")
    columns.add_argument(
        "--trials",
        choices=("restart", "suffix", "none"),
        help="where trajectories begin: where the time starts again (default), by suffixes of names, nowhere",
    )
    columns.add_argument(
        "--repeated",
        choices=("spread", "trials"),
        help="equal times: ticks of a rounded clock, or repeated measurements",
    )
    written = parser.add_argument_group("file format, where it is not detected")
    written.add_argument(
        "--missing", nargs="*", metavar="VALUE", help="codes of missing values, as -999 or OVER"
    )
    written.add_argument(
        "--bad-rows",
        choices=("error", "drop"),
        help="rows that are cut off or hold text: refuse the file, or leave them out",
    )
    written.add_argument(
        "--separator", metavar="TEXT", help="between columns: comma, tab, blanks, or a character"
    )
    written.add_argument("--decimal", metavar="MARK", help="decimal mark")
    written.add_argument("--thousands", metavar="MARK", help="mark of thousands")
    written.add_argument("--comment", metavar="MARK", help="what begins comment lines")
    written.add_argument("--encoding", metavar="NAME", help="of the text, such as latin-1")
    written.add_argument(
        "--names", nargs="+", metavar="COLUMN", help="names of all columns, where the file has none"
    )
    written.add_argument(
        "--dayfirst", action=argparse.BooleanOptionalAction, help="whether 1/2/2024 is in February"
    )
    written.add_argument("--time-format", metavar="FORMAT", help='of dates, as "%%d.%%m.%%Y %%H:%%M"')
    written.add_argument("--sheet", metavar="NAME", help="of an Excel file")
    written.add_argument(
        "--format", metavar="KIND", help="text, excel, matlab, numpy, hdf5, parquet, feather, netcdf"
    )


def _unit(text: str) -> tuple[str, str]:
    """``x=m`` as a pair."""
    name, equals, unit = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=UNIT, got {text!r}")
    return name, unit


def taken(options: dict[str, Any]) -> dict[str, Any]:
    """The options about reading, which are taken out of those of a command."""
    given = {name: options.pop(name) for name in _NAMES if name in options}
    return {name: value for name, value in given.items() if value is not None}


def read(data: str, given: Mapping[str, Any]) -> Trajectories:
    """Read a file of observations."""
    units = {"units": dict(given["units"])} if "units" in given else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadingWarning)  # the account holds all of it
        return Trajectories.from_file(data, **{**given, **units})


def account(data: Trajectories, name: str) -> str:
    """How a file was read, in one line for each thing that was done."""
    said = data.dataset.attrs.get(READ)
    if said is None:
        said = f"read {int(data.n_obs.sum())} samples of {', '.join(data.state_names)}"
    first, *others = str(said).split("; ")
    return "\n".join([f"{Path(name).name}: {first}", *(f"  {text}" for text in others)])


def check_target(option: str, path: Path, is_folder: bool = False) -> None:
    """Refuse a file or a folder that cannot be written, before anything is computed for it."""
    if path.exists() and path.is_dir() != is_folder:
        wanted, found = ("folder", "file") if is_folder else ("file", "folder")
        raise FileExistsError(f"expected {option} as a {wanted}, got the {found} {path}")
    folder = path if path.is_dir() else path.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"expected an existing folder for {path}, got {folder}")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(
            f"expected {option} in a folder that can be written to, got {path} ({error.strerror})"
        ) from error


def check_picture(option: str, path: Path) -> None:
    """Refuse a picture that cannot be written, before anything is computed for it."""
    check_target(option, path)
    if path.suffix.lower() not in _PICTURES:
        raise ValueError(f"expected {option} as a file that ends in .png, .svg or .pdf, got {path}")


def save_picture(drawing: Any, path: Path) -> None:
    """Write a drawing in the format that the name of the file says."""
    drawing.figure.savefig(path, dpi=150)
    drawing.close()


def in_options(text: str) -> str:
    """An error or account with the options of the command line instead of arguments of Python."""

    def option(found: re.Match) -> str:
        name, none, value = found.groups()
        name = "--" + name.replace("_", "-")
        if name == "--dayfirst" and value == "False":
            return "--no-dayfirst"
        if none or value in ("True", None):
            return name
        return f"{name} {value}"

    text = _ARGUMENT.sub(option, text)
    for of_python, of_options in _CALLS:
        text = re.sub(of_python, of_options, text)
    return text
