"""Differentiable solutions of autonomous systems, many starts at once."""

from collections.abc import Callable

import torch
from torch import Tensor

from fim_dynsys.errors import FitError

Rate = Callable[[Tensor], Tensor]
"""``f(x (..., d)) -> (..., d)``, rows independent of each other."""


def rk4(rate: Rate, start: Tensor, times: Tensor, max_step: float, bound: float = 1e3) -> Tensor:
    """Classical Runge-Kutta with equal substeps between requested times, each row on a grid of its own.

    Parameters
    ----------
    rate : callable
        The field.
    start : Tensor (..., B, d)
        States at the first times.
    times : Tensor (B, L)
        Not decreasing; a row that repeats its last time stays where it is.
    max_step : float
        Largest substep. Their number between two columns is that of the row with the largest gap.
    bound : float
        Coordinates are held within it, so that a field that blows up gives finite numbers and no gradient.

    Returns
    -------
    Tensor (..., B, L, d)
    """
    gaps = times.diff(dim=1)
    counts = torch.ceil(gaps.detach().amax(dim=0) / max_step - 1e-9).clamp(min=1).long().tolist()
    x, path = start, [start]
    for column, count in enumerate(counts):
        h = (gaps[:, column] / count)[:, None]
        for _ in range(count):
            k1 = rate(x)
            k2 = rate(x + 0.5 * h * k1)
            k3 = rate(x + 0.5 * h * k2)
            k4 = rate(x + h * k3)
            x = (x + (h / 6.0) * (k1 + 2.0 * (k2 + k3) + k4)).clamp(-bound, bound)
        path.append(x)
    return torch.stack(path, dim=-2)


def adaptive(
    rate: Rate, start: Tensor, times: Tensor, rtol: float = 1e-6, atol: float = 1e-8, method: str = "dopri5"
) -> Tensor:
    """The same through torchdiffeq's solvers, with one step size for the whole batch.

    Parameters
    ----------
    rate : callable
        The field.
    start : Tensor (..., B, d)
        States at the first times, which all rows share.
    times : Tensor (B, L) or (L,)
        Not decreasing.
    rtol, atol : float
        Tolerances.
    method : str
        A solver of torchdiffeq.

    Returns
    -------
    Tensor (..., B, L, d)

    Raises
    ------
    FitError
        Where the step size underflows or the field is not finite.
    """
    from torchdiffeq import odeint  # imports scipy.integrate

    times = times.expand(start.shape[-2], -1) if times.ndim == 1 else times
    grid, place = torch.unique(times, return_inverse=True)
    if len(grid) == 1:
        return start.unsqueeze(-2).expand(*start.shape[:-1], times.shape[1], -1)
    try:
        path = odeint(lambda _, x: rate(x), start, grid, rtol=rtol, atol=atol, method=method)
    except AssertionError as error:  # torchdiffeq's report of a step that underflows
        raise FitError(
            f"adaptive: expected a field that {method} can integrate, got {error}; use rk4 or other data."
        ) from error
    rows = torch.arange(len(times), device=times.device)[:, None]
    return path.movedim(0, -2)[..., rows, place, :]
