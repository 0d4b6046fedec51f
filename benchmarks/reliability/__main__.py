"""``python -m benchmarks.reliability``: hostile data, kills, full disks, edited files, other units."""

import sys
from collections.abc import Sequence

from benchmarks import parts

# A part is the constant PART of its file; add yours here.
PARTS: dict[str, str] = {
    "fuzz": "benchmarks.reliability.fuzz",
    "surfaces": "benchmarks.reliability.surfaces",
    "kills": "benchmarks.reliability.kills",
    "disk": "benchmarks.reliability.disk",
    "edits": "benchmarks.reliability.edits",
    "memory": "benchmarks.reliability.memory",
    "invariance": "benchmarks.reliability.invariance",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts; see `parts.main`."""
    return parts.main("reliability", __doc__, PARTS, arguments)


if __name__ == "__main__":
    sys.exit(main())
