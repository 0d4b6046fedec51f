"""States that are never negative: in draws, simulations and bands; members that leave the data."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fim_dynsys
from fim_dynsys import Knowledge, simulate
from fim_dynsys.analyze import basins, limit_cycles
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.models.members import bounded_members
from fim_dynsys.trajectories.container import Trajectories


def prey_and_hunter(_, y):
    eaten = y[0] / (1.0 + 0.3 * y[0])
    return [y[0] * (1.0 - y[0] / 12.0) - 1.2 * y[1] * eaten, y[1] * (0.55 * eaten - 0.28)]


def fitted():
    rng = np.random.default_rng(3)
    t = np.r_[0.0, np.sort(rng.uniform(0.0, 60.0, 64))]
    x = solve_ivp(prey_and_hunter, (0, 60), [4.0, 1.0], t_eval=t, rtol=1e-9, atol=1e-11).y.T
    x = np.abs(x * (1.0 + 0.06 * rng.standard_normal(x.shape)))
    told = Knowledge(nonnegative=["A", "R"])
    return fim_dynsys.load("auto", knowledge=told).fit(x, t, feature_names=["A", "R"])


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture(scope="module")
def ensemble(model):
    return model.ensemble(20)


def test_members_neither_cross_zero_nor_leave_the_data(model, ensemble):
    ((_, x),) = model.context_.arrays()
    paths = simulate(ensemble, x[0], np.linspace(0.0, 90.0, 200)).x
    assert len(ensemble) == 20
    assert paths.min() > -1e-9 and paths.max() < 10.0 * x.max()


def test_bands_are_of_positive_amounts(model):
    ahead = model.forecast(model.context_, 30.0, bands=(0.5, 0.99), n_draws=5, observed=True)
    assert float(ahead["low"].min()) >= 0.0 and np.isfinite(ahead["median"]).all()


def test_cycles_and_basins_stay_positive(model):
    """A falls below a millionth of its largest value on the cycle, and comes back."""
    top = np.nanmax(model.context_.x, axis=(0, 1))
    cycles = limit_cycles(model, {"A": (0.0, top[0]), "R": (0.0, top[1])}, n_seeds=8)
    assert len(cycles.orbits) == 1 and cycles.stable.all()
    assert 0.0 < cycles.orbits[0].min() < 1e-4 * top[0]
    found = basins(model, {"A": (0.0, top[0]), "R": (0.0, top[1])}, resolution=10, n_sample=32)
    assert found.fractions[0] > 0.5 and found.attractors[0].points.min() > 0.0
    starts = top * np.random.default_rng(0).uniform(size=(40, 2))  # also those whose paths leave the region
    assert np.nanmin(simulate(model.field_, starts, np.linspace(0.0, 60.0, 100)).x) > -1e-9


def test_what_leaves_is_replaced_and_counted():
    data = Trajectories.from_arrays(np.exp(-np.linspace(0, 4, 30))[:, None], np.linspace(0, 4, 30))
    decays, grows = CallableField(lambda x: -x, 1), CallableField(lambda x: 2.0 * x, 1)
    asked = []

    def draw(n, seed):
        asked.append((n, seed))
        return [decays, grows, grows, decays][:n] if len(asked) == 1 else [decays] * n

    ensemble = bounded_members(draw, 4, 7, decays, data)
    assert ensemble.left_out == 2 and list(ensemble) == [decays] * 4
    assert [n for n, _ in asked] == [4, 2] and asked[0][1] == 7
    assert bounded_members(lambda n, seed: [grows] * n, 3, 0, decays, data).left_out > 3
    kept = bounded_members(lambda n, seed: [grows] * n, 3, 0, grows, data)  # the field itself leaves
    assert kept.left_out == 0 and list(kept) == [grows] * 3


@pytest.mark.parametrize("name", ["sindy-strong", "fim-ode"])
def test_states_that_were_negative_are_not_known_to_be_nonnegative(name):
    t = np.linspace(0.0, 10.0, 60)
    x = np.stack([2.0 + np.sin(t), np.cos(t)], axis=1)
    model = fim_dynsys.load(name, knowledge=fim_dynsys.Knowledge(nonnegative=["a", "b"]))
    with pytest.raises(ValueError, match=r"Knowledge.nonnegative: expected samples of b .* got -0\.99"):
        model.fit(x, t, feature_names=["a", "b"])


def test_noise_about_zero_is_no_negative_state():
    t = np.linspace(0.0, 8.0, 80)
    x = np.exp(-t)[:, None] + 0.02 * np.random.default_rng(0).standard_normal((80, 1))
    assert x.min() < -0.02
    known = fim_dynsys.Knowledge(nonnegative=["c"])
    model = fim_dynsys.load("sindy-strong", knowledge=known).fit(x, t, feature_names=["c"])
    assert model.predict(np.array([[1.0]]))[0, 0] == pytest.approx(-1.0, abs=0.1)


def test_what_stays_is_repeated_where_few_draws_do():
    data = Trajectories.from_arrays(np.exp(-np.linspace(0, 4, 30))[:, None], np.linspace(0, 4, 30))
    decays, grows = CallableField(lambda x: -x, 1), CallableField(lambda x: 2.0 * x, 1)
    rare = iter([decays])
    ensemble = bounded_members(lambda n, seed: [next(rare, grows) for _ in range(n)], 3, 7, decays, data)
    assert list(ensemble) == [decays] * 3 and ensemble.left_out == 2 + 8 * 2
    none = bounded_members(lambda n, seed: [grows] * n, 2, 7, decays, data)
    assert list(none) == [grows] * 2 and none.left_out == 2 + 8 * 2


def test_errors_of_numbers_are_left_out_where_one_becomes_zero_at_its_bound():
    """The search refits candidates for their errors: one with fewer numbers says nothing of the others."""
    field = fim_dynsys.SymbolicField({"n": "n*(1 - n/4) - n*p/(1 + n)", "p": "n*p/(1 + n) - 0.4*p"})
    t = np.linspace(0.0, 60.0, 150)
    path = fim_dynsys.simulate(field, [1.0, 1.0], t, rtol=1e-9).x[0]
    seen = path * np.exp(0.02 * np.random.default_rng(1).standard_normal(path.shape))
    model = fim_dynsys.load("fim-ode", knowledge=Knowledge(nonnegative=["n", "p"]))
    model.fit(seen, t, feature_names=["n", "p"], log=["n", "p"])
    assert model.field_.fit_info.path_r2 > 0.95
