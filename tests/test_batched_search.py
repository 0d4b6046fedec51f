"""The batched search, and what it is made of, beside the numpy and numba originals."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.interpolate import CubicSpline

import fim_dynsys
from fim_dynsys.field import CallableField
from fim_dynsys.models.fim_ode import choice
from fim_dynsys.models.fim_ode.batched import candidates as batched_candidates
from fim_dynsys.models.fim_ode.batched import (
    horizon,
    pool,
    pruning,
    refinement,
    reselection,
    selection,
    smoothing,
    sparse,
)
from fim_dynsys.models.fim_ode.batched import observations as batched_observations
from fim_dynsys.models.fim_ode.batched import rollout as batched_rollout
from fim_dynsys.models.fim_ode.batched.candidates import Candidates, Origin
from fim_dynsys.models.fim_ode.batched.observations import STEP_LIMIT, scaled
from fim_dynsys.models.fim_ode.batched.pruning import Effort
from fim_dynsys.models.fim_ode.columns import MonomialTable
from fim_dynsys.regression import candidates as originals
from fim_dynsys.regression import horizon as original_horizon
from fim_dynsys.regression import kernels
from fim_dynsys.regression import pool as original_pool
from fim_dynsys.regression import pruning as original_pruning
from fim_dynsys.regression import refinement as original_fits
from fim_dynsys.regression import reselection as original_reselection
from fim_dynsys.regression import selection as original_selection
from fim_dynsys.regression import smoothing as original_smoothing
from fim_dynsys.regression import sparse as original_sparse
from fim_dynsys.regression.criteria import noise_law, pseudo_residuals
from fim_dynsys.regression.rollout import rollout, substeps
from fim_dynsys.regression.terms import Dictionary
from fim_dynsys.simulation import simulate
from fim_dynsys.trajectories import Trajectories
from training import search as training_search
from training import selection as training_selection
from training.contexts import draw
from training.corruption import Observation
from training.generation import Integration
from training.prior import components
from training.ranker import read_contexts
from training.selection import (
    PRIORS,
    draw_shards,
    label,
    make_shard,
    make_shards,
    operator_candidates,
    together,
)

SYSTEMS = {
    1: lambda x: 1.2 * x - x**3,
    2: lambda x: np.stack([x[:, 1], 0.8 * (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], 1),
    3: lambda x: np.stack([-x[:, 1] - x[:, 2], x[:, 0] + 0.2 * x[:, 1], 0.3 + x[:, 2] * (x[:, 0] - 1.5)], 1),
}
STARTS = {1: [0.05], 2: [1.0, 0.5], 3: [1.0, 0.3, 0.2]}
LENGTHS = (40, 52)
"""Numbers of samples of the contexts of a batch."""


def contexts_of(dim):
    """Pairs of times and noisy states of one system, each with its own times and start."""
    rng = np.random.default_rng(dim)
    found = []
    for number, n in enumerate(LENGTHS):
        t = np.linspace(0.1, 12.0, n + 6)[np.sort(rng.permutation(n + 6)[:n])]  # some gaps of several steps
        start = np.array(STARTS[dim]) * (1.0 + 0.3 * number)
        clean = simulate(CallableField(SYSTEMS[dim], dim), start, np.append(0.0, t)).arrays()[0][1][1:]
        found.append((t, clean * (1.0 + 0.03 * rng.normal(size=clean.shape))))
    return found


def padded(arrays, length=None):
    """Arrays (n, ...) of several lengths as one tensor (B, N, ...)."""
    length = length or max(map(len, arrays))
    out = np.zeros((len(arrays), length, *arrays[0].shape[1:]))
    for row, own in zip(out, arrays, strict=True):
        row[: len(own)] = own
    return torch.tensor(out)


def tensors(contexts):
    """Times, states and mask of a batch."""
    t, x = (padded([c[k] for c in contexts]) for k in (0, 1))
    lengths = torch.tensor([len(c[0]) for c in contexts])
    return t, x, torch.arange(t.shape[1]) < lengths[:, None]


class Case:
    """One batch both ways."""

    def __init__(self, dim):
        self.dim = dim
        self.contexts = contexts_of(dim)
        self.observations = [originals.observe([context]) for context in self.contexts]
        assert all(len(o.samples) == 1 for o in self.observations)
        self.dictionary, self.table = Dictionary.polynomial(dim, 3), MonomialTable(dim, 3)
        self.scaled = scaled(*tensors(self.contexts))
        self.proposed = [
            originals.judge(o, self.dictionary, originals.propose(o, self.dictionary))
            for o in self.observations
        ]

    def chosen(self, count=2):
        """Some structures to fit: pairs of a context's number and a candidate."""
        pairs = []
        for number, ranked in enumerate(self.proposed):
            fit = [c for c in ranked if 0 < c.support.sum() <= 8 and np.isfinite(c.score)]
            pairs += [(number, c) for c in fit[:count]]
        return pairs


@pytest.fixture(scope="module", params=[1, 2, 3])
def case(request):
    return Case(request.param)


def close(found, expected, tolerance):
    """Equal to a tolerance relative to the largest number."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    assert (np.isfinite(found) == np.isfinite(expected)).all()
    finite = np.isfinite(expected)
    size = np.abs(expected[finite]).max(initial=1e-300)
    np.testing.assert_allclose(found[finite], expected[finite], rtol=0.0, atol=tolerance * size)


# ---------------------------------------------------------------------- constants


def test_constants_are_those_of_the_originals():
    assert (STEP_LIMIT, batched_observations.STEPS_PER_GAP) == (originals.STEP_LIMIT, originals.STEPS_PER_GAP)
    assert batched_observations.FEWEST == choice.MIN_OBSERVATIONS
    assert batched_candidates.STLSQ_SETTINGS == originals.STLSQ_SETTINGS
    assert batched_candidates.BACKWARD_TOLERANCES == originals.BACKWARD_TOLERANCES
    assert (horizon.HORIZON, horizon.NOISE_ALONE) == (
        original_horizon._HORIZON,
        original_horizon._NOISE_ALONE,
    )
    assert (horizon.MERGED, horizon.MERGED_FITS) == (original_horizon._MERGED, original_horizon._MERGED_FITS)
    assert (horizon.UNEXPLAINED, horizon.STILL) == (original_horizon._UNEXPLAINED, original_horizon._STILL)
    assert horizon.LAST_ITERATIONS == original_horizon._LAST_ITERATIONS
    assert pruning.MAX_TERMS == original_horizon.MAX_TERMS
    assert pruning.ITERATIONS == original_horizon.ITERATIONS
    assert (pruning.MAX_TERMS, pruning.ROUNDS) == (original_pool.MAX_TERMS, original_pruning._ROUNDS)
    assert pruning.ITERATIONS == original_pruning.ITERATIONS
    assert pruning.CANCELLED == original_pruning._CANCELLED
    assert (refinement.DAMPING, refinement.DECREASE) == (original_fits._DAMPING, original_fits._DECREASE)
    assert selection.SHORTLIST == original_selection.SHORTLIST
    assert (selection.PER_SUPPORT, selection.UNFITTED) == (
        original_selection._PER_SUPPORT,
        original_selection._UNFITTED,
    )
    assert (selection.N_CHOICE_FEATURES, selection.CLIP) == (
        choice.N_CHOICE_FEATURES,
        original_selection.CLIP,
    )
    assert (selection._POINTS, selection._STARTS) == (original_selection._POINTS, original_selection._STARTS)
    left = ("_PLAUSIBLE", "_LEAST_LEFT", "_MOST_LEFT")
    assert [getattr(selection, n) for n in left] == [getattr(original_selection, n) for n in left]
    assert (selection._SAMPLES, selection._ESCAPE) == (
        original_selection._SAMPLES,
        original_selection._ESCAPE,
    )
    assert (smoothing.GCV_PROBES, smoothing.GCV_PENALTIES) == (
        original_smoothing._GCV_PROBES,
        original_smoothing._GCV_PENALTIES,
    )
    assert smoothing.MANY == original_smoothing._MANY


# ---------------------------------------------------------------------- integration


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_rows_of_monomials_are_their_columns(dim):
    table, x = MonomialTable(dim, 3), torch.randn(2, dim, 5, dtype=torch.float64)
    close(table.rows(x), table(x.mT).mT, 1e-15)
    with pytest.raises(RuntimeError, match="out="):
        table.rows(x.requires_grad_())


def random_fields(dim, count, seed):
    rng = np.random.default_rng(seed)
    m = len(Dictionary.polynomial(dim, 3))
    values = 0.3 * rng.normal(size=(count, m, dim))
    return values * (rng.random(values.shape) < 0.4)


def test_intervals_end_and_depend_as_the_compiled_ones(case):
    s, fields = case.scaled, random_fields(case.dim, len(LENGTHS), 0)
    grid = batched_rollout.step_grid(s.t, s.mask, 0.04)
    assert len(grid.further) > 3
    support = torch.tensor(fields != 0)
    terms = batched_rollout.sparse_terms(support, int(support.sum((1, 2)).max()))
    coefficients = terms.coefficients(terms.parameters(torch.tensor(fields)))
    np.testing.assert_array_equal(coefficients, fields)
    maps = batched_rollout.interval_maps(case.table, terms, coefficients, s.z, grid)
    free = np.zeros((0, 3), dtype=np.intp)
    for number, (o, own) in enumerate(zip(case.observations, fields, strict=True)):
        t, z = s.t[number, : o.n].numpy(), s.z[number, : o.n].numpy()
        row, column = np.nonzero(own)
        counts = substeps(t, 0.04)
        ends, tangents = kernels.interval_maps(
            case.dictionary.packed, row, column, own[row, column], free, z, np.diff(t) / counts, counts
        )
        close(maps.ends[number].T[: o.n - 1], ends, 1e-12)
        found = torch.cat([maps.by_start[number], maps.by_parameter[number]], 1).permute(2, 0, 1)
        close(found[: o.n - 1, :, : case.dim + len(row)], tangents, 1e-12)


def test_rollouts_stop_where_the_compiled_ones_do(case):
    s = case.scaled
    fields = np.stack([random_fields(case.dim, 6, k) for k in range(len(LENGTHS))]) * 2.0
    fields[:, 0] = 0.0
    fields[:, 1, -1] = 9.0  # a cubic term that leaves every bound
    starts = np.random.default_rng(1).normal(size=(len(LENGTHS), 6, case.dim))
    grid = batched_rollout.step_grid(s.t, s.mask, STEP_LIMIT)
    paths = batched_rollout.rollouts(case.table, *map(torch.tensor, (fields, starts)), grid, 1e3)
    for number, o in enumerate(case.observations):
        t = s.t[number : number + 1, : o.n].numpy()
        expected = rollout(case.dictionary, fields[number], starts[number][:, None], t, STEP_LIMIT, 1e3)
        close(paths[number, :, : o.n], expected[:, 0], 1e-10)
        assert np.isnan(expected).any() and np.isfinite(expected[0]).all()


# ---------------------------------------------------------------------- scaling and smoothing


def test_noise_of_few_samples_is_estimated_alike():
    rng = np.random.default_rng(0)
    t = np.linspace(0, 30, 120)[np.sort(rng.permutation(120)[:60])]
    x = np.stack([np.sin(2.2 * t), 10.0 * np.cos(2.9 * t)], axis=1)
    x = x + 0.05 * rng.normal(size=x.shape) * np.sqrt(np.mean(x**2, axis=0))
    s = scaled(torch.tensor(t)[None], torch.tensor(x)[None], torch.ones(1, len(t), dtype=torch.bool))
    law = noise_law([(t, x / s.scale[0].numpy())])
    residuals, _ = pseudo_residuals(t, x / s.scale[0].numpy())
    assert (law.level < 0.7 * np.sqrt(np.mean(residuals**2, axis=0))).all()  # the gaps say so
    close(s.level[0], law.level, 1e-9)
    close(s.share[0], law.share, 0.0)


def test_contexts_are_scaled_alike(case):
    s, (narrow, velocity, spline) = case.scaled, pool.regressed_smoothers(case.scaled)
    assert s.whole.all() and spline is s.spline
    for k, o in enumerate(case.observations):
        n = o.n
        close(s.t[k, :n], o.t[0], 1e-9)
        close(s.z[k, :n], o.z[0], 1e-12)
        close(s.weights[k, :n], o.weights[0], 1e-9)
        close(s.spline.states[k, :n], o.splines[0][0], 1e-9)
        close(s.spline.slopes[k, :n], o.splines[0][1], 1e-9)
        for own, smoother in ((narrow, choice._SMOOTHERS[0]), (velocity, choice._SMOOTHERS[1])):
            ((states, slopes),) = o.smoothed(smoother)
            close(own.states[k, :n], states, 1e-9)
            close(own.slopes[k, :n], slopes, 1e-9)
            assert (o.row_weights(smoother) == 1.0).all()  # the regressions know no other weights
        close(s.level[k], o.law.level, 1e-9)
        close(s.share[k], o.law.share, 0.0)
        close(s.scale[k] * s.time_unit[k], o.scale * o.time_unit, 1e-9)
        close(s.signal_variance[k], o.signal_variance, 1e-9)
        close(
            s.start_variance[k], o.start_variance[0] if o.start_variance.ndim > 1 else o.start_variance, 1e-9
        )
        close(s.span[k], o.span, 1e-9)
    assert (s.t[0, LENGTHS[0] :] == s.span[0]).all() and (s.weights[~s.mask] == 0).all()


def test_contexts_with_long_gaps_are_told():
    t = np.concatenate([np.linspace(0.0, 10.0, 150), 20.0 + np.linspace(0.0, 10.0, 150)])
    cut = t, np.sin(3.0 * t)[:, None] + 2.0
    whole = np.linspace(0.0, 10.0, 50), np.sin(np.linspace(0.0, 10.0, 50))[:, None] + 2.0
    assert len(originals.observe([cut]).samples) > 1
    assert scaled(*tensors([cut, whole])).whole.tolist() == [False, True]


def test_too_few_and_too_many_samples_are_refused():
    short = np.linspace(0.0, 1.0, 8), np.ones((8, 1))
    with pytest.raises(ValueError, match="at least 12 samples in each context, got 8"):
        scaled(*tensors([short]))
    t = torch.linspace(0.0, 1.0, 1001, dtype=torch.float64)[None]
    with pytest.raises(ValueError, match="at most 1000 samples, got 1001"):
        smoothing.tricube_cubic(t, t[..., None], torch.ones_like(t, dtype=torch.bool), t[:, 0])


# ---------------------------------------------------------------------- regressions


@pytest.fixture(scope="module")
def equations():
    """Normal matrices and right-hand sides of 12 problems of 10 terms."""
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(12, 40, 10))
    targets = columns @ (rng.normal(size=(12, 10, 1)) * (rng.random((12, 10, 1)) < 0.5))
    targets += 0.1 * rng.normal(size=targets.shape)
    return columns.transpose(0, 2, 1) @ columns, (columns.transpose(0, 2, 1) @ targets)[..., 0]


def test_regressions_equal_the_originals(equations):
    gram, moment = equations
    support = np.random.default_rng(1).random(moment.shape) < 0.6
    solved = sparse.solve_supports(*map(torch.tensor, (gram, moment, support)), 0.3)
    close(solved, original_sparse.solve_supports(gram, moment, support, 0.3), 1e-10)
    threshold, unit = np.linspace(0.05, 2.0, 12), np.arange(12) % 2 == 0
    expected = original_sparse.stlsq(gram, moment, threshold, 0.05, unit)
    for compact in (True, False):
        found = sparse.stlsq(*map(torch.tensor, (gram, moment, threshold)), 0.05, torch.tensor(unit), compact)
        close(found, expected, 1e-10)
    assert 0 < np.count_nonzero(expected) < expected.size
    tolerances = np.array([0.1, 3.0, 30.0])
    path = sparse.backward_path(*map(torch.tensor, (gram, moment)), torch.tensor(tolerances).expand(12, 3))
    close(path, original_sparse.backward_path(gram, moment, tolerances), 1e-10)


def test_elimination_equals_the_original_and_skips_what_is_absent(equations):
    gram, moment = equations
    order, costs = sparse.backward_elimination(*map(torch.tensor, (gram, moment)))
    expected_order, expected_costs = original_sparse.backward_elimination(gram, moment)
    np.testing.assert_array_equal(order, expected_order)
    close(costs, expected_costs, 1e-10)
    present = torch.arange(10).expand(12, 10) < 7
    order, costs = sparse.backward_elimination(
        torch.tensor(gram) * (present[:, None] & present[..., None]), torch.tensor(moment) * present, present
    )
    expected_order, expected_costs = original_sparse.backward_elimination(gram[:, :7, :7], moment[:, :7])
    np.testing.assert_array_equal(order[:, :7], expected_order)
    close(costs[:, :7], expected_costs, 1e-10)
    assert costs[:, 7:].isinf().all()


# ---------------------------------------------------------------------- fits


def test_solutions_leave_undetermined_directions_at_rest():
    rng = np.random.default_rng(0)
    matrices = rng.normal(size=(5, 6, 6))
    matrices = matrices @ matrices.transpose(0, 2, 1)
    matrices[1, 2] = matrices[1, :, 2] = 0.0
    right = rng.normal(size=(5, 6, 2))
    right[1, 2] = 0.0
    found = refinement.solve_spd(*map(torch.tensor, (matrices, right)))
    for own, matrix, expected in zip(found, matrices, right.copy(), strict=True):
        kernels._solve_spd(matrix, expected)
        close(own, expected, 1e-10)
    assert (found[1, 2] == 0.0).all()


class Elements:
    """Some structures of a case as fits of both kinds."""

    def __init__(self, case):
        self.case, self.pairs = case, case.chosen()
        self.owner = torch.tensor([number for number, _ in self.pairs])
        self.coefficients = torch.tensor(np.stack([c.coefficients for _, c in self.pairs]))
        self.variance = torch.tensor(np.stack([c.variance for _, c in self.pairs]))
        support = self.coefficients != 0
        self.terms = batched_rollout.sparse_terms(support, int(support.sum((1, 2)).max()))
        self.assumed = pruning.assumed_variance(case.scaled, self.owner, self.variance)
        self.samples = pruning.samples_of(case.scaled, self.owner, self.assumed)
        self.paths = case.scaled.spline.states[self.owner]
        self.parameters = self.terms.parameters(self.coefficients)

    def originals(self):
        """Every context, candidate and the weights of its fit."""
        for number, candidate in self.pairs:
            o = self.case.observations[number]
            assumed = original_pruning.assumed_variance(o, candidate)
            yield o, candidate, o.weights[0, : o.n] / assumed


def test_one_linearisation_and_one_step_equal_the_compiled_ones(case):
    elements, damping = Elements(case), 1e-3
    d = case.dim
    for segments in (5, 1):
        layout, slots = refinement.segmented(elements.samples, segments)
        nodes = refinement._rows(elements.paths, slots).view_as(layout.values)
        linear = refinement.linearise(case.table, layout, elements.terms, elements.parameters, nodes)
        each = torch.full((len(elements.pairs),), damping, dtype=torch.float64)
        total, right, _ = refinement.eliminate_starts(linear.normal, linear.moment, d, each)
        change, moved = refinement.gauss_newton_step(linear, d, each)
        moved = refinement._rows(moved.view(len(moved), -1, d), layout.place)
        for k, (o, candidate, weights) in enumerate(elements.originals()):
            p, q, support = (
                candidate.coefficients[candidate.support],
                candidate.support.sum(),
                candidate.support,
            )
            prior = np.zeros((q, q)), p
            problem = original_fits._Shooting(
                None,
                None,
                None,
                original_pruning.compiled_maps(case.dictionary, support),
                original_fits._Data.of(o.samples, [weights]),
                prior,
                (1.0 / o.start_variance * np.ones_like(o.start), o.start),
                STEP_LIMIT,
            )
            expected = problem.linearise(p, o.path[0], problem.data.segments(segments))
            close(linear.merit[k], expected.merit, 1e-10)
            close(linear.normal[k][:, : d + q, : d + q], expected.normal, 1e-10)
            close(linear.moment[k][:, : d + q], expected.moment, 1e-9)
            matrix, side, _ = problem._eliminated(expected, damping, p)
            close(total[k, :q, :q], matrix, 1e-10)
            close(right[k, :q], side, 1e-9)
            step, nodes_after = problem.step(expected, p, o.path[0], damping)
            close(change[k, :q], step - p, 1e-8)
            close(moved[k, : o.n], nodes_after - o.path[0], 1e-8)
            assert (change[k, q:] == 0).all()


@pytest.mark.parametrize(("compact", "block"), [(True, None), (False, None), (True, 2)])
def test_fits_equal_the_originals(case, compact, block):
    elements = Elements(case)
    fits = refinement.fit_trajectories(
        case.table,
        elements.samples,
        elements.terms,
        elements.parameters,
        elements.paths,
        compact=compact,
        block=block,
    )
    for k, (o, candidate, weights) in enumerate(elements.originals()):
        expected = original_fits.fit_trajectory(
            None,
            None,
            None,
            candidate.coefficients[candidate.support],
            o.start,
            o.samples,
            [weights],
            start_precision=1.0 / o.start_variance,
            paths=o.path,
            max_step=STEP_LIMIT,
            max_iterations=8,
            check=False,
            interval_maps=original_pruning.compiled_maps(case.dictionary, candidate.support),
        )
        q = len(expected.parameters)
        assert fits.iterations[k] == expected.iterations
        close(fits.parameters[k, :q], expected.parameters, 1e-8)
        close(fits.paths[k, : o.n], expected.paths[0], 1e-8)
        close(fits.misfit[k], expected.misfit, 1e-8)
        close(fits.information[k, :q, :q], expected.information, 1e-8)
        assert (fits.parameters[k, q:] == 0).all()


@pytest.mark.parametrize("case", [2], indirect=True)
def test_a_fit_that_overflows_says_so(case):
    elements = Elements(case)
    wild = elements.parameters.clone()
    wild[0] = 1e200
    fits = refinement.fit_trajectories(
        case.table, elements.samples, elements.terms, wild, elements.paths, compact=False
    )
    assert fits.misfit[0].isinf() and (fits.information[0] == 0).all() and fits.iterations[0] == 0
    alone = refinement.fit_trajectories(
        case.table, elements.samples, elements.terms, elements.parameters, elements.paths
    )
    close(fits.parameters[1:], alone.parameters[1:], 1e-10)


EFFORTS = [(1, Effort()), (2, Effort()), (3, Effort()), (1, Effort(compact=False, block=None))]


@pytest.mark.parametrize(("case", "effort"), EFFORTS, indirect=["case"])
def test_pruning_meets_what_the_original_meets(case, effort):
    elements = Elements(case)
    met = pruning.refine_and_prune(
        case.table, case.scaled, elements.owner, elements.coefficients, elements.variance, effort
    )
    shorter = 0
    for k, (o, candidate, _) in enumerate(elements.originals()):
        expected = original_pruning.refine_and_prune(o, case.dictionary, candidate, o.path)
        at = met.present[k].nonzero()[:, 0]
        assert len(at) == len(expected)
        shorter += len(at) > 1
        for own, structure in zip(at, expected, strict=True):
            close(met.coefficients[k, own], structure.coefficients, 1e-8)
            close(met.start[k, own], structure.start[0], 1e-8)
            close(met.score[k, own], structure.score, 1e-8)
            close(met.log_information[k, own], structure.log_information, 1e-8)
    assert shorter


# ---------------------------------------------------------------------- structures chosen anew


class Integrated:
    """The best fit of each context of a case, and its path."""

    def __init__(self, case):
        self.candidates = [
            original_pruning.improve(o, case.dictionary, ranked, 1)[0]
            for o, ranked in zip(case.observations, case.proposed, strict=True)
        ]
        assert all(c.refined for c in self.candidates)
        self.paths = [
            rollout(case.dictionary, c.coefficients[None], c.start[None], o.t, STEP_LIMIT)[0, 0]
            for o, c in zip(case.observations, self.candidates, strict=True)
        ]
        self.given = (
            torch.tensor(np.stack([c.coefficients for c in self.candidates])),
            torch.tensor(np.stack([c.variance for c in self.candidates])),
            padded(self.paths),
        )

    def responses(self, case):
        """What the original chooses the subsets of each context by."""
        for o, candidate, path in zip(case.observations, self.candidates, self.paths, strict=True):
            yield original_reselection._response(o, case.dictionary, candidate, [path])


def test_responses_and_the_subsets_chosen_about_them_equal_the_originals(case):
    integrated = Integrated(case)
    owner = torch.arange(len(LENGTHS))
    about = reselection.response(case.table, case.scaled, owner, *integrated.given)
    chosen = [
        reselection.suggested(case.table, case.scaled, *integrated.given, Effort(block=block))
        for block in (None, 1)
    ]
    for k, expected in enumerate(integrated.responses(case)):
        information, score, misfit, *_ = expected
        close(about.information[k], information, 1e-8)
        close(about.score[k], score, 1e-8)
        close(about.misfit[k], misfit, 1e-8)
        subsets = np.stack(original_reselection.chosen_subsets(*expected))
        assert subsets.any()
        for found in chosen:
            np.testing.assert_array_equal(found[k] != 0, subsets != 0)
            close(found[k], subsets, 1e-8)


@pytest.mark.parametrize("case", [2], indirect=True)
def test_nothing_is_chosen_about_paths_that_end_early(case):
    coefficients, variance, paths = Integrated(case).given
    expected = reselection.suggested(case.table, case.scaled, coefficients, variance, paths, Effort())
    paths = paths.clone()
    paths[0, 20:] = torch.nan
    found = reselection.suggested(case.table, case.scaled, coefficients, variance, paths, Effort())
    assert (found[0] == 0).all() and expected[0].any()
    close(found[1], expected[1], 1e-12)


@pytest.mark.parametrize(("case", "effort"), EFFORTS, indirect=["case"])
def test_reselection_meets_what_the_original_meets(case, effort):
    lists = []
    for o, ranked in zip(case.observations, case.proposed, strict=True):
        best, *others = original_pruning.improve(o, case.dictionary, ranked, 6)
        lists.append([c for c in others if (c.support != best.support).any()])
    found = reselection.reselect(case.table, case.scaled, tensor_candidates(lists), effort).ranked()
    for k, (o, given) in enumerate(zip(case.observations, lists, strict=True)):
        expected = original_reselection.reselect(o, case.dictionary, given)
        expected.sort(key=lambda c: c.score)
        count = len(expected)
        assert found.present[k].sum() == count > 0
        close(found.score[k, :count], [c.score for c in expected], 1e-7)
        close(found.coefficients[k, :count], np.stack([c.coefficients for c in expected]), 1e-6)
        assert found.origin[k, :count].tolist() == [origin_of(c) for c in expected]
        assert found.refined[k, :count].all()


@pytest.mark.parametrize("case", [1], indirect=True)
def test_nothing_is_reselected_where_nothing_follows_or_terms_are_too_many(case, monkeypatch):
    ranked = [
        original_pruning.improve(o, case.dictionary, own, 1)
        for o, own in zip(case.observations, case.proposed, strict=True)
    ]
    found = tensor_candidates(ranked)
    astray = found._replace(variance=torch.full_like(found.variance, torch.inf))
    unfitted = found._replace(refined=torch.zeros_like(found.refined))
    for none in (astray, unfitted):
        assert not reselection.reselect(case.table, case.scaled, none, Effort()).present.any()
    monkeypatch.setattr(reselection, "MOST_COEFFICIENTS", 3)
    assert not reselection.reselect(case.table, case.scaled, found, Effort()).present.any()


# ---------------------------------------------------------------------- windows


class Chaos:
    """Two paths of Lorenz's flow with 5 % noise, of different lengths, both ways."""

    def __init__(self):
        self.dictionary, self.table = Dictionary.polynomial(3, 3), MonomialTable(3, 3)
        rng, names = np.random.default_rng(1), self.dictionary.names()
        field = np.zeros((len(names), 3))
        for name, values in LORENZ.items():
            field[names.index(name)] = values
        self.contexts, self.given = [], []
        for n, span, start in ((100, 5.0, (1.0, 5.0, 20.0)), (60, 2.5, (-6.0, -4.0, 25.0))):
            t = np.linspace(0.0, span, n)
            clean = rollout(self.dictionary, field[None], np.array(start)[None, None], t[None], 0.002)[0, 0]
            self.contexts.append((t, clean * (1.0 + 0.05 * rng.normal(size=clean.shape))))
        self.observations = [originals.observe([context]) for context in self.contexts]
        self.scaled = scaled(*tensors(self.contexts))
        self.count = horizon.window_counts(self.scaled)
        for o in self.observations:
            factor = np.prod(o.scale**self.dictionary.exponents, axis=1)[:, None] * o.time_unit / o.scale
            self.given.append(self._candidates(o, factor * field, rng))

    def _candidates(self, o, true, rng):
        """The true field, one with a term too many, one without any motion, and a wrong one."""
        more = true.copy()
        more[0, 0], wrong = 0.1, np.where(rng.random(true.shape) < 0.2, rng.normal(size=true.shape), 0.0)
        fields = (0.9 * true, more, 0.0 * true, wrong)
        return [
            originals.Candidate(own, o.start, f"{original_pool.SOLVE} {k}", "")
            for k, own in enumerate(fields)
        ]

    def tensors(self):
        """The candidates of both contexts."""
        values = torch.tensor(np.stack([[c.coefficients for c in own] for own in self.given]))
        origin = torch.tensor([[origin_of(c) for c in own] for own in self.given])
        starts = self.scaled.start[:, None].expand(-1, values.shape[1], -1)
        return Candidates.unscored(values, starts, origin, torch.ones_like(origin, dtype=torch.bool))


LORENZ = {
    "x0": (-10.0, 28.0, 0.0),
    "x1": (10.0, -1.0, 0.0),
    "x2": (0.0, 0.0, -8.0 / 3.0),
    "x0 x1": (0.0, 0.0, 1.0),
    "x0 x2": (0.0, -1.0, 0.0),
}


@pytest.fixture(scope="module")
def chaos():
    return Chaos()


def test_candidates_are_ranked_over_windows_as_in_the_original(chaos):
    cut = horizon.windows(chaos.scaled, chaos.count)
    found = horizon.judged(chaos.table, chaos.scaled, chaos.tensors(), cut)
    assert chaos.count[0] > chaos.count[1] > horizon.MERGED
    for k, (o, given) in enumerate(zip(chaos.observations, chaos.given, strict=True)):
        (starts, times, samples, weights), count = original_horizon._windows(o)
        own = cut.owner == k
        assert count == chaos.count[k] == own.sum()
        width = times.shape[1]
        close(cut.start[own], starts, 1e-10)
        close(cut.t[own][:, :width], times, 1e-10)
        close(cut.z[own][:, :width] * cut.mask[own][:, :width, None], samples * (weights > 0), 1e-10)
        close(cut.weights[own][:, :width], weights, 1e-9)
        assert not cut.mask[own][:, width:].any()
        windows = starts, times, samples, weights
        expected = original_horizon._judged(o, chaos.dictionary, given, windows)
        assert found.origin[k].tolist() == [origin_of(c) for c in expected]
        close(found.score[k], [c.score for c in expected], 1e-9)
        close(found.variance[k], np.stack([c.variance for c in expected]), 1e-9)


def test_windows_are_integrated_in_parts(chaos, monkeypatch):
    cut = horizon.windows(chaos.scaled, chaos.count)
    whole = horizon.judged(chaos.table, chaos.scaled, chaos.tensors(), cut)
    monkeypatch.setattr(horizon, "_AT_ONCE", 5 * 4 * 20 * 3)
    parts = horizon.judged(chaos.table, chaos.scaled, chaos.tensors(), cut)
    close(parts.score, whole.score, 1e-12)


@pytest.mark.parametrize(("block", "iterations"), [(None, 8), (1, 2)])
def test_fits_with_their_own_numbers_of_segments_equal_the_originals(chaos, block, iterations):
    owner = torch.tensor([1, 0, 0, 1])
    number = torch.tensor([0, 0, 1, 1])
    segments = torch.tensor([3, int(chaos.count[0]), 2, int(chaos.count[1])])
    given = chaos.tensors().coefficients[owner, number]
    unknown, paths = torch.full((4, 3), torch.inf, dtype=torch.float64), chaos.scaled.spline.states[owner]
    found = pruning.refine(
        chaos.table,
        chaos.scaled,
        owner,
        given,
        unknown,
        paths,
        (segments,),
        Effort(block=block),
        max_iterations=iterations,
    )
    for k, (context, candidate) in enumerate(zip(owner.tolist(), number.tolist(), strict=True)):
        o, own = chaos.observations[context], chaos.given[context][candidate]
        own = replace(own, variance=np.full(3, np.inf))
        expected, fit = original_pruning.refine(
            o, chaos.dictionary, own, o.path, (int(segments[k]),), iterations
        )
        close(found.coefficients[k], expected.coefficients, 1e-8)
        close(found.paths[k, : o.n], fit.paths[0], 1e-8)
        close(found.misfit[k], fit.misfit, 1e-8)
        close(found.score[k], expected.score, 1e-8)


def test_merged_windows_meet_what_the_original_meets(chaos):
    found = horizon.merged_hypotheses(chaos.table, chaos.scaled, chaos.tensors(), 2, Effort())
    for k, (o, given) in enumerate(zip(chaos.observations, chaos.given, strict=True)):
        expected = original_horizon.merged_hypotheses(o, chaos.dictionary, given, 2)
        count = len(expected)
        assert found.present[k].sum() == count
        close(found.score[k, :count], [c.score for c in expected], 1e-6)
        close(found.coefficients[k, :count], np.stack([c.coefficients for c in expected]), 1e-6)
        assert found.origin[k, :count].tolist() == [origin_of(c) for c in expected]
        assert found.refined[k, :count].all()
        short, best = selection.shortlist(found, 5), original_selection.shortlist(expected, 5)
        assert short.origin[k, : len(best)].tolist() == [origin_of(c) for c in best]
        close(short.score[k, : len(best)], [c.score for c in best], 1e-6)


def test_of_equal_structures_the_last_fit_is_merged_and_few():
    support = torch.tensor([[1, 1], [1, 0], [1, 1], [0, 1], [1, 1], [1, 0]])
    score = torch.tensor([1.0, 2.0, 5.0, torch.inf, 1.0, 0.0], dtype=torch.float64)
    fits = SimpleNamespace(coefficients=support[..., None].double(), score=score)
    owner = torch.tensor([0, 0, 0, 0, 1, 1])

    def chosen(*count):
        return horizon.best_distinct(owner, fits, torch.tensor(count)).tolist()

    assert chosen(9, 2) == [1, 2, 5, 4]
    assert chosen(1, 9) == [5, 4] and chosen(9, 1) == [1, 2]
    more = SimpleNamespace(coefficients=torch.eye(5)[..., None], score=torch.arange(5.0).flip(0))
    assert horizon.best_distinct(torch.zeros(5, dtype=torch.long), more, torch.tensor([9])).tolist() == [
        4,
        3,
        2,
    ]


def test_only_contexts_that_nothing_explains_are_fitted_over_windows(chaos, monkeypatch):
    monkeypatch.setattr(pool, "STRUCTURES", 1)
    monkeypatch.setattr(pool, "WINDOWED", 1)
    for module in (reselection, original_reselection):  # which terms it drops of 19 is up to rounding here
        monkeypatch.setattr(module, "ROUNDS", 0)
    contexts = [contexts_of(3)[1], chaos.contexts[1]]
    batch = scaled(*tensors(contexts))
    found = pool.hypotheses(chaos.table, batch, pool.regressed_smoothers(batch))
    explained = []
    for k, context in enumerate(contexts):
        o = originals.observe([context])
        plain, expected = (
            original_pool.hypotheses(o, chaos.dictionary, None, 1, choice._SMOOTHERS, windowed)
            for windowed in (0, 1)
        )
        explained.append(original_horizon.explains(o, plain[0]))
        assert (len(plain) == len(expected)) == explained[-1]
        count = len(expected)
        assert found.present[k].sum() == count
        # coefficients of fits that have not converged are as uncertain as rounding, their scores are not
        close(found.score[k, :count], [c.score for c in expected], 1e-6)
    assert explained == [False, True]


# ---------------------------------------------------------------------- the search


def test_padding_and_neighbours_change_nothing(case):
    alone = scaled(*tensors(case.contexts[:1]))
    among = batched_candidates.propose(case.table, case.scaled, pool.regressed_smoothers(case.scaled))
    own = batched_candidates.propose(case.table, alone, pool.regressed_smoothers(alone))
    found, expected = (
        batched_candidates.judge(case.table, *pair) for pair in ((case.scaled, among), (alone, own))
    )
    count = int(expected.present.sum())
    assert found.present[0].sum() == count
    close(found.score[0, :count], expected.score[0, :count], 1e-9)


@pytest.fixture(scope="module")
def operator():
    return fim_dynsys.load("fim-ode")


class Searched:
    """A case searched both ways with the operator's opinion."""

    def __init__(self, case, model):
        trajectories = [Trajectories.from_arrays(x, t) for t, x in case.contexts]
        said = model.opinions(trajectories)
        self.expected = [
            choice.consider(own, case.dictionary, *parts)
            for own, parts in zip(trajectories, said, strict=True)
        ]
        solves, variances = (torch.tensor(np.stack(part)) for part in zip(*said, strict=True))
        self.opinion = pool.scaled_opinion(case.scaled, case.table, solves, variances)
        smoothed = pool.regressed_smoothers(case.scaled)
        found = pool.hypotheses(case.table, case.scaled, smoothed, self.opinion)
        self.found = selection.shortlist(found)


@pytest.fixture(scope="module")
def searched(case, operator):
    return Searched(case, operator)


def test_the_search_finds_the_shortlist_of_the_original(case, searched):
    for k, expected in enumerate(searched.expected):
        present = searched.found.present[k]
        count = len(expected.candidates)
        assert present.tolist() == [True] * count + [False] * (len(present) - count)
        close(searched.opinion.solves[k], expected.opinion.solves, 1e-8)
        close(searched.opinion.variance[k], expected.opinion.variance, 1e-8)
        for own, candidate in enumerate(expected.candidates):
            close(searched.found.score[k, own], candidate.score, 1e-7)
            close(searched.found.coefficients[k, own], candidate.coefficients, 1e-6)
            assert searched.found.refined[k, own] == candidate.refined
            assert searched.found.origin[k, own] == origin_of(candidate)


def origin_of(candidate):
    if candidate.origin.startswith(original_pool.SOLVE):
        number, *dropped = candidate.origin.removeprefix(original_pool.SOLVE).split(",")
        return Origin.SOLVE + 2 * int(number) + len(dropped)
    if candidate.origin.startswith(original_pool.STRUCTURE):
        return Origin.STRUCTURE
    return Origin.REST if candidate.origin == originals.REST else Origin.REGRESSED


def tensor_candidates(lists):
    """Candidates of several contexts as tensors, exactly."""
    length = max(map(len, lists))
    stacked = partial(padded, length=length)

    def numbers(get):
        return stacked([np.array([get(c) for c in own], dtype=float) for own in lists])

    return Candidates(
        stacked([np.stack([c.coefficients for c in own]) for own in lists]),
        stacked([np.stack([c.start[0] for c in own]) for own in lists]),
        numbers(lambda c: c.score),
        stacked([np.stack([c.variance for c in own]) for own in lists]),
        numbers(lambda c: c.refined).bool(),
        numbers(lambda c: c.log_information),
        numbers(origin_of).long(),
        stacked([np.ones(len(own)) for own in lists]).bool(),
    )


@pytest.mark.parametrize("asked", [True, False])
def test_features_and_logits_equal_the_originals(case, searched, operator, asked):
    candidates = tensor_candidates([expected.candidates for expected in searched.expected])
    opinion = searched.opinion if asked else None
    found = selection.features(case.table, case.scaled, candidates, opinion)
    selector = operator.operator.selector
    logits = selection.TensorSelector.of(selector, torch.device("cpu")).logits(found, candidates.present)
    for k, own in enumerate(searched.expected):
        count = len(own.candidates)
        said = own.opinion if asked else None
        expected = replace(own, opinion=said).features()
        close(found[k, :count], expected, 1e-8)
        close(logits[k, :count], selector.logits(expected), 1e-8)
        assert (found[k, count:] == 0).all() and logits[k, count:].isneginf().all()


# ---------------------------------------------------------------------- training

CPU = torch.device("cpu")


@pytest.mark.parametrize("dim", [1, 3])
def test_labels_equal_those_of_one_context(dim):
    contexts = [draw("sparse", dim, np.random.default_rng(seed)) for seed in (1, 2)]
    observed, truth = training_search.from_contexts(contexts, CPU)
    dictionary, own = Dictionary.polynomial(dim, 3), scaled(*observed)
    factor = (own.scale[:, None] ** torch.tensor(dictionary.exponents)).prod(-1)[..., None]
    factor = factor * (own.time_unit[:, None] / own.scale)[:, None]
    true = factor * torch.tensor(np.stack([c.field.coefficients for c in contexts]))
    wild = torch.zeros_like(true)
    wild[:, -1] = 50.0
    candidates = torch.stack([true, 1.02 * true, 0.0 * true, wild], 1)
    found = training_search.labels(MonomialTable(dim, 3), own, truth, candidates)
    np.testing.assert_allclose(found[:, 0], [[1.0, 1.0, 0.0, 0.0]] * 2, atol=1e-9)
    for k, context in enumerate(contexts):
        observations = originals.observe([(context.t, context.x)])
        expected = label(context, observations, dictionary, candidates[k].numpy())
        close(found[k], expected, 1e-9)
        assert (expected[2:, 0] == 0.0).all()


def test_batched_shards_are_those_of_one_context_after_the_other(operator, tmp_path):
    priors, one = {"paper": 0.4, "sparse": 0.35, "functions": 0.25}, operator_candidates(operator)
    paths = [tmp_path / f"{name}.npz" for name in ("one", "other", "first", "second")]
    for path, seed in zip(paths, (0, 4), strict=False):
        make_shard(path, [0, seed], priors, one, size=1)
    make_shards(paths[2:], [[0, 0], [0, 4]], priors, together(operator, CPU, Effort()), size=1)
    for expected, found in zip(paths, paths[2:], strict=False):
        with np.load(expected) as before, np.load(found) as after:
            assert before.files == after.files
            for name in before.files:
                assert before[name].dtype == after[name].dtype
                np.testing.assert_allclose(before[name], after[name], rtol=1e-4, atol=1e-4)


def test_contexts_that_the_batched_search_leaves_out_are_searched_alone(operator, monkeypatch):
    context = draw("sparse", 1, np.random.default_rng(1))
    with monkeypatch.context() as patch:
        patch.setattr(batched_observations, "STEPS_PER_GAP", 1e-3)
        ((values, labels),) = together(operator, CPU, Effort())([context])
    seen = Trajectories.from_arrays(context.x, context.t)
    expected = operator_candidates(operator)(context, seen, None)
    np.testing.assert_array_equal(values, expected[0])
    np.testing.assert_array_equal(labels, expected[1])


def test_contexts_drawn_on_the_device_are_of_their_systems(monkeypatch):
    monkeypatch.setattr(training_search, "_OBSERVATION", Observation(noise_high=0.0, drop_high=0.7))
    observed, truth = training_search.draw_many("sparse", 2, 3, 7, CPU)
    again, _ = training_search.draw_many("sparse", 2, 3, 7, CPU)
    assert torch.equal(observed.x, again.x)
    times, path = truth.t[0].numpy(), truth.paths.numpy()
    assert (observed.t[:, 0] == 0).all() and observed.t.max() <= times[-1] + 1e-9
    slope = CubicSpline(times, path[:, 0], axis=1)(times, 1)[:, 2:-2]
    points = truth.points[:, 0].numpy()  # all times of the first path
    np.testing.assert_array_equal(points, path[:, 0])
    rates = truth.rates[:, 0].numpy()
    assert np.abs(slope - rates[:, 2:-2]).max() < 0.01 * np.abs(rates).max()
    for t, x, own in zip(observed.t.numpy(), observed.x.numpy(), path[:, 0], strict=True):
        start = observed_offset(times, own, x[0])
        between = np.stack([np.interp(t + start, times, column) for column in own.T], 1)
        inside = t + start <= times[-1]
        assert np.abs(between - x)[inside].max() < 0.02 * np.abs(own).max()


def observed_offset(times, path, first):
    """Time at which a path passes its first observation."""
    fine = np.linspace(0.0, times[-1] / 2, 4000)
    states = np.stack([np.interp(fine, times, column) for column in path.T], 1)
    return fine[np.abs(states - first).sum(1).argmin()]


def test_shards_drawn_on_the_device_are_read_as_others(operator, tmp_path, monkeypatch):
    monkeypatch.setattr(training_selection, "DIMS", {1: 0.5, 2: 0.5})
    monkeypatch.setattr(training_search, "_INTEGRATION", Integration(200, torch.float64))
    priors = {"paper": 0.0, "sparse": 1.0}
    paths = [tmp_path / f"{k}.npz" for k in range(2)]
    assert draw_shards(paths, [0], priors, operator.operator.network, CPU, Effort(), size=2) == 0
    data = read_contexts(paths)
    assert data.features.shape == (4, data.mask.shape[1], selection.N_CHOICE_FEATURES)
    assert set(data.origin[:, 0].tolist()) == {1} and set(data.origin[:, 1].tolist()) == {1, 2}
    assert data.labels[..., 0].max() == 1.0


def test_contexts_left_out_of_shards_are_counted(operator, tmp_path, monkeypatch):
    asked = []

    def drawn(prior, dim, n, seed, device):
        asked.append((prior, dim, n))
        return training_search.from_contexts(
            [draw("sparse", dim, np.random.default_rng(k)) for k in range(n)], device
        )

    def some(network, observed, truth, effort):
        whole = torch.arange(len(observed.t)) % 2 == 0
        values = torch.zeros(len(whole), 1, selection.N_CHOICE_FEATURES)
        return training_search.Labelled(values, torch.zeros(len(whole), 1, 4), values[..., 0] == 0, whole)

    monkeypatch.setattr(training_selection, "draw_many", drawn)
    monkeypatch.setattr(training_selection, "labelled", some)
    path, priors = tmp_path / "0.npz", {"chaotic": 1.0}
    left = draw_shards([path], [0], priors, operator.operator.network, CPU, Effort(), size=5)
    assert asked == [("chaotic", 3, 5)]
    assert left == 2 and len(read_contexts([path]).mask) == 3


def test_every_prior_of_the_operator_is_drawn_on_the_device_too():
    assert set(PRIORS["fim-ode"]) == set(training_search.GENERATED)
    shares = training_selection._shares(PRIORS["fim-ode"])
    assert sum(shares.values()) == pytest.approx(1.0)
    assert [dim for prior, dim in shares if prior == "chaotic"] == [3]
    for prior, dim in shares:
        assert components(training_search.GENERATED[prior], dim, 1)
