"""Inputs between their samples."""

import numpy as np

from fim_dynsys.regression.inputs import at, curves, divided
from fim_dynsys.trajectories.holding import Hold

T = np.linspace(0.0, 6.0, 31)


def test_smooth_inputs_are_followed_by_splines_and_steps_without_overshooting():
    u = np.stack([np.sin(T), (T > 3.05).astype(float)], axis=1)
    cubics, error, *_ = curves(T, u, Hold.SMOOTH)
    middle = at(cubics, 0.5)
    np.testing.assert_allclose(at(cubics, 1.0), u[1:], atol=1e-12)
    assert np.abs(middle[:, 0] - np.sin(0.5 * (T[1:] + T[:-1]))).max() < 1e-4
    assert middle[:, 1].min() > -1e-12 and middle[:, 1].max() < 1.0 + 1e-12
    assert error[0] < 1e-3 < error[1]


def test_few_samples_are_joined_by_lines():
    cubics, error, *_ = curves(T[:3], T[:3, None] ** 2)
    np.testing.assert_allclose(at(cubics, 0.5), [[0.02], [0.1]])
    assert not error.any()


def test_parts_of_intervals_are_the_same_curves():
    cubics, *_ = curves(T, np.cos(2.0 * T)[:, None])
    parts = np.arange(30) % 3 + 1
    found = divided(cubics, parts)
    assert found.shape == (parts.sum(), 4, 1)
    for k, (first, count) in enumerate(zip(np.cumsum(parts) - parts, parts, strict=True)):
        for part in range(count):
            here = at(found[first + part][None], 0.3)
            np.testing.assert_allclose(here, at(cubics[k][None], (part + 0.3) / count), atol=1e-13)


def stairs(every, seed=0):
    """A level that is drawn anew after so many samples."""
    return np.repeat(np.random.default_rng(seed).uniform(0.0, 1.0, 12), every)[: len(T)]


RAMPS = np.interp(T, [0.0, 1.0, 1.5, 3.0, 3.5, 6.0], [0.2, 0.2, 0.9, 0.9, 0.4, 0.4])


def test_what_inputs_do_between_samples_is_recognised():
    switch, pulse = (T % 2.0 < 0.8).astype(float), (np.arange(31) == 7).astype(float)
    u = np.stack([switch, pulse, stairs(4), RAMPS, np.sin(T), np.full(31, 3.0)], axis=1)
    found = curves(T, u)
    kinds = Hold.PREVIOUS, Hold.PREVIOUS, Hold.PREVIOUS, Hold.LINEAR, Hold.SMOOTH, Hold.SMOOTH
    assert found.hold == kinds and found.sure.all()
    late = at(found.cubics, 0.99)
    np.testing.assert_array_equal(late[:, :3], u[:-1, :3])
    np.testing.assert_allclose(late[:, 3], u[:-1, 3] + 0.99 * np.diff(u[:, 3]))


def test_jumps_are_told_from_steep_smooth_noisy_and_rounded_inputs():
    t = np.arange(200) / 5.0
    rng = np.random.default_rng(0)
    boluses = [2.0 * np.exp(-k * (t % 10.0)) for k in (0.4, 0.8, 1.5)]
    u = np.stack([*boluses, t % 10.0, -boluses[1]], axis=1)
    for noise in (0.0, 0.03):
        found = curves(t, u + noise * u.std(axis=0) * rng.standard_normal(u.shape))
        assert set(found.hold) == {Hold.PIECES} and found.sure.all()
    middle = at(curves(t, u).cubics, 0.5)
    true = np.stack([2.0 * np.exp(-k * ((t[:-1] + 0.1) % 10.0)) for k in (0.4, 0.8, 1.5)], axis=1)
    np.testing.assert_allclose(middle[:, :3], true, atol=1e-3)
    smooth = [np.sin(w * t + w) for w in (0.3, 1.0, 2.0)] + [
        np.exp(-4.0 * (t - 20.0) ** 2),
        np.sin(0.05 * t**2),
    ]
    bent = [
        np.abs(np.sin(0.7 * t)),
        np.maximum(np.sin(t), 0.0),
        np.abs(0.37 * t % 2.0 - 1.0),
        np.tanh(4.0 * (t - 9.1)),
    ]
    noisy = [x + share * rng.standard_normal(200) for x in smooth + bent for share in (0.02, 0.1)]
    rounded = [np.round(4.0 * x) / 4.0 for x in smooth[:3]]
    outlier = np.where(np.arange(200) == 77, 4.0, smooth[0])
    others = np.stack([*smooth, *bent, *noisy, *rounded, outlier], axis=1)
    assert not any(kind == Hold.PIECES for kind in curves(t, others).hold)


def test_where_neighbours_tell_nothing_that_is_said():
    white = np.random.default_rng(1).standard_normal((31, 1))
    assert not curves(T, white).sure[0]
    assert curves(T, white, Hold.PREVIOUS).sure[0] and curves(T, white, Hold.SMOOTH).sure[0]
