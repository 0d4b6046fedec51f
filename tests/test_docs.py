"""The documentation: every ```python block runs, tables agree with the code, commands and links exist."""

import importlib.util
import inspect
import re
import shutil
import sys
import types

import pytest

import fim_dynsys
from fim_dynsys import errors, registry
from tests.pages import DOCS, NOTEBOOKS, PAGES, ROOT, name

BLOCK = re.compile(r"^```([\w{}-]*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r"```\n\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def blocks(page, language):
    """(line number, text) of each fenced block in `language`."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, m.start(2)), m.group(2)) for m in BLOCK.finditer(text) if m.group(1) == language
    ]


def assert_printed(printed, shown):
    """Words are equal and numbers close: sampling repeats itself only on the same processor."""
    assert len(printed) == len(shown)
    for left, right in zip(printed, shown, strict=True):
        try:
            left, right = float(left), float(right)
        except ValueError:
            assert left == right
        else:
            assert left == pytest.approx(right, rel=0.2, abs=1e-6)


@pytest.fixture(scope="module")
def make_plots():
    """The script that draws the pictures of the pages."""
    spec = importlib.util.spec_from_file_location("make_plots", DOCS / "make_plots.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def anchors(page):
    """Anchors that the headings of a page get on code hosts."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def commands():
    """Every line of a fenced block that starts a module of this project: (page, module, options)."""
    for page in PAGES:
        for _, text in blocks(page, ""):
            for module, rest in re.findall(r"^python -m ([\w.]+)([^#\n]*)", text, re.MULTILINE):
                yield pytest.param(
                    module, re.findall(r"--[\w-]+", rest), id=f"{name(page)}:{module}{rest.rstrip()}"
                )


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=name)
def test_code_runs(page, tmp_path, monkeypatch, capsys):
    """The blocks of a page are one script: later ones see the names of earlier ones.

    A block without a language that follows at once shows what is printed.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_REGISTERED", {})  # what a page registers is not there for other tests
    for file in (ROOT / "docs" / "examples").glob("*.csv"):  # the files that pages fit
        shutil.copy(file, tmp_path)
    module = types.ModuleType(f"docs_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # classes defined on a page can be pickled
    for line, source in blocks(page, "python"):
        capsys.readouterr()
        exec(compile("\n" * line + source, str(page), "exec"), vars(module))
        shown = OUTPUT.match(page.read_text(encoding="utf-8").split(source, 1)[1])
        if shown:
            assert_printed(capsys.readouterr().out.split(), shown.group(1).split())


@pytest.mark.parametrize(
    "page",
    [
        *PAGES,
        *NOTEBOOKS,
        *(
            ROOT / file
            for file in ("CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md", "plugins/README.md")
        ),
    ],
    ids=name,
)
def test_links_resolve(page, make_plots):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        linked = page if not path else (page.parent / path).resolve()
        if linked.parent == DOCS / "plots":  # drawn with the site
            assert linked.stem in make_plots.PICTURES and linked.suffix == ".png"
            continue
        assert linked.exists(), f"{name(page)} links to {target}"
        assert not anchor or anchor in anchors(linked), f"{name(page)} links to {target}"


def test_each_picture_that_is_drawn_is_on_a_page(make_plots):
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [picture for picture in make_plots.PICTURES if f"plots/{picture}.png" not in text] == []


def test_pictures_of_tables_are_drawn_where_they_are_missing(make_plots, monkeypatch, tmp_path):
    (tmp_path / "structure.png").write_bytes(b"there")
    words = ["make_plots", "structure", "success_time", "--missing", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", words)
    make_plots.main()
    assert (tmp_path / "structure.png").read_bytes() == b"there"
    assert (tmp_path / "success_time.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("module", "options"), list(commands()))
def test_commands_exist(module, options):
    """The module is there, and each option is spelt in its sources."""
    path = ROOT.joinpath(*module.split("."))
    sources = [path.with_suffix(".py")] if path.with_suffix(".py").exists() else sorted(path.glob("*.py"))
    assert sources, module
    package = ROOT.joinpath(module.split(".")[0])
    sources += sorted([*package.glob("*.py"), *package.glob("commands/*.py")])
    text = "\n".join(source.read_text(encoding="utf-8") for source in sources)
    assert [option for option in options if f'"{option}"' not in text] == []


@pytest.mark.parametrize(
    "page", [ROOT / "docs" / "start" / "choosing.md", ROOT / "docs" / "science" / "methods.md"], ids=name
)
def test_model_tables_are_complete(page):
    rows = set(re.findall(r"^\| `([\w-]+)` \|", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert {"fim-ode", "fim-ode-published", "fim-ode-neural", "sindy", "sindy-strong"} <= rows
    assert rows <= {spec.name for spec in fim_dynsys.available()}


def test_warnings_table_is_complete():
    rows = set(
        re.findall(
            r"^\| `(\w+Warning)` \|", (ROOT / "docs" / "start" / "concepts.md").read_text(), re.MULTILINE
        )
    )
    classes = {
        name
        for name, value in inspect.getmembers(errors, inspect.isclass)
        if issubclass(value, errors.FimDynsysWarning) and value is not errors.FimDynsysWarning
    }
    assert rows == classes


def test_presets_exist():
    named = set(
        re.findall(
            r"training\.pretrain ([\w-]+)", "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
        )
    )
    assert named
    assert named <= {path.stem for path in (ROOT / "training" / "presets").glob("*.toml")}
