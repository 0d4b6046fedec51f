"""The scaling study at tiny sizes, and the numbers behind the pictures of `training.describe`."""

import csv
import io
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from training import describe
from training.evaluate import development_systems, known_field
from training.preset import read_preset
from training.scaling import __main__ as scaling
from training.scaling.tables import end_points, extrapolation
from training.systems.corruption import OBSERVERS
from training.systems.fields import Fields, Ridge
from training.systems.generation import Systems

DESIGNS = """
[tiny]
preset = "{preset}"
minutes = [0.005, 0.01]
uses = {{ "one pass" = {{ refine = false }} }}
"""
PRESET = """
pools = [["paper", 1, 16]]
batch = 4
queries = 8
validation = 4
log_every = 20
[network]
context_width = 16
token_width = 8
n_updates = 1
"""


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "preset.toml").write_text(PRESET)
    (tmp_path / "designs.toml").write_text(DESIGNS.format(preset=tmp_path / "preset.toml"))
    monkeypatch.setattr(scaling, "FOLDER", tmp_path)
    monkeypatch.setattr(scaling, "development_systems", lambda: islice(development_systems(), 2))
    monkeypatch.setattr(scaling, "HELD_OUT_PRIORS", ())
    return tmp_path


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_the_study_of_priors_names_shares_of_equal_pools():
    for run in scaling.planned([], [], [0], "priors"):
        for dim, n in scaling.POOL.items():
            assert sum(size for _, own, size in run.changes["pools"] if own == dim) == n
    (wide,) = scaling.planned(["wide observation"], [], [0], "priors")
    assert isinstance(read_preset(wide.preset, wide.changes).observation, OBSERVERS["wide"])
    (run,) = scaling.planned(["paper + stiff"], [0.5], [1], "priors")
    assert run.changes["minutes"] == 0.5 and run.changes["seed"] == 1
    assert run.name == "scaling-paper+stiff-0.5min-1"


def test_the_study_fills_its_tables_and_makes_nothing_twice(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    runs = scaling.planned([], [], [0])
    assert [run.name for run in runs] == ["scaling-tiny-0.005min-0", "scaling-tiny-0.01min-0"]
    out = tiny / "out"
    scaling.study(runs[:1], tiny / "runs", out, 1, [1])
    assert not (out / "extrapolation.csv").exists()  # one point makes no line
    scaling.study(runs, tiny / "runs", out, 1, [1])
    assert "scaling-tiny-0.005min-0: there already" in capsys.readouterr().out
    table = rows(out / "accuracy.csv")
    assert {row["minutes"] for row in table} == {"0.005", "0.01"}
    assert {(row["sigma"], row["rho"]) for row in table} == {("0", "0"), ("0.05", "0"), ("0.05", "0.5")}
    assert {len(row["version"]) for row in table} == {8}
    assert {row["minutes"] for row in rows(out / "curves.csv")} == {"0.005", "0.01"}
    (line,) = rows(out / "extrapolation.csv")
    errors = {minutes: e for minutes, (e, _) in end_points(table)["tiny", "one pass"].items()}
    assert float(line["exponent"]) == pytest.approx(
        np.log(errors[0.005] / errors[0.01]) / np.log(2), rel=1e-3
    )
    monkeypatch.setattr(scaling, "pretrain", None)  # not called again
    scaling.study(runs, tiny / "runs", out, 1, [1])
    assert rows(out / "accuracy.csv") == table
    assert describe.scaling_figure(out).axes[0].get_xlabel() == "CPU-minutes"
    log = describe.run_figure(tiny / "runs" / runs[0].name)
    assert len(log.axes[0].lines) == 5


def test_the_study_of_sizes_takes_equal_steps_on_sets_in_the_papers_shares(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    preset = tiny / "preset.toml"
    design = (
        '["{} systems"]\npreset = "{}"\nsystems = {}\nsteps = 20\nuses = {{ pass = {{ refine = false }} }}\n'
    )
    text = "".join(design.format(f"{n:,}", preset, n) for n in (20, 1000))
    (tiny / "sizes.toml").write_text(text)
    monkeypatch.setattr(scaling, "PAPER_SHARES", {1: 1.0})
    runs = scaling.planned([], [], [0], "sizes")
    assert [run.name for run in runs] == ["scaling-20systems-20steps-0", "scaling-1,000systems-20steps-0"]
    assert [run.changes["pools"] for run in runs] == [[["paper", 1, n]] for n in (20, 1000)]
    out = tiny / "out"
    scaling.study(runs, tiny / "runs", out, 1, [1])
    assert {(row["design"], row["presentations"]) for row in rows(out / "accuracy.csv")} == {
        ("20 systems", "80"),
        ("1,000 systems", "80"),
    }
    success, error, losses = describe.sizes_figure(out).axes
    for axes in (success, error, losses):
        assert all(line.get_xdata().tolist() == [20, 1000] for line in axes.lines)
    stated = {row["design"]: float(row["validation plain"]) for row in rows(out / "curves.csv")}
    held_out = next(line for line in losses.lines if line.get_label() == "held out")
    assert held_out.get_ydata() == pytest.approx([stated["20 systems"], stated["1,000 systems"]])


def test_the_papers_sets_are_planned():
    runs = scaling.planned([], [], [0], "sizes")
    assert [run.systems for run in runs] == [10_000, 50_000, 100_000, 200_000]
    assert len({run.steps for run in runs}) == 1
    for run in runs:
        sizes = [n for _, _, n in run.changes["pools"]]
        assert abs(sum(sizes) - run.systems) <= 1 and sizes[2] / sizes[0] == pytest.approx(310 / 80, rel=1e-3)
    (shorter,) = scaling.planned(["10,000 systems"], [0.5], [0], "sizes")
    assert (shorter.changes["minutes"], shorter.changes["steps"]) == (0.5, 0)
    assert shorter.name == "scaling-10,000systems-0.5min-0"


def test_unknown_designs_are_refused() -> None:
    assert {run.design for run in scaling.planned([], [], [0])} >= {"ours", "published-small"}
    assert [run.minutes for run in scaling.planned(["ours"], [3.0], [1, 2])] == [3.0, 3.0]
    with pytest.raises(ValueError, match=r"designs among \[.*'ours'.*\], got \['hours'\]"):
        scaling.planned(["hours"], [], [0])


def test_a_power_law_is_found_and_continued() -> None:
    points = {
        ("a", "b"): {m: (0.8 * m**-0.3, 50.0) for m in (5.0, 15.0, 45.0)},
        ("c", "d"): {15.0: (0.5, 1.0)},
    }
    (line,) = extrapolation(points)
    assert (line["exponent"], line["error at 180 min"]) == ("0.3", f"{0.8 * 180**-0.3:.4g}")
    assert float(line["misfit"]) < 1e-12


# --- what describes a prior ---


def cubes(n: int = 3) -> Systems:
    """x' = x^3 on trajectories between -1 and 1."""
    coefficients = torch.zeros(n, 4, 1)
    coefficients[:, 3] = 1.0
    states = torch.linspace(-1, 1, 201).view(1, 1, 201, 1).expand(n, 9, 201, 1)
    return Systems(Fields(coefficients), states.contiguous())


def test_growth_outside_the_box_is_that_of_the_field() -> None:
    """The box reaches to 1.2; the mean of |x^3| on the paths is 1/4."""
    size = describe.growth(cubes()).numpy()
    expected = (1.2 * (1 + describe.DISTANCES)) ** 3 / 0.25
    np.testing.assert_allclose(size, np.broadcast_to(expected, size.shape), rtol=2e-2)  # the mean is a sum


def test_targets_are_in_the_units_stated() -> None:
    paper, ours = describe.targets(cubes())
    std = torch.linspace(-1, 1, 201).std()
    torch.testing.assert_close(paper, (5 / std).double().expand(3), rtol=1e-5, atol=0)  # 0.05 / 0.01
    rms = (torch.linspace(-1, 1, 201).double() ** 6).mean().sqrt()
    torch.testing.assert_close(ours, (1 / rms).expand(3))
    numbers = describe.statistics(cubes())
    assert numbers["median range"] == 2.0 and numbers["terms"] == 1.0
    assert numbers["at rest at the end, %"] == 0.0


def test_a_prior_has_a_row_of_pictures_for_each_dimension() -> None:
    figure = describe.prior_figure("cubes", {1: cubes()})
    assert [axes.get_title() for axes in figure.axes] == [
        "field inside and outside the box",
        "largest target of a context",
        "examples",
    ]


def test_evaluation_knows_fields_that_are_no_polynomials() -> None:
    ridge = Ridge(
        ("sine",), torch.ones(2, 1, 1), torch.zeros(2, 1), torch.tensor([1.0, 3.0]).view(2, 1, 1),
        torch.tensor([1.0, 0.0]).expand(2, 1, 2),
    )  # fmt: skip
    systems = Systems(Fields(torch.zeros(2, 4, 1), ridge), torch.zeros(2, 9, 5, 1))
    x = np.linspace(-1, 1, 7)[:, None]
    np.testing.assert_allclose(known_field(systems, 1)(x), 3 * np.sin(x), rtol=1e-12)
    polynomial = cubes()
    np.testing.assert_allclose(known_field(polynomial, 0)(x), x**3, rtol=1e-12)
