"""Real records: the tables are those published, persistence is what it says, and a run leaves its files."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from benchmarks import cli
from benchmarks.real import __main__ as real
from benchmarks.real import files
from fim_dynsys import Trajectories
from fim_dynsys.errors import ReadingWarning


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
    assert real.main(["--only", "trials", "--models", "sindy", "constant", "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        *("trials.csv", "equations.csv", "summary.csv", "report.txt"),
        "cache",
    }
    text = capsys.readouterr().out
    assert "Equations of influenza" in text and "hare' = " in text


@pytest.mark.parametrize("source", files.sources(), ids=lambda source: source.name)
def test_each_file_is_read_as_its_table_says(source, tmp_path):
    assert source.source and source.kind and source.known
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadingWarning)
        data = Trajectories.from_file(files.write(source, tmp_path))
    assert data.state_names == tuple(source.states)
    values = np.stack([np.atleast_2d(x) for x in source.states.values()], axis=-1)
    np.testing.assert_array_equal(data.x, values)
    if not isinstance(source.t[0], str):
        np.testing.assert_array_equal(data.t, np.tile(np.array(source.t, dtype=float), (len(values), 1)))


def test_there_are_a_dozen_tables_of_many_forms():
    assert len(files.sources()) >= 12
    assert len({source.form for source in files.sources()}) >= 8


def test_persistence_of_a_file(tmp_path):
    (table,) = [source for source in files.sources() if source.name == "yeast"]
    x = table.states["biomass"]
    error = np.sqrt(np.mean(((x[16:] - x[15]) / x.std()) ** 2))
    assert files.evaluate("constant", "1", table)["error"] == pytest.approx(error)


def test_from_a_file_to_its_forecast(tmp_path, capsys):
    """The textbook's equations forecast the yeast better than persistence; a refusal counts as a failure."""
    (table,) = [source for source in files.sources() if source.name == "yeast"]
    assert files.evaluate("truth-fit", "1", table)["error"] < 0.02
    failed = files.evaluate("sindy", "1", replace(table, options=("--order", "2")))
    assert failed["error"] == np.inf and failed["status"].startswith("fim-dynsys fit: ")
    text = files.format_table(pd.DataFrame([failed]))
    assert "1 runs, 1 refused, 1 without a forecast" in text and "fails" in text


def test_files_of_a_folder(tmp_path):
    (tmp_path / "a.csv").write_text("t,x\n0,1\n1,2\n2,4\n")
    (tmp_path / "a.options").write_text("--states\nx\n")
    (tmp_path / "read.me").write_text("no data")
    (found,) = files.of_folder(tmp_path)
    assert (found.name, found.options, found.path) == ("a.csv", ("--states", "x"), tmp_path / "a.csv")
