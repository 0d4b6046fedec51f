"""The calibration benchmark: bands of known width, failures, and one factor from the development split."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from benchmarks.calibration import __main__ as command
from benchmarks.calibration import bands, cycles, forecasts, points
from benchmarks.calibration.bands import CAP, POINTS, evaluate
from benchmarks.harness.run import Integrator
from benchmarks.harness.trials import Problem, Trial
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.ensemble import EnsembleField

T = np.linspace(0.0, 2.0, 81)
TRIAL = Trial("decay", 1, 0.05, 0.0, 0, "paper")
OFFSETS = np.linspace(-1.0, 1.0, 51)


def decay() -> Problem:
    """x' = -x from two initial states."""
    starts = np.array([[2.0], [-1.0]])
    return Problem("decay", T, starts[:, None, :] * np.exp(-T)[None, :, None], starts, split_strict="ID")


def truth(problem):
    return CallableField(lambda x: -x, 1)


class Stated(CallableField):
    def scale(self, x):
        return np.full(np.shape(x), 0.1)


@dataclass(frozen=True)
class Model:
    """Infers x' = 0.1 - x with members x' = 0.1 + offset - x."""

    offsets: Any

    @property
    def field_(self):
        return Stated(lambda x: 0.1 - x, 1)

    def ensemble(self, n):
        return EnsembleField([CallableField(lambda x, o=o: 0.1 + o - x, 1) for o in self.offsets])

    def forecast(self, seen, ahead, shares):
        """Bands of half widths ``shares`` round a median that is 0.7 too high."""
        median = decay().starts[0, 0] * np.exp(-(seen.t[0, -1] + ahead))[None, :, None] + 0.7
        sides = {"low": -1.0, "high": 1.0}
        bands = {side: np.stack([median + sign * s for s in shares]) for side, sign in sides.items()}
        dims = ("trajectory", "ahead", "state")
        found = {side: (("band", *dims), values) for side, values in bands.items()}
        return xr.Dataset(found | {"median": (dims, median)})


@dataclass(frozen=True)
class Row:
    model: Any
    name: str = "known"
    version: str = "1"
    sees_truth: ClassVar[bool] = False

    def fit(self, context):
        if self.model is None:
            raise np.linalg.LinAlgError("singular matrix")
        return self.model


def test_bands_are_quantiles_of_the_members_distances():
    outcome = evaluate(Row(Model(OFFSETS)), decay(), TRIAL, truth, Integrator())
    size = decay().references[0].std()
    typical = np.mean(np.abs(decay().references[0][np.linspace(0, 80, POINTS + 1).astype(int)[1:]]))
    own = outcome["field, own"]
    np.testing.assert_allclose(own["error"], 0.1 / typical, rtol=1e-9)
    # distances are |offset|, uniform on 0, 0.04, ... 1
    np.testing.assert_allclose(own["half50"], 0.52 / typical, rtol=0.05)
    np.testing.assert_allclose(own["half90"], 0.92 / typical, rtol=0.03)
    stated = outcome["field, own, stated"]
    np.testing.assert_allclose(stated["half90"], 0.1645 / typical, rtol=1e-3)
    # x' = c - x: the path is off by c (1 - exp(-t))
    path = outcome["trajectory, other"]
    t = T[np.linspace(0, 80, POINTS + 1).astype(int)[1:]]
    size = decay().references[1].std()
    np.testing.assert_allclose(path["error"], 0.1 * (1 - np.exp(-t)) / size, rtol=1e-5)
    np.testing.assert_allclose(path["half90"], 0.92 * (1 - np.exp(-t)) / size, rtol=0.03)
    assert (outcome["status"], outcome["failed"]) == ("SUCCESS", 0.0)


def test_members_that_leave_widen_the_band_to_its_cap():
    class Exploding(Model):
        def ensemble(self, n):
            away = [CallableField(lambda x: 1.0 + x**2 * 40, 1)] * 3
            return EnsembleField([*super().ensemble(n), *away])

    outcome = evaluate(Row(Exploding([0.0] * 7)), decay(), TRIAL, truth, Integrator())
    assert outcome["failed"] == pytest.approx(0.3)
    assert outcome["trajectory, own"]["half90"][-1] == CAP
    assert outcome["trajectory, own"]["half50"][-1] < 1e-5  # members are solved to 1e-6


def test_a_failing_model_covers_nothing():
    outcome = evaluate(Row(None), decay(), TRIAL, truth, Integrator())
    assert (outcome["status"], outcome["message"]) == ("LinAlgError", "singular matrix")
    for quantity in bands.QUANTITIES:
        assert outcome[quantity]["error"] == [CAP] * POINTS
        assert outcome[quantity]["half90"] == [0.0] * POINTS


def records(source: str, half: float) -> list[dict[str, Any]]:
    """Errors 0.01 ... 1 under bands of one width."""
    about = {"source": source, "system": "s", "ic": 1, "dim": 1, "sigma": 0.05, "seed": 0, "model": "m"}
    about |= {"version": "1", "status": "SUCCESS", "failed": 0.0, "seconds": 1.0, "message": ""}
    error, width = np.arange(1, 101) / 100, np.full(100, half)
    return [{**about, "quantity": "field, own", "error": error, "half50": width, "half90": width}]


def test_bands_are_widened_by_what_the_development_split_asks_for():
    trials = pd.DataFrame(records("development", 0.3) + records("odebench", 0.15))
    found = command.factors(trials)
    assert found["m", "field, own", 90] == pytest.approx(0.91 / 0.3)
    scored = command.score(trials).set_index("source")
    assert scored.loc["development", "cover90_raw"] == pytest.approx(0.30)
    assert scored.loc["development", "cover90_recalibrated"] == pytest.approx(0.91)
    assert scored.loc["odebench", "cover90_recalibrated"] == pytest.approx(0.45)
    # width 0.91 on each side and the nine errors beyond it, 20 times their distance
    beyond = 20 * np.sum(np.arange(1, 10) / 100) / 100
    assert scored.loc["development", "score90_recalibrated"] == pytest.approx(2 * 0.91 + beyond)


def test_bands_without_width_stay_so_where_no_factor_is_enough():
    """Members that all leave at once have no spread about an answer that leaves as well."""
    half = np.array([0.0, 1e-3, 2.0])
    np.testing.assert_array_equal(command._widened(half, np.inf), [0.0, command.CAP, command.CAP])
    np.testing.assert_array_equal(command._widened(half, 3.0), [0.0, 3e-3, 6.0])


def test_command_writes_its_tables_and_resumes(tmp_path, monkeypatch, capsys):
    calls = []

    class Counting(Row):
        def fit(self, context):
            calls.append(context)
            return super().fit(context)

    problems = {command.DEVELOPMENT: ([decay()], truth), command.ODEBENCH: ([decay()], truth)}
    monkeypatch.setattr(command, "sources", lambda limit: problems)
    monkeypatch.setattr(command.cli, "build_rows", lambda *_: [Counting(Model(OFFSETS[::10]))])
    options = ["--out", str(tmp_path), "--workers", "1", "--only", "bands"]
    assert command.main(options) == 0
    assert command.main(options) == 0
    assert len(calls) == 10  # two initial conditions, five noise levels; both splits hold the same trials
    assert "odebench, noise 0.05" in capsys.readouterr().out
    summary = pd.read_csv(tmp_path / "summary.csv")
    assert set(summary["quantity"]) == {*bands.QUANTITIES, "field, own, stated", "field, other, stated"}
    assert (summary["trials"] == 2).all()


def test_forecasts_are_compared_with_how_the_trajectory_goes_on():
    outcome = forecasts.evaluate(Row(Model(OFFSETS)), decay(), TRIAL)
    size = decay().references[0].std()
    np.testing.assert_allclose(outcome["error"], -0.7 / size, rtol=1e-9)
    np.testing.assert_allclose(outcome["high50"], 0.5 / size)
    assert len(outcome["error"]) == forecasts.POINTS
    line = forecasts._scored(outcome)
    assert (line["cover50"], line["cover90"]) == (0.0, 1.0)
    assert line["width90"] == line["score90"] == pytest.approx(1.8 / size)
    assert line["score50"] == pytest.approx((1.0 + 4 * 0.2) / size)


def test_a_failing_forecast_covers_nothing(tmp_path):
    known = {"development": ([decay()], truth)}
    trials = forecasts.run([Row(None)], known, [0], tmp_path)
    assert trials["status"].tolist() == ["LinAlgError"] * 4
    summary = forecasts.summarise(trials)
    assert (summary["cover90"] == 0).all() and (summary["failures"] == summary["trials"]).all()
    assert "development" in forecasts.format_table(summary)


def test_intervals_of_points_are_counted_value_by_value():
    point = {
        "kind": "stable focus",
        "stated": "indeterminate",
        "shares": {"stable focus": 0.6, "unstable focus": 0.4},
        "existence": 1.0,
        "support": 0.7,
        "position": [[0.0, 1.0], [0.1, 1.5], [0.2, 0.3]],  # truth, estimate, half width
        "eigenvalue": [[-1.0, 2.0], [-1.1, 2.1], [0.2, 0.2]],
    }
    line = points._scored(point)
    assert (line["position_held"], line["position_n"]) == (1, 2)
    assert (line["eigenvalue_held"], line["eigenvalue_n"]) == (2, 2)
    assert line["kind_set"] == 2 and line["kind_held"] and line["share_of_true_kind"] == 0.6
    assert points._scored({"kind": "saddle"}) == {"kind": "saddle", "stated": "missed"}


def test_periods_are_held_where_they_are_found():
    """By what the run knew, not by the digits that the table has."""
    about = {"model": "m", "version": "1", "system": "s", "ic": 1, "expressible": True}
    cycles_of = [
        {
            "seed": 0,
            "truth": 2.0,
            "found": True,
            "estimate": 2.0,
            "half": 0.001,
            "support": 1.0,
            "held": True,
        },
        {
            "seed": 1,
            "truth": 2.0,
            "found": True,
            "estimate": 2.0,
            "half": 0.001,
            "support": 0.2,
            "held": False,
        },
        {"seed": 2, "truth": 2.0, "found": False},
    ]
    summary = cycles.summarise(pd.DataFrame([about | one for one in cycles_of])).set_index("group")
    assert summary.loc["all", ["contexts", "cycles", "found", "period"]].tolist() == [3, 3, 2, 0.5]
    assert summary.loc["data nearby", "period"] == 1.0
    assert "percent of the true periods" in cycles.format_table(summary.reset_index())
    circle = np.stack([np.cos(np.arange(63) / 10), np.sin(np.arange(63) / 10)], axis=1)
    assert cycles._reached(circle, np.array([1.05, 0.0])) and not cycles._reached(circle, np.zeros(2))
