"""Fixed points of a vector field in a region: zeros, slow points, kinds, and a check that none was missed."""

from dataclasses import replace
from typing import Any

import numpy as np

from fim_dynsys.analyze.conserved import ConservedSums
from fim_dynsys.analyze.equilibria.result import FixedPoints
from fim_dynsys.analyze.equilibria.search import CHECKED, Search
from fim_dynsys.analyze.levels import LevelLike, LevelSet, level_set
from fim_dynsys.analyze.results import (
    FieldLike,
    RegionLike,
    resolve_region,
    scales_of_both_kinds,
    scales_within,
    state_labels,
    unwrap,
)
from fim_dynsys.deadline import time_limit
from fim_dynsys.errors import check_number, check_whole, renamed
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.forced import omegas_of
from fim_dynsys.regions import Region
from fim_dynsys.threads import on_one_thread

_FAR_APART = 1e3  # speeds by root mean squares and by the median, of which either may suit a field


@on_one_thread
@renamed(draws="n_draws")
def fixed_points(
    field: FieldLike,
    region: RegionLike | None = None,
    *,
    n_seeds: int | None = None,
    budget: int = 200_000,
    slow: float = 0.05,
    seed: int = 0,
    n_draws: int | EnsembleField = 64,
    level: LevelLike | None = None,
    max_seconds: float | None = None,
) -> FixedPoints:
    """Find the fixed points of a field in a region.

    Damped Newton iterations run at once from scrambled Sobol points, observed states, and (in one to three
    dimensions) every small cell in which all components of the field may vanish. The zeros are merged and
    their topological indices compared with the degree of the field on the region's boundary; where the two
    differ, the parts of the region that contradict are searched again. A pair of zeros with opposite indices
    can be missed without a mismatch, and from four dimensions on there is no check. So the search goes on,
    within its budget, until hardly a zero was met only once, and estimates how many were missed. States that
    stay at 0, such as absent species, are 0 in half of additional starts.

    Parameters
    ----------
    field : VectorField or fitted model
        What to analyse.
    region : Region, dict or pairs, optional
        Where to search; default the box of the field's data widened by 10 % on each side. Its boundary
        belongs to it.
    n_seeds : int, optional
        Number of Sobol points; default 64 per dimension, from four dimensions on 256.
    budget : int
        Largest number of points at which the field or its Jacobian is evaluated.
    slow : float
        Minima of |f| that are no zeros count as slow points up to this share of the field's speed; 0 for
        none.
    seed : int
        Of the Sobol points, and of the draws.
    n_draws : int or EnsembleField
        Number of fields drawn from the field's posterior, into which each point is followed for the errors
        of its position, its eigenvalues and its kind; 0 for none, and a field without a posterior has none.
        ``model.ensemble(64)`` makes fields of other models. What that takes is not in the budget.
    level : dict or array_like (d,), optional
        Where the field conserves linear sums of its states, the level set on which points are sought: totals
        such as ``{"S+I+R": 1}``, or a state on it; default that of the field's data. Without either, zeros
        form continua, of which a few are shown.
    max_seconds : float, optional
        Time on the clock after which the search ends with what it has; default no limit.

    Returns
    -------
    FixedPoints

    Raises
    ------
    TypeError, ValueError
        For something that has no field, a model that is not fitted, a region that does not fit, or none where
        the field has no data; for a level of sums that the field does not conserve.

    References
    ----------
    Golub and Sussillo, J. Open Source Softw. 3 (2018) 1003: slow points and zeros of learned fields.
    Strogatz, Nonlinear Dynamics and Chaos, section 6.8: index theory.
    A. Chao, Scand. J. Statist. 11 (1984) 265: the number of classes that a sample has missed.

    See Also
    --------
    limit_cycles : Closed orbits.
    nullclines : Where single rates vanish.

    Examples
    --------
    >>> from fim_dynsys import CallableField
    >>> logistic = CallableField(lambda x: x * (1 - x), dim=1)
    >>> found = fixed_points(logistic, [(-0.5, 2.0)])
    >>> found.x.round(12).ravel().tolist(), [kind.value for kind in found.kind]
    ([0.0, 1.0], ['unstable node', 'stable node'])
    """
    field = unwrap(field, "fixed_points")
    region = resolve_region(field, region, "fixed_points")
    check_whole("fixed_points", 1, n_seeds=1 if n_seeds is None else n_seeds, budget=budget)
    check_whole("fixed_points", 0, seed=seed)
    check_number("fixed_points", "slow", slow, 0.0)
    drawn = n_draws if isinstance(n_draws, EnsembleField) else None
    if not isinstance(n_draws, EnsembleField):
        check_whole("fixed_points", 0, n_draws=n_draws)
    if not isinstance(n_draws, EnsembleField) and n_draws > 0:
        fields = field.draws(n_draws, seed)
        drawn = None if fields is None else EnsembleField(fields)
    if drawn is not None and drawn.dim != field.dim:
        raise ValueError(f"fixed_points: expected draws of dimension {field.dim}, got {drawn.dim}.")
    sums, on_level = level_set(field, region, level, "fixed_points")
    given, box = field, region
    if on_level is not None:
        field, box = on_level.field(given, region), on_level.region(region)
        along = None if drawn is None else on_level.draws(drawn)
        if along is None and isinstance(n_draws, EnsembleField):
            raise ValueError(
                f"fixed_points: expected draws that conserve {', '.join(sums.names)}, as the field does, got "
                "some that do not; pass n_draws=0, or those of a model with Knowledge(conserved=...)."
            )
        drawn = along
    free = sums if on_level is None else None
    missing = drawn is None and n_draws != 0 and given.context is not None
    # the sines and cosines of a forced field are never 0 at once: there is nothing to search
    names = given.state_names or ()
    forcing = tuple(next((names[k:] for k in range(1, len(names)) if omegas_of(names[k:])), ()))
    with time_limit("fixed_points", max_seconds):
        if forcing:
            search = Search(field, box, budget, free, scales_within(field, box))
        else:
            search = _searched(field, box, budget, free, n_seeds, seed)
        found = search.result(slow, drawn)
    result = replace(
        found,
        errors_missing=missing,
        conserved=sums.names,
        fit_problems=given.fit_info.problems,
        forcing=forcing,
    )
    return result if on_level is None else _embedded(result, on_level, given, region)


def _searched(
    field: VectorField, box: Region, budget: int, sums: ConservedSums | None, n_seeds: int | None, seed: int
) -> Search:
    """A search that has run, by the speeds that suit the field.

    Bounded by the median, they suit fields that are huge in a corner; where this leaves doubts, those of a
    pulse, which vanishes nearly everywhere, are tried.
    """
    usual, others = scales_of_both_kinds(field, box)
    in_doubt = bool((others.speed > _FAR_APART * usual.speed).any()) and box.dim <= CHECKED
    search = Search(field, box, budget // 2 if in_doubt else budget, sums, usual)
    search.run(n_seeds, seed)
    if not in_doubt or search.confirmed:
        return search
    again = Search(field, box, budget - search.meter.points, sums, others)
    again.run(n_seeds, seed)
    found = again if again.confirmed else search
    found.meter.points, found.meter.budget = search.meter.points + again.meter.points, budget
    return found


def _embedded(found: FixedPoints, level: LevelSet, field: VectorField, region: Region) -> FixedPoints:
    """Points found in the coordinates of a level set as states, those in the region."""
    x = level.states(found.x)
    inside = np.flatnonzero(level.inside(x, region))
    names, units = state_labels(field)
    drawn = found.draws
    if drawn is not None:
        drawn = replace(drawn, x=level.states(drawn.x))
    found = replace(found, x=x, draws=drawn)
    return _rows_of(found, inside, region=region, state_names=names, units=units, conserved=level.text)


def _rows_of(found: FixedPoints, rows: np.ndarray, **changed: Any) -> FixedPoints:
    """Some of the points, with other parts changed."""
    drawn = found.draws
    if drawn is not None:
        parts = {name: getattr(drawn, name)[rows] for name in ("x", "eigenvalues", "kind")}
        drawn = replace(drawn, **parts)
    names = ("x", "eigenvalues", "kind", "status", "residual", "support", "index")
    return replace(found, draws=drawn, **{name: getattr(found, name)[rows] for name in names}, **changed)
