"""Known equations: what is known of their numbers, doses, inputs, stiffness, noise, and what is warned of."""

import warnings

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares, minimize

import fim_dynsys
from fim_dynsys import Knowledge
from fim_dynsys.errors import DataWarning, FitWarning, SimulationWarning

pytestmark = pytest.mark.filterwarnings("error::fim_dynsys.errors.FitWarning")
ORAL = {"g": "-ka*g", "c": "ka*g/V - ke*c"}
HOURS = np.array([0.25, 0.57, 1.12, 2.02, 3.82, 5.1, 7.03, 9.05, 12.12, 24.37])


def oral(t, ka=1.5, ke=0.08, volume=0.5, dose=4.0):
    t = np.maximum(t, 0.0)
    return dose * ka / volume / (ka - ke) * (np.exp(-ke * t) - np.exp(-ka * t))


def orbit(f, x0, t, **options):
    return solve_ivp(
        f, (t[0], t[-1]), x0, t_eval=t, **({"method": "DOP853", "rtol": 1e-11, "atol": 1e-13} | options)
    ).y.T


def load(expressions, **options):
    return fim_dynsys.load("equations", expressions=expressions, **({"n_starts": 4} | options))


def test_a_dose_before_the_first_sample_agrees_with_least_squares_on_the_closed_form():
    y = oral(HOURS) * np.exp(0.05 * np.random.default_rng(0).standard_normal(len(HOURS)))
    model = load(ORAL, initial={"g": "dose", "c": 0}, fixed={"dose": 4.0}, t0=0.0)
    model.fit(y, HOURS, observed=["c"])
    best = least_squares(lambda p: oral(HOURS, *p) - y, [1.5, 0.08, 0.5], xtol=1e-12, ftol=1e-12).x
    found = [model.field_.parameters[name] for name in ("ka", "ke", "V")]
    np.testing.assert_allclose(found, best, rtol=1e-4)
    assert model.field_.parameters.keys() == {"ka", "ke", "V"}
    left = oral(HOURS, *best) - y
    np.testing.assert_allclose(model.fit_.descent.evaluation.scales, np.sqrt(np.mean(left**2)), rtol=1e-4)


def test_repeated_doses_and_resets_are_exact():
    t = np.linspace(0.5, 30.0, 40)
    clean = sum(oral(t - s, dose=a) for s, a in ((0.0, 4.0), (8.0, 2.0)))
    late = t > 20.0
    clean[late] = 1.0 * np.exp(-0.08 * (t[late] - 20.0))  # all is washed out, and a known amount given
    model = load(
        ORAL,
        initial={"g": 0, "c": 0},
        t0=0.0,
        doses=[(0.0, "g", 4.0), (8.0, "g", "2*F")],
        events={20.0: {"g": 0.0, "c": 1.0}},
        bounds={"F": (0.1, 10.0)},
    )
    found = model.fit(clean, t, observed=["c"]).parameters_
    np.testing.assert_allclose([found[k] for k in ("ka", "ke", "V", "F")], [1.5, 0.08, 0.5, 1.0], rtol=1e-5)


def test_paths_across_a_dose_of_the_fit_are_warned_of():
    t = np.linspace(0.5, 16.0, 20)
    model = load(ORAL, initial={"g": 0, "c": 0}, t0=0.0, doses=[(0.0, "g", 4.0), (8.0, "g", 2.0)], n_starts=1)
    model.fit(oral(t) + oral(t - 8.0, dose=2.0), t, observed=["c"])
    with pytest.warns(SimulationWarning, match=r"doses and events .* at 8;"):
        model.simulate([4.0, 0.0], t)
    with pytest.warns(SimulationWarning, match="at 0, 8;"):
        model.forecast([4.0, 0.0], np.append(0.0, t))
    with warnings.catch_warnings():
        warnings.simplefilter("error", SimulationWarning)
        path = model.simulate([4.0, 0.0], np.array([0.5, 2.0, 8.0]))  # a sample at 8 is taken before the dose
        late = model.simulate([2.0, 0.0], t[t > 8.0])
    assert np.isfinite(path).all() and np.isfinite(late).all()


def test_doses_of_several_trajectories():
    amounts = (4.0, 8.0)
    y = [oral(HOURS, dose=a) for a in amounts]
    model = load(ORAL, initial={"g": 0, "c": 0}, t0=0.0, doses=[[(0.0, "g", a)] for a in amounts])
    found = model.fit(y, [HOURS] * 2, observed=["c"]).parameters_
    np.testing.assert_allclose([found[k] for k in ("ka", "ke", "V")], [1.5, 0.08, 0.5], rtol=1e-5)


def test_bounds_fixed_numbers_and_ties():
    t = np.linspace(0.0, 10.0, 30)
    x = orbit(lambda s, y: [0.8 * y[0] * (1 - y[0] / 5.0)], [0.5], t)
    with (
        pytest.warns(DataWarning, match=r"at their bounds: K = 4.95"),
        pytest.warns(FitWarning, match="the equations miss n"),
    ):
        model = load({"n": "r*n*(1-n/K)"}, bounds={"K": (1.0, 4.95)}).fit(x, t, feature_names=["n"])
    assert model.parameters_["K"] == pytest.approx(4.95)
    tied = load({"n": "r*n*(1-n/K)"}, fixed={"K": "r*q", "q": 6.25}).fit(x, t, feature_names=["n"])
    assert tied.parameters_["r"] == pytest.approx(0.8, rel=1e-6)
    assert "q" not in tied.parameters_


def test_a_prior_makes_the_most_probable_fit():
    t = np.linspace(0.0, 4.0, 9)
    y = np.exp(-0.5 * t) + 0.1 * np.random.default_rng(1).standard_normal(9)
    model = load({"c": "-k*c"}, initial={"c": 1.0}, priors={"k": ("normal", 0.3, 0.02)})
    found = model.fit(y, t, feature_names=["c"], sigma=0.1).parameters_["k"]

    def cost(k):
        return np.append((np.exp(-k * t) - y) / 0.1, (k - 0.3) / 0.02)

    assert found == pytest.approx(least_squares(cost, [0.4], xtol=1e-12, ftol=1e-12).x[0], rel=1e-5)


def test_stiff_kinetics_from_unknown_constants():
    def f(s, y):
        return [
            -0.04 * y[0] + 1e4 * y[1] * y[2],
            0.04 * y[0] - 3e7 * y[1] ** 2 - 1e4 * y[1] * y[2],
            3e7 * y[1] ** 2,
        ]

    t = np.append(0.0, np.logspace(-4, 4, 30))
    x = orbit(f, [1.0, 0.0, 0.0], t, method="Radau", rtol=1e-10, atol=1e-15)
    names = ("k1", "k2", "k3")
    model = load(
        ["-k1*a+k3*b*c", "k1*a-k2*b**2-k3*b*c", "k2*b**2"],
        bounds=dict.fromkeys(names, (0, None)),
        initial={"a": 1, "b": 0, "c": 0},
    )
    found = model.fit(x, t, feature_names=["a", "b", "c"]).parameters_
    np.testing.assert_allclose([found[k] for k in names], [0.04, 3e7, 1e4], rtol=1e-5)


@pytest.mark.parametrize("sampled", [True, False])
def test_a_step_of_the_input_is_a_jump(sampled):
    t = np.linspace(0.0, 6.0, 121)

    def u(s):
        return 1.0 if s >= 2.0 else 0.0

    x = np.where(t < 2.0, 1.0, 3.0 - 2.0 * np.exp(-0.5 * (t - 2.0)))[:, None]
    given = np.array([u(s) for s in t]) if sampled else u
    model = load({"x": "-k*(x - 1) + b*u"}).fit(x, t, u=given, feature_names=["x", "u"])
    np.testing.assert_allclose([model.parameters_["k"], model.parameters_["b"]], [0.5, 1.0], rtol=1e-5)
    np.testing.assert_allclose(model.simulate([1.0], t, u=given), x, rtol=1e-6)
    if sampled:
        assert model.field_.fit_info.report["hold"] == {"u": "previous"}


def test_time_in_the_equations(tmp_path):
    t = np.linspace(0.0, 8.0, 81)
    x = orbit(lambda s, y: [-0.2 * s * y[0] + 0.5], [1.0], t)
    model = load(["-a*t*x+b"]).fit(x, t, feature_names=["x"])
    assert model.parameters_["a"] == pytest.approx(0.2, abs=1e-6)
    np.testing.assert_allclose(model.simulate(x[20], t[20:]), x[20:], rtol=1e-6)
    again = fim_dynsys.load_fitted(model.save(tmp_path / "model"))
    assert again.parameters_ == model.parameters_
    np.testing.assert_allclose(again.simulate(x[20], t[20:]), x[20:], rtol=1e-6)


def test_states_at_times_of_their_own():
    t = np.linspace(0.0, 20.0, 121)
    x = orbit(lambda s, y: [1.1 * y[0] - 0.4 * y[0] * y[1], 0.1 * y[0] * y[1] - 0.4 * y[1]], [10, 5], t)
    y = x.copy()
    y[::2, 0], y[1::2, 1] = np.nan, np.nan
    found = load(["a*x-b*x*y", "c*x*y-d*y"]).fit(y, t, feature_names=["x", "y"]).parameters_
    np.testing.assert_allclose([found[k] for k in "abcd"], [1.1, 0.4, 0.1, 0.4], rtol=1e-4)


def test_errors_in_proportion_count_all_samples():
    t = np.arange(0.0, 2.9, 0.25)

    def f(s, y):
        return [2 * y[0] - y[0] ** 2 + y[0] * y[1], 3 * y[1] - y[1] ** 2 + 2 * y[0] * y[1]]

    x = orbit(f, [0.01, 0.001], t)
    model = load(["a1*x-b1*x**2+c1*x*y", "a2*y-b2*y**2+c2*x*y"])
    found = model.fit(x, t, feature_names=["x", "y"], sigma=1e-4 * x).parameters_
    np.testing.assert_allclose(
        [found[k] for k in ("a1", "a2", "b1", "b2", "c1", "c2")], [2, 3, 1, 1, 1, 2], rtol=1e-3
    )


@pytest.mark.parametrize("share", ["N/4", "d*N", "d*N + 0*r"])
def test_dilutions_keep_a_share_of_a_state(share):
    """Logistic growth, diluted to a quarter every six hours."""
    t, at, first, x = np.linspace(0.1, 24.1, 49), 0.0, 0.5, []
    for now in t:
        while now > at + 6.0:
            at, first = at + 6.0, 0.25 * 10.0 / (1.0 + (10.0 / first - 1.0) * np.exp(-3.6))
        x.append(10.0 / (1.0 + (10.0 / first - 1.0) * np.exp(-0.6 * (now - at))))
    noisy = np.array(x) * np.exp(0.01 * np.random.default_rng(0).standard_normal(49))
    events = {time: {"N": share} for time in (6.0, 12.0, 18.0, 24.0)}
    model = load({"N": "r*N*(1 - N/K)"}, events=events, noise="lognormal").fit(noisy, t, feature_names=["N"])
    for name, value in {"r": 0.6, "K": 10.0, "d": 0.25}.items():
        if name in model.parameters_:
            assert abs(model.parameters_[name] - value) < 4.0 * model.parameter_errors_[name] < 0.1 * value


def test_print_shows_estimates_that_no_equation_holds(capsys):
    """A share kept by a dilution, and the first state; of many first states their number."""
    t = np.linspace(0.0, 9.9, 34)
    exact = np.exp(0.3 * t) * np.where(t > 6.0, 0.25, 1.0)
    noisy = exact + 0.02 * np.random.default_rng(0).standard_normal(t.shape)
    model = load({"N": "r*N"}, events={6.0: {"N": "f*N"}}).fit(noisy, t, feature_names=["N"])
    model.print(errors=True)
    last = capsys.readouterr().out.splitlines()[-1]
    f, error = model.parameters_["f"], model.parameter_errors_["f"]
    assert last.startswith(f"(also estimated: f = {f:.4f} ± {error:.4f}, N(0) = "), last
    many = load({"N": "r*N"}).fit([noisy[:6]] * 9, [t[:6]] * 9, feature_names=["N"])
    many.print()
    assert capsys.readouterr().out.splitlines()[-1] == "(also estimated: 9 first states, in parameters_)"


@pytest.mark.parametrize("value", ["N**2", "M/2", "2*t"])
def test_events_that_depend_on_more_than_a_share_are_refused(value):
    model = load({"N": "-k*N", "M": "-k*M"}, events={1.0: {"N": value}})
    with pytest.raises(ValueError, match="a share of the state itself, such as N/2"):
        model.fit(np.ones((5, 2)), 1.0, feature_names=["N", "M"])


def test_scales_of_errors_that_are_estimated_cost_no_degrees_of_freedom_but_others_do():
    t = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0])
    x = 10.0 * np.exp(-0.4 * t) * (1.0 + 0.05 * np.random.default_rng(1).standard_normal(6))
    proportional, lognormal = (
        load({"c": "-k*c"}, noise=noise).fit(x, t, feature_names=["c"]).parameter_errors_["k"]
        for noise in (("normal", "b*y"), "lognormal")
    )
    assert proportional == pytest.approx(lognormal, rel=0.05)


def test_equations_that_miss_the_data_are_fitted_by_least_squares():
    """Two exponentials by one, and a chain whose first rate is given ten percent too small."""
    t = np.linspace(0.0, 8.0, 33)
    x = 0.7 * np.exp(-1.2 * t) + 0.3 * np.exp(-0.15 * t) + 0.03 * np.random.default_rng(0).standard_normal(33)
    least = least_squares(lambda p: p[0] * np.exp(-p[1] * t) - x, [1.0, 0.6]).x
    with pytest.warns(FitWarning, match="the equations miss c"):
        found = load({"c": "-k*c"}).fit(x, t, feature_names=["c"]).parameters_
    assert [found["c(0)"], found["k"]] == pytest.approx(least.tolist(), rel=1e-3)
    t, k1 = np.linspace(0.0, 6.0, 25), 0.45
    rng = np.random.default_rng(1)
    y = np.stack([np.exp(-0.5 * t), np.exp(-0.5 * t) - np.exp(-t)], 1) + 0.02 * rng.standard_normal((25, 2))
    least = least_squares(
        lambda p: k1 / (p[0] - k1) * (np.exp(-k1 * t) - np.exp(-p[0] * t)) - y[:, 1], [1.3]
    ).x
    model = load({"a": "-k1*a", "b": "k1*a - k2*b"}, fixed={"k1": k1}, initial={"a": 1, "b": 0})
    found = model.fit(y, t, feature_names=["a", "b"]).parameters_
    assert found["k2"] == pytest.approx(least[0], rel=1e-3)


def test_a_known_pulse_from_rest_is_simulated_and_fitted_whoever_says_when():
    """Half an hour within two days, by a number and by a coordinate of each subject."""

    def infused(t, begin):
        up = np.clip(t, begin, begin + 0.5) - begin
        return 100 / 0.15 * (1 - np.exp(-0.15 * up)) * np.exp(-0.15 * np.clip(t - begin - 0.5, 0, None))

    t, seldom = np.linspace(0.0, 48.0, 97), np.linspace(0.0, 48.0, 13)
    model = load({"c": "(100 if t > 13.5 and t < 14 else 0) - k*c"}, initial={"c": 0})
    model.fit(infused(t, 13.5), t, feature_names=["c"])
    for times in (t, seldom):
        np.testing.assert_allclose(model.simulate([0.0], times)[:, 0], infused(times, 13.5), atol=1e-6)
    records = fim_dynsys.Trajectories.from_arrays(
        [infused(seldom, begin) for begin in (9.3, 22.1)], [seldom] * 2, ["c"], coords={"T0": [9.3, 22.1]}
    )
    each = load({"c": "(R if t > T0 and t < T0 + 0.5 else 0) - k*c"}, initial={"c": 0}).fit(records)
    assert each.parameters_["R"] == pytest.approx(100.0, rel=1e-6)


def test_known_scales_of_errors_cost_no_degrees_of_freedom():
    t = np.linspace(0.0, 4.0, 8)
    x = np.exp(-t) + 0.1 * np.random.default_rng(0).standard_normal(8)
    errors = [
        load({"c": "-k*c"}, noise=noise, **known).fit(x, t, feature_names=["c"]).parameter_errors_["k"]
        for noise, known in ((("normal", 0.1), {}), (("normal", "s"), {"fixed": {"s": 0.1}}))
    ]
    assert errors[0] == pytest.approx(errors[1], rel=1e-9)


def test_intervals_with_a_named_scale_of_errors_are_those_of_student():
    t = np.linspace(0.2, 6.0, 8)
    x = 10 * np.exp(-0.4 * t) * np.exp(0.05 * np.random.default_rng(0).standard_normal(8))
    widths = []
    for noise in ("lognormal", ("lognormal", "s")):
        model = load({"c": "-k*c"}, noise=noise).fit(x, t, feature_names=["c"])
        low, high = model.profile("k").intervals[0.95]
        widths.append(high - low)
    assert widths[1] == pytest.approx(widths[0], rel=0.05)
    assert (model.identifiability().table["verdict"] == "determined").all()


def test_scales_of_errors_that_are_zero_before_a_dose_are_named():
    t = np.array([0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0])
    x = np.where(t < 0.9, 0.0, 10.0 * np.exp(-0.4 * (t - 0.9)))
    model = load({"c": "-k*c"}, initial={"c": 0}, doses=[(0.9, "c", "D")], noise=("normal", "b*y"))
    with pytest.raises(ValueError, match="Errors need a scale above 0 at each sample"):
        model.fit(x, t, feature_names=["c"])


def test_samples_of_zero_say_nothing_under_relative_noise():
    """They have no error where zero is expected; with one, the errors came out five times too large."""
    t = np.linspace(0.0, 10.0, 21)
    x = 2.0 * (1.0 - np.exp(-0.5 * t)) * (1.0 + 0.05 * np.random.default_rng(0).standard_normal(21))
    model = fim_dynsys.load("equations", expressions={"x": "k*(a - x)"}, noise="relative")
    with pytest.warns(DataWarning, match="1 sample of x at 0 left out"):
        model.fit(x, t, feature_names=["x"])
    assert model.parameters_["error_0"] == pytest.approx(0.05, rel=0.5)
    assert model.parameters_["k"] == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("noise", ["lognormal", "relative"])
def test_relative_noise_gives_its_size(noise):
    t = np.linspace(0.0, 5.0, 60)
    y = 100.0 * np.exp(-1.5 * t) * np.exp(0.1 * np.random.default_rng(0).standard_normal(60))
    model = load({"c": "-k*c"}, noise=noise).fit(y, t, feature_names=["c"])
    line = np.polyfit(t, np.log(y), 1)
    assert model.parameters_["k"] == pytest.approx(-line[0], rel=0.01 if noise == "relative" else 1e-6)
    size = model.parameters_.get("error_0", model.fit_.descent.evaluation.scales[0])
    assert size == pytest.approx(np.std(np.log(y) - np.polyval(line, t)), rel=0.05)


@pytest.mark.slow  # 10 s
def test_chaos_is_fitted_by_pieces_with_errors_that_mean_something():
    t = np.arange(0.0, 12.0, 0.02)

    def f(s, x):
        return [10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]]

    x = orbit(f, [1.0, 1.0, 20.0], t)
    y = x + 0.05 * x.std(axis=0) * np.random.default_rng(0).standard_normal(x.shape)
    model = load(["s*(y-x)", "x*(r-z)-y", "x*y-b*z"]).fit(y, t, feature_names=["x", "y", "z"])
    for name, value in {"s": 10.0, "r": 28.0, "b": 8 / 3}.items():
        error = model.parameter_errors_[name]
        assert abs(model.parameters_[name] - value) < 4.0 * error < 0.02 * value


def test_alternatives_and_failures_are_said():
    t = np.linspace(0.1, 24.0, 12)
    y = oral(t) + 0.05 * np.random.default_rng(0).standard_normal(12)
    with pytest.warns(DataWarning, match="another minimum fits about as well"):
        load(ORAL, initial={"g": 4.0, "c": 0}, t0=0.0, n_starts=20).fit(y, t, observed=["c"])
    with pytest.warns(FitWarning, match="does not describe"):
        load({"x": "-k*x"}, bounds={"k": (0, None)}).fit(
            np.sin(t * 0.5) + 2.0 * np.cos(t), t, feature_names=["x"]
        )


def test_errors_in_proportion_to_values_are_noticed():
    """Standard errors that take them for equal ones are too small by half and more."""
    t = np.linspace(0.0, 10.0, 60)
    x = orbit(lambda s, y: [-0.6 * y[0], 0.6 * y[0] - 0.3 * y[1]], [10.0, 0.01], t)
    noise = np.random.default_rng(0).standard_normal(x.shape)
    chain, names, message = ["-k*a", "k*a-e*b"], ["a", "b"], "residuals grow with the values of a"
    y = x * (1.0 + 0.02 * noise)
    with pytest.warns(DataWarning, match=rf"{message} \(about [12]\S* % of it\).*Pass sigma"):
        load(chain).fit(y, t, feature_names=names)
    for given, known in ((y, {"sigma": 0.02 * x}), (y, {"log": names}), (x + 0.1 * noise, {}), (x, {})):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=f".*{message}")
            load(chain).fit(given, t, feature_names=names, **known)


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_equations_that_miss_something_small_are_warned_of(noise):
    """x' = -k x for x' = -.3 x - .1 x^2 follows with R2 .99, and k is off by far more than its error."""
    t = np.linspace(0.0, 20.0, 80)
    x = orbit(lambda s, y: [-0.3 * y[0] - 0.1 * y[0] ** 2], [5.0], t)
    x = x + noise * x.std() * np.random.default_rng(0).standard_normal(x.shape)
    with pytest.warns(FitWarning, match=r"the equations miss x \(by 9\S* % of its spread\)"):
        model = load(["-k*x"]).fit(x, t, feature_names=["x"])
    assert model.field_.fit_info.path_r2 > 0.98
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(["-k*x-c*x**2"]).fit(x, t, feature_names=["x"])


@pytest.mark.parametrize("noise", [0.0, 1e-4, 0.02])
def test_parameters_that_enter_as_a_quotient_are_not_determined_by_noise_free_samples_either(noise):
    t = np.linspace(0.0, 60.0, 61)
    infection = [-5e-4, 5e-4]
    x = orbit(
        lambda s, y: [r * y[0] * y[1] - d * y[1] for r, d in zip(infection, (0, 0.1), strict=True)],
        [990.0, 10.0],
        t,
    )
    x = x + noise * x.std(0) * np.random.default_rng(0).standard_normal(x.shape)
    with pytest.warns(DataWarning, match="the data do not determine N, b;"):
        model = load(["-b*S*I/N", "b*S*I/N-g*I"]).fit(x, t, feature_names=["S", "I"])
    assert model.parameters_["b"] / model.parameters_["N"] == pytest.approx(5e-4, rel=0.02)


def test_rates_that_may_change_places_are_said():
    """x' = -a x + 3 exp(-t / tau) from 0 has the same solution with a = 1 / 2.5, tau = 2 (flip-flop)."""
    t = np.linspace(0.0, 10.0, 41)
    x = 30.0 * (np.exp(-0.4 * t) - np.exp(-0.5 * t))
    with pytest.warns(DataWarning, match=r"another minimum fits about as well: \(a = 0.[45], b = 3, tau = 2"):
        load({"x": "-a*x + b*exp(-t/tau)"}).fit(x, t, feature_names=["x"])


def reactor(seed, of=np.std):
    """A stirred tank with noise of 10 % (Seborg et al., Process Dynamics and Control, 2011, 2.4.6)."""
    t = np.linspace(0.0, 12.0, 200)

    def f(_, y):
        burnt = 7.2e10 * np.exp(-8750.0 / y[1]) * y[0]
        return [1.0 - y[0] - burnt, 350.0 - y[1] + 209.2 * burnt - 2.09 * (y[1] - 305.0)]

    x = orbit(f, [0.9, 310.0], t, method="LSODA", rtol=1e-9, atol=1e-9)
    y = x + 0.1 * of(x, axis=0) * np.random.default_rng(seed).standard_normal(x.shape)
    return t, y


REACTOR = {"c": "(cf-c)/th-k*exp(-E/T)*c", "T": "(Tf-T)/th+H*k*exp(-E/T)*c-U*(T-Tc)"}
TRUE = {"cf": 1.0, "th": 1.0, "k": 7.2e10, "E": 8750.0, "Tf": 350.0, "H": 209.2, "U": 2.09, "Tc": 305.0}
NEAR = {name: value * (1.27 if k % 2 else 1 / 1.27) for k, (name, value) in enumerate(TRUE.items())}


def test_pieces_that_misled_a_fit_are_no_answer(monkeypatch):
    t, y = reactor(1)
    with monkeypatch.context() as patched:
        patched.setattr("fim_dynsys.models.equations.restarted", lambda *given: None)
        patched.setattr("fim_dynsys.models.equations.without_named_starts", lambda *given: None)
        with pytest.warns(FitWarning, match="does not describe the data: its path has R2"):
            load(REACTOR, start=NEAR, n_starts=20).fit(y, t, feature_names=["c", "T"])
    with (
        pytest.warns(DataWarning, match=r"known only roughly: .*k \(.. %\)"),
        pytest.warns(DataWarning, match="do not determine"),
        pytest.warns(FitWarning, match="without convergence"),
    ):
        model = load(REACTOR, start=NEAR, n_starts=20).fit(y, t, feature_names=["c", "T"])
    assert not model.field_.fit_info.problems and model.field_.fit_info.path_r2 > 0.98
    assert model.parameters_["E"] == pytest.approx(8750.0, rel=0.06)


@pytest.mark.filterwarnings("ignore::fim_dynsys.errors.FitWarning")  # of draws that several minima fit alike
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (6, 7))])  # 7 s
def test_noisy_pieces_hide_no_better_minimum(seed):
    """Pieces leave hardly more than noise of a tenth of the temperature, with numbers that are far off."""
    t, y = reactor(seed, of=lambda x, axis: np.abs(x))
    known = {name: TRUE[name] for name in ("cf", "E", "Tf", "Tc")}
    free = ("k", "H", "U", "th")
    start = {name: TRUE[name] * (1 / 1.3 if k % 2 else 1.3) for k, name in enumerate(free)}
    found = load(REACTOR, fixed=known, start=start, n_starts=20).fit(y, t, feature_names=["c", "T"])
    for name in free:
        assert found.parameters_[name] == pytest.approx(TRUE[name], rel=0.05), name


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])  # 4 s
def test_a_relaxation_oscillator_is_known_as_well_as_its_noise_allows(seed):
    """Of e, noise of 10 % of the value leaves 2.7 % (the inverse of the information at the truth)."""
    true = {"e": 0.005, "I": 0.5, "a": 0.7, "b": 0.8}
    t = np.linspace(0.0, 8.0, 200)

    def rates(s, y):
        return [(y[0] - y[0] ** 3 / 3 - y[1] + 0.5) / 0.005, y[0] + 0.7 - 0.8 * y[1]]

    x = orbit(rates, [-1.0, 1.0], t, method="LSODA")
    y = x * (1 + 0.1 * np.random.default_rng(seed).normal(size=x.shape))
    start = {name: value * (1 / 1.3 if k % 2 else 1.3) for k, (name, value) in enumerate(true.items())}
    model = load(["(v-v**3/3-w+I)/e", "v+a-b*w"], start=start).fit(y, t, feature_names=["v", "w"])
    for name, value in true.items():
        known_to = {"e": 0.027}.get(name, 0.0075)
        assert model.parameters_[name] == pytest.approx(value, rel=3 * known_to), name


def test_a_pole_of_the_input_ends_a_path():
    t = np.arange(24.0)
    u = np.clip(np.sin(0.5 * t), 0, None) * 2
    x = np.exp(-0.1 * t)[:, None] + 1e-3 * np.random.default_rng(0).standard_normal((24, 1))
    model = load(["-a*x + b/(1-u)**2"], start={"a": 0.1, "b": 1e-4})
    with pytest.warns(FitWarning, match="cannot be integrated"):
        model.fit(x, t, u=u, feature_names=["x", "u"])
    with pytest.warns(SimulationWarning, match="later rows are NaN"):
        path = model.simulate(x[0], t, u=u)
    assert np.isfinite(path[0]).all() and np.isnan(path[-1]).all()


def test_dry_friction_is_not_biased():
    t = np.linspace(0.0, 12.0, 121)

    def f(s, y):
        return [y[1], -4.0 * y[0] - 0.3 * np.tanh(y[1] / 1e-6)]

    x = orbit(f, [1.0, 0.0], t, method="Radau", rtol=1e-9, atol=1e-11)
    y = x + 0.005 * np.random.default_rng(0).standard_normal(x.shape)
    model = load({"x": "v", "v": "-k*x - F*sign(v)"}).fit(y, t, feature_names=["x", "v"])
    for name, value in {"k": 4.0, "F": 0.3}.items():
        assert abs(model.parameters_[name] - value) < max(4.0 * model.parameter_errors_[name], 1e-3 * value)
    assert "sign" in model.equations()[1]


def test_what_is_not_there_or_contradicts_itself_is_an_error():
    t, y = HOURS, oral(HOURS)
    given = {"initial": {"g": 4.0, "c": 0}, "t0": 0.0}
    for options, match in (
        ({"bounds": {"kk": (0, 1)}}, "expected bounds among"),
        ({"bounds": {"ka": (1, 0)}}, "low < high"),
        ({"bounds": {"ka": (False, "1")}}, "as numbers low < high"),
        ({"initial": {"q": 1}}, "expected initial states among"),
        ({"initial": {"g": "c"}}, "an expression in parameters"),
        ({"initial": {"g": (1, 2)}, "bounds": {"g": (3, 4)}}, "bounds of g that overlap"),
        ({"doses": [(0, "q", 1)]}, "doses as"),
        ({"doses": (0, "g", 1)}, "doses as a list"),
        ({"doses": [[0, 0]]}, "doses as"),
        ({"doses": [(0, "g", "c*2")]}, "in parameters alone"),
        ({"doses": [(-1.0, "g", 1)], "t0": 0.0}, "from t0 = 0 on, .* a dose at -1"),
        ({"events": {-1.0: {"g": 1}}, "t0": 0.0}, "an event at -1"),
        ({"events": {"noon": {"g": 1}}}, "time of an event"),
        ({"events": {1.0: 2.0}}, "as {state: value}"),
        ({"noise": "odd"}, "expected noise"),
        ({"noise": ("normal", 0.0)}, "scale of the errors"),
        ({"t0": 1.0}, "t0 at or before"),
        ({"scale": {"ka": "cubic"}}, "expected scale"),
        ({"scale": {"ka": "log"}, "bounds": {"ka": (-1, 2)}}, "positive bounds and starts"),
        ({"scale": "log", "start": {"ka": -1.0}}, "positive bounds and starts"),
        ({"priors": {"ka": (1, 2)}}, "expected the prior"),
        ({"start": {"ka": 9.0}, "bounds": {"ka": (0, 2)}}, "start of ka within its bounds"),
        ({"start": {"g": 9.0}, "bounds": {"g": (0, 2)}}, "start of g within its bounds"),
        (given | {"start": {"g": 9.0}}, "start of states that are estimated"),
        (given | {"priors": {"g": ("normal", 1, 1)}}, "priors of states that are estimated"),
        (given | {"bounds": {"g": (0, 1)}}, "first g within its bounds"),
        ({"fixed": {"ka": 1.5}, "bounds": {"ka": (2, 3)}}, "fixed ka within its bounds"),
        ({"fixed": {"ka": np.nan}}, "fixed value of ka"),
        ({"fixed": {"ka": "2*ke", "ke": "ka/2"}}, "in a circle"),
        ({"fixed": {"ka": "9*ke"}, "bounds": {"ka": (2, 3)}}, r"fixed makes '9\*ke'"),
        ({"fixed": {"kk": "9*ke"}}, "expected fixed among"),
        ({"hold": "weird"}, "expected hold"),
    ):
        with pytest.raises(ValueError, match=match):
            load(ORAL, **options).fit(y, t, observed=["c"])
    with pytest.raises(ValueError, match=r"such as exp\(x\)"):
        load({"c": "-exp*c"}).fit(y, t, feature_names=["c"])
    with pytest.raises(ValueError, match="another name"):
        load({"c": "-lambda*c"}).fit(y, t, feature_names=["c"])


@pytest.mark.parametrize(
    ("noise", "sigma", "values", "match"),
    [
        ("lognormal", None, [2.0, 1.0, 0.0], "positive values of c"),
        ("poisson", None, [2.0, -1.0, 0.0], "counts of at least 0"),
        ("relative", 0.1, [2.0, 1.0, 0.5], "either sigma or noise"),
    ],
)
def test_values_that_no_such_noise_gives(noise, sigma, values, match):
    with pytest.raises(ValueError, match=match):
        load({"c": "-k*c"}, noise=noise).fit(values, 1.0, feature_names=["c"], sigma=sigma)


@pytest.mark.parametrize(
    "noise",
    [
        ["normal", "lognormal"],
        ("relative", "normal"),
        [("normal", "a"), ("laplace", "b")],
        {"g": ("normal", "poisson")},
        ["normal", "normal", "normal"],
    ],
)
def test_kinds_of_noise_in_a_list_are_no_scales(noise):
    with pytest.raises(
        ValueError, match=r"expected noise of several columns by their names, such as noise=\{'g'"
    ):
        load(ORAL, noise=noise).fit(np.ones((5, 2)), 1.0, feature_names=["g", "c"])


def test_nothing_that_is_given_is_dropped_in_silence():
    t, y = HOURS, oral(HOURS)
    names = ("ka", "ke", "V")
    with pytest.warns(DataWarning, match=r"before the first dose or event, at 0; t0 says"):
        model = load(ORAL, initial={"g": 0, "c": 0}, doses=[(0.0, "g", 4.0)], bounds={"ka": (1, None)})
        found = model.fit(y, t, observed=["c"]).parameters_
    np.testing.assert_allclose([found[k] for k in names], [1.5, 0.08, 0.5], rtol=1e-5)
    with pytest.warns(DataWarning, match="at 30 have no effect"):
        load(ORAL, initial={"g": 4, "c": 0}, t0=0, doses=[(30.0, "g", 4.0)]).fit(y, t, observed=["c"])
    x = np.exp(-0.5 * np.arange(8.0))
    with pytest.warns(DataWarning, match="depends on the input w"):
        load({"c": "-k*c"}).fit(x, 1.0, u=np.arange(8.0) ** 2, feature_names=["c", "w"])
    with pytest.warns(DataWarning, match="no equation holds the state c, and C is taken"):
        load({"c": "-k*C"}).fit(x, 1.0, feature_names=["c"])
    with pytest.warns(DataWarning, match="other than whole numbers"):
        load({"c": "-k*c"}, noise="poisson").fit(x, 1.0, feature_names=["c"])
    with pytest.warns(DataWarning, match="inputs before their first sample"):
        load({"c": "-k*c + b*u"}, t0=-1.0).fit(x, 1.0, u=np.arange(8.0) ** 2, feature_names=["c", "u"])


def test_a_dose_at_the_time_of_a_sample_up_to_rounding_comes_after_it():
    t = 0.1 * np.arange(8)  # its fourth is 0.30000000000000004
    x = 2.0 * np.exp(-1.5 * t)
    x[t > 0.35] += np.exp(-1.5 * (t[t > 0.35] - 0.3))
    model = load({"c": "-k*c"}, doses=[(0.3, "c", 1.0)]).fit(x, t, feature_names=["c"])
    assert model.parameters_["k"] == pytest.approx(1.5, rel=1e-6)
    both = load({"c": "-k*c"}, doses=[(0.3, "c", 1.0)], events={0.3: {"c": 2.0 * np.exp(-0.45)}})
    assert both.fit(x, t, feature_names=["c"]).parameters_["k"] == pytest.approx(1.5, rel=1e-6)


def test_a_prior_of_a_first_state_and_a_chain_of_ties():
    t, y = HOURS, oral(HOURS)
    known = {"t0": 0.0, "initial": {"c": 0}, "bounds": {"ka": (1, None)}}
    model = load(ORAL, priors={"g": ("normal", 4.0, 0.1)}, **known).fit(y, t, observed=["c"])
    assert model.parameters_["g(0)"] == pytest.approx(4.0, rel=1e-4)
    assert model.parameter_errors_["g(0)"] == pytest.approx(0.1, rel=0.01)
    tied = load(
        ORAL,
        fixed={"V": "w/2", "w": "2*q", "dose": "2*half", "half": 2.0},
        t0=0.0,
        initial={"g": "dose", "c": 0},
        bounds={"ka": (1, None)},
    )
    found = tied.fit(y, t, observed=["c"]).parameters_
    assert set(found) == {"ka", "ke", "q"}
    assert found["q"] == pytest.approx(0.5, rel=1e-5)


SPREAD = {"s": "-b*s*i", "i": "b*s*i - g*i", "r": "g*i"}


def test_knowledge_of_states_beside_expressions():
    t = np.linspace(0.0, 10.0, 21)
    x = orbit(lambda s, y: [-1.5 * y[0] * y[1], 1.5 * y[0] * y[1] - 0.5 * y[1], 0.5 * y[1]], [0.9, 0.1, 0], t)
    facts = Knowledge(nonnegative=["s", "i", "r"], conserved=["s + i + r"])
    y = x + 0.01 * np.random.default_rng(3).standard_normal(x.shape) - [0.0, 0.0, 0.02]  # r begins below zero
    model = load(SPREAD, knowledge=facts)
    with pytest.warns(DataWarning, match=r"at their bounds: r\(0\) = 0"):
        model.fit(y, t, feature_names=list(SPREAD))
    assert model.parameters_["r(0)"] >= 0.0
    with pytest.raises(ValueError, match=r"conserve s \+ i, got ones by which it changes at the rate -g\*i"):
        load(SPREAD, knowledge=Knowledge(conserved=["s + i"])).fit(y, t, feature_names=list(SPREAD))
    with pytest.raises(ValueError, match="got forbid"):
        load(SPREAD, knowledge=Knowledge(forbid={"s": ["s"]})).fit(y, t, feature_names=list(SPREAD))
    with pytest.raises(ValueError, match="nonnegative states among s, i, r, got q"):
        load(SPREAD, knowledge=Knowledge(nonnegative=["q"])).fit(y, t, feature_names=list(SPREAD))
    with pytest.warns(DataWarning, match="the fitted c becomes negative, -1 at least"):
        load({"c": "-k"}, knowledge=Knowledge(nonnegative=["c"])).fit(1.0 - 0.2 * t, t, feature_names=["c"])
    alias = fim_dynsys.load("symbolic", expressions={"c": "-k*c"}, knowledge=Knowledge(nonnegative=["c"]))
    assert alias.knowledge == Knowledge(nonnegative=["c"])


@pytest.mark.parametrize("between", ["t > 1.1 and t < 1.3", "1.1 <= t <= 1.3"])
def test_what_begins_at_a_known_time_is_seen_from_rest(between):
    t = np.arange(0.0, 10.01, 0.5)

    def since(begin):
        return np.where(t > begin, 1.0 - np.exp(-0.5 * np.maximum(t - begin, 0.0)), 0.0)

    x = 10.0 * (since(1.1) - since(1.3))
    model = load({"x": f"-k*x+(R if {between} else 0)"}, initial={"x": 0}, n_starts=3)
    found = model.fit(x, t, feature_names=["x"])
    assert found.parameters_ == pytest.approx({"R": 5.0, "k": 0.5}, rel=1e-6)


@pytest.mark.filterwarnings("error")
def test_errors_relative_to_states_that_begin_at_zero_determine_stiff_rates():
    """Robertson: at t = 0 two states are known to 1e-10; weights of the others are 1e16 times smaller."""
    rates = {"k1": 0.04, "k2": 3e7, "k3": 1e4}

    def reaction(t, s, k1, k2, k3):
        a, b, c = s
        return [-k1 * a + k3 * b * c, k1 * a - k2 * b**2 - k3 * b * c, k2 * b**2]

    t = np.append(0.0, np.logspace(-2, 5, 60))
    options = {"t_eval": t, "method": "Radau", "rtol": 1e-10, "atol": 1e-14, "args": tuple(rates.values())}
    x = solve_ivp(reaction, (0, t[-1]), [1, 0, 0], **options).y.T
    noisy = x * (1 + 0.01 * np.random.default_rng(0).standard_normal(x.shape))
    model = load(
        ["-k1*a + k3*b*c", "k1*a - k2*b**2 - k3*b*c", "k2*b**2"], start={"k1": 0.05, "k2": 2e7, "k3": 1.2e4}
    ).fit(noisy, t, feature_names=["a", "b", "c"], sigma=0.01 * np.maximum(x, 1e-8))
    errors = model.field_.parameter_errors
    for name, relative in {"k1": 0.0022, "k2": 0.0028, "k3": 0.0035}.items():  # by least_squares in log k
        assert errors[name] / rates[name] == pytest.approx(relative, rel=0.2)
        assert abs(model.parameters_[name] - rates[name]) < 3 * errors[name]


def warnings_of(fit):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        fit()
    return " ".join(str(one.message) for one in heard)


@pytest.mark.parametrize("name", ["equations", "fim-ode"])
def test_errors_that_residuals_exceed_are_said(name):
    t = np.linspace(0, 12, 40)
    path = 10 / (1 + 19 * np.exp(-0.8 * t))
    noisy = path + 0.2 * np.random.default_rng(0).standard_normal(len(t))
    options = {"expressions": {"N": "r*N*(1 - N/K)"}} if name == "equations" else {}
    model = fim_dynsys.load(name, **options)
    said = [
        warnings_of(lambda given=given: model.fit(noisy, t, feature_names=["N"], sigma=given))
        for given in (0.04, 0.2, None)
    ]
    assert ["times the errors that sigma gives" in text for text in said] == [True, False, False]


@pytest.mark.parametrize("option", ["sigma", "noise"])
def test_counts_that_scatter_more_than_poissons_are_said(option):
    t, rng = np.arange(0.0, 40.0), np.random.default_rng(0)
    mean = 2000 * np.exp(-0.1 * t)
    model = load({"n": "-k*n"}, **({"noise": {"n": "poisson"}} if option == "noise" else {}))
    given = {"sigma": "poisson"} if option == "sigma" else {}
    said = [
        warnings_of(lambda counts=counts: model.fit(counts, t, feature_names=["n"], **given))
        for counts in (rng.negative_binomial(20, 20 / (20 + mean)), rng.poisson(mean))
    ]
    assert ["times the errors that Poisson counts have" in text for text in said] == [True, False]


def test_a_rate_that_would_be_negative_is_held_at_zero(tmp_path):
    """x' = b - k x with b >= 0, where least squares alone has b = -0.019 (seed 0)."""
    t = np.linspace(0, 8, 15)
    noisy = 0.1 + 1.9 * np.exp(-0.5 * t) + 0.1 * np.random.default_rng(0).standard_normal(15)
    model = load({"x": "b - k*x"}, bounds={"b": (0, None), "k": (0, None)})
    with pytest.warns(DataWarning, match="at their bounds: b = 0"):
        model.fit(noisy, t, feature_names=["x"])
    model.save(tmp_path / "held")
    for own in (model, fim_dynsys.load_fitted(tmp_path / "held")):
        assert own.parameters_["b"] == 0.0 and np.isnan(own.parameter_errors_["b"])
        assert 0.02 < own.profile("b", 0.9).intervals[0.9][1] < 0.04  # 0.033 by least squares at fixed b
        drawn = [field.parameters["b"] for field in own.ensemble(100)]
        assert min(drawn) >= 0.0 and 0.02 < np.quantile(drawn, 0.9) < 0.06


def test_draws_of_a_number_near_zero_are_as_wide_as_its_error():
    t = np.linspace(0, 8, 40)
    noise = 0.1 * np.random.default_rng(0).standard_normal(40)
    flat = noise - t * (t @ noise) / (t @ t)
    fitted = load({"x": "b"}, initial={"x": 0.0})
    assert "known only roughly" in warnings_of(lambda: fitted.fit(flat, t, feature_names=["x"]))
    drawn = [field.parameters["b"] for field in fitted.ensemble(100)]
    assert np.std(drawn) == pytest.approx(fitted.parameter_errors_["b"], rel=0.25)


@pytest.mark.parametrize("seed", [3, 4, 6, 7])
def test_minima_that_fit_about_as_well_are_found_and_said(seed):
    """A Hill rate with basal supply: V < 0 and d < 0 fit these records about as well as the truth."""
    t = np.linspace(0, 30, 40)
    options = {"t_eval": t, "rtol": 1e-10, "atol": 1e-12}
    path = solve_ivp(lambda t, x: 0.05 + x**2 / (1 + x**2) - 0.3 * x, (0, 30), [0.5], **options).y[0]
    noisy = path + 0.05 * np.random.default_rng(seed).standard_normal(40)
    model = load({"x": "b + V*x**2/(K**2 + x**2) - d*x"})
    assert "another minimum fits about as well" in warnings_of(
        lambda: model.fit(noisy, t, feature_names=["x"])
    )
    best = load({"x": "b + V*x**2/(K**2 + x**2) - d*x"}, start={"b": 0.05, "V": 1.0, "K": 1.0, "d": 0.3})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best.fit(noisy, t, feature_names=["x"])
    assert model.fit_.descent.value <= best.fit_.descent.value + 0.05


@pytest.mark.parametrize("seed", [2, 3, 5, 9, 12, 17])
def test_noise_below_zero_at_the_first_sample_misleads_no_growth(seed):
    t = np.linspace(0, 12, 12)

    def logistic(t, r, capacity, first):
        return capacity / (1 + (capacity / first - 1) * np.exp(-r * t))

    noise = 0.3 * np.random.default_rng(seed).standard_normal(12)
    noise[0] = -0.25  # of a first value of 0.1
    noisy = logistic(t, 0.8, 10.0, 0.1) + noise
    expected = least_squares(lambda p: logistic(t, *p) - noisy, [0.8, 10.0, 0.1]).x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        model = load({"N": "r*N*(1 - N/K)"}).fit(noisy, t, feature_names=["N"])
    assert list(model.parameters_.values()) == pytest.approx(
        [expected[1], expected[0], expected[2]], rel=1e-3
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("last", [1, 2])
def test_one_sample_a_trajectory_is_a_record_like_others(last):
    """One animal a time, of which the last is sampled ``last`` times: all begin alike."""
    t = np.array([1.0, 2.0, 4.0, 8.0, 12.0, 16.0])
    y = 100 * np.exp(-0.2 * t) * (1 + 0.02 * np.random.default_rng(0).standard_normal(6))
    best = least_squares(lambda p: p[0] * np.exp(-p[1] * t) - y, [90.0, 0.1], xtol=1e-12, ftol=1e-12).x
    cuts = np.arange(1, 7 - last)
    model = load({"c": "-k*c"}, initial={"c": "c0"}, t0=0.0)
    model.fit(np.split(y[:, None], cuts), np.split(t, cuts), feature_names=["c"])
    np.testing.assert_allclose([model.parameters_[name] for name in ("c0", "k")], best, rtol=1e-6)
    assert model.field_.fit_info.follows_for == pytest.approx(
        np.mean([part[-1] for part in np.split(t, cuts)])
    )


def dosed(volumes, doses):
    """Oral doses into subjects of other volumes, with 5 % of noise."""
    noise = np.random.default_rng(0).standard_normal((len(volumes), len(HOURS), 1))
    clean = [oral(HOURS, volume=v, dose=d)[:, None] for v, d in zip(volumes, doses, strict=True)]
    return [c * (1 + 0.05 * e) for c, e in zip(clean, noise, strict=True)]


def records_of(x, **coords):
    return fim_dynsys.Trajectories.from_arrays(x, [HOURS] * len(x), state_names=["c"], coords=coords)


@pytest.mark.filterwarnings("error")
def test_a_coordinate_that_the_equations_name_is_a_known_constant_of_each_trajectory(tmp_path):
    volumes = [0.3, 0.6]
    x = dosed(volumes, [4.0, 4.0])
    options = {"initial": {"g": 4.0, "c": 0}, "t0": 0.0, "bounds": {"ka": (0.5, None)}}
    lengths = [len(HOURS), len(HOURS) - 1]  # trajectories differ in length
    uneven = fim_dynsys.Trajectories.from_arrays(
        [y[:n] for y, n in zip(x, lengths, strict=True)],
        [HOURS[:n] for n in lengths],
        state_names=["c"],
        coords={"V": volumes},
    )
    model = load(ORAL, **options).fit(uneven, observed=["c"])
    assert set(model.parameters_) == {"ka", "ke"}

    def off(p):
        every = [oral(HOURS, *p, v) - y[:, 0] for v, y in zip(volumes, x, strict=True)]
        return np.concatenate([own[:n] for own, n in zip(every, lengths, strict=True)])

    best = least_squares(off, [1.5, 0.08], xtol=1e-12, ftol=1e-12).x
    np.testing.assert_allclose([model.parameters_[name] for name in ("ka", "ke")], best, rtol=1e-4)
    assert model.field_.input_names == ("V",)
    assert "V taken as known" in repr(model.field_.fit_info)
    both = [np.column_stack([np.exp(-HOURS), y]) for y in x]
    records = fim_dynsys.Trajectories.from_arrays(
        both, [HOURS] * 2, state_names=["g", "c"], coords={"V": volumes}
    )
    expected = model.predict(both[1], u=np.full((len(HOURS), 1), 0.6))
    np.testing.assert_allclose(model.predict(records)[1], expected)
    assert model.score(records) == model.score(
        both, [HOURS] * 2, u=[np.full((len(HOURS), 1), v) for v in volumes]
    )
    again = fim_dynsys.load_fitted(model.save(tmp_path / "model"))
    assert again.fit_.descent.value == pytest.approx(model.fit_.descent.value)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "begun",
    [{"initial": {"g": "D", "c": 0}}, {"initial": {"g": 0, "c": 0}, "doses": [(0.0, "g", "D/2")] * 2}],
)
def test_first_states_and_doses_may_name_a_coordinate(begun, tmp_path):
    doses = [2.0, 8.0]
    data = records_of(dosed([0.5, 0.5], doses), D=doses)
    model = load(ORAL, t0=0.0, bounds={"ka": (0.5, None)}, **begun).fit(data, observed=["c"])
    found = [model.parameters_[name] for name in ("ka", "ke", "V")]
    np.testing.assert_allclose(found, [1.5, 0.08, 0.5], rtol=0.1)
    assert isinstance(model.field_, fim_dynsys.SymbolicField)  # without inputs: rates are the same in all
    again = fim_dynsys.load_fitted(model.save(tmp_path / "model"))
    assert again.fit_.descent.value == pytest.approx(model.fit_.descent.value)


@pytest.mark.parametrize(
    ("values", "options", "match"),
    [
        ([0.3, 0.6], {"bounds": {"V": (0.1, 1.0)}}, "got bounds too"),
        ([0.3, 0.6], {"fixed": {"V": 0.5}}, "got fixed too, 0.5; leave that out"),
        (["a", "b"], {}, r"finite number for each trajectory in the coordinate 'V'.*got \['a', 'b'\]"),
        ([0.3, np.nan], {}, "finite number for each trajectory"),
    ],
)
def test_a_coordinate_that_is_no_known_number_is_refused(values, options, match):
    data = records_of(dosed([0.3, 0.6], [4.0, 4.0]), V=values)
    with pytest.raises(ValueError, match=match):
        load(ORAL, initial={"g": 4.0, "c": 0}, t0=0.0, **options).fit(data, observed=["c"])


@pytest.mark.filterwarnings("error::fim_dynsys.errors.DataWarning")
@pytest.mark.parametrize(("noise", "seed"), [("laplace", 0), ("laplace", 1), ("log-laplace", 0)])
def test_absolute_residuals_are_least_at_a_kink_which_the_search_finds(noise, seed):
    """The optimum goes through some samples, where no gradient vanishes; Nelder and Mead need none."""
    t = np.linspace(0, 12, 40)
    of = np.log if noise == "log-laplace" else np.asarray

    def path(p):
        r, k, first = p
        return k / (1 + (k / first - 1) * np.exp(-r * t))

    off = np.random.default_rng(seed).laplace(size=40)
    y = path((0.8, 10, 0.5))
    y = y * np.exp(0.1 * off) if noise == "log-laplace" else y + 0.2 * off
    model = load({"N": "r*N*(1 - N/K)"}, noise=noise).fit(y, t, feature_names=["N"])

    def left(p):
        return np.abs(of(path(p)) - of(y)).sum()

    found = [model.parameters_[name] for name in ("r", "K", "N(0)")]
    options = {"xatol": 1e-8, "fatol": 1e-10, "maxiter": 4000}
    best = minimize(left, found, method="Nelder-Mead", options=options).fun
    assert len(t) * np.log(left(found) / best) < 2e-3  # log-likelihood units; kinks are a millionth wide


@pytest.mark.parametrize("seed", [2, 4])
def test_a_first_state_at_the_edge_of_where_the_equations_exist_ends_no_search(seed):
    """A tank that fills from empty: the data would have its first level, under a root, below 0."""
    t = np.linspace(0, 30, 25)
    level = orbit(lambda s, h: 0.5 - 0.4 * np.sqrt(np.maximum(h, 0.0)), [0.0], t)
    y = level + 0.05 * np.random.default_rng(seed).standard_normal(level.shape)
    model = load({"h": "q - c*sqrt(h)"}).fit(y, t, feature_names=["h"])  # without a FitWarning

    def off(p):
        return orbit(lambda s, h: p[0] - p[1] * np.sqrt(np.maximum(h, 0.0)), [0.0], t)[:, 0] - y[:, 0]

    best = least_squares(off, [0.5, 0.4], xtol=1e-12, ftol=1e-12, diff_step=1e-5).x
    np.testing.assert_allclose([model.parameters_[name] for name in ("q", "c")], best, rtol=1e-4)
    assert 0 <= model.parameters_["h(0)"] < 1e-6


def test_names_beside_observed_are_those_of_the_states_or_of_the_columns():
    t = np.linspace(0, 10, 60)
    u = np.sin(t)
    x = orbit(lambda s, x: [-x[0] + x[1], -0.5 * x[1] + np.sin(s)], [0.5, 1.0], t)
    rates = {"v": "-v + w", "w": "-k*w + I"}

    def fitted(names):
        return load(rates, hold="smooth").fit(x[:, :1], t, u=u, observed=["v"], feature_names=names)

    assert fitted(["v", "I"]).parameters_ == fitted(["v", "w", "I"]).parameters_
    assert fitted(["v", "I"]).parameters_["k"] == pytest.approx(0.5, rel=1e-3)
    with pytest.raises(
        ValueError, match=r"feature_names of the states v, w, or of the observed v, and inputs"
    ):
        fitted(["w", "I"])


@pytest.mark.parametrize("first", [3.0, 1000.0])
def test_poisson_counts_are_described_and_need_no_logarithms(first):
    t = np.linspace(0, 12, 40)
    counts = np.random.default_rng(0).poisson(first * np.exp(-0.5 * t))
    equations = load({"c": "-k*c"})
    said = warnings_of(lambda: equations.fit(counts, t, feature_names=["c"], sigma="poisson"))
    assert "does not describe" not in said and "times the errors" not in said
    model = fim_dynsys.load("fim-ode")
    said = warnings_of(lambda: model.fit(counts, t, feature_names=["c"], sigma="poisson"))
    said += warnings_of(lambda: model.fit(np.maximum(counts, 1), t, feature_names=["c"]))
    assert "times the errors" not in said and "log=" not in said
