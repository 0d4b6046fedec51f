"""The benchmark harness: noise draws, the cache, failures and summaries."""

import csv
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from benchmarks import cli, misses, report, time_curve
from benchmarks.development.continuations import KINDS, continued
from benchmarks.harness import rows
from benchmarks.harness.rows import ConstantRow
from benchmarks.harness.run import TRIAL_COLUMNS, Integrator, _record, evaluate, run
from benchmarks.harness.trials import TASKS, Problem, Trial, list_trials, observe, sample_index
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.trajectories.container import Trajectories

T = np.linspace(0.0, 4.0, 81)
RATES = {"slow": 0.3, "fast": 1.5, "mild": 0.7}
NOISY = Trial("slow", 1, 0.05, 0.5, 0, "full")


def decay(name: str, polynomial: str = "ID") -> Problem:
    """x' = -rate x from two initial states, solved exactly."""
    starts = np.array([[2.0], [-1.0]])
    solutions = starts[:, None, :] * np.exp(-RATES[name] * T)[None, :, None]
    return Problem(name, T, solutions, starts, split_strict=polynomial)


PROBLEMS = [decay("slow"), decay("fast", "OOD"), decay("mild")]


@dataclass
class ExactRow:
    """Knows the rate; counts its calls and, at a chosen one, is interrupted."""

    name: str = "exact"
    version: str = "1"
    interrupt_at: int = 0
    calls: int = 0
    sees_truth: ClassVar[bool] = True

    def infer(self, view):
        self.calls += 1
        if self.calls == self.interrupt_at:
            raise KeyboardInterrupt
        return CallableField(lambda x: -RATES[view.problem.system] * x, 1)


@dataclass(frozen=True)
class FunctionRow:
    """A model made of one function of the context."""

    name: str
    function: Any
    version: str = "1"
    sees_truth: ClassVar[bool] = False

    def infer(self, view):
        return self.function(view.context)


def raise_error(_):
    raise np.linalg.LinAlgError("singular matrix")


def outcomes(records):
    """Everything but the CPU seconds."""
    return [{k: v for k, v in record.items() if not k.endswith("seconds")} for record in records]


def same(a, b):
    return pd.DataFrame(outcomes(a)).equals(pd.DataFrame(outcomes(b)))


def all_trials(seeds=(0, 1), protocols=("full",)):
    return list_trials(PROBLEMS, [(0.0, 0.0), (0.05, 0.5)], protocols, list(seeds))


# ------------------------------------------------------------------------------------------ observations


def test_paper_grid_is_200_of_512_points():
    index = sample_index(512, "paper")
    assert len(index) == 200
    assert list(index[:5]) == [0, 2, 5, 7, 10]
    assert list(index[-2:]) == [508, 511]
    assert np.array_equal(sample_index(512, "full"), np.arange(512))


def test_unknown_protocol_is_named():
    with pytest.raises(ValueError, match=r"Protocol: expected one of .*got 'both'"):
        sample_index(512, "both")


@pytest.mark.parametrize("rho, kept", [(0.0, 81), (0.5, 40), (0.3, 56)])
def test_dropping_keeps_an_exact_count(rho, kept):
    context = observe(PROBLEMS[0], Trial("slow", 1, 0.05, rho, 3, "full"))
    assert context.n_obs[0] == kept
    assert np.isin(context.t[0], T).all()


def test_noise_is_multiplicative_with_the_stated_level():
    problem = PROBLEMS[0]
    ratios = [
        observe(problem, Trial("slow", 1, 0.05, 0.0, seed, "full")).x[0] / problem.references[0]
        for seed in range(200)
    ]
    # 200 x 81 draws: the standard error of the standard deviation is 0.05 / sqrt(2 x 16200) = 2.8e-4
    assert np.std(ratios) == pytest.approx(0.05, abs=1.2e-3)
    assert np.mean(ratios) == pytest.approx(1.0, abs=1.6e-3)


def test_one_draw_per_trial_and_another_for_every_other_trial():
    first = observe(PROBLEMS[0], NOISY)
    assert np.array_equal(first.x, observe(PROBLEMS[0], NOISY).x)
    for other in (
        Trial("slow", 1, 0.05, 0.5, 1, "full"),
        Trial("slow", 2, 0.05, 0.5, 0, "full"),
        Trial("slow", 1, 0.03, 0.5, 0, "full"),
    ):
        assert not np.array_equal(first.t, observe(PROBLEMS[0], other).t)


def test_uncorrupted_setting_is_run_once():
    trials = all_trials(seeds=(4, 5, 6))
    assert sum(trial.sigma == 0 for trial in trials) == 6
    assert {trial.seed for trial in trials if trial.sigma == 0} == {4}
    assert sum(trial.sigma > 0 for trial in trials) == 18


# ---------------------------------------------------------------------------------------------- scoring


def test_the_true_field_scores_one_in_both_tasks():
    outcome = evaluate(ExactRow(), PROBLEMS[0], NOISY, Integrator())
    assert outcome["r2_reconstruction"] == pytest.approx(1.0, abs=1e-9)
    assert outcome["r2_generalisation"] == pytest.approx(1.0, abs=1e-9)
    assert outcome["mse_reconstruction"] < 1e-12
    assert outcome["status_generalisation"] == "SUCCESS"


def test_generalisation_starts_at_the_other_initial_condition():
    """The zero field's error is known in closed form for either start."""
    for ic in (1, 2):
        outcome = evaluate(ConstantRow(), PROBLEMS[0], Trial("slow", ic, 0.0, 0.0, 0, "full"), Integrator())
        starts = {1: 2.0, 2: -1.0}
        lost = np.mean((1 - np.exp(-0.3 * T)) ** 2)
        assert outcome["mse_reconstruction"] == pytest.approx(starts[ic] ** 2 * lost, rel=1e-12)
        assert outcome["mse_generalisation"] == pytest.approx(starts[3 - ic] ** 2 * lost, rel=1e-12)


def test_a_model_that_raises_fails_with_the_class_as_status():
    outcome = evaluate(FunctionRow("bad", raise_error), PROBLEMS[0], NOISY, Integrator())
    assert outcome["status_reconstruction"] == outcome["status_generalisation"] == "LinAlgError"
    assert math.isnan(outcome["r2_reconstruction"]) and outcome["mse_generalisation"] == math.inf
    assert outcome["message"] == "singular matrix"


def test_a_field_that_raises_fails_too():
    row = FunctionRow("bad", lambda context: CallableField(raise_error, 1))
    outcome = evaluate(row, PROBLEMS[0], NOISY, Integrator())
    assert outcome["status_reconstruction"] == "LinAlgError"


def test_divergence_in_one_task_leaves_the_other_standing():
    """x' = x^2 explodes from 2 before t = 4 and decays from -1."""
    row = FunctionRow("square", lambda context: CallableField(lambda x: x**2, 1))
    outcome = evaluate(row, PROBLEMS[0], NOISY, Integrator(max_steps=500))
    assert outcome["status_reconstruction"] != "SUCCESS"
    assert outcome["mse_reconstruction"] == math.inf
    assert outcome["status_generalisation"] == "SUCCESS"
    assert math.isfinite(outcome["mse_generalisation"])


def test_a_stiff_field_is_tried_with_the_stiff_method():
    """Fast relaxation to 0.5: the explicit pair runs out of steps, LSODA does not."""
    row = FunctionRow("stiff", lambda context: CallableField(lambda x: -1e5 * (x - 0.5), 1))
    outcome = evaluate(row, PROBLEMS[0], NOISY, Integrator(max_steps=300))
    assert outcome["status_reconstruction"] == "SUCCESS"
    expected = np.mean((PROBLEMS[0].references[0][1:] - 0.5) ** 2) * 80 / 81  # the start itself is exact
    assert outcome["mse_reconstruction"] == pytest.approx(expected, rel=1e-6)


def test_terms_of_a_field_are_those_with_a_coefficient():
    field = DictionaryField(Dictionary.polynomial(2, 2), [[0, 1], [0, 0], [2, 0], [1, 0], [0, 0], [0, 1e-9]])
    assert field.terms() == [["x0^2", "x1"], ["1", "x1^2"]]
    assert CallableField(np.zeros_like, 2).terms() is None


# ------------------------------------------------------------------------------------------- the cache


def test_resumed_run_equals_an_uninterrupted_one_and_repeats_nothing(tmp_path):
    trials = all_trials()
    whole = run(PROBLEMS, [ExactRow(), ConstantRow()], trials, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(PROBLEMS, [ExactRow(interrupt_at=7), ConstantRow()], trials, tmp_path / "parts")
    row = ExactRow()
    resumed = run(PROBLEMS, [row, ConstantRow()], trials, tmp_path / "parts")
    assert row.calls == len(trials) - 6
    assert same(whole, resumed)


def test_a_torn_line_costs_its_trial_only(tmp_path):
    trials = all_trials()
    first = run(PROBLEMS, [ExactRow()], trials, tmp_path)
    (path,) = (tmp_path / "cache").iterdir()
    content = path.read_bytes()
    path.write_bytes(content[:-40])
    row = ExactRow()
    assert same(first, run(PROBLEMS, [row], trials, tmp_path))
    assert row.calls == 1
    row = ExactRow()
    run(PROBLEMS, [row], trials, tmp_path)
    assert row.calls == 0


def test_outcomes_kept_before_terms_were_recorded_stay_of_use(tmp_path):
    trials = all_trials()
    run(PROBLEMS, [ConstantRow()], trials, tmp_path)
    (path,) = (tmp_path / "cache").iterdir()
    path.write_text(path.read_text().replace('"terms": null, ', ""))
    assert "terms" not in path.read_text()
    for record in run(PROBLEMS, [ConstantRow()], trials, tmp_path):
        assert (record["terms"], report.compare_terms(record, [["x0"]])["structure"]) == (None, "")


def test_fresh_another_version_and_other_data_are_computed_anew(tmp_path):
    trials = all_trials()
    run(PROBLEMS, [ExactRow()], trials, tmp_path)
    for row, options in ((ExactRow(), {"fresh": True}), (ExactRow(version="2"), {})):
        run(PROBLEMS, [row], trials, tmp_path, **options)
        assert row.calls == len(trials)
    moved = Problem("slow", T, PROBLEMS[0].references + 1, PROBLEMS[0].initial_states, split_strict="ID")
    row = ExactRow()
    run([moved, *PROBLEMS[1:]], [row], trials, tmp_path)
    assert row.calls == sum(trial.system == "slow" for trial in trials)


def test_a_subset_of_systems_is_answered_from_the_cache(tmp_path):
    run(PROBLEMS, [ExactRow()], all_trials(), tmp_path)
    row = ExactRow()
    part = [trial for trial in all_trials() if trial.system == "fast"]
    assert len(run(PROBLEMS[1:2], [row], part, tmp_path)) == len(part)
    assert row.calls == 0


def test_outcomes_do_not_depend_on_the_number_of_workers(tmp_path):
    trials = all_trials(seeds=(0,))
    one = run(PROBLEMS, [ConstantRow()], trials, tmp_path / "1", workers=1)
    two = run(PROBLEMS, [ConstantRow()], trials, tmp_path / "2", workers=2)
    assert same(one, two)


@dataclass(frozen=True)
class MixedRow:
    """Fields by system, integrated side by side or one by one: one explodes, one is stiff, some may raise."""

    fields: dict
    together: int
    name: str = "mixed"
    version: str = "1"
    sees_truth: ClassVar[bool] = True

    def infer(self, view):
        if (field := self.fields[view.problem.system]) is None:
            raise_error(view)
        return CallableField(field, 1)


@pytest.mark.parametrize("other", [lambda x: -0.5 * x, raise_error, None])
def test_trials_side_by_side_have_the_outcomes_of_trials_one_by_one(tmp_path, other):
    fields = {"slow": lambda x: x**2, "fast": lambda x: -1e5 * (x - 0.5), "mild": other}
    trials, integrator = all_trials(), Integrator(max_steps=300)
    records = [
        run(PROBLEMS, [MixedRow(fields, n), ExactRow()], trials, tmp_path / str(n), integrator)
        for n in (1, 5)
    ]
    one, several = (pd.DataFrame(outcomes(own)) for own in records)
    text = one.select_dtypes(exclude="number").columns
    pd.testing.assert_frame_equal(one[text], several[text])
    pd.testing.assert_frame_equal(one.drop(columns=text), several.drop(columns=text), rtol=1e-9)
    expected = {"SUCCESS"} if callable(other) and other is not raise_error else {"LinAlgError"}
    assert set(one[(one.model == "mixed") & (one.system == "mild")].status_reconstruction) == expected


# ------------------------------------------------------------------------------------------- summaries


def records_with(successes, seeds=(0, 1, 2)):
    """One model, one cell; successes[seed] lists R2 per (system, ic)."""
    base = dict.fromkeys(TRIAL_COLUMNS, 0.0) | {"message": "", "protocol": "paper", "version": "1"}
    result = []
    for model, table in successes.items():
        for seed in seeds:
            for number, r2 in enumerate(table[seed]):
                result.append(
                    base
                    | {
                        "system": str(number // 2),
                        "ic": 1 + number % 2,
                        "dim": 1,
                        "seed": seed,
                        "model": model,
                    }
                    | {"sigma": 0.05, "rho": 0.5, "split_paper": "", "split_strict": "ID"}
                    | {"r2_reconstruction": r2, "r2_generalisation": r2}
                    | {"mse_reconstruction": 1.0 if r2 == r2 else math.inf, "mse_generalisation": 1.0}
                    | {"status_reconstruction": "SUCCESS", "status_generalisation": "SUCCESS"}
                )
    return report.to_frame(result)


def test_percentages_standard_errors_and_quantiles():
    trials = records_with(
        {"m": [[0.95, 0.85, 0.1, math.nan], [0.95, 0.95, 0.1, 0.1], [0.95, 0.95, 0.95, 0.9]]}
    )
    summary = report.summarise(trials, "integrator", "abc")
    row = summary[(summary["group"] == "all") & (summary["task"] == "reconstruction")].iloc[0]
    assert row["percent_r2_090"] == pytest.approx(np.mean([25, 50, 75]))  # 0.9 itself is no success
    assert row["se_r2_090"] == pytest.approx(25 / math.sqrt(3))
    assert row["percent_r2_080"] == pytest.approx(np.mean([50, 50, 100]))
    assert (row["mse_q50"], row["mse_q95"], row["mse_finite_q95"]) == (1.0, math.inf, 1.0)
    assert (row["n_trials"], row["not_finite"], row["seeds"]) == (12, 1, "0 1 2")
    assert (row["integrator"], row["commit"]) == ("integrator", "abc")


def test_quantiles_agree_with_numpy_where_all_is_finite():
    values = np.random.default_rng(0).lognormal(size=37)
    for q in report.MSE_QUANTILES:
        assert report._quantile(values, q) == pytest.approx(np.quantile(values, q), rel=1e-14)


def test_bootstrap_brackets_the_difference():
    """A wins on 10 of 40 systems and ties on the rest: its standard error is 100 sqrt(3/16/40)."""
    a, b = [0.95] * 80, [0.1] * 20 + [0.95] * 60
    gaps = report.differences(records_with({"a": [a], "b": [b]}, seeds=(0,)))
    row = gaps[gaps["task"] == "generalisation"].iloc[0]
    assert row["difference"] == pytest.approx(25.0)
    half_width = 1.96 * 100 * math.sqrt(3 / 16 / 40)
    assert row["high"] - row["low"] == pytest.approx(2 * half_width, rel=0.1)
    assert row["low"] < 25 < row["high"]


def test_holm_corrects_in_order_and_leaves_nan_out():
    p = pd.Series([0.01, math.nan, 0.04, 0.03, 0.5], index=list("abcde"))
    # factors 4, 3, 2, 1 from the smallest on; 2 x 0.04 = 0.08 is below 3 x 0.03 = 0.09 and is raised to it
    assert report.holm(p).to_dict() == pytest.approx(
        {"a": 0.04, "b": math.nan, "c": 0.09, "d": 0.09, "e": 0.5}, nan_ok=True
    )


def test_contrasts_alone_are_tested_and_in_every_group():
    """`auto` wins on 10 of 40 systems: no draw is below zero, and one of 0.75^40 = 1e-5 at it."""
    r2 = {"fim-ode": [0.1] * 20 + [0.95] * 60, "sindy": [0.1] * 80, "auto": [0.95] * 80}
    gaps = report.differences(records_with({model: [values] for model, values in r2.items()}, seeds=(0,)))
    tested = gaps[gaps["p"].notna()]
    assert set(zip(tested["model"], tested["minus"], strict=True)) == {("auto", "fim-ode")}
    assert set(tested["group"]) == {"all", "dim=1", "strict=ID", "dim=1 strict=ID"}
    assert set(gaps.loc[gaps["p"].isna(), "group"]) == {"all"}
    assert tested["p"].to_numpy() == pytest.approx(2 / 10_001, rel=2)
    assert tested["p_holm"].to_numpy() == pytest.approx(2 * tested["p"].to_numpy())  # two tasks
    swapped = report.differences(records_with({"auto": [r2["sindy"]], "fim-ode": [r2["sindy"]]}, seeds=(0,)))
    assert (swapped["p_holm"] == 1.0).all()  # ties everywhere


def test_a_missed_trial_has_the_first_reason_that_holds():
    trials = list_trials(PROBLEMS, [(0.0, 0.0)], ["full"], [0])
    outcome = {"r2_reconstruction": 0.1, "r2_generalisation": 0.1} | {
        f"status_{task}": "SUCCESS" for task in TASKS
    }
    records = [
        _record(
            row,
            problem,
            trial,
            outcome
            | {"infer_seconds": 2.0, "simulate_seconds": 0.0}
            | dict.fromkeys(("mse_reconstruction", "mse_generalisation"), 1.0)
            | {"message": "", "terms": [["1", "x0"]] if trial.ic == 1 else [["x0"]]},
        )
        for trial in trials
        for problem in PROBLEMS
        if problem.system == trial.system
        for row in (ConstantRow("m"), ConstantRow("truth-fit"))
        if row.name == "m" or trial.system == "slow"
    ]
    frame = report.to_frame([report.compare_terms(record, [["x0"]]) for record in records])
    missed = misses.missed_trials(frame, PROBLEMS)
    assert set(missed["model"]) == {"m"}
    assert missed.groupby(["system", "ic"])["reason"].unique().map(list).to_dict() == {
        ("slow", 1): ["undetermined"],
        ("slow", 2): ["undetermined"],
        ("fast", 1): ["not polynomial"],
        ("fast", 2): ["not polynomial"],
        ("mild", 1): ["wrong terms"],
        ("mild", 2): ["constants"],
    }
    # both starts lie on the other side of zero; only the other one is outside what was seen
    assert missed.groupby("task")["starts outside"].unique().map(list).to_dict() == {
        "generalisation": [True],
        "reconstruction": [False],
    }
    table = misses.missed_systems(missed, frame).set_index(["task", "system"])
    assert table.loc[("generalisation", "mild"), ["trials", "missed", "wrong terms"]].tolist() == [2, 2, 1]
    assert "2 / 2 (2)" in misses.format_misses(missed)


def test_time_curve_weighs_settings_alike():
    noisy = records_with({"m": [[0.95, 0.1]] * 3, "truth": [[1.0, 1.0]] * 3})
    clean = records_with({"m": [[0.95, 0.95]]}, seeds=(0,)).assign(sigma=0.0, rho=0.0)
    trials = pd.concat([clean, noisy], ignore_index=True)
    curve = time_curve.success_time(trials.assign(infer_seconds=np.arange(len(trials), dtype=float)))
    assert curve["model"].tolist() == ["m", "m"]
    assert curve["percent_r2_090"].tolist() == [75.0, 75.0]
    assert curve["infer_seconds_median"].tolist() == [3.5, 3.5]


@pytest.fixture
def no_pictures(monkeypatch):
    """Tables alone are written: pictures take most of a command's time."""
    monkeypatch.setattr(report, "draw", lambda *_: None)
    monkeypatch.setattr(time_curve, "draw_time", lambda *_: None)


def test_command_line_writes_what_the_records_say(tmp_path, capsys):
    benchmark = cli.Benchmark(
        "toy", "Toy", lambda: PROBLEMS, {"exact": ExactRow}, ("exact", "constant"), ("exact",)
    )
    assert cli.main(benchmark, ["--workers", "1", "--out", str(tmp_path)]) == 0
    with (tmp_path / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == TRIAL_COLUMNS
    assert len(rows) == 3 * 2 * 2 * 2
    summary = pd.read_csv(tmp_path / "summary.csv")
    own = summary[(summary["group"] == "all") & (summary["model"] == "exact") & (summary["sigma"] == 0.05)]
    assert own["percent_r2_090"].tolist() == [100.0, 100.0]
    assert set(summary["group"]) == {
        "all",
        "dim=1",
        "strict=ID",
        "strict=OOD",
        "dim=1 strict=ID",
        "dim=1 strict=OOD",
    }
    assert (tmp_path / "toy.png").stat().st_size > 10_000
    assert (tmp_path / "success_time.png").stat().st_size > 10_000
    assert "100.0 / 100.0" in capsys.readouterr().out


@pytest.mark.usefixtures("no_pictures")
def test_rendering_again_gives_the_same_tables(tmp_path):
    rows = {"exact": ExactRow, "still": lambda: ConstantRow("still")}
    benchmark = cli.Benchmark("toy", "Toy", lambda: PROBLEMS, rows, ("exact", "still"), ())
    cli.main(benchmark, ["--workers", "1", "--out", str(tmp_path)])
    names = ["summary", "differences", "missed", "success_time"]
    before = [pd.read_csv(tmp_path / f"{name}.csv") for name in names]
    assert cli.main(benchmark, ["--render", "--out", str(tmp_path)]) == 0
    for name, table in zip(names, before, strict=True):
        # trials.csv keeps nine digits, the tables six: the last of these may differ
        pd.testing.assert_frame_equal(pd.read_csv(tmp_path / f"{name}.csv"), table, rtol=2e-5)
    assert (
        before[2]["missed"].tolist() == [2] * 3 * 2 * 2
    )  # both initial conditions: systems, settings, tasks


@pytest.mark.usefixtures("no_pictures")
def test_folders_of_results_are_reported_on_together(tmp_path):
    rows = {"exact": ExactRow, "still": lambda: ConstantRow("still")}
    benchmark = cli.Benchmark("toy", "Toy", lambda: PROBLEMS, rows, ("exact", "still"), ())
    first, second, both = (tmp_path / name for name in ("first", "second", "both"))
    for folder, options in (
        (first, ["--models", "exact"]),
        (second, ["--models", "still", "--seeds", "0", "1"]),
    ):
        assert cli.main(benchmark, ["--workers", "1", "--out", str(folder), *options]) == 0
    assert cli.main(benchmark, ["--render", str(first), str(second), "--out", str(both)]) == 0
    trials = report.read_trials(both / "trials.csv")
    parts = [report.read_trials(folder / "trials.csv") for folder in (first, second)]
    assert len(trials) == sum(map(len, parts)) and set(trials["model"]) == {"exact", "still"}
    part = trials[(trials["model"] == "still") | (trials["sigma"] == 0.0)]
    text = report.format_tables(report.summarise(part, "", ""), report.differences(part), part)
    (line,) = {line for line in text.splitlines() if line.startswith("exact  1")}
    assert line.split()[-1] == "-"  # not run there
    assert set(time_curve.success_time(part)["n_settings"]) == {1}  # what both were given
    gaps = pd.read_csv(both / "differences.csv")
    assert len(gaps) == 4 and (gaps["n_systems"] == len(PROBLEMS)).all()
    only = report.differences(trials[(trials["model"] == "exact") | (trials["seed"] == 1)])
    assert set(only["sigma"]) == set()  # no trial of both
    again = pd.read_csv(second / "trials.csv").assign(model="exact", version="other")
    again.to_csv(second / "trials.csv", index=False)
    with pytest.raises(ValueError, match=r"expected one version of each model, got \{'exact'"):
        report.merge_trials([first, second], both)


def test_reference_rows_alone_have_no_success_against_time(tmp_path):
    benchmark = cli.Benchmark("toy", "Toy", lambda: PROBLEMS, {}, ("constant",), ())
    assert cli.main(benchmark, ["--workers", "1", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "toy.png").exists() and not (tmp_path / "success_time.png").exists()


def test_interrupted_command_says_how_to_go_on(tmp_path, capsys):
    benchmark = cli.Benchmark(
        "toy", "Toy", lambda: PROBLEMS, {"exact": lambda: ExactRow(interrupt_at=3)}, ("exact",), ()
    )
    assert cli.main(benchmark, ["--workers", "1", "--out", str(tmp_path)]) == 130
    assert "the same command goes on" in capsys.readouterr().out


def test_weights_go_to_fim_ode_alone(monkeypatch):
    loaded = []

    class Model:
        version = "abcd1234"

    monkeypatch.setattr(rows, "_load", lambda name, params: loaded.append((name, params)) or Model())
    built = cli.build_rows({}, ["fim-ode", "sindy:degree=3", "constant"], "w.safetensors")
    assert loaded == [("fim-ode", (("weights", "w.safetensors"),)), ("sindy", (("degree", 3),))]
    assert [row.name for row in built] == ["fim-ode", "sindy:degree=3", "constant"]
    assert built[0].version == "abcd1234"


def test_unknown_model_ends_the_command_with_its_name(capsys):
    benchmark = cli.Benchmark("toy", "Toy", lambda: PROBLEMS, {}, ("sindi",), ())
    with pytest.raises(SystemExit):
        cli.main(benchmark, [])
    assert "sindi" in capsys.readouterr().err


def test_limit_spreads_over_the_list():
    assert [p.system for p in cli.limited(PROBLEMS, 2)] == ["slow", "fast"]
    assert cli.limited(list(range(61)), 3) == [0, 20, 40]
    assert cli.limited(PROBLEMS, None) == PROBLEMS


@pytest.mark.parametrize("text", ["0.05", "a,b", "-1,0", "0.1,1.0"])
def test_bad_settings_are_refused(text, capsys):
    benchmark = cli.Benchmark("toy", "Toy", lambda: PROBLEMS, {}, (), ())
    with pytest.raises(SystemExit):
        cli.parser(benchmark).parse_args([f"--settings={text}"])
    assert repr(text) in capsys.readouterr().err


def test_options_of_a_row_are_literals_or_text():
    assert rows._option("degree=(2, 3)") == ("degree", (2, 3))
    assert rows._option("criterion=bic") == ("criterion", "bic")
    with pytest.raises(ValueError, match=r"expected key=value, got 'degree'"):
        rows._option("degree")


@pytest.mark.parametrize("kind", KINDS)
def test_continued_fields_are_the_field_in_the_widened_box(kind):
    x = np.random.default_rng(0).uniform(-1.0, 1.0, (50, 2))
    context = Trajectories.from_arrays(x, np.linspace(0.0, 1.0, 50))
    field = CallableField(lambda x: np.stack([x[:, 1] ** 3, -(x[:, 0] ** 3)], 1), 2)
    other = continued(field, context, kind)
    np.testing.assert_array_equal(other(1.5 * x), field(1.5 * x))
    far = np.array([[9.0, 0.0], [9.5, 0.0]])
    assert np.abs(other(far)).max() < 0.2 * np.abs(field(far)).max()
    step = other(far)[1] - other(far)[0]
    assert {"clamped": step[1] == 0.0, "linear": step[1] < 0.0, "returning": step[0] < 0.0}[kind]
