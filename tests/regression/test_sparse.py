"""Sparse regression from normal matrices, against pysindy and against refits."""

import warnings

import numpy as np
import pysindy
import pytest

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.kernels.subsets import residuals_of
from fim_dynsys.regression.sparse import (
    backward_elimination,
    backward_path,
    normal_equations,
    smallest_subset,
    solve_supports,
    stlsq,
    subset_residuals,
    subsets_of,
    subsets_that_leave_least,
)

RNG = np.random.default_rng(3)
X = RNG.normal(size=(150, 2))
COLUMNS = Dictionary.polynomial(2, 3).evaluate(X)
TRUTH = np.zeros((10, 2))
TRUTH[[1, 4], 0] = [2.0, -0.6]
TRUTH[[0, 2, 8], 1] = [0.3, 1.0, -1.4]
SLOPES = COLUMNS @ TRUTH + 0.05 * RNG.normal(size=(150, 2))


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(
    ("threshold", "alpha"), [(0.01, 0.05), (0.1, 0.05), (0.5, 0.0), (3.0, 1.0), (50.0, 0.05)]
)
def test_stlsq_equals_pysindy(threshold, alpha, normalize):
    optimizer = pysindy.STLSQ(threshold=threshold, alpha=alpha, normalize_columns=normalize)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        expected = optimizer.fit(COLUMNS, SLOPES).coef_
    gram, moment, _ = normal_equations(COLUMNS, SLOPES)
    np.testing.assert_allclose(
        stlsq(gram, moment, threshold, alpha, normalize), expected, rtol=1e-9, atol=1e-11
    )


def test_settings_are_batched():
    gram, moment, _ = normal_equations(COLUMNS, SLOPES)
    thresholds, unit = np.array([0.01, 0.1, 0.4])[:, None], np.array([False, True, False])[:, None]
    together = stlsq(gram, moment, thresholds, 0.05, unit)
    assert together.shape == (3, 2, 10)
    for k in range(3):
        alone = stlsq(gram, moment, thresholds[k], 0.05, unit[k])
        np.testing.assert_allclose(together[k], alone, rtol=1e-12)


def test_elimination_costs_are_rises_of_the_residual():
    gram, moment, total = normal_equations(COLUMNS, SLOPES)
    order, costs = backward_elimination(gram, moment)
    for i in range(2):
        kept, before = list(range(10)), None
        for step in range(10):
            fit = np.linalg.lstsq(COLUMNS[:, kept], SLOPES[:, i], rcond=None)[0] if kept else np.zeros(0)
            residual = np.sum((SLOPES[:, i] - COLUMNS[:, kept] @ fit) ** 2)
            if before is not None:
                assert costs[i, step - 1] == pytest.approx(residual - before, rel=1e-6, abs=1e-9)
            kept.remove(order[i, step])
            before = residual
        assert costs[i, -1] == pytest.approx(total[i] - before, rel=1e-6)


def test_backward_path_finds_the_truth_between_its_ends():
    gram, moment, total = normal_equations(COLUMNS, SLOPES)
    path = backward_path(gram, moment, total[:, None] * np.array([0.0, 1e-3, 10.0]))
    assert np.count_nonzero(path, axis=-1).tolist() == [[10, 2, 0], [10, 3, 0]]
    np.testing.assert_array_equal(path[:, 1] != 0, TRUTH.T != 0)
    np.testing.assert_allclose(path[:, 1], TRUTH.T, atol=0.02)


def test_row_weights_equal_repeated_rows():
    counts = RNG.integers(1, 4, size=150)
    repeated = normal_equations(np.repeat(COLUMNS, counts, axis=0), np.repeat(SLOPES, counts, axis=0))
    weighted = normal_equations(COLUMNS, SLOPES, np.tile(counts[:, None], (1, 2)).astype(float))
    for a, b in zip(weighted, repeated, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_column_of_zeros_gets_no_coefficient():
    columns = np.column_stack([COLUMNS[:, :3], np.zeros(150)])
    gram, moment, _ = normal_equations(columns, SLOPES)
    c = solve_supports(gram, moment, np.ones((2, 4), dtype=bool))
    np.testing.assert_allclose(c[:, :3], np.linalg.lstsq(columns[:, :3], SLOPES, rcond=None)[0].T, rtol=1e-9)
    np.testing.assert_array_equal(c[:, 3], 0.0)


def test_the_smallest_subset_that_explains_is_found_among_all():
    """Where an exchange of one column for another never helps: each of two differences needs both."""
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((3, 100))
    columns = np.column_stack([a + 1e-2 * b, a, c, a + b + c, a + b - c])
    columns /= np.linalg.norm(columns, axis=0)
    both = np.column_stack([columns, b])
    equations = both.T @ both
    subset, left = smallest_subset(equations, 1e-6, 4)
    assert subset.tolist() == [True, True, False, False, False] and left < 1e-6
    assert smallest_subset(equations, 1e-6, 1) is None
    tied, _ = smallest_subset(equations, 1e3, 4, cost=np.array([3.0, 2.0, 1.0, 2.0, 3.0]))
    assert tied.tolist() == [False, False, True, False, False]  # all leave so little, one is cheapest
    every = subsets_of(5, 2)
    assert len(every) == 10
    expected = [np.linalg.lstsq(columns[:, s], b, rcond=None)[1][0] for s in every]
    np.testing.assert_allclose(subset_residuals(equations, every), expected, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("of_equal", [False, True])
def test_the_subsets_that_leave_least_are_those_of_a_list_of_all(size, of_equal):
    """In the same order; what is below the floor is equal, and then cost and, if wanted, residuals decide."""
    rng = np.random.default_rng(size)
    columns = rng.standard_normal((50, 9))
    columns[:, 5] = columns[:, 0] - columns[:, 3]
    target = columns[:, 0] + 0.1 * columns[:, 3] + 1e-3 * rng.standard_normal(50)
    both = np.column_stack([columns / np.linalg.norm(columns, axis=0), target])
    equations, cost = both.T @ both, rng.integers(0, 3, 9)
    floor = 0.1 * equations[-1, -1]
    every = subsets_of(9, size)
    residuals = subset_residuals(equations, every)
    keys = (cost[every].sum(axis=1), np.maximum(residuals, floor))
    order = np.lexsort((residuals, *keys) if of_equal else keys)[:6]
    found, left = subsets_that_leave_least(equations, size, cost, floor, of_equal, most=6)
    np.testing.assert_array_equal(found, every[order])
    np.testing.assert_allclose(left, residuals[order], rtol=1e-6, atol=1e-10)


def test_residuals_of_subsets_equal_those_of_least_squares_down_to_rounding():
    rng = np.random.default_rng(5)
    columns = rng.standard_normal((40, 6))
    columns[:, 4] = columns[:, 0] + 1e-9 * columns[:, 1]
    columns[:, 5] = columns[:, 2]  # nothing is left of it
    target = columns[:, 0] - columns[:, 1] + 1e-7 * rng.standard_normal(40)
    subsets = np.array([[0, 1, 2], [0, 4, 3], [2, 5, 1]])
    expected = [
        np.sum((target - columns[:, s] @ np.linalg.lstsq(columns[:, s], target, rcond=1e-13)[0]) ** 2)
        for s in subsets
    ]
    found = residuals_of(np.ascontiguousarray(columns.T), target, subsets, 1e-13)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-11)
    assert found[1] < 1e-10 < 1.0 < found[2]


def test_columns_of_which_rounding_left_nothing_are_not_the_best():
    """Of two equal columns the second is taken for none; one that is no number comes last."""
    rng = np.random.default_rng(1)
    columns = 1e3 * rng.standard_normal((40, 3))
    both = np.column_stack([columns, columns[:, 0], columns[:, 1]])
    equations = both.T @ both
    equations[3, 3] *= 1.0 - 1e-15
    found, left = subsets_that_leave_least(equations, 2, np.zeros(4), 0.0, of_equal=True, most=6)
    assert 1 in found[0] and left[0] > -1e-6 and (np.diff(left) >= 0.0).all()
    equations[2] = equations[:, 2] = np.nan
    found, _ = subsets_that_leave_least(equations, 1, np.zeros(4), 0.0, most=4)
    assert found[0] == 1 and found[-1] == 2
