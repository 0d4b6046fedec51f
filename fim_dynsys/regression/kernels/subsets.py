"""Sparse subsets of regressors from normal equations, by additions, drops and exchanges."""

import math

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled

_COLLINEAR = 1e-9  # of a column's norm must be left by the others, or rounding decides its coefficient
_EXCHANGES = 50  # moves of a local search, each of which lowers the criterion
_TENURE, _PATIENCE = 10, 20  # steps of a tabu search
_SWEEPS = 60  # after which a matrix is swept anew, for rounding adds up
_LEAST_GAIN, _ROUNDING = 1e-6, 1.0  # of a criterion


@compiled
def sweep(a: np.ndarray, k: int) -> None:
    """Sweep a symmetric matrix on pivot ``k`` in place; a second time undoes it.

    With the normal equations of a regression, the target last, sweeping the pivots of a subset leaves the
    residual sum of squares at the end of the diagonal (Goodnight 1979, Am. Stat. 33, 149).
    """
    n = len(a)
    pivot = a[k, k]
    column = a[:, k].copy()
    for i in range(n):
        factor = column[i] / pivot
        if i != k and factor != 0.0:
            for j in range(n):
                a[i, j] -= factor * column[j]
    sign = 1.0 if pivot > 0.0 else -1.0
    for i in range(n):
        a[i, k] = sign * column[i] / pivot
        a[k, i] = a[i, k]
    a[k, k] = -1.0 / pivot


@compiled
def _misfit(rss: float, n: int) -> float:
    return n * math.log(max(rss / n, 1.0))


@compiled
def _best_change(
    a: np.ndarray, size: np.ndarray, active: np.ndarray, penalty: np.ndarray, n: int, adding: bool
) -> tuple[float, int]:
    """Least misfit plus change of penalty by one addition or drop, and which; inf and -1 where none is."""
    m = len(size)
    low, at = np.inf, -1
    for j in range(m):
        if active[j] == adding or (adding and not a[j, j] > _COLLINEAR * size[j]):
            continue
        value = _misfit(a[m, m] - a[j, m] * a[j, m] / a[j, j], n) + (penalty[j] if adding else -penalty[j])
        if value < low:
            low, at = value, j
    return low, at


@compiled
def _toggle(a: np.ndarray, active: np.ndarray, penalty: np.ndarray, k: int) -> float:
    """Add or drop regressor ``k``; returns the change of the penalty."""
    sweep(a, k)
    active[k] = not active[k]
    return penalty[k] if active[k] else -penalty[k]


@compiled
def _path(
    a: np.ndarray, size: np.ndarray, active: np.ndarray, penalty: np.ndarray, n: int, most: int
) -> np.ndarray:
    """Additions up to ``most`` regressors, then drops down to none; the best subset on the way."""
    m = len(size)
    cost, count = 0.0, 0
    best, best_active = _misfit(a[m, m], n), active.copy()
    adding = True
    while adding or count > 0:
        _, at = _best_change(a, size, active, penalty, n, adding)
        if adding and (at < 0 or count == most):
            adding = False
            continue
        cost += _toggle(a, active, penalty, at)
        count += 1 if adding else -1
        value = _misfit(a[m, m], n) + cost
        if value < best:
            best, best_active = value, active.copy()
    return best_active


@compiled
def _exchange(
    a: np.ndarray, size: np.ndarray, active: np.ndarray, penalty: np.ndarray, n: int, cost: float, now: float
) -> tuple[float, bool]:
    """Drop one or two regressors and add one, if that lowers the criterion; returns cost and success."""
    for k in range(len(size)):
        if not active[k]:
            continue
        changed = cost + _toggle(a, active, penalty, k)
        low, at = _best_change(a, size, active, penalty, n, True)
        if at >= 0 and at != k and low + changed < now - _LEAST_GAIN:
            return changed + _toggle(a, active, penalty, at), True
        _, second = _best_change(a, size, active, penalty, n, False)
        if second >= 0:
            fewer = changed + _toggle(a, active, penalty, second)
            low, at = _best_change(a, size, active, penalty, n, True)
            if at >= 0 and at != k and at != second and low + fewer < now - _LEAST_GAIN:
                return fewer + _toggle(a, active, penalty, at), True
            _toggle(a, active, penalty, second)
        _toggle(a, active, penalty, k)
    return cost, False


@compiled
def _swept(equations: np.ndarray, active: np.ndarray, penalty: np.ndarray) -> tuple[np.ndarray, float]:
    """The normal matrix swept on a subset, and the subset's penalty."""
    a, cost = equations.copy(), 0.0
    for j in range(len(penalty)):
        if active[j]:
            sweep(a, j)
            cost += penalty[j]
    return a, cost


@compiled
def search_subset(equations: np.ndarray, penalty: np.ndarray, n: int, most: int) -> tuple[np.ndarray, float]:
    """Subset of regressors with a small criterion ``n log(max(rss / n, 1)) + sum of its penalties``.

    The best subset on the forward and backward path, then additions, drops and exchanges of one or two
    regressors by one for as long as they lower the criterion.

    Parameters
    ----------
    equations : array (m + 1, m + 1)
        Normal matrix of regressors and target, the target last, in units of the noise: residuals below 1 per
        sample are not worth lowering.
    penalty : array (m,)
        Cost of each regressor; infinite for those that may not be used.
    n : int
        Number of samples.
    most : int
        Largest size of a subset.

    Returns
    -------
    active : bool array (m,)
    criterion : float

    References
    ----------
    A. Miller, Subset Selection in Regression, 2nd ed. (2002), sect. 3.2-3.5 (forward selection, backward
    elimination, sequential replacement).
    """
    m = len(penalty)
    size = np.empty(m)
    for j in range(m):
        size[j] = equations[j, j]
    active = _path(equations.copy(), size, np.zeros(m, np.bool_), penalty, n, most)
    a, cost = _swept(equations, active, penalty)
    for _ in range(_EXCHANGES):
        now = _misfit(a[m, m], n) + cost
        count = 0
        for j in range(m):
            count += active[j]
        moved = False
        for adding in (True, False):
            low, at = _best_change(a, size, active, penalty, n, adding)
            if at >= 0 and low + cost < now - _LEAST_GAIN and (count < most or not adding):
                cost += _toggle(a, active, penalty, at)
                moved = True
                break
        if not moved:
            cost, moved = _exchange(a, size, active, penalty, n, cost, now)
        if not moved:
            break
    return active, _misfit(a[m, m], n) + cost


@compiled
def _best_move(
    a: np.ndarray,
    size: np.ndarray,
    active: np.ndarray,
    penalty: np.ndarray,
    n: int,
    adding: bool,
    barred: np.ndarray,
    needed: float,
) -> tuple[int, int]:
    """Which are dropped and added by the addition, drop or exchange of two after which least is left; or -1.

    That is the misfit plus the change of the penalty. Changes of ``barred`` regressors count only below
    ``needed``. What an exchange leaves follows from the swept matrix without sweeping.
    """
    m = len(size)
    low, dropped, added = np.inf, -1, -1
    for j in range(m):
        if active[j] or (adding and a[j, j] > _COLLINEAR * size[j]):
            value = _misfit(a[m, m] - a[j, m] * a[j, m] / a[j, j], n)
            value += -penalty[j] if active[j] else penalty[j]
            if value < low and (value < needed or not barred[j]):
                low, dropped, added = (value, j, -1) if active[j] else (value, -1, j)
    for k in range(m):
        if not active[k]:
            continue
        share = a[k, m] / a[k, k]
        left = a[m, m] - a[k, m] * share
        for j in range(m):
            if active[j]:
                continue
            free = a[j, j] - a[k, j] * a[k, j] / a[k, k]
            if free > _COLLINEAR * size[j]:
                moment = a[j, m] - a[k, j] * share
                value = _misfit(left - moment * moment / free, n) + penalty[j] - penalty[k]
                if value < low and (value < needed or not (barred[j] or barred[k])):
                    low, dropped, added = value, k, j
    return dropped, added


@compiled
def improve_subset(
    equations: np.ndarray, penalty: np.ndarray, n: int, most: int, start: np.ndarray
) -> tuple[np.ndarray, float]:
    """A subset of no larger criterion, by a tabu search from ``start``.

    Each step takes the best addition, drop or exchange of two, upwards too; what it changed is left as it is
    for a few steps, unless that gives the best subset so far. The search ends after twenty steps without
    one. What rounding has decided is given up for ``start``.

    Parameters
    ----------
    equations, penalty, n, most
        See `search_subset`.
    start : bool array (m,)
        Where to start.

    Returns
    -------
    active : bool array (m,)
    criterion : float

    References
    ----------
    F. Glover, Tabu search, part I, ORSA J. Comput. 1 (1989) 190.
    """
    m = len(penalty)
    size = np.empty(m)
    for j in range(m):
        size[j] = equations[j, j]
    tenure = min(_TENURE, m // 4)
    active, free_at = start.copy(), np.zeros(m, np.int64)
    a, cost = _swept(equations, active, penalty)
    before = best = _misfit(a[m, m], n) + cost
    chosen, last, sweeps, step = active.copy(), 0, 0, 0
    while step - last < _PATIENCE:
        step += 1
        needed, adding = best - cost - _LEAST_GAIN, np.sum(active) < most
        dropped, added = _best_move(a, size, active, penalty, n, adding, free_at > step, needed)
        if dropped < 0 and added < 0:
            break
        if dropped >= 0:
            cost += _toggle(a, active, penalty, dropped)
            free_at[dropped] = step + tenure
        if added >= 0:
            cost += _toggle(a, active, penalty, added)
            free_at[added] = step + tenure // 2
        sweeps += 2
        if sweeps > _SWEEPS:
            a, cost = _swept(equations, active, penalty)
            sweeps = 0
        now = _misfit(a[m, m], n) + cost
        if now < best - _LEAST_GAIN:
            best, chosen, last = now, active.copy(), step
    a, cost = _swept(equations, chosen, penalty)
    criterion = _misfit(a[m, m], n) + cost
    if criterion <= before and abs(criterion - best) < _ROUNDING:
        return chosen, criterion
    return start.copy(), before


@compiled
def best_subsets(
    equations: np.ndarray, size: int, cost: np.ndarray, floor: float, of_equal: bool, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """The subsets of a size that leave least, of all.

    Parameters
    ----------
    equations : array (m + 1, m + 1)
        Normal equations of regressors and target, the target last, regular.
    size : int
        Number of regressors, at least 1.
    cost : array (m,)
        Of subsets that leave equally little, those with the smallest sum of it come first.
    floor : float
        Residual sums of squares below it are equal.
    of_equal : bool
        Whether of subsets of equal cost those come first that leave less than others below the floor.
    most : int
        How many are returned.

    Returns
    -------
    subsets : int array (k, size)
        Best first, those that are equal in lexicographic order.
    residuals : array (k,)
        Residual sums of squares.

    Notes
    -----
    Subsets in lexicographic order share their first members, which are eliminated once.
    """
    m = len(equations) - 1
    reduced = np.empty((size, m + 1, m + 1))  # after the elimination of so many members
    reduced[0] = equations
    members = np.arange(size)
    subsets, kept = np.empty((most, size), np.intp), 0
    levels, costs, residuals = np.empty(most), np.empty(most), np.empty(most)
    depth = 0
    while depth >= 0:
        if members[depth] > m - size + depth:
            depth -= 1
            if depth >= 0:
                members[depth] += 1
            continue
        if depth < size - 1:
            pivot, own, rest = members[depth], reduced[depth], reduced[depth + 1]
            adds = own[pivot, pivot] > 0.0  # rounding may leave less than nothing of a column
            for i in range(pivot + 1, m + 1):
                factor = own[pivot, i] / own[pivot, pivot] if adds else 0.0
                for j in range(i, m + 1):
                    rest[i, j] = own[i, j] - factor * own[pivot, j]
            members[depth + 1] = pivot + 1
            depth += 1
            continue
        own, shared = reduced[depth], 0.0
        for k in range(depth):
            shared += cost[members[k]]
        for j in range(members[depth], m):
            left = own[m, m] - (own[j, m] * own[j, m] / own[j, j] if own[j, j] > 0.0 else 0.0)
            level, price = (max(left, floor) if left < np.inf else np.inf), shared + cost[j]
            place = kept
            while place > 0 and (
                level < levels[place - 1]
                or (
                    level == levels[place - 1]
                    and (
                        price < costs[place - 1]
                        or (of_equal and price == costs[place - 1] and left < residuals[place - 1])
                    )
                )
            ):
                place -= 1
            if place == most:
                continue
            kept = min(kept + 1, most)
            for k in range(kept - 1, place, -1):
                subsets[k] = subsets[k - 1]
                levels[k], costs[k], residuals[k] = levels[k - 1], costs[k - 1], residuals[k - 1]
            for k in range(depth):
                subsets[place, k] = members[k]
            subsets[place, depth] = j
            levels[place], costs[place], residuals[place] = level, price, left
        members[depth] = m
    return subsets[:kept], residuals[:kept]


@compiled
def residuals_of(columns: np.ndarray, target: np.ndarray, subsets: np.ndarray, rank: float) -> np.ndarray:
    """Residual sums of squares (k,) of subsets (k, size) of columns (m, n), by orthogonal ones.

    Rounding is that of the samples, not of their squares. Columns of which others leave less than ``rank`` of
    the largest one are none.
    """
    n, size = len(target), subsets.shape[1]
    basis, rest, out = np.empty((size, n)), np.empty(n), np.empty(len(subsets))
    for s in range(len(subsets)):
        largest, found = 0.0, 0
        for k in range(size):
            largest = max(largest, _product(columns[subsets[s, k]], columns[subsets[s, k]]))
        for k in range(size):
            own = basis[found]
            own[:] = columns[subsets[s, k]]
            _project_out(own, basis, found)
            left = _product(own, own)
            if left > rank * rank * largest:
                root = math.sqrt(left)
                for i in range(n):
                    own[i] /= root
                found += 1
        rest[:] = target
        _project_out(rest, basis, found)
        out[s] = _product(rest, rest)
    return out


@compiled
def _product(one: np.ndarray, other: np.ndarray) -> float:
    total = 0.0
    for i in range(len(one)):
        total += one[i] * other[i]
    return total


@compiled
def _project_out(vector: np.ndarray, basis: np.ndarray, count: int) -> None:
    """Take the first ``count`` orthonormal rows of a basis out of a vector, twice for rounding."""
    for _ in range(2):
        for b in range(count):
            shared = _product(basis[b], vector)
            for i in range(len(vector)):
                vector[i] -= shared * basis[b, i]
