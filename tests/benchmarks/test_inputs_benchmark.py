"""The benchmark of driven systems: what is asked, and its tables from one system."""

import numpy as np

from benchmarks.harness.rows import ModelRow
from benchmarks.inputs import __main__ as inputs
from benchmarks.inputs.systems import RECORDS, SYSTEMS


def test_what_is_asked_is_new():
    """Twenty systems of one to three states; the input of the prediction is none of the records'."""
    assert len({system.name for system in SYSTEMS}) == len(SYSTEMS) == 20
    assert {system.dim for system in SYSTEMS} == {1, 2, 3}
    system = next(system for system in SYSTEMS if system.name == "DC motor")
    *seen, asked = system.inputs
    assert len(seen) == RECORDS and len(asked) > len(seen[0])
    assert all(abs(np.corrcoef(own[:, 0], asked[: len(own), 0])[0, 1]) < 0.9 for own in seen)
    context = system.context(0.05, 0)
    clean = np.stack(system.paths[:RECORDS])
    off = (context.x - clean).reshape(-1, 2).std(axis=0) / clean.reshape(-1, 2).std(axis=0)
    np.testing.assert_allclose(off, 0.05, rtol=0.3)
    assert system.digest() == inputs.SYSTEMS[SYSTEMS.index(system)].digest()


def test_tables_of_one_system(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "SIGMAS", (0.02,))
    monkeypatch.setattr(inputs, "GOALS", ((80.0,), (90.0,)))
    monkeypatch.setattr(inputs, "_SETTINGS", inputs._SETTINGS[:2])
    rows = [ModelRow.resolve("sindy-strong"), inputs.BestRow()]
    trials = inputs.run(rows, tmp_path, (0,), [s for s in SYSTEMS if s.name == "DC motor"])
    assert trials["status"].tolist() == ["SUCCESS"] * 2 and (trials["r2"] > 0.9).all()
    summary = inputs.summarise(trials)
    assert summary["percent"].tolist() == [100.0, 100.0] and summary["n"].tolist() == [1, 1]
    assert "sindy-strong" in inputs.format_tables(summary, trials)


def test_a_row_without_a_fit_is_a_failure():
    class Refuses:
        name, version, sees_truth = "refuses", "1", False

        def infer(self, view):
            raise ValueError(f"nothing from {len(view.context)} records")

    system = SYSTEMS[0]
    outcome = inputs.evaluate(Refuses(), system, inputs.Context(system.name, 0.0, 0))
    assert np.isnan(outcome["r2"]) and outcome["status"] == "ValueError" and outcome["equations"] == ""
    assert outcome["message"] == "nothing from 2 records"
