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
            x = _step(rate, x, rate(x), h, bound)
        path.append(x)
    return torch.stack(path, dim=-2)


def _step(rate: Rate, x: Tensor, k1: Tensor, h: Tensor, bound: float) -> Tensor:
    half = 0.5 * h
    k2 = rate(torch.addcmul(x, half, k1))
    k3 = rate(torch.addcmul(x, half, k2))
    k4 = rate(torch.addcmul(x, h, k3))
    return torch.addcmul(x, h / 6.0, torch.add(k1 + k4, k2 + k3, alpha=2.0)).clamp(-bound, bound)


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


class DenseRk4:
    """Classical Runge-Kutta on a grid of equal steps in each row, and cubic Hermite polynomials between.

    Where samples are denser than the steps that accuracy asks for, this costs less than `rk4`, by as much;
    errors of both are of fourth order in the step.

    Parameters
    ----------
    times : Tensor (B, L)
        Not decreasing; a row that repeats its last time stays there. The grid's weights take
        ``B * L * steps`` numbers: cut long rows into segments.
    max_step : float
        Largest step. All rows take as many as the longest.
    bound : float
        As for `rk4`.

    Attributes
    ----------
    steps : int
        Of each row.
    h : Tensor (B, 1)
        Their lengths.
    weights : Tensor (B, L, 2 * (steps + 1))
        Of the states at the steps, then of the rates there, in the states at the times.
    """

    def __init__(self, times: Tensor, max_step: float, bound: float = 1e3):
        since = times - times[:, :1]
        steps = max(int(torch.ceil(since[:, -1].max() / max_step - 1e-9)), 1)
        h = since[:, -1:] / steps
        place = torch.where(h > 0, since / h, 0.0)
        left = place.floor().clamp(max=steps - 1)
        w = place - left
        value = torch.zeros(*times.shape, steps + 1, dtype=times.dtype, device=times.device)
        slope, column = torch.zeros_like(value), left.long()[..., None]
        value.scatter_(2, column, ((1.0 + 2.0 * w) * (1.0 - w) ** 2)[..., None])
        value.scatter_(2, column + 1, (w**2 * (3.0 - 2.0 * w))[..., None])
        slope.scatter_(2, column, (h * w * (1.0 - w) ** 2)[..., None])
        slope.scatter_(2, column + 1, (h * w**2 * (w - 1.0))[..., None])
        self.weights = torch.cat([value, slope], dim=2)
        self.steps, self.h, self._bound = steps, h, bound

    def __call__(self, rate: Rate, start: Tensor) -> Tensor:
        """States (..., B, L, d) from `start` (..., B, d)."""
        x, states, slopes = start, [start], []
        for _ in range(self.steps):
            slopes.append(rate(x))
            x = _step(rate, x, slopes[-1], self.h, self._bound)
            states.append(x)
        return self.weights @ torch.stack([*states, *slopes, rate(x)], dim=-2)
