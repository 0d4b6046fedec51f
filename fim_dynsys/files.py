"""Tables, xarray objects and files: into plain arrays and out again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Parts:
    """Contents of a table or a dataset: one (n, d) array and one (n,) array of times per trajectory."""

    x: list
    t: list
    state_names: tuple[str, ...] | None
    coords: Mapping[str, Any] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
