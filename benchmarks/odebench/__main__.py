"""``python -m benchmarks.odebench``: models on ODEBench beside the paper's figures."""

import sys

from benchmarks import cli, report
from benchmarks.harness.rows import ModelRow, TruthRow
from benchmarks.odebench import equations, facts
from benchmarks.odebench.reference_rows import TruthFitRow, true_field
from benchmarks.oracle import OracleRow

BENCHMARK = cli.Benchmark(
    name="odebench",
    title="ODEBench: 61 systems of dimension 1 to 3, two initial conditions each",
    problems=facts.problems,
    truth_rows={
        "truth": lambda: TruthRow(true_field),
        "truth-fit": TruthFitRow,
        "oracle": lambda: OracleRow(ModelRow.resolve("auto")),
    },
    default_models=("fim-ode", "sindy", "sindy-strong", "truth", "constant"),
    full_models=(
        "auto",
        "auto:effort=fast",
        "fim-ode",
        "fim-ode:refine=False",
        "sindy",
        "sindy-strong",
        "oracle",
        "truth",
        "truth-fit",
        "constant",
    ),
    true_terms=equations.true_terms,
    published=lambda: report.Published.read(facts.FOLDER / "published.toml"),
)

if __name__ == "__main__":
    sys.exit(cli.main(BENCHMARK))
