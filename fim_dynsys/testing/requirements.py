"""What the contracts share: how a clause is required, example data, and data that must be refused."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.registry import available

# Relative to the size of the values. Rows computed alone or together may take another order of summation:
# 1e-9 leaves room for that in float64, none for float32.
SAME = 1e-9


def require(condition: object, message: str) -> None:
    """Raise AssertionError with the message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def refused(call: Callable[[], object], what: str, *words: str, error: type[Exception] = ValueError) -> None:
    """Require that `call` raises `error` with a message that holds `words`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except error as raised:
        missing = [word for word in words if word not in str(raised)]
        require(not missing, f"{what}: expected the message to name {missing}, got: {raised}")
    except Exception as raised:
        raise AssertionError(
            f"{what}: expected {error.__name__}, got {type(raised).__name__}: {raised}"
        ) from raised
    else:
        raise AssertionError(f"{what}: expected {error.__name__}, got no error")


def close(a: ArrayLike, b: ArrayLike, tolerance: float, scale: ArrayLike, message: str) -> None:
    """Require that two arrays agree, relative to a scale."""
    error = float(np.max(np.abs(np.asarray(a) - np.asarray(b)) / scale, initial=0.0))
    require(error <= tolerance, f"{message}: relative difference {error:.2g}, expected at most {tolerance:g}")


def caught(call: Callable[[], object], category: type[Warning]) -> int:
    """How many warnings of the category the call issues."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    return sum(issubclass(warning.category, category) for warning in seen)


def trains(name: str) -> bool:
    """Whether the model registered under a name trains from scratch; False where none is."""
    return any(e.name == name and e.spec is not None and e.spec.needs_training for e in available())


def example_data(dim: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Two short noisy trajectories (45 and 35 observations) of a damped oscillator and its relatives.

    Parameters
    ----------
    dim : int
        1: relaxation; 2: damped oscillation; more: further relaxing states.

    Returns
    -------
    x, t : lists of arrays

    See Also
    --------
    check_model : Uses it.

    Examples
    --------
    >>> from fim_dynsys import testing
    >>> x, t = testing.example_data(2)
    >>> len(x), x[0].shape, t[0].shape
    (2, (45, 2), (45,))
    """
    rng = np.random.default_rng(dim)
    x: list[np.ndarray] = []
    t: list[np.ndarray] = []
    for n, amplitude in ((45, 1.0), (35, -1.5)):
        times = np.linspace(0.0, 5.0, n)
        states = [np.exp(-times / (2.0 + k)) * amplitude * (1.0 + 0.3 * k) for k in range(dim)]
        if dim > 1:
            states[0] = amplitude * np.exp(-0.1 * times) * np.cos(2 * times)
            states[1] = -amplitude * np.exp(-0.1 * times) * np.sin(2 * times)
        clean = np.stack(states, axis=1)
        x.append(clean + 0.005 * rng.standard_normal(clean.shape))
        t.append(times)
    return x, t


def bad_data(fit: Callable[..., Any], x: np.ndarray, t: np.ndarray) -> dict[str, Callable[[], object]]:
    """Calls of `fit` with one trajectory spoilt in some way, each of which must be refused."""
    n, d = x.shape
    nan_time, shuffled, repeated, infinite = t.copy(), t[::-1].copy(), t.copy(), x.copy()
    nan_time[3], repeated[4], infinite[2, 0] = np.nan, repeated[3], np.inf
    return {
        "NaN time": lambda: fit(x, nan_time),
        "decreasing times": lambda: fit(x, shuffled),
        "repeated time": lambda: fit(x, repeated),
        "infinite observation": lambda: fit(infinite, t),
        "other length": lambda: fit(x, t[:-1]),
        "no times": lambda: fit(x),
        "other dimension": lambda: fit([x, np.zeros((n, d + 1))], [t, t]),
        "no trajectory": lambda: fit([], []),
        "complex": lambda: fit(x.astype(complex), t),
        "object": lambda: fit(x.astype(object), t),
        "strings": lambda: fit(x.astype(str), t),
    }
