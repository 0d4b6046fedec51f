"""Samples of one closed orbit do not determine equations away from it, and the fit says so."""

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import Trajectories
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.frame import Trust

T = np.linspace(0.0, 20.0, 200)
RATES = {
    "morse": lambda x, v: (v, -2.0 * (1.0 - np.exp(-x)) * np.exp(-x)),
    "toda": lambda x, v: (v, 1.0 - np.exp(x)),
    "damped": lambda x, v: (v, -x - 0.01 * v),
    "cycle": lambda x, v: (v, (1.0 - x**2) * v - x),
}


def record(kind, *starts):
    field = CallableField(lambda z: np.stack(RATES[kind](*z.T), axis=1), 2)
    paths = fim_dynsys.simulate(field, list(starts), T, rtol=1e-11)
    return Trajectories.from_arrays(list(paths.x), [T] * len(starts), state_names=["x", "v"])


@pytest.mark.parametrize("name", ["fim-ode", "auto"])
@pytest.mark.parametrize("kind", ["morse", "toda"])
def test_equations_of_one_closed_orbit_have_limited_trust(kind, name):
    """Wrong equations that agree on the orbit had high trust, and errors of 1e-9."""
    info = fim_dynsys.load(name).fit(record(kind, [0.8, 0.0])).field_.fit_info
    assert info.trust is Trust.LIMITED
    assert "one closed orbit" in info.summary() + "; ".join(info.inference.notes)
    assert "determined along the data alone" in info.summary()


@pytest.mark.parametrize(
    "data",
    [
        record("damped", [0.8, 0.0]),
        record("cycle", [0.5, 0.0]),
        record("toda", [0.8, 0.0], [1.2, 0.0]),
    ],
    ids=["damped", "onto a cycle", "two orbits"],
)
def test_other_records_keep_their_trust(data):
    info = fim_dynsys.load("fim-ode").fit(data).field_.fit_info
    assert info.trust is Trust.HIGH
    assert not info.inference.undetermined
