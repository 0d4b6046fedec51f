"""Compiled loops against the same mathematics in plain numpy."""

import numpy as np
import pytest
from scipy.linalg import solveh_banded

from fim_dynsys.fields.terms import Dictionary, Kind
from fim_dynsys.regression.inputs import at
from fim_dynsys.regression.kernels.precise import precise_maps
from fim_dynsys.regression.kernels.sensitivities import interval_maps
from fim_dynsys.regression.kernels.shooting import condense, damped_step, eliminate_starts
from fim_dynsys.regression.kernels.splines import solve_pentadiagonal
from fim_dynsys.regression.precise import _method
from fim_dynsys.regression.rollout import rollout, runge_kutta
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.functions.families import SHIFT
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.pruning import compiled_maps

RNG = np.random.default_rng(3)
EVERY_KIND = Dictionary.polynomial(2, 3)
for _kind in list(Kind)[1:]:
    EVERY_KIND = EVERY_KIND + Dictionary([[0, 1]], [_kind], [0], [0.7], [1.6])
PAIRED = len(EVERY_KIND)
NO_INPUTS = np.zeros((0, 4, 0))
EVERY_KIND = EVERY_KIND + Dictionary([[1, 0]], [Kind.SIN], [0], [0.7], [-0.4], [1], [0.3])
for _kind in (Kind.SIN, Kind.POWER):  # functions that other terms have, too
    EVERY_KIND = EVERY_KIND + Dictionary([[2, 0]], [_kind], [0], [0.7], [1.6])


def small_field(dictionary, rng=RNG):
    """Coefficients of a mild field; two in five are not zero."""
    shape = (len(dictionary), dictionary.dim)
    return np.where(rng.random(shape) < 0.4, 0.1 * rng.normal(size=shape), 0.0)


def test_paths_equal_runge_kutta_in_numpy():
    coefficients = small_field(EVERY_KIND)
    t = np.array([0.0, 0.1, 0.4, 0.45])
    start = np.array([0.8, 0.5])
    path = rollout(EVERY_KIND, coefficients[None], start[None, None], t[None], 0.1)[0, 0]
    x = start[None]
    for sample, count in enumerate((1, 3, 1)):
        h = (t[sample + 1] - t[sample]) / count
        for _ in range(count):
            x = runge_kutta(lambda z: EVERY_KIND.evaluate(z) @ coefficients, x, h)
        np.testing.assert_allclose(path[sample + 1], x[0], rtol=1e-13)


def classical(*arguments):
    return interval_maps(*arguments, NO_INPUTS)


def of_order_eight(*arguments):
    return precise_maps(*arguments, _method(), True)


@pytest.mark.parametrize("maps", [classical, of_order_eight])
@pytest.mark.parametrize("kinds", [[], [Kind.SIN, Kind.EXP], list(Kind)[1:]], ids=["none", "two", "all"])
def test_maps_of_intervals_have_exact_derivatives(kinds, maps):
    """Against central differences of the map itself, numbers inside functions included; two are shared."""
    coefficients = small_field(EVERY_KIND)
    terms = [int(np.flatnonzero(EVERY_KIND.kind == kind)[0]) for kind in kinds]
    numbers = [(term, slot, 2 * k + slot) for k, term in enumerate(terms) for slot in (0, 1)]
    numbers += [(PAIRED, slot, slot) for slot in (0, 1) if kinds]
    numbers += [(PAIRED, SHIFT, 2 * len(kinds))] if kinds else []
    free = np.array(numbers, dtype=np.intp).reshape(-1, 3)
    coefficients[free[:, 0]] = 0.2
    row, column = map(np.ascontiguousarray, np.nonzero(coefficients))
    p = coefficients[row, column]
    nodes = np.array([[0.8, 0.5], [0.6, 0.9], [0.7, 0.2]])
    steps, counts = np.array([0.1, 0.05]), np.array([1, 3])

    def ends(p, inner, nodes):
        terms = list(EVERY_KIND.packed)
        terms[-3:] = (numbers.copy() for numbers in EVERY_KIND.numbers)
        for term, slot, k in free:
            terms[slot - 3][term] += inner[k]
        for array in terms[-3:]:  # as those of a dictionary are, for which the kernels are compiled
            array.flags.writeable = False
        return maps(tuple(terms), row, column, p, free, nodes, steps, counts)

    inner = np.zeros(2 * len(kinds) + bool(kinds))
    _, tangents = ends(p, inner, nodes)
    h = 1e-6
    for i in range(2):
        e = h * np.eye(2)[i]
        difference = (ends(p, inner, nodes + e)[0] - ends(p, inner, nodes - e)[0]) / (2 * h)
        np.testing.assert_allclose(tangents[:, :, i], difference, atol=1e-8)
    for k in range(len(p) + len(inner)):
        e = h * np.eye(len(p) + len(inner))[k]
        forward = ends(p + e[: len(p)], inner + e[len(p) :], nodes)[0]
        backward = ends(p - e[: len(p)], inner - e[len(p) :], nodes)[0]
        np.testing.assert_allclose(tangents[:, :, 2 + k], (forward - backward) / (2 * h), atol=1e-8)


def test_condensed_equations_equal_the_written_out_chain():
    n, d, q, bounds = 7, 2, 3, np.array([0, 4, 7])
    tangents, gaps = RNG.normal(size=(n - 1, d, d + q)), RNG.normal(size=(n - 1, d))
    residuals, weights = RNG.normal(size=(n, d)), RNG.random((n, d))
    weights[2, 1] = 0.0
    z, normal, moment = condense(tangents, gaps, residuals, weights, bounds)
    for segment, (a, b) in enumerate([(0, 4), (4, 7)]):
        whole = np.zeros((d, d + q + 1))
        whole[:, :d] = np.eye(d)
        total, right = np.zeros((d + q, d + q)), np.zeros(d + q)
        for node in range(a, b):
            if node > a:
                by_start = tangents[node - 1, :, :d]
                whole = by_start @ whole
                whole[:, d:-1] += tangents[node - 1, :, d:]
                whole[:, -1] += gaps[node - 1]
            np.testing.assert_allclose(z[node], whole, rtol=1e-12, atol=1e-12)
            left = whole[:, :-1] * weights[node][:, None]
            total += left.T @ whole[:, :-1]
            right += left.T @ (residuals[node] - whole[:, -1])
        np.testing.assert_allclose(normal[segment], total, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(moment[segment], right, rtol=1e-11, atol=1e-11)


def test_a_step_solves_the_damped_equations_of_parameters_and_starts():
    segments, d, q, damping = 3, 2, 4, 1e-2
    rows = RNG.normal(size=(segments, 20, d + q))
    normal = rows.transpose(0, 2, 1) @ rows
    moment = RNG.normal(size=(segments, d + q))
    bounds = np.arange(segments + 1)
    sensitivities = RNG.normal(size=(segments, d, d + q + 1))
    total, right, solved = eliminate_starts(normal, moment, d, damping)
    size = np.einsum("kii->i", normal[:, d:, d:])
    change, nodes = damped_step(total, right, solved, size, damping, sensitivities, bounds)
    # the same as one system in all unknowns
    whole = np.zeros((segments * d + q, segments * d + q))
    load = np.zeros(segments * d + q)
    for k in range(segments):
        index = np.r_[k * d : (k + 1) * d, segments * d : segments * d + q]
        whole[np.ix_(index, index)] += normal[k]
        load[index] += moment[k]
        starts = np.arange(k * d, (k + 1) * d)
        whole[starts, starts] += damping * np.diag(normal[k])[:d]
    parameters = segments * d + np.arange(q)
    whole[parameters, parameters] += damping * size
    solution = np.linalg.solve(whole, load)
    np.testing.assert_allclose(change, solution[-q:], rtol=1e-8)
    for k in range(segments):
        unknowns = np.concatenate([solution[k * d : (k + 1) * d], change, [1.0]])
        np.testing.assert_allclose(nodes[k], sensitivities[k] @ unknowns, rtol=1e-8, atol=1e-10)


def test_directions_without_data_stay_at_rest():
    normal, moment = np.zeros((1, 3, 3)), np.zeros((1, 3))
    normal[0, :2, :2], moment[0, :2] = np.eye(2), (1.0, 2.0)
    total, right, solved = eliminate_starts(normal, moment, 1, 0.0)
    sensitivities = np.zeros((1, 1, 4))
    change, _ = damped_step(total, right, solved, np.ones(2), 0.0, sensitivities, np.array([0, 1]))
    np.testing.assert_allclose(change, [2.0, 0.0], atol=1e-10)


@pytest.mark.parametrize("n", [1, 2, 3, 40])
def test_pentadiagonal_systems(n):
    bands = np.vstack([RNG.normal(size=(2, n)), 5.0 + RNG.random((1, n))])
    right = RNG.normal(size=(n, 3))
    bands[1, :1] = bands[0, :2] = 0.0
    np.testing.assert_allclose(solve_pentadiagonal(bands, right), solveh_banded(bands, right), rtol=1e-10)
    with pytest.raises(ValueError, match="positive definite"):
        solve_pentadiagonal(-bands, right)


def test_paths_and_maps_follow_their_inputs():
    """Terms of two states and an input: against Runge-Kutta in numpy with the cubic at its stages."""
    terms = Dictionary.polynomial(3, 2)
    coefficients = np.where(RNG.random((len(terms), 2)) < 0.6, 0.2 * RNG.normal(size=(len(terms), 2)), 0.0)
    t, start = np.array([0.0, 0.2, 0.6]), np.array([0.4, -0.3])
    curves = RNG.normal(size=(2, 4, 1))
    found = rollout(terms, coefficients[None], start[None, None], t[None], 0.1, inputs=curves[None])[0, 0]
    x = start
    for k, count in enumerate((2, 4)):
        h = (t[k + 1] - t[k]) / count
        for step in range(count):

            def rates(x, part, k=k, step=step, count=count):
                u = at(curves[k : k + 1], (step + part) / count)[0]
                return (terms.evaluate(np.concatenate([x, u])[None]) @ coefficients)[0]

            k1 = rates(x, 0.0)
            k2 = rates(x + 0.5 * h * k1, 0.5)
            k3 = rates(x + 0.5 * h * k2, 0.5)
            k4 = rates(x + h * k3, 1.0)
            x = x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        np.testing.assert_allclose(found[k + 1], x, rtol=1e-12)
    steps, counts = np.array([0.1, 0.1]), np.array([2, 4])
    maps = compiled_maps(Candidate(coefficients, start[None], terms, Origin(Stage.GIVEN)), curves)

    def ends(p, nodes):
        return maps(p, nodes, steps, counts)

    p = coefficients[coefficients != 0]
    reached, tangents = ends(p, found)
    np.testing.assert_allclose(reached, found[1:], rtol=1e-12)
    for i in range(2):
        e = 1e-6 * np.eye(2)[i]
        difference = (ends(p, found + e)[0] - ends(p, found - e)[0]) / 2e-6
        np.testing.assert_allclose(tangents[:, :, i], difference, atol=1e-8)
    for i in range(len(p)):
        e = 1e-6 * np.eye(len(p))[i]
        difference = (ends(p + e, found)[0] - ends(p - e, found)[0]) / 2e-6
        np.testing.assert_allclose(tangents[:, :, 2 + i], difference, atol=1e-8)
