"""What a table, an xarray object or a file holds, before it is checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

TIME_NAMES = ("t", "time")
ROLES_KEY = "fim_dynsys"
"""Key of ``frame.attrs`` under which a table says what its columns are."""
READ = "read"
"""Key of ``dataset.attrs`` under which trajectories say how their file was read."""


@dataclass(frozen=True)
class Parts:
    """Contents of a table or a dataset: one (n, d) array and one (n,) array of times per trajectory."""

    x: Any
    t: Any
    state_names: Sequence[str] | None
    coords: Mapping[str, Any] | None = None
    units: Mapping[str, str] | Sequence[str] | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    extras: Mapping[str, xr.Variable] = field(default_factory=dict)
    u: Any = None
    input_names: Sequence[str] | None = None


def seconds(times: np.ndarray) -> np.ndarray:
    """Seconds since the first of dates; durations in seconds."""
    if times.dtype.kind == "M":
        times = times - np.nanmin(times)
    return times / np.timedelta64(1, "s")
