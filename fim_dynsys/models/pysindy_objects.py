"""Objects of pysindy as plain data: their public class and parameters, as JSON holds them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pysindy
from sklearn.base import BaseEstimator

_CLASS, _ARRAY = "class", "array"
_LARGEST = {"degree": 20, "n_frequencies": 1000}
_LARGEST_OTHERWISE = 10**6  # of a count in a file: a damaged one asks for more


def described(part: Any) -> Any:
    """An optimizer, library or differentiation as nested dicts and lists; see `made`.

    Raises
    ------
    ValueError
        Where it, or a parameter of it, is no public object of pysindy, array, number or text.
    """
    if isinstance(part, BaseEstimator):
        name = type(part).__name__
        if getattr(pysindy, name, None) is not type(part):
            raise ValueError(f"sindy: expected objects of pysindy's public classes, got {part!r}.")
        try:
            params = part.get_params(deep=False)
        except (AttributeError, RuntimeError) as error:  # of classes without scikit-learn's conventions
            raise ValueError(
                f"sindy: expected objects that tell their parameters, got {name}; keep the data."
            ) from error
        return {_CLASS: name} | {key: described(value) for key, value in params.items()}
    if isinstance(part, np.ndarray) and part.dtype.kind in "biuf":
        return {_ARRAY: part.tolist()}
    if isinstance(part, list | tuple):
        return [described(value) for value in part]
    if isinstance(part, Mapping) and all(isinstance(key, str) for key in part):
        return {key: described(value) for key, value in part.items()}
    if isinstance(part, np.generic):
        return part.item()
    if part is None or type(part) in (bool, int, float, str):
        return part
    raise ValueError(
        f"sindy: expected parameters that can be written down, got {part!r}; keep the data and fit again."
    )


def made(description: Any) -> Any:
    """An object built from what `described` says; anything else unchanged.

    Raises
    ------
    ValueError
        Where the class is not one of pysindy's, or does not take the parameters.
    """
    if isinstance(description, list):
        return [made(value) for value in description]
    if not isinstance(description, Mapping):
        return description
    if set(description) == {_ARRAY}:
        return np.asarray(description[_ARRAY])
    parts = {key: made(value) for key, value in description.items() if key != _CLASS}
    if _CLASS not in description:
        return parts
    kind = getattr(pysindy, str(description[_CLASS]), None)
    if not (isinstance(kind, type) and issubclass(kind, BaseEstimator)):
        raise ValueError(f"sindy: expected the name of a class of pysindy, got {description[_CLASS]!r}.")
    for key, value in parts.items():
        largest = _LARGEST.get(key, _LARGEST_OTHERWISE)
        if isinstance(value, int) and abs(value) > largest:
            raise ValueError(f"sindy: expected {key} of at most {largest} in a description, got {value}.")
    try:
        return kind(**parts)
    except Exception as error:  # constructors of pysindy check as they like
        raise ValueError(
            f"sindy: expected parameters of pysindy.{kind.__name__}, got {parts}: {error}"
        ) from error
