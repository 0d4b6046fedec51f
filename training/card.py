"""Write the model cards of the shipped weights: python -m training.card.

Every figure is read: from the weights file and its header, from training/log, and from the committed
results of the benchmarks, which must be of these weights; the prose is in training/cards. The texts go
beside the weights, where `model.card()` reads them, and to docs. Equal data give equal text.
"""

import argparse
import hashlib
import json
import re
import string
import tomllib
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from fim_dynsys.models.fim_ode.card import title
from fim_dynsys.models.fim_ode.configuration import LARGEST_DIM
from fim_dynsys.models.fim_ode.neural import NeuralFIMODE
from fim_dynsys.models.fim_ode.own import FIMODE, MIN_OBSERVATIONS
from fim_dynsys.models.fim_ode.weights import (
    CALIBRATION,
    MANY,
    SHIPPED,
    part_of,
    read_weights,
    shipped,
)
from training.evaluate import THRESHOLD

ROOT = Path(__file__).parents[1]
BENCHMARKS, LOG = ROOT / "benchmarks", ROOT / "training" / "log"
TEMPLATES = Path(__file__).with_name("cards")  # NAME.md
DOCS = {
    FIMODE.name: ROOT / "docs" / "science" / "model_card.md",
    NeuralFIMODE.name: ROOT / "docs" / "science" / "model_card_neural.md",
}
TASKS = ("reconstruction", "generalisation")
PROTOCOLS = {"paper": "200 points, as in the paper", "full": "512 points"}
REFERENCES = {"truth-fit": "equations known, constants fitted"}
APART = {("odebench", NeuralFIMODE.name): "neural"}
"""Folders in a benchmark's results of models whose rows are apart."""
_NOT_MEASURED = "The benchmark has not been run for these weights."


class Of(NamedTuple):
    """Whose card: a model, and the version of its weights."""

    name: str
    version: str


class OtherWeights(ValueError):
    """Results are of other weights than the card's."""


def card(name: str, weights: Path, log: Path = LOG, benchmarks: Path = BENCHMARKS) -> str:
    """Text of the card.

    Parameters
    ----------
    name : str
        Of the model.
    weights : Path
        A weights file of it.
    log : Path
        The folder of the training log, a file each month.
    benchmarks : Path
        Folder with ``NAME/results/*.csv``.

    Returns
    -------
    str
        Markdown.

    Raises
    ------
    OtherWeights
        If a benchmark's results are not of these weights, or ODEBench has none of fim-ode; says what to run.
    ValueError
        If the log has no entry on these weights, or on a run that they go on from.
    """
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    header, tensors = read_weights(weights)
    extra, of = header["extra"], Of(name, digest[:8])
    run = {key: value for key, value in extra.items() if key not in ("selector", "calibration")}
    parts = {
        "title": title(*of),
        "version": of.version,
        "trained_dim": header["max_dim"],
        "fewest": FIMODE.min_observations,
        "threshold": THRESHOLD,
        "weights": _weights(weights, digest, header, tensors),
        "header": _table([["", ""], *([key, f"`{json.dumps(value)}`"] for key, value in run.items())]),
        "runs": _table([["date", "run"], *_runs(log, of)]),
        "odebench": _odebench(benchmarks, of),
        "oscillators": _oscillators(benchmarks, of),
    }
    if name == FIMODE.name:
        parts |= {
            "max_dim": LARGEST_DIM,
            "more_states": _more_states(extra.get("many")),
            "degree": header["config"]["degree"],
            "few_samples": MIN_OBSERVATIONS,
            "calibration": _held_out_bands(extra.get("calibration")) + _calibration(benchmarks, of),
        }
    text = string.Template((TEMPLATES / f"{name}.md").read_text(encoding="utf-8")).substitute(parts)
    return re.sub(r"\n{3,}", "\n\n", text)


def _table(lines: list[list]) -> str:
    """A Markdown table; its first line is the head."""
    head, *body = [[str(cell) for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *body])


# --- the weights file ---


def _weights(path: Path, digest: str, header: dict, tensors: dict) -> str:
    config = ", ".join(f"{key} {json.dumps(value)}" for key, value in header["config"].items())
    lines = [
        ["", ""],
        ["file", f"`{path.name}`, {path.stat().st_size:,} bytes, format {header['format_version']}"],
        ["sha256", f"`{digest}`"],
        ["version", f"`{digest[:8]}`, its first 8 digits"],
        ["architecture", f"`{header['architecture']}`: {config}"],
    ]
    parts = {"operator": "", "of more states": MANY, "calibration": CALIBRATION}
    for name, prefix in parts.items():
        own = part_of(tensors, prefix).values()
        if prefix == MANY and not own:
            continue
        types = ", ".join(sorted({str(t.dtype).removeprefix("torch.") for t in own}))
        lines.append([name, f"{sum(prod(t.shape) for t in own):,} numbers, {types}" if own else "none"])
    return _table(lines)


def _more_states(known: dict | None) -> str:
    """Which network is asked about more states than the operator is."""
    if known is None:
        return ""
    dims = [dim for _, dim, _ in known["pools"]]
    trained = f"trained on {min(dims)} to {max(dims)}"
    return f"; beyond {known['up to']} a second network answers (*of more states* above), {trained}"


def _held_out_bands(known: dict | None) -> str:
    """Coverage and interval scores of `field.scale` on contexts held out from its training."""
    if known is None:
        return ""
    lines = [["systems", "50 % band covers", "90 % band covers", "its score", "best constant width"]]
    for dim, s in known["held out"].items():
        covers = [f"{s[f'cover {percent}']:.1f}" for percent in (50, 90)]
        lines.append([dim, *covers, f"{s['score 90']:.3g}", f"{s['constant 90']:.3g}"])
    return (
        f"`field.scale(x)` was calibrated on {known['contexts']:,} fits to systems of the priors. On others, "
        f"held out, with mean interval scores in typical rates:\n\n{_table(lines)}\n\n"
    )


# --- the log ---


def _runs(log: Path, of: Of) -> Iterator[list[str]]:
    """Date and name of the run that made these weights, and of each that it goes on from.

    The first paragraph of an entry names the start as ``runs/NAME/weights...`` or as the operator of `NAME`.
    """
    months = sorted(log.glob("[0-9]*.md"), reverse=True)
    text = "\n".join(path.read_text(encoding="utf-8") for path in months)
    entries = {}
    for entry in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = entry.partition("\n")
        entries[heading] = body.strip().split("\n\n")[0]
    wanted = f"({of.name} {of.version})"
    while wanted:
        found = next((heading for heading in entries if wanted in heading), None)
        if found is None:
            raise ValueError(
                f"card: expected a heading with {wanted} in {log}, got none; write the entry of that run."
            )
        first = entries.pop(found)
        date, _, name = found.partition(" ")
        yield [date, name.partition(":")[0]]
        start = re.search(r"runs/([\w-]+)/weights|operator\s+of\s+`([\w-]+)`", first)
        wanted = f"`{start[1] or start[2]}`:" if start else ""


# --- benchmarks ---


def _results(benchmarks: Path, name: str, file: str, of: Of) -> pd.DataFrame | None:
    """All rows of a benchmark's results if the model's are of these weights; None where it has none."""
    path = benchmarks / name / "results" / APART.get((name, of.name), "") / file
    if not path.exists():
        return None
    rows = pd.read_csv(path, dtype={"version": str, "system": str})
    found = sorted({own.rpartition("-")[2] for own in _own(rows, of)["version"]})  # of the weights
    if found not in ([], [of.version]):
        raise _other_weights(path, name, of, " and ".join(found))
    return rows if found else None


def _other_weights(path: Path, name: str, of: Of, found: str) -> OtherWeights:
    apart = APART.get((name, of.name))
    command = f"python -m benchmarks.results --only {name}{f'/{apart}' if apart else ''}"
    return OtherWeights(
        f"card: expected results of {of.name} {of.version} in {path}, got {found}; first run {command}"
    )


def _own(rows: pd.DataFrame, of: Of) -> pd.DataFrame:
    return rows[rows["model"] == of.name]


def _facts(name: str) -> dict:
    return tomllib.loads((BENCHMARKS / name).read_text(encoding="utf-8"))


def _odebench(benchmarks: Path, of: Of) -> str:
    trials = _results(benchmarks, "odebench", "trials.csv", of)
    if trials is None:
        if of.name == FIMODE.name:
            raise _other_weights(benchmarks, "odebench", of, "none")
        return _NOT_MEASURED
    trials = trials.assign(**{task: 100.0 * (trials[f"r2_{task}"] > THRESHOLD) for task in TASKS})
    run = trials[trials["protocol"].isin(_own(trials, of)["protocol"])]
    parts = [_protocol(part, protocol, of) for protocol, part in run.groupby("protocol", sort=False)]
    paper = _own(trials[trials["protocol"] == "paper"], of)
    return "\n\n".join([_seeds(paper), *parts, _missed(paper), _failures(paper)])


def _seeds(own: pd.DataFrame) -> str:
    seeds, systems = own["seed"].nunique(), own["system"].nunique()
    drawn = "One noise seed" if seeds == 1 else f"Mean of {seeds} noise seeds (one where nothing is random)"
    return f"{drawn}, both starts of {systems} systems."


def _success(trials: pd.DataFrame) -> dict[tuple[float, float], str]:
    """Percent of successes of both tasks in each cell (noise, dropped)."""
    shares = trials.groupby(["sigma", "rho"])[list(TASKS)].mean()
    return {cell: " / ".join(f"{value:.1f}" for value in row) for cell, row in shares.T.items()}


def _groups(trials: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    yield "all", trials
    for dim, part in trials.groupby("dim"):
        yield f"{dim} state{'s' if dim > 1 else ''}", part
    yield "polynomials of degree <= 3", trials[trials["split_strict"] == "ID"]
    yield "all others", trials[trials["split_strict"] == "OOD"]


def _ordered(cells: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Cells by the share dropped, then by noise."""
    return sorted(cells, key=lambda cell: cell[::-1])


def _protocol(trials: pd.DataFrame, protocol: str, of: Of) -> str:
    """Table of the model, in protocol `paper` by group, with references and the published rows below."""
    own = _own(trials, of)
    cells = _ordered(_success(own))
    lines = [["systems", "n", *(f"({sigma:g}, {rho:g})" for sigma, rho in cells)]]
    for name, part in _groups(own) if protocol == "paper" else [("all", own)]:
        found = _success(part)
        lines.append([name, part["system"].nunique(), *(found.get(cell, "") for cell in cells)])
    for model, words in REFERENCES.items():
        rows = trials[trials["model"] == model]
        if len(rows):
            found = _success(rows)
            lines.append([f"*{words}*", rows["system"].nunique(), *(found.get(cell, "") for cell in cells)])
    if protocol == "paper":
        lines.append(["*FIM-ODE (paper)*", 61, *_published(cells)])
    seconds = ", ".join(f"{1e3 * s:.0f} ms" for s in own.groupby("dim")["infer_seconds"].median())
    return (
        f"Protocol `{protocol}` ({PROTOCOLS[protocol]}):\n\n{_table(lines)}\n\n"
        f"CPU time of one inference, median by number of states: {seconds}."
    )


def _published(cells: list[tuple[float, float]]) -> list[str]:
    known = _facts("odebench/published.toml")
    settings = [tuple(pair) for pair in known["settings"]]
    rows = {
        entry["task"]: dict(zip(settings, entry["values"], strict=True))
        for entry in known["percent"]
        if (entry["model"], entry["group"], entry["threshold"]) == ("FIM-ODE (paper)", "all", THRESHOLD)
    }
    return [" / ".join(f"{rows[task].get(cell, float('nan')):.1f}" for task in TASKS) for cell in cells]


def _missed(own: pd.DataFrame) -> str:
    """Systems reconstructed in fewer than half of the trials of some cell, and those not generalised."""
    names = {str(entry["id"]): entry["name"] for entry in _facts("odebench/systems.toml")["system"]}
    cells = _ordered(_success(own))
    lines = [["system", "states", "polynomial", *(f"({sigma:g}, {rho:g})" for sigma, rho in cells)]]
    lost = []
    for system in sorted(own["system"].unique(), key=int):
        part = own[own["system"] == system]
        first, found = part.iloc[0], _success(part)
        if (part.groupby(["sigma", "rho"])["reconstruction"].mean() < 50).any():
            polynomial = "yes" if first["split_strict"] == "ID" else "no"
            values = [found.get(cell, "") for cell in cells]
            lines.append([f"{system}, {names[system]}", first["dim"], polynomial, *values])
        easiest = part[(part["sigma"] == cells[0][0]) & (part["rho"] == cells[0][1])]
        if easiest["generalisation"].mean() < 50:
            lost.append(system)
    return (
        "### What it misses\n\nSystems with fewer than half of the reconstructions above the threshold in at "
        f"least one cell, protocol `paper`:\n\n{_table(lines)}\n\nWith (noise, dropped) = "
        f"({cells[0][0]:g}, {cells[0][1]:g}), generalisation fails in more than half of the trials for "
        f"{len(lost)} systems. Their numbers in `benchmarks/odebench/systems.toml`: "
        f"`{', '.join(lost) or 'none'}`."
    )


def _failures(own: pd.DataFrame) -> str:
    statuses = pd.concat([own[f"status_{task}"] for task in TASKS])
    failed = statuses[statuses != "SUCCESS"].value_counts()
    kinds = ", ".join(f"{count} {status}" for status, count in sorted(failed.items())) or "none"
    return f"Predictions that broke off, of {len(statuses):,}: {kinds}."


def _oscillators(benchmarks: Path, of: Of) -> str:
    summary = _results(benchmarks, "oscillators", "summary.csv", of)
    if summary is None:
        return _NOT_MEASURED
    facts = _facts("oscillators/published.toml")
    row = next(entry for entry in facts["row"] if entry["method"] == "FIM-ODE, zero-shot")
    published = dict(zip(facts["tasks"], row["mse"], strict=True))
    lines = [["task", "targets", "shared draw", "median", "quartiles", "failures", "FIM-ODE (paper)"]]
    for line in _own(summary, of).itertuples():
        quartiles = f"{line.lower_quartile:.3g} to {line.upper_quartile:.3g}"
        values = [f"{line.fixed:.3g}", f"{line.median:.3g}", quartiles, line.failures]
        # the paper scored FHN against noisy targets
        theirs = (line.targets == "noisy") == (line.task == "FHN")
        lines.append(
            [
                line.task,
                line.targets.replace("clean", "noise-free"),
                *values,
                published[line.task] if theirs else "",
            ]
        )
    return (
        "Mean squared error of the forecast (Van der Pol) or imputation (FitzHugh-Nagumo) from 50 noisy "
        "observations, zero-shot, on the noise that the literature shares and on "
        f"{_own(summary, of)['draws'].max()} other draws:\n\n{_table(lines)}"
    )


def _calibration(benchmarks: Path, of: Of) -> str:
    summary = _results(benchmarks, "calibration", "summary.csv", of)
    if summary is None:
        return _NOT_MEASURED
    own = _own(summary, of)
    own = own[own["group"] == "all"]
    noises = sorted(own["sigma"].unique())
    lines = [["systems", "band of", *(f"noise {sigma:g}" for sigma in noises)]]
    for (source, quantity), part in own.groupby(["source", "quantity"], sort=False):
        covers = {
            line["sigma"]: " / ".join(f"{100 * line[f'cover{p}_raw']:.1f}" for p in (50, 90))
            for _, line in part.iterrows()
        }
        lines.append([source, quantity, *(covers.get(sigma, "") for sigma in noises)])
    return (
        "Percent of the truth within the bands of 50 and of 90 %, along the observed path (*own*) and along "
        "one from another start (*other*). *Stated*: by `field.scale`, otherwise by an ensemble.\n\n"
        f"{_table(lines)}"
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m training.card", description=__doc__)
    parser.add_argument("--benchmarks", type=Path, default=BENCHMARKS, help="folder with NAME/results/*.csv")
    arguments = parser.parse_args()
    for name, page in DOCS.items():
        try:
            text = card(name, shipped(name), LOG, arguments.benchmarks)
        except ValueError as error:
            parser.error(str(error))
        for path in (SHIPPED / f"{name}.md", page):
            path.write_text(text, encoding="utf-8")
            print(f"Written: {path}")


if __name__ == "__main__":
    main()
