"""From a vector field to its dynamics: functions of a field and a region, results with their evidence."""

import importlib
from typing import Any

# Public names by the file that holds them, each imported when first asked for.
_HOLDS = {
    "bands.basins": ("BasinProbabilities", "basin_probabilities"),
    "bands.branches": ("BranchBand", "BranchBands", "branch_bands"),
    "bands.conditioned": ("conditioned_draws",),
    "bands.cycles": ("CycleBands", "cycle_bands"),
    "bands.experiments": ("NextMeasurement", "next_measurement"),
    "bands.manifolds": ("ManifoldBands", "manifold_bands"),
    "bands.phase_response": ("PhaseResponse", "phase_response"),
    "bands.plane": ("CurvesFromData", "curves_from_data"),
    "bands.resilience": ("Resilience", "resilience"),
    "bands.tipping": ("Tipping", "tipping"),
    "bifurcation.arclength": ("continuation",),
    "tracing.branches": (
        "Bifurcation",
        "BifurcationKind",
        "Branch",
        "BranchKind",
        "Continuation",
        "LimitKind",
        "LongPeriod",
    ),
    "bifurcation.curves": ("bifurcation_curves",),
    "bifurcation.measured": ("DataBifurcations", "MeasuredBifurcation", "bifurcations_from_data"),
    "tracing.curve": ("BranchEnd",),
    "bifurcation.tracks": ("Track",),
    "bifurcation.two_parameters": ("BifurcationCurve", "BifurcationCurves", "CodimensionTwo"),
    "cycles.isochrons": ("Isochrons", "isochrons"),
    "cycles.periodic": ("CycleKind", "CycleStatus", "LimitCycles", "SeedEnd", "limit_cycles"),
    "cycles.sections": ("PoincareSection", "poincare"),
    "equilibria.balance": ("IndexCheck",),
    "equilibria.kinds": ("Kind",),
    "equilibria.points": ("fixed_points",),
    "equilibria.result": ("FixedPoints", "PointStatus"),
    "exponents": ("LyapunovSpectrum", "lyapunov"),
    "signals.chaos": ("permutation_entropy", "zero_one_test"),
    "signals.compared": ("Measures", "measures"),
    "signals.dimension": ("CorrelationDimension", "correlation_dimension"),
    "signals.embedding": ("Embedding", "delay_embedding"),
    "signals.recurrence": ("Recurrence", "recurrence"),
    "members": ("Group", "MemberResults", "ensemble"),
    "phase_space.basin": ("BasinLabel", "Basins", "basins"),
    "phase_space.capture": ("Attractor", "AttractorKind"),
    "phase_space.invariant": ("ManifoldBranch", "ManifoldEnd", "Manifolds", "manifolds"),
    "phase_space.nullcline": ("NullclineStatus", "Nullclines", "nullclines"),
    "results": ("Effort", "Result"),
}
_PUBLIC = {name: file for file, names in _HOLDS.items() for name in names}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'fim_dynsys.analyze' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"fim_dynsys.analyze.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
