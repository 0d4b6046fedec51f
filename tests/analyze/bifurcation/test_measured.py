"""Bifurcation diagrams of data: positions, intervals of known width, objects matched across values."""

import numpy as np
import pytest

from fim_dynsys.analyze.bifurcation.measured import bifurcations_from_data
from fim_dynsys.analyze.tracing.branches import BifurcationKind, BranchKind
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.trajectories.container import Trajectories, concatenate

FOLD = 2 / 3 / np.sqrt(3)


class Noisy:
    """A model that knows the truth up to an error of one coefficient per value of mu."""

    name = "noisy truth"

    def __init__(self, dictionary, coefficients, term, sigma=0.0, seed=0):
        self.dictionary, self.coefficients, self.term = dictionary, coefficients, term
        self.sigma, self.rng = sigma, np.random.default_rng(seed)

    def infer_many(self, contexts):
        return [self.infer(context) for context in contexts]

    def infer(self, context):
        values = np.array(self.coefficients(float(context.coords["mu"][0])), dtype=float)
        values[self.term] += self.sigma * self.rng.normal()
        return DictionaryField(self.dictionary, values, context=context)


SWITCH = Dictionary(np.array([[0], [1], [3]])), lambda mu: [[mu], [1.0], [-1.0]]
BRUSSELATOR = (
    Dictionary(np.array([[0, 0], [1, 0], [2, 1]])),
    lambda b: [[1.0, 0.0], [-b - 1.0, b], [1.0, -1.0]],
)


def measured(system, values, starts, t_end, n):
    """Noise-free trajectories at several values of mu."""
    dictionary, coefficients = system
    t = np.linspace(0, t_end, n)
    parts = []
    for mu in values:
        field = DictionaryField(dictionary, np.array(coefficients(mu)))
        run = simulate(field, np.array(starts, dtype=float), t)
        parts.append(Trajectories.from_arrays(list(run.x), t, coords={"mu": [mu] * len(starts)}))
    return concatenate(parts)


@pytest.fixture(scope="module")
def switch_data():
    return measured(SWITCH, np.linspace(-0.2, 1.0, 13), [[-1.6], [1.6]], 8.0, 40)


@pytest.fixture(scope="module")
def oscillator_data():
    return measured(BRUSSELATOR, [1.5, 1.7, 2.3, 2.5, 2.7], [[2.0, 3.0]], 20.0, 80)


def test_exact_fields_give_the_exact_fold(switch_data):
    result = bifurcations_from_data(Noisy(*SWITCH, (0, 0)), switch_data, n_draws=10)
    (fold,) = result.bifurcations
    assert fold.kind is BifurcationKind.FOLD and fold.p == pytest.approx(FOLD, abs=1e-6)
    assert fold.share == 1 and fold.interval == pytest.approx((FOLD, FOLD), abs=1e-5)
    assert fold.x[0] == pytest.approx(-1 / np.sqrt(3), abs=1e-5)


def test_objects_are_matched_from_value_to_value(switch_data):
    result = bifurcations_from_data(Noisy(*SWITCH, (0, 0)), switch_data, n_draws=2)
    upper, *others = result.tracks
    assert upper.p == pytest.approx(np.linspace(-0.2, 1.0, 13)) and (np.diff(upper.x[:, 0]) > 0).all()
    assert sorted(set(track.n_unstable.tolist()[0] for track in others)) == [0, 1]
    for track in others:  # the lower pair exists up to the fold only
        assert track.index.tolist() == list(range(6)) and track.p[-1] < FOLD
    assert {track.kind for track in result.tracks} == {BranchKind.EQUILIBRIA}


def test_width_of_the_interval_is_that_of_the_regression(switch_data):
    """Errors sigma of the constant move the fold by those of a regression line at its position."""
    sigma, p = 0.05, np.linspace(-0.2, 1.0, 13)
    expected = sigma * np.sqrt(1 / 13 + (FOLD - p.mean()) ** 2 / ((p - p.mean()) ** 2).sum())
    widths, hits = [], []
    for seed in range(4):
        model = Noisy(*SWITCH, (0, 0), sigma, seed)
        result = bifurcations_from_data(model, switch_data, n_draws=50, seed=seed)
        (fold,) = (b for b in result.bifurcations if b.x[0] < 0)
        widths.append(np.diff(fold.interval)[0])
        hits.append(fold.interval[0] <= FOLD <= fold.interval[1])
        assert fold.share > 0.9 and len(fold.members) == round(50 * fold.share)
    # The 90 % interval is 3.3 standard deviations wide, and wider for few degrees of freedom.
    assert 3 * expected < np.mean(widths) < 6 * expected
    assert sum(hits) >= 3


def test_hopf_point_and_cycles(oscillator_data):
    model = Noisy(*BRUSSELATOR, (2, 0), 0.01)
    result = bifurcations_from_data(model, oscillator_data, n_draws=10, seed=1)
    (hopf,) = (b for b in result.bifurcations if b.support > 0.5)
    assert hopf.kind is BifurcationKind.HOPF and hopf.lyapunov_coefficient < 0
    assert hopf.interval[0] < 2 < hopf.interval[1] and np.diff(hopf.interval)[0] < 0.2
    cycles = [track for track in result.tracks if track.kind is BranchKind.CYCLES]
    assert cycles[0].p.tolist() == pytest.approx([2.3, 2.5, 2.7]) and (cycles[0].n_unstable == 0).all()
    assert (np.diff(cycles[0].high[:, 0]) > 0).all()
    (branch,) = (b for b in result.branches if b.kind is BranchKind.CYCLES and b.p.max() > 2.5)
    assert branch.high[-1] == pytest.approx(cycles[0].high[-1], rel=0.05)


def test_bifurcation_that_few_members_have(switch_data):
    """Beyond mu = 0.33 nothing is measured: some members place the fold outside, and the share says so."""
    few = switch_data[np.flatnonzero(switch_data.coords["mu"] < 0.45)]
    result = bifurcations_from_data(Noisy(*SWITCH, (0, 0), 0.15, 3), few, n_draws=40)
    folds = [b for b in result.bifurcations if b.kind is BifurcationKind.FOLD and b.x[0] < 0]
    assert all(0 < b.share < 1 for b in folds) and len(folds) <= 1


def test_region_bounds_the_search(switch_data):
    result = bifurcations_from_data(Noisy(*SWITCH, (0, 0)), switch_data, region=[(0.5, 2)], n_draws=2)
    assert result.bifurcations == () and len(result.tracks) == 1
    assert result.branches[0].x.min() >= 0.5


def test_result_prints_and_converts(switch_data):
    result = bifurcations_from_data(Noisy(*SWITCH, (0, 0), 0.02), switch_data, n_draws=8)
    text = str(result)
    assert "90 % interval" in text and "LP" in text and "found at 13 of 13 values" in text
    data = result.to_xarray()
    assert data.sizes["value"] == 13 and data.bifurcation_interval.dims == ("bifurcation", "end")
    assert data.bifurcation_members.shape == (len(result.bifurcations), 8)
    assert data.sizes["object"] == sum(map(len, result.tracks))


def test_misuse_is_named(switch_data):
    model = Noisy(*SWITCH, (0, 0))
    with pytest.raises(TypeError, match=r"infers vector fields \(infer_many\), got 'CallableField'"):
        bifurcations_from_data(CallableField(lambda x: x, 1), switch_data)
    with pytest.raises(ValueError, match="as coordinate 'nu'"):
        bifurcations_from_data(model, switch_data, parameter="nu")
    with pytest.raises(ValueError, match="at least 4 values of mu"):
        bifurcations_from_data(model, switch_data[:4])
    with pytest.raises(ValueError, match="level as a finite number from 0 to 1, got 90"):
        bifurcations_from_data(model, switch_data, level=90)
    with pytest.raises(ValueError, match="expected finite numbers as coordinate 'mu'"):
        bifurcations_from_data(model, switch_data.with_coords(mu=["a"] * len(switch_data)))


class WithAnother(Noisy):
    """A model with an alternative whose constant term is off by the same amount for all values."""

    def __init__(self, *given, shift):
        super().__init__(*given)
        self.shift = shift

    def alternatives(self):
        dictionary = SWITCH[0]
        return [Noisy(dictionary, lambda mu: [[mu + self.shift], [1.0], [-1.0]], (0, 0))]


def test_interval_reaches_as_far_as_other_models(switch_data):
    alone = bifurcations_from_data(Noisy(*SWITCH, (0, 0)), switch_data, n_draws=4, cycles=False)
    model = WithAnother(*SWITCH, (0, 0), shift=0.1)
    result = bifurcations_from_data(model, switch_data, n_draws=4, cycles=False)
    (fold,), (before,) = result.bifurcations, alone.bifurcations
    assert fold.others == pytest.approx([FOLD - 0.1], abs=1e-5)
    assert fold.disagreement == pytest.approx(0.1, abs=1e-5)
    assert fold.interval == pytest.approx((FOLD - 0.1, FOLD + 0.1), abs=1e-4)
    assert np.isnan(before.disagreement) and len(before.others) == 0
    assert "other models" in str(result) and "other models" not in str(alone)


def test_models_that_need_more_points_are_not_asked(switch_data):
    class Demanding(Noisy):
        min_observations = 10_000

    class WithDemanding(Noisy):
        def alternatives(self):
            return [Demanding(*SWITCH, (0, 0)), Noisy(*SWITCH, (0, 0))]

    result = bifurcations_from_data(WithDemanding(*SWITCH, (0, 0)), switch_data, n_draws=4, cycles=False)
    assert [len(b.others) for b in result.bifurcations] == [1]


def test_fields_that_do_not_fit_are_named(switch_data):
    """The cubic term is 0.7 in place of 1: predictions are off by far more than the noise."""
    wrong = SWITCH[0], lambda mu: [[mu], [1.0], [-0.7]]
    result = bifurcations_from_data(Noisy(*wrong, (0, 0)), switch_data, n_draws=4, cycles=False)
    assert not result.fits and (result.misfit > 2).any()
    assert "the model does not fit these data at mu = " in str(result)
    right = bifurcations_from_data(Noisy(*SWITCH, (0, 0)), switch_data, n_draws=4, cycles=False)
    assert right.fits and "does not fit" not in str(right)
    assert "1 bifurcation between" in str(right) and "1 bifurcations" not in str(right)
    assert right.to_xarray().misfit.shape == (13,)


def test_stability_that_changes_without_a_bifurcation_is_said():
    """A transcritical point is lost by a constant term, however small."""
    powers = Dictionary(np.array([[0], [1], [2]]))
    values, t = np.linspace(-1.0, 1.0, 9), np.linspace(0, 8, 40)
    runs = [simulate(CallableField(lambda x, mu=mu: mu * x - x**2, 1), [[0.1], [1.5]], t).x for mu in values]
    data = Trajectories.from_arrays(list(np.concatenate(runs)), [t] * 18, coords={"mu": np.repeat(values, 2)})

    def found(constant):
        model = Noisy(powers, lambda mu: [[constant * (mu == 0.5)], [mu], [-1.0]], 0)
        return str(bifurcations_from_data(model, data, n_draws=2))

    assert "no bifurcation was found: track 0 between 0 and 0.25" in found(1e-4)
    assert "no bifurcation was found" not in found(0.0)


def test_two_folds_within_each_others_reach_may_be_a_crossing(switch_data):
    """mu x - x^2 - c has folds at -+ 2 sqrt(c): with c as uncertain, they say nothing of mu = 0."""
    powers = Dictionary(np.array([[0], [1], [2]]))
    values, t = np.linspace(-1.0, 1.0, 9), np.linspace(0, 8, 40)
    runs = [simulate(CallableField(lambda x, mu=mu: mu * x - x**2, 1), [[0.1], [1.5]], t).x for mu in values]
    data = Trajectories.from_arrays(list(np.concatenate(runs)), [t] * 18, coords={"mu": np.repeat(values, 2)})
    model = Noisy(powers, lambda mu: [[-1e-3], [mu], [-1.0]], (0, 0), 1e-3)
    found = bifurcations_from_data(model, data, n_draws=8, cycles=False)
    assert [event.kind for event in found.bifurcations] == [BifurcationKind.FOLD] * 2
    assert "Branches that cross" in str(found), str(found)
    apart = bifurcations_from_data(Noisy(*SWITCH, (0, 0), 0.02), switch_data, n_draws=8, cycles=False)
    assert "Branches that cross" not in str(apart)
