"""What fits say of numbers without an error, and what is refused."""

import warnings

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import SymbolicField
from fim_dynsys.errors import DataWarning, FitWarning
from fim_dynsys.estimation.profiles import profile

T = np.linspace(0.0, 5.0, 30)
Y = np.exp(-0.5 * T) + 0.02 * np.random.default_rng(0).standard_normal(30)


def load(expressions=None, **options):
    return fim_dynsys.load("equations", expressions=expressions or {"x": "-k*x"}, n_starts=2, **options)


@pytest.fixture(scope="module")
def decay():
    return load().fit(Y, T, feature_names=["x"])


def test_as_many_numbers_as_samples_of_unknown_errors_have_no_error(tmp_path):
    with pytest.warns(DataWarning, match=r"as many numbers are estimated \(2\) as were measured \(2\)"):
        model = load().fit([1.0, 0.55], [0.0, 1.0], feature_names=["x"])
    assert all(np.isnan(error) for error in model.parameter_errors_.values())
    assert set(model.identifiability().table["verdict"]) == {"error unknown"}
    assert model.profile("k").is_open == (True, True)
    with pytest.warns(FitWarning, match="ensemble: nothing tells the size of the errors"):
        model.ensemble(2)
    again = fim_dynsys.load_fitted(model.save(tmp_path / "model"))
    assert np.isnan(again.parameter_errors_["k"])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*as many numbers")
        given = load().fit([1.0, 0.55], [0.0, 1.0], feature_names=["x"], sigma=0.01)
        load(priors={"k": ("normal", 0.6, 0.1)}).fit([1.0, 0.55], [0.0, 1.0], feature_names=["x"])
    # x(1) / x(0) = exp(-k), each with an error of .01
    assert given.parameter_errors_["k"] == pytest.approx(0.01 * np.hypot(1.0, 1.0 / 0.55), rel=0.01)


def test_a_number_at_its_bound_has_a_verdict_and_no_error():
    with pytest.warns(DataWarning, match=r"at their bounds: k = 0.48"):
        model = load(bounds={"k": (0, 0.48)}).fit(Y, T, feature_names=["x"])
    table = model.identifiability().table
    assert np.isnan(model.parameter_errors_["k"]) and np.isnan(table.loc["k", "error"])
    assert table.loc["k", "verdict"] == "at its bound"
    assert table.loc["x(0)", "verdict"] == "determined" and model.parameter_errors_["x(0)"] > 0.0
    low, high = model.profile("k").intervals[0.95]
    assert 0.4 < low < 0.48 and high == 0.48


@pytest.mark.parametrize("levels", [[95], [], [0.5, 0.0], "a", None, [np.nan]])
def test_levels_are_shares(decay, levels):
    with pytest.raises(ValueError, match="profile: expected levels between 0 and 1"):
        profile(decay.fit_, "k", levels)


def test_one_level_may_be_a_number(decay):
    assert profile(decay.fit_, "k", 0.9).intervals.keys() == {0.9}


@pytest.mark.parametrize(("what", "said"), [("start", 1.0), ("priors", ("normal", 1.0, 1.0))])
def test_what_is_said_of_fixed_numbers_is_refused(what, said):
    with pytest.raises(ValueError, match=rf"expected {what} of parameters that are .* of k, which fixed"):
        load(fixed={"k": 0.5}, **{what: {"k": said}}).fit(Y, T, feature_names=["x"])


def test_without_estimated_numbers_nothing_is_identifiable():
    model = load(fixed={"k": 0.5}, initial={"x": 1.0}).fit(Y, T, feature_names=["x"])
    with pytest.raises(ValueError, match="identifiability: expected a fit with estimated numbers"):
        model.identifiability()


def test_y_in_the_scale_of_errors_is_what_is_expected_of_the_column():
    y = np.exp(-0.5 * T) * (1.0 + 0.1 * np.random.default_rng(0).standard_normal(30))
    found = [
        load(noise=("normal", f"0.001 + b*{name}")).fit(y, T, feature_names=["x"]).parameters_
        for name in "xy"
    ]
    assert found[0] == pytest.approx(found[1]) and found[0].keys() == {"b", "k", "x(0)"}
    # where the equations have a y of their own, that is meant
    own = load({"x": "-y*x"}, noise=("normal", "0.1*y"), fixed={"y": 0.5}).fit(y, T, feature_names=["x"])
    even = load({"x": "-k*x"}, noise=("normal", 0.05), fixed={"k": 0.5}).fit(y, T, feature_names=["x"])
    assert own.parameters_["x(0)"] == pytest.approx(even.parameters_["x(0)"])


def test_noise_free_samples_with_absolute_errors_converge():
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        model = load(noise="laplace").fit(np.exp(-0.5 * T), T, feature_names=["x"])
    assert model.parameters_["k"] == pytest.approx(0.5, rel=1e-6)


@pytest.mark.parametrize("levels", [[95], [], 1.5])
def test_levels_of_intervals_are_shares(decay, levels):
    with pytest.raises(ValueError, match="interval: expected levels"):
        decay.interval(lambda field: field.parameters["k"], levels, n=4)


def test_one_level_is_one_number(decay):
    assert decay.interval(lambda field: field.parameters["k"], 0.9, n=4).sizes["level"] == 1


def test_a_parameter_that_looks_like_a_place_is_asked_about():
    x = np.exp(-0.3 * np.linspace(0.0, 5.0, 11))
    for said in (
        lambda: load({"s": "-V*s/(x0 + s)"}).fit(x, 0.5, feature_names=["s"]),
        lambda: SymbolicField({"s": "-s/(x0 + s)"}),
    ):
        with pytest.warns(DataWarning, match="took x0 as s, by place beside names"):
            said()
    assert SymbolicField(["-0.3*x0"], state_names=["s"]).equations() == ["-0.3 s"]


def records_with_noise(levels, seed):
    rng, t = np.random.default_rng(seed), np.linspace(0.0, 12.0, 16)
    logistic = [10.0 / (1.0 + (10.0 / x0 - 1.0) * np.exp(-0.6 * t)) for x0 in (0.5, 1.0, 15.0)]
    return [x + s * rng.standard_normal(16) for x, s in zip(logistic, levels, strict=True)], [t] * 3


def test_experiments_with_other_noise_are_said():
    model, said = load({"x": "r*x*(1-x/K)"}), "the noise differs between experiments: x "
    for seed in range(3):
        with pytest.warns(DataWarning, match=said):
            model.fit(*records_with_noise((0.02, 0.3, 1.0), seed), feature_names=["x"])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(*records_with_noise((0.3, 0.3, 0.3), seed), feature_names=["x"])
            sigma = [np.full((16, 1), s) for s in (0.02, 0.3, 1.0)]
            model.fit(*records_with_noise((0.02, 0.3, 1.0), seed), feature_names=["x"], sigma=sigma)
        assert not [w for w in caught if said in str(w.message)]


def test_errors_of_logarithms_need_positive_values():
    doses = {"g": "-ka*g", "c": "ka*g - ke*c"}
    model = load(doses, initial={"g": 100.0, "c": 0.0}, noise="lognormal")
    with pytest.raises(ValueError, match=r"and give c positive at each sample, got none.*give t0="):
        model.fit(10.0 * np.exp(-T) + 1.0, T + 0.5, observed=["c"])
