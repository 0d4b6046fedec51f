"""Inputs that are known at more times than the states: rows whose states are all NaN."""

import warnings

import numpy as np
import pytest
from scipy.linalg import expm

import fim_dynsys
from fim_dynsys.errors import DataWarning, FitWarning
from fim_dynsys.regression.gaps import completed
from fim_dynsys.regression.input_rows import followed
from fim_dynsys.regression.inputs import curves, jumps
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.holding import Hold

ROWS, EVERY = 0.1 * np.arange(601), 5  # times of inputs; of these each fifth has states
LEVELS = np.array([0.0, 1.0, 0.5, 2.0, 1.2, 0.3])


def force(t: float) -> float:
    """Six levels in turn, each for 2.3: they switch between the samples of the states."""
    return float(LEVELS[int((t + 1e-9) / 2.3) % 6])


FORCE = np.array([force(t) for t in ROWS])


def swinging(u: np.ndarray) -> np.ndarray:
    """x'' = -x - .4 x' + u with held inputs, exactly."""
    system = np.array([[0.0, 1.0, 0.0], [-1.0, -0.4, 1.0], [0.0, 0.0, 0.0]])
    step, x = expm(0.1 * system), [np.array([0.3, 0.0])]
    for held in u[:-1]:
        x.append((step @ [*x[-1], held])[:2])
    return np.array(x)


def seldom(x: np.ndarray, noise: float = 0.0) -> np.ndarray:
    """States at each fifth row alone."""
    seen = np.full_like(x, np.nan)
    noisy = x + noise * x.std(axis=0) * np.random.default_rng(0).standard_normal(x.shape)
    seen[::EVERY] = noisy[::EVERY]
    return seen


@pytest.fixture(scope="module")
def states():
    return seldom(swinging(FORCE), 0.02)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["fim-ode", "auto", "sindy-strong", "symbolic"])
def test_fits_follow_inputs_between_the_samples_of_the_states(name, states):
    model = fim_dynsys.load(name).fit(states, ROWS, u=FORCE)
    found = model.coefficients()
    assert np.count_nonzero(found) == 4
    assert np.sort(found[found != 0.0]) == pytest.approx([-1.0, -0.4, 1.0, 1.0], abs=0.02)
    info = model.field_.fit_info
    assert info.path_r2 > 0.999 and info.window_r2 > 0.99 and info.residual_over_noise < 2.0
    assert "480 rows are of inputs alone, which fits follow" in info.inference.notes
    assert model.score(states, ROWS, u=FORCE, metric="path", horizon=5.0) > 0.998


@pytest.mark.filterwarnings("error")
def test_given_equations_are_fitted_to_them(states):
    expressions = {"x0": "x1", "x1": "-k*x0 - c*x1 + b*u0"}
    model = fim_dynsys.load("equations", expressions=expressions).fit(states, ROWS, u=FORCE)
    assert model.field_.parameters == pytest.approx({"k": 1.0, "c": 0.4, "b": 1.0}, abs=0.01)


def test_errors_are_those_of_the_values_that_were_observed():
    slow = np.array([force(t / 3.0) for t in ROWS])
    x = swinging(slow)
    noisy = x + 0.02 * x.std(axis=0) * np.random.default_rng(0).standard_normal(x.shape)
    few = np.full_like(x, np.nan)
    few[::EVERY] = noisy[::EVERY]
    ratio = 1.0
    for seen, power in ((few, 1.0), (noisy, -1.0)):
        errors = fim_dynsys.load("sindy-strong").fit(seen, ROWS, u=slow).field_.standard_errors
        ratio *= np.median(errors[errors > 0.0]) ** power
    assert ratio == pytest.approx(np.sqrt(5.0), rel=0.35)  # a fifth of the values


@pytest.mark.filterwarnings("error")
def test_positions_alone_follow_inputs_too(states):
    model = fim_dynsys.load("sindy-strong").fit(states[:, :1], ROWS, u=FORCE, order=2)
    found = model.coefficients()
    assert np.sort(found[found != 0.0]) == pytest.approx([-1.0, -0.4, 1.0, 1.0], abs=0.02)


@pytest.mark.filterwarnings("error")
def test_a_function_that_switches_between_samples_is_followed(states):
    seen = np.isfinite(states[:, 0])
    model = fim_dynsys.load("sindy-strong").fit(states[seen], ROWS[seen], u=force)
    assert model.complexity == 4
    rows = model.context_.arrays()[0]
    added = np.isnan(rows[1]).all(axis=1)
    switches = 2.3 * np.arange(1, 27) - 1e-9
    between = switches[np.abs(switches / 0.5 - np.round(switches / 0.5)) > 1e-6]
    np.testing.assert_allclose(rows[0][added], between, atol=1e-6)
    with pytest.warns(DataWarning) as heard:
        with_errors = fim_dynsys.load("sindy-strong").fit(states[seen], ROWS[seen], u=force, sigma=0.015)
    assert any("jump or turn between the samples" in str(one.message) for one in heard)
    assert with_errors.context_.n_obs.tolist() == [seen.sum()]
    with (
        pytest.warns(DataWarning, match="jump or turn between the samples"),
        pytest.warns(FitWarning, match="such as a term, a state or inputs between their samples"),
    ):
        plain = fim_dynsys.load("sindy").fit(states[seen], ROWS[seen], u=force)
    assert plain.context_.n_obs.tolist() == [seen.sum()]


def test_a_function_that_switches_right_after_a_sample_counts_from_it_on():
    x = swinging(np.where(ROWS >= 20.0, 1.0, 0.0))[::EVERY]
    model = fim_dynsys.load("sindy-strong").fit(x, ROWS[::EVERY], u=lambda t: float(t > 20.0))
    assert model.complexity == 4
    assert model.coefficients()[model.coefficients() != 0.0] == pytest.approx(
        [1.0, -1.0, -0.4, 1.0], abs=2e-3
    )


def test_rows_that_say_nothing_more_change_nothing(states):
    held = np.repeat(FORCE[::EVERY], EVERY)[: len(ROWS)]
    x = seldom(swinging(held), 0.02)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        every = fim_dynsys.load("sindy-strong").fit(x, ROWS, u=held)
    seen = np.isfinite(x[:, 0])
    alone = fim_dynsys.load("sindy-strong").fit(x[seen], ROWS[seen], u=held[seen])
    np.testing.assert_array_equal(every.coefficients(), alone.coefficients())


def test_models_that_take_no_missing_values_say_what_they_drop(states):
    with pytest.warns(DataWarning, match="dropped 480 of 601"):
        fim_dynsys.load("sindy").fit(states, ROWS, u=FORCE)


@pytest.mark.parametrize(
    ("u", "hold"),
    [
        (FORCE, Hold.PREVIOUS),
        (np.sin(2.9 * ROWS) + np.sin(1.3 * ROWS), Hold.SMOOTH),
        (np.random.default_rng(0).standard_normal(601), Hold.SMOOTH),
    ],
)
def test_rows_are_kept_where_others_do_not_say_what_is_there(u, hold, states):
    trajectories = Trajectories.from_arrays(states, ROWS, u=u)
    (kept,), kind = followed(trajectories)
    assert kind == hold
    assert kept[::EVERY].all() and kept.sum() <= 1000
    cubics = curves(ROWS[kept], u[kept, None], kind)
    interval = np.clip(np.searchsorted(ROWS[kept], ROWS, side="right") - 1, 0, kept.sum() - 2)
    part = (ROWS - ROWS[kept][interval]) / np.diff(ROWS[kept])[interval]
    values = sum(cubics.cubics[interval, k, 0] * part**k for k in range(4))
    np.testing.assert_allclose(values[:-1], u[:-1], atol=3e-5 * u.std())
    if hold is Hold.PREVIOUS:
        switches = np.flatnonzero(np.diff(u)) + 1
        assert set(np.flatnonzero(kept)) == set(range(0, 601, EVERY)) | set(switches)


def test_so_many_rows_are_kept_that_fits_stay_affordable():
    t = np.linspace(0.0, 60.0, 20_001)
    x = np.full((20_001, 1), np.nan)
    x[::400, 0] = np.cos(t[::400])
    u = np.random.default_rng(0).standard_normal(20_001)
    (kept,), _ = followed(Trajectories.from_arrays(x, t, u=u))
    assert kept.sum() == 1000 and kept[::400].all()


def test_inputs_of_two_kinds_are_followed_both(states):
    second = np.sin(0.7 * ROWS)
    trajectories = Trajectories.from_arrays(states, ROWS, u=np.column_stack([FORCE, second]))
    (kept,), kind = followed(trajectories)
    assert kind == Hold.AUTO
    t, u = ROWS[kept], np.column_stack([FORCE, second])[kept]
    assert curves(t, u).hold == (Hold.PREVIOUS, Hold.SMOOTH)


@pytest.mark.filterwarnings("error")
def test_inputs_are_followed_through_a_long_gap_of_the_states(states):
    gap = states.copy()
    gap[250:350] = np.nan  # twenty times the usual one
    whole = completed("test", Trajectories.from_arrays(gap, ROWS, u=FORCE)).trajectories
    switches = ROWS[np.flatnonzero(np.diff(FORCE)) + 1]
    assert np.isin(switches[switches < 60.0], whole.t[0]).all()
    assert np.abs(whole.x).max() <= np.nanmax(np.abs(gap))
    model = fim_dynsys.load("sindy-strong").fit(gap, ROWS, u=FORCE)
    found = model.coefficients()
    assert np.sort(found[found != 0.0]) == pytest.approx([-1.0, -0.4, 1.0, 1.0], abs=0.02)


def test_samples_behind_the_last_state_are_not_needed(states):
    trajectories = Trajectories.from_arrays(states[:598], ROWS[:598], u=FORCE[:598])
    whole = completed("test", trajectories).trajectories
    assert whole.t[0, -1] == ROWS[595]


def test_curves_jump_where_they_are_held():
    cubics = curves(ROWS, FORCE[:, None], Hold.PREVIOUS).cubics
    found = np.flatnonzero(jumps(cubics))
    np.testing.assert_array_equal(found, np.flatnonzero(np.diff(FORCE)) + 1)
    assert not jumps(curves(ROWS, np.sin(ROWS)[:, None]).cubics).any()


@pytest.mark.parametrize("name", ["fim-ode", "auto", "sindy-strong", "symbolic", "sindy"])
def test_members_of_driven_fields(name):
    model = fim_dynsys.load(name).fit(swinging(FORCE)[:200], ROWS[:200], u=FORCE[:200])
    members = model.ensemble(n=3)
    rates = np.stack([member([0.3, 0.1], [0.5]) for member in members])
    assert rates == pytest.approx(np.tile([0.1, 0.16], (3, 1)), abs=0.05)
