"""Locally linear fields among candidates: chosen by trajectories that they have not seen."""

from dataclasses import replace

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys.fields.local import LocalField
from fim_dynsys.models.auto import Auto
from fim_dynsys.regression.observed import complete_samples, observe
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.judges import errors_of_refits
from fim_dynsys.search.local import SMOOTHINGS, clearly_better, errors_of, fit_local
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.pool import Pool
from fim_dynsys.search.portfolio import Portfolio
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import refine
from fim_dynsys.trajectories.container import Trajectories

T = np.linspace(0.0, 4.0, 60)


def turning(count=5, seed=0):
    """A cycle with three harmonics, which no cubic in these two states has: it crosses itself nowhere."""
    rng = np.random.default_rng(seed)
    phases = rng.uniform(0.0, 2.0 * np.pi, count)[:, None] + 2.0 * T
    radius = 1.0 + 0.3 * np.cos(3.0 * phases)
    x = np.stack([radius * np.cos(phases), radius * np.sin(phases)], axis=-1)
    return x + 0.01 * rng.normal(size=x.shape)


@pytest.fixture(scope="module")
def context():
    return Trajectories.from_arrays(list(turning()), [T] * 5)


@pytest.fixture(scope="module")
def portfolio(context):
    """One field that leaves all bounds, though preferred by BIC, and one that rests."""
    search = Search.polynomial(complete_samples(context, "test", 5))
    shape, start = (len(search.dictionary), 2), search.observations.start
    away, rest = np.zeros(shape), np.zeros(shape)
    away[1:3] = 3.0 * np.eye(2)  # of the two states
    lost = search.observations.signal_variance
    candidates = [
        Candidate(values, start, search.dictionary, Origin(Stage.REGRESSION, name), "", score, lost)
        for values, name, score in ((away, "away", 0.0), (rest, "rest", 10.0))
    ]
    return Portfolio.of(Pool(search, candidates), [])


def test_unseen_trajectories_are_predicted(portfolio):
    fit = portfolio.local
    assert fit is not None and len(fit.errors) == 5
    assert fit.errors.mean() < 0.05
    later = turning(8, seed=1)
    field = fit.field(Trajectories.from_arrays(list(later), [T] * 8), {})
    path = fim_dynsys.simulate(field, later[:, 0], T).x
    assert np.mean((path - later) ** 2) < 0.1 * later.var()


def test_fields_that_leave_come_last(portfolio):
    assert portfolio.stays.tolist() == [False, True]
    assert portfolio.preferred(np.array([1.0, 0.0])).tolist() == [1, 0]
    assert portfolio.prefers_local(0) and portfolio.prefers_local(1)


def test_nothing_changes_where_a_candidate_explains_the_samples(portfolio):
    noise = portfolio.search.observations.noise_variance
    best = [
        Candidate(m.coefficients, m.start, m.dictionary, Origin(Stage.GIVEN), "", 0.0, noise)
        for m in portfolio.members
    ]
    kept = Portfolio.of(Pool(portfolio.search, best), [])
    assert kept.local is None
    assert kept.preferred(np.array([1.0, 0.0])).tolist() == [0, 1]
    assert not kept.prefers_local(0)


def spirals():
    """Trajectories of a damped oscillator."""
    phase, decay = np.linspace(0.0, 5.0, 5)[:, None] + 2.0 * T, np.exp(-0.1 * T)
    return decay[:, None] * np.stack([np.cos(phase), np.sin(phase)], axis=-1)


def linear(samples):
    """A portfolio of one linear field with all of its terms, fitted."""
    search = Search.polynomial([(T, x) for x in samples], 1)
    observations, shape = search.observations, (len(search.dictionary), 2)
    start = np.full(shape, 1e-3)
    member = Candidate(start, observations.start, search.dictionary, Origin(Stage.GIVEN))
    fitted, _ = refine(observations, member, observations.path)
    return Portfolio(search, [fitted])


def test_members_are_fitted_anew_to_the_others(monkeypatch):
    monkeypatch.setattr("fim_dynsys.search.local._FINER", ())  # no smoothing comes near errors of rounding
    portfolio, samples = linear(spirals()), spirals()
    seen = portfolio.search.observations
    assert errors_of_refits(seen, portfolio.members[0]).max() < 1e-6
    assert not replace(portfolio, local=fit_local(seen)).prefers_local(0)
    samples[2] = samples[2, ::-1]  # runs backwards, which the others do not
    turned = linear(samples)
    terms, coefficients = portfolio.search.dictionary, portfolio.members[0].coefficients
    own = errors_of(lambda x: terms.evaluate(x) @ coefficients, turned.search.observations, np.array([2]))
    assert own[0] > 0.1
    refitted = errors_of_refits(turned.search.observations, turned.members[0])
    np.testing.assert_allclose(refitted[2], own[0], rtol=0.1)  # as by the others alone


def test_smoothing_is_refined(portfolio):
    fit = portfolio.local
    assert fit.smoothing not in SMOOTHINGS
    own = vars(fit.smoothing)
    beside = fit.smoothing.beside((1.5, 2.0, 4.0))
    assert len(set(beside)) == 6
    assert all(sum(vars(near)[name] != own[name] for name in own) == 1 for near in beside)


def test_auto_returns_it(portfolio, context, monkeypatch, tmp_path):
    monkeypatch.setattr(Auto, "_searched", lambda self, question: portfolio)
    model = fim_dynsys.load("auto").fit(context)
    assert isinstance(model.field_, LocalField)
    assert model.field_.fit_info.report["chosen by"] == "held-out trajectories"
    first, *others = model.candidates(context)
    assert isinstance(first, LocalField)
    assert [f.fit_info.report["chosen"] for f in others] == ["rest", "away"]
    points = context.x[0, :5]
    members = model.ensemble(3, seed=1)
    assert len({member(points).tobytes() for member in members}) == 3
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(fim_dynsys.load_fitted(tmp_path / "model").field_(points), first(points))


def test_the_lost_count_alike():
    better, worse = np.array([0.1, 0.2, 0.1, 0.2]), np.array([0.8, 0.9, 5.0, 1e6])
    assert clearly_better(better, worse)
    assert not clearly_better(worse, better)
    assert not clearly_better(np.array([3.0, 4.0]), np.array([1e6, 1e6]))


def test_errors_of_the_truth_are_its_noise():
    rates = np.array([[-0.1, -1.0], [1.0, -0.1]])
    t = np.linspace(0.0, 9.0, 80)
    decay = np.exp(-0.1 * t)
    paths = [
        r * decay[:, None] * np.stack([np.cos(t + p), np.sin(t + p)], axis=1) for r, p in ((1, 0), (2, 1))
    ]
    observations = observe([(t, x) for x in paths])

    def scaled(z):
        return (z * observations.scale) @ rates.T * observations.time_unit / observations.scale

    assert errors_of(scaled, observations, np.arange(2)).max() < 1e-4


def test_too_few_trajectories():
    with pytest.raises(
        ValueError, match="fit_local: expected at least 3 trajectories, to keep some out, got 2"
    ):
        fit_local(observe([(T, x) for x in turning(2)]))
