"""Draws of the textbook problems as PEtab folders, which other programs read too."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

import fim_dynsys
from benchmarks.estimation.problems import PROBLEMS, Problem

WIDTH = 10**1.5
"""Factor by which the bounds lie about the truth: scipy's far starts are drawn within the same."""
_YAML = """format_version: 1
parameter_file: parameters.tsv
problems:
- sbml_files: [model.xml]
  condition_files: [conditions.tsv]
  measurement_files: [measurements.tsv]
  observable_files: [observables.tsv]
"""


def exported() -> list[Problem]:
    """Problems without inputs whose first states are numbers: PEtab has no sampled inputs."""
    return [p for p in PROBLEMS if not p.inputs and all(isinstance(x, float) for x in p.first.values())]


def write(problem: Problem, noise: float, seed: int, folder: Path) -> Path:
    """One draw as ``folder/NAME-NOISE-SEED/problem.yaml``."""
    y, sigma = problem.data(noise, seed)
    name = "".join(c if c.isalnum() else "_" for c in problem.name)
    place = folder / f"{name}-{100 * noise:g}-{seed}"
    place.mkdir(parents=True, exist_ok=True)
    named = set(re.findall(r"[A-Za-z_]\w*", " ".join(problem.expressions.values())))
    constants = {key: value for key, value in problem.truth.items() if key in named}
    field = fim_dynsys.SymbolicField(dict(problem.expressions), parameters=constants)
    fim_dynsys.to_sbml(field, place / "model.xml", x0=np.array(list(problem.first.values())))
    columns = [f"y{k}" for k in range(len(problem.observed))]
    observables = pd.DataFrame(
        {
            "observableId": columns,
            "observableFormula": problem.observed,
            "noiseFormula": [repr(float(s)) for s in sigma],
        }
    )
    measurements = pd.DataFrame(
        [
            {"observableId": column, "simulationConditionId": "c0", "measurement": value, "time": t}
            for t, row in zip(problem.times, y, strict=True)
            for column, value in zip(columns, row, strict=True)
        ]
    )
    parameters = pd.DataFrame(
        [
            {"parameterId": key, "parameterScale": "log10", "lowerBound": value / WIDTH}
            | {"upperBound": value * WIDTH, "nominalValue": value, "estimate": 1}
            for key, value in problem.truth.items()
        ]
    )
    tables = {"observables": observables, "measurements": measurements, "parameters": parameters}
    for key, table in {**tables, "conditions": pd.DataFrame({"conditionId": ["c0"]})}.items():
        table.to_csv(place / f"{key}.tsv", sep="\t", index=False)
    (place / "problem.yaml").write_text(_YAML, encoding="utf-8")
    return place
