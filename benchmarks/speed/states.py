"""What a law of many states costs, and whether it is the right one."""

import time
from collections.abc import Sequence

import numpy as np

import fim_dynsys
from benchmarks.speed.timing import Measurement
from fim_dynsys.corruption import add_noise
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.metrics import r2_score
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.trajectories.container import Trajectories

OBSERVATIONS, NOISE, SEED = 200, 0.02, 0
STATES = (5, 10, 15, 20, 25, 30)


def chains(_: int, dims: Sequence[int] = STATES) -> list[Measurement]:
    """`auto` on chains ``x_i' = -.7 x_(i-1) - .5 x_i + .5 x_(i+1)`` of d states, one path each.

    CPU time of the fit, R2 of the path from its clean start and from another, wrong and missing terms.
    """
    found = []
    for dim in dims:
        matrix = -0.5 * np.eye(dim) - 0.7 * np.eye(dim, k=-1) + 0.5 * np.eye(dim, k=1)
        field = CallableField(lambda x, matrix=matrix: x @ matrix.T, dim)
        rng, t = np.random.default_rng(SEED), np.linspace(0.0, 15.0, OBSERVATIONS)
        clean, other = simulate(field, rng.uniform(-1.5, 1.5, (2, dim)), t).x
        data = add_noise(Trajectories.from_arrays(clean, t), NOISE, rng)
        start = time.process_time()
        law = fim_dynsys.load("auto").fit(data).field_
        seconds = time.process_time() - start
        about = f"auto, chain of {dim} states"
        note = f"{OBSERVATIONS} samples of one path, noise {NOISE:g}"
        values = {
            "fit": (seconds, "s"),
            "own path": (_followed(law, clean, t), "R2"),
            "another start": (_followed(law, other, t), "R2"),
            "wrong and missing terms": (float(_wrong(law, matrix)), "terms"),
        }
        found += [Measurement(f"{about}, {what}", *value, 1, note) for what, value in values.items()]
    return found


def _followed(law: fim_dynsys.VectorField, clean: np.ndarray, t: np.ndarray) -> float:
    return float(r2_score(clean, simulate(law, clean[:1], t).x[0]))


def _wrong(law: fim_dynsys.VectorField, matrix: np.ndarray) -> int:
    """Terms that only one of both has."""
    true = {(f"x{j}", int(i)) for i, j in np.argwhere(matrix)}
    names = law.dictionary.names()
    return len(true ^ {(names[m], int(i)) for m, i in np.argwhere(law.coefficients)})
