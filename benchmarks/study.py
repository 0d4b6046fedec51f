"""The command line of benchmarks whose trials are tables of their own kind."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from benchmarks import cli, report
from benchmarks.harness.rows import Row

Options = argparse.Namespace


@dataclass(frozen=True)
class Part:
    """Tables of trials, and what is made of them.

    Attributes
    ----------
    run : callable
        ``run(rows, options)`` gives the tables of trials in the order of `tables`.
    text : callable
        ``text(summary, *tables)`` gives the printed report.
    summarise : callable, optional
        ``summarise(*tables, commit)`` gives the summary; without it `text` takes the tables alone.
    draw : callable, optional
        ``draw(summary, path)`` draws the figure of the benchmark.
    illustrate : callable, optional
        ``illustrate(rows, *tables, options)`` draws figures that need fits, when all else is written; not
        where earlier runs are reported on.
    tables, summary, report : str
        Names of the files without their endings.
    by, order : tuple of str
        What later tables replace of earlier ones and how rows are sorted then, see `report.joined`.
    digits : (int, int)
        Kept of the numbers of trials and summary.
    """

    run: Callable[[Sequence[Row], Options], Sequence[pd.DataFrame]]
    text: Callable[..., str]
    summarise: Callable[..., pd.DataFrame] | None = None
    draw: Callable[[pd.DataFrame, Path], None] | None = None
    illustrate: Callable[..., None] | None = None
    tables: tuple[str, ...] = ("trials",)
    summary: str = "summary"
    report: str = "report"
    by: tuple[str, ...] = ("model",)
    order: tuple[str, ...] = ("model",)
    digits: tuple[int, int] = (6, 6)


@dataclass(frozen=True)
class Study:
    """What the command line needs to know of one benchmark.

    Attributes
    ----------
    name, description : str
        As in ``python -m benchmarks.NAME``; for ``--help``.
    models, full_models : tuple of str
        Rows of the default run and of ``--full``; empty: the same.
    parts : dict of Part
        By their names, as given to ``--only`` where there are several.
    own_rows : dict
        Rows of the benchmark's own by name, built on demand.
    seeds, full_seeds : tuple of int
        Noise seeds of the default run and of ``--full``; empty: none to choose, or the parts choose.
    limit, full : str
        What ``--limit N`` and ``--full`` do, for ``--help``; empty: there is no such option.
    options : callable, optional
        Adds the benchmark's own options to the parser.
    """

    name: str
    description: str | None
    models: tuple[str, ...]
    parts: Mapping[str, Part]
    own_rows: Mapping[str, Callable[[], Row]] = field(default_factory=dict)
    full_models: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    full_seeds: tuple[int, ...] = ()
    limit: str = ""
    full: str = ""
    options: Callable[[argparse.ArgumentParser], None] | None = None


def parser(study: Study) -> argparse.ArgumentParser:
    """Return the parser; see the help texts."""
    commands = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{study.name}", description=study.description
    )
    out = Path("benchmarks") / study.name / "out"
    cli.add_row_options(commands, study.models, out, tuple(study.own_rows), study.full_models)
    add = commands.add_argument
    if len(study.parts) > 1:
        add(
            "--only",
            nargs="+",
            choices=list(study.parts),
            metavar="NAME",
            help=f"of {', '.join(study.parts)}",
        )
    if study.seeds:
        full = f" (--full: {' '.join(map(str, study.full_seeds))})" if study.full_seeds else ""
        text = f"noise seeds; default: {' '.join(map(str, study.seeds))}{full}"
        add("--seeds", nargs="+", type=int, metavar="N", help=text)
    if study.limit:
        add("--limit", type=int, metavar="N", help=study.limit)
    if study.full:
        add("--full", action="store_true", help=study.full)
    if study.options:
        study.options(commands)
    return commands


def main(study: Study, arguments: Sequence[str] | None = None) -> int:
    """Run a benchmark from the command line, or report on earlier runs, and return the exit status.

    What a run finds is joined with the tables that the output folder holds already.
    """
    commands = parser(study)
    options = commands.parse_args(arguments)
    full = bool(study.full) and options.full
    if study.seeds:
        options.seeds = options.seeds or list((full and study.full_seeds) or study.seeds)
    names = options.models or (full and study.full_models) or study.models
    rendered = options.render is not None
    rows = [] if rendered else cli.rows_or_exit(commands, study.own_rows, names, options.weights)
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = (options.only if len(study.parts) > 1 else None) or list(study.parts)
    try:
        written = [_write(study, study.parts[name], rows, options) for name in chosen]
    except KeyboardInterrupt:
        print(cli.interrupted(options.out))
        return 130
    if not any(written):
        folders = ", ".join(map(str, options.render or [options.out]))
        commands.error(f"expected tables of trials in {folders}, got none")
    return 0


def _write(study: Study, part: Part, rows: Sequence[Row], options: Options) -> bool:
    """Write the tables, the summary and the report of one part; False where there is nothing to report on."""
    found = (
        [[table] for table in part.run(rows, options)] if options.render is None else [[]] * len(part.tables)
    )
    folders = options.render or [options.out]
    frames = [
        [*report.read_tables(folders, name), *own] for name, own in zip(part.tables, found, strict=True)
    ]
    if not all(frames):
        return False
    tables = [report.joined(own, part.by, part.order) for own in frames]
    for name, table in zip(part.tables, tables, strict=True):
        report.save(table, options.out / f"{name}.csv", part.digits[0])
    if part.summarise is None:
        text = part.text(*tables)
    else:
        summary = part.summarise(*tables, report.source_commit(Path(__file__).parent))
        earlier = report.read_tables(folders, part.summary)
        summary = report.with_commits(summary, earlier, {row.name for row in rows})
        report.save(summary, options.out / f"{part.summary}.csv", part.digits[1])
        text = part.text(summary, *tables)
        if part.draw:
            part.draw(summary, options.out / f"{study.name}.png")
    (options.out / f"{part.report}.txt").write_text(text + "\n", encoding="utf-8")
    print(text, flush=True)
    if part.illustrate and options.render is None:
        part.illustrate(rows, *tables, options)
    return True
