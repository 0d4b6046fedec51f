"""Scores of records with doses and events, and what relative errors of single samples do to `follows`."""

import warnings

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys.errors import DataWarning, FitWarning, SimulationWarning
from fim_dynsys.estimation import summary


def dosed(t):
    return 0.5 * np.exp(-0.3 * t) + np.where(t > 5.0, 3.0 * np.exp(-0.3 * (t - 5.0)), 0.0)


def test_scores_of_the_records_of_the_fit_repeat_doses_with_inputs_too():
    t = np.linspace(0.0, 12.0, 40)
    y = dosed(t) + 0.7 / 0.3 * (1.0 - np.exp(-0.3 * t))
    u = np.ones((40, 1))
    model = fim_dynsys.load("equations", expressions={"x": "b*u-k*x"}, doses=[(5.0, "x", "A")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(y, t, u=u, feature_names=["x", "u"])
        assert model.score(y, t, u=u, metric="path") == model.field_.fit_info.path_r2 > 0.999
    with pytest.warns(SimulationWarning, match="not repeated"):
        assert model.score(y + 0.1, t, u=u, metric="path") < 0.9


def test_scores_of_the_records_of_the_fit_repeat_doses_with_hidden_states_too():
    t = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 11.9, 12.5, 13.0, 14.0, 18.0, 23.9])

    def after(s):
        return np.where(s > 0.0, 5.0 / 2.0 * 1.2 / 1.05 * (np.exp(-0.15 * s) - np.exp(-1.2 * s)), 0.0)

    y = after(t) + after(t - 12.0)
    doses = [(0.0, "g", 5.0), (12.0, "g", 5.0)]
    expressions = {"g": "-ka*g", "c": "ka*g/V-ke*c"}
    model = fim_dynsys.load(
        "equations", expressions=expressions, initial={"g": 0, "c": 0}, t0=0.0, doses=doses
    )
    model.fit(y, t, observed=["c"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.score(y, t, metric="path") == model.field_.fit_info.path_r2 > 0.999


def test_no_differences_are_taken_across_events():
    t = np.concatenate([a + np.linspace(0.01, 5.99, 12) for a in (0.0, 6.0)])
    y = np.where(t < 6.0, np.exp(-0.3 * t), 4.0 * np.exp(-0.3 * (t - 6.0)))
    model = fim_dynsys.load("equations", expressions={"x": "-k*x"}, events={6.0: {"x": 4.0}})
    assert model.fit(y, t, feature_names=["x"]).score(y, t) > 0.98


@pytest.mark.parametrize(("noise", "seed"), [("lognormal", 0), ("lognormal", 2), ("relative", 1)])
def test_how_far_a_path_follows_goes_with_the_errors_of_each_sample(noise, seed):
    t = np.linspace(0.0, 10.0, 40)
    z = 0.2 * np.random.default_rng(seed).standard_normal(40)
    y = 5.0 * np.exp(-0.5 * t) * (np.exp(z) if noise == "lognormal" else 1.0 + z)
    model = fim_dynsys.load("equations", expressions={"N": "-r*N"}, noise=noise).fit(
        y, t, feature_names=["N"]
    )
    assert model.field_.fit_info.follows == 1.0
    wrong = fim_dynsys.load("equations", expressions={"N": "-r*N"}, fixed={"r": 0.1}, initial={"N": 5.0})
    assert wrong.fit(y, t, feature_names=["N"]).field_.fit_info.follows < 0.5


def test_errors_that_log_estimates_are_not_called_those_of_sigma():
    t = np.linspace(0.0, 20.0, 80)
    y = np.exp(0.2 * t + np.sin(2.0 * t)) * np.exp(0.01 * np.random.default_rng(0).standard_normal(80))
    with pytest.warns(DataWarning, match=r"times the errors that log estimates from .* % of n") as caught:
        fim_dynsys.load("sindy-strong", degree=1).fit(y, t, feature_names=["n"], log=["n"])
    assert not any("sigma" in str(w.message) for w in caught)


def test_a_path_that_ends_early_has_no_score(tmp_path, monkeypatch):
    """`path_r2` was -1e6 where the warning and `score` said minus infinity."""
    monkeypatch.setattr(summary, "_paths", lambda _, fit: ([p.states for p in fit.paths], None))
    t = np.linspace(0.0, 2.0, 30)
    model = fim_dynsys.load("equations", expressions={"x": "-k*x"}, n_starts=2)
    with pytest.warns(FitWarning, match="R2 -inf"):
        model.fit(np.exp(-t), t, feature_names=["x"])
    again = fim_dynsys.load_fitted(model.save(tmp_path / "model"))
    assert model.field_.fit_info.path_r2 == again.field_.fit_info.path_r2 == -np.inf
