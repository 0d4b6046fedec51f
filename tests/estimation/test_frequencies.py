"""Frequencies and periods that equations name and nobody gives."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fim_dynsys
from fim_dynsys.estimation.frequencies import frequencies_of
from fim_dynsys.fields.expressions import parse

T = np.linspace(0.0, 30.0, 151)


@pytest.mark.parametrize(
    ("drive", "name", "true", "seen"),
    [("g*sin(w*t)", "w", 3.3, ["x"]), ("g*sin(2*pi*t/P)", "P", 2.0 * np.pi / 3.3, ["x", "v"])],
)
def test_the_unknown_frequency_of_a_drive(drive, name, true, seen):
    """Beside transients at 1.4; fits ended at other frequencies, with residuals of twice the noise."""
    path = solve_ivp(
        lambda t, s: [s[1], -0.3 * s[1] - 2.0 * s[0] + 0.8 * np.sin(3.3 * t)],
        (0.0, 30.0),
        [1.0, 0.0],
        t_eval=T,
        rtol=1e-9,
        atol=1e-11,
    ).y.T[:, : len(seen)]
    noisy = path + 0.03 * np.random.default_rng(0).standard_normal(path.shape)
    model = fim_dynsys.load("equations", expressions={"x": "v", "v": f"-d*v - a*x + {drive}"}, n_starts=4)
    found = model.fit(noisy, T, observed=seen).parameters_
    assert found[name] == pytest.approx(true, rel=2e-3)
    assert abs(found["g"]) == pytest.approx(0.8, rel=0.05)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a*x + sin(w*t + p)", {"w": (1.0, 1.0)}),
        ("cos(2*pi*(t - s)/P)", {"P": (2.0 * np.pi, -1.0)}),
        ("cos(k*w*t)", {}),
        ("sin(x) + exp(w*t)", {}),
        ("sin(w*t)*cos(3*f*t)", {"w": (1.0, 1.0), "f": (3.0, 1.0)}),
    ],
)
def test_which_names_are_frequencies(text, found):
    names = frequencies_of([parse(text)], {})
    assert names.keys() == found.keys()
    for name, pair in found.items():
        assert names[name] == pytest.approx(pair)
