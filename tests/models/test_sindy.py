"""SINDy: equal to pysindy's, and the strong version on data with a known truth."""

import csv
import warnings

import numpy as np
import pysindy
import pytest
from scipy.integrate import solve_ivp

import fim_dynsys
from fim_dynsys.errors import DataWarning, FitWarning, SimulationWarning
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.models.pysindy_objects import described, made
from fim_dynsys.models.sindy import LibraryField, SINDy
from fim_dynsys.models.sindy_strong import StrongSINDy
from fim_dynsys.regression import refinement
from fim_dynsys.regression.observed import STEPS_PER_GAP
from fim_dynsys.regression.rollout import rollout, substeps
from fim_dynsys.search import problem
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.testing import check_field, check_model
from fim_dynsys.trajectories.container import Trajectories
from tests.pysindy_release import equality


def van_der_pol(_, x):
    return [x[1], 1.2 * (1 - x[0] ** 2) * x[1] - x[0]]


def lotka_volterra(_, x):
    return [x[0] * (1.0 - 0.5 * x[1]), x[1] * (0.4 * x[0] - 0.9)]


def orbit(rhs, x0, t):
    return solve_ivp(rhs, (t[0], t[-1]), x0, t_eval=t, rtol=1e-10, atol=1e-10).y.T


T = np.linspace(0, 12, 240)
X = orbit(van_der_pol, [0.4, 0.1], T)
X2 = orbit(van_der_pol, [-1.5, 2.0], T[:150])
VAN_DER_POL = [" 1.00 x1", "-1.00 x0 +  1.20 x1 + -1.20 x0^2 x1"]


def noisy(x, sigma, seed, multiplicative=True):
    draw = np.random.default_rng(seed).normal(size=x.shape)
    return x * (1 + sigma * draw) if multiplicative else x + sigma * x.std(axis=0) * draw


# ------------------------------------------------------------------ stock


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"optimizer": pysindy.STLSQ(threshold=0.05, normalize_columns=True)},
        {"feature_library": pysindy.PolynomialLibrary(degree=3, include_bias=False)},
        {
            "feature_library": pysindy.PolynomialLibrary(
                degree=2, interaction_only=True, include_interaction=True
            )
        },
        {"differentiation_method": pysindy.SmoothedFiniteDifference(axis=-2)},
        {"feature_library": pysindy.FourierLibrary()},
        {"optimizer": pysindy.SR3(reg_weight_lam=0.01, regularizer="l0")},
    ],
    ids=lambda parts: ", ".join(type(v).__name__ for v in parts.values()) or "defaults",
)
def test_coefficients_names_and_score_equal_pysindys(parts):
    x, t = [noisy(X, 0.01, 0), X2], [T, T[:150]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = pysindy.SINDy(**parts).fit(x, t=t, feature_names=["u", "v"])
        ours = SINDy(**parts).fit(x, t, feature_names=["u", "v"])
    np.testing.assert_allclose(ours.coefficients(), theirs.coefficients(), rtol=1e-12, atol=1e-14)
    assert [text.count(" + ") for text in ours.equations()] == [
        max(int(np.count_nonzero(row)), 1) - 1 for row in theirs.coefficients()
    ]
    assert ours.get_feature_names() == theirs.get_feature_names()
    np.testing.assert_allclose(ours.predict(X[:5]), theirs.predict(X[:5]), rtol=1e-10, atol=1e-12)
    assert ours.score(X, T) == pytest.approx(theirs.score(X, t=T), rel=1e-9)


def test_given_derivatives_are_used():
    slopes = np.stack(van_der_pol(0, X.T), axis=1)
    theirs = pysindy.SINDy(feature_library=pysindy.PolynomialLibrary(degree=3)).fit(X, t=T, x_dot=slopes)
    ours = SINDy(feature_library=pysindy.PolynomialLibrary(degree=3)).fit(X, T, x_dot=slopes)
    np.testing.assert_allclose(ours.coefficients(), theirs.coefficients(), rtol=1e-12)
    assert ours.equations() == VAN_DER_POL
    assert ours.equations(style="plain") == ["x1", "-x0 + 1.2 x1 - 1.2 x0^2 x1"]


def test_objects_given_are_fitted_in_place_by_fit_alone():
    optimizer = pysindy.STLSQ(threshold=0.05)
    model = SINDy(optimizer=optimizer).fit(X, T)
    np.testing.assert_array_equal(optimizer.coef_, model.coefficients())
    assert model.n_output_features_ == 6 and model.n_control_features_ == 0
    before = optimizer.coef_.copy()
    model.ensemble(2)
    np.testing.assert_array_equal(optimizer.coef_, before)


# ------------------------------------------------------------------ inputs


def driven(t, x, omega=2.0):
    return [x[1], -x[0] - 0.2 * x[1] + np.sin(omega * t)]


TD = np.linspace(0, 12, 400)
XD = orbit(driven, [1.0, 0.0], TD)
UD = np.sin(2.0 * TD)


def test_with_inputs_as_pysindy_has_it():
    x, t, u = [XD, XD[:150]], [TD, TD[:150]], [UD[:, None], UD[:150, None]]
    theirs = pysindy.SINDy().fit(x, t=t, u=u)
    ours = SINDy().fit(x, t, u=u)
    np.testing.assert_array_equal(ours.coefficients(), theirs.coefficients())
    assert ours.get_feature_names() == theirs.get_feature_names()
    np.testing.assert_allclose(ours.predict(XD[:5], UD[:5]), theirs.predict(XD[:5], UD[:5]), rtol=1e-12)
    assert ours.score(XD, TD, u=UD) == pytest.approx(theirs.score(XD, TD, u=UD), rel=1e-9)
    assert ours.n_control_features_ == theirs.n_control_features_ == 1


def test_a_driven_field_predicts_under_inputs_that_it_never_saw():
    model = SINDy(optimizer=pysindy.STLSQ(threshold=0.05)).fit(XD, TD, u=UD, feature_names=["x", "v", "F"])
    assert model.equations() == [" 1.00 v", "-1.00 x + -0.200 v +  0.999 F"]
    expected = orbit(lambda t, x: driven(t, x, 0.7), [0.3, -0.5], TD)
    path = model.simulate([0.3, -0.5], TD, u=lambda t: np.sin(0.7 * t))
    assert np.abs(path - expected).max() < 5e-3
    assert np.abs(model.simulate([0.3, -0.5], TD, u=np.sin(0.7 * TD)) - path).max() < 1e-5
    assert model.field_.fit_info.path_r2 > 0.999
    held = model.field_.at_input({"F": 0.5})
    (point,) = fim_dynsys.analyze.fixed_points(held, [(-2, 2), (-2, 2)]).x
    np.testing.assert_allclose(point, [0.5, 0.0], atol=2e-3)
    family = model.field_.family("F")
    np.testing.assert_allclose(family([[0.0, 0.0]], 0.5), held([[0.0, 0.0]]))
    with pytest.raises(ValueError, match=r"values of the inputs \['F'\]"):
        model.field_.at_input({"G": 1.0})


def test_libraries_other_than_polynomials_take_inputs():
    library = pysindy.PolynomialLibrary(degree=1) + pysindy.FourierLibrary()
    model = SINDy(feature_library=library).fit(XD[::4], TD[::4], u=UD[::4])
    held = model.field_.at_input([0.3])
    np.testing.assert_allclose(held(XD[:4]), model.predict(XD[:4], np.full((4, 1), 0.3)))
    check_field(held, XD[::50])


def test_what_needs_inputs_says_so(tmp_path):
    model = SINDy().fit(XD, TD, u=UD)
    for call in (
        lambda: model.predict(XD),
        lambda: model.score(XD, TD),
        lambda: model.simulate(XD[0], TD),
        lambda: model.forecast(XD[0], TD),
        lambda: fim_dynsys.analyze.fixed_points(model, [(-2, 2), (-2, 2)]),
    ):
        with pytest.raises(TypeError, match="expected inputs u"):
            call()
    with pytest.raises(ValueError, match=r"inputs u of shape \(400, 1\)"):
        model.predict(XD, np.ones((400, 2)))
    model.save(tmp_path)
    again = fim_dynsys.load_fitted(tmp_path)
    np.testing.assert_array_equal(again.coefficients(), model.coefficients())
    assert again.context_.equals(model.context_)


def test_events_and_methods_that_only_scipy_has():
    model = SINDy(feature_library=pysindy.PolynomialLibrary(degree=3)).fit(X, T)
    reference = model.simulate(X[0], T)
    for method in ("BDF", "RK23"):
        path = model.simulate(X[0], T, integrator_kws={"method": method})
        np.testing.assert_allclose(path, reference, atol=1e-4)

    def crossing(t, x):
        return x[0] - 1.5

    crossing.terminal = True
    with pytest.warns(SimulationWarning, match="the path ends at"):
        path = model.simulate(X[0], T, integrator_kws={"events": crossing})
    ended = np.isnan(path).all(axis=1)
    assert 0 < ended.sum() < len(T) and np.nanmax(path[:, 0]) < 1.5


# ------------------------------------------------------------------ objects of pysindy


@pytest.mark.parametrize(
    "library",
    [
        pysindy.CustomLibrary([lambda x: x, lambda x, y: x * y]),
        pysindy.WeakPDELibrary(pysindy.PolynomialLibrary(3, include_bias=False), spatiotemporal_grid=T, K=40),
        pysindy.PDELibrary(pysindy.PolynomialLibrary(3, include_bias=False), include_bias=True),
    ],
    ids=lambda library: type(library).__name__,
)
def test_objects_that_scikit_learn_cannot_clone(library):
    theirs = pysindy.SINDy(feature_library=library).fit(X, T)
    ours = SINDy(feature_library=library).fit(X, T)
    np.testing.assert_array_equal(ours.coefficients(), theirs.coefficients())
    check_field(ours.field_, X[::40], pickling=False)


def test_equations_with_derivatives_are_pysindys_own():
    grid = np.linspace(0, 1, 30)
    t = np.linspace(0, 0.1, 20)
    u = np.exp(-(np.pi**2) * t)[None, :, None] * np.sin(np.pi * grid)[:, None, None]
    library = pysindy.PDELibrary(
        pysindy.PolynomialLibrary(degree=1, include_bias=False), derivative_order=2, spatial_grid=grid
    )
    model = SINDy(feature_library=library).fit(u, t)
    assert model.coefficients().shape == (1, len(model.get_feature_names()))
    assert np.isfinite(model.score(u, t)) and len(model.equations()) == 1
    with pytest.raises(ValueError, match="no vector field"):
        _ = model.field_
    plain = {
        "feature_library": pysindy.PolynomialLibrary(),
        "differentiation_method": pysindy.FiniteDifference(),
    }
    model.set_params(**plain).fit(X, T)
    assert len(model.get_feature_names()) == 6


def test_objects_come_back_from_disk_as_plain_data(tmp_path):
    optimizer = pysindy.SR3(initial_guess=np.eye(2, 6), regularizer="l1")
    library = pysindy.ConcatLibrary([pysindy.PolynomialLibrary(degree=1), pysindy.FourierLibrary()])
    model = SINDy(optimizer=pysindy.SR3(regularizer="l1"), feature_library=library).fit(X, T)
    model.save(tmp_path)
    again = fim_dynsys.load_fitted(tmp_path)
    np.testing.assert_array_equal(again.coefficients(), model.coefficients())
    np.testing.assert_array_equal(made(described(optimizer)).initial_guess, np.eye(2, 6))
    for wrong in (
        {"class": "os"},
        {"class": "PolynomialLibrary", "degree": 10**6},
        {"class": "STLSQ", "no": 1},
    ):
        with pytest.raises(ValueError, match="sindy: expected"):
            made(wrong)
    with pytest.raises(ValueError, match=r"can be written down|tell their parameters"):
        SINDy(feature_library=pysindy.CustomLibrary([lambda x: np.tanh(x)])).fit(X, T).save(tmp_path)


def test_steps_and_spaces_of_trajectories_as_pysindy_takes_them():
    dt = T[1]
    by_steps = SINDy().fit([X, X2], [dt, dt])
    np.testing.assert_allclose(by_steps.coefficients(), SINDy().fit([X, X2], dt).coefficients())
    stacked = np.stack([X[:150], X2])
    np.testing.assert_allclose(
        SINDy().fit(stacked, dt).coefficients(), SINDy().fit(list(stacked), dt).coefficients()
    )
    with pytest.raises(ValueError, match="pass the times of one array as an array"):
        SINDy().fit(X, list(T))


def test_nested_lists_are_one_trajectory_and_steps_are_positive():
    nested = SINDy().fit(X.tolist(), T.tolist())
    np.testing.assert_array_equal(nested.coefficients(), SINDy().fit(X, T).coefficients())
    for step in (-0.1, np.inf, np.nan, 2**70 * 10**300):
        with pytest.raises(ValueError, match=r"sindy\.fit: expected t as a positive finite number"):
            SINDy().fit([X, X2], [step, 0.1])


def test_other_libraries_give_a_field_with_derivatives():
    library = pysindy.CustomLibrary(
        [lambda x: np.tanh(x), lambda x, y: x * y], [lambda x: f"tanh({x})", None]
    )
    library = pysindy.ConcatLibrary([pysindy.PolynomialLibrary(degree=1), pysindy.FourierLibrary()])
    field = SINDy(feature_library=library).fit(X, T).field_
    assert isinstance(field, LibraryField)
    check_field(field, X[::40])


def test_missing_samples_are_dropped_once_with_a_warning():
    x = X.copy()
    x[[5, 60, 61], 0] = np.nan
    keep = np.isfinite(x).all(axis=1)
    with pytest.warns(DataWarning, match="3"):
        ours = SINDy().fit(x, T)
    np.testing.assert_allclose(ours.coefficients(), pysindy.SINDy().fit(X[keep], t=T[keep]).coefficients())


def test_short_trajectories_are_refused_by_name():
    with pytest.raises(ValueError, match=r"sindy: expected at least 3 complete samples in each.*got 2"):
        SINDy().fit([X, X2[:2]], [T, T[:2]])


# ------------------------------------------------------------------ strong


def test_strong_recovers_van_der_pol_from_clean_data():
    model = StrongSINDy().fit(X, T)
    assert model.equations(style="pysindy") == VAN_DER_POL
    report = model.field_.fit_info.report
    assert report["candidates"] > 50
    assert report["refined"] is True
    np.testing.assert_allclose(model.field_.fit_info.initial_states[0], X[0], atol=1e-3)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_strong_recovers_lotka_volterra_from_noisy_subsampled_data(seed):
    t = np.linspace(0, 20, 300)
    x = orbit(lotka_volterra, [2.0, 1.0], t)
    keep = np.sort(np.random.default_rng(seed).permutation(300)[:150])
    model = StrongSINDy().fit(noisy(x, 0.02, seed)[keep], t[keep])
    names, c = model.get_feature_names(), model.coefficients()
    expected = np.zeros_like(c)
    expected[0, names.index("x0")], expected[0, names.index("x0 x1")] = 1.0, -0.5
    expected[1, names.index("x1")], expected[1, names.index("x0 x1")] = -0.9, 0.4
    np.testing.assert_array_equal(c != 0, expected != 0)
    np.testing.assert_allclose(c, expected, atol=0.02)
    level = 0.02 * np.sqrt(np.mean(x**2, axis=0))
    np.testing.assert_allclose(model.field_.fit_info.noise_level, level, rtol=0.35)


def test_strong_uses_all_trajectories():
    short = [orbit(van_der_pol, x0, T[:40]) for x0 in np.random.default_rng(0).uniform(-2, 2, size=(8, 2))]
    model = StrongSINDy().fit([noisy(x, 0.02, k) for k, x in enumerate(short)], [T[:40]] * 8)
    terms = [set(e.replace("+", "").split()[1::2]) for e in model.equations(style="pysindy")]
    assert terms[0] == {"x1"}
    assert model.field_.fit_info.initial_states.shape == (8, 2)
    assert np.abs(model.predict(X) - np.stack(van_der_pol(0, X.T), axis=1)).max() < 0.3


def test_units_of_state_and_time_do_not_matter():
    scale, unit = np.array([1e3, 1e-2]), 60.0
    x = noisy(X, 0.03, 5)
    one, other = StrongSINDy().fit(x, T), StrongSINDy().fit(x * scale, 4.0 + unit * T)
    # thousands of iterations amplify the rounding of the rescaled data
    np.testing.assert_allclose(
        other.predict(X * scale), one.predict(X) * scale / unit, rtol=1e-5, atol=1e-5 * scale.min() / unit
    )
    assert one.field_.fit_info.report["chosen"] == other.field_.fit_info.report["chosen"]


def test_order_of_trajectories_does_not_matter():
    x, t = [noisy(X, 0.02, 1), noisy(X2, 0.02, 2)], [T, T[:150]]
    one, other = StrongSINDy().fit(x, t), StrongSINDy().fit(x[::-1], t[::-1])
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-6, atol=1e-7)


def test_ensemble_keeps_the_structure():
    model = StrongSINDy().fit(
        [noisy(X, 0.02, 1), noisy(X2, 0.02, 2), noisy(X[40:], 0.02, 3)], [T, T[:150], T[40:]]
    )
    members = model.ensemble(6, seed=1)
    assert len(members) == 6
    for member in members:
        assert isinstance(member, DictionaryField)
        assert not (member.coefficients[model.field_.coefficients == 0]).any()
        np.testing.assert_allclose(member.coefficients, model.field_.coefficients, atol=0.1)


@pytest.fixture
def steps(monkeypatch):
    """Counts Runge-Kutta steps of all observed together, and steps with sensitivities of all intervals."""
    counted = {"rollout": [], "linearised": []}

    def counting_rollout(dictionary, coefficients, x0, t, limit, **kwargs):
        counted["rollout"].append(int(substeps(t, limit).max(axis=0).sum()))
        return rollout(dictionary, coefficients, x0, t, limit, **kwargs)

    shooting = refinement.Shooting.__init__

    def counting_shooting(self, *args):
        shooting(self, *args)
        counted["linearised"].append(int(self.counts.max()))

    monkeypatch.setattr(problem, "rollout", counting_rollout)
    monkeypatch.setattr(refinement.Shooting, "__init__", counting_shooting)
    return counted


ORBIT = np.linspace(0, 12, 120)


def oscillator(t, radius, seed):
    t = np.asarray(t, dtype=float)
    return noisy(radius * np.stack([np.cos(t), -np.sin(t)], axis=1), 0.02, seed)


@pytest.mark.parametrize(
    "times",
    [
        [0, 5, 5 + 1e-2],
        [0, 5, 5 + 1e-4],
        [0, 5, 5 + 1e-6],
        [0, 5, 5 + 1e-9],
        [0, 1e-6],
        [0, 1e-6, 2e-6, 3e-6],
        [0, 5e3, 5e3 + 1e-6],
        [0, 5e3],
        [*ORBIT[:40], 1e6],
        [-1e6, *ORBIT[:40]],
    ],
    ids=str,
)
def test_close_and_distant_samples_cost_nothing_and_change_nothing(times, steps):
    x, t = [oscillator(ORBIT, 1.0, 0), oscillator(times, 1.5, 1)], [ORBIT, np.array(times, dtype=float)]
    model = StrongSINDy().fit(x, t)
    expected = np.zeros((len(model.get_feature_names()), 2))
    expected[model.get_feature_names().index("x1"), 0] = 1.0
    expected[model.get_feature_names().index("x0"), 1] = -1.0
    np.testing.assert_allclose(model.coefficients(), expected.T, atol=0.01)
    assert model.field_.fit_info.initial_states.shape == (2, 2)
    np.testing.assert_allclose(
        model.field_.fit_info.initial_states[:, 0], [1.0, 1.5 * np.cos(times[0])], atol=0.1
    )
    # a step for each gap of the long trajectory, and those over the gap of 5: none over 5e3
    assert max(steps["rollout"]) <= 200
    assert max(steps["linearised"]) <= STEPS_PER_GAP


def test_samples_that_almost_coincide_count_as_two(steps):
    t = np.sort(np.concatenate([T[:120], T[:120] + 1e-7]))
    x = noisy(orbit(van_der_pol, [0.4, 0.1], t), 0.02, 0)
    np.testing.assert_allclose(
        StrongSINDy().fit(x, t).predict(X[::20]), np.stack(van_der_pol(0, X[::20].T), axis=1), atol=0.5
    )
    assert max(steps["rollout"]) <= 2 * len(t)


@pytest.mark.parametrize("seed", range(4))
def test_work_is_bounded_by_the_number_of_samples(seed, steps):
    rng = np.random.default_rng(seed)
    counts = rng.integers(2, 15, 3)
    t = [np.cumsum(10.0 ** rng.uniform(-8, 8, n)) for n in counts]
    StrongSINDy().fit([rng.uniform(-1, 1, (n, 2)) for n in counts], t)
    assert max(steps["rollout"]) <= STEPS_PER_GAP * counts.sum()
    assert max(steps["linearised"], default=0) <= STEPS_PER_GAP


def test_without_motion_nothing_moves():
    with pytest.warns(DataWarning):
        field = StrongSINDy().fit(np.ones((30, 2)), 0.1).field_
    assert field.complexity == 0
    noise = np.random.default_rng(0).normal(size=(60, 1))
    assert StrongSINDy().fit(5 + 0.1 * noise, 0.1).field_.complexity <= 2


def test_noise_level_and_regression_only():
    model = StrongSINDy(refined=0).fit(noisy(X, 0.05, 3, multiplicative=False), T)
    assert model.field_.fit_info.report["refined"] is False
    np.testing.assert_allclose(model.field_.fit_info.noise_level, 0.05 * X.std(axis=0), rtol=0.2)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"degree": 0}, "degree >= 1, got 0"),
        ({"degree": 2.5}, "got 2.5"),
        ({"refined": -1}, "refined >= 0, got -1"),
    ],
)
def test_bad_parameters_are_named(params, words):
    with pytest.raises(ValueError, match=f"sindy-strong: expected an integer.*{words}"):
        StrongSINDy(**params).fit(X, T)


def test_too_few_samples_are_named():
    data = Trajectories.from_arrays([X[:1], X[4:5], X[:3]], [T[:1], T[4:5], T[:3]])
    with pytest.raises(ValueError, match="sindy-strong: expected at least 5 complete samples"):
        StrongSINDy().fit(data)


@pytest.mark.parametrize("name", ["sindy", "sindy-strong"])
def test_contract(name):
    check_model(lambda: fim_dynsys.load(name))


def test_strong_follows_long_chaos_over_short_horizons():
    """Lorenz to t = 25: no field follows the record from start to end, and none did better than rest."""
    lorenz = fim_dynsys.CallableField(
        lambda x: np.stack(
            [
                10 * (x[:, 1] - x[:, 0]),
                x[:, 0] * (28 - x[:, 2]) - x[:, 1],
                x[:, 0] * x[:, 1] - 8 / 3 * x[:, 2],
            ],
            axis=1,
        ),
        3,
    )
    t = np.linspace(0, 25, 5000)
    clean = simulate(lorenz, np.array([-8.0, 8.0, 27.0]), t).x[0]
    noisy = clean + 0.2 * np.random.default_rng(0).standard_normal(clean.shape)
    model = fim_dynsys.load("sindy-strong").fit(noisy, t)
    error = np.linalg.norm(model.predict(clean) - lorenz(clean)) / np.linalg.norm(lorenz(clean))
    assert error < 0.01  # 0.002 when written
    assert np.count_nonzero(model.coefficients()) == 7
    assert model.field_.fit_info.window_r2 > 0.99  # of unit windows; the whole record is no measure of chaos


@pytest.mark.parametrize("seed", range(5))
def test_strong_does_not_look_at_noise_through_windows(seed):
    t = np.linspace(0, 10, 100)
    noise = np.random.default_rng(seed).standard_normal((100, 1))
    model = fim_dynsys.load("sindy-strong").fit(noise, t)
    assert model.field_.fit_info.inference.window is None


def test_warnings_of_pysindy_come_under_a_name_of_ours():
    still = np.linspace(0.0, 1e-3, 20)[:, None]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SINDy().fit(still, 0.1)
    assert {w.category for w in caught} <= {DataWarning, FitWarning}
    (said,) = [str(w.message) for w in caught if "pysindy" in str(w.message)]
    assert said == "sindy: pysindy warns: Sparsity parameter is too big (0.1) and eliminated all coefficients"


def test_too_many_monomials_are_refused_before_they_fill_the_memory():
    wide = np.random.default_rng(0).normal(size=(20, 30))
    with pytest.raises(ValueError, match="expected at most 500 monomials, got 5456 of degree 3 in 30 states"):
        StrongSINDy().fit(wide, 0.1)


def test_every_setting_of_stock_is_equal():
    """The committed table of `python -m tests.pysindy_release.equality`, and some of its rows anew."""
    with equality.TABLE.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    kinds = {"optimizer": 28, "feature_library": 24, "differentiation_method": 15}
    for kind, count in kinds.items():
        assert [row["stock"] for row in rows if row["kind"] == kind] == ["runs"] * count
    assert equality.unequal(rows) == []
    for kind, settings, name in (
        ("optimizer", equality.OPTIMIZERS, "WrappedOptimizer(Lasso)"),
        ("optimizer", equality.OPTIMIZERS, "EnsembleOptimizer(bagging)"),
        ("feature_library", equality.LIBRARIES, "ConcatLibrary()"),
        ("differentiation_method", equality.DIFFERENTIATIONS, "SmoothedFiniteDifference()"),
    ):
        row = equality.compared(kind, name, {kind: settings[name]})
        assert equality.unequal([row]) == [] and row["stock"] == "runs", row
