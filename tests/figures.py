"""Generated tables of README and docs, each from a committed table of the benchmarks.

A page holds the place of a table between two comments, ``<!-- generated: NAME -->`` and ``<!-- end -->``.
``python -m tests.figures`` writes the tables as the committed results have them today;
`tests/test_figures.py` fails where a page holds others. Numbers in prose are few: a figure belongs into a
generated table, or into a test beside those of README.
"""

import itertools
import re
import tomllib
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pandas as pd

from benchmarks.comparators import tables
from benchmarks.mocap import __main__ as mocap
from benchmarks.oscillators import __main__ as oscillators
from benchmarks.oscillators import contexts
from benchmarks.polynomials import __main__ as polynomials
from benchmarks.report import read_tables
from benchmarks.sparse import __main__ as sparse
from benchmarks.structure.contexts import CURVES
from tests.pages import DOCS, ROOT
from tests.versions import freshness, table

TASKS = ("reconstruction", "generalisation")
SETTINGS = ((0.0, 0.0), (0.05, 0.0), (0.05, 0.5))  # of ODEBench: noise, share of samples dropped
Lines = list[list[str]]  # a table: its head, then its rows

_PLACE = re.compile(r"(<!-- generated: ([^>]*) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


# --- committed tables ---


def rows(path: str, **values: object) -> pd.DataFrame:
    """The rows of a table that have these values, of which there is at least one."""
    found = table(path)
    found = found[np.logical_and.reduce([found[column] == value for column, value in values.items()])]
    assert len(found), f"{path} has no row with {values}"
    return found


def results(benchmark: str, name: str = "summary") -> str:
    return f"benchmarks/{benchmark}/results/{name}.csv"


def cell(column: str, model: str, setting: tuple[float, float], task: str) -> float:
    """A cell of the summary of ODEBench, of all systems together."""
    sigma, rho = setting
    where = {"protocol": "paper", "group": "all", "model": model, "sigma": sigma, "rho": rho, "task": task}
    name = "neural/summary" if model == "fim-ode-neural" else "summary"
    return float(rows(results("odebench", name), **where)[column].item())


def success(model: str) -> list[str]:
    """Percent of trials with R2 > 0.9 in each setting, reconstruction / generalisation."""
    both = [[cell("percent_r2_090", model, s, task) for task in TASKS] for s in SETTINGS]
    return [" / ".join(f"{value:.1f}" for value in pair) for pair in both]


def cpu_seconds(model: str) -> str:
    """Median CPU-seconds of a fit, without noise and with noise of 5 %."""
    both = [cell("infer_seconds_median", model, s, TASKS[0]) for s in SETTINGS[:2]]
    return " / ".join(f"{value:.2g} s" for value in both)


@cache
def published() -> dict:
    return tomllib.loads((ROOT / "benchmarks/odebench/published.toml").read_text(encoding="utf-8"))


def published_success(model: str) -> list[str]:
    """The same percentages as printed in the FIM-ODE paper."""
    settings = [tuple(setting) for setting in published()["settings"]]
    percent = {
        entry["task"]: dict(zip(settings, entry["values"], strict=True))
        for entry in published()["percent"]
        if (entry["model"], entry["group"], entry["threshold"]) == (model, "all", 0.9)
    }
    return [" / ".join(f"{percent[task][setting]:.1f}" for task in TASKS) for setting in SETTINGS]


# --- tables of pages ---


def readme() -> Lines:
    head = ["", "noise-free", "5 % noise", "5 % noise, half the samples", "CPU time"]
    ours = [[f"`{name}`", *success(name), cpu_seconds(name)] for name in ("auto", "fim-ode", "sindy-strong")]
    return [head, *ours, ["FIM-ODE (paper)", *published_success("FIM-ODE (paper)"), ""]]


def odebench() -> Lines:
    """All rows of ODEBench in the three settings of the FIM-ODE paper."""
    names = {
        "auto": "`auto`",
        "fim-ode": "`fim-ode`",
        "sindy-strong": "`sindy-strong`",
        "sindy": "`sindy` (pysindy's defaults)",
        "fim-ode:refine=False": "`fim-ode`, one pass (`refine=False`)",
        "truth-fit": "`truth-fit` (equations known, constants fitted)",
    }
    lines = [["model (noise, dropped)", "(0, 0)", "(0.05, 0)", "(0.05, 0.5)", "CPU time"]]
    lines += [[label, *success(model), cpu_seconds(model)] for model, label in names.items()]
    return lines + [[name, *published_success(name), ""] for name in ("FIM-ODE (paper)", "ODEFormer (paper)")]


def inputs() -> Lines:
    path, lines = results("inputs"), [["inputs", "model", "noise-free", "2 % noise", "5 % noise"]]
    for kind, model in table(path)[["kind", "model"]].drop_duplicates().itertuples(index=False):
        percent = [rows(path, kind=kind, model=model, sigma=s).percent.item() for s in (0.0, 0.02, 0.05)]
        lines.append([kind, f"`{model}`", *(f"{value:.1f}" for value in percent)])
    return lines


def knowledge() -> Lines:
    """Generalisation of each model without and with one fact given."""
    groups = {"all": "all", "strict=ID": "polynomials of degree 3", "strict=OOD": "others"}
    lines = [["model", *groups.values()]]
    for name in ("sindy-strong", "fim-ode", "auto"):
        where = [{"group": group, "task": TASKS[1]} for group in groups]
        both = [
            [
                rows(results("knowledge"), model=m, **w).percent_r2_090.item()
                for m in (name, f"{name}, constrained")
            ]
            for w in where
        ]
        lines.append([f"`{name}`", *(f"{plain:.1f} to {known:.1f}" for plain, known in both)])
    return lines


def mdbench() -> Lines:
    levels = {"clean": "noise-free", "40": "40 dB", "30": "30 dB", "20": "20 dB", "10": "10 dB"}
    lines = [["model", *levels.values()]]
    for model in ("auto", "fim-ode", "sindy-strong", "sindy, best of its grid", "operon"):
        own = rows(results("mdbench"), model=model).set_index("level")["nmse_clean_median"]
        lines.append([f"`{model}`", *(f"{own[level]:.2g}" for level in levels)])
    return lines


def structure(curve: str, unit: str) -> Callable[[], Lines]:
    """Percent of fields with exactly the true terms against noise, points or trajectories."""
    place = list(CURVES).index(curve)

    def lines() -> Lines:
        known = rows(results("structure"), split="all")
        found = [[f"model, by {unit}", *(f"{setting[place]:g}" for setting in CURVES[curve])]]
        for model in ("auto", "fim-ode", "sindy-strong", "sindy"):
            own = known[known.model == model].set_index(["sigma", "points", "trajectories"]).percent_exact
            found.append([f"`{model}`", *(f"{own[setting]:.1f}" for setting in CURVES[curve])])
        return found

    return lines


def coverage() -> Lines:
    """Share of the truth inside the 90 % bands, by table of the calibration benchmark."""
    lines = [["90 % intervals of", "`fim-ode`", "`auto`"]]
    points, cycles = results("calibration", "points_summary"), results("calibration", "cycles_summary")
    kinds = (
        ("positions of fixed points", points, "position"),
        ("eigenvalues of fixed points", points, "eigenvalue"),
        ("periods of limit cycles", cycles, "period"),
    )
    for label, path, column in kinds:
        shares = [100 * rows(path, group="all", model=m)[column].item() for m in ("fim-ode", "auto")]
        lines.append([label, *(f"{share:.1f} %" for share in shares)])
    ahead = table(results("calibration", "forecasts"))
    for source, label in (
        ("development", "forecasts, development systems"),
        ("odebench", "forecasts, ODEBench"),
    ):
        own = ahead[ahead.source == source].groupby("model").cover90.mean()
        lines.append([label, *(f"{100 * own[m]:.1f} %" for m in ("fim-ode", "auto"))])
    return lines


def trust() -> Lines:
    """How often fits, and their paths from another start, are wrong at each level of trust."""
    lines, summary = [["", "trust", "`fim-ode`", "`auto`"]], results("records", "trust_summary")
    for of, level in itertools.product(("trust", "trust_along"), ("high", "limited", "low")):
        own = [rows(summary, draw=1, of=of, level=level, model=m) for m in ("fim-ode", "auto")]
        shares = (f"{line.percent_wrong.item():.0f} % of {line.n.item()}" for line in own)
        lines.append(["wrong fits" if of == "trust" else "wrong paths", level, *shares])
    return lines


def textbook() -> Lines:
    """Exact answers to noise-free textbook systems by the number of samples, and what a fit costs."""
    path, seconds = results("records", "textbook_summary"), "CPU-s, median (largest)"
    lines = [["samples", "`fim-ode`, exact", seconds, "`auto`, exact", seconds]]
    for n in dict.fromkeys(table(path).n):
        lines.append([f"{n:,}"])
        for model in ("fim-ode", "auto"):
            own, careful = rows(path, n=n, model=model), rows(path, n=n, model=model, rtol=1e-12)
            cost = f"{careful.seconds_median.item():.2f} ({careful.seconds_largest.item():.2f})"
            lines[-1] += [f"{own.exact.sum()} of {own.records.sum()}", cost]
    return lines


def paper_odebench() -> Lines:
    head = ["", "(0, 0)", "(0.05, 0)", "(0.05, 0.5)", "CPU time, without simulation"]
    own = ["`fim-ode-neural`", *success("fim-ode-neural"), cpu_seconds("fim-ode-neural")]
    return [head, own, ["FIM-ODE (paper)", *published_success("FIM-ODE (paper)"), ""]]


def _study(degree: int, noise: float) -> Callable[[], Lines]:
    return lambda: polynomials.study_lines(_studied(), degree, noise)


def _studied(part: str | None = None) -> pd.DataFrame:
    found = table(results("polynomials"))
    return found[found.part == part] if part else found


def _captured() -> Lines:
    (found,) = read_tables([ROOT / "benchmarks/mocap/results"], "trials")
    return mocap.lines_of(found, "raw")


def _oscillators(targets: str) -> Callable[[], Lines]:
    return lambda: oscillators.lines_of(table(results("oscillators")), targets)


def speed(first: str) -> Callable[[], Lines]:
    """Rows of the speed table whose quantity begins like this."""

    def lines() -> Lines:
        found = table(results("speed", "speed")).fillna("")
        found = found[found.quantity.str.startswith(first)]
        cells = [
            [row.quantity.removeprefix("peers, "), f"{row.value:.3g} {row.unit}", row.note]
            for row in found.itertuples()
        ]
        return [["quantity", "value", "conditions"], *cells]

    return lines


TABLES: dict[str, Callable[[], Sequence[Sequence[str]]]] = {
    "readme": readme,
    "freshness": freshness,
    "odebench": odebench,
    "inputs": inputs,
    "knowledge": knowledge,
    "mdbench": mdbench,
    "structure, noise": structure("noise", "relative noise"),
    "structure, points": structure("points", "points"),
    "structure, trajectories": structure("trajectories", "trajectories"),
    "coverage": coverage,
    "trust": trust,
    "textbook": textbook,
    "comparison, oscillators": lambda: tables.oscillator_lines(table(results("comparators"))),
    "comparison, odebench": lambda: tables.odebench_lines(table(results("comparators"))),
    "paper, odebench": paper_odebench,
    "oscillators": _oscillators("clean"),
    "first": _oscillators("clean, first observation"),
    "fitted": _oscillators("clean, fitted"),
    "fine-tuning": lambda: oscillators.tuning_lines(table(results("oscillators"))),
    "contexts": lambda: contexts.lines_of(table(results("oscillators", "contexts"))),
    "polynomials, degree 3, clean": _study(3, 0.0),
    "polynomials, degree 3, noisy": _study(3, 0.03),
    "polynomials, degree 6, clean": _study(6, 0.0),
    "polynomials, degree 6, noisy": _study(6, 0.03),
    "grid": lambda: polynomials.grid_lines(_studied("grid")),
    "sparse": lambda: sparse.lines_of(table(results("sparse")), 0.03),
    "motion capture": _captured,
    "speed, processes": speed("a process, "),
    "speed, peers": speed("peers, "),
}


def places(text: str) -> list[str]:
    """The names of the tables that a page asks for."""
    return [match[2] for match in _PLACE.finditer(text)]


def filled(text: str) -> str:
    """A page with its tables as the committed results have them."""
    return _PLACE.sub(lambda match: f"{match[1]}{tables.markdown(TABLES[match[2]]())}\n{match[4]}", text)


def main() -> None:
    """Write the tables into all pages."""
    for page in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        if filled(text) != text:
            page.write_text(filled(text), encoding="utf-8")
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
