"""Families of fields: derivatives, interpolation that is exact where it can be, refusal where it cannot."""

import numpy as np
import pytest

from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.family import FieldFamily
from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.symbolic import SymbolicField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regions import Region
from fim_dynsys.trajectories.container import Trajectories


def damped(x, p):
    """A field that is quadratic in p."""
    a, b = x.T
    return np.column_stack([b, p**2 * (1 - a**2) * b - np.sin(a)])


def damped_jacobian(x, p):
    a, b = x.T
    rows = [np.zeros_like(a), np.ones_like(a), -2 * p**2 * a * b - np.cos(a), p**2 * (1 - a**2)]
    return np.stack(rows, axis=1).reshape(-1, 2, 2)


def damped_dp(x, p):
    a, b = x.T
    return np.column_stack([np.zeros_like(a), 2 * p * (1 - a**2) * b])


def cubic_field(p, **kwargs):
    """x' = p + (1 + p^2) x - x^3, whose dictionaries differ between values of p: no constant at p = 0."""
    rows, values = ([1], [3]), [1 + p**2, -1.0]
    if p:
        rows, values = ([0], *rows), [p, *values]
    return DictionaryField(Dictionary(np.array(rows)), np.array(values)[:, None], **kwargs)


@pytest.fixture
def points():
    return np.random.default_rng(3).normal(size=(12, 2))


@pytest.mark.parametrize("exact", [True, False])
def test_callable_family_and_its_derivatives(points, exact):
    given = {"jac": damped_jacobian, "dp": damped_dp} if exact else {}
    family = FieldFamily.from_callable(damped, 2, "mu", state_names=["q", "v"], **given)
    tolerance = 1e-15 if exact else 1e-10  # central differences of fourth order
    for p in (-0.7, 1.3):
        assert np.array_equal(family(points, p), damped(points, p))
        assert np.abs(family.jacobian(points, p) - damped_jacobian(points, p)).max() <= tolerance
        assert np.abs(family.dp(points, p) - damped_dp(points, p)).max() <= tolerance
    assert family.at(1.3).state_names == ("q", "v")
    assert family.dp(points[0], 1.3).shape == (2,)
    assert family.smooth and family.support(points, 1.0).tolist() == [1.0] * 12


def test_steps_in_the_parameter_follow_its_scale(points):
    tiny = FieldFamily.from_callable(lambda x, p: damped(x, 1e6 * p), 2, "mu", parameter_scale=1e-6)
    error = tiny.dp(points, 0.7e-6) / 1e6 - damped_dp(points, 0.7)
    assert np.abs(error).max() < 1e-10


def test_spline_between_fields_is_exact_for_quadratics_in_p(points):
    values = [2.0, -1.0, 0.0, 0.5, 1.0]
    fields = [CallableField(lambda x, p=p: damped(x, p), 2) for p in values]
    family = FieldFamily.from_fields(values, fields, parameter="mu")
    assert family.smooth and family.parameter == "mu" and family.p.tolist() == sorted(values)
    for p in (-0.9, 0.3, 1.7):
        assert np.abs(family(points, p) - damped(points, p)).max() < 1e-13
        assert np.abs(family.jacobian(points, p) - damped_jacobian(points, p)).max() < 1e-10
        assert np.abs(family.dp(points, p) - damped_dp(points, p)).max() < 1e-12
        second = family.at(p).directional(points, points, points)
        true = FieldFamily.from_callable(damped, 2).at(p).directional(points, points, points)
        assert np.abs(second - true).max() < 1e-7


def test_dictionaries_stay_dictionaries():
    p = np.linspace(-1, 1, 5)
    family = FieldFamily.from_fields(p, [cubic_field(v) for v in p], parameter="mu")
    x = np.linspace(-2, 2, 9)[:, None]
    for value in (-0.8, 0.0, 0.37):
        field = family.at(value)
        assert isinstance(field, DictionaryField)
        assert np.abs(field(x) - (value + (1 + value**2) * x - x**3)).max() < 1e-13
        assert np.abs(family.dp(x, value) - (1 + 2 * value * x)).max() < 1e-13
        assert np.abs(field.directional(x, x, x) + 6 * x**3).max() < 1e-12


def test_two_fields_give_a_line():
    family = FieldFamily.from_fields([0.0, 2.0], [cubic_field(0.0), cubic_field(2.0)])
    assert family([1.0], 0.5) == pytest.approx(0.5 + (1 + 0.25 * 4) - 1)


# ---------------------------------------------------------------------- polynomials fitted to all fields


def observed(p, low, high):
    """A field of `cubic_field` with data between two states only."""
    t = np.linspace(0, 1, 40)
    return cubic_field(p, context=Trajectories.from_arrays(low + (high - low) * t, t))


def test_terms_that_are_not_defined_at_all_data_are_pooled_where_they_are():
    """A logarithm at some values of p, whose field saw positive states, and none at the others."""
    log = Dictionary([[0], [1], [0]], kind=[0, 0, Kind.LOG], inner=[1.0, 1.0, 2.0])
    values = np.arange(6.0)
    fields = [
        DictionaryField(log, [[p], [-1.0], [0.1]], region=Region([(-1.0, 1.0)]))
        if p < 3
        else DictionaryField(Dictionary.polynomial(1, 1), [[p], [-1.0]], region=Region([(-1.0, 1.0)]))
        for p in values
    ]
    family = FieldFamily.from_fields(values, fields, "polynomial")
    assert np.isfinite(family.curve.values).all()
    assert family.at(4.5)([[0.5]])[0, 0] == pytest.approx(4.0, abs=0.2)
    nowhere = [DictionaryField(log, [[p], [-1.0], [0.1]], region=Region([(-2.0, -1.0)])) for p in values]
    with pytest.raises(ValueError, match="defined at each other's data"):
        FieldFamily.from_fields(values, nowhere, "polynomial")


@pytest.mark.parametrize("closed_form", [True, False])
def test_polynomials_reproduce_polynomials_in_p(closed_form):
    """The fields are quadratic in p, and that degree is found whether or not they are dictionaries."""
    p = np.linspace(-1, 1, 7)
    fields = [observed(v, -2.0, 2.0) for v in p]
    if not closed_form:
        fields = [CallableField(f._rhs, 1, f._jac, context=f.context) for f in fields]
    family = FieldFamily.from_fields(p, fields, "polynomial", "mu")
    x = np.linspace(-2, 2, 9)[:, None]
    assert family.degree == 2 and family.smooth
    for value in (-0.85, 0.1, 0.77):
        assert np.abs(family(x, value) - (value + (1 + value**2) * x - x**3)).max() < 1e-5
        assert np.abs(family.jacobian(x, value)[:, :, 0] - (1 + value**2 - 3 * x**2)).max() < 1e-5
        assert np.abs(family.dp(x, value) - (1 + 2 * value * x)).max() < 1e-5
    assert isinstance(family.at(0.3), DictionaryField) == closed_form


def test_fields_count_where_their_own_data_lie():
    """Fields wrong at states that they never saw do no harm where others did see them."""
    p = np.linspace(-1, 1, 8)
    wrong = np.array([0.0, 3.0, 0.0, -3.0] * 2)  # times x (x + 2) (x + 1), zero at the left data
    fields = []
    for value, error in zip(p, wrong, strict=True):
        if error:
            dictionary = Dictionary(np.array([[0], [1], [2], [3]]))
            values = [value, 1 + value**2 + 2 * error, 3 * error, error - 1]
            context = Trajectories.from_arrays([-2.0, -1.0, 0.0], np.arange(3.0))  # too few to be smoothed
            fields.append(DictionaryField(dictionary, np.array(values)[:, None], context=context))
        else:
            fields.append(observed(value, -2.0, 2.0))
    family = FieldFamily.from_fields(p, fields, "polynomial")
    x = np.linspace(-2, 2, 9)[:, None]
    assert np.abs(family(x, 0.2) - (0.2 + 1.04 * x - x**3)).max() < 1e-3


def test_degree_does_not_follow_noise():
    """Slopes 2 p + noise: a line, whose slope is the least-squares one."""
    rng = np.random.default_rng(5)
    p = np.linspace(0, 1, 15)
    slopes = 2 * p + 0.1 * rng.normal(size=15)
    line = Dictionary(np.array([[1]]))
    t = np.linspace(-1, 1, 20)
    context = Trajectories.from_arrays(t, t)
    fields = [DictionaryField(line, np.array([[a]]), context=context) for a in slopes]
    family = FieldFamily.from_fields(p, fields, "polynomial")
    assert family.degree == 1
    assert family([1.0], 0.5)[0] == pytest.approx(np.polyval(np.polyfit(p, slopes, 1), 0.5), rel=1e-9)
    spread = np.std([member([1.0], 0.5)[0] for member in family.bootstrap(200, seed=1)])
    assert 0.8 < spread / (0.1 / np.sqrt(15)) < 2  # more than a line's: the degree is chosen each time
    again = [member([1.0], 0.5)[0] for member in family.bootstrap(3, seed=1)]
    assert again == [member([1.0], 0.5)[0] for member in family.bootstrap(3, seed=1)]


def test_bootstrap_needs_four_values():
    family = FieldFamily.from_fields([0, 1, 2], [observed(v, -2.0, 2.0) for v in (0, 1, 2)], "polynomial")
    with pytest.raises(ValueError, match="at least 4 values of p, got 3"):
        family.bootstrap(2)


# ---------------------------------------------------------------------- what goes with it


def test_without_interpolation_only_measured_values_exist(points):
    fields = [CallableField(lambda x, p=p: damped(x, p), 2) for p in (0.0, 1.0)]
    family = FieldFamily.from_fields([1.0, 0.0], fields[::-1], interpolate=None, parameter="mu")
    assert not family.smooth
    assert family.at(1.0) is fields[1]
    with pytest.raises(ValueError, match=r"measured value of mu, one of \[0.0, 1.0\], got 0.5"):
        family(points, 0.5)
    with pytest.raises(ValueError, match="expected a smooth family"):
        family.dp(points, 1.0)


def test_support_region_and_scales_come_from_the_neighbouring_data():
    t = np.linspace(0, 1, 30)
    data = [Trajectories.from_arrays(c + 0.1 * np.sin(6 * t)[:, None], t) for c in (0.0, 1.0, 2.0)]
    fields = [cubic_field(p, context=d) for p, d in zip((0.0, 1.0, 2.0), data, strict=True)]
    family = FieldFamily.from_fields([0.0, 1.0, 2.0], fields)
    assert family.region.low == pytest.approx(data[0].box().low)
    assert family.region.high == pytest.approx(data[2].box().high)
    assert family.scales.length == pytest.approx(data[0].x.std(), rel=1e-12)
    x = np.array([[0.0], [1.0], [2.0]])
    assert (family.support(x, 0.5) > 0.5).tolist() == [True, True, False]
    assert (family.support(x, 2.0) > 0.5).tolist() == [False, False, True]
    assert np.array_equal(family.at(0.5).support(x), family.support(x, 0.5))


def test_expressions_are_a_family_over_each_parameter(points):
    region = Region([-2, -2], [2, 2])
    field = SymbolicField(["x1", "p**2*(1 - x0**2)*x1 - k*sin(x0)"], {"p": 0.7, "k": 1.0}, region=region)
    family = field.family("p")
    assert (family.smooth, family.parameter, family.region) == (True, "p", region)
    for p in (0.3, 1.4):
        np.testing.assert_allclose(family(points, p), damped(points, p), rtol=1e-13)
        np.testing.assert_allclose(family.jacobian(points, p), damped_jacobian(points, p), rtol=1e-13)
        np.testing.assert_allclose(family.dp(points, p), damped_dp(points, p), rtol=1e-13)
        member = family.at(p)
        np.testing.assert_array_equal(member.scales.speed, field.scales.speed)
        alone = field.with_parameters(p=p)
        assert member.equations() == alone.equations()
        v = np.ones(2)
        np.testing.assert_allclose(
            member.directional(points, v, v, v), alone.directional(points, v, v, v), rtol=1e-12
        )
    with pytest.raises(ValueError, match=r"family: expected one of the parameters \['k', 'p'\]"):
        field.family("x0")
    plane = field.plane(["k", "p"])
    assert plane.parameters == ("k", "p")
    for k, p in ((0.0, 1.0), (0.7, -0.2)):
        member, alone = plane.at(k, p), field.with_parameters(k=k, p=p)
        np.testing.assert_allclose(member(points), alone(points), rtol=1e-13)
        np.testing.assert_allclose(member.jacobian(points), alone.jacobian(points), rtol=1e-13)
        assert member.equations() == alone.equations()
    with pytest.raises(ValueError, match=r"plane: expected one of the parameters \['k', 'p'\]"):
        field.plane(["k", "x0"])
    with pytest.raises(ValueError, match="two different names"):
        field.plane(["k"])
    with pytest.raises(ValueError, match=r"finite values of the parameters \['k', 'p'\], got .*'q'"):
        field.with_parameters(q=1.0)


def test_misuse_is_named():
    field = CallableField(lambda x: -x, 1, region=Region([0], [1]))
    make = FieldFamily.from_fields
    with pytest.raises(ValueError, match="different finite parameter values"):
        make([0.0, 0.0], [field, field])
    with pytest.raises(ValueError, match="one parameter value per field"):
        make([0.0], [field, field])
    with pytest.raises(ValueError, match="one dimension"):
        make([0.0, 1.0], [field, CallableField(lambda x: -x, 2)])
    with pytest.raises(TypeError, match="expected VectorFields, got str"):
        make([0.0, 1.0], [field, "field"])
    with pytest.raises(ValueError, match="interpolate='spline', 'polynomial' or None, got 'pchip'"):
        make([0.0, 1.0], [field, field], interpolate="pchip")
    with pytest.raises(ValueError, match="at least two fields"):
        make([0.0], [field])
    with pytest.raises(ValueError, match="one finite number as parameter"):
        FieldFamily.from_callable(lambda x, p: -x, 1).at([1.0, 2.0])
    with pytest.raises(TypeError, match="expected functions"):
        FieldFamily.from_callable(3, 1)
    with pytest.raises(ValueError, match="positive parameter_scale"):
        FieldFamily.from_callable(lambda x, p: -x, 1, parameter_scale=0)
