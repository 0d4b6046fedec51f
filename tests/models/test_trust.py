"""What a fit knows of itself beyond the data: how far its draws differ from it, in three levels."""

from dataclasses import replace

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import CallableField, SymbolicField, Trajectories
from fim_dynsys.errors import FitWarning
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.inference import Inference, Judge, Trust
from fim_dynsys.fields.posterior import FittedField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models.trust import (
    Rivals,
    deviation_by_errors,
    deviation_elsewhere,
    inputs_elsewhere,
    points_elsewhere,
    share_elsewhere,
    together,
    trust_by,
)
from fim_dynsys.regression.rollout import runge_kutta

FIELD, GROWTH = SymbolicField({"x": "x - x**3"}), SymbolicField({"x": "x"})
FITTED = FitInfo(path_r2=0.99, window_r2=0.99, residual_over_noise=1.0, follows=1.0, follows_for=5.0)


@pytest.fixture(scope="module")
def oscillation():
    t = np.linspace(0.0, 10.0, 60)
    field = fim_dynsys.SymbolicField(["y", "(1-x**2)*y-x"], {}, state_names=["x", "y"])
    x = fim_dynsys.simulate(field, [1.0, 0.5], t, rtol=1e-10).x[0]
    return t, x, np.random.default_rng(0).standard_normal(x.shape)


def test_deviation_is_that_of_the_members():
    context = Trajectories.from_arrays(np.linspace(-1.0, 1.0, 9)[:, None], np.arange(9.0))
    field = CallableField(lambda x: x, 1)
    members = [CallableField(lambda x, a=a: a * x, 1) for a in (0.7, 1.3)]
    # rates have mean zero in a box about zero: the deviation is .3 of their spread, wherever the points are
    even = Rivals(members, np.array([0.5, 0.5]))
    assert deviation_elsewhere(field, even, context) == pytest.approx(0.3, rel=0.02)
    beyond = [CallableField(lambda x: np.where(np.abs(x) > 1.0, 2.0 * x, x), 1)]
    # on two thirds of a box of half-width 3 off by x: root of (27 - 1) / 27
    single = Rivals(beyond, np.ones(1))
    assert deviation_elsewhere(field, single, context) == pytest.approx(np.sqrt(26 / 27), rel=0.03)


def test_points_elsewhere_keep_signs():
    context = Trajectories.from_arrays(np.linspace([0.0, -1.0], [2.0, 1.0], 9), np.arange(9.0))
    x = points_elsewhere(context)
    assert (x[:, 0] >= 0.0).all() and x[:, 0].max() > 3.0 and x[:, 1].min() < -2.0


def test_rivals_part_where_their_paths_do():
    """x' = x - x^3 and x' = x agree near zero for a while, and not from 2."""
    t = np.linspace(0.0, 3.0, 31)
    rivals = Rivals.of(np.array([-4.0, 0.0]), [FIELD, GROWTH].__getitem__)
    assert rivals.weights == pytest.approx(np.array([1.0, np.exp(-1.0)]) / (1.0 + np.exp(-1.0)))
    assert [*rivals.fields] == [GROWTH, FIELD]
    share = share_elsewhere(FIELD, rivals, np.array([[0.001], [2.0]]), t)
    assert share == pytest.approx([0.0, rivals.weights[0]])
    assert trust_by(0.0, Trust.HIGH) is Trust.HIGH and trust_by(0.0, Trust.LIMITED) is Trust.LIMITED
    assert trust_by(0.5, Trust.HIGH) is trust_by(np.nan, Trust.HIGH) is Trust.LOW
    assert trust_by(0.0, Trust.LOW) is Trust.LIMITED


def test_errors_stand_for_draws():
    context = Trajectories.from_arrays(np.linspace(-1.0, 1.0, 9)[:, None], np.arange(9.0))
    line = Dictionary.polynomial(1, 1)
    field = FittedField(line, [[0.0], [1.0]], np.array([[0.0, 0, 0, 0], [0.2, 0, 0, 0]]), context=context)
    # rates x of mean zero, off by a fifth of themselves
    assert deviation_by_errors(field, context) == pytest.approx(0.2, rel=0.02)
    assert deviation_by_errors(GROWTH, context) is None
    assert together(None, 0.3, 0.4) == pytest.approx(0.5) and together(None) is None


def test_paths_of_states_seen_in_turns_are_compared(oscillation):
    t, x, noise = oscillation
    x = x + 0.02 * noise
    x[::2, 0] = x[1::2, 1] = np.nan
    model = fim_dynsys.load("fim-ode").fit(x, t)
    assert model.trust_along([1.0, 0.5], t) is not Trust.LOW
    assert np.isfinite(model.simulate([1.0, 0.5], t)).all()


@pytest.mark.parametrize("name", ["fim-ode", "auto"])
def test_a_path_is_trusted_less_than_the_fit_where_rivals_part(name, oscillation):
    t, x, noise = oscillation
    model = fim_dynsys.load(name).fit(x[:20] + 0.05 * noise[:20], t[:20])  # a third of a period
    assert model.trust_along([1.0, 0.5], t[:20]) is not Trust.LOW
    assert model.trust_along([3.0, -6.0], t) is Trust.LOW
    with pytest.warns(FitWarning, match="lead elsewhere from the given state;"):
        model.simulate([3.0, -6.0], t)
    with pytest.raises(ValueError, match="trust_along: expected two and more increasing times"):
        model.trust_along([1.0, 0.5], t[::-1])
    with pytest.raises(ValueError, match=r"trust_along: expected x0 of shape \(2,\)"):
        model.trust_along([1.0], t)


@pytest.mark.parametrize(
    ("apart", "judge", "problems", "level"),
    [
        (0.02, Judge.BIC, (), Trust.HIGH),
        (0.4, Judge.BIC, (), Trust.LIMITED),
        (3.0, Judge.BIC, (), Trust.LOW),
        (0.02, Judge.BIC, ("its path leaves the data",), Trust.LOW),
        (None, Judge.EXACT, (), Trust.HIGH),
        (None, Judge.BIC, (), Trust.LIMITED),
    ],
)
def test_levels(apart, judge, problems, level):
    info = replace(FITTED, inference=Inference(judge, elsewhere=apart), problems=problems)
    assert info.trust is level
    assert FitInfo().trust is None


def test_approximations_of_noise_free_samples_are_not_of_high_trust():
    info = replace(FITTED, inference=Inference(Judge.EXACT, elsewhere=0.02))
    assert replace(info, to_precision=True).trust is Trust.HIGH
    assert replace(info, to_precision=False).trust is Trust.LIMITED


@pytest.mark.parametrize("name", ["fim-ode", "auto"])
def test_trust_falls_with_noise(name, oscillation):
    t, x, noise = oscillation
    model = fim_dynsys.load(name).fit(x, t)
    assert model.field_.fit_info.inference.elsewhere < 1e-3
    with pytest.warns(FitWarning, match="trust is low"):
        model.fit(x + 0.4 * noise, t)
    assert model.field_.fit_info.trust is Trust.LOW and not model.field_.fit_info.problems


def test_trust_is_printed_and_kept(oscillation, tmp_path, capsys):
    t, x, _ = oscillation
    model = fim_dynsys.load("fim-ode").fit(x, t)
    assert model.field_.fit_info.trust is Trust.HIGH
    model.print()
    assert "trust: high" in capsys.readouterr().out
    model.save(tmp_path / "kept")
    again = fim_dynsys.load_fitted(tmp_path / "kept").field_.fit_info
    assert again.inference.elsewhere == model.field_.fit_info.inference.elsewhere
    assert again.trust is Trust.HIGH
    table = fim_dynsys.fit_many(fim_dynsys.load("fim-ode"), {"a": Trajectories.from_arrays(x, t)}, n_jobs=1)
    assert table["trust"].tolist() == ["high"]


@pytest.fixture(scope="module")
def populations():
    """Times, and prey and predators with 2 % noise."""
    t = np.linspace(0.0, 12.0, 120)
    field = SymbolicField(["x-0.5*x*y", "0.4*x*y-0.8*y"], state_names=["x", "y"])
    x = fim_dynsys.simulate(field, [2.0, 1.0], t).x[0]
    return t, x + 0.02 * x.std(axis=0) * np.random.default_rng(0).normal(size=x.shape)


def test_a_constant_state_that_takes_no_part_does_not_change_the_trust(populations):
    t, x = populations
    fitted = fim_dynsys.load("auto").fit(np.column_stack([x, np.full(120, 5.0)]), t).field_.fit_info
    alone = fim_dynsys.load("auto").fit(x, t).field_.fit_info
    assert fitted.inference.elsewhere == pytest.approx(alone.inference.elsewhere, rel=0.01)
    assert fitted.trust is alone.trust


@pytest.mark.parametrize("model", ["auto", "fim-ode"])
def test_effects_of_a_constant_state_that_is_required_are_not_known(populations, model):
    t, x = populations
    fact = fim_dynsys.Knowledge(known={"x2": "0"}, require={"x0": ["x0*x2"]})
    fitted = fim_dynsys.load(model, knowledge=fact).fit(np.column_stack([x, np.full(120, 5.0)]), t)
    assert "x2" in fitted.equations()[0] and fitted.field_.fit_info.trust is not Trust.HIGH


def test_time_as_a_state_does_not_lower_the_trust(populations):
    t, x = populations
    fitted = fim_dynsys.load("fim-ode").fit(np.column_stack([x, t]), t)
    assert fitted.equations()[2] == "1" and fitted.field_.fit_info.trust is Trust.HIGH


def switched(rates, start, end, noise):
    """300 samples of a field under an input that switches between 0 and 1 at samples."""
    rng, n = np.random.default_rng(0), 300
    gap = end / (n - 1)
    on = rng.integers(0, 2, 12).repeat(25).astype(float)
    x = np.empty((n, len(start)))
    x[0] = start
    for i in range(n - 1):
        x[i + 1] = runge_kutta(lambda z, i=i: np.array(rates(z, on[i])), x[i], gap)
    return x + noise * x.std(axis=0) * rng.standard_normal(x.shape), gap * np.arange(n), on


@pytest.mark.parametrize("name", ["fim-ode", "auto"])
def test_trust_with_inputs_depends_on_what_the_record_determines(name):
    """A pumped oscillator is found as it is; polynomials stand for Monod's growth in a chemostat."""
    x, t, u = switched(lambda z, u: [z[1], 1.2 * (1 - z[0] ** 2) * z[1] - z[0] + u], [1.0, 0.0], 50.0, 0.01)
    found = fim_dynsys.load(name).fit(x, t, u=u, hold="previous").field_.fit_info
    assert found.trust is Trust.HIGH and found.inference.elsewhere < 0.1

    def chemostat(z, u):
        growth = 0.9 * z[1] / (0.4 + z[1])
        return [z[0] * (growth - 0.1 - 0.4 * u), (0.1 + 0.4 * u) * (2.0 - z[1]) - 1.2 * z[0] * growth]

    x, t, u = switched(chemostat, [0.5, 1.0], 60.0, 0.03)
    found = fim_dynsys.load(name).fit(x, t, u=u, hold="previous").field_.fit_info
    assert found.trust is not Trust.HIGH and found.inference.elsewhere > 0.5


def test_inputs_elsewhere_are_those_of_the_record():
    t, u = np.linspace(0.0, 1.0, 5), np.array([[0.0], [1.0], [1.0], [1.0], [3.0]])
    context = Trajectories.from_arrays(np.ones((5, 1)), t, u=u)
    (found,) = inputs_elsewhere(context)
    assert found.shape == (64, 1) and set(found.ravel()) == {0.0, 1.0, 3.0}
    assert inputs_elsewhere(Trajectories.from_arrays(np.ones((5, 1)), t)) == ()
