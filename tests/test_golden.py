"""A model whose numbers change raises its version, by which stored results are told apart."""

import numpy as np
import pytest

from tests import golden


@pytest.mark.parametrize("name", list(golden.HOW_TO_RAISE))
def test_numbers_are_those_of_the_version(name):
    expected = golden.read()[name]
    version, values = golden.current(name)
    assert version == expected["version"], (
        f"{name} is version {version}, tests/data/golden.json has the numbers of {expected['version']}; "
        f"write those of the new version: {golden.COMMAND}"
    )
    different = golden.differences(values, expected["values"])
    assert not different, (
        f"{name} returns other numbers than version {version} did, relative differences {different}; "
        f"{golden.HOW_TO_RAISE[name]}, then: {golden.COMMAND}"
    )


def test_a_changed_number_is_seen_and_not_written_under_the_old_version(monkeypatch, tmp_path):
    stored = golden.read()
    values = {key: np.array(value) for key, value in stored["sindy"]["values"].items()}
    assert golden.differences(values, stored["sindy"]["values"]) == {}
    changed = {key: value * (1 + 1e-5) for key, value in values.items()}
    assert set(golden.differences(changed, stored["sindy"]["values"])) == set(values)
    copy = tmp_path / "golden.json"
    copy.write_text(golden.GOLDEN.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(golden, "GOLDEN", copy)
    monkeypatch.setattr(golden, "HOW_TO_RAISE", {"sindy": golden.HOW_TO_RAISE["sindy"]})
    monkeypatch.setattr(golden, "current", lambda name: ("1", changed))
    with pytest.raises(
        SystemExit, match=r"sindy: expected the numbers of version 1.*raise `version` of SINDy"
    ):
        golden.write("a test")
    monkeypatch.setattr(golden, "current", lambda name: ("2", changed))
    assert golden.write("a test") == ["sindy"]
    assert golden.read()["sindy"]["version"] == "2"
    assert golden.read()["fim-ode"] == stored["fim-ode"]
