"""What else the samples allow: the table of alternatives, choosing among them, and their picture."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import CallableField, Trajectories, simulate
from fim_dynsys.analyze.alternatives import NOT_DETERMINED, cautions, terms_by_state
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models import auto
from fim_dynsys.plot import front


@pytest.fixture(scope="module")
def model():
    field = CallableField(lambda x: np.stack([x[:, 1], (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], 1), 2)
    t = np.linspace(0.0, 10.0, 150)
    x = simulate(field, [1.0, 0.5], t).x[0]
    noisy = x * (1.0 + 0.05 * np.random.default_rng(0).normal(size=x.shape))
    return fim_dynsys.load("auto", effort="fast").fit(noisy, t)


def test_rows_are_a_front_with_the_answer_among_them(model):
    rows = model.alternatives_
    assert [row.parameters for row in rows] == sorted(row.parameters for row in rows)
    answer = rows[rows.preferred]
    assert not answer.more and not answer.fewer
    np.testing.assert_array_equal(answer.field.coefficients, model.field_.coefficients)
    assert 0.9 < answer.r2 <= 1.0 and all(row.misses > 0.0 for row in rows)
    assert all(len(row.equations) == 2 and 0.0 <= row.weight <= 1.0 for row in rows)
    others = [row for row in rows if not row.is_preferred]
    assert all(row.more or row.fewer for row in others)
    text = str(rows)
    assert "preferred" in text and len(text.splitlines()) == len(rows) + 2
    assert len(rows[:1]) == 1


def test_the_front_is_drawn(model):
    drawing = front(model)
    assert len(drawing.artists["rows"]) == len(model.alternatives_)
    drawing.close()


def test_selecting_the_answer_leaves_its_bands(model):
    ahead = model.context_.t[0, -1] + np.array([1.0, 2.0])
    before, bands = model.field_, model.forecast(model.context_, ahead, n_draws=20)
    try:
        model.select(model.alternatives_.preferred)
        again = model.forecast(model.context_, ahead, n_draws=20)
    finally:
        model.field_ = before
    np.testing.assert_array_equal(again.low, bands.low)
    np.testing.assert_array_equal(again.high, bands.high)


def test_select_makes_a_row_the_answer(model):
    rows = model.alternatives_
    k = 0 if rows.preferred else len(rows) - 1
    before = model.field_
    try:
        assert model.select(k) is model
        np.testing.assert_array_equal(model.field_.coefficients, rows[k].field.coefficients)
        facts = model.field_.fit_info.inference
        assert facts.selected and facts.judge is before.fit_info.inference.judge
        assert model.field_.fit_info.report["chosen by"] == "select"
        assert not rows[k].field.fit_info.inference.selected
    finally:
        model.field_ = before
    with pytest.raises(IndexError, match=f"auto: expected a row of alternatives_ below {len(rows)}, got 99"):
        model.select(99)


POPULATIONS = Dictionary.polynomial(2, 2)


def populations(**extra):
    """Lotka and Volterra's field with further coefficients, ``name=(state, value)``."""
    names = POPULATIONS.names()
    coefficients = np.zeros((len(names), 2))
    coefficients[names.index("x0"), 0], coefficients[names.index("x0 x1"), 0] = 1.0, -1.0
    coefficients[names.index("x1"), 1], coefficients[names.index("x0 x1"), 1] = -1.0, 1.0
    for name, (state, value) in extra.items():
        coefficients[names.index({"one": "1"}.get(name, name)), state] += value
    return DictionaryField(POPULATIONS, coefficients)


def test_a_law_that_creates_from_nothing_or_explodes_is_marked():
    t = np.linspace(0.0, 7.0, 80)
    seen = Trajectories.from_arrays(simulate(populations(), [3.0, 0.5], t).x[0], t)
    assert np.min(seen.x[0]) < 0.1 * np.max(seen.x[0])
    assert cautions(populations(), seen) == []
    assert cautions(populations(one=(0, 0.5)), seen) == ["x0 grows from zero"]
    assert cautions(populations(one=(1, -0.5)), seen)[0] == "x1 falls below zero"
    (said,) = cautions(populations(x1=(1, 3.0)), seen)
    assert said.startswith("leaves the data by far within ")
    moved = Trajectories.from_arrays(seen.x[0] - 1.0, t)  # of states with signs nothing of the kind is asked
    assert not any("zero" in said for said in cautions(populations(one=(0, 0.5)), moved))


def hudson_bay():
    """Hares and lynxes, in thousands of pelts a year."""
    with open(Path(__file__).parents[2] / "benchmarks" / "real" / "tables.toml", "rb") as file:
        counts = tomllib.load(file)["lynx-hare"]["states"]
    return np.stack([counts["hare"], counts["lynx"]], axis=1)


@pytest.mark.parametrize("name", ["fim-ode", "auto"])
def test_no_opinion_is_the_answer_where_a_fit_follows_the_samples_far_better(name):
    """Hudson's Bay counts, as logarithms: the operator's own numbers are a hundred BIC behind."""
    x = np.log(hudson_bay())
    model = fim_dynsys.load(name).fit(x, np.arange(float(len(x))))
    assert "solve" not in model.field_.fit_info.report["chosen"]
    if name == "auto":
        rows = model.alternatives_
        assert rows[rows.preferred].bic < min(row.bic for row in rows) + 30.0


def test_a_choice_against_bic_states_its_reason(capsys):
    """Populations of the United States, 1790 to 1990: a cubic, where BIC asks for a Hill function."""
    counts = "3.93 5.31 7.24 9.64 12.9 17.1 23.2 31.4 38.6 50.2 63.0 76.2 92.2 106.0 123.2 132.2 151.3 179.3"
    people = np.array([float(count) for count in f"{counts} 203.3 226.5 248.7".split()])
    model = fim_dynsys.load("auto").fit(people[:, None], np.arange(21.0))
    rows = model.alternatives_
    answer = rows[rows.preferred]
    behind = answer.bic - min(row.bic for row in rows)
    model.print()
    told = ["on known systems" in text for text in (answer.note, capsys.readouterr().out)]
    assert told == [behind > 10.0] * 2
    assert not any("sin" in term for term in terms_by_state(answer.field))


def test_the_law_that_a_field_knows_is_a_row():
    """Hudson's Bay: the answer follows 21 counts best; Lotka and Volterra's four numbers are there too."""
    x = hudson_bay()
    model = fim_dynsys.load("auto").fit(x, np.arange(float(len(x))), feature_names=["hare", "lynx"])
    rows = model.alternatives_
    law = {"hare: hare", "hare: hare lynx", "lynx: lynx", "lynx: hare lynx"}
    (known,) = [row for row in rows if terms_by_state(row.field) == law]
    assert known.r2 > 0.8 and known.note in ("", NOT_DETERMINED)
    assert "lynx grows from zero" in rows[rows.preferred].note


def test_what_is_simpler_is_fitted_once_for_each_fit(model, monkeypatch):
    rows = model.alternatives_
    monkeypatch.setattr(auto, "simpler", None)  # no call any more
    assert [row.equations for row in model.alternatives_] == [row.equations for row in rows]


def test_members_have_the_structure_that_was_selected():
    t = np.linspace(0.0, 15.0, 150)
    field = fim_dynsys.SymbolicField(["v", "(1-x**2)*v-x"], state_names=["x", "v"])
    x = fim_dynsys.simulate(field, [1.0, 0.0], t).x[0]
    x = x + 0.03 * x.std(axis=0) * np.random.default_rng(0).normal(size=x.shape)
    model = fim_dynsys.load("auto").fit(x, t)
    rows = model.alternatives_
    other = next(k for k, row in enumerate(rows) if not row.is_preferred and row.parameters > 1)
    model.select(other)
    for member in model.ensemble(4):
        assert terms_by_state(member) == terms_by_state(rows[other].field)
