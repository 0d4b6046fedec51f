"""One order of states and trajectories, and the way back."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fim_dynsys
from fim_dynsys.errors import DataWarning
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.terms import Dictionary, reordered
from fim_dynsys.models.ordering import CanonicalOrder
from fim_dynsys.search.origins import Origin, Stage, named
from fim_dynsys.trajectories.container import Trajectories


def lists(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, 3)) for n in (20, 12, 20)], [np.arange(float(n)) for n in (20, 12, 20)]


def given(trajectories, states):
    x, t = lists()
    names = [f"s{i}" for i in states]
    return Trajectories.from_arrays(
        [x[k][:, states] for k in trajectories], [t[k] for k in trajectories], names
    )


ORDERS = [([0, 1, 2], [0, 1, 2]), ([2, 0, 1], [2, 0, 1]), ([1, 2, 0], [1, 0, 2])]


@pytest.mark.parametrize(("trajectories", "states"), ORDERS)
def test_the_order_is_that_of_the_data(trajectories, states):
    first, other = (
        CanonicalOrder.of(given(*ORDERS[0])).trajectories,
        CanonicalOrder.of(given(trajectories, states)),
    )
    assert other.trajectories.equals(first)
    assert [trajectories[k] for k in other.numbers] == list(CanonicalOrder.of(given(*ORDERS[0])).numbers)


def sample_field(context, dim=3):
    terms = Dictionary.polynomial(dim, 2) + Dictionary(
        [[0, 1, 0], [1, 0, 0]], [Kind.SIN, Kind.TANH], [0, 1], [2.0, 1.5], [0.5, 0.1], [2, -1]
    )
    values = np.random.default_rng(3).normal(size=(len(terms), dim))
    starts = np.arange(3.0 * len(context)).reshape(len(context), 3)
    return DictionaryField(terms, values, context=context, fit_info=FitInfo(starts, np.arange(3.0)))


@pytest.mark.parametrize(("trajectories", "states"), ORDERS)
def test_a_field_found_there_is_the_same_field_here(trajectories, states):
    context = given(trajectories, states)
    order = CanonicalOrder.of(context)
    found = sample_field(order.trajectories)
    field = order.field(found, context)
    points = np.random.default_rng(1).normal(size=(5, 3))
    np.testing.assert_allclose(field(points)[:, order.states], found(points[:, order.states]), rtol=1e-13)
    info = field.fit_info
    assert np.array_equal(info.initial_states[order.numbers][:, order.states], found.fit_info.initial_states)
    assert np.array_equal(info.noise_level[order.states], found.fit_info.noise_level)
    monomials = field.dictionary.subset(field.dictionary.kind == 0)
    assert monomials == Dictionary.polynomial(3, 2)
    (sine,) = [k for k in range(len(field.dictionary)) if field.dictionary.kind[k] == Kind.SIN]
    assert order.free(found.dictionary, [(10, 1, 0)]) == [[sine, 1, 0]]
    first = order.states[0]
    origin = Origin(Stage.FUNCTIONS, f"wave {named(0)}, Hill 2 {named(1)}")
    assert origin.text(order.coordinates) == f"wave x{first}, Hill 2 x{order.states[1]}"


def test_terms_of_reordered_states_are_named_as_they_were():
    dictionary, rows = reordered(Dictionary.polynomial(2, 2), np.array([1, 0]))
    assert dictionary == Dictionary.polynomial(2, 2)
    assert [Dictionary.polynomial(2, 2).names()[k] for k in rows] == [
        "1",
        "x1",
        "x0",
        "x1^2",
        "x0 x1",
        "x0^2",
    ]


def test_starts_are_not_known_where_trajectories_were_left_out():
    context = given(*ORDERS[1])
    order = CanonicalOrder.of(context[[0, 2]])
    assert order.field(sample_field(order.trajectories), context).fit_info.initial_states is None


@pytest.mark.parametrize("name", ["fim-ode", "sindy-strong"])
def test_a_model_answers_alike_to_the_last_digit(name):
    t = np.linspace(0.0, 9.0, 50)
    rng = np.random.default_rng(2)
    x = [np.stack([a * np.cos(t), -a * np.sin(t)], 1) * (1 + 0.03 * rng.normal(size=(50, 2))) for a in (1, 2)]
    model, at = fim_dynsys.load(name), np.array([[0.3, -0.8], [1.2, 0.1]])
    field = model.infer(Trajectories.from_arrays(x, [t, t]))
    other = model.infer(Trajectories.from_arrays([v[:, ::-1] * [1e-2, 1e3] for v in x[::-1]], 60 * t + 512))
    same = other((at * [1e3, 1e-2])[:, ::-1])[:, ::-1] * 60 / [1e3, 1e-2]
    np.testing.assert_allclose(same, field(at), rtol=1e-12)
    assert other.fit_info.report == pytest.approx(field.fit_info.report)


def with_a_still_state(noise):
    """Lotka and Volterra's populations, and a thermostat between them."""
    t = np.linspace(0.0, 15.0, 150)
    x = solve_ivp(
        lambda _, x: [x[0] - 0.5 * x[0] * x[1], -0.8 * x[1] + 0.3 * x[0] * x[1]],
        (0, 15),
        [3.0, 1.0],
        t_eval=t,
        rtol=1e-9,
        atol=1e-9,
    ).y.T
    x = x + noise * x.std(axis=0) * np.random.default_rng(1).normal(size=x.shape)
    return np.insert(x, 1, 25.0, axis=1), t


@pytest.mark.parametrize("noise", [0.0, 0.03])
@pytest.mark.parametrize("name", ["fim-ode", "auto", "sindy-strong", "symbolic"])
def test_a_state_that_never_changes_leaves_the_equations_of_others_as_they_are(name, noise):
    x, t = with_a_still_state(noise)
    names = ["prey", "thermostat", "predators"]
    with pytest.warns(DataWarning, match="how the field depends on it.$"):
        model = fim_dynsys.load(name).fit(x, t, feature_names=names)
    alone = fim_dynsys.load(name).fit(x[:, ::2], t, feature_names=names[::2])
    assert model.equations() == [alone.equations()[0], "0", alone.equations()[1]]
    assert (
        "left out of all equations, as they never change: thermostat" in model.field_.fit_info.inference.notes
    )
    assert model.field_.fit_info.noise_level[1] == 0.0
    members = model.ensemble(3)
    assert all((member(x)[:, 1] == 0.0).all() and member.equations()[1] == "0" for member in members)


@pytest.mark.parametrize("given", ["rates", "inputs", "few samples", "missing"])
def test_still_states_are_left_out_whatever_else_is_given(given):
    x, t = with_a_still_state(0.02)
    options = {}
    if given == "rates":
        rates = np.stack([x[:, 0] - 0.5 * x[:, 0] * x[:, 2], -0.8 * x[:, 2] + 0.3 * x[:, 0] * x[:, 2]])
        rates += 0.05 * np.random.default_rng(2).normal(size=rates.shape)
        options = {"x_dot": np.insert(rates.T, 1, 0.0, axis=1)}
    elif given == "inputs":
        options = {"u": np.sin(t)}
    elif given == "few samples":
        x, t = x[:7], t[:7]
    else:
        x[5, 1] = x[9, 0] = np.nan
    with pytest.warns(DataWarning, match="constant over all observations: x1"):
        model = fim_dynsys.load("fim-ode").fit(x, t, **options)
    assert model.equations()[1] == "0" and "x1" not in "".join(model.equations())
    if given != "few samples":
        assert [equation.count("x") for equation in model.equations()] == [3, 0, 3]


def test_contexts_with_and_without_still_states_are_inferred_together():
    x, t = with_a_still_state(0.02)
    contexts = [Trajectories.from_arrays(own, t) for own in (x, np.insert(x[:, ::2], 1, x[:, 2], axis=1))]
    model = fim_dynsys.load("fim-ode")
    together = model.infer_many(contexts)
    assert [field.equations() for field in together] == [model.infer(c).equations() for c in contexts]


def test_where_no_state_changes_all_are_kept():
    still = Trajectories.from_arrays(np.full((9, 2), 3.0), np.arange(9.0))
    assert CanonicalOrder.of(still, changing=True).states.tolist() == [0, 1]
