"""Few samples are not interpolated; dense samples without noise give the equations as sparse ones do."""

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import CallableField, simulate
from fim_dynsys.regression.criteria import bic
from fim_dynsys.regression.observed import observe
from fim_dynsys.regression.windows import every


def test_a_decay_seen_six_times_is_a_decay():
    t = np.array([0.0, 0.1, 0.2, 0.4, 0.8, 1.0])
    c = np.array([2.0081, 1.5512, 1.1903, 0.7160, 0.2562, 0.1495])
    model = fim_dynsys.load("auto").fit(c[:, None], t)
    rate = float(model.predict(np.array([[3.0]]))[0, 0])
    assert rate == pytest.approx(-7.76, abs=0.1)  # by least squares on the solution


def test_as_many_numbers_as_values_have_no_criterion():
    left, signal = np.full(1, 1e-4), np.ones(1)
    assert bic(left, 6, 4, signal) == np.inf
    many = 6000 * np.log(1e-4) + 5 * np.log(6000)
    assert bic(left, 6000, 4, signal) == pytest.approx(many, rel=1e-6)


def test_a_dense_pendulum():
    t = np.linspace(0.0, 20.0, 1200)
    field = CallableField(lambda x: np.stack([x[:, 1], -np.sin(x[:, 0])], axis=1), 2)
    x = simulate(field, [2.0, 0.0], t, rtol=1e-11, atol=1e-12).x[0]
    model = fim_dynsys.load("fim-ode").fit(x, t)
    np.testing.assert_allclose(model.predict(x), field(x), atol=1e-8)


def test_every_other_sample_in_the_same_units():
    t = np.linspace(0.0, 6.0, 61)
    x = np.stack([np.sin(t), np.cos(t)], axis=1)
    seen = observe([(t, x), (t[:20], x[:20])])
    thin = every(seen, 3)
    assert [len(own) for own, _ in thin.samples] == [21, 7]
    np.testing.assert_array_equal(thin.samples[0][1] * seen.scale, (seen.samples[0][1] * seen.scale)[::3])
    np.testing.assert_array_equal(thin.samples[1][0], seen.samples[1][0][::3])
    assert thin.n == 28 and (thin.weights[1, 7:] == 0.0).all()
