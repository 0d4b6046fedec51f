"""Candidates with and without functions side by side: features, weights and draws."""

from dataclasses import replace

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import CallableField, Trajectories, simulate
from fim_dynsys.search.functions.fits import FunctionCandidate
from fim_dynsys.search.portfolio import N_PORTFOLIO_FEATURES, Portfolio


def pendulum(x):
    return np.stack([x[:, 1], -np.sin(x[:, 0]) - 0.2 * x[:, 1]], 1)


@pytest.fixture(scope="module")
def observed():
    t = np.linspace(0.0, 12.0, 120)
    clean = simulate(CallableField(pendulum, 2), [2.5, 0.0], t).x[0]
    return Trajectories.from_arrays(clean + 0.02 * np.random.default_rng(0).normal(size=clean.shape), t)


@pytest.fixture(scope="module")
def found(observed):
    return fim_dynsys.load("auto", effort="fast").portfolio(observed)


def test_members_of_both_kinds_over_common_terms(found):
    kinds = [m.n_functions > 0 for m in found.members]
    assert any(kinds) and not all(kinds)
    assert [m.score for m in found.members] == sorted(m.score for m in found.members)
    x = np.random.default_rng(1).uniform(-1.0, 1.0, (6, 2))
    for member, coefficients in zip(found.members, found.coefficients, strict=True):
        own = member.dictionary.evaluate(x) @ member.candidate.coefficients
        np.testing.assert_allclose(found.terms.evaluate(x) @ coefficients, own, rtol=1e-9, atol=1e-12)


def test_features_are_finite_and_tell_functions(found):
    seen = found.features()
    assert seen.shape == (len(found.members), N_PORTFOLIO_FEATURES)
    assert np.isfinite(seen).all() and np.abs(seen).max() <= 30.0
    np.testing.assert_array_equal(seen[:, -10] > 0, [m.n_functions > 0 for m in found.members])


def test_the_operators_answer_is_a_member_and_its_selector_is_heard(observed, found):
    answer = fim_dynsys.load("fim-ode").infer(observed)
    (own,) = np.flatnonzero(found.features()[:, -3])
    assert found.members[own].candidate is found.operator.answer
    x = np.random.default_rng(2).uniform(-1.0, 1.0, (6, 2))
    field = found.members[own].field(found.search.observations, observed, {})
    np.testing.assert_allclose(field(x), answer(x), rtol=1e-4, atol=1e-6)
    judged, behind = found.features()[:, -2:].T
    np.testing.assert_array_equal(judged > 0, [m.n_functions == 0 for m in found.members])
    assert behind.max() == 0.0 > behind.min()
    alone = replace(found, operator=None).features()
    np.testing.assert_array_equal(alone[:, :-3], found.features()[:, :-3])
    assert not alone[:, -3:].any()


class Prefers:
    """A selector that always prefers one member."""

    def __init__(self, number):
        self.number = number

    def logits(self, values):
        return np.where(np.arange(len(values)) == self.number, 50.0, 0.0)


def test_weights_are_the_selectors_or_the_bics(found):
    assert int(np.argmax(found.log_weights(Prefers(3)))) == 3
    scores = np.array([m.score for m in found.members])
    functions = np.array([m.n_functions > 0 for m in found.members])
    np.testing.assert_allclose(found.log_weights(None), -0.5 * (scores + 8.0 * functions))
    blind = Portfolio(found.search, None, found.members)
    np.testing.assert_allclose(blind.log_weights(Prefers(3)), found.log_weights(None))
    assert np.isfinite(blind.features()).all()


def test_draws_scatter_about_the_member_they_are_of(found):
    best = int(np.argmax(found.log_weights(None)))
    drawn = found.draws(Prefers(best).logits(found.members), 12, np.random.default_rng(0))
    assert len(drawn) == 12
    x = np.array([[1.0, 0.5], [-1.0, 0.2], [0.3, -0.8]])
    member = found.members[best]
    values = np.stack([d.dictionary.evaluate(x) @ d.candidate.coefficients for d in drawn])
    middle = member.dictionary.evaluate(x) @ member.candidate.coefficients
    spread = values.std(axis=0)
    assert (spread > 0).any() and spread.max() < 0.2 * np.abs(middle).max()
    assert np.abs(values.mean(axis=0) - middle).max() < 2.0 * spread.max()


def test_a_member_whose_fit_says_nothing_of_its_errors_stands_for_itself(found):
    member = found.members[int(np.argmax(found.log_weights(None)))]
    own = FunctionCandidate.of(member.candidate, member.dictionary, member.labelled)
    observations = found.search.observations
    fitted, fit = own.fitted(observations, observations.path, (1,))
    spoilt = replace(fit, information=np.full_like(fit.information, np.inf))
    deviates = np.ones((3, len(fitted.parameters)))
    with np.errstate(all="ignore"):  # as in every ensemble
        assert all(drawn is fitted for drawn in fitted.drawn(observations, spoilt, deviates))
    assert not any(drawn is fitted for drawn in fitted.drawn(observations, fit, deviates))


def test_candidates_and_ensemble_of_the_model(observed, tmp_path):
    model = fim_dynsys.load("auto", effort="fast")
    x = np.array([[0.5, 0.5], [-1.0, 0.3]])
    fields = model.candidates(observed)
    np.testing.assert_array_equal(fields[0](x), model.infer(observed)(x))
    weights = [f.fit_info.report["weight"] for f in fields]
    scores = [f.fit_info.report["BIC"] for f in fields]
    first = next((k for k in range(1, len(weights)) if weights[k] > weights[k - 1]), len(weights))
    founded, opinions = weights[:first], weights[first:]
    assert founded == sorted(founded, reverse=True) and opinions == sorted(opinions, reverse=True)
    assert all(score > min(scores) + 30.0 for score in scores[first:])  # no answers, whatever their weight
    assert sum(weights) == pytest.approx(1.0)
    before = dict(vars(model))
    model.infer(observed)
    assert vars(model) == before
    model.fit(observed)
    kept = model.portfolio_
    members = model.ensemble(6, seed=1)
    assert len(members) == 6
    again = model.ensemble(6, seed=1)
    np.testing.assert_array_equal(members[2](x), again[2](x))
    assert model.portfolio_ is kept
    model.save(tmp_path / "model")
    restored = fim_dynsys.load_fitted(tmp_path / "model")
    np.testing.assert_array_equal(restored.ensemble(6, seed=1)[2](x), members[2](x))
    with pytest.raises(
        ValueError, match=r"auto\.ensemble: expected n as a whole number of at least 1, got 0"
    ):
        model.ensemble(0)
