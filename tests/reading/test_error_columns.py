"""Columns of the uncertainty of others are no states."""

import numpy as np
import pytest
from forms import written

from fim_dynsys import Trajectories
from fim_dynsys.errors import ReadingWarning

T = np.linspace(0, 12, 61)
X, Y = 2 + np.cos(T), 1 + np.sin(T)
ERRORS = 0.05 + 0.01 * np.random.default_rng(0).random(61)
NAMES = [
    "SD",
    "sd",
    "std",
    "SEM",
    "Std. Dev.",
    "stdev",
    "standard error",
    "uncertainty",
    "±",
    "Error bars",
]


@pytest.mark.parametrize("name", NAMES)
def test_errors_behind_what_was_measured_are_dropped_and_said(name, tmp_path):
    with pytest.warns(ReadingWarning, match=r"\(uncertainty of x\)"):
        data = Trajectories.from_file(written(tmp_path, f"t,x,{name}", T, X, ERRORS))
    assert data.state_names == ("x",)
    with pytest.warns(ReadingWarning, match=r"\(uncertainty of y\)"):
        data = Trajectories.from_file(written(tmp_path, f"t,x,{name},y,{name}", T, X, ERRORS, Y, 2 * ERRORS))
    assert data.state_names == ("x", "y")
    with pytest.warns(ReadingWarning, match=r"uncertainty of x.*uncertainty of y"):
        data = Trajectories.from_file(written(tmp_path, f"t,x,y,{name},{name}", T, X, Y, ERRORS, 2 * ERRORS))
    assert data.state_names == ("x", "y")
    data = Trajectories.from_file(written(tmp_path, f"t,x,{name}", T, X, ERRORS), states=["x", name])
    assert data.state_names == ("x", name)


@pytest.mark.parametrize("name", ["error", "SE", "se", "sigma", "err"])
def test_what_may_be_an_error_is_a_state_and_said(name, tmp_path):
    """Or the error of a controller, an enzyme with its substrate, a stress, selenium."""
    with pytest.warns(ReadingWarning, match=f"'{name}' is a state, unless it is the error of 'x'"):
        data = Trajectories.from_file(written(tmp_path, f"t,x,{name}", T, X, ERRORS))
    assert data.state_names == ("x", name)


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("t,x,error", (X, 0.1 * np.cos(T))),
        ("t,strain,sigma", (0.01 * X, 5 * Y)),
        ("t,sigma,x", (Y, X)),
        ("t,epsilon,sigma", (0.1 * T**0.5, 10 * Y * np.exp(-T))),
    ],
)
def test_what_is_no_error_stays_a_state(header, columns, tmp_path):
    data = Trajectories.from_file(written(tmp_path, header, T, *columns))
    assert ",".join(("t", *data.state_names)) == header


@pytest.mark.parametrize(
    "names", [("lower", "upper"), ("lo", "hi"), ("95_lwr", "95_upr"), ("ci_low", "ci_high")]
)
def test_bounds_of_any_sign_are_no_states(names, tmp_path):
    x = np.cos(T)
    header = f"t,x,x_{names[0]},x_{names[1]}"
    with pytest.warns(ReadingWarning, match=rf"x_{names[0]} \(uncertainty of x\), x_{names[1]}"):
        data = Trajectories.from_file(written(tmp_path, header, T, x, x - ERRORS, x + ERRORS))
    assert data.state_names == ("x",)


def test_names_of_bounds_that_are_none_stay_states(tmp_path):
    data = Trajectories.from_file(written(tmp_path, "t,tank,tank_low", T, X, Y))
    assert data.state_names == ("tank", "tank_low")
