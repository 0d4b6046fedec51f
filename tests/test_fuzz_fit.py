"""Arrays of all sorts go into fit; a result or an error of ours comes out, and nothing else."""

import warnings

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fim_dynsys
import fim_dynsys.errors

MODELS = ["fim-ode", "sindy", "sindy-strong"]

ORDINARY = st.floats(-1e3, 1e3, width=64)
EXTREME = st.floats(width=64)  # NaN, infinities, subnormals, 1e308
STRANGE_TYPES = st.sampled_from([np.complex128, np.dtype("U3"), np.dtype("S2"), np.dtype("M8[s]"), np.bool_])


def _values(elements):
    return arrays.arrays(
        np.float64, arrays.array_shapes(min_dims=0, max_dims=3, max_side=9), elements=elements
    )


STRANGE = STRANGE_TYPES.flatmap(
    lambda kind: arrays.arrays(kind, arrays.array_shapes(min_dims=1, max_dims=2, max_side=6))
)
SCALARS = st.one_of(st.none(), st.text(max_size=3), st.integers(-3, 3), EXTREME)
ARRAYS = st.one_of(_values(ORDINARY), _values(EXTREME), STRANGE)
ANYTHING = st.one_of(ARRAYS, st.lists(ARRAYS, max_size=3), SCALARS, st.lists(SCALARS, max_size=4))
NAMES = st.one_of(st.none(), st.lists(st.text(max_size=3), max_size=4))


@st.composite
def observations(draw):
    """Well-formed trajectories with hard values: constant, huge, tiny, close in time, with gaps."""
    dim, xs, ts = draw(st.integers(1, 4)), [], []
    size = 10.0 ** draw(st.integers(-200, 150))
    pace = 10.0 ** draw(st.integers(-100, 100))
    for _ in range(draw(st.integers(1, 3))):
        n = draw(st.integers(1, 14))
        shape = (n, dim)
        elements = draw(st.sampled_from([st.floats(-1, 1), st.just(0.5), st.integers(-1, 1).map(float)]))
        x = size * draw(arrays.arrays(np.float64, shape, elements=elements))
        gaps = draw(arrays.arrays(np.bool_, shape, elements=st.sampled_from([False] * 7 + [True])))
        steps = draw(arrays.arrays(np.float64, n, elements=st.floats(1e-6, 1.0)))
        xs.append(np.where(gaps, np.nan, x))
        ts.append(pace * np.cumsum(steps))
    return xs, ts


def _only_our_errors(name, x, t, names=None):
    """Fit; where that works, the field answers with numbers of the right shape."""
    model = fim_dynsys.load(name)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model.fit(x, t, feature_names=names)
        except ValueError as error:
            message = str(error)
            assert len(message.split()) > 3, f"an error that explains nothing: {message!r}"
            assert "expected" in message, message
            assert "got" in message, message
            assert not hasattr(model, "field_")
            return None
        points = model.context_.box().centre[None]
        values = model.predict(points)
    assert values.shape == points.shape
    assert np.isfinite(values).all()
    return model


FEW = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


@pytest.mark.parametrize("name", MODELS)
@FEW
@given(x=ANYTHING, t=ANYTHING, names=NAMES)
def test_anything_is_fitted_or_refused(name, x, t, names):
    _only_our_errors(name, x, t, names)


@pytest.mark.parametrize("name", MODELS)
@settings(FEW, max_examples=10)  # a search over candidates takes half a second on such data
@given(data=observations())
def test_hard_observations_are_fitted_or_refused(name, data):
    _only_our_errors(name, *data)


@pytest.mark.parametrize("name", MODELS)
def test_the_fuzz_reaches_a_fit(name):
    t = np.linspace(0, 3, 14)
    assert _only_our_errors(name, [np.exp(-t)[:, None]], [t]) is not None


@pytest.mark.parametrize("name", MODELS)
def test_observations_without_any_dynamics(name):
    """Independent draws from {-1, 0, 1}: no term explains them, which is an answer too."""
    rng = np.random.default_rng(0)
    x = [rng.integers(-1, 2, (n, 3)).astype(float) for n in (10, 11)]
    assert _only_our_errors(name, x, [np.arange(1.0, 11.0), np.arange(1.0, 12.0)]) is not None


@pytest.mark.parametrize("pace", [1e-60, 1e-9, 1e60])
def test_fim_ode_in_any_unit_of_time(pace):
    t = np.linspace(0.0, 6.0, 60)
    x = np.stack([np.cos(t), -np.sin(t)], axis=1)
    values = fim_dynsys.load("fim-ode").fit(x, pace * t).predict(x) * pace
    expected = fim_dynsys.load("fim-ode").fit(x, t).predict(x)
    # a fit of clean data amplifies the rounding of the times
    np.testing.assert_allclose(values, expected, atol=1e-7)


@pytest.mark.parametrize("value", [0.0, 0.5])
def test_fim_ode_of_a_resting_state_is_at_rest(value):
    x, t = np.full((4, 1), value), 1e-42 * np.arange(1.0, 5.0)
    with pytest.warns(fim_dynsys.errors.DataWarning):
        field = fim_dynsys.load("fim-ode").fit(x, t).field_
    assert np.abs(field(x)).max() * 1e-42 < 1e-12
