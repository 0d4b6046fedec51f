"""Units as a prior: rates of change among the states, angles and lengths, logarithms of quantities."""

import warnings

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import CallableField, Knowledge, Trajectories, simulate
from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.problem import Search
from fim_dynsys.search.units import ODDS, homogeneous, is_accepted, rates_by_units

pytestmark = pytest.mark.filterwarnings("ignore::fim_dynsys.errors.FitWarning")
T = np.linspace(0.0, 12.0, 120)


def observed(rates, x0, noise, units, names=("x", "v"), t=T, seed=0):
    """Samples of a field with noise of so much of each state's deviation."""
    x = simulate(CallableField(rates, len(names)), x0, t).x[0]
    x = x + noise * x.std(axis=0) * np.random.default_rng(seed).normal(size=x.shape)
    return Trajectories.from_arrays(x, t, state_names=names, units=units)


def oscillator(x):
    return np.stack([x[:, 1], -x[:, 0] - 0.2 * x[:, 1]], axis=1)


@pytest.mark.parametrize(
    ("units", "known"),
    [
        ({"x": "m", "v": "m/s", "t": "s"}, {"x": "v"}),
        ({"x": "m", "v": "cm/s", "t": "s"}, {}),  # then v is 1 % of what x' is
        ({"x": "m", "v": "m/s", "t": "min"}, {}),
        ({"x": "m", "v": "m", "t": "s"}, {}),
        ({"x": "m", "v": "m/s"}, {}),
        ({"x": "1", "v": "1", "t": "1"}, {}),
        ({"x": "how far", "v": "m/s", "t": "s"}, {}),
        ({}, {}),
    ],
)
def test_rates_are_suggested_where_the_samples_agree(units, known):
    found = rates_by_units(observed(oscillator, [1.0, 0.0], 0.03, units))
    assert (found.known if found else {}) == known


def test_conversions_and_balances():
    slow = observed(lambda x: oscillator(x * [1, 0.01]) * [1, 100], [1.0, 0.0], 0.03,
                    {"x": "m", "v": "cm/s", "t": "s"})  # fmt: skip
    assert rates_by_units(slow).known == {"x": "0.01*v"}
    tank = observed(
        lambda x: np.stack([x[:, 1] - x[:, 2], -x[:, 2], x[:, 1]], axis=1),
        [3.0, 1.0, 0.0],
        0.03,
        {"V": "L", "into": "L/s", "out": "L/s", "t": "s"},
        ("V", "into", "out"),
    )
    assert rates_by_units(tank).known == {"V": "into + -1.0*out"}


def test_odds_before_the_data():
    one, two = Knowledge(known={"x": "v"}), Knowledge(known={"x": "v", "y": "w"})
    worse = 2.0 * np.log(ODDS)
    assert is_accepted(one, worse - 0.1, 0.0) and not is_accepted(one, worse + 0.1, 0.0)
    assert is_accepted(two, worse + 0.1, 0.0)


@pytest.mark.parametrize(("name", "given"), [("auto", {"effort": "fast"}), ("symbolic", {"effort": "quick"})])
def test_a_velocity_in_other_units_is_the_rate_of_its_position(name, given):
    data = observed(lambda x: oscillator(x * [1, 0.01]) * [1, 100], [1.0, 0.0], 0.03,
                    {"x": "m", "v": "cm/s", "t": "s"})  # fmt: skip
    model = fim_dynsys.load(name, **given).fit(data)
    report = model.field_.fit_info.report
    assert report["note"] == "by units x' = 0.01*v" and "taken: BIC" in report["units"]
    points = np.array([[0.3, 40.0], [-1.0, 5.0]])
    np.testing.assert_array_equal(model.predict(points)[:, 0], 0.01 * points[:, 1])
    table = model.field_.to_dataframe()
    assert table[["state", "term", "unit"]].values.tolist() == [
        ["x", "v", "m/cm"],
        ["v", "x", "cm/(m s^2)"],
        ["v", "v", "1/s"],
    ]
    assert table["standard_error"][0] == 0.0 and (table["standard_error"][1:] > 0.0).all()
    np.testing.assert_allclose(table["coefficient"], [0.01, -100.0, -0.2], rtol=0.05)
    members = model.ensemble(3)
    assert all((field(points)[:, 0] == pytest.approx(0.01 * points[:, 1], rel=1e-12)) for field in members)
    bare = fim_dynsys.load(name, **given).fit(data.with_units({"x": "m", "v": "cm/s"}))
    assert (bare.predict(points)[:, 0] != 0.01 * points[:, 1]).all()
    assert "units" not in bare.field_.fit_info.report


def test_units_that_the_data_contradict_are_not_believed():
    """A drift of the position beside the velocity: units allow x' = v, the samples do not."""
    data = observed(
        lambda x: np.stack([x[:, 1] - 0.3 * x[:, 0], -x[:, 0]], axis=1),
        [1.0, 0.0],
        0.02,
        {"x": "m", "v": "m/s", "t": "s"},
    )
    assert rates_by_units(data).known == {"x": "v"}
    model = fim_dynsys.load("auto", effort="fast").fit(data)
    assert "x' = v not taken" in model.field_.fit_info.report["units"]
    assert model.field_.terms()[0] == ["x0", "x1"]


def test_what_is_known_goes_before_units():
    data = observed(oscillator, [1.0, 0.0], 0.03, {"x": "m", "v": "m/s", "t": "s"})
    model = fim_dynsys.load("auto", effort="fast", knowledge=Knowledge(forbid={"v": ["x*v"]})).fit(data)
    assert "units" not in model.field_.fit_info.report


def test_an_angle_needs_no_number_and_a_length_does():
    def pendulum(x):
        return np.stack([x[:, 1], -np.sin(x[:, 0]) - 0.1 * x[:, 1]], axis=1)

    found = {}
    for unit in ("rad", "m"):
        data = observed(pendulum, [2.5, 0.0], 0.02, {"x": unit, "v": f"{unit}/s", "t": "s"})
        found[unit] = fim_dynsys.load("symbolic", effort="quick").fit(data).field_
    sine = Dictionary([[0, 0]], [Kind.SIN], [0], [1.0])
    angle = found["rad"].dictionary
    assert Kind.SIN in angle.kind and not found["rad"].fit_info.report["free_numbers"]
    assert angle.subset(np.flatnonzero(angle.kind == Kind.SIN)) == sine
    length = found["m"].dictionary
    given = np.isin(np.arange(len(length)), [row for row, *_ in found["m"].fit_info.report["free_numbers"]])
    waves = np.isin(length.kind, [Kind.SIN, Kind.COS])
    assert not (waves & ~given).any()  # no sine of a length as it is
    table = found["m"].to_dataframe()
    assert set(table["inner_unit"]) <= {"", "1/m", "s/m"}


def test_a_logarithm_of_a_quantity_has_its_own_scale():
    t = np.linspace(0.0, 6.0, 60)
    data = observed(lambda x: -x * np.log(x / 5.0), [0.3], 0.02, {"N": "g", "t": "d"}, ("N",), t)
    search = Search.polynomial(data.arrays())
    log = Dictionary([[1]], [Kind.LOG], [0], [1.0])
    alone = Candidate(np.array([[-0.5]]), search.observations.start, log, Origin(Stage.GIVEN)).in_use()
    (whole,) = homogeneous(search.observations, [alone], data)
    assert whole.dictionary.exponents.tolist() == [[1], [1]] and len(whole.parameters) == 2
    field = whole.field(search.observations, data, {})
    is_log = field.dictionary.kind == Kind.LOG
    of_log, of_state = field.coefficients[is_log].item(), field.coefficients[~is_log].item()
    scale = np.exp(-of_state / of_log) / field.dictionary.inner[is_log].item()
    assert scale == pytest.approx(5.0, rel=0.05)
    for units in ({}, {"N": "1", "t": "d"}):
        items = [alone]
        assert homogeneous(search.observations, items, data.with_units(units)) is items


def test_clean_laws_do_not_depend_on_units():
    clean = simulate(CallableField(oscillator, 2), [1.0, 0.0], T[:60]).x[0]
    answers = []
    for units in ({}, {"x": "how far", "v": "??"}, {"x": "m", "v": "m/s", "t": "s"}):
        data = Trajectories.from_arrays(clean, T[:60], state_names=["x", "v"], units=units)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answers.append(fim_dynsys.load("auto", effort="fast").fit(data).field_.to_arrays())
    for other in answers[1:]:
        assert all((other[name] == own).all() for name, own in answers[0].items())
