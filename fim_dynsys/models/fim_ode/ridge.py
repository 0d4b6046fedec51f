"""Gaussian linear regression from normal equations, batched in torch."""

import torch
from torch import Tensor


def residual_variance(gram: Tensor, moment: Tensor, total: Tensor, count: Tensor) -> Tensor:
    """Weighted residual variance (B, d, forms, 1, 1) of a lightly regularised fit, floored by the data.

    `total` (B, d, forms, 1, 1) are sums of squared targets, `count` (B, forms) rows less free starts.
    """
    m = gram.shape[-1]
    trace = gram.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    ridge = 1e-7 * (trace + 1e-30) * torch.eye(m, dtype=gram.dtype, device=gram.device)
    solution = torch.cholesky_solve(moment, torch.linalg.cholesky(gram + ridge))
    left_over = total - 2 * (solution * moment).sum((-2, -1), keepdim=True)
    left_over = left_over + (solution.transpose(-1, -2) @ gram @ solution)
    freedom = (count.double() - m).clamp(min=4.0)[:, None, :, None, None]
    return (left_over.clamp(min=0) + 1e-9 * total + 1e-30) / freedom


def ridge_solve(gram: Tensor, moment: Tensor, log_precision: Tensor) -> tuple[Tensor, Tensor]:
    """Posterior mean and variances (B, d, m) of a Gaussian linear model, scaled to a unit diagonal first."""
    precision = gram + torch.diag_embed(torch.exp(log_precision.clamp(-20, 30)))
    scale = precision.diagonal(dim1=-2, dim2=-1).rsqrt()
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    factor = torch.linalg.cholesky(scale[..., :, None] * precision * scale[..., None, :] + 1e-12 * eye)
    inverse = torch.cholesky_solve(eye.expand_as(gram), factor)
    solution = scale * (inverse @ (scale[..., None] * moment)).squeeze(-1)
    return solution, inverse.diagonal(dim1=-2, dim2=-1) * scale**2
