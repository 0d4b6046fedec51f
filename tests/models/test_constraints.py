"""Every model that takes knowledge honours it: its field, its members, its other candidates."""

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import Knowledge, SymbolicField, simulate
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.inference import Trust
from fim_dynsys.models.constraints_applied import contradictions
from fim_dynsys.trajectories.container import Trajectories

pytestmark = pytest.mark.filterwarnings("ignore::fim_dynsys.errors.FitWarning")
X = np.random.default_rng(1).normal(size=(20, 2))
MODELS = {
    "sindy-strong": {"refined": 1},
    "symbolic": {"effort": "quick"},
    "auto": {"effort": "fast"},
    "fim-ode": {},
    "operator": {"refine": False},
}


def load(name, knowledge):
    return fim_dynsys.load("fim-ode" if name == "operator" else name, knowledge=knowledge, **MODELS[name])


def pendulum(noise=0.05):
    field = CallableField(lambda x: np.stack([x[:, 1], -np.sin(x[:, 0]) - 0.1 * x[:, 1]], axis=1), 2)
    x = simulate(field, [2.0, 0.0], np.linspace(0.0, 12.0, 120)).x[0]
    x = x + noise * x.std(axis=0) * np.random.default_rng(0).normal(size=x.shape)
    return Trajectories.from_arrays(x, np.linspace(0.0, 12.0, 120), state_names=["x", "v"])


@pytest.fixture(scope="module")
def data():
    return pendulum()


@pytest.mark.parametrize("name", MODELS)
def test_a_known_equation_is_exact_in_every_model(name, data):
    model = load(name, Knowledge(known={"x": "v"})).fit(data)
    np.testing.assert_array_equal(model.field_(X)[:, 0], X[:, 1])
    members = model.ensemble(2, seed=0)
    for member in members:
        np.testing.assert_allclose(member(X)[:, 0], X[:, 1], atol=1e-12)
    spread = np.ptp([member(X)[:, 1] for member in members], axis=0)
    assert spread.max() > 0


@pytest.mark.parametrize("name", MODELS)
def test_a_conserved_quantity_is_conserved_by_every_model(name, data):
    field = load(name, Knowledge(conserved=["x**2 + 2*v**2"])).fit(data).field_
    rates = field(X)
    slope = 2.0 * X[:, 0] * rates[:, 0] + 4.0 * X[:, 1] * rates[:, 1]
    assert np.abs(slope).max() < 1e-10 * np.abs(rates).max() and rates.any()


@pytest.mark.parametrize("name", ["symbolic", "auto"])
def test_functions_are_found_beside_what_is_known(name, data):
    fact = Knowledge(known={"x": "v"}, forbid={"v": ["x*v", "x^3"]}, bounds={"v": {"v": (-0.09, 0.0)}})
    field = load(name, fact).fit(data).field_
    names = field.dictionary.names(["x", "v"])
    own = dict(zip(names, field.coefficients[:, 1], strict=True))
    assert any("sin(" in term for term, value in own.items() if value), field.equations()
    assert not own.get("x v") and not own.get("x^3") and -0.09 <= own["v"] <= 0.0


def test_a_state_that_is_forbidden_is_not_in_functions_either():
    t = np.linspace(0.0, 10.0, 150)
    x = np.stack([np.cos(t), np.sin(t)], axis=1) + 0.02 * np.random.default_rng(0).normal(size=(150, 2))
    model = load("symbolic", Knowledge(forbid={"x0": ["x0"]})).fit(x, t)
    fields = [model.field_, *load("auto", Knowledge(forbid={"x0": ["x0"]})).candidates(model.context_)]
    assert len(fields) > 5
    moved = X.copy()
    moved[:, 0] += 1.0
    for field in fields:
        first, other = field(X)[:, 0], field(moved)[:, 0]
        np.testing.assert_array_equal(first, other)


def test_clean_data_and_several_trajectories_honour_what_is_known():
    """Laws of clean data and fields without an equation do not know it: neither answers."""
    field = CallableField(lambda x: np.stack([x[:, 1], -(x[:, 0] ** 3)], axis=1), 2)
    found = simulate(field, [[1.0, 0.0], [0.5, 0.5], [0.2, -1.0]], np.linspace(0.0, 6.0, 80))
    clean = Trajectories.from_arrays(list(found.x), list(found.t), state_names=["x", "v"])
    wrong = Knowledge(known={"x": "2*v"})
    field = load("auto", wrong).fit(clean).field_
    np.testing.assert_array_equal(field(X)[:, 0], 2.0 * X[:, 1])


def test_what_a_model_cannot_honour_is_an_error(data):
    with pytest.raises(ValueError, match=r"expected knowledge of states .* beside expressions, got known"):
        fim_dynsys.load("symbolic", expressions=["x1", "-a*x0"], knowledge=Knowledge(known={"x": "v"})).fit(
            data
        )
    with pytest.raises(ValueError, match="degree 3 at most"):
        load("fim-ode", Knowledge(known={"x": "v^5"})).fit(data)
    with pytest.raises(ValueError, match="Knowledge"):
        load("auto", "x' = v").fit(data)


def test_the_operator_moves_its_coefficients_no_further_than_it_has_to(data):
    """Projections do not move what satisfies the facts, and repeat themselves."""
    free = fim_dynsys.load("fim-ode", refine=False).fit(data).field_
    place = free.dictionary.names(["x", "v"]).index("v")
    same = Knowledge(known={"x": f"{float(free.coefficients[place, 0])!r}*v + ..."})
    again = load("operator", same).fit(data).field_
    np.testing.assert_allclose(again.coefficients, free.coefficients, rtol=1e-6, atol=1e-9)


def infection(seed=0):
    """s + i stays as it is, and infection saturates."""
    field = CallableField(
        lambda z: (
            np.outer(1.2 * z[:, 0] * z[:, 1] / (1 + 0.8 * z[:, 0]) - 0.3 * z[:, 1], [1.0, 1.0]) * [-1, 1]
        ),
        2,
    )
    t = np.linspace(0.0, 15.0, 120)
    x = simulate(field, [[3.0, 0.1], [0.5, 2.5], [5.0, 0.3]], t).x
    x = x + 0.02 * x.std(axis=(0, 1)) * np.random.default_rng(seed).normal(size=x.shape)
    return field, Trajectories.from_arrays(list(x), [t] * 3, state_names=["s", "i"])


@pytest.mark.parametrize(
    ("facts", "seed"),
    [
        ({"conserved": ["s + i"]}, 0),
        ({"conserved": ["s + i"], "nonnegative": ["s", "i"]}, 1),  # where facts leave nothing of some guesses
    ],
)
def test_functions_conserve_what_is_conserved(facts, seed):
    truth, data = infection(seed)
    field = fim_dynsys.load("symbolic", knowledge=Knowledge(**facts)).fit(data).field_
    x = np.abs(X) * 2.0
    rates = field(x)
    assert np.abs(rates.sum(axis=1)).max() < 1e-12 * np.abs(rates).max()
    seen = np.concatenate([own for _, own in data.arrays()])
    assert np.linalg.norm(field(seen) - truth(seen)) < 0.05 * np.linalg.norm(truth(seen))
    assert not field.dictionary.is_polynomial
    # the law itself, which holds where nothing was seen: 1.2 s/(1 + 0.8 s) = 1.5 (1 - 1/(1 + 0.8 s))
    assert np.linalg.norm(rates - truth(x)) < 0.01 * np.linalg.norm(truth(x))


def test_functions_keep_what_is_not_negative():
    _, data = infection()
    for member in [
        (model := load("auto", Knowledge(nonnegative=["s", "i"])).fit(data)).field_,
        *model.ensemble(2),
    ]:
        assert (member(np.abs(X) * [0.0, 1.0])[:, 0] >= -1e-12).all()
        assert (member(np.abs(X) * [1.0, 0.0])[:, 1] >= -1e-12).all()


@pytest.fixture(scope="module")
def driven():
    t = np.linspace(0.0, 20.0, 160)
    u = np.sin(1.3 * t) + 0.5 * np.cos(0.4 * t)
    field = CallableField(
        lambda z: np.stack(
            [
                z[:, 1],
                -z[:, 0] - 0.3 * z[:, 1] + np.sin(1.3 * z[:, 2]) + 0.5 * np.cos(0.4 * z[:, 2]),
                np.ones(len(z)),
            ],
            axis=1,
        ),
        3,
    )
    x = simulate(field, [1.0, 0.0, 0.0], t).x[0][:, :2]
    x = x + 0.03 * x.std(axis=0) * np.random.default_rng(0).normal(size=x.shape)
    return Trajectories.from_arrays(x, t, state_names=["x", "v"], u=u, input_names=["F"])


@pytest.mark.parametrize("name", MODELS)
def test_facts_hold_beside_inputs(name, driven):
    facts = Knowledge(known={"x": "v"}, forbid={"v": ["v*F"]}, bounds={"v": {"v": (-0.5, 0.0)}})
    model = load(name, facts).fit(driven)
    u = np.random.default_rng(2).normal(size=(len(X), 1))
    rates = model.predict(X, u=u)
    np.testing.assert_array_equal(rates[:, 0], X[:, 1])
    names = model.get_feature_names()
    found = dict(zip(names, model.coefficients()[1], strict=True))
    assert found.get("v F", 0.0) == 0.0
    assert -0.5 <= found["v"] < 0.0
    if name != "operator":
        assert found["F"] == pytest.approx(1.0, abs=0.15)


def test_an_input_may_be_forbidden_and_what_is_conserved_is_so_under_inputs(driven):
    model = load("sindy-strong", Knowledge(forbid={"x": ["F"]})).fit(driven)
    rates = [model.predict(X, u=np.full((len(X), 1), value))[:, 0] for value in (0.0, 2.0)]
    np.testing.assert_array_equal(*rates)
    rates = (
        load("sindy-strong", Knowledge(conserved=["x**2 + v**2"]))
        .fit(driven)
        .predict(X, u=0.5 + 0.0 * X[:, :1])
    )
    assert np.abs(np.sum(X * rates, axis=1)).max() < 1e-10 * np.abs(rates).max()
    with pytest.raises(ValueError, match=r"expected a state among .*, got .F."):
        load("sindy-strong", Knowledge(known={"F": "x"})).fit(driven)


def test_what_is_not_negative_may_be_fed():
    """An input that is not negative feeds a state that is not; one that may be negative does not."""
    t = np.linspace(0.0, 20.0, 120)
    u = 1.0 + np.sin(0.7 * t)
    field = CallableField(
        lambda z: np.stack([1.0 + np.sin(0.7 * z[:, 1]) - 0.5 * z[:, 0], np.ones(len(z))], axis=1), 2
    )
    x = simulate(field, [0.5, 0.0], t).x[0][:, :1]
    data = Trajectories.from_arrays(x, t, state_names=["x"], u=u, input_names=["feed"])
    fed = load("sindy-strong", Knowledge(nonnegative=["x", "feed"])).fit(data)
    assert fed.predict(np.zeros((1, 1)), u=[[1.0]])[0, 0] == pytest.approx(1.0, abs=0.1)
    starved = load("sindy-strong", Knowledge(nonnegative=["x"])).fit(data)
    assert "feed" not in [
        n for n, c in zip(starved.get_feature_names(), starved.coefficients()[0], strict=True) if c
    ]


def test_draws_of_functions_stay_finite():
    """The exponent of a function was drawn so far off that its coefficient overflowed."""
    rng = np.random.default_rng(1)
    t = np.r_[0.0, np.sort(rng.uniform(0.0, 60.0, 59))]
    predation = SymbolicField(["A*(1-A/8)-A*R/(1+A)", "R*(0.8*A/(1+A)-0.3)"], state_names=["A", "R"])
    x = simulate(predation, [3.0, 1.0], t).x[0]
    noisy = np.abs(x * (1.0 + 0.05 * rng.standard_normal(x.shape)))
    known = Knowledge(nonnegative=["A", "R"])
    model = fim_dynsys.load("auto", knowledge=known).fit(noisy, t, feature_names=["A", "R"])
    assert all(np.isfinite(member(x)).all() for member in model.ensemble(20))


def noise_free(rates, start, span, names, n=300):
    field = CallableField(lambda z: np.stack(rates(*z.T), axis=1), len(start))
    exact = simulate(field, start, np.linspace(0.0, span, n), rtol=1e-11)
    return Trajectories.from_arrays(exact.x[0], exact.t[0], state_names=names), field


RECORDS = {
    "prey": (
        lambda x, y: (x * (1.0 - x / 8.0) - 1.2 * x * y / (1.0 + x), 0.9 * x * y / (1.0 + x) - 0.3 * y),
        [2.0, 1.0],
        60.0,
        ("x", "y"),
        Knowledge(nonnegative=["x", "y"]),
    ),
    "pendulum": (
        lambda x, v: (v, -np.sin(x) - 0.1 * v),
        [2.5, 0.0],
        20.0,
        ("x", "v"),
        Knowledge(known={"x": "v"}, bounds={"v": {"v": (None, 0.0)}}),
    ),
    "epidemic": (  # s + i + r = 1 along the record: what is conserved decides among many equations
        lambda s, i, r: (-0.5 * s * i, 0.5 * s * i - 0.1 * i, 0.1 * i),
        [0.99, 0.01, 0.0],
        100.0,
        ("s", "i", "r"),
        Knowledge(conserved=["s + i + r"]),
    ),
    "lorenz": (
        lambda x, y, z: (10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z),
        [-8.0, 7.0, 27.0],
        5.0,
        ("x", "y", "z"),
        Knowledge(equal=[{"x": "y - x"}], forbid={"z": ["z**2"]}),
    ),
}


@pytest.mark.parametrize("name", ["fim-ode", "auto", "symbolic"])
@pytest.mark.parametrize("record", RECORDS)
def test_noise_free_records_are_solved_exactly_with_knowledge_too(record, name):
    """Knowing something made answers 1e5 times worse: exact equations were sought without it only."""
    *system, names, facts = RECORDS[record]
    data, truth = noise_free(*system, names)
    model = load(name, facts).fit(data)
    points = data.x[0][::10] * 1.05
    rates = truth(points)
    assert np.abs(model.predict(points) - rates).max() < 1e-7 * np.abs(rates).max()


def test_errors_and_members_of_exact_equations_satisfy_what_is_known():
    *system, names, _ = RECORDS["pendulum"]
    data, _ = noise_free(*system, names)
    model = load("fim-ode", Knowledge(known={"x": "v"})).fit(data)
    points = np.random.default_rng(0).normal(size=(9, 2))
    assert (model.predict(points)[:, 0] == points[:, 1]).all()
    for member in model.ensemble(5):
        assert np.abs(member(points)[:, 0] - points[:, 1]).max() < 1e-12
    errors = model.field_.standard_errors
    assert (errors[:, 0] == 0.0).all()
    assert errors[:, 1].max() > 0.0


def test_knowledge_that_noise_free_samples_contradict_is_named():
    data, _ = noise_free(lambda x, v: (v, -2.0 * x), [2.0, 0.0], 20.0, ("x", "v"))
    for name in ("fim-ode", "auto", "symbolic"):
        model = load(name, Knowledge(known={"x": "1.1*v"})).fit(data)
        assert "the samples contradict the constraints" in "; ".join(model.field_.fit_info.inference.notes)


def test_a_quantity_that_polynomials_cannot_conserve_is_refused(data):
    """It left x' = 0 and v' = 0."""
    with pytest.raises(ValueError, match=r"got 'v\*\*2/2 - cos\(x\)', whose derivatives contain sin\(x\)"):
        load("auto", Knowledge(conserved=["v**2/2 - cos(x)"])).fit(data)


@pytest.mark.parametrize("noise", [0.0, 0.005, 0.02])
def test_a_wrong_conserved_sum_whose_states_cancel_is_named(noise):
    t, x = np.linspace(0.0, 60.0, 61), [np.array([0.99, 0.01])]
    for _ in range(600):
        s, i = x[-1]
        x.append(x[-1] + 0.1 * np.array([-0.5 * s * i, 0.5 * s * i - 0.15 * i]))
    x = np.array(x)[::10]
    x = np.column_stack([x, 1.0 - x.sum(axis=1)])
    noisy = x + noise * x.std(axis=0) * np.random.default_rng(1).standard_normal(x.shape)
    data = Trajectories.from_arrays(noisy, t, ["S", "I", "R"])
    assert contradictions({"conserved": ["S + 2*I + R"]}, data)
    assert not contradictions({"conserved": ["S + I + R"]}, data)


def test_functions_as_knowledge_point_to_given_equations(data):
    with pytest.raises(ValueError, match=r"got '-sin\(x\)'; given equations .* load\('equations'"):
        load("auto", Knowledge(known={"v": "-sin(x)"})).fit(data)


def test_trust_is_limited_where_constraints_make_one_state_the_rate_of_another():
    """All candidates then share a cubic for the sine of a pendulum."""
    rng, t = np.random.default_rng(3), np.linspace(0.0, 15.0, 150)
    truth = CallableField(lambda z: np.stack([z[:, 1], -np.sin(z[:, 0]) - 0.1 * z[:, 1]], axis=1), 2)
    x = fim_dynsys.simulate(truth, [[2.0, 0.0], [0.5, 1.0]], t).x
    noisy = x + 0.05 * x.std(axis=(0, 1)) * rng.standard_normal(x.shape)
    data = Trajectories.from_arrays(list(noisy), [t] * 2, state_names=["th", "w"])
    model = load("fim-ode", Knowledge(known={"th": "w"})).fit(data)
    assert model.field_.fit_info.trust is Trust.LIMITED
    assert model.field_.fit_info.report["states as rates"] == ["th"]
