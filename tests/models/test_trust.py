"""What a fit knows of itself beyond the data: how far its draws differ from it, in three levels."""

from dataclasses import replace

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import CallableField, Trajectories
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.inference import Inference, Judge, Trust
from fim_dynsys.models.trust import deviation_elsewhere

FITTED = FitInfo(path_r2=0.99, window_r2=0.99, residual_over_noise=1.0, follows=1.0, follows_for=5.0)


@pytest.fixture(scope="module")
def oscillation():
    t = np.linspace(0.0, 10.0, 60)
    field = fim_dynsys.SymbolicField(["y", "(1-x**2)*y-x"], {}, state_names=["x", "y"])
    x = fim_dynsys.simulate(field, [1.0, 0.5], t, rtol=1e-10).x[0]
    return t, x, np.random.default_rng(0).standard_normal(x.shape)


def test_deviation_is_that_of_the_members():
    context = Trajectories.from_arrays(np.linspace(-1.0, 1.0, 9)[:, None], np.arange(9.0))
    field = CallableField(lambda x: x, 1)
    members = [CallableField(lambda x, a=a: a * x, 1) for a in (0.7, 1.3)]
    # rates have mean zero in a box about zero: the deviation is .3 of their spread, wherever the points are
    assert deviation_elsewhere(field, members, context) == pytest.approx(0.3, rel=0.02)
    beyond = [CallableField(lambda x: np.where(np.abs(x) > 1.0, 2.0 * x, x), 1)]
    # on two thirds of a box of half-width 3 off by x: root of (27 - 1) / 27
    assert deviation_elsewhere(field, beyond, context) == pytest.approx(np.sqrt(26 / 27), rel=0.03)
    assert deviation_elsewhere(field, [], context) is None


@pytest.mark.parametrize(
    ("apart", "judge", "problems", "level"),
    [
        (0.02, Judge.SELECTOR, (), Trust.HIGH),
        (0.4, Judge.SELECTOR, (), Trust.LIMITED),
        (3.0, Judge.SELECTOR, (), Trust.LOW),
        (0.02, Judge.SELECTOR, ("its path leaves the data",), Trust.LOW),
        (None, Judge.EXACT, (), Trust.HIGH),
        (None, Judge.BIC, (), Trust.LIMITED),
    ],
)
def test_levels(apart, judge, problems, level):
    info = replace(FITTED, inference=Inference(judge, elsewhere=apart), problems=problems)
    assert info.trust is level
    assert FitInfo().trust is None


@pytest.mark.parametrize("name", ["fim-ode", "auto"])
def test_trust_falls_with_noise(name, oscillation):
    t, x, noise = oscillation
    apart = []
    for sigma in (0.0, 0.4):
        model = fim_dynsys.load(name).fit(x + sigma * noise, t)
        apart.append(model.field_.fit_info.inference.elsewhere)
    assert apart[0] < 1e-3 and apart[1] > 0.1


def test_trust_is_printed_and_kept(oscillation, tmp_path, capsys):
    t, x, _ = oscillation
    model = fim_dynsys.load("fim-ode").fit(x, t)
    assert model.field_.fit_info.trust is Trust.HIGH
    model.print()
    assert "trust: high" in capsys.readouterr().out
    model.save(tmp_path / "kept")
    again = fim_dynsys.load_fitted(tmp_path / "kept").field_.fit_info
    assert again.inference.elsewhere == model.field_.fit_info.inference.elsewhere
    assert again.trust is Trust.HIGH
    table = fim_dynsys.fit_many(fim_dynsys.load("fim-ode"), {"a": Trajectories.from_arrays(x, t)}, n_jobs=1)
    assert table["trust"].tolist() == ["high"]
