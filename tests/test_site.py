"""The site: its API page has every public name, its notebooks run, its pages are in the index."""

import re
import subprocess
import sys
import types
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import yaml

import fim_dynsys
from fim_dynsys import analyze, plot

DOCS = Path(__file__).resolve().parents[1] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.md"))
CELL = re.compile(r"^```\{code-cell\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
QUICK = ("first_fit", "plugin", "many_data_sets")  # the others take minutes together


def test_every_public_name_is_in_the_api():
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", (DOCS / "api.md").read_text(), re.M | re.S))
    for module in (fim_dynsys, analyze, plot):
        listed = set(re.findall(r"^   (\w+)$", sections[module.__name__], re.MULTILINE))
        assert listed == set(module.__all__) - {"__version__"}


def test_every_page_is_in_the_index():
    named = re.findall(r"^[\w/]+$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    assert {page for page in pages if not page.startswith(("_build", "generated"))} == {*named, "index"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_ones(path):
    _, header, text = path.read_text(encoding="utf-8").split("---\n", 2)
    assert yaml.safe_load(header) == {"file_format": "mystnb", "kernelspec": {"name": "python3"}}
    assert CELL.search(text) and text.lstrip().startswith("# ")
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert all((path.parent / link).exists() for link in links)


def test_broken_links_of_the_site_are_found(tmp_path):
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "theme.html").write_text('<a href="{{ made }}">')
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there"><a href="#own"><i id="own"><a href="https://x.org">'
    )
    (tmp_path / "b.html").write_text('<i id="there"><a href="a.html#gone"><img src="none.png">')
    script = [sys.executable, DOCS / "check_links.py", tmp_path]
    found = subprocess.run(script, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert found.stdout.splitlines() == ["b.html: a.html#gone", "b.html: none.png", "2 broken links"]


def test_the_gallery_has_a_figure_for_each_heading():
    text = (DOCS / "notebooks" / "gallery.md").read_text(encoding="utf-8")
    assert len(CELL.findall(text)) - 1 == len(re.findall(r"^## ", text, re.MULTILINE)) >= 12


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in QUICK else pytest.mark.slow)
        for path in NOTEBOOKS
    ],
)
def test_notebooks_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType(f"notebook_{path.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # classes defined in a notebook can be pickled
    for source in CELL.findall(path.read_text(encoding="utf-8")):
        exec(compile(source, str(path), "exec"), vars(module))
    plt.close("all")
