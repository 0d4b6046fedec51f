"""Facts about a field: what they say of coefficients, and that every candidate honours them."""

import itertools

import numpy as np
import pytest
import sympy

import fim_dynsys
from fim_dynsys import Knowledge, simulate
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.sparse import normal_equations
from fim_dynsys.search.horizon import fit_in_windows, merged
from fim_dynsys.search.initial_estimate import InitialEstimate
from fim_dynsys.search.pool import Pool
from fim_dynsys.search.problem import Search
from fim_dynsys.search.proposals import propose
from fim_dynsys.search.stages import POLYNOMIALS, Effort, Row
from fim_dynsys.trajectories.container import Trajectories

pytestmark = pytest.mark.filterwarnings("ignore::fim_dynsys.errors.FitWarning")


def fields_of(knowledge, names, degree=3, n=20, seed=0):
    """Random coefficients that the facts allow, and the dictionary."""
    terms = Dictionary.polynomial(len(names), degree)
    allowed = knowledge.restriction(terms, names)
    free = np.random.default_rng(seed).normal(size=(n, len(allowed.place)))
    return terms, allowed.coefficients(np.clip(free, allowed.low, allowed.high))


def coefficient(terms, names, values, term, state):
    row = [str(name) for name in terms.names(names)].index(term)
    return values[..., row, list(names).index(state)]


def test_a_known_equation_is_exactly_that():
    terms, values = fields_of(Knowledge(known={"x": "v", "v": "-9.81 - 2*x + ..."}), ("x", "v"))
    x = np.random.default_rng(1).normal(size=(5, 2))
    assert (np.einsum("pm,nmk->npk", terms.evaluate(x), values)[..., 0] == x[:, 1]).all()
    for term, value in (("1", -9.81), ("x", -2.0)):
        assert (coefficient(terms, ("x", "v"), values, term, "v") == value).all()
    assert np.ptp(coefficient(terms, ("x", "v"), values, "x v", "v")) > 0


def test_forbidden_states_and_terms_are_absent():
    names = ("x", "y", "z")
    terms, values = fields_of(Knowledge(forbid={"x": ["z"], "y": ["x*z"]}), names)
    has_z = terms.exponents[:, 2] > 0
    assert not values[:, has_z, 0].any() and values[:, ~has_z, 0].all()
    assert not coefficient(terms, names, values, "x z", "y").any()
    assert coefficient(terms, names, values, "z", "y").all()


def test_terms_share_a_coefficient():
    names = ("s", "i", "r")
    terms, values = fields_of(Knowledge(equal=[{"s": "-s*i", "i": "s*i"}, {"r": "2*i - r"}]), names)
    assert np.array_equal(
        coefficient(terms, names, values, "s i", "s"), -coefficient(terms, names, values, "s i", "i")
    )
    rate = coefficient(terms, names, values, "r", "r")
    np.testing.assert_allclose(coefficient(terms, names, values, "i", "r"), -2.0 * rate)


@pytest.mark.parametrize(
    "quantity, names",
    [
        ("v**2/2 + x**2/2 + x**4/4", ("x", "v")),
        ("s + i + r", ("s", "i", "r")),
        ("x - log(x) + 2*y - log(y)", ("x", "y")),
        ("x**2 + y**2/z", ("x", "y", "z")),
    ],
)
def test_a_conserved_quantity_has_no_slope_along_any_allowed_field(quantity, names):
    terms, values = fields_of(Knowledge(conserved=[quantity]), names, n=5)
    symbols = sympy.symbols(names)
    slope = sympy.lambdify(symbols, [sympy.diff(quantity, s) for s in symbols])
    x = np.random.default_rng(2).uniform(0.5, 1.5, size=(10, len(names)))
    rates = np.einsum("pm,nmk->npk", terms.evaluate(x), values)
    slopes = np.array([np.broadcast_to(slope(*point), len(names)) for point in x], dtype=float)
    assert values.any(axis=(1, 2)).all()
    assert np.abs(np.einsum("pk,npk->np", slopes, rates)).max() < 1e-11 * np.abs(rates).max()


def test_every_field_of_polynomials_that_conserves_a_quantity_is_allowed():
    """As many free numbers as a null space has dimensions that is computed another way."""
    terms = Dictionary.polynomial(2, 3)
    allowed = Knowledge(conserved=["v**2/2 + x**2/2"]).restriction(terms, ("x", "v"))
    x = np.random.default_rng(3).normal(size=(200, 2))
    rows = (terms.evaluate(x)[:, :, None] * x[:, None, :]).reshape(len(x), -1)
    singular = np.linalg.svd(rows, compute_uv=False)
    assert len(allowed.place) == int((singular < 1e-9 * singular[0]).sum()) + rows.shape[1] - len(singular)


def test_states_that_stay_nonnegative_do_along_every_allowed_field():
    names = ("a", "b", "c")
    terms, values = fields_of(Knowledge(nonnegative=["a", "b"]), names, n=50)
    rng = np.random.default_rng(4)
    for k in (0, 1):
        x = np.abs(rng.normal(size=(40, 3)))
        x[:, k] = 0.0
        x[:, 2] *= rng.choice([-1.0, 1.0], size=40)
        assert np.einsum("pm,nm->np", terms.evaluate(x), values[:, :, k]).min() >= 0.0


def test_mass_that_is_kept_by_nonnegative_states():
    """Bounds of coefficients that sum to zero make them zero."""
    names = ("s", "i", "r")
    terms, values = fields_of(Knowledge(conserved=["s + i + r"], nonnegative=names), names, degree=2)
    assert not coefficient(terms, names, values, "1", "s").any()
    np.testing.assert_allclose(values.sum(axis=2), 0.0, atol=1e-14)
    assert (coefficient(terms, names, values, "s", "r") >= 0).all()


@pytest.mark.parametrize(
    "sums, equations",
    [
        (
            [[1, 0, 1, 0], [0, 1, 1, 1]],
            {"E": "1.5*C - E*S", "S": "C - E*S", "C": "E*S - 1.5*C", "P": "0.5*C"},
        ),
        (
            [[1, 1, 0, 0], [0, 0, 1, 1]],
            {"S": "0.2*I - 2*S*V", "I": "2*S*V - 0.2*I", "U": "V - U*I", "V": "U*I - V"},
        ),
        (
            [[1, 2, 0, 0], [0, 0, 1, 1]],
            {"A": "2*B - 2*A**2", "B": "A**2 - B", "C": "B*D - C", "D": "C - B*D"},
        ),
    ],
)
def test_several_sums_that_nonnegative_states_keep(sums, equations):
    """An enzyme, hosts and vectors, a dimer: some bounds follow from others."""
    names = tuple(equations)
    terms = Dictionary.polynomial(len(names), 2)
    kept = [" + ".join(f"{w}*{name}" for w, name in zip(row, names, strict=True) if w) for row in sums]
    allowed = Knowledge(conserved=kept, nonnegative=names).restriction(terms, names)
    free = 3.0 * np.random.default_rng(1).normal(size=(20, len(allowed.place)))
    values = allowed.coefficients(np.clip(free, allowed.low, allowed.high))
    np.testing.assert_allclose(values @ np.transpose(sums), 0.0, atol=1e-12)
    for k in range(len(names)):
        x = np.abs(np.random.default_rng(k).normal(size=(40, len(names))))
        x[:, k] = 0.0
        assert np.einsum("pm,nm->np", terms.evaluate(x), values[:, :, k]).min() >= -1e-12
    true = Knowledge(known=equations).restriction(terms, names).still
    assert allowed.within(true)
    np.testing.assert_allclose(allowed.coefficients(allowed.numbers(true)), true, atol=1e-12)


def test_bounds_that_several_coefficients_decide_are_refused():
    facts = Knowledge(conserved=["x + y + z"], bounds={name: {"x": (-1, 1)} for name in "xyz"})
    with pytest.raises(ValueError, match=r"which several others decide.*Leave one of them out"):
        facts.restriction(Dictionary.polynomial(3, 2), ("x", "y", "z"))


@pytest.mark.parametrize(
    "facts, named",
    [
        ({"known": {"x": "v"}, "forbid": {"x": ["v"]}}, ["known x' = v", "forbid v in x'"]),
        ({"known": {"x": "v"}, "require": {"x": ["x"]}}, ["known x' = v", "require x in x'"]),
        ({"known": {"x": "v"}, "conserved": ["x**2 + v"]}, ["known x' = v", "conserved x**2 + v"]),
        (
            {"bounds": {"x": {"v": (1, None)}, "v": {"v": (1, None)}}, "equal": [{"x": "v", "v": "-v"}]},
            ["bounds v in x'", "bounds v in v'", "equal v in x', -v in v'"],
        ),
        ({"bounds": {"x": {"v": (1, 0)}}}, ["bounds v in x'"]),
        (
            {"bounds": {"x": {"1": (1, None)}, "v": {"1": (0, None)}}, "conserved": ["x + v"]},
            ["conserved x + v", "bounds 1 in x'", "bounds 1 in v'"],
        ),
    ],
)
def test_contradictions_are_named(facts, named):
    if "known" in facts and "conserved" in facts:
        facts = facts | {"known": {"x": "v", "v": "-1"}}
        named = ["known", "conserved x**2 + v"]
    with pytest.raises(ValueError, match="contradiction") as caught:
        Knowledge(**facts).restriction(Dictionary.polynomial(2, 2), ("x", "v"))
    assert all(fact in str(caught.value) for fact in named)


@pytest.mark.parametrize(
    "facts, said",
    [
        ({"known": {"y": "x"}}, "a state among x, v"),
        ({"known": {"x": "k*v"}}, "got k"),
        ({"known": {"x": "x**5"}}, "degree 2 at most"),
        ({"known": {"x": "sin(v)"}}, "a polynomial"),
        ({"forbid": {"x": ["x + v"]}}, "one term"),
        ({"equal": [{"x": "v"}]}, "two terms"),
        ({"bounds": {"x": {"v": 3}}}, "low, high"),
        ({"bounds": {"x": {"v": (np.nan, 1.0)}}}, "low, high"),
        ({"bounds": {"x": {"v": (np.inf, None)}}}, "low, high"),
        ({"conserved": ["3"]}, "a quantity"),
    ],
)
def test_facts_that_do_not_fit_are_refused(facts, said):
    with pytest.raises(ValueError, match=said):
        Knowledge(**facts).restriction(Dictionary.polynomial(2, 2), ("x", "v"))


@pytest.mark.parametrize(
    "facts",
    [
        {"forbid": {"x": "z"}},
        {"known": ["x"]},
        {"conserved": "x"},
        {"equal": {"x": "v"}},
        {"equal": 1},
        {"nonnegative": np.zeros((0, 2))},
        {"known": {"x": b"v"}},
        {"require": {"x": [3]}},
        {"bounds": {"x": 3}},
    ],
)
def test_facts_of_the_wrong_kind_are_refused(facts):
    with pytest.raises(ValueError, match=r"Knowledge(\.\w+)?: expected"):
        Knowledge(**facts)


def test_facts_that_leave_no_term_give_a_field_at_rest(data):
    still = Knowledge(known={name: "0" for name in data.state_names})
    for model in (
        fim_dynsys.load("sindy-strong", knowledge=still),
        fim_dynsys.load("symbolic", effort="quick", knowledge=still),
    ):
        with np.errstate(all="ignore"):
            field = model.infer(data)
        assert not field.coefficients.any()


# ---------------------------------------------------------------------- search

FACTS = {
    "equation": Knowledge(known={"x": "v"}),
    "sign": Knowledge(bounds={"v": {"x": (-0.8, 0.0)}}),
    "column": Knowledge(forbid={"x": ["x"], "v": ["x*v**2"]}),
    "energy": Knowledge(conserved=["v**2/2 + x**2/2 + x**4/4"]),
    "shared": Knowledge(equal=[{"x": "v", "v": "-x"}]),
    "required": Knowledge(require={"v": ["v"]}),
    "everything": Knowledge(known={"x": "v", "v": "-x - x**3"}),
}


def duffing(n=2, noise=0.05, samples=60):
    field = CallableField(lambda x: np.stack([x[:, 1], -x[:, 0] - x[:, 0] ** 3], axis=1), 2)
    found = simulate(field, [[1.0, 0.0], [0.3, -0.8]][:n], np.linspace(0.0, 8.0, samples))
    x = found.x + noise * found.x.std(axis=1, keepdims=True) * np.random.default_rng(0).normal(
        size=found.x.shape
    )
    return Trajectories.from_arrays(list(x), list(found.t), state_names=["x", "v"])


@pytest.fixture(scope="module")
def data():
    return duffing()


def honours(facts, terms, coefficients):
    allowed = facts.restriction(terms, ("x", "v"))
    numbers = allowed.numbers(coefficients)
    np.testing.assert_allclose(allowed.coefficients(numbers), coefficients, rtol=0, atol=1e-10)
    assert (numbers >= allowed.low - 1e-12).all() and (numbers <= allowed.high + 1e-12).all()


@pytest.mark.parametrize("name", sorted(FACTS))
def test_what_is_inferred_honours_the_facts(name, data):
    model = fim_dynsys.load("sindy-strong", knowledge=FACTS[name], refined=2).fit(data)
    honours(FACTS[name], model.field_.dictionary, model.field_.coefficients)
    if name == "equation":
        assert model.equations(4)[0] == "v"
    if name == "required":
        assert coefficient(model.field_.dictionary, ("x", "v"), model.field_.coefficients, "v", "v")
    if name in ("energy", "everything"):
        np.testing.assert_allclose(
            model.predict([[0.5, 0.2]]), [[0.2, -0.625]], rtol=0.05 if name == "energy" else 1e-12
        )


@pytest.mark.parametrize("name", ["sign", "energy", "column"])
def test_every_candidate_of_every_stage_honours_the_facts(name, data):
    search = Search.polynomial(data.arrays()).knowing(FACTS[name], data.state_names)
    allowed = search.restriction
    shape = allowed.offset.shape
    rng = np.random.default_rng(0)
    estimate = InitialEstimate(rng.normal(size=(2, *shape)), np.full(shape, 0.1)).allowed(allowed)
    pool = Pool(search, estimate=estimate, whole=True)
    found = Row(POLYNOMIALS, Effort(1)).search(pool).candidates
    met = found + merged(search.observations, *fit_in_windows(search, propose(search)[:20], 1))
    assert len(met) > 5
    for candidate in itertools.chain(met, propose(search)):
        numbers = allowed.numbers(candidate.coefficients)
        np.testing.assert_allclose(allowed.coefficients(numbers), candidate.coefficients, atol=1e-9)
        assert (numbers >= allowed.low - 1e-9).all() and (numbers <= allowed.high + 1e-9).all()
        assert candidate.n_parameters <= np.count_nonzero(numbers)


def test_facts_without_content_change_nothing(data):
    plain = fim_dynsys.load("sindy-strong", refined=1).fit(data)
    told = fim_dynsys.load("sindy-strong", refined=1, knowledge=Knowledge()).fit(data)
    np.testing.assert_allclose(told.field_.coefficients, plain.field_.coefficients, rtol=1e-6, atol=1e-9)


def test_the_order_of_the_states_does_not_matter(data):
    fact = Knowledge(known={"x": "v"}, bounds={"v": {"x^3": (None, 0.0)}})
    one = fim_dynsys.load("sindy-strong", refined=1, knowledge=fact).fit(data)
    other = fim_dynsys.load("sindy-strong", refined=1, knowledge=fact).fit(data.select_states(["v", "x"]))
    np.testing.assert_array_equal(one.field_([[0.3, 0.4]]), other.field_([[0.4, 0.3]])[:, ::-1])


def test_units_do_not_matter(data):
    scaled = data.with_x(data.x * [100.0, 100.0])
    fact = Knowledge(known={"x": "v"}, bounds={"v": {"x": (-0.8, 0.0)}})
    one, other = (
        fim_dynsys.load("sindy-strong", refined=1, knowledge=fact).fit(part) for part in (data, scaled)
    )
    np.testing.assert_allclose(100.0 * one.field_([[0.3, 0.4]]), other.field_([[30.0, 40.0]]), rtol=1e-6)


def test_members_of_an_ensemble_honour_the_facts(data):
    model = fim_dynsys.load("sindy-strong", refined=1, knowledge=FACTS["energy"]).fit(data)
    for member in model.ensemble(2, seed=1):
        honours(FACTS["energy"], member.dictionary, member.coefficients)


def test_a_saved_model_knows_what_it_was_told(data, tmp_path):
    model = fim_dynsys.load("sindy-strong", refined=0, knowledge=FACTS["energy"]).fit(data)
    again = fim_dynsys.load_fitted(model.save(tmp_path / "model"))
    assert Knowledge.of(again.knowledge) == FACTS["energy"]
    np.testing.assert_array_equal(again.fit(data).coefficients(), model.coefficients())


def test_restricted_least_squares_is_that_of_the_normal_equations():
    """Against a penalty on the equalities that is as good as infinite."""
    rng = np.random.default_rng(5)
    terms = Dictionary.polynomial(2, 2)
    allowed = Knowledge(equal=[{"x": "v", "v": "-x"}], known={"x": "3*x + ..."}).restriction(
        terms, ("x", "v")
    )
    columns, slopes = rng.normal(size=(40, len(terms))), rng.normal(size=(40, 2))
    gram, moment, _ = normal_equations(columns, slopes)
    numbers = allowed.solved(*allowed.equations(gram, moment), np.ones(len(allowed.place), dtype=bool))
    found = allowed.coefficients(numbers)
    names = terms.names(("x", "v"))
    rows = np.kron(columns, np.eye(2))
    fixed, shared = np.zeros((len(terms), 2)), np.zeros((len(terms), 2))
    fixed[names.index("x"), 0] = 1.0
    shared[names.index("v"), 0] = shared[names.index("x"), 1] = 1.0
    stiff = 1e6 * np.stack([fixed.ravel(), shared.ravel()])
    best = np.linalg.lstsq(
        np.concatenate([rows, stiff]), np.concatenate([slopes.ravel(), [3e6, 0.0]]), rcond=None
    )[0]
    np.testing.assert_allclose(found.ravel(), best, atol=1e-6)
