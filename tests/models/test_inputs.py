"""Models with inputs: laws found from driven records, predicted under inputs that they never saw."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fim_dynsys
from fim_dynsys.errors import DataWarning
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.forced import ForcedField
from fim_dynsys.trajectories.container import Trajectories

OURS = ("sindy-strong", "fim-ode", "symbolic", "auto")
FAST = {"symbolic": {"effort": "quick"}, "auto": {"effort": "fast"}}


def force(t):
    return np.sin(1.3 * t) + 0.5 * np.cos(0.4 * t)


def duffing(u):
    return lambda t, x: [x[1], x[0] - x[0] ** 3 - 0.3 * x[1] + u(t)]


def path(rates, x0, t):
    return solve_ivp(rates, (t[0], t[-1]), x0, t_eval=t, rtol=1e-9, atol=1e-9).y.T


T = np.linspace(3.0, 27.0, 241)
X = path(duffing(force), [0.5, 0.0], T)
NOISY = X + 0.02 * X.std(axis=0) * np.random.default_rng(0).normal(size=X.shape)


@pytest.mark.parametrize("name", OURS)
def test_the_law_of_a_driven_oscillator(name):
    """Noise of 2 %: the path under a new input, and the field beside the truth."""
    model = fim_dynsys.load(name, **FAST.get(name, {}))
    model.fit(NOISY, T, u=force(T), feature_names=["x", "v", "F"])
    assert isinstance(model.field_, DrivenField) and model.field_.input_names == ("F",)
    t = np.linspace(0.0, 10.0, 101)
    expected = path(duffing(lambda s: 0.8 * np.sin(0.9 * s)), [0.3, 0.1], t)
    found = model.simulate([0.3, 0.1], t, u=lambda s: 0.8 * np.sin(0.9 * s))
    assert np.abs(found - expected).max() < 0.1
    truth = np.array(duffing(force)(T, X.T)).T
    assert np.abs(model.predict(X, force(T)) - truth).max() < 0.1
    assert model.field_.fit_info.path_r2 > 0.99


def test_trajectories_of_many_kinds():
    """Two inputs, irregular times, lengths that differ, samples that are missing, another order of all."""
    inputs = [lambda t: np.stack([np.sin(1.1 * t), np.cos(0.7 * t)], axis=-1) for _ in range(2)]
    inputs[1] = lambda t: np.stack([np.cos(0.5 * t), 0.3 + 0.0 * t], axis=-1)

    def tank(u):
        return lambda t, x: [u(t)[0] - 0.8 * x[0], 0.8 * x[0] - 0.5 * x[1] + x[0] * u(t)[1]]

    rng = np.random.default_rng(1)
    t = [np.sort(rng.uniform(0.0, 12.0, 150)), np.sort(rng.uniform(0.0, 8.0, 90))]
    x = [path(tank(u), [1.0, 0.5], own) for u, own in zip(inputs, t, strict=True)]
    x[0][[20, 50]] = np.nan
    u = [values(own) for values, own in zip(inputs, t, strict=True)]
    data = Trajectories.from_arrays(x, t, ["a", "b"], u=u, input_names=["p", "q"])
    model = fim_dynsys.load("sindy-strong").fit(data)
    assert model.equations(2) == ["-0.8 a + p", "0.8 a - 0.5 b + a q"]
    other = fim_dynsys.load("sindy-strong").fit(data[[1, 0]].select_states(["b", "a"]))
    assert other.equations(2) == ["-0.5 b + 0.8 a + a q", "-0.8 a + p"]


def test_inputs_may_be_functions_of_time():
    given = fim_dynsys.load("sindy-strong").fit(NOISY, T, u=force(T))
    called = fim_dynsys.load("sindy-strong").fit(NOISY, T, u=force)
    np.testing.assert_array_equal(called.coefficients(), given.coefficients())


def test_inputs_that_hold_still_are_parameters():
    """Records at five constant inputs: the family over the input, between these and beyond the paths too."""
    levels = (0.0, 0.1, 0.3, 0.6, 0.9)
    t = np.linspace(0.0, 6.0, 61)
    x = [path(lambda s, z, u=u: [u - z[0] ** 2 - 0.5 * z[0]], [1.2], t) for u in levels]
    u = [np.full((61, 1), value) for value in levels]
    model = fim_dynsys.load("sindy-strong").fit(x, [t] * 5, u=u, feature_names=["x", "mu"])
    family = model.field_.family("mu")
    z = np.linspace(-0.5, 1.5, 9)[:, None]
    np.testing.assert_allclose(family(z, 0.25), 0.25 - z**2 - 0.5 * z, atol=0.02)


def test_an_input_of_two_levels_has_no_square():
    """Where u is 0 or 1, u^2 is u: one of them is in the dictionary, the lower one."""
    t = np.linspace(0.0, 10.0, 101)
    u = (np.sin(1.7 * t) > 0).astype(float)
    x = path(lambda s, z: [np.interp(s, t, u) - 0.7 * z[0]], [0.2], t)
    model = fim_dynsys.load("sindy-strong").fit(x, t, u=u, hold="linear")
    assert "u0^2" not in model.get_feature_names()
    held = model.field_.at_input([1.0])
    np.testing.assert_allclose(held([[0.4]]), 1.0 - 0.28, atol=0.05)


def test_members_are_driven_too():
    x, t = [NOISY[:120], NOISY[120:]], [T[:120], T[120:]]
    model = fim_dynsys.load("sindy-strong").fit(x, t, u=[force(own) for own in t])
    fields = [model.ensemble(2)[k] for k in range(2)]
    assert all(isinstance(field, DrivenField) for field in fields)
    expected = model.predict(X[:5], force(T)[:5])
    np.testing.assert_allclose(fields[0](X[:5], force(T)[:5, None]), expected, atol=0.2)


def test_what_is_refused_says_what_to_do():
    wide = np.random.default_rng(0).normal(size=(40, 3))
    model = fim_dynsys.load("fim-ode")
    most = model.max_dim
    with pytest.raises(ValueError, match=f"at most {most} states and inputs together, got 3 and {most}"):
        model.fit(wide, 0.1, u=np.random.default_rng(1).normal(size=(40, most)))
    with pytest.raises(ValueError, match="forcing or inputs u, got both"):
        fim_dynsys.load("sindy-strong").fit(X, T, u=force(T), forcing={"omega": 2.0})
    for wrong in ({"period": 1.0}, {"omega": -1.0}, {"omega": [1.0, 1.0]}):
        with pytest.raises(ValueError, match="omega"):
            fim_dynsys.load("sindy-strong").fit(X, T, forcing=wrong)


# ------------------------------------------------------------------ explicit time


def pushed(t, x):
    return [x[1], x[0] - x[0] ** 3 - 0.3 * x[1] + 0.3 * np.cos(1.2 * t)]


LATE = np.linspace(5.0, 65.0, 601)
PUSHED = path(pushed, [0.5, 0.0], LATE)


@pytest.mark.parametrize("given", [{"forcing": {"omega": 1.2}}, {"time": True}], ids=["given", "found"])
def test_forcing_of_a_frequency(given, tmp_path):
    """Clean: the frequency to 1e-3, paths without inputs, by both integrators, from a file too."""
    model = fim_dynsys.load("sindy-strong").fit(PUSHED, LATE, feature_names=["x", "v"], **given)
    assert isinstance(model.field_, ForcedField) and abs(model.field_.omegas[0] - 1.2) < 1e-3
    found = model.simulate(PUSHED[0], LATE)
    assert np.abs(found - PUSHED).max() < 0.05
    np.testing.assert_allclose(model.forecast(PUSHED[0], LATE).x[0], found, atol=1e-4)
    assert model.score(PUSHED, LATE) > 0.999
    model.save(tmp_path)
    again = fim_dynsys.load_fitted(tmp_path)
    assert again.field_.omegas == model.field_.omegas
    np.testing.assert_array_equal(again.coefficients(), model.coefficients())


def test_nothing_is_forced_where_nothing_is():
    x = path(lambda t, x: [x[1], -x[0] - 0.2 * x[1] * (x[0] ** 2 - 1.0)], [0.5, 0.0], LATE)
    with pytest.warns(DataWarning, match="no periodic forcing"):
        model = fim_dynsys.load("sindy-strong").fit(x, LATE, time=True)
    assert not isinstance(model.field_, DrivenField)


def test_a_forced_field_is_analysed_by_its_stroboscopic_map():
    """A linear oscillator: one point, where the exact response is, and exponents of the damping.

    Fits stop at 0.3 % of the signal.
    """
    gain = 1.0 / (2.0 - 1.5**2 + 0.4j * 1.5)  # of x'' = -2 x - 0.4 x' + cos(1.5 t)

    def exact(t):
        wave = gain * np.exp(1.5j * t)
        return np.stack([wave.real, (1.5j * wave).real], axis=-1)

    t = np.linspace(0.0, 30.0, 301)
    x = path(lambda s, z: [z[1], -2.0 * z[0] - 0.4 * z[1] + np.cos(1.5 * s)], [1.0, 0.0], t)
    model = fim_dynsys.load("sindy-strong", degree=1).fit(
        x, t, feature_names=["x", "v"], forcing={"omega": 1.5}
    )
    start = [*x[-1], *model.field_.inputs(t[-1])]
    section = fim_dynsys.analyze.poincare(model, start, ("sin(1.5 t)", 0.0), n=5, transient=80.0)
    np.testing.assert_allclose(section.points[-1, :2], exact(0.0), atol=5e-3)
    np.testing.assert_allclose(np.diff(section.times), 2.0 * np.pi / 1.5, rtol=1e-6)
    spectrum = fim_dynsys.analyze.lyapunov(model, start, budget=200_000)
    np.testing.assert_allclose(spectrum.exponents, [0.0, -0.2, -0.2, -3.0], atol=0.02)


def test_a_field_that_is_not_forced_is_no_forced_field():
    with pytest.raises(ValueError, match=r"inputs such as sin\(2 t\)"):
        model = fim_dynsys.load("sindy-strong").fit(NOISY, T, u=force(T))
        ForcedField(model.field_.extended, model.field_.input_names)


def pumped(rates, x0, on, n=60, every=0.25):
    """A record under a pump that gives ``on`` (n,) from each sample to the next."""
    t, x = every * np.arange(n), [np.array(x0)]
    for u in on[:-1]:
        x.append(path(lambda _, state, u=u: rates(state, u), x[-1], np.array([0.0, every]))[-1])
    return np.array(x), t


PUMP = np.full(60, 0.3)
for _begins in (2, 17, 33, 48):
    PUMP[_begins : _begins + 3] = 1.0
PUMPED = {
    "tanks": (
        lambda x, u: [
            u - 0.8 * np.sqrt(x[0]),
            0.8 * np.sqrt(x[0]) - 0.9 * np.sqrt(x[1]),
        ],
        [1.0, 0.8],
        "x1^0.5",
    ),
    "chemostat": (
        lambda x, u: [
            x[0] * (1.2 * x[1] / (0.5 + x[1]) - u),
            u * (2.0 - x[1]) - 1.2 * x[1] / (0.5 + x[1]) * x[0],
        ],
        [0.5, 1.0],
        "1.2 x0 x1 / (0.5 + x1)",
    ),
}


@pytest.mark.parametrize("name", PUMPED)
def test_functions_are_found_under_pulses(name):
    """Each pulse bends the states, so that smoothing misses them: there is no noise, and it is seen."""
    rates, x0, term = PUMPED[name]
    pumps = PUMP, np.roll(PUMP, 5)
    (x, t), (z, s) = pumped(rates, x0, pumps[0]), pumped(rates, x0[::-1], pumps[1])
    model = fim_dynsys.load("auto", progress=False).fit([x, z], [t, s], u=list(pumps))
    assert model.field_.fit_info.noise_level.max() < 0.01
    assert term in model.equations(precision=2)[1]
    expected = np.array([rates(*pair) for pair in zip(x, PUMP, strict=True)])
    assert np.abs(model.predict(x, PUMP) - expected).max() < 2e-3 * expected.std()


@pytest.mark.filterwarnings("ignore::fim_dynsys.errors.DataWarning")  # of switches between samples
def test_a_report_read_from_a_folder_says_what_the_fit_noted_of_inputs(tmp_path):
    t = np.linspace(0, 12, 60)

    def switched(s):
        return (np.asarray(s) % 4 < 2).astype(float)

    x = solve_ivp(lambda s, x: -0.7 * x + 1.3 * switched(s), (0, 12), [0.2], t_eval=t, max_step=0.02).y.T
    x = x + 0.01 * np.random.default_rng(0).standard_normal(x.shape)
    model = fim_dynsys.load("sindy-strong").fit(x, t, u=switched(t), feature_names=["x", "u"])
    assert "u keeps its value between samples" in model.field_.fit_info.report["note"]
    again = fim_dynsys.load_fitted(model.save(tmp_path / "model"))
    assert again.field_.fit_info.report == model.field_.fit_info.report
