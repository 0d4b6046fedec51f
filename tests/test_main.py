"""The command line reports what is there, and fails where something does not work."""

import hashlib
import json
from importlib import metadata

import pytest

import fim_dynsys
from fim_dynsys import __main__ as cli
from fim_dynsys.commands import installation
from fim_dynsys.registry import ModelEntry, ModelSpec, ModelTable, available


def _json(arguments, capsys):
    code = cli.main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_info_states_versions_weights_and_threads(capsys, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    code, facts = _json(["info"], capsys)
    assert code == 0
    assert facts["fim-dynsys"] == fim_dynsys.__version__
    assert facts["packages"]["numpy"] == metadata.version("numpy")
    assert facts["threads"]["OMP_NUM_THREADS"] == "3"
    assert set(facts["weights"]) == {path.name for path in installation.weights_files()}
    for path in installation.weights_files():
        assert facts["weights"][path.name]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert facts["weights"][path.name]["header"]
    cli.main(["info"])
    text = capsys.readouterr().out
    assert f"fim-dynsys: {fim_dynsys.__version__}\n" in text
    assert f"  numpy: {metadata.version('numpy')}\n" in text


def test_available_prints_the_table(capsys):
    assert cli.main(["available"]) == 0
    assert capsys.readouterr().out.rstrip() == repr(available())
    _, rows = _json(["available"], capsys)
    here = [row for row in rows if row["install"] is None]
    assert [row["name"] for row in here] == [entry.name for entry in available()]
    assert all(row["problem"] is None for row in here)
    missing = [(row["name"], row["install"]) for row in rows if row["install"] is not None]
    assert missing == [(plugin.name, plugin.install) for plugin in available().not_installed]


def test_doctor_is_content(capsys):
    code, results = _json(["doctor"], capsys)
    failed = [result for result in results if not result["ok"]]
    assert (code, failed) == (0, [])
    checks = {result["check"]: result["detail"] for result in results}
    assert checks["import numpy"] == metadata.version("numpy")
    assert checks["model sindy"].startswith("dx/dt at 1 of a decay: -0.50")
    assert "needs weights" in checks["model fim-ode-published"]
    for path in installation.weights_files():
        assert hashlib.sha256(path.read_bytes()).hexdigest()[:16] in checks[f"weights {path.name}"]


def test_doctor_reports_what_is_broken(capsys, monkeypatch, tmp_path):
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(b"not weights")
    broken = ModelEntry("toy", "toy-broken", None, "cannot import toy: RuntimeError: boom")
    monkeypatch.setattr(installation, "weights_files", lambda: [damaged])
    monkeypatch.setattr(installation, "available", lambda: ModelTable([broken]))
    monkeypatch.setattr(installation, "_DEPENDENCIES", ("numpy", "not-installed-anywhere"))
    code, results = _json(["doctor"], capsys)
    assert code == 1
    verdicts = {result["check"]: result["ok"] for result in results}
    assert verdicts == {
        "import numpy": True,
        "import not-installed-anywhere": False,
        "weights damaged.safetensors": False,
        "plugin toy": False,
    }
    details = {result["check"]: result["detail"] for result in results}
    assert details["plugin toy"].endswith("RuntimeError: boom")
    cli.main(["doctor"])
    assert "FAIL  plugin toy" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["dance"], ["info", "--colour"]])
def test_unknown_commands_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2
    assert "usage: fim-dynsys" in capsys.readouterr().err


def test_doctor_fits_no_model_that_trains(capsys, monkeypatch):
    trained = ModelEntry("sindy", "toy", ModelSpec("sindy", "", "", needs_training=True))
    monkeypatch.setattr(installation, "available", lambda: ModelTable([trained]))
    monkeypatch.setattr(installation, "_DEPENDENCIES", ())
    code, results = _json(["doctor"], capsys)
    assert code == 0
    (detail,) = [result["detail"] for result in results if result["check"] == "model sindy"]
    assert detail.startswith("loaded")


def test_doctor_compiles_ahead(capsys, monkeypatch):
    monkeypatch.setattr(installation, "COMPILED", ("sindy-strong",))
    monkeypatch.setattr(installation, "available", tuple)
    monkeypatch.setattr(installation, "_DEPENDENCIES", ())
    assert cli.main(["doctor", "--compile", "--json"]) == 0
    (*_, last) = json.loads(capsys.readouterr().out)
    assert (last["check"], last["ok"]) == ("compile sindy-strong", True)
    assert cli.main(["doctor", "--json"]) == 0
    assert "compile" not in capsys.readouterr().out
