"""The Lorenz records of the Common Task Framework: scores, protocol, a fit from record to summary."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.ctf import __main__ as ctf
from benchmarks.ctf.records import LONG, SHORT, TASKS, made, read, score
from benchmarks.harness.rows import ModelRow


def test_scores_are_100_for_the_truth_and_bounded():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1000, 3))
    for kind in ("short", "long", "reconstruction"):
        assert score(kind, x, x) == 100.0
        assert score(kind, x, np.full_like(x, np.nan)) == -100.0
        assert score(kind, x, 1e6 + x) == -100.0 or kind == "long"
    assert score("short", x, 0 * x) == score("reconstruction", x, 0 * x) == 0.0
    later = x.copy()
    later[SHORT:-LONG] = 7.0
    assert score("short", x, later) == 100.0 and score("long", x, later) == 100.0
    assert score("long", x, 1e6 + x) == 0.0  # no sample in any bin


def test_each_record_goes_on_where_its_training_part_ends():
    record = made("X4train", 0)
    assert record["X4train"].shape == (100, 3) and record["X6test"].shape == (1000, 3)
    gap = np.abs(record["X6test"][0] - record["X4train"][-1]).max()
    steps = np.abs(np.diff(record["X6test"], axis=0)).max()
    assert 0 < gap <= 2 * steps


def test_public_files_lack_no_array(tmp_path):
    np.savez(tmp_path / "some.npz", X1train=np.zeros((5, 3)))
    with pytest.raises(ValueError, match=r"some\.npz: expected arrays .* got none of .*X9test"):
        read(tmp_path / "some.npz")


def test_a_model_is_scored_on_a_record():
    part = made("X9train", 1)
    row = ModelRow.resolve("sindy-strong")
    found = ctf.evaluate(row, ctf.Record("X9train", "made", 1), part)
    assert found["status"] == "SUCCESS" and found["exact"]
    assert found["scores"]["E11"] > 99


def test_the_summary_leaves_out_tasks_whose_test_files_are_shared():
    trials = pd.DataFrame(
        [
            {
                "train": task.train, "source": "made", "seed": 0, "model": "m", "version": "1",
                "seconds": 1.0, "status": "SUCCESS", "exact": True, "task": task.name,
                "score": 0.0 if task.name in ("E7", "E8", "E9", "E10") else 90.0,
            }
            for task in TASKS
        ]
    )  # fmt: skip
    line = ctf.summarise(trials).iloc[0]
    assert line["mean"] == 60.0 and line["mean_without_shared"] == 90.0
    assert line["exact_noisy"] == line["n_noisy"] == 2
    assert "2 of 2" in ctf.text(ctf.summarise(trials), trials)
