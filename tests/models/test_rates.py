"""Measured rates are used by every search, by the errors that they turn out to have."""

import warnings

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import Trajectories
from fim_dynsys.errors import DataWarning, FitWarning, IgnoredInputWarning
from fim_dynsys.fields.frame import Trust

PREY = fim_dynsys.SymbolicField(["1.1*x - 0.4*x*y", "0.1*x*y - 0.4*y"], {}, state_names=["x", "y"])
TRUE = np.array([1.1, -0.4, -0.4, 0.1])


@pytest.fixture(scope="module")
def record():
    t = np.linspace(0.0, 20.0, 41)
    x = fim_dynsys.simulate(PREY, [10.0, 5.0], t, rtol=1e-10).x[0]
    return t, x, PREY(x)


def noisy(values: np.ndarray, level: float, seed: int) -> np.ndarray:
    return values + level * values.std(axis=0) * np.random.default_rng(seed).standard_normal(values.shape)


@pytest.mark.parametrize("name", ["fim-ode", "sindy-strong", "symbolic"])
def test_rates_make_coefficients_better(name, record):
    t, x, v = record
    errors = {True: [], False: []}
    for seed in range(3):
        y, rates = noisy(x, 0.1, seed), noisy(v, 0.02, 100 + seed)
        for given in (True, False):
            model = fim_dynsys.load(name).fit(y, t, x_dot=rates if given else None)
            at = model.field_(x)
            errors[given].append(float(np.abs(at - v).max() / np.abs(v).max()))
    assert np.mean(errors[True]) < 0.7 * np.mean(errors[False])
    assert np.mean(errors[True]) < 0.05


def test_standard_errors_hold_with_rates(record):
    t, x, v = record
    pulls = []
    for seed in range(8):
        model = fim_dynsys.load("sindy-strong").fit(noisy(x, 0.05, seed), t, x_dot=noisy(v, 0.05, 50 + seed))
        found, errors = model.coefficients(), model.field_.standard_errors.T
        if np.count_nonzero(found) == 4:
            pulls.append((found[found != 0.0] - TRUE) / errors[found != 0.0])
    assert len(pulls) >= 6
    assert 0.5 < np.sqrt(np.mean(np.square(pulls))) < 1.7  # 24 to 32 normal deviates have .75 to 1.25


def test_rates_that_say_nothing_change_nothing(record):
    t, x, v = record
    rng = np.random.default_rng(3)
    y = noisy(x, 0.01, 0)
    plain = fim_dynsys.load("sindy-strong").fit(y, t).coefficients()
    noise = 30.0 * v.std(axis=0) * rng.standard_normal(v.shape)
    with_noise = fim_dynsys.load("sindy-strong").fit(y, t, x_dot=v + noise).coefficients()
    np.testing.assert_allclose(with_noise, plain, rtol=0.02)


def test_rates_at_single_states_are_enough():
    x = np.random.default_rng(0).uniform(0.5, 10.0, (60, 2))
    v = noisy(PREY(x), 0.01, 1)
    states = Trajectories.from_arrays([own[None] for own in x], [np.zeros(1)] * 60)
    field = fim_dynsys.load("fim-ode").fit(states, x_dot=[own[None] for own in v]).field_
    assert np.count_nonzero(field.coefficients) == 4
    pulls = field.coefficients - fim_dynsys.load("sindy-strong").fit(*_of(PREY)).field_.coefficients
    assert np.abs(pulls).max() < 0.03


def _of(field):
    t = np.linspace(0.0, 20.0, 200)
    return fim_dynsys.simulate(field, [10.0, 5.0], t, rtol=1e-10).x[0], t


def test_missing_rates_are_left_out(record):
    t, x, v = record
    rates = np.where(np.arange(len(t))[:, None] % 2, v, np.nan)
    model = fim_dynsys.load("sindy-strong").fit(noisy(x, 0.05, 0), t, x_dot=rates)
    assert any("measured rates counted" in said for said in model.field_.fit_info.inference.notes)


def test_with_knowledge_rates_have_no_effect_and_that_is_said(record):
    t, x, v = record
    model = fim_dynsys.load("sindy-strong", knowledge=fim_dynsys.Knowledge(nonnegative=["x0"]))
    with pytest.warns(IgnoredInputWarning, match="x_dot has no effect"):
        model.fit(x, t, x_dot=v)


@pytest.mark.parametrize("kind", ["fim-ode", "sindy-strong"])
def test_rates_of_chaos_decide_where_no_path_does(kind):
    """Lorenz's system, a sample in each turn with its rates, 3 % noise: paths alone gave the field 0."""
    field = fim_dynsys.SymbolicField(
        ["10*(y - x)", "x*(28 - z) - y", "x*y - 8*z/3"], {}, state_names=["x", "y", "z"]
    )
    t = np.linspace(0.0, 15.0, 31)
    states = fim_dynsys.simulate(field, [-8.0, 7.0, 27.0], t, rtol=1e-9).x[0]
    rng, rates = np.random.default_rng(0), field(states)
    noisy, measured = (v + 0.03 * v.std(axis=0) * rng.normal(size=v.shape) for v in (states, rates))
    model = fim_dynsys.load(kind).fit(noisy, t, x_dot=measured)
    assert "measured rates alone" in " ".join(model.field_.fit_info.inference.notes)
    assert model.field_.fit_info.trust is Trust.LIMITED  # the rates confirm it
    assert np.abs(model.predict(states) - rates).max() < 0.06 * np.abs(rates).max()


@pytest.mark.parametrize("kind", ["fim-ode", "sindy-strong", "auto"])
@pytest.mark.parametrize("noise", [0.0, 0.001])
def test_exact_rates_decide_however_few_the_samples(kind, noise):
    """Six samples a turn show no noise level, and a wrong one counted as the errors of the rates.

    The Van der Pol oscillator came as the field 0, and one start of its fit ended in an error.
    """
    field = fim_dynsys.SymbolicField(["y", "2*(1 - x**2)*y - x"], {}, state_names=["x", "y"])
    t = np.linspace(0.0, 40.0, 30)
    states = fim_dynsys.simulate(field, [0.5, 0.0], t, rtol=1e-10).x[0]
    rng, rates = np.random.default_rng(0), field(states)
    noisy, measured = (v + noise * v.std(axis=0) * rng.normal(size=v.shape) for v in (states, rates))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        model = fim_dynsys.load(kind).fit(noisy, t, x_dot=measured)
    assert np.abs(model.predict(states) - rates).max() < 0.005 * np.abs(rates).max()
    assert model.field_.fit_info.trust is not Trust.LOW


def test_rates_correct_terms_that_follow_the_samples():
    """FitzHugh and Nagumo's spikes, few samples with rates: other terms followed the samples to R2 .96."""
    field = fim_dynsys.SymbolicField(
        ["x - x**3/3 - y + 0.5", "0.08*(x + 0.7 - 0.8*y)"], {}, state_names=["x", "y"]
    )
    t = np.linspace(0.0, 100.0, 31)
    states = fim_dynsys.simulate(field, [-1.0, 1.0], t, rtol=1e-9).x[0]
    rng, rates = np.random.default_rng(0), field(states)
    noisy, measured = (v + 0.03 * v.std(axis=0) * rng.normal(size=v.shape) for v in (states, rates))
    model = fim_dynsys.load("fim-ode").fit(noisy, t, x_dot=measured)
    assert np.abs(model.predict(states) - rates).max() < 0.15 * np.abs(rates).max()


@pytest.mark.filterwarnings("ignore")
def test_rates_in_units_in_which_squares_overflow_do_not_end_in_an_error_of_lapack():
    t = np.linspace(0.0, 27.0, 28)
    x = 7e-68 * np.exp(-0.4 * t)[:, None]
    model = fim_dynsys.load("sindy-strong").fit(x, 5e91 * t, x_dot=5e91 * t[:, None])
    assert np.isfinite(model.coefficients()).all()


@pytest.mark.filterwarnings("ignore::fim_dynsys.errors.FitWarning")
@pytest.mark.parametrize("noise", [0.001, 0.03])  # with which neighbours differ by less than their noise
@pytest.mark.parametrize("unit", [60.0, 1.0 / 60.0, -1.0])
def test_rates_in_another_unit_of_time_are_said(unit, noise):
    t = np.linspace(0.0, 6.0, 121)
    x = 2.0 * np.exp(-0.5 * t) + noise * np.random.default_rng(0).normal(size=len(t))
    with pytest.warns(DataWarning, match="x0 changes .* times as fast as x_dot says; give x_dot per unit"):
        model = fim_dynsys.load("sindy-strong").fit(x, t, x_dot=-0.5 * unit * x)
    assert model.field_.fit_info.trust is Trust.LOW


def test_rates_of_coarse_samples_are_not_compared():
    t = np.linspace(0.0, 60.0, 21)
    x = np.column_stack([np.cos(t), -np.sin(t)])
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        fim_dynsys.load("sindy-strong").fit(x, t, x_dot=np.column_stack([-np.sin(t), -np.cos(t)]))


@pytest.mark.parametrize("model", ["sindy-strong", "sindy"])
def test_a_state_without_any_rate_is_named(model):
    t = np.linspace(0.0, 6.0, 61)
    x = np.column_stack([np.cos(t), -np.sin(t)])
    slopes = np.column_stack([-np.sin(t), np.full(61, np.nan)])
    with pytest.raises(ValueError, match="got none of x1"):
        fim_dynsys.load(model).fit(x, t, x_dot=slopes)


def test_exact_rates_at_noisy_states_add_no_terms():
    """What the states' errors leave of exact rates is no error of the equations: 17 terms came for 4."""
    field = fim_dynsys.SymbolicField({"x": "1.1*x - 0.4*x*y", "y": "0.1*x*y - 0.4*y"})
    t, rng = np.linspace(0.0, 20.0, 80), np.random.default_rng(2)
    path = fim_dynsys.simulate(field, [10.0, 5.0], t, rtol=1e-9).x[0]
    seen = path + 0.05 * path.std(axis=0) * rng.standard_normal(path.shape)
    model = fim_dynsys.load("fim-ode").fit(seen, t, x_dot=field(path))
    assert np.count_nonzero(model.coefficients()) == 4
