"""States over decades: samples weigh by relative errors, and equations stay those of the states."""

import warnings

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys.models.relative import over_decades, relative_errors
from fim_dynsys.regression.criteria import in_proportion, precise
from fim_dynsys.trajectories.container import Trajectories

NAMES = ["A", "R"]
T = np.linspace(0.0, 40.0, 160)


@pytest.fixture(scope="module")
def record():
    """Lotka and Volterra's populations over four decades, 5 % errors of each value."""
    field = fim_dynsys.SymbolicField({"A": "A - A*R", "R": "A*R - R"})
    x = fim_dynsys.simulate(field, [0.05, 0.02], T, rtol=1e-10).x[0]
    assert x.max() / x.min() > 1e3
    return x, x * np.exp(0.05 * np.random.default_rng(1).standard_normal(x.shape))


@pytest.mark.parametrize("name", ["fim-ode", "sindy-strong", "auto", "symbolic"])
def test_the_law_of_relative_errors(name, record):
    x, y = record
    options = {"effort": "quick"} if name == "symbolic" else {}
    model = fim_dynsys.load(name, **options).fit(y, T, feature_names=NAMES, log=NAMES)
    assert model.equations(precision=1) == ["A - A R", "-R + A R"]
    path = model.simulate(x[0], T)
    assert np.sqrt(np.mean(np.log(path / x) ** 2)) < 0.04
    assert "relative errors, estimated: A 6" in model.field_.fit_info.inference.notes[-1]


def test_large_values_with_large_errors_count(record):
    _, y = record
    model = fim_dynsys.load("fim-ode").fit(y, T, feature_names=NAMES, sigma=0.05 * y)
    assert model.equations(precision=1) == ["A - A R", "-R + A R"]


def test_everything_else_works_with_logarithms(record, tmp_path):
    x, y = record
    y = y.copy()
    y[5, 0] = np.nan
    model = fim_dynsys.load("sindy-strong").fit(y, T, feature_names=NAMES, log=["A"])
    assert np.isfinite(model.predict(x)).all() and len(model.ensemble(3)) == 3
    ahead = model.forecast(model.context_, 5.0, bands=(0.9,), n_draws=5)
    assert np.isfinite(ahead["median"]).all()
    again = fim_dynsys.load_fitted(model.save(tmp_path / "kept"))
    assert again.equations() == model.equations()
    assert again.field_.fit_info.inference.notes == model.field_.fit_info.inference.notes


def test_known_equations_fit_logarithms(record, tmp_path):
    _, y = record
    given = fim_dynsys.load("equations", expressions={"A": "a*A-b*A*R", "R": "c*A*R-d*R"}, n_starts=4)
    model = given.fit(y, T, feature_names=NAMES, log=NAMES)
    assert list(model.parameters_.values())[:4] == pytest.approx([1.0] * 4, rel=0.02)
    again = fim_dynsys.load_fitted(model.save(tmp_path / "kept"))
    kept = again.profile("a").intervals
    for level, ends in model.profile("a").intervals.items():
        assert kept[level] == pytest.approx(ends, rel=1e-4)
    with pytest.raises(ValueError, match="either log or noise of A, got both"):
        fim_dynsys.load("equations", expressions={"A": "-k*A"}, noise="relative").fit(
            y[:, :1], T, feature_names=["A"], log=["A"]
        )
    with pytest.raises(ValueError, match="log without sigma"):
        given.fit(y, T, feature_names=NAMES, log=NAMES, sigma=0.1)


def test_errors_are_estimated(record):
    _, y = record
    errors, levels = relative_errors("fit", ["A"], Trajectories.from_arrays(y, T, state_names=NAMES))
    assert levels["A"] == pytest.approx(0.05, rel=0.25)
    assert errors[0][:, 0] == pytest.approx(
        np.hypot(y[:, 0], 1e-3 * np.sqrt(np.mean(y[:, 0] ** 2))) * levels["A"]
    )
    assert np.ptp(errors[0][:, 1]) == 0.0


def test_which_errors_are_small():
    x = np.array([[1.0], [2.0], [3.0], [1000.0], [300.0]])
    (kept,) = precise([np.array([[0.1], [0.1], [0.1], [50.0], [290.0]])], [x])
    assert kept.ravel().tolist() == [True, True, True, True, False]
    values = np.geomspace(1.0, 100.0, 20)
    assert in_proportion(0.1 * values, values) and not in_proportion(np.ones(20), values)
    assert not in_proportion(0.1 * (values + 100.0), values + 100.0)


@pytest.mark.parametrize(
    ("log", "options", "match"),
    [
        (["C"], {}, "expected log as a list of different states among A, R, got C"),
        (["A", "A"], {}, "expected log as a list of different states"),
        ([], {}, "expected log as a list of different states"),
        ("A", {}, "expected log as a list of different states among A, R, got 'A'"),
        (["A"], {"sigma": 0.1}, "expected log without sigma, got both"),
        (["A"], {"order": 2}, "expected log without order=2"),
    ],
)
def test_what_is_no_logarithm_is_an_error(record, log, options, match):
    with pytest.raises(ValueError, match=match):
        fim_dynsys.load("fim-ode").fit(record[1], T, feature_names=NAMES, log=log, **options)


def test_samples_without_logarithms_are_an_error(record):
    y = record[1].copy()
    y[3, 1] = 0.0
    with pytest.raises(
        ValueError, match="expected positive samples of R, whose logarithms are fitted, got 0"
    ):
        fim_dynsys.load("fim-ode").fit(y, T, feature_names=NAMES, log=NAMES)
    with pytest.raises(ValueError, match="expected 9 samples of A in a trajectory"):
        fim_dynsys.load("fim-ode").fit(record[1][:8], T[:8], feature_names=NAMES, log=NAMES)
    with pytest.raises(ValueError, match="expected no log"):
        fim_dynsys.load("sindy").fit(record[1], T, feature_names=NAMES, log=NAMES)


@pytest.mark.parametrize("relative", [True, False])
def test_logarithms_are_advised_where_errors_are_relative_over_decades(relative):
    t, rng = np.linspace(0, 20, 40), np.random.default_rng(0)
    path = 1e4 * np.exp(-0.4 * t)
    noisy = (
        path * np.exp(0.05 * rng.standard_normal(40))
        if relative
        else path + 100 * np.abs(rng.normal(size=40))
    )
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        fim_dynsys.load("fim-ode").fit(noisy, t, feature_names=["c"])
        fim_dynsys.load("fim-ode").fit(noisy, t, feature_names=["c"], log=["c"])
    advised = [one for one in heard if "log=['c'] counts small values" in str(one.message)]
    assert len(advised) == relative


def test_logarithms_are_not_advised_where_noise_free_values_turn_fast():
    decay = 2.0 * np.exp(-np.linspace(0.0, 6.0, 9))
    assert over_decades(Trajectories.from_arrays(decay, np.linspace(0.0, 6.0, 9))) == []
    t = np.linspace(0.0, 40.0, 100)
    field = fim_dynsys.SymbolicField({"x": "x - 0.8*x*y", "y": "0.5*x*y - 0.6*y"})
    assert over_decades(fim_dynsys.simulate(field, [3.0, 0.2], t, rtol=1e-9)) == []
