"""Ensembles: matched objects, their probabilities and ellipses, against members whose spread is known."""

import numpy as np
import pytest

from fim_dynsys.analyze.cycles.periodic import limit_cycles
from fim_dynsys.analyze.equilibria.points import fixed_points
from fim_dynsys.analyze.matching import assigned
from fim_dynsys.analyze.members import ensemble
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.trajectories.container import Trajectories


def double_well(shift, tilt=0.0):
    """Equilibria at shift + (0, -1, 1) for no tilt; large tilts leave one."""

    def f(x):
        a, b = (x - shift).T
        return np.column_stack([a - a**3 + tilt, -b])

    return CallableField(f, 2)


REGION = [(-2.5, 2.5), (-2.0, 2.0)]


def test_assignment_is_the_cheapest_and_has_a_limit():
    a, b = np.array([[0.0], [1.0]]), np.array([[0.9], [2.0], [9.0]])
    assert assigned(a, b, 3.0) == [(0, 0), (1, 1)]
    assert assigned(a, b, 0.5) == [(1, 0)]
    assert assigned(a, np.zeros((0, 1)), 0.5) == []


def test_locations_spread_as_the_members_do():
    rng = np.random.default_rng(0)
    shifts = rng.multivariate_normal([0.2, -0.1], [[0.01, 0.004], [0.004, 0.0025]], size=12)
    found = ensemble(fixed_points, [double_well(shift) for shift in shifts], REGION)
    assert found.existence == pytest.approx([1, 1, 1])
    for group in found.groups:
        assert group.covariance == pytest.approx(np.cov(shifts.T, bias=True), abs=1e-9)
        assert group.member.tolist() == list(range(12))
    order = np.argsort(found.x[:, 0])
    assert found.x[order] == pytest.approx(np.add(shifts.mean(axis=0), [[-1, 0], [0, 0], [1, 0]]), abs=1e-9)
    kinds = [next(iter(group.kinds)).value for group in found.groups]
    assert sorted(kinds) == ["saddle", "stable node", "stable node"]


def test_ellipse_holds_the_stated_share():
    rng = np.random.default_rng(1)
    shifts = rng.multivariate_normal([0, 0], [[0.01, 0.003], [0.003, 0.004]], size=40)
    (*_, group) = ensemble(_point, [CallableField(lambda x, s=s: s - x, 2) for s in shifts], REGION).groups
    lengths, directions = group.ellipse(0.9)
    assert lengths[0] > lengths[1] and directions @ directions.T == pytest.approx(np.eye(2))
    inside = (((group.x - group.mean) @ directions.T / lengths) ** 2).sum(axis=1) < 1
    assert 0.8 <= inside.mean() <= 1


def _point(field, region):
    """The root of a linear field, as quick as a result can be."""

    class Found:
        x = field(np.zeros((1, 2)))
        kind = ("node",)
        support = (1.0,)

    return Found()


def test_existence_and_kinds_are_weighted():
    fields = [double_well([0, 0]), double_well([0.02, 0]), double_well([0, 0], tilt=1.0)]
    found = ensemble(fixed_points, EnsembleField(fields, [1, 1, 2]), REGION)
    assert found.existence == pytest.approx([0.5 + 0.5, 0.5, 0.5])  # the tilted well's point joins that at 1
    assert found.x[0, 0] == pytest.approx(0.25 + 0.255 + 0.5 * 1.3247180, abs=1e-6)
    assert [sum(group.kinds.values()) for group in found.groups] == pytest.approx([1, 1, 1])


def test_kinds_that_members_disagree_on():
    fields = [CallableField(lambda x, a=a: a * x, 2) for a in (-1, -1, -1, 1)]
    (group,) = ensemble(fixed_points, fields, REGION).groups
    assert {kind.value: share for kind, share in group.kinds.items()} == {
        "stable node": 0.75,
        "unstable node": 0.25,
    }


def test_cycles_are_matched_by_their_extent():
    def ring(radius):
        def f(x):
            a, b = x.T
            g = radius**2 - a**2 - b**2
            return np.column_stack([g * a - b, g * b + a])

        return CallableField(f, 2)

    found = ensemble(limit_cycles, [ring(1.0), ring(1.1)], REGION, n_seeds=8)
    (group,) = found.groups
    assert group.existence == pytest.approx(1) and group.mean == pytest.approx([0, 0], abs=1e-3)
    assert found.collect("period") == pytest.approx(2 * np.pi, rel=1e-6)


def test_results_without_objects_are_collected():
    fields = [CallableField(lambda x, a=a: a * x, 1) for a in (1.0, 2.0)]

    class Slope:
        def __init__(self, field, region):
            self.slope = field.jacobian([0.0])[0]

    found = ensemble(Slope, fields, [(-1, 1)])
    assert found.groups == () and found.collect("slope").ravel() == pytest.approx([1, 2])


def test_default_region_holds_all_members_data():
    t = np.linspace(0, 1, 20)
    data = [Trajectories.from_arrays(c + t, t) for c in (0.0, 3.0)]
    fields = [CallableField(lambda x: 2 - x, 1, context=d) for d in data]
    seen = ensemble(lambda field, region: region, fields).results
    assert seen[0] == seen[1]
    assert (seen[0].low, seen[0].high) == (pytest.approx([-0.4]), pytest.approx([4.4]))


def test_result_prints_and_converts():
    found = ensemble(fixed_points, [double_well([0, 0]), double_well([0, 0], tilt=1.0)], REGION)
    assert "saddle 1" in str(found) and "<table>" in found._repr_html_()
    data = found.to_xarray()
    assert data.x.dims == ("object", "member", "state")
    assert np.isnan(data.x[1:, 1]).all() and np.isfinite(data.x[:, 0]).all()
    assert data.kind_probability.sum("kind_name").values == pytest.approx([1, 1, 1])
    with pytest.raises(ValueError, match="of one shape in all members"):
        found.collect("x")


def test_misuse_is_named():
    with pytest.raises(TypeError, match="EnsembleField or a list of VectorFields, got CallableField"):
        ensemble(fixed_points, double_well([0, 0]), REGION)
    with pytest.raises(ValueError, match="expected a region"):
        ensemble(fixed_points, [double_well([0, 0])])
