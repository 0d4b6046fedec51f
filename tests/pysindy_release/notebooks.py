"""pysindy's notebooks with our models in its place: python -m tests.pysindy_release.notebooks FOLDER [MODEL].

FOLDER is ``examples`` of pysindy's public repository at the tag of its release; nothing of it is kept in
this one. Each code cell runs with stock pysindy, then with `sindy` in its place. The records are short, as in
pysindy's own tests of its notebooks. `notebooks.toml` names the cells that are expected to fail, and why.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import tomllib
import warnings
from pathlib import Path
from typing import Any

NOTEBOOKS = ("1_feature_overview", "tutorial_1", "tutorial_2")
EXPECTED = Path(__file__).parent / "notebooks.toml"
ROOT = Path(__file__).parents[2]


def main(folder: Path, model: str = "sindy") -> int:
    """Exit status: 0 where every cell that stock runs is run, but those that are expected not to be."""
    expected = tomllib.loads(EXPECTED.read_text(encoding="utf-8"))
    failed = False
    for name in NOTEBOOKS:
        stock, ours = _ran(folder / name, "stock"), _ran(folder / name, model)
        known = expected.get(name, {})
        usable = [k for k, cell in enumerate(stock) if cell["error"] is None]
        broken = [k for k in usable if ours[k]["error"] is not None]
        other = [k for k in usable if k not in broken and ours[k]["output"] != stock[k]["output"]]
        print(f"{name}: {len(usable) - len(broken)} of {len(usable)} cells run, {len(other)} print otherwise")
        for k in broken:
            why = known.get(str(k))
            failed |= why is None
            print(f"  cell {k}: {ours[k]['error']}" + (f" (expected: {why})" if why else ""))
    return int(failed)


def _ran(folder: Path, model: str) -> list[dict[str, Any]]:
    """What each code cell of a folder's notebook printed, and its error, in a process of its own."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "cells.json"
        environment = os.environ | {"PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
        command = [sys.executable, "-m", "tests.pysindy_release.notebooks", "--run", model, str(out)]
        subprocess.run(command, cwd=folder, env=environment, check=True)
        return json.loads(out.read_text(encoding="utf-8"))


def _run(model: str, out: Path) -> None:
    """Run the notebook of the working directory and write down what came of each code cell."""
    if model != "stock":
        os.environ["FIM_DYNSYS_MODEL"] = model
        import tests.pysindy_release.in_place  # noqa: F401  # puts the model in place of the class
    sys.path.insert(0, str(Path.cwd()))
    notebook = json.loads(Path("example.ipynb").read_text(encoding="utf-8"))
    sources = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {"__name__": "testing"}
    found = []
    for k, source in enumerate(sources):
        print(
            f"\r{Path.cwd().name}, {model}: cell {k} of {len(sources)}", end="", file=sys.stderr, flush=True
        )
        printed, error = io.StringIO(), None
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                exec(compile(source, "cell", "exec"), names)
            except Exception as problem:  # whatever a cell raises is what is asked for
                error = f"{type(problem).__name__}: {str(problem)[:200]}"
        found.append({"output": printed.getvalue(), "error": error})
    print(file=sys.stderr)
    out.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        _run(sys.argv[2], Path(sys.argv[3]))
    else:
        sys.exit(main(Path(sys.argv[1]).resolve(), *sys.argv[2:]))
