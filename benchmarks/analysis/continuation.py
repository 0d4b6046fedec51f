"""Bifurcations of families with closed forms: positions found by continuation, and its CPU seconds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.parts import Figure, Part, best_seconds
from fim_dynsys import FieldFamily, systems
from fim_dynsys.analyze import Continuation, continuation

OF_EQUILIBRIA = ("LP", "HB", "BP", "DB", "O2")


@dataclass(frozen=True)
class Diagram:
    """A family, where to start, and the bifurcations that it has in the range.

    Attributes
    ----------
    fn : callable
        ``fn(x (n, d), p)``.
    start : tuple of float
        An equilibrium at the first value of the range.
    p_range : (float, float)
    equilibria : tuple of (str, float)
        Label and parameter value of the bifurcations of equilibria connected to the start.
    cycles : tuple of (str, float), optional
        Those of the cycles born there; None where they are not known.
    """

    fn: Callable
    start: tuple
    p_range: tuple
    equilibria: tuple
    cycles: tuple | None = ()


def _columns(*rates: np.ndarray) -> np.ndarray:
    return np.stack(np.broadcast_arrays(*rates), axis=1)


def _brusselator(s: np.ndarray, b: float) -> np.ndarray:
    x, y = s.T
    return _columns(1 + x**2 * y - (b + 1) * x, b * x - x**2 * y)


def _fitzhugh_nagumo(s: np.ndarray, j: float) -> np.ndarray:
    v, w = s.T
    return _columns(v - v**3 / 3 - w + j, 0.08 * (v + 0.7 - 0.8 * w))


def _lorenz(s: np.ndarray, rho: float) -> np.ndarray:
    x, y, z = s.T
    return _columns(10 * (y - x), x * (rho - z) - y, x * y - 8 / 3 * z)


def _bautin(s: np.ndarray, p: float) -> np.ndarray:
    """r' = r (p + r^2 - r^4), theta' = 1."""
    x, y = s.T
    r2 = x**2 + y**2
    g = p + r2 - r2**2
    return _columns(g * x - y, g * y + x)


def _torus(s: np.ndarray, p: float) -> np.ndarray:
    """r' = r (p - z), theta' = 3, z' = r^2 - z + z^2 / 2: in (r, z) a Hopf point at p = 1."""
    x, y, z = s.T
    return _columns((p - z) * x - 3 * y, (p - z) * y + 3 * x, x**2 + y**2 - z + z**2 / 2)


def _hopf(s: np.ndarray, mu: float) -> np.ndarray:
    x, y = s.T
    g = mu - x**2 - y**2
    return _columns(g * x - 2 * y, g * y + 2 * x)


def _allee(s: np.ndarray, d: float) -> np.ndarray:
    """Predator and prey with an Allee effect; the prey's rate x (x - 0.2)(1 - x) peaks at the Hopf point."""
    x, y = s.T
    return _columns(x * (x - 0.2) * (1 - x) - x * y, y * (x - d))


def _roessler(s: np.ndarray, a: float) -> np.ndarray:
    x, y, z = s.T
    return _columns(-y - z, x + a * y, 0.2 + z * (x - 5.7))


def _toggle(s: np.ndarray, a: float) -> np.ndarray:
    u, v = s.T
    return _columns(a / (1 + v**2) - u, a / (1 + u**2) - v)


def known_diagrams() -> dict[str, Diagram]:
    """Return the families by name."""
    fold = 2 / 3 / np.sqrt(3)
    hopf = systems.get("fitzhugh_nagumo").truth("J_hopf").tolist()
    rho = float(systems.get("lorenz").truth("rho_hopf"))
    return {
        "saddle-node": Diagram(lambda x, r: r + x**2, (-1.4,), (-2, 1), (("LP", 0.0),)),
        "transcritical": Diagram(lambda x, r: r * x - x**2, (0.0,), (-1, 1), (("BP", 0.0),)),
        "pitchfork": Diagram(lambda x, r: r * x - x**3, (0.0,), (-1, 1), (("BP", 0.0),)),
        "cusp": Diagram(lambda x, h: h + x - x**3, (-1.3,), (-1, 1), (("LP", -fold), ("LP", fold))),
        "broken pitchfork": Diagram(
            lambda x, r: 1e-3 + r * x - x**3, (-1.0,), (1, -1), (("LP", 3 * (5e-4) ** (2 / 3)),)
        ),
        "toggle switch": Diagram(_toggle, (0.5, 0.5), (0.6, 4), (("BP", 2.0),)),
        "Hopf normal form": Diagram(_hopf, (0.0, 0.0), (-1, 1), (("HB", 0.0),)),
        "Brusselator": Diagram(_brusselator, (1.0, 1.0), (1, 3), (("HB", 2.0),)),
        "FitzHugh-Nagumo": Diagram(
            _fitzhugh_nagumo, (-1.2, -0.6), (0, 2), tuple(("HB", j) for j in hopf), None
        ),
        "Lorenz": Diagram(_lorenz, (0.0, 0.0, 0.0), (0.5, 30), (("BP", 1.0), ("HB", rho), ("HB", rho))),
        "Bautin normal form": Diagram(_bautin, (0.0, 0.0), (-1, 1), (("HB", 0.0),), (("LPC", -0.25),)),
        "torus normal form": Diagram(_torus, (0.0, 0.0, 0.0), (-0.5, 1.4), (("HB", 0.0),), (("NS", 1.0),)),
        "predator-prey, Allee": Diagram(_allee, (0.7, 0.15), (0.7, 0.5), (("HB", 0.6),)),
        "Roessler": Diagram(_roessler, (0.0, 0.0, 0.0), (-0.1, 0.15), (("HB", roessler_hopf()),), None),
    }


def roessler_hopf() -> float:
    """Return the value of a at which the Roessler system (b = 0.2, c = 5.7) has its Hopf point.

    Routh and Hurwitz: with trace T, sum of principal minors M and determinant D of the Jacobian, T M = D.
    """
    from scipy.optimize import brentq

    def defect(a: float) -> float:
        x = (5.7 - np.sqrt(5.7**2 - 0.8 * a)) / 2
        jac = np.array([[0, -1, -1], [1, a, 0], [x / a, 0, x - 5.7]])
        minors = (np.trace(jac) ** 2 - np.trace(jac @ jac)) / 2
        return np.trace(jac) * minors - np.linalg.det(jac)

    return brentq(defect, 1e-4, 0.05, xtol=1e-16, rtol=1e-15)


def tasks() -> dict[str, tuple]:
    """One task per family."""
    return {name: (name,) for name in known_diagrams()}


def measure(name: str) -> dict[str, Any]:
    """Return counts and errors of one family's bifurcations and the CPU seconds with and without cycles."""
    known = known_diagrams()[name]
    family = FieldFamily.from_callable(known.fn, len(known.start))

    def run(cycles: bool) -> Continuation:
        return continuation(family, known.start, known.p_range, cycles=cycles)

    result = run(True)
    labels = [(b.kind.value, b.p) for b in result.bifurcations]
    row = compare([found for found in labels if found[0] in OF_EQUILIBRIA], known.equilibria)
    if known.cycles is not None:
        of_cycles = [b for branch in result.cycles for b in branch.bifurcations]
        against = compare([(b.kind.value, b.p) for b in of_cycles], known.cycles)
        row |= {f"cycle_{key}": value for key, value in against.items()}
    row["points"] = sum(map(len, result.branches))
    row["seconds_equilibria"] = best_seconds(lambda: run(False))
    row["seconds"] = best_seconds(lambda: run(True))
    return row


def compare(found: Sequence[tuple], true: Sequence[tuple]) -> dict[str, Any]:
    """Return how many true (label, p) are among those found, how many others, and the largest error in p."""
    left, errors = list(found), []
    for label, p in true:
        same = [entry for entry in left if entry[0] == label]
        if same:
            nearest = min(same, key=lambda entry: abs(entry[1] - p))
            left.remove(nearest)
            errors.append(abs(nearest[1] - p))
    return {"true": len(true), "found": len(errors), "extra": len(left), "error": max(errors, default=0.0)}


def figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """Share of families with all bifurcations and no others, largest error, slowest families."""
    known = [row for row in rows if "cycle_true" in row]
    out = []
    for what, prefix, some in (("equilibria", "", rows), ("cycles", "cycle_", known)):
        if not some:
            continue
        right = [row[f"{prefix}found"] == row[f"{prefix}true"] and not row[f"{prefix}extra"] for row in some]
        error = max(row[f"{prefix}error"] for row in some)
        n = len(some)
        out += [
            Figure(f"bifurcations of {what}: all found, none extra", float(np.mean(right)), "", ">= 1", n),
            Figure(f"bifurcations of {what}: largest error of p", error, "", "<= 1e-08", n),
        ]
    slowest = {name: max(rows, key=lambda row: row[name]) for name in ("seconds_equilibria", "seconds")}
    for name, what in (("seconds_equilibria", "equilibria"), ("seconds", "equilibria and cycles")):
        row = slowest[name]
        out.append(Figure(f"{what}: slowest family", row[name], "s", "< 2", len(rows), row["task"]))
    return out


PART = Part("continuation", "1", tasks, measure, figures)
