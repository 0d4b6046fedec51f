"""Lorenz records by the protocol of the Common Task Framework for Science, and its scores.

Source: ctf4science, arXiv 2510.23166. Twelve tasks E1 to E12, each with a record to learn from and one to
predict, which goes on where the first ends (or is the first without its noise).
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import fim_dynsys
from fim_dynsys.fields.symbolic import SymbolicField

STEP = 0.05  # time units between samples
SHORT = 20  # samples that a short-time score covers
LONG = 500  # last samples that a long-time score covers
BINS = 41  # of a histogram


@dataclass(frozen=True)
class Task:
    """One score: what is learned from, what is predicted, and how that is scored."""

    name: str
    train: str
    test: str
    score: str


TASKS = (
    Task("E1", "X1train", "X1test", "short"),
    Task("E2", "X1train", "X1test", "long"),
    Task("E3", "X2train", "X2test", "reconstruction"),
    Task("E4", "X2train", "X3test", "long"),
    Task("E5", "X3train", "X4test", "reconstruction"),
    Task("E6", "X3train", "X5test", "long"),
    Task("E7", "X4train", "X6test", "short"),
    Task("E8", "X4train", "X6test", "long"),
    Task("E9", "X5train", "X7test", "short"),
    Task("E10", "X5train", "X7test", "long"),
    Task("E11", "X9train", "X8test", "short"),
    Task("E12", "X10train", "X9test", "short"),
)
WITHOUT_SHARED_FILES = tuple(task.name for task in TASKS if task.name not in ("E7", "E8", "E9", "E10"))
"""Tasks whose public test files are their own: those of pairs 6 and 7 equal that of pair 5."""

EQUATIONS = {"x": "10*(y - x)", "y": "rho*x - y - x*z", "z": "x*y - 8/3*z"}
_PARAMETERS = {"X9train": 29.0, "X10train": 33.0}  # rho, that of all others is _RHO
_RHO = 28.0
_NOISE = {"X2train": 1.0, "X3train": 2.0, "X5train": 1.0}
"""Standard deviation of the noise of a record; the states' own deviations are 8 to 9."""
_SHORT_RECORDS = ("X4train", "X5train", "X9train", "X10train")
_N, _N_SHORT, _N_TEST = 10_000, 100, 1_000


def trains() -> list[str]:
    """Names of the records to learn from."""
    return list(dict.fromkeys(task.train for task in TASKS))


def tasks_of(train: str) -> list[Task]:
    """The scores of what is learned from one record."""
    return [task for task in TASKS if task.train == train]


def made(train: str, seed: int) -> dict[str, np.ndarray]:
    """One record by the same protocol and its test records, by name: float32 as the public ones."""
    rng = np.random.default_rng([seed, trains().index(train)])
    field = SymbolicField(EQUATIONS, {"rho": _PARAMETERS.get(train, _RHO)})
    n = _N_SHORT if train in _SHORT_RECORDS else _N
    t = STEP * np.arange(n + _N_TEST)
    begun = rng.uniform([-15.0, -15.0, 15.0], [15.0, 15.0, 40.0])
    start = fim_dynsys.simulate(field, begun, [0.0, 20.0]).x[0, -1]
    path = fim_dynsys.simulate(field, start, t, rtol=1e-9, method="dop853", max_steps=1_000_000).x[0]
    noise = _NOISE.get(train, 0.0) * rng.standard_normal((n, 3))
    records = {train: (path[:n] + noise).astype(np.float32)}
    for task in tasks_of(train):
        part = path[:n] if task.score == "reconstruction" else path[n:]
        records[task.test] = part.astype(np.float32)
    return records


def read(path: Path) -> dict[str, np.ndarray]:
    """The public records, from a ``.npz`` with arrays (n, 3) by their names."""
    with np.load(path, allow_pickle=False) as held:
        names = {task.train for task in TASKS} | {task.test for task in TASKS}
        missing = sorted(names - set(held.files))
        if missing:
            raise ValueError(f"{path}: expected arrays {', '.join(sorted(names))}, got none of {missing}.")
        return {name: held[name] for name in sorted(names)}


def score(kind: str, true: np.ndarray, predicted: np.ndarray) -> float:
    """A score of at most 100 and at least -100; states (n, 3) that are not finite have the least."""
    if not np.isfinite(predicted).all():
        return -100.0
    if kind == "long":
        value = 100.0 * (1.0 - _histogram_distance(true[-LONG:], predicted[-LONG:]))
    else:
        part = slice(0, SHORT) if kind == "short" else slice(None)
        x, p = true[part], predicted[part]
        value = 100.0 * float(1.0 - np.linalg.norm(x - p) / np.linalg.norm(x))
    return max(value, -100.0)


def _histogram_distance(true: np.ndarray, predicted: np.ndarray) -> float:
    distances = []
    for x, p in zip(true.T, predicted.T, strict=True):
        edges = np.linspace(x.min(), x.max(), BINS + 1)
        h, g = np.histogram(x, edges)[0], np.histogram(p, edges)[0]
        distances.append(np.abs(h - g).sum() / h.sum())
    return float(np.mean(distances))
