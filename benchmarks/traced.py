"""``python -m benchmarks.traced``: how much of the package one warm fit enters, in files and functions."""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import fim_dynsys
from fim_dynsys import systems
from fim_dynsys.corruption import add_noise
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.trajectories.container import Trajectories

PACKAGE = Path(fim_dynsys.__file__).parent
_INLINE = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<lambda>", "<module>")


def context(name: str = "van_der_pol", samples: int = 200, sigma: float = 0.03) -> Trajectories:
    """The record that is fitted: one orbit of a catalogued system with noise."""
    system = systems.get(name)
    t = np.linspace(0.0, system.t_end, samples)
    clean = simulate(system.field(), system.initial_states[0], t, rtol=1e-10)
    return add_noise(clean, sigma, 0)


def entered(model: str, record: Trajectories, **params: Any) -> Counter[tuple[str, str]]:
    """Functions of the package that a second fit of a model enters, as (file, name), with their calls.

    Comprehensions and lambdas count as part of the function that holds them; generated methods of
    dataclasses have no file and are not counted.
    """
    fitted = fim_dynsys.load(model, **params)
    fitted.fit(record)  # imports, compiles, reads weights
    codes: Counter[CodeType] = Counter()

    def watch(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            codes[frame.f_code] += 1

    sys.setprofile(watch)
    try:
        fim_dynsys.load(model, **params).fit(record)
    finally:
        sys.setprofile(None)
    found: Counter[tuple[str, str]] = Counter()
    for code, calls in codes.items():
        path = Path(code.co_filename)
        if path.is_relative_to(PACKAGE) and code.co_name not in _INLINE:
            found[path.relative_to(PACKAGE).as_posix(), code.co_qualname] += calls
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print files and functions for each model, and with ``--list`` every function with its calls."""
    commands = argparse.ArgumentParser(prog="python -m benchmarks.traced", description=__doc__)
    commands.add_argument("--models", nargs="+", default=["auto", "fim-ode", "sindy-strong", "symbolic"])
    commands.add_argument("--list", action="store_true", help="name every function entered, by file")
    options = commands.parse_args(arguments)
    record = context()
    for name in options.models:
        found = entered(name, record)
        files = {file for file, _ in found}
        print(f"{name}: {len(found)} functions in {len(files)} files")
        if options.list:
            for (file, function), calls in sorted(found.items()):
                print(f"  {file}  {function}  {calls}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
