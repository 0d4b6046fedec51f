"""``python -m benchmarks.speed``: a table of CPU times and ratios of one run."""

import argparse
import csv
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

from benchmarks.report import align, source_commit
from benchmarks.speed.measurements import SECTIONS
from benchmarks.speed.timing import Measurement


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table and write ``DIR/speed.csv``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="sections to run")
    parser.add_argument("--repeats", type=int, default=30, help="rounds of interleaved timings; default: 30")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/speed/out"), metavar="DIR")
    options = parser.parse_args(arguments)
    rows = []
    torch.set_num_threads(1)
    with threadpool_limits(1):
        for name in options.only:
            print(f"measuring: {name}", file=sys.stderr, flush=True)
            rows += SECTIONS[name](options.repeats)
    write(rows, options.out)
    print(align([["quantity", "value", "unit"], *([r.quantity, f"{r.value:.4g}", r.unit] for r in rows)]))
    print(f"Written: {options.out / 'speed.csv'}", file=sys.stderr)
    return 0


def write(rows: Sequence[Measurement], out: Path) -> None:
    """Write ``speed.csv`` with the machine and the commit in every row."""
    out.mkdir(parents=True, exist_ok=True)
    extra = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "commit": source_commit(Path(__file__).parent),
    }
    with (out / "speed.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [*asdict(rows[0]), *extra], lineterminator="\n")
        writer.writeheader()
        writer.writerows({**asdict(row), "value": f"{row.value:.5g}", **extra} for row in rows)


if __name__ == "__main__":
    sys.exit(main())
