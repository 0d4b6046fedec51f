"""Pictures of data, fields and results: each function takes axes, or makes them, and returns its artists."""

import importlib
from typing import Any

# Public names and the files that hold them, each imported when first asked for.
_PUBLIC = {
    "Drawing": "canvas",
    "bifurcation_diagram": "diagrams",
    "compare_fields": "maps",
    "comparison": "errors",
    "draw": "results",
    "forecast": "forecasts",
    "front": "front",
    "lyapunov_convergence": "spectra",
    "phase_portrait": "portraits",
    "portrait_3d": "portraits",
    "profiles": "estimation",
    "return_map": "spectra",
    "spectrum": "spectra",
    "support_map": "maps",
    "time_series": "series",
    "two_parameter": "diagrams",
    "uncertainty_map": "maps",
    "waterfall": "estimation",
}

__all__ = [*_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'fim_dynsys.plot' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"fim_dynsys.plot.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
