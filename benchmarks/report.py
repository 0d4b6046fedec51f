"""From trial records to summary tables, paired differences, printed tables and the figure."""

import csv
import math
import subprocess
import tomllib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.harness.run import trial_columns

THRESHOLDS = (0.9, 0.8)
MSE_QUANTILES = (0.05, 0.5, 0.95)
BOOTSTRAP_DRAWS = 10_000
CONTRASTS = (("auto", "fim-ode"), ("auto", "sindy-strong"))
"""The comparisons that are corrected for their number, the first minus the second."""
REFERENCES = ("truth", "truth-fit", "oracle", "constant")
"""Rows that are no models."""
LIMIT_MISSED = 3
"""Exit status of a benchmark whose tables are written while a limit that it states is missed."""
_CELL = ["protocol", "sigma", "rho"]
_LABELS = ("system", "level", "model", "version", "message", "chosen")
"""Columns of text, though some of it looks like numbers."""


def tasks_of(columns: Iterable[str]) -> tuple[str, ...]:
    """Return the tasks whose outcomes are among the columns of a table of trials."""
    return tuple(name.removeprefix("status_") for name in columns if name.startswith("status_"))


def write_trials(records: Sequence[dict[str, Any]], path: Path) -> None:
    """Write one row per trial with the `trial_columns` of its tasks."""
    with path.open("w", newline="") as file:
        columns = trial_columns(tasks_of(records[0]))
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _text(value) for name, value in record.items()} for record in records)


def _text(value: Any) -> Any:
    return f"{value:.9g}" if isinstance(value, float) else value


def merge_trials(folders: Sequence[Path], out: Path) -> pd.DataFrame:
    """Write the trials of several output folders into ``out/trials.csv``, later ones in place of earlier.

    Raises
    ------
    ValueError
        If a model has trials of two versions then.
    """
    frames = [pd.read_csv(folder / "trials.csv", dtype=str, keep_default_na=False) for folder in folders]
    frame = joined(frames, (*_CELL, "seed", "system", "ic", "model"), order=())
    out.mkdir(parents=True, exist_ok=True)
    frame.reindex(columns=trial_columns(tasks_of(frame))).to_csv(
        out / "trials.csv", index=False, lineterminator="\n"
    )
    return read_trials(out / "trials.csv")


def read_tables(folders: Sequence[Path], name: str) -> list[pd.DataFrame]:
    """Return the tables of this name that folders hold; empty labels are the empty text."""
    paths = [path for folder in folders if (path := folder / f"{name}.csv").exists()]
    frames = [pd.read_csv(path, dtype=dict.fromkeys(_LABELS, str)) for path in paths]
    return [frame.fillna({label: "" for label in _LABELS if label in frame}) for frame in frames]


def with_commits(
    summary: pd.DataFrame, earlier: Sequence[pd.DataFrame], measured: Collection[str] = ()
) -> pd.DataFrame:
    """Return a summary whose lines name the commit that their trials are of.

    Parameters
    ----------
    summary : DataFrame
        With the commit of today in every line.
    earlier : sequence of DataFrame
        Summaries that were written before, the latest last.
    measured : collection of str
        Models of which trials were measured just now; lines of the others keep the commit that they had.
    """
    if not {"model", "version", "commit"} <= set(summary):
        return summary
    labels = ["model", "version", "commit"]
    known: dict[tuple[str, str], str] = {}
    for table in earlier:
        for model, version, commit in table.reindex(columns=labels).dropna().itertuples(index=False):
            known[model, version] = commit
    lines = zip(summary["model"], summary["version"], summary["commit"], strict=True)
    commits = [
        now if model in measured else known.get((model, version), now) for model, version, now in lines
    ]
    return summary.assign(commit=commits)


def joined(
    frames: Sequence[pd.DataFrame], by: Sequence[str] = ("model",), order: Sequence[str] = ("model",)
) -> pd.DataFrame:
    """Return the rows of all tables as one.

    Parameters
    ----------
    frames : sequence of DataFrame
        Later ones take the place of earlier ones.
    by : sequence of str
        Columns: rows go where a later table has any that agree in them.
    order : sequence of str
        Columns by whose values, in the order in which the tables name them, the rows of several are sorted;
        without any, rows follow one another as the tables do.

    Raises
    ------
    ValueError
        If a model has rows of two versions then.
    """
    result = frames[0]
    if len(frames) > 1:
        whole = pd.concat(frames, ignore_index=True)
        number = pd.Series(np.repeat(np.arange(len(frames)), [len(frame) for frame in frames]))
        last = number.groupby(whole.groupby([*by], sort=False, dropna=False).ngroup()).transform("max")
        places = [np.arange(len(whole)), *(pd.factorize(whole[name])[0] for name in order[::-1])]
        kept = [k for k in np.lexsort(places) if number[k] == last[k]]
        result = whole.loc[kept].reset_index(drop=True)
    versions = result.groupby("model")["version"].unique() if "version" in result else {}
    mixed = {name: list(own) for name, own in versions.items() if len(own) > 1}
    if mixed:
        raise ValueError(f"joined: expected one version of each model, got {mixed}; run the older again.")
    return result


def save(table: pd.DataFrame, path: Path, digits: int = 6) -> None:
    """Write a table as CSV with so many digits of each number."""
    table.to_csv(path, index=False, float_format=f"%.{digits}g", lineterminator="\n")


def to_frame(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return the records as a data frame."""
    columns = trial_columns(tasks_of(records[0] if records else ()))
    frame = pd.DataFrame(list(records), columns=[*columns, "message"])
    return frame.assign(structure=pd.to_numeric(frame["structure"]))


def read_trials(path: Path) -> pd.DataFrame:
    """Return what `to_frame` gave when `path` was written, without the messages of failures."""
    text = dict.fromkeys(("system", "version", "split_paper"), str)
    frame = pd.read_csv(path, dtype=text)
    frame = frame.reindex(columns=trial_columns(tasks_of(frame)))
    return frame.fillna({"split_paper": ""}).assign(message="")


def compare_terms(record: dict[str, Any], true: list[list[str]] | None) -> dict[str, Any]:
    """Return the record with ``structure``: whether exactly the true terms were found, empty if unknown."""
    if true is None or record["terms"] is None:
        return record
    return record | {"structure": int(record["terms"] == true)}


# ------------------------------------------------------------------------------------------- the summary


def groups(trials: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the parts of a benchmark that are reported on: all, by dimension, by either split, by both."""
    yield "all", trials
    for dim, part in trials.groupby("dim"):
        yield f"dim={dim}", part
    for split in ("strict", "paper"):
        labelled = trials[trials[f"split_{split}"] != ""]
        for label, part in labelled.groupby(f"split_{split}"):
            yield f"{split}={label}", part
        for (dim, label), part in labelled.groupby(["dim", f"split_{split}"]):
            yield f"dim={dim} {split}={label}", part


def summarise(trials: pd.DataFrame, integrator: str, commit: str = "") -> pd.DataFrame:
    """Summarise each model in each cell (protocol, sigma, rho), group and task.

    Percentages are of trials, a failure counting as R2 below every threshold; they are means over the
    noise seeds, and ``se_*`` is the standard error of that mean (empty with one seed). ``mse_q*`` count a
    prediction that is not finite as infinite, ``mse_finite_q*`` leave it out as the paper does. The row with
    empty ``sigma`` and ``rho`` pools all settings of a protocol, as the paper's MSE table does.
    ``percent_structure`` is of the ``n_structure`` trials of which it is known whether exactly the true terms
    were found.
    """
    rows, tasks = [], tasks_of(trials)
    for group, part in groups(trials):
        for (protocol, sigma, rho, model), cell in part.groupby([*_CELL, "model"], sort=False):
            rows += [_summary_row(cell, task, group, protocol, sigma, rho, model) for task in tasks]
        if trials[["sigma", "rho"]].drop_duplicates().shape[0] > 1:
            for (protocol, model), cell in part.groupby(["protocol", "model"], sort=False):
                rows += [_summary_row(cell, task, group, protocol, "", "", model) for task in tasks]
    return pd.DataFrame(rows).assign(integrator=integrator, commit=commit)


def _summary_row(
    cell: pd.DataFrame,
    task: str,
    group: str,
    protocol: str,
    sigma: float | str,
    rho: float | str,
    model: str,
) -> dict[str, Any]:
    seeds = sorted(cell["seed"].unique())
    row = {
        "protocol": protocol,
        "sigma": sigma,
        "rho": rho,
        "group": group,
        "task": task,
        "model": model,
        "version": cell["version"].iloc[0],
        "seeds": " ".join(str(seed) for seed in seeds),
        "n_trials": len(cell),
        "n_systems": cell["system"].nunique(),
    }
    for threshold in THRESHOLDS:
        success = 100.0 * (cell[f"r2_{task}"] > threshold)
        per_seed = success.groupby(cell["seed"]).mean()
        pooled = sigma == ""  # settings have different numbers of seeds: no standard error
        name = f"{round(100 * threshold):03d}"
        row[f"percent_r2_{name}"] = success.mean() if pooled else per_seed.mean()
        error = per_seed.std(ddof=1) / math.sqrt(len(per_seed))
        row[f"se_r2_{name}"] = math.nan if pooled else error
    mse = cell[f"mse_{task}"].to_numpy()
    finite = mse[np.isfinite(mse)]
    for quantile in MSE_QUANTILES:
        row[f"mse_q{round(100 * quantile):02d}"] = _quantile(mse, quantile)
    for quantile in MSE_QUANTILES:
        row[f"mse_finite_q{round(100 * quantile):02d}"] = _quantile(finite, quantile)
    row["not_finite"] = len(mse) - len(finite)
    row["percent_structure"] = 100.0 * cell["structure"].mean()
    row["n_structure"] = cell["structure"].count()
    row["infer_seconds_median"] = cell["infer_seconds"].median()
    row["infer_seconds_mean"] = cell["infer_seconds"].mean()
    row["infer_seconds_max"] = cell["infer_seconds"].max()
    row["simulate_seconds_mean"] = cell["simulate_seconds"].mean()
    return row


def _quantile(values: np.ndarray, q: float) -> float:
    """Return the linear-interpolation quantile where infinities may occur (numpy's gives NaN there)."""
    if len(values) == 0:
        return math.nan
    ordered = np.sort(values)
    position = q * (len(ordered) - 1)
    low, weight = math.floor(position), position - math.floor(position)
    if weight == 0:
        return float(ordered[low])
    step = ordered[low + 1] - ordered[low] if np.isfinite(ordered[low + 1]) else math.inf
    return float(ordered[low] + weight * step)


# ---------------------------------------------------------------------------------------- the differences


def differences(trials: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Compare models pairwise in each cell: a paired bootstrap over systems.

    The success (R2 > 0.9) of each model is averaged per system over the initial conditions and noise seeds
    that both models of a pair were given; systems are resampled with replacement, the same for both models.
    ``low`` and ``high`` are the 2.5 and 97.5 % quantiles of the difference in percentage points. In the
    groups beside "all" only `CONTRASTS` are compared. They alone have ``p``, two-sided: twice the smaller
    share of draws on either side of zero, zeros and the sample itself counting for both; and ``p_holm``,
    corrected over all contrasts, settings and tasks of a protocol and group.

    References
    ----------
    S. Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6 (1979) 65.
    """
    models = list(trials["model"].unique())
    contrasts = [pair for pair in CONTRASTS if set(pair) <= set(models)]
    others = [(a, b) for i, a in enumerate(models) for b in models[i + 1 :]]
    others = [pair for pair in others if pair not in contrasts and pair[::-1] not in contrasts]
    rows = []
    for group, part in groups(trials):
        pairs = contrasts + (others if group == "all" else [])
        for (protocol, sigma, rho), cell in part.groupby(_CELL, sort=False) if pairs else ():
            about = {"protocol": protocol, "sigma": sigma, "rho": rho, "group": group}
            for task in tasks_of(trials):
                rows += [about | {"task": task} | row for row in _differences(cell, task, pairs, seed)]
    frame = pd.DataFrame(rows, columns=[*_CELL, "group", "task", *_DIFFERENCE])
    return frame.assign(p_holm=frame.groupby(["protocol", "group"])["p"].transform(holm))


_DIFFERENCE = ["model", "minus", "difference", "low", "high", "n_systems", "p"]


def _differences(cell: pd.DataFrame, task: str, pairs: Sequence[tuple[str, str]], seed: int) -> list[dict]:
    success = 100.0 * (cell[f"r2_{task}"] > THRESHOLDS[0])
    table = (
        success.groupby([cell[name] for name in ("system", "ic", "seed", "model")]).mean().unstack("model")
    )
    rows = []
    for pair in pairs:
        if not set(pair) <= set(table.columns):
            continue
        gap = (table[pair[0]] - table[pair[1]]).dropna().groupby("system").mean().to_numpy()
        n = len(gap)
        if not n:
            continue
        weights = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), BOOTSTRAP_DRAWS) / n
        draws = weights @ gap
        p = math.nan
        if pair in CONTRASTS:
            tiny = 1e-9  # points; differences are multiples of 100 / trials, up to rounding
            sides = [(1 + np.sum(side * draws <= tiny)) / (1 + BOOTSTRAP_DRAWS) for side in (1, -1)]
            p = min(1.0, 2 * min(sides))
        values = (*pair, gap.mean(), *np.quantile(draws, [0.025, 0.975]), n, p)
        rows.append(dict(zip(_DIFFERENCE, values, strict=True)))
    return rows


def holm(p: pd.Series) -> pd.Series:
    """Return the p-values corrected by Holm's procedure over those that are not NaN."""
    ordered = p.dropna().sort_values()
    return (ordered * np.arange(len(ordered), 0, -1)).cummax().clip(upper=1.0).reindex(p.index)


# ------------------------------------------------------------------------------------- published figures


@dataclass(frozen=True)
class Published:
    """Percentages from the literature, to print beside ours."""

    citation: str
    settings: tuple[tuple[float, float], ...]
    models: tuple[str, ...]
    entries: tuple[dict[str, Any], ...]
    mse: tuple[dict[str, Any], ...] = ()

    @classmethod
    def read(cls, path: Path) -> "Published":
        """Read a TOML file of published rows."""
        with path.open("rb") as file:
            content = tomllib.load(file)
        settings = tuple((float(sigma), float(rho)) for sigma, rho in content["settings"])
        entries, mse = tuple(content["percent"]), tuple(content.get("mse", ()))
        return cls(content["citation"], settings, tuple(content["models"]), entries, mse)

    def percent(
        self, model: str, task: str, sigma: float, rho: float, group: str = "all", threshold: float = 0.9
    ) -> float:
        """Return one published percentage, NaN where none was published."""
        wanted = {"model": model, "task": task, "group": group, "threshold": threshold}
        for entry in self.entries:
            if (sigma, rho) in self.settings and all(entry[name] == value for name, value in wanted.items()):
                return float(entry["values"][self.settings.index((sigma, rho))])
        return math.nan


# --------------------------------------------------------------------------------------------- printing


def format_tables(
    summary: pd.DataFrame,
    gaps: pd.DataFrame,
    trials: pd.DataFrame,
    published: Published | None = None,
    detailed: bool = False,
) -> str:
    """Return the printed report; the detailed one adds a table for each part of the benchmark and the MSE."""
    parts = []
    for protocol, part in summary[summary["sigma"] != ""].groupby("protocol", sort=False):
        beside = published if protocol == "paper" else None
        for threshold in THRESHOLDS:
            parts.append(_percent_table(part, protocol, threshold, "all", beside))
        split = [group for group in part["group"].unique() if group != "all"]
        for group in split if detailed else ("strict=ID", "strict=OOD"):
            parts.append(_percent_table(part, protocol, THRESHOLDS[0], group, beside))
        parts.append(_structure_table(part, protocol))
        parts.append(_cost_table(part, protocol))
        for group, rows in gaps[gaps["protocol"] == protocol].groupby("group", sort=False):
            if detailed or group in ("all", "strict=ID", "strict=OOD"):
                parts.append(_gap_table(rows, protocol, group))
    if detailed:
        parts += [_mse_table(part, published) for _, part in summary.groupby("protocol", sort=False)]
    parts.append(_failures(trials))
    if published is not None:
        parts.append(f"Published rows: {published.citation}.")
    parts.append(f"Integrator: {summary['integrator'].iloc[0]}")
    return "\n\n".join(text for text in parts if text)


_GROUP_NAMES = {
    "all": "all systems",
    "strict=ID": "polynomial systems of degree <= 3",
    "strict=OOD": "all other systems",
}


def _percent_table(
    part: pd.DataFrame, protocol: str, threshold: float, group: str, published: Published | None
) -> str:
    part = part[part["group"] == group]
    if part.empty:
        return ""
    column = f"{round(100 * threshold):03d}"
    cells = list(dict.fromkeys(zip(part["sigma"], part["rho"], strict=True)))
    tasks = list(part["task"].unique())
    lines = [["model", "version", *(f"({sigma:g}, {rho:g})" for sigma, rho in cells)]]
    for model, own in part.groupby("model", sort=False):
        indexed = own.set_index(["sigma", "rho", "task"])
        line = [model, str(own["version"].iloc[0])]
        for cell in cells:
            if (*cell, tasks[0]) not in indexed.index:
                line.append("-")
                continue
            values = [indexed.loc[(*cell, task), f"percent_r2_{column}"] for task in tasks]
            errors = [indexed.loc[(*cell, task), f"se_r2_{column}"] for task in tasks]
            line.append(" / ".join(_with_error(v, e) for v, e in zip(values, errors, strict=True)))
        lines.append(line)
    for model in published.models if published else ():
        values = [
            [published.percent(model, task, *cell, group, threshold) for task in tasks] for cell in cells
        ]
        if np.isfinite(values).any():
            lines.append(
                [model, "", *(" / ".join(_with_error(v, math.nan) for v in pair) for pair in values)]
            )
    name = f"{_GROUP_NAMES.get(group, group)} (n = {part['n_systems'].max()})"
    title = (
        f"Percent of trials with R2 > {threshold:g}, {' / '.join(tasks)}, {name}, "
        f"protocol {protocol}; columns (sigma, rho)"
    )
    return title + "\n" + align(lines)


def _with_error(value: float, error: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.1f}" if math.isnan(error) else f"{value:.1f}±{error:.1f}"


def _mse_table(part: pd.DataFrame, published: Published | None) -> str:
    part = part[(part["sigma"] == "") & part["group"].str.fullmatch(r"dim=\d")]
    if part.empty:
        return ""
    protocol = part["protocol"].iloc[0]
    names = [f"q{round(100 * q):02d}" for q in MSE_QUANTILES]
    lines = [["systems", "task", "model", "5 %, 50 %, 95 %", "finite ones only", "not finite"]]
    for (group, task), rows in part.groupby(["group", "task"], sort=False):
        for _, row in rows.iterrows():
            cells = [", ".join(f"{row[kind + q]:.3g}" for q in names) for kind in ("mse_", "mse_finite_")]
            lines.append([group, task, row["model"], *cells, str(row["not_finite"])])
        for entry in published.mse if published and protocol == "paper" else ():
            if (entry["group"], entry["task"]) == (group, task):
                values = ", ".join(f"{value:.3g}" for value in entry["values"])
                lines.append([group, task, entry["model"], "", values, ""])
    return f"Quantiles of the MSE, settings pooled, protocol {protocol}\n" + align(lines)


def _cost_table(part: pd.DataFrame, protocol: str) -> str:
    own = part[(part["group"] == "all") & (part["task"] == part["task"].iloc[0])]
    lines = [["model", "infer median", "infer mean", "infer max", "simulate mean"]]
    for model, rows in own.groupby("model", sort=False):
        seconds = [rows[f"infer_seconds_{name}"].mean() for name in ("median", "mean")]
        seconds += [rows["infer_seconds_max"].max(), rows["simulate_seconds_mean"].mean()]
        lines.append([model, *(f"{value:.4f}" for value in seconds)])
    return f"CPU seconds per trial (max: imports of the first call), protocol {protocol}\n" + align(lines)


def _structure_table(part: pd.DataFrame, protocol: str) -> str:
    own = part[(part["group"] == "all") & (part["task"] == part["task"].iloc[0]) & (part["n_structure"] > 0)]
    if own.empty:
        return ""
    cells = list(dict.fromkeys(zip(own["sigma"], own["rho"], strict=True)))
    lines = [["model", *(f"({sigma:g}, {rho:g})" for sigma, rho in cells)]]
    for model, rows in own.groupby("model", sort=False):
        known = zip(rows["percent_structure"], rows["n_structure"], strict=True)
        found = dict(zip(zip(rows["sigma"], rows["rho"], strict=True), known, strict=True))
        lines.append([model, *("{:.1f} of {}".format(*found[c]) if c in found else "-" for c in cells)])
    title = "Percent of trials with exactly the true monomials, polynomial systems of degree <= 3"
    return f"{title}, protocol {protocol}; columns (sigma, rho)\n" + align(lines)


def _gap_table(gaps: pd.DataFrame, protocol: str, group: str) -> str:
    gaps = gaps[~gaps["model"].isin(["truth", "constant"]) & ~gaps["minus"].isin(["truth", "constant"])]
    if gaps.empty:
        return ""
    cells = list(dict.fromkeys(zip(gaps["sigma"], gaps["rho"], strict=True)))
    lines = [["difference", "task", *(f"({sigma:g}, {rho:g})" for sigma, rho in cells)]]
    for (a, b, task), rows in gaps.groupby(["model", "minus", "task"], sort=False):
        values = rows[["difference", "low", "high", "p_holm"]].itertuples(index=False)
        known = dict(zip(zip(rows["sigma"], rows["rho"], strict=True), values, strict=True))
        lines.append([f"{a} - {b}", task, *(_difference(*known[c]) if c in known else "-" for c in cells)])
    title = f"Differences in points, R2 > {THRESHOLDS[0]:g}, 95 % of a paired bootstrap over systems"
    corrected = int(gaps["p"].count())
    holm_note = f" (p: two-sided, Holm over its {corrected} comparisons)" if corrected else ""
    name = f"{_GROUP_NAMES.get(group, group)} (n = {gaps['n_systems'].max()})"
    return f"{title}{holm_note}, {name}, protocol {protocol}\n" + align(lines)


def _difference(value: float, low: float, high: float, p: float) -> str:
    return f"{value:+.1f} [{low:+.1f}, {high:+.1f}]" + ("" if math.isnan(p) else f" p={p:.2g}")


def _failures(trials: pd.DataFrame) -> str:
    lines = [["model", "task", "status", "trials", "first system", "message"]]
    for task in tasks_of(trials):
        failed = trials[trials[f"status_{task}"] != "SUCCESS"]
        for (model, status), rows in failed.groupby(["model", f"status_{task}"], sort=False):
            first = rows.iloc[0]
            lines.append([model, task, status, str(len(rows)), str(first["system"]), first["message"][:60]])
    return "Failures (they count as such)\n" + align(lines) if len(lines) > 1 else ""


def align(lines: Sequence[Sequence[str]]) -> str:
    """Return lines of cells as text with aligned columns."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )


# --------------------------------------------------------------------------------------------- the figure


def draw(summary: pd.DataFrame, path: Path, title: str, published: Published | None = None) -> None:
    """Draw the percentages with R2 > 0.9 by setting: one panel per protocol and task."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    part = summary[(summary["sigma"] != "") & (summary["group"] == "all")]
    protocols, tasks = list(part["protocol"].unique()), list(part["task"].unique())
    cells = list(dict.fromkeys(zip(part["sigma"], part["rho"], strict=True)))
    figure = Figure(figsize=(5 + 1.6 * len(cells), 0.8 + 3 * len(protocols)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(protocols), len(tasks), squeeze=False, sharey=True, sharex=True)
    for row, protocol in zip(axes, protocols, strict=True):
        for axis, task in zip(row, tasks, strict=True):
            own = part[(part["protocol"] == protocol) & (part["task"] == task)]
            _panel(axis, own, cells, published if protocol == "paper" else None, task)
            axis.set_title(f"{task}, protocol {protocol}", fontsize=10)
        row[0].set_ylabel("% of trials with R² > 0.9")
    handles = {
        label: handle for a in axes.flat for handle, label in zip(*a.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside right center", fontsize=8, frameon=False)
    figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=140)


def _panel(axis: Any, own: pd.DataFrame, cells: list, published: Published | None, task: str) -> None:
    models = list(own["model"].unique())
    names = models + (list(published.models) if published else [])
    offsets = np.linspace(-0.3, 0.3, len(names)) if len(names) > 1 else np.zeros(1)
    for number, (name, offset) in enumerate(zip(names, offsets, strict=True)):
        if name in models:
            rows = own[own["model"] == name].set_index(["sigma", "rho"]).reindex(cells)
            values, errors = rows["percent_r2_090"].to_numpy(), rows["se_r2_090"].to_numpy()
            style = {"marker": "o", "color": f"C{number}"}
        else:
            values = np.array([published.percent(name, task, *cell) for cell in cells])
            errors = np.full(len(cells), math.nan)
            style = {"marker": "D", "color": "0.35", "markerfacecolor": "none" if "ODEF" in name else "0.35"}
        x = np.arange(len(cells)) + offset
        axis.errorbar(x, values, yerr=errors, linestyle="none", markersize=5, label=name, **style)
    axis.set_xticks(
        np.arange(len(cells)), [f"noise {sigma:g}\ndropped {rho:g}" for sigma, rho in cells], fontsize=8
    )
    axis.set_ylim(-3, 103)
    axis.grid(axis="y", alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)


def source_commit(folder: Path) -> str:
    """Return the short commit of the checkout that `folder` lies in, with ``+`` where code differs, or "".

    Tables may differ: one run writes many, and those that come first are no reason to doubt the others.
    """
    try:
        commit = _git(folder, "rev-parse", "--short=10", "HEAD")
        code = [":/", ":(top,exclude)benchmarks/*/results/*", ":(top,exclude)benchmarks/results-state.json"]
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", *code)
        return commit + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
