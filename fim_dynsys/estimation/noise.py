"""How measurements scatter, as users say it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fim_dynsys.errors import check_number
from fim_dynsys.estimation.known import Reader, is_number, is_pair
from fim_dynsys.estimation.objective import Errors, Observable
from fim_dynsys.estimation.programs import TIME
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.wording import counted

if TYPE_CHECKING:
    from sympy import Expr

_LEAST = 1e-300  # a scale is positive
_RELATIVE = "relative"
_KINDS = (_RELATIVE, *(e.value for e in Errors))
_EXPECTED = "y"  # what is expected of a column, in the scale of its errors, unless something is called so


def read_observables(
    read: Reader,
    columns: Sequence[str],
    means: "Sequence[Expr]",
    noise: Any,
    poisson: bool,
    known_errors: bool,
) -> "tuple[tuple[Observable, ...], tuple[Expr, ...], set[str]]":
    """How each column is measured; expectations and then scales of errors; names of parameters of these.

    Parameters
    ----------
    read : Reader
        Of expressions.
    columns : sequence of str
        What the data's columns are.
    means : sequence of sympy.Expr
        What is expected in each.
    noise : str, tuple or dict by column
        As users give it; ``y`` in a scale is what is expected of the column.
    poisson, known_errors : bool
        Whether the samples are counts; whether standard deviations of the samples are given.

    Raises
    ------
    ValueError
        For other words, columns that there are not, and errors that are given twice.
    """
    import sympy

    caller = read.caller
    words = dict(noise) if isinstance(noise, Mapping) else dict.fromkeys(columns, noise)
    unknown = set(words) - set(columns)
    if unknown:
        raise ValueError(f"{caller}: expected noise of {', '.join(columns)}, got that of {sorted(unknown)}.")
    observables: list[Observable] = []
    scales: list[Expr] = []
    names: set[str] = set()
    free = _EXPECTED not in {*read.states, *read.inputs, *read.used}

    def scale_of(size: Any, mean: "Expr") -> "Expr":
        expected = {sympy.Symbol(_EXPECTED, real=True): mean} if free else {}
        return read(size).xreplace(expected)

    for k, (column, mean) in enumerate(zip(columns, means, strict=True)):
        word = words.get(column)
        if is_pair(word) and _names_models(word[1:]):
            example = dict(zip(columns, word, strict=False))
            raise ValueError(
                f"{caller}: expected noise of several columns by their names, such as noise={example!r}, or "
                f"one kind and its scale, such as ('normal', 'a + b*y'), got {word!r} of {column}."
            )
        kind, size = (word if len(word) == 2 else (word, None)) if is_pair(word) else (word, None)
        kind = "poisson" if kind is None and poisson else kind or "normal"
        if kind not in _KINDS:
            raise ValueError(
                f"{caller}: expected noise {', '.join(map(repr, _KINDS))}, or "
                f"one with a scale, such as ('normal', 'a + b*y'), got {word!r}."
            )
        if known_errors and (kind in (_RELATIVE, "poisson") or size is not None):
            raise ValueError(
                f"{caller}: expected either sigma or noise {word!r} of {column}, got both; leave one out."
            )
        if kind == "poisson" and size is not None:
            raise ValueError(f"{caller}: expected noise 'poisson' without a scale, got {word!r}.")
        if size is not None and is_number(size):
            check_number(caller, f"the scale of the errors of {column}", size, low=_LEAST)
        is_share = kind == _RELATIVE
        if is_share:
            size = f"error_{k}" if size is None else size
            share = scale_of(size, mean)
            expression = share * sympy.Abs(mean)
            names |= {s.name for s in share.free_symbols} - {s.name for s in mean.free_symbols}
            kind = "normal"
        else:
            expression = None if size is None else scale_of(size, mean)
            if expression is not None:
                names |= {s.name for s in expression.free_symbols} - {s.name for s in mean.free_symbols}
        at = -1
        if expression is not None:
            at = len(columns) + len(scales)
            scales.append(expression)
        observables.append(Observable(column, Errors(kind), k, at, is_share=is_share))
    names -= {*read.states, *read.inputs, TIME}
    return tuple(observables), (*means, *scales), names


def _names_models(words: Sequence[Any]) -> bool:
    """Whether words are names of kinds of noise, alone or with a scale, one or more."""
    return bool(words) and all((word[0] if is_pair(word) and word else word) in _KINDS for word in words)


def without_zeros(
    observables: Sequence[Observable], trajectories: Trajectories
) -> tuple[Trajectories, list[str]]:
    """Trajectories without samples of 0 whose errors are a share of them; what a reader is to be warned of.

    Such a sample has no error where 0 is expected, and an infinite likelihood.
    """
    values, notes = trajectories.x.copy(), []
    for observable in observables:
        zeros = values[..., observable.at] == 0.0
        if observable.is_share and zeros.any():
            values[zeros, observable.at] = np.nan
            notes.append(
                f"{counted(int(zeros.sum()), 'sample')} of {observable.name} at 0 left out: relative errors "
                "say nothing of them; noise=('normal', 'a + b*y') has an error at 0 too"
            )
    return (trajectories.with_x(values) if notes else trajectories), notes


def check_values(caller: str, observables: Sequence[Observable], x: Sequence[np.ndarray]) -> list[str]:
    """Hold measurements (n, m) to what their errors allow; what a reader is to be warned of.

    Raises
    ------
    ValueError
        For values of which there is no logarithm, and counts below zero.
    """
    notes = []
    values = np.concatenate(list(x))
    for k, observable in enumerate(observables):
        own = values[:, k][np.isfinite(values[:, k])]
        kind = observable.errors
        if kind.of_logarithm and (own <= 0).any():
            raise ValueError(
                f"{caller}: expected positive values of {observable.name}, whose errors are {kind.value}, "
                f"got {own.min():g}; take noise 'normal' or 'relative', or NaN for what was not seen."
            )
        if kind is Errors.POISSON:
            if (own < 0).any():
                raise ValueError(
                    f"{caller}: expected counts of at least 0 of {observable.name}, got {own.min():g}."
                )
            if (own != np.round(own)).any():
                notes.append(
                    f"{observable.name} holds other than whole numbers: Poisson errors are those of counts, "
                    "not of rates or shares"
                )
    return notes
