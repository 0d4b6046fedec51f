"""Reaction networks on their level sets against reductions by hand, in the benchmark and here."""

import numpy as np
import pytest

from benchmarks.analysis.networks import EQUAL, NETWORKS, branches_differ, figures, fixed_points_differ


@pytest.mark.parametrize("name", NETWORKS)
def test_sums_are_conserved_and_reductions_hold(name):
    network = NETWORKS[name]
    z = np.random.default_rng(0).uniform(0.05, 0.3, size=(20, len(network.kept))) * network.high
    x = network.embedded(z)
    np.testing.assert_allclose(x[:, network.kept], z)
    rates = network.full(x, network.p)
    for text, total in network.totals.items():
        parts = [part.split("*") for part in text.split("+")]
        weights = {part[-1]: float(part[0]) if len(part) > 1 else 1.0 for part in parts}
        row = np.array([weights.get(state, 0.0) for state in network.names])
        np.testing.assert_allclose(x @ row, total, atol=1e-12)
        np.testing.assert_allclose(rates @ row, 0.0, atol=1e-12)


@pytest.mark.parametrize("name", NETWORKS)
def test_fixed_points_and_branches_equal_those_of_the_reduced_system(name):
    positions, eigenvalues, n = fixed_points_differ(NETWORKS[name])
    assert n > 0 and max(positions, eigenvalues) <= EQUAL
    parameters, states, _, same = branches_differ(NETWORKS[name])
    assert same and max(parameters, states) <= EQUAL


def test_a_network_that_differs_is_named():
    row = {"points_differ": 0.0, "eigenvalues_differ": 0.0, "parameters_differ": 0.0, "branches_differ": 0.0}
    row |= {"bifurcations": 1, "points": 2, "seconds": 1.0}
    rows = [{"task": "a", **row}, {"task": "b", **row, "points_differ": 1e-7}]
    first = figures(rows)[0]
    assert (first.value, first.goal, first.reached, first.note) == (1, "== 2", "no", "b")
