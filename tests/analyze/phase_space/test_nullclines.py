"""Nullclines: points on the zeros, a line for each branch, crossings, holes, poles, planes of larger ones."""

import numpy as np
import pytest
import xarray as xr

from fim_dynsys import systems
from fim_dynsys.analyze import basins, nullclines
from fim_dynsys.analyze.phase_space.nullcline import NullclineStatus
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.regions import Region
from fim_dynsys.trajectories.container import Trajectories

SQUARE = Region([-2, -2], [2, 2])


def of(*components, region=SQUARE, **options):
    """Nullclines of a planar field given by functions of x and y."""
    field = CallableField(lambda p: np.stack([c(*p.T) + 0 * p[:, 0] for c in components], axis=1), 2)
    return nullclines(field, region, **options)


def test_van_der_pol():
    """x' = v, v' = mu (1 - x^2) v - x: the axis, and v = x / (mu (1 - x^2)) in three branches."""
    result = nullclines(systems.get("van_der_pol").field())
    assert [len(lines) for lines in result.branches] == [1, 3]
    mu = systems.get("van_der_pol").parameters["mu"]
    for line in result.branches[1]:
        np.testing.assert_allclose(mu * (1 - line[:, 0] ** 2) * line[:, 1], line[:, 0], atol=1e-12)
        assert np.ptp(np.sign(1 - line[:, 0] ** 2)) == 0  # none crosses a pole
    assert {status for own in result.status for status in own} == {NullclineStatus.TO_EDGE}
    assert max(max(own) for own in result.residual) < 1e-12


def test_branches_that_cross_go_straight_on():
    """x (r - x - a y) and its like: an axis and a slanted line each, in one piece across the other."""
    system = systems.get("competition")
    result = nullclines(system.field())
    assert [len(lines) for lines in result.branches] == [2, 2]
    for k, lines in enumerate(result.branches):
        straight = sorted(lines, key=lambda line: np.ptp(line[:, k]))
        assert np.ptp(straight[0][:, k]) < 1e-12
        for line in straight:
            ends = np.abs(line[[0, -1]] - system.region.low), np.abs(line[[0, -1]] - system.region.high)
            np.testing.assert_allclose(np.min(ends, axis=(0, 2)), 0, atol=1e-9)
            direction = (line[-1] - line[0]) / np.linalg.norm(line[-1] - line[0])
            along = (line - line[0]) @ direction
            assert (np.diff(along) > 0).all()
            np.testing.assert_allclose(line, line[0] + along[:, None] * direction, atol=1e-9)


def test_three_lines_through_three_crossings():
    result = of(lambda x, y: x * (y - 0.5) * (x + y - 1.2), lambda x, y: 1.0)
    assert [len(lines) for lines in result.branches] == [3, 0]
    lengths = sorted(np.linalg.norm(np.diff(line, axis=0), axis=1).sum() for line in result.branches[0])
    np.testing.assert_allclose(lengths, [2.8 * np.sqrt(2), 4, 4], rtol=1e-6)


def test_near_crossings_stay_apart():
    result = of(lambda x, y: x * y - 1e-4, lambda x, y: x * y + 1e-4)
    for sign, lines in zip((1, -1), result.branches, strict=True):
        assert len(lines) == 2
        for line in lines:
            assert len({(a, b) for a, b in np.sign(line)}) == 1
            assert np.sign(line).prod(axis=1)[0] == sign


def test_a_circle_is_closed():
    result = of(lambda x, y: x**2 + y**2 - 1, lambda x, y: y)
    (line,) = result.branches[0]
    assert result.status[0] == [NullclineStatus.CLOSED]
    np.testing.assert_array_equal(line[0], line[-1])
    np.testing.assert_allclose(np.hypot(*line.T), 1, atol=1e-12)
    # chords of a 32nd fall short of the arc by their square over 24
    np.testing.assert_allclose(np.linalg.norm(np.diff(line, axis=0), axis=1).sum(), 2 * np.pi, rtol=1e-4)


def test_no_line_at_a_pole_or_beyond_the_domain():
    result = of(lambda x, y: 1 / x, lambda x, y: np.sqrt(x) - y)
    assert [len(lines) for lines in result.branches] == [0, 1]
    (line,) = result.branches[1]
    np.testing.assert_allclose(line[:, 1] ** 2, line[:, 0], atol=1e-10)
    assert result.status[1] == [NullclineStatus.INSIDE]
    assert line[:, 0].max() == 2.0


def test_lines_on_the_edge_belong_to_the_region():
    result = of(lambda x, y: x * (1 - y), lambda x, y: y + 2, region=Region([0, -2], [3, 2]))
    assert [len(lines) for lines in result.branches] == [2, 1]
    axis = min(result.branches[0], key=lambda line: np.ptp(line[:, 0]))
    np.testing.assert_allclose(axis[:, 0], 0, atol=1e-9)
    assert np.ptp(axis[:, 1]) > 3.9


def test_a_state_that_stands_still():
    result = of(lambda x, y: 0 * x, lambda x, y: x)
    assert result.vanishing == [True, False]
    assert "x0 stands still everywhere" in str(result)


def test_plane_of_a_larger_field():
    """Lorenz in the plane y = 2: x = 2, rho x - 2 - x z = 0, 2 x = beta z."""
    system = systems.get("lorenz")
    result = nullclines(system.field(), states=("x", "z"), at=[9.0, 2.0, 9.0])
    assert (result.states, [len(lines) for lines in result.branches]) == (("x", "z"), [1, 2, 1])
    for k, lines in enumerate(result.branches):
        for line in lines:
            np.testing.assert_allclose(line[:, 1], 2.0)
            assert np.abs(system.rhs(line)[:, k]).max() < 1e-9
    by_number = nullclines(system.field(), states=(0, 2), at=[9.0, 2.0, 9.0])
    np.testing.assert_array_equal(by_number.branches[1][0], result.branches[1][0])


def test_support_dataset_and_table(tmp_path):
    t = np.linspace(0, 3, 60)
    data = Trajectories.from_arrays(np.stack([np.cos(t), np.sin(t)], 1), t, state_names=["u", "v"])
    field = CallableField(lambda p: np.stack([p[:, 1], -p[:, 0]], 1), 2, context=data)
    result = nullclines(field, SQUARE)
    (line,) = result.branches[1]
    np.testing.assert_allclose(result.support[1][0], field.support(line), rtol=1e-12)
    assert "1 of u, 1 of v" in str(result)
    result.to_xarray().to_netcdf(tmp_path / "nullclines.nc", engine="h5netcdf")
    read = xr.load_dataset(tmp_path / "nullclines.nc", engine="h5netcdf")
    np.testing.assert_array_equal(read.x[read.of_state.values == 1], line)


def test_misuse_is_refused_by_name():
    lorenz = systems.get("lorenz").field()
    for field, options, text in (
        (lorenz, {}, "a field of two states"),
        (lorenz, {"states": ("x", "z")}, "a field of two states"),
        (lorenz, {"states": ("x", "w"), "at": [0, 0, 0]}, "two different states among"),
        (lorenz, {"states": ("x", "x"), "at": [0, 0, 0]}, "two different states among"),
        (lorenz, {"states": ("x", "y"), "at": [0, 0]}, r"at of shape \(3,\)"),
        (systems.get("logistic").field(), {}, "a field of two states"),
        (
            systems.get("van_der_pol").field(),
            {"budget": 100},
            "budget as a whole number of at least 16900, got 100",
        ),
    ):
        with pytest.raises(ValueError, match=f"^nullclines: expected .*{text}"):
            nullclines(field, **options)


def test_fine_structure_is_found_or_said_to_be_missing():
    """sin(200 x + 0.5) on [0, 4] has 254 lines; a grid of 128 cells sees another sine."""
    box = Region([0.0, 0.0], [4.0, 1.0])
    fine = CallableField(lambda x: np.stack([np.sin(200 * x[:, 0] + 0.5), x[:, 1] - 0.5], axis=1), 2)
    found = nullclines(fine, box)
    assert found.resolved and len(found.branches[0]) == 254 and found.resolution[0] >= 512
    assert "probes between them show nothing finer" in str(found)
    finer = CallableField(lambda x: np.stack([np.sin(2e5 * x[:, 0]), x[:, 1] - 0.5], axis=1), 2)
    missed = nullclines(finer, box)
    assert not missed.resolved and "lines are missing" in str(missed)
    coarse = nullclines(fine, box, budget=130**2)
    assert not coarse.resolved and coarse.effort.exhausted


def test_smooth_nullclines_keep_the_grid_that_was_asked_for():
    found = nullclines(CallableField(lambda x: x - 0.3, 2), Region([-1, -1], [1, 1]))
    assert found.resolved and found.resolution == (128, 128)


def test_crossing_and_close_lines():
    """x y (x - y) = 0: three lines through one point; and two lines 0.005 apart on a box 4 wide."""
    star = CallableField(
        lambda s: np.stack([s[:, 0] * s[:, 1] * (s[:, 0] - s[:, 1]), s[:, 1] - 3], axis=1), 2
    )
    for right, low, top in ((2, -2, 2), (1.3, -1.7, 1)):
        lines = nullclines(star, [(-1, right), (low, top)]).branches[0]
        ends = {tuple(sorted((tuple(line[0].round(6)), tuple(line[-1].round(6))))) for line in lines}
        diagonal = ((-1.0, -1.0), (min(right, top),) * 2)
        assert ends == {((-1.0, 0.0), (right, 0.0)), ((0.0, low), (0.0, top)), diagonal}
    pair = CallableField(lambda s: np.stack([(s[:, 0] - 0.3) * (s[:, 0] - 0.305), s[:, 1] - 0.5], axis=1), 2)
    found = nullclines(pair, [(-2, 2), (-2, 2)])
    assert sorted(line[0, 0] for line in found.branches[0]) == pytest.approx([0.3, 0.305], abs=1e-9)


def _two_in_a_cell(gap):
    return CallableField(lambda x: np.stack([(x[:, 0] - 0.1) * (x[:, 0] - 0.1 - gap), x[:, 1]], axis=1), 2)


def test_two_lines_between_nodes_are_found_or_said_to_be_missing():
    found = nullclines(_two_in_a_cell(0.005), [(-2, 2)] * 2)
    assert found.resolved and found.cell[0] < 0.005
    ends = sorted(float(line[0, 0]) for line in found.branches[0])
    np.testing.assert_allclose(ends, [0.1, 0.105], atol=1e-9)
    narrow = nullclines(_two_in_a_cell(1e-5), [(-2, 2)] * 2)
    assert not narrow.resolved and "lines are missing" in str(narrow)


def test_a_circle_within_a_cell_is_found_or_said_to_be_missing():
    for radius in (0.005, 1e-4):
        field = CallableField(lambda x, r=radius: np.stack([(x**2).sum(axis=1) - r**2, x[:, 1]], axis=1), 2)
        found = nullclines(field, [(-2, 2)] * 2)
        if found.resolved:
            (circle,) = found.branches[0]
            np.testing.assert_allclose(np.linalg.norm(circle, axis=1), radius, rtol=1e-6)
        assert found.resolved is (radius == 0.005)


def test_a_bump_that_a_probe_meets_is_found_or_said_to_be_missing():
    field = CallableField(
        lambda x: np.stack([np.exp(-(((x[:, 0] - 0.1) / 1e-3) ** 2)) - 0.5, x[:, 1]], axis=1), 2
    )
    found = nullclines(field, [(-2, 2)] * 2)
    assert len(found.branches[0]) == 2 or not found.resolved
    assert "may be missed" in str(found)


def test_a_smooth_line_costs_no_more_cells():
    cubic = CallableField(lambda x: np.stack([x[:, 1], x[:, 0] - x[:, 0] ** 3 - 0.4 * x[:, 1]], axis=1), 2)
    assert nullclines(cubic, [(-2, 2)] * 2).resolution == (128, 128)


def test_a_square_touches_zero_and_nothing_is_claimed():
    """A line that a component touches without a change of sign is not traced; just above zero none is."""

    def lines(least):
        return nullclines(
            CallableField(lambda x: np.stack([(x[:, 0] - 0.1) ** 2 + least, x[:, 1]], axis=1), 2),
            [(-2, 2)] * 2,
        )

    found = lines(0.0)
    assert found.touching == [True, False] and not found.resolved and not found.branches[0]
    assert "x0 touches zero without a change of sign" in str(found)
    above = lines(1e-4)
    assert above.resolved and not any(above.touching)


@pytest.mark.parametrize("shift", [0.0, 0.01])
def test_a_component_that_touches_zero_on_a_line_is_said_wherever_the_line_lies(shift):
    """Through nodes of the grid, or between them."""
    field = CallableField(lambda s: np.stack([(s[:, 0] - s[:, 1] - shift) ** 2, s[:, 0]], 1), 2)
    found = nullclines(field, [(-2, 2), (-2, 2)])
    assert len(found.branches[0]) == 0 and not found.resolved
    assert "x0 touches zero without a change of sign" in str(found)


def test_a_line_through_nodes_across_which_the_sign_changes_is_no_touch():
    found = nullclines(CallableField(lambda s: s, 2), [(-2, 2), (-2, 2)])
    assert found.resolved and [len(of) for of in found.branches] == [1, 1]


def test_planes_are_laid_through_states_by_name():
    """Where they lie in other states: in order, or by names, the others as by default."""

    def rates(x):
        return np.stack([x[:, 0] - x[:, 0] ** 3, x[:, 2] - x[:, 1], -x[:, 2]], axis=1)

    field = CallableField(rates, 3, state_names=["x", "y", "z"])
    box = [(-2, 2), (-1, 3), (-1, 3)]
    named = nullclines(field, box, states=("x", "y"), at={"z": 0.5})
    np.testing.assert_allclose(named.at, [0.0, 1.0, 0.5])
    given = nullclines(field, box, states=("x", "y"), at=[0.0, 1.0, 0.5])
    np.testing.assert_array_equal(np.concatenate(named.branches[1]), np.concatenate(given.branches[1]))
    np.testing.assert_allclose(
        basins(field, box, resolution=4, n_sample=4, at={"z": 0.5}).at, [0.0, 1.0, 0.5]
    )
    with pytest.raises(ValueError, match="basins: expected at of the states x, y, z, got w"):
        basins(field, box, at={"w": 0.5})
    with pytest.raises(ValueError, match="nullclines: expected at of shape"):
        nullclines(field, box, states=("x", "y"), at={"z": np.nan})
