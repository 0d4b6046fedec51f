"""Compiled evaluation of dictionary terms and their tangents, for a block of points at once."""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled, inlined

LANES = 104  # points taken together: the compiler makes vectors of loops over them


@compiled
def evaluate_function(kind: int, u: float, shape: float) -> tuple[float, float, float]:
    """``g(u)``, ``g'(u)`` and its derivative by the shape, of a `fim_dynsys.fields.functions.Kind`."""
    if kind == 1:
        return np.sin(u), np.cos(u), 0.0
    if kind == 2:
        return np.cos(u), -np.sin(u), 0.0
    if kind == 3:
        value = np.exp(u)
        return value, value, 0.0
    if kind == 4:
        below = 1.0 / (1.0 + u)
        return u * below, below * below, 0.0
    if kind == 5:
        below = 1.0 / (1.0 + u * u)
        return u * u * below, 2.0 * u * below * below, 0.0
    if kind == 6:
        value = np.tanh(u)
        return value, 1.0 - value * value, 0.0
    if kind == 7:
        return (np.log(u) if u >= 0.0 else np.nan), 1.0 / u, 0.0
    if kind == 8:
        value = u**shape
        by_shape = value * np.log(u) if u > 0.0 else (0.0 if u == 0.0 else np.nan)
        return value, (shape * u ** (shape - 1.0) if shape != 0.0 else 0.0), by_shape
    if kind == 9 or kind == 10:
        size = abs(u)
        power = size**shape
        below = 1.0 / (1.0 + power)
        curve = power * below * below if power < 1e150 else 0.0
        slope = shape * curve / u if u != 0.0 else (1.0 if shape == 1.0 else 0.0)
        by_shape = curve * np.log(size) if size > 0.0 else 0.0
        if kind == 9:
            return 1.0 - below, slope, by_shape
        return below, -slope, -by_shape
    if kind == 11:
        below = 1.0 / (1.0 + u + shape * u * u)
        return below, -(1.0 + 2.0 * shape * u) * below * below, -u * u * below * below
    if kind == 12:
        below = 1.0 / (1.0 + u)
        return below, -below * below, 0.0
    if kind == 13:
        below = 1.0 / (1.0 + u)
        return below * below, -2.0 * below * below * below, 0.0
    if kind == 14:
        return abs(u), (1.0 if u > 0.0 else (-1.0 if u < 0.0 else 0.0)), 0.0
    if kind == 15:
        below = 1.0 / u if u != 0.0 else np.nan
        return below, -below * below, 0.0
    if kind == 16:
        value = np.exp(-u * u)
        return value, -2.0 * u * value, 0.0
    if kind == 17:
        if u == 0.0:
            return 0.0, 0.0, 0.0
        value = np.exp(-1.0 / u)
        return value, value / (u * u), 0.0
    if kind == 18:
        return np.sin(u * u), 2.0 * u * np.cos(u * u), 0.0
    if kind == 19:
        return np.cos(u * u), -2.0 * u * np.sin(u * u), 0.0
    if kind == 20:
        return np.log1p(u * u), 2.0 * u / (1.0 + u * u), 0.0
    return 1.0, 0.0, 0.0


@inlined
def has_shape(kind: int) -> bool:
    return kind >= 8 and kind <= 11


@inlined
def argument_of(
    x: np.ndarray,
    lane: int,
    kind: int,
    coordinate: int,
    partner: int,
    inner: float,
    second: float,
    shift: float,
) -> float:
    """``u`` of a term at one point."""
    u = inner * x[coordinate, lane]
    if not has_shape(kind):
        u += second * (x[partner, lane] if partner >= 0 else 1.0) + shift
    return u


@compiled
def terms_in_use(row: np.ndarray, terms: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What to evaluate for the terms that occur in ``row``.

    The terms; the table's rows that they and their derivatives are made of; and for each term of all the
    first in use with its function, so that a function of several terms is evaluated once.
    """
    parent, lowered, index = terms[0], terms[2], terms[3]
    occurs, needed = np.zeros(len(index), np.bool_), np.zeros(len(parent), np.bool_)
    used, rows, alike = np.empty(len(index), np.intp), np.empty(len(parent), np.intp), np.arange(len(index))
    n_used = n_rows = 0
    for k in range(len(row)):
        occurs[row[k]] = True
    for i in range(len(index)):
        if occurs[i]:
            for place in range(n_used):
                if _same_function(used[place], i, terms):
                    alike[i] = used[place]
                    break
            used[n_used] = i
            n_used += 1
            needed[index[i]] = True
            for j in range(lowered.shape[1]):
                needed[lowered[index[i], j]] = True
    for i in range(len(parent) - 1, 0, -1):
        if needed[i]:
            needed[parent[i]] = True
    for i in range(1, len(parent)):
        if needed[i]:
            rows[n_rows] = i
            n_rows += 1
    return used[:n_used], rows[:n_rows], alike


@inlined
def _same_function(one: int, other: int, terms: tuple[np.ndarray, ...]) -> bool:
    kind, coordinate, partner, inner, second, shift = terms[5:]
    return (
        kind[one] > 0
        and kind[one] == kind[other]
        and coordinate[one] == coordinate[other]
        and partner[one] == partner[other]
        and inner[one] == inner[other]
        and second[one] == second[other]
        and shift[one] == shift[other]
    )


@inlined
def fill_monomials(
    x: np.ndarray, lanes: int, parent: np.ndarray, factor: np.ndarray, rows: np.ndarray, table: np.ndarray
) -> None:
    for r in range(lanes):
        table[0, r] = 1.0
    for w in range(len(rows)):
        i = rows[w]
        lower, by = parent[i], factor[i]
        for r in range(lanes):
            table[i, r] = table[lower, r] * x[by, r]


@inlined
def term_values(
    x: np.ndarray,
    lanes: int,
    terms: tuple[np.ndarray, ...],
    in_use: tuple[np.ndarray, np.ndarray, np.ndarray],
    table: np.ndarray,
    functions: np.ndarray,
    out: np.ndarray,
) -> None:
    """Values (m, lanes) of the terms ``in_use`` at the points ``x`` (d, lanes)."""
    parent, factor, _, index, _, kind, coordinate, partner, inner, second, shift = terms
    used, rows, alike = in_use
    fill_monomials(x, lanes, parent, factor, rows, table)
    for place in range(len(used)):
        i = used[place]
        monomial, own = index[i], alike[i]
        if not kind[i]:
            for r in range(lanes):
                out[i, r] = table[monomial, r]
            continue
        if own == i:
            for r in range(lanes):
                u = argument_of(x, r, kind[i], coordinate[i], partner[i], inner[i], second[i], shift[i])
                functions[0, i, r] = evaluate_function(kind[i], u, second[i])[0]
        for r in range(lanes):
            out[i, r] = table[monomial, r] * functions[0, own, r]


@inlined
def term_tangents(
    x: np.ndarray,
    lanes: int,
    terms: tuple[np.ndarray, ...],
    in_use: tuple[np.ndarray, np.ndarray, np.ndarray],
    table: np.ndarray,
    functions: np.ndarray,
    out: np.ndarray,
    gradient: np.ndarray,
) -> None:
    """Values (m, lanes) of terms at points (d, lanes), and gradients (m, d, lanes) of functions among them.

    Gradients of monomials are read off the table. Values, slopes and derivatives by the shape of the
    functions themselves are left in ``functions`` (3, m, lanes).
    """
    parent, factor, lowered, index, exponents, kind, coordinate, partner, inner, second, shift = terms
    used, rows, alike = in_use
    fill_monomials(x, lanes, parent, factor, rows, table)
    for place in range(len(used)):
        i = used[place]
        row, own = index[i], alike[i]
        if not kind[i]:
            for r in range(lanes):
                out[i, r] = table[row, r]
            continue
        if own == i:
            for r in range(lanes):
                u = argument_of(x, r, kind[i], coordinate[i], partner[i], inner[i], second[i], shift[i])
                g, slope, by_shape = evaluate_function(kind[i], u, second[i])
                functions[0, i, r], functions[1, i, r], functions[2, i, r] = g, slope, by_shape
        for j in range(len(x)):
            power, below = exponents[i, j], lowered[row, j]
            for r in range(lanes):
                gradient[i, j, r] = power * table[below, r] * functions[0, own, r]
        for r in range(lanes):
            gradient[i, coordinate[i], r] += table[row, r] * inner[i] * functions[1, own, r]
        if partner[i] >= 0 and not has_shape(kind[i]):
            for r in range(lanes):
                gradient[i, partner[i], r] += table[row, r] * second[i] * functions[1, own, r]
        for r in range(lanes):
            out[i, r] = table[row, r] * functions[0, own, r]


@inlined
def right_hand_sides(
    values: np.ndarray, lanes: int, row: np.ndarray, column: np.ndarray, p: np.ndarray, out: np.ndarray
) -> None:
    """Right-hand sides (d, lanes) of coefficients ``p`` (k, lanes); a zero is no term, whatever its value."""
    for i in range(len(out)):
        for r in range(lanes):
            out[i, r] = 0.0
    k = 0
    while k < len(row):
        own = out[column[k]]
        if k + 1 < len(row) and column[k] == column[k + 1]:  # two at a time: less traffic
            one, two = values[row[k]], values[row[k + 1]]
            for r in range(lanes):
                first = p[k, r] * one[r] if p[k, r] != 0.0 else 0.0
                own[r] = own[r] + first + (p[k + 1, r] * two[r] if p[k + 1, r] != 0.0 else 0.0)
            k += 2
        else:
            for r in range(lanes):
                own[r] += p[k, r] * values[row[k], r] if p[k, r] != 0.0 else 0.0
            k += 1


@inlined
def fill_inputs(
    stage: int, lanes: int, inputs: np.ndarray, begun: np.ndarray, width: np.ndarray, z: np.ndarray
) -> None:
    """Inputs of a stage: the last rows of ``z``, from cubics (lanes, 4, m) of the fraction of an interval.

    ``begun`` (lanes,) is the fraction at the start of the step, ``width`` (lanes,) that of the step.
    """
    m = inputs.shape[2]
    reach = 0.0 if stage == 0 else (1.0 if stage == 3 else 0.5)
    for j in range(m):
        at = len(z) - m + j
        for r in range(lanes):
            s = min(begun[r] + reach * width[r], 1.0)
            curve = inputs[r]
            z[at, r] = curve[0, j] + s * (curve[1, j] + s * (curve[2, j] + s * curve[3, j]))


@inlined
def advance_stage(
    stage: int, lanes: int, x: np.ndarray, h: np.ndarray, k: np.ndarray, total: np.ndarray, z: np.ndarray
) -> None:
    """Add a slope ``k`` of the classical Runge-Kutta method to ``total``; where the next one is taken."""
    weight = 1.0 if stage == 0 or stage == 3 else 2.0
    reach = 1.0 if stage == 2 else 0.5
    for i in range(len(x)):
        for r in range(lanes):
            total[i, r] = (total[i, r] if stage else 0.0) + weight * k[i, r]
            z[i, r] = x[i, r] + reach * h[r] * k[i, r]
