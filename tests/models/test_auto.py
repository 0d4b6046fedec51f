"""The portfolio: what it searches, on which budget, and what it answers."""

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import CallableField, SymbolicField, Trajectories, add_noise, simulate
from fim_dynsys.models import auto
from fim_dynsys.models.ordering import CanonicalOrder
from fim_dynsys.regression.observed import largest_degree
from fim_dynsys.search.origins import Stage
from fim_dynsys.testing import check_model


def van_der_pol(noise=0.03, n=150, seed=0):
    field = CallableField(lambda x: np.stack([x[:, 1], (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], 1), 2)
    t = np.linspace(0.0, 10.0, n)
    x = simulate(field, [1.0, 0.5], t).x[0]
    return t, x, x * (1.0 + noise * np.random.default_rng(seed).normal(size=x.shape))


def r2(truth, estimate):
    return 1.0 - np.sum((estimate - truth) ** 2) / np.sum((truth - truth.mean(0)) ** 2)


@pytest.fixture(scope="module")
def fitted():
    t, clean, noisy = van_der_pol()
    return fim_dynsys.load("auto", effort="fast").fit(noisy, t), t, clean


@pytest.mark.parametrize("n", [12, 19])
def test_the_operator_is_asked_however_few_the_samples(n):
    """Half the samples that a regression on all its terms would need; below twelve it is not."""
    t, _, noisy = van_der_pol(n=n)
    model = fim_dynsys.load("auto", effort="fast")
    asked, not_asked = (
        model.portfolio(Trajectories.from_arrays(noisy[:count], t[:count])) for count in (n, 11)
    )
    assert any(m.origin.source in (Stage.SOLVE, Stage.STRUCTURE) for m in asked.members)
    assert not any(m.origin.source in (Stage.SOLVE, Stage.STRUCTURE) for m in not_asked.members)


def test_equations_and_report(fitted):
    model, t, clean = fitted
    assert model.get_feature_names()[5] == "x1^2"
    found = model.coefficients() != 0
    names = model.get_feature_names()
    truth = {("x1", 0), ("x0", 1), ("x1", 1), ("x0^2 x1", 1)}
    assert {(names[k], i) for i, k in zip(*np.nonzero(found), strict=True)} == truth
    assert model.score(clean, t) > 0.99
    report = model.field_.fit_info.report
    assert report["effort"] == "fast" and report["candidates"] > 5 and report["chosen by"] == "BIC"
    assert report["preferred"][0] == [report["chosen"], report["BIC"], report["weight"]]


def test_the_same_seed_gives_the_same_field(fitted):
    model, t, _ = fitted
    again = fim_dynsys.load("auto", effort="fast").fit(van_der_pol()[2], t)
    np.testing.assert_array_equal(again.coefficients(), model.coefficients())


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_traces_of_terms_are_left_out_of_exact_fields(noise):
    t, clean, noisy = van_der_pol(noise)
    model = fim_dynsys.load("auto", effort="fast")
    field = model.infer(Trajectories.from_arrays(noisy, t))
    share = np.abs(field.dictionary.evaluate(clean)).max(axis=0)[:, None] * np.abs(field.coefficients)
    found = model.portfolio(CanonicalOrder.of(Trajectories.from_arrays(noisy, t)).trajectories)
    (best,) = [m for m in found.members if m.score == field.fit_info.report["BIC"]][:1]
    if noise == 0.0:
        assert (share[field.coefficients != 0].min()) > 0.5e-4 * np.abs(field(clean)).max()
        assert np.count_nonzero(field.coefficients) == 4
    else:
        assert np.count_nonzero(field.coefficients) == best.support.sum()


def test_a_long_search_shows_a_bar_where_it_is_asked_for(monkeypatch, capsys):
    t, _, noisy = van_der_pol(n=40)
    data = Trajectories.from_arrays(noisy, t)
    fim_dynsys.load("auto", effort="fast").infer(data)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(auto, "PATIENCE", 0.0)
    fim_dynsys.load("auto", effort="fast", progress=True).infer(data)
    assert "auto:   0%" in capsys.readouterr().err


def test_contract():
    check_model(lambda: fim_dynsys.load("auto", effort="fast"))


def test_bad_input_is_refused():
    t, _, noisy = van_der_pol(n=20)
    allowed = r"\['fast', 'full', 'thorough'\]"
    with pytest.raises(ValueError, match=rf"auto: expected an effort among {allowed}, got 'huge'"):
        fim_dynsys.load("auto", effort="huge").fit(noisy, t)
    with pytest.raises(ValueError, match="auto: expected at least 5 complete samples"):
        fim_dynsys.load("auto").infer(Trajectories.from_arrays([x[None] for x in noisy[:6]], [[0.0]] * 6))


def test_degree_follows_states_and_samples():
    assert [largest_degree(d, 1000) for d in (1, 3, 6, 7, 11, 12)] == [3, 3, 3, 2, 2, 1]
    assert [largest_degree(2, n) for n in (20, 19, 12, 11)] == [3, 2, 2, 1]


def test_functions_win_where_they_are_the_truth():
    """A pendulum with large swings: no polynomial of degree 3 comes near."""
    field = CallableField(lambda x: np.stack([x[:, 1], -np.sin(x[:, 0]) - 0.1 * x[:, 1]], 1), 2)
    t = np.linspace(0.0, 15.0, 200)
    clean = simulate(field, [2.8, 0.0], t).x[0]
    model = fim_dynsys.load("auto", effort="fast").fit(clean, t)
    report = model.field_.fit_info.report
    assert report["best BIC with functions"] + 8 < report["best BIC of a polynomial"]
    grid = np.stack(np.meshgrid(np.linspace(-2.5, 2.5, 7), np.linspace(-1.5, 1.5, 7)), -1).reshape(-1, 2)
    np.testing.assert_allclose(model.predict(grid), field(grid), atol=0.02)


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_linear_chain_of_ten_states(noise):
    rng = np.random.default_rng(0)
    matrix = -0.5 * np.eye(10) + np.diag(0.5 * np.ones(9), 1) - np.diag(0.7 * np.ones(9), -1)
    field = CallableField(lambda x: x @ matrix.T, 10)
    t = np.linspace(0.0, 6.0, 150)
    clean = simulate(field, rng.normal(size=10), t).x[0]
    noisy = clean * (1.0 + noise * rng.normal(size=clean.shape))
    model = fim_dynsys.load("auto", effort="fast").fit(noisy, t)
    path = model.simulate(clean[0], t)
    assert r2(clean, path) > 0.99


def test_several_trajectories_of_different_length_count():
    t, _, noisy = van_der_pol(n=100)
    other = simulate(
        CallableField(lambda x: np.stack([x[:, 1], (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], 1), 2),
        [-2.0, 2.0],
        t[:60],
    ).x[0]
    both = Trajectories.from_arrays([noisy, other], [t, t[:60]])
    field = fim_dynsys.load("auto", effort="fast").infer(both)
    assert field.fit_info.initial_states.shape == (2, 2)
    np.testing.assert_allclose(field.fit_info.initial_states[1], [-2.0, 2.0], atol=0.1)


@pytest.mark.parametrize(("noise", "dim"), [(0.0, 10), (0.02, 6)])
def test_lorenz_96(noise, dim):
    """Chaotic: no field follows the samples to the end, so they are judged a short time ahead."""

    def rates(x):
        return (np.roll(x, -1, 1) - np.roll(x, 2, 1)) * np.roll(x, 1, 1) - x + 8.0

    field, rng = CallableField(rates, dim), np.random.default_rng(0)
    start = simulate(field, 8.0 + rng.normal(size=dim), [0.0, 5.0]).x[0, -1]
    t = np.linspace(0.0, 12.0, 900)
    clean = simulate(field, start, t).x[0]
    seen = clean[:750] * (1.0 + noise * rng.normal(size=(750, dim)))
    model = fim_dynsys.load("auto", effort="fast").fit(seen, t[:750])
    ahead, unseen = clean[750:], t[750:]
    assert r2(rates(ahead), model.predict(ahead)) > 0.99
    assert r2(ahead[:100], model.simulate(ahead[0], unseen[:100])) > 0.9


def test_members_with_functions_do_not_contradict_the_samples():
    """Van der Pol: in x cos(a v) and in Hill functions the normal approximation of a reaches far too far."""
    truth = SymbolicField(["v", "(1 - x**2)*v - x"], state_names=["x", "v"])
    path = simulate(truth, [[2.0, 0.0], [0.1, 0.0]], np.linspace(0, 15, 151))
    model = fim_dynsys.load("auto").fit(add_noise(path, 0.02, rng=0))
    band = model.forecast(model.context_, np.arange(1.0, 6.0), bands=(0.9,))
    assert float((band["high"] - band["low"]).max()) < 0.5  # of a range of 5, up to 6.6 of it before
    for member in model.ensemble(64):
        off = simulate(member, path.x[:, 0], path.t[0]).x - path.x
        assert np.sqrt(np.mean(off**2)) < 0.2
