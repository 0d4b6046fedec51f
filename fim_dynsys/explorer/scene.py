"""What a page shows besides the field itself: data, fixed points, cycles, support."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from fim_dynsys.analyze.cycles.periodic import limit_cycles
from fim_dynsys.analyze.equilibria.points import fixed_points
from fim_dynsys.analyze.results import SUPPORTED, cell
from fim_dynsys.fields.base import VectorField
from fim_dynsys.regions import Region

_ORBIT = 129  # states of a cycle that are kept
_SAMPLES = 1500  # of one trajectory at most
_TRAJECTORIES = 60  # that are drawn at most
_CELLS = 48  # of the map of support along each axis
_ZERO = 1e-12  # of the region: no coordinate but a rounding error
_LARGEST_MAPPED = 6  # states of which pairs are mapped

Numbers = list[float | None]


def objects(field: VectorField, region: Region, n_seeds: int, cycles: bool) -> dict[str, Any]:
    """Fixed points and cycles of one field, as JSON holds them.

    Parameters
    ----------
    field : VectorField
        One field.
    region : Region
        Where they are sought.
    n_seeds : int
        Of the search for cycles.
    cycles : bool
        Whether cycles are sought at all.

    Returns
    -------
    dict
        ``points`` and ``cycles``.
    """
    points = fixed_points(field, region, n_draws=16)
    found: dict[str, Any] = {"cycles": []}
    found["points"] = [
        {
            "x": numbers(np.where(np.abs(x) > _ZERO * region.size, x, 0.0)),
            "kind": kind.value,
            "stable": kind.stable,
            "eigenvalues": cell(values),
            "supported": bool(support >= SUPPORTED),
        }
        for x, kind, values, support in zip(
            points.x, points.kind, points.eigenvalues, points.support, strict=True
        )
    ]
    if cycles and field.dim > 1:
        orbits = limit_cycles(field, region, n_seeds=n_seeds, progress=False)
        keep = np.linspace(0, 512, _ORBIT).astype(int)
        found["cycles"] = [
            {
                "period": number(period),
                "kind": cell(kind),
                "stable": bool(stable),
                "orbit": [numbers(x) for x in orbit[keep]],
            }
            for period, kind, stable, orbit in zip(
                orbits.period, orbits.kind, orbits.stable, orbits.orbits, strict=True
            )
        ]
    return found


def observations(field: VectorField) -> list[dict[str, Any]]:
    """The data behind a field, thinned: times and states of each trajectory."""
    if field.context is None:
        return []
    return [
        {"t": numbers(t[:: _stride(t)]), "x": [numbers(row) for row in x[:: _stride(t)]]}
        for t, x in field.context.arrays()[:_TRAJECTORIES]
    ]


def support_maps(field: VectorField, region: Region) -> dict[str, list[int]]:
    """For each pair of states, where the field is supported: rows of cells, 0 or 1.

    Other states are at the middle of the region; a pair is named ``"0,1"``.
    """
    if field.context is None or not 2 <= field.dim <= _LARGEST_MAPPED:
        return {}
    share = (np.arange(_CELLS) + 0.5) / _CELLS
    maps = {}
    for i, j in combinations(range(field.dim), 2):
        x = np.tile(region.low / 2 + region.high / 2, (_CELLS, _CELLS, 1))
        x[..., i] = (region.low[i] + share * region.size[i])[None, :]
        x[..., j] = (region.low[j] + share * region.size[j])[:, None]
        maps[f"{i},{j}"] = (field.support(x) >= SUPPORTED).astype(int).ravel().tolist()
    return maps


def span_of(field: VectorField) -> float:
    """Time over which a click integrates: the longest record, or twenty times the field's time scale."""
    if field.context is not None:
        longest = max(float(t[-1] - t[0]) for t, _ in field.context.arrays())
        if longest > 0:
            return float(f"{longest:.3g}")
    return float(f"{20.0 * field.scales.time:.2g}")


def numbers(values: Sequence[float] | np.ndarray) -> Numbers:
    """As JSON holds them: eight digits, None for what is not finite."""
    return [number(value) for value in np.asarray(values, dtype=float).tolist()]


def number(value: float) -> float | None:
    """See `numbers`."""
    return float(f"{value:.8g}") if np.isfinite(value) else None


def _stride(t: np.ndarray) -> int:
    return -(-len(t) // _SAMPLES) or 1
