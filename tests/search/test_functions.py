"""Functions beyond monomials: families, regressions on forcings, subsets, and the search that joins them."""

import itertools
import math

import numpy as np
import pytest

from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.kernels.subsets import improve_subset, search_subset, sweep
from fim_dynsys.regression.observed import observe
from fim_dynsys.regression.rollout import rollout
from fim_dynsys.search.candidates import Candidate, judge
from fim_dynsys.search.functions.combination import FULL, QUICK, grow_functions
from fim_dynsys.search.functions.families import families, radians_per_unit
from fim_dynsys.search.functions.regressions import Integrals, Surrogate, follow, smooth
from fim_dynsys.search.origins import Origin, Stage, named
from fim_dynsys.search.pool import Pool
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import refine
from fim_dynsys.search.stages import POLYNOMIALS, Effort, Row
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.trajectories.container import Trajectories

RNG = np.random.default_rng(5)
NONE = Dictionary(np.zeros((1, 2), int))


def orbit(fn, x0, t_end, n, sigma=0.0, seed=0):
    """Times and noisy states of one solution."""
    t = np.linspace(0.0, t_end, n)
    x = simulate(CallableField(fn, len(x0)), x0, t, rtol=1e-9).x[0]
    return t, x + sigma * x.std(axis=0) * np.random.default_rng(seed).normal(size=x.shape)


def kepler(x):
    r, p = x.T
    return np.stack([p, r**-3.0 - r**-2.0], axis=1)


def predator_prey(x):
    u, v = x.T
    eaten = 2.0 * u * v / (1.0 + u)
    return np.stack([u * (1.0 - u / 3.5) - eaten, eaten - v], axis=1)


def van_der_pol(x):
    return np.stack([x[:, 1], 1.2 * (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], axis=1)


# ---------------------------------------------------------------------- subsets


def criterion(a, subset, n):
    subset = list(subset)
    rss = a[-1, -1]
    if subset:
        g, m = a[np.ix_(subset, subset)], a[subset, -1]
        rss = rss - m @ np.linalg.solve(g, m)
    return n * math.log(max(rss / n, 1.0)) + math.log(n) * len(subset)


def test_sweeping_gives_the_residual_sum_of_squares_and_undoes_itself():
    x = RNG.normal(size=(30, 5))
    a = x.T @ x
    swept = a.copy()
    sweep(swept, 0)
    sweep(swept, 2)
    _, residual, *_ = np.linalg.lstsq(x[:, [0, 2]], x[:, 4], rcond=None)
    assert swept[4, 4] == pytest.approx(residual[0], rel=1e-12)
    sweep(swept, 0)
    sweep(swept, 2)
    np.testing.assert_allclose(swept, a, rtol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_subset_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(60, 9)) @ rng.normal(size=(9, 9))  # correlated
    y = 10.0 * (x[:, [1, 4, 7]] @ [1.0, -2.0, 0.7]) + rng.normal(size=60)
    a = np.column_stack([x, y]).T @ np.column_stack([x, y])
    active, value = search_subset(a, np.full(9, math.log(60)), 60, 9)
    subsets = itertools.chain.from_iterable(itertools.combinations(range(9), k) for k in range(10))
    best = min(criterion(a, subset, 60) for subset in subsets)
    assert value == pytest.approx(best, abs=1e-8)
    assert value == pytest.approx(criterion(a, np.flatnonzero(active), 60), abs=1e-8)


def collinear(seed, n=300, m=80):
    """Normal equations of smooth columns, which hardly differ, and eight of them."""
    rng = np.random.default_rng(seed)
    x = np.sin(np.linspace(0.0, 6.0, n)[:, None] * rng.uniform(0.2, 4.0, m) + rng.uniform(0.0, 6.0, m))
    true = rng.choice(m, 8, replace=False)
    y = 5.0 * x[:, true] @ rng.normal(size=8) + rng.normal(size=n)
    joined = np.column_stack([x, y])
    return joined.T @ joined


def test_tabu_search_leaves_the_optima_of_single_exchanges():
    penalty, lower = np.full(80, math.log(300)), 0
    for seed in range(6):
        a = collinear(seed)
        start, value = search_subset(a, penalty, 300, 20)
        active, better = improve_subset(a, penalty, 300, 20, start)
        assert better <= value and active.sum() <= 20
        assert better == pytest.approx(criterion(a, np.flatnonzero(active), 300), abs=1e-3)
        again, same = improve_subset(a, penalty, 300, 20, active)
        assert same <= better and again.sum() <= 20
        lower += better < value - 1.0
    assert lower >= 3


def test_tabu_search_keeps_what_may_not_be_used_out_and_gives_rounding_up():
    a, penalty = collinear(1), np.full(80, math.log(300))
    penalty[::2] = np.inf
    active, value = improve_subset(a, penalty, 300, 20, np.zeros(80, bool))
    assert active.any() and not active[::2].any() and np.isfinite(value)
    twin = np.repeat(np.repeat(a, 2, axis=0), 2, axis=1)[:-1, :-1]  # every column twice
    active, value = improve_subset(twin, np.full(160, math.log(300)), 300, 30, np.zeros(160, bool))
    assert not (active[::2] & active[1::2]).any()
    assert value == pytest.approx(criterion(twin, np.flatnonzero(active), 300), abs=1e-3)


# ---------------------------------------------------------------------- regressions on forcings


def test_integrals_return_the_true_coefficients_of_clean_data():
    data = [orbit(predator_prey, [2.5, 0.3], 15.0, 150), orbit(predator_prey, [1.0, 1.0], 6.0, 60)]
    observations = observe(data)
    variance = np.full(2, 1e-6)
    integrals = Integrals(observations, smooth(observations), variance, 3)
    scale, unit = observations.scale, observations.time_unit
    saturation = Dictionary(np.zeros((1, 2), int), [Kind.HILL], [0], [scale[0]])
    monomials = Dictionary([[1, 0], [2, 0], [0, 1]])
    fixed = integrals.columns(NONE, monomials)
    eaten = integrals.columns(saturation, Dictionary([[0, 1]]))
    expected = [
        [unit, -scale[0] * unit / 3.5, 0.0, -2.0 * scale[1] / scale[0] * unit],
        [0.0, 0.0, -unit, 2.0 * unit],
    ]
    for i in range(2):
        design = np.concatenate([fixed[i], eaten[i]], axis=1)
        values = np.linalg.lstsq(design, integrals.targets[i], rcond=None)[0]
        np.testing.assert_allclose(values, expected[i], atol=2e-3)


def test_columns_are_simpsons_integrals_from_the_starts_of_segments():
    """On more steps than are evaluated together; products of functions and monomials, by monomial."""
    data = [orbit(predator_prey, [2.5, 0.3], 15.0, 150), orbit(predator_prey, [1.0, 1.0], 6.0, 60)]
    observations = observe(data)
    pieces = smooth(observations)
    integrals = Integrals(observations, pieces, np.full(2, 1e-6), 3)
    functions = Dictionary(np.zeros((2, 2), int), [Kind.HILL, Kind.EXP], [0, 1], [0.5, -0.3])
    monomials = Dictionary([[0, 0], [2, 1]])
    columns = []
    for piece in pieces:
        x = piece.path
        values = monomials.evaluate(x)[:, :, None] * functions.evaluate(x)[:, None]
        values = values.reshape(len(x), -1)
        steps = (values[:-1:2] + 4.0 * values[1::2] + values[2::2]) * piece.steps[:, None] / 6.0
        columns.append(np.concatenate([np.zeros((1, 4)), np.cumsum(steps, axis=0)])[piece.observed])
    ends = np.cumsum([50, 50, 50, 20, 20])
    weights = np.concatenate(observations.weights_over(np.full(2, 1e-6)))
    for i, found in enumerate(integrals.columns(functions, monomials)):
        parts = zip(np.split(np.concatenate(columns), ends), np.split(weights[:, i], ends), strict=True)
        expected = np.concatenate(
            [np.sqrt(w)[:, None] * (part - np.average(part, axis=0, weights=w)) for part, w in parts]
        )
        np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())


def test_surrogate_predicts_what_a_small_forcing_does():
    data = [orbit(van_der_pol, [0.5, 0.5], 8.0, 80), orbit(van_der_pol, [-2.0, 1.0], 3.0, 30)]
    observations = observe(data)
    dictionary = Dictionary.polynomial(2, 3)
    coefficients = np.zeros((10, 2))
    names = dictionary.names()
    for name, i, value in (("x1", 0, 1.0), ("x0", 1, -1.0), ("x1", 1, 0.8), ("x0^2 x1", 1, -0.7)):
        coefficients[names.index(name), i] = value
    candidate = Candidate(coefficients, observations.start, dictionary, Origin(Stage.GIVEN))
    variance = np.ones(2)
    surrogate = Surrogate(observations, candidate, variance, follow(observations, candidate))
    wave = Dictionary(np.zeros((1, 2), int), [Kind.SIN], [0], [1.3])
    (columns,) = surrogate.columns(wave, Dictionary([[0, 0], [0, 1]]))

    extended = dictionary + wave + Dictionary([[0, 1]], [Kind.SIN], [0], [1.3])
    base = np.concatenate([coefficients, np.zeros((2, 2))])
    eps = 1e-5

    def path(change, start):
        return rollout(extended, (base + change)[None], start[None], observations.t, 0.02)[0]

    def moved(change, start):
        """Weighted central difference of the paths, one vector for each piece."""
        up, down = path(change, candidate.start + start), path(-change, candidate.start - start)
        rows = []
        for k, (t, _) in enumerate(observations.samples):
            root = np.sqrt(observations.weights[k][: len(t)])
            rows.append((root * (up - down)[k, : len(t)]).reshape(-1) / (2 * eps))
        return rows

    starts = []
    for k in range(2):
        shifts = np.zeros((2, 2, 2))
        shifts[range(2), k, range(2)] = eps
        q, _ = np.linalg.qr(np.stack([moved(0 * base, shift)[k] for shift in shifts], axis=1))
        starts.append(q)
    for place, (i, m) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        change = np.zeros_like(base)
        change[10 + m, i] = eps
        pairs = zip(moved(change, 0 * candidate.start), starts, strict=True)
        expected = np.concatenate([rows - q @ (q.T @ rows) for rows, q in pairs])
        np.testing.assert_allclose(columns[:, place], expected, atol=3e-4 * np.abs(expected).max())


def test_a_pole_on_the_path_is_left_out():
    observations = observe([orbit(van_der_pol, [0.5, 0.5], 8.0, 80)])
    integrals = Integrals(observations, smooth(observations), np.ones(2), 1)
    logarithm = Dictionary(np.zeros((2, 2), int), [Kind.LOG, Kind.SIN], [0, 0], [1.0, 1.0])
    for columns in integrals.columns(logarithm, NONE):
        assert not columns[:, 0].any()
        assert columns[:, 1].any()


# ---------------------------------------------------------------------- candidates with numbers inside


def field_of(observations, item):
    units = observations.scale, observations.time_unit
    terms, coefficients = item.dictionary.rescaled(item.coefficients, *units)
    return lambda x: terms.evaluate(x) @ coefficients


def saturating(observations, half=0.7):
    """The predator-prey structure with a wrong number inside."""
    terms = Dictionary(
        [[1, 0], [2, 0], [0, 1], [0, 1], [1, 1]], [0, 0, 0, Kind.HILL, 0], [0, 0, 0, 0, 0], [1, 1, 1, half, 1]
    )
    coefficients = np.array([[1.5, 0], [-0.5, 0], [0, -1.5], [-1.5, 2.0], [0, 0]])
    start = Candidate(coefficients, observations.start, terms, Origin(Stage.GIVEN))
    return start.in_use([(3, 0, 5)])


def test_numbers_are_fitted_with_the_coefficients():
    observations = observe([orbit(predator_prey, [2.5, 0.3], 15.0, 120)])
    guess = saturating(observations)
    assert len(guess.dictionary) == 4  # the term out of use is gone
    assert guess.labels == (5,)
    fitted, fit = refine(observations, guess, observations.path)
    scale = observations.scale
    assert fitted.numbers[0] == pytest.approx(scale[0], rel=1e-3)
    assert len(fit.parameters) == 6
    assert len(fitted.labels) == 1
    (judged,) = judge(observations, [fitted])
    fixed = fitted.fixed(0, scale[0])
    assert not fixed.labels
    (given,) = judge(observations, [fixed])
    # one parameter less, the same misfit
    assert judged.score - given.score == pytest.approx(math.log(2 * observations.n), abs=1.0)
    x = RNG.uniform(0.3, 2.0, size=(5, 2))
    np.testing.assert_allclose(field_of(observations, fitted)(x), predator_prey(x), rtol=5e-3, atol=5e-3)


def test_parameters_survive_a_round_trip():
    observations = observe([orbit(predator_prey, [2.5, 0.3], 15.0, 60)])
    guess = saturating(observations)
    moved = guess.with_parameters(guess.parameters * 1.1)
    np.testing.assert_allclose(moved.parameters, guess.parameters * 1.1)
    assert moved.structure == guess.structure
    assert guess.fixed(0, 1.0).structure != guess.structure


def test_structures_tell_given_and_shared_numbers():
    def item(kind, inner, second, free=()):
        terms = Dictionary([[0, 0]] * 2, [kind] * 2, [0, 1], [inner, inner], [second, second])
        return Candidate(np.eye(2), np.zeros((1, 2)), terms, Origin(Stage.GIVEN)).in_use(free)

    two, four, inverse, square = (
        item(kind, 1.0, shape).structure
        for kind, shape in ((Kind.SATURATION, 2), (Kind.SATURATION, 4), (Kind.POWER, -1), (Kind.POWER, -2))
    )
    assert len({two, four, inverse, square}) == 4
    assert item(Kind.SIN, 1.0, 0.0).structure != item(Kind.SIN, 2.0, 0.0).structure
    frequencies = item(Kind.SIN, 1.0, 0.0, [(0, 0, 0), (1, 0, 1)])
    assert frequencies.structure != item(Kind.SIN, 1.0, 0.0, [(0, 0, 0), (1, 0, 0)]).structure
    assert frequencies.structure == item(Kind.SIN, 3.0, 0.0, [(0, 0, 7), (1, 0, 4)]).structure
    assert two == item(Kind.SATURATION, 1.0, 2.0 + 1e-15).structure


# ---------------------------------------------------------------------- families and the search


def test_units_say_which_states_are_angles():
    data = Trajectories.from_arrays(
        np.zeros((3, 4)), [0.0, 1.0, 2.0], units={"x0": "rad", "x1": "m", "x2": "deg"}
    )
    radians = radians_per_unit(data)
    np.testing.assert_array_equal(radians, [1.0, np.nan, np.pi / 180.0, 1.0])
    every, some = (
        {Origin(Stage.FUNCTIONS, starts[0].name).text() for starts in families(angle)}
        for angle in (np.ones(4), radians)
    )
    assert every - some == {
        "angle x1",
        "double angle x1",
        "difference of angles x0, x1",
        "difference of angles x1, x2",
        "difference of angles x1, x3",
        "sine of each",
        "differences of all angles",
    }


def test_families_cover_every_coordinate_once():
    names = [starts[0].name for starts in families(np.array([1.0, 2.0, 3.0]))]
    assert len(set(names)) == len(names)
    for c in range(3):
        assert {f"{name} {named(c)}" for name in ("angle", "saturation", "negative power", "sigmoid")} <= set(
            names
        )
    assert "differences of all angles" in names
    assert len({starts[0].name for starts in families(np.ones(1))}) == 17


def test_bundles_take_their_numbers_and_join():
    first, second = (
        next(s for s in families(np.ones(2)) if s[0].name == name)[0]
        for name in (f"wave {named(0)}", f"sigmoid {named(1)}")
    )
    both = (first + second).at([1.1, 2.2, 3.3])
    np.testing.assert_allclose(both.numbers, [1.1, 2.2, 3.3])
    terms = both.dictionary(2)
    np.testing.assert_allclose(terms.inner, [1.1, 1.1, 2.2])
    np.testing.assert_allclose(terms.second, [0.0, 0.0, 3.3])


def found_by_search(data, effort=QUICK):
    search = Search.polynomial(data, 3)
    known = Row(POLYNOMIALS, Effort(2)).search(Pool(search, whole=True)).candidates
    return search.observations, known[0], grow_functions(search, known[0], effort)


def test_saturation_is_found_under_noise():
    observations, known, found = found_by_search([orbit(predator_prey, [2.5, 0.3], 20.0, 200, 0.02)])
    assert found[0].score < known.score - 10.0
    x = RNG.uniform(0.3, 2.5, size=(50, 2))
    field = field_of(observations, found[0])
    error = np.abs(field(x) - predator_prey(x)).mean() / np.abs(predator_prey(x)).mean()
    assert error < 0.1


def test_whole_exponents_are_found_and_rounded():
    observations, _, found = found_by_search([orbit(kepler, [1.5, 0.0], 20.0, 150)], FULL)
    best = min(found, key=lambda item: item.score)
    powers = best.dictionary.kind == Kind.POWER
    assert set(best.dictionary.second[powers]) == {-3.0, -2.0}
    assert not best.labels
    x = np.column_stack([RNG.uniform(0.6, 3.0, 20), RNG.normal(size=20)])
    np.testing.assert_allclose(field_of(observations, best)(x), kepler(x), rtol=1e-3, atol=1e-3)


def test_a_polynomial_needs_no_functions():
    _, known, found = found_by_search([orbit(van_der_pol, [0.5, 0.5], 12.0, 120, 0.02)])
    assert known.score < min(item.score for item in found)
