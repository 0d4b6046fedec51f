"""Numbers and equations as text, with as many digits as are asked for, whatever the units."""

from collections.abc import Sequence
from typing import Literal, NoReturn

import numpy as np

_FIXED = range(-3, 6)  # decimal exponents of numbers that are written out

Style = Literal["plain", "pysindy"]
"""How equations are written: ``x0 - 2 x1^2``, or ``1.00 x0 + -2.00 x1^2`` as pysindy does."""


def check_style(caller: str, style: str) -> None:
    """Refuse styles of equations that do not exist."""
    if style not in ("plain", "pysindy"):
        raise ValueError(f"{caller}.equations: expected style='plain' or 'pysindy', got {style!r}.")


def check_precision(precision: int) -> None:
    """Refuse numbers of digits that are none."""
    if not isinstance(precision, int | np.integer) or precision < 1:
        raise ValueError(f"equations: expected a precision of one digit or more, got {precision!r}.")


def equation_text(
    coefficients: np.ndarray, names: Sequence[str], precision: int = 3, errors: np.ndarray | None = None
) -> str:
    """One right-hand side in pysindy's style.

    Parameters
    ----------
    coefficients : array (m,)
        One coefficient per name; terms with coefficient 0 are left out.
    names : sequence of str
        Names of the terms.
    precision : int
        Significant digits.
    errors : array (m,), optional
        Standard errors of the coefficients; they then decide the digits.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If fewer than one digit is asked for.
    """
    check_precision(precision)
    parts = []
    for i in np.flatnonzero(coefficients).tolist():
        text = number_text(coefficients[i], precision)
        if errors is not None:
            text = f"({measured_text(coefficients[i], errors[i], precision)})"
        parts.append(f"{text} {names[i]}")
    return " + ".join(parts) or " 0"


def coefficient_rows(
    state_names: Sequence[str], terms: Sequence[str], coefficients: np.ndarray
) -> list[tuple[str, str, float]]:
    """State, term and coefficient of each of the coefficients (m, d) that is not zero."""
    return [
        (state_names[i], terms[k], float(coefficients[k, i])) for i, k in np.argwhere(coefficients.T).tolist()
    ]


def left_side(name: str, style: Style = "plain") -> str:
    """``x0'``; in pysindy's style ``(x0)'``, as are names that are more than one word in either."""
    return f"{name}'" if style == "plain" and name.isidentifier() else f"({name})'"


def shown(state_names: Sequence[str], equations: Sequence[str], style: Style = "plain") -> list[str]:
    """Lines ``x0' = ...`` of right-hand sides, one for each state."""
    pairs = zip(state_names, equations, strict=True)
    return [f"{left_side(name, style)} = {text}" for name, text in pairs]


NO_ERRORS = (
    "its coefficients were not fitted to trajectories, or such a fit does not confirm them; "
    "model.ensemble(n) shows how far they may vary"
)
"""Why standard errors may be unknown, and what to do then."""


def refuse_errors(caller: str) -> NoReturn:
    """Say that the standard errors of a field are not known."""
    raise ValueError(
        f"{caller}.equations: expected a field with standard errors for errors=True, got one without; "
        f"{NO_ERRORS}."
    )


def number_text(value: float, digits: int) -> str:
    """A number with so many significant digits, a whole one with all of its, after a space or its sign."""
    place = _exponent(value, digits)
    if place in _FIXED:
        return f"{value: .{max(0, digits - 1 - place)}f}"
    return f"{value: .{digits - 1}e}"


def measured_text(value: float, error: float, digits: int = 3) -> str:
    """A number and its standard error, ``1.00 ± 0.02``, to the digit that the error makes doubtful.

    An error has one digit, or two where the first is 1. An error of 0 leaves the number its `digits`; one
    that exceeds the number leaves it its first.
    """
    if not (np.isfinite(error) and error > 0):
        return f"{number_text(value, digits).strip()} ± {error:.0f}"
    largest = _exponent(error, 2)
    last = _exponent(error, 1) if error >= 1.95 * 10.0**largest else largest - 1
    if abs(value) <= 0.5 * 10.0**last:  # rounded to the digits of its error it would be 0
        first = number_text(value, 1).strip() if value else "0"
        return f"{first} ± {number_text(error, 1 + largest - last if last < largest else 1).strip()}"
    place = max(_exponent(value, 3), largest, last)  # an error of 9.6 is one of 10
    if place in _FIXED:
        decimals = max(0, -last)
        return f"{value:.{decimals}f} ± {error:.{decimals}f}"
    shown = (f"{number * 10.0**-place:.{place - last}f}e{place:+03d}" for number in (value, error))
    return " ± ".join(shown)


def _exponent(value: float, digits: int) -> int:
    """Decimal exponent of a number that is rounded to so many digits."""
    return int(f"{value:.{digits - 1}e}".partition("e")[2])
