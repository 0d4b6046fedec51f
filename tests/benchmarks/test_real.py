"""Real records: the tables are those published, persistence is what it says, and a run leaves its files."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import cli
from benchmarks.real import __main__ as real


def table(name):
    return next(table for table in real.tables() if table.name == name)


def test_tables_are_those_published():
    lynx_hare, flu = table("lynx-hare").data, table("influenza").data
    assert lynx_hare.x.shape == (1, 21, 2)
    np.testing.assert_allclose(lynx_hare.x[0].sum(axis=0), [715.7, 423.5])
    assert flu.x[0, :, 0].sum() == 1559 and flu.x[0, -1, 1] == 1559 - 3.5
    assert all(table.source and len(table.law) == table.data.dim for table in real.tables())


def test_constant_is_persistence():
    (row,) = cli.build_rows({}, ["constant"], None)
    records = pd.DataFrame(real.evaluate(row, table("lynx-hare")))
    one = records[records.task == "one step"].set_index("fitted").error
    x = table("lynx-hare").data.x[0]
    assert one.index.tolist() == list(range(12, 21))
    assert one[15] == pytest.approx(np.sqrt(np.mean(((x[15] - x[14]) / x.std(axis=0)) ** 2)))
    assert (records.task == "four steps").sum() == 6


def test_failures_are_counted():
    about = {"data": "d", "task": "one step", "model": "m", "version": "1"}
    trials = pd.DataFrame(about | {"error": [1.0, np.nan, 3.0]})
    (line,) = real.summarise(trials).to_dict("records")
    assert (line["error"], line["failures"], line["n"]) == (3.0, 1, 3)


def test_a_run_leaves_its_files(tmp_path, capsys):
    assert real.main(["--models", "sindy", "constant", "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        *("trials.csv", "equations.csv", "summary.csv", "report.txt"),
        "cache",
    }
    text = capsys.readouterr().out
    assert "Equations of influenza" in text and "hare' = " in text
