"""Profiles, intervals, and what the data determine, of known equations."""

import numpy as np
import pytest
from scipy.stats import t as student

import fim_dynsys
from fim_dynsys import plot
from fim_dynsys.errors import DataWarning

T = np.linspace(0.0, 4.0, 12)


@pytest.fixture(scope="module")
def line():
    """A straight line: linear in its slope and its start."""
    y = 1.0 + 0.5 * T + 0.2 * np.random.default_rng(0).standard_normal(12)
    model = fim_dynsys.load("equations", expressions={"x": "a"}).fit(y, T, feature_names=["x"])
    slope, _ = np.polyfit(T, y, 1)
    left = y - np.polyval(np.polyfit(T, y, 1), T)
    error = np.sqrt(left @ left / 10 / np.sum((T - T.mean()) ** 2))
    return model, slope, error


def test_the_profile_of_a_line_gives_the_intervals_of_linear_regression(line):
    model, slope, error = line
    found = model.profile("a")
    for level, (low, high) in found.intervals.items():
        half = student.ppf(0.5 + 0.5 * level, 10) * error
        np.testing.assert_allclose([low, high], [slope - half, slope + half], rtol=2e-3)
    assert found.is_open == (False, False)
    assert found.values.min() < found.intervals[0.95][0] and found.values.max() > found.intervals[0.95][1]
    assert model.parameter_errors_["a"] == pytest.approx(error, rel=1e-3)


def test_intervals_of_whatever_follows(line):
    model, slope, error = line
    found = model.interval(lambda field: 2.0 * field([1.0])[0], levels=(0.9,), n=400)
    with pytest.raises(TypeError, match=r"equations.interval: expected a function of the field"):
        model.interval("2*k")
    half = 2.0 * student.ppf(0.95, 10) * error
    assert float(found["best"]) == pytest.approx(2.0 * slope, rel=1e-5)
    assert float(found["high"][0] - found["low"][0]) == pytest.approx(2.0 * half, rel=0.25)
    assert float(found["exists"]) == 1.0


def test_an_interval_without_an_end_is_open():
    t = np.linspace(0.0, 2.0, 15)
    y = np.exp(-t / 50.0) + 0.05 * np.random.default_rng(1).standard_normal(15)
    model = fim_dynsys.load(
        "equations", expressions={"c": "-k*c"}, bounds={"k": (0, None)}, initial={"c": 1.0}
    )
    found = model.fit(y, t, feature_names=["c"], sigma=0.05).profile("k")
    low, high = found.intervals[0.95]
    assert low == 0.0 and 0.0 < high < 0.2 and found.is_open == (True, False)
    assert "open" in repr(found)


def test_a_product_alone_is_determined():
    t = np.linspace(0.0, 5.0, 30)
    y = 2.0 * np.exp(-0.6 * t) + 0.01 * np.random.default_rng(0).standard_normal(30)
    model = fim_dynsys.load("equations", expressions={"c": "-a*b*c"}, bounds={"a": (0, None), "b": (0, None)})
    with pytest.warns(DataWarning, match="do not determine a, b"):
        model.fit(y, t, feature_names=["c"])
    found = model.identifiability()
    assert (found.rank, found.count) == (2, 3)
    assert found.combinations == ("a^1 b^-1",)
    assert found.table.loc["c(0)", "verdict"] == "determined"
    assert model.profile("a").is_open == (True, True)


def test_what_is_found_survives_saving(line, tmp_path):
    model, _, _ = line
    again = fim_dynsys.load_fitted(model.save(tmp_path / "model"))
    np.testing.assert_allclose(
        again.profile("a").intervals[0.9], model.profile("a").intervals[0.9], rtol=1e-4
    )


def test_waterfall_and_profiles_are_drawn(line):
    model, _, _ = line
    drawn = plot.waterfall(model)
    assert len(drawn.artists["searches"][0].get_ydata()) == len(model.fit_.values)
    drawn.close()
    drawn = plot.profiles(model.profiles())
    assert drawn.ax.get_xlabel() == "a" and len(drawn.artists["ends"]) == 3
    drawn.close()
