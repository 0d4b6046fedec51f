"""Fixed points: textbook truths, zeros of higher order, continua, edges, holes, dimensions, the index."""

import numpy as np
import pytest
import xarray as xr
from scipy.optimize import brentq

from fim_dynsys import load, systems
from fim_dynsys.analyze import FixedPoints, IndexCheck, Kind, PointStatus, fixed_points
from fim_dynsys.analyze.equilibria.topology import degree
from fim_dynsys.fields.affine import AffineField
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.posterior import PosteriorField
from fim_dynsys.fields.symbolic import SymbolicField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regions import Region
from fim_dynsys.trajectories.container import Trajectories

KNOWN = [system.name for system in systems.oracle() if "equilibria" in system.truths]


def found(f, region, **options) -> FixedPoints:
    """Fixed points of a function of (n, d) in a box, with Jacobians by differences."""
    box = Region(region)
    return fixed_points(CallableField(f, box.dim), box, **options)


def roots(result) -> np.ndarray:
    return result.x[result.is_root]


# ---------------------------------------------------------------------- textbook systems


@pytest.mark.parametrize("name", KNOWN)
def test_closed_form_equilibria_all_and_none_extra(name):
    """1e-8: Newton's method ends at rounding, and the truths are exact formulas."""
    system = systems.get(name)
    true = system.truth("equilibria").real
    inside = system.region.contains(true)
    true = true[inside]
    result = fixed_points(system.field())
    assert result.x.shape == true.shape
    nearest = np.abs(result.x[:, None] - true).max(axis=2).argmin(axis=0)
    assert sorted(nearest) == list(range(len(true)))
    np.testing.assert_allclose(result.x[nearest], true, atol=1e-8)
    assert (result.residual < 1e-9).all()
    assert result.index_check == "balanced"
    if "eigenvalues" in system.truths:
        expected = system.truth("eigenvalues").astype(complex)[inside]
        for mine, theirs in zip(result.eigenvalues[nearest], expected, strict=True):
            ordered = theirs[np.lexsort((-theirs.imag, -theirs.real))]
            np.testing.assert_allclose(mine, ordered, atol=1e-8)


def test_kinds_of_the_competition_model():
    result = fixed_points(systems.get("competition").field())
    assert sorted(kind.value for kind in result.kind) == [
        "saddle",
        "stable node",
        "stable node",
        "unstable node",
    ]
    assert sorted(result.index) == [-1.0, 1.0, 1.0, 1.0]


def test_van_der_pol_by_its_parameter():
    """Trace mu and determinant 1: node beyond mu = 2, focus below, centre at 0."""
    for mu, kind in ((3.0, Kind.UNSTABLE_NODE), (1.0, Kind.UNSTABLE_FOCUS), (0.0, Kind.CENTRE_LIKE)):
        result = found(
            lambda x, mu=mu: np.stack([x[:, 1], mu * (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], 1),
            [(-3, 3)] * 2,
        )
        assert list(result.kind) == [kind]
        root = np.emath.sqrt(mu**2 - 4)
        np.testing.assert_allclose(result.eigenvalues[0], [(mu + root) / 2, (mu - root) / 2], atol=1e-8)


def test_pendulum_saddles_on_the_edge_and_a_centre():
    result = found(lambda x: np.stack([x[:, 1], -np.sin(x[:, 0])], 1), [(-np.pi, np.pi), (-2, 2)])
    np.testing.assert_allclose(result.x, [[-np.pi, 0], [0, 0], [np.pi, 0]], atol=1e-8)
    assert list(result.kind) == [Kind.SADDLE, Kind.CENTRE_LIKE, Kind.SADDLE]
    assert [s is PointStatus.ON_EDGE for s in result.status] == [True, False, True]
    assert (result.balance.boundary, result.balance.found) == (-1, -1)


# ---------------------------------------------------------------------- degenerate cases


@pytest.mark.parametrize(("power", "index"), [(2, 0), (3, 1), (4, 0), (5, 1)])
def test_zero_of_higher_order_on_the_line(power, index):
    result = found(lambda x: x**power, [(-1, 1.3)])
    assert list(result.kind) == [Kind.DEGENERATE]
    assert (result.index.tolist(), result.index_check) == ([index], IndexCheck.BALANCED)
    # |x|^power is all there is to find a zero by: 1e-4 of a length gives 1e-20 for the fifth power
    assert abs(result.x[0, 0]) < 1e-4


def test_zero_of_index_two_in_the_plane():
    result = found(
        lambda x: np.stack([x[:, 0] ** 2 - x[:, 1] ** 2, 2 * x[:, 0] * x[:, 1]], 1), [(-1, 1.1)] * 2
    )
    np.testing.assert_allclose(result.x, [[0, 0]], atol=1e-8)
    assert (result.index[0], result.index_check) == (2, IndexCheck.BALANCED)


@pytest.mark.parametrize(("height", "slow"), [(1e-6, 1), (1e-2, 1), (1.0, 0)])
def test_ghost_of_a_fold_is_a_slow_point(height, slow):
    """x^2 + h is slowest, with rate h, at 0; relative to the typical speed of 0.6 the last is not slow."""
    result = found(lambda x: x**2 + height, [(-1, 1.3)])
    assert list(result.kind) == [Kind.SLOW] * slow
    assert not result.is_root.any()
    np.testing.assert_allclose(result.x, np.zeros((slow, 1)), atol=1e-5)
    assert result.index_check == "balanced"


@pytest.mark.parametrize("gap", [1e-2, 1e-4])
def test_pairs_near_a_fold_are_told_apart(gap):
    result = found(lambda x: np.stack([x[:, 1] - x[:, 0] ** 2, x[:, 1] - gap**2], 1), [(-1, 1.1)] * 2)
    np.testing.assert_allclose(result.x, [[-gap, gap**2], [gap, gap**2]], atol=1e-10)


def test_lines_of_fixed_points_are_no_isolated_ones():
    result = found(lambda x: (x[:, :1] - x[:, 1:]) * [1.0, 2.0], [(-1, 1.3)] * 2)
    assert {status for status in result.status} == {PointStatus.NOT_ISOLATED}
    assert np.ptp(result.x[:, 0]) > 1.8
    np.testing.assert_allclose(result.x[:, 0], result.x[:, 1], atol=1e-10)
    assert result.index_check is IndexCheck.NOT_RUN
    circle = found(lambda x: x * (1 - (x**2).sum(1, keepdims=True)), [(-2, 2)] * 2)
    alone = np.array([status is PointStatus.ISOLATED for status in circle.status])
    np.testing.assert_allclose(circle.x[alone], [[0, 0]], atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(circle.x[~alone], axis=1), 1, atol=1e-10)


def test_zero_and_constant_fields():
    still = found(np.zeros_like, [(-1, 1.3)] * 2)
    assert 1 < len(still) <= 16
    assert {status for status in still.status} == {PointStatus.NOT_ISOLATED}
    assert "a continuum of zeros" in str(still)
    drift = found(lambda x: np.ones_like(x), [(-1, 1.3)] * 2)
    assert (len(drift), drift.index_check) == (0, IndexCheck.BALANCED)
    assert drift.to_xarray().x.shape == (0, 2)


def test_no_fixed_point_in_a_bounded_flow():
    result = found(lambda x: np.stack([1 + x[:, 1] ** 2, -x[:, 1]], 1), [(-2, 2)] * 2)
    assert (len(result), result.balance.boundary) == (0, 0)


def test_fields_with_holes():
    half = found(lambda x: np.stack([np.sqrt(x[:, 0]) - 1, -x[:, 1]], 1), [(-2, 2)] * 2)
    np.testing.assert_allclose(half.x, [[1, 0]], atol=1e-10)
    assert half.index_check is IndexCheck.NOT_RUN
    assert half.non_finite > 0
    nowhere = found(lambda x: x * np.nan, [(-2, 2)] * 2)
    assert (len(nowhere), nowhere.index_check) == (0, IndexCheck.NOT_RUN)
    assert f"not finite at {nowhere.effort.seeds} of the seeds" in str(nowhere)


def test_a_pole_is_a_mismatch_and_no_zero():
    result = found(lambda x: 1 / x, [(-1, 1)])
    assert (len(result), result.index_check) == (0, IndexCheck.MISMATCH)
    assert "indices need a continuous field, and x0' has a pole where x0 = 0" in str(result)


def test_flat_tails_are_no_zeros():
    result = found(lambda x: x * np.exp(-(x**2)), [(-10, 10)])
    np.testing.assert_allclose(roots(result), [[0]], atol=1e-12)


def test_corners_belong_to_the_region():
    result = found(lambda x: x * (1 - x), [(0, 1)] * 2)
    assert {tuple(x) for x in result.x.round(9) + 0.0} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert {status for status in result.status} == {PointStatus.ON_EDGE}
    assert result.index_check == "balanced"


# ---------------------------------------------------------------------- many dimensions, units


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 7, 10])
def test_every_dimension(dim):
    """Coordinates on their own, the last three with zeros -1, 0 and 1: 3^k zeros in a rotated frame."""
    rotation = np.linalg.qr(np.random.default_rng(dim).normal(size=(dim, dim)))[0]
    cubic = np.arange(dim) >= dim - 3

    def f(x):
        y = x @ rotation
        return np.where(cubic, y - y**3, -y - 0.1 * y**3) @ rotation.T

    def jac(x):
        y = x @ rotation
        return (rotation * np.where(cubic, 1 - 3 * y**2, -1 - 0.3 * y**2)[:, None]) @ rotation.T

    result = fixed_points(CallableField(f, dim, jac=jac), [(-2, 2)] * dim)
    assert len(result) == 3 ** min(dim, 3)
    y = result.x @ rotation
    np.testing.assert_allclose(y, y.round(), atol=1e-9)
    assert result.index_check is (IndexCheck.BALANCED if dim < 4 else IndexCheck.NOT_RUN)
    stable = [kind.stable for kind in result.kind]
    assert sum(stable) == 2 ** min(dim, 3)


def test_units_do_not_matter():
    inner = systems.get("competition").field()
    outer = AffineField(inner, scale=[1e6, 1e-9], shift=[3e6, 0.0], time_unit=1e4)
    a, b = fixed_points(inner), fixed_points(outer)
    np.testing.assert_allclose((b.x - [3e6, 0]) / [1e6, 1e-9], a.x, atol=1e-9)
    np.testing.assert_allclose(b.eigenvalues * 1e4, a.eigenvalues, rtol=1e-8)
    assert list(a.kind) == list(b.kind)


# ---------------------------------------------------------------------- the index check


def test_stiff_kinds():
    """Real parts far below the largest rate, but not zero: 0.05 beside 1000, -0.1 beside -1e6."""
    fast = found(
        lambda x: np.stack([1e6 * (x[:, 1] - x[:, 0] ** 3), 0.1 * x[:, 1] - x[:, 0]], 1), [(-2, 2)] * 2
    )
    assert list(fast.kind) == [Kind.UNSTABLE_FOCUS]
    np.testing.assert_allclose(fast.eigenvalues[0].real, 0.05, rtol=1e-6)
    slow = found(lambda x: np.stack([-1e6 * (x[:, 0] - x[:, 1]), -0.1 * x[:, 1]], 1), [(-2, 2)] * 2)
    assert list(slow.kind) == [Kind.STABLE_NODE]


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_size_of_the_region_sets_the_steps_of_jacobians_by_differences(size):
    """Without data, a region or a Jacobian of its own, a field knows nothing of its units."""
    result = found(lambda x: np.sin(x / size), [(-size, 4 * size)])
    np.testing.assert_allclose(result.x.ravel() / size, [0, np.pi], atol=1e-9)
    np.testing.assert_allclose(result.eigenvalues.real.ravel() * size, [1, -1], rtol=1e-9)


def test_huge_values_elsewhere_do_not_blur_zeros():
    result = found(
        lambda x: np.stack([np.expm1(50 * x[:, 0]), np.expm1(-3 * x[:, 1])], 1), [(-5, 20), (-5, 5)]
    )
    np.testing.assert_allclose(result.x, [[0, 0]], atol=1e-12)
    assert result.non_finite > 0


def test_degree_of_powers():
    def power(n):
        def f(x):
            z = (x[:, 0] + 1j * x[:, 1]) if n > 0 else (x[:, 0] - 1j * x[:, 1])
            z = z ** abs(n)
            return np.concatenate([np.stack([z.real, z.imag], 1), x[:, 2:]], axis=1)

        return f

    for n in (-4, -1, 1, 2, 6):
        assert degree(power(n), Region([-2, -2], [2.5, 1.5])) == n
        assert degree(power(n), Region([-2, -2, -1], [2.5, 1.5, 3])) == n
        assert degree(power(n), Region([0.1, 0.1], [2, 2])) == 0
    assert degree(lambda x: -x, Region([-1], [2])) == -1
    assert degree(lambda x: x - 2, Region([-1], [2])) is None
    assert degree(lambda x: x + 1, Region([-1] * 2, [1] * 2)) is None


def test_zeros_out_of_reach_of_the_seeds_are_found_by_the_index(monkeypatch):
    """Away from its zero this field falls off as 1/r, so that Newton's method flees; one seed cannot do."""
    zero = np.array([0.7131, -0.4127])

    def f(x):
        return (x - zero) / (1e-4 + ((x - zero) ** 2).sum(1, keepdims=True))

    one = "fim_dynsys.analyze.equilibria.search.starting_points"
    monkeypatch.setattr(one, lambda meter, region, n_seeds, seed: region.sobol(1))
    monkeypatch.setattr("fim_dynsys.analyze.equilibria.search._SEED_ROUNDS", 0)
    missed = found(f, [(-2, 2)] * 2)
    assert (len(missed), missed.index_check) == (0, IndexCheck.MISMATCH)
    assert (missed.balance.boundary, missed.balance.found) == (1, 0)
    monkeypatch.setattr("fim_dynsys.analyze.equilibria.search._SEED_ROUNDS", 1)
    result = found(f, [(-2, 2)] * 2)
    np.testing.assert_allclose(result.x, [zero], atol=1e-9)
    assert result.index_check is IndexCheck.BALANCED


def test_budget_is_kept_and_said_to_be_exhausted():
    evaluated = []

    def f(x):
        evaluated.append(len(x))
        return np.sin(20 * x)

    field = CallableField(
        f, 2, jac=lambda x: (evaluated.append(len(x)), 20 * np.cos(20 * x)[:, :, None] * np.eye(2))[1]
    )
    result = fixed_points(field, [(-3, 3)] * 2, budget=3000)
    assert result.effort.points <= 3000
    # besides the search: the region's scales, and Jacobians of what is reported
    assert sum(evaluated) <= result.effort.points + 64 + 2 * len(result)
    assert result.effort.exhausted
    assert "exhausted" in str(result)


# ---------------------------------------------------------------------- data, spread, display


def data():
    t = np.linspace(0, 6, 120)
    return Trajectories.from_arrays(
        np.stack([np.exp(-t), 0.5 * np.exp(-2 * t)], 1), t, state_names=["u", "v"]
    )


def bistable(x):
    return np.stack([x[:, 0] * (x[:, 0] - 1) * (x[:, 0] + 1), -2 * x[:, 1]], 1)


def test_support_is_told_and_supported_points_come_first():
    field = CallableField(bistable, 2, context=data())
    default = fixed_points(field)
    assert default.region.low[0] > -0.2
    wide = fixed_points(field, {"v": (-1, 1), "u": (-2, 2)})
    np.testing.assert_allclose(wide.x, [[0, 0], [-1, 0], [1, 0]], atol=1e-10)
    np.testing.assert_allclose(wide.support, field.support(wide.x), rtol=1e-12)
    assert wide.support[0] > 0.5 > wide.support[1]
    assert "2 of all unsupported by data" in str(wide)
    assert len(str(wide).splitlines()) == 1 + 1 + 3 + 3


def test_dataset_and_table(tmp_path):
    result = fixed_points(systems.get("lorenz").field())
    result.to_xarray().to_netcdf(tmp_path / "points.nc", engine="h5netcdf")
    read = xr.load_dataset(tmp_path / "points.nc", engine="h5netcdf")
    np.testing.assert_array_equal(read.eigenvalue.sel(part="imag"), result.eigenvalues.imag)
    assert read.kind.values.tolist() == [kind.value for kind in result.kind]
    assert read.index_check.item() == "balanced"
    assert read.x.dims == ("fixed_point", "state")
    assert "saddle-focus" in result._repr_html_()


def turning_posterior(deviation, damping=0.3, seed=0):
    """A focus at the origin with quadratic terms, whose coefficients are known up to correlated errors."""
    terms = Dictionary.polynomial(2, 2)
    coefficients = np.zeros((6, 2))
    coefficients[1:3] = np.array([[-damping, 1.0], [-2.0, -damping]]).T
    coefficients[3] = [0.4, 0.0]
    roots = deviation * np.random.default_rng(seed).normal(size=(2, 6, 6)) / np.sqrt(6)
    return PosteriorField(terms, coefficients, roots, region=Region([-1.5, -1.5], [1.5, 1.5]))


def test_errors_are_those_of_drawn_fields_each_searched_by_itself():
    field = turning_posterior(0.02)
    box = Region([-0.5, -0.5], [0.5, 0.5])
    found = fixed_points(field, box)
    alone = [fixed_points(member, box, n_draws=0) for member in field.draws(64)]
    assert [len(one) for one in alone] == [1] * 64 and len(found) == 1
    x, values = np.array([one.x[0] for one in alone]), np.array([one.eigenvalues[0] for one in alone])
    np.testing.assert_allclose(found.position_errors[0], x.std(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found.eigenvalue_errors[0].real, values.real.std(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found.eigenvalue_errors[0].imag, values.imag.std(axis=0), rtol=1e-6)
    assert found.existence[0] == pytest.approx(1.0) and found.kind_shares[0] == {Kind.STABLE_FOCUS: 1.0}


def test_error_of_an_eigenvalue_is_that_of_its_coefficient():
    """f = -a x with a known to 0.01: the eigenvalue is known to that, and the zero exactly."""
    roots = np.zeros((1, 2, 2))
    roots[0, 1, 1] = 0.01
    field = PosteriorField(Dictionary.polynomial(1, 1), [[0.0], [-1.0]], roots)
    found = fixed_points(field, [(-1, 1)], n_draws=4000)
    assert found.eigenvalue_errors.real.item() == pytest.approx(0.01, rel=0.05)
    assert found.position_errors.item() < 1e-12


def test_draws_that_disagree_leave_the_kind_open():
    field = turning_posterior(0.05, damping=0.01)
    unsure = fixed_points(field, [(-0.5, 0.5)] * 2)
    assert list(unsure.kind) == [Kind.INDETERMINATE]
    assert set(unsure.kind_shares[0]) == {Kind.STABLE_FOCUS, Kind.UNSTABLE_FOCUS}
    assert sum(unsure.kind_shares[0].values()) == pytest.approx(1.0)
    assert "±" in str(unsure) and "indeterminate (" in str(unsure)
    data = unsure.to_xarray()
    assert data.eigenvalue_error.shape == (1, 2, 2) and data.x_error.shape == (1, 2)
    assert data.kind_probability.sum().item() == pytest.approx(1.0)
    table = unsure.to_dataframe().iloc[0]
    np.testing.assert_allclose(table[["x0", "x1"]].astype(float), unsure.x[0], atol=1e-12)
    np.testing.assert_allclose(table[["x0 error", "x1 error"]].astype(float), unsure.position_errors[0])
    assert table["eigenvalues 0"] == unsure.eigenvalues[0, 0]
    assert table["eigenvalues error 1"] == unsure.eigenvalue_errors[0, 1]
    assert list(fixed_points(field, [(-0.5, 0.5)] * 2, n_draws=0).kind) == [Kind.STABLE_FOCUS]


def test_a_pair_that_some_draws_lack_exists_in_part_of_them():
    """mu + x^2 with mu = -0.01 +- 0.01 has two zeros in 84 % of the draws and none in the others."""
    roots = np.zeros((1, 3, 3))
    roots[0, 0, 0] = 0.01
    field = PosteriorField(Dictionary.polynomial(1, 2), [[-0.01], [0.0], [1.0]], roots)
    found = fixed_points(field, [(-1, 1)], n_draws=1000)
    assert len(found) == 2
    np.testing.assert_allclose(found.existence, 0.84, atol=0.04)
    assert [shares for shares in found.kind_shares] == [{Kind.STABLE_NODE: 1.0}, {Kind.UNSTABLE_NODE: 1.0}]


def test_fields_without_a_posterior_state_no_error():
    found = fixed_points(CallableField(lambda x: -x, 1), [(-1, 1)])
    assert found.draws is None and found.eigenvalue_errors is None and found.position_errors is None
    assert "±" not in str(found) and "x_error" not in found.to_xarray()
    assert not [column for column in found.to_dataframe() if "error" in column]
    assert "No standard errors" not in str(found)  # the field was written down
    t = np.linspace(0, 3, 40)
    model = load("sindy").fit(np.exp(-t), t)
    assert "No standard errors: the field has no posterior of its own" in str(fixed_points(model))
    assert "No standard errors" not in str(fixed_points(model, n_draws=0))
    assert "±" in str(fixed_points(model, n_draws=model.ensemble(8)))


def test_draws_of_other_models_serve_too_and_units_do_not_matter():
    inner = turning_posterior(0.02)
    plain = CallableField(inner, 2)
    box = Region([-0.5, -0.5], [0.5, 0.5])
    given, own = fixed_points(plain, box, n_draws=inner.draws(64)), fixed_points(inner, box)
    np.testing.assert_allclose(given.eigenvalue_errors, own.eigenvalue_errors, rtol=1e-6)
    outer = AffineField(inner, scale=[1e6, 1e-9], shift=[3e6, 0.0], time_unit=1e4)
    found = fixed_points(outer, Region([2.5e6, -0.5e-9], [3.5e6, 0.5e-9]))
    np.testing.assert_allclose(found.position_errors, own.position_errors * [1e6, 1e-9], rtol=1e-6)
    np.testing.assert_allclose(found.eigenvalue_errors, own.eigenvalue_errors / 1e4, rtol=1e-6)
    with pytest.raises(ValueError, match="expected draws of dimension 2, got 1"):
        fixed_points(inner, box, n_draws=EnsembleField([CallableField(lambda x: -x, 1)]))


def test_misuse_is_refused_by_name():
    field = CallableField(lambda x: -x, 1)
    for options, text in (
        ({"budget": 0}, "budget as a whole number of at least 1, got 0"),
        ({"n_seeds": 0}, "n_seeds as a whole number of at least 1"),
        ({"slow": -1.0}, "slow as a finite number of at least 0"),
    ):
        with pytest.raises(ValueError, match=f"^fixed_points: expected {text}"):
            fixed_points(field, [(-1, 1)], **options)
    with pytest.raises(ValueError, match=r"^fixed_points: expected a region"):
        fixed_points(field)
    with pytest.raises(ValueError, match=r"dimension 1, 2 or 3, got 4"):
        degree(lambda x: x, Region([-1] * 4, [1] * 4))


def uncoupled_cubics(dim):
    return CallableField(lambda x: x - x**3, dim, lambda x: np.eye(dim) * (1 - 3 * x**2)[:, :, None])


def test_in_many_dimensions_zeros_are_sought_until_each_was_met():
    found = fixed_points(uncoupled_cubics(5), [(-1.6, 1.6)] * 5)
    assert len(found) >= 0.99 * 3**5 and found.missed < 0.5
    signs = np.prod(np.sign(found.eigenvalues.real), axis=1)
    assert (found.index == signs).all()


def test_what_a_budget_leaves_out_is_estimated():
    found = fixed_points(uncoupled_cubics(6), [(-1.6, 1.6)] * 6, n_seeds=300, budget=12_000)
    missing = 3**6 - len(found)
    assert missing > 100 and 0.5 * missing < found.missed < 2 * missing
    assert "more by how often" in str(found)


@pytest.mark.parametrize("size", [1.5, 5.0, 20.0])
@pytest.mark.parametrize("dim", [3, 6])
def test_absent_species_stay_absent_in_wide_boxes(dim, size):
    """Competitors, each subset of which has one equilibrium; at 5.0, 28 of 64 were found."""
    rng = np.random.default_rng(0)
    a = np.eye(dim) + 0.15 * rng.random((dim, dim)) * (1.0 - np.eye(dim))
    result = found(lambda x: x * (1.0 - x @ a.T), [(0.0, size)] * dim)
    present = result.x > 1e-9
    assert len({tuple(row) for row in present}) == len(result.x) == 2**dim
    np.testing.assert_allclose((1.0 - result.x @ a.T)[present], 0.0, atol=1e-9)


def test_many_zeros_on_the_line_and_in_the_plane():
    """In the plane 258 of 400 were found, with balanced indices; the last is not smooth at its edge."""
    assert len(found(lambda x: np.sin(20.0 * x), [(-0.1, 3.0)] * 2).x) == 20**2
    assert len(found(lambda x: np.sin(1.0 / x), [(0.01, 1.0)]).x) == 31  # at 1 / (k pi), k to 31


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_no_index_contradicts_its_kind(dim):
    """Where linear terms decide, the index is the sign of the product of the eigenvalues."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        linear, bent = rng.normal(size=(2, dim, dim))
        # The first coordinate is slow: rates of 1e-9 beside rates of order one are still told apart.
        weights = np.array([1e-9, *np.ones(dim - 1)])

        def rates(x, linear=linear, bent=bent, weights=weights):
            return (x @ linear.T + 0.3 * np.sin(x @ bent.T) - 0.5 * x**3) * weights

        found = fixed_points(CallableField(rates, dim), [(-3, 3)] * dim)
        for kind, index, values in zip(found.kind, found.index, found.eigenvalues, strict=True):
            if kind.stable is not None and kind is not Kind.DEGENERATE and np.abs(values.real).min() > 0:
                assert index == np.sign(np.prod(values).real), (kind, index, values)
        assert str(found)


def test_a_rest_state_beside_which_one_rate_is_far_faster_is_found():
    """Robertson: |f| is that of the fast step, and lowering it leads along a valley."""
    inflow = 1e-6
    rates = {
        "a": f"-0.04*a + 1e4*b*c + {inflow}*(1 - a)",
        "b": f"0.04*a - 1e4*b*c - 3e7*b**2 - {inflow}*b",
        "c": f"3e7*b**2 - {inflow}*c",
    }
    result = fixed_points(SymbolicField(rates), Region([0, 0, 0], [1, 1, 1]))

    def left(b):  # b with c from its own balance and a from the sum, which is 1
        c = 3e7 * b**2 / inflow
        return 0.04 * (1 - b - c) - 1e4 * b * c - 3e7 * b**2 - inflow * b

    b = brentq(left, 1e-9, 1e-6, xtol=1e-22)
    assert result.kind.tolist() == ["stable node"]
    np.testing.assert_allclose(result.x[0, 1:], [b, 3e7 * b**2 / inflow], rtol=1e-6)
    assert "within Region" in str(result)  # the index check left the edge out
