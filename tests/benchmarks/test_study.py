"""The command line of benchmarks with tables of their own: runs, and several of them joined."""

from functools import partial

import pandas as pd
import pytest

from benchmarks import report, study


def run(rows, options):
    """One record per row, noise level and seed."""
    return [
        pd.DataFrame(
            [
                {"system": "7", "sigma": sigma, "seed": seed, "model": row.name, "version": "1", "error": 0.1}
                for sigma in (0.0, 0.1)
                for seed in options.seeds
                for row in rows
            ]
        )
    ]


def summarise(trials, commit):
    lines = trials.groupby(["sigma", "model", "version"], sort=False)["error"].mean().reset_index()
    return lines.assign(commit=commit)


def draw(summary, path):
    path.write_text(str(len(summary)))


def illustrate(rows, trials, options):
    assert (options.out / "more.txt").exists()  # all else is written
    (options.out / "fits.png").write_text(f"{len(rows)} {len(trials)}")


TOY = study.Study(
    "toy",
    "Toy",
    ("constant",),
    {
        "first": study.Part(run, lambda summary, trials: f"{len(summary)} {len(trials)}", summarise, draw),
        "second": study.Part(
            run, lambda trials: str(len(trials)), illustrate=illustrate, tables=("more",), report="more"
        ),
    },
    seeds=(0,),
    full_seeds=(0, 1),
    full="more seeds",
)
main = partial(study.main, TOY)


def test_runs_of_models_apart_are_joined(tmp_path, capsys):
    one, two, both = (tmp_path / name for name in ("one", "two", "both"))
    assert main(["--models", "sindy", "constant", "--out", str(one)]) == 0
    assert main(["--models", "constant", "--full", "--out", str(two), "--only", "first"]) == 0
    capsys.readouterr()
    assert main(["--render", str(one), str(two), "--out", str(both)]) == 0
    assert capsys.readouterr().out == "4 6\n4\n"
    trials = pd.read_csv(both / "trials.csv", dtype=str)
    assert trials["model"].tolist() == ["sindy"] * 2 + ["constant"] * 4  # of the later folder
    assert (both / "toy.png").read_text() == "4"
    assert {path.name for path in both.iterdir()} == {
        *("trials.csv", "summary.csv", "report.txt", "toy.png"),
        *("more.csv", "more.txt"),
    }
    assert (one / "fits.png").read_text() == "2 4"
    assert main(["--render", "--out", str(both)]) == 0  # its own tables, again
    pd.testing.assert_frame_equal(pd.read_csv(both / "trials.csv", dtype=str), trials)


def test_a_run_keeps_the_rows_of_other_models(tmp_path):
    assert main(["--models", "constant", "--out", str(tmp_path)]) == 0
    assert main(["--models", "sindy", "--seeds", "3", "--out", str(tmp_path)]) == 0
    trials = pd.read_csv(tmp_path / "trials.csv")
    assert trials[["model", "seed"]].to_numpy().tolist() == [["constant", 0]] * 2 + [["sindy", 3]] * 2


def test_lines_name_the_commit_that_their_trials_are_of(tmp_path, monkeypatch):
    one, two, both = (tmp_path / name for name in ("one", "two", "both"))
    for commit, arguments in (
        ("aaa", ["--models", "constant", "sindy", "--out", str(one)]),
        ("bbb", ["--models", "sindy", "--out", str(one)]),
        ("ccc", ["--models", "constant", "--out", str(two)]),
        ("ddd", ["--render", str(one), str(two), "--out", str(both)]),
    ):
        monkeypatch.setattr(report, "source_commit", lambda _, commit=commit: commit)
        assert main([*arguments, "--only", "first"]) == 0
    assert [
        pd.read_csv(folder / "summary.csv").groupby("model")["commit"].unique().map(list).to_dict()
        for folder in (one, both)
    ] == [{"constant": ["aaa"], "sindy": ["bbb"]}, {"constant": ["ccc"], "sindy": ["bbb"]}]


def test_nothing_to_report_on_ends_the_command(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["--render", str(tmp_path / "none"), "--out", str(tmp_path)])
    assert "expected tables of trials in" in capsys.readouterr().err


def test_later_tables_take_the_place_of_earlier_ones():
    old = pd.DataFrame({"model": ["a", "b", "a", "b"], "part": ["x", "x", "y", "y"], "value": [1, 2, 3, 4]})
    new = pd.DataFrame({"model": ["a"], "part": ["x"], "value": [5]})
    assert report.joined([old, new])["value"].tolist() == [5, 2, 4]
    by = ("part", "model")
    assert report.joined([old, new], by, by)["value"].tolist() == [5, 2, 3, 4]
    assert report.joined([old, new], by)["value"].tolist() == [3, 5, 2, 4]


def test_a_model_has_one_version():
    old = pd.DataFrame({"model": ["a", "a"], "part": ["x", "y"], "version": ["1", "1"]})
    new = pd.DataFrame({"model": ["a"], "part": ["x"], "version": ["2"]})
    with pytest.raises(ValueError, match=r"expected one version of each model, got \{'a': \['1', '2'\]\}"):
        report.joined([old, new], ("part", "model"))
    assert report.joined([old, new])["version"].tolist() == ["2"]
