"""Edited files: saved models, weights and data are read, or refused by an error of ours, and that is all."""

import contextlib
import functools
import resource
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fim_dynsys
from benchmarks.parts import Figure, Part
from benchmarks.reliability import editing
from benchmarks.reliability.children import Ending, answers
from benchmarks.reliability.judging import Verdict, judge
from benchmarks.reliability.subjects import make, spiral
from fim_dynsys.trajectories.container import Trajectories

FILES = 50  # a task
SECONDS = 60.0
MEMORY = 16 * 2**30  # bytes of addresses in the reading process
REFUSALS = (ValueError, OSError)
TASKS = {"model": 5, "weights": 3, "CSV": 3, "netCDF": 3}
BAD = ("foreign", "let in", "leaked", "hung", "died")
SAVED = ("fim-ode", "sindy", "given")  # models


def tasks() -> dict[str, tuple]:
    """Return one task for each kind of file and seed."""
    order = sorted((seed / count, kind, seed) for kind, count in TASKS.items() for seed in range(count))
    return {f"{kind} {seed}": (kind, seed) for _, kind, seed in order}


def measure(kind: str, seed: int, files: int = FILES) -> dict[str, Any]:
    """Return counts over the edited files of one seed, and the first bad one of each kind in words."""
    counts = dict.fromkeys(("files", "taken", "refused", *BAD), 0)
    first = {f"first {name}": "" for name in BAD}
    with tempfile.TemporaryDirectory() as scratch:
        rngs = [np.random.default_rng([53, seed, number]) for number in range(files)]
        made = [EDITORS[kind](rng, Path(scratch) / str(number)) for number, rng in enumerate(rngs)]
        items = [(kind, str(path)) for path, _, _ in made]
        found = answers(read_one, items, SECONDS, functools.partial(prepare, kind))
    for number, ((_, what, closed), outcome) in enumerate(zip(made, found, strict=True)):
        counts["files"] += 1
        if isinstance(outcome, Ending):
            outcome = {"hung" if outcome.reason.startswith("over") else "died": outcome.reason}
        elif closed and "taken" in outcome:
            outcome = {**outcome, "let in": "read as if nothing had happened"}
        for name in outcome:
            counts[name] += 1
        for name in BAD:
            if name in outcome and not first[f"first {name}"]:
                first[f"first {name}"] = f"{seed}.{number} {outcome[name]} [{what}]"
    return {"kind": kind, **counts, **first}


# ---------------------------------------------------------------------------------------------- reading


def prepare(kind: str) -> None:
    """Limit the addresses of this process, and compile what reading takes."""
    with contextlib.suppress(ValueError):  # a lower limit stands
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    if kind == "weights":
        _use_model(make("fim-ode").fit(spiral()))


def read_one(item: tuple[str, str]) -> dict[str, str]:
    """Read one edited file and use what it gives; what happened, by name."""
    kind, path = item
    read, use = READERS[kind]
    verdict = judge(lambda: read(path), REFUSALS)
    outcome = _noted("read", verdict)
    if verdict.refusal or verdict.foreign:
        return outcome | ({"refused": ""} if verdict.refusal else {})
    used = judge(lambda: use(verdict.value), REFUSALS)
    return {**_noted("use", used), **outcome, "refused" if used.refusal else "taken": ""}


def _noted(name: str, verdict: Verdict) -> dict[str, str]:
    texts = {"foreign": verdict.foreign, "leaked": verdict.leaked}
    return {kind: f"{name}: {text}" for kind, text in texts.items() if text}


def _use_model(model: Any) -> None:
    points = np.zeros((3, model.context_.dim))
    model.predict(points)
    model.field_.jacobian(points)
    model.simulate(points[0], np.linspace(0.0, 1.0, 3))
    repr(model), model._repr_html_()


def _use_data(data: Trajectories) -> None:
    repr(data), data._repr_html_(), data.to_dataframe(), data.box()


def _use_weights(path: str) -> None:
    model = fim_dynsys.load("fim-ode", weights=path)
    _use_model(model.fit(spiral()))


READERS: dict[str, tuple[Callable[[str], Any], Callable[[Any], None]]] = {
    "model": (fim_dynsys.load_fitted, _use_model),
    "weights": (str, _use_weights),
    "CSV": (Trajectories.from_file, _use_data),
    "netCDF": (Trajectories.from_file, _use_data),
}


# ---------------------------------------------------------------------------------------------- editing

Edited = tuple[Path, str, bool]
"""What to read, what was done to it, and whether it has to be refused."""


def edit_model(rng: np.random.Generator, folder: Path) -> Edited:
    """Edit one file of a saved model, with digests that fit again in most cases."""
    name = str(rng.choice(SAVED))
    shutil.copytree(_saved(name), folder)
    before = editing.digests(folder)
    files = sorted(path for path in folder.iterdir() if path.is_file())
    path = files[rng.integers(len(files))]
    what, closed = f"{name}, {path.suffix}", False
    if rng.random() < 0.2:
        way = str(rng.choice([*editing.BYTES, "removed"]))
        if way == "removed":
            path.unlink()
        else:
            editing.BYTES[way](rng, path)
        what, closed = f"{what}: {way}", way in ("cut", "removed")
    elif path.suffix == ".json":
        editing.edit_json(rng, path)
    elif path.suffix == ".npz":
        editing.edit_npz(rng, path)
    else:
        way = editing.edit_hdf5(rng, path)
        what, closed = f"{what}: {way}", way in editing.FROM_OUTSIDE
    if rng.random() < 0.9:
        editing.redigest(folder, before)
    return folder, what, closed


@functools.cache
def _saved(name: str) -> Path:
    """A saved model, kept while this process lives."""
    expressions = ["v", "-a*sin(x) - b*v"]
    model = fim_dynsys.load("symbolic", expressions=expressions) if name == "given" else make(name)
    return model.fit(spiral()).save(Path(_scratch().name) / name.replace("-", "_"))


@functools.cache
def _scratch() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory()


def edit_weights(rng: np.random.Generator, folder: Path) -> Edited:
    """Edit a copy of the shipped weights."""
    from fim_dynsys.models.fim_ode.weights import shipped

    folder.mkdir()
    path = folder / "weights.safetensors"
    shutil.copy(shipped("fim-ode"), path)
    if rng.random() < 0.2:
        way = str(rng.choice(list(editing.BYTES)))
        editing.BYTES[way](rng, path)
        return path, way, way == "cut"
    editing.edit_weights(rng, path)
    return path, "header or tensors", False


def edit_csv(rng: np.random.Generator, folder: Path) -> Edited:
    """Edit a table that the package wrote; rows that are lost must be noticed."""
    folder.mkdir()
    path = folder / "data.csv"
    spiral(0, 40).to_file(path)
    if rng.random() < 0.4:
        way = str(rng.choice(list(editing.BYTES)))
        editing.BYTES[way](rng, path)
        return path, way, way == "cut"
    way = editing.edit_csv(rng, path)
    return path, way, way == "lost row"


def edit_netcdf(rng: np.random.Generator, folder: Path) -> Edited:
    """Edit a netCDF file that the package wrote; nothing outside it may be read."""
    folder.mkdir()
    path = folder / "data.nc"
    spiral(0, 40).to_file(path)
    if rng.random() < 0.2:
        way = str(rng.choice(list(editing.BYTES)))
        editing.BYTES[way](rng, path)
        return path, way, way == "cut"
    way = editing.edit_hdf5(rng, path)
    return path, way, way in editing.FROM_OUTSIDE


EDITORS: dict[str, Callable[[np.random.Generator, Path], Edited]] = {
    "model": edit_model,
    "weights": edit_weights,
    "CSV": edit_csv,
    "netCDF": edit_netcdf,
}


def figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """Return counts of all that must not happen, over all kinds of files and for each."""
    files = sum(row["files"] for row in rows)
    share = f"{sum(row['taken'] for row in rows)} taken, {sum(row['refused'] for row in rows)} refused"
    result = [Figure("edited files", files, goal=">= 500", n=len(rows), note=share)]
    titles = {
        "foreign": "foreign errors",
        "let in": "read although cut short or from outside",
        "died": "deaths of the process",
        "hung": f"files over {SECONDS:g} s",
        "leaked": "leaked warnings",
    }
    for kind in TASKS:
        own = [row for row in rows if row["kind"] == kind]
        n = sum(row["files"] for row in own)
        for name, title in titles.items():
            first = next((row[f"first {name}"] for row in own if row[f"first {name}"]), "")
            value = sum(row[name] for row in own)
            if own:
                result.append(Figure(f"{kind}: {title}", value, goal="== 0", n=n, note=first))
    return result


PART = Part("edits", "1", tasks, measure, figures)
