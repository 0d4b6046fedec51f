"""How loops are compiled: once per installation, without the interpreter's lock, by IEEE arithmetic.

Machine code is kept beside the file it was compiled from (or where ``NUMBA_CACHE_DIR`` says), in one file for
each function, signature and processor, whose name holds a hash of all sources: code of other sources, or of
other arguments, is never taken for it, whatever other processes write meanwhile. Where no such folder can be
written, a temporary one of the user's own serves.

What compiled code calls is compiled for it as a part: it is optimised and becomes machine code within its
callers alone, which takes a third less time than doing so with each function too.
"""

import hashlib
import os
import pickle
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps

from fim_dynsys.errors import CacheWarning, warn
from fim_dynsys.writing import replace_file

Function = TypeVar("Function", bound=Callable)
_DIGEST = hashlib.sha256().digest_size


def compiled(function: Function) -> Function:
    """The function, compiled at its first call and kept on disk."""
    return cast(Function, _kept(_dispatcher(function)))


def compiled_as(*signatures: Any) -> Callable[[Function], Function]:
    """A decorator that compiles for given signatures when the module is imported, kept on disk."""

    def decorate(function: Function) -> Function:
        dispatcher = _kept(_dispatcher(function))
        for signature in signatures:
            dispatcher.compile(signature)
        dispatcher.disable_compile()
        return cast(Function, dispatcher)

    return decorate


def inlined(function: Function) -> Function:
    """The function as a part of the compiled ones that call it."""
    return cast(Function, _dispatcher(function, inline=True))


def _dispatcher(function: Callable, inline: bool = False) -> Any:
    """numba's handle of a function, which leads compiled callers to a part of their own."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    handle: Any = numba.njit(**options, pipeline_class=_KernelCompiler)(function)
    handle.__class__ = _Kernel
    options |= {"no_cpython_wrapper": True, "forceinline": inline}
    part: Any = numba.njit(**options)(function)
    handle.get_call_template, handle.get_overload = part.get_call_template, part.get_overload
    return handle


class _Kernel(CPUDispatcher):
    """A handle whose calls end by what a signal's handler raises, such as KeyboardInterrupt.

    Signals that arrive in compiled code are handled at the first line of Python that follows, which numba's
    conversion of arrays to be returned calls. It goes on where that raised, and ends by a SystemError.
    """

    def __call__(self, *arguments: Any) -> Any:
        try:
            return CPUDispatcher.__call__(self, *arguments)
        except SystemError as error:
            reason: BaseException = error
            while reason.__cause__ is not None:
                reason = reason.__cause__
            raise reason from None


class _KernelCompiler(Compiler):
    """numba's compiler, to which all that a kernel calls is a `_Part`."""

    def _compile_core(self) -> Any:
        codegen = self.state.targetctx.codegen()
        self.state.library = codegen.create_library(self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        codegen._library_class = _Part  # under numba's lock
        try:
            return super()._compile_core()
        finally:
            del codegen._library_class


class _Part(JITCodeLibrary):
    """Code that is not made machine code by itself; of optimisations, those of single functions alone."""

    @property
    def codegen(self) -> "_Part":
        return self

    def set_env(self, name: str, env: Any) -> None:
        """An environment serves calls into Python, which no kernel makes."""

    def get_pointer_to_function(self, name: str) -> int:
        """None."""
        self._ensure_finalized()
        return 0

    def add_ir_module(self, ir_module: Any) -> None:
        if ir_module.name != "cfunc_wrapper":  # for callers in C
            super().add_ir_module(ir_module)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


def _kept(dispatcher: Any) -> Any:
    try:
        dispatcher._cache = _OnDisk(dispatcher.py_func)
    except RuntimeError:  # numba finds no folder that it can write
        folder = _temporary_folder()
        if folder is not None:
            before = vars(config)["CACHE_DIR"]
            vars(config)["CACHE_DIR"] = folder
            try:
                dispatcher._cache = _OnDisk(dispatcher.py_func)
            finally:
                vars(config)["CACHE_DIR"] = before
    return dispatcher


class _OnDisk(FunctionCache):
    """numba's cache of one function without its index, which processes that write together make wrong."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        try:
            data = self._path(sig, target_context.codegen()).read_bytes()
        except OSError:
            data = b""
        if hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
            _notice.compiling()
            return None
        return self._impl.rebuild(target_context, pickle.loads(data[_DIGEST:]))

    def save_overload(self, sig: Any, data: Any) -> None:
        _notice.compiled()
        if not self._impl.check_cachable(data):
            return
        path = self._path(sig, data.codegen)
        code = dumps(self._impl.reduce(data))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, hashlib.sha256(code).digest() + code)
            for other in path.parent.glob(f"{path.name.rpartition('-')[0]}-*.nbc"):
                if other != path:
                    other.unlink(missing_ok=True)
        except OSError as error:
            _warn_once(f"its folder cannot be written ({error.strerror})")

    def _path(self, sig: Any, codegen: Any) -> Path:
        what = _hash(repr((str(sig), codegen.magic_tuple(), numba.__version__)).encode())
        sources = _hash(_kernel_sources() + Path(self._py_func.__code__.co_filename).read_bytes())
        return Path(self._cache_path) / f"{self._impl.filename_base}-{what}-{sources}.nbc"


class _Notice:
    """One line on stderr once a process has compiled for a second and goes on.

    It is no progress where ``TQDM_DISABLE`` or ``CI`` is set.
    """

    patience = 1.0  # seconds

    def __init__(self) -> None:
        self._spent, self._since, self._open = 0.0, 0.0, 0  # functions compile those that they call

    def compiling(self) -> None:
        """A function begins to be compiled."""
        now = time.perf_counter()
        if not self._open:
            self._since = now
        self._open += 1
        if self._spent + now - self._since >= self.patience:
            self._say()

    def compiled(self) -> None:
        """The last one that began is done."""
        self._open = max(self._open - 1, 0)
        if not self._open:
            self._spent += time.perf_counter() - self._since

    @staticmethod
    @cache
    def _say() -> None:
        if not any(os.environ.get(name, "") not in ("", "0", "false") for name in ("TQDM_DISABLE", "CI")):
            print(
                f"fim-dynsys: compiling, once for this installation (some {_SECONDS} seconds); "
                "`fim-dynsys doctor --compile` does it ahead.",
                file=sys.stderr,
            )


_SECONDS = 20  # of processor time that compiling what a fit of fim-ode needs takes
_notice = _Notice()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


@cache
def _kernel_sources() -> bytes:
    return b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))


@cache
def _temporary_folder() -> str | None:
    """A folder that only this user can write, for all processes; None where there is none."""
    if sys.platform == "win32":  # the folder for temporary files is the user's own
        folder = Path(tempfile.gettempdir()) / "fim-dynsys"
    else:
        folder = Path(tempfile.gettempdir()) / f"fim-dynsys-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        found = None
    if found is not None and stat.S_ISDIR(found.st_mode):
        own = sys.platform == "win32" or (found.st_uid == os.getuid() and not found.st_mode & 0o022)
        if own and os.access(folder, os.W_OK):
            _warn_once(f"its folder and the home folder cannot be written, so that it goes to {folder}")
            return str(folder)
    _warn_once("no folder can be written, so that each process compiles anew")
    return None


@cache
def _warn_once(why: str) -> None:
    warn(
        f"fim-dynsys: compiled code cannot be kept as usual: {why}; set NUMBA_CACHE_DIR to choose a folder.",
        CacheWarning,
    )
