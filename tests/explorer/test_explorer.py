"""The page as a file: one piece, no addresses, escaped; fields as code and as tables."""

import json
import re

import numpy as np
import pytest

from fim_dynsys import CallableField, EnsembleField, FieldFamily, Region, SymbolicField, load
from fim_dynsys import __main__ as cli
from fim_dynsys.explorer.page import write_explorer
from fim_dynsys.explorer.rates import between_nodes, rates_of

BOX = Region([-1, -2], [1, 2])
NAMES = ["</script><b>", "y"]


def pendulum(**kwargs):
    return CallableField(lambda x: np.stack([x[:, 1], -np.sin(3 * x[:, 0])], axis=1), 2, region=BOX, **kwargs)


def scene(page):
    text = page.read_text(encoding="utf-8")
    (held,) = re.findall(r'<script type="application/json" id="scene">(.*?)</script>', text, re.DOTALL)
    return text, json.loads(held)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    t = np.linspace(0.0, 6.0, 80)
    x = np.exp(-0.2 * t)[:, None] * np.stack([np.cos(t), -np.sin(t)], axis=-1)
    folder = tmp_path_factory.mktemp("explorer") / "fitted"
    return load("sindy").fit(x, t, feature_names=NAMES).save(folder)


def test_the_command_writes_one_file_and_the_report_links_to_it(fitted, tmp_path, capsys):
    page = tmp_path / "a page.html"
    assert cli.main(["explore", str(fitted), "--out", str(page), "--members", "2"]) == 0
    assert capsys.readouterr().out == f"{page} written\n"
    text, held = scene(page)
    assert held["states"] == NAMES and held["folder"] == str(fitted) and held["members"] == 2
    assert len(held["frames"][0]["points"]) == 1
    assert text.count("</script>") == 2 and "<b>" not in text
    assert not re.findall(r"(?:src|href)=|https?://", text)
    assert len(text) < 5e6 and held["note"] == ""
    report = tmp_path / "report.html"
    assert cli.main(["analyze", str(fitted), "--report", str(report), "--explorer", str(page)]) == 0
    assert '<a href="a%20page.html">' in report.read_text(encoding="utf-8")


def test_a_table_states_its_error():
    rates = rates_of(pendulum(), BOX)
    assert rates.equations == () and rates.code.startswith("tabulated(")
    error = float(rates.note.rsplit(" ", 1)[1])
    assert 0 < error < 1e-4


def test_tables_of_many_fields_share_their_room(tmp_path):
    members = EnsembleField([pendulum()] * 40)
    text, held = scene(write_explorer(pendulum(), tmp_path / "page.html", ensemble=members, cycles=False))
    assert 2e6 < len(text) < 5e6 and "values along each axis" in held["note"]
    assert rates_of(pendulum(), BOX, 300).error > rates_of(pendulum(), BOX).error


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_cubics_are_read_exactly(dim):
    box = Region([-1.0] * dim, [2.0] * dim)
    nodes = np.stack(np.meshgrid(*[np.linspace(-1, 2, 7)] * dim, indexing="ij"), axis=-1)

    def cubic(x):
        return x**3 + np.prod(x**3 - x, axis=-1, keepdims=True)

    points = box.sobol(50)
    np.testing.assert_allclose(between_nodes(cubic(nodes), box, points), cubic(points), atol=1e-11)


def test_many_states_without_equations_are_distilled():
    box = Region([-1] * 4, [1] * 4)
    field = CallableField(lambda x: -(x**3), 4, region=box)
    rates = rates_of(field, box)
    assert rates.note.startswith("distilled equations, relative residual")
    assert [text.count("x") for text in rates.equations] == [1] * 4


def test_expressions_become_code():
    field = SymbolicField(["abs(x0)", "exp(-x1**2)*a"], {"a": 2.5}, region=BOX)
    rates = rates_of(field, BOX)
    assert "Math.abs(x0)" in rates.code and "2.5*Math.exp(" in rates.code
    again = SymbolicField(list(rates.equations))
    x = BOX.sobol(8)
    np.testing.assert_allclose(again(x), field(x), rtol=1e-14)


def test_a_family_has_a_frame_for_each_value(tmp_path):
    family = SymbolicField(["p - x0**2", "-x1"], {"p": 1.0}, region=BOX).family("p")
    _, held = scene(write_explorer(family, tmp_path / "page.html", parameter=[-1, 0.25, 0.5], cycles=False))
    assert held["parameter"] == {"name": "p", "values": [-1.0, 0.25, 0.5]}
    assert [len(frame["points"]) for frame in held["frames"]] == [0, 2, 2]
    assert [point["x"][0] for point in held["frames"][1]["points"]] == pytest.approx([-0.5, 0.5], abs=1e-7)


@pytest.mark.parametrize(
    ("field", "options", "message"),
    [
        (pendulum(), {"parameter": [1, 2]}, "parameter with a FieldFamily"),
        (FieldFamily.from_callable(lambda x, p: p * x, 1, "p"), {}, "values of p for a family"),
        (FieldFamily.from_callable(lambda x, p: p * x, 1, "p"), {"parameter": [2, 1]}, "increasing values"),
        (pendulum(), {"ensemble": EnsembleField([CallableField(lambda x: x, 1)])}, "members of 2 states"),
        (CallableField(lambda x: x, 1), {}, "expected a region"),
    ],
)
def test_what_does_not_fit_is_refused(field, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        write_explorer(field, tmp_path / "page.html", **options)


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="existing folder"):
        write_explorer(pendulum(), tmp_path / "none" / "page.html")
