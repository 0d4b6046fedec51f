"""``python -m benchmarks.results``: every committed table, in order, with today's versions.

Each step is a benchmark of its own. It keeps its outcomes in a cache beside its tables, so that a run which
was interrupted goes on where it stopped. Steps that ended with the same versions of their models are not
begun again; ``results-state.json``, which is committed with the tables, names these versions and the hours
that each step took, those of interrupted runs included.
``--dry-run`` lists the commands. Data that may not be passed on are named by ``--data DIR``; without them
their steps are left out, and said to be.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import fim_dynsys
from benchmarks.report import LIMIT_MISSED, source_commit

_STATE = Path("benchmarks") / "results-state.json"
_MODELS = ("fim-ode", "auto", "sindy-strong")
_REFERENCES = ("sindy", "truth", "constant")
# Noise and dropped share, as in the paper.
_SETTINGS = ("0,0", "0.03,0", "0.05,0", "0,0.5", "0.03,0.5", "0.05,0.5")
_ENDS = {0: "done", LIMIT_MISSED: "done, a limit is missed"}  # by exit status: tables are written
_OTHERS = ("symbolic", "sindy", "equations", "fim-ode-neural")


@dataclass(frozen=True)
class Step:
    """One benchmark.

    Attributes
    ----------
    benchmark : str
        ``benchmarks.NAME``.
    arguments : tuple of str
        Of its command, beside ``--out`` and ``--workers``.
    hours : float
        That it may take on two cores; a plan, by which default sizes are chosen.
    data : str
        What it needs below the folder of ``--data``; empty for nothing.
    workers : bool
        Whether it takes ``--workers``; what is timed runs alone.
    models : tuple of str
        Whose rows it writes: it is done until one of them has another version.
    out : str
        Folder of its tables, in ``benchmarks/NAME``.
    part : str
        Of its rows, where another step writes others into the same folder.
    """

    benchmark: str
    arguments: tuple[str, ...] = ()
    hours: float = 0.1
    data: str = ""
    workers: bool = True
    models: tuple[str, ...] = (*_MODELS, *_OTHERS)
    out: str = "results"
    part: str = ""

    @property
    def name(self) -> str:
        """Its benchmark, with the folder or the part where that has several steps."""
        return self.benchmark + self.out.removeprefix("results") + (f"/{self.part}" if self.part else "")

    def command(self, workers: int, data: Path | None = None) -> list[str]:
        """What is run."""
        words = [sys.executable, "-m", f"benchmarks.{self.benchmark}", *self.arguments]
        words += ["--data", str(data / self.data)] if self.data and data is not None else []
        words += ["--workers", str(workers)] if self.workers else []
        return [*words, "--out", f"benchmarks/{self.benchmark}/{self.out}"]


STEPS = (
    # What all pages are about comes first: an interrupted run leaves the most used tables.
    Step(
        "development",
        ("--settings", *_SETTINGS, "--models", *_MODELS, *_REFERENCES),
        0.15,
        models=(*_MODELS, "sindy"),
    ),
    Step(
        "odebench",
        (
            *("--settings", *_SETTINGS, "--models", *_MODELS, *_REFERENCES),
            *("fim-ode:refine=False", "truth-fit"),
        ),
        0.2,
        models=(*_MODELS, "sindy", "equations"),
    ),
    Step(  # apart, as its simulations take long; at this tolerance paths err by less than 2e-4 deviations
        "odebench",
        ("--settings", "0,0", "0.05,0", "0.05,0.5", "--models", "fim-ode-neural", "--rtol", "1e-6"),
        0.3,
        models=("fim-ode-neural",),
        out="results/neural",
    ),
    Step("sparse", ("--models", *_MODELS, "symbolic"), 0.2, models=(*_MODELS, "symbolic")),
    Step("structure", ("--models", *_MODELS), 0.15, models=_MODELS),
    Step(
        "polynomials",
        (
            *("--models", *_MODELS, "sindy-strong:degree=6", "sindy"),
            *("--only", "clean", "noisy", "grid"),
        ),
        0.6,
        models=(*_MODELS, "sindy"),
    ),
    Step("mdbench", ("--models", *_MODELS), 0.05, models=_MODELS),
    Step(
        "oscillators",
        (
            *("--models", *_MODELS, "fim-ode+finetune", "spline", "truth-fit", "truth", "constant"),
            *("--repeats", "100"),
        ),
        0.15,
        models=_MODELS,
    ),
    Step(  # apart: its paths take minutes a draw
        "oscillators",
        ("--models", "fim-ode-neural", "fim-ode-neural+finetune", "--only", "draws", "--limit", "1"),
        0.45,
        models=("fim-ode-neural",),
        part="neural",
    ),
    Step("inputs", (), 0.05, models=(*_MODELS, "sindy")),
    Step("knowledge", (), 0.05, models=_MODELS),
    Step("fixed_points", (), 0.02, models=("fim-ode", "sindy-strong")),
    Step("calibration", (), 0.75, models=("fim-ode", "auto")),
    Step("evidence", (), 0.02, workers=False, models=("equations",)),
    Step("integration", (), 0.01, workers=False, models=("equations",)),
    Step("estimation", (), 0.5, workers=False, models=("equations",)),
    Step(
        "records",
        ("--only", "trust", "published", "textbook", "--models", "fim-ode", "auto"),
        0.15,
        models=("fim-ode", "auto"),
    ),
    Step("ctf", (), 0.02, models=(*_MODELS, "sindy")),
    Step(
        "ablation",
        ("--kinds", "development", "few samples", "inputs", "--seeds", "0"),
        0.05,
        models=("fim-ode", "auto"),
    ),
    Step("real", (), 0.05, models=(*_MODELS, "sindy", "symbolic", "equations")),
    Step("nonlinear", (), 0.01, data="cascaded_tanks.csv", models=(*_MODELS, "equations")),
    Step(
        "mocap",
        (
            *("--models", "fim-ode@3", "fim-ode+finetune@3", "sindy-strong@3", "auto@3"),
            *("fim-ode-neural@3", "fim-ode@5", "linear@5", "auto@5", "auto@8"),
        ),
        0.35,
        data="mocap",
        models=(*_MODELS, "fim-ode-neural"),
    ),
    Step("analysis", (), 0.45, models=(*_MODELS, "sindy")),
    Step("reliability", (), 0.55),
    Step("interruption", (), 0.1, workers=False, models=("fim-ode", "fim-ode-neural")),
    Step(  # plugins keep theirs: they run in an environment of their own (docs/science/comparison.md)
        "comparators",
        ("--models", *_MODELS, "symbolic", "sindy", "constant"),
        0.1,
        models=(*_MODELS, "symbolic", "sindy"),
    ),
    Step("speed", (), 0.3, workers=False),  # alone, and last: nothing else runs beside what is timed
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps from the command line, and return the exit status: 1 where one failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.results", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="list the commands and what is done already")
    parser.add_argument("--only", nargs="+", choices=[step.name for step in STEPS], metavar="NAME")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes; default: 2")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder with data that may not be passed on")
    parser.add_argument("--fresh", action="store_true", help="begin all steps again; caches stay")
    parser.add_argument("--state", type=Path, default=_STATE, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    today = versions()
    state = {} if options.fresh else _read(options.state, today)
    failed = 0
    for step in STEPS:
        if options.only and step.name not in options.only:
            continue
        command = step.command(options.workers, options.data)
        before = state.get(step.name, {"hours": 0.0, "end": ""})
        if before["end"] in _ENDS.values():
            print(f"{before['end']}, with these models: {step.name}")
        elif step.data and options.data is None:
            print(f"left out, for want of --data: {step.name}")
        elif options.dry_run:
            print(f"{step.hours:4.1f} h  {' '.join(['python', *command[1:]])}")
        else:
            begun = time.monotonic()
            status = run(command)
            end = _ENDS.get(status, "interrupted" if status == 130 else "failed")
            failed += status not in _ENDS
            hours = round(before["hours"] + (time.monotonic() - begun) / 3600, 3)
            print(f"{step.name}: {end} in {hours:.2f} h", flush=True)
            own = {name: today[name] for name in step.models}
            commit = source_commit(Path(__file__).parent)
            state[step.name] = {"versions": own, "commit": commit, "hours": hours, "end": end}
            options.state.write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
            if status == 130:  # from the keyboard
                return status
    if not options.dry_run and not failed:
        print(f"{sum(facts['hours'] for facts in state.values()):.1f} h in all")
        print("write the tables of the pages by: python -m tests.figures")
    return int(failed > 0)


def run(command: Sequence[str]) -> int:
    """Run a command and return its exit status."""
    return subprocess.run(command, check=False).returncode


def versions() -> dict[str, str]:
    """The version of each model whose rows are committed."""
    return {name: fim_dynsys.load(name).version for name in (*_MODELS, *_OTHERS)}


def _read(path: Path, today: dict[str, str]) -> dict[str, dict]:
    """What is known of the steps that were begun with today's models."""
    if not path.is_file():
        return {}
    kept = json.loads(path.read_text(encoding="utf-8"))
    return {name: facts for name, facts in kept.items() if facts["versions"].items() <= today.items()}


if __name__ == "__main__":
    sys.exit(main())
