"""The commands `analyze` and `explore`: what a fitted model does."""

import argparse
import json as as_json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from fim_dynsys.analyze.results import apart
from fim_dynsys.commands import fitting, installation, reading
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.registry import load_fitted

Box = list[tuple[str, tuple[float, float]]] | None
Inputs = list[tuple[str, float]] | None
_FEWEST = 2  # members of an ensemble: one has no spread


def add_arguments(parser: argparse.ArgumentParser, command: str) -> None:
    """Options of `analyze` and `explore`."""
    parser.add_argument("folder", type=Path, help="where `fit` or model.save wrote")
    if command == "analyze":
        parser.add_argument("--report", type=Path, metavar="FILE", help="HTML page to write")
        parser.add_argument(
            "--portrait", type=Path, metavar="FILE", help="picture to write: .png, .svg or .pdf"
        )
        parser.add_argument(
            "--explorer",
            type=Path,
            metavar="FILE",
            help="page that `explore` wrote, for the report to link to",
        )
        parser.add_argument("--json", action="store_true", help="machine-readable output")
        parser.add_argument(
            "--members",
            type=int,
            metavar="N",
            help="members of an ensemble for standard errors; default draws of a posterior, if there is one",
        )
    else:
        parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="HTML file to write")
        parser.add_argument(
            "--members",
            type=int,
            default=20,
            help="members of an ensemble shown beside the field; default 20",
        )
    parser.add_argument(
        "--region",
        nargs="+",
        type=_bounds,
        metavar="STATE=LOW:HIGH",
        help="box to search, one entry a state; default that of the data, 10 %% wider on each side",
    )
    parser.add_argument(
        "--input",
        nargs="+",
        dest="inputs",
        type=_value,
        metavar="NAME=VALUE",
        help="constant inputs of a driven model; default their means over the data",
    )


def _value(text: str) -> tuple[str, float]:
    """``u=0.5`` as a name and a number."""
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}") from None


def _bounds(text: str) -> tuple[str, tuple[float, float]]:
    """``x=-3:3`` as a name and a pair of numbers."""
    name, _, ends = text.partition("=")
    try:
        low, high = map(float, ends.split(":"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected STATE=LOW:HIGH, got {text!r}") from None
    return name, (low, high)


def _checked(region: Box, model: VectorFieldModel) -> dict[str, tuple[float, float]] | None:
    """The box by state, if it has bounds of each."""
    if region is None:
        return None
    box, states = dict(region), list(model.feature_names)
    if set(box) != set(states) or len(box) != len(region):
        raise ValueError(
            f"expected --region with one LOW:HIGH for each of the states {', '.join(states)}, got "
            f"{', '.join(name for name, _ in region)}"
        )
    for name, (low, high) in region:
        if not low < high:
            raise ValueError(f"expected --region with LOW below HIGH, got {name}={low:g}:{high:g}")
    return box


def analyze(
    folder: Path,
    report: Path | None,
    portrait: Path | None,
    explorer: Path | None,
    json: bool,
    members: int | None,
    region: Box,
    inputs: Inputs,
    quiet: bool,
    command: str,
) -> int:
    """Find fixed points and limit cycles of a fitted model: tables, a portrait, a page.

    Example: fim-dynsys analyze fitted --region x=-3:3 v=-4:4 --report page.html
    """
    if explorer is not None and not explorer.is_file():
        raise FileNotFoundError(
            f"expected --explorer as a page that `fim-dynsys explore` wrote, got {explorer}"
        )
    if report is not None:
        reading.check_target("--report", report)
    if portrait is not None:
        reading.check_picture("--portrait", portrait)
    if members is not None and members < _FEWEST:
        raise ValueError(f"expected --members of {_FEWEST} or more, got {members}")
    model = load_fitted(folder)
    box, given = _checked(region, model), None if inputs is None else dict(inputs)
    if report is None or json or portrait is not None or members is not None:
        _tables(model, box, given, json, portrait, members)
    if report is not None:
        from fim_dynsys.report import write_report  # loads matplotlib, which no other command needs

        fitted = recorded(folder)
        before, today = fitted.pop("packages", None), installation.versions()
        packages: dict[str, Any] = {"packages": today}
        if before not in (None, today):
            packages = {"packages at the fit": before, "packages at the analysis": today}
        provenance = {**fitted, "analysed": fitting.now(), "analysis command": command, **packages}
        write_report(model, report, region=box, provenance=provenance, explorer=explorer, inputs=given)
        if not quiet:
            print(f"{report} written", file=sys.stderr if json else sys.stdout)
    return 0


def _tables(
    model: VectorFieldModel,
    box: dict | None,
    inputs: dict[str, float] | None,
    json: bool,
    portrait: Path | None,
    members: int | None,
) -> None:
    """Print fixed points and cycles, with errors by an ensemble if it is asked for, and draw them."""
    from fim_dynsys.analyze.bands.cycles import cycle_bands
    from fim_dynsys.analyze.constant_inputs import at_constant_inputs, inputs_as_text
    from fim_dynsys.analyze.cycles.periodic import limit_cycles
    from fim_dynsys.analyze.equilibria.points import fixed_points

    field, held = at_constant_inputs(model, "analyze", inputs)
    drawn = None if members is None else _ensemble(model, members, held)
    points = fixed_points(field, box) if drawn is None else fixed_points(field, box, n_draws=drawn)
    cycles = limit_cycles(field, box) if field.dim > 1 else None
    results = [points, *([cycles] if cycles is not None else [])]
    bands = [cycle_bands(field, box, cycles=cycles, n_draws=drawn)] if cycles and drawn is not None else []
    if json:
        # the same keys for all models: null is what a field without a posterior does not know
        facts = {
            "fixed points": [{"exists": None} | row for row in _rows(points)],
            "limit cycles": [] if cycles is None else _rows(cycles),
            **({"cycle bands": [row for found in bands for row in _rows(found)]} if bands else {}),
            **({"inputs": held} if held else {}),
        }
        print(as_json.dumps(facts, indent=2))
    else:
        if held:
            which = ", the means" if inputs is None else ""
            print(f"Under constant inputs{which} {inputs_as_text(held)}:\n")
        # where there are bands, cycles need not say that they have no errors
        shown = [points, replace(cycles, from_data=False), *bands] if cycles and bands else results
        print(reading.in_options("\n\n".join(map(str, shown))))
    if portrait is not None:
        from fim_dynsys import plot  # loads matplotlib

        reading.save_picture(plot.phase_portrait(field, *results, region=box), portrait)


def _ensemble(model: VectorFieldModel, members: int, held: dict[str, float]) -> EnsembleField:
    """An ensemble of a model, under constant inputs where it has any."""
    drawn = model.ensemble(members)
    if not held:
        return drawn
    fields = [cast(DrivenField, member).at_input(held) for member in drawn]
    return EnsembleField(fields, drawn.weights, drawn.left_out)


def _rows(result: Any) -> list[dict[str, Any]]:
    """The rows of a table of results, with numbers as numbers."""
    columns, cells = result._rows()
    names, rows = apart(columns, cells, always=True)
    return [{str(name): _plain(value) for name, value in zip(names, row, strict=True)} for row in rows]


def _plain(value: Any) -> Any:
    """A value as JSON holds it; a complex number as its parts."""
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, complex):  # numpy's too
        return {"real": _plain(value.real), "imag": _plain(value.imag)}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if isinstance(value, bool | int | str) or value is None else str(value)


def explore(
    folder: Path, out: Path, members: int, region: Box, inputs: Inputs, quiet: bool, command: str
) -> int:
    """Write a page of a fitted model on which a click starts a trajectory.

    Example: fim-dynsys explore fitted --out explorer.html
    """
    reading.check_target("--out", out)
    model = load_fitted(folder)
    given = None if inputs is None else dict(inputs)
    model.explore(out, region=_checked(region, model), n_draws=members, folder=folder, inputs=given)
    if not quiet:
        print(f"{out} written")
    return 0


def recorded(folder: Path) -> dict[str, Any]:
    """How the fitted model in a folder came about, if what is written there is about this very model."""
    try:
        record = as_json.loads((folder / fitting.RECORD).read_text(encoding="utf-8"))
        if record.pop(fitting.MODEL) == fitting.sha256(folder / fitting.HEADER):
            return record
    except (OSError, ValueError, RecursionError, AttributeError, TypeError, KeyError):
        pass  # none, or not what `fit` wrote
    return {"fitted": "not recorded"}
