"""Reaction networks with conserved sums: analyses on a level set against systems reduced by hand."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.parts import Figure, Part
from fim_dynsys import CallableField, FieldFamily
from fim_dynsys.analyze import BifurcationKind, continuation, fixed_points

EQUAL = 1e-8
"""Largest difference between the two routes, in units of the totals, that counts as none."""

MISSED = BifurcationKind.NEAR_MISS
"""Not compared: whether a minimum counts as one depends on the points of a branch, which differ."""

Rates = Callable[..., tuple]
"""Rates of change of all states from the states and the parameter, one argument each."""


@dataclass(frozen=True)
class Network:
    """A network, and its reduction by hand.

    Attributes
    ----------
    rates : callable
        ``rates(*states, p)``.
    states : str
        Names of the states, by blanks.
    totals : dict
        Total of each conserved sum.
    solved : callable
        ``solved(*kept)`` gives all states from those that are kept, by the sums.
    kept : tuple of int
        Numbers of the states that are kept.
    p : float
        Parameter value of the fixed points, and where the continuation starts.
    p_range : (float, float)
        Range of the continuation.
    high : float
        States are sought between 0 (and a little below) and this.
    """

    rates: Rates
    states: str
    totals: dict[str, float]
    solved: Callable[..., tuple]
    kept: tuple[int, ...]
    p: float
    p_range: tuple[float, float]
    high: float

    @property
    def names(self) -> list[str]:
        """Names of all states."""
        return self.states.split()

    def full(self, x: np.ndarray, p: float) -> np.ndarray:
        """Rates (n, d) of all states."""
        return np.stack(np.broadcast_arrays(*self.rates(*x.T, p)), axis=1).astype(float)

    def embedded(self, z: np.ndarray) -> np.ndarray:
        """All states (n, d) from those that are kept (n, r)."""
        return np.stack(np.broadcast_arrays(*self.solved(*z.T)), axis=1).astype(float)

    def reduced(self, z: np.ndarray, p: float) -> np.ndarray:
        """Rates (n, r) of the states that are kept."""
        return self.full(self.embedded(z), p)[:, self.kept]


def _sis(s, i, p):
    return i - p * s * i, p * s * i - i


def _sirs(s, i, r, p):
    return 0.2 * r - p * s * i, p * s * i - i, i - 0.2 * r


def _seirs(s, e, i, r, p):
    return 0.1 * r - p * s * i, p * s * i - 0.5 * e, 0.5 * e - i, i - 0.1 * r


def _vaccinated(s, i, v, p):
    return (
        i + 0.3 * v - p * s * i - 0.2 * s,
        p * s * i + 0.3 * p * v * i - i,
        0.2 * s - 0.3 * v - 0.3 * p * v * i,
    )


def _enzyme(s, e, c, q, p):
    return 0.5 * c + p * q - s * e, 1.5 * c - s * e, s * e - 1.5 * c, c - p * q


def _isomers(a, b, p):
    return b - p * a, p * a - b


def _dimers(a, d, p):
    return 2 * d - 2 * p * a**2, p * a**2 - d


def _polarity(u, v, p):
    on = v * (p + u**2 / (1 + u**2))
    return on - 0.4 * u, 0.4 * u - on


def _modified(w, m, p):
    on, off = p * w / (0.05 + w), m / (0.05 + m)
    return off - on, on - off


def _twice_modified(a, b, c, p):
    first, second = p * a / (1 + a + b), p * b / (1 + a + b)
    back, last = c / (0.1 + c + 4 * b), 2 * b / (0.1 + c + 4 * b)
    return last - first, first + back - second - last, second - back


def _receptor(r, ligand, c, p):
    return c - p * r * ligand, c - p * r * ligand, p * r * ligand - c


def _plankton(n, q, z, p):
    """Nutrient, phytoplankton and zooplankton: what dies is nutrient again; the total oscillates."""
    uptake, grazing = q * n / (0.2 + n), q * z / (0.3 + q)
    return 0.1 * q + p * z + 0.3 * grazing - uptake, uptake - 0.1 * q - grazing, 0.7 * grazing - p * z


NETWORKS: dict[str, Network] = {
    "SIS": Network(_sis, "S I", {"S+I": 1}, lambda i: (1 - i, i), (1,), 2.0, (0.5, 3.0), 1.0),
    "SIRS": Network(
        _sirs, "S I R", {"S+I+R": 1}, lambda s, i: (s, i, 1 - s - i), (0, 1), 2.0, (0.5, 4.0), 1.0
    ),
    "SEIRS": Network(
        _seirs,
        "S E I R",
        {"S+E+I+R": 2},
        lambda e, i, r: (2 - e - i - r, e, i, r),
        (1, 2, 3),
        1.0,
        (0.2, 2.0),
        2.0,
    ),
    "SIS with vaccination": Network(
        _vaccinated, "S I V", {"S+I+V": 1}, lambda i, v: (1 - i - v, i, v), (1, 2), 3.0, (0.5, 4.0), 1.0
    ),
    "enzyme": Network(
        _enzyme,
        "S E C P",
        {"E+C": 0.5, "S+C+P": 2},
        lambda s, c: (s, 0.5 - c, c, 2 - s - c),
        (0, 2),
        1.0,
        (0.2, 3.0),
        2.0,
    ),
    "isomers": Network(_isomers, "A B", {"A+B": 1}, lambda b: (1 - b, b), (1,), 1.0, (0.2, 3.0), 1.0),
    "dimers": Network(_dimers, "A D", {"A+2*D": 1}, lambda d: (1 - 2 * d, d), (1,), 1.0, (0.2, 3.0), 1.0),
    "polarity switch": Network(
        _polarity, "u v", {"u+v": 2.2}, lambda v: (2.2 - v, v), (1,), 0.02, (0.005, 0.3), 2.2
    ),
    "modification cycle": Network(
        _modified, "W M", {"W+M": 1}, lambda m: (1 - m, m), (1,), 1.0, (0.5, 1.5), 1.0
    ),
    "two modifications": Network(
        _twice_modified,
        "A B C",
        {"A+B+C": 10},
        lambda b, c: (10 - b - c, b, c),
        (1, 2),
        0.8,
        (0.4, 1.6),
        10.0,
    ),
    "receptor": Network(
        _receptor,
        "R L C",
        {"R+C": 1, "L+C": 0.7},
        lambda c: (1 - c, 0.7 - c, c),
        (2,),
        2.0,
        (0.5, 5.0),
        1.0,
    ),
    "plankton": Network(
        _plankton,
        "N P Z",
        {"N+P+Z": 2},
        lambda q, z: (2 - q - z, q, z),
        (1, 2),
        0.35,
        (0.2, 0.6),
        2.0,
    ),
}


def tasks() -> dict[str, tuple]:
    """One task for each network."""
    return {name: (name,) for name in NETWORKS}


def measure(name: str) -> dict[str, Any]:
    """Return how far fixed points, eigenvalues and bifurcations differ between both routes."""
    network = NETWORKS[name]
    start = time.process_time()
    points, eigenvalues, n_points = fixed_points_differ(network)
    p, x, n_events, same = branches_differ(network)
    return {
        "points": n_points,
        "points_differ": points,
        "eigenvalues_differ": eigenvalues,
        "bifurcations": n_events,
        "same_kinds": same,
        "parameters_differ": p,
        "branches_differ": x,
        "seconds": time.process_time() - start,
    }


def fixed_points_differ(network: Network) -> tuple[float, float, int]:
    """Largest differences of positions and eigenvalues, and how many points the hand-made system has."""
    d, box = len(network.names), (-0.05 * network.high, 1.05 * network.high)
    whole = CallableField(lambda x: network.full(x, network.p), d, state_names=network.names)
    found = fixed_points(whole, [box] * d, level=network.totals)
    small = CallableField(lambda z: network.reduced(z, network.p), len(network.kept))
    known = fixed_points(small, [box] * len(network.kept))
    x = network.embedded(known.x)
    inside = ((x >= box[0]) & (x <= box[1])).all(axis=1)
    x, values = x[inside], known.eigenvalues[inside]
    if len(found) != len(x):
        return np.inf, np.inf, len(x)
    order = [int(np.abs(found.x - own).max(axis=1).argmin()) for own in x]
    rates = np.maximum(1.0, np.abs(values))
    positions = np.abs(found.x[order] - x).max(initial=0.0) / network.high
    spectra = np.abs(np.sort_complex(found.eigenvalues[order]) - np.sort_complex(values)) / np.sort(
        rates, axis=1
    )
    return float(positions), float(spectra.max(initial=0.0)), len(x)


def branches_differ(network: Network) -> tuple[float, float, int, bool]:
    """Differences of bifurcations and of branches, the number of bifurcations, whether kinds agree."""
    small = CallableField(lambda z: network.reduced(z, network.p), len(network.kept))
    box = [(-0.05 * network.high, 1.05 * network.high)] * len(network.kept)
    starts = fixed_points(small, box).x
    x0 = network.embedded(starts)
    inside = ((x0 >= -EQUAL) & (x0 <= box[0][1])).all(axis=1)  # beyond zero lie poles of saturating rates
    starts, x0 = starts[inside], x0[inside]
    family = FieldFamily.from_callable(network.full, len(network.names), "p", state_names=network.names)
    by_hand = FieldFamily.from_callable(network.reduced, len(network.kept), "p")
    options = {"p0": network.p, "cycles": False}
    found = continuation(family, x0, network.p_range, level=network.totals, **options)
    known = continuation(by_hand, starts, network.p_range, **options)
    kept = ([b for b in result.bifurcations if b.kind is not MISSED] for result in (found, known))
    events, expected = (sorted((str(b.kind), b.p) for b in own) for own in kept)
    same = [kind for kind, _ in events] == [kind for kind, _ in expected]
    if not same:
        return np.inf, np.inf, len(expected), False
    width = abs(network.p_range[1] - network.p_range[0])
    off = max((abs(a - b) / width for (_, a), (_, b) in zip(events, expected, strict=True)), default=0.0)
    worst = 0.0
    for branch in found.branches:
        z = branch.x[:, network.kept]
        for one, all_states, p in zip(z, branch.x, branch.p, strict=True):
            worst = max(worst, float(np.abs(network.reduced(one[None], float(p))).max()))
            worst = max(
                worst, float(np.abs(network.embedded(one[None])[0] - all_states).max() / network.high)
            )
    return float(off), worst, len(expected), True


def figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """The largest differences, and how many networks are equal."""
    columns = ("points_differ", "eigenvalues_differ", "parameters_differ", "branches_differ")
    wrong = [row["task"] for row in rows if not max(row[name] for name in columns) <= EQUAL]
    n = len(rows)
    out = [
        Figure(
            "networks equal to their reductions by hand", n - len(wrong), "", f"== {n}", n, " ".join(wrong)
        )
    ]
    for name in columns:
        out.append(Figure(name.replace("_", " "), max(row[name] for row in rows), "", f"<= {EQUAL:g}", n))
    out.append(Figure("bifurcations compared", sum(row["bifurcations"] for row in rows), "", "", n))
    out.append(Figure("fixed points compared", sum(row["points"] for row in rows), "", "", n))
    out.append(Figure("slowest network", max(row["seconds"] for row in rows), "s", "", n))
    return out


PART = Part("networks", "1", tasks, measure, figures)
