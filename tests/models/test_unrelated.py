"""Records that no autonomous flow explains are said to be such; true fits of noisy records are not."""

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import CallableField, Trajectories
from fim_dynsys.errors import FitWarning
from fim_dynsys.models.fit_quality import compared
from fim_dynsys.models.unrelated import unrelated_samples, unrelated_steps


def logistic_map(n, rate=3.7):
    z = [0.3]
    for _ in range(n - 1):
        z.append(rate * z[-1] * (1.0 - z[-1]))
    return np.array(z)[:, None]


def henon_map(n):
    z = [(0.1, 0.1)]
    for _ in range(n - 1):
        z.append((1.0 - 1.4 * z[-1][0] ** 2 + z[-1][1], 0.3 * z[-1][0]))
    return np.array(z)


@pytest.mark.parametrize("name", ["fim-ode", "sindy-strong"])
def test_a_map_is_no_flow(name):
    with pytest.warns(FitWarning, match="samples next to each other are unrelated.*determines the next"):
        fim_dynsys.load(name).fit(logistic_map(200), np.arange(200.0))


@pytest.mark.parametrize("record", [logistic_map(60, 3.9), henon_map(200), 100.0 + logistic_map(40)])
def test_maps_are_told_from_noise_wherever_their_mean_is(record):
    said = unrelated_samples([record])
    assert said is not None and "determines the next" in said
    assert unrelated_samples([1e3 * record]) == said


def test_white_noise_is_no_motion_unless_it_is_the_error_of_a_state_at_rest():
    noise = np.random.default_rng(0).standard_normal((1000, 2))
    for seed_rows in np.split(noise, 20):
        said = unrelated_samples([seed_rows])
        assert said is None or "noise alone" in said
        assert unrelated_samples([50.0 + seed_rows]) is None
    assert "noise alone" in (unrelated_samples([noise]) or "")
    assert unrelated_samples([noise[:8]]) is None


def test_known_errors_explain_unrelated_samples():
    t, x = np.arange(80.0), np.random.default_rng(0).standard_normal((80, 1))
    rest, record = CallableField(lambda y: 0.0 * y, 1), Trajectories.from_arrays(x, t)
    assert any("noise alone" in said for said in compared(rest, record).problems)
    assert compared(rest, record, [np.ones((80, 1))]).problems == ()


@pytest.mark.parametrize("seed", range(6))
def test_noisy_oscillations_are_motion(seed):
    """Ten samples a turn and a tenth of noise are no map."""
    t = np.linspace(0.0, 36.0, 60)
    x = np.column_stack([np.cos(t), np.sin(t)])
    x = x + 0.1 * x.std(axis=0) * np.random.default_rng(seed).standard_normal(x.shape)
    assert unrelated_samples([x]) is None and unrelated_steps([x]) is None
    turning = CallableField(lambda y: np.column_stack([-y[:, 1], y[:, 0]]), 2)
    assert compared(turning, Trajectories.from_arrays(x, t)).problems == ()


def test_random_walks_and_measurement_errors_are_told_apart():
    walks, errors = 0, 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        walks += unrelated_steps([rng.standard_normal((200, 1)).cumsum(axis=0)]) is not None
        slow = np.exp(-np.linspace(0.0, 3.0, 200))[:, None] + 0.05 * rng.standard_normal((200, 1))
        errors += unrelated_steps([slow]) is not None
    assert walks >= 38 and errors == 0  # steps of a walk pass two tests of 99.9 %


@pytest.mark.parametrize(("name", "seed", "d"), [("fim-ode", 1, 2), ("auto", 7, 2), ("sindy-strong", 3, 1)])
def test_equations_that_follow_a_random_walk_at_large_do_not_explain_it(name, seed, d):
    walk = np.random.default_rng(100 + seed).standard_normal((300, d)).cumsum(axis=0)
    with pytest.warns(FitWarning, match="as in a random walk"):
        model = fim_dynsys.load(name).fit(walk, np.arange(300.0))
    assert model.field_.fit_info.path_r2 > 0.5


def test_a_random_walk_says_so_where_its_fit_fails():
    x = np.random.default_rng(3).standard_normal((200, 1)).cumsum(axis=0)
    away = CallableField(lambda y: 0.05 * y, 1)
    assert any(
        "random walk" in said
        for said in compared(away, Trajectories.from_arrays(x, np.arange(200.0))).problems
    )
