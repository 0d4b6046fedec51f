"""``python -m benchmarks.development``: models on the systems that choices are made on.

Besides models, rows such as ``fim-ode-clamped``: its field continued in another way outside the data, and
``fim-ode-outliers``: 3 % of the values it sees are off by 16 %, eight deviations of 2 % noise.
"""

import sys
from collections.abc import Callable
from functools import partial

from benchmarks import cli
from benchmarks.development.continuations import KINDS, ContinuedRow
from benchmarks.development.outliers import MODELS, SpoiltRow
from benchmarks.development.problems import problems, true_field
from benchmarks.harness.rows import ModelRow, Row, TruthRow
from benchmarks.oracle import OracleRow


def _continued(kind: str) -> ContinuedRow:
    return ContinuedRow(ModelRow.resolve("fim-ode"), kind)


def _spoilt(model: str) -> SpoiltRow:
    return SpoiltRow(ModelRow.resolve(model))


ROWS: dict[str, Callable[[], Row]] = {
    "truth": lambda: TruthRow(true_field),
    "oracle": lambda: OracleRow(ModelRow.resolve("auto")),
} | {f"fim-ode-{kind}": partial(_continued, kind) for kind in KINDS}
ROWS |= {f"{model}-outliers": partial(_spoilt, model) for model in MODELS}


BENCHMARK = cli.Benchmark(
    name="development",
    title="Development split: textbook systems of dimension 1 to 3, two initial conditions each",
    problems=problems,
    truth_rows=ROWS,
    default_models=("fim-ode", "sindy", "sindy-strong", "truth", "constant"),
)

if __name__ == "__main__":
    sys.exit(cli.main(BENCHMARK))
