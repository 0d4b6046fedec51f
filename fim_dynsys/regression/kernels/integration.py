"""Compiled integration of dictionary fields, in shorter steps where they err by more than is allowed."""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled, inlined
from fim_dynsys.regression.kernels.terms import (
    LANES,
    advance_stage,
    fill_inputs,
    right_hand_sides,
    term_values,
    terms_in_use,
)

_FINER, _LEVELS = 4, 3  # an interval is taken again in 4, 16 and 64 times as many steps
_EXTRA = 48  # times the steps that a path has anyway: what finer ones may add before it goes on without them
_ORDER, _MARGIN = 0.25, 1.1  # the error goes with the fourth power of a step; counts rise by a tenth more
_LEAST_GROWTH, _MOST_GROWTH = 1.5, 8.0  # of a count in one round
_ROUNDS = 6  # of raising counts: what errs after that keeps its last count


@inlined
def _slopes(field: tuple, p: np.ndarray, lanes: int, z: np.ndarray, scratch: tuple, k: np.ndarray) -> None:
    """Right-hand sides (d, lanes) of fields with coefficients ``p`` at states and inputs in ``z``."""
    terms, in_use, row, column = field
    table, values, functions = scratch[:3]
    term_values(z, lanes, terms, in_use, table, functions, values)
    right_hand_sides(values, lanes, row, column, p, k)


@inlined
def _advance(
    field: tuple,
    p: np.ndarray,
    lanes: int,
    count: int,
    h: np.ndarray,
    curves: np.ndarray,
    allowed: np.ndarray,
    scratch: tuple,
    x: np.ndarray,
    slope: np.ndarray,
    worst: np.ndarray,
) -> None:
    """Advance states ``x`` (d, lanes) by ``count`` steps ``h`` (lanes,) of the classical Runge-Kutta method.

    ``slope`` (d, lanes) is the right-hand side at ``x``, before and after. ``worst`` (lanes,) becomes the
    largest error of a step in what is ``allowed`` (d,), by the embedded method of order three whose last
    stage is the first of the next step.
    """
    d, m = len(x), curves.shape[2]
    _, _, _, z, k, total, begun, width = scratch
    for r in range(lanes):
        worst[r], width[r] = 0.0, 1.0 / count
    for step in range(count):
        if m:
            for r in range(lanes):
                begun[r] = step * width[r]
        for i in range(d):
            for r in range(lanes):
                k[i, r] = slope[i, r]
        advance_stage(0, lanes, x, h, k, total, z)
        for stage in range(1, 4):
            if m:
                fill_inputs(stage, lanes, curves, begun, width, z)
            _slopes(field, p, lanes, z, scratch, k)
            advance_stage(stage, lanes, x, h, k, total, z)
        for i in range(d):
            for r in range(lanes):
                x[i, r] += h[r] / 6.0 * total[i, r]
                z[i, r] = x[i, r]
        _slopes(field, p, lanes, z, scratch, slope)  # its inputs are those of the last stage
        for i in range(d):
            strict = 1.0 / (6.0 * allowed[i])
            for r in range(lanes):
                worst[r] = max(worst[r], abs(h[r] * (k[i, r] - slope[i, r])) * strict)


@compiled
def _scratch(terms: tuple[np.ndarray, ...], d: int, m: int) -> tuple:
    """Arrays that evaluation of fields of d states and m inputs fills."""
    table, values = np.empty((len(terms[0]), LANES)), np.empty((len(terms[3]), LANES))
    functions = np.empty((1, len(terms[3]), LANES))
    z, k, total = np.empty((d + m, LANES)), np.empty((d, LANES)), np.empty((d, LANES))
    return table, values, functions, z, k, total, np.empty(LANES), np.empty(LANES)


@inlined
def _errs(x: np.ndarray, worst: np.ndarray, r: int) -> bool:
    """Whether a step erred by more than is allowed, or led to no number."""
    size = 0.0
    for i in range(len(x)):
        size += abs(x[i, r])
    return not (worst[r] <= 1.0 and np.isfinite(size))


@inlined
def _first_level(worst: float, known: int) -> int:
    """Where to begin after a step that erred by ``worst``, or as before where that is no number."""
    if not worst < np.inf:
        return known
    level = 1
    while level < _LEVELS and _FINER**level < _MARGIN * worst**_ORDER:
        level += 1
    return level


@inlined
def _begin(
    field: tuple,
    p: np.ndarray,
    lanes: int,
    curves: np.ndarray,
    scratch: tuple,
    x: np.ndarray,
    slope: np.ndarray,
) -> None:
    """Right-hand sides (d, lanes) where intervals begin."""
    d, z = len(x), scratch[3]
    for i in range(d):
        for r in range(lanes):
            z[i, r] = x[i, r]
    for j in range(curves.shape[2]):
        for r in range(lanes):
            z[d + j, r] = curves[r, 0, j]
    _slopes(field, p, lanes, z, scratch, slope)


@compiled
def integrate(
    terms: tuple[np.ndarray, ...],
    coefficients: np.ndarray,
    x0: np.ndarray,
    t: np.ndarray,
    counts: np.ndarray,
    bound: float,
    inputs: np.ndarray,
    allowed: np.ndarray,
) -> np.ndarray:
    """Paths (K, T, n, d) of fields (K, m, d) from starts (K, T, d) at times (T, n), ``counts`` steps each.

    Terms may depend on inputs, coordinates behind the states: cubics (T, n - 1, 4, m) of the fraction of
    each interval. Where a step errs by more than is ``allowed`` (d,), that field's interval is taken again in
    shorter ones, fields that need them side by side; a path takes no more than 48 times the steps that
    ``counts`` gives it, and goes on by these alone then.
    """
    n_fields, m, d = coefficients.shape
    n_trajectories, n = t.shape
    out = np.full((n_fields, n_trajectories, n, d), np.nan)
    scratch = _scratch(terms, d, inputs.shape[3])
    driven = inputs.shape[3] > 0
    curves = np.empty((LANES, 4, inputs.shape[3]))
    x, slope, before, begin = (
        np.empty((d, LANES)),
        np.empty((d, LANES)),
        np.empty((d, LANES)),
        np.empty((d, LANES)),
    )
    again, slope_again, worst, worst_again = (
        np.empty((d, LANES)),
        np.empty((d, LANES)),
        np.empty(LANES),
        np.empty(LANES),
    )
    row, column, p = np.empty(m * d, np.intp), np.empty(m * d, np.intp), np.zeros((m * d, LANES))
    p_again, h, inside = np.empty((m * d, LANES)), np.empty(LANES), np.empty(LANES, np.bool_)
    level, spent, redo = np.zeros(LANES, np.intp), np.zeros(LANES, np.intp), np.empty(LANES, np.intp)
    todo = np.empty(LANES, np.bool_)
    for first in range(0, n_fields, LANES):
        lanes, active = min(LANES, n_fields - first), 0
        for j in range(d):
            for i in range(m):
                anywhere = False
                for r in range(lanes):
                    p[active, r] = coefficients[first + r, i, j]
                    anywhere = anywhere or p[active, r] != 0.0
                if anywhere:
                    row[active], column[active] = i, j
                    active += 1
        in_use = terms_in_use(row[:active], terms)
        field = (terms, in_use, row[:active], column[:active])
        for r in range(lanes):
            inside[r] = True
        for trajectory in range(n_trajectories):
            total = 0
            for sample in range(n - 1):
                total += counts[trajectory, sample]
            for r in range(lanes):
                level[r], spent[r] = 1, 0
                for i in range(d):
                    x[i, r] = x0[first + r, trajectory, i] if inside[r] else 0.0
                    if inside[r]:
                        out[first + r, trajectory, 0, i] = x[i, r]
            fresh = True
            left = lanes
            for sample in range(n - 1):
                count = counts[trajectory, sample]
                step = (t[trajectory, sample + 1] - t[trajectory, sample]) / count
                if step > 0.0:
                    for r in range(lanes):
                        h[r] = step
                    if driven:
                        for r in range(lanes):
                            curves[r] = inputs[trajectory, sample]
                    if driven or fresh:
                        _begin(field, p, lanes, curves, scratch, x, slope)
                        fresh = False
                    for i in range(d):
                        for r in range(lanes):
                            before[i, r], begin[i, r] = x[i, r], slope[i, r]
                    _advance(field, p, lanes, count, h, curves, allowed, scratch, x, slope, worst)
                    wrong = 0
                    for r in range(lanes):
                        todo[r] = inside[r] and _errs(x, worst, r) and spent[r] < _EXTRA * total
                        if todo[r]:
                            wrong += 1
                            level[r] = _first_level(worst[r], level[r])
                        else:
                            level[r] = 1
                    rise = 1
                    while wrong:
                        group = 0
                        for r in range(lanes):
                            if todo[r] and level[r] <= rise:
                                redo[group] = r
                                group += 1
                        finer = _FINER**rise
                        if group:
                            for c in range(group):
                                r = redo[c]
                                h[c] = step / finer
                                spent[r] += count * finer
                                for i in range(d):
                                    again[i, c], slope_again[i, c] = before[i, r], begin[i, r]
                                for a in range(active):
                                    p_again[a, c] = p[a, r]
                            _advance(
                                field,
                                p_again,
                                group,
                                count * finer,
                                h,
                                curves,
                                allowed,
                                scratch,
                                again,
                                slope_again,
                                worst_again,
                            )
                        for c in range(group):
                            r = redo[c]
                            last = rise == _LEVELS or spent[r] >= _EXTRA * total
                            if last or not _errs(again, worst_again, c):
                                todo[r] = False
                                wrong -= 1
                                level[r] = rise
                                for i in range(d):
                                    x[i, r], slope[i, r] = again[i, c], slope_again[i, c]
                        rise += 1
                left = 0
                for r in range(lanes):
                    for i in range(d):
                        inside[r] = inside[r] and abs(x[i, r]) <= bound
                    if inside[r]:
                        left += 1
                        for i in range(d):
                            out[first + r, trajectory, sample + 1, i] = x[i, r]
                if not left:
                    break
            if not left:
                break
    return out


@compiled
def finer_counts(
    terms: tuple[np.ndarray, ...],
    row: np.ndarray,
    column: np.ndarray,
    parameters: np.ndarray,
    nodes: np.ndarray,
    lengths: np.ndarray,
    counts: np.ndarray,
    inputs: np.ndarray,
    allowed: np.ndarray,
    most: int,
) -> np.ndarray:
    """Counts (N,) of steps, at least those given, by which no interval from a node errs by more than allowed.

    Arguments as in `interval_maps`; ``lengths`` (N,) are those of the intervals, and ``most`` is how many
    times an interval's count may rise. Intervals that stay not finite have the counts they were given.
    """
    d, size = nodes.shape[1], len(row)
    in_use = terms_in_use(row, terms)
    field = (terms, in_use, row, column)
    scratch = _scratch(terms, d, inputs.shape[2])
    p, h, worst = np.empty((size, LANES)), np.empty(LANES), np.empty(LANES)
    x, slope = np.empty((d, LANES)), np.empty((d, LANES))
    curves = np.empty((LANES, 4, inputs.shape[2]))
    for a in range(size):
        for r in range(LANES):
            p[a, r] = parameters[a]
    out, open_ones = counts.copy(), np.flatnonzero(lengths > 0.0)
    for _ in range(_ROUNDS):
        order = open_ones[np.argsort(out[open_ones])]
        kept, begin = 0, 0
        while begin < len(order):
            end, count = begin + 1, out[order[begin]]
            while end < len(order) and end < begin + LANES and out[order[end]] == count:
                end += 1
            lanes = end - begin
            for r in range(lanes):
                interval = order[begin + r]
                h[r] = lengths[interval] / count
                for i in range(d):
                    x[i, r] = nodes[interval, i]
                if inputs.shape[2]:
                    curves[r] = inputs[interval]
            _begin(field, p, lanes, curves, scratch, x, slope)
            _advance(field, p, lanes, count, h, curves, allowed, scratch, x, slope, worst)
            for r in range(lanes):
                interval = order[begin + r]
                limit = most * counts[interval]
                if not _errs(x, worst, r):
                    continue
                finite = True
                for i in range(d):
                    finite = finite and np.isfinite(x[i, r])
                if count >= limit:
                    if not finite:
                        out[interval] = counts[interval]
                    continue
                growth = _MOST_GROWTH
                if finite and worst[r] < np.inf:
                    growth = min(max(_MARGIN * worst[r] ** _ORDER, _LEAST_GROWTH), _MOST_GROWTH)
                out[interval] = min(np.intp(np.ceil(count * growth)), limit)
                open_ones[kept] = interval
                kept += 1
            begin = end
        open_ones = open_ones[:kept]
        if not kept:
            break
    return out
