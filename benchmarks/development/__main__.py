"""``python -m benchmarks.development``: models on the systems that choices are made on.

Besides models, rows such as ``fim-ode-clamped``: its field continued in another way outside the data.
"""

import sys
from functools import partial

from benchmarks import cli
from benchmarks.development.continuations import KINDS, ContinuedRow
from benchmarks.development.problems import TruthRow, problems
from benchmarks.harness import ModelRow


def _continued(kind):
    return ContinuedRow(ModelRow.resolve("fim-ode"), kind)


BENCHMARK = cli.Benchmark(
    name="development",
    title="Development split: textbook systems of dimension 1 to 3, two initial conditions each",
    problems=problems,
    truth_rows={"truth": TruthRow} | {f"fim-ode-{kind}": partial(_continued, kind) for kind in KINDS},
    default_models=("fim-ode", "sindy", "sindy-strong", "truth", "constant"),
    full_models=("fim-ode", "sindy", "sindy-strong", "truth", "constant"),
)

if __name__ == "__main__":
    sys.exit(cli.main(BENCHMARK))
