"""Bands of one trial: where an ensemble's members, or a field's own deviation, say that the truth may lie."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from benchmarks.harness.run import Integrator, attempt
from benchmarks.harness.trials import Problem, Trial, observe, sample_index
from fim_dynsys.fields.base import VectorField
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.trajectories.container import Trajectories

MEMBERS = 50
POINTS = 40  # of each trajectory at which bands are compared
PERCENTS = {50: 0.674490, 90: 1.644854}  # nominal coverages and the normal distribution's quantiles
MEMBER_RTOL, MEMBER_STEPS = 1e-6, 2_000
CLEAN_RTOL = 1e-10
"""Of all paths where samples have no noise, whose bands are narrower than what references were solved to."""

CAP = 10.0
"""Largest deviation, in standard deviations of the trajectory or typical rates; what left is so far off."""
QUANTITIES = ("trajectory, own", "trajectory, other", "field, own", "field, other")
STATED = ", stated"


class FittedRow(Protocol):
    """A row that gives the model itself, fitted to a context, as `ModelRow` does."""

    def fit(self, context: Trajectories) -> Any:
        """Return the fitted model, which has ``field_`` and ``ensemble``."""


def evaluate(
    row: FittedRow,
    problem: Problem,
    trial: Trial,
    truth: Callable[[Problem], VectorField],
    integrator: Integrator,
) -> dict[str, Any]:
    """Errors of the best estimate and half widths of the bands round it, along both trajectories of a system.

    A band is symmetric about the estimate: its half width is a quantile of the members' distances from it.
    Fields that state their own deviation get a second band of their values, normal quantiles of it. An
    exception of the model, and an estimate that fails, are errors of `CAP` under bands of no width.

    Returns
    -------
    dict
        By quantity: ``error``, ``half50`` and ``half90``, lists of numbers in standard deviations of the
        trajectory or in typical rates; ``status``, ``message``, ``failed`` (share of the members' paths that
        are not whole) and CPU ``seconds``.
    """
    tried = attempt(_bands, row, problem, trial, truth, integrator)
    outcome: dict[str, Any] = {"status": tried.status, "message": tried.message, "failed": 1.0}
    if tried.value is None:
        lost = {"error": [CAP] * POINTS * problem.dim}
        lost |= {f"half{p}": [0.0] * POINTS * problem.dim for p in PERCENTS}
        outcome |= dict.fromkeys(QUANTITIES, lost)
    return outcome | (tried.value or {}) | {"seconds": tried.seconds}


def _bands(
    row: FittedRow,
    problem: Problem,
    trial: Trial,
    true_field: Callable[[Problem], VectorField],
    integrator: Integrator,
) -> dict[str, Any]:
    model = row.fit(observe(problem, trial))
    field, members = model.field_, model.ensemble(MEMBERS)
    index = sample_index(len(problem.t), trial.protocol)
    order = [trial.ic - 1, 2 - trial.ic]
    t, truths = problem.t[index], problem.references[order][:, index]
    starts, rates = problem.starts[order], true_field(problem)
    rtol = MEMBER_RTOL
    if not trial.sigma:
        rtol = CLEAN_RTOL
        integrator = replace(integrator, rtol=rtol)
        truths = integrator.solve(rates, starts, t, problem.size)[0]
    thin = np.linspace(0, len(t) - 1, POINTS + 1).astype(int)[1:]  # without the start, which is given
    estimates, status = integrator.solve(field, starts, t, problem.size)
    paths = simulate(
        [member for member in members for _ in starts],
        np.tile(starts, (len(members), 1)),
        t,
        rtol=rtol,
        max_steps=MEMBER_STEPS,
    ).x.reshape(len(members), 2, len(t), -1)
    result: dict[str, Any] = {"status": status[0].name}
    for k, place in enumerate(("own", "other")):
        truth, points = truths[k], truths[k][thin]
        size = truth.std(axis=0)
        size = np.where(size > 0, size, size.mean() or 1.0)
        result[f"trajectory, {place}"] = _band(
            (truth - estimates[k])[thin] / size, (paths[:, k] - estimates[k])[:, thin] / size
        )
        true_rates, found = rates(points), field(points)
        typical = size * (np.mean(np.abs(true_rates) / size) or 1.0)
        others = np.stack([member(points) for member in members])
        result[f"field, {place}"] = _band((true_rates - found) / typical, (others - found) / typical)
        stated = field.scale(points)
        if stated is not None:
            band = {"error": result[f"field, {place}"]["error"]}
            band |= {f"half{p}": _listed(z * stated / typical) for p, z in PERCENTS.items()}
            result[f"field, {place}{STATED}"] = band
    return result | {"failed": float(np.mean(~np.isfinite(paths[:, :, -1]).all(axis=-1)))}


def _band(error: np.ndarray, distances: np.ndarray) -> dict[str, list[float]]:
    """Band of members at ``distances`` (members, n, d) from an estimate that is off by ``error`` (n, d)."""
    distances = np.abs(np.where(np.isfinite(distances), distances, CAP))
    lost = ~np.isfinite(error)
    band = {"error": _listed(np.where(lost, CAP, error))}
    for percent in PERCENTS:
        half = np.quantile(distances, percent / 100, axis=0)
        band[f"half{percent}"] = _listed(np.where(lost, 0.0, half))
    return band


def _listed(values: np.ndarray) -> list[float]:
    return np.minimum(np.abs(values), CAP).ravel().tolist()
