"""One command for all committed tables: it knows each, its steps can be run, and it goes on where it was."""

import argparse
import importlib
import json
from functools import partial

import pytest

from benchmarks import cli, results
from tests.pages import ROOT


def test_every_committed_table_has_its_step():
    committed = {path.relative_to(ROOT).parts[1] for path in ROOT.glob("benchmarks/*/results/**/*.csv")}
    names = [step.name for step in results.STEPS]
    assert len(set(names)) == len(names) and {step.benchmark for step in results.STEPS} == committed


def test_steps_fit_into_six_hours():
    assert sum(step.hours for step in results.STEPS) <= 6.0


class Parsed(Exception):
    """The arguments were understood; nothing is run."""


@pytest.mark.parametrize("step", results.STEPS, ids=lambda step: step.name)
def test_commands_are_understood(step, monkeypatch, tmp_path):
    parse = argparse.ArgumentParser.parse_args

    def stop(parser, *arguments):
        parse(parser, *arguments)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    module = importlib.import_module(f"benchmarks.{step.benchmark}.__main__")
    main = getattr(module, "main", None) or partial(cli.main, module.BENCHMARK)
    with pytest.raises(Parsed):
        main(step.command(2, tmp_path)[3:])


def test_a_dry_run_runs_nothing(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(results, "run", lambda command: pytest.fail(f"{command} was run"))
    assert results.main(["--dry-run", "--state", str(tmp_path / "state.json")]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == len(results.STEPS) and not list(tmp_path.iterdir())
    assert "left out, for want of --data: mocap" in said
    assert any(line.endswith("--workers 2 --out benchmarks/odebench/results") for line in said)


def test_a_run_goes_on_and_reports_failures(monkeypatch, capsys, tmp_path):
    state, ran = tmp_path / "state.json", []

    def run(command):
        ran.append(command[2])
        return int(command[2] == "benchmarks.inputs" and len(ran) < 3)

    monkeypatch.setattr(results, "run", run)
    today = dict(results.versions())
    monkeypatch.setattr(results, "versions", lambda: today)
    options = ["--only", "development", "inputs", "--state", str(state)]
    assert results.main(options) == 1
    assert ran == ["benchmarks.development", "benchmarks.inputs"]
    ends = {name: facts["end"] for name, facts in json.loads(state.read_text()).items()}
    assert ends == {"development": "done", "inputs": "failed"}
    assert results.main(options) == 0
    assert ran[2:] == ["benchmarks.inputs"]
    today["fim-ode"] += " changed"
    assert results.main([*options, "--dry-run"]) == 0
    assert "done, with" not in capsys.readouterr().out.splitlines()[-1]


def test_a_step_is_done_until_a_model_of_its_own_changes(monkeypatch, capsys, tmp_path):
    state = tmp_path / "state.json"
    monkeypatch.setattr(results, "run", lambda command: 0)
    today = dict(results.versions())
    monkeypatch.setattr(results, "versions", lambda: today)
    options = ["--only", "estimation", "development", "--state", str(state)]
    assert results.main(options) == 0
    today["auto"] += " changed"
    capsys.readouterr()
    assert results.main([*options, "--dry-run"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1] == "done, with these models: estimation" and "benchmarks.development" in said[0]


def test_missed_limits_are_no_failures_and_hours_add_up(monkeypatch, capsys, tmp_path):
    state, statuses, clock = tmp_path / "state.json", iter((130, 3)), iter((0.0, 3600.0, 0.0, 1800.0))
    monkeypatch.setattr(results, "run", lambda command: next(statuses))
    monkeypatch.setattr(results.time, "monotonic", lambda: next(clock))
    options = ["--only", "integration", "--state", str(state)]
    assert results.main(options) == 130
    assert results.main(options) == 0
    said = capsys.readouterr().out
    assert "integration: interrupted in 1.00 h" in said
    assert "integration: done, a limit is missed in 1.50 h" in said and "1.5 h in all" in said
    assert results.main(options) == 0  # is not begun again
    assert "done, a limit is missed, with these models: integration" in capsys.readouterr().out
