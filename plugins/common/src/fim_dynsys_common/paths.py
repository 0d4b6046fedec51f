"""Compiled paths of kernel fields, and gradients by the adjoint of the Runge-Kutta steps.

A step of automatic differentiation costs more than the few hundred operations of such a field: compiled, a
path and its gradient take a hundredth of the time.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numba import types
from torch import Tensor

from fim_dynsys.regression.kernels.compiler import compiled_as, inlined

_TURN = 2.0 * np.pi
# Taylor series of cosine and sine in r^2, to r^20 and r^21: 1e-10 for |r| <= pi
_COSINE = np.array([(-1.0) ** k / float(np.prod(np.arange(1.0, 2 * k + 1))) for k in range(11)])
_SINE = np.array([(-1.0) ** k / float(np.prod(np.arange(1.0, 2 * k + 2))) for k in range(11)])


_MATRIX, _CUBE = (types.Array(types.float64, n, "C") for n in (2, 3))
_TERMS = types.Tuple((_MATRIX, _MATRIX, _MATRIX, _CUBE, _MATRIX, _MATRIX, _CUBE))
_COUNTS = types.Array(types.int64, 1, "C")


class Terms(NamedTuple):
    """What makes a field: ``g_j(x) = sum_m W_mj k_j(x, z_m) + sum_k a_jk cos(w_jk . x + b_jk)``, then bent.

    The kernels are ``k_j(x, z) = exp(-sum_i p_ji (x_i - z_i)^2 / 2)``; the field is g sent, coordinate by
    coordinate, through layers ``g + u tanh(v g + c)``. There may be no waves (k = 0) and no layers (l = 0).

    Attributes
    ----------
    centres : (m, d)
        z.
    precision : (1, d) or (d, d)
        p, common to all coordinates of the field, or a row for each.
    weights : (m, d)
        W.
    frequencies, phases, amplitudes : (d, d, k), (d, k), (d, k)
        w (coordinate of the field, of the state, wave), b and a.
    layers : (l, 3, d)
        u, v and c of each layer.
    """

    centres: Any
    precision: Any
    weights: Any
    frequencies: Any
    phases: Any
    amplitudes: Any
    layers: Any

    @classmethod
    def of_kernels(cls, centres: np.ndarray, precision: np.ndarray, weights: np.ndarray) -> "Terms":
        """Those of a field of kernels alone, of precision (d,)."""
        d = centres.shape[1]
        none = np.zeros((d, 0))
        return cls(centres, precision[None], weights, np.zeros((d, d, 0)), none, none, np.zeros((0, 3, d)))


@inlined
def _rates(x, terms, kernels, waves, raw, out):  # type: ignore[no-untyped-def]
    """Field at x (d,) into out; kernels (g, m), waves (3, d, k) and the layers' input (l + 1, d) kept."""
    centres, precision, weights, frequencies, phases, amplitudes, layers = terms
    d = len(x)
    for q in range(len(precision)):
        for m in range(len(centres)):
            total = 0.0
            for i in range(d):
                total += precision[q, i] * (x[i] - centres[m, i]) ** 2
            kernels[q, m] = np.exp(-0.5 * total)
    for j in range(d):
        q = j if len(precision) > 1 else 0
        total = 0.0
        for m in range(len(centres)):
            total += kernels[q, m] * weights[m, j]
        raw[0, j] = total
    if phases.shape[1]:
        for j in range(d):
            angle, cosine, sine = waves[0, j], waves[1, j], waves[2, j]
            for k in range(len(angle)):
                angle[k] = phases[j, k]
            for i in range(d):
                for k in range(len(angle)):
                    angle[k] += frequencies[j, i, k] * x[i]
            for k in range(len(angle)):
                r = angle[k] - _TURN * np.floor(angle[k] / _TURN + 0.5)
                s = r * r
                c, z = _COSINE[10], _SINE[10]
                for p in range(9, -1, -1):
                    c = c * s + _COSINE[p]
                    z = z * s + _SINE[p]
                cosine[k], sine[k] = c, z * r
            raw[0, j] += np.dot(amplitudes[j], cosine)
    for k in range(len(layers)):
        for j in range(d):
            bend = np.tanh(layers[k, 1, j] * raw[k, j] + layers[k, 2, j])
            raw[k + 1, j] = raw[k, j] + layers[k, 0, j] * bend
    for j in range(d):
        out[j] = raw[len(layers), j]


@inlined
def _pull(x, g, terms, kernels, waves, raw, gradient, out):  # type: ignore[no-untyped-def]
    """Pull g (d,) back through the field at x into out, adding to the gradient of the terms; spoils g."""
    centres, precision, weights, frequencies, phases, amplitudes, layers = terms
    of_centres, of_precision, of_weights, of_frequencies, of_phases, of_amplitudes, of_layers = gradient
    d = len(x)
    for k in range(len(layers) - 1, -1, -1):
        for j in range(d):
            u, v = layers[k, 0, j], layers[k, 1, j]
            bend = np.tanh(v * raw[k, j] + layers[k, 2, j])
            slope = u * (1.0 - bend * bend)
            of_layers[k, 0, j] += g[j] * bend
            of_layers[k, 1, j] += g[j] * slope * raw[k, j]
            of_layers[k, 2, j] += g[j] * slope
            g[j] *= 1.0 + slope * v
    for i in range(d):
        out[i] = 0.0
    for q in range(len(precision)):
        for m in range(len(centres)):
            total = 0.0
            for j in range(d):
                if j == q or len(precision) == 1:
                    of_weights[m, j] += kernels[q, m] * g[j]
                    total += weights[m, j] * g[j]
            total *= kernels[q, m]
            for i in range(d):
                gap = x[i] - centres[m, i]
                of_precision[q, i] -= 0.5 * total * gap * gap
                gap *= total * precision[q, i]
                of_centres[m, i] += gap
                out[i] -= gap
    if phases.shape[1]:
        for j in range(d):
            cosine, sine = waves[1, j], waves[2, j]
            for k in range(len(sine)):
                of_amplitudes[j, k] += cosine[k] * g[j]
                sine[k] *= -amplitudes[j, k] * g[j]
                of_phases[j, k] += sine[k]
            for i in range(d):
                for k in range(len(sine)):
                    of_frequencies[j, i, k] += sine[k] * x[i]
                out[i] += np.dot(frequencies[j, i], sine)


@inlined
def _steps(gap: float, max_step: float) -> int:
    """Runge-Kutta steps in a gap between two samples."""
    return max(int(np.ceil(gap / max_step - 1e-9)), 1)


@compiled_as(types.Tuple((_CUBE, _MATRIX))(_TERMS, _MATRIX, _MATRIX, _COUNTS, types.float64))
def solve(
    terms: tuple[np.ndarray, ...], start: np.ndarray, t: np.ndarray, n_obs: np.ndarray, max_step: float
) -> tuple[np.ndarray, np.ndarray]:
    """Paths of a field by classical Runge-Kutta steps.

    Parameters
    ----------
    terms : tuple of arrays
        `Terms`.
    start : array (P, d)
        First states.
    t, n_obs : arrays (P, n), (P,) of int
        Times, the first ``n_obs`` of each path.
    max_step : float
        Longest step; the gaps are divided equally.

    Returns
    -------
    path : array (P, n, d)
        Zero beyond ``n_obs``.
    states : array (N, d)
        At every step of one path after the other, for `pull_back`.
    """
    d = start.shape[1]
    path = np.zeros((*t.shape, d))
    total = 0
    for p in range(len(start)):
        total += 1
        for sample in range(n_obs[p] - 1):
            total += _steps(t[p, sample + 1] - t[p, sample], max_step)
    states = np.empty((total, d))
    kernels = np.empty((len(terms[1]), len(terms[0])))
    waves, raw = np.empty((3, d, terms[4].shape[1])), np.empty((len(terms[6]) + 1, d))
    k, point = np.empty((4, d)), np.empty(d)
    row = -1
    for p in range(len(start)):
        row += 1
        states[row] = start[p]
        path[p, 0] = start[p]
        for sample in range(n_obs[p] - 1):
            gap = t[p, sample + 1] - t[p, sample]
            steps = _steps(gap, max_step)
            h = gap / steps
            for _ in range(steps):
                for stage in range(4):
                    ahead = 0.0 if stage == 0 else (h if stage == 3 else 0.5 * h)
                    for i in range(d):
                        point[i] = states[row, i]
                        if stage:
                            point[i] += ahead * k[stage - 1, i]
                    _rates(point, terms, kernels, waves, raw, k[stage])
                row += 1
                for i in range(d):
                    slope = k[0, i] + 2.0 * (k[1, i] + k[2, i]) + k[3, i]
                    states[row, i] = states[row - 1, i] + (h / 6.0) * slope
            path[p, sample + 1] = states[row]
    return path, states


@compiled_as(_MATRIX(_TERMS, _MATRIX, _MATRIX, _COUNTS, types.float64, _CUBE, _TERMS))
def pull_back(
    terms: tuple[np.ndarray, ...],
    states: np.ndarray,
    t: np.ndarray,
    n_obs: np.ndarray,
    max_step: float,
    of_path: np.ndarray,
    gradient: tuple[np.ndarray, ...],
) -> np.ndarray:
    """Gradient of a function of the paths, from its gradient ``of_path`` (P, n, d).

    ``gradient``, arrays of the shapes of ``terms``, is added to; that of the starts (P, d) is returned.
    """
    n_paths, d = len(t), states.shape[1]
    of_start = np.empty((n_paths, d))
    kernels = np.empty((4, len(terms[1]), len(terms[0])))
    waves, raw = np.empty((4, 3, d, terms[4].shape[1])), np.empty((4, len(terms[6]) + 1, d))
    k, a, points = np.zeros((4, d)), np.zeros((5, d)), np.empty((4, d))
    g, pulled = np.empty(d), np.empty(d)
    row = len(states)
    for p in range(n_paths - 1, -1, -1):
        n = n_obs[p]
        row -= 1
        g[:] = of_path[p, n - 1]
        for sample in range(n - 2, -1, -1):
            gap = t[p, sample + 1] - t[p, sample]
            steps = _steps(gap, max_step)
            h = gap / steps
            for _ in range(steps):
                row -= 1
                for stage in range(4):
                    ahead = 0.0 if stage == 0 else (h if stage == 3 else 0.5 * h)
                    for i in range(d):
                        points[stage, i] = states[row, i]
                        if stage:
                            points[stage, i] += ahead * k[stage - 1, i]
                    _rates(points[stage], terms, kernels[stage], waves[stage], raw[stage], k[stage])
                a[4] = 0.0
                for stage in range(3, -1, -1):
                    share = h / 6.0 if stage in (0, 3) else h / 3.0
                    ahead = h if stage == 2 else 0.5 * h
                    for i in range(d):
                        pulled[i] = share * g[i] + ahead * a[stage + 1, i]
                    x, kept = points[stage], (kernels[stage], waves[stage], raw[stage])
                    _pull(x, pulled, terms, kept[0], kept[1], kept[2], gradient, a[stage])
                for i in range(d):
                    g[i] += a[0, i] + a[1, i] + a[2, i] + a[3, i]
            for i in range(d):
                g[i] += of_path[p, sample, i]
        of_start[p] = g
    return of_start


class _Solve(torch.autograd.Function):
    """`solve` of tensors."""

    @staticmethod
    def forward(ctx: Any, start: Tensor, t: Tensor, n_obs: Tensor, max_step: float, *terms: Tensor) -> Tensor:
        arrays = tuple(np.ascontiguousarray(part.detach().numpy()) for part in terms)
        times, counts = t.numpy(), n_obs.numpy()
        path, states = solve(arrays, np.ascontiguousarray(start.detach().numpy()), times, counts, max_step)
        ctx.kept = arrays, states, times, counts, max_step
        return torch.from_numpy(path)

    @staticmethod
    def backward(ctx: Any, *of_path: Tensor) -> tuple[Tensor | None, ...]:
        arrays, states, times, counts, max_step = ctx.kept
        gradient = tuple(np.zeros_like(part) for part in arrays)
        above = np.ascontiguousarray(of_path[0].numpy())
        of_start = pull_back(arrays, states, times, counts, max_step, above, gradient)
        return torch.from_numpy(of_start), None, None, None, *map(torch.from_numpy, gradient)


def paths(terms: Terms, start: Tensor, t: Tensor, n_obs: Tensor, max_step: float) -> Tensor:
    """Paths (P, n, d) as of `solve`, of tensors of float64; differentiable in the terms and the starts."""
    return _Solve.apply(start, t.contiguous(), n_obs, max_step, *terms)
