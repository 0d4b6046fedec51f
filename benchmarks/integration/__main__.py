"""``python -m benchmarks.integration``: true fields integrated as fits and their judge integrate them.

For each textbook field an accurate path is sampled at 200 times. From its first sample on, the true field is
integrated in the three ways of this package: as candidates of a search are (polynomials up to degree 3), as
given equations are fitted, and as fits are judged and scored. The error is the root mean square over samples
and states, each in its standard deviations, and counts as infinite where a path ends early. Nothing is
fitted.
"""

import argparse
import csv
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.integration.systems import System, systems
from benchmarks.report import LIMIT_MISSED, align, source_commit
from fim_dynsys.estimation.experiments import InputCurve
from fim_dynsys.estimation.integration import path_of
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.symbolic import SymbolicField
from fim_dynsys.models.judging import judged
from fim_dynsys.regression.observed import observe
from fim_dynsys.search.problem import Search
from fim_dynsys.trajectories.container import Trajectories

WAYS = ("search", "equations", "judge")
LARGEST = 3e-3
"""Error that a path of a true field may have."""


def errors(system: System) -> dict[str, float]:
    """The error of each way; nan where it does not apply."""
    x, t = system.path(), system.t
    spread = x.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)

    def off(path: np.ndarray) -> float:
        value = float(np.sqrt(np.mean(((path - x) / spread) ** 2)))
        return value if math.isfinite(value) else math.inf

    names, found = list(system.expressions), dict.fromkeys(WAYS, math.nan)
    polynomial = system.terms()
    context = Trajectories.from_arrays(x, t, state_names=names)
    if polynomial is None:
        field = SymbolicField(system.rates, context=context)
    else:
        dictionary, coefficients = polynomial
        field = DictionaryField(dictionary, coefficients, context=context)
        seen = observe([(t, x)])
        own, scaled = dictionary.rescaled(coefficients, 1.0 / seen.scale, 1.0 / seen.time_unit)
        start = (x[0] / seen.scale)[None, None]
        if len(seen.samples) == 1 and len(seen.samples[0][0]) == len(t):
            found["search"] = off(Search(seen, own).paths(scaled[None], start)[0, 0] * seen.scale)
    none = InputCurve.none()
    found["equations"] = off(path_of(system.rates, names, (), {}, x[0], t, none))
    found["judge"] = off(judged(field, [x[0]], [t]).paths[0])
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the table and write ``DIR/integration.csv``; `LIMIT_MISSED` where an error is too large."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.integration", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=[s.name for s in systems()], metavar="SYSTEM")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/integration/out"), metavar="DIR")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    commit = source_commit(Path(__file__).parent)
    rows, wrong = [], 0
    with threadpool_limits(1), np.errstate(all="ignore"):
        for system in systems():
            if options.only and system.name not in options.only:
                continue
            began = time.process_time()
            found = errors(system)
            wrong += any(value > LARGEST for value in found.values())
            cells = ["" if math.isnan(found[way]) else f"{found[way]:.1e}" for way in WAYS]
            rows.append([system.name, *cells, system.source, commit])
            print(f"{system.name}: {time.process_time() - began:.1f} CPU-s", file=sys.stderr, flush=True)
    head = ["system", *WAYS]
    with (options.out / "integration.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([[*head, "source", "commit"], *rows])
    print(align([head, *(row[: len(head)] for row in rows)]))
    print(f"{len(rows) - wrong} of {len(rows)} systems within {LARGEST:.1%} in every way")
    return LIMIT_MISSED if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
