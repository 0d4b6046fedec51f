"""The pages of the documentation: README and what the site is built from."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
_NOT_PAGES = {"_build", "changes"}  # what a build leaves; fragments of the changelog

_SOURCES = sorted(path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0] not in _NOT_PAGES)


def is_notebook(path: Path) -> bool:
    """Whether the cells of a page are executed when the site is built."""
    return path.read_text(encoding="utf-8").startswith("---\nfile_format: mystnb\n")


NOTEBOOKS = [path for path in _SOURCES if is_notebook(path)]
PAGES = [ROOT / "README.md", *(path for path in _SOURCES if path not in NOTEBOOKS)]


def name(path: Path) -> str:
    """A page by its path in the repository, as tests and tables call it."""
    return path.relative_to(ROOT).as_posix()
