"""Starts that a user names may be far off: natural ones are searched too, and aliases are not believed."""

import numpy as np
import pytest

from fim_dynsys import SymbolicField, load, simulate
from fim_dynsys.errors import DataWarning

T = np.linspace(0.0, 10.0, 40)
LOGISTIC = {"N": "r*N*(1 - N/K)"}
TURN = {"x": "w*v", "v": "-w*x"}


def grown() -> np.ndarray:
    exact = 10.0 / (1.0 + 9.0 * np.exp(-0.9 * T))
    return exact + 0.1 * np.random.default_rng(0).standard_normal(len(T))


@pytest.mark.parametrize("start", [{"K": 0.1}, {"r": 90.0, "K": 1000.0}, {"N": 1e4}])
def test_starts_that_are_far_off_lead_where_none_do(start):
    found = load("equations", expressions=LOGISTIC, start=start).fit(grown(), T, feature_names=["N"])
    none = load("equations", expressions=LOGISTIC).fit(grown(), T, feature_names=["N"])
    assert found.parameters_ == pytest.approx(none.parameters_, rel=1e-4)


def test_of_aliases_the_slowest_is_the_answer():
    rates = {"x": "a*x - b*x*y", "y": "-c*y + d*x*y"}
    truth = {"a": 1.0, "b": 0.5, "c": 0.8, "d": 0.3}
    t = np.linspace(0.0, 20.0, 60)
    field = SymbolicField(list(rates.values()), parameters=truth, state_names=["x", "y"])
    x = simulate(field, [2.0, 1.0], t).x[0] + 0.05 * np.random.default_rng(0).standard_normal((60, 2))
    start = {name: 30.0 * value for name, value in truth.items()}
    model = load("equations", expressions=rates, start=start, n_starts=8).fit(x, t, feature_names=["x", "y"])
    assert model.parameters_["a"] == pytest.approx(1.0, rel=0.05)


def test_a_fast_start_beside_rough_samples_is_kept_and_the_slower_solution_named():
    """Of 2.1 samples a turn the start decides; the slowest was preferred, at 2.98 for 6."""
    t = 0.7 * np.arange(40)
    y = np.exp(-0.05 * t) * np.cos(6.0 * t) + 0.01 * np.random.default_rng(0).standard_normal(40)
    model = load("equations", expressions={"x": "v", "v": "-w**2*x - c*v"}, start={"w": 6.0}, n_starts=6)
    with pytest.warns(DataWarning, match=r"a slower one fits as well \(.*w = -?2\.98"):
        model.fit(y, t, observed=["x"])
    assert model.parameters_["w"] == pytest.approx(6.0, rel=1e-2)


def test_bounds_that_demand_a_fast_wave_are_no_alias():
    t = np.linspace(0.0, 10.0, 30)
    y = np.cos(1.3 * t) + 0.05 * np.random.default_rng(0).standard_normal(30)
    turn = 2.0 * np.pi / t[1]  # radians between samples that look like none
    fast = load("equations", expressions=TURN, bounds={"w": (turn, 1.2 * turn)}, n_starts=6)
    fast.fit(y, t, observed=["x"])
    assert fast.parameters_["w"] == pytest.approx(turn + 1.3, rel=1e-2)
    assert not [note for note in fast.field_.fit_info.report["notes"] if "turns back" in note]


def test_a_sampled_wave_is_no_alias():
    t = np.linspace(0.0, 20.0, 28)  # 3.2 samples a turn
    y = np.cos(2.6 * t) + 0.05 * np.random.default_rng(0).standard_normal(28)
    model = load("equations", expressions=TURN, bounds={"w": (2.0, 3.0)}, n_starts=4).fit(
        y, t, observed=["x"]
    )
    assert not [note for note in model.field_.fit_info.report["notes"] if "turns back" in note]
