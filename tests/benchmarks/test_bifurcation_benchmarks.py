"""The parts of the analysis benchmark on bifurcations: what counts as found, the data, the figures."""

import dataclasses

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from benchmarks.analysis import continuation, defining, diagrams, families, reference
from fim_dynsys import analyze


def test_found_missed_and_extra_bifurcations_are_counted():
    true = [("HB", 1.0), ("LP", 0.0)]
    found = [("LP", 0.4), ("LP", 0.1), ("BP", 1.0)]
    assert continuation.compare(found, true) == {"true": 2, "found": 1, "extra": 2, "error": 0.1}
    assert continuation.compare([], ()) == {"true": 0, "found": 0, "extra": 0, "error": 0.0}


def test_starts_are_equilibria_and_truths_lie_in_the_range():
    for case in continuation.known_diagrams().values():
        x, low, high = np.array([case.start]), min(case.p_range), max(case.p_range)
        assert np.abs(case.fn(x, case.p_range[0])).max() < 1
        assert all(low < p < high for _, p in (*case.equilibria, *(case.cycles or ())))


def test_a_family_is_measured():
    row = continuation.measure("cusp")
    assert (row["true"], row["found"], row["extra"]) == (2, 2, 0) and row["error"] < 1e-8
    values = {figure.quantity: figure.value for figure in continuation.figures([{**row, "task": "cusp"}])}
    assert values["bifurcations of equilibria: all found, none extra"] == 1
    assert values["bifurcations of cycles: all found, none extra"] == 1


def test_data_sets_are_noisy_and_reproducible():
    data = diagrams.observed("switch", 3)
    assert len(data) == 2 * diagrams.VALUES and data.dim == 1
    assert np.unique(data.coords["mu"]) == pytest.approx(np.linspace(-0.2, 1.0, diagrams.VALUES))
    assert np.array_equal(data.x, diagrams.observed("switch", 3).x)
    assert not np.array_equal(data.x, diagrams.observed("switch", 4).x)
    last = data.x[-1, -20:, 0]  # at the upper equilibrium, where only the noise is left
    assert last.std() / last.mean() == pytest.approx(diagrams.NOISE, rel=0.5)


def test_what_is_not_found_covers_nothing():
    row = {"case": "switch", "model": "fim-ode", "truth": 0.38, "seconds": 1.0}
    rows = [
        {**row, "covered": 1, "width": 0.1, "p": 0.4},
        {**row, "covered": 0, "width": 0.2, "p": 0.5},
        {**row, "covered": 0, "width": float("inf")},
    ]
    values = {figure.quantity: (figure.value, figure.reached) for figure in diagrams.figures(rows)}
    assert values["switch, fim-ode: truth in the interval"] == (pytest.approx(1 / 3), "no")
    assert values["switch, fim-ode: median width by range"] == (0.2, "no")
    assert values["switch, fim-ode: median error of p"][0] == pytest.approx(0.07)


def test_families_of_the_catalogue_have_one_bifurcation_each():
    assert families.truth("rosenzweig_macarthur") == (
        "HB",
        pytest.approx(3.0, abs=1e-8),
    )  # Hopf at k = 2 x + 1
    assert families.truth("rf_squid") == ("LP", pytest.approx(1.068535, abs=1e-6))
    data = families.observed("rf_squid", 0)
    assert len(data) == 2 * diagrams.VALUES and np.isfinite(data.x).all()
    assert len(families.tasks()) == len(families.MODELS) * families.SETS * len(families.FAMILIES)


def test_families_count_what_is_found():
    row = {"family": "rf_squid", "model": "fim-ode", "seconds": 1.0, "expressible": 0}
    rows = [
        {**row, "covered": 1, "width": 0.1, "p": 0.4, "fits": 1},
        {**row, "covered": 0, "width": 0.3, "p": 0.5, "fits": 0},
        {**row, "covered": 0, "width": float("inf"), "fits": 1},
    ]
    values = {figure.quantity: figure.value for figure in families.figures(rows)}
    assert values["fim-ode: found"] == pytest.approx(2 / 3)
    assert values["fim-ode: truth in the interval, if found"] == 0.5
    assert values["fim-ode: truth in the interval, if it fits"] == 1.0
    assert values["fim-ode: truth in the interval, others"] == 0.5


def test_reference_values_of_equilibria_solve_their_defining_equations():
    for entry in reference.systems().values():
        for kind, *guess in entry.get("solved", []):
            found = defining.solved(entry, kind, guess)
            two = kind in ("CP", "BT", "ZH")
            places = {f"{kind} p": found[-2], f"{kind} q": found[-1]} if two else {kind: found[-1]}
            for what, value in places.items():
                known = [number for name, number, _ in entry["quantities"] if name == what]
                assert min(abs(float(value - number)) for number in known) < 1e-13 * max(1.0, abs(value))


@pytest.mark.slow
def test_reference_values_of_cycles_are_those_of_shooting():
    for entry in reference.systems().values():
        for kind, *guess in entry.get("shot", []):
            p = defining.solved_cycle(entry, kind, guess)[-1]
            known = [number for name, number, _ in entry["quantities"] if name == kind]
            assert min(abs(p - number) for number in known) < 1e-8 * max(1.0, abs(p))


@pytest.mark.slow
def test_reference_value_of_lorenz_homoclinic_orbit():
    """Below it the origin's unstable manifold stays on its side, above it crosses."""

    def crosses(r):
        fastest = (np.sqrt(81.0 + 40.0 * r) - 11.0) / 2.0
        start = 1e-9 * np.array([10.0, 10.0 + fastest, 0.0])

        def rates(t, s):
            return [10 * (s[1] - s[0]), s[0] * (r - s[2]) - s[1], s[0] * s[1] - 8 * s[2] / 3]

        return solve_ivp(rates, (0.0, 20.0), start, "DOP853", rtol=1e-12, atol=1e-15).y[0].min() < -1.0

    low, high = 13.9, 13.95
    for _ in range(28):
        middle = (low + high) / 2.0
        low, high = (low, middle) if crosses(middle) else (middle, high)
    (value,) = (v for name, v, _ in reference.systems()["lorenz-homoclinic"]["quantities"] if name == "HOM")
    assert abs(low - value) < 1e-8


@pytest.mark.parametrize("name", ["brusselator", "cusp", "van-der-pol-1", "lorenz-homoclinic"])
def test_published_quantities_are_within_their_errors(name):
    row = reference.measure(name)
    assert row["within"] == row["quantities"] > 0 and row["share"] < 1


def test_events_of_random_families_are_checked_anew(monkeypatch):
    monkeypatch.setattr(reference, "_BY_TASK", 2)
    row = reference.false_events(0)
    assert row["events"] > 0 and row["false"] == 0
    family, start = reference.random_family(0)
    (event, *_) = analyze.continuation(family, start, (-1, 1), [(-4, 4)] * 2, cycles=False).bifurcations
    assert reference._holds(event, family)
    assert not reference._holds(dataclasses.replace(event, x=event.x + 1e-3), family)
