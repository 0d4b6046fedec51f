"""Fields: derivatives against exact ones, support and scales on data where they are known."""

import copy
import pickle

import joblib
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from fim_dynsys.analyze.equilibria.points import fixed_points
from fim_dynsys.distillation import distill
from fim_dynsys.fields.affine import AffineField
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.family import FieldFamily
from fim_dynsys.fields.frame import FitInfo, Scales
from fim_dynsys.fields.posterior import PosteriorField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regions import Region
from fim_dynsys.testing import check_field
from fim_dynsys.trajectories.container import Trajectories


def cubic(x):
    """A two-dimensional field with non-zero second and third derivatives."""
    a, b = x.T
    return np.column_stack([b - a**3 / 3, np.sin(a) * b])


def cubic_jacobian(x):
    a, b = x.T
    columns = [-(a**2), np.ones_like(a), np.cos(a) * b, np.sin(a)]
    return np.stack(columns, axis=1).reshape(-1, 2, 2)


def second(x, v, w):
    """Exact D^2 of the cubic field."""
    a, b = x.T
    mixed = v[:, 0] * w[:, 1] + v[:, 1] * w[:, 0]
    return np.column_stack(
        [-2 * a * v[:, 0] * w[:, 0], -np.sin(a) * b * v[:, 0] * w[:, 0] + np.cos(a) * mixed]
    )


def third(x, u, v, w):
    """Exact D^3 of the cubic field."""
    a, b = x.T
    all_first = u[:, 0] * v[:, 0] * w[:, 0]
    mixed = u[:, 1] * v[:, 0] * w[:, 0] + u[:, 0] * v[:, 1] * w[:, 0] + u[:, 0] * v[:, 0] * w[:, 1]
    return np.column_stack([-2 * all_first, -np.cos(a) * b * all_first - np.sin(a) * mixed])


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def points(rng):
    return rng.normal(size=(20, 2))


@pytest.fixture
def circle():
    """Two noise-free turns of the unit circle, 80 samples each."""
    t = np.linspace(0, 2 * np.pi, 80)
    return Trajectories.from_arrays([np.column_stack([np.cos(t), np.sin(t)]) for _ in range(2)], t)


def oscillator(x):
    return np.column_stack([-x[:, 1], x[:, 0]])


# ---------------------------------------------------------------- evaluation


def test_points_may_have_any_leading_shape(points):
    field = CallableField(cubic, 2, cubic_jacobian)
    expected = cubic(points)
    assert np.array_equal(field(points), expected)
    assert np.array_equal(field(points.reshape(4, 5, 2)), expected.reshape(4, 5, 2))
    assert np.array_equal(field(points[3]), expected[3])
    assert np.array_equal(field(points[3].tolist()), expected[3])
    assert field(np.ones(2, dtype=np.float32)).dtype == np.float64
    assert field(np.ones((0, 2))).shape == (0, 2)
    assert np.array_equal(field.jacobian(points.reshape(2, 10, 2))[1, 0], cubic_jacobian(points[10:11])[0])


def test_contract_of_all_kinds(circle):
    base = CallableField(oscillator, 2, context=circle)
    check_field(base)
    check_field(CallableField(cubic, 2, cubic_jacobian))
    check_field(AffineField(base, [2.0, -0.5], [1.0, 3.0], 10.0))
    check_field(EnsembleField([base, CallableField(cubic, 2)]).mean_field())


def test_scipy_signature_in_both_orientations(points):
    field = CallableField(oscillator, 2)
    assert np.array_equal(field.ivp(0.0, points[0]), field(points[0]))
    assert np.array_equal(field.ivp(0.0, points.T), field(points).T)
    solution = solve_ivp(field.ivp, (0, 1), [1.0, 0.0], rtol=1e-10, atol=1e-10, vectorized=True)
    assert solution.y[:, -1] == pytest.approx([np.cos(1), np.sin(1)], abs=1e-8)


NAMED = "field of the states x0, x1: expected points"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda f: f(np.zeros((4, 3))), [NAMED, "(..., 2)", "(4, 3)"]),
        (lambda f: f(1.0), [NAMED, "(..., 2)", "()"]),
        (lambda f: f(np.zeros((4, 2), dtype=complex)), [NAMED, "real numbers", "complex128"]),
        (lambda f: f(np.array(["a", "b"])), [NAMED, "real numbers", "<U1"]),
        (lambda f: f.jacobian(np.zeros(3)), [NAMED, "(..., 2)", "(3,)"]),
        (lambda f: f.support(np.zeros(3)), [NAMED, "(..., 2)", "(3,)"]),
        (lambda f: f.directional(np.zeros(2)), ["CallableField", "at least one direction"]),
        (lambda f: f.directional(np.zeros(2), np.zeros(3)), ["CallableField", "broadcast to (2,)", "(3,)"]),
    ],
)
def test_bad_points_are_named(call, words):
    with pytest.raises(ValueError) as error:
        call(CallableField(oscillator, 2))
    assert all(word in str(error.value) for word in words), str(error.value)


def test_bad_parts_are_named(circle):
    for kwargs, part in [
        ({"context": circle}, "context"),
        ({"region": Region([0.0], [1.0])}, "region"),
        ({"state_names": ["a"]}, "state_names"),
        ({"scales": Scales(np.ones(1), np.ones(1), 1.0)}, "scales"),
    ]:
        with pytest.raises(ValueError, match=f"CallableField: expected {part} of dimension 3, got "):
            CallableField(oscillator, 3, **kwargs)
    with pytest.raises(ValueError, match="dim >= 1, got 0"):
        CallableField(oscillator, 0)
    with pytest.raises(TypeError, match="functions fn and jac, got 3"):
        CallableField(3, 2)


@pytest.mark.parametrize(
    "fn", [lambda x: np.array([x[1], -x[0]]), lambda x: [x[1], -x[0]], lambda x: (lambda a, b: [b, -a])(*x)]
)
def test_a_function_of_one_point_is_explained(fn):
    for n in (1, 2, 3, 7):
        with pytest.raises((ValueError, TypeError), match=r"fn to return shape|missing|takes"):
            CallableField(fn, 2)(np.ones((n, 2)))
    with pytest.raises(ValueError, match=r"write x\[:, 0\] for a coordinate of all points"):
        CallableField(lambda x: np.array([x[1], -x[0]]), 2)(np.ones((2, 2)))


def test_a_function_of_time_and_state_is_explained():
    def pendulum(t, x):
        return [x[1], -np.sin(x[0])]

    with pytest.raises(TypeError, match=r"expected a function of \(x\), got one of \(t, x\); for f\(t, x\)"):
        CallableField(pendulum, 2)
    with pytest.raises(TypeError, match=r"from_callable: expected a function of \(x, p\), got one of \(x\)"):
        FieldFamily.from_callable(lambda x: x, 1)
    x = np.array([[0.1, 0.2], [0.3, -0.4]])
    field = CallableField(lambda x: np.stack([pendulum(0.0, row) for row in x]), 2)
    np.testing.assert_array_equal(field(x), np.stack([x[:, 1], -np.sin(x[:, 0])], axis=1))


def test_a_region_of_other_states_is_refused():
    names = ["prey", "predator"]
    box = Region({"predator": (0, 1), "prey": (2, 3)})
    field = CallableField(oscillator, 2, state_names=names, region=box)
    assert field.region == Region({"prey": (2, 3), "predator": (0, 1)})
    for make in (
        lambda region: CallableField(oscillator, 2, state_names=names, region=region),
        lambda region: distill(field, region),
        lambda region: fixed_points(field, region),
    ):
        with pytest.raises(ValueError, match="region of the states prey, predator, got one of wolf"):
            make(Region({"prey": (0, 1), "wolf": (0, 1)}))


def test_a_function_of_another_shape_is_named():
    with pytest.raises(ValueError, match=r"fn to return shape \(5, 2\), got \(5,\)"):
        CallableField(lambda x: x[:, 0], 2)(np.ones((5, 2)))
    with pytest.raises(ValueError, match=r"jac to return shape \(5, 2, 2\), got \(5, 2\)"):
        CallableField(oscillator, 2, lambda x: x).jacobian(np.ones((5, 2)))


# ---------------------------------------------------------------- derivatives


def test_difference_jacobian_is_accurate_and_scales_its_steps(points):
    field = CallableField(cubic, 2)
    assert field.jacobian(points) == pytest.approx(cubic_jacobian(points), abs=2e-11)
    tiny = 1e-8
    small = CallableField(lambda x: cubic(x / tiny), 2, region=Region([-tiny, -tiny], [tiny, tiny]))
    assert small.jacobian(points * tiny) * tiny == pytest.approx(cubic_jacobian(points), abs=2e-11)


@pytest.mark.parametrize(
    ("jac", "tolerance"), [(cubic_jacobian, (1e-14, 1e-11, 1e-9)), (None, (2e-11, 2e-9, 1e-6))]
)
def test_directional_derivatives(points, rng, jac, tolerance):
    field = CallableField(cubic, 2, jac)
    u, v, w = rng.normal(size=(3, *points.shape))
    along = np.einsum("nij,nj->ni", cubic_jacobian(points), u)
    assert field.directional(points, u) == pytest.approx(along, abs=tolerance[0])
    assert field.directional(points, u, v) == pytest.approx(second(points, u, v), abs=tolerance[1])
    assert field.directional(points, u, v, w) == pytest.approx(third(points, u, v, w), abs=tolerance[2])


def test_directional_derivatives_are_multilinear_in_complex_directions(points, rng):
    field = CallableField(cubic, 2, cubic_jacobian)
    u, v, w = rng.normal(size=(3, *points.shape))
    q = u + 1j * v
    expected = second(points, u, w) + 1j * second(points, v, w)
    assert field.directional(points, q, w) == pytest.approx(expected, abs=1e-10)
    norm = second(points, u, u) + second(points, v, v)
    assert field.directional(points, q, q.conj()) == pytest.approx(norm + 0j, abs=1e-10)
    assert np.array_equal(field.directional(points, 0 * u, w), np.zeros_like(u))


def test_complex_directions_take_one_evaluation(points):
    calls = []

    def counted(x):
        calls.append(len(x))
        return cubic_jacobian(x)

    q = np.array([1.0 + 2.0j, 0.5 - 1.0j])
    found = CallableField(cubic, 2, counted).directional(points, q, q, q.conj())
    a, b = np.broadcast_to(q.real, points.shape), np.broadcast_to(q.imag, points.shape)
    expected = third(points, a, a, a) + third(points, a, b, b) + 1j * third(points, a, a, b)
    assert found == pytest.approx(expected + 1j * third(points, b, b, b), abs=1e-7)
    assert len(calls) == 1


def test_one_direction_serves_all_points(points):
    field = CallableField(cubic, 2, cubic_jacobian)
    assert field.directional(points, [1.0, 0.0]) == pytest.approx(cubic_jacobian(points)[:, :, 0], abs=1e-14)


# ---------------------------------------------------------------- support


def test_support_on_a_straight_line_is_exact():
    """Whitening and spacing cancel in one dimension: one spacing beyond the end is the limit of 1."""
    t = np.arange(21.0)
    field = CallableField(lambda x: 0 * x + 3, 1, context=Trajectories.from_arrays(3 * t + 5, t))
    beyond = 65.0 + 3 * np.array([0.0, 0.99, 1.0, 2.0, 4.5])
    assert field.support(beyond[:, None]) == pytest.approx([1, 1, 1, np.exp(-1), np.exp(-3.5)], rel=1e-6)
    assert field.support([6.4]) == 1.0
    assert np.isnan(field.support([np.nan]))


def test_support_is_high_near_the_data_and_low_elsewhere(circle):
    field = CallableField(oscillator, 2, context=circle)
    angle = np.linspace(0, 6, 50)
    on = np.column_stack([np.cos(angle), np.sin(angle)])
    assert field.support(on).min() > 0.99
    # the spacing is 2 pi / 79 = 0.08 of the radius
    assert field.support(1.08 * on).min() > 0.5
    assert field.support(1.5 * on).max() < 0.01
    assert field.support(np.zeros((3, 4, 2))).shape == (3, 4)


def test_a_posterior_supports_what_it_determines_inside_the_data(circle):
    frame = CallableField(oscillator, 2, context=circle)
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.2], [1.6, 0.0], [30.0, 0.0], [np.nan, 0.0]])

    def field(sd):
        roots = np.zeros((2, 3, 3))
        roots[:, 0, 0] = sd * frame.scales.speed
        return PosteriorField(
            Dictionary.polynomial(2, 1), [[0, 0], [0, -1], [1, 0]], roots, context=circle
        ).support(points)

    near = frame.support(points)
    assert near[0] < 0.1
    assert np.array_equal(field(100.0), near, equal_nan=True)
    known = field(0.05)
    assert (known[:3] == 1.0).all() and (known[3:5] < 0.5).all() and np.isnan(known[5])
    assert field(0.1 * (1 + np.log(2)))[0] == pytest.approx(max(0.5, near[0]), rel=1e-6)


def test_support_does_not_depend_on_units(circle, rng):
    factor, shift = np.array([1e4, 1e-3]), np.array([5.0, -2.0])
    moved = circle.with_x([x * factor + shift for _, x in circle.arrays()])
    near = rng.normal(size=(100, 2))
    original = CallableField(oscillator, 2, context=circle).support(near)
    assert CallableField(oscillator, 2, context=moved).support(near * factor + shift) == pytest.approx(
        original
    )


def test_smoothing_recovers_the_path_behind_noisy_observations(rng):
    t = np.linspace(0, 2 * np.pi, 200)
    clean = np.column_stack([np.cos(t), np.sin(t)])
    noisy = Trajectories.from_arrays(clean + 0.05 * rng.normal(size=clean.shape), t)
    field = CallableField(oscillator, 2, context=noisy)
    paths, rates, span = field.frame.smoothed
    assert np.sqrt(np.mean((paths[0] - clean) ** 2)) < 0.4 * 0.05
    assert np.sqrt(np.mean((rates - oscillator(clean)) ** 2)) < 0.15
    assert span == pytest.approx(2 * np.pi)


def test_smoothing_leaves_clean_paths_alone(circle):
    paths, rates, _ = CallableField(oscillator, 2, context=circle).frame.smoothed
    for path, (_, x) in zip(paths, circle.arrays(), strict=True):
        # a quadratic through the first five samples is off by about h^3 / 4 next to the ends
        assert path == pytest.approx(x, abs=2e-4)
    assert rates == pytest.approx(oscillator(np.concatenate(paths)), abs=0.01)


def test_missing_coordinates_still_give_support(circle, rng):
    x = np.array(circle.x)
    x[rng.random(x.shape) < 0.4] = np.nan
    field = CallableField(oscillator, 2, context=circle.with_x(x))
    angle = np.linspace(1, 5, 40)
    assert field.support(np.column_stack([np.cos(angle), np.sin(angle)])).min() > 0.5
    assert field.support([0.0, 0.0]) < 0.1


@pytest.mark.parametrize(
    "context",
    [
        Trajectories.from_arrays(np.zeros((6, 2)), np.arange(6.0)),
        Trajectories.from_arrays(np.array([[1.0, 2.0]]), [0.0]),
        Trajectories.from_arrays([np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]])], [[0.0], [0.0]]),
        Trajectories.from_arrays(np.column_stack([np.arange(9.0), np.full(9, 4.0)]), np.arange(9.0)),
        Trajectories.from_arrays(np.array([[np.nan, 1.0], [2.0, np.nan], [np.nan, 3.0]]), [0.0, 1.0, 2.0]),
        Trajectories.from_arrays(np.arange(12.0).reshape(6, 2), [0, 1e-9, 2e-9, 3e-9, 1.0, 1.0 + 1e-9]),
    ],
    ids=["at rest", "one point", "two points", "one state at rest", "never seen whole", "clustered times"],
)
def test_poor_contexts_have_positive_scales_and_a_support(context):
    field = CallableField(oscillator, 2, context=context)
    for scale in (field.scales.length, field.scales.speed, field.scales.time):
        assert np.all(np.isfinite(scale)) and np.all(np.asarray(scale) > 0)
    low, far = field.support([np.nanmean(context.x, axis=(0, 1)), [1e6, -1e6]])
    assert 0 < low <= 1
    assert far < 1e-6


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_scales_of_states_whose_squares_are_no_numbers(circle, size):
    own = CallableField(oscillator, 2, context=circle).scales.length
    moved = CallableField(oscillator, 2, context=circle.with_x([size * x for _, x in circle.arrays()]))
    assert moved.scales.length == pytest.approx(size * own, rel=1e-12)


@pytest.mark.filterwarnings("error")
def test_what_overflows_is_infinite_and_no_warning(circle):
    cubic = PosteriorField(
        Dictionary.polynomial(2, 3), np.ones((10, 2)), np.ones((2, 10, 10)), context=circle
    )
    for field in (cubic, AffineField(cubic, [2.0, 3.0]), CallableField(lambda x: x**3, 2, context=circle)):
        far = np.full((2, 2), [[np.nan], [1e300]])
        assert np.isnan(field(far)[0]).all() and np.isinf(field(far)[1]).all()
        assert not np.isfinite(field.jacobian(far)).any()
        assert not np.isfinite(field.directional(far, far)).any()
        assert field.scale(far) is None or not np.isfinite(field.scale(far)).any()
        assert field.support(far)[1] == 0.0


def test_without_data_everything_is_supported(points):
    assert np.array_equal(CallableField(oscillator, 2).support(points), np.ones(20))


# ---------------------------------------------------------------- scales and descriptions


def test_scales_of_uniform_motion():
    t = np.linspace(0, 4, 41)
    context = Trajectories.from_arrays(np.column_stack([2 * t, -10 * t, 0 * t]), t)
    scales = CallableField(lambda x: x, 3, context=context).scales
    sd = np.std(t)
    assert scales.length == pytest.approx([2 * sd, 10 * sd, np.mean([2 * sd, 10 * sd])])
    assert scales.speed[:2] == pytest.approx([2, 10])
    # rms of (1 / sd, 1 / sd, 0)
    assert scales.time == pytest.approx(sd * np.sqrt(3 / 2))


def test_scales_follow_units(circle):
    one = CallableField(oscillator, 2, context=circle).scales
    factor = np.array([1e3, 1e-5])
    arrays = circle.arrays()
    moved = Trajectories.from_arrays([x * factor for _, x in arrays], [60 * t for t, _ in arrays])
    other = CallableField(oscillator, 2, context=moved).scales
    assert other.length == pytest.approx(one.length * factor)
    assert other.speed == pytest.approx(one.speed * factor / 60)
    assert other.time == pytest.approx(one.time * 60)


def test_scales_without_data_come_from_the_region():
    field = CallableField(lambda x: -2 * x, 2, region=Region([-3.0, 0.0], [3.0, 1.0]))
    assert field.scales.length == pytest.approx(np.array([6.0, 1.0]) / np.sqrt(12))
    assert field.scales.speed == pytest.approx([2 * np.sqrt(3), 2 / np.sqrt(3)], rel=0.05)
    bare = CallableField(lambda x: -2 * x, 2)
    assert bare.frame.length is None
    assert bare.scales.length.tolist() == [1, 1]


def test_description_comes_from_the_context_unless_given(circle):
    field = CallableField(oscillator, 2, context=circle)
    assert field.state_names == circle.state_names
    assert field.region.low == pytest.approx(circle.box().low)
    assert field.fit_info == FitInfo()
    given = Region([-9.0, -9.0], [9.0, 9.0])
    other = CallableField(oscillator, 2, context=circle, region=given, state_names=["a", "b"])
    assert other.region is given
    assert other.state_names == ("a", "b")


class UnreadContext:
    """Stands for a context nobody may read while a field is built."""

    dim = 2

    def __getattr__(self, name):
        raise AssertionError(f"read {name}")


def test_building_a_field_reads_nothing_of_the_context():
    CallableField(oscillator, 2, context=UnreadContext())


def test_a_field_cannot_be_changed_from_outside(circle):
    field = CallableField(oscillator, 2, context=circle)
    for name in ("dim", "context", "state_names", "region", "scales", "fit_info"):
        with pytest.raises(AttributeError):
            setattr(field, name, None)
    with pytest.raises(ValueError, match="read-only"):
        field.scales.length[0] = 5.0


def test_attributes_that_are_gone_work_and_say_so(circle):
    field = CallableField(oscillator, 2, context=circle)
    with pytest.warns(DeprecationWarning, match="length_scale is called frame.length"):
        assert field.length_scale is field.frame.length
    with pytest.warns(DeprecationWarning, match=r"n_trajectories is called len\(trajectories\)"):
        assert circle.n_trajectories == len(circle)


def test_copies_and_pickles_give_the_same_numbers(circle, points):
    field = AffineField(CallableField(oscillator, 2, context=circle), 2.0, 1.0, 3.0)
    field.support(points)
    for other in (copy.copy(field), copy.deepcopy(field), pickle.loads(pickle.dumps(field))):
        assert np.array_equal(other(points), field(points))
        assert np.array_equal(other.support(points), field.support(points))


def test_a_field_round_a_lambda_travels_to_workers(points):
    slope = 4.0
    field = CallableField(lambda x: slope * x, 2)
    (found,) = joblib.Parallel(n_jobs=2, backend="loky")([joblib.delayed(field)(points)])
    assert np.array_equal(found, slope * points)
    joblib.externals.loky.get_reusable_executor().shutdown(wait=True)


# ---------------------------------------------------------------- affine fields


def affine(inner):
    return AffineField(inner, scale=[2.0, -0.5], shift=[1.0, 3.0], time_unit=10.0)


def test_affine_field_is_the_chain_rule(points, rng):
    factor, shift = np.array([2.0, -0.5]), np.array([1.0, 3.0])
    field = affine(CallableField(cubic, 2, cubic_jacobian))
    x = shift + factor * points
    assert field(x) == pytest.approx(factor * cubic(points) / 10, abs=1e-14)
    expected = factor[:, None] * cubic_jacobian(points) / factor / 10
    assert field.jacobian(x) == pytest.approx(expected, abs=1e-13)
    v, w = rng.normal(size=(2, *points.shape))
    curved = factor * second(points, v / factor, w / factor) / 10
    assert field.directional(x, v, w) == pytest.approx(curved, abs=1e-10)


def test_affine_field_carries_descriptions_over(circle, points):
    info = FitInfo(initial_states=np.ones((3, 2)), noise_level=np.array([0.1, 0.2]), report={"rank": 1})
    inner = CallableField(oscillator, 2, context=circle, fit_info=info)
    field = affine(inner)
    x = np.array([1.0, 3.0]) + np.array([2.0, -0.5]) * points
    assert field.support(x) == pytest.approx(inner.support(points))
    assert field.region.low == pytest.approx([1 + 2 * inner.region.low[0], 3 - 0.5 * inner.region.high[1]])
    assert field.scales.length == pytest.approx(inner.scales.length * [2, 0.5])
    assert field.frame.length == pytest.approx(inner.scales.length * [2, 0.5])
    assert field.scales.speed == pytest.approx(inner.scales.speed * [0.2, 0.05])
    assert field.scales.time == pytest.approx(inner.scales.time * 10)
    assert field.fit_info.initial_states[0] == pytest.approx([3.0, 2.5])
    assert field.fit_info.noise_level == pytest.approx([0.2, 0.1])
    assert field.fit_info.report == {"rank": 1}
    assert field.context.x == pytest.approx(np.array([1.0, 3.0]) + np.array([2.0, -0.5]) * circle.x)
    assert field.context.t == pytest.approx(10 * circle.t)


class UncertainField(CallableField):
    """A field that knows its spread."""

    def scale(self, x):
        """Twice the size of each coordinate."""
        return 2 * np.abs(np.asarray(x))


def test_affine_field_rescales_the_spread(points):
    x = np.array([1.0, 3.0]) + np.array([2.0, -0.5]) * points
    expected = 2 * np.abs(points) * [2.0, 0.5] / 10
    assert affine(UncertainField(oscillator, 2)).scale(x) == pytest.approx(expected)
    assert affine(CallableField(oscillator, 2)).scale(x) is None


@pytest.mark.parametrize(
    ("scale", "shift", "time_unit"),
    [([1.0, 0.0], 0, 1), (np.nan, 0, 1), (1.0, np.inf, 1), (1.0, 0, 0), (1.0, 0, -2)],
)
def test_affine_field_refuses_degenerate_changes(scale, shift, time_unit):
    with pytest.raises(ValueError, match=r"AffineField: expected a .*finite"):
        AffineField(CallableField(oscillator, 2), scale, shift, time_unit)


# ---------------------------------------------------------------- many fields


def test_stacked_fields_give_each_row_its_own_field(points):
    fields = [CallableField(lambda x, k=k: cubic(x) * (k + 1), 2) for k in range(3)]
    which = np.arange(len(points)) % 3
    expected = np.array([fields[k](x) for k, x in zip(which, points, strict=True)])
    assert np.array_equal(CallableField.stack(fields)(points, which), expected)
    assert np.array_equal(VectorField.stack(fields)(points, np.full(20, 2)), fields[2](points))
    changed = [AffineField(f, [2.0, -1.0 - k], k, k + 1.0) for k, f in enumerate(fields)]
    expected = np.array([changed[k](x) for k, x in zip(which, points, strict=True)])
    assert AffineField.stack(changed)(points, which) == pytest.approx(expected, abs=1e-14)
    mixed = [*changed, AffineField(changed[0], 3.0)]
    expected = np.array([mixed[k](x) for k, x in zip(which + 1, points, strict=True)])
    assert AffineField.stack(mixed)(points, which + 1) == pytest.approx(expected, abs=1e-14)


def test_ensemble_is_a_weighted_sequence(points):
    fields = [CallableField(lambda x, k=k: k * x, 2) for k in (1.0, 2.0, 4.0)]
    ensemble = EnsembleField(fields, [1, 1, 2])
    assert len(ensemble) == 3
    assert list(ensemble) == fields
    assert ensemble.weights.tolist() == [0.25, 0.25, 0.5]
    assert ensemble[-1] is fields[2]
    assert ensemble[1:].weights == pytest.approx([1 / 3, 2 / 3])
    mean = ensemble.mean_field()
    assert mean(points) == pytest.approx(2.75 * points)
    assert mean.jacobian(points[0]) == pytest.approx(2.75 * np.eye(2), abs=1e-10)
    assert not isinstance(ensemble, VectorField)


def test_bad_ensembles_are_named():
    two, three = CallableField(oscillator, 2), CallableField(oscillator, 3)
    with pytest.raises(ValueError, match="at least one field, got none"):
        EnsembleField([])
    with pytest.raises(ValueError, match=r"one dimension, got \[2, 3\]"):
        EnsembleField([two, three])
    for weights in ([1.0], [1.0, -1.0], [0.0, 0.0], [np.nan, 1.0]):
        with pytest.raises(ValueError, match="2 weights >= 0 with a positive sum"):
            EnsembleField([two, two], weights)
