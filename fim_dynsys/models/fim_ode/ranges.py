"""Ranges of the sizes in a network's configuration: a file cannot ask for what no machine can build."""

import math
from collections.abc import Mapping
from typing import Any


def check_sizes(config: Any, ranges: Mapping[str, tuple[int, int]]) -> None:
    """ValueError unless the attributes of a configuration are whole numbers in their ranges."""
    for name, (least, most) in ranges.items():
        value = getattr(config, name)
        if type(value) is not int or not least <= value <= most:
            raise ValueError(
                f"{type(config).__name__}: expected {name} as a whole number from {least} to {most}, got "
                f"{value!r}."
            )


def check_numbers(config: Any, name: str, least: float, most: float, count: tuple[int, int]) -> None:
    """ValueError unless an attribute is a tuple of so many numbers between two bounds."""
    values = getattr(config, name)
    sound = isinstance(values, tuple) and count[0] <= len(values) <= count[1]
    if not sound or not all(is_number(v) and least <= v <= most for v in values):
        raise ValueError(
            f"{type(config).__name__}: expected {name} as {count[0]} to {count[1]} numbers from {least} to "
            f"{most}, got {values!r}."
        )


def is_number(value: object) -> bool:
    """Whether a value is a finite number, and no bool."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
