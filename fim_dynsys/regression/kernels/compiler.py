"""How loops are compiled: once per installation, without the interpreter's lock, by IEEE arithmetic.

What compiled code calls is compiled for it as a part: it is optimised and becomes machine code within its
callers alone, which takes a third less time than doing so with each function too.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher

from fim_dynsys.regression.kernels.machine_code import kept

Function = TypeVar("Function", bound=Callable)


def compiled(function: Function) -> Function:
    """The function, compiled at its first call and kept on disk."""
    return cast(Function, kept(_dispatcher(function)))


def compiled_as(*signatures: Any) -> Callable[[Function], Function]:
    """A decorator that compiles for given signatures when the module is imported, kept on disk."""

    def decorate(function: Function) -> Function:
        dispatcher: Any = compiled(function)
        for signature in signatures:
            dispatcher.compile(signature)
        dispatcher.disable_compile()
        return cast(Function, dispatcher)

    return decorate


def inlined(function: Function) -> Function:
    """The function as a part of the compiled ones that call it; it makes no arrays and returns none.

    So it counts no references: numba would count those to each array of its tuples at each call, by atomic
    operations that take ten times as long as a step of one path.
    """
    return cast(Function, _dispatcher(function, inline=True))


def _dispatcher(function: Callable, inline: bool = False) -> Any:
    """numba's handle of a function, which leads compiled callers to a part of their own."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    handle: Any = numba.njit(**options, pipeline_class=_KernelCompiler)(function)
    handle.__class__ = _Kernel
    options |= {"no_cpython_wrapper": True, "forceinline": inline, "_nrt": not inline}
    part: Any = numba.njit(**options)(function)
    handle.get_call_template = _without_arrays(part) if inline else part.get_call_template
    handle.get_overload = part.get_overload
    return handle


def _without_arrays(part: Any) -> Callable:
    """What leads callers to a part that counts no references; TypeError where it returns arrays.

    Callers release what a part returns: an array that was not counted would be freed while it is in use.
    """

    def get_call_template(arguments: Any, keywords: Any) -> Any:
        found = part.get_call_template(arguments, keywords)
        returned = [signature.return_type for signature in part.nopython_signatures]
        if any(
            isinstance(item, types.Array) for kind in returned for item in getattr(kind, "types", (kind,))
        ):
            raise TypeError(f"{part.__name__} returns an array: compile it by `compiled`, not by `inlined`")
        return found

    return get_call_template


class _Kernel(CPUDispatcher):
    """A handle whose calls end by what a signal's handler raises, not by numba's SystemError in its place."""

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
    """Code that is machine code within its callers alone; by itself only single functions are optimised."""

    @property
    def codegen(self) -> "_Part":
        return self

    def set_env(self, name: str, env: Any) -> None:
        """An environment serves calls into Python, which no kernel makes."""

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0  # there is no machine code to point to

    def add_ir_module(self, ir_module: Any) -> None:
        if ir_module.name != "cfunc_wrapper":  # for callers in C
            super().add_ir_module(ir_module)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True
