"""Inference where some samples are off by more than noise."""

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import systems
from fim_dynsys.corruption import add_noise, add_outliers
from fim_dynsys.models import outliers
from fim_dynsys.simulation.solution import simulate

SYSTEM = systems.get("predator_prey_allee")


@pytest.fixture(scope="module")
def noisy():
    t = np.linspace(0.0, SYSTEM.t_end, 200)
    clean = simulate(SYSTEM.field(), SYSTEM.initial_states[1], t)
    return add_noise(clean, 0.02, 0)


def test_outliers_are_left_out_said_and_cost_little(noisy):
    spoilt = add_outliers(noisy, 0.03, 0.16, 1)
    model = fim_dynsys.load("fim-ode")
    field = model.fit(spoilt).field_
    count = field.fit_info.report["outliers"]
    assert 3 <= count <= 30
    assert f"{count} outliers left out" in field.fit_info.report["note"]
    assert field.context.n_obs.sum() == 200 - count
    points = noisy.x[0][::10]
    truth = SYSTEM.field()(points)
    error = np.abs(field(points) - truth).mean() / np.abs(truth).mean()
    without = np.abs(model.infer(noisy)(points) - truth).mean() / np.abs(truth).mean()
    assert error < 2.0 * without + 0.01


def test_without_outliers_nothing_changes(noisy):
    assert outliers.inferred_robustly(lambda *_: pytest.fail("inferred"), noisy, noisy) is None
    assert "outliers" not in fim_dynsys.load("fim-ode").infer(noisy).fit_info.report


def test_what_the_path_explains_is_no_outlier(noisy, monkeypatch):
    """A false alarm beside neighbours is taken back."""
    field = fim_dynsys.load("fim-ode").infer(noisy)
    monkeypatch.setattr(outliers, "without_outliers", lambda own: own.select_samples([np.arange(190)]))
    assert outliers.inferred_robustly(lambda *_: field, noisy, noisy) is field
    assert "outliers" not in field.fit_info.report
