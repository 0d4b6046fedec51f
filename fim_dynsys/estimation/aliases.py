"""Fits that turn faster than their samples can show: which of several is the slowest."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np

from fim_dynsys.estimation.experiments import Path
from fim_dynsys.estimation.problem import Problem, Run
from fim_dynsys.estimation.programs import TIME

_BETWEEN = 24  # places between two samples: 8 for each of three turns
_GAPS = 100  # between samples of a run, from its first one, that are looked at
_RUNS = 10  # that are looked at
_TOLERANCE = 1e-6  # of the integration
_TURN = 0.1  # of a column's range: smaller turns do not count
_FEWEST = 4  # gaps with turns: fewer show no frequency
_SMOOTH = 0.25  # of what unrelated samples differ by from one to the next
_FASTER = 1.5  # times the movement of the slowest: an alias moves more than twice as much


def slowest(problem: Problem, thetas: list[np.ndarray]) -> np.ndarray:
    """Which of several places (s,) that fit alike move no more between the samples than they need to.

    Parameters
    ----------
    problem : Problem
        What was fitted.
    thetas : list of arrays (q,)
        Coordinates.
    """
    dense = _dense(problem)
    moved = np.array([_movement(dense, theta) for theta in thetas])
    return moved <= _FASTER * moved.min()


def prefers_slow(problem: Problem) -> bool:
    """Whether the slowest of places that fit alike is preferred, even to starts that the user named.

    Neighbouring samples of a fast wave are near each other by coincidence alone.
    """
    if all(p.otherwise is None for p in problem.parameters):
        return True
    objective = problem.objective
    for kind in np.unique(objective.kinds):
        series = [
            e.values[e.kinds == kind][np.argsort(e.rows[e.kinds == kind])] for e in objective.experiments
        ]
        steps = np.concatenate([np.diff(values) for values in series])
        spread = np.var(np.concatenate(series))
        if len(steps) and not np.mean(steps**2) <= 2.0 * _SMOOTH * spread:
            return False
    return True


def turns_between_samples(problem: Problem, theta: np.ndarray, frequencies: Mapping[str, object]) -> float:
    """How often a column turns back from one sample to the next, where that is more than once, else 0.

    A wave sampled less than twice a period looks like a slower one. What is known to be fast does not count:
    runs with events or inputs of more pieces than samples, and given functions of time.

    Parameters
    ----------
    problem : Problem
        What was fitted.
    theta : array (q,)
        Where.
    frequencies : mapping
        Names of estimated frequencies in functions of the time.
    """
    timed = any(s.name == TIME for e in (*problem.equations, *problem.seen) for s in e.free_symbols)
    if timed and not frequencies:
        return 0.0
    dense = _dense(problem)
    paths = dense.objective.paths(theta, _TOLERANCE, sensitivities=False)
    if paths is None:
        return 0.0
    most = 0.0
    for at in dense.objective.at:
        counts: list[int] = []
        for run, path in list(zip(problem.runs, paths, strict=True))[:_RUNS]:
            if not run.events and len(run.inputs.starts) <= len(run.times) + 1:
                counts += _turns(run, path, int(at))
        own = np.trim_zeros(np.array(counts))
        if len(own) >= _FEWEST and own.mean() > 1.0 and np.median(own) >= 1.0:
            most = max(most, float(own.mean()))
    return most


def _turns(run: Run, path: Path, at: int) -> list[int]:
    """How often an observable turns back in each gap between samples."""
    from scipy.signal import find_peaks

    times = _times(run)
    values, ends = path.values[:, at], run.times[: _GAPS + 1]
    if not np.isfinite(values).all() or len(ends) < 2:
        return []
    prominence = _TURN * max(float(np.ptp(values)), np.finfo(float).tiny)
    peaks = np.concatenate([find_peaks(side * values, prominence=prominence)[0] for side in (-1.0, 1.0)])
    return np.histogram(times[peaks], ends)[0].tolist()


def _movement(dense: Problem, theta: np.ndarray) -> float:
    """How far the observables move up and down in all, in their sizes; infinite where no path exists."""
    paths = dense.objective.paths(theta, _TOLERANCE, sensitivities=False)
    if paths is None:
        return np.inf
    values, kinds = dense.objective.measured, dense.objective.kinds
    total = 0.0
    for kind, at in enumerate(dense.objective.at):
        size = np.std(values[kinds == kind]) if (kinds == kind).any() else 0.0
        moved = sum(float(np.abs(np.diff(path.values[:, at])).sum()) for path in paths)
        total += moved / size if size > 0.0 else 0.0
    return total


def _dense(problem: Problem) -> Problem:
    """The problem with places between its samples."""
    runs = [
        replace(run, times=_times(run), rows=np.searchsorted(_times(run), run.times)[run.rows])
        for run in problem.runs[:_RUNS]
    ]
    return problem.with_runs([*runs, *problem.runs[_RUNS:]])


def _times(run: Run) -> np.ndarray:
    """Times of the samples, and between the first ones."""
    looked = run.times[: _GAPS + 1]
    between = [np.linspace(a, b, _BETWEEN, endpoint=False) for a, b in pairwise(looked)]
    return np.concatenate([*between, run.times[len(looked) - 1 :]])
