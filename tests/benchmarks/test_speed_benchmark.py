"""The speed benchmark: how it times, and that what it compares gives equal answers."""

import csv

import numpy as np
import pytest

import fim_dynsys
from benchmarks.odebench import facts
from benchmarks.speed import __main__ as command
from benchmarks.speed import finetuning, measurements, peers, states
from benchmarks.speed.timing import Measurement, interleaved
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.simulation.solution import simulate


def test_functions_take_turns_after_a_warm_up_that_is_not_counted(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr("time.process_time", lambda: float(next(clock)))
    calls = []
    seconds = interleaved({"a": lambda: calls.append("a"), "b": lambda: (calls.append("b"), next(clock))}, 3)
    assert "".join(calls) == "aabb" + "ababab"
    assert seconds == {"a": 1.0, "b": 2.0}


def test_quick_functions_are_called_several_times_a_turn(monkeypatch):
    clock = iter(0.001 * n for n in range(1000))  # a call that reads the clock lasts 2 ms, reading included
    monkeypatch.setattr("time.process_time", lambda: next(clock))
    calls = []
    seconds = interleaved({"a": lambda: (calls.append("a"), next(clock))}, 2)
    assert len(calls) == 2 + 2 * 25  # 25 calls of 2 ms last the 50 ms of a turn
    assert abs(seconds["a"] - 0.00104) < 1e-9  # 25 readings and the closing one over 25 calls


def test_batched_simulation_gives_scipy_answers_faster():
    rows = {row.quantity: row for row in measurements.batched_simulation(1, batch=8)}
    # both are solved to rtol 1e-7 over three periods of the oscillator
    assert rows["largest difference between the two"].value < 1e-5
    assert rows["solve_ivp loop / simulate"].value > 1.5


def test_contexts_are_noisy_and_reproducible():
    first, second = measurements.context(2), measurements.context(2)
    assert np.array_equal(first.x, second.x)
    assert first.x.shape == (2, 200, 2)
    assert 0.01 < np.abs(np.diff(first.x[0, :, 0], n=2)).std() < 1


def test_latency_is_the_median_over_contexts_of_each_dimension_and_all(monkeypatch):
    shapes = []

    def timed(functions, rounds):
        shapes.extend(function().shape for function in functions.values())
        return {name: 1e-3 * len(shapes) for name in functions}

    monkeypatch.setattr(measurements, "interleaved", timed)
    problems = [next(p for p in facts.problems() if p.dim == dim) for dim in (1, 2)]
    rows = {row.quantity: row.value for row in measurements.latency(1, problems)}
    assert shapes == [(200, 1)] * 4 + [(200, 2)] * 4  # two contexts a system, with search and without
    for name in ("fim-ode", measurements.OPINION):
        found = [rows[f"{name}, infer and 200 queries, ODEBench, {g}"] for g in ("d=1", "d=2", "all")]
        np.testing.assert_allclose(found, [3.0, 7.0, 5.0])


def test_import_is_measured_in_fresh_processes():
    rows = measurements.imports(1)
    assert [row.unit for row in rows] == ["ms", "ms wall"]
    assert rows[0].value < 300


def test_table_is_written_with_machine_and_commit(tmp_path, monkeypatch, capsys):
    section = [Measurement("thing / other thing", 3.14159265, "x", 5, "note")]
    monkeypatch.setitem(command.SECTIONS, "import", lambda repeats: section)
    assert command.main(["--only", "import", "--out", str(tmp_path)]) == 0
    with (tmp_path / "speed.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["quantity"], float(row["value"]), row["unit"], row["repeats"]) == (
        "thing / other thing",
        pytest.approx(3.1416),
        "x",
        "5",
    )
    assert "cores" in row["machine"]
    assert "3.142" in capsys.readouterr().out


@pytest.mark.slow
def test_cost_against_samples_is_measured_in_processes_of_their_own():
    rows = measurements.samples(1, sizes=(500,), names=("sindy-strong",), dims=(2,))
    assert [row.unit for row in rows] == ["ms", "MB", "ms", "MB"]
    assert rows[0].quantity == "sindy-strong, d=2, 500 samples, 1 trajectory, infer"
    assert all(row.value > 0 for row in rows if row.unit == "ms")


def test_steps_of_finetuning_have_the_same_loss():
    sizes = {"width": 16, "heads": 2, "feedforward": 16, "encoder_layers": 1, "decoder_layers": 1}
    rows = {row.quantity: row.value for row in finetuning.network_steps(1, **sizes)}
    gaps = [value for name, value in rows.items() if name.startswith("relative difference of the loss")]
    assert len(gaps) == 2
    assert max(gaps) < 1e-4  # float32


def test_many_data_sets_cost_what_all_processes_take(monkeypatch):
    monkeypatch.setattr(measurements, "_fit_many_seconds", lambda *_: (0.040, 0.042, 0.001))
    rows = {row.quantity.split(", ", 3)[-1]: row.value for row in measurements.many(1, count=2, dims=(1,))}
    assert rows["two idle cores / one"] == pytest.approx(1.905, abs=1e-3)
    assert rows["10,000 data sets on two idle cores"] == pytest.approx(3.5)
    assert rows["cores that one parent keeps busy"] == pytest.approx(42.0)


def test_a_chain_of_seven_states():
    rows = {row.quantity.split(", ")[-1]: row.value for row in states.chains(1, dims=(7,))}
    assert rows["another start"] > 0.999
    assert rows["wrong and missing terms"] <= 6  # of 70, at 2 % noise
    matrix = np.array([[-0.1, 1.0], [-2.0, -0.3]])
    t = np.linspace(0.0, 6.0, 60)
    law = fim_dynsys.load("auto").fit(
        simulate(CallableField(lambda x: x @ matrix.T, 2), [1.0, 2.0], t).x[0], t
    )
    assert states._wrong(law.field_, matrix) == 0
    assert states._wrong(law.field_, np.diag([-0.1, -0.3])) == 2


def test_peers_fit_the_same_record_and_follow_the_same_paths(monkeypatch):
    monkeypatch.setattr(peers, "_FITTED", ("sindy", "a plugin that is not installed"))
    monkeypatch.setattr(peers, "STARTS", (3,))
    monkeypatch.setattr(peers, "END", 1.0)
    rows = {row.quantity: row for row in peers.beside_peers(1)}
    assert {"peers, pysindy.SINDy(), fit", "peers, sindy, fit"} <= rows.keys() and len(rows) == 5
    assert rows["peers, simulate, pysindy / ours, 3 starts"].value > 1.0


def test_processes_are_of_an_installed_wheel(monkeypatch, tmp_path):
    """Their first has a cache of its own, which later ones share; without machine code the cache is empty."""
    seen = []

    def process(name, site, cache):
        seen.append((name, cache.name))
        return 0.5 * len(seen), 20, 0

    monkeypatch.setattr(peers, "_installed", lambda folder: tmp_path)
    monkeypatch.setattr(peers, "_process", process)
    rows = peers.processes(1)
    assert seen[:5] == [("fim-ode", "first fim-ode")] * 4 + [("auto", "first auto")]
    assert seen[-1] == ("fim-ode", "compiled") and len(seen) == 9
    assert [row.value for row in rows] == [0.5, 1.5, 2.5, 3.5, 4.5]
    assert rows[0].note == "from a wheel, 20 functions loaded, 0 compiled"


@pytest.mark.slow
def test_the_first_process_of_a_wheel_compiles_nothing(tmp_path):
    site = peers._installed(tmp_path)
    seconds, _, compiled = peers._process("fim-ode", site, tmp_path / "cache")
    assert seconds > 0.1 and (compiled == 0 or not list(site.rglob("*.nbc")))
