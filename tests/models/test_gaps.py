"""Records whose states were observed at different times: all that was observed is used."""

import numpy as np
import pytest
from scipy.linalg import expm

import fim_dynsys
from fim_dynsys import Trajectories
from fim_dynsys.errors import DataWarning
from fim_dynsys.regression.gaps import completed, errors_of_pairs, has_gaps
from fim_dynsys.regression.observed import observe

PREY = np.array([1.1, -0.4])
PREDATOR = np.array([-0.4, 0.1])


@pytest.fixture(scope="module")
def path():
    """Predator and prey, which swing 80-fold."""
    system = fim_dynsys.SymbolicField(["1.1*x - 0.4*x*y", "0.1*x*y - 0.4*y"], {}, state_names=["x", "y"])
    t = np.linspace(0.0, 20.0, 121)
    return t, fim_dynsys.simulate(system, [10.0, 5.0], t, rtol=1e-10).x[0]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def in_turns(x: np.ndarray) -> np.ndarray:
    """Each state at every other time."""
    gappy = x.copy()
    gappy[::2, 0] = gappy[1::2, 1] = np.nan
    return gappy


@pytest.mark.parametrize("name", ["fim-ode", "sindy-strong", "symbolic", "auto"])
def test_states_observed_in_turns_give_the_equations(name, path):
    t, x = path
    model = fim_dynsys.load(name).fit(in_turns(x), t, feature_names=["x", "y"])
    found = model.coefficients()
    assert np.count_nonzero(found) == 4
    # cubics between samples and integration err by some 1e-3 of the rates
    np.testing.assert_allclose(found[found != 0.0], [*PREY, *PREDATOR], rtol=3e-3)
    assert model.field_.fit_info.path_r2 > 0.9999
    assert (
        "121 of 242 values were not observed, fits count the others" in model.field_.fit_info.inference.notes
    )


def test_standard_errors_count_what_was_observed(path, rng):
    t, x = path
    noisy = x + 0.03 * x.std(axis=0) * rng.standard_normal(x.shape)
    model = fim_dynsys.load("sindy-strong")
    whole = model.fit(noisy, t).field_.standard_errors
    half = model.fit(in_turns(noisy), t).field_.standard_errors
    ratio = half[half > 0] / whole[whole > 0]
    assert np.median(ratio) == pytest.approx(np.sqrt(2.0), rel=0.25)  # half of the values


def test_known_errors_and_gaps_go_together(path, rng):
    t, x = path
    sigma = 0.03 * x.std(axis=0)
    noisy = in_turns(x + sigma * rng.standard_normal(x.shape))
    found = fim_dynsys.load("sindy-strong").fit(noisy, t, sigma=sigma).coefficients()
    np.testing.assert_allclose(found[found != 0.0], [*PREY, *PREDATOR], rtol=0.05)


def test_a_chaotic_record_with_two_fifths_missing(rng):
    lorenz = fim_dynsys.SymbolicField(
        ["10*(y-x)", "x*(28-z)-y", "x*y-8*z/3"], {}, state_names=["x", "y", "z"]
    )
    t = 0.025 * np.arange(600)
    x = fim_dynsys.simulate(lorenz, [1.0, 1.0, 20.0], t, rtol=1e-9).x[0]
    x = x + 0.05 * x.std(axis=0) * rng.standard_normal(x.shape)
    x[rng.random(x.shape) < 0.4] = np.nan
    field = fim_dynsys.load("sindy-strong").fit(x, t).field_
    at = x[np.isfinite(x).all(axis=1)]
    assert np.abs(field(at) - lorenz(at)).max() < 0.03 * np.abs(lorenz(at)).max()


def test_the_noise_of_each_state_is_that_of_its_own_samples(rng):
    t = np.linspace(0.0, 20.0, 801)
    levels = []
    for _ in range(8):
        x = np.column_stack([np.sin(t), np.cos(t)]) + [0.02, 0.05] * rng.standard_normal((801, 2))
        x[np.arange(801) % 4 > 0, 1] = np.nan
        whole = completed("test", Trajectories.from_arrays(x, t))
        seen = observe(whole.trajectories.arrays()).measured(errors_of_pairs(whole))
        levels.append(seen.noise_level)
    np.testing.assert_allclose(np.mean(levels, axis=0), [0.02, 0.05], rtol=0.1)
    assert seen.counts.tolist() == [801, 201]
    # what is off where nothing was observed counts nothing
    assert (seen.residual_variance(seen.z + (seen.weights == 0.0)) == 0.0).all()


def test_few_incomplete_samples_are_dropped(path):
    t, x = path
    x = x.copy()
    x[[20, 70], [0, 1]] = np.nan
    assert not has_gaps(Trajectories.from_arrays(x, t))
    rows = np.isfinite(x).all(axis=1)
    with pytest.warns(DataWarning, match="dropped 2 of 121"):
        some = fim_dynsys.load("sindy-strong").fit(x, t)
    np.testing.assert_array_equal(
        some.coefficients(), fim_dynsys.load("sindy-strong").fit(x[rows], t[rows]).coefficients()
    )


def test_long_gaps_are_not_bridged_by_a_curve(path):
    t, x = path
    x = x.copy()
    x[30:70, 1] = np.nan
    with pytest.warns(DataWarning, match="dropped 38 of 121"):  # beside a value, a line goes on
        whole = completed("test", Trajectories.from_arrays(x, t))
    assert whole.trajectories.n_obs.tolist() == [83]


def test_what_follows_a_fit_takes_gaps(path, tmp_path):
    t, x = path
    model = fim_dynsys.load("fim-ode").fit(in_turns(x), t)
    model.save(tmp_path / "kept")
    again = fim_dynsys.load_fitted(tmp_path / "kept")
    np.testing.assert_array_equal(again.coefficients(), model.coefficients())
    members = model.ensemble(3)
    assert len(list(members)) == 3
    ahead = model.forecast(model.context_, 1.0)
    assert np.isfinite(ahead["median"].values).all()


def test_a_model_of_complete_samples_names_those_that_take_others(path):
    t, x = path
    with pytest.raises(ValueError, match="'fim-ode', 'auto'"):
        fim_dynsys.load("sindy").fit(in_turns(x), t)


@pytest.mark.parametrize("unit", [1e-77, 1.0, 1e77])
def test_gaps_are_filled_in_any_unit_of_time(unit):
    nan = np.nan
    x = [np.zeros((4, 2)), np.array([[0.5, nan], [nan, 0.5], *[[nan, nan]] * 4])]
    t = [unit * np.arange(1.0, 5.0), unit * np.arange(1.0, 7.0)]
    with pytest.raises(ValueError, match="expected at least 5 complete samples"):
        fim_dynsys.load("sindy-strong").fit(x, t)


@pytest.mark.parametrize("name", ["fim-ode", "sindy-strong"])
def test_a_held_input_switches_in_time_where_a_state_is_missing_there(name):
    """One value of 600 is missing; without the row the pump would switch on a sample late."""
    t = np.round(np.arange(0.0, 40.0, 0.2), 2)
    u = ((np.arange(len(t)) % 45) < 13).astype(float)
    system = expm(0.2 * np.array([[-0.25, 0.0, 1.5], [0.25, -0.1, 0.0], [0.0, 0.0, 0.0]]))
    x = [np.zeros(2)]
    for held in u[:-1]:
        x.append((system @ [*x[-1], held])[:2])
    x = np.array(x) + 0.01 * np.random.default_rng(0).standard_normal((len(t), 2))
    x[45, 0] = np.nan
    model = fim_dynsys.load(name).fit(x, t, u=u, feature_names=["a", "b", "u"])
    assert model.equations(precision=2) == ["-0.25 a + 1.5 u", "0.25 a - 0.1 b"]
