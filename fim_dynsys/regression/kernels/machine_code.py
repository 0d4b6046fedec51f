"""Machine code on disk: where that of a kernel is found, and how it is written.

The package brings code for the processors of today, made by ``python -m fim_dynsys.commands.building``. It is
taken by exactly the numba, the minor version of Python and the platform that it was made with, on a processor
that has what it uses. Everywhere else kernels are compiled. Their code is kept beside the file that it was
compiled from (or where ``NUMBA_CACHE_DIR`` says), in one file for each function, signature and processor. Its
name holds a hash of all sources: code of other sources, or of other arguments, is never taken for it,
whatever other processes write meanwhile.
"""

import hashlib
import multiprocessing
import os
import pickle
import sys
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from fim_dynsys.errors import CacheWarning, warn
from fim_dynsys.writing import replace_file

_DIGEST = hashlib.sha256().digest_size
_PATIENCE = 1.0  # seconds of compiling after which a process says that it does
BUILT = Path(__file__).with_name("built")
"""Folder of machine code that the package brings."""
PROCESSOR = "x86-64-v3"
"""What it is made for: Intel's processors since 2013, AMD's since 2015."""
FEATURES = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
"""What that has beyond the oldest of its kind."""
_PLATFORM = "x86_64-unknown-linux-gnu"
origins: Counter[str] = Counter()
"""How many functions this process has taken from the package, found kept, and compiled."""
_SECONDS = 30  # of processor time that compiling what a fit of fim-ode needs takes


def kept(dispatcher: Any) -> Any:
    """numba's handle of a function, whose machine code is looked for on disk and written there."""
    try:
        dispatcher._cache = _OnDisk(dispatcher.py_func)
    except RuntimeError:  # numba finds no folder that it can write
        _warn_once("no folder can be written, so that each process compiles again")
    return dispatcher


class _OnDisk(FunctionCache):
    """numba's cache of one function without its index, which processes that write together make wrong."""

    spent = 0.0  # seconds that this process has compiled, all functions together
    since = 0.0  # when this function began to be compiled

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)  # all that loaded code needs; what compiles refreshes the context
        codegen = target_context.codegen()
        places = {"kept": self.path(sig, codegen.magic_tuple())}
        if _runs_built(codegen):
            places["built"] = BUILT / self.path(sig, built_for()).name
        for origin, path in places.items():
            try:
                data = path.read_bytes()
            except OSError:
                continue
            if hashlib.sha256(data[_DIGEST:]).digest() == data[:_DIGEST]:
                origins[origin] += 1
                return self._impl.rebuild(target_context, pickle.loads(data[_DIGEST:]))
        if _OnDisk.spent >= _PATIENCE:
            _say_once()
        self.since = time.perf_counter()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        _OnDisk.spent += time.perf_counter() - self.since
        origins["compiled"] += 1
        if not self._impl.check_cachable(data):
            return
        path, code = self.path(sig, data.codegen.magic_tuple()), dumps(self._impl.reduce(data))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, hashlib.sha256(code).digest() + code)
            for other in set(path.parent.glob(f"{path.name.rpartition('-')[0]}-*.nbc")) - {path}:
                other.unlink(missing_ok=True)
        except OSError as error:
            _warn_once(f"its folder cannot be written ({error.strerror})")

    def path(self, sig: Any, processor: tuple[str, str, str]) -> Path:
        """The file of the code for a signature and a processor; its name holds a hash of all sources."""
        what = _hash(repr((str(sig), processor, numba.__version__)).encode())
        sources = _hash(kernel_sources() + Path(self._py_func.__code__.co_filename).read_bytes())
        return Path(self._cache_path) / f"{self._impl.filename_base}-{what}-{sources}.nbc"


def built_for() -> tuple[str, str, str]:
    """What numba calls the processor that the package's code is made for."""
    return _PLATFORM, PROCESSOR, ",".join(f"+{feature}" for feature in FEATURES)


@cache
def host_features() -> frozenset[str]:
    """What the processor has, as LLVM calls it."""
    return frozenset(name for name, has in llvm.get_host_cpu_features().items() if has)


def _runs_built(codegen: Any) -> bool:
    """Whether code of the package runs here, and on the processor that numba is asked to compile for."""
    platform, _, asked = codegen.magic_tuple()
    wanted = {f"+{feature}" for feature in FEATURES}
    return platform == _PLATFORM and wanted <= set(asked.split(",")) and host_features().issuperset(FEATURES)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


@cache
def kernel_sources() -> bytes:
    """All files that kernels are compiled from."""
    return b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))


@cache
def _say_once() -> None:
    """A line on stderr, which is no progress where ``TQDM_DISABLE`` or ``CI`` is set; workers say nothing."""
    unwanted = any(os.environ.get(name, "") not in ("", "0", "false") for name in ("TQDM_DISABLE", "CI"))
    if not unwanted and multiprocessing.parent_process() is None:
        print(
            f"fim-dynsys: compiling code that runs here for the first time (up to {_SECONDS} seconds); "
            "`fim-dynsys doctor --compile` compiles all of it ahead.",
            file=sys.stderr,
        )


@cache
def _warn_once(why: str) -> None:
    warn(
        f"fim-dynsys: compiled code cannot be kept: {why}; set NUMBA_CACHE_DIR to choose a folder.",
        CacheWarning,
    )
