"""The command line that the benchmarks of inferred fields share."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pandas as pd

from benchmarks import misses, report, time_curve
from benchmarks.harness.rows import ConstantRow, FineTunedRow, ModelRow, Row
from benchmarks.harness.run import Integrator, run
from benchmarks.harness.trials import PROTOCOLS, SETTINGS, TASKS, Problem, list_trials

T = TypeVar("T")
_PRETRAINED = ("fim-ode", "fim-ode-published")  # rows that --weights is for


@dataclass(frozen=True)
class Benchmark:
    """What the command line needs to know of one benchmark.

    Attributes
    ----------
    name : str
        As in ``python -m benchmarks.NAME``.
    title : str
        Heading of the figure.
    problems : callable
        Returns the systems, without their equations.
    truth_rows : dict
        Rows that know the truth, by name, and others of the benchmark's own; built on demand.
    default_models, full_models : tuple of str
        Rows of the default run and of ``--full``; empty: the same.
    published : callable, optional
        Returns figures to print beside ours.
    true_terms : callable, optional
        Returns the names of the terms of a system's right-hand sides, or None; compared with what was found.
    tasks : tuple of str
        What is predicted and scored, see `benchmarks.harness.trials.target`.
    settings, full_settings : tuple of (float, float)
        Noise level and dropped share, of the default run and of ``--full``. Recorded data have noise of their
        own: they are run as they are.
    """

    name: str
    title: str
    problems: Callable[[], Sequence[Problem]]
    truth_rows: dict[str, Callable[[], Row]]
    default_models: tuple[str, ...]
    full_models: tuple[str, ...] = ()
    published: Callable[[], report.Published] | None = None
    true_terms: Callable[[str], list[list[str]] | None] | None = None
    tasks: tuple[str, ...] = TASKS
    settings: tuple[tuple[float, float], ...] = ((0.0, 0.0), (0.05, 0.5))
    full_settings: tuple[tuple[float, float], ...] = SETTINGS


def parser(benchmark: Benchmark) -> argparse.ArgumentParser:
    """Return the parser; see the help texts."""
    out = Path("benchmarks") / benchmark.name / "out"
    result = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{benchmark.name}", description=benchmark.title
    )
    add_row_options(result, benchmark.default_models, out, tuple(benchmark.truth_rows), benchmark.full_models)
    add = result.add_argument
    add(
        "--settings",
        nargs="+",
        type=_setting,
        metavar="SIGMA,RHO",
        help=f"noise level and dropped share; default: {_settings_text(benchmark.settings)} "
        f"(--full: {_settings_text(benchmark.full_settings)})",
    )
    add(
        "--protocol",
        choices=(*PROTOCOLS, "both"),
        help="200 points as in the paper, or all; default: paper",
    )
    add("--seeds", nargs="+", type=int, metavar="N", help="noise seeds; default: 0 (--full: 0 1 2)")
    add("--limit", type=int, metavar="N", help="N systems only, evenly spread over the list")
    add("--full", action="store_true", help="all settings, both protocols, three seeds, all reference rows")
    add(
        "--rtol",
        type=float,
        default=Integrator.rtol,
        metavar="R",
        help=f"relative tolerance of simulations; default: {Integrator.rtol:g}",
    )
    return result


def _settings_text(settings: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{sigma:g},{rho:g}" for sigma, rho in settings)


def _setting(text: str) -> tuple[float, float]:
    try:
        sigma, rho = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected SIGMA,RHO such as 0.05,0.5, got {text!r}") from None
    if sigma < 0 or not 0 <= rho < 1:
        raise argparse.ArgumentTypeError(f"expected SIGMA >= 0 and 0 <= RHO < 1, got {text!r}")
    return sigma, rho


def add_row_options(
    commands: argparse.ArgumentParser,
    models: Sequence[str],
    out: Path,
    own_rows: Sequence[str] = (),
    full_models: Sequence[str] = (),
) -> None:
    """Add what all ask of the rows they run: models, weights, workers, output folder, fresh, render.

    ``models`` is None where none are named.
    """
    add = commands.add_argument
    full = f" (--full: {' '.join(full_models)})" if full_models else ""
    add(
        "--models",
        nargs="+",
        metavar="NAME",
        help="registry names, NAME:key=value,... for parameters, or reference rows "
        f"({', '.join(['constant', *own_rows])}); default: {' '.join(models)}{full}",
    )
    add("--weights", metavar="PATH", help="weights file that fim-ode (or fim-ode-published) loads")
    add("--workers", type=int, default=2, metavar="N", help="processes, one thread each; default: 2")
    add("--out", type=Path, default=out, metavar="DIR", help=f"output folder; default: {out}")
    add("--fresh", action="store_true", help="discard these rows' stored outcomes instead of resuming")
    add(
        "--render",
        nargs="*",
        type=Path,
        metavar="DIR",
        help="run nothing: report on the trials of these output folders together, later ones in place of "
        "earlier (default: of --out)",
    )


def interrupted(out: Path) -> str:
    """Return what a command says that was interrupted."""
    return f"\nInterrupted. Finished trials are kept in {out}; the same command goes on from there."


def rows_or_exit(
    commands: argparse.ArgumentParser,
    truth_rows: Mapping[str, Callable[[], Row]],
    names: Sequence[str],
    weights: str | None,
) -> list[Row]:
    """Return the rows of `build_rows`; what cannot be built ends the command with its usage."""
    try:
        return build_rows(truth_rows, list(dict.fromkeys(names)), weights)
    except (ValueError, ImportError, OSError) as error:
        commands.error(str(error))


def build_rows(
    truth_rows: Mapping[str, Callable[[], Row]], names: Sequence[str], weights: str | None
) -> list[Row]:
    """Return a row for each name; `weights` goes to the rows of pretrained models."""
    rows: list[Row] = []
    for name in names:
        if name == "constant":
            rows.append(ConstantRow())
        elif name in truth_rows:
            rows.append(truth_rows[name]())
        else:
            model = name.partition(":")[0]
            kind = FineTunedRow if model.endswith(FineTunedRow.suffix) else ModelRow
            own = weights is not None and model.removesuffix(FineTunedRow.suffix) in _PRETRAINED
            rows.append(kind.resolve(name, **({"weights": str(weights)} if own else {})))
    return rows


def limited(problems: Sequence[T], limit: int | None) -> list[T]:
    """Return `limit` problems evenly spread over the list, or all."""
    if limit is None or limit >= len(problems):
        return list(problems)
    return [problems[i * len(problems) // limit] for i in range(limit)]


def main(benchmark: Benchmark, arguments: Sequence[str] | None = None) -> int:
    """Run a benchmark from the command line and return the exit status."""
    commands = parser(benchmark)
    options = commands.parse_args(arguments)
    if options.render is not None:
        folders = options.render or [options.out]
        earlier = report.read_tables(folders, "summary")
        trials = report.merge_trials(folders, options.out)
        write(benchmark, trials, options.out, str(Integrator(options.rtol)), earlier)
        return 0
    full = options.full
    settings = options.settings or (benchmark.full_settings if full else benchmark.settings)
    protocol = options.protocol or ("both" if full else "paper")
    seeds = options.seeds or ([0, 1, 2] if full else [0])
    names = options.models or (full and benchmark.full_models) or benchmark.default_models
    problems = limited(benchmark.problems(), options.limit)
    rows = rows_or_exit(commands, benchmark.truth_rows, names, options.weights)
    trials = list_trials(problems, settings, PROTOCOLS if protocol == "both" else (protocol,), seeds)
    integrator = Integrator(options.rtol)
    try:
        records = run(
            problems,
            rows,
            trials,
            options.out,
            integrator,
            options.workers,
            options.fresh,
            progress=True,
            tasks=benchmark.tasks,
        )
    except KeyboardInterrupt:
        print(interrupted(options.out))
        return 130
    if benchmark.true_terms:
        records = [report.compare_terms(record, benchmark.true_terms(record["system"])) for record in records]
    report.write_trials(records, options.out / "trials.csv")
    write(benchmark, report.to_frame(records), options.out, str(integrator))
    return 0


def write(
    benchmark: Benchmark,
    trials: pd.DataFrame,
    out: Path,
    integrator: str,
    earlier: Sequence[pd.DataFrame] = (),
) -> None:
    """Write the tables and the figures of finished trials and print the report.

    Trials that summaries were written of earlier keep the commit that these name.
    """
    published = benchmark.published() if benchmark.published else None
    summary = report.summarise(trials, integrator, report.source_commit(Path(__file__).parent))
    summary = report.with_commits(summary, earlier)
    gaps = report.differences(trials)
    missed = misses.missed_trials(trials, benchmark.problems())
    curve = time_curve.success_time(trials)
    tables = {"summary": summary, "differences": gaps, "success_time": curve}
    tables["missed"] = misses.missed_systems(missed, trials)
    for name, table in tables.items():
        table.to_csv(out / f"{name}.csv", index=False, float_format="%.6g", lineterminator="\n")
    report.draw(summary, out / f"{benchmark.name}.png", benchmark.title, published)
    if len(curve):  # of models; reference rows have no place in it
        time_curve.draw_time(curve, out / "success_time.png", benchmark.title)
    detailed = report.format_tables(summary, gaps, trials, published, detailed=True)
    (out / "report.txt").write_text(
        "\n\n".join(filter(None, (detailed, misses.format_misses(missed, benchmark.tasks)))) + "\n"
    )
    print(report.format_tables(summary, gaps, trials, published))
    print(f"Written: {', '.join(str(path) for path in sorted(out.glob('*.*')))}", file=sys.stderr)
