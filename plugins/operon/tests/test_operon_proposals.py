"""Proposals of genetic programming: expressions in terms of the dictionary, and fields made of them."""

import numpy as np
import pytest
import sympy

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.observed import observe
from fim_dynsys.search.origins import Stage
from fim_dynsys.search.proposers import Proposals
from fim_dynsys.search.state_equations import StateEquation, together
from fim_dynsys_operon.proposals import fitted_proposals, interpolated
from fim_dynsys_operon.translation import translated

X, Y = SYMBOLS = sympy.symbols("x0 x1", real=True)
STATES = np.random.default_rng(0).uniform(0.2, 1.5, (200, 2))
POSITIVE = np.array([True, True])


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        (2.5 * X * (X - 3.0 * Y) + 0.5, ["1", "x0 x1", "x0^2"]),
        (X**2 * Y / (2.0 + 3.0 * X), ["x0 x1 hill(1.5 x0)"]),
        (X**4 / (2.0 + 2.0 * X**4) - Y, ["saturation(x0, 4)", "x1"]),
        (1.5 * Y / (1.0 + 2.0 * X + 2.0 * X**2), ["x1 quadratic_reciprocal(2 x0, 0.5)"]),
        (X / (2.0 + X) ** 2, ["x0 squared_reciprocal(0.5 x0)"]),
        (X * Y / (1.0 + 2.0 * X + 3.0 * Y), ["x0 x1 reciprocal(2 x0 + 3 x1)"]),
        (X * sympy.exp(2.0 * X - Y + 0.5), ["x0 exp(2 x0 + -1 x1)"]),
        (3.0 / (1.0 + sympy.exp(1.0 - 4.0 * X)), ["1", "tanh(-2 x0 + 0.5)"]),
        (sympy.sin(2.0 * X + 1.0), ["cos(2 x0)", "sin(2 x0)"]),
        (sympy.sin(X) * sympy.cos(Y), ["sin(x0 + -1 x1)", "sin(x0 + x1)"]),
        (sympy.log(2.0 * X + 1.0), ["1", "log(x0 + 0.5)"]),
        (sympy.sqrt(2.0 * X) + Y / X**2, ["x0^0.5", "x1 x0^-2"]),
        (sympy.tanh(X + 2.0 * Y + 0.5), ["tanh(x0 + 2 x1 + 0.5)"]),
        (Y / (1.0 + sympy.exp(1.0 - 4.0 * X + 2.0 * Y)), ["x1", "x1 tanh(-2 x0 + x1 + 0.5)"]),
        (X * sympy.exp(-((Y - 0.3) ** 2) / 0.25), ["x0 gaussian(2 x1 + -0.6)"]),
        (sympy.exp(-2.25 * X**2), ["gaussian(1.5 x0)"]),
    ],
)
def test_sums_of_known_terms_are_said_exactly(expression, names):
    rows = translated(expression, SYMBOLS, POSITIVE)
    values = sympy.lambdify(SYMBOLS, expression)(*STATES.T)
    side = StateEquation.regressed(rows, STATES, values)
    assert sorted(side.terms.names()) == sorted(names)
    assert np.allclose(side.terms.evaluate(STATES) @ side.coefficients, values, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "expression",
    [
        sympy.exp(X / (1.0 + 0.5 * X)),
        1.0 / (1.0 + X * Y),
        1.0 / (X * Y),
        sympy.exp(X - X * Y),
        sympy.exp(X**2),
        sympy.exp(X) / (1.0 + Y),
        1.0 / (1.0 - X**2),
    ],
)
def test_what_no_term_says_is_dropped(expression):
    assert translated(sympy.Integer(1) + expression, SYMBOLS, POSITIVE) is None


def test_roots_are_of_positive_states():
    assert translated(sympy.sqrt(X), SYMBOLS, np.array([False, True])) is None
    assert translated(X**3 / (1.0 + X**3), SYMBOLS, np.array([False, True])) is None
    assert translated(sympy.sqrt(Y), SYMBOLS, np.array([False, True])) is not None


def test_terms_that_others_explain_are_left_out():
    rows = translated((X - 1.5) / (X + 2.0) + 1.0, SYMBOLS, POSITIVE)
    side = StateEquation.regressed(rows, STATES, (STATES[:, 0] - 1.5) / (STATES[:, 0] + 2.0) + 1.0)
    assert (len(rows), len(side.terms)) == (3, 2)
    assert side.structure != StateEquation.regressed(rows[:1], STATES, STATES[:, 0]).structure


def test_quintic_splines_give_the_slopes_of_exact_samples():
    t = np.linspace(0.0, 6.0, 100)
    observations = observe([(t, np.stack([np.cos(2 * t), -np.sin(2 * t)], axis=1))])
    ((states, slopes),) = interpolated(observations)
    ((_, smoothed),) = observations.splines
    unit = observations.scale[[1, 0]] / observations.scale * observations.time_unit * [2.0, -2.0]
    truth = states[:, [1, 0]] * unit
    assert np.abs(slopes - truth).max() < 1e-4 < np.abs(smoothed - truth).max()


def test_proposals_are_thinned_and_fitted_to_noisy_trajectories():
    t = np.linspace(0.0, 6.0, 100)
    x = 2.0 * np.arctan(np.exp(0.9 * (t - 3.0)))[:, None]  # x' = 0.9 sin(x)
    observations = observe([(t, x + 0.01 * np.random.default_rng(0).standard_normal(x.shape))])
    ((states, slopes),) = observations.splines
    angle = float(observations.scale[0])
    rows = translated(sympy.sin(1.002 * angle * X) + 0.1 * X + 0.1, (X,), POSITIVE[:1])
    proposals = Proposals([[StateEquation.regressed(rows, states, slopes[:, 0])]], "one")
    worse = together([StateEquation(Dictionary([[1]]), np.array([0.1]), ())], observations.start, Stage.GIVEN)
    best = fitted_proposals(observations, proposals, worse, 1, "guesses")[0]
    assert best.origin.text().startswith("guesses: sin x0")
    (name,) = best.dictionary.names()
    assert name.startswith("sin(")
    assert best.numbers[0] == pytest.approx(angle, rel=0.02)
    assert best.coefficients[0, 0] == pytest.approx(
        0.9 * observations.time_unit / observations.scale[0], rel=0.03
    )
