"""Lyapunov exponents: exact spectra, Lorenz's, honest errors, and orbits that cannot be followed."""

import numpy as np
import pytest

from fim_dynsys import AffineField, CallableField, SymbolicField, Trajectories, systems
from fim_dynsys.analyze.exponents import lyapunov
from fim_dynsys.errors import SimulationWarning
from fim_dynsys.simulation.problem import Status


def test_equilibrium_has_the_real_parts_of_its_eigenvalues():
    """A focus and a node direction: -a twice and -b."""
    system = systems.get("linear_spiral")
    found = lyapunov(system.field(), [1.0, 0.0, 1.0], n_pieces=8)
    assert found.exponents == pytest.approx(system.truth("lyapunov"), abs=1e-6)
    assert (found.error < 1e-4).all() and not found.effort.exhausted
    assert found.divergence == pytest.approx(-2 * 0.1 - 0.4, abs=1e-9)


def test_all_exponents_of_a_family_of_closed_orbits_are_zero():
    harmonic = CallableField(lambda x: np.stack([x[:, 1], -x[:, 0]], 1), 2)
    found = lyapunov(harmonic, [1.0, 0.0], n_pieces=8, budget=1_000_000)
    assert found.dimension == 2.0


def test_at_rest_on_a_saddle():
    """The orbit through a fixed point is that point: exponents 3 and -2, to the integrator's tolerance."""
    field = CallableField(lambda x: x @ np.array([[3.0, 0.0], [1.0, -2.0]]), 2)
    found = lyapunov(field, [0.0, 0.0], n_pieces=4)
    assert found.exponents == pytest.approx([3, -2], abs=1e-5)
    assert (np.abs(found.exponents - [3, -2]) <= found.error).all()


@pytest.fixture(scope="module")
def on_a_cycle():
    """Exponents of van der Pol's oscillator."""
    return lyapunov(systems.get("van_der_pol").field(), [1.0, 1.0], n_pieces=64, budget=2_000_000)


def test_cycle_has_the_logarithm_of_its_multiplier(on_a_cycle):
    system, found = systems.get("van_der_pol"), on_a_cycle
    rate = np.log(float(system.truth("cycle_multiplier"))) / float(system.truth("period"))
    assert found.exponents == pytest.approx([0, rate], abs=1e-3)
    assert (np.abs(found.exponents - [0, rate]) <= found.error).all()


def test_shear_without_chaos_stays_within_the_error():
    """Neighbours in the pendulum's family part like t: the estimate falls like log(t) / t, and says so."""
    found = lyapunov(systems.get("pendulum").field(), [1.0, 1.0], n_pieces=16, budget=400_000)
    assert (np.abs(found.exponents) <= found.error).all()
    assert (found.error < 0.05).all() and found.effort.exhausted


def test_lorenz():
    system = systems.get("lorenz")
    found = lyapunov(system.field(), [1.0, 1.0, 1.0], n_pieces=128, budget=7_000_000)
    truth = system.truth("lyapunov")
    assert (np.abs(found.exponents - truth) <= found.error).all()
    assert found.error[0] < 0.05
    assert found.divergence == pytest.approx(-(10 + 1 + 8 / 3), abs=1e-9)
    assert found.exponents.sum() == pytest.approx(found.divergence, abs=3e-4)
    assert found.running.shape == (len(found.times), 3) and found.status is Status.SUCCESS
    assert found.running[-1] == pytest.approx(found.exponents, abs=0.05)
    assert found.duration == pytest.approx(128 * found.times[-1])
    # The dimension of Kaplan and Yorke is 2.062 from 0.906, 0 and -14.572 (Sprott 2003).
    assert abs(found.dimension - 2.062) < 0.002
    assert "Kaplan-Yorke dimension 2.06" in str(found)


def test_errors_cover_the_truth():
    """Short estimates of Lorenz's exponent, from starts far off the attractor, lie within their errors."""
    field = systems.get("lorenz").field()
    starts = np.random.default_rng(0).uniform(5, 15, (2, 3))
    short = [lyapunov(field, x, n_pieces=64, budget=1_000_000) for x in starts]
    inside = [abs(found.exponents[0] - 0.9056) <= found.error[0] for found in short]
    assert all(inside)
    assert np.std([found.exponents[0] for found in short]) < 0.04


def test_units_scale_the_rates():
    field = systems.get("van_der_pol").field()
    scaled = AffineField(field, scale=[1e3, 1e-3], shift=[5.0, -2.0], time_unit=10.0)
    own = lyapunov(field, [1.0, 1.0], n_pieces=16, budget=300_000)
    other = lyapunov(scaled, [1005.0, -1.999], n_pieces=16, budget=300_000)
    assert (np.abs(other.exponents * 10 - own.exponents) <= other.error * 10 + own.error).all()
    assert other.exponents * 10 == pytest.approx(own.exponents, abs=1e-2)


def test_orbits_that_cannot_be_followed():
    with pytest.warns(SimulationWarning, match="could not be followed") as caught:
        found = lyapunov(CallableField(lambda x: x**2, 1), [1.0])
    assert [warning.filename for warning in caught] == [__file__]
    assert np.isnan(found.exponents).all() and found.status is not Status.SUCCESS
    assert found.status.name.lower() in str(found)
    with pytest.warns(SimulationWarning):
        nowhere = lyapunov(CallableField(lambda x: np.full_like(x, np.nan), 2), [1.0, 1.0])
    assert nowhere.status is Status.NON_FINITE and len(nowhere.to_xarray()["times"]) == 0


def test_support_is_stated():
    t = np.linspace(0, np.pi, 60)
    half = Trajectories.from_arrays(np.stack([np.cos(t), -np.sin(t)], axis=1), t)
    field = CallableField(lambda x: np.stack([x[:, 1], -x[:, 0]], axis=1), 2, context=half)
    found = lyapunov(field, [1.0, 0.0], n_pieces=16, budget=200_000)
    assert found.supported == pytest.approx(0.5, abs=0.1)


def test_result():
    found = lyapunov(systems.get("linear_spiral").field(), [1.0, 0.0, 1.0], n_pieces=4)
    assert "-0.4" in str(found) and "mean divergence" in str(found)
    assert found.to_xarray()["exponents"].dims == ("mode",)


@pytest.mark.parametrize(
    ("x0", "options", "message"),
    [
        ([[1.0, 1.0]], {}, "one finite state"),
        ([np.nan, 1.0], {}, "one finite state"),
        ([1.0, 1.0], {"n_pieces": 1}, "n_pieces as a whole number of at least 2"),
        ([1.0, 1.0], {"precision": 0.0}, "precision"),
    ],
)
def test_refusals(x0, options, message):
    with pytest.raises(ValueError, match=message):
        lyapunov(systems.get("van_der_pol").field(), x0, **options)


def test_exponents_across_a_jump():
    """x'' = -x - c x' + sign x': the cycle's multiplier by the exact half turns, and the saltation at v = 0.

    Between jumps the flow is linear, with rotation rate w and decay c / 2 about x = sign v. By symmetry the
    return to v = 0 is an affine map of |x| with slope -exp(-c pi / 2 w), whose square is the multiplier; a
    period lasts 2 pi / w, so that the second exponent is -c / 2.
    """
    c = 1.0
    field = CallableField(lambda s: np.stack([s[:, 1], -s[:, 0] - c * s[:, 1] + np.sign(s[:, 1])], axis=1), 2)
    found = lyapunov(field, [2.0, 0.0], n_pieces=24, budget=2_000_000)
    assert "x1' jumps where x1 = 0" in str(found) and np.isnan(found.divergence)
    np.testing.assert_allclose(found.exponents, [0.0, -c / 2], atol=5e-3)
    assert (np.abs(found.exponents - [0.0, -c / 2]) <= 2 * found.error).all()


def relaxation(mu):
    return CallableField(
        lambda s: np.stack([s[:, 1], mu * (1 - s[:, 0] ** 2) * s[:, 1] - s[:, 0]], axis=1), 2
    )


def fast_phase(x):
    """A cycle of period 2 pi beside a state that decays a million times faster."""
    u, v, w = x.T
    r = 1 - u * u - v * v
    return np.stack([r * u - v, r * v + u, -1e6 * (w - u)], axis=1)


@pytest.mark.parametrize(
    ("field", "x0"),
    [
        (relaxation(1000.0), [2.0, 0.0]),  # a period of 1,614, of which a third of a unit is seen
        (CallableField(fast_phase, 3), [1.0, 0.0, 0.0]),
    ],
)
def test_stretch_of_a_stiff_orbit_is_not_settled(field, x0):
    with pytest.warns(SimulationWarning, match="not settled"):
        found = lyapunov(field, x0, n_pieces=32)
    assert found.passes <= 1 and not found.settled and found.span < 1
    assert "(not settled)" in str(found) and "too short for long-time means" in str(found)
    assert found.to_xarray()["passes"] == found.passes


def test_settled_exponents_state_their_window(on_a_cycle):
    found = on_a_cycle
    periods = found.span / float(systems.get("van_der_pol").truth("period"))
    assert found.settled and periods < found.passes < 2 * periods + 2
    assert f"followed for {found.span:.5g} units of time" in str(found)
    constant = lyapunov(CallableField(lambda x: x * [-1e6, -1.0], 2), [1.0, 1.0], n_pieces=8)
    assert constant.settled and np.isinf(constant.passes) and "constant" in str(constant)
    np.testing.assert_allclose(constant.exponents, [-1.0, -1e6], rtol=1e-5)


def test_exponents_of_large_states():
    scale = 1e20

    def rates(s):
        return np.stack([s[:, 1], (1 - (s[:, 0] / scale) ** 2) * s[:, 1] - s[:, 0]], axis=1)

    found = lyapunov(CallableField(rates, 2), [scale, 0.0], n_pieces=32, budget=600_000)
    assert found.exponents == pytest.approx([0, -1.0594], abs=2e-3) and found.settled


def test_an_orbit_that_slides_is_said_to():
    """A block sticks to a belt: its orbit cannot be followed in steps, and the warning says where."""
    belt = SymbolicField({"x": "v", "v": "-x + 0.4*sign(0.2 - v)/(1 + 2*abs(0.2 - v))"})
    with pytest.warns(SimulationWarning, match=r"stays where v' jumps near .*v = 0\.2, see limit_cycles"):
        spectrum = lyapunov(belt, [1.0, 0.0], budget=30_000)
    assert np.isnan(spectrum.exponents).all()


@pytest.mark.parametrize("unit", [1e-9, 1e6])
def test_small_units_of_a_field_without_lengths_change_nothing(unit):
    def circle(x):
        inwards = 1.0 - (x**2).sum(axis=1, keepdims=True) / unit**2
        return x * inwards + np.stack([-x[:, 1], x[:, 0]], axis=1)

    found = lyapunov(CallableField(circle, 2), [unit, 0.0], n_pieces=4, precision=0.02)
    np.testing.assert_allclose(found.exponents, [0.0, -2.0], atol=0.02)


@pytest.mark.parametrize("start", [[1.0, 0.1], [1.0, 0.0], [0.0, 0.1]])
def test_exponents_of_states_whose_units_differ_by_eighteen_decades(start):
    units = np.array([1e9, 1e-9])

    def circle(x):
        z = x / units
        inwards = 1.0 - (z**2).sum(axis=1, keepdims=True)
        return (z * inwards + np.stack([-z[:, 1], z[:, 0]], axis=1)) * units

    found = lyapunov(CallableField(circle, 2), units * start, n_pieces=4, precision=0.02)
    np.testing.assert_allclose(found.exponents, [0.0, -2.0], atol=0.02)


@pytest.mark.slow  # a minute: with a smaller budget tangent vectors are not aligned yet
@pytest.mark.filterwarnings("ignore::fim_dynsys.errors.SimulationWarning")
def test_errors_hold_where_pieces_see_the_same_stretch_again_and_again():
    """Roessler's hyperchaos (Phys. Lett. A 71 (1979) 155) parts so slowly that pieces follow one another."""
    field = SymbolicField(
        ["-y - z", "x + 0.25*y + w", "3 + x*z", "-0.5*z + 0.05*w"], state_names=["x", "y", "z", "w"]
    )
    starts = [np.random.default_rng(seed).normal([-20.0, 0.0, 0.0, 15.0]) for seed in range(5)]
    found = [lyapunov(field, start) for start in starts]
    assert sum(abs(spectrum.exponents[0] - 0.112) < spectrum.error[0] < 0.1 for spectrum in found) >= 4
