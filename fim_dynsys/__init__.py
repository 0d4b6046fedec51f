"""From noisy trajectories to dynamics: infer the vector field of an unknown ODE, then study it."""

__version__ = "0.2.0"

# Public names and the modules that hold them; each is imported when first asked for, so that
# `import fim_dynsys` itself costs next to nothing.
_PUBLIC = {
    "AffineField": "fields.affine",
    "CallableField": "fields.callable",
    "Distillation": "distillation",
    "EnsembleField": "fields.ensemble",
    "FieldFamily": "fields.family",
    "FieldPlane": "fields.plane",
    "Knowledge": "search.knowledge",
    "ModelSpec": "registry",
    "PCAReduction": "reduction",
    "Region": "regions",
    "Status": "simulation.problem",
    "SymbolicField": "fields.symbolic",
    "Trajectories": "trajectories.container",
    "TrajectoryModel": "models.base",
    "VectorField": "fields.base",
    "VectorFieldModel": "models.base",
    "add_noise": "corruption",
    "add_outliers": "corruption",
    "available": "registry",
    "compare": "models.held_out",
    "concatenate": "trajectories.container",
    "distill": "distillation",
    "equations_from_petab": "estimation.petab",
    "drop": "corruption",
    "evidence": "comparison.models",
    "fit_many": "many",
    "from_sbml": "estimation.sbml",
    "load": "registry",
    "load_fitted": "registry",
    "register": "registry",
    "simulate": "simulation.solution",
    "to_c": "fields.exports",
    "to_julia": "fields.exports",
    "to_sbml": "estimation.sbml_writing",
    "truncate": "corruption",
    "without_outliers": "regression.outliers",
}
_MODULES = (
    "analyze",
    "comparison",
    "corruption",
    "distillation",
    "errors",
    "estimation",
    "explorer",
    "fields",
    "many",
    "metrics",
    "models",
    "plot",
    "reduction",
    "regions",
    "registry",
    "regression",
    "report",
    "search",
    "simulation",
    "systems",
    "testing",
    "trajectories",
)

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> object:
    from fim_dynsys.importing import imported

    if name in _PUBLIC:
        value = getattr(imported(f"fim_dynsys.{_PUBLIC[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return imported(f"fim_dynsys.{name}")
    raise AttributeError(f"module 'fim_dynsys' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
