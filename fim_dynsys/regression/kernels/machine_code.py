"""Machine code on disk: where that of a kernel is found, and how it is written.

It is kept beside the file it was compiled from (or where ``NUMBA_CACHE_DIR`` says), in one file for each
function, signature and processor, whose name holds a hash of all sources: code of other sources, or of other
arguments, is never taken for it, whatever other processes write meanwhile.
"""

import hashlib
import os
import pickle
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.core.serialize import dumps

from fim_dynsys.errors import CacheWarning, warn
from fim_dynsys.writing import replace_file

_DIGEST = hashlib.sha256().digest_size
_PATIENCE = 1.0  # seconds of compiling after which a process says that it does
_SECONDS = 20  # of processor time that compiling what a fit of fim-ode needs takes


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
        target_context.refresh()
        try:
            data = self.path(sig, target_context.codegen()).read_bytes()
        except OSError:
            data = b""
        if hashlib.sha256(data[_DIGEST:]).digest() == data[:_DIGEST]:
            return self._impl.rebuild(target_context, pickle.loads(data[_DIGEST:]))
        if _OnDisk.spent >= _PATIENCE:
            _say_once()
        self.since = time.perf_counter()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        _OnDisk.spent += time.perf_counter() - self.since
        if not self._impl.check_cachable(data):
            return
        path, code = self.path(sig, data.codegen), dumps(self._impl.reduce(data))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, hashlib.sha256(code).digest() + code)
            for other in set(path.parent.glob(f"{path.name.rpartition('-')[0]}-*.nbc")) - {path}:
                other.unlink(missing_ok=True)
        except OSError as error:
            _warn_once(f"its folder cannot be written ({error.strerror})")

    def path(self, sig: Any, codegen: Any) -> Path:
        """The file of the code for a signature and a processor; its name holds a hash of all sources."""
        what = _hash(repr((str(sig), codegen.magic_tuple(), numba.__version__)).encode())
        sources = _hash(_kernel_sources() + Path(self._py_func.__code__.co_filename).read_bytes())
        return Path(self._cache_path) / f"{self._impl.filename_base}-{what}-{sources}.nbc"


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


@cache
def _kernel_sources() -> bytes:
    return b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))


@cache
def _say_once() -> None:
    """A line on stderr, which is no progress where ``TQDM_DISABLE`` or ``CI`` is set."""
    if not any(os.environ.get(name, "") not in ("", "0", "false") for name in ("TQDM_DISABLE", "CI")):
        print(
            f"fim-dynsys: compiling, once for this installation (some {_SECONDS} seconds); "
            "`fim-dynsys doctor --compile` does it ahead.",
            file=sys.stderr,
        )


@cache
def _warn_once(why: str) -> None:
    warn(
        f"fim-dynsys: compiled code cannot be kept: {why}; set NUMBA_CACHE_DIR to choose a folder.",
        CacheWarning,
    )
