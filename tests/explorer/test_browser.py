"""The page in a browser: clicks and keys start the trajectories that `simulate` gives."""

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import CallableField, EnsembleField, Region, SymbolicField
from fim_dynsys.explorer.page import write_explorer
from tests.explorer.browser import CHROMIUM, REASON, act

pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason=REASON)]

BOX = Region([-3, -4], [3, 4])
CLICK = """
const canvas = explorer.portrait.canvas, box = canvas.getBoundingClientRect();
const [x, y] = explorer.portrait.at([START]);
canvas.dispatchEvent(new MouseEvent("click", { clientX: box.left + x, clientY: box.top + y, bubbles: true }));
const run = explorer.starts.at(-1);
"""
RETURN = "return { x: run.x, milliseconds: run.milliseconds, paths: run.paths, members: run.members };"


def clicked(page, start, then=RETURN):
    return act(page, CLICK.replace("START", ", ".join(map(str, start))) + then)


def assert_simulated(field, start, path, size):
    """Within 1e-3 of the scale at all times of the page."""
    t, x = np.array(path["t"]), np.array(path["x"])
    truth = fim_dynsys.simulate(field, start, t, rtol=1e-9).x[0]
    assert np.abs((x - truth) / size).max() < 1e-3
    assert len(t) > 50


@pytest.fixture(scope="module")
def van_der_pol():
    names = ["</script><script>document.title='taken'</script>", "y&<b>"]
    return SymbolicField(["x1", "(1 - x0**2)*x1 - x0"], state_names=names, region=BOX)


def test_a_click_draws_what_simulate_gives(van_der_pol, tmp_path):
    page = write_explorer(van_der_pol, tmp_path / "page.html")
    then = RETURN.replace(
        "return {", "return { title: document.title, bold: document.querySelectorAll('b').length,"
    )
    seen = clicked(page, (0.5, 2.0), then)
    assert seen.console == [] and seen.value["bold"] == 0 and "taken'" in seen.value["title"]
    assert_simulated(van_der_pol, seen.value["x"], seen.value["paths"][0], BOX.size)
    assert np.allclose(seen.value["x"], [0.5, 2.0], atol=0.02)
    assert seen.value["paths"][0]["status"] == ""


def test_a_table_and_backwards(tmp_path):
    field = CallableField(
        lambda x: np.stack([x[:, 1], -np.sin(x[:, 0]) - 0.1 * x[:, 1]], axis=1), 2, region=BOX
    )
    page = write_explorer(field, tmp_path / "page.html", cycles=False)
    backwards = (
        "document.getElementById('backwards').checked = true; document.getElementById('span').value = 6;"
    )
    seen = act(page, backwards + CLICK.replace("START", "1.0, 0.5") + RETURN)
    assert seen.console == [] and len(seen.value["paths"]) == 2
    for path in seen.value["paths"]:
        assert_simulated(field, seen.value["x"], path, BOX.size)


def test_members_are_integrated_beside_the_field(tmp_path):
    def decay(rate):
        return SymbolicField([f"-{rate}*x0", "-x1"], region=BOX)

    members = EnsembleField([decay(0.5), decay(2.0)])
    page = write_explorer(decay(1.0), tmp_path / "page.html", ensemble=members)
    seen = clicked(page, (2.0, 1.0))
    for member, path in zip(members, seen.value["members"], strict=True):
        assert_simulated(member, seen.value["x"], path, BOX.size)


def test_a_family_moves_along(tmp_path):
    laws = ["p*x0 - x1 - x0*(x0**2 + x1**2)", "x0 + p*x1 - x1*(x0**2 + x1**2)"]
    family = SymbolicField(laws, {"p": 0.1}, region=BOX).family("p")
    page = write_explorer(family, tmp_path / "page.html", parameter=[-0.5, 1.0])
    slide = """
const slider = document.getElementById("slider");
slider.value = 1;
slider.dispatchEvent(new Event("input"));
return { run: explorer.starts[0], cycles: explorer.objects.cycles.length, script: explorer.script() };
"""
    seen = clicked(page, (1.0, 1.0), slide)
    assert seen.console == [] and seen.value["cycles"] == 1
    assert_simulated(family.at(1.0), seen.value["run"]["x"], seen.value["run"]["paths"][0], BOX.size)
    assert "p = 1" in seen.value["script"]


def test_keys_start_trajectories_and_the_python_runs(van_der_pol, tmp_path, monkeypatch):
    page = write_explorer(van_der_pol, tmp_path / "page.html", cycles=False)
    press = """
const key = (name) => explorer.portrait.canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name }));
for (const name of ["ArrowRight", "ArrowUp", "Enter", "ArrowLeft", "Enter", "Backspace"]) key(name);
document.getElementById("python").click();
return { starts: explorer.starts.map((run) => run.x), code: document.getElementById("code").value };
"""
    seen = act(page, press)
    assert np.allclose(seen.value["starts"], [[0.12, 0.16]])
    monkeypatch.chdir(tmp_path)
    told = {}
    exec(seen.value["code"], told)
    assert (tmp_path / "portrait.png").stat().st_size > 1000
    assert np.allclose(told["paths"].x[0, 0], [0.12, 0.16])
    x = np.array([[0.3, -1.0]])
    np.testing.assert_allclose(told["field"](x), van_der_pol(x), rtol=1e-12)


@pytest.mark.parametrize("dim", [1, 3])
def test_one_state_and_three(dim, tmp_path):
    laws = {1: ["x0 - x0**3"], 3: ["x1", "x2", "-x0 - x1 - 0.5*x2"]}[dim]
    field = SymbolicField(laws, region=Region([-2] * dim, [2] * dim))
    page = write_explorer(field, tmp_path / "page.html", cycles=False)
    turn = "explorer.turn(1, 2); explorer.held[1] = 0.5;" if dim == 3 else ""
    start = {1: "0.5, 0.0", 3: "1.0, -1.0"}[dim]
    seen = act(page, turn + CLICK.replace("START", start) + RETURN)
    assert seen.console == []
    assert np.allclose(seen.value["x"], {1: [0.5], 3: [1.0, 0.5, -1.0]}[dim], atol=0.02)
    assert_simulated(field, seen.value["x"], seen.value["paths"][0], 4.0)
