"""Inputs between their samples."""

import numpy as np

from fim_dynsys.regression.inputs import at, curves, divided

T = np.linspace(0.0, 6.0, 31)


def test_smooth_inputs_are_followed_by_splines_and_steps_without_overshooting():
    u = np.stack([np.sin(T), (T > 3.05).astype(float)], axis=1)
    cubics, error = curves(T, u)
    middle = at(cubics, 0.5)
    np.testing.assert_allclose(at(cubics, 1.0), u[1:], atol=1e-12)
    assert np.abs(middle[:, 0] - np.sin(0.5 * (T[1:] + T[:-1]))).max() < 1e-4
    assert middle[:, 1].min() > -1e-12 and middle[:, 1].max() < 1.0 + 1e-12
    assert error[0] < 1e-3 < error[1]


def test_few_samples_are_joined_by_lines():
    cubics, error = curves(T[:3], T[:3, None] ** 2)
    np.testing.assert_allclose(at(cubics, 0.5), [[0.02], [0.1]])
    assert not error.any()


def test_parts_of_intervals_are_the_same_curves():
    cubics, _ = curves(T, np.cos(2.0 * T)[:, None])
    parts = np.arange(30) % 3 + 1
    found = divided(cubics, parts)
    assert found.shape == (parts.sum(), 4, 1)
    for k, (first, count) in enumerate(zip(np.cumsum(parts) - parts, parts, strict=True)):
        for part in range(count):
            here = at(found[first + part][None], 0.3)
            np.testing.assert_allclose(here, at(cubics[k][None], (part + 0.3) / count), atol=1e-13)
