"""How Sphinx builds the site: `make docs`. Nothing is fetched; notebooks are executed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import fim_dynsys

HERE = Path(__file__).resolve().parent

project = "fim-dynsys"
author = copyright = "fim-dynsys developers"
version = release = fim_dynsys.__version__

extensions = ["myst_nb", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
exclude_patterns = ["_build", "changes", "examples"]
templates_path = ["_templates"]
html_theme = "pydata_sphinx_theme"
html_title = "fim-dynsys"
html_show_sourcelink = False
html_search_scorer = str(HERE / "scorer.js")
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": True}

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4

autosummary_generate = True
autodoc_typehints = "none"  # shapes and units are in the docstrings
autodoc_default_options = {"members": True, "show-inheritance": True}
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

os.environ.setdefault("TQDM_DISABLE", "1")  # no bars, and no line about compiling, in notebooks
nb_execution_mode = os.environ.get("NOTEBOOKS", "force")  # "off" for a quick look at the text
suppress_warnings = ["myst-nb.lexer"] if nb_execution_mode == "off" else []  # which the kernel would name
nb_execution_timeout = 240
nb_execution_raise_on_error = True
nb_merge_streams = True
os.environ.setdefault("OMP_NUM_THREADS", "1")

_OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)]+)\)")


def _within(app: object, name: str, source: list[str]) -> None:
    """Links to files of the repository beside docs/ become their names: the site does not hold them."""
    path = HERE / f"{name}.md"

    def named(match: re.Match) -> str:
        target = (path.parent / match.group(2).split("#")[0]).resolve()
        inside = target.is_relative_to(HERE)
        return match.group(0) if inside else f"{match.group(1)} (`{target.relative_to(HERE.parent)}`)"

    source[0] = _OUTSIDE.sub(named, source[0])


def _plain_bars(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Docstrings write absolute values as ``|f|``, which would name a substitution."""
    for k, line in enumerate(lines):
        parts = line.split("``")
        lines[k] = "``".join(p if i % 2 else p.replace("|", "\\|") for i, p in enumerate(parts))


def _pictures(app: object) -> None:
    """Draw the pictures of the pages; with text alone, those that are missing."""
    command = [sys.executable, str(HERE / "make_plots.py")]
    command += ["--missing"] if nb_execution_mode == "off" else []
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(HERE.parent)})


def setup(app: object) -> None:
    """Called by Sphinx."""
    app.connect("builder-inited", _pictures)
    app.connect("source-read", _within)
    app.connect("autodoc-process-docstring", _plain_bars, priority=900)  # after numpydoc
