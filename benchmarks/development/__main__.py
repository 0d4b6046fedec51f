"""``python -m benchmarks.development``: models on the systems that choices are made on."""

import sys

from benchmarks import cli
from benchmarks.development.problems import TruthRow, problems

BENCHMARK = cli.Benchmark(
    name="development",
    title="Development split: textbook systems of dimension 1 to 3, two initial conditions each",
    problems=problems,
    truth_rows={"truth": TruthRow},
    default_models=("fim-ode", "sindy", "sindy-strong", "truth", "constant"),
    full_models=("fim-ode", "sindy", "sindy-strong", "truth", "constant"),
)

if __name__ == "__main__":
    sys.exit(cli.main(BENCHMARK))
