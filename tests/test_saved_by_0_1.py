"""Models that version 0.1 saved load, with the fields they had on that day."""

import json
from pathlib import Path

import numpy as np
import pytest

import fim_dynsys

FOLDER = Path(__file__).parent / "data" / "saved_by_0_1"
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_model_of_0_1_loads(name):
    facts = EXPECTED[name]
    fitted = fim_dynsys.load_fitted(FOLDER / name)
    assert fitted.name == name and fitted.feature_names == ["x", "v"]
    np.testing.assert_allclose(fitted.predict(np.array(facts["points"])), facts["field"], rtol=1e-9)
    assert fitted.equations() == facts["equations"]
    path = fitted.simulate(np.array([1.0, 0.0]), np.linspace(0.0, 2.0, 5))
    exact = np.exp(-0.2) * np.array([np.cos(2.0), -np.sin(2.0)])
    np.testing.assert_allclose(np.asarray(path)[-1], exact, atol=0.01)
