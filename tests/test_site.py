"""The site: its API page has every public name, its notebooks run, its pages are in the index."""

import ast
import importlib.util
import pydoc
import re
import subprocess
import sys
import tomllib
import types
from functools import partial

import matplotlib.pyplot as plt
import pytest
import yaml

import fim_dynsys
from fim_dynsys import analyze, plot
from tests.pages import DOCS, NOTEBOOKS, PAGES

CELL = re.compile(r"^```\{code-cell\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
QUICK = ("first_fit", "plugin", "many_data_sets")  # the others take minutes together


def test_every_public_name_is_in_the_api_once():
    text = "\n".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "api").glob("*.md")))
    blocks = re.findall(r"currentmodule:: (\S+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    listed = [
        (module, name) for module, names in blocks for name in re.findall(r"^   ([\w.]+)$", names, re.M)
    ]
    assert len(listed) == len(set(listed))
    for module in (fim_dynsys, analyze, plot):
        own = {name for where, name in listed if where == module.__name__ and "." not in name}
        assert own == set(module.__all__) - {"__version__"}
        for dotted in (name for where, name in listed if where == module.__name__):
            assert pydoc.locate(f"{module.__name__}.{dotted}"), dotted


def toctree(page):
    """Pages that a page lists in its tables of contents."""
    text = page.read_text(encoding="utf-8")
    lists = re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names = re.findall(r"^[\w./]+$", "\n".join(lists), re.MULTILINE)
    return [(page.parent / f"{name}.md").resolve() for name in names]


def test_every_page_is_in_one_part_of_the_site():
    parts = toctree(DOCS / "index.md")
    listed = [page for part in parts for page in toctree(part)]
    assert sorted([DOCS / "index.md", *parts, *listed]) == sorted([*PAGES[1:], *NOTEBOOKS])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_ones(path):
    _, header, text = path.read_text(encoding="utf-8").split("---\n", 2)
    assert yaml.safe_load(header) == {"file_format": "mystnb", "kernelspec": {"name": "python3"}}
    assert CELL.search(text) and text.lstrip().startswith("# ")
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert all((path.parent / link).exists() for link in links)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_each_cell_is_explained(path):
    """Prose stands before each cell, and no cell ends in a drawing: its text would show too."""
    text = path.read_text(encoding="utf-8")
    before = [part.rsplit("```", 1)[-1].split("---\n")[-1].strip() for part in CELL.split(text)[:-1:2]]
    assert all(re.search(r"[.:]$", prose) for prose in before), before
    ends = [cell.rstrip().splitlines()[-1] for cell in CELL.findall(text)]
    assert [end for end in ends if re.search(r"^plot\.\w+\(.*\)$|\.plot\(.*\)$", end)] == []


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
    text = (DOCS / "gallery" / "index.md").read_text(encoding="utf-8")
    pictures, _ = text.split("## Worked examples")
    assert len(CELL.findall(pictures)) - 1 == len(re.findall(r"^## ", pictures, re.MULTILINE)) >= 12


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
        value = run_cell(source, str(path), vars(module))
        shown = value is None or any(hasattr(value, f"_repr_{kind}_") for kind in ("html", "png", "svg"))
        assert shown, f"the cell shows a bare {type(value).__name__}:\n{source}"
    plt.close("all")


def run_cell(source: str, name: str, names: dict):
    """Run a cell and return what it shows: the expression in its last line, without a semicolon."""
    tree = ast.parse(source)
    shown = isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";")
    last = tree.body.pop() if shown else None
    exec(compile(tree, name, "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), name, "eval"), names)


def script(name):
    """A script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_that_answer_a_search_are_ranked_as_in_the_browser():
    index = {
        "docnames": ["howto/a", "api/b", "howto/c"],
        "titles": ["Missing data", "Data", "Other"],
        "alltitles": {"Missing data": [[0, None]], "Data": [[1, None]], "Other": [[2, None]]},
        "terms": {"miss": [0, 1, 2], "data": [0, 1], "gap": 2},
        "titleterms": {"miss": [0], "data": [0, 1]},
        "objects": {"m": [[1, 0, 1, "", "drop"]]},
        "objnames": {"0": ["py", "function", "Python function"]},
    }
    stem = partial(re.sub, "ing$", "")
    rank = partial(script("check_search").results, index, stem=stem, stopwords=frozenset())
    assert rank("missing data") == ["howto/a", "api/b"]  # both words have to be there
    assert rank("gap") == ["howto/c"] and rank("drop") == ["api/b"] and rank("nothing") == []


def test_searched_phrases_lead_to_pages_that_are_there():
    phrases = script("check_search").PHRASES
    assert len(phrases) >= 20
    assert [page for page in phrases.values() if not (DOCS / f"{page}.md").exists()] == []
    asked = {"confidence interval", "prediction interval", "train test split", "cross-validation"}
    asked |= {"missing data", "install", "CSV", "parameter estimation", "hidden states"}
    asked |= {"phase portrait", "bifurcation diagram"}
    assert asked <= set(phrases)


def test_replaced_words_and_long_sentences_are_found(tmp_path):
    checker = script("check_prose")
    page = tmp_path / "page.md"
    long = " ".join(["word"] * 31)
    code = "```\nlaw\n```\n\n`law` and lawn."
    page.write_text(f"# Title\n\nThe law was told. {long}.\n\n{code}\n\n- {long[:-5]}\n")
    kinds = [(line, kind) for line, kind, _ in checker.problems(page, checker.replaced_words())]
    assert kinds == [
        (3, "replaced word: law"),
        (3, "replaced word: told"),
        (3, "31 words in a sentence"),
    ]


def test_words_are_looked_for_where_users_of_the_package_see_them():
    """Messages and public docstrings, not parameters, code and what contributors alone read."""
    source = '''
def fit(law):
    """The law `law`.

    law : Law
        Told.

    >>> law = 1
    """
    raise ValueError(f"told {law} of it")


def _hidden():
    """A law."""
    return {"law": 1}
'''
    checker = script("check_prose")
    banned = checker.replaced_words()

    def lines(docstrings: bool) -> list[int]:
        return [line for line, text in checker.visible(source, docstrings) if banned.search(text)]

    assert sorted(lines(True)) == [3, 6, 10] and lines(False) == [10]


def test_what_the_checker_of_pages_allows_has_its_reasons():
    """`make lint` runs it on all pages."""
    allowed = tomllib.loads((DOCS / "prose_allowed.toml").read_text(encoding="utf-8"))["allowed"]
    assert all(rule["reason"] for rule in allowed)
