"""Inputs that jump: taken as they are in fits, scores and simulations."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import fim_dynsys
from fim_dynsys.errors import DataWarning, SimulationWarning
from fim_dynsys.models.inputs import as_trajectories
from fim_dynsys.models.switching import early_switches
from fim_dynsys.models.unseen_switches import stretches
from fim_dynsys.regression.inputs import at, curves
from fim_dynsys.regression.rollout import runge_kutta
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.holding import Hold


def tank_under(levels, gap, start=0.0):
    """h' = 0.5 u - 0.2 h at the ends of intervals in which u is held."""
    h = [start]
    for level in levels[:-1]:
        rest = 2.5 * level
        h.append(rest + (h[-1] - rest) * np.exp(-0.2 * gap))
    return np.array(h)[:, None]


T = 0.5 * np.arange(160)
PUMP = (T % 20.0 < 8.0).astype(float)
H = tank_under(PUMP, 0.5)


@pytest.mark.parametrize("name", ["fim-ode", "sindy-strong", "auto"])
def test_a_pump_that_is_switched_leaves_the_two_terms(name):
    rng = np.random.default_rng(0)
    noisy = H + 0.01 * H.std() * rng.standard_normal(H.shape)
    model = fim_dynsys.load(name).fit(noisy, T, u=PUMP, feature_names=["h", "F"])
    assert model.complexity == 2
    assert "F keeps its value between samples" in model.field_.fit_info.inference.notes
    other = np.repeat(rng.uniform(0.0, 1.0, 40), 4)
    path = tank_under(other, 0.5, 1.0)
    assert model.score(path, T, u=other, metric="path") > 0.999
    np.testing.assert_allclose(model.simulate(path[0], T, u=other), path, atol=0.05)


def test_levels_at_random_times_leave_a_linear_room():
    """Terms of the third degree followed smoothed kinks better than any linear ones that were not fitted."""
    rng, gap = np.random.default_rng(0), 0.3
    u = np.repeat(rng.integers(0, 2, 40), 10).astype(float)
    a = np.array([[-0.4, 0.3, 0.5, 0.0], [0.3, -0.3, 0.0, 0.8], [0, 0, 0, 0], [0, 0, 0, 0]])
    step, x = expm(a * gap), [np.array([10.0, 10.0])]
    for level in u[:-1]:
        x.append((step @ [*x[-1], 1.0, level])[:2])
    model = fim_dynsys.load("sindy-strong").fit(
        np.array(x), gap * np.arange(400), u=u, feature_names=["a", "b", "F"]
    )
    assert model.complexity == 6
    np.testing.assert_allclose(model.predict([[7.0, 9.0]], u=[[0.5]]), [[0.4, -0.2]], atol=1e-3)


def test_levels_drawn_at_every_sample_are_said_to_be_ambiguous_and_taken_as_told():
    levels = np.random.default_rng(2).uniform(0.0, 1.0, 160)
    h = tank_under(levels, 0.5)
    with pytest.warns(DataWarning, match="u0 may jump between samples"):
        fim_dynsys.load("sindy-strong").fit(h, T, u=levels)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        model = fim_dynsys.load("symbolic", expressions=["a*u0-b*x0"]).fit(h, T, u=levels, hold="previous")
    assert model.field_.parameters == pytest.approx({"a": 0.5, "b": 0.2}, rel=1e-5)
    assert model.field_.fit_info.path_r2 == pytest.approx(
        model.score(h, T, u=levels, metric="path"), abs=1e-9
    )


def test_a_smooth_input_that_leaps_somewhere_is_followed_in_pieces_or_said_to_be_ambiguous():
    t = np.arange(0.0, 40.0, 0.08)
    rng, wave = np.random.default_rng(0), np.sin(0.7 * t)
    leaps = wave + np.sign(np.sin(0.3 * t))
    plain = curves(t, leaps[:, None])
    assert plain.hold == (Hold.PIECES,) and plain.sure[0]
    at_the_end = (wave + (np.arange(len(t)) >= len(t) - 2))[:, None]  # too few samples behind it
    assert not curves(t, at_the_end).sure[0]
    assert curves(t, at_the_end, Hold.SMOOTH).sure[0]  # as the user says
    turns = np.flatnonzero(np.diff(np.sign(np.sin(0.3 * t)))) + 1
    before, after = (
        np.insert(t, turns, np.pi * np.arange(1, len(turns) + 1) / 0.3 + e) for e in (-1e-3, 1e-3)
    )
    twice = np.unique(np.concatenate([before, after]))
    assert curves(twice, (np.sin(0.7 * twice) + np.sign(np.sin(0.3 * twice)))[:, None]).sure[0]
    noisy, pulse = wave + 0.05 * rng.standard_normal(len(t)), np.exp(-4.0 * (t - 20.0) ** 2)
    for u in (wave, noisy, pulse, np.sin(0.05 * t**2)):
        assert curves(t, u[:, None]).sure[0]


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_an_input_that_switches_between_samples_is_noticed(noise):
    t = 0.25 * np.arange(400)
    rng = np.random.default_rng(0)
    for late, said in ((0.0, None), (0.1, 0.4)):  # the latter is 0.1 of 0.25 before a sample

        def on(s, late=late):
            return np.where((s + late) % 15.0 < 5.0, 1.0, 0.0)

        x = solve_ivp(
            lambda s, h: 2.0 * on(s) - 0.3 * h, (0, t[-1]), [0.0], t_eval=t, rtol=1e-9, max_step=0.02
        )
        h = x.y.T + noise * x.y.std() * rng.standard_normal((400, 1))
        found = early_switches([(t, h)], [on(t)[:, None]], Hold.AUTO)
        assert found is None if said is None else found == pytest.approx(said, abs=0.1)
    h[::41] = np.nan
    assert early_switches([(t, h)], [on(t)[:, None]], Hold.AUTO) == pytest.approx(0.4, abs=0.15)
    with pytest.warns(DataWarning, match="switches between samples"):
        fim_dynsys.load("equations", expressions=["-k*x0 + a*u0"], n_starts=2).fit(h, t, u=on(t))


def test_noise_does_not_look_like_early_switches():
    """Few switches, at samples: by chance their bends and the noise beside them agree."""
    records, n, gap = 40, 300, 40.0 / 299
    rng = np.random.default_rng(0)
    on = rng.integers(0, 2, (records, 12)).repeat(25, axis=1).astype(float)
    x = np.empty((records, n, 2))
    x[:, 0] = 1.0, 0.7

    def rates(z, u):
        prey, predator = z.T
        rise = [prey - 0.8 * prey * predator, (0.5 * prey - 0.6 - 0.3 * u) * predator]
        return np.stack(rise, axis=1)

    for i in range(n - 1):
        x[:, i + 1] = runge_kutta(lambda z, i=i: rates(z, on[:, i]), x[:, i], gap)
    t = gap * np.arange(n)
    x += 0.03 * x.std(axis=1, keepdims=True) * rng.standard_normal(x.shape)
    found = [early_switches([(t, h)], [u[:, None]], Hold.PREVIOUS) for h, u in zip(x, on, strict=True)]
    assert sum(early is not None for early in found) <= 1


def switched(late, noise):
    """h' = 0.5 u - 0.2 h, k' = 0.2 h - 0.1 k; u switches at random times, by `late` of a gap off samples."""
    rng, t = np.random.default_rng(3), 0.5 * np.arange(240)
    whole = np.cumsum(rng.integers(6, 18, 40))
    times = 0.5 * (whole - late * rng.uniform(0.0, 1.0, 40))
    times = times[times < t[-1]]
    x, state, begin = np.empty((240, 2)), np.ones(2), 0.0
    for k, end in enumerate([*times, t[-1]]):
        rows = np.flatnonzero((t >= begin) & (t < end)) if end < t[-1] else np.flatnonzero(t >= begin)
        found = solve_ivp(
            lambda s, y, u=k % 2: [0.5 * u - 0.2 * y[0], 0.2 * y[0] - 0.1 * y[1]],
            (begin, end),
            state,
            dense_output=True,
            rtol=1e-9,
        )
        x[rows], state, begin = found.sol(t[rows]).T, found.y[:, -1], end
    u = (np.searchsorted(times, t, side="right") % 2).astype(float)
    return t, x + noise * x.std(axis=0) * rng.standard_normal(x.shape), u


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("name", ["fim-ode", "sindy-strong"])
def test_gaps_in_which_inputs_switch_are_left_out(name, noise):
    t, x, u = switched(1.0, noise)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        model = fim_dynsys.load(name).fit(x, t, u=u)
    gaps = int((np.diff(u) != 0).sum())
    note = f"inputs switch between samples: {gaps} such gaps are left out"
    assert note in model.field_.fit_info.inference.notes and len(model.context_) == gaps + 1
    assert model.complexity <= (5 if noise else 4)
    rates = model.predict([[2.0, 1.0], [1.0, 3.0]], u=[[1.0], [0.0]])
    np.testing.assert_allclose(rates, [[0.1, 0.3], [-0.2, -0.1]], atol=0.02)


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_inputs_that_switch_at_samples_leave_nothing_out(noise):
    t, x, u = switched(0.0, noise)
    model = fim_dynsys.load("sindy-strong").fit(x, t, u=u)
    assert len(model.context_) == 1 and model.complexity == 4


@pytest.mark.parametrize("early", [0.0, 0.2])
def test_noise_does_not_hide_that_a_relay_switches_off_between_samples(early):
    """T' = 1.5 P - T / 4, 6 % noise; terms T P made up for it on the whole record."""
    gap, n, rate = 0.25, 288, 0.25
    on = (np.arange(n) % 12 < 5).astype(float)
    x = [3.0]
    for now, then in pairwise(on):
        part = 1.0 - early * (now > then)  # of the gap that the relay keeps its value
        middle = 12.0 * now + (x[-1] - 12.0 * now) * np.exp(-rate * gap * part)
        x.append(12.0 * then + (middle - 12.0 * then) * np.exp(-rate * gap * (1.0 - part)))
    noisy = np.array(x) + 0.06 * np.std(x) * np.random.default_rng(0).standard_normal(n)
    model = fim_dynsys.load("fim-ode").fit(noisy, gap * np.arange(n), u=2.0 * on, feature_names=["T", "P"])
    assert ("left out" in " ".join(model.field_.fit_info.inference.notes)) == (early > 0.0)
    np.testing.assert_allclose(model.predict([[4.0], [8.0]], u=[[0.0], [1.0]]), [[-1.0], [-0.5]], atol=0.1)


def test_stretches_keep_labels_and_most_samples():
    t, x, u = switched(1.0, 0.0)
    data = Trajectories.from_arrays([x, x], t, u=[u, u], coords={"tank": ["a", "b"]})
    parts = stretches(data)
    assert set(parts.coords["tank"]) == {"a", "b"} and parts.hold is Hold.PREVIOUS
    assert parts.n_obs.sum() == data.n_obs.sum()
    assert all(np.ptp(values) == 0.0 for values in parts.input_arrays())
    often = Trajectories.from_arrays(x, t, u=(np.arange(240) // 2 % 2).astype(float))
    assert stretches(often) is None


def test_a_hold_stays_with_the_trajectories_and_with_a_saved_model(tmp_path):
    data = Trajectories.from_arrays(H, T, u=PUMP).with_hold("linear")
    parts = (
        data[[0]],
        data.drop_incomplete("test"),
        data.select_samples([np.arange(50)]),
        data.with_x([H * 2]),
    )
    assert {part.hold.value for part in parts} == {"linear"}
    model = fim_dynsys.load("sindy-strong").fit(H, T, u=PUMP, hold="previous")
    again = fim_dynsys.load_fitted(model.save(tmp_path))
    assert again.context_.hold.value == "previous"
    assert again.field_.fit_info.summary() == model.field_.fit_info.summary()


def test_a_function_of_time_says_itself_what_it_does():
    expressions = {"expressions": ["a*u0-b*x0"]}
    for u, kind in (
        (lambda t: float(t % 20.0 < 8.0), "previous"),
        (lambda t: np.sin(0.3 * t) ** 2, "smooth"),
    ):
        exact = solve_ivp(
            lambda t, h, u=u: 0.5 * u(t) - 0.2 * h, (0, T[-1]), [0.0], t_eval=T, max_step=0.05, rtol=1e-9
        ).y.T
        model = fim_dynsys.load("symbolic", **expressions).fit(exact, T, u=u)
        assert model.context_.hold.value == kind
        assert model.field_.parameters == pytest.approx({"a": 0.5, "b": 0.2}, rel=2e-3)
    with pytest.warns(DataWarning, match="jump or turn between the samples"):
        as_trajectories(exact, T, u=lambda t: float((t + 0.2) % 3.0 < 0.3), switches=False)


DECAY = 0.8


def bolus(t):
    return 2.0 * np.exp(-DECAY * (np.asarray(t, dtype=float) % 10.0))


def under_boluses(t):
    """x' = -0.5 x + 2 exp(-0.8 (t mod 10)) from 0.3, exactly; jumps are at samples, and behind them."""
    x, start, gain = np.empty(len(t)), 0.3, 2.0 / (0.5 - DECAY)
    for begin in np.arange(0.0, t[-1] + 1.0, 10.0):
        rows = (t >= begin) & (t <= begin + 10.0)
        rest = lambda s, z=start: (z - gain) * np.exp(-0.5 * s) + gain * np.exp(-DECAY * s)  # noqa: E731
        x[rows], start = rest(t[rows] - begin), rest(10.0)
    return x[:, None]


@pytest.mark.parametrize("sigma", [0.0, 0.02])
@pytest.mark.parametrize("function", [False, True])
def test_boluses_are_followed_from_jump_to_jump(sigma, function):
    t = np.arange(300) / 5.0
    x = under_boluses(t) + sigma * np.random.default_rng(0).standard_normal((300, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        model = fim_dynsys.load("sindy-strong").fit(x, t, u=(lambda s: bolus(s)) if function else bolus(t))
    assert model.complexity == 2 and model.context_.hold.value == ("pieces" if function else "auto")
    rates = model.predict([[1.0], [0.0]], u=[[0.0], [1.0]])
    np.testing.assert_allclose(rates, [[-0.5], [1.0]], atol=0.01)
    path = model.simulate(x[0], t, u=bolus(t))
    assert np.abs(path - under_boluses(t)).max() < 0.02 * np.ptp(x) + 2.0 * sigma


def test_jumps_of_a_function_that_varies_get_rows_between_samples():
    def saw(s):
        return np.array([(s + 0.07) % 10.0 / 10.0, np.sin(s)])

    t = 0.2 * np.arange(200)
    data = as_trajectories(np.zeros((200, 1)), t, u=saw)
    alone = np.isnan(data.arrays()[0][1]).all(axis=1)
    np.testing.assert_allclose(
        data.arrays()[0][0][alone][1::2], [9.93, 19.93, 29.93, 39.93][: alone.sum() // 2]
    )
    np.testing.assert_allclose(
        data.input_arrays()[0][alone][:, 0], [1.0, 0.0] * (alone.sum() // 2), atol=1e-5
    )
    times, u = data.arrays()[0][0], data.input_arrays()[0]
    middle = 0.5 * (times[1:] + times[:-1])
    found = at(curves(times, u, data.hold).cubics, 0.5)
    np.testing.assert_allclose(found, [saw(s) for s in middle], atol=1e-3)


@pytest.mark.parametrize("function", [False, True])
def test_pieces_of_a_switch_are_constant(function):
    """A fit to both inputs as functions of time, or as pieces; then a path under samples of others."""

    def inputs(s, period=3.0):
        return np.array([np.sin(0.3 * s), (s + 1e-9) % period < 1.0]).T.astype(float)

    def path(period):
        x, part = [0.0], np.linspace(0.0, 0.25, 21)
        for begin in t[:-1]:
            drive = inputs(begin + part[:-1] + 0.5 * np.diff(part), period).sum(axis=1)
            for value in drive:
                x.append(value + (x[-1] - value) * np.exp(-0.0125))
        return np.array(x[::20])

    t = 0.25 * np.arange(120)
    u = inputs if function else inputs(t)
    model = fim_dynsys.load("sindy-strong").fit(path(3.0), t, u=u, hold="auto" if function else "pieces")
    assert model.complexity == 3
    assert "u1 keeps its value between samples" in model.field_.fit_info.inference.notes
    assert not any("u0 jumps" in note for note in model.field_.fit_info.inference.notes)
    found = model.simulate([0.0], t, u=inputs(t, 5.0))[:, 0]
    np.testing.assert_allclose(found, path(5.0), atol=0.01)  # ramps miss by 0.12


def test_a_function_that_is_integrated_itself_needs_no_samples_of_it():
    def u(t):
        return float((t + 0.2) % 3.0 < 0.3)

    t = 0.5 * np.arange(60)
    x = solve_ivp(lambda s, h: u(s) - 0.5 * h, (0, t[-1]), [0.3], t_eval=t, max_step=0.02).y.T
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        fim_dynsys.load("equations", expressions=["a*u0-b*x0"], n_starts=1).fit(x, t, u=u)


def test_a_short_pulse_is_not_missed_between_requested_times():
    model = fim_dynsys.load("symbolic", expressions=["a*u0-b*x0"]).fit(H, T, u=PUMP)
    path = model.simulate([0.0], [0.0, 100.0], u=lambda t: 10.0 * float(40.0 <= t < 41.0))
    whole = 25.0 * (1.0 - np.exp(-0.2)) * np.exp(-0.2 * 59.0)
    assert path[1, 0] == pytest.approx(whole, rel=1e-3)


def test_a_pole_in_an_input_ends_the_path():
    t = np.arange(24.0)
    u = np.clip(np.sin(0.5 * t), 0.0, None) * 2.0
    model = fim_dynsys.load("symbolic", expressions=["-a*x + b/(1-u)**2"], start={"a": 0.1, "b": 1e-4})
    x = np.exp(-0.1 * t)[:, None] + 1e-3 * np.random.default_rng(0).standard_normal((24, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model.fit(x, t, u=u, feature_names=["x", "u"])
    for given in (u, lambda s: max(np.sin(0.5 * s), 0.0) * 2.0):
        with pytest.warns(SimulationWarning, match="the path ends at 1 of 23"):
            path = model.simulate(x[0], t, u=given)
        assert np.isfinite(path[0]).all() and np.isnan(path[-1]).all()


@pytest.mark.filterwarnings("ignore")
def test_a_function_with_a_pole_is_refused_at_a_sample_and_left_out_between():
    t = np.linspace(0.0, 4.0, 41)
    x = np.exp(-0.2 * t)[:, None]
    with pytest.raises(ValueError, match="input"):
        fim_dynsys.load("sindy").fit(x, t, u=lambda s: np.inf if s == 1.0 else s)
    model = fim_dynsys.load("sindy").fit(x, t, u=lambda s: np.nan if abs(s - 0.05) < 1e-9 else s)
    assert np.isfinite(model.coefficients()).all()


@pytest.mark.parametrize("options", [{}, {"rtol": 1e-8}, {"method": "RK45", "max_step": 0.05}])
def test_simulated_inputs_are_held_as_in_the_fit_whatever_the_accuracy(options):
    t = np.round(np.arange(0.0, 12.0, 0.1), 3)
    u = 2.0 * ((t + 1e-6) % 3.0 < 1.2)
    level = [0.0]
    for pump in u[:-1]:
        level.append(2.0 * pump + (level[-1] - 2.0 * pump) * np.exp(-0.05))
    model = fim_dynsys.load("sindy-strong").fit(np.array(level), t, u=u)
    path = model.simulate([0.0], t, u=u, integrator_kws=options)
    assert abs(path[:, 0] - level).max() < 2e-3
    back = model.simulate([level[-1]], t[::-1], u=u[::-1])
    assert abs(back[::-1, 0] - level).max() < 5e-2  # errors grow by e^6 on the way back


def test_smoothed_velocities_do_not_look_like_early_switches():
    t, times = 0.15 * np.arange(401), 0.15 * np.arange(20, 401, 20)
    u = (-1.0) ** np.searchsorted(times, t, side="right")
    step = expm(0.15 * np.array([[0.0, 1.0, 0.0], [-1.0, -0.3, 0.5], [0.0, 0.0, 0.0]]))
    x = [np.array([0.5, 0.0])]
    for level in u[:-1]:
        x.append((step @ [*x[-1], level])[:2])
    noisy = np.array(x)[:, :1] + 0.005 * np.random.default_rng(0).standard_normal((401, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        model = fim_dynsys.load("fim-ode").fit(noisy, t, u=u, order=2)
    assert model.complexity == 4


def test_rounding_does_not_look_like_a_switch():
    """Samples whose errors are those of the integrator that made them, most of all where inputs jump."""
    t = 0.5 * np.arange(240)
    u = (t % 13.0 < 5.0).astype(float)
    rest = 0.2 + 5.0 * u
    x = [0.2]
    for level in rest[:-1]:
        x.append(level + (x[-1] - level) * np.exp(-0.05))
    x = np.array(x) * (1.0 + 1e-7 * np.concatenate([[0.0], np.diff(u)]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        model = fim_dynsys.load("equations", expressions={"T": "q*u0-k*(T-Ta)"}, n_starts=3)
        model.fit(x, t, u=u, feature_names=["T"])
    found = [model.parameters_[name] for name in ("q", "k", "Ta")]
    assert found == pytest.approx([0.5, 0.1, 0.2], rel=1e-3)


def test_a_column_that_jumps_with_the_input_does_not_look_like_an_early_switch(recwarn):
    """A battery: the voltage falls by R0 I at once, the state U follows."""
    t = np.arange(0.0, 600.0, 5.0)
    current = np.where(t % 200 < 60, 2.0, 0.0)
    u = [0.0]
    for held in current[:-1]:
        u.append(0.06 * held / 2 + (u[-1] - 0.03 * held) * np.exp(-5.0 / 60.0))
    voltage = 3.7 - 0.05 * current - np.array(u) + 0.0005 * np.random.default_rng(0).standard_normal(len(t))
    model = fim_dynsys.load(
        "equations", expressions={"U": "I/C - U/(R*C)"}, initial={"U": 0}, hold="previous"
    )
    model.fit(voltage, t, u=current, observed=["E - R0*I - U"], feature_names=["U", "I"])
    assert model.parameters_["R0"] == pytest.approx(0.05, rel=0.02)
    assert not [w for w in recwarn if "switches between samples" in str(w.message)]
