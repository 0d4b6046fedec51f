"""Checks of what a model is told."""

import numbers
from typing import Any


def check_counts(caller: str, model: Any, *names: str) -> None:
    """ValueError unless each of these attributes of a model is a positive integer."""
    for name in names:
        value = getattr(model, name)
        if not isinstance(value, numbers.Integral) or value < 1:
            raise ValueError(f"{caller}: expected {name} to be a positive integer, got {value!r}.")
