"""Paths of dictionary fields with error control: against exact solutions, stiff, driven, and how they end."""

import numpy as np
import pytest
from scipy.integrate import DOP853

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression import following
from fim_dynsys.regression.following import _implicit, followed
from fim_dynsys.regression.inputs import curves
from fim_dynsys.simulation.problem import Status


def field(dim, degree, *equations):
    """Terms and coefficients from a dict of powers to values for each state."""
    terms = Dictionary.polynomial(dim, degree)
    place = {tuple(powers): row for row, powers in enumerate(terms.exponents.tolist())}
    coefficients = np.zeros((len(terms), len(equations)))
    for state, equation in enumerate(equations):
        for powers, value in equation.items():
            coefficients[place[powers], state] = value
    return terms, coefficients


def path(system, start, t, rtol=1e-7, inputs=None, steps=10_000, bound=1e6):
    d = len(start)
    return followed(
        *system,
        [np.array(start, dtype=float)],
        [t],
        rtol=rtol,
        atol=np.full(d, 1e-6 * rtol),
        bound=np.full(d, bound),
        max_steps=steps,
        inputs=None if inputs is None else [inputs],
    )


def test_errors_fall_with_the_tolerance():
    turning = field(2, 1, {(0, 1): 1.0}, {(1, 0): -1.0})
    t = np.linspace(0.0, 20.0, 9)
    exact = np.stack([np.cos(t), -np.sin(t)], 1)
    errors = [
        np.abs(path(turning, [1.0, 0.0], t, rtol).paths[0] - exact).max() for rtol in (1e-4, 1e-7, 1e-10)
    ]
    assert errors[0] < 1e-3 and errors[1] < 1e-6 and errors[2] < 1e-9


def test_the_implicit_method_is_collocation_at_the_radau_points():
    stages, at, estimate, eigenvalue = _implicit()
    for power in range(1, 4):
        np.testing.assert_allclose(stages @ at ** (power - 1), at**power / power)
    for power in range(1, 6):  # the last stage is the result: order five
        assert stages[-1] @ at ** (power - 1) == pytest.approx(1.0 / power)
    assert np.linalg.det(eigenvalue * stages - np.eye(3)) == pytest.approx(0.0, abs=1e-12)
    # the estimate vanishes where the solution is a line, whose stages are the times
    assert estimate @ at == pytest.approx(-1.0)


@pytest.mark.parametrize("rate", [1e3, 1e6])
def test_a_stiff_decay_to_a_slow_motion(rate):
    """x' = -rate (x - cos t) - sin t with the clock as two states: x = cos t."""
    system = field(
        3, 1, {(1, 0, 0): -rate, (0, 1, 0): rate, (0, 0, 1): -1.0}, {(0, 0, 1): -1.0}, {(0, 1, 0): 1.0}
    )
    t = np.linspace(0.0, 10.0, 8)
    found = path(system, [1.0, 1.0, 0.0], t)
    assert found.status[0] == Status.SUCCESS
    np.testing.assert_allclose(found.paths[0][:, 0], np.cos(t), atol=1e-5)


def test_jumps_of_an_input_are_between_steps():
    """x' = u - x where u jumps at samples: exact to the tolerance from sample to sample."""
    system = field(2, 1, {(1, 0): -1.0, (0, 1): 1.0})
    t, u = np.linspace(0.0, 8.0, 9), np.array([0.0, 1.0, 1.0, -2.0, 0.0, 5.0, 5.0, 0.0])
    held = np.zeros((8, 4, 1))
    held[:, 0, 0] = u
    found, x = path(system, [1.0], t, 1e-9, held).paths[0][:, 0], [1.0]
    for value in u:
        x.append(value + (x[-1] - value) * np.exp(-1.0))
    np.testing.assert_allclose(found, x, rtol=1e-8)


def test_smooth_inputs_are_followed_within_steps():
    system = field(2, 1, {(0, 1): 1.0})
    t = np.linspace(0.0, 6.0, 40)
    found = path(system, [0.0], t, inputs=curves(t, np.cos(t)[:, None]).cubics)
    np.testing.assert_allclose(found.paths[0][:, 0], np.sin(t), atol=2e-5)


def test_how_paths_end():
    square, t = field(1, 2, {(2,): 1.0}), np.array([0.0, 0.5, 0.9, 2.0])  # x = 1 / (1 - t)
    found = path(square, [1.0], t, bound=np.inf)
    assert found.status[0] in (Status.STEP_TOO_SMALL, Status.NON_FINITE)
    assert found.reached[0] == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(found.paths[0][:3, 0], 1.0 / (1.0 - t[:3]), rtol=1e-6)
    assert np.isnan(found.paths[0][3, 0])
    assert path(square, [1.0], t, bound=50.0).status[0] == Status.LEFT_BOUNDS
    assert path(square, [1.0], t, steps=3).status[0] == Status.MAX_STEPS


def test_a_stretch_does_not_depend_on_the_others():
    turning = field(2, 3, {(0, 1): 1.0}, {(1, 0): -1.0, (3, 0): 0.1})
    t = [np.linspace(0.0, 9.0, 20), np.linspace(0.0, 2.0, 5), np.array([0.0, 30.0])]
    starts = [np.array([1.0, 0.0]), np.array([0.3, 2.0]), np.array([-1.0, 0.2])]
    options = {"rtol": 1e-7, "atol": np.full(2, 1e-12), "bound": np.full(2, 1e6), "max_steps": 1000}
    together = followed(*turning, starts, t, **options)
    for k in range(3):
        alone = followed(*turning, starts[k : k + 1], t[k : k + 1], **options)
        np.testing.assert_array_equal(together.paths[k], alone.paths[0])


def test_the_table_is_that_of_scipys_class():
    a, b, errors = following._explicit()
    s = DOP853.n_stages
    assert np.array_equal(a, DOP853.A[:s, :s]) and np.array_equal(b, DOP853.B)
    assert np.array_equal(errors, [DOP853.E5[:s], DOP853.E3[:s]])
