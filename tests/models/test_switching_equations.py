"""Equations that switch: min, max and choices, against closed forms."""

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys.estimation.switches import Switching, switch_times
from fim_dynsys.fields.expressions import parse
from fim_dynsys.fields.symbolic import SymbolicField

T = np.linspace(0.0, 8.0, 33)


def fitted(expressions, x, **options):
    model = fim_dynsys.load("equations", expressions=expressions, n_starts=3, **options)
    return model.fit(x, T, feature_names=list(expressions)).parameters_


def test_a_rate_that_saturates_is_fitted_across_the_kink():
    first, slope, most = 5.0, 1.0, 2.0
    kink = (first - most / slope) / most
    x = np.where(kink > T, first - most * T, most / slope * np.exp(-slope * (T - kink)))
    found = fitted({"s": "-min(V*s, M)"}, x)
    np.testing.assert_allclose([found["V"], found["M"]], [slope, most], rtol=1e-6)


@pytest.mark.parametrize("threshold", ["2", "L"])
def test_a_jump_at_a_state_is_not_biased(threshold):
    x = np.where(T < 2.0, T, 2.0 + 0.25 * (T - 2.0))
    found = fitted(
        {"x": f"a if x < {threshold} else b"}, x, bounds={"L": (1, 3)} if threshold == "L" else None
    )
    np.testing.assert_allclose([found["a"], found["b"]], [1.0, 0.25], rtol=1e-4)
    assert found.get("L", 2.0) == pytest.approx(2.0, rel=1e-4)


@pytest.mark.parametrize(("when", "tolerance"), [("4", 1e-7), ("S", 1e-4)])
def test_a_jump_in_time_is_exact_where_the_time_is_known(when, tolerance):
    x = np.where(T < 4, 2 * np.exp(-0.5 * T), 2 * np.exp(-2.0) * np.exp(0.3 * (T - 4)))
    found = fitted({"x": f"(-k if t < {when} else g)*x"}, x, start={"S": 3.5} if when == "S" else None)
    np.testing.assert_allclose([found["k"], found["g"]], [0.5, 0.3], rtol=tolerance)


def test_what_is_continuous_or_known_stays_as_it_is():
    switching = Switching(["u"], {"c": 2.0}, {"x": 1.0, "L": 1.0, "u": 1.0, "t": 8.0})
    for text in ("min(x, L)", "Piecewise((x, x < L), (L, True))", "1 if t < c else 2", "sign(u - c)"):
        assert switching.smoothed([parse(text)]) == (parse(text),)
    steep = switching.smoothed([parse("log(x) if x > L else 5")])[0]
    for x, value in ((2.0, np.log(2.0)), (0.5, 5.0), (1.0, 2.5)):
        point = {symbol: {"x": x, "L": 1.0}[symbol.name] for symbol in steep.free_symbols}
        assert float(steep.subs(point)) == pytest.approx(value)
    both = [parse("1 if t < c and x > 0 else 2"), parse("max(t, 3)")]
    assert switch_times(both, {"c": 2.0}) == (2.0, 3.0)


def test_fields_of_choices_evaluate_differentiate_and_are_written():
    texts = {"x": "min(x, 2*y, 3) - k*abs(x)", "y": "(1 if x > 0 and y <= 2 else 0) - y"}
    field = SymbolicField(texts, {"k": 0.5})
    x = np.array([[1.0, 0.2], [-1.0, 5.0], [4.0, 2.0]])
    expected = np.stack([np.minimum(np.minimum(x[:, 0], 2 * x[:, 1]), 3) - 0.5 * abs(x[:, 0]), -x[:, 1]], 1)
    expected[:, 1] += (x[:, 0] > 0) & (x[:, 1] <= 2)
    np.testing.assert_allclose(field(x), expected)
    np.testing.assert_allclose(field.jacobian(x)[:, 0], [[-0.5, 2.0], [1.5, 0.0], [-0.5, 0.0]])
    assert field.equations()[0] == "-0.5 |x| + min(3, x, 2 y)"
    assert field.equations()[1] == "-y + (1 if (y <= 2) and (x > 0) else 0)"
    assert all(parse(str(own)) == own for own in field.expressions)
    assert r"\begin{cases}1 & \text{if }" in field.latex()


@pytest.mark.parametrize(
    "text",
    ["min(x)", "Piecewise((x, x > 0))", "x if x == 0 else y", "x > 0", "max(x, y, key=3)", "x if y else 3"],
)
def test_other_choices_are_refused(text):
    with pytest.raises(ValueError, match="parse: expected"):
        parse(text)
