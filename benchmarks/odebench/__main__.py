"""``python -m benchmarks.odebench``: models on ODEBench beside the paper's figures."""

import sys

from benchmarks import cli, report
from benchmarks.odebench import facts
from benchmarks.odebench.reference_rows import TruthFitRow, TruthRow

BENCHMARK = cli.Benchmark(
    name="odebench",
    title="ODEBench: 61 systems of dimension 1 to 3, two initial conditions each",
    problems=facts.problems,
    truth_rows={"truth": TruthRow, "truth-fit": TruthFitRow},
    default_models=("fim-ode", "sindy", "sindy-strong", "truth", "constant"),
    full_models=("fim-ode", "sindy", "sindy-strong", "truth", "truth-fit", "constant"),
    published=lambda: report.Published.read(facts.FOLDER / "published.toml"),
)

if __name__ == "__main__":
    sys.exit(cli.main(BENCHMARK))
