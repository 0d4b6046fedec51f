"""How loops are compiled: once per installation, without the interpreter's lock, by IEEE arithmetic.

What is compiled is kept beside the file it was compiled from, and made anew when that file changes, but not
when another file changes whose functions it calls: after an edit of `kernels.terms`, say, delete the folder
``__pycache__`` here.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable)


def compiled(function: Function) -> Function:
    """The function, compiled at its first call and kept on disk."""
    return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def inlined(function: Function) -> Function:
    """The function as a part of the compiled ones that call it."""
    return cast(Function, numba.njit(inline="always", error_model="numpy")(function))
