"""Compiled responses of a path, seen at its samples, to forcings along it."""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled


@compiled
def _product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Product of small matrices; numba's own takes seconds to compile."""
    for i in range(a.shape[0]):
        for k in range(b.shape[1]):
            total = 0.0
            for j in range(b.shape[0]):
                total += a[i, j] * b[j, k]
            out[i, k] = total


@compiled
def responses(
    maps: np.ndarray, values: np.ndarray, steps: np.ndarray, observed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Responses (n, d, d, m) of the samples to forcings of each coordinate, and (n, d, d) to the start.

    Forcings (2 F + 1, m) are integrated by Simpson's rule over each of the F steps, which ``maps``
    (2 F, d, d) propagate by halves.
    """
    d, m, n = maps.shape[1], values.shape[1], len(observed)
    out, by_start = np.zeros((n, d, d, m)), np.zeros((n, d, d))
    state, forced = np.zeros((d, d, m)), np.zeros((d, d, m))
    start, whole, moved = np.eye(d), np.zeros((d, d)), np.zeros((d, d))
    at = 0
    for node in range(len(steps) + 1):
        if node:
            late, early = 2 * node - 1, 2 * node - 2
            _product(maps[late], maps[early], whole)
            _product(whole, start, moved)
            start, moved = moved, start
            sixth = steps[node - 1] / 6.0
            for i in range(d):
                for c in range(d):
                    begin, middle = sixth * whole[i, c], 4.0 * sixth * maps[late, i, c]
                    end = sixth if i == c else 0.0
                    for k in range(m):
                        forced[i, c, k] = (
                            begin * values[early, k] + middle * values[late, k] + end * values[2 * node, k]
                        )
                    for j in range(d):
                        factor = whole[i, j]
                        if factor != 0.0:
                            for k in range(m):
                                forced[i, c, k] += factor * state[j, c, k]
            state, forced = forced, state
        if observed[at] == node:
            for i in range(d):
                for c in range(d):
                    by_start[at, i, c] = start[i, c]
                    for k in range(m):
                        out[at, i, c, k] = state[i, c, k]
            at += 1
    return out, by_start
