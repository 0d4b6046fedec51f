"""Scores on values worked out by hand, and against scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from fim_dynsys.metrics import attractor_distance, coverage, field_error, interval_score, mse, r2_score


@pytest.fixture
def rng():
    return np.random.default_rng(20)


def test_r2_is_the_ratio_of_summed_squares():
    truth = np.array([[0.0, 0.0], [2.0, 10.0]])
    prediction = np.array([[1.0, 0.0], [2.0, 7.0]])
    # SS_res = 1 + 9, SS_tot = 2 + 50
    assert r2_score(truth, prediction) == pytest.approx(1 - 10 / 52, abs=1e-15)
    assert r2_score(truth, truth) == 1.0
    assert r2_score(truth, np.broadcast_to(truth.mean(axis=0), truth.shape)) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("shape", [(50,), (50, 1), (50, 3)])
def test_r2_and_mse_agree_with_sklearn_where_every_state_varies(rng, shape):
    truth = rng.normal(size=shape) * 10.0 ** np.arange(-1, len(shape[1:]) and shape[1] - 1)
    prediction = truth + 0.3 * rng.normal(size=shape)
    expected = sklearn_metrics.r2_score(truth, prediction, multioutput="variance_weighted")
    assert r2_score(truth, prediction) == pytest.approx(expected, abs=1e-13)
    assert mse(truth, prediction) == pytest.approx(sklearn_metrics.mean_squared_error(truth, prediction))


def test_r2_does_not_depend_on_units_shared_by_all_states(rng):
    truth = rng.normal(size=(30, 2))
    prediction = truth + rng.normal(size=(30, 2))
    assert r2_score(1e6 * truth + 3, 1e6 * prediction + 3) == pytest.approx(
        r2_score(truth, prediction), abs=1e-9
    )


def test_r2_counts_errors_in_a_state_that_stands_still():
    truth = np.array([[0.0, 5.0], [2.0, 5.0]])
    assert r2_score(truth, truth + np.array([0.0, 1.0])) == pytest.approx(1 - 2 / 2)


def test_r2_of_a_truth_at_rest():
    truth = np.full((4, 2), 3.0)
    assert r2_score(truth, truth) == 1.0
    off = truth + np.array([0.0, 1e-8])
    # SS_res of the second state is 4e-16, measured against 1e-15
    assert r2_score(truth, off) == pytest.approx(np.mean([1.0, 1 - 4e-16 / 1e-15]), rel=1e-6)
    assert r2_score(truth, truth + 1.0) < -1e14


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_failed_prediction_is_nan_in_r2_and_infinite_in_mse(bad):
    truth = np.arange(6.0).reshape(3, 2)
    prediction = truth.copy()
    prediction[2, 1] = bad
    assert np.isnan(r2_score(truth, prediction))
    assert mse(truth, prediction) == np.inf


def test_field_errors_by_hand():
    def truth(x):
        return np.column_stack([x[:, 0], 2 + 0 * x[:, 0]])

    def turned(x):
        return np.column_stack([-truth(x)[:, 1], truth(x)[:, 0]])

    x = np.array([[1.0, 0.0], [3.0, 0.0]])
    assert field_error(lambda x: 1.5 * truth(x), truth, x) == pytest.approx(0.5)
    assert field_error(lambda x: 1.5 * truth(x), truth, x, "relative_rmse") == pytest.approx(0.5)
    assert field_error(lambda x: 1.5 * truth(x), truth, x, "cosine") == pytest.approx(0.0, abs=1e-15)
    assert field_error(turned, truth, x, "cosine") == pytest.approx(1.0)
    assert field_error(lambda x: -truth(x), truth, x, "cosine") == pytest.approx(2.0)
    # second state off by 1 of 2 everywhere, first right: mean of 0 and 1/2
    assert field_error(lambda x: truth(x) + np.array([0.0, 1.0]), truth, x) == pytest.approx(0.25)
    assert np.isnan(field_error(lambda x: np.nan * x, truth, x))


def test_cosine_where_vectors_vanish():
    x = np.array([[0.0, 0.0], [1.0, 0.0]])
    assert field_error(lambda x: x, lambda x: x, x, "cosine") == 0.0
    assert field_error(lambda x: 0 * x, lambda x: x, x, "cosine") == pytest.approx(0.5)


def test_interval_score_by_hand_and_coverage_of_closed_intervals():
    y = np.array([0.0, 1.0, 3.0, -1.0])
    # inside, on the end, 2 above, 1 below [0, 1]: width 1 plus 2/alpha times the excess
    assert interval_score(y, 0.0, 1.0, alpha=0.2) == pytest.approx(np.mean([1, 1, 1 + 10 * 2, 1 + 10 * 1]))
    assert coverage(y, 0.0, 1.0) == 0.5


def test_interval_score_is_least_at_the_true_quantiles(rng):
    y = rng.normal(size=200_000)
    scores = {z: interval_score(y, -z, z, alpha=0.1) for z in (1.4, 1.6449, 1.9)}
    assert min(scores, key=scores.get) == 1.6449
    # expected value at the true quantiles of the standard normal: 2 phi(z) * 2 / alpha
    density = np.exp(-0.5 * 1.6449**2) / np.sqrt(2 * np.pi)
    assert scores[1.6449] == pytest.approx(4 * density / 0.1, abs=0.02)
    assert coverage(y, -1.6449, 1.6449) == pytest.approx(0.9, abs=5 * np.sqrt(0.09 / 200_000))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: r2_score(np.zeros((3, 2)), np.zeros((2, 2))), ["r2_score", "(3, 2)", "(2, 2)"]),
        (lambda: r2_score(np.zeros((0, 2)), np.zeros((0, 2))), ["r2_score", "(0, 2)"]),
        (lambda: mse([np.nan, 1.0], [0.0, 1.0]), ["mse", "finite", "1"]),
        (lambda: field_error(np.abs, np.abs, np.ones((2, 2)), "r2"), ["field_error", "cosine", "'r2'"]),
        (lambda: field_error(np.abs, np.abs, np.zeros((2, 2))), ["field_error", "[0, 1]"]),
        (lambda: interval_score([0.0], 1.0, 0.0, 0.1), ["interval_score", "lower <= upper"]),
        (lambda: interval_score([0.0], 0.0, 1.0, 1.0), ["interval_score", "alpha", "1.0"]),
        (lambda: coverage([], 0.0, 1.0), ["coverage", "observations"]),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError) as error:
        call()
    assert all(word in str(error.value) for word in words), str(error.value)


# ---------------------------------------------------------------------- attractors


def test_attractor_distance_is_that_of_the_distributions(rng):
    x = rng.normal(size=(4000, 2)) * [1.0, 50.0]
    assert attractor_distance(x, x) == 0.0
    assert attractor_distance(x, x[rng.permutation(4000)]) == pytest.approx(0.0, abs=1e-12)
    # shifted by one deviation in each state: the mean over directions of |cos + sin| is 2 sqrt(2) / pi
    assert attractor_distance(x, x + x.std(axis=0)) == pytest.approx(2 * np.sqrt(2) / np.pi, rel=0.1)
    assert attractor_distance(x[:, 0], x[:, 0] + x[:, 0].std()) == pytest.approx(1.0, rel=1e-9)
    assert attractor_distance(x, np.full((5, 2), np.nan)) == np.inf


def test_spectra_see_what_distributions_do_not(rng):
    t = 0.1 * np.arange(4000)
    slow, fast = np.sin(t), np.sin(3 * t)
    assert attractor_distance(slow, fast) < 0.01
    assert attractor_distance(slow, fast, "spectra") > 0.9
    assert attractor_distance(slow, np.cos(t), "spectra") < 0.1
    for wrong in ((slow, fast, "rates"), (np.ones(5), slow, "states"), (slow, np.ones((5, 2)), "states")):
        with pytest.raises(ValueError, match="attractor_distance: expected"):
            attractor_distance(*wrong)
