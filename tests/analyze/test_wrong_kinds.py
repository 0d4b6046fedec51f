"""Arguments of the wrong kind, and fields that an analysis does not take: who refuses, and what to do."""

import numpy as np
import pytest

from fim_dynsys import CallableField, analyze, load, plot
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.forced import ForcedField, wave_names
from fim_dynsys.fields.terms import Dictionary

BOX = [(-3.0, 3.0)] * 2
VDP = CallableField(lambda s: np.stack([s[:, 1], (1 - s[:, 0] ** 2) * s[:, 1] - s[:, 0]], axis=1), 2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: analyze.ensemble("fixed_points", [VDP, VDP], BOX), "ensemble: expected an analysis"),
        (lambda: analyze.manifolds(VDP, BOX, found=VDP), "manifolds: expected found as FixedPoints"),
        (lambda: analyze.phase_response(VDP, BOX, cycles=VDP), "phase_response: expected cycles as LimitC"),
        (lambda: analyze.isochrons(VDP, BOX, cycles="all"), "isochrons: expected cycles as LimitCycles"),
        (lambda: plot.return_map(np.zeros((3, 2))), "return_map: expected result as PoincareSection"),
        (lambda: plot.lyapunov_convergence("a"), "lyapunov_convergence: expected result as Lyapunov"),
        (lambda: analyze.fixed_points(pytest.importorskip("pysindy").SINDy(), BOX), "load.'sindy'"),
    ],
)
def test_the_caller_and_what_is_expected_are_named(call, words):
    with pytest.raises(TypeError, match=words):
        call()


def test_models_with_inputs_are_to_be_held():
    t = np.linspace(0, 10, 101)
    model = load("sindy").fit(np.stack([np.sin(t), np.cos(t)], axis=1), t, u=np.cos(0.3 * t))
    for call in (lambda: analyze.cycle_bands(model), lambda: analyze.tipping(model, [1.0, 0.0], 5.0)):
        with pytest.raises(TypeError, match="at_input"):
            call()


def test_forced_fields_have_no_fixed_points():
    terms = Dictionary.polynomial(4, 1)
    names = wave_names([1.2])
    coefficients = np.zeros((len(terms), 4))
    place = {tuple(powers): row for row, powers in enumerate(terms.exponents.tolist())}
    coefficients[place[0, 1, 0, 0], 0], coefficients[place[1, 0, 0, 0], 1] = 1.0, -1.0
    field = ForcedField(
        DictionaryField(terms, coefficients, state_names=["x", "v", *names]), names, state_names=["x", "v"]
    )
    found = analyze.fixed_points(field, [(-2.0, 2.0)] * 4, n_draws=0)
    assert not len(found) and found.forcing == tuple(names)
    assert "limit_cycles" in str(found)
