"""Second-order equations from positions alone."""

import warnings

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fim_dynsys
from fim_dynsys import Knowledge, simulate
from fim_dynsys.errors import FitWarning
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.models.second_order import with_velocities
from fim_dynsys.regression.observed import observe
from fim_dynsys.trajectories.container import Trajectories

pytestmark = pytest.mark.filterwarnings("error::fim_dynsys.errors.FitWarning")
MODELS = {"fim-ode": {}, "sindy-strong": {}, "symbolic": {"effort": "quick"}, "auto": {"effort": "fast"}}
T = np.linspace(0.0, 12.0, 120)


def accelerations(x):
    return -x[:, :1] - 0.1 * x[:, 1:] - 0.5 * x[:, :1] ** 3


def duffing(noise, starts=((1.5, 0.0),)):
    field = CallableField(lambda x: np.concatenate([x[:, 1:], accelerations(x)], axis=1), 2)
    x = simulate(field, starts, T).x[..., :1]
    spread = noise * x.std(axis=1, keepdims=True)
    return list(x + spread * np.random.default_rng(0).normal(size=x.shape)), list(T[None].repeat(len(x), 0))


@pytest.mark.parametrize("name", MODELS)
def test_positions_alone_give_the_accelerations(name):
    model = fim_dynsys.load(name, **MODELS[name]).fit(*duffing(0.02), order=2, feature_names=["q"])
    assert model.feature_names == ["q", "q_dot"]
    points = np.random.default_rng(1).uniform(-1.0, 1.0, size=(30, 2))
    rates = model.field_(points)
    np.testing.assert_array_equal(rates[:, 0], points[:, 1])
    np.testing.assert_allclose(rates[:, 1:], accelerations(points), atol=0.12)
    np.testing.assert_allclose(model.field_.fit_info.initial_states, [[1.5, 0.0]], atol=0.06)
    for member in model.ensemble(2):
        np.testing.assert_allclose(member(points)[:, 0], points[:, 1], atol=1e-12)


def test_clean_positions_give_the_equation():
    model = fim_dynsys.load("sindy-strong").fit(*duffing(0.0), order=2)
    names = model.get_feature_names()
    found = dict(zip(names, model.coefficients()[1], strict=True))
    for term, value in (("x0", -1.0), ("x0_dot", -0.1), ("x0^3", -0.5)):
        assert found[term] == pytest.approx(value, abs=2e-3)
    assert np.count_nonzero(model.coefficients()) == 4


def test_what_is_known_of_the_accelerations_counts():
    fact = Knowledge(forbid={"q_dot": ["q_dot"]})  # wrong, and that shows
    model = fim_dynsys.load("sindy-strong", knowledge=fact)
    with pytest.warns(FitWarning, match="times the noise of the samples, all along: it lacks something"):
        model.fit(*duffing(0.02), order=2, feature_names=["q"])
    still, moving = model.field_([[0.5, 0.0], [0.5, 1.0]])
    assert still[1] == moving[1]
    with pytest.raises(ValueError, match="velocities"):
        fim_dynsys.load("sindy-strong", knowledge=Knowledge(known={"q": "2*q_dot"})).fit(
            *duffing(0.02), order=2, feature_names=["q"]
        )


def test_velocities_that_were_not_seen_carry_no_weight():
    """Other estimates of them change starts and regressions, not how a path is judged."""
    x, t = duffing(0.02, ((1.5, 0.0), (-0.5, 1.0)))
    full = with_velocities("test", Trajectories.from_arrays(x, t))
    search = observe(full.arrays())
    hidden = search.unseen(np.array([False, True]))
    path = np.random.default_rng(2).normal(size=hidden.z.shape)
    moved = path + np.array([0.0, 3.0])
    np.testing.assert_array_equal(hidden.residual_variance(path), hidden.residual_variance(moved))
    assert hidden.residual_variance(path)[0] == search.residual_variance(path)[0]
    assert hidden.residual_variance(path)[1] == hidden.noise_variance[1]
    np.testing.assert_array_equal(hidden.signal_variance[0], search.signal_variance[0])
    assert not hidden.residual_variance(np.full_like(path, np.nan))[0] < np.inf
    assert np.isinf(hidden.residual_variance(np.full_like(path, np.nan))[1])


def test_velocities_are_the_slopes_of_the_positions_in_any_units():
    x, t = duffing(0.0)
    one = with_velocities("test", Trajectories.from_arrays(x, t, units={"x0": "m", "t": "s"}))
    assert one.units["x0_dot"] == "m / s"
    np.testing.assert_allclose(one.x[0, 2:-2, 1], np.gradient(x[0][:, 0], T)[2:-2], atol=0.02)
    other = with_velocities("test", Trajectories.from_arrays([1e3 * x[0]], [1e-2 * t[0]]))
    np.testing.assert_allclose(other.x[0, :, 1], 1e5 * one.x[0, :, 1], rtol=1e-9)


def test_a_saved_model_draws_as_before(tmp_path):
    model = fim_dynsys.load("sindy-strong", refined=1).fit(*duffing(0.02), order=2)
    again = fim_dynsys.load_fitted(model.save(tmp_path / "model"))
    points = np.array([[0.2, 0.3]])
    np.testing.assert_array_equal(again.field_(points), model.field_(points))
    ours, theirs = (m.ensemble(1, seed=3) for m in (model, again))
    np.testing.assert_array_equal(ours[0](points), theirs[0](points))


def test_what_no_order_can_be_asked_of_is_an_error():
    x, t = duffing(0.0)
    with pytest.raises(ValueError, match="expected order 1"):
        fim_dynsys.load("sindy").fit(x, t, order=2)
    with pytest.raises(ValueError, match="a search with order=2"):
        fim_dynsys.load("fim-ode", refine=False).fit(x, t, order=2)
    with pytest.raises(ValueError, match="expected order 1 or 2"):
        fim_dynsys.load("sindy-strong").fit(x, t, order=3)
    with pytest.raises(ValueError, match="equation for each velocity"):
        fim_dynsys.load("symbolic", expressions=["x1", "-x0"]).fit(x, t, order=2)
    with pytest.raises(ValueError, match="at least five"):
        fim_dynsys.load("sindy-strong").fit([x[0], x[0][:3]], [T, T[:3]], order=2)


@pytest.mark.parametrize("name", MODELS)
def test_positions_are_what_forecasts_scores_and_simulations_take(name):
    x, t = duffing(0.01)
    model = fim_dynsys.load(name, **MODELS[name]).fit(x, t, order=2, feature_names=["q"])
    assert model.score(x, t, metric="path") == pytest.approx(model.field_.fit_info.path_r2, abs=1e-6)
    assert model.score(x, t, metric="path") > 0.99 and model.score(x, t) > 0.9
    ahead = model.forecast(Trajectories.from_arrays(x, t, state_names=["q"]), 2.0, n_draws=3)
    later = simulate(
        CallableField(lambda s: np.concatenate([s[:, 1:], accelerations(s)], 1), 2), [1.5, 0.0], [0, 14]
    )
    assert ahead["median"].values[0, -1, 0] == pytest.approx(later.x[0, -1, 0], abs=0.1)
    path = model.simulate(x[0][0], t[0])
    np.testing.assert_allclose(path[:, 0], x[0][:, 0], atol=0.1)
    with pytest.raises(ValueError, match="positions and velocities"):
        model.simulate([0.3], t[0])


def test_positions_under_an_input():
    def force(s):
        return 0.5 * np.sin(0.9 * s) + 0.3 * np.cos(0.4 * s)

    t = np.linspace(0.0, 40.0, 400)
    x = solve_ivp(
        lambda s, z: [z[1], -z[0] - 0.3 * z[1] + force(s)], (0, 40), [1.0, 0.0], t_eval=t, rtol=1e-9
    ).y.T[:, :1]
    x = x + 0.005 * x.std() * np.random.default_rng(0).standard_normal(x.shape)
    model = fim_dynsys.load("sindy-strong", degree=2).fit(x, t, u=force, order=2, feature_names=["q", "F"])
    points = np.array([[0.4, -0.3], [-0.2, 0.5]])
    np.testing.assert_allclose(
        model.field_(points, [[0.2], [-0.1]])[:, 1], [-0.4 + 0.09 + 0.2, 0.2 - 0.15 - 0.1], atol=0.03
    )
    assert model.score(x, t, u=force(t), metric="path") > 0.99


@pytest.mark.parametrize("equation", ["cos", "van der pol"])
def test_bands_of_forecasts_take_positions_alone_as_measured(equation):
    t, held = np.linspace(0.0, 40.0, 400), []
    x = np.cos(t)
    if equation != "cos":
        field = CallableField(
            lambda s: np.stack([s[:, 1], (1.0 - s[:, 0] ** 2) * s[:, 1] - s[:, 0]], axis=1), 2
        )
        x = simulate(field, [1.0, 0.0], t).x[0, :, 0]
    for seed in range(4):
        seen = x + 0.02 * x.std() * np.random.default_rng(seed).standard_normal(400)
        model = fim_dynsys.load("fim-ode").fit(seen[:280], t[:280], order=2, feature_names=["p"])
        record = Trajectories.from_arrays(seen[:280], t[:280], state_names=["p"])
        ahead = model.forecast(record, t[280:] - t[279], bands=[0.9], observed=True, progress=False)
        low, high = (ahead[end].sel(state="p").values.ravel() for end in ("low", "high"))
        held.append(np.mean((seen[280:] >= low) & (seen[280:] <= high)))
    assert np.mean(held) > 0.85 and min(held) > 0.6


def test_a_polynomial_in_the_place_of_a_sine_has_no_high_trust():
    t = np.linspace(0.0, 20.0, 200)
    pendulum = CallableField(lambda s: np.stack([s[:, 1], -np.sin(s[:, 0]) - 0.1 * s[:, 1]], axis=1), 2)
    angle = simulate(pendulum, [2.5, 0.0], t).x[0, :, 0]
    for seed in range(2):
        noisy = angle + 0.01 * angle.std() * np.random.default_rng(seed).standard_normal(200)
        model = fim_dynsys.load("fim-ode").fit(noisy, t, order=2)
        assert model.field_.fit_info.trust.value != "high"


@pytest.mark.parametrize(("drop", "gap", "end"), [(0.0, 0.2, 30.0), (-5.0, 0.2, 15.0), (-5.0, 0.1, 15.0)])
def test_falls_from_noise_free_heights_are_right_or_warned_of(drop, gap, end):
    """-9.81 + .02 v^2 came back as -16.2 +- .35 - .73 v, 5 m off the path, in silence; the last is right."""
    t = np.arange(0.0, end, gap)
    fall = solve_ivp(
        lambda _, s: [s[1], -9.81 + 0.02 * s[1] ** 2], (0, end), [1e3, drop], t_eval=t, rtol=1e-11, atol=1e-9
    )
    with warnings.catch_warnings(action="ignore", category=FitWarning):
        model = fim_dynsys.load("fim-ode").fit(fall.y[:1].T, t, order=2, feature_names=["h"])
    acceleration = model.predict(np.array([[500.0, -10.0]]))[0, 1]
    is_right = abs(acceleration - (-9.81 + 2.0)) < 0.05
    is_said = model.field_.fit_info.inference.beyond_noise is not None
    assert is_right != is_said
    assert is_right or gap == 0.2
