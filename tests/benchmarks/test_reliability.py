"""The benchmark of attacks: each part runs on a handful of cases and sees a defect that is planted."""

import json
import os
import signal
import sys
import time
import warnings

import numpy as np
import plain_writers
import pytest

from benchmarks.harness.cache import RowCache
from benchmarks.reliability import __main__ as command
from benchmarks.reliability import (
    children,
    disk,
    editing,
    edits,
    fuzz,
    hostile,
    invariance,
    kills,
    memory,
    questions,
    surfaces,
)
from benchmarks.reliability.judging import judge, plain
from benchmarks.reliability.subjects import make, spiral
from benchmarks.reliability.writers import WRITERS, Writer
from fim_dynsys.errors import DataWarning
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.models.base import VectorFieldModel


class Still(VectorFieldModel):
    """Infers that nothing moves; what goes wrong is named."""

    name = "still"

    def __init__(self, defect=""):
        self.defect = defect

    def infer(self, trajectories):
        if self.defect == "foreign":
            np.linalg.inv(np.zeros((2, 2)))
        if self.defect == "leaked":
            warnings.warn("as other packages do", RuntimeWarning, stacklevel=2)
        if self.defect == "exit":
            raise SystemExit(3)
        value = np.nan if self.defect == "nonsense" else 0.0
        if self.defect == "order":
            value = float(trajectories.arrays()[0][1][0, 0])
        if self.defect == "terms":
            return Listed(trajectories)
        return CallableField(lambda x: x * 0 + value, trajectories.dim, context=trajectories)


class Listed(CallableField):
    """Names the first state's name of the data, wherever it is."""

    def __init__(self, context):
        super().__init__(np.zeros_like, context.dim, context=context)

    def terms(self):
        first = float(self.context.arrays()[0][1][0, 0])
        return [["1"] if first > 0.5 else ["x0"]] * self.dim


# ------------------------------------------------------------------------------------------- judging


def test_ends_of_calls_are_told_apart():
    model = make("sindy")
    refused = judge(lambda: model.fit("text"))
    assert refused.refusal and not refused.foreign and not refused.unexplained
    assert judge(model.predict).refusal.startswith("TypeError")  # Python's own, of a missing argument
    assert judge(lambda: {}["a"]).foreign.startswith("KeyError")
    assert judge(lambda: int("a")).foreign.startswith("ValueError")  # of another's code
    assert judge(lambda: np.linalg.inv(np.zeros((2, 2)))).foreign
    assert judge(lambda: model.predict(np.zeros((3, 2))), (OSError,)).foreign  # of a type not allowed here
    assert judge(lambda: 3).value == 3 and "DataWarning" in str(DataWarning)


def test_warnings_of_others_are_leaks():
    assert judge(lambda: np.log(np.zeros(2))).leaked.startswith("RuntimeWarning: divide by zero")
    assert not judge(lambda: warnings.warn("ours", DataWarning, stacklevel=2)).leaked
    assert not judge(lambda: warnings.warn("later", DeprecationWarning, stacklevel=2)).leaked
    inside = judge(lambda: make("sindy").fit(np.r_[np.linspace(0, 1, 9), np.nan][:, None], 0.1))
    assert inside.leaked == ""


def test_texts_for_tables_name_no_folders():
    assert plain(f"no {os.sep}a{os.sep}b.c/model.json\nin  it") == "no model.json in it"


# -------------------------------------------------------------------------------------------- children


def test_a_child_that_dies_or_hangs_costs_its_item_only(monkeypatch):
    ignored, deadly = signal.SIGCHLD, signal.SIGSEGV
    got = children.answers(signal.raise_signal, [ignored, deadly, ignored, deadly], 30.0)
    assert got == [None, children.Ending("SIGSEGV")] * 2
    assert children.answers(sum, [range(3), range(10**13)], 1.0) == [3, children.Ending("over 1 s")]
    monkeypatch.setattr(children, "PATIENCE", 1.5)
    waited = children.answers(time.sleep, [0.0, 3600.0], 1.0)  # takes no CPU time
    assert waited == [None, children.Ending("over 1.5 s of the clock")]
    assert children.answers(sys.exit, [3], 30.0) == [children.Ending("exit status 3")]


# ------------------------------------------------------------------------------------------------ fuzz


def test_cases_are_made_from_their_numbers():
    for number in range(60):
        first, second = (hostile.case(7, number) for _ in range(2))
        assert first.done == second.done
        if isinstance(first.x, np.ndarray):
            np.testing.assert_array_equal(first.x, second.x)
    kinds = {step.split(",")[0] for number in range(400) for step in hostile.case(8, number).done}
    assert {"lists", "table", "xarray", "trajectories", "no data", "t: NaN", "x: mixed objects"} <= kinds


def test_fuzz_runs():
    row = fuzz.measure("sindy", 0, inputs=8)
    assert row["inputs"] == row["fitted"] + row["refused"] + row["foreign"] + row["died"] + row["hung"] == 8
    assert fuzz.figures([{**row, "task": "sindy 0"}])[0].reached == "no"  # too few


@pytest.mark.parametrize("defect", ["foreign", "leaked", "nonsense", "exit"])
def test_fuzz_sees(defect):
    made = hostile.Case(spiral(), None)
    kind = "foreign" if defect == "exit" else defect
    assert kind in fuzz.use(Still(defect), made)
    assert kind not in fuzz.use(Still(), made)
    assert "fitted" in fuzz.use(Still(), made)


def test_what_is_printed_is_seen(capfd):
    with fuzz.printed() as said:
        os.write(2, b"** On entry to DLASCL")
    assert said == ["** On entry to DLASCL"]
    assert capfd.readouterr().err == ""
    with fuzz.printed() as said:
        pass
    assert said == []


# -------------------------------------------------------------------------------------------- surfaces


@pytest.mark.parametrize("surface", questions.SURFACES)
def test_questions_are_answered_or_refused(surface):
    for number in range(3):
        first, second = (
            questions.SURFACES[surface](np.random.default_rng([71, 0, number]))[0] for _ in range(2)
        )
        assert first.split("at 0x")[0] == second.split("at 0x")[0]
        outcome = surfaces.ask_one((surface, 0, number))
        assert set(outcome) in ({"answered"}, {"refused"}), outcome


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: {}["a"], "foreign"),
        (lambda: np.log(np.zeros(2)), "leaked"),
        (lambda: os.write(1, b"aside"), "leaked"),
        (lambda: "no answer", "nonsense"),
    ],
)
def test_questions_see(call, kind, monkeypatch):
    monkeypatch.setitem(questions.SURFACES, "planted", lambda rng: ("planted", call))
    outcome = surfaces.ask_one(("planted", 0, 0))
    assert outcome[kind].endswith("[planted]") and set(outcome) == {kind, "answered"} - (
        {"answered"} if kind == "foreign" else set()
    )
    row = {"surface": "planted", **fuzz.counted(0, [outcome], surfaces.COUNTS, surfaces.WRONG)}
    reached = {figure.quantity: figure.reached for figure in surfaces.figures([row])}
    assert list(reached.values()).count("no") == 2  # it, and too few inputs


# ----------------------------------------------------------------------------------------------- kills


@pytest.mark.parametrize("write", [plain_writers.write_aside, plain_writers.write_in_place])
def test_kills_see_a_save_that_is_not_atomic(write, monkeypatch):
    monkeypatch.setattr(kills, "WARM", ["benchmarks.reliability.kills"])
    writer = Writer("text", plain_writers.hold, write, plain_writers.read, plain_writers.digest)
    outcome = kills.kill(writer, 0, 4)
    assert outcome["kills"] == 4
    if write is plain_writers.write_aside:
        assert outcome["whole"] == 4 and not outcome["first"]
    else:
        assert outcome["whole"] < 4 and "expected one of the two contents" in outcome["first"]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name == "checkpoint")) for name in WRITERS],
)
def test_contents_of_writers_are_told_apart(name, tmp_path):
    writer = WRITERS[name]
    for number in (0, 1):
        writer.write(writer.prepare(number), tmp_path / writer.name)
        assert writer.whole(tmp_path / writer.name) == number


# ------------------------------------------------------------------------------------------------ disk


@pytest.mark.parametrize("damage", disk.DAMAGES)
def test_damaged_caches_are_resumed_and_counted(damage):
    assert disk.damaged(damage) == ""


def test_a_cache_that_drops_lines_in_silence_is_seen(monkeypatch):
    monkeypatch.setattr(RowCache, "skipped", property(lambda cache: 0, lambda cache, value: None))
    assert "damaged lines to be named" in disk.damaged("torn")


def test_a_full_disk_is_met(tmp_path):
    writer, path = WRITERS["CSV"], tmp_path / "data.csv"
    writer.write(writer.prepare(0), path)
    assert disk._left("CSV", path, 0) == ""
    assert "expected content 1" in disk._left("CSV", path, 1)
    error, message = disk._save_in_child("CSV", path, 100)
    assert error == "OSError" and message
    path.write_bytes(b"")
    assert "nothing whole" in disk._left("CSV", path, 0)


def test_what_a_fit_without_caches_says(tmp_path):
    assert disk._complaint({"warnings": ["one"], "finite": True}) == ""
    assert disk._complaint({"warnings": ["one", "two"], "finite": True}).startswith("2 warnings")
    assert disk._complaint({"warnings": [], "finite": False}) and disk._complaint({"problem": "x"}) == "x"


# ----------------------------------------------------------------------------------------------- edits


@pytest.mark.parametrize("kind", edits.EDITORS)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of h5netcdf
def test_edits_are_made_and_read(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(edits, "SAVED", ("sindy",))
    for number in range(4):
        path, what, _ = edits.EDITORS[kind](np.random.default_rng([3, number]), tmp_path / str(number))
        outcome = edits.read_one((kind, str(path))) if kind in ("CSV", "netCDF") else {}
        assert what and set(outcome) <= {"taken", "refused", *edits.BAD}


def test_edits_see_foreign_errors_and_what_is_let_in(monkeypatch):
    monkeypatch.setitem(edits.READERS, "CSV", (json.loads, repr))
    assert "foreign" in edits.read_one(("CSV", "no JSON"))
    row = {
        "task": "CSV 0",
        "kind": "CSV",
        "files": 1,
        "taken": 1,
        "refused": 0,
        **dict.fromkeys(edits.BAD, 0),
    }
    row |= {f"first {name}": "" for name in edits.BAD}
    row |= {"let in": 1, "first let in": "0.0 read"}
    figure = next(f for f in edits.figures([row]) if "outside" in f.quantity)
    assert (figure.value, figure.reached, figure.note) == (1, "no", "0.0 read")


def test_digests_fit_again_after_an_edit(tmp_path):
    """So that the edit itself is judged, and not the digest."""
    (tmp_path / "field.npz").write_bytes(b"one")
    old = editing.sha(tmp_path / "field.npz")
    (tmp_path / f"data-{old[:16]}.nc").write_bytes(b"one")
    (tmp_path / "model.json").write_text(json.dumps({"sha256": {"field.npz": old}, "short": old[:12]}))
    before = editing.digests(tmp_path)
    for path in tmp_path.glob("[fd]*"):
        path.write_bytes(b"two")
    editing.redigest(tmp_path, before)
    new = editing.sha(tmp_path / "field.npz")
    header = json.loads((tmp_path / "model.json").read_text())
    assert header == {"sha256": {"field.npz": new}, "short": new[:12]}
    assert (tmp_path / f"data-{new[:16]}.nc").exists()


# ---------------------------------------------------------------------------------- memory, invariance


def test_growth_is_seen():
    kept = []
    # so large that none fits into memory that earlier tests have given back
    leak = memory.growth(lambda number: kept.append(np.ones(5_000_000)), 4, 1)
    assert leak == pytest.approx(160, abs=10)
    assert memory.growth(lambda number: np.ones(5_000_000), 4, 1) < 10
    rows = [{"task": "a", "model": "a", "fits": 2000, "megabytes": 2 * leak, "seconds": 1.0, "ending": ""}]
    assert [figure.reached for figure in memory.figures(rows)[:2]] == ["yes", "no"]


def test_what_must_not_matter_does_not():
    row = invariance.compare(make("sindy-strong"), spiral(), spiral(1))
    assert row["status"] == "SUCCESS"
    for name in (*invariance.changes(spiral()), "batch"):
        assert row[name] < 1e-9 and row[f"{name}: same terms"]


def test_what_matters_is_seen():
    def figure(row, start):
        figures = invariance.figures([{"task": "auto 0", "model": "auto", "promised": None, **row}])
        return [each.reached for each in figures if each.quantity.startswith(start)]

    row = invariance.compare(Still("order"), spiral(), spiral(1))
    assert row["order of trajectories"] > 1e-3 and row["time shift"] == 0
    assert figure(row, "order of traj") == ["no", "yes"] and figure(row, "time shift") == ["yes", "yes"]
    row = invariance.compare(Still("terms"), spiral(), spiral(1))
    assert not row["order of states: same terms"]
    assert figure(row, "order of states") == ["yes", "no"]
    row = invariance.compare(Still("foreign"), spiral(), spiral(1))
    assert row["status"].startswith("LinAlgError") and figure(row, "failures") == ["no"]


def test_every_part_has_a_command():
    assert set(command.PARTS) == {"fuzz", "surfaces", "kills", "disk", "edits", "memory", "invariance"}
    with pytest.raises(SystemExit):
        command.main(["--only", "nothing"])
    assert (
        sum(count * inputs for count, inputs in fuzz.TASKS.values()) >= 20_000
        and sum(memory.FITS.values()) >= 2_000
    )
    assert len(kills.tasks()) * kills.KILLS >= 200 and len(edits.tasks()) * edits.FILES >= 500
