"""Numbers that the models returned when their versions were last raised; writes them anew on request."""

import argparse
import json
from pathlib import Path

import numpy as np

import fim_dynsys
from fim_dynsys import systems
from fim_dynsys.corruption import add_noise
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.trajectories.container import Trajectories

GOLDEN = Path(__file__).parent / "data" / "golden.json"
COMMAND = 'python -m tests.golden --reason "why the numbers change"'

# Largest difference, relative to the largest value of the field in the context. Other instruction sets of one
# processor change the numbers by 1e-10 at most, except fim-ode's by 3e-9.
TOLERANCE = 1e-6
HOW_TO_RAISE = {
    "sindy": "raise `version` of SINDy",
    "sindy-strong": "raise `version` of StrongSINDy",
    "fim-ode": "raise `_SEARCH` beside FIMODE, or export the weights anew",
}
POINTS = np.array([-0.2, -0.05, 0.1, 0.3])  # along the diagonal of the region, from its centre


def contexts():
    """Name, observations and points (4, d) of the four contexts."""
    return {
        "one state, clean": _context("logistic", [np.linspace(0, 8, 40)], 0.0),
        "two states, 2 % noise": _context("van_der_pol", [np.linspace(0, 20, 150)], 0.02),
        "three states, 1 % noise": _context("linear_spiral", [np.linspace(0, 10, 100)], 0.01),
        "two ragged trajectories, 5 % noise": _context(
            "predator_prey", [_uneven(0, 20, 90, seed=1), _uneven(0, 12, 50, seed=2)], 0.05
        ),
    }


def _uneven(start, stop, n, seed):
    """Ordered times that keep a third of the mean gap between each other."""
    gaps = np.random.default_rng(seed).uniform(0.5, 1.5, n - 1)
    return start + (stop - start) * np.concatenate([[0], np.cumsum(gaps)]) / gaps.sum()


def _context(name, times, sigma):
    system = systems.get(name)
    states = [
        simulate(system.field(), start, t, rtol=1e-11).arrays()[0][1]
        for start, t in zip(system.initial_states, times, strict=False)
    ]
    clean = Trajectories.from_arrays(states, times)
    points = system.region.centre + POINTS[:, None] * system.region.size
    return add_noise(clean, sigma, 0) if sigma else clean, points


def current(name):
    """Version of a model and the values (4, d) of its fields."""
    model = fim_dynsys.load(name)
    values = {key: model.fit(data).predict(points) for key, (data, points) in contexts().items()}
    return model.version, values


def read():
    """What the file holds, by model."""
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


def differences(values, expected):
    """Largest relative difference of each context that differs by more than the tolerance."""
    out = {}
    for key, value in values.items():
        known = np.array(expected[key])
        relative = float(np.max(np.abs(value - known)) / np.max(np.abs(known)))
        if not relative <= TOLERANCE:
            out[key] = relative
    return out


def write(reason, same_version=False):
    """Write the present numbers of the models that changed; returns the names of those."""
    golden = read() if GOLDEN.is_file() else {}
    changed = []
    for name in HOW_TO_RAISE:
        version, values = current(name)
        old = golden.get(name)
        if old is not None and old["version"] == version:
            different = differences(values, old["values"])
            if not different:
                continue
            if not same_version:
                raise SystemExit(
                    f"{name}: expected the numbers of version {version}, got relative differences "
                    f"{different}; {HOW_TO_RAISE[name]} first."
                )
        rounded = {key: np.vectorize(lambda v: float(f"{v:.12g}"))(v).tolist() for key, v in values.items()}
        golden[name] = {"version": version, "reason": reason, "command": COMMAND, "values": rounded}
        changed.append(name)
    GOLDEN.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")
    return changed


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--reason", required=True, help="why the numbers change; kept in the file")
    parser.add_argument(
        "--same-version", action="store_true", help="accept other numbers of the same version (rounding only)"
    )
    given = parser.parse_args()
    changed = write(given.reason, given.same_version)
    print(f"Written: {', '.join(changed)}" if changed else "Nothing changed")


if __name__ == "__main__":
    main()
