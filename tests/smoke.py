"""Every public function of an installed package by its example: ``python smoke.py FOLDER``.

FOLDER is where the package has to come from. Needs nothing of the checkout. Warnings other than the package's
own are errors, by which examples fail.
"""

import doctest
import importlib
import inspect
import sys
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import fim_dynsys
from fim_dynsys import analyze, plot, testing
from fim_dynsys.errors import FimDynsysWarning

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
NEED_PACKAGES = {"from_sbml", "equations_from_petab"}  # optional ones


def main(folder: str) -> int:
    """Run the examples; returns the exit code."""
    if not Path(fim_dynsys.__file__).is_relative_to(Path(folder)):
        print(f"expected fim_dynsys from {folder}, got {fim_dynsys.__file__}")
        return 1
    public = {
        getattr(module, name).__module__
        for module in (fim_dynsys, analyze, plot, testing)
        for name in module.__all__
        if inspect.isroutine(getattr(module, name)) and name not in NEED_PACKAGES
    }
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", FimDynsysWarning)
    attempted = failed = 0
    for name in sorted(public):
        found = doctest.testmod(importlib.import_module(name), optionflags=OPTIONS)
        attempted, failed = attempted + found.attempted, failed + found.failed
    print(f"{len(public)} modules, {attempted} lines of examples, {failed} failed, 0 warnings")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
