"""Compiled integration of dictionary fields with error control, implicit where they are stiff."""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled, inlined
from fim_dynsys.regression.kernels.sensitivities import _slope_and_jacobian
from fim_dynsys.regression.kernels.terms import right_hand_sides, term_tangents, term_values, terms_in_use

_EPS = 2.3e-16  # of a float near one: a step is too short that hardly changes the time
_SAFETY = 0.9  # of the step that would err by the tolerance, so that few are rejected
_STABILITY = 6.1  # steps times rates: what the explicit method of order eight allows on the real axis
_STIFF_AFTER, _EASY_AFTER = (
    15,
    6,
)  # steps at that limit, and below it, after which a field counts as stiff or not
_NEWTON = 10  # iterations for the stages of one implicit step
_CLOSE = 1e-3  # of the tolerance: the stages are solved to


@inlined
def _rates(field: tuple, z: np.ndarray, curve: np.ndarray, fraction: float, out: np.ndarray) -> None:
    """Right-hand sides (d, 1) at states in ``z`` (d + m, 1) and the inputs at a fraction of an interval."""
    terms, in_use, row, column, p, _, table, values, functions, _ = field
    n_inputs = curve.shape[1]
    s = min(fraction, 1.0)
    for i in range(n_inputs):
        z[len(z) - n_inputs + i, 0] = curve[0, i] + s * (curve[1, i] + s * (curve[2, i] + s * curve[3, i]))
    term_values(z, 1, terms, in_use, table, functions, values)
    right_hand_sides(values, 1, row, column, p, out)


@inlined
def _norm(off: np.ndarray, x: np.ndarray, new: np.ndarray, rtol: float, atol: np.ndarray) -> float:
    """Root mean square of errors (d,) in tolerances."""
    total = 0.0
    for i in range(len(x)):
        total += (off[i] / (atol[i] + rtol * max(abs(x[i]), abs(new[i])))) ** 2
    return np.sqrt(total / len(x))


@compiled
def solve_in_place(matrix: np.ndarray, right: np.ndarray) -> bool:
    """Solve ``matrix @ x = right`` (n,) by elimination with pivots, in ``right``; whether it is regular.

    The matrix is overwritten.
    """
    n = len(right)
    for k in range(n):
        best, size = k, abs(matrix[k, k])
        for i in range(k + 1, n):
            if abs(matrix[i, k]) > size:
                best, size = i, abs(matrix[i, k])
        if not size > 0.0:
            return False
        if best != k:
            for j in range(n):
                matrix[k, j], matrix[best, j] = matrix[best, j], matrix[k, j]
            right[k], right[best] = right[best], right[k]
        for i in range(k + 1, n):
            factor = matrix[i, k] / matrix[k, k]
            if factor != 0.0:
                for j in range(k + 1, n):
                    matrix[i, j] -= factor * matrix[k, j]
                right[i] -= factor * right[k]
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            right[i] -= matrix[i, j] * right[j]
        right[i] /= matrix[i, i]
    return True


@inlined
def _explicit_step(
    field: tuple,
    x: np.ndarray,
    curve: np.ndarray,
    span: tuple[float, float, float],
    tolerance: tuple,
    explicit: tuple[np.ndarray, np.ndarray, np.ndarray],
    z: np.ndarray,
    k: np.ndarray,
    new: np.ndarray,
    late: np.ndarray,
) -> float:
    """The error of a step in tolerances; its end is ``new``, and where its last stage was taken ``late``.

    ``span`` is the time gone by since the sample, the step, and the time between samples.
    """
    (done, step, gap), (stages, weights, error) = span, explicit
    d, s = len(x), len(weights)
    for j in range(1, s + 1):
        reach = 0.0
        for c in range(j):
            reach += stages[j, c] if j < s else 0.0
        for i in range(d):
            total = 0.0
            for c in range(j):
                total += (stages[j, c] if j < s else weights[c]) * k[c, i, 0]
            z[i, 0] = x[i] + step * total
            if j == s - 1:
                late[i] = z[i, 0]
            if j == s:
                new[i] = z[i, 0]
        if j < s:
            _rates(field, z, curve, (done + reach * step) / gap, k[j])
    rtol, atol = tolerance[0], tolerance[1]
    five, three = 0.0, 0.0
    for i in range(d):
        scale = atol[i] + rtol * max(abs(x[i]), abs(new[i]))
        one, two = 0.0, 0.0
        for c in range(s):
            one += error[0, c] * k[c, i, 0]
            two += error[1, c] * k[c, i, 0]
        five += (one / scale) ** 2
        three += (two / scale) ** 2
    return step * five / np.sqrt((five + 0.01 * three) * d + 1e-300)


@compiled
def _implicit_step(
    field: tuple,
    x: np.ndarray,
    curve: np.ndarray,
    span: tuple[float, float, float],
    tolerance: tuple,
    implicit: tuple[np.ndarray, np.ndarray, np.ndarray, float],
    z: np.ndarray,
    k: np.ndarray,
    new: np.ndarray,
    stage: np.ndarray,
) -> tuple[float, int]:
    """The error of a step in tolerances, nan where its stages were not found, and Newton's iterations."""
    (done, step, gap), (radau, at, estimate, eigenvalue) = span, implicit
    terms, in_use, row, column, _, flat, table, values, functions, gradient = field
    rtol, atol, d = tolerance[0], tolerance[1], len(x)
    jacobian, residual, matrix = np.empty((d, d, 1)), np.empty(3 * d), np.empty((3 * d, 3 * d))
    for i in range(d):
        z[i, 0] = x[i]
    term_tangents(z, 1, terms, in_use, table, functions, values, gradient)
    _slope_and_jacobian(1, terms, row, column, flat, values, table, gradient, k[1], jacobian)
    for c in range(3):
        for i in range(d):
            stage[c, i] = 0.0
    before, size, iteration = np.inf, np.inf, 0
    while iteration < _NEWTON and size > _CLOSE:
        iteration += 1
        for c in range(3):
            for i in range(d):
                z[i, 0] = x[i] + stage[c, i]
            _rates(field, z, curve, (done + at[c] * step) / gap, k[1 + c])
        for c in range(3):
            for i in range(d):
                total = -stage[c, i]
                for b in range(3):
                    total += step * radau[c, b] * k[1 + b, i, 0]
                    for j in range(d):
                        own = 1.0 if c == b and i == j else 0.0
                        matrix[c * d + i, b * d + j] = own - step * radau[c, b] * jacobian[i, j, 0]
                residual[c * d + i] = total
        solve_in_place(matrix, residual)
        before, size = size, 0.0
        for c in range(3):
            for i in range(d):
                stage[c, i] += residual[c * d + i]
                size += (residual[c * d + i] / (atol[i] + rtol * abs(x[i]))) ** 2
        size = np.sqrt(size / (3 * d))
        if not np.isfinite(size) or size > 2.0 * before:
            return np.nan, iteration
    if size > _CLOSE:
        return np.nan, iteration
    small, right, filtered = np.empty((d, d)), np.empty(d), np.empty(d)
    for i in range(d):
        new[i] = x[i] + stage[2, i]
        filtered[i] = 0.0
        for c in range(3):
            filtered[i] += estimate[c] * stage[c, i] / step
        right[i] = 0.0
    off = np.inf
    for attempt in range(2):
        if off >= 1.0:  # a large error is estimated again, from the slope where it leads
            if attempt:
                for i in range(d):
                    z[i, 0] = x[i] + right[i]
                _rates(field, z, curve, done / gap, k[1])
            for i in range(d):
                right[i] = filtered[i] + k[attempt, i, 0]
                for j in range(d):
                    small[i, j] = (eigenvalue / step if i == j else 0.0) - jacobian[i, j, 0]
            solve_in_place(small, right)
            off = _norm(right, x, new, rtol, atol)
    return off, iteration


@inlined
def _first_step(x: np.ndarray, k: np.ndarray, tolerance: tuple, gap: float) -> float:
    """A hundredth of the time in which the state would change by its size."""
    size, pace = 0.0, 0.0
    for i in range(len(x)):
        scale = tolerance[1][i] + tolerance[0] * abs(x[i])
        size += (x[i] / scale) ** 2
        pace += (k[0, i, 0] / scale) ** 2
    h = 0.01 * np.sqrt(size / pace) if size > 0.0 and pace > 0.0 else 1e-3 * gap
    return min(max(h, 1e-9 * gap), gap)


@inlined
def _limit(k: np.ndarray, late_slope: np.ndarray, x: np.ndarray, late: np.ndarray) -> float:
    """The rate at which the fastest direction decays, as two slopes at the end of a step see it."""
    up, down = 0.0, 0.0
    for i in range(len(x)):
        up -= (k[0, i, 0] - late_slope[i]) * (x[i] - late[i])
        down += (x[i] - late[i]) ** 2
    return up / down if down > 0.0 else 0.0


@compiled
def follow(
    terms: tuple[np.ndarray, ...],
    coefficients: np.ndarray,
    x0: np.ndarray,
    first: np.ndarray,
    t: np.ndarray,
    inputs: np.ndarray,
    tolerance: tuple[float, np.ndarray, np.ndarray, int],
    explicit: tuple[np.ndarray, np.ndarray, np.ndarray],
    implicit: tuple[np.ndarray, np.ndarray, np.ndarray, float],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Paths (N, d) of one field over stretches one behind the other, from starts (S, d) at times (N,).

    Steps end at the samples, where inputs may jump. They are explicit, of order eight; once 15 of them were
    as long as stability allows, those of the stretch are the steps of Radau IIA, of order five.

    Parameters
    ----------
    terms : tuple of arrays
        `Dictionary.packed`; they may depend on inputs, coordinates behind the states.
    coefficients : array (m, d)
        Of the terms.
    x0 : array (S, d)
        Starts.
    first : int array (S + 1,)
        First sample of each stretch, and N.
    t : array (N,)
        Times.
    inputs : array (N, 4, k)
        Cubics of the fraction of each interval, by the sample that it starts with.
    tolerance : tuple
        Relative and absolute (d,) errors of a step; bounds (d,) of the states; steps of a stretch at most.
    explicit : tuple
        Weights of the stages, of the result and of the errors.
    implicit : tuple
        Weights of the stages, their times, weights of the error, and the real eigenvalue.

    Returns
    -------
    path : array (N, d)
        nan from where a stretch was given up.
    status : int array (S,)
        By `fim_dynsys.simulation.problem.Status`.
    reached : array (S,)
        Last time that was reached.
    """
    d, m, most = x0.shape[1], len(coefficients), tolerance[3]
    row, column, p = np.empty(m * d, np.intp), np.empty(m * d, np.intp), np.empty((m * d, 1))
    active = 0
    for i in range(d):
        for a in range(m):
            if coefficients[a, i] != 0.0:
                row[active], column[active], p[active, 0] = a, i, coefficients[a, i]
                active += 1
    row, column, p = row[:active], column[:active], p[:active]
    in_use = terms_in_use(row, terms)
    table, values = np.empty((len(terms[0]), 1)), np.empty((m, 1))
    gradient, functions = np.empty((m, d + inputs.shape[2], 1)), np.empty((3, m, 1))
    field = (terms, in_use, row, column, p, p[:, 0].copy(), table, values, functions, gradient)
    x, new, late, stage = np.empty(d), np.empty(d), np.empty(d), np.empty((3, d))
    z, k, late_slope = np.empty((d + inputs.shape[2], 1)), np.empty((len(explicit[1]), d, 1)), np.empty(d)
    path, status, reached = np.full((len(t), d), np.nan), np.zeros(len(x0), np.intp), np.zeros(len(x0))
    for stretch in range(len(x0)):
        begin, end = first[stretch], first[stretch + 1]
        for i in range(d):
            x[i] = x0[stretch, i]
            path[begin, i] = x[i]
        h, last, steps, iteration = 0.0, 0.0, 0, 0
        stiff, limited, easy, rejected = False, 0, 0, False
        sample, done = begin, 0.0
        while sample < end - 1 and status[stretch] == 0:
            gap = t[sample + 1] - t[sample]
            for i in range(d):
                z[i, 0] = x[i]
            _rates(field, z, inputs[sample], done / gap, k[0])
            for i in range(d):
                if not np.isfinite(k[0, i, 0]):
                    status[stretch] = 2
            if steps >= most and status[stretch] == 0:
                status[stretch] = 1
            if status[stretch]:
                break
            steps += 1
            if h == 0.0:
                h = _first_step(x, k, tolerance, gap)
            if last > 0.0 and not stiff:
                if last * _limit(k, late_slope, x, late) > _STABILITY:
                    limited, easy = limited + 1, 0
                    stiff = limited >= _STIFF_AFTER
                else:
                    easy += 1
                    limited = limited if easy < _EASY_AFTER else 0
            step = gap - done if h > (gap - done) * (1.0 - 1e-12) else h
            span, last = (done, step, gap), 0.0
            if stiff:
                off, iteration = _implicit_step(
                    field, x, inputs[sample], span, tolerance, implicit, z, k, new, stage
                )
                slow = (2.0 * _NEWTON + 1.0) / (2.0 * _NEWTON + iteration)
                factor = _SAFETY * slow * max(off, 1e-12) ** -0.25
            else:
                off = _explicit_step(field, x, inputs[sample], span, tolerance, explicit, z, k, new, late)
                factor = _SAFETY * max(off, 1e-12) ** -0.125
            if off <= 1.0:
                done += step
                for i in range(d):
                    x[i], late_slope[i] = new[i], k[len(k) - 1, i, 0]
                    if not abs(x[i]) <= tolerance[2][i]:
                        status[stretch] = 4
                last = 0.0 if stiff else step
                grown = step * min(max(factor, 0.2), 1.0 if rejected else 8.0)
                h, rejected = (max(grown, h) if step < h and factor >= 1.0 else grown), False
                if step == gap - span[0]:
                    sample, done = sample + 1, 0.0
                    if status[stretch] == 0:
                        for i in range(d):
                            path[sample, i] = x[i]
            else:
                finite = np.isfinite(off)
                h, rejected = step * (min(max(factor, 0.1), 0.9) if finite else 0.25), True
                if h <= 4.0 * _EPS * max(t[sample] - t[begin] + done, 1e-290):
                    status[stretch] = 3 if finite else 2
        reached[stretch] = t[min(sample, end - 1)] + done
    return path, status, reached
