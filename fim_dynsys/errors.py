"""Warnings and errors, which users filter or catch by name, and checks of arguments that raise them."""

import contextlib
import functools
import importlib.util
import inspect
import math
import numbers
import operator
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

import numpy as np

# Frames between the package and its caller: its own, and those of decorators such as numpy.errstate.
_INSIDE = (
    os.path.dirname(__file__) + os.sep,
    os.path.dirname(np.__file__) + os.sep,
    contextlib.__file__,
    functools.__file__,
)

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


class FimDynsysWarning(UserWarning):
    """Base of every warning this package issues."""


class DataWarning(FimDynsysWarning):
    """Observations were dropped, or a property of the data limits what can be inferred."""


class ReadingWarning(DataWarning):
    """A file can be read in more than one way; the message says which was taken, and how to change it."""


class FitWarning(FimDynsysWarning):
    """A fitted field does not describe the data it was fitted to, or others may describe them as well."""


class TuningWarning(FimDynsysWarning):
    """Fine-tuning found nothing that predicts held-out data better; the untuned field is returned."""


class SimulationWarning(FimDynsysWarning):
    """A simulated trajectory stopped before its last requested time, or lacks doses or events of the fit."""


class DistillationWarning(FimDynsysWarning):
    """Printed equations approximate a field that is not itself a finite sum of terms."""


class IgnoredInputWarning(FimDynsysWarning):
    """An argument was accepted for compatibility and had no effect."""


class WeightsWarning(FimDynsysWarning):
    """A weights file leaves something open that had to be assumed."""


class CacheWarning(FimDynsysWarning):
    """Compiled code cannot be kept on disk, so that each process compiles it again."""


class SamplingWarning(FimDynsysWarning):
    """Nested sampling missed a peak of the posterior, so that the evidence is too low."""


class FitError(ValueError):
    """A fit failed: it diverged, or ran out of time before anything usable was found."""


class PluginError(ImportError):
    """A model found through an entry point could not be imported or is incompatible."""


class MissingPackageError(ImportError):
    """An optional package is not installed; the message names the command that installs it."""


def renamed(**names: str) -> Callable[[Callable[Arguments, Returned]], Callable[Arguments, Returned]]:
    """Decorate functions whose arguments have new names: earlier ones work, with a DeprecationWarning."""

    def decorate(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
        @functools.wraps(function)
        def called(*args: Arguments.args, **given: Arguments.kwargs) -> Returned:
            for old in names.keys() & given.keys():
                new = names[old]
                if new in given:
                    raise TypeError(
                        f"{function.__name__}: expected {new} alone, got {old}, its earlier name, too."
                    )
                warn_of_rename(function.__name__, old, new)
                given[new] = given.pop(old)
            return function(*args, **given)

        return called

    return decorate


def known_arguments(method: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Decorate methods of models: the error of an unknown argument names the model and the known ones."""
    names = list(inspect.signature(method).parameters)[1:]

    @functools.wraps(method)
    def called(*args: Arguments.args, **given: Arguments.kwargs) -> Returned:
        unknown = [name for name in given if name not in names]
        if unknown:
            raise TypeError(
                f"{getattr(args[0], '_caller', 'model')}.{method.__name__}: expected arguments among "
                f"{', '.join(names)}, got {', '.join(unknown)}."
            )
        return method(*args, **given)

    return called


def earlier_name(old: str, new: str, value: Callable[[Any], Any] | None = None) -> Any:
    """A property that gives an attribute, or a value, under its earlier name, with a DeprecationWarning."""

    def found(self: object) -> Any:
        warn_of_rename(type(self).__name__, old, new)
        return operator.attrgetter(new)(self) if value is None else value(self)

    return property(found, doc=f"Earlier name of `{new}`.")


def warn_of_rename(caller: str, old: str, new: str, stacklevel: int = 3) -> None:
    """Warn at the line of whoever called the function that calls this."""
    message = f"{caller}: {old} is called {new} since version 0.2. The earlier name goes in version 0.4."
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)


def check_installed(caller: str, package: str, extra: str) -> None:
    """Raise MissingPackageError, naming the extra that brings it, unless a package is installed."""
    try:
        found = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise MissingPackageError(
            f"{caller}: expected the package {package}, which is not installed; run "
            f'`pip install ".[{extra}]"` in a clone of the repository.'
        )


def check_whole(caller: str, least: int, **values: object) -> None:
    """Raise ValueError unless arguments, by their names, are whole numbers of at least so much."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
            raise ValueError(
                f"{caller}: expected {name} as a whole number of at least {least}, got {value!r}."
            )


def check_flags(caller: str, **values: object) -> None:
    """Raise ValueError unless arguments, by their names, are True or False."""
    for name, value in values.items():
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{caller}: expected {name} as True or False, got {value!r}.")


def check_number(
    caller: str, what: str, value: object, low: float = -math.inf, high: float = math.inf
) -> float:
    """A finite number from low to high, both allowed.

    Raises
    ------
    ValueError
        For anything else.
    """
    number = _number(value)
    if not math.isfinite(number) or not low <= number <= high:
        within = f" from {low:g} to {high:g}" if math.isfinite(low) and math.isfinite(high) else ""
        within = within or (f" of at least {low:g}" if math.isfinite(low) else "")
        raise ValueError(f"{caller}: expected {what} as a finite number{within}, got {value!r}.")
    return number


def check_positive(caller: str, infinite: bool = False, **values: object) -> None:
    """Raise ValueError unless arguments, by their names, are positive numbers, finite unless that is said."""
    for name, value in values.items():
        number = _number(value)
        if not number > 0.0 or (math.isinf(number) and not infinite):
            kind = "" if infinite else " finite"
            raise ValueError(f"{caller}: expected {name} as a positive{kind} number, got {value!r}.")


def _number(value: object) -> float:
    """A real number as float, NaN for what is none."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_named(caller: str, what: str, value: object) -> dict[str, float]:
    """Finite numbers by name; an empty dict for None.

    Raises
    ------
    ValueError
        For anything else.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{caller}: expected {what} as a dict of numbers by name, got {value!r}.")
    return {str(name): check_number(caller, f"{what} {name!r}", number) for name, number in value.items()}


def real_array(value: object, caller: str, what: str) -> np.ndarray:
    """A float64 array, or a ValueError for what is not one of real numbers."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{caller}: expected {what} as one array of real numbers, got {type(value).__name__} that numpy "
            f"cannot convert ({error})."
        ) from error
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{caller}: expected {what} of real numbers, got dtype {array.dtype}.")
    return array.astype(np.float64)


def warn(message: str, category: type[FimDynsysWarning]) -> None:
    """Warn at the user's line that led here, however deep in the package the reason lies."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
