"""The benchmark of random polynomials: its systems, what is seen of them, its scores."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks.harness.rows import ConstantRow, TruthRow
from benchmarks.harness.run import Integrator
from benchmarks.polynomials import __main__ as command
from benchmarks.polynomials import systems
from benchmarks.polynomials.systems import Draw, counts, draw_systems, polynomials
from fim_dynsys.fields.terms import Dictionary
from training.systems.fields import Fields
from training.systems.priors import single

DRAW = Draw(degree=6, dim=1, number=0, points=50, trajectories=1, sigma=0.03)


@pytest.fixture(autouse=True, scope="module")
def few():
    """Few systems are drawn at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(systems, "_DRAWN", {name: (60, 100, 2_000) for name in systems.PRIORS.values()})
        yield


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Five systems of degree 6 with one state."""
    return draw_systems("sextic", 1, 5, 1, tmp_path_factory.mktemp("systems"))


@pytest.fixture(scope="module")
def system(drawn):
    return next(polynomials(drawn, DRAW.points))


def test_fields_of_any_degree_are_those_of_the_dictionary():
    fields = single("sextic").fields(3, 2, torch.Generator().manual_seed(0))
    assert (fields.degree, single("paper").fields(1, 3, torch.Generator()).degree) == (6, 3)
    x = torch.linspace(-1.5, 1.5, 8, dtype=torch.float64).view(1, 4, 2).expand(3, 4, 2)
    columns = Dictionary.polynomial(2, 6).evaluate(x[0].numpy())
    expected = columns @ fields.coefficients.double().numpy()
    np.testing.assert_allclose(fields(x).numpy(), expected, rtol=1e-12)


def test_a_field_in_fewer_monomials_has_a_smaller_degree():
    assert [Fields(torch.zeros(1, m, 3)).degree for m in (1, 4, 10, 20, 84)] == [0, 1, 2, 3, 6]


def test_systems_are_kept_and_solved_as_the_package_does(drawn, system, tmp_path):
    assert drawn.states.shape[:2] == (5, systems.SEEN + systems.NEW)
    assert float(drawn.states.abs().max()) < 100.0
    again = draw_systems("sextic", 1, 3, 1, tmp_path)  # fewer are the first of them
    assert torch.equal(again.states, drawn.states[:3])
    paths, _ = Integrator().solve(system.field, system.states[:, 0], system.t, 1.0)
    np.testing.assert_allclose(paths, system.states, atol=1e-4 * np.ptp(system.states))


def test_dimensions_have_the_shares_of_the_pretraining_set():
    assert counts(600) == {1: 80, 2: 210, 3: 310}
    assert sum(counts(7).values()) == 7


def test_contexts_differ_by_draw_and_boxes_do_not(system):
    noisy, other = (system.context(replace(DRAW, number=n)).arrays()[0][1] for n in (0, 1))
    assert noisy.shape == (50, 1) and not np.array_equal(noisy, other)
    np.testing.assert_array_equal(system.context(DRAW).arrays()[0][1], noisy)
    more = replace(DRAW, trajectories=9, sigma=0.0)
    assert len(system.context(more)) == 9
    np.testing.assert_array_equal(system.box_points(more), system.box_points(DRAW))


def test_the_true_field_is_exact_and_rest_is_not(system):
    known = command.evaluate(TruthRow(command.true_field), system, DRAW, Integrator())
    assert min(known["r2"]) > 0.999 and (known["rmse"], known["cosine"]) == (0.0, 1.0)
    still = command.evaluate(ConstantRow(), system, DRAW, Integrator())
    assert max(still["r2"]) < 0.9 and still["rmse"] > 0.0


def test_command_writes_tables_with_published_rows_beside(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "PRIORS", {3: "paper"})
    monkeypatch.setattr(command, "counts", lambda n: {1: 0, 2: n})
    options = ["--models", "truth", "constant", "--systems", "3", "--workers", "1"]
    with monkeypatch.context() as patch:  # the second run draws
        patch.setattr(command.figures, "draw", lambda *_: None)
        assert command.main([*options, "--out", str(tmp_path / "default")]) == 0
    assert set(pd.read_csv(tmp_path / "default" / "summary.csv")["part"]) == {"noisy"}
    capsys.readouterr()
    options += ["--only", "noisy", "clean"]
    assert command.main([*options, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "90.2 / 26.0" in printed and "100.0 / 100.0" in printed
    summary = pd.read_csv(tmp_path / "summary.csv")
    assert set(summary["group"]) == {"all", "dim=2"} and set(summary["part"]) == {"noisy", "clean"}
    assert (tmp_path / "polynomials.png").exists()
