"""Fits that few samples decide say so; forecasts of fits that fail do, too."""

import warnings

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import CallableField, Trajectories
from fim_dynsys.errors import FitWarning
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.inference import Inference, Judge, Noise, Trust
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models.scarcity import noting_few_samples


def few(field, n, known=False, **facts):
    record = Trajectories.from_arrays(np.ones((n, field.dim)), np.arange(float(n)))
    return noting_few_samples(field, FitInfo(inference=Inference(**facts)), record, known).inference.notes


def test_what_counts_as_few():
    line = DictionaryField(Dictionary.polynomial(1, 3), np.ones((4, 1)))
    assert few(line, 9, judge=Judge.EXACT) == (
        "few samples decide: 9 values for 4 coefficients and 1 initial state",
    )
    assert "10 of each state" in few(line, 10, judge=Judge.EXACT)[0]  # how much it leaves is not known
    assert few(line, 10, known=True) == ()
    assert few(line, 10, noise=Noise.POISSON) == () == few(line, 13)
    assert "12 of each state" in few(line, 12)[0]
    record = Trajectories.from_arrays(np.ones((10, 1)), np.arange(10.0))
    followed = FitInfo(path_r2=1.0 - 3e-4, inference=Inference(judge=Judge.EXACT))
    assert "10 of each state" in noting_few_samples(line, followed, record, False).inference.notes[0]
    nearly = FitInfo(path_r2=1.0 - 8e-6, inference=Inference(judge=Judge.EXACT))  # ten samples of 1 % noise
    assert "10 of each state" in noting_few_samples(line, nearly, record, False).inference.notes[0]
    assert not noting_few_samples(line, FitInfo(path_r2=1.0 - 1e-9), record, False).inference.notes
    assert few(CallableField(lambda x: -x, 1), 6, judge=Judge.OPERATOR) == ()


def test_the_note_is_printed_and_comes_once(capsys, tmp_path):
    t = np.linspace(0.0, 1.2, 12)
    c = 2.0 * np.exp(-2.5 * t) + 0.04 * np.random.default_rng(0).standard_normal(12)
    with pytest.warns(FitWarning, match="sindy-strong.fit: few samples decide: 12 of each state"):
        model = fim_dynsys.load("sindy-strong").fit(c[:, None], t)
    model.print()
    assert capsys.readouterr().out.count("few samples decide") == 1
    again = fim_dynsys.load_fitted(model.save(tmp_path)).field_.fit_info
    assert again.inference.notes == model.field_.fit_info.inference.notes


def test_eight_noisy_samples_that_an_equation_follows_exactly_are_warned_of():
    """2 % of noise is no motion: -2.24 x^4 - 1.06 x cos(2 x) followed these eight samples of a decay."""
    t = np.linspace(0.0, 4.0, 8)
    noise = np.random.default_rng(26).standard_normal((8, 1))
    x = np.exp(-t)[:, None]
    with pytest.warns(FitWarning, match="auto.fit: few samples decide: 8 of each state"):
        fim_dynsys.load("auto").fit(x + 0.02 * x.std() * noise, t)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        fim_dynsys.load("auto").fit(x, t)


def test_bands_of_a_fit_that_fails_warn_again():
    t = np.arange(60.0)
    x = np.where(t % 12 < 3, 1.0, 0.0)[:, None] + 0.05 * np.sin(t)[:, None]
    with pytest.warns(FitWarning, match="fit: the field does not describe"):
        model = fim_dynsys.load("sindy-strong").fit(x, t)
    with pytest.warns(FitWarning, match="forecast: bands of a field that does not describe the data: "):
        model.forecast(model.context_, 3.0, n_draws=3)


@pytest.mark.parametrize("n", [6, 8, 11])
@pytest.mark.parametrize("seed", range(2))
def test_fim_ode_searches_a_few_samples(n, seed):
    """The operator alone gave rates of the wrong sign outside a few samples of two decays in a row."""
    t = np.linspace(0.0, 6.0, n)
    a = 5.0 * np.exp(-1.2 * t)
    x = np.stack([a, 1.2 * 5.0 / (0.4 - 1.2) * (np.exp(-1.2 * t) - np.exp(-0.4 * t))], axis=1)
    x += 0.005 * x.std(axis=0) * np.random.default_rng(seed).standard_normal(x.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        model = fim_dynsys.load("fim-ode").fit(x, t)
    (rates,) = model.predict(np.array([[6.0, 3.0]]))
    assert rates == pytest.approx([-7.2, 6.0], rel=0.3)


def test_few_samples_that_decide_leave_limited_trust():
    field = fim_dynsys.SymbolicField({"x": "1.1*x - 0.4*x*y", "y": "0.1*x*y - 0.4*y"})
    t = np.linspace(0.0, 8.0, 9)
    x = fim_dynsys.simulate(field, [10.0, 5.0], t, rtol=1e-10).x[0]
    with pytest.warns(FitWarning, match="few samples decide"):
        info = fim_dynsys.load("fim-ode").fit(x, t).field_.fit_info
    assert info.inference.elsewhere < 0.1 and info.trust is Trust.LIMITED
