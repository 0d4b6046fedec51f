"""Stubs of packages whose names are imported when first asked for, for type checkers and editors.

``python -m tests.stubs`` writes them anew from the tables of public names.
"""

import importlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("fim_dynsys", "fim_dynsys.analyze", "fim_dynsys.plot", "fim_dynsys.testing")
_HEAD = '"""Public names with their types; written by `python -m tests.stubs`."""\n\n'
_WIDTH = 110


def path_of(package: str) -> Path:
    """Where the stub of a package is."""
    return ROOT.joinpath(*package.split("."), "__init__.pyi")


def text_of(package: str) -> str:
    """The stub that a package should have."""
    module = importlib.import_module(package)
    by_file: dict[str, list[str]] = {}
    for name, file in module._PUBLIC.items():
        by_file.setdefault(f"{package}.{file}", []).append(name)
    by_file[package] = list(getattr(module, "_MODULES", ()))
    pairs = [(file, name) for file, names in sorted(by_file.items()) for name in sorted(names, key=_order)]
    lines = [_import(file, name) for file, name in pairs]
    version = "__version__: str\n" if hasattr(module, "__version__") else ""
    names = "".join(f'    "{name}",\n' for name in sorted(module.__all__))
    return f"{_HEAD}{''.join(lines)}\n{version}__all__ = [\n{names}]\n"


def _order(name: str) -> tuple[int, str]:
    """Constants, classes, functions, as the formatter sorts them."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name.lower())


def _import(file: str, name: str) -> str:
    """With an alias, which is how a stub says that a name is public."""
    line = f"from {file} import {name} as {name}"
    if len(line) <= _WIDTH:
        return f"{line}\n"
    return f"from {file} import (\n    {name} as {name},\n)\n"


if __name__ == "__main__":
    for own in PACKAGES:
        path_of(own).write_text(text_of(own), encoding="utf-8")
