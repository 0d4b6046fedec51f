"""Compiled recursion of covariances over steps, with its gradient."""

from typing import Any

import numpy as np
import torch
from numba import types
from torch import Tensor

from fim_dynsys.regression.kernels.compiler import compiled_as

_CUBE, _BLOCK = types.Array(types.float64, 3, "C"), types.Array(types.float64, 4, "C")


@compiled_as(_BLOCK(_CUBE, _BLOCK, _BLOCK))
def carry(first: np.ndarray, flow: np.ndarray, added: np.ndarray) -> np.ndarray:
    """Covariances (N, F + 1, m, m) from the first (N, m, m): the next is ``flow^T C flow + added``."""
    n_rows, steps, size, _ = flow.shape
    out = np.empty((n_rows, steps + 1, size, size))
    moved = np.empty((size, size))
    for row in range(n_rows):
        out[row, 0] = first[row]
        for k in range(steps):
            c, f = out[row, k], flow[row, k]
            for i in range(size):
                for j in range(size):
                    total = 0.0
                    for b in range(size):
                        total += c[i, b] * f[b, j]
                    moved[i, j] = total
            for i in range(size):
                for j in range(size):
                    total = added[row, k, i, j]
                    for a in range(size):
                        total += f[a, i] * moved[a, j]
                    out[row, k + 1, i, j] = total
    return out


@compiled_as(types.Tuple((_CUBE, _BLOCK, _BLOCK))(_BLOCK, _BLOCK, _BLOCK))
def pull_back(
    flow: np.ndarray, out: np.ndarray, above: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients by the arguments of `carry` from that by its result."""
    n_rows, steps, size, _ = flow.shape
    of_first = np.empty((n_rows, size, size))
    of_flow, of_added = np.empty_like(flow), np.empty_like(flow)
    g, moved, half = np.empty((size, size)), np.empty((size, size)), np.empty((size, size))
    for row in range(n_rows):
        g[:] = above[row, steps]
        for k in range(steps - 1, -1, -1):
            c, f = out[row, k], flow[row, k]
            of_added[row, k] = g
            for i in range(size):
                for j in range(size):
                    half[i, j] = moved[i, j] = 0.0
                    for b in range(size):
                        half[i, j] += f[i, b] * g[b, j]
                        moved[i, j] += f[i, b] * (g[b, j] + g[j, b])
            for i in range(size):
                for j in range(size):
                    total, carried = 0.0, above[row, k, i, j]
                    for b in range(size):
                        total += c[i, b] * moved[b, j]
                        carried += half[i, b] * f[j, b]
                    of_flow[row, k, i, j] = total
                    g[i, j] = carried
        of_first[row] = g
    return of_first, of_flow, of_added


class _Carry(torch.autograd.Function):
    """`carry` of tensors."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, flow: Tensor, added: Tensor) -> Tensor:
        arrays = [np.ascontiguousarray(part.detach().numpy()) for part in (first, flow, added)]
        out = carry(*arrays)
        ctx.kept = arrays[1], out
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, *above: Tensor) -> tuple[Tensor, ...]:
        flow, out = ctx.kept
        found = pull_back(flow, out, np.ascontiguousarray(above[0].numpy()))
        return tuple(map(torch.from_numpy, found))


def covariances(first: Tensor, flow: Tensor, added: Tensor) -> Tensor:
    """Covariances (..., F + 1, m, m) of steps C -> flow^T C flow + added; differentiable.

    Parameters
    ----------
    first : Tensor (..., m, m)
        The first, symmetric.
    flow, added : Tensors (..., F, m, m)
        Of each step.
    """
    shape = flow.shape[:-3]
    found = _Carry.apply(first.flatten(0, -3), flow.flatten(0, -4), added.flatten(0, -4))
    return found.unflatten(0, shape)
