"""Measures of records against published values, exact ones, and maps whose answer is known."""

import numpy as np
import pytest

from fim_dynsys import CallableField, Trajectories, simulate, systems
from fim_dynsys.analyze import (
    correlation_dimension,
    delay_embedding,
    lyapunov,
    measures,
    permutation_entropy,
    recurrence,
    zero_one_test,
)
from fim_dynsys.analyze.signals.compared import noise_level
from fim_dynsys.analyze.signals.embedding import embedded
from fim_dynsys.analyze.signals.recurrence import diagonal_lines, vertical_lines

STEP = 0.1


def lorenz(x, r=28.0):
    return np.stack(
        [10 * (x[:, 1] - x[:, 0]), x[:, 0] * (r - x[:, 2]) - x[:, 1], x[:, 0] * x[:, 1] - 8 / 3 * x[:, 2]],
        axis=1,
    )


def van_der_pol(x):
    return np.stack([x[:, 1], (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], axis=1)


def torus(step, t_end):
    angles = np.outer(np.arange(0, t_end, step), [1.0, (1 + np.sqrt(5)) / 2])
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


LORENZ = systems.get("lorenz").field()


@pytest.fixture(scope="module")
def long_record():
    """Sixty-four trajectories on Lorenz's attractor."""
    return on_attractor(64)


@pytest.fixture(scope="module")
def attractor(long_record):
    return long_record[:16]


def on_attractor(n):
    starts = np.random.default_rng(0).normal(size=(n, 3)) * 8 + [0, 0, 25]
    runs = simulate(LORENZ, starts, np.arange(0, 110, STEP)).x
    t = STEP * np.arange(1000)
    return Trajectories.from_arrays([x[100:] for x in runs], t, state_names=["x", "y", "z"])


def logistic(r, n, x=0.3, transient=500):
    out = np.empty(n + transient)
    for k in range(n + transient):
        out[k] = x
        x = r * x * (1 - x)
    return out[transient:]


def henon(n):
    out, (x, y) = np.empty((n + 100, 2)), (0.1, 0.1)
    for k in range(n + 100):
        out[k] = x, y
        x, y = 1 - 1.4 * x * x + y, 0.3 * x
    return out[100:]


# ---------------------------------------------------------------------- dimensions


def test_correlation_dimension_of_lorenz_attractor(long_record):
    """2.05 +- 0.01 by Grassberger and Procaccia (1983), 2.068 +- 0.086 by Sprott (2003), of other samples.

    Rounding decides which piece is seen: of 16 trajectories it is 2.05 to 2.11, of 64 2.05 to 2.08.
    """
    found = correlation_dimension(long_record)
    assert abs(found.dimension - 2.05) < 0.05
    assert found.error < 0.2


@pytest.mark.slow
def test_correlation_dimension_of_lorenz_attractor_from_many_samples(long_record):
    """At radii that 64,000 samples leave nearly empty the slope is that of Grassberger and Procaccia."""
    starts = np.random.default_rng(1).normal(size=(400, 3)) * 8 + [0, 0, 25]
    t = np.concatenate([[0.0], 20 + STEP * np.arange(750)])
    field = CallableField(lorenz, 3)
    runs = Trajectories.from_arrays(list(simulate(field, starts, t).x[:, 1:]), STEP * np.arange(750))
    found = correlation_dimension(runs, max_points=300_000, radii=(0.004, 0.02))
    assert abs(found.dimension - 2.05) < 0.01
    assert found.error < 0.05
    assert abs(correlation_dimension(long_record, radii=(0.03, 0.2)).dimension - 2.07) < 0.01


def test_correlation_dimension_of_henon_map():
    """1.21 +- 0.01 by Grassberger and Procaccia (1983), 1.220 +- 0.036 by Sprott (2003)."""
    found = correlation_dimension(henon(15_000), theiler=1)
    assert abs(found.dimension - 1.21) < 0.02


def test_correlation_dimension_of_a_square_is_two():
    x = np.random.default_rng(1).random((8000, 2))
    assert abs(correlation_dimension(x, theiler=0).dimension - 2.0) < 0.03


def test_theiler_window_leaves_out_neighbours_in_time():
    """Densely sampled, a path on a torus is a line at small distances."""
    assert correlation_dimension(torus(0.01, 40), theiler=0, radii=(0.03, 0.15)).dimension < 1.4
    assert correlation_dimension(torus(0.11, 1500), theiler=100, radii=(0.1, 0.4)).dimension == pytest.approx(
        2, abs=0.1
    )


@pytest.mark.parametrize(
    ("field", "x0", "dimension"),
    [
        (CallableField(lambda x: -x * [1.0, 2.0], 2), [1.0, 1.0], 0.0),
        (
            CallableField(lambda x: np.stack([x[:, 1], (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], 1), 2),
            [1, 0],
            1.0,
        ),
    ],
)
def test_kaplan_yorke_dimension_of_points_and_cycles(field, x0, dimension):
    assert lyapunov(field, x0, n_pieces=8, budget=100_000).dimension == pytest.approx(dimension, abs=0.01)


# ---------------------------------------------------------------------- chaos


@pytest.mark.parametrize("offset", [10.0, 300.0, 1e5])
def test_the_zero_one_test_does_not_depend_on_an_offset(offset):
    series = logistic(3.97, 2000)
    assert zero_one_test(series + offset) == pytest.approx(zero_one_test(series), abs=1e-6)


def test_zero_one_test_of_logistic_map():
    """Periodic at r = 3.55, chaotic at r = 3.97: figure 2 of Gottwald and Melbourne (2009)."""
    assert abs(zero_one_test(logistic(3.55, 2000))) < 0.05
    assert zero_one_test(logistic(3.97, 2000)) > 0.95


def test_zero_one_test_takes_flows_less_densely(attractor):
    assert zero_one_test(attractor) > 0.9
    t = np.arange(0, 400, 0.05)
    quasi = Trajectories.from_arrays(np.sin(t) + np.sin(np.sqrt(2) * t), t)
    assert zero_one_test(quasi) < 0.2


def test_permutation_entropy_of_the_full_logistic_map_is_exact():
    """Conjugate to the tent map, whose five patterns of three have rational probabilities."""
    p = np.array([1 / 3, 1 / 15, 2 / 15, 1 / 5, 4 / 15])
    found = permutation_entropy(logistic(4 - 1e-12, 50_000), order=3, normalised=False)
    assert abs(found + np.sum(p * np.log(p))) < 0.005


def test_permutation_entropy_of_noise_and_of_a_ramp():
    assert permutation_entropy(np.random.default_rng(0).random(20_000), order=4) > 0.999
    assert permutation_entropy(np.arange(100.0)) == 0.0
    assert np.isnan(permutation_entropy(np.arange(3.0)))
    with pytest.raises(ValueError, match="order from 2 to 8"):
        permutation_entropy(np.arange(9.0), order=9)


# ---------------------------------------------------------------------- embedding and recurrence


def test_embedding_of_lorenz_x_unfolds_in_three_dimensions():
    t = np.arange(0, 120, 0.02)
    path = simulate(LORENZ, [[1.0, 1.0, 20.0]], t).x[0][1000:]
    found = delay_embedding(Trajectories.from_arrays(path, t[1000:]), "x0")
    assert found.dim == 3
    assert 0.1 < found.delay * found.step < 0.3  # 0.16 to 0.18 is customary
    np.testing.assert_array_equal(found.vectors, embedded(path[:, 0], found.delay, 3))
    assert "3 coordinates" in str(found) and "vectors" in found.to_xarray()


def test_embedding_counts_neighbours_of_several_trajectories_within_each(attractor):
    found = delay_embedding(attractor, "z", delay=2, max_dim=4)
    assert found.dim in (3, 4) and len(found.vectors) == 16 * (1000 - 2 * (found.dim - 1))
    with pytest.raises(ValueError, match="expected a state among"):
        delay_embedding(attractor, "w")
    with pytest.raises(ValueError, match="longer than two delays"):
        delay_embedding(attractor, delay=500)


def test_lines_are_counted_as_by_hand():
    rng = np.random.default_rng(0)
    matrix = rng.random((9, 9)) < 0.5
    matrix |= matrix.T

    def runs(row):
        return [len(part) for part in "".join("1" if cell else " " for cell in row).split()]

    by_hand = [run for k in range(1, 9) for run in runs(np.diagonal(matrix, k))]
    assert sorted(diagonal_lines(matrix)) == sorted(by_hand)
    assert sorted(vertical_lines(matrix)) == sorted(run for column in matrix.T for run in runs(column))


def test_recurrences_tell_a_cycle_from_noise():
    cycle = recurrence(np.stack([np.sin(0.1 * np.arange(1000)), np.cos(0.1 * np.arange(1000))], axis=1))
    noise = recurrence(np.random.default_rng(0).normal(size=(1000, 2)))
    assert cycle.rate == pytest.approx(0.05, abs=1e-3) and noise.rate == pytest.approx(0.05, abs=1e-3)
    assert cycle.determinism > 0.99 and noise.determinism < 0.15
    assert noise.laminarity < 0.2
    assert cycle.longest > 900 and noise.longest < 10


# ---------------------------------------------------------------------- even samples


def test_irregular_times_are_refused_or_resampled():
    t = np.concatenate([np.arange(100.0), np.arange(103.0, 200.0)])
    data = Trajectories.from_arrays(np.sin(t), t)
    with pytest.raises(ValueError, match="an interval of 4 after t = 99 of trajectory 0"):
        recurrence(data)
    assert len(recurrence(data, resample=True).t) == 200
    holes = np.sin(np.arange(50.0))
    holes[7] = np.nan
    with pytest.raises(ValueError, match="a missing value at t = 7"):
        permutation_entropy(Trajectories.from_arrays(holes, np.arange(50.0)))
    with pytest.raises(ValueError, match="at least two samples"):
        zero_one_test(Trajectories.from_arrays([[1.0]], [0.0]))


# ---------------------------------------------------------------------- side by side


def test_measures_stand_side_by_side_with_simulations(attractor):
    result = measures(attractor[:2], {"same": LORENZ, "at rest": CallableField(lambda x: lorenz(x, 10.0), 3)})
    assert result.sources == ("data", "same", "at rest")
    assert result["Kaplan-Yorke dimension"]["same"] == pytest.approx(2.06, abs=0.01)
    assert result["exponent error (95 %)"]["same"] < 0.3
    assert abs(result["largest exponent"]["same"] - 0.906) < 2 * result["exponent error (95 %)"]["same"]
    assert result["distance of states"]["same"] < 0.2 < result["distance of states"]["at rest"]
    assert result["0-1 test, x"]["data"] > 0.9 and result["0-1 test, x"]["same"] > 0.9
    assert np.isnan(result["largest exponent"]["data"])
    assert result["determinism"]["same"] == pytest.approx(result["determinism"]["data"], abs=0.05)
    assert len(result.to_dataframe()) == len(result.names)
    assert result.to_xarray()["value"].shape == (len(result.names), 3)


def test_noise_is_told_from_motion_where_samples_are_dense():
    path = np.sin(np.arange(0, 60, 0.05))[:, None] * [1.0, 20.0]
    noisy = path + np.random.default_rng(0).normal(size=path.shape) * [0.03, 0.2]
    np.testing.assert_allclose(noise_level([noisy]), [0.03, 0.2], rtol=0.15)
    assert (noise_level([path]) < 1e-4).all()


def test_measures_of_data_alone_and_of_a_field_that_fails(attractor):
    alone = measures(attractor[0].x[0])
    assert alone.sources == ("data",)
    for name, values in zip(alone.names, alone.values, strict=True):
        assert np.isfinite(values).all() or name.startswith("0-1 test")  # which takes every sixth sample
    lost = measures(attractor[0], {"explodes": CallableField(lambda x: x**3, 3)})
    assert np.isnan(lost.values[:, 1]).all() and lost.recurrences[1] is None
    with pytest.raises(ValueError, match="fields of dimension 3"):
        measures(attractor[0], CallableField(lambda x: -x, 2))


def test_a_single_state_is_embedded_before_its_dimension_is_taken(attractor):
    """Lorenz's x alone: 2.05 as of all states, not the 1 of a line."""
    alone = Trajectories.from_arrays([x[:, :1] for _, x in attractor.arrays()], STEP, state_names=["x"])
    found = correlation_dimension(alone)
    assert found.dim is not None and found.dim >= 3 and "of x, embedded in" in str(found)
    assert abs(found.dimension - 2.05) < 0.2
    assert correlation_dimension(attractor).dim is None


@pytest.mark.parametrize(("n", "end"), [(1000, 100.0), (2000, 20.0), (1000, 20 * np.pi)])
def test_a_sine_unfolds_in_two_coordinates_and_has_dimension_one(n, end):
    """However it is sampled: the cells of the mutual information give no delay, and repeats no neighbours."""
    x = np.sin(np.linspace(0.0, end, n))
    assert delay_embedding(x).dim == 2
    found = correlation_dimension(x)
    assert found.dim == 2 and abs(found.dimension - 1.0) < 0.12 and found.error < 0.3


def test_circles_have_dimension_one_or_none():
    """A record that repeats itself exactly shows its lattice alone: no dimension rather than a wrong one."""
    for n, end in ((3000, 300.0), (1000, 100.0)):
        t = np.linspace(0.0, end, n)
        found = correlation_dimension(np.stack([np.cos(t), np.sin(t)], axis=1))
        assert abs(found.dimension - 1.0) < 0.05 and found.dim is None
    t = np.arange(400) * 2 * np.pi / 20
    found = correlation_dimension(np.stack([np.cos(t), np.sin(t)], axis=1))
    assert np.isnan(found.dimension) and "No dimension" in str(found)
    assert delay_embedding(np.sin(np.linspace(0.0, 50.0, 200))).dim == 2  # nearly so: 25.1 samples a period


def test_one_state_of_a_map_is_embedded_with_a_delay_of_one():
    x = np.empty(3000)
    x[0] = 0.3
    for k in range(len(x) - 1):
        x[k + 1] = 4.0 * x[k] * (1.0 - x[k])
    assert delay_embedding(x).delay == 1 and delay_embedding(x).dim == 1  # each value gives the next
    assert abs(correlation_dimension(x).dimension - 1.0) < 0.1
    found = delay_embedding(henon(3000)[:, 0])
    assert (found.delay, found.dim) == (1, 2)
    assert abs(correlation_dimension(henon(10_000)[:, 0]).dimension - 1.21) < 0.05


def test_a_torus_is_two_dimensional_and_noise_is_not_unfolded():
    t = np.arange(6000) * 0.1
    torus = np.cos(t) + 0.6 * np.cos(np.sqrt(2) * t)
    assert delay_embedding(torus).dim in (3, 4)
    assert abs(correlation_dimension(torus).dimension - 2.0) < 0.2
    noise = delay_embedding(np.random.default_rng(0).standard_normal(1000))
    assert noise.dim == 8 and "Neighbours stay false" in str(noise)


@pytest.mark.parametrize("measure", [delay_embedding, zero_one_test, permutation_entropy])
def test_a_state_is_a_number_or_a_name(measure):
    x = np.stack([np.sin(np.arange(400.0)), np.cos(np.arange(400.0))], axis=1)
    records = Trajectories.from_arrays(x, np.arange(400.0), state_names=["a", "b"])
    measure(records, "b")
    for state in (2, -1, 0.02, True, "c"):
        with pytest.raises(ValueError, match=rf"^{measure.__name__}: expected a state among .*'a', 'b'"):
            measure(records, state)


@pytest.mark.parametrize(("t_end", "settled"), [(20, False), (150, True)])
def test_dimension_of_a_short_record_is_not_settled(t_end, settled):
    t = np.arange(0, t_end, 0.02)
    path = simulate(LORENZ, [[1.0, 1.0, 20.0]], t).x[0]
    found = correlation_dimension(Trajectories.from_arrays(path, t))
    assert found.settled is settled and ("Not settled" in str(found)) is not settled
    assert found.turns == pytest.approx(t_end / 0.32, rel=0.2)  # 16 samples
    whole = measures(Trajectories.from_arrays(path[::5], t[::5]), progress=False)
    assert ("Not settled" in str(whole)) is not settled


@pytest.mark.parametrize("measure", [correlation_dimension, delay_embedding, zero_one_test])
def test_constant_records_are_refused_by_name(measure):
    with pytest.raises(ValueError, match=f"{measure.__name__}: expected states that change, got constant x0"):
        measure(np.ones(500))
