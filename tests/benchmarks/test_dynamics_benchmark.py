"""The benchmark's parts on cycles, exponents, manifolds and basins: their facts, references and figures."""

import numpy as np
import pytest

from benchmarks.analysis import basins, cycles, exponents, manifolds, planar_cycles
from fim_dynsys import systems


def test_published_systems_are_what_they_claim():
    """Lorenz as in the catalogue; every field finite at its start, every exponent positive with a source."""
    known = exponents.facts()
    assert len(known) >= exponents.PUBLISHED_TO_MEET
    points = systems.get("lorenz").region.sobol(8)
    own = exponents.chaotic_system(known["lorenz"]).rhs(points)
    np.testing.assert_allclose(own, systems.get("lorenz").rhs(points), rtol=1e-12)
    for entry in known.values():
        system = exponents.chaotic_system(entry)
        assert np.isfinite(system.rhs(system.initial_states)).all() and entry["exponent"] > 0
        assert entry["source"] in ("Sprott 2003", "Wolf 1985") and entry["origin"]


def test_disagreements_are_named():
    row = {"exponent": 1.0, "error": 0.01, "published": 1.02, "relative": 0.02, "errors": 2.0}
    row |= {"pairs": 1.0, "pairs_error": 0.01, "second": 0.0, "second_error": 0.01, "last": -2.0}
    row |= {"last_error": 0.01, "sum_error": 0.0, "seconds": 1.0}
    met = {"task": "good", **row}
    apart = {"task": "bad", **row, "published": 2.0, "relative": 0.5, "errors": 100.0}
    figure = exponents.figures([met, apart])[0]
    assert figure.value == 1 and figure.n == 2
    assert "bad" in figure.note and "good" not in figure.note


def test_reference_of_van_der_pol():
    """Period and multiplier at mu = 1 as in the catalogue, by scipy alone."""
    system = systems.get("van_der_pol")
    period, divergence = cycles._reference(system.field(), 1.0)
    assert period == pytest.approx(float(system.truth("period")), abs=5e-7)
    assert np.exp(divergence) == pytest.approx(float(system.truth("cycle_multiplier")), abs=1e-8)


def test_cycles_that_are_missed_are_named():
    row = {"found": 1, "expected": 1, "closure": 0.0, "trivial_error": 0.0, "liouville_error": 0.0}
    rows = [
        {"task": "a", "kind": "rings", "seconds": 1.0, **row, "found": 0},
        {"task": "b", "kind": "pendulum", "seconds": 1.0, **row},
    ]
    figure = cycles.figures(rows)[0]
    assert figure.value == 0.5 and figure.note == "a" and figure.reached == "no"


def test_sides_of_a_separatrix():
    """The toggle switch is symmetric: its diagonal is the separatrix, and 0.05 beside it is not."""
    field = systems.get("toggle_switch").field()
    sinks = np.array([[0.5, 2.0], [2.0, 0.5]])
    on, beside = np.array([0.4, 0.4]), np.array([0.4, 0.45])
    onwards = np.array([0.5, 0.5])
    assert manifolds._resolution(field, on, onwards, sinks) <= 1e-6
    assert manifolds._resolution(field, beside, np.array([0.5, 0.55]), sinks) == np.inf


def test_a_loop_agrees_with_an_image():
    field = systems.get("toggle_switch").field()
    found = basins.basins(field, resolution=11, n_sample=32)
    row = basins._loop(field, found, seconds=1.0)
    assert row["agreement"] >= 0.9 and row["ratio"] == row["loop_seconds"] > 0


def test_planar_cycles_are_compared_with_periods_of_another_route():
    systems = planar_cycles.SYSTEMS
    assert len(systems) >= 60
    # Van der Pol at mu = 1: the period of the catalogue, which collocation gave.
    assert planar_cycles.reference(systems["van der Pol 1"]) == pytest.approx([6.6632868593], abs=1e-7)
    assert planar_cycles.reference(systems["three circles"]) == [2 * np.pi] * 3
    row = planar_cycles.measure("two circles")
    assert (row["expected"], row["missed"], row["false"]) == (2, 0, 0) and row["period_error"] < 1e-8
    bad = {"task": "x", "missed": 1, "false": 2, "period_error": 1e-9, "seconds": 30.0}
    assert [figure.value for figure in planar_cycles.figures([{**row, "task": "y"}, bad])][:2] == [1, 1]
