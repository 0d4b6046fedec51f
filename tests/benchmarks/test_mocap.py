"""The motion-capture benchmark: its tasks, targets and floors, on small files of the same layout."""

import hashlib

import numpy as np
import pandas as pd
import pytest

from benchmarks.mocap import __main__ as command
from benchmarks.mocap import tasks
from fim_dynsys.fields.callable import CallableField

SUBJECTS = ("09", "35", "39")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rotations in random planes of 50 coordinates, with little besides."""
    path = tmp_path_factory.mktemp("mocap")
    rng = np.random.default_rng(0)
    for subject in SUBJECTS:
        planes, frames = rng.normal(size=(6, 50)), 260 if subject != "09" else 110

        def sequences(count, planes=planes, frames=frames):
            phases = rng.uniform(0, 6, (count, 1)) + 0.05 * np.arange(frames)
            scores = np.stack([f(k * phases) / k for k in (1, 2, 3) for f in (np.cos, np.sin)], axis=-1)
            return scores @ planes + 0.01 * rng.normal(size=(count, frames, 50))

        parts = {"train": sequences(3), "validation": sequences(2), "test": sequences(2)}
        np.savez(path / f"mocap{subject}.npz", **parts)
    return path


@pytest.fixture(autouse=True)
def known(folder, monkeypatch):
    """The published digests are those of these files."""
    facts = tasks.published()
    facts["sha256"] = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}
    monkeypatch.setattr(tasks, "published", lambda: facts)


@pytest.fixture
def short(folder):
    return tasks.captures(folder)[0]


def test_what_a_model_sees(folder, short):
    found = tasks.captures(folder)
    assert [c.name for c in found] == tasks.published()["columns"]
    context = short.context(5)
    assert (len(context), context.dim) == (3, 5)
    assert context.n_obs.tolist() == [50] * 3
    np.testing.assert_allclose(np.diff(context.t[0]), 0.01)
    # the components are those of whole sequences, standardised
    whole = short.scores(short.train, 5).reshape(-1, 5)
    np.testing.assert_allclose(whole.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(np.cov(whole.T, bias=True), np.eye(5), atol=1e-3)
    assert (short.train[..., [24, 25, 31, 32]] == 1e-6).all()


def test_floors_add_up(short):
    """Within five components the error against raw frames is that against pca5 and the floor."""
    frames = short.frames(short.scores(short.scored, 3) + 0.1)
    against = {name: np.mean((frames - short.target(name)) ** 2) for name in tasks.TARGETS}
    assert against["raw"] == pytest.approx(against["pca5"] + short.floor("raw", 5), rel=1e-9)
    assert short.floor("pca5", 5) == pytest.approx(0.0, abs=1e-20)
    assert short.floor("raw", 8) < short.floor("raw", 5) < short.floor("raw", 3)


def test_other_files_are_refused(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected .*mocap09\.npz"):
        tasks.captures(tmp_path)
    (tmp_path / "mocap09.npz").write_bytes(b"another")
    with pytest.raises(ValueError, match="got another file"):
        tasks.captures(tmp_path)


class Failing:
    """Raises for what it sees."""

    name, version, sees_truth = "failing", "1", False

    def infer(self, view):
        raise np.linalg.LinAlgError("singular matrix")


class Still:
    """Counts its calls and answers with no motion."""

    name, version, sees_truth, calls = "still", "1", False, 0

    def infer(self, view):
        Still.calls += 1
        return CallableField(np.zeros_like, view.context.dim)


def test_scores_and_resuming(short, tmp_path):
    trials, _ = command.run([short], [(Failing(), 3), (Still(), 5)], tmp_path)
    scores = trials.set_index(["row", "target"])["mse"]
    assert np.isinf(scores["failing@3", "raw"])
    held = short.frames(np.repeat(short.scores(short.scored[:, :1], 5), short.scored.shape[1], axis=1))
    assert scores["still@5", "raw"] == pytest.approx(np.mean((held - short.scored) ** 2))
    first = np.mean((short.scored - short.scored[:, :1]) ** 2)
    assert scores["hold-first-frame", "raw"] == pytest.approx(first)
    assert scores["floor@5", "raw"] == short.floor("raw", 5)
    assert trials.set_index("row")["status"]["failing@3"].tolist() == ["LinAlgError"] * 2
    assert Still.calls == 1
    again, _ = command.run([short], [(Failing(), 3), (Still(), 5)], tmp_path)
    assert Still.calls == 1
    pd.testing.assert_frame_equal(again, trials)


def test_command(folder, tmp_path, capsys):
    arguments = ["--data", str(folder), "--models", "linear@3", "--workers", "1", "--out", str(tmp_path)]
    assert command.main([*arguments, "--tasks", "09 short", "35 short"]) == 0
    printed = capsys.readouterr().out
    assert "GP-DNF" in printed and "moved to raw" in printed and "linear@3" in printed
    assert (tmp_path / "planes.png").stat().st_size > 10_000
    trials = pd.read_csv(tmp_path / "trials.csv")
    assert set(trials["target"]) == {"raw", "pca5"}
    assert set(trials["task"]) == {"09 short", "35 short"}
    for wrong in (["--models", "auto"], ["--models", "auto@0"], ["--tasks", "40 short"]):
        with pytest.raises(SystemExit):
            command.main([*arguments, *wrong])
