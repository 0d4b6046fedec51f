"""Standard errors of fitted numbers: the scatter over noise, whatever the units, kept on disk."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fim_dynsys
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.inference import Judge
from fim_dynsys.fields.posterior import FittedField
from fim_dynsys.fields.terms import Dictionary, Kind
from fim_dynsys.models.sindy_strong import StrongSINDy
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.search.standard_errors import standard_errors
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.trajectories.container import Trajectories

T = np.linspace(0.0, 15.0, 150)
OSCILLATOR = DictionaryField(
    Dictionary([[0, 1], [1, 0], [2, 1]]), [[1.0, 1.0], [0.0, -1.0], [0.0, -1.0]], state_names=["u", "v"]
)
PENDULUM = DictionaryField(
    Dictionary([[0, 1], [0, 0]], [0, Kind.SIN], [0, 0], [1.0, 1.3]), [[1.0, -0.3], [0.0, -2.0]]
)
SINE = [(1, 0, 0)]  # the number in the second term is fitted


def observed(field, seed, unit=1.0, noise=0.03):
    clean = simulate(field, [2.0, 0.5], T).x[0]
    return unit * (
        clean + noise * clean.std(axis=0) * np.random.default_rng(seed).standard_normal(clean.shape)
    )


def test_errors_are_those_over_noise():
    off = []
    for seed in range(8):
        field = StrongSINDy().fit(observed(OSCILLATOR, seed), T, feature_names=["u", "v"]).field_
        table = field.to_dataframe()
        assert table["term"].tolist() == ["v", "u", "v", "u^2 v"]
        off.append((table["coefficient"] - [1, -1, 1, -1]) / table["standard_error"])
    assert 0.6 < np.sqrt(np.mean(np.square(off))) < 1.5


def test_errors_of_laws_are_those_over_noise():
    """Nothing holds a start nearer to the first sample than noise does, wherever the zero of the units is."""
    terms = Dictionary([[0, 0], [0, 1], [1, 0]])
    true = np.array([[-5.0, 5.5], [1.0, -0.1], [0.0, -1.0]])  # a damped oscillator about (5, 5)
    clean = simulate(DictionaryField(terms, true), [7.0, 5.5], T).x[0]
    off = []
    for seed in range(8):
        noise = 1e-3 * np.random.default_rng(seed).standard_normal(clean.shape)
        field = fim_dynsys.load("auto", effort="fast").fit(clean + noise, T).field_
        assert field.fit_info.inference.judge is Judge.EXACT
        own = field.to_dataframe()
        assert len(own) == 5
        values = [
            true[["1", "x1", "x0"].index(term), int(state[1])]
            for term, state in zip(own["term"], own["state"], strict=True)
        ]
        off.append((own["coefficient"] - values) / own["standard_error"])
    assert 0.6 < np.sqrt(np.mean(np.square(off))) < 1.5


def test_numbers_inside_functions_have_errors_in_the_units_of_the_data():
    one, scaled = (
        standard_errors(
            DictionaryField(*PENDULUM.dictionary.rescaled(PENDULUM.coefficients, unit), context=context), SINE
        )
        for unit in (1.0, 1000.0)
        for context in [Trajectories.from_arrays(observed(PENDULUM, 0, unit), T)]
    )
    inner = one[1, 2]
    assert 1e-3 < inner < 1e-2 and (one[0, 2:] == 0).all() and one[1, 3] == 0
    assert scaled[1, 2] == pytest.approx(inner / 1000.0, rel=1e-3)
    np.testing.assert_allclose(scaled[:, :2], one[:, :2] * [[1.0], [1000.0]], rtol=1e-3)
    field = FittedField.of(PENDULUM, one)
    assert f"sin((1.300 ± {inner:.3f}) x0)" in field.equations(errors=True)[1]
    assert field.scale([[0.0, 0.0]]) is None and field.draws(2) is None


def test_errors_beside_what_is_known():
    """What is given has none, what is tied together shares its own; over noise they are right."""
    facts = Knowledge(known={"u": "v"}, equal=[{"v": "v - u^2*v"}])
    off = []
    for seed in range(8):
        field = (
            StrongSINDy(knowledge=facts).fit(observed(OSCILLATOR, seed), T, feature_names=["u", "v"]).field_
        )
        errors = dict(zip(field.get_feature_names(), field.standard_errors, strict=True))
        assert errors["v"][0] == 0.0
        assert errors["v"][1] == pytest.approx(errors["u^2 v"][1]) and errors["v"][1] > 0
        found = dict(zip(field.get_feature_names(), field.coefficients, strict=True))
        off += [(found["u"][1] + 1.0) / errors["u"][1], (found["v"][1] - 1.0) / errors["v"][1]]
    assert 0.5 < np.sqrt(np.mean(np.square(off))) < 1.6


def test_errors_with_inputs():
    t = np.linspace(0.0, 20.0, 160)
    push = np.sin(0.9 * t)
    response = DictionaryField(
        Dictionary([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]),
        [[1.0, -0.2, 0.0, 0.0], [0.0, -1.0, 0.0, 0.0], [0.0, 1.0, 0.0, -0.9], [0.0, 0.0, 0.9, 0.0]],
    )
    x = simulate(response, [1.0, 0.0, 0.0, 1.0], t).x[0][:, :2]
    off = []
    for seed in range(6):
        noise = 0.03 * x.std(axis=0) * np.random.default_rng(seed).normal(size=x.shape)
        model = StrongSINDy(degree=2).fit(x + noise, t, u=push, feature_names=["x", "v", "F"])
        table = model.field_.to_dataframe()
        truth = {("x", "v"): 1.0, ("v", "x"): -1.0, ("v", "v"): -0.2, ("v", "F"): 1.0}
        for row in table.itertuples():
            if (row.state, row.term) in truth:
                off.append((row.coefficient - truth[row.state, row.term]) / row.standard_error)
        assert "±" in model.equations(errors=True)[0]
    assert len(off) >= 20
    assert 0.5 < np.sqrt(np.mean(np.square(off))) < 1.8


def test_errors_by_those_of_the_observations():
    x = observed(OSCILLATOR, 0)
    one, two = (StrongSINDy().fit(x, T, sigma=s).field_.standard_errors for s in (0.05, 0.1))
    np.testing.assert_allclose(two[two > 0], 2.0 * one[two > 0], rtol=0.15)


def test_numbers_that_no_fit_confirms_have_no_errors():
    wrong = DictionaryField(OSCILLATOR.dictionary, 1.3 * OSCILLATOR.coefficients)
    context = Trajectories.from_arrays(observed(OSCILLATOR, 0), T)
    field = DictionaryField(wrong.dictionary, wrong.coefficients, context=context)
    assert standard_errors(field) is None
    with pytest.raises(ValueError, match="expected a field with standard errors"):
        FittedField.of(field, standard_errors).equations(errors=True)


def test_regressions_of_slopes_have_no_errors():
    model = StrongSINDy(refined=0).fit(observed(OSCILLATOR, 0), T)
    assert model.field_.standard_errors is None and model.field_._inner_errors is None


@pytest.mark.parametrize("errors", [np.ones((3, 2)), np.full((3, 5), np.nan), np.full((3, 5), -1.0)])
def test_foreign_errors_are_refused(errors):
    with pytest.raises(ValueError, match=r"FittedField: expected finite errors of shape \(3, 5\)"):
        FittedField.of(OSCILLATOR, errors)


def test_errors_are_kept(tmp_path):
    model = StrongSINDy().fit(observed(OSCILLATOR, 1), T)
    again = fim_dynsys.load_fitted(model.save(tmp_path))
    assert again.equations(errors=True) == model.equations(errors=True)


def test_auto_and_the_symbolic_search_print_errors():
    x = observed(OSCILLATOR, 2)
    for name, parameters in (("auto", {"effort": "fast"}), ("symbolic", {"effort": "quick"})):
        model = fim_dynsys.load(name, **parameters).fit(x, T)
        assert all("±" in text for text in model.equations(errors=True))


def test_errors_of_a_noise_free_chaotic_record_are_not_of_rounding():
    """Over thirty units of Lorenz's time -10 came with an error of 15: chaos left nothing else."""
    t = np.linspace(0.0, 30.0, 3000)
    path = solve_ivp(
        lambda _, s: [10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]],
        (0.0, 30.0),
        [1.0, 1.0, 20.0],
        t_eval=t,
        rtol=1e-10,
        atol=1e-12,
    ).y.T
    field = StrongSINDy().fit(path, t).field_
    table = field.to_dataframe()
    true = np.array([-10, 10, 28, -1, -1, -8 / 3, 1])
    np.testing.assert_allclose(np.sort(table["coefficient"]), np.sort(true), rtol=1e-4)
    assert (table["standard_error"] < 0.01 * table["coefficient"].abs()).all()
