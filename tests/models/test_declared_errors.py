"""Fits of given equations are judged in units of the errors that were declared."""

import warnings

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys.fields.inference import Trust

TIMES = np.linspace(0.5, 15.0, 30)
CHAIN = {"a": "-k*a", "b": "k*a - m*b"}


def chain(share, seed):
    """A drug in the gut and in blood, measured with relative errors; k = 1 and m = .1."""
    exact = np.stack([np.exp(-TIMES), (np.exp(-0.1 * TIMES) - np.exp(-TIMES)) / 0.9], axis=1)
    return 10.0 * exact * np.exp(share * np.random.default_rng(seed).standard_normal(exact.shape))


def condemned(model, *data, **options):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(*data, **options)
    return [str(each.message) for each in seen if "does not describe" in str(each.message)]


@pytest.mark.parametrize("noise", ["lognormal", ("normal", "p*a"), "log"])
def test_relative_errors_condemn_no_true_equations(noise):
    given = {} if noise == "log" else {"noise": noise}
    if isinstance(noise, tuple):
        given = {"noise": {"a": noise, "b": ("normal", "q*b")}}
    for seed in range(5):
        model = fim_dynsys.load("equations", expressions=CHAIN, **given)
        options = {"log": list(CHAIN)} if noise == "log" else {}
        assert condemned(model, chain(0.1, seed), TIMES, feature_names=list(CHAIN), **options) == []
        assert model.field_.fit_info.trust is not Trust.LOW
        assert 0.5 < model.field_.fit_info.residual_over_noise < 1.7


@pytest.mark.parametrize("noise", ["lognormal", ("normal", "p*x")])
def test_wrong_equations_are_noticed_in_relative_errors(noise):
    x = 10.0 / (1.0 + 99.0 * np.exp(-0.8 * TIMES[:, None]))
    x *= np.exp(0.05 * np.random.default_rng(0).standard_normal(x.shape))
    model = fim_dynsys.load("equations", expressions={"x": "r*x"}, noise=noise)
    assert condemned(model, x, TIMES, feature_names=["x"])
    assert model.field_.fit_info.residual_over_noise > 3.0
