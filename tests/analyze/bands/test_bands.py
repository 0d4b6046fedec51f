"""Objects in drawn fields against the same objects found in each of them alone, and against theory."""

import numpy as np
import pytest

from fim_dynsys import (
    CallableField,
    FieldFamily,
    FieldPlane,
    Region,
    SymbolicField,
    Trajectories,
    add_noise,
    analyze,
    load,
    simulate,
    systems,
)
from fim_dynsys.analyze.bands.lines import distances, nearest
from fim_dynsys.analyze.bands.tipping import _interval
from fim_dynsys.analyze.misfit import FITS, residuals
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.terms import Dictionary

BOX = [(-3, 3), (-4, 4)]


def van_der_pol(mu):
    return CallableField(
        lambda x: np.stack([x[:, 1], mu * (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], axis=1), 2
    )


def well(tilt, friction=0.4):
    """Two sinks at about -1 and 1, a saddle at about 0."""
    return CallableField(
        lambda x: np.stack([x[:, 1], tilt + x[:, 0] - x[:, 0] ** 3 - friction * x[:, 1]], axis=1), 2
    )


class Inferred:
    """A model whose fields are x' = mu + x - x^3 (and nu, if measured) with errors of their coefficients."""

    name = "inferred"

    def __init__(self, error, names=("mu",), seed=0):
        self.error, self.names, self.rng = error, names, np.random.default_rng(seed)

    def infer_many(self, contexts):
        terms = Dictionary.polynomial(1, 3)
        fields = []
        for data in contexts:
            values = [float(data.coords[name][0]) for name in self.names]
            nu = values[1] if len(values) > 1 else 1.0
            exact = np.array([[values[0]], [nu], [0.0], [-1.0]])
            fields.append(
                DictionaryField(terms, exact + self.error * self.rng.normal(size=(4, 1)), context=data)
            )
        return fields


def measured(*grids):
    """Trajectories that cover [-1.5, 1.5] at each combination of values."""
    names = ("mu", "nu")[: len(grids)]
    pairs = np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1).reshape(-1, len(grids))
    t = np.linspace(0.0, 1.0, 31)
    runs = [np.linspace(-1.5, 1.5, 31)] * len(pairs)
    return Trajectories.from_arrays(runs, t, coords=dict(zip(names, pairs.T, strict=True)))


@pytest.fixture(scope="module")
def diagram():
    data = measured(np.linspace(-0.8, 0.8, 11))
    return analyze.bifurcations_from_data(Inferred(0.01), data, "mu", n_draws=30)


# ---------------------------------------------------------------------- cycles


def test_cycles_in_draws_are_those_found_in_each():
    values = (0.8, 0.9, 1.0, 1.1, 1.2)
    result = analyze.cycle_bands(van_der_pol(1.0), BOX, n_draws=EnsembleField(map(van_der_pol, values)))
    assert result.existence.tolist() == [1.0] and result.stable_share.tolist() == [1.0]
    alone = [analyze.limit_cycles(van_der_pol(mu), BOX, n_seeds=8) for mu in values]
    np.testing.assert_allclose(result.period[0], [one.period[0] for one in alone], rtol=1e-5)
    np.testing.assert_allclose(result.log_moduli[0, :, 1], [one.log_moduli[0, 1] for one in alone], atol=1e-4)
    own, half = alone[2].period[0], abs(alone[4].period[0] - alone[2].period[0])
    np.testing.assert_allclose(result.period_interval()[0], [own - half, own + half], rtol=1e-4)
    assert result.log_moduli_interval().shape == (1, 2, 2)
    assert result.orbits.shape == (1, 5, 65, 2)
    assert "periodic orbit in 5 draws" in str(result) and len(result.to_dataframe()) == 1
    assert result.to_xarray()["period_drawn"].shape == (1, 5)


def test_draws_without_the_cycle_count_as_such():
    """Below mu = 0 the origin attracts, and no cycle is left."""
    draws = EnsembleField([van_der_pol(mu) for mu in (0.5, 0.6, -0.5, -0.6)])
    result = analyze.cycle_bands(van_der_pol(0.55), BOX, n_draws=draws)
    # the unstable cycle of mu < 0 has the same shape: it exists, and is not stable
    assert result.existence[0] == 1.0 and result.stable_share[0] == 0.5
    gone = EnsembleField(
        [van_der_pol(0.5), CallableField(lambda x: np.stack([x[:, 1], -x[:, 0] - x[:, 1]], 1), 2)]
    )
    assert analyze.cycle_bands(van_der_pol(0.55), BOX, n_draws=gone).existence[0] == 0.5


def test_cycles_of_a_field_that_does_not_fit_its_data_say_so():
    data = add_noise(simulate(van_der_pol(1.0), [[2.0, 0.0]], np.linspace(0, 20, 200)), 0.03, rng=0)
    draws = EnsembleField([van_der_pol(1.0)] * 2)
    cycles = analyze.limit_cycles(van_der_pol(1.0), BOX, n_seeds=8)
    for mu, fits in ((1.0, True), (2.0, False)):
        field = CallableField(van_der_pol(mu), 2, context=data)
        result = analyze.cycle_bands(field, BOX, cycles=cycles, n_draws=draws)
        assert result.fits is fits and (result.misfit < 1.5) is fits
        assert ("the field does not fit its data" in str(result)) is not fits
        assert result.to_xarray()["misfit"] == result.misfit


def test_fields_without_a_posterior_need_an_ensemble():
    for function in (analyze.cycle_bands, analyze.manifold_bands, analyze.basin_probabilities):
        with pytest.raises(ValueError, match=r"pass n_draws=model.ensemble\(64\)"):
            function(van_der_pol(1.0), BOX)
    with pytest.raises(ValueError, match="draws of dimension 2, got 1"):
        analyze.cycle_bands(van_der_pol(1.0), BOX, n_draws=EnsembleField([CallableField(lambda x: -x, 1)]))


# ---------------------------------------------------------------------- manifolds and basins


def test_distances_of_curves():
    line = np.array([[0.0, 0.0], [1.0, 0.0]])
    np.testing.assert_allclose(distances(np.array([[0.5, 2.0], [-3.0, 4.0]]), line), [2.0, 5.0])
    assert np.isnan(nearest(line, [line + np.array([0.0, 9.0])], 1.0)).all()
    np.testing.assert_allclose(
        nearest(line, [line + np.array([0.0, 9.0]), line + np.array([0.0, 0.2])], 1.0), 0.2
    )


def test_bands_of_manifolds_hold_those_of_the_draws():
    box = [(-2, 2), (-2, 2)]
    draws = EnsembleField([well(0.0, friction) for friction in (0.36, 0.38, 0.4, 0.42, 0.44)])
    result = analyze.manifold_bands(well(0.0), box, n_draws=draws, level=0.9)
    assert len(result.paths) == 4
    other = analyze.manifolds(well(0.0, 0.44), box)
    for path, half, branch in zip(result.paths, result.half_widths, result.manifolds.branches, strict=True):
        same = [b.path / result.length for b in other.branches if b.stable == branch.stable]
        away = np.min([distances(path / result.length, one) for one in same], axis=0)
        assert (away[: len(away) // 2] <= half[: len(away) // 2] + 1e-9).all()
    assert len(result.to_dataframe()) == 4 and "half_width" in result.to_xarray()


def test_probabilities_of_basins_are_shares_of_draws():
    """The separatrix moves with the tilt; far from it all draws agree."""
    box = [(-2, 2), (-2, 2)]
    draws = EnsembleField([well(tilt) for tilt in (-0.1, -0.05, 0.05, 0.1)])
    result = analyze.basin_probabilities(well(0.0), box, n_draws=draws, resolution=16, n_sample=32)
    assert result.n_draws == 4 and (result.existence == 1.0).all()
    np.testing.assert_allclose(result.probability.sum(axis=0), 1.0)
    assert set(np.unique(result.probability * 4)) <= {0.0, 1.0, 2.0, 3.0, 4.0}
    assert 0 < np.mean(result.doubt > 0) < 0.7
    alone = analyze.basins(well(0.1), box, resolution=16, n_sample=32)
    right = [int(a.points[0, 0] > 0) for a in alone.attractors].index(1)
    held = result.probability[[int(a.points[0, 0] > 0) for a in result.basins.attractors].index(1)]
    assert ((held == 0) <= (alone.labels != right)).all()
    assert len(result.to_dataframe()) == 2 and result.fraction_interval.shape == (2, 2)


def test_probabilities_end_at_their_budget():
    draws = EnsembleField([well(tilt) for tilt in (-0.1, 0.1)])
    options = {"n_draws": draws, "resolution": 4, "n_sample": 8}
    whole = analyze.basin_probabilities(well(0.0), [(-2, 2)] * 2, **options)
    spent = whole.basins.effort.points
    partly = analyze.basin_probabilities(well(0.0), [(-2, 2)] * 2, budget=int(1.01 * spent), **options)
    assert partly.n_draws == 1 and partly.effort.exhausted
    with pytest.raises(ValueError, match="a budget for at least one draw"):
        analyze.basin_probabilities(well(0.0), [(-2, 2)] * 2, budget=spent, **options)


# ---------------------------------------------------------------------- diagrams of data


def test_bands_of_branches_hold_the_true_equilibria(diagram):
    result = analyze.branch_bands(diagram, n_draws=30)
    held = total = 0
    for band in result.bands:
        inside = np.flatnonzero(np.abs(np.abs(band.p) - 2 / 3 / np.sqrt(3)) > 0.02)
        for i in inside:
            roots = np.roots([-1.0, 0.0, 1.0, band.p[i]])
            truth = roots[np.argmin(np.abs(roots - band.high[i, 0]))].real
            held += abs(truth - band.high[i, 0]) <= band.high_half[i, 0]
            total += 1
    assert held / total > 0.6  # 90 % stated, of points that err together
    folds = [band for band in result.bands if np.abs(np.abs(band.p).max() - 0.385) < 0.02]
    assert all(band.existence.min() < 1.0 for band in folds)
    assert "median half width" in str(result)
    assert {"low", "high_half"} <= set(result.to_xarray())
    with pytest.raises(TypeError, match="what bifurcations_from_data returns"):
        analyze.branch_bands(diagram.continuation)


def test_bands_of_cycles_along_a_branch():
    """x' = r (mu - r^2), turning once in 2 pi: the amplitude is the root of mu, the period exact."""
    terms = Dictionary.polynomial(2, 3)
    names = terms.names(["x", "y"])
    rng = np.random.default_rng(0)

    class Rotating(Inferred):
        def infer_many(self, contexts):
            fields = []
            for data in contexts:
                mu = float(data.coords["mu"][0]) + 0.01 * rng.normal()
                c = np.zeros((len(names), 2))
                c[names.index("x")], c[names.index("y")] = [mu, 1.0], [-1.0, mu]
                for name, state in (("x^3", 0), ("x y^2", 0), ("x^2 y", 1), ("y^3", 1)):
                    c[names.index(name), state] = -1.0
                fields.append(DictionaryField(terms, c, context=data))
            return fields

    values = np.linspace(-0.3, 0.7, 6)
    angle = np.linspace(0, 12, 60)
    path = np.stack([np.cos(angle), np.sin(angle)], axis=1) * np.linspace(0.1, 1.0, 60)[:, None]
    data = Trajectories.from_arrays([path] * 6, angle, state_names=["x", "y"], coords={"mu": values})
    found = analyze.bifurcations_from_data(Rotating(0.0), data, "mu", n_draws=10)
    result = analyze.branch_bands(found, n_draws=10)
    (band,) = (band for band in result.bands if band.period is not None)
    assert (band.existence[-4:] == 1).all()
    np.testing.assert_allclose(band.period, 2 * np.pi, rtol=1e-6)
    assert (band.period_half[band.existence > 0.5] < 1e-3).all()
    late = band.p > 0.3
    assert (band.high_half[late] > 1e-4).all() and (band.high_half[late] < 0.05).all()


def test_next_measurement_agrees_with_repeated_experiments(diagram):
    """The predicted deviation is that of the fold over repeated noise."""
    values = np.linspace(-0.8, 0.8, 11)
    result = analyze.next_measurement(diagram, values=[-0.8, 0.0, 0.4])
    fold = diagram.bifurcations[0]
    assert abs(abs(fold.p) - 2 / 3 / np.sqrt(3)) < 0.03
    towards = (fold.p - 0.3 * np.sign(fold.p), 1.3 * fold.p)
    found = []
    for seed in range(25):
        contexts = [measured([mu]) for mu in values]
        family = FieldFamily.from_fields(values, Inferred(0.01, seed=seed).infer_many(contexts), "polynomial")
        events = analyze.continuation(family, fold.x + 0.3 * np.sign(fold.x), towards).bifurcations
        found += [event.p for event in events if event.kind == "LP"][:1]
    assert len(found) == 25
    assert 0.5 < result.deviation / np.std(found) < 2.0
    assert (result.expected < result.deviation).all()
    ends = analyze.next_measurement(diagram, values=[-fold.p, fold.p])
    assert ends.best == fold.p
    assert "measure next at" in str(result) and len(result.to_dataframe()) == 3
    with pytest.raises(ValueError, match=r"values from -0\.8 to 0\.8"):
        analyze.next_measurement(diagram, values=[2.0])
    with pytest.raises(ValueError, match="a bifurcation below"):
        analyze.next_measurement(diagram, 99)


# ---------------------------------------------------------------------- two parameters


def test_curves_over_two_parameters_hold_the_cusp():
    """x' = mu + nu x - x^3 has folds at mu = +- 2 (nu / 3)^(3/2)."""
    data = measured(np.linspace(-0.8, 0.8, 5), np.linspace(-0.5, 1.5, 5))
    result = analyze.curves_from_data(Inferred(0.01, ("mu", "nu")), data, ("mu", "nu"), n_draws=5)
    assert {str(curve.kind) for curve in result.curves.curves} == {"LP"}
    held = []
    for curve, rows, half, axis in zip(
        result.curves.curves, result.rows, result.half_widths, result.axis, strict=True
    ):
        p, q = curve.p[rows], curve.q[rows]
        along_p = (axis == 0) & np.isfinite(half) & (q > 0.3)
        truth = np.sign(p) * 2 * (np.maximum(q, 0) / 3) ** 1.5
        held += (np.abs(p - truth) <= half)[along_p].tolist()
    assert len(held) > 8 and np.mean(held) > 0.5
    assert any(str(point.kind) == "CP" for point in result.curves.points)
    assert {"half_width", "share"} <= set(result.to_xarray()) and len(result.to_dataframe())
    with pytest.raises(ValueError, match="as coordinates"):
        analyze.curves_from_data(Inferred(0.01), data, ("mu", "kappa"))


def test_planes_of_fields_are_exact_where_these_are_polynomials():
    fields = Inferred(0.0, ("mu", "nu")).infer_many(list(measured([-1.0, 0.0, 1.0], [0.0, 1.0, 2.0])))
    values = [(mu, nu) for mu in (-1.0, 0.0, 1.0) for nu in (0.0, 1.0, 2.0)]
    plane = FieldPlane.from_fields(values, fields, ("mu", "nu"))
    x = np.linspace(-1, 1, 5)[:, None]
    np.testing.assert_allclose(plane.at(0.3, 1.7)(x), 0.3 + 1.7 * x - x**3, atol=1e-9)
    assert plane.at(0.3, 1.7).support(x).shape == (5,)
    assert len(plane.bootstrap(3)) == 3
    with pytest.raises(ValueError, match="at least 5 different pairs"):
        FieldPlane.from_fields(values[:3], fields[:3])


# ---------------------------------------------------------------------- tipping


def fold_family():
    return FieldFamily.from_callable(lambda x, p: p + x - x**3, 1, "p", region=[(-2, 2)])


def test_ramps_tip_beyond_the_fold_only():
    """The lower state ends at p = 0.385."""
    below = analyze.tipping(fold_family(), [-1.2], 20.0, ramp=(0.0, 0.3), hold=40.0)
    beyond = analyze.tipping(fold_family(), [-1.2], 20.0, ramp=(0.0, 0.5), hold=40.0)
    assert (below.probability, beyond.probability) == (0.0, 1.0)
    assert below.interval == (0.0, 0.0) and (np.diff(beyond.away) >= 0).all()


def test_members_beyond_their_folds_make_the_probability():
    """Members whose fold lies at 0.385 - s tip at 0.4 where s > -0.015."""
    members = [
        FieldFamily.from_callable(lambda x, p, s=s: p + s + x - x**3, 1, "p", region=[(-2, 2)])
        for s in (-0.2, -0.1, -0.05, 0.05, 0.1)
    ]
    result = analyze.tipping(fold_family(), [-1.2], 10.0, ramp=(0.0, 0.4), hold=60.0, n_draws=members)
    assert result.by_member.tolist() == [0, 0, 0, 1, 1] and result.probability == pytest.approx(0.4)
    assert result.interval[0] < 0.4 < result.interval[1]


def test_noise_induced_escape_follows_kramers_law():
    """From a well of depth 1/4 at noise D = s^2 / 2, escapes are at rate sqrt(2) / (2 pi) exp(-1 / (4 D))."""
    field = CallableField(lambda x: x - x**3, 1, region=Region([(-2, 2)]))
    noise, t = 0.42, 60.0
    result = analyze.tipping(field, [-1.0], t, noise=noise, n_paths=2000, limit=0.375, dt=0.02)
    rate = np.sqrt(2) / (2 * np.pi) * np.exp(-0.25 / (noise**2 / 2))
    # beyond 0.5 is the other well; escapes back make half of 1 - exp(-2 k t)
    expected = 0.5 * (1 - np.exp(-2 * rate * t))
    assert abs(result.probability - expected) < 0.2 * expected
    assert result.interval[0] < result.probability < result.interval[1]
    assert len(result.to_dataframe()) and "away" in result.to_xarray()


def test_tipping_of_data_and_what_it_refuses(diagram):
    result = analyze.tipping(diagram, [-1.2], 10.0, ramp=(0.0, 0.5), hold=40.0, n_draws=5)
    assert result.probability == 1.0 and len(result.by_member) == 5
    for wrong, match in (
        (dict(fields=van_der_pol(1.0), x0=[0, 0], duration=1.0, ramp=(0, 1), region=BOX), "for a ramp"),
        (dict(fields=fold_family(), x0=[-1.0], duration=1.0), "two values of p as ramp"),
        (dict(fields=fold_family(), x0=[-1.0], duration=-1.0, ramp=(0, 1)), "duration as a positive"),
        (dict(fields=fold_family(), x0=[9.0], duration=1.0, ramp=(5, 6)), "an equilibrium near"),
        (dict(fields=fold_family(), x0=[-1.0], duration=1e5, ramp=(0, 0.1)), "pass a larger dt"),
    ):
        with pytest.raises(ValueError, match=match):
            analyze.tipping(**wrong)


def test_interval_of_one_sure_member_and_of_scattered_ones():
    assert _interval(np.array([1.0]), np.ones(1), np.inf, 0.9) == (1.0, 1.0)
    low, high = _interval(np.array([0.5]), np.ones(1), 100, 0.9)  # binomial: 0.5 +- 1.645 * 0.05
    assert low == pytest.approx(0.418, abs=0.005) and high == pytest.approx(0.582, abs=0.005)


# ---------------------------------------------------------------------- draws that follow trajectories


def test_conditioned_draws_know_the_phase():
    """Stuart-Landau's period is 2 pi / 1.75; rates alone leave it open to percents."""
    system = systems.get("stuart_landau")
    clean = simulate(system.field(), system.initial_states[0], np.linspace(0, system.t_end, 150))
    model = load("fim-ode").fit(add_noise(clean, 0.03, rng=0))
    cycles = analyze.limit_cycles(model)
    own = analyze.cycle_bands(model, cycles=cycles, n_draws=model.field_.draws(32))
    narrowed = analyze.cycle_bands(model, cycles=cycles, n_draws=32)
    ((low, high),) = narrowed.period_interval()
    assert low < 2 * np.pi / 1.75 < high
    assert high - low < 0.2 * np.ptp(own.period_interval())
    assert len(analyze.conditioned_draws(model, 8)) == 8
    with pytest.raises(ValueError, match="draws of the field's own terms"):
        other = DictionaryField(Dictionary.polynomial(2, 1), np.zeros((3, 2)))
        analyze.conditioned_draws(model, EnsembleField([other, other]))


def test_conditioned_draws_need_data():
    with pytest.raises(ValueError, match="a sum of terms with its data"):
        analyze.conditioned_draws(van_der_pol(1.0), EnsembleField([van_der_pol(1.0)] * 2))


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.05])
@pytest.mark.parametrize(("capture", "fits"), [(1.0, True), (1.15, False)])
def test_correct_field_fits_sparse_samples(noise, capture, fits):
    """Sixty samples of four turns: what smoothing leaves of their start is no error of the field."""
    box = Region([0, 0], [4, 4])

    def predator_prey(a):
        eaten = f"{a}*x0*x1/(1 + x0)"
        return SymbolicField([f"x0*(1 - x0/3) - {eaten}", f"{eaten} - .3*x1"], region=box)

    t = np.linspace(0, 80, 60)
    path = simulate(predator_prey(1.0), [[1.0, 1.0]], t).x[0]
    observed = path + noise * path.std(axis=0) * np.random.default_rng(1).standard_normal(path.shape)
    misfit, _ = residuals(predator_prey(capture), Trajectories.from_arrays(observed, t))
    assert (misfit <= FITS) == fits


@pytest.mark.parametrize("unit", [1e-6, 1.0])
def test_tipping_starts_from_the_equilibrium_in_any_unit(unit):
    field = CallableField(lambda x: unit * np.sin(x / unit), 1)
    box = [(-2 * unit, 8 * unit)]
    assert analyze.tipping(field, [3 * unit], 5.0, region=box, noise=0.1 * unit, dt=0.05).probability == 0.0
    with pytest.raises(ValueError, match="stable equilibrium"):
        analyze.tipping(field, [0.1 * unit], 5.0, region=box)


@pytest.mark.parametrize("rate", [1.0 / 86400.0, 1.0, 200.0])
def test_tipping_of_a_stable_state_at_any_rate(rate):
    """200 a unit of time was away for certain: steps of a fortieth of the unit grew from the noise."""
    field = CallableField(lambda x: -rate * x, 1)
    box, end = [(-2, 2)], 5.0 / rate
    found = analyze.tipping(field, [0.0], end, noise=1e-3 * rate**0.5, n_paths=20, region=box)
    assert found.probability == 0.0
    with pytest.raises(ValueError, match=r"expected dt below .*, because the system returns to rest"):
        analyze.tipping(field, [0.0], end, noise=1e-3, n_paths=20, region=box, dt=3.0 / rate)
