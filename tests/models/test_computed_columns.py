"""Columns that were computed from others."""

import re

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fim_dynsys
from fim_dynsys.errors import DataWarning
from fim_dynsys.models.computed_columns import computed_columns
from fim_dynsys.trajectories.container import Trajectories

SIR = {"s": "-b*s*i", "i": "b*s*i - g*i", "r": "g*i"}


def epidemic(noise=10.0):
    t = np.linspace(0.0, 60.0, 61)
    x = solve_ivp(
        lambda _, x: [-5e-4 * x[0] * x[1], 5e-4 * x[0] * x[1] - 0.15 * x[1], 0.15 * x[1]],
        (0, 60),
        [990.0, 10.0, 0.0],
        t_eval=t,
        rtol=1e-9,
        atol=1e-9,
    ).y.T
    return x + noise * np.random.default_rng(0).normal(size=x.shape), t


def named(observed, noise):
    return [f"{name} = {text}" for name, text in computed_columns(observed, noise).items()]


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (lambda x: 1000.0 - x[:, 0] - x[:, 1], "r = -s - i + 1000"),
        (lambda x: np.round(1.8 * x[:, 0] + 32.0, 1), "r = 1.8 s + 32"),
        (lambda x: x[:, 1], "r = i"),
    ],
)
def test_sums_of_others_are_named(column, said):
    x, _ = epidemic()
    x[:, 2] = column(x)
    observed = Trajectories.from_arrays(x, np.arange(61.0), list(SIR))
    assert named(observed, np.full(3, 10.0)) == [said]


def test_two_computed_columns_are_named_beside_what_was_measured():
    x, _ = epidemic()
    x = np.column_stack([x[:, :2], 2.0 * x[:, 0], x[:, 0] - x[:, 1]])
    observed = Trajectories.from_arrays(x, np.arange(61.0))
    assert named(observed, np.full(4, 10.0)) == ["x2 = 2 x0", "x3 = x0 - x1"]


def test_measured_columns_and_few_samples_are_none():
    x, t = epidemic()
    assert named(Trajectories.from_arrays(x, t), np.full(3, 10.0)) == []
    x[:, 2] = 1000.0 - x[:, 0] - x[:, 1]
    assert named(Trajectories.from_arrays(x[:12], t[:12]), np.full(3, 10.0)) == []


@pytest.mark.parametrize("name", ["fim-ode", "equations"])
def test_fits_say_which_column_to_leave_out(name):
    x, t = epidemic()
    x[:, 2] = 1000.0 - x[:, 0] - x[:, 1]
    model = fim_dynsys.load(name, **({"expressions": SIR} if name == "equations" else {}))
    with pytest.warns(DataWarning, match=re.escape("r = -s - i + 1000 more exactly than noise allows")):
        model.fit(x, t, feature_names=list(SIR))


@pytest.mark.parametrize(
    "given", [{}, {"knowledge": fim_dynsys.Knowledge(conserved=["x0 + x1 + x2"])}], ids=["nothing", "the sum"]
)
def test_exact_sums_of_noise_free_samples_are_not_named(given, recwarn):
    x, t = epidemic(0.0)
    fim_dynsys.load("fim-ode", **given).fit(x, t)
    assert not [w for w in recwarn if "computed" in str(w.message)]
