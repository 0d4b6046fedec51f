"""From a vector field to its dynamics: functions of a field and a region, results with their evidence."""

import importlib

# Public names and the files that hold them, each imported when first asked for.
_PUBLIC = {
    "Attractor": "capture",
    "AttractorKind": "capture",
    "BasinLabel": "basin",
    "Basins": "basin",
    "Bifurcation": "branches",
    "BifurcationKind": "branches",
    "Branch": "branches",
    "BranchEnd": "tracing",
    "BranchKind": "branches",
    "Continuation": "branches",
    "CycleKind": "periodic",
    "CycleStatus": "periodic",
    "DataBifurcations": "diagrams",
    "Effort": "results",
    "FixedPoints": "equilibria",
    "Group": "members",
    "IndexCheck": "balance",
    "Kind": "kinds",
    "LimitCycles": "periodic",
    "LyapunovSpectrum": "exponents",
    "ManifoldBranch": "invariant",
    "ManifoldEnd": "invariant",
    "Manifolds": "invariant",
    "MeasuredBifurcation": "diagrams",
    "MemberResults": "members",
    "NullclineStatus": "nullcline",
    "Nullclines": "nullcline",
    "PoincareSection": "sections",
    "PointStatus": "equilibria",
    "Result": "results",
    "Track": "tracks",
    "basins": "basin",
    "bifurcations_from_data": "diagrams",
    "continuation": "arclength",
    "ensemble": "members",
    "fixed_points": "equilibria",
    "limit_cycles": "periodic",
    "lyapunov": "exponents",
    "manifolds": "invariant",
    "nullclines": "nullcline",
    "poincare": "sections",
}

__all__ = [*_PUBLIC]


def __getattr__(name):
    if name not in _PUBLIC:
        raise AttributeError(f"module 'fim_dynsys.analyze' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"fim_dynsys.analyze.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_PUBLIC})
