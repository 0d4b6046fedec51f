"""The page about a fitted model: whole, without outside addresses, and as the command line writes it."""

import base64
import hashlib
import io
import json
import re
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pysindy as ps
import pytest
from PIL import Image

import fim_dynsys
from fim_dynsys import Trajectories
from fim_dynsys import __main__ as cli
from fim_dynsys.errors import DataWarning
from fim_dynsys.plot.canvas import Drawing
from fim_dynsys.report import write_report

VOID = {"img", "meta", "br", "hr"}


class Page(HTMLParser):
    """Sections, tables and pictures of a page; fails where tags are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.headings, self.images, self.rows, self.addresses = [], [], [], [], []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.addresses += [attrs[name] for name in ("src", "href", "action", "data") if name in attrs]
        if tag == "img":
            self.images.append(attrs)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")
        if tag in ("h1", "h2", "h3"):
            self.headings.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self.open and self.open[-1] in ("th", "td"):
            self.rows[-1][-1] += data
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings[-1] += data

    def cell(self, name):
        """The value beside a name in a table of facts."""
        (value,) = [row[1] for row in self.rows if len(row) == 2 and row[0] == name]
        return value


@pytest.fixture(autouse=True, scope="module")
def agg():
    """No window."""
    backend = matplotlib.get_backend()
    matplotlib.use("Agg")
    yield
    matplotlib.use(backend)


@pytest.fixture(scope="module")
def data():
    """Two noise-free trajectories into the focus (0, 1) of eigenvalues -0.3 +- 2i; awkward name and unit."""
    t, focus = np.linspace(0.0, 6.0, 240), np.array([0.0, 1.0])
    turn = np.exp(-0.3 * t)[:, None] * np.stack([np.cos(2 * t), np.sin(2 * t)], axis=-1)
    return Trajectories.from_arrays(
        [focus + turn, focus - 0.5 * turn],
        t,
        state_names=("a<b", "y"),
        units={"y": "µm & more", "t": "s"},
    )


@pytest.fixture(scope="module")
def page(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    data.to_file(folder / "data.csv")
    fit = ["fit", str(folder / "data.csv"), "--model", "sindy", "--out", str(folder / "fitted")]
    assert cli.main(fit) == 0
    box = ["--region", "y=-2:2", "a<b=-1.5:1.5"]
    assert cli.main(["analyze", str(folder / "fitted"), "--report", str(folder / "report.html"), *box]) == 0
    return folder


@pytest.fixture(scope="module")
def parsed(page):
    return Page((page / "report.html").read_text(encoding="utf-8"))


def test_sections(parsed):
    assert parsed.headings == [
        "sindy: a<b, y",
        "Equations",
        "Portrait",
        "Fixed points",
        "Cycles",
        "What is uncertain",
        "Data",
        "Fit",
    ]


def test_provenance_is_last_and_folded(page):
    text = (page / "report.html").read_text(encoding="utf-8")
    assert text.index("<h2>Fit</h2>") < text.index("<details><summary>Provenance</summary>")
    assert "<details open" not in text and text.rstrip().endswith("</details>\n</body></html>")


def test_equations_wrap_and_tables_scroll(page):
    """Nothing is wider than a phone: long lines break, tables scroll in boxes of their own."""
    text = (page / "report.html").read_text(encoding="utf-8")
    assert "<pre" not in text and "overflow-wrap: anywhere" in text and "width=device-width" in text
    for before in text.split("<table")[:-1]:
        assert before.rfind('<div class="wide">') > before.rfind("</table>")


def test_every_picture_decodes_and_is_described(parsed):
    assert len(parsed.images) == 4
    for image in parsed.images:
        kind, _, encoded = image["src"].partition(",")
        assert kind == "data:image/png;base64"
        with Image.open(io.BytesIO(base64.b64decode(encoded, validate=True))) as picture:
            assert picture.format == "PNG"
            assert min(picture.size) > 200
            assert np.ptp(np.asarray(picture.convert("L"))) > 100  # not blank
        assert len(image["alt"]) > 10


def test_nothing_comes_from_outside(page, parsed):
    assert all(address.startswith("data:") for address in parsed.addresses)
    text = re.sub(r'"data:[^"]*"', "", (page / "report.html").read_text(encoding="utf-8"))
    assert re.findall(r"https?:|url\(|@import|<script|<link|<iframe", text) == []


def test_tables_hold_what_was_found(parsed):
    assert [row[:4] for row in parsed.rows if row[0] == "y" and len(row) == 6] == [
        ["y", "µm & more", "480", "0"]
    ]
    scores = [row for row in parsed.rows if len(row) == 5 and row[1] == "240"]
    assert [float(row[2]) > 0.999 for row in scores] == [True, True]
    assert [row[3] for row in scores] == ["success", "success"]
    (focus,) = [row for row in parsed.rows if "stable focus" in row]
    assert (float(focus[0]), float(focus[1])) == pytest.approx((0.0, 1.0), abs=2e-3)
    real, imaginary = re.match(r"\((-[\d.]+)\+([\d.]+)i", focus[3]).groups()
    assert (float(real), float(imaginary)) == pytest.approx((-0.3, 2.0), abs=0.02)
    assert "index check balanced" in parsed.text
    assert "0 periodic orbits" in parsed.text
    assert "Region({'a<b': (-1.5, 1.5), 'y': (-2, 2)})" in parsed.text


def test_cycles_get_a_table_and_a_picture(tmp_path):
    """The cycle r = 1 of period pi, approached from inside and outside."""
    t = np.linspace(0.0, 6.0, 240)
    paths = []
    for start in (0.2, 2.0):
        r = start / np.sqrt(start**2 + (1 - start**2) * np.exp(-2 * t))
        paths.append(r[:, None] * np.stack([np.cos(2 * t), np.sin(2 * t)], axis=-1))
    cubic = fim_dynsys.load("sindy", feature_library=ps.PolynomialLibrary(degree=3)).fit(paths, t)
    found = Page(write_report(cubic, tmp_path / "cycle.html").read_text(encoding="utf-8"))
    (orbit,) = [row for row in found.rows if "stable" in row]
    assert float(orbit[0]) == pytest.approx(np.pi, abs=0.01)
    assert "Floquet multipliers of the cycles" in [image["alt"] for image in found.images]


def test_provenance(page, parsed):
    record = json.loads((page / "fitted" / "fit.json").read_text(encoding="utf-8"))
    digest = hashlib.sha256((page / "data.csv").read_bytes()).hexdigest()
    assert (parsed.cell("data"), parsed.cell("data sha256")) == ("data.csv", digest)
    assert parsed.cell("fitted") == record["fitted"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", parsed.cell("analysed"))
    assert parsed.cell("command").startswith("fim-dynsys fit ")
    assert "--region y=-2:2" in parsed.cell("analysis command")
    assert f"numpy {np.__version__}" in parsed.cell("packages")
    assert (
        parsed.cell("model")
        == parsed.cell("model at the fit")
        == f"sindy, version {fim_dynsys.load('sindy').version}"
    )


def test_a_report_leaves_no_figure_open(page, tmp_path):
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    write_report(fim_dynsys.load_fitted(page / "fitted"), tmp_path / "again.html")
    assert plt.get_fignums() == before


def test_one_state_has_no_cycles_and_lost_samples_are_counted(tmp_path):
    t = np.linspace(0.0, 3.0, 80)
    x = np.tanh(t - 1.5)
    x[[0, 5]] = np.nan
    with pytest.warns(DataWarning, match="dropped 2 of 80"):
        model = fim_dynsys.load("sindy").fit(Trajectories.from_arrays(x, t, state_names=["u"]))
    found = Page(write_report(model, tmp_path / "one.html").read_text(encoding="utf-8"))
    assert "Cycles" not in found.headings
    assert [row[2:4] for row in found.rows if row[0] == "u" and len(row) == 6] == [["78", "2"]]
    assert len(found.images) == (4 if "0 fixed points" not in found.text else 3)
    assert "DataWarning" not in found.text  # that of the fit belongs to the fit


@pytest.fixture
def no_pictures(monkeypatch):
    """A page without pictures, which take most of its time, for tests of its tables."""
    monkeypatch.setattr(Drawing, "png", lambda _: b"")


@pytest.mark.usefixtures("no_pictures")
def test_a_folder_without_record_says_so(page, tmp_path, data, capsys):
    fim_dynsys.load("sindy").fit(data).save(tmp_path / "saved")
    assert cli.main(["analyze", str(tmp_path / "saved"), "--report", str(tmp_path / "r.html")]) == 0
    found = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert found.cell("fitted") == "not recorded"
    assert capsys.readouterr().out == f"{tmp_path / 'r.html'} written\n"


@pytest.mark.usefixtures("no_pictures")
def test_a_record_of_another_fit_is_not_believed(page, tmp_path):
    """The record of the command line stays in the folder when a model is saved there later."""
    folder = tmp_path / "fitted"
    t = np.linspace(0.0, 3.0, 40)
    np.savetxt(
        tmp_path / "old.csv", np.column_stack([t, np.exp(-t)]), delimiter=",", header="t,u", comments=""
    )
    assert cli.main(["fit", str(tmp_path / "old.csv"), "--model", "sindy", "--out", str(folder)]) == 0
    fim_dynsys.load("sindy").fit(np.exp(-2 * t)[:, None], t).save(folder)
    assert cli.main(["analyze", str(folder), "--report", str(tmp_path / "r.html")]) == 0
    found = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert found.cell("fitted") == "not recorded" and "old.csv" not in found.text


def test_names_that_are_no_mathematics(tmp_path):
    t = np.linspace(0.0, 3.0, 40)
    model = fim_dynsys.load("sindy").fit(np.exp(-t)[:, None], t, feature_names=[r"$\frac{$"])
    found = Page(write_report(model, tmp_path / "r.html").read_text(encoding="utf-8"))
    assert r"$\frac{$" in found.text and "Against the data: path R2 1, in short windows" in found.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "{0}/none.csv", "--model", "sindy", "--out", "{0}/o"], "none.csv"),
        (["fit", "{0}/data.csv", "--model", "sindi", "--out", "{0}/o"], "nearest: sindy"),
        (["fit", "{0}/data.csv", "--model", "sindy", "--out", "{0}/o", "--time", "z"], "'z'"),
        (["analyze", "{0}/nowhere", "--report", "{0}/r.html"], "nowhere"),
        (["analyze", "{0}/fitted", "--report", "{0}/none/r.html"], "none"),
        (
            ["analyze", "{0}/fitted", "--report", "{0}/r.html", "--region", "y=0:1"],
            "for each of the states a<b, y, got y",
        ),
    ],
)
def test_errors_name_what_to_mend(page, arguments, message, capsys):
    assert cli.main([word.format(page) for word in arguments]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"fim-dynsys {arguments[0]}: ")
    assert message in error


@pytest.mark.parametrize("region", ["y", "y=1", "y=a:b", "y=1:2:3"])
def test_malformed_regions_are_refused(region, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["analyze", "fitted", "--report", "r.html", "--region", region])
    assert stopped.value.code == 2
    assert f"expected STATE=LOW:HIGH, got '{region}'" in capsys.readouterr().err


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("observed", [["i"], ["i", "s"], ["s+i", "i"]])
def test_observed_columns_are_compared_with_what_the_fit_says_of_them(observed, tmp_path):
    rates, t = {"s": "-b*s*i", "i": "b*s*i-g*i"}, np.linspace(0.0, 20.0, 41)
    field = fim_dynsys.SymbolicField(rates, {"b": 0.001, "g": 0.3})
    s, i = fim_dynsys.simulate(field, [990.0, 10.0], t).x[0].T
    columns = {"i": i, "s": s, "s+i": s + i}
    model = fim_dynsys.load("equations", expressions=rates, n_starts=2, start={"b": 0.002, "g": 0.2})
    model.fit(np.column_stack([columns[name] for name in observed]), t, observed=observed)
    assert model.field_.fit_info.path_r2 > 0.999
    found = Page(write_report(model, tmp_path / "page.html").read_text(encoding="utf-8"))
    head = found.rows.index(["trajectory", "samples", "R²"])
    assert float(found.rows[head + 1][2]) > 0.999
