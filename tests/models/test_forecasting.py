"""Forecasts with bands: they start where the record ends, widen, and hold what happens."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import curve_fit

import fim_dynsys
from fim_dynsys import CallableField, EnsembleField, Region, Trajectories
from fim_dynsys.errors import SimulationWarning
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.inference import Judge
from fim_dynsys.models.forecast_levels import FORECAST_LEVELS, NOMINAL, Levels
from fim_dynsys.models.forecasting import forecast_bands

NOISE = 0.03


@pytest.fixture(scope="module")
def record():
    t = np.linspace(0.0, 16.0, 160)
    truth = np.exp(-0.05 * t)[:, None] * np.stack([np.cos(t), -np.sin(t)], axis=-1)
    x = truth + NOISE * np.random.default_rng(0).standard_normal(truth.shape)
    return t, truth, Trajectories.from_arrays(x[:110], t[:110], state_names=["a", "b"])


@pytest.fixture(scope="module")
def model(record):
    return fim_dynsys.load("fim-ode").fit(record[2])


def test_bands_are_laid_out_and_nested(model, record):
    t, truth, seen = record
    found = model.forecast(seen, t[110:] - t[109])
    assert found.low.dims == ("band", "trajectory", "ahead", "state")
    assert found.state.values.tolist() == ["a", "b"]
    np.testing.assert_allclose(found.t[0], t[110:])
    assert (found.low[1] <= found.low[0]).all() and (found.high[0] <= found.high[1]).all()
    assert np.abs(found["median"][0] - truth[110:]).max() < 0.15
    assert (found.alive > 0.999).all()


def test_bands_of_a_known_field_hold_the_future_as_often_as_they_say():
    """Only the state at the end is in doubt: 200 records of a rotation, whose misses are independent."""
    info = FitInfo(noise_level=np.array([NOISE, NOISE]))
    field = CallableField(lambda x: x[:, ::-1] * [1, -1], 2, region=Region([-1, -1], [1, 1]), fit_info=info)
    rng, t = np.random.default_rng(0), np.linspace(0.0, 3.0, 31)
    phase = rng.uniform(0, 2 * np.pi, (200, 1)) - t
    truth = np.stack([np.cos(phase), np.sin(phase)], axis=-1)
    seen = Trajectories.from_arrays(list(truth[:, :21] + NOISE * rng.standard_normal((200, 21, 2))), t[:21])
    members = EnsembleField([field] * 4)
    found = forecast_bands("test", field, members, seen, [1.0], (0.5, 0.9), False, 0)
    held = (found.low.values <= truth[:, -1:]) & (truth[:, -1:] <= found.high.values)
    assert held[0].mean() == pytest.approx(0.5, abs=0.08) and held[1].mean() == pytest.approx(0.9, abs=0.05)


def test_bands_are_taken_at_calibrated_levels(record):
    """Members x' = c: paths spread evenly; of two states the band of half the truth holds a fifth of them."""
    info = FitInfo(noise_level=np.array([1e-9, 1e-9]))
    box = Region([-1, -1], [1, 1])
    members = EnsembleField(
        [CallableField(lambda x, c=c: np.full_like(x, c), 2, region=box, fit_info=info) for c in OFFSETS]
    )
    seen = Trajectories.from_arrays(np.zeros((2, 2)), [0.0, 1.0])
    levels = Levels((0.5, 0.9), ((0.5, 0.9), (0.2, 0.6)))

    def widths(levels, observed=False):
        found = forecast_bands(
            "test", members[0], members, seen, [1.0], (0.5, 0.7, 0.9), observed, 0, levels=levels
        )
        np.testing.assert_allclose(found["median"], 0.0, atol=1e-3)
        assert (found.alive > 0.999).all()
        return (found.high - found.low).values[:, 0, 0, 0]

    np.testing.assert_allclose(widths(None), [1.0, 1.4, 1.8], rtol=0.03)
    np.testing.assert_allclose(widths(levels), [0.4, 0.8, 1.2], rtol=0.05)
    np.testing.assert_allclose(widths(levels, observed=True), [0.4, 0.8, 1.2], rtol=0.05)
    np.testing.assert_allclose(widths(Levels((0.5, 0.9), ((0.5, 2.97),))), [1.0, 3.465, 5.94], rtol=0.05)


OFFSETS = np.linspace(-1.0, 1.0, 101)


def test_what_will_be_measured_is_less_certain(model, record):
    seen = record[2]
    state, measured = (model.forecast(seen, 1.0, (0.9,), observed=o) for o in (False, True))
    width = [float((found.high - found.low).mean()) for found in (state, measured)]
    assert width[1] > np.hypot(width[0], 2 * NOISE) * 0.9
    assert state.sizes["ahead"] == 100 and state.ahead[-1] == 1.0


def test_equal_seeds_give_equal_bands(model, record):
    a, b, c = (model.forecast(record[2], 1.0, n_draws=3, seed=seed) for seed in (1, 1, 2))
    assert a.equals(b) and not a.equals(c)


def test_rolling_forecasts_know_what_was_seen_until_then(model, record):
    t, seen = record[0], record[2]
    found = model.forecast(seen, [0.5, 1.0], (0.9,), n_draws=3, origins=[5.0, 8.0])
    assert found.low.dims == ("origin", "band", "trajectory", "ahead", "state")
    assert found.origin.values.tolist() == [5.0, 8.0]
    until = seen.select_samples([np.flatnonzero(t[:110] <= 8.0)])
    assert found.sel(origin=8.0, drop=True).equals(model.forecast(until, [0.5, 1.0], (0.9,), n_draws=3))
    for origins in (-1.0, [np.nan], []):
        with pytest.raises(ValueError, match="origins"):
            model.forecast(seen, 1.0, n_draws=2, origins=origins)


def test_other_records_and_very_short_ones(model):
    short = Trajectories.from_arrays(
        [np.array([[1.0, 0.0]]), np.array([[0.0, 0.5], [0.04, 0.5]])], [[0.0], [2.0, 2.1]]
    )
    found = model.forecast(short, [0.5], n_draws=4)
    assert found.sizes["trajectory"] == 2 and np.isfinite(found["median"]).all()
    np.testing.assert_allclose(found["median"][0, 0], [np.cos(0.5), -np.sin(0.5)], atol=0.1)


def test_states_go_on_as_before(model):
    assert isinstance(model.forecast([1.0, 0.0], [0.0, 1.0]), Trajectories)


@pytest.mark.parametrize(
    ("horizon", "bands", "message"),
    [
        (-1.0, (0.5,), "beyond the last sample"),
        ([2.0, 1.0], (0.5,), "increasing times"),
        (1.0, (90,), "between 0 and 1"),
        (1.0, (), "between 0 and 1"),
    ],
)
def test_what_does_not_fit_is_refused(model, record, horizon, bands, message):
    with pytest.raises(ValueError, match=message):
        model.forecast(record[2], horizon, bands, n_draws=2)
    with pytest.raises(ValueError, match="of 2 states, got 1"):
        model.forecast(Trajectories.from_arrays(np.zeros((4, 1)), np.arange(4.0)), 1.0, n_draws=2)


@pytest.mark.parametrize("name", ["fim-ode", "auto"])
def test_levels_are_those_of_what_chose_the_field(name):
    t = np.linspace(0.0, 6.0, 120)
    clean = np.stack([np.cos(t), -np.sin(t)], axis=1)
    noisy = clean + NOISE * np.random.default_rng(0).standard_normal(clean.shape)
    known = FORECAST_LEVELS[name]
    for x, judge in ((clean, Judge.EXACT), (noisy, Judge.EXTENDED_BIC if name == "fim-ode" else Judge.BIC)):
        model = fim_dynsys.load(name).fit(x, t)
        assert model._forecast_levels(model.field_) is known[judge]
        told = model.forecast(Trajectories.from_arrays(x, t), [2.0], (0.5, 0.9, 0.99))
        width = (told.high - told.low).values[:, 0, 0]
        assert (np.diff(width, axis=0) > 0.0).all()
    for levels in known.values():
        assert levels.nominal == NOMINAL and len(levels.paths) == 3
        assert (np.diff(levels.paths, axis=1) > 0.0).all()


def spikes(t):
    """Predators and prey that are rare most of the time."""
    return solve_ivp(
        lambda _, z: [z[0] * (1 - z[1]), z[1] * (z[0] - 1)],
        (0.0, t[-1]),
        [0.05, 0.02],
        t_eval=t,
        rtol=1e-10,
        atol=1e-14,
    ).y.T


@pytest.mark.parametrize(("options", "noise", "width"), [({}, 0.0, 0.01), ({"sigma": 0.05}, 0.05, 0.5)])
def test_small_states_are_as_sure_as_their_own_errors(options, noise, width):
    t = np.linspace(0.0, 26.0, 196)
    truth = spikes(t)
    seen, x = t[:151], truth[:151] * np.exp(noise * np.random.default_rng(1).normal(size=(151, 2)))
    sigma = {name: share * x for name, share in options.items()}
    model = fim_dynsys.load("fim-ode").fit(x, seen, **sigma)
    ahead = model.forecast(model.context_, [6.0], [0.9], progress=False).isel(trajectory=0, ahead=0, band=0)
    assert (abs(ahead["median"] - truth[-1]) < width * truth[-1]).all()
    assert (ahead["high"] - ahead["low"] < width * truth[-1]).all()
    measured = model.forecast(model.context_, [6.0], [0.9], observed=True, progress=False)
    measured = measured.isel(trajectory=0, ahead=0, band=0)
    assert (measured["high"] - measured["low"] < 2.0 * width * truth[-1]).all()


def test_origins_lie_within_the_records():
    t = np.linspace(0.0, 4.0, 41)
    model = fim_dynsys.load("sindy-strong").fit(np.exp(-0.5 * t), t)
    with pytest.raises(ValueError, match=r"expected origins up to the last sample .*\(4\), got 100"):
        model.forecast(model.context_, 1.0, origins=[2.0, 100.0])


def test_bands_of_given_equations_are_as_wide_as_the_delta_method_says():
    def logistic(t, r, capacity, n0):
        return capacity / (1 + (capacity / n0 - 1) * np.exp(-r * t))

    t, ahead, truth = np.linspace(0, 12, 60), np.array([1.0, 4.0]), (0.8, 10.0, 0.5)
    ratios = []
    for seed in range(4):
        noisy = logistic(t, *truth) + 0.3 * np.random.default_rng(seed).standard_normal(len(t))
        model = fim_dynsys.load("equations", expressions={"N": "r*N*(1 - N/K)"})
        band = model.fit(noisy, t, feature_names=["N"]).forecast(model.context_, ahead, bands=(0.9,))
        best, covariance = curve_fit(logistic, t, noisy, truth)
        steps = 1e-5 * np.diag(best)
        slopes = [
            (logistic(12 + ahead, *(best + h)) - logistic(12 + ahead, *(best - h))) / (2 * h.sum())
            for h in steps
        ]
        deviation = np.sqrt(np.einsum("ij,ik,kj->j", slopes, covariance, slopes))
        ratios.append((band["high"] - band["low"]).values.ravel() / (2 * 1.645 * deviation))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.12)


def test_paths_that_end_before_the_forecast_are_said():
    t = np.linspace(0.0, 0.9, 60)
    model = fim_dynsys.load("equations", expressions={"x": "k*x**2"}, start={"k": 1.0})
    model.fit(1 / (1 - t), t, feature_names=["x"])
    with pytest.warns(SimulationWarning, match="0 % of the paths reach the last time"):
        found = model.forecast(model.context_, [0.05, 1.0])
    assert np.isfinite(found["median"].values[0, 0]).all() and np.isnan(found["median"].values[0, 1]).all()


def test_records_under_constant_inputs_go_on_under_these():
    """h' = u - h from h(0) = 0, by inputs that a model found and by coordinates in given equations."""
    t, noise = np.linspace(0.0, 2.0, 41), 0.01 * np.random.default_rng(0).standard_normal((2, 41))
    levels = np.array([0.5, 2.0])
    x = levels[:, None] * (1.0 - np.exp(-t)) + noise
    model = fim_dynsys.load("fim-ode").fit(list(x), [t, t], u=[np.full(41, u) for u in levels])
    records = Trajectories.from_arrays(list(x), [t, t], ["h"], coords={"flow": levels})
    known = fim_dynsys.load("equations", expressions={"h": "k*(flow - h)"}).fit(records)
    for found in (model.forecast(model.context_, [2.0]), known.forecast(records, [2.0])):
        np.testing.assert_allclose(found["median"].values.ravel(), levels * (1.0 - np.exp(-4.0)), rtol=0.02)
        assert (found["high"] - found["low"]).sel(band=0.9).max() < 0.1
    changing = fim_dynsys.load("sindy-strong").fit(np.sin(t), t, u=np.cos(t))
    with pytest.raises(ValueError, match=r"inputs that are constant along each trajectory.*got u0"):
        changing.forecast(changing.context_, 1.0)


@pytest.mark.parametrize("unit", [1.0, 1000.0])
@pytest.mark.parametrize("noise", ["lognormal", "relative"])
def test_bands_of_measurements_have_the_declared_errors(noise, unit):
    """Errors of 5 % of what is expected, in any unit."""
    t = np.linspace(0.0, 4.0, 81)
    x = 5.0 * unit * np.exp(-0.3 * t) * np.exp(0.05 * np.random.default_rng(3).standard_normal(81))
    model = fim_dynsys.load("equations", expressions={"c": "-k*c"}, noise=noise).fit(
        x, t, feature_names=["c"]
    )
    ahead = model.forecast(model.context_, [0.01, 4.0], observed=True, bands=(0.9,))
    width = (ahead["high"] - ahead["low"]).values.ravel() / ahead["median"].values.ravel()
    np.testing.assert_allclose(width, 2 * 1.645 * 0.05, rtol=0.4)
    assert (ahead["low"] > 0.0).all()


def test_bands_of_laplace_errors_are_as_wide_as_their_quantiles():
    """2 b ln 10 between the 5 and 95 % quantiles; normal errors with b for a deviation are 3.29 b apart."""
    t = np.linspace(0.0, 10.0, 201)
    x = 40.0 * np.exp(-0.1 * t) + np.random.default_rng(0).laplace(0.0, 1.5, 201)
    model = fim_dynsys.load("equations", expressions={"c": "-k*c"}, noise="laplace")
    model.fit(x, t, feature_names=["c"])
    scale = np.mean(np.abs(x - model.fitted_columns().x[0, :, 0]))
    ahead = model.forecast(model.context_, [0.01, 2.0], observed=True, bands=(0.9,))
    width = (ahead["high"] - ahead["low"]).values.ravel()
    np.testing.assert_allclose(width, 2.0 * scale * np.log(10.0), rtol=0.2)


def test_bands_of_counts_are_as_wide_as_poisson_says():
    t = np.linspace(0.0, 5.0, 81)
    counts = np.random.default_rng(11).poisson(200.0 * np.exp(-0.7 * t))
    model = fim_dynsys.load("equations", expressions={"c": "-k*c"}, noise="poisson")
    model.fit(counts, t, feature_names=["c"])
    ahead = model.forecast(model.context_, [0.01, 3.0], observed=True, bands=(0.9,))
    assert ahead["low"].min() >= 0.0
    assert float(ahead["high"].isel(ahead=0).max()) == pytest.approx(6.0 + 1.645 * np.sqrt(6.0), abs=1.5)
    assert float(ahead["high"].isel(ahead=1).max()) < 4.0


def test_forecasts_are_of_states_and_need_their_inputs():
    t = np.linspace(0.5, 8.0, 16)
    data = Trajectories.from_arrays(10 * np.exp(-0.2 * t), t, state_names=["c"])
    model = fim_dynsys.load("equations", expressions={"A": "-CL/V*A"}, initial={"A": 100}, t0=0.0)
    model.fit(data, observed=["A/V"])
    with pytest.raises(ValueError, match="expected records of the states A, got those of c"):
        model.forecast(data, [2.0])
    switching = fim_dynsys.load("equations", expressions={"c": "-k*c if t < 4 else -g*c"}).fit(data)
    with pytest.raises(ValueError, match=r"expected records with all inputs.*got none of time"):
        switching.forecast(data, [2.0])
