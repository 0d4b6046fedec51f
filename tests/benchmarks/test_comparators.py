"""The benchmark of all installed models: rows, tables that grow with each run, failures, and the figure."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.comparators import __main__ as command
from benchmarks.comparators import tables
from benchmarks.harness.rows import ModelRow


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """One fresh draw of the oscillators, in two runs of one folder."""
    folder = tmp_path_factory.mktemp("comparators")
    base = ["--only", "oscillators", "--draws", "1", "--workers", "1", "--out", str(folder)]
    with pytest.MonkeyPatch.context() as patch:  # the second run draws
        patch.setattr(tables, "draw", lambda *_: None)
        assert command.main([*base, "--models", "sindy", "constant"]) == 0
    assert command.main([*base, "--models", "sindy-strong"]) == 0
    return folder


def test_each_run_adds_its_models(out):
    trials = pd.read_csv(out / "oscillators.csv")
    assert list(trials["model"].unique()) == ["sindy", "constant", "sindy-strong"]
    assert len(trials) == 3 * 2 * 3  # models, draws with the shared one, tasks
    assert (out / "comparators.png").stat().st_size > 10_000


def test_failures_are_infinite_and_counted(out):
    summary = tables.summarise({"oscillators": pd.read_csv(out / "oscillators.csv")}).set_index(
        ["model", "task"]
    )
    assert summary.loc[("constant", "VDP T1"), "value"] == pytest.approx(5.91, abs=0.01)
    trials = pd.read_csv(out / "oscillators.csv").query("model == 'sindy'")
    failed = trials["status"] != "SUCCESS"
    assert failed.any() and np.isinf(trials.loc[failed, "mse"]).all()
    assert summary.loc["sindy", "failures"].sum() == failed.sum()
    assert "sindy" in (out / "report.txt").read_text().split("Failures")[1]


def test_folders_are_reported_on_together(out, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "draw", lambda *_: None)
    other = tmp_path / "other"
    command.main(["--render", str(out), "--out", str(other)])
    pd.testing.assert_frame_equal(
        pd.read_csv(out / "oscillators.csv"), pd.read_csv(other / "oscillators.csv")
    )


def test_successes_on_odebench_count_failures():
    cell = {"model": "m", "version": "1", "sigma": 0.05, "rho": 0.5, "infer_seconds": 1.0}
    rows = [cell | {"r2_reconstruction": r2, "status_reconstruction": "SUCCESS"} for r2 in (0.95, 0.5)]
    rows += [cell | {"r2_reconstruction": np.nan, "status_reconstruction": "LEFT_BOUNDS"}] * 2
    frame = pd.DataFrame(rows).assign(r2_generalisation=0.0, status_generalisation="SUCCESS", system="1")
    lines = tables.odebench_lines(tables.summarise({"odebench": frame}))
    assert lines[1] == ["m", "25.0 / 0.0", "4", "2", "1"]


def test_published_rows_stand_beside_their_models():
    assert tables.published()["gp-dnf"] == {"VDP T1": 0.03, "VDP T2": 0.04, "FHN": 0.04}


def test_the_default_is_every_model_that_loads(capsys):
    rows = {row.name: row for row in command.installed_rows()}
    assert {"fim-ode", "auto", "sindy", "sindy-strong", "symbolic", "constant"} <= set(rows)
    assert isinstance(rows["auto"], ModelRow)
    assert "fim-ode-published" not in rows and "fim-ode-published: left out" in capsys.readouterr().err
