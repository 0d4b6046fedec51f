"""One HTML file without links: click into the phase portrait of a field and see where it goes."""

import json
import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.analyze.constant_inputs import at_constant_inputs, inputs_as_text
from fim_dynsys.analyze.results import (
    PATIENCE,
    FieldLike,
    RegionLike,
    progress_bar,
    resolve_region,
)
from fim_dynsys.errors import real_array
from fim_dynsys.explorer.rates import Rates, rates_of
from fim_dynsys.explorer.scene import numbers, objects, observations, span_of, support_maps
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.family import FieldFamily
from fim_dynsys.regions import Region
from fim_dynsys.writing import replace_file

_SEEDS, _SEEDS_OF_FAMILY = 64, 16  # of the search for cycles
_MOST_VALUES = 201  # of a family's parameter
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src blob: data:"
_HERE = Path(__file__).parent


@np.errstate(all="ignore")  # what overflows is left out of the picture
def write_explorer(
    field: FieldLike | FieldFamily,
    path: str | os.PathLike,
    *,
    region: RegionLike | None = None,
    ensemble: EnsembleField | None = None,
    parameter: ArrayLike | None = None,
    cycles: bool = True,
    folder: str | os.PathLike | None = None,
    inputs: Mapping[str, float] | None = None,
    progress: bool | None = None,
) -> Path:
    """Write a page that integrates the field where one clicks.

    It shows the portrait of two states, the others held, with nullclines, fixed points, cycles, data and what
    they support; the time series of the trajectories started; for a family a slider over the parameter, and
    the diagram of fixed points and cycles against it. It needs no server and no network, and holds the field
    as code made of its equations, or as a table whose error it states.

    Parameters
    ----------
    field : VectorField, fitted model or FieldFamily
        What to show.
    path : path
        The HTML file; its folder must exist.
    region : Region, dict or pairs, optional
        What is shown; default the box of the data widened by 10 % on each side.
    ensemble : EnsembleField, optional
        Members that are integrated beside the field; not for families.
    parameter : array (m,)
        Values of the family's parameter, increasing; at most 201.
    cycles : bool
        Whether limit cycles are sought.
    folder : path, optional
        Where the fitted model is saved, for the Python that the page writes.
    inputs : mapping, optional
        Constant inputs of a driven field, by name; default their means over its data.
    progress : bool, optional
        Whether a bar with the time left is shown after two seconds; default on a terminal.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    TypeError
        For what has no vector field in the space of the observations.
    ValueError
        For an ensemble of another dimension or with a family, missing or too many values of the parameter,
        inputs that are not the field's, or no region.
    FileNotFoundError
        If the folder of `path` does not exist.
    """
    page_path = Path(path)
    if not page_path.parent.is_dir():  # before the work, not after it
        raise FileNotFoundError(
            f"write_explorer: expected an existing folder for {page_path}, got {page_path.parent}."
        )
    if isinstance(field, FieldFamily):
        if ensemble is not None:
            raise ValueError("write_explorer: expected a family or an ensemble, got both; leave one out.")
        if inputs is not None:
            raise ValueError(
                "write_explorer: expected no inputs with a FieldFamily, got some; leave them out."
            )
        values, held = _parameter_values(field, parameter), dict[str, float]()
        fields = [field.at(p) for p in values.tolist()]
        title = f"{', '.join(field.state_names)} over {field.parameter}"
    else:
        if parameter is not None:
            raise ValueError("write_explorer: expected parameter with a FieldFamily, got it with one field.")
        own, held = at_constant_inputs(field, "write_explorer", inputs)
        values, fields = np.empty(0), [own]
        at = f" at {inputs_as_text(held)}" if held else ""
        title = f"{getattr(field, 'name', 'field')}: {', '.join(own.state_names)}{at}"
    first = fields[0]
    if ensemble is not None and ensemble.dim != first.dim:
        raise ValueError(
            f"write_explorer: expected members of {first.dim} states as the field has, got {ensemble.dim}."
        )
    if region is None and isinstance(field, FieldFamily) and field.region is not None:
        region = field.region
    box = resolve_region(first, region, "write_explorer")
    seeds = _SEEDS if len(fields) == 1 else _SEEDS_OF_FAMILY
    frames = []
    with progress_bar(progress, len(fields), "explore", "fields", PATIENCE) as bar:
        for member in fields:
            frames.append(objects(member, box, seeds, cycles))
            bar.update()
    shared = len(fields) + len(ensemble or ())
    rates = [[rates_of(member, box, shared)] for member in fields]
    members = (at_constant_inputs(member, "write_explorer", held)[0] for member in ensemble or ())
    rates[0] += [rates_of(member, box, shared) for member in members]
    scene = _scene(first, box) | {
        "title": title,
        "parameter": None
        if not isinstance(field, FieldFamily)
        else {"name": field.parameter, "values": numbers(values)},
        "frames": [frame | {"equations": row[0].equations} for frame, row in zip(frames, rates, strict=True)],
        "members": len(ensemble or ()),
        "note": max((own for row in rates for own in row), key=lambda own: own.error).note,
        "folder": None if folder is None else str(folder),
        "inputs": held or None,
    }
    return replace_file(page_path, _document(title, scene, rates))


def _parameter_values(family: FieldFamily, given: ArrayLike | None) -> np.ndarray:
    if given is None:
        raise ValueError(
            f"write_explorer: expected values of {family.parameter} for a family, got none; pass "
            "parameter=numpy.linspace(low, high, 41)."
        )
    values = real_array(given, "write_explorer", "parameter")
    if values.ndim != 1 or not 2 <= len(values) <= _MOST_VALUES or not (np.diff(values) > 0).all():
        raise ValueError(
            f"write_explorer: expected 2 to {_MOST_VALUES} increasing values of {family.parameter}, got "
            f"{values.tolist() if values.size < 9 else f'an array of shape {values.shape}'}."
        )
    return values


def _scene(field: VectorField, region: Region) -> dict[str, Any]:
    units = {} if field.context is None else field.context.units
    return {
        "states": list(map(str, field.state_names)),
        "units": [units.get(name, "") for name in field.state_names],
        "timeUnit": units.get("t", ""),
        "low": numbers(region.low),
        "high": numbers(region.high),
        "span": span_of(field),
        "data": observations(field),
        "support": support_maps(field, region),
    }


def _document(title: str, scene: dict[str, Any], rates: Sequence[Sequence[Rates]]) -> str:
    code = ",\n".join(f"[{', '.join(field.code for field in row)}]" for row in rates)
    held = json.dumps(scene, allow_nan=False).replace("<", "\\u003c")  # no text of it ends the script
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_read('page.css')}</style></head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{_read('page.html')}\n"
        f'<script type="application/json" id="scene">{held}</script>\n'
        f"<script>\n{_read('page.js')}\nconst RATES = [{code}];\n"
        "const explorer = new Explorer(JSON.parse(document.getElementById('scene').textContent), RATES);\n"
        "</script>\n</body></html>\n"
    )


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
