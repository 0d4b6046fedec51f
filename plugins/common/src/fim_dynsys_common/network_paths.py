"""Compiled paths of networks with one hidden layer, and gradients by the adjoint of the Runge-Kutta steps."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numba import types
from torch import Tensor

from fim_dynsys.regression.kernels.compiler import compiled, compiled_as, inlined

_CUBE, _BLOCK = types.Array(types.float64, 3, "C"), types.Array(types.float64, 4, "C")
_MATRIX = types.Array(types.float64, 2, "C")
_LAYERS = types.Tuple((_CUBE, _MATRIX, _CUBE, _MATRIX, _CUBE))
# Series of exp(-r) for 0 <= r <= 2/3, and of log(1 + e) / z in z^2 with z = e / (2 + e), to 1e-13
_EXPONENTIAL = np.array([(-1.0) ** k / float(np.prod(np.arange(1.0, k + 1))) for k in range(14)])
_LOGARITHM = 2.0 / (2.0 * np.arange(13) + 1.0)


class Layers(NamedTuple):
    """M networks ``f(x) = s(x W + b) V + c + x A`` with s tanh or softplus, of d inputs and outputs.

    Attributes
    ----------
    first, hidden_bias : (M, d, h), (M, h)
        W and b.
    last, bias : (M, h, d), (M, d)
        V and c.
    linear : (M, d, d)
        A.
    """

    first: Any
    hidden_bias: Any
    last: Any
    bias: Any
    linear: Any


@inlined
def _decay(a):  # type: ignore[no-untyped-def]
    """exp(-a) of a positive number."""
    r = (a if a < 42.0 else 42.0) / 64.0
    e = _EXPONENTIAL[13]
    for p in range(12, -1, -1):
        e = e * r + _EXPONENTIAL[p]
    for _ in range(6):
        e = e * e
    return e


@inlined
def _rates(x, layers, tanh, act, slope, out):  # type: ignore[no-untyped-def]
    """Rates at x (d,) into out, of the layers of one network; hidden units and their slopes (h,) kept."""
    first, hidden_bias, last, bias, linear = layers
    d = len(x)
    for h in range(len(act)):
        act[h] = hidden_bias[h]
    for i in range(d):
        for h in range(len(act)):
            act[h] += x[i] * first[i, h]
    if tanh:
        for h in range(len(act)):
            e = _decay(2.0 * abs(act[h]))
            size = (1.0 - e) / (1.0 + e)
            act[h] = size if act[h] > 0.0 else -size
            slope[h] = 1.0 - size * size
    else:
        for h in range(len(act)):
            e = _decay(abs(act[h]))
            slope[h] = (1.0 if act[h] > 0.0 else e) / (1.0 + e)
            z = e / (2.0 + e)
            s, total = z * z, _LOGARITHM[12]
            for p in range(11, -1, -1):
                total = total * s + _LOGARITHM[p]
            act[h] = (act[h] if act[h] > 0.0 else 0.0) + z * total
    for j in range(d):
        total = bias[j]
        for i in range(d):
            total += x[i] * linear[i, j]
        for h in range(len(act)):
            total += act[h] * last[h, j]
        out[j] = total


@inlined
def _pull(x, g, layers, act, slope, gradient, back, out):  # type: ignore[no-untyped-def]
    """Pull g (d,) back through the rates at x into out, adding to the gradient of one network's layers."""
    first, _, last, _, linear = layers
    of_first, of_hidden_bias, of_last, of_bias, of_linear = gradient
    d = len(x)
    for h in range(len(act)):
        total = 0.0
        for j in range(d):
            total += last[h, j] * g[j]
            of_last[h, j] += act[h] * g[j]
        back[h] = total * slope[h]
        of_hidden_bias[h] += back[h]
    for i in range(d):
        total = 0.0
        for h in range(len(act)):
            of_first[i, h] += x[i] * back[h]
            total += first[i, h] * back[h]
        for j in range(d):
            of_linear[i, j] += x[i] * g[j]
            total += linear[i, j] * g[j]
        out[i] = total
    for j in range(d):
        of_bias[j] += g[j]


@compiled
def _of_network(layers, m):  # type: ignore[no-untyped-def]
    first, hidden_bias, last, bias, linear = layers
    return first[m], hidden_bias[m], last[m], bias[m], linear[m]


@compiled_as(
    types.Tuple((_BLOCK, _BLOCK))(_LAYERS, types.boolean, _CUBE, _MATRIX, types.int64, types.float64)
)
def solve(
    layers: tuple[np.ndarray, ...], tanh: bool, start: np.ndarray, h: np.ndarray, steps: int, bound: float
) -> tuple[np.ndarray, np.ndarray]:
    """States and rates (M, B, steps + 1, d) from starts (M, B, d) by Runge-Kutta steps h (1, B).

    Coordinates are held within `bound`.
    """
    n_networks, n_rows, d = start.shape
    width = layers[1].shape[1]
    path, rates = np.empty((n_networks, n_rows, steps + 1, d)), np.empty((n_networks, n_rows, steps + 1, d))
    act, slope = np.empty(width), np.empty(width)
    k, point = np.empty((4, d)), np.empty(d)
    for m in range(n_networks):
        own = _of_network(layers, m)
        for row in range(n_rows):
            path[m, row, 0] = start[m, row]
            for step in range(steps + 1):
                x = path[m, row, step]
                _rates(x, own, tanh, act, slope, rates[m, row, step])
                if step == steps:
                    break
                k[0] = rates[m, row, step]
                for stage in range(1, 4):
                    ahead = h[0, row] if stage == 3 else 0.5 * h[0, row]
                    for i in range(d):
                        point[i] = x[i] + ahead * k[stage - 1, i]
                    _rates(point, own, tanh, act, slope, k[stage])
                for i in range(d):
                    moved = x[i] + (h[0, row] / 6.0) * (k[0, i] + 2.0 * (k[1, i] + k[2, i]) + k[3, i])
                    path[m, row, step + 1, i] = min(max(moved, -bound), bound)
    return path, rates


@compiled_as(_CUBE(_LAYERS, types.boolean, _BLOCK, _BLOCK, _MATRIX, types.float64, _BLOCK, _BLOCK, _LAYERS))
def pull_back(
    layers: tuple[np.ndarray, ...],
    tanh: bool,
    path: np.ndarray,
    rates: np.ndarray,
    h: np.ndarray,
    bound: float,
    of_path: np.ndarray,
    of_rates: np.ndarray,
    gradient: tuple[np.ndarray, ...],
) -> np.ndarray:
    """Gradient of a function of the states and rates of `solve`, from its gradients by these.

    ``gradient``, arrays of the shapes of ``layers``, is added to; that of the starts (M, B, d) is returned.
    """
    n_networks, n_rows, n, d = path.shape
    width = layers[1].shape[1]
    of_start = np.empty((n_networks, n_rows, d))
    act, slope, back = np.empty((4, width)), np.empty((4, width)), np.empty(width)
    k, points, a = np.empty((4, d)), np.empty((4, d)), np.zeros((5, d))
    g, pulled = np.empty(d), np.empty(d)
    for m in range(n_networks):
        own, of_own = _of_network(layers, m), _of_network(gradient, m)
        for row in range(n_rows):
            x = path[m, row, n - 1]
            _rates(x, own, tanh, act[0], slope[0], k[0])
            _pull(x, of_rates[m, row, n - 1], own, act[0], slope[0], of_own, back, a[0])
            for i in range(d):
                g[i] = of_path[m, row, n - 1, i] + a[0, i]
            for step in range(n - 2, -1, -1):
                for i in range(d):
                    if abs(path[m, row, step + 1, i]) >= bound:
                        g[i] = 0.0
                for stage in range(4):
                    ahead = 0.0 if stage == 0 else (h[0, row] if stage == 3 else 0.5 * h[0, row])
                    for i in range(d):
                        points[stage, i] = path[m, row, step, i]
                        if stage:
                            points[stage, i] += ahead * k[stage - 1, i]
                    _rates(points[stage], own, tanh, act[stage], slope[stage], k[stage])
                a[4] = 0.0
                for stage in range(3, -1, -1):
                    share = h[0, row] / 6.0 if stage in (0, 3) else h[0, row] / 3.0
                    ahead = h[0, row] if stage == 2 else 0.5 * h[0, row]
                    for i in range(d):
                        pulled[i] = share * g[i] + ahead * a[stage + 1, i]
                        if stage == 0:
                            pulled[i] += of_rates[m, row, step, i]
                    _pull(points[stage], pulled, own, act[stage], slope[stage], of_own, back, a[stage])
                for i in range(d):
                    g[i] += of_path[m, row, step, i] + a[0, i] + a[1, i] + a[2, i] + a[3, i]
            of_start[m, row] = g
    return of_start


class _Solve(torch.autograd.Function):
    """`solve` of tensors."""

    @staticmethod
    def forward(
        ctx: Any, tanh: bool, start: Tensor, h: Tensor, steps: int, bound: float, *layers: Tensor
    ) -> tuple[Tensor, Tensor]:
        arrays = tuple(np.ascontiguousarray(part.detach().numpy()) for part in layers)
        lengths = np.ascontiguousarray(h.numpy())[None]
        path, rates = solve(arrays, tanh, np.ascontiguousarray(start.detach().numpy()), lengths, steps, bound)
        ctx.kept = arrays, tanh, path, rates, lengths, bound
        return torch.from_numpy(path), torch.from_numpy(rates)

    @staticmethod
    def backward(ctx: Any, *above: Tensor) -> tuple[Tensor | None, ...]:
        arrays, tanh, path, rates, lengths, bound = ctx.kept
        gradient = tuple(np.zeros_like(part) for part in arrays)
        of_path, of_rates = (np.ascontiguousarray(part.numpy()) for part in above)
        of_start = pull_back(arrays, tanh, path, rates, lengths, bound, of_path, of_rates, gradient)
        return None, torch.from_numpy(of_start), None, None, None, *map(torch.from_numpy, gradient)


def network_paths(
    layers: Layers, start: Tensor, h: Tensor, steps: int, activation: str = "tanh", bound: float = 1e3
) -> tuple[Tensor, Tensor]:
    """Paths of networks, differentiable in the layers and the starts.

    Parameters
    ----------
    layers : Layers
        Tensors of float64.
    start : Tensor (M, B, d)
        First states.
    h : Tensor (B,)
        Length of the Runge-Kutta steps of each row.
    steps : int
        Their number.
    activation : {"tanh", "softplus"}
        s.
    bound : float
        Coordinates are held within it, so that a field that blows up gives finite numbers and no gradient.

    Returns
    -------
    path, rates : Tensors (M, B, steps + 1, d)
        States, and the network's rates at them.
    """
    assert activation in ("tanh", "softplus")
    return _Solve.apply(activation == "tanh", start, h, steps, bound, *layers)
