"""The benchmark of integration: some of its systems, and that all of them are read."""

import math

import pytest

from benchmarks.integration.__main__ import LARGEST, errors
from benchmarks.integration.systems import systems

BY_NAME = {system.name: system for system in systems()}


@pytest.mark.parametrize(
    "name", ["lienard_10", "sir_fast", "fitzhugh_nagumo_stiff", "van_der_pol_1000", "robertson", "haldane"]
)
def test_paths_of_true_fields_are_within_what_the_benchmark_allows(name):
    found = errors(BY_NAME[name])
    assert {way: value for way, value in found.items() if value > LARGEST} == {}
    assert math.isnan(found["search"]) == (name == "haldane")


def test_systems_have_a_state_for_each_start_and_a_source():
    assert len(BY_NAME) == 53
    for system in systems():
        assert len(system.rates) == len(system.start) and system.source
        assert {str(s) for rate in system.rates for s in rate.free_symbols} <= set(system.expressions)
