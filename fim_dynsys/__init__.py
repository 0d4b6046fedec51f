"""From noisy trajectories to dynamics: infer the vector field of an unknown ODE, then study it."""

import importlib

__version__ = "0.1.0"

# Public names and the modules that hold them; each is imported when first asked for, so that
# `import fim_dynsys` itself costs next to nothing.
_PUBLIC = {
    "AffineField": "field",
    "CallableField": "field",
    "Distillation": "distillation",
    "EnsembleField": "field",
    "FieldFamily": "family",
    "ModelSpec": "registry",
    "PCAReduction": "reduction",
    "Region": "regions",
    "Status": "simulation",
    "SymbolicField": "regression.symbolic",
    "Trajectories": "trajectories",
    "TrajectoryModel": "model",
    "VectorField": "field",
    "VectorFieldModel": "model",
    "add_noise": "corruption",
    "available": "registry",
    "concatenate": "trajectories",
    "distill": "distillation",
    "drop": "corruption",
    "evidence": "comparison",
    "load": "registry",
    "load_fitted": "registry",
    "simulate": "simulation",
    "truncate": "corruption",
}
_MODULES = (
    "analyze",
    "comparison",
    "corruption",
    "distillation",
    "errors",
    "family",
    "field",
    "files",
    "metrics",
    "model",
    "plot",
    "reduction",
    "regions",
    "registry",
    "regression",
    "report",
    "simulation",
    "systems",
    "testing",
    "trajectories",
)

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name):
    if name in _PUBLIC:
        value = getattr(importlib.import_module(f"fim_dynsys.{_PUBLIC[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"fim_dynsys.{name}")
    raise AttributeError(f"module 'fim_dynsys' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_PUBLIC, *_MODULES})
