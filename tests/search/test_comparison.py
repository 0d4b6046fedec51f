"""Chaotic records: all candidates, the one that does not move included, compared over windows."""

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.observed import observe
from fim_dynsys.regression.rollout import rollout
from fim_dynsys.regression.smoothing import TIME_AWARE
from fim_dynsys.regression.windows import LEAST, in_windows, split_at
from fim_dynsys.search.candidates import judge
from fim_dynsys.search.comparison import compared
from fim_dynsys.search.origins import Stage
from fim_dynsys.search.pool import Pool
from fim_dynsys.search.problem import Search
from fim_dynsys.search.proposals import propose

TERMS = Dictionary.polynomial(3, 2)
TRUE = {"x0": (-10.0, 28.0, 0.0), "x1": (10.0, -1.0, 0.0), "x2": (0.0, 0.0, -8.0 / 3.0)}
TRUE |= {"x0 x1": (0.0, 0.0, 1.0), "x0 x2": (0.0, -1.0, 0.0)}


def lorenz(n, noise, seed=0):
    """Samples every .05, after five units of time; noise in standard deviations of the states."""
    names, terms = TERMS.names(), np.zeros((1, len(TERMS), 3))
    for name, values in TRUE.items():
        terms[0, names.index(name)] = values
    t = 0.05 * np.arange(n + 100)
    clean = rollout(TERMS, terms, np.array([[[1.0, 1.0, 20.0]]]), t[None], 0.001)[0, 0, 100:]
    spread = noise * clean.std(axis=0)
    return t[:n], clean + spread * np.random.default_rng(seed).standard_normal(clean.shape), terms[0]


@pytest.fixture(scope="module")
def observations():
    t, x, _ = lorenz(400, 0.05)
    late = np.r_[t[:150], t[150:] + 60.0]  # a gap that nothing bridges: two pieces
    return observe([(late, x), (t[:37], x[100:137])])


def test_windows_are_all_samples_once(observations):
    seen = in_windows(observations, 3.0)
    assert len(seen.samples) > 20 and min(len(t) for t, _ in seen.samples) >= LEAST
    assert all(t[0] == 0.0 for t, _ in seen.samples)
    for part in (lambda o: [z for _, z in o.samples], lambda o: o.path):
        np.testing.assert_array_equal(np.concatenate(part(seen)), np.concatenate(part(observations)))
    assert seen.n == observations.n
    np.testing.assert_allclose(seen.weights.sum(axis=(0, 1)), observations.weights.sum(axis=(0, 1)))
    np.testing.assert_allclose(seen.signal_variance, observations.signal_variance)
    for (k, first), (t, z) in zip(seen.origin, seen.samples, strict=True):
        piece = next(
            j
            for j, (a, b) in enumerate(observations.origin)
            if a == k and b <= first < b + len(observations.samples[j][0])
        )
        own = first - observations.origin[piece][1]
        np.testing.assert_array_equal(observations.samples[piece][1][own : own + len(t)], z)


def test_windows_see_slopes_of_the_whole_record(observations):
    seen, smoother = in_windows(observations, 3.0), TIME_AWARE[0]
    for k in (0, 1):  # states and slopes
        own, whole = (
            np.concatenate([part[k] for part in o.smoothed(smoother)]) for o in (seen, observations)
        )
        np.testing.assert_array_equal(own, whole)
    np.testing.assert_array_equal(seen.row_weights(smoother), observations.row_weights(smoother))


def test_starts_inside_a_record_are_free(observations):
    seen = in_windows(observations, 3.0)
    begins = np.array([a == 0 for _, a, _ in seen.cut.bounds])
    assert (seen.start_precision[~begins] == 0.0).all() and (seen.start_precision[begins] > 0.0).all()
    assert begins.sum() == len(observations.samples)


def test_windows_of_windows_are_those_of_the_whole(observations):
    longer = in_windows(in_windows(observations, 3.0), 12.0)
    assert longer.cut.whole is observations
    assert longer.origin == in_windows(observations, 12.0).origin
    assert in_windows(longer, 1e6) is observations
    nodes = np.concatenate(observations.path)
    np.testing.assert_array_equal(np.concatenate(split_at(longer, nodes)), nodes)


def test_no_motion_has_a_constant_of_its_own_in_every_window(observations):
    search = Search(in_windows(observations, 3.0), TERMS)
    still = next(c for c in propose(search) if c.origin.stage is Stage.NO_MOTION)
    (judged,) = judge(search.observations, [still])
    pairs = zip(search.observations.weights_over(1.0), search.observations.samples, strict=True)
    within = [(weights * (z - z.mean(axis=0)) ** 2).sum(axis=0) for weights, (_, z) in pairs]
    np.testing.assert_allclose(judged.variance, np.sum(within, axis=0) / observations.n)
    assert (judged.variance < 0.9 * observations.signal_variance).all()


def test_no_motion_is_compared_where_a_better_start_had_taken_its_place():
    """Of equal coefficients only the better candidate stays, which need not be the one without motion."""
    t, x, _ = lorenz(1000, 0.1)
    search = Search.polynomial([(t, x)], 2)
    moving = [c for c in judge(search.observations, propose(search)) if c.origin.stage is not Stage.NO_MOTION]
    pool = compared(Pool(search, moving), 4)
    assert pool.in_windows
    assert any(c.origin.stage is Stage.NO_MOTION for c in pool.candidates)


@pytest.mark.parametrize("noise", [0.1, pytest.param(0.2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["fim-ode", "sindy-strong", pytest.param("auto", marks=pytest.mark.slow)])
def test_the_equations_behind_a_noisy_chaotic_record(name, noise):
    """A thousand samples, forty turns: seven terms within 3 % at 10 % noise and 6 % at 20 %."""
    t, x, true = lorenz(1000, noise)
    model = fim_dynsys.load(name).fit(x, t)
    field = model.field_
    own = np.zeros_like(true)
    for exponents, row in zip(field.dictionary.exponents, field.coefficients, strict=True):
        own[np.flatnonzero((TERMS.exponents == exponents).all(axis=1))] = row
    np.testing.assert_array_equal(own != 0, true != 0)
    used = true != 0
    np.testing.assert_allclose(own[used], true[used], rtol=0.3 * noise)
    facts = field.fit_info.inference
    assert facts.windows > 1 and facts.window > 2.0
    assert f"{facts.windows} windows of" in field.fit_info.report["judged over"]
    errors = field.standard_errors[(field.coefficients != 0)]
    off = own[used] - true[used]
    assert (errors > 0).all() and np.abs(off / errors.reshape(-1)).max() < 5.0
