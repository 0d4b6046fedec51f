"""A page about a fitted model: equations, portrait, fixed points, uncertainty, data; one whole file."""

import base64
import io
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

import numpy as np
from tqdm import tqdm

from fim_dynsys import plot
from fim_dynsys.analyze.constant_inputs import at_constant_inputs, inputs_as_text
from fim_dynsys.analyze.cycles.periodic import limit_cycles
from fim_dynsys.analyze.equilibria.points import fixed_points
from fim_dynsys.analyze.phase_space.invariant import manifolds
from fim_dynsys.analyze.phase_space.nullcline import nullclines
from fim_dynsys.analyze.results import Result, cell, resolve_region
from fim_dynsys.explorer.turnable import turnable
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.metrics import r2_score
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.estimated import EstimatedModel
from fim_dynsys.plot.canvas import Drawing
from fim_dynsys.regions import Region
from fim_dynsys.simulation.problem import Status
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.wording import counted, value_text
from fim_dynsys.writing import replace_file

_SMOOTH = 400  # times at which a simulated curve is drawn
_WITH_ERRORS = "<p>Coefficients with their standard errors, these terms being given.</p>"
_NOT_SURE = 0.5  # of a coefficient: a standard error above this leaves open even its sign, at two of them
_STYLE = """
body { font: 16px/1.45 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 68rem;
       margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.2rem; border-bottom: 1px solid #ccc; }
table { border-collapse: collapse; margin: .6rem 0; font-size: .9rem; }
th, td { border: 1px solid #ccc; padding: .2rem .55rem; text-align: left; vertical-align: top; }
th { background: #f2f2f2; font-weight: 600; }
.wide { overflow-x: auto; } figure { margin: .8rem 0; } img { max-width: 100%; height: auto; }
.note { color: #555; }
.equations { background: #f6f6f6; padding: .6rem .8rem; }
.equations p { margin: .25rem 0; padding-left: 2.5rem; text-indent: -2.5rem; overflow-wrap: anywhere;
               font: .95rem/1.5 ui-monospace, monospace; }
details { margin-top: 2.2rem; border-top: 1px solid #ccc; padding-top: .6rem; }
summary { font-size: 1.25rem; font-weight: 600; cursor: pointer; }
.facts td { overflow-wrap: anywhere; }
@media (max-width: 40rem) { body { font-size: 15px; margin: .8rem auto; padding: 0 .7rem; }
  h1 { font-size: 1.3rem; } h2 { margin-top: 1.5rem; } table { font-size: .8rem; }
  th, td { padding: .15rem .35rem; }
  .equations p { font-size: .85rem; padding-left: 1.2rem; text-indent: -1.2rem; } }
"""


def write_report(
    model: VectorFieldModel,
    path: str | os.PathLike,
    *,
    region: Region | Mapping | Sequence | None = None,
    provenance: Mapping[str, object] | None = None,
    explorer: str | os.PathLike | None = None,
    inputs: Mapping[str, float] | None = None,
) -> Path:
    """Analyse a fitted model and write the page.

    Parameters
    ----------
    model : VectorFieldModel
        Fitted.
    path : path
        The HTML file; its folder must exist.
    region : Region, dict or pairs, optional
        Where to look for fixed points and cycles; default the box of the data widened by 10 % on each side.
    provenance : dict, optional
        Rows for the table of provenance, before those on the model; a value may be a dict of rows itself.
    explorer : path, optional
        A page written by `model.explore`, which the portrait then links to.
    inputs : mapping, optional
        Constant inputs under which portrait, fixed points and cycles are; default their means.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    TypeError
        For a model without a vector field in the space of the observations.
    ValueError
        For a model that is not fitted, a region of another dimension, or inputs that are not the model's.
    FileNotFoundError
        If the folder does not exist, or there is no such page to link to.
    """
    page_path = Path(path)
    if not page_path.parent.is_dir():  # before the work, not after it
        raise FileNotFoundError(
            f"write_report: expected an existing folder for {page_path}, got {page_path.parent}."
        )
    if explorer is not None and not Path(explorer).is_file():
        raise FileNotFoundError(
            f"write_report: expected explorer as a page that model.explore wrote, got {explorer}; "
            "write it first."
        )
    means = inputs is None
    field, inputs = at_constant_inputs(model, "write_report", inputs)
    link = None if explorer is None else os.path.relpath(explorer, page_path.parent)
    box = resolve_region(field, region, "write_report")
    page = _Page(model, model.context_, field, inputs, means, box, link)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sections = tqdm((_equations, _dynamics, _data, _fit), desc="report", disable=None, leave=False)
        equations, dynamics, data, fit = (write(page) for write in sections)
    title = f"{model.name}: {', '.join(field.state_names)}"
    uncertain = _uncertain(page, caught)
    last = _provenance(model, provenance or {})
    body = [f"<h1>{escape(title)}</h1>", equations, dynamics, uncertain, data, fit, last]
    return replace_file(page_path, _document(title, "\n".join(body)))


@dataclass(frozen=True, eq=False)
class _Page:
    model: VectorFieldModel
    data: Trajectories
    field: VectorField
    inputs: Mapping[str, float]
    means: bool
    region: Region
    explorer: str | None


# ---------------------------------------------------------------------- sections


def _provenance(model: VectorFieldModel, given: Mapping[str, object]) -> str:
    rows: dict[str, object] = {**given, "model": f"{model.name}, version {model.version}"}
    rows |= {"parameters": {key: value_text(value) for key, value in model.get_params(deep=False).items()}}
    return f"<details><summary>Provenance</summary>{_facts(rows)}</details>"


def _equations(page: _Page) -> str:
    text = io.StringIO()
    known = page.field._has_errors
    page.model.print(errors=known, file=text)
    *lines, _ = text.getvalue().splitlines()  # the last one is the verdict, which follows in words
    shown = "".join(f"<p>{escape(line)}</p>" for line in lines)
    return (
        f"<h2>Equations</h2>{_WITH_ERRORS if known else ''}<div class='equations'>{shown}</div>"
        f"<p>{escape(_verdict(page.model.field_.fit_info))}</p>"
    )


def _uncertain(page: _Page, caught: Sequence[warnings.WarningMessage]) -> str:
    """What a reader should not rely on: terms, assumptions, gaps of the data, warnings."""
    info = page.model.field_.fit_info
    facts = info.inference
    items = [f"The field does not describe the data: {problem}." for problem in info.problems]
    errors = page.field.standard_errors
    if errors is None:
        items.append("The coefficients have no standard errors: how far they can be trusted is not known.")
    else:
        unsure, terms = _unsure(page.field, errors)
        items.append(
            f"{unsure} of {terms} coefficients have a standard error above half their value; the data "
            "leave their size, or their sign, open."
            if unsure
            else f"Each of the {terms} coefficients has a standard error below half its value."
        )
    if facts.undetermined:
        items.append(f"The data do not determine: {'; '.join(map(str, facts.undetermined))}.")
    if facts.outliers:
        verb = "was" if facts.outliers == 1 else "were"
        items.append(f"{counted(facts.outliers, 'sample')} {verb} left out as outliers.")
    if facts.positions:
        items.append(f"Only {', '.join(facts.positions)} were measured; the other states are their slopes.")
    items += [f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in facts.notes]
    if page.inputs:
        which = ", the means" if page.means else ""
        held = f"constant inputs{which} {inputs_as_text(page.inputs)}"
        items.append(f"Portrait, fixed points and cycles are those under {held}.")
    if info.noise_level is not None:
        levels = np.broadcast_to(info.noise_level, page.field.dim)
        shown = ", ".join(
            f"{name} {level:.3g}" for name, level in zip(page.field.state_names, levels, strict=True)
        )
        items.append(f"Estimated standard deviation of the observation noise: {shown}.")
    items += dict.fromkeys(f"{w.category.__name__}: {w.message}" for w in caught)
    return f"<h2>What is uncertain</h2><ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"


def _unsure(field: VectorField, errors: np.ndarray) -> tuple[int, int]:
    """How many coefficients have large standard errors, and how many there are."""
    values = getattr(field, "coefficients", None)
    values = np.asarray(
        values if values is not None else list(getattr(field, "parameters", {}).values()), dtype=float
    )
    sizes = np.abs(values)
    if sizes.shape != np.shape(errors):
        return 0, int(np.sum(np.asarray(errors) > 0))
    kept = sizes > 0
    return int(np.sum(np.asarray(errors)[kept] > _NOT_SURE * sizes[kept])), int(kept.sum())


def _data(page: _Page) -> str:
    data = page.data
    rows = []
    for i, name in enumerate(data.state_names):
        x = data.x[..., i]
        seen = np.isfinite(x)
        missing = int(np.sum(data.n_obs) - seen.sum())
        rows.append([name, data.units.get(name, ""), int(seen.sum()), missing, x[seen].min(), x[seen].max()])
    spans = [t[-1] - t[0] for t, _ in data.arrays()]
    count = len(data)
    text = (
        f"{counted(count, 'trajectory', 'trajectories')}, {counted(int(data.n_obs.sum()), 'sample')}, "
        f"time spans from {min(spans):.5g} to {max(spans):.5g} {data.units.get('t', '')}"
    )
    table = _table(["state", "unit", "observed", "missing", "smallest", "largest"], rows)
    picture = _picture(plot.time_series(page.data), "Observations against time, one panel for each state")
    return f"<h2>Data</h2><p>{escape(text)}</p>{table}{picture}"


def _fit(page: _Page) -> str:
    if isinstance(page.model, EstimatedModel) and page.model.sees_otherwise:
        return _fitted(page.model)
    start, where = _starts(page)
    times = [_dense_times(t[t >= t0]) for (t, _), t0 in zip(page.data.arrays(), where, strict=True)]
    simulated = _simulated(page, start, times)
    rows = []
    for k, ((t, x), (t_sim, x_sim)) in enumerate(zip(page.data.arrays(), simulated.arrays(), strict=True)):
        status = Status(simulated.status[k]).name.lower().replace("_", " ")
        rows.append([k, len(t), _agreement(t, x, t_sim, x_sim), status, simulated.t_stop[k]])
    table = _table(["trajectory", "samples", "R²", "simulation", "until"], rows)
    drawing = plot.time_series(page.data, simulated, field=page.field)
    caption = "Observations, and the inferred field simulated from the start of each trajectory"
    return (
        "<h2>Fit</h2><p>The inferred field, simulated from the estimated initial state of each trajectory "
        "(from its first complete observation where the model estimates none).</p>"
        f"{table}{_picture(drawing, caption)}"
    )


def _fitted(model: EstimatedModel) -> str:
    """The fit of columns that are no states, or lack hidden ones, and of records with doses or events."""
    data, fitted = model.context_, model.fitted_columns()
    rows = []
    for k, ((t, x), (_, y)) in enumerate(zip(data.arrays(), fitted.arrays(), strict=True)):
        both = np.isfinite(x) & np.isfinite(y)  # columns may be measured at times of their own
        scores = [
            r2_score(x[rows_of, i, None], y[rows_of, i, None])
            for i, rows_of in enumerate(both.T)
            if rows_of.any()
        ]
        rows.append([k, len(t), np.mean(scores) if scores else np.nan])
    table = _table(["trajectory", "samples", "R²"], rows)
    drawing = plot.time_series(data, fitted)
    return (
        "<h2>Fit</h2><p>What the equations make of the observed columns at the samples, with inputs, doses "
        f"and events.</p>{table}{_picture(drawing, 'Observations, and the fit at the samples')}"
    )


def _simulated(page: _Page, start: np.ndarray, times: Sequence[np.ndarray]) -> Trajectories:
    """Paths of the field, under the measured inputs where there are any."""
    if not page.inputs:
        return simulate(page.field, start, times)
    paths = []
    for k, (x0, t) in enumerate(zip(start, times, strict=True)):
        seen, u = page.data.arrays()[k][0], page.data.input_arrays()[k]
        held = np.stack([np.interp(t, seen, column) for column in u.T], axis=1)
        paths.append(page.model.simulate(x0, t, u=held))
    reached = [np.isfinite(x).all(axis=1) for x in paths]
    coords = {
        "status": np.array(
            [int(Status.SUCCESS if r.all() else Status.NON_FINITE) for r in reached], dtype=np.int8
        ),
        "t_stop": np.array([t[r][-1] if r.any() else t[0] for t, r in zip(times, reached, strict=True)]),
    }
    return Trajectories.from_arrays(paths, list(times), state_names=page.field.state_names, coords=coords)


def _verdict(info: FitInfo) -> str:
    """How well the field fits, and why it does not where that is so."""
    text = f"Against the data: {info.summary()}."
    if info.problems:
        text += f" The field does not describe the data: {'; '.join(info.problems)}."
    return text


def _starts(page: _Page) -> tuple[np.ndarray, np.ndarray]:
    """Initial states ``(K, d)`` and their times ``(K,)``."""
    estimated = page.model.field_.fit_info.initial_states
    pairs = page.data.arrays()
    if estimated is not None and np.shape(estimated) == (len(pairs), page.field.dim):
        return np.asarray(estimated), np.array([t[0] for t, _ in pairs])
    first = [np.flatnonzero(np.isfinite(x).all(axis=1)) for _, x in pairs]
    if not all(map(len, first)):
        short = [k for k, rows in enumerate(first) if not len(rows)]
        raise ValueError(
            f"write_report: expected a complete observation in each trajectory to start from, got none in "
            f"{short}; leave these out."
        )
    return (
        np.array([x[rows[0]] for (_, x), rows in zip(pairs, first, strict=True)]),
        np.array([t[rows[0]] for (t, _), rows in zip(pairs, first, strict=True)]),
    )


def _dense_times(t: np.ndarray) -> np.ndarray:
    """The observed times, and enough between them for a smooth curve."""
    return np.union1d(t, np.linspace(t[0], t[-1], _SMOOTH)) if len(t) > 1 else t


def _agreement(t: np.ndarray, x: np.ndarray, t_sim: np.ndarray, x_sim: np.ndarray) -> float:
    """R² of a simulation at the complete observations; NaN where it did not reach them all."""
    rows = np.isfinite(x).all(axis=1) & np.isin(t, t_sim)
    return r2_score(x[rows], x_sim[np.searchsorted(t_sim, t[rows])])


def _dynamics(page: _Page) -> str:
    field, region = page.field, page.region
    points = fixed_points(field, region)
    cycles = limit_cycles(field, region) if field.dim > 1 else None
    planar = [nullclines(field, region), manifolds(field, region, points)] if field.dim == 2 else []
    results = [*planar, points, *([cycles] if cycles is not None else [])]
    portrait = _picture(plot.phase_portrait(field, *results, region=region), "Phase portrait")
    caution = (
        "<p class='note'>Hatched: extrapolation. No observation is near, and no posterior knows the field "
        "there (support below 0.5). Support does not say whether the model is right: for that compare it "
        "with the data below.</p>"
    )
    link = ""
    if page.explorer is not None:
        address = quote(page.explorer.replace(os.sep, "/"))
        link = f'<p><a href="{escape(address)}">Interactive explorer</a>: trajectories from anywhere.</p>'
    turning = "" if field.dim < 3 else turnable(field, results, region=region, data=field.context)
    text = f"<h2>Portrait</h2>{caution}{link}{portrait}{turning}<h2>Fixed points</h2>{_result(points)}"
    if len(points):
        text += _picture(plot.spectrum(points), "Eigenvalues of the fixed points")
    if cycles is not None:
        text += f"<h2>Cycles</h2>{_result(cycles)}"
    if cycles is not None and len(cycles):
        text += _picture(plot.spectrum(cycles), "Floquet multipliers of the cycles")
    return text


# ---------------------------------------------------------------------- HTML


def _document(title: str, body: str) -> str:
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _picture(drawing: Drawing, caption: str) -> str:
    encoded = base64.b64encode(drawing.png()).decode("ascii")
    drawing.close()
    alt = escape(caption, quote=True)
    return f'<figure><img alt="{alt}" src="data:image/png;base64,{encoded}"></figure>'


def _result(result: Result) -> str:
    return f'<div class="wide">{result._repr_html_()}</div>'


def _table(columns: Sequence[str], rows: Sequence[Sequence]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell(v))}</td>' for v in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _facts(rows: Mapping) -> str:
    body = "".join(
        f"<tr><th>{escape(str(name))}</th><td>{_value(value)}</td></tr>" for name, value in rows.items()
    )
    return f'<div class="wide"><table class="facts">{body}</table></div>'


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return escape(", ".join(f"{name} {part}" for name, part in value.items())) or "-"
    return escape("-" if value is None else str(value))
