"""ODEBench's systems and reference trajectories, read from the files beside this one."""

import functools
import tomllib
from pathlib import Path

import numpy as np

from benchmarks.harness.trials import Problem

FOLDER = Path(__file__).parent
T_END = 10.0


@functools.cache
def system_facts() -> dict[str, dict]:
    """Return the entries of ``systems.toml`` by id, equations included; no model sees these."""
    with (FOLDER / "systems.toml").open("rb") as file:
        return {str(entry["id"]): entry for entry in tomllib.load(file)["system"]}


@functools.cache
def problems() -> tuple[Problem, ...]:
    """Return the 61 systems in the benchmark's order, with references at 512 times and no equations."""
    entries = system_facts()
    with np.load(FOLDER / "reference.npz", allow_pickle=False) as stored:
        references = {dim: iter(stored[f"dim{dim}"].astype(np.float64)) for dim in (1, 2, 3)}
    return tuple(_problem(entry, next(references[entry["dim"]])) for entry in entries.values())


def _problem(entry: dict, references: np.ndarray) -> Problem:
    return Problem(
        system=str(entry["id"]),
        split_paper=entry["split_paper"],
        split_strict=entry["split_strict"],
        t=np.linspace(0.0, T_END, references.shape[1]),
        initial_states=np.array(entry["initial_states"], dtype=np.float64),
        references=references,
    )
