"""Every fit says how well it fits, and warns where it does not."""

import warnings

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fim_dynsys
from fim_dynsys import CallableField, Trajectories
from fim_dynsys.errors import FitWarning
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.inference import Inference, Judge, Trust
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.fit_quality import compared

# Boys in bed at an English boarding school, 1978 (British Medical Journal 1978, 1:587)
IN_BED = np.array([3, 8, 26, 76, 225, 298, 258, 233, 189, 128, 68, 29, 14, 4.0])


class Given(VectorFieldModel):
    """Answers with a field that is given."""

    name = "given"

    def __init__(self, field=None):
        self.field = field

    def infer(self, trajectories):
        return self.field


def lorenz(x):
    return np.stack(
        [10 * (x[:, 1] - x[:, 0]), x[:, 0] * (28 - x[:, 2]) - x[:, 1], x[:, 0] * x[:, 1] - 8 / 3 * x[:, 2]], 1
    )


def roessler(x):
    return np.stack([-x[:, 1] - x[:, 2], x[:, 0] + 0.2 * x[:, 1], 0.2 + x[:, 2] * (x[:, 0] - 5.7)], 1)


def record(rhs, start, end, n, noise, seed=0):
    t = np.linspace(0.0, end, n)
    x = solve_ivp(lambda _, y: rhs(y[None])[0], (0, end), start, t_eval=t, rtol=1e-9, atol=1e-9).y.T
    return t, x + noise * x.std(0) * np.random.default_rng(seed).standard_normal(x.shape)


def fitted(field, t, x):
    return Given(field).fit(x, t).field_.fit_info


def test_the_true_field_of_a_chaotic_record_is_judged_by_short_windows():
    """Its path leaves the record, as any does that starts a little beside: no reason for a warning."""
    t, x = record(lorenz, [1.0, 1.0, 20.0], 25.0, 2000, 0.02)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        info = fitted(CallableField(lorenz, 3), t, x)
    assert info.path_r2 < 0.5 and 0.05 < info.follows < 0.6
    assert info.window_r2 > 0.98 and info.residual_over_noise < 2.0
    assert 1.0 < info.follows_for < 15.0
    assert f"{100 * info.follows:.0f} % of the record" in info.summary()


def test_a_path_that_follows_all_jumps_is_no_problem_where_restarts_miss_them():
    """Van der Pol's: errors of starts grow twenty-fold where the state jumps."""

    def rhs(x):
        return np.stack([x[:, 1], 10.0 * (1.0 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], 1)

    t, x = record(rhs, [2.0, 0.0], 60.0, 200, 0.03)
    field = CallableField(rhs, 2).with_fit_info(initial_states=np.array([[2.0, 0.0]]))
    info = fitted(field, t, x)
    assert info.residual_over_noise > 3.0 and info.path_r2 > 0.995
    assert info.problems == ()


def test_sums_of_terms_and_other_fields_are_judged_alike():
    terms = Dictionary.polynomial(2, 1)
    a = np.array([[-0.1, 2.0], [-2.0, -0.1]])
    field = DictionaryField(terms, np.concatenate([np.zeros((1, 2)), a.T]))
    t, x = record(lambda y: y @ a.T, [1.0, 0.5], 10.0, 80, 0.02)
    exact, other = fitted(field, t, x), fitted(CallableField(lambda y: y @ a.T, 2), t, x)
    assert exact.path_r2 > 0.999 and exact.follows == 1.0 and exact.problems == ()
    for name in ("path_r2", "window_r2", "residual_over_noise", "follows", "follows_for"):
        assert getattr(exact, name) == pytest.approx(getattr(other, name), rel=0.02)


def test_the_figures_do_not_depend_on_units():
    t, x = record(roessler, [1.0, 1.0, 0.0], 40.0, 300, 0.03)
    factor, hour = np.array([2.0**10, 2.0**-7, 2.0**3]), 2.0**12
    scaled = CallableField(lambda y: roessler(y / factor) * factor / hour, 3)
    one, other = fitted(CallableField(roessler, 3), t, x), fitted(scaled, t * hour, x * factor)
    for name in ("path_r2", "window_r2", "residual_over_noise", "follows"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-6)
    assert other.follows_for == pytest.approx(hour * one.follows_for)


@pytest.mark.parametrize("name", ["fim-ode", "sindy-strong", "sindy"])
def test_counts_that_no_autonomous_field_of_one_state_describes(name):
    with pytest.warns(FitWarning, match=r"does not describe the data.*times the noise"):
        model = fim_dynsys.load(name).fit(IN_BED[:, None], np.arange(14.0), feature_names=["B"])
    info = model.field_.fit_info
    assert info.window_r2 < 0.3 and info.problems


@pytest.mark.parametrize("rest", [np.zeros((4, 3)), np.vstack([np.zeros((1, 3)), 0.01 * np.eye(3)])])
def test_no_motion_on_a_chaotic_record(rest):
    t, x = record(lorenz, [1.0, 1.0, 20.0], 60.0, 300, 0.1)
    with pytest.warns(FitWarning):
        info = fitted(DictionaryField(Dictionary.polynomial(3, 1), rest), t, x)
    assert info.follows < 0.2 and info.path_r2 < 0.1


@pytest.fixture(scope="module")
def spikes():
    return record(roessler, [1.0, 1.0, 0.0], 400.0, 2000, 0.02)


def test_errors_of_starts_that_grow_are_no_misfit(spikes):
    """A smoothed start misses the spikes of the third state by several noise levels; the field does not."""
    t, x = spikes
    info = fitted(CallableField(roessler, 3), t, x)
    assert not info.problems and 0.8 < info.residual_over_noise < 1.2


def test_a_wrong_field_is_a_misfit_from_corrected_starts_too(spikes):
    t, x = spikes
    wrong = CallableField(lambda x: roessler(x) * [1.0, 1.0, 0.5], 3)
    with pytest.warns(FitWarning, match="in short windows"):
        info = fitted(wrong, t, x)
    assert info.residual_over_noise > 3.0


def test_a_linear_field_of_a_roessler_record():
    t, x = record(roessler, [1.0, 1.0, 0.0], 100.0, 1000, 0.02)
    columns = np.column_stack([np.ones(len(x)), x])
    linear = np.linalg.lstsq(columns, np.gradient(x, t, axis=0), rcond=None)[0]
    with pytest.warns(FitWarning, match="times the noise"):
        info = fitted(DictionaryField(Dictionary.polynomial(3, 1), linear), t, x)
    assert info.residual_over_noise > 5.0


@pytest.mark.parametrize(("end", "n"), [(15.0, 6000), (10.0, 200)])
def test_exact_equations_of_chaos_are_not_said_to_miss_it(end, n):
    """Starts of windows are the samples there: errors of smoothed ones would grow."""
    t, x = record(lorenz, [1.0, 1.0, 20.0], end, n, 0.0)
    info = fim_dynsys.load("fim-ode").fit(x, t).field_.fit_info
    assert info.to_precision and info.trust is Trust.HIGH and not info.problems


@pytest.mark.parametrize(
    ("off", "elsewhere", "said", "precise"),
    [
        (0.0, None, False, True),
        (0.0, 1e-3, False, True),
        (0.0, 0.5, True, True),
        (0.03, None, True, False),
        (0.001, None, True, False),
        (0.0001, None, False, False),  # small, but no error of integration
    ],
)
def test_equations_of_noise_free_samples_are_exact_or_warned_of(off, elsewhere, said, precise):
    t = np.linspace(0.0, 10.0, 80)
    path = solve_ivp(lambda _, x: [x[1], -x[0]], (0.0, 10.0), [1.0, 0.0], rtol=1e-10, atol=1e-12, t_eval=t)
    field = DictionaryField(
        Dictionary.polynomial(2, 1),
        np.array([[0.0, 0.0], [0.0, -1.0 - off], [1.0, 0.0]]),
        context=Trajectories.from_arrays(path.y.T, t),
        fit_info=FitInfo(inference=Inference(Judge.EXACT, elsewhere=elsewhere)),
    )
    found = compared(field, field.context)
    assert (": an approximation" in " ".join(found.problems)) == said
    assert found.to_precision == precise
    assert found.trust is (Trust.LOW if said else Trust.HIGH if precise else Trust.LIMITED)


def test_a_path_that_leaves_the_data():
    t, x = record(lambda y: -y, [1.0] * 5, 2.0, 9, 0.0)
    with pytest.warns(FitWarning, match="leaves the data"):
        info = fitted(CallableField(lambda y: 3.0 * y, 5), t, x)
    assert info.follows < 0.2 and np.isfinite(info.path_r2)


def test_a_path_out_of_step_is_a_failure_without_chaos():
    """Noise hides in short windows that a frequency is 10 % off; the whole record shows it."""
    t, x = record(lambda x: np.stack([x[:, 1], -x[:, 0]], 1), [1.0, 0.0], 60.0, 300, 0.2)
    info = fitted(CallableField(lambda x: np.stack([x[:, 1], -1.2 * x[:, 0]], 1), 2), t, x)
    assert info.window_r2 > 0.8 and info.path_r2 < 0.0
    assert "although paths from nearby starts stay together" in info.problems[0]


def test_a_path_that_ends_early_has_no_score():
    t, x = record(lambda y: -y, [1.0] * 5, 2.0, 9, 0.0)
    fields = CallableField(lambda y: 30.0 * y, 5), CallableField(lambda y: -1.0 - np.sqrt(y), 5)
    for field, reason in zip(fields, ("it has left all bounds", "not finite"), strict=True):
        with pytest.warns(FitWarning, match=f"its path ends at .* of 2: .*{reason}"):
            model = Given(field).fit(x * 0.9, t)
        assert model.field_.fit_info.path_r2 == -np.inf == model.score(x * 0.9, t, metric="path")


def lienard(mu):
    return lambda z: np.stack([mu * (z[:, 0] - z[:, 0] ** 3 / 3 - z[:, 1]), z[:, 0] / mu], 1)


@pytest.mark.parametrize("mu", [10.0, 20.0])
def test_the_true_field_of_a_relaxation_oscillation_is_no_failure(mu):
    """Its transients are shorter than a hundredth of the gaps between the samples."""
    rates, t = lienard(mu), np.arange(200) * 0.4
    x = solve_ivp(lambda _, z: rates(z[None])[0], (0, t[-1]), [2.0, 0.0], "LSODA", t, rtol=1e-11, atol=1e-13)
    terms = Dictionary.polynomial(2, 3)
    coefficients = np.zeros((len(terms), 2))
    for powers, state, value in (
        ((1, 0), 0, mu),
        ((3, 0), 0, -mu / 3),
        ((0, 1), 0, -mu),
        ((1, 0), 1, 1 / mu),
    ):
        coefficients[terms.exponents.tolist().index([*powers]), state] = value
    for field in (DictionaryField(terms, coefficients), CallableField(rates, 2)):
        with warnings.catch_warnings():
            warnings.simplefilter("error", FitWarning)
            model = Given(field).fit(x.y.T, t)
        info = model.field_.fit_info
        assert info.path_r2 == pytest.approx(1.0, abs=1e-6) and info.window_r2 > 0.99
        assert model.score(x.y.T, t, metric="path") == pytest.approx(info.path_r2, abs=1e-9)


def test_noise_free_spikes_that_smoothing_misses_are_fitted_exactly():
    """A Brusselator whose spikes have three samples each: its slopes look noisy, its path does not."""

    def rates(x):
        fed = x[:, 0] ** 2 * x[:, 1]
        return np.stack([1 - 9 * x[:, 0] + fed, 8 * x[:, 0] - fed], 1)

    t, x = record(rates, [1.0, 1.0], 30.0, 400, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        model = fim_dynsys.load("fim-ode").fit(x, t)
    np.testing.assert_allclose(model.field_(x), rates(x), atol=1e-5)
    nearly = CallableField(lambda z: rates(z) * [1.0, 1.0 - 1e-6], 2)
    assert not fitted(nearly, t, x).problems


def test_a_state_at_rest_is_no_failure():
    t = np.linspace(0.0, 10.0, 80)
    x = 1.0 + 0.01 * np.random.default_rng(0).standard_normal((80, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        assert fitted(CallableField(lambda y: 1.0 - y, 2), t, x).problems == ()


def test_still_states_and_times_close_together_cost_no_more():
    """A state that varies by rounding alone, or two samples at almost one time, make no fast motion."""
    t = np.sort(np.append(np.linspace(0.0, 6.0, 50), 3.0 + 1e-9))
    x = np.column_stack([np.cos(t), np.full(51, 0.1) + 1e-17 * np.sin(t)])
    x[25] += 0.01
    field = DictionaryField(Dictionary.polynomial(2, 1), np.zeros((3, 2)))
    info = compared(field, Trajectories.from_arrays(x, t))
    assert info.follows < 1.0 and np.isfinite(info.residual_over_noise)


def test_what_cannot_be_compared_stays_open():
    field = CallableField(lambda y: -y, 1)
    for t, x in (([0.0, 1.0, 2.0, 3.0], np.ones((4, 1))), ([0.0, 1.0], np.array([[1.0], [np.nan]]))):
        assert compared(field, Trajectories.from_arrays(x, np.array(t))) == FitInfo()
    assert FitInfo().summary() == "not compared with the data"


def test_inference_itself_says_nothing():
    t = np.arange(14.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        field = fim_dynsys.load("fim-ode").infer(Trajectories.from_arrays(IN_BED[:, None], t))
    assert field.fit_info.path_r2 is None


def test_a_restored_model_is_compared_again(tmp_path):
    t, x = record(lambda y: np.stack([y[:, 1], -y[:, 0]], 1), [1.0, 0.0], 10.0, 60, 0.02)
    model = fim_dynsys.load("fim-ode").fit(x, t)
    again = fim_dynsys.load_fitted(model.save(tmp_path)).field_.fit_info
    assert again.summary() == model.field_.fit_info.summary()


def test_too_few_samples_for_a_search_are_said(capsys):
    t = np.linspace(0.0, 3.0, 4)
    model = fim_dynsys.load("fim-ode").fit(np.exp(-t)[:, None], t)
    model.print()
    assert "operator alone: fewer than 5 samples" in capsys.readouterr().out
    t = np.linspace(0.0, 3.0, 10)
    assert (
        "note"
        not in fim_dynsys.load("fim-ode", refine=False).fit(np.exp(-t)[:, None], t).field_.fit_info.report
    )


def test_runs_too_short_to_show_their_noise_are_not_taken_for_noise_free(recwarn):
    t = np.linspace(0.0, 12.0, 7)
    runs = [9 / (1 + (9 / first - 1) * np.exp(-0.7 * t)) for first in (0.5, 14.0)]
    noisy = [x + 0.05 * np.random.default_rng(k).standard_normal(7) for k, x in enumerate(runs)]
    model = fim_dynsys.load("auto").fit(noisy, [t, t], feature_names=["N"])
    assert len(model.equations()) == 1 and not model.field_.fit_info.problems
    assert not [w for w in recwarn if "noise-free" in str(w.message)]


def test_r2_of_a_path_weighs_the_mean_as_it_weighs_the_samples():
    """Small values with small errors pulled the total up: R2 was .9999976 where the path misses by half."""
    t = np.linspace(0.0, 12.0, 60)
    logistic = 1000.0 / (1.0 + 9999.0 * np.exp(-t))
    seen = logistic * np.exp(0.1 * np.random.default_rng(0).standard_normal(60))
    model = fim_dynsys.load("equations", expressions=["r*x0"])
    with pytest.warns(FitWarning, match="does not describe"):
        model.fit(seen, t, sigma=0.1 * seen)
    assert model.field_.fit_info.path_r2 < 0.9


@pytest.mark.parametrize("rates", [(0.8, 0.8), (1.0, 0.6)])
def test_records_that_one_equation_cannot_both_follow_are_warned_of(rates):
    """Windows that restart leave little, and R2 is high: misses that follow each other tell."""
    t, rng = np.linspace(0.0, 10.0, 30), np.random.default_rng(0)
    seen = [
        (1.0 / (1.0 + 19.0 * np.exp(-r * t)))[:, None] + 0.03 * rng.standard_normal((30, 1)) for r in rates
    ]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        info = fim_dynsys.load("fim-ode").fit(seen, [t, t]).field_.fit_info
    assert info.path_r2 > 0.97
    said = any("times the noise of the samples, all along" in str(one.message) for one in heard)
    assert said == (rates[0] != rates[1])


def test_few_samples_do_not_leave_times_the_noise():
    """Of eight samples the noise was estimated as zero: a right law "left 140 times the noise"."""
    t, rng = np.linspace(0.0, 10.0, 8), np.random.default_rng(0)
    x = 10.0 * np.exp(-0.35 * t)[:, None]
    with pytest.warns(FitWarning, match="few samples decide") as said:
        fim_dynsys.load("fim-ode").fit(x + 0.02 * x.std() * rng.normal(size=x.shape), t)
    assert not any("times the noise" in str(one.message) for one in said)
