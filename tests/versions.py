"""The versions that models have today, and those of the committed tables of the benchmarks."""

import ast
import re
import subprocess
from functools import cache

import pandas as pd

from benchmarks.harness.rows import ModelRow
from tests.pages import ROOT

_REFERENCES = ("truth", "truth-fit", "constant", "spline", "oracle")  # rows that are no models


@cache
def table(path: str) -> pd.DataFrame:
    return pd.read_csv(ROOT / path, dtype={"version": str, "seeds": str, "commit": str})


@cache
def plugin_versions() -> dict[str, str]:
    """The versions that the models of plugins state in their classes, by name; none need be installed."""
    stated = {}
    for path in (ROOT / "plugins").glob("*/src/*/*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            lines = [line for line in getattr(node, "body", []) if isinstance(line, ast.Assign)]
            values = {
                target.id: value.value
                for targets, parts in map(_assigned, lines)
                for target, value in zip(targets, parts, strict=True)
                if isinstance(target, ast.Name) and isinstance(value, ast.Constant)
            }
            if isinstance(node, ast.ClassDef) and {"name", "version"} <= set(values):
                stated[values["name"]] = values["version"]
    return stated


def _assigned(line: ast.Assign) -> tuple[list, list]:
    """Names and values of ``a = 1`` and of ``a, b = 1, 2``."""
    (target,) = line.targets
    both = isinstance(target, ast.Tuple) and isinstance(line.value, ast.Tuple)
    return (target.elts, line.value.elts) if both else ([target], [line.value])


@cache
def version(name: str) -> str:
    """The version that a row's model has today."""
    base = "auto" if name.startswith("oracle") else re.split("[:,+]", name)[0]
    stated = plugin_versions()
    if base in stated:
        return stated[base]
    return ModelRow.resolve(name if name.startswith(f"{base}:") else base).version


@cache
def committed_on(commit: str) -> str:
    """The date of a commit, where git and the commit are there."""
    command = ["git", "log", "-1", "--format=%cs", commit.rstrip("+")]
    try:
        asked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""


def freshness() -> list[list[str]]:
    """For each committed table with versions: its commit, and the models that have changed since."""
    lines = [["table", "commit", "date", "rows of earlier versions"]]
    paths = {path: path.relative_to(ROOT).as_posix() for path in ROOT.glob("benchmarks/*/results/**/*.csv")}
    summed = {
        path.parent for path, name in paths.items() if {"version", "commit"} <= set(table(name).columns)
    }
    for path, name in sorted(paths.items()):
        found = table(name)
        if "version" not in found.columns or ("commit" not in found.columns and path.parent in summed):
            continue
        stated = found[["model", "version"]].dropna().drop_duplicates()
        old = [
            f"`{model}` {was}"
            for model, was in stated[~stated.model.isin(_REFERENCES)].itertuples(index=False)
            if was != version(model)
        ]
        commits = found["commit"].dropna().unique() if "commit" in found.columns else [""]
        newest = str(commits[-1])
        title = f"`{name.removeprefix('benchmarks/').replace('/results', '').removesuffix('.csv')}`"
        lines.append([title, newest.rstrip("+")[:8], committed_on(newest), ", ".join(old) or "none"])
    return lines
