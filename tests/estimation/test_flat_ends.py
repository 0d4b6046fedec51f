"""Numbers at a flat end of the likelihood: profiles come back from there, and so do draws and bands."""

import warnings

import numpy as np
import pytest
from scipy.special import lambertw

import fim_dynsys
from fim_dynsys.errors import DataWarning, FitWarning
from fim_dynsys.estimation.sampling import draw_parameters

POSITIVE = (0, None)


def fitted(expressions, y, t, sigma=None, **options):
    model = fim_dynsys.load("equations", expressions=expressions, **options)
    return model.fit(y, t, feature_names=["N"], sigma=sigma)


def logistic(t, capacity):
    return capacity / (1.0 + (capacity / 5.0 - 1.0) * np.exp(-0.7 * t))


@pytest.mark.parametrize("bounds", [{}, {"K": POSITIVE, "r": POSITIVE}])
def test_growth_before_saturation(bounds):
    """The capacity ran away to 1e13: its profile had no end, and draws and bands stayed there."""
    t = np.linspace(0.0, 5.0, 12)
    y = np.random.default_rng(102).poisson(logistic(t, 300.0)).astype(float)
    model = fitted({"N": "r*N*(1-N/K)"}, y, t, "poisson", bounds=bounds)
    assert model.parameters_["K"] > 1e5
    found = model.profile("K")
    low, high = found.intervals[0.9]
    assert 120.0 < low < 300.0 and high == np.inf and found.is_open == (False, True)
    ahead = model.forecast(model.context_, [6.0], bands=(0.9,))
    assert float(ahead["low"].squeeze()) < logistic(11.0, 300.0) < float(ahead["high"].squeeze())


def test_uptake_far_below_saturation():
    """Both constants ran away together, and draws and bands with them."""
    t = np.linspace(0.0, 4.0, 15)
    x = 40.0 * lambertw(0.2 * np.exp(0.2 - 0.1 * t)).real  # of -4*N/(40+N)
    x += 0.1 * np.random.default_rng(103).standard_normal(15)
    model = fitted({"N": "-V*N/(K+N)"}, x, t, bounds={"V": POSITIVE, "K": POSITIVE})
    assert model.parameters_["K"] > 1e5
    draws = draw_parameters(model.fit_, 100, seed=0)
    names = model.fit_.space.names
    saturation, rate = draws[:, names.index("K")], draws[:, names.index("V")]
    assert np.quantile(saturation, 0.1) < 40.0 < np.quantile(saturation, 0.9) < 1e4
    assert np.std(rate / (saturation + 6.5)) < 0.005  # the relative rate at the samples is determined: 0.09


def test_decay_to_an_offset_seen_at_its_beginning():
    """The rate ran away to 0 and the offset to minus infinity."""
    t = np.linspace(0.0, 3.0, 15)
    y = 2.0 + 8.0 * np.exp(-0.1 * t) + 0.1 * np.random.default_rng(100).standard_normal(15)
    model = fitted({"N": "-k*(N-c)"}, y, t, bounds={"k": POSITIVE})
    assert model.parameters_["k"] < 1e-5
    found = model.profile("k")
    low, high = found.intervals[0.9]
    assert low == 0.0 and 0.1 < high < 0.5 and found.is_open == (True, False)
    assert "open (0) to" in repr(found)
    assert model.profile("c").intervals[0.9][1] > 2.0
    ahead = model.forecast(model.context_, [20.0], bands=(0.9,))
    assert float(ahead["low"].squeeze()) < 2.0 + 8.0 * np.exp(-2.3) < float(ahead["high"].squeeze())


@pytest.mark.parametrize("bounds", [{}, {"a": POSITIVE, "b": POSITIVE}])
def test_factors_of_a_product_are_drawn_apart(bounds):
    """Steps along the straight tangent of the valley were all refused: draws were alike."""
    t = np.linspace(0.0, 3.0, 15)
    y = 10.0 * np.exp(-0.5 * t) + 0.1 * np.random.default_rng(100).standard_normal(15)
    model = fitted({"N": "-a*b*N"}, y, t, bounds=bounds)
    draws = draw_parameters(model.fit_, 100, seed=0)
    a, product = draws[:, 0], draws[:, 0] * draws[:, 1]
    known = fitted({"N": "-k*N"}, y, t).parameter_errors_["k"]
    assert np.std(a) > 0.5 * np.mean(np.abs(a))
    assert 0.5 * known < np.std(product) < 2.5 * known


def test_draws_of_what_the_data_do_not_bound_are_said_to_be_no_intervals():
    t = np.linspace(0.0, 4.87, 20)
    exact = 1e4 / (1.0 + 9999.0 * np.exp(-0.9 * t))
    y = exact * (1.0 + 0.05 * np.random.default_rng(1).standard_normal(20))
    model = fim_dynsys.load("equations", expressions={"N": "r*N*(1-N/K)"}, n_starts=6)
    with pytest.warns(DataWarning, match=r"K \(\d+ %, not determined above\)"):
        model.fit(y, t, feature_names=["N"], log=["N"])
    assert not model.field_.fit_info.report["alternatives"]  # K = 7e32 is a flat end
    with pytest.warns(FitWarning, match="do not bound K above"):
        model.ensemble(2)
    grown = logistic(np.linspace(0.0, 15.0, 40), 300.0)
    known = fitted(
        {"N": "r*N*(1-N/K)"}, grown + np.random.default_rng(0).standard_normal(40), np.linspace(0, 15, 40)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known.ensemble(2)
