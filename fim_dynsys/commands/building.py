"""Machine code that the package brings: ``python -m fim_dynsys.commands.building [MODEL ...]`` makes it once.

Two processes of their own compile what fits of the models need, of all that are compiled by default, for the
processors named in `fim_dynsys.regression.kernels.machine_code`. They begin from both ends, and take what the
other has compiled already. The files go into the package, and from there into the wheel.
"""

import hashlib
import os
import pickle
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import llvmlite.binding as llvm
import numba
from numba.core.serialize import dumps

from fim_dynsys.commands.installation import COMPILED, compile_ahead
from fim_dynsys.regression.kernels import machine_code

_DIGEST = hashlib.sha256().digest_size  # before the code in each file
_STAMP = "sources.txt"  # beside the code: what it was made of, then the models that it is for


def main(names: Sequence[str] = COMPILED) -> int:
    """Make the code for models where it is missing or of other sources; returns the exit code."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        print(f"machine code is made on Linux with x86-64 alone, not on {platform.platform()}: none made")
        return 0
    built, stamp = machine_code.BUILT, machine_code.BUILT / _STAMP
    made_of = _sources()
    kept = stamp.read_text(encoding="utf-8").splitlines() if stamp.is_file() else []
    there = kept[1:] if kept[:1] == [made_of] else []
    missing = [name for name in names if name not in there]
    if not missing:
        print(f"machine code is there: {_size(built)}")
        return 0
    if not there:
        shutil.rmtree(built, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        # What is loaded from the folder is not compiled again.
        command = [sys.executable, "-m", "fim_dynsys.commands.building"]
        shares = ["compile", *missing], ["compile-backwards", *reversed(missing)]
        running = [subprocess.Popen([*command, *share], env=environment(Path(scratch))) for share in shares]
        for process in running:
            process.wait()
        for process in running:
            subprocess.CompletedProcess(process.args, process.returncode).check_returncode()
        built.mkdir(exist_ok=True)
        for made in sorted(Path(scratch).rglob("*.nbc")):
            pack(made, built)
    stamp.write_text("\n".join([made_of, *there, *missing]) + "\n", encoding="utf-8")
    print(f"machine code made: {_size(built)}")
    return 0


def pack(made: Path, folder: Path) -> None:
    """Put a file of machine code into the folder of a package."""
    code = without_bitcode(made.read_bytes()[_DIGEST:])
    (folder / made.name).write_bytes(hashlib.sha256(code).digest() + code)


def without_bitcode(code: bytes) -> bytes:
    """Code of a function without LLVM's form of it, of which numba reads the names that are defined.

    The form itself would serve callers that link it; compiled callers of a kernel take a part of their own,
    see `fim_dynsys.regression.kernels.compiler`. It is two thirds of all.
    """
    (name, kind, (machine, bitcode)), *rest = pickle.loads(code)
    module = llvm.parse_bitcode(bitcode)
    lines = [
        f'define void @"{own.name}"() {{ ret void }}' for own in module.functions if not own.is_declaration
    ]
    lines += [f'@"{own.name}" = global i8 0' for own in module.global_variables if not own.is_declaration]
    names = llvm.parse_assembly("\n".join(lines)).as_bitcode()
    return dumps(((name, kind, (machine, names)), *rest))


def _sources() -> str:
    """What the code is made of: all sources of kernels, numba and Python."""
    digest = hashlib.sha256(machine_code.kernel_sources()).hexdigest()
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"{digest} numba {numba.__version__} Python {python}"


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
    if sys.argv[1:2] in (["compile"], ["compile-backwards"]):
        for model in sys.argv[2:]:
            compile_ahead(model, backwards=sys.argv[1] == "compile-backwards")
    else:
        sys.exit(main(sys.argv[1:] or COMPILED))
