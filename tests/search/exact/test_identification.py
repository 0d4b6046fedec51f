"""Laws of clean data: what is read off neighbouring samples, fitted to the digits, and preferred."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from fim_dynsys import CallableField, Trajectories, simulate
from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.precise import Precise, resolution
from fim_dynsys.regression.refinement import parameter_roots
from fim_dynsys.search.exact import regressed
from fim_dynsys.search.exact.identification import ExactSearch
from fim_dynsys.search.exact.models import fitted, from_sample_to_sample, ranked, with_constants
from fim_dynsys.search.exact.structures import newton, starts, subsets
from fim_dynsys.search.problem import Search


def lotka_volterra(rtol=1e-11, n=200):
    field = CallableField(
        lambda x: np.stack(
            [1.1 * x[:, 0] - 0.4 * x[:, 0] * x[:, 1], 0.1 * x[:, 0] * x[:, 1] - 0.4 * x[:, 1]], 1
        ),
        2,
    )
    t = np.linspace(0.0, 30.0, n)
    return t, simulate(field, [10.0, 5.0], t, rtol=rtol, atol=1e-3 * rtol).x[0]


def identified(t, x, functions=0):
    search = Search.polynomial([(t, x)])
    found = ExactSearch(search, [(t, x)])
    found.run(functions)
    return search, found


def test_rounding_is_read_off_the_digits():
    x = lotka_volterra()[1]
    assert (resolution([(None, x)]) == 0.0).all()
    single = resolution([(None, x.astype(np.float32).astype(float))])
    assert (single > 0.0).all() and (single < 1e-7 * np.sqrt(np.mean(x**2, axis=0))).all()
    np.testing.assert_allclose(resolution([(None, np.round(x, 3))]), 1e-3 / np.sqrt(12.0))


def test_newton_finds_all_coefficients_from_neighbours():
    t, x = lotka_volterra()
    search = Search.polynomial([(t, x)])
    precise = Precise.of(search.observations, resolution([(t, x)]))
    dense, left = newton(precise, next(starts(search)))
    assert left < 1e-9
    structures = [item.support.sum() for item in subsets(precise, dense)]
    assert 4 in structures


def test_a_fit_follows_the_samples_to_their_digits():
    t, x = lotka_volterra()
    search, found = identified(t, x)
    best = found.models[0]
    assert found.settled and best.is_exact and best.parameters == 4 and best.misses < 1e-9
    unit = search.observations.time_unit
    np.testing.assert_allclose(best.item.coefficients.max(axis=0)[0] / unit, 1.1, rtol=1e-8)
    again = fitted(Precise.of(search.observations, resolution([(t, x)])), best.item)
    np.testing.assert_allclose(again.item.parameters, best.item.parameters, rtol=1e-8)


def _terms(model):
    names = model.item.dictionary.names()
    return [
        {name for name, c in zip(names, column, strict=True) if c} for column in model.item.coefficients.T
    ]


@pytest.mark.parametrize(
    "rates, x0, t_end, terms",
    [
        # all monomials at once are found to .01 of the signal only
        (
            lambda t, x: [-1.4 * x[0] * x[1] ** 2, -1.44 * x[1] - 1.49 * x[1] ** 3],
            [1.22, -1.93],
            9.95,
            [{"x0 x1^2"}, {"x1", "x1^3"}],
        ),
        (
            lambda t, x: [-3.61 * x[1] - 1.36 * x[1] ** 2, -4.99 * x[1], 1.13 * x[1] * x[2]],
            [1.55, -0.37, -1.05],
            9.95,
            [{"x1", "x1^2"}, {"x1"}, {"x1 x2"}],
        ),
        # polynomials of higher degree, shorter than cubes that do as well
        (lambda t, x: [1.0 - 0.8 * x[0] ** 4], [0.3], 4.0, [{"1", "x0^4"}]),
        (lambda t, x: [1.0 - 0.8 * x[0] ** 4], [2.0], 4.0, [{"1", "x0^4"}]),
    ],
)
def test_a_law_behind_the_errors_of_a_simulation_is_found(rates, x0, t_end, terms):
    t = np.linspace(0.0, t_end, 200)
    x = solve_ivp(rates, (0.0, t_end), x0, method="LSODA", rtol=1e-5, atol=1e-7, t_eval=t).y.T
    _, found = identified(t, x, functions=5)
    assert 1e-7 < found.models[0].misses < 1e-4
    assert _terms(found.models[0]) == terms


VAN_DER_POL = {"x0": {"x1": 1.0}, "x1": {"x0": -1.0, "x1": 1.0, "x0^2 x1": -1.0}}


def van_der_pol(method, rtol):
    t = np.linspace(0.0, 20.0, 200)
    args = {"method": method, "rtol": rtol, "atol": 1e-2 * rtol, "t_eval": t}
    return t, solve_ivp(
        lambda t, x: [x[1], (1 - x[0] ** 2) * x[1] - x[0]], (0.0, 20.0), [1.0, 0.5], **args
    ).y.T


def _errors(search, model):
    """Of Van der Pol's coefficients, and what the fit states of them, in the units of the samples."""
    observations, item = search.observations, model.item
    scale, unit, truth = observations.scale, observations.time_unit, list(VAN_DER_POL.values())
    terms, coefficients = item.dictionary.rescaled(item.coefficients, scale, unit)
    names = terms.names()
    rows, states = np.nonzero(item.support)
    wrong = np.array([coefficients[r, s] - truth[s][names[r]] for r, s in zip(rows, states, strict=True)])
    per_unit = coefficients[rows, states] / item.coefficients[rows, states]
    roots = parameter_roots(model.calibrated_fit, observations.n * observations.dim)
    return wrong, np.linalg.norm(roots, axis=0) * np.abs(per_unit)


def test_numbers_of_what_was_simulated_are_fitted_from_sample_to_sample():
    ratios = []
    for method, rtol in (("LSODA", 1e-5), ("LSODA", 1e-6), ("LSODA", 1e-7), ("RK45", 1e-4), ("DOP853", 1e-4)):
        search, found = identified(*van_der_pol(method, rtol))
        before, after = found.models[0], found.answers[0]
        assert after.gaps is not None and after.item.structure == before.item.structure
        (wrong, _), (less, stated) = _errors(search, before), _errors(search, after)
        ratios.append(np.linalg.norm(less) / np.linalg.norm(wrong))
        assert (np.abs(less) < 3.0 * stated).all()
    assert np.exp(np.mean(np.log(ratios))) < 0.5 and max(ratios) < 1.1


def test_numbers_of_noisy_samples_are_fitted_to_paths():
    t, x = van_der_pol("LSODA", 1e-11)
    noisy = x + 1e-3 * np.random.default_rng(0).normal(size=x.shape)
    search, found = identified(t, noisy)
    model = found.models[0]
    assert model.misses < 2e-3 and from_sample_to_sample(found._precise, model) is model
    assert _errors(search, found.answers[0])[0] == pytest.approx(_errors(search, model)[0], abs=0.0)


def test_exact_laws_stay_as_they_are():
    _, found = identified(*lotka_volterra())
    assert found.answers[0].gaps is None


@pytest.mark.parametrize("rtol", [1e-6, 1e-8])
def test_errors_of_a_simulation_are_not_taken_for_terms(rtol):
    t, x = lotka_volterra(rtol)
    _, found = identified(t, x, functions=5)
    assert found.models[0].parameters == 4


@pytest.mark.parametrize("rtol", [1e-7, 1e-9])
def test_few_terms_of_a_high_degree_need_not_be_exact(rtol):
    def bautin(x):
        square = (x**2).sum(axis=1, keepdims=True)
        return x * (-0.1 + square - square**2) + 1.5 * np.stack([-x[:, 1], x[:, 0]], 1)

    t = np.linspace(0.0, 20.0, 200)
    x = simulate(CallableField(bautin, 2), [0.3, 0.0], t, rtol=rtol, atol=1e-3 * rtol).x[0]
    _, found = identified(t, x)
    assert found.models[0].parameters == 14 and found.models[0].item.dictionary.degree == 5


def test_of_a_high_degree_most_terms_follow_anything():
    t = np.linspace(0.0, 6.0, 200)
    field = CallableField(lambda x: 0.2 * np.exp(x / (1.0 + 0.2 * x)) - x, 1)
    x = simulate(field, [0.0], t, rtol=1e-9).x[0]
    _, found = identified(t, x)
    assert found.models and all(model.item.dictionary.degree <= 3 for model in found.models)


def test_rounded_samples_give_the_same_terms():
    t, x = lotka_volterra()
    _, found = identified(t, np.round(x, 4))
    assert found.models[0].parameters == 4 and found.models[0].misses < 1e-3


def test_noisy_samples_have_no_laws():
    t, x = lotka_volterra()
    noisy = x * (1.0 + 0.03 * np.random.default_rng(0).normal(size=x.shape))
    _, found = identified(t, noisy)
    assert found.models == [] and not found.settled
    assert ranked([]) == []


@pytest.mark.parametrize(("noise", "seed"), [(1e-4, 1), (3e-4, 0)])
def test_equations_of_several_laws_are_put_together(noise, seed):
    rates = np.array([[1.0, 0.6, 1.3], [1.3, 1.0, 0.6], [0.6, 1.3, 1.0]])
    field = CallableField(lambda x: x * (1.0 - x @ rates.T), 3)  # May and Leonard
    t = np.linspace(0.0, 60.0, 200)
    x = simulate(field, [0.2, 0.3, 0.8], t, rtol=1e-9).x[0]
    x = x * (1.0 + noise * np.random.default_rng(seed).normal(size=x.shape))
    _, found = identified(t, x, functions=16)
    best = found.models[0].item
    assert best.parameters.shape == (12,) and best.dictionary.degree == 2 and not best.n_functions


def test_functions_that_hardly_vary_are_constants():
    t, x = lotka_volterra()
    search, found = identified(t, x)
    model = found.models[0]
    d, coefficients = model.item.dictionary, model.item.coefficients
    kind, inner, coordinate = np.zeros(len(d), int), np.ones(len(d)), np.zeros(len(d), int)
    first, second = np.flatnonzero(coefficients[:, 0])[0], np.flatnonzero(coefficients[:, 1])[0]
    kind[first], inner[first] = Kind.TANH, 1e3
    kind[second], inner[second], coordinate[second] = Kind.SIN, 2.5, 1
    terms = Dictionary(d.exponents, kind, coordinate, inner)
    item = replace(model.item, dictionary=terms).in_use([(int(first), 0, 0), (int(second), 0, 1)])
    odd = fitted(Precise.of(search.observations, resolution([(t, x)])), item)
    (plain,) = with_constants(odd)  # the sine varies, and stays as it is
    assert odd.item.n_functions == 2 and plain.n_functions == 1 and len(plain.free) == 1
    (sine,) = np.flatnonzero(plain.dictionary.kind)
    before = odd.item.dictionary
    (same,) = np.flatnonzero(before.kind == Kind.SIN)
    for name in ("coordinate", "inner", "second", "partner"):
        assert getattr(plain.dictionary, name)[sine] == getattr(before, name)[same]
    assert list(with_constants(model)) == []


def test_several_trajectories_are_one_regression():
    t, x = lotka_volterra()
    pieces = [(t[:60], x[:60]), (t[100:180] - t[100], x[100:180])]
    search = Search.polynomial(pieces)
    found = ExactSearch(search, pieces)
    found.run(0)
    assert found.models[0].parameters == 4 and found.models[0].is_exact
    assert found.models[0].item.start.shape == (2, 2)


LAWS = {  # field, start, span, terms of the last equation as (power, coefficient) of the first state
    "attraction at a distance": (
        lambda x: np.stack([x[:, 1], x[:, 0] ** -3 - x[:, 0] ** -2], 1),
        [1.0, 0.6],
        20.0,
        {-3.0: 1.0, -2.0: -1.0},
    ),
    "outflow of a cone": (
        lambda x: (1.2 - np.sqrt(x)) / (1.4 * x**2),
        [2.3],
        15.0,
        {-2.0: 1.2 / 1.4, -1.5: -1.0 / 1.4},
    ),
}


@pytest.mark.parametrize("name", LAWS)
def test_inverse_and_half_powers(name):
    rhs, start, span, terms = LAWS[name]
    t = np.linspace(0.0, span, 200)
    field = CallableField(rhs, len(start))
    x = simulate(field, start, t, rtol=1e-10, atol=1e-12).x[0]
    search, found = identified(t, x, functions=16)
    best = found.models[0].item
    model = best.field(search.observations, Trajectories.from_arrays(x, t), {})
    last = model.coefficients[:, -1]
    power = model.dictionary.second + model.dictionary.exponents[:, 0]
    size = np.abs(model.dictionary.inner) ** model.dictionary.second
    seen = {float(p): c for p, c in zip(power, last * size, strict=True) if c}
    assert seen == pytest.approx(terms, rel=1e-4)
    assert not model.dictionary.exponents[model.dictionary.kind > 0].any()  # x^-2, not x times x^-3


def test_a_number_is_found_where_many_terms_do_alike():
    """On a short orbit of one state, from no start near it: all subsets of few terms are tried."""
    field = CallableField(lambda x: x * (1.0 - x / 4.0) - (1.0 - np.exp(-1.4 * x)), 1)
    t = np.linspace(0.0, 14.0, 200)
    x = simulate(field, [4.2], t, rtol=1e-10, atol=1e-12).x[0]
    search, found = identified(t, x, functions=16)
    best = found.models[0].item
    model = best.field(search.observations, Trajectories.from_arrays(x, t), {})
    away = np.linspace(0.0, 4.5, 10)[:, None]
    np.testing.assert_allclose(model(away), field(away), atol=1e-4)
    assert found.models[0].parameters == 5


def bloom(n=100):
    """Plankton that grazers take by Holling's third law: three records at uneven times."""

    def rates(_, x):
        taken = 0.7 * x[1] * x[0] ** 2 / (15.0**2 + x[0] ** 2)
        return [0.3 * x[0] * (1.0 - x[0] / 108.0) - taken, 0.15 * taken - 0.05 * x[1]]

    rng, samples = np.random.default_rng(3), []
    for start in ([20.0, 3.0], [45.0, 8.0], [12.0, 6.0]):
        t = np.r_[0.0, np.sort(rng.uniform(0.0, 90.0, n - 1))]
        samples.append((t, solve_ivp(rates, (0.0, 90.0), start, "DOP853", t, rtol=1e-11, atol=1e-11).y.T))
    return samples


def test_functions_of_sums_are_not_sought_where_shorter_ones_are_exact(monkeypatch):
    samples = bloom()
    sought = []
    monkeypatch.setattr(regressed, "sums", lambda _, states, *rest: sought.append(states) or {})
    found = ExactSearch(Search.polynomial(samples), samples)
    found.run(4)
    best = found.models[0]
    assert not any(sought) and best.is_exact
    # a term less than the sum of a monomial and the complement that cancels it
    assert best.parameters <= 7 and (best.item.support.sum(axis=0) <= (3, 2)).all()
