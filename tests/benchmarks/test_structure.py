"""Structures are compared as they should be, and rows run to their tables."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.harness.rows import ModelRow
from benchmarks.structure import __main__ as structure
from benchmarks.structure.contexts import (
    CURVES,
    Case,
    cells,
    observe,
    polynomial_systems,
    true_coefficients,
)
from fim_dynsys import systems
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.terms import Dictionary

NAME = "predator_prey_allee"


def field_of(wrong=0.0, factor=1.0):
    """The true field of a system with one coefficient off and one term more."""
    dictionary = Dictionary.polynomial(2, 3)
    names = dictionary.names()
    coefficients = np.zeros((len(names), 2))
    for i, side in enumerate(true_coefficients(NAME)):
        for name, value in side.items():
            coefficients[names.index(name), i] = value
    coefficients[np.nonzero(coefficients[:, 0])[0][0], 0] *= factor
    coefficients[names.index("x0^3"), 1] = wrong
    return DictionaryField(dictionary, coefficients)


def case(sigma=0.0, trajectories=1):
    return Case(NAME, sigma, 50, trajectories, 0)


def test_true_coefficients_make_the_true_field():
    x = np.random.default_rng(0).uniform(0.5, 2.0, (20, 2))
    np.testing.assert_allclose(field_of()(x), systems.get(NAME).rhs(x), rtol=1e-12)


def test_terms_and_coefficients_are_counted():
    exact = structure._compared(field_of(factor=1.25), case())
    assert exact["exact"] and exact["coefficient_error"] == pytest.approx(0.25)
    wrong = structure._compared(field_of(wrong=1e-6), case())
    assert (wrong["exact"], wrong["missing"], wrong["wrong"]) == (False, 0, 1)
    assert structure._compared(field_of(factor=0.0), case())["missing"] == 1


def test_every_model_sees_the_same_noise_and_more_starts_lie_near_the_first():
    noisy, again = observe(case(0.1, 4)), observe(case(0.1, 4))
    np.testing.assert_array_equal(np.stack(noisy.x), np.stack(again.x))
    clean = observe(case(0.0, 4))
    assert len(clean) == 4
    first = np.array([x[0] for x in clean.x])
    np.testing.assert_allclose(first[2:], first[:2], rtol=0.5)
    assert not np.array_equal(first[2], first[0])


def test_systems_are_cubic_and_cells_listed_once():
    assert {s.split for s in polynomial_systems()} == {"development", "oracle"}
    assert all(s.polynomial for s in polynomial_systems())
    assert len(cells()) == len(set(cells())) < sum(map(len, CURVES.values()))


class Broken:
    """A model that fails on every context."""

    name, version, sees_truth = "broken", "1", False

    def infer(self, view):
        raise ValueError("no")


def test_a_run_writes_its_tables_and_counts_failures(tmp_path, monkeypatch):
    monkeypatch.setattr(structure, "cells", lambda: [(0.0, 50, 1), (0.01, 50, 1)])
    rows = [ModelRow.resolve("sindy"), Broken()]
    trials = structure.run(rows, [0], tmp_path, limit=2)
    summary = structure.summarise(trials)
    broken = summary[summary["model"] == "broken"]
    assert (broken["percent_exact"] == 0.0).all() and (broken["failures"] == broken["n"]).all()
    assert (summary.loc[summary["model"] == "sindy", "failures"] == 0).all()
    pd.testing.assert_frame_equal(trials, structure.run(rows, [0], tmp_path, limit=2))
    assert "Against points, all, 2 contexts a cell" in structure.format_tables(summary)
