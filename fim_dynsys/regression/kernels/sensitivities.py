"""Compiled integration of dictionary fields with sensitivities to states and parameters."""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled, inlined
from fim_dynsys.regression.kernels.terms import (
    LANES,
    advance_stage,
    fill_inputs,
    has_shape,
    term_tangents,
    terms_in_use,
)


@inlined
def _forcing(
    x: np.ndarray,
    lanes: int,
    terms: tuple[np.ndarray, ...],
    row: np.ndarray,
    column: np.ndarray,
    parameters: np.ndarray,
    free: np.ndarray,
    table: np.ndarray,
    alike: np.ndarray,
    functions: np.ndarray,
    out: np.ndarray,
) -> None:
    """Derivatives (d, numbers, lanes) of the right-hand side by the numbers inside functions.

    Each row of ``free`` names a term, 0 for its inner factor, 1 for its second number or 2 for its shift, and
    which of these parameters it is; terms may share one. ``functions`` are those of `term_tangents` at ``x``.
    """
    for i in range(out.shape[0]):
        for f in range(out.shape[1]):
            for r in range(lanes):
                out[i, f, r] = 0.0
    for f in range(len(free)):
        i, slot = free[f, 0], free[f, 1]
        at, partner, monomial = terms[6][i], terms[7][i], terms[3][i]
        slope_g, by_shape = functions[1, alike[i]], functions[2, alike[i]]
        for k in range(len(row)):
            if row[k] != i:
                continue
            coefficient, to, number = parameters[k], column[k], free[f, 2]
            if slot == 1 and has_shape(terms[5][i]):
                for r in range(lanes):
                    out[to, number, r] += coefficient * (by_shape[r] * table[monomial, r])
            elif slot == 0 or (slot == 1 and partner >= 0):
                inside = at if slot == 0 else partner
                for r in range(lanes):
                    out[to, number, r] += coefficient * (slope_g[r] * x[inside, r] * table[monomial, r])
            else:
                for r in range(lanes):
                    out[to, number, r] += coefficient * (slope_g[r] * table[monomial, r])


@inlined
def slopes_of_one_field(
    lanes: int,
    row: np.ndarray,
    column: np.ndarray,
    parameters: np.ndarray,
    values: np.ndarray,
    out: np.ndarray,
) -> None:
    """Right-hand sides (d, lanes) of the same coefficients at all points."""
    for i in range(len(out)):
        for r in range(lanes):
            out[i, r] = 0.0
    for a in range(len(row)):
        term, at, coefficient = row[a], column[a], parameters[a]
        if coefficient != 0.0:  # a zero is no term, whatever its value
            for r in range(lanes):
                out[at, r] += coefficient * values[term, r]


@inlined
def _slope_and_jacobian(
    lanes: int,
    terms: tuple[np.ndarray, ...],
    row: np.ndarray,
    column: np.ndarray,
    parameters: np.ndarray,
    values: np.ndarray,
    table: np.ndarray,
    gradient: np.ndarray,
    slope: np.ndarray,
    jacobian: np.ndarray,
) -> None:
    """Right-hand sides (d, lanes) of one field at all points, and Jacobians (d, d, lanes)."""
    lowered, index, exponents, kind = terms[2], terms[3], terms[4], terms[5]
    slopes_of_one_field(lanes, row, column, parameters, values, slope)
    for i in range(len(slope)):
        for j in range(len(slope)):
            for r in range(lanes):
                jacobian[i, j, r] = 0.0
    for a in range(len(row)):
        term, at, coefficient = row[a], column[a], parameters[a]
        for j in range(len(slope)):
            if kind[term]:
                for r in range(lanes):
                    jacobian[at, j, r] += coefficient * gradient[term, j, r]
            elif exponents[term, j]:
                power, below = exponents[term, j], lowered[index[term], j]
                for r in range(lanes):
                    jacobian[at, j, r] += coefficient * (power * table[below, r])


@inlined
def stage_tangents(
    z: np.ndarray,
    lanes: int,
    terms: tuple[np.ndarray, ...],
    in_use: tuple[np.ndarray, np.ndarray, np.ndarray],
    given: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    scratch: tuple[np.ndarray, np.ndarray, np.ndarray],
    values: np.ndarray,
    slope: np.ndarray,
    jacobian: np.ndarray,
    forcing: np.ndarray,
) -> None:
    """Terms, slopes and their derivatives by states and by numbers inside functions, at one stage of a step.

    ``given`` are rows, columns, coefficients and free numbers; ``scratch`` is for the table, the functions
    and the gradients.
    """
    row, column, parameters, free = given
    table, functions, gradient = scratch
    term_tangents(z, lanes, terms, in_use, table, functions, values, gradient)
    _slope_and_jacobian(lanes, terms, row, column, parameters, values, table, gradient, slope, jacobian)
    if forcing.shape[1]:
        _forcing(z, lanes, terms, row, column, parameters, free, table, in_use[2], functions, forcing)


@inlined
def _add_product(lanes: int, left: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
    """Add the matrix products ``left @ right`` (d, q, lanes) of all lanes to ``out``.

    The terms of a sum are added in turn, three to a loop: less traffic. Entries are named by their indices:
    a view of a row costs as much as the row's loop.
    """
    d = len(right)
    for i in range(len(out)):
        for j in range(out.shape[1]):
            for c in range(0, d, 3):
                if c + 2 < d:
                    for r in range(lanes):
                        out[i, j, r] = (
                            out[i, j, r]
                            + left[i, c, r] * right[c, j, r]
                            + left[i, c + 1, r] * right[c + 1, j, r]
                            + left[i, c + 2, r] * right[c + 2, j, r]
                        )
                elif c + 1 < d:
                    for r in range(lanes):
                        out[i, j, r] = (
                            out[i, j, r]
                            + left[i, c, r] * right[c, j, r]
                            + left[i, c + 1, r] * right[c + 1, j, r]
                        )
                else:
                    for r in range(lanes):
                        out[i, j, r] += left[i, c, r] * right[c, j, r]


@inlined
def _step_derivatives(
    h: np.ndarray,
    sixth: np.ndarray,
    lanes: int,
    jacobians: np.ndarray,
    scaled: np.ndarray,
    by_slope: np.ndarray,
    whole: np.ndarray,
) -> None:
    """Derivatives of one Runge-Kutta step by the slopes of its stages (4, d, d, lanes) and by its start.

    They are gathered from the last stage back: ``by_slope[s]`` is what the end owes to that stage's
    slope, the stages that follow included.
    """
    d = len(whole)
    for i in range(d):
        for j in range(d):
            for r in range(lanes):
                whole[i, j, r] = 1.0 if i == j else 0.0
    for stage in range(3, -1, -1):
        weight = 1.0 if stage == 0 or stage == 3 else 2.0
        reach = 1.0 if stage == 2 else 0.5
        for i in range(d):
            for j in range(d):
                for r in range(lanes):
                    by_slope[stage, i, j, r] = weight * sixth[r] if i == j else 0.0
                if stage < 3:
                    for r in range(lanes):
                        scaled[i, j, r] = reach * h[r] * by_slope[stage + 1, i, j, r]
        if stage < 3:
            _add_product(lanes, scaled, jacobians[stage + 1], by_slope[stage])
        _add_product(lanes, by_slope[stage], jacobians[stage], whole)


@inlined
def _carry(
    lanes: int,
    whole: np.ndarray,
    before: np.ndarray,
    by_slope: np.ndarray,
    values: np.ndarray,
    forcing: np.ndarray,
    row: np.ndarray,
    column: np.ndarray,
    after: np.ndarray,
) -> None:
    """Derivatives (d, d + q, lanes) of the state after a step of 4 or 12 stages, from those before it."""
    d, size = len(whole), len(row)
    for i in range(d):
        for c in range(after.shape[1]):
            for r in range(lanes):
                after[i, c, r] = 0.0
    _add_product(lanes, whole, before, after)
    for i in range(d):
        for a in range(size):
            term, at = row[a], column[a]
            for s in range(0, len(by_slope), 4):
                for r in range(lanes):
                    after[i, d + a, r] += (
                        by_slope[s, i, at, r] * values[s, term, r]
                        + by_slope[s + 1, i, at, r] * values[s + 1, term, r]
                        + by_slope[s + 2, i, at, r] * values[s + 2, term, r]
                        + by_slope[s + 3, i, at, r] * values[s + 3, term, r]
                    )
        for c in range(forcing.shape[2]):
            for stage in range(len(by_slope)):
                for j in range(d):
                    for r in range(lanes):
                        after[i, d + size + c, r] += by_slope[stage, i, j, r] * forcing[stage, j, c, r]


@compiled
def interval_maps(
    terms: tuple[np.ndarray, ...],
    row: np.ndarray,
    column: np.ndarray,
    parameters: np.ndarray,
    free: np.ndarray,
    nodes: np.ndarray,
    steps: np.ndarray,
    counts: np.ndarray,
    inputs: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of all intervals (N, d) and their derivatives (N, d, d + q) by start and parameters.

    The parameters are the coefficients ``parameters`` of terms ``row`` in coordinates ``column``, and then
    the numbers inside functions that ``free`` names, see `_forcing`. ``inputs`` (N, 4, m) are cubics of the
    fraction of each interval: coordinates of the terms behind the states.
    """
    n, d = len(nodes) - 1, nodes.shape[1]
    size, inner = len(row), 0
    for f in range(len(free)):
        inner = max(inner, free[f, 2] + 1)
    ends, tangents = np.empty((n, d)), np.empty((n, d, d + size + inner))
    m = len(terms[3])
    in_use = terms_in_use(row, terms)
    given, values = (row, column, parameters, free), np.empty((4, m, LANES))
    scratch = (
        np.empty((len(terms[0]), LANES)),
        np.empty((3, m, LANES)),
        np.empty((m, d + inputs.shape[2], LANES)),
    )
    driven = inputs.shape[2] > 0
    begun, width = np.empty(LANES), np.empty(LANES)
    x, z, k, total = (
        np.empty((d, LANES)),
        np.empty((d + inputs.shape[2], LANES)),
        np.empty((d, LANES)),
        np.empty((d, LANES)),
    )
    jacobians, by_slope = np.empty((4, d, d, LANES)), np.empty((4, d, d, LANES))
    forcing, whole = np.empty((4, d, inner, LANES)), np.empty((d, d, LANES))
    scaled, carried = np.empty((d, d, LANES)), np.empty((2, d, d + size + inner, LANES))
    h, sixth = np.empty(LANES), np.empty(LANES)
    curves = np.empty((LANES, 4, inputs.shape[2]))
    order = np.argsort(-counts)  # so that intervals whose steps are done stand last in a block
    for first in range(0, n, LANES):
        lanes = min(LANES, n - first)
        block, most = lanes, counts[order[first]]
        for r in range(lanes):
            interval = order[first + r]
            for i in range(d):
                x[i, r] = nodes[interval, i]
            if driven:
                curves[r] = inputs[interval]
        for i in range(d):
            for c in range(d + size + inner):
                for r in range(lanes):
                    carried[0, i, c, r] = 1.0 if i == c else 0.0
        for step in range(most):
            while counts[order[first + lanes - 1]] <= step:
                lanes -= 1
            for r in range(lanes):
                interval = order[first + r]
                h[r] = steps[interval]
                if driven:
                    width[r] = 1.0 / counts[interval]
                    begun[r] = step * width[r]
                sixth[r] = h[r] / 6.0
            for i in range(d):
                for r in range(lanes):
                    z[i, r] = x[i, r]
            for stage in range(4):
                own, jacobian = values[stage], jacobians[stage]
                if driven:
                    fill_inputs(stage, lanes, curves, begun, width, z)
                stage_tangents(z, lanes, terms, in_use, given, scratch, own, k, jacobian, forcing[stage])
                advance_stage(stage, lanes, x, h, k, total, z)
            for i in range(d):
                for r in range(lanes):
                    x[i, r] += sixth[r] * total[i, r]
            _step_derivatives(h, sixth, lanes, jacobians, scaled, by_slope, whole)
            before, after = carried[step % 2], carried[(step + 1) % 2]
            _carry(lanes, whole, before, by_slope, values, forcing, row, column, after)
        for r in range(block):
            interval = order[first + r]
            for i in range(d):
                ends[interval, i] = x[i, r]
                for c in range(d + size + inner):
                    tangents[interval, i, c] = carried[counts[interval] % 2, i, c, r]
    return ends, tangents
