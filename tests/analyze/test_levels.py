"""Conserved sums: found and named; analyses on a level set against reduced systems and closed forms."""

import numpy as np
import pytest

from fim_dynsys import CallableField, FieldFamily, Region, analyze
from fim_dynsys.analyze.conserved import conserved_sums, read_sum
from fim_dynsys.analyze.levels import LevelSet
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.trajectories.container import Trajectories


def sirs(x, beta):
    """S' = -beta S I + R / 5, I' = beta S I - I: the endemic state has S = 1 / beta, R = 5 I."""
    infection = beta * x[:, 0] * x[:, 1]
    return np.stack([-infection + 0.2 * x[:, 2], infection - x[:, 1], x[:, 1] - 0.2 * x[:, 2]], axis=1)


def enzyme(x):
    """S + E <-> C -> E + P, and P -> S: sums E + C and S + C + P."""
    s, e, c, p = x.T
    bind, back, make = s * e, 0.5 * c, c
    return np.stack([back - bind + p, back + make - bind, bind - back - make, make - p], axis=1)


SIRS = CallableField(lambda x: sirs(x, 2.0), 3, state_names=["S", "I", "R"])
ENZYME = CallableField(enzyme, 4, state_names=list("SECP"))


def slaved_oscillator(x, mu):
    """Van der Pol with a third state such that x + v + w is conserved, and counts as a force."""
    a = x[:, 1]
    b = (mu - x[:, 0] ** 2) * x[:, 1] - x[:, 0] + 0.2 * x.sum(axis=1)
    return np.stack([a, b, -a - b], axis=1)


@pytest.mark.parametrize("unit", [1e-20, 1.0, 1e20])
def test_sums_are_found_and_named_whatever_the_units(unit):
    box = Region([(0, 2)] * 4)
    assert conserved_sums(ENZYME, box).names == ("E + C", "S + C + P")
    size = unit ** np.array([1.0, 0.0, 0.0, 0.0])
    scaled = CallableField(lambda x: enzyme(x / size) * size, 4, state_names=list("SECP"))
    sums = conserved_sums(scaled, Region(np.zeros(4), 2.0 * size))
    expected = np.array([[0, 1, 1, 0], [1 / unit, 0, 1, 1]])
    combined = sums.combination(expected).T
    np.testing.assert_allclose(
        sums.weights.T @ combined * size[:, None], expected.T * size[:, None], atol=1e-9
    )


def test_weights_are_whole_numbers_where_they_can_be():
    dimer = CallableField(
        lambda x: np.stack([-2 * x[:, 0] ** 2 + x[:, 1], x[:, 0] ** 2 - 0.5 * x[:, 1]], 1), 2
    )
    assert conserved_sums(dimer, Region([(0, 1)] * 2)).names == ("x0 + 2 x1",)
    rates = CallableField(lambda x: np.stack([x[:, 1] + x[:, 0], 0 * x[:, 0], x[:, 2] ** 2], 1), 3)
    assert conserved_sums(rates, Region([(-1, 1)] * 3)).names == ("x1",)  # a constant among the states


def test_nothing_is_conserved_by_other_fields():
    lorenz = analyze_lorenz()
    assert len(conserved_sums(lorenz, Region([(-20, 20), (-20, 20), (0, 40)]))) == 0
    nearly = CallableField(lambda x: sirs(x, 2.0) + np.array([0, 0, 1e-7]) * x, 3)  # births of 1e-7
    assert len(conserved_sums(nearly, Region([(0, 1)] * 3))) == 0


def analyze_lorenz():
    return CallableField(
        lambda x: np.stack(
            [
                10 * (x[:, 1] - x[:, 0]),
                x[:, 0] * (28 - x[:, 2]) - x[:, 1],
                x[:, 0] * x[:, 1] - 8 / 3 * x[:, 2],
            ],
            1,
        ),
        3,
    )


def test_sums_are_read_from_text():
    names = ["S", "E", "C[1]", "x y"]
    assert read_sum("S+2*E - C[1]", names, "me").tolist() == [1, 2, -1, 0]
    assert read_sum("-S + 0.5 E", names, "me").tolist() == [-1, 0.5, 0, 0]
    assert read_sum("S + 2E - 3C[1]", names, "me").tolist() == [1, 2, -3, 0]
    assert read_sum("0.5S+2x y", names, "me").tolist() == [0.5, 0, 0, 2]
    assert read_sum("x y", names, "me").tolist() == [0, 0, 0, 1]
    for wrong in ("S*E", "S + Q", "", "2", "SE", "2Q", "2*3S"):
        with pytest.raises(ValueError, match="me: expected a sum of the states"):
            read_sum(wrong, names, "me")


def test_coordinates_and_states_are_inverse():
    sums = conserved_sums(ENZYME, Region([(0, 2)] * 4))
    level = LevelSet.of(sums, np.array([0.5, 1.5]), keep=[2])
    assert 2 in level.independent
    x = level.states(np.random.default_rng(0).uniform(size=(5, 2)))
    np.testing.assert_allclose(sums.totals(x), [[0.5, 1.5]] * 5, atol=1e-14)
    np.testing.assert_allclose(level.states(level.coordinates(x)), x, atol=1e-14)


def test_fixed_points_are_isolated_on_a_level():
    box = [(-0.1, 1.1)] * 3
    many = analyze.fixed_points(SIRS, box)
    assert set(many.status) == {analyze.PointStatus.NOT_ISOLATED}
    assert many.conserved == ("S + I + R",) and "level={'S + I + R': ...}" in str(many)
    found = analyze.fixed_points(SIRS, box, level={"I+S+R": 1})
    np.testing.assert_allclose(found.x, [[0.5, 1 / 12, 5 / 12], [1, 0, 0]], atol=1e-12)
    a, b = -1 / 6 - 0.2, 1 / 6  # of the endemic state: S' = a S - b' I on the level, by hand
    jac = np.array([[a, -1.0 - 0.2], [b, 0.0]])
    np.testing.assert_allclose(np.sort(found.eigenvalues[0]), np.sort(np.linalg.eigvals(jac)), atol=1e-9)
    np.testing.assert_allclose(found.eigenvalues[1].real, [1.0, -0.2], atol=1e-9)
    assert found.conserved == ("I + S + R = 1",) or found.conserved == ("S + I + R = 1",)
    same = analyze.fixed_points(SIRS, box, level=[0.2, 0.3, 0.5])
    np.testing.assert_allclose(same.x, found.x, atol=1e-12)
    assert found.to_xarray().attrs["conserved"] == found.conserved[0]


def test_points_outside_the_region_of_a_dependent_state_are_left_out():
    found = analyze.fixed_points(SIRS, [(-0.1, 1.1), (-0.1, 1.1), (-0.1, 0.3)], level={"S + I + R": 1})
    np.testing.assert_allclose(found.x, [[1, 0, 0]], atol=1e-12)  # R = 5 / 12 is beyond


def test_several_sums_give_a_point():
    totals = {"E+C": 0.5, "S+C+P": 2.0}
    found = analyze.fixed_points(ENZYME, [(0, 3)] * 4, level=totals)
    # P = C, S = 2 - 2 C and S E = 1.5 C with E = 0.5 - C: (2 - 2 C) (0.5 - C) = 1.5 C
    c = np.roots([2.0, -4.5, 1.0]).min()
    np.testing.assert_allclose(found.x, [[2 - 2 * c, 0.5 - c, c, c]], atol=1e-10)
    assert found.kind[0].stable


def test_levels_that_do_not_fit_are_errors():
    box = [(0, 2)] * 4
    with pytest.raises(
        ValueError, match=r"sums that the field conserves as level, .*E \+ C, S \+ C \+ P, got 'S'"
    ):
        analyze.fixed_points(ENZYME, box, level={"S": 1})
    with pytest.raises(ValueError, match=r"expected a total of 'S \+ C \+ P' as well"):
        analyze.fixed_points(ENZYME, box, level={"E+C": 1})
    with pytest.raises(ValueError, match="finite state of shape"):
        analyze.fixed_points(ENZYME, box, level=[1.0, 2.0])
    with pytest.raises(ValueError, match="independent sums"):
        analyze.fixed_points(ENZYME, box, level={"E+C": 1, "2*E+2*C": 2})
    with pytest.raises(ValueError, match="got one that conserves none"):
        analyze.fixed_points(analyze_lorenz(), [(-20, 20)] * 3, level={"x0": 1})


def of_data(totals):
    """The same field as a sum of terms, with data of some totals."""
    terms = Dictionary.polynomial(3, 2)
    rows = [tuple(row) for row in terms.exponents.tolist()]
    coefficients = np.zeros((len(terms), 3))
    for powers, column in (((1, 1, 0), [-2, 2, 0]), ((0, 1, 0), [0, -1, 1]), ((0, 0, 1), [0.2, 0, -0.2])):
        coefficients[rows.index(powers)] = column
    rng = np.random.default_rng(1)
    runs = []
    for total in totals:
        share = rng.dirichlet([2, 2, 2], size=40)
        runs.append(total * share + 1e-3 * rng.standard_normal((40, 3)))
    data = Trajectories.from_arrays(runs, [np.arange(40.0)] * len(runs), state_names=["S", "I", "R"])
    return DictionaryField(terms, coefficients, context=data)


def test_data_give_the_level():
    found = analyze.fixed_points(of_data([0.9, 0.9]), n_draws=0)
    endemic = found.x[np.argmax(found.x[:, 1])]
    np.testing.assert_allclose(endemic, [0.5, 0.4 / 6, 2.0 / 6], atol=1e-3)
    assert "the mean of the data" in found.conserved[0]
    several = analyze.fixed_points(of_data([0.9, 1.2]), n_draws=0)
    assert "first trajectory; others lie on other levels" in several.conserved[0]
    np.testing.assert_allclose(several.x[np.argmax(several.x[:, 1])], endemic, atol=1e-3)


def test_continuation_on_a_level_and_over_the_total():
    family = FieldFamily.from_callable(sirs, 3, "beta", state_names=["S", "I", "R"])
    over_beta = analyze.continuation(family, [1.0, 0, 0], (0.5, 4.0))
    (crossing,) = over_beta.bifurcations
    assert crossing.kind is analyze.BifurcationKind.BRANCH_POINT
    np.testing.assert_allclose([crossing.p, *crossing.x], [1, 1, 0, 0], atol=1e-9)
    endemic = over_beta.branches[1]
    infected = (1.0 - 1.0 / endemic.p) / 6.0
    np.testing.assert_allclose(endemic.x, np.stack([1 / endemic.p, infected, 5 * infected], 1), atol=1e-9)
    assert endemic.eigenvalues.shape[1] == 2 and "S + I + R = 1 (that of x0)" in str(over_beta)
    over_total = analyze.continuation(SIRS, [0.1, 0, 0], (0.1, 3.0), over="S+I+R")
    (crossing,) = over_total.bifurcations
    np.testing.assert_allclose([crossing.p, *crossing.x], [0.5, 0.5, 0, 0], atol=1e-9)
    endemic = over_total.branches[1]
    np.testing.assert_allclose(endemic.x[:, 1], (endemic.p - 0.5) / 6.0, atol=1e-9)
    np.testing.assert_allclose(endemic.x.sum(axis=1), endemic.p, atol=1e-12)
    over_total.to_xarray()
    with pytest.raises(ValueError, match=r"among combinations of S \+ I \+ R, got 'S'"):
        analyze.continuation(SIRS, [0.1, 0, 0], (0.1, 3.0), over="S")
    with pytest.raises(ValueError, match="starts on one level"):
        analyze.continuation(family, [[1.0, 0, 0], [2.0, 0, 0]], (0.5, 4.0))


def test_other_totals_stay_what_they_are_over_one():
    found = analyze.continuation(ENZYME, [1.0, 0.2, 0.3, 0.3], (0.5, 2.0), over="E + C", level={"S+C+P": 2.0})
    branch = found.branches[0]
    np.testing.assert_allclose(branch.x[:, [1, 2]].sum(axis=1), branch.p, atol=1e-12)
    np.testing.assert_allclose(branch.x[:, [0, 2, 3]].sum(axis=1), 2.0, atol=1e-12)
    np.testing.assert_allclose(enzyme(branch.x), 0.0, atol=1e-8)
    assert found.conserved == ("E + C", "S + C + P = 2")


def test_sums_are_found_beside_small_starts():
    unit = 1e-9

    def sirs(x, b):
        s, i, r = (x / unit).T
        return unit * np.stack([0.2 * r - b * s * i, b * s * i - i, i - 0.2 * r], axis=1)

    found = analyze.continuation(FieldFamily.from_callable(sirs, 3, "b"), [unit, 0.0, 0.0], (0.5, 4.0))
    assert [point.kind.name for point in found.bifurcations] == ["BRANCH_POINT"]


def test_cycles_on_a_level():
    field = CallableField(lambda x: slaved_oscillator(x, 1.0), 3)
    found = analyze.limit_cycles(field, [(-6, 6)] * 3, level={"x0 + x1 + x2": 0.5})
    # the sum shifts the equilibrium to x = 0.1; one cycle, which the plane has too
    plane = CallableField(
        lambda x: np.stack([x[:, 1], (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0] + 0.1], axis=1), 2
    )
    (period,) = analyze.limit_cycles(plane, [(-6, 6)] * 2).period
    np.testing.assert_allclose(found.period, [period], rtol=1e-8)
    np.testing.assert_allclose(found.orbits[0].sum(axis=1), 0.5, atol=1e-12)
    assert found.multipliers.shape == (1, 2) and found.stable.tolist() == [True]
    assert "conserved: x0 + x1 + x2 = 0.5" in str(found)
    family = FieldFamily.from_callable(slaved_oscillator, 3, "mu")
    branches = analyze.continuation(family, found, (0.5, 1.0), p0=1.0)
    (branch,) = branches.cycles
    np.testing.assert_allclose(branch.period[np.argmax(branch.p)], period, rtol=1e-6)
    np.testing.assert_allclose(branch.orbits[0].sum(axis=1), 0.5, atol=1e-12)


def test_basins_on_a_level():
    field = CallableField(lambda x: np.stack([x[:, 0] - x[:, 0] ** 3, x[:, 0] ** 3 - x[:, 0]], axis=1), 2)
    found = analyze.basins(field, [(-2, 2), (-3, 3)], resolution=41, n_sample=256, level={"x0 + x1": 0.5})
    assert found.coordinates == (0,) and found.labels.shape == (41,)
    ends = np.array([attractor.points[0] for attractor in found.attractors])
    np.testing.assert_allclose(ends[np.argsort(ends[:, 0])], [[-1, 1.5], [1, -0.5]], atol=1e-9)
    right = found.axes[0] > 1e-9
    upper = int(np.argmax(ends[:, 0]))
    np.testing.assert_array_equal(found.labels[right], upper)
    np.testing.assert_allclose(found.fractions[:2], 0.5, atol=0.02)
    narrow = analyze.basins(field, [(-2, 2), (-1, 1)], resolution=9, n_sample=64, level={"x0 + x1": 0.5})
    outside = np.abs(0.5 - narrow.axes[0]) > 1.0
    np.testing.assert_array_equal(narrow.labels[outside], analyze.BasinLabel.LEFT_REGION)
    with pytest.raises(ValueError, match="level set that meets the region"):
        analyze.basins(field, [(-2, 2), (-1, 1)], resolution=9, n_sample=64, level={"x0 + x1": 50})
