"""The public contracts of fields and models, as checks that any plugin can call."""

import importlib

# Public names and the files that hold them, each imported when first asked for.
_PUBLIC = {
    "check_field": "fields",
    "check_model": "models",
    "check_scaling": "inputs",
    "check_trajectory_model": "trajectories",
    "example_data": "requirements",
}

__all__ = [*_PUBLIC]


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'fim_dynsys.testing' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"fim_dynsys.testing.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
