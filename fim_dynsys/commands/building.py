"""Machine code that the package brings: ``python -m fim_dynsys.commands.building`` makes it once.

A process of its own compiles what fits need for the processors named in
`fim_dynsys.regression.kernels.machine_code`; its files go into the package, and from there into the wheel.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from fim_dynsys.commands.installation import COMPILED, compile_ahead
from fim_dynsys.regression.kernels import machine_code


def main() -> int:
    """Make the code where it is missing or of other sources; returns the exit code."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        print(f"machine code is made on Linux with x86-64 alone, not on {platform.platform()}: none made")
        return 0
    if _missing() == 0:
        print(f"machine code is there: {_size(machine_code.BUILT)}")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(_command("compile"), env=environment(Path(scratch)), check=True)
        shutil.rmtree(machine_code.BUILT, ignore_errors=True)
        machine_code.BUILT.mkdir()
        for made in sorted(Path(scratch).rglob("*.nbc")):
            shutil.copy(made, machine_code.BUILT / made.name)
    left = _missing()
    print(f"machine code made: {_size(machine_code.BUILT)}")
    if left:
        print(f"{left} functions are compiled all the same", file=sys.stderr)
    return 1 if left else 0


def _missing() -> int:
    """How many functions a process would compile that has nothing but what the package brings."""
    if not machine_code.BUILT.is_dir():
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        environment = {**os.environ, "NUMBA_CACHE_DIR": scratch}
        found = subprocess.run(
            _command("count"), env=environment, check=True, capture_output=True, text=True
        ).stdout
    return int(found.split()[-1])


def _command(task: str) -> list[str]:
    return [sys.executable, "-m", "fim_dynsys.commands.building", task]


def environment(folder: Path) -> dict[str, str]:
    """Settings under which numba makes code that runs on every processor of the kind."""
    _, processor, features = machine_code.built_for()
    return {
        **os.environ,
        "NUMBA_CACHE_DIR": str(folder),
        "NUMBA_CPU_NAME": processor,
        "NUMBA_CPU_FEATURES": features,
        "NUMBA_DISABLE_INTEL_SVML": "1",
        "CI": "true",  # no line about compiling
    }


def _size(folder: Path) -> str:
    files = list(folder.glob("*.nbc"))
    return f"{len(files)} functions, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB"


if __name__ == "__main__":
    if sys.argv[1:] in (["compile"], ["count"]):
        for name in COMPILED:
            compile_ahead(name)
        print(machine_code.origins["compiled"])
        sys.exit(0)
    sys.exit(main())
