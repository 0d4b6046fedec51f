"""Periodic orbits: known periods and multipliers, unstable and stiff ones, families, and what is said of them."""

import numpy as np
import pytest

from fim_dynsys import systems
from fim_dynsys.analyze.shooting import correct_orbit, floquet, product_eigenvalues, refined
from fim_dynsys.simulation import integrate


def orbit_near(field, x0, period, nodes=16):
    """Correct what the field does in one guessed period after a transient."""
    x = integrate([field], np.array([x0], dtype=float), np.array([0.0, 50.0])).x_stop
    guess = integrate([field], x, np.linspace(0, period, nodes + 1), rtol=1e-6).x[0, :-1]
    return correct_orbit(field, guess, period)


# ---------------------------------------------------------------------- one orbit


@pytest.mark.parametrize("nodes", [1, 16])
def test_hopf_normal_form_is_corrected_to_its_closed_form(nodes):
    system = systems.get("hopf")
    orbit = orbit_near(system.field(), [0.5, 0.0], 3.3, nodes)
    assert orbit.converged and orbit.residual < 1e-12
    assert orbit.period == pytest.approx(np.pi, abs=1e-9)
    assert np.hypot(*orbit.nodes.T) == pytest.approx(np.full(nodes, np.sqrt(0.5)), abs=1e-10)
    multipliers = np.sort(np.linalg.eigvals(orbit.monodromy).real)
    assert multipliers == pytest.approx([np.exp(-np.pi), 1.0], abs=1e-8)


@pytest.mark.parametrize(("mu", "period"), [(5.0, 11.6122306677), (10.0, 19.0783695669)])
def test_relaxation_oscillations(mu, period):
    """The multiplier of Van der Pol's cycle falls to 1e-136: far below what one monodromy matrix holds."""
    field = systems.get("van_der_pol").with_parameters(mu=mu).field()
    orbit = refined(field, orbit_near(field, [2.0, 0.0], 0.999 * period))
    assert orbit.period == pytest.approx(period, abs=1e-9)
    known = floquet(field, orbit)
    assert known.trivial_error < 1e-9
    assert known.liouville_error < 1e-6 * abs(known.log_moduli.sum())
    assert known.log_moduli[1] < -80


def test_eigenvalues_of_a_product_keep_their_relative_accuracy():
    """Against the exact product, built from one eigenbasis: real, tiny, and a complex pair."""
    rng = np.random.default_rng(0)
    basis = rng.standard_normal((4, 4))
    angle = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
    core = np.zeros((4, 4))
    core[0, 0], core[1:3, 1:3], core[3, 3] = 2.0, 0.5 * angle, -1e-3
    factor = basis @ core @ np.linalg.inv(basis)
    values, logs = product_eigenvalues(np.array([factor] * 20))
    expected = np.array([2.0**20, 0.5**20 * np.exp(14j), 0.5**20 * np.exp(-14j), 1e-60])
    order, known = np.argsort(-logs, kind="stable"), np.argsort(-np.abs(expected), kind="stable")
    assert logs[order] == pytest.approx(np.log(np.abs(expected[known])), rel=1e-8)
    assert np.sort_complex(values[order][1:3] * 2**20) == pytest.approx(
        np.sort_complex(expected[1:3] * 2**20)
    )
    assert values[order][[0, 3]] == pytest.approx(expected[[0, 3]], rel=1e-8)
