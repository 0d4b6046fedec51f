"""``python -m benchmarks.analysis``: known equilibria, cycles, exponents, basins and bifurcations."""

import sys
from collections.abc import Sequence

from benchmarks import parts

# A part is the constant PART of its file; add yours here.
PARTS: dict[str, str] = {
    "equilibria": "benchmarks.analysis.equilibria",
    "cycles": "benchmarks.analysis.cycles",
    "planar_cycles": "benchmarks.analysis.planar_cycles",
    "exponents": "benchmarks.analysis.exponents",
    "manifolds": "benchmarks.analysis.manifolds",
    "basins": "benchmarks.analysis.basins",
    "continuation": "benchmarks.analysis.continuation",
    "diagrams": "benchmarks.analysis.diagrams",
    "families": "benchmarks.analysis.families",
    "networks": "benchmarks.analysis.networks",
    "reports": "benchmarks.analysis.reports",
    "reference": "benchmarks.analysis.reference",
    "speed": "benchmarks.analysis.speed",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts; see `parts.main`."""
    return parts.main("analysis", __doc__, PARTS, arguments)


if __name__ == "__main__":
    sys.exit(main())
