"""Linear algebra on one thread: systems here have tens of unknowns, for which threads only wait."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import scipy.linalg  # noqa: F401  loads its own BLAS beside numpy's, which is to be found below
from threadpoolctl import ThreadpoolController

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def on_one_thread(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Decorate what solves many small systems: BLAS takes one thread while it runs.

    By default BLAS takes all cores. Fits and analyses then cost 1.1 to 2 times the CPU time, and on a machine
    whose cores are busy up to forty times, since threads that are done early spin until the others are.
    """

    @functools.wraps(function)
    def called(*args: Arguments.args, **given: Arguments.kwargs) -> Returned:
        with _libraries().limit(limits=1):
            return function(*args, **given)

    return called


@functools.cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")
