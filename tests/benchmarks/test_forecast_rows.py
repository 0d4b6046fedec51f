"""Benchmarks without a true field: recorded data, and models that forecast without one."""

import csv
import sys
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from benchmarks import cli
from benchmarks.harness import rows
from benchmarks.harness.cache import RowCache
from benchmarks.harness.rows import ConstantRow, ModelRow, View
from benchmarks.harness.run import Integrator, attempt, evaluate, trial_columns
from benchmarks.harness.trials import Problem, Trial, data_digest, list_trials, observe, target
from fim_dynsys.models.base import ModelKind, TrajectoryModel
from fim_dynsys.trajectories.container import Trajectories

T = np.linspace(0.0, 6.0, 61)
TASKS = ("reconstruction", "forecast")
TRIAL = Trial("turning", 1, 0.0, 0.0, 0, "full")


def recorded(system: str = "turning", n_seen: int | None = 41) -> Problem:
    """One trajectory of a rotation that dies out, of which two thirds are seen; no field, no equations."""
    path = np.exp(-0.1 * T)[:, None] * np.stack([np.cos(T), -np.sin(T)], axis=1)
    return Problem(system, T, path[None], n_seen=n_seen)


class LinearMap(TrajectoryModel):
    """x(t + step) = A x(t), by least squares; times are multiples of the step."""

    name = "linear-map"
    kind = ModelKind.MAP

    def fit(self, x, t=None):
        ((times, states),) = x.arrays()
        self.step = times[1] - times[0]
        self.matrix = np.linalg.lstsq(states[:-1], states[1:], rcond=None)[0]
        return self

    def forecast(self, x0, t):
        steps = np.rint((t - t[0]) / self.step).astype(int)
        powers = np.stack([np.linalg.matrix_power(self.matrix, n) for n in steps])
        paths = np.einsum("kd,mde->kme", x0, powers)
        return Trajectories.from_arrays(list(paths), [t] * len(paths))


@dataclass(frozen=True)
class MapRow:
    """A row of the map; `grows` makes it diverge, `short` forget the last time."""

    grows: float = 1.0
    short: bool = False
    name: str = "map"
    version: str = "1"
    sees_truth: ClassVar[bool] = False

    def infer(self, view):
        model = LinearMap().fit(view.context)
        model.matrix = model.matrix * self.grows
        if self.short:
            forecast = model.forecast
            model.forecast = lambda x0, t: forecast(x0, t[:-1])
        return model


# --------------------------------------------------------------------------------------------- what is asked


def test_a_context_ends_where_the_forecast_begins():
    problem = recorded()
    assert observe(problem, TRIAL).n_obs[0] == 41
    seen, later = (target(problem, TRIAL, task) for task in TASKS)
    np.testing.assert_array_equal(np.concatenate([seen.states, later.states]), problem.references[0])
    np.testing.assert_array_equal(later.start, problem.references[0, 0])
    assert len(list_trials([problem], [(0.0, 0.0)], ["full"], [0])) == 1  # one trajectory, one context


def test_what_may_be_seen_is_part_of_the_data():
    digests = {data_digest(recorded(n_seen=n)) for n in (None, 40, 41)}
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("task", "problem"),
    [("generalisation", recorded()), ("forecast", recorded(n_seen=None)), ("guess", recorded())],
)
def test_a_task_without_reference_stops_the_run(task, problem):
    with pytest.raises(ValueError, match=rf"Task '{task}': expected reconstruction, .*'turning'"):
        evaluate(ConstantRow(), problem, TRIAL, Integrator(), (task,))


# ------------------------------------------------------------------------------------------------- forecasts


def test_a_map_is_scored_by_its_own_forecast():
    """The sampled rotation is linear: the map is exact, seen and unseen."""
    outcome = evaluate(MapRow(), recorded(), TRIAL, Integrator(), TASKS)
    for task in TASKS:
        assert outcome[f"r2_{task}"] == pytest.approx(1.0, abs=1e-12)
        assert outcome[f"status_{task}"] == "SUCCESS"
    assert outcome["terms"] is None and outcome["infer_seconds"] >= 0.0


def test_a_forecast_that_diverges_fails_where_it_does():
    outcome = evaluate(MapRow(grows=1e7), recorded(), TRIAL, Integrator(), TASKS)
    assert outcome["status_reconstruction"] == "SUCCESS"  # bad, but finite: 1e7^40 = 1e280
    assert (outcome["status_forecast"], outcome["mse_forecast"]) == ("NON_FINITE", np.inf)


def test_a_forecast_of_other_times_is_a_failure():
    outcome = evaluate(MapRow(short=True), recorded(), TRIAL, Integrator(), TASKS)
    assert outcome["status_forecast"] == "ValueError"
    assert "forecast: expected states (2, 61, 2), got (2, 60, 2)" in outcome["message"]


def test_a_registered_model_without_fields_is_fitted(monkeypatch):
    monkeypatch.setattr(rows, "_load", lambda name, params: LinearMap())
    row = ModelRow.resolve("linear-map")
    assert evaluate(row, recorded(), TRIAL, Integrator(), TASKS)["r2_forecast"] > 0.999


def test_maps_and_fields_are_benchmarked_by_the_same_trials(tmp_path, capsys):
    benchmark = cli.Benchmark(
        name="recorded",
        title="Recorded",
        problems=lambda: [recorded(), recorded("again", 31)],
        truth_rows={"map": MapRow},
        default_models=("map", "constant"),
        tasks=TASKS,
        settings=((0.0, 0.0),),
    )
    assert cli.main(benchmark, ["--workers", "1", "--out", str(tmp_path)]) == 0
    with (tmp_path / "trials.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert tuple(lines[0]) == trial_columns(TASKS) and len(lines) == 4
    assert {line["status_forecast"] for line in lines} == {"SUCCESS"}
    printed = capsys.readouterr().out
    assert "reconstruction / forecast" in printed and "100.0 / 100.0" in printed
    assert cli.main(benchmark, ["--render", "--out", str(tmp_path)]) == 0
    assert "generalisation" not in (tmp_path / "report.txt").read_text()


# ------------------------------------------------------------------------------------------ what a row sees


@dataclass(frozen=True)
class PeepingRow:
    """Asks for what it has not declared."""

    what: str
    name: str = "peeping"
    version: str = "1"
    sees_truth: ClassVar[bool] = False

    def infer(self, view):
        return getattr(view, self.what)


@pytest.mark.parametrize("what", ["problem", "trial"])
def test_the_truth_is_not_in_the_view_of_other_rows(what):
    problem = recorded()
    outcome = evaluate(PeepingRow(what), problem, TRIAL, Integrator(), TASKS)
    assert outcome["status_forecast"] == "PermissionError"
    assert "declares sees_truth = True" in outcome["message"]
    view = View.of(PeepingRow(what), observe(problem, TRIAL), problem, TRIAL)
    assert problem not in vars(view).values() and vars(view).keys() == {"context", "_truth"}
    assert view._truth is None


# --------------------------------------------------------------------------------------- attempts, the cache


def test_an_attempt_says_what_happened_and_what_it_took():
    succeeded = attempt(divmod, 7, 2)
    assert (succeeded.value, succeeded.status, succeeded.message) == ((3, 1), "SUCCESS", "")
    failed = succeeded.then(lambda pair: pair / 0)
    assert (failed.value, failed.status, failed.succeeded) == (None, "TypeError", False)
    later = failed.then(sys.exit)  # never begun
    assert (later.status, later.message) == (failed.status, failed.message)
    assert failed.seconds >= 0.0 and np.isnan(later.seconds)


@dataclass(frozen=True)
class Draw:
    """A key of a benchmark's own."""

    subject: str
    window: tuple[int, int]


@dataclass(frozen=True)
class Fold:
    """Another with the same fields."""

    subject: str
    window: tuple[int, int]


@dataclass
class Thawed:
    subject: str


def test_keys_are_told_apart_by_class_and_fields(tmp_path):
    row: dict[str, Any] = {"name": "map"}
    key = Draw("09", (1, 3))
    RowCache.open(tmp_path, row).add(key, "data", {"mse": 1.0})
    again = RowCache.open(tmp_path, row)
    assert again.get(key, "data") == {"mse": 1.0}
    assert (key, "other data") not in again
    assert (replace(key, window=(1, 4)), "data") not in again
    assert (Fold("09", (1, 3)), "data") not in again
    with pytest.raises(TypeError, match="expected an instance of a frozen dataclass as key"):
        again.add(Thawed("09"), "data", {})


def test_lines_of_trials_are_written_and_read_as_ever(tmp_path):
    trial = (
        '{"trial": {"system": "turning", "ic": 1, "sigma": 0.0, "rho": 0.0, "seed": 0, "protocol": "full"}, '
        '"data": "d", "outcome": {"mse": 2.0}}\n'
    )
    cache = RowCache.open(tmp_path, {"name": "map"})
    cache.add(TRIAL, "d", {"mse": 2.0})
    assert cache.path.read_text().splitlines(keepends=True)[1] == trial
    assert RowCache.open(tmp_path, {"name": "map"}).get(TRIAL, "d") == {"mse": 2.0}
