"""Sparse regressions from normal matrices as tensors: batched twins of `fim_dynsys.regression.sparse`.

Nothing raises on singular matrices, and the host waits for the device only where it may leave out problems
that have converged (``compact``).
"""

import torch
from torch import Tensor

_JITTER = 1e-14
_MOST_REGRESSIONS = 20


def solve_supports(gram: Tensor, moment: Tensor, support: Tensor, ridge: Tensor | float = 0.0) -> Tensor:
    """Ridge regressions (..., m) of normal matrices (..., m, m) and right-hand sides restricted to supports.

    `ridge` is a number or one for each problem (...).
    """
    diagonal = gram.diagonal(dim1=-2, dim2=-1) + (ridge[..., None] if isinstance(ridge, Tensor) else ridge)
    used = support & (diagonal > 0)
    scale = torch.where(used, torch.where(used, diagonal, 1.0).rsqrt(), 0.0)
    matrix = gram * scale[..., :, None] * scale[..., None, :]
    matrix.diagonal(dim1=-2, dim2=-1).fill_(1.0 + _JITTER)
    solved, _ = torch.linalg.solve_ex(matrix, (scale * moment)[..., None])
    return scale * solved[..., 0]


def stlsq(
    gram: Tensor, moment: Tensor, threshold: Tensor, alpha: float, normalise: Tensor, compact: bool = True
) -> Tensor:
    """Sequentially thresholded least squares (P, m) of P problems.

    Parameters
    ----------
    gram, moment : Tensor
        Normal matrices (P, m, m) and right-hand sides (P, m).
    threshold : Tensor
        Smallest coefficient kept (P,).
    alpha : float
        Ridge.
    normalise : Tensor
        (P,) bool, whether threshold and ridge refer to columns of unit norm.
    compact : bool
        Leave out problems that have converged.
    """
    norms = gram.diagonal(dim1=-2, dim2=-1).sqrt()
    norms = torch.where(normalise[:, None] & (norms > 0), norms, 1.0)
    gram, moment = gram / (norms[:, :, None] * norms[:, None, :]), moment / norms
    coefficients = torch.zeros_like(moment)
    support = torch.ones_like(moment, dtype=torch.bool)
    busy = torch.ones_like(threshold, dtype=torch.bool)
    for _ in range(_MOST_REGRESSIONS):
        at = busy.nonzero()[:, 0] if compact else torch.arange(len(busy), device=busy.device)
        if not len(at):
            break
        c = solve_supports(gram[at], moment[at], support[at], alpha)
        kept = support[at] & (c.abs() >= threshold[at, None])
        own = busy[at]
        coefficients[at] = torch.where(own[:, None], torch.where(kept, c, 0.0), coefficients[at])
        changed = (kept != support[at]).any(1) & kept.any(1)
        support[at] = torch.where(own[:, None], kept, support[at])
        busy[at] = own & changed
    return solve_supports(gram, moment, coefficients.abs() > 1e-14) / norms


def backward_elimination(
    gram: Tensor, moment: Tensor, present: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Order (..., m) in which least squares gives up its terms, the cheapest first, and the costs (..., m).

    Terms that are not `present` (..., m) are no part of the problem: they cost infinity, and the order means
    nothing from there on.
    """
    m = moment.shape[-1]
    batch = moment.shape[:-1]
    gram, moment = gram.expand(*batch, m, m).reshape(-1, m, m), moment.reshape(-1, m)
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    scale = torch.where(diagonal > 0, diagonal, 1.0).rsqrt()
    inverse = gram * scale[:, :, None] * scale[:, None, :]
    inverse.diagonal(dim1=-2, dim2=-1).fill_(1.0 + _JITTER)
    inverse, _ = torch.linalg.inv_ex(inverse)
    c = (inverse @ (scale * moment)[..., None])[..., 0]
    active = torch.ones_like(c, dtype=torch.bool) if present is None else present.reshape(-1, m).clone()
    order, costs = [], []
    for _ in range(m):
        # with unit diagonal the inverse's is at least one; less is rounding
        own = inverse.diagonal(dim1=-2, dim2=-1).clamp(min=1.0)
        least, j = torch.where(active, c * c / own, torch.inf).min(-1, keepdim=True)
        order.append(j[:, 0])
        costs.append(least[:, 0])
        active = active.scatter(1, j, False)
        row = inverse.gather(1, j[..., None].expand(-1, 1, m))
        column = inverse.gather(2, j[:, None].expand(-1, m, 1))
        factor = torch.where(active[..., None], column / own.gather(1, j)[..., None], 0.0)
        c = c - factor[..., 0] * c.gather(1, j)
        inverse = inverse - factor * row
    return torch.stack(order, -1).view(*batch, m), torch.stack(costs, -1).view(*batch, m)


def backward_path(gram: Tensor, moment: Tensor, tolerances: Tensor) -> Tensor:
    """Coefficients (..., T, m) of backward elimination stopped at tolerances (..., T), supports refitted."""
    order, costs = backward_elimination(gram, moment)
    m = moment.shape[-1]
    dropped = costs.cummax(-1).values[..., None, :] <= tolerances[..., None]
    support = torch.ones_like(dropped).scatter(-1, order[..., None, :].expand_as(dropped), ~dropped)
    shape = dropped.shape[:-1]
    return solve_supports(
        gram[..., None, :, :].expand(*shape, m, m), moment[..., None, :].expand(*shape, m), support
    )
