"""Contexts with known answers."""

import numpy as np
import pytest

from training.contexts import draw


@pytest.mark.parametrize("prior", ["paper", "sparse", "functions", "rational"])
def test_contexts_are_of_the_system_they_name(prior):
    rng = np.random.default_rng(1)
    context = draw(prior, 2, rng)
    again = draw(prior, 2, np.random.default_rng(1))
    np.testing.assert_array_equal(context.x, again.x)
    assert context.paths.shape == (3, 200, 2)
    # the clean trajectory obeys the field: central differences
    t, path = context.label_t, context.paths[0]
    slope = (path[2:] - path[:-2]) / (t[2] - t[0])
    speed = np.abs(context.field(path)).max()
    assert np.abs(slope - context.field(path[1:-1])).max() < 0.02 * speed
    known = getattr(context.field, "dictionary", None)
    assert (known is not None and known.is_polynomial) == (prior in ("paper", "sparse"))
    assert (np.diff(context.t) > 0).all() and context.t[-1] <= context.label_t[-1] + 1e-12
