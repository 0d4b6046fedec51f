"""``python -m benchmarks.knowledge``: models that are given one true fact, beside models that are not.

The development systems of two states and more of which one fact is known: an equation that is another state,
a conserved quantity, or a state that an equation does not depend on. Rows ``NAME-constrained`` are given it.
"""

import sys
from collections.abc import Callable
from functools import cache, partial

from benchmarks import cli
from benchmarks.development import problems as development
from benchmarks.harness.rows import ModelRow, Row, TruthRow
from benchmarks.harness.trials import Problem
from benchmarks.knowledge.facts import fact_of
from benchmarks.knowledge.rows import ConstrainedRow
from fim_dynsys import systems

MODELS = ("sindy-strong", "symbolic", "auto", "fim-ode")


@cache
def problems() -> tuple[Problem, ...]:
    """Return the problems of the development systems that have a fact."""
    return tuple(p for p in development.problems() if fact_of(systems.get(p.system)) is not None)


def _constrained(name: str) -> ConstrainedRow:
    return ConstrainedRow(ModelRow.resolve(name))


ROWS: dict[str, Callable[[], Row]] = {"truth": lambda: TruthRow(development.true_field)} | {
    f"{name}-constrained": partial(_constrained, name) for name in MODELS
}

BENCHMARK = cli.Benchmark(
    name="knowledge",
    title="Development systems with one known fact, as a constraint or not",
    problems=problems,
    truth_rows=ROWS,
    default_models=(
        "sindy-strong",
        "sindy-strong-constrained",
        "fim-ode",
        "fim-ode-constrained",
        "auto",
        "auto-constrained",
    ),
    settings=((0.05, 0.0),),
    full_settings=((0.0, 0.0), (0.03, 0.0), (0.05, 0.0), (0.05, 0.5)),
)

if __name__ == "__main__":
    sys.exit(cli.main(BENCHMARK))
