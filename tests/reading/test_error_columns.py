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


PAIRS = [
    "lwr,upr",
    "ci_low,ci_high",
    "q2.5,q97.5",
    "95% CI lower,95% CI upper",
    "LCL,UCL",
    "lower,upper",
    "y_l95,y_u95",
]


@pytest.mark.parametrize("pair", PAIRS)
def test_limits_on_both_sides_of_a_column_are_no_states(pair, tmp_path):
    k = np.arange(40)
    y = 10 + np.cos(k / 6)
    path = written(tmp_path, f"t,y,{pair},z", k, y, y - 0.2, y + 0.3, 30 + y)
    with pytest.warns(ReadingWarning, match="uncertainty of y"):
        assert Trajectories.from_file(path).state_names == ("y", "z")
    crossing = written(tmp_path, f"t,y,{pair}", k, y, 10 + np.sin(k / 3), 10.5 + np.cos(k / 4))
    assert len(Trajectories.from_file(crossing).state_names) == 3


@pytest.mark.parametrize("header", ["t,T_lower,T_mid,T_upper", "t,low,y,high", "t,x1,x50,x99", "t,q1,q2,q3"])
def test_columns_that_only_happen_to_be_ordered_are_states(header, tmp_path):
    k = np.arange(40)
    y = 10 + np.cos(k / 6)
    data = Trajectories.from_file(written(tmp_path, header, k, y - 0.2, y, y + 0.3))
    assert data.state_names == tuple(header.split(",")[1:])


def test_a_delta_beside_a_column_is_its_error_unless_it_has_both_signs(tmp_path):
    k = np.arange(40)
    y = 10 + np.cos(k / 6)
    with pytest.warns(ReadingWarning, match="Δy \\(uncertainty of y\\)"):
        data = Trajectories.from_file(written(tmp_path, "t,y,Δy", k, y, 0.1 + 0.01 * np.cos(k)))
    assert data.state_names == ("y",)
    data = Trajectories.from_file(written(tmp_path, "t,y,Δy", k, y, np.cos(k)))
    assert data.state_names == ("y", "Δy")


PROFILES = [
    "t," + ",".join(f"0.{k}" for k in range(1, 10)),
    "t," + ",".join(f"p{k}" for k in range(1, 101)),
    "t,p_0,p_100,p_500,p_900,p_1000",
    "t,p5,p10,p25,p50,p75,p90,p95",
    "t," + ",".join(f"q{k}%" for k in range(0, 101, 10)),
]


@pytest.mark.parametrize("header", PROFILES)
def test_profiles_keep_all_columns(header, tmp_path):
    names, k = header.split(",")[1:], np.arange(40)
    columns = [20 * place / len(names) + np.cos(k / 6) for place in range(len(names))]
    assert Trajectories.from_file(written(tmp_path, header, k, *columns)).state_names == tuple(names)


@pytest.mark.parametrize("pair", ["lower,upper", "upper,lower", "pi_low,pi_high", "L10,U10"])
def test_pairs_round_a_column_that_they_do_not_follow_are_states(pair, tmp_path):
    k = np.arange(60)
    low, high = 2 + np.cos(k / 6), 6 + np.sin(k / 7)
    ends = (high, low) if pair.startswith("upper") else (low, high)
    names = Trajectories.from_file(
        written(tmp_path, f"t,pump,{pair}", k, 4 + (k // 10) % 2, *ends)
    ).state_names
    assert names == ("pump", *pair.split(","))


def test_two_intervals_round_a_column_are_no_states(tmp_path):
    k = np.arange(40)
    y = 10 + np.cos(k / 6)
    path = written(tmp_path, "t,y,lo80,hi80,lo95,hi95", k, y, y - 0.1, y + 0.1, y - 0.2, y + 0.2)
    with pytest.warns(ReadingWarning, match="hi95 \\(uncertainty of y\\)"):
        assert Trajectories.from_file(path).state_names == ("y",)


def test_limits_of_each_trajectory_are_kept_beside_it(tmp_path):
    k = np.arange(60)
    first = k < 30
    columns = (1 + k // 30, k % 30, 5 + np.cos(k / 6), np.where(first, 1, 2), np.where(first, 8, 9))
    with pytest.warns(ReadingWarning, match="constant in each trajectory"):
        data = Trajectories.from_file(written(tmp_path, "id,t,level,lower,upper", *columns), trajectory="id")
    assert list(data.dataset["lower"].values) == [1, 2] and list(data.dataset["upper"].values) == [8, 9]


@pytest.mark.parametrize("header, size", [("t,p,Δp", 300), ("t,E,ΔE", 0.5), ("t,13C,δ13C", 20)])
def test_a_delta_that_is_not_small_is_a_state(header, size, tmp_path):
    k = np.arange(40)
    data = Trajectories.from_file(written(tmp_path, header, k, 3 + np.cos(k / 6), size * (2 + np.sin(k / 5))))
    assert data.state_names == tuple(header.split(",")[1:])
