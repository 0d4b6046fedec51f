"""Equations between the states that hold along a path."""

import numpy as np
import pytest

from fim_dynsys.search.exact.relations import relations

T = np.linspace(0.0, 7.0, 300)


def test_a_circle_a_plane_and_both():
    circle = np.stack([np.cos(T), 3.0 * np.sin(T)], axis=1)
    assert relations(circle, ["x", "y"]) == ["9 x^2 + y^2 = 9"]
    plane = np.column_stack([circle, np.exp(-0.1 * T)])
    assert relations(plane, ["x", "y", "z"]) == ["9 x^2 + y^2 = 9"]
    summed = np.column_stack([plane[:, :2], 1.0 - plane[:, 0] - plane[:, 1]])
    assert relations(summed, ["x", "y", "z"]) == ["x + y + z = 1"]


def test_none_where_the_path_fills_the_plane_or_is_short():
    spiral = np.stack([np.exp(-0.2 * T) * np.cos(3.0 * T), np.exp(-0.3 * T) * np.sin(2.0 * T)], axis=1)
    assert relations(spiral, ["x", "y"]) == []
    assert relations(spiral[:5], ["x", "y"]) == []


@pytest.mark.parametrize("size", [1e-100, 1e-182, 1e182])
def test_sizes_whose_squares_are_no_numbers(size):
    circle = size * np.stack([np.cos(T), 3.0 * np.sin(T)], axis=1)
    with np.errstate(all="ignore"):
        found = relations(circle, ["x", "y"])
    assert found == [] or found[0].startswith("9 x^2 + y^2 = ")
    plane = np.column_stack([circle, size - circle.sum(axis=1)])
    with np.errstate(all="ignore"):
        assert relations(plane, ["x", "y", "z"])[0].startswith("x + y + z = ")


def test_two_at_once_each_without_the_other_s_last_term():
    line = np.stack([T, 2.0 * T, 1.0 - T], axis=1)
    assert sorted(relations(line, ["x", "y", "z"])) == ["-2 x + y = 0", "x + z = 1"]


def test_long_relations_are_not_written_out():
    x, y = np.cos(T), np.sin(T)
    a, b = x + 0.3 * y, y - 0.2 * x + 0.7
    assert relations(np.stack([a, b], axis=1), ["x", "y"]) == [
        "a polynomial equation of degree 2 holds between the states"
    ]
