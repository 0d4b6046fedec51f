"""Questions whose answers were wrong in silence: they are right, refused or said to be open."""

import numpy as np
import pytest

from fim_dynsys import CallableField, Region, SymbolicField, analyze
from fim_dynsys.analyze.conserved import conserved_sums
from fim_dynsys.analyze.equilibria.kinds import Kind

BOX = [(-2.0, 2.0), (-2.0, 2.0)]


def field(expressions, names):
    return SymbolicField(expressions, {}, state_names=list(names))


def test_states_have_different_names():
    with pytest.raises(ValueError, match=r"different state_names, got \['x', 'x'\]"):
        SymbolicField(["x", "2*x"], {}, state_names=["x", "x"])
    with pytest.raises(ValueError, match="different state_names"):
        CallableField(lambda x: x, 2, state_names=["a", "a"])


def test_a_second_parameter_begins_within_its_range():
    plane = SymbolicField(["p+q*x-x**3"], {"p": 0.0, "q": 1.0}, state_names=["x"]).plane(["p", "q"])
    with pytest.raises(ValueError, match=r"expected q0 within \(-1\.0, 2\.0\), got 5"):
        analyze.bifurcation_curves(plane, [-1.5], (-2, 2), (-1, 2), q0=5)


@pytest.mark.parametrize("right", ["-x", "-x-x**3"])
def test_a_centre_has_no_phase_response(right):
    with pytest.raises(ValueError, match="expected the number of a stable cycle"):
        analyze.phase_response(field(["y", right], "xy"), BOX)


def test_an_unstable_equilibrium_does_not_tip():
    well = field(["x-x**3"], "x")
    with pytest.raises(ValueError, match=r"stable equilibrium near \[0\.3\] at the start, got an unstable"):
        analyze.tipping(well, [0.3], 50.0, noise=0.1, region={"x": (-2, 2)})
    found = analyze.tipping(well, [-1.0], 50.0, noise=0.1, region={"x": (-2, 2)})
    assert found.interval[0] <= found.probability <= found.interval[1]


def test_an_eigenvalue_that_leaves_decides_beside_a_pair_on_the_axis_or_a_zero():
    henon = field(["px", "py", "-x-2*x*y", "-y-x**2+y**2"], ["x", "y", "px", "py"])
    points = analyze.fixed_points(henon, [(-1.5, 1.5)] * 4)
    assert sorted(kind.value for kind in points.kind) == ["centre-like", *["saddle-centre"] * 3]
    assert [k.stable for k in points.kind if k is Kind.SADDLE_CENTRE] == [False] * 3
    (point,) = analyze.fixed_points(field(["x", "-y**3"], "xy"), BOX).kind
    assert point is Kind.DEGENERATE_UNSTABLE and point.stable is False
    points.plot()


def test_zeros_on_one_side_of_a_relay_are_no_equilibria():
    relay = field(["v", "-x-0.5*v+sign(v)"], "xv")
    points = analyze.fixed_points(relay, {"x": (-5, 5), "v": (-5, 5)})
    assert not any(kind.stable for kind in points.kind)


def test_exponents_do_not_depend_on_the_units_of_single_states():
    s = 1e3
    lorenz = field(
        [f"10*(y/{s}-x)", f"(x*(28-z*{s})-y/{s})*{s}", f"(x*y/{s}-8/3*z*{s})/{s}"], ["x", "y", "z"]
    )
    found = analyze.lyapunov(lorenz, [1.0, s, 20.0 / s], budget=600_000)
    assert found.exponents == pytest.approx([0.906, 0.0, -14.57], abs=0.1)


def test_a_torus_has_two_dimensions():
    turns = [
        "x*(1-x**2-y**2)-y",
        "y*(1-x**2-y**2)+x",
        "z*(1-z**2-w**2)-1.6180339887*w",
        "w*(1-z**2-w**2)+1.6180339887*z",
    ]
    assert analyze.lyapunov(field(turns, "xyzw"), [1.0, 0.0, 1.0, 0.0]).dimension == pytest.approx(2.0)


def test_short_records_are_not_called_chaotic():
    t = np.arange(150)
    assert np.isnan(analyze.zero_one_test(np.sin(t) + np.sin(np.sqrt(2.0) * t)))


@pytest.mark.parametrize("rest", ["1-z", "2*(0.3-z)", "z*(1-z**2)"])
def test_a_state_that_rests_on_a_cycle_does_not_jump(rest):
    turns = field(["x*(1-x**2-y**2)-y", "y*(1-x**2-y**2)+x", rest], "xyz")
    found = analyze.limit_cycles(turns, [(-2, 2)] * 3)
    assert "jumps" not in str(found)
    leaving = {"1-z": -1.0, "2*(0.3-z)": -2.0, "z*(1-z**2)": -2.0}[rest]
    expected = np.sort(np.exp(2.0 * np.pi * np.array([0.0, leaving, -2.0])))
    stable = np.flatnonzero(found.stable)[0]
    assert np.sort(np.abs(found.multipliers[stable])) == pytest.approx(expected, rel=1e-4)


def test_no_sum_is_conserved_that_changes_slowly():
    """Where terms of high degree are huge in a region, others are lost in their rounding."""
    brusselator = SymbolicField(
        ["1e-6 + 1e12*x**2*y - (B + 1)*x", "B*x - 1e12*x**2*y"], {"B": 1.0}, state_names=["x", "y"]
    )
    found = analyze.continuation(brusselator.family("B"), [1e-6, 1e-6], (1.0, 3.0))
    assert [(b.kind, round(b.p, 6)) for b in found.bifurcations] == [("HB", 2.0)]
    exchange = [lambda s, k=k: k * (s[:, :1] - s[:, 1:]) * [[-1.0, 1.0]] for k in (1e9, 1e13)]
    for k, exchanged in zip((1e9, 1e13), exchange, strict=True):
        leaky = CallableField(lambda s, f=exchanged: f(s) - 1e-3 * (s - 0.5) * [[1.0, 0.0]], 2)
        assert not len(conserved_sums(leaky, Region([(0, 2)] * 2))), k
        assert conserved_sums(CallableField(exchanged, 2), Region([(0, 2)] * 2)).names == ("x0 + x1",), k


def test_sums_are_conserved_in_far_too_large_regions():
    def michaelis_menten(x):  # substrate, enzyme, complex, product
        bound = 1e6 * x[:, 0] * x[:, 1] - 1e3 * x[:, 2]
        made = 0.1 * x[:, 2]
        return np.stack([-bound, made - bound, bound - made, made], axis=1)

    for size in (1e-6, 1e-3, 1.0):
        found = conserved_sums(CallableField(michaelis_menten, 4), Region([(0, size)] * 4))
        assert set(found.names) == {"x1 + x2", "x0 + x2 + x3"}, size


def test_small_eigenvalues_are_not_zero():
    """In units of a wide box, or beside fast directions, slow ones looked like those of a double zero."""
    oregonator = CallableField(
        lambda s: np.stack(
            [
                77.27 * (s[:, 1] + s[:, 0] * (1.0 - 8.375e-6 * s[:, 0] - s[:, 1])),
                (s[:, 2] - (1.0 + s[:, 0]) * s[:, 1]) / 77.27,
                0.161 * (s[:, 0] - s[:, 2]),
            ],
            axis=1,
        ),
        3,
    )
    assert analyze.fixed_points(oregonator, [(1, 1.2e5), (0.5, 2000), (1, 4e4)]).kind.tolist() == [
        Kind.SADDLE
    ]
    brusselator = SymbolicField(["1 + x**2*y - 3*x", "2*x - x**2*y"], state_names=["x", "y"])
    assert analyze.fixed_points(brusselator, [(0, 1e5)] * 2).kind.tolist() == [Kind.CENTRE_LIKE]


@pytest.mark.parametrize("rate", ["-x0**2", "-(x0-1)**2", "-(x0-1)**3", "-1e-7*x0 + x0**2"])
def test_double_zeros_stay_degenerate(rate):
    found = analyze.fixed_points(SymbolicField([rate, "-x1"]), [(-2, 2)] * 2)
    assert set(found.kind.tolist()) == {Kind.DEGENERATE}


def goldbeter(s):
    """Cyclin, kinase and protease of the mitotic oscillator, Goldbeter, PNAS 88 (1991) 9107."""
    c, m, x = s.T
    return np.stack(
        [
            0.025 - 0.25 * x * c / (0.02 + c) - 0.01 * c,
            3.0 * c / (0.5 + c) * (1.0 - m) / (1.005 - m) - 1.5 * m / (0.005 + m),
            m * (1.0 - x) / (1.005 - x) - 0.5 * x / (0.005 + x),
        ],
        axis=1,
    )


def bursting(s):
    """Hindmarsh and Rose, Proc. R. Soc. B 221 (1984) 87, with two spikes a burst."""
    x, y, z = s.T
    return np.stack(
        [y - x**3 + 3.0 * x**2 - z + 1.5, 1.0 - 5.0 * x**2 - y, 0.005 * (4.0 * (x + 1.6) - z)], axis=1
    )


# Periods by LSODA with tolerances of 1e-10.
@pytest.mark.parametrize(
    ("field", "box", "period"),
    [(goldbeter, [(0, 1)] * 3, 25.17365), (bursting, [(-2, 2.5), (-15, 2), (0, 5)], 182.42)],
)
def test_stiff_cycles_in_three_states(field, box, period):
    found = analyze.limit_cycles(CallableField(field, 3), box)
    assert found.period.tolist() == pytest.approx([period], rel=1e-4)
    assert [kind.value for kind in found.kind] == ["stable"]
