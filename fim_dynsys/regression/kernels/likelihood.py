"""Likelihoods of measurements along the paths of programs, and their minima.

Runs stand side by side: what each has of its own is a slice of flat arrays, delimited by those that end in
``_first``. See `fim_dynsys.estimation.objective` for ``programs``, ``runs``, ``space`` and ``measured``.
"""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled
from fim_dynsys.regression.kernels.paths import DONE, follow
from fim_dynsys.regression.kernels.programs import linearise, load, tangents

NORMAL, LAPLACE, POISSON = range(3)
CONVERGED, STALLED, MAX_ITERATIONS, FAILED, UNFINISHED = range(5)

_STEPS = 20_000  # of one path, beside twice its stops: hopeless parameters are to fail soon
_LEAST_COUNT = 1e-10  # expected counts, of which a logarithm is taken
_ROOT_2PI = 0.5 * float(np.log(2.0 * np.pi))
# Of unit curvatures; beyond, steps are rounding.
_LEAST_DAMPING, _MOST_DAMPING = 1e-12, 1e12
_SUFFICIENT = 1e-4  # of the predicted decrease
_ROUGH = 1e-3  # promised by an undamped step where rounding leaves no better point
_LONGEST = 3.0  # of a step, in coordinates that are logarithms
_EXACT = 1e-8  # log-likelihood units: a search to the end, in which no weak direction is left out
# Of an absolute residual, in scales: below, it counts as zero; where many are, an optimum is at such a kink.
_KINK = 1e-6
_WORK = 3_000_000  # numbers that steps compute before a search returns to its caller: about a second


@compiled
def follow_run(
    programs: tuple,
    tables: tuple,
    runs: tuple,
    e: int,
    natural: np.ndarray,
    rtol: float,
    states: np.ndarray,
    slopes: np.ndarray,
    values: np.ndarray,
    tangent: np.ndarray,
    counts: np.ndarray,
) -> int:
    """Follow run e at estimated numbers; returns how that ended, see `follow`.

    Outputs are states (K, d) and observables (K, k) at the samples, and their derivatives (K, d, n) and
    (K, k, n); n is 0 where none are wanted.
    """
    place, fixed, column, first, stop_first, stops, record, piece, first_event, event_first = runs[:10]
    event_state, portion, amount, curve_first, cubics, curve_starts, time_first, times, inputs = runs[10:]
    rates, seen, given = programs
    d, n = states.shape[1], tangent.shape[2]
    q = place.shape[1]
    own = column[e] if n else np.full(q, -1)
    for _, sizes, r, _, _, _ in programs:
        begin = 1 + sizes[0] + sizes[1]
        for k in range(q):
            r[begin + k] = natural[place[e, k]] if place[e, k] >= 0 else fixed[e, k]
    count = len(given[3])
    begun, by, nothing = np.empty(count), np.empty((count, n)), np.empty((count, 0))
    linearise(given, begun, nothing)
    tangents(given, nothing, np.empty((0, n)), own, by)
    x, s = np.empty(d), np.empty((d, n))
    for i in range(d):
        x[i], s[i] = begun[first[e, i]], by[first[e, i]]
    a, b, low, high = stop_first[e], stop_first[e + 1], event_first[e], event_first[e + 1]
    share, share_slope = np.empty(high - low), np.empty((high - low, n))
    value, slope = np.empty(high - low), np.empty((high - low, n))
    for j in range(high - low):
        share[j], share_slope[j] = begun[portion[low + j]], by[portion[low + j]]
        value[j], slope[j] = begun[amount[low + j]], by[amount[low + j]]
    part = slice(curve_first[e, 0], curve_first[e, 1])
    ended = follow(
        rates,
        tables,
        own,
        x,
        s,
        stops[a:b],
        record[a:b],
        piece[a:b],
        cubics[part],
        curve_starts[part],
        first_event[a + e : b + e + 1],
        event_state[low:high],
        share,
        share_slope,
        value,
        slope,
        rtol,
        np.full(d, 1e-300),
        _STEPS + 2 * (b - a),
        states,
        slopes,
        counts,
    )
    by_state, curve = np.zeros((values.shape[1], d)), np.zeros((4, inputs.shape[1]))
    for row in range(len(states)):
        curve[0] = inputs[time_first[e] + row]
        load(seen, times[time_first[e] + row], states[row], curve, 0.0)
        linearise(seen, values[row], by_state)
        tangents(seen, by_state, slopes[row], own, tangent[row])
    return ended


@compiled
def judge(
    theta: np.ndarray,
    space: tuple,
    programs: tuple,
    tables: tuple,
    runs: tuple,
    measured: tuple,
    rtol: float,
    wanted: bool,
    bounding: bool,
    gradient: np.ndarray,
    curvature: np.ndarray,
    scales: np.ndarray,
    counts: np.ndarray,
) -> tuple[float, float]:
    """Minus the logarithm of likelihood and prior; and the mean squared residual in units of known errors.

    The first is infinite where a path fails. Gradient (n,) and curvature (n, n) are computed where wanted:
    the expected curvature, or, of absolute residuals, that of the parabola above each which touches it where
    it is (``bounding``). Scales (k,) of the observables' errors are estimated, NaN where they are known.
    """
    log, size, prior_at, prior_mean, prior_deviation, prior_log = space[:6]
    row_of, kind_of, level, raw, error, constant, measured_first, columns, column_first = measured[:9]
    at, scale_at, law, of_log, unit, group, low, high, least, numbers = measured[9:]
    n, k = len(theta), len(at)
    natural, slope = np.empty(n), np.empty(n)
    for c in range(n):
        natural[c] = np.exp(theta[c]) if log[c] else theta[c] * size[c]
        slope[c] = natural[c] if log[c] else size[c]
    formulas = False
    for o in range(k):
        formulas = formulas or scale_at[o] >= 0
    total_rows, room = len(row_of), 0
    if wanted:
        for e in range(len(measured_first) - 1):
            room += (measured_first[e + 1] - measured_first[e]) * (column_first[e + 1] - column_first[e])
    design, spread = np.empty(room), np.empty(room if formulas else 0)
    mean, scale = np.empty(total_rows), error.copy()
    time_first, d = runs[16], programs[0][1][0]
    begin = 0
    for e in range(len(measured_first) - 1):
        samples = time_first[e + 1] - time_first[e]
        own = column_first[e + 1] - column_first[e] if wanted else 0
        states, slopes = np.empty((samples, d)), np.zeros((samples, d, own))
        values, tangent = (
            np.empty((samples, len(programs[1][3]))),
            np.empty((samples, len(programs[1][3]), own)),
        )
        if (
            follow_run(programs, tables, runs, e, natural, rtol, states, slopes, values, tangent, counts)
            != DONE
        ):
            return np.inf, 0.0
        for i in range(measured_first[e], measured_first[e + 1]):
            row, o = row_of[i], kind_of[i]
            mean[i] = values[row, at[o]]
            if scale_at[o] >= 0:
                scale[i] = values[row, scale_at[o]]
            for c in range(own):
                design[begin + c] = tangent[row, at[o], c]
                if scale_at[o] >= 0:
                    spread[begin + c] = tangent[row, scale_at[o], c]
            begin += own
    squares, sizes = np.zeros(k), np.zeros(k)
    off = np.empty(total_rows)
    for i in range(total_rows):
        o = kind_of[i]
        off[i] = (np.log(mean[i]) / unit[o] if of_log[o] else mean[i]) - level[i]
        if np.isnan(scale[i]) and law[o] != POISSON and scale_at[o] < 0:
            if law[o] == LAPLACE:
                sizes[group[o]] += abs(off[i])
            else:
                squares[group[o]] += off[i] * off[i]
    for o in range(k):
        g = group[o]
        scales[o] = np.nan
        if numbers[g] > 0:
            found = np.sqrt(squares[g] / numbers[g] + least[g] ** 2) + sizes[g] / numbers[g]
            scales[o] = min(max(found, low[g]), high[g])
    if wanted:
        gradient[:] = 0.0
        curvature[:] = 0.0
    total, misfit, known = 0.0, 0.0, 0
    for j in range(len(prior_at)):
        c = prior_at[j]
        value, rate = natural[c], slope[c]
        if prior_log[j]:
            rate, value = rate / value, np.log(value)
        away = (value - prior_mean[j]) / prior_deviation[j]
        total += 0.5 * away * away
        if wanted:
            gradient[c] += away * rate / prior_deviation[j]
            curvature[c, c] += (rate / prior_deviation[j]) ** 2
    begin = 0
    for e in range(len(measured_first) - 1):
        own = column_first[e + 1] - column_first[e] if wanted else 0
        place = columns[column_first[e] : column_first[e + 1]]
        for i in range(measured_first[e], measured_first[e + 1]):
            o = kind_of[i]
            if law[o] == POISSON:
                count = max(mean[i], _LEAST_COUNT)
                root = np.sqrt(count)
                weight, pull = 1.0 / root, (mean[i] - raw[i]) / root
                total += count - raw[i] * np.log(count) + constant[i]
                misfit += pull * pull
                known += 1
            else:
                rest = 0.0
                if np.isnan(scale[i]) and scale_at[o] < 0:
                    scale[i] = scales[o]
                    # an estimated scale has a part that nothing explains, with which the objective is at its
                    # least in it
                    rest = (least[o] / scale[i]) ** 2
                else:
                    known += 1
                    misfit += (off[i] / scale[i]) ** 2
                if not scale[i] > 0.0:
                    return np.inf, 0.0
                pull = off[i] / scale[i]
                weight = 1.0 / (mean[i] * unit[o] * scale[i]) if of_log[o] else 1.0 / scale[i]
                total += constant[i] + np.log(scale[i])
                if law[o] == LAPLACE:
                    # its expected curvature is that of a normal density of the same scale
                    total += abs(pull) + np.log(2.0)
                else:
                    total += 0.5 * (pull * pull + rest) + _ROOT_2PI
            if not wanted:
                continue
            score, bend = pull, 1.0
            if law[o] == LAPLACE:
                score = np.sign(pull)
                if bounding:
                    bend = 1.0 / max(abs(pull), _KINK)
            for c in range(own):
                design[begin + c] *= slope[place[c]] * weight
            for c in range(own):
                value = design[begin + c]
                gradient[place[c]] += value * score
                if value != 0.0:
                    for b in range(own):
                        curvature[place[c], place[b]] += bend * value * design[begin + b]
            if scale_at[o] >= 0:
                score = 1.0 - (abs(pull) if law[o] == LAPLACE else pull * pull)
                double = 1.0 if law[o] == LAPLACE else 2.0
                for c in range(own):
                    spread[begin + c] *= slope[place[c]] / scale[i]
                for c in range(own):
                    value = spread[begin + c]
                    gradient[place[c]] += value * score
                    for b in range(own):
                        curvature[place[c], place[b]] += double * value * spread[begin + b]
            begin += own
    finite = np.isfinite(total)
    if wanted:
        finite = finite and np.isfinite(gradient).all() and np.isfinite(curvature).all()
    return (total if finite else np.inf), (misfit / known if known else 0.0)


@compiled
def values_of(
    thetas: np.ndarray,
    space: tuple,
    programs: tuple,
    tables: tuple,
    runs: tuple,
    measured: tuple,
    rtol: float,
    out: np.ndarray,
) -> None:
    """Values (s,) of `judge` at several coordinates (s, n)."""
    nothing, square = np.empty(0), np.empty((0, 0))
    scales, counts = np.empty(len(measured[9])), np.zeros(3, np.int64)
    for j in range(len(thetas)):
        out[j], _ = judge(
            thetas[j],
            space,
            programs,
            tables,
            runs,
            measured,
            rtol,
            False,
            False,
            nothing,
            square,
            scales,
            counts,
        )


@compiled
def solve_positive(a: np.ndarray, b: np.ndarray) -> bool:
    """Solve ``a x = b`` in place of b by Cholesky's method, which overwrites a; False where that fails.

    Of the symmetric matrix a (n, n) the upper triangle is read.
    """
    n = len(b)
    for k in range(n):
        pivot = a[k, k]
        if not pivot > 0.0 or not np.isfinite(pivot):
            return False
        root = np.sqrt(pivot)
        for j in range(k, n):
            a[k, j] /= root
        for i in range(k + 1, n):
            factor = a[k, i]
            if factor != 0.0:
                for j in range(i, n):
                    a[i, j] -= factor * a[k, j]
        b[k] /= root
        for i in range(k + 1, n):
            b[i] -= a[k, i] * b[k]
    for k in range(n - 1, -1, -1):
        total = b[k]
        for j in range(k + 1, n):
            total -= a[k, j] * b[j]
        b[k] = total / a[k, k]
    return True


@compiled
def damped_step(
    gradient: np.ndarray,
    curvature: np.ndarray,
    free: np.ndarray,
    damping: float,
    size: np.ndarray,
    least: np.ndarray,
    most: np.ndarray,
    step: np.ndarray,
) -> bool:
    """The step (n,) of free coordinates, ``damping * size`` on the diagonal; False where there is none.

    It stays between ``least`` and ``most``: coordinates that would leave end there, and the others are
    solved for again.
    """
    n = len(free)
    moving = free.copy()
    step[:] = 0.0
    while True:
        rows = np.flatnonzero(moving)
        count = len(rows)
        matrix, root, right = np.empty((count, count)), np.empty(count), np.empty(count)
        for a in range(count):
            c = rows[a]
            own = curvature[c, c] + damping * size[c]
            if not own > 0.0:
                return False
            root[a] = np.sqrt(own)
            right[a] = gradient[c]
            for b in range(n):
                if not moving[b]:
                    right[a] += curvature[c, b] * step[b]
            right[a] /= root[a]
        for a in range(count):
            for b in range(a, count):
                matrix[a, b] = curvature[rows[a], rows[b]] / root[a] / root[b]
            matrix[a, a] = 1.0
        if not solve_positive(matrix, right):
            return False
        inside = True
        for a in range(count):
            c = rows[a]
            step[c] = -right[a] / root[a]
            if not np.isfinite(step[c]):
                return False
            if step[c] < least[c] or step[c] > most[c]:
                step[c] = min(max(step[c], least[c]), most[c])
                moving[c], inside = False, False
        if inside:
            return True


@compiled
def limits(theta: np.ndarray, space: tuple, least: np.ndarray, most: np.ndarray) -> None:
    """The least and the most (n,) of a step within the bounds, and of no more than is trusted."""
    log, low, high = space[0], space[6], space[7]
    for c in range(len(theta)):
        longest = _LONGEST if log[c] else np.inf
        least[c], most[c] = max(low[c] - theta[c], -longest), min(high[c] - theta[c], longest)


@compiled
def decrease(gradient: np.ndarray, curvature: np.ndarray, step: np.ndarray) -> float:
    """Decrease of the objective that a step (n,) promises."""
    total = 0.0
    for c in range(len(step)):
        along = 0.0
        for b in range(len(step)):
            along += curvature[c, b] * step[b]
        total -= step[c] * (gradient[c] + 0.5 * along)
    return total


@compiled
def promised(
    gradient: np.ndarray, curvature: np.ndarray, free: np.ndarray, least: np.ndarray, most: np.ndarray
) -> float:
    """Decrease that a hardly damped step within limits promises."""
    n = len(free)
    size, step = np.ones(n), np.empty(n)
    for c in range(n):
        if curvature[c, c] > 0.0:
            size[c] = curvature[c, c]
    if not damped_step(gradient, curvature, free, 1e-8, size, least, most, step):
        return np.inf
    return decrease(gradient, curvature, step)


@compiled
def search(
    theta: np.ndarray,
    held: np.ndarray,
    space: tuple,
    programs: tuple,
    tables: tuple,
    runs: tuple,
    measured: tuple,
    rtol: float,
    max_iterations: int,
    decrement: float,
    bounding: bool,
    state: np.ndarray,
    size: np.ndarray,
    gradient: np.ndarray,
    curvature: np.ndarray,
    scales: np.ndarray,
) -> int:
    """Fisher scoring within bounds, damped after Levenberg and Marquardt; returns how it ended.

    Parameters
    ----------
    theta : array (n,)
        Start within the bounds; where the search is.
    held : bool array (n,)
        Coordinates that stay.
    space, programs, tables, runs, measured
        What is searched, see above.
    rtol, max_iterations, decrement
        As those of `fim_dynsys.estimation.descent.descend`.
    bounding : bool
        Which curvature is taken, see `judge`. Steps by the expected one end at any kink of absolute
        residuals; by the other they go along kinks, and no step promises anything where the least one is.
    state : array (6,)
        Value, misfit, damping and its growth, iterations and evaluations so far. Where it returns
        ``UNFINISHED`` the search is to be called again with all its arrays.
    size : array (n,)
        Largest diagonal of the curvature so far.
    gradient, curvature, scales : arrays (n,), (n, n), (k,)
        At theta.
    """
    low, high, log = space[6], space[7], space[0]
    n = len(theta)
    counts = np.zeros(3, np.int64)
    trial, step, free = np.empty(n), np.empty(n), np.empty(n, np.bool_)
    least, most, tried = np.empty(n), np.empty(n), False
    new_gradient, new_curvature, new_scales = np.empty(n), np.empty((n, n)), np.empty(len(scales))
    if state[5] == 0.0:
        state[0], state[1] = judge(
            theta,
            space,
            programs,
            tables,
            runs,
            measured,
            rtol,
            True,
            bounding,
            gradient,
            curvature,
            scales,
            counts,
        )
        state[5] = 1.0
        if not np.isfinite(state[0]):
            return FAILED
    while state[4] < max_iterations:
        if counts.sum() * programs[0][1][0] * (1 + n) > _WORK:
            return UNFINISHED
        some = False
        for c in range(n):
            blocked = (theta[c] <= low[c] and gradient[c] > 0) or (theta[c] >= high[c] and gradient[c] < 0)
            free[c] = not blocked and not held[c]
            some = some or free[c]
            size[c] = max(size[c], curvature[c, c])
        if not some:
            return CONVERGED
        scale = np.where(size > 0.0, size, 1.0)
        if not damped_step(gradient, curvature, free, state[2], scale, low - theta, high - theta, step):
            state[2] *= 10.0
            state[4] += 1.0
            if state[2] > _MOST_DAMPING:
                return STALLED
            continue
        over, expected, moved = 1.0, 0.0, False
        for c in range(n):
            if log[c]:
                over = max(over, abs(step[c]) / _LONGEST)
        for attempt in range(2):
            moved = False
            for c in range(n):
                trial[c] = min(max(theta[c] + step[c] / over, low[c]), high[c])
                moved = moved or trial[c] != theta[c]
            expected = decrease(gradient, curvature, trial - theta)
            if over == 1.0 or expected > decrement or attempt == 1:
                break
            # one coordinate, on which hardly anything depends, has shortened the step of all others
            over = 1.0
            limits(theta, space, least, most)
            damped_step(gradient, curvature, free, state[2], scale, least, most, step)
        if expected <= decrement and state[2] <= 1e-2:
            limits(theta, space, least, most)
            if tried or decrement > _EXACT or promised(gradient, curvature, free, least, most) <= decrement:
                return CONVERGED
            state[2], tried = _LEAST_DAMPING, True  # what damping alone holds back, such as by a weak prior
            continue
        state[4] += 1.0
        gain, value, misfit = -np.inf, np.inf, 0.0
        if expected > 0.0:
            value, misfit = judge(
                trial,
                space,
                programs,
                tables,
                runs,
                measured,
                rtol,
                True,
                bounding,
                new_gradient,
                new_curvature,
                new_scales,
                counts,
            )
            state[5] += 1.0
            gain = (state[0] - value) / expected
        if gain > _SUFFICIENT:
            theta[:], gradient[:], curvature[:], scales[:] = trial, new_gradient, new_curvature, new_scales
            state[0], state[1], state[3] = value, misfit, 2.0
            shrink = max(1.0 / 3.0, 1.0 - (2.0 * min(gain, 1.5) - 1.0) ** 3)
            state[2] = max(state[2] * shrink, _LEAST_DAMPING)
            continue
        state[2] *= state[3]
        state[3] *= 2.0
        if state[2] > _MOST_DAMPING or not moved or expected < 1e-13 * abs(state[0]):
            limits(theta, space, least, most)
            return CONVERGED if promised(gradient, curvature, free, least, most) < _ROUGH else STALLED
    for c in range(n):
        free[c] = not ((theta[c] <= low[c] and gradient[c] > 0) or (theta[c] >= high[c] and gradient[c] < 0))
    limits(theta, space, least, most)
    return CONVERGED if promised(gradient, curvature, free, least, most) < decrement else MAX_ITERATIONS
