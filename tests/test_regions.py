"""Region: bounds, point sets, refusals."""

import warnings

import numpy as np
import pytest

from fim_dynsys.regions import Region


def test_all_constructors_give_the_same_box():
    expected = Region([0, -2], [1, 2], names=("a", "b"))
    assert expected.low.tolist() == [0, -2] and expected.high.tolist() == [1, 2]
    assert Region({"a": (0, 1), "b": (-2, 2)}) == expected
    assert Region([(0, 1), (-2, 2)], names=["a", "b"]) == expected
    assert Region.from_pairs(((0, 1), (-2, 2)), ("a", "b")) == expected
    assert Region(expected) == Region(expected.pairs) == expected
    assert hash(Region(expected.pairs)) == hash(expected)
    assert Region([0, -2], [1, 2]) != expected
    assert Region([0, -2], [1, 2]).names == ("x0", "x1")
    assert Region(0, 1).dim == 1


def test_geometry():
    box = Region({"a": (0, 1), "b": (-2, 4)})
    np.testing.assert_array_equal(box.size, [1, 6])
    np.testing.assert_array_equal(box.centre, [0.5, 1])
    assert box.widened(0.5) == Region({"a": (-0.5, 1.5), "b": (-5, 7)})
    assert box.union(Region([-1, 0], [0.5, 9])) == Region({"a": (-1, 1), "b": (-2, 9)})
    assert list(box) == [(0, 1), (-2, 4)]
    points = [[0, -2], [1, 4], [0.5, 4.1], [np.nan, 0]]
    np.testing.assert_array_equal(box.contains(points), [True, True, False, False])
    assert box.contains([0.5, 0]).shape == () and box.contains(np.zeros((3, 4, 2))).shape == (3, 4)


def test_a_region_is_frozen_and_shares_no_memory():
    low = np.zeros(2)
    box = Region(low, [1, 1])
    low[0] = 5
    assert box.low[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        box.low[0] = 1


def test_grid_runs_with_the_last_axis_fastest():
    grid = Region([0, 10], [1, 12]).grid(3)
    assert grid.shape == (9, 2)
    np.testing.assert_allclose(grid[:4], [[0, 10], [0, 11], [0, 12], [0.5, 10]])
    np.testing.assert_array_equal(grid[-1], [1, 12])


@pytest.mark.parametrize("n", [1, 5, 64, 100])
def test_sobol_points_lie_inside_and_repeat_by_seed(n):
    box = Region([-1, 5, 0], [1, 6, 1e-3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # scipy warns where n is no power of two
        points = box.sobol(n, seed=3)
    assert points.shape == (n, 3) and box.contains(points).all()
    np.testing.assert_array_equal(points, box.sobol(n, seed=3))
    assert not np.array_equal(points, box.sobol(n, seed=4))


def test_sobol_fills_more_evenly_than_chance():
    # 256 points of a (0, 2)-sequence in base 2: every one of 16 x 16 cells holds exactly one.
    cells = np.floor(Region([0, 0], [1, 1]).sobol(256) * 16).astype(int)
    counts = np.bincount(cells[:, 0] * 16 + cells[:, 1], minlength=256)
    np.testing.assert_array_equal(counts, 1)


def test_uniform_points_have_the_moments_of_the_box():
    box = Region([-1, 10], [3, 10.5])
    points = box.uniform(40_000, rng=0)
    assert box.contains(points).all()
    standard_error = box.size / np.sqrt(12 * 40_000)
    assert (np.abs(points.mean(axis=0) - box.centre) < 4 * standard_error).all()
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(points, box.uniform(40_000, rng))
    assert not np.array_equal(points, box.uniform(40_000, rng))


def test_boundary_of_a_plane_box_winds_once_counter_clockwise():
    box = Region([-1, 2], [3, 2.5])
    points = box.boundary(40)
    assert points.shape == (40, 2)
    on_edge = (np.isclose(points, box.low) | np.isclose(points, box.high)).any(axis=1)
    assert on_edge.all()
    angle = np.unwrap(np.arctan2(*(points - box.centre).T[::-1]))
    closing = np.angle(np.exp(1j * (angle[0] - angle[-1])))
    assert (np.diff(angle) > 0).all()
    np.testing.assert_allclose(angle[-1] + closing - angle[0], 2 * np.pi)


def test_boundary_in_other_dimensions():
    np.testing.assert_array_equal(Region(2, 3).boundary(10), [[2], [3]])
    box = Region([0, 0, 0], [1, 2, 3])
    points = box.boundary(600)
    faces = np.stack([points == box.low, points == box.high])
    assert faces.any(axis=(0, 2)).all()
    np.testing.assert_array_equal(faces.sum(axis=1), 100)  # 100 points on each of six faces
    # On each face the two free coordinates are spread evenly: the mean lies near the middle.
    for side in range(2):
        for axis in range(3):
            mean = (points[faces[side, :, axis]] / box.size).mean(axis=0)
            np.testing.assert_allclose(np.delete(mean, axis), 0.5, atol=0.06)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [1, 1]), "expected low < high, got 1 and 1 for 'x1'"),
        (({"a": (2, 1)},), "expected low < high, got 2 and 1 for 'a'"),
        (([0], [1, 2]), "one length, got 1 and 2"),
        (([np.nan], [1]), r"finite bounds, got low = \[nan\]"),
        (([0], [np.inf]), r"finite bounds, got high = \[inf\]"),
        ((["a"], ["b"]), "real numbers of shape"),
        (([1j], [2]), "real numbers of shape"),
        (([[0]], [[1]]), "real numbers of shape"),
        (({},), "one .low, high. pair per coordinate"),
        (([(0, 1, 2)],), "one .low, high. pair per coordinate"),
        (([(0, 1), (2,)],), "one .low, high. pair per coordinate"),
        (("ab",), "one .low, high. pair per coordinate"),
        (([0], [5e-324]), "apart by an ordinary floating-point number, got 0 and 4.94066e-324"),
        (([0, 0], [1, 1], ["a"]), r"2 different names \(str\), got \('a',\)"),
        (([0, 0], [1, 1], ["a", "a"]), "2 different names"),
        (([0], [1], [3]), "1 different names"),
    ],
)
def test_bad_boxes_are_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^Region: .*{message}"):
        Region(*arguments)


def test_bad_questions_are_refused():
    box = Region([0, 0], [1, 1])
    with pytest.raises(ValueError, match=r"R\^2: expected points of shape \(\.\.\., 2\), got \(4, 3\)"):
        box.contains(np.zeros((4, 3)))
    with pytest.raises(ValueError, match=r"Region.sobol: expected an integer n >= 1, got 0"):
        box.sobol(0)
    with pytest.raises(ValueError, match=r"Region.grid: expected an integer n >= 2, got 1.5"):
        box.grid(1.5)
    with pytest.raises(ValueError, match=r"R\^2, got one in R\^1"):
        box.union(Region(0, 1))
    with pytest.raises(ValueError, match="low < high"):
        box.widened(-0.5)


def test_boxes_follow_the_names_of_states():
    box = Region({"b": (0, 1), "a": (-2, 2)})
    expected = Region({"a": (-2, 2), "b": (0, 1)})
    assert box.of_states(["a", "b"]) == expected
    assert Region([-2, 0], [2, 1]).of_states(("a", "b")) == expected  # a box without names: by position
    with pytest.raises(ValueError, match=r"expected a region of the states x0, x1, got one of a, b"):
        expected.of_states(("x0", "x1"))  # names that mean nothing there are an error, not positions
    with pytest.raises(ValueError, match=r"^me: expected a region of the states a, c, got one of b"):
        box.of_states(["a", "c"], "me")
    with pytest.raises(ValueError, match="bounds of each of the states a, b, c, got 2 of 3"):
        box.of_states(["a", "b", "c"])
