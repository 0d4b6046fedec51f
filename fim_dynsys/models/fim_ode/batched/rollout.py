"""Polynomial fields integrated as tensors: exact derivatives of every interval at once, and whole paths.

Batched twins of `interval_maps` and `rollouts` in `fim_dynsys.regression.kernels`, for fields of one
dimension and contexts of one trajectory each. The classical Runge-Kutta method takes the same steps as there.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from fim_dynsys.models.fim_ode.columns import MonomialTable

_WEIGHTS = (1.0, 2.0, 2.0, 1.0)  # of the slopes of a Runge-Kutta step, times 6
_REACHES = (0.5, 0.5, 1.0)  # where the next slope is taken


class Grid(NamedTuple):
    """Runge-Kutta steps between the samples of B contexts, behind whose I intervals stands an empty one."""

    steps: Tensor  # (B, I + 1) length of each step, 0 in padding
    counts: Tensor  # (B, I + 1) steps of each interval, 0 in padding
    further: tuple[Tensor, ...]  # for the second step and each later one the intervals (B, n) that take it

    def take(self, index: Tensor) -> "Grid":
        """The grids of some of the contexts, which may repeat."""
        return Grid(self.steps[index], self.counts[index], tuple(part[index] for part in self.further))


def step_grid(t: Tensor, mask: Tensor, limit: float) -> Grid:
    """Steps no longer than `limit` between times (B, N), observed first and in order where the mask is true.

    The host waits once, to learn how many intervals take how many steps.
    """
    inside = mask[:, 1:]
    gaps = torch.where(inside, t[:, 1:] - t[:, :-1], 0.0)
    counts = torch.where(inside, torch.ceil(gaps / limit - 1e-9).clamp(min=1).long(), 0)
    counts = pad(counts, (0, 1))
    return grid_of(pad(gaps, (0, 1)) / counts.clamp(min=1), counts)


def grid_of(steps: Tensor, counts: Tensor) -> Grid:
    """A grid from the lengths and numbers of its steps (B, I + 1); the last interval must be empty."""
    longest = counts.sort(-1, descending=True).values.amax(0)  # of any row
    further = []
    for number, size in enumerate(_exceeding(longest)[1:], 1):
        later = counts > number
        order = (~later).to(torch.uint8).argsort(dim=-1, stable=True)[:, :size]
        further.append(torch.where(later.gather(1, order), order, counts.shape[1] - 1))
    return Grid(steps, counts, tuple(further))


def _exceeding(numbers: Tensor) -> list[int]:
    """How many of some numbers (N,) are above 0, above 1 and so on, as long as there are any."""
    return (len(numbers) - torch.bincount(numbers.cpu()).cumsum(0))[:-1].tolist()


class Terms(NamedTuple):
    """Parameters of E sparse fields: which coefficient each is, padded with rows of zeros."""

    place: Tensor  # (E, q) index of a coefficient in the flattened (m, d)
    present: Tensor  # (E, q) bool
    row: Tensor  # (E, q, m) ones at each parameter's term
    column: Tensor  # (E, q, d) ones at its coordinate

    def take(self, index: Tensor) -> "Terms":
        """Those of some of the fields."""
        return Terms(*(part[index] for part in self))

    def coefficients(self, parameters: Tensor) -> Tensor:
        """Coefficients (E, m, d) of parameters (E, q)."""
        m, d = self.row.shape[-1], self.column.shape[-1]
        flat = parameters.new_zeros(len(parameters), m * d)
        return flat.scatter_add(1, self.place, parameters * self.present).view(-1, m, d)

    def parameters(self, coefficients: Tensor) -> Tensor:
        """Parameters (E, q) of coefficients (E, m, d), 0 in padding."""
        return coefficients.flatten(1).gather(1, self.place) * self.present


def sparse_terms(support: Tensor, size: int) -> Terms:
    """Parameters of fields with the coefficients `support` (E, m, d), in order, with room for `size`."""
    m, d = support.shape[1:]
    flat = support.flatten(1)
    place = (~flat).to(torch.uint8).argsort(dim=1, stable=True)[:, :size]
    present = flat.gather(1, place)
    ones = [torch.eye(k, dtype=torch.float64, device=support.device) for k in (m, d)]
    row, column = ones[0][place // d], ones[1][place % d]
    return Terms(place, present, row * present[..., None], column * present[..., None])


class Maps(NamedTuple):
    """Ends of the I + 1 intervals of E fits, and their derivatives."""

    ends: Tensor  # (E, d, I + 1)
    by_start: Tensor  # (E, d, d, I + 1)
    by_parameter: Tensor  # (E, d, q, I + 1)


def interval_maps(
    table: MonomialTable, terms: Terms, coefficients: Tensor, nodes: Tensor, grid: Grid
) -> Maps:
    """Every interval from its node (E, I + 1, d) to its end, with derivatives by node and parameters."""
    operators = _operators(table, coefficients)
    x = nodes.transpose(1, 2).contiguous()
    maps = _step(table, operators, terms, x, grid.steps[:, None])
    for later in grid.further:
        maps = _continued(table, operators, terms, maps, grid.steps, later)
    return maps


def _continued(
    table: MonomialTable, operators: Tensor, terms: Terms, maps: Maps, steps: Tensor, later: Tensor
) -> Maps:
    """One further step, in place, of some of the intervals (E, n); those repeated are empty."""

    def picked(values: Tensor) -> Tensor:
        shape = (len(later), *[1] * (values.ndim - 2), later.shape[1])
        index = later.view(shape).expand(*values.shape[:-1], -1)
        return values.gather(-1, index)

    ends, by_start, by_parameter = (picked(part) for part in maps)
    # an empty interval goes nowhere, whatever it is written over with
    moved = _step(table, operators, terms, ends, steps.gather(1, later)[:, None])
    carried = _product(moved.by_start, by_parameter) + moved.by_parameter
    new = Maps(moved.ends, _product(moved.by_start, by_start), carried)
    for values, moved in zip(maps, new, strict=True):
        shape = (len(later), *[1] * (values.ndim - 2), later.shape[1])
        values.scatter_(-1, later.view(shape).expand_as(moved), moved)
    return maps


def _operators(table: MonomialTable, coefficients: Tensor) -> Tensor:
    """Matrices (E, d + d d, m) from monomials to the right-hand side and its derivatives by the state."""
    d = coefficients.shape[-1]
    slopes = lowering(table).to(coefficients.dtype)  # (d, m, m)
    derivatives = coefficients.transpose(1, 2)[:, :, None, None] @ slopes  # (E, d, d, 1, m)
    return torch.cat(
        [coefficients.transpose(1, 2), derivatives.flatten(1, 2).reshape(-1, d * d, slopes.shape[-1])], 1
    )


def lowering(table: MonomialTable) -> Tensor:
    """Derivatives of the monomials by each coordinate as combinations of monomials (d, m, m)."""
    powers = table.exponents
    below = powers[None] - torch.eye(powers.shape[1], dtype=powers.dtype, device=powers.device)[:, None]
    same = (below[:, :, None] == powers).all(-1)
    return same * powers.T[..., None]


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Matrix products (E, d, k, n) of (E, d, d, n) and (E, d, k, n), for each of the last axis."""
    d = left.shape[2]
    total = left[:, :, 0, None] * right[:, 0, None]
    for c in range(1, d):
        total = torch.addcmul(total, left[:, :, c, None], right[:, c, None])
    return total


def _step(table: MonomialTable, operators: Tensor, terms: Terms, x: Tensor, h: Tensor) -> Maps:
    """One Runge-Kutta step from states (E, d, n) over h (E, 1, n), differentiated.

    Derivatives are gathered from the last slope back: ``owed[s]`` is what the end owes to slope s, the ones
    that follow included.
    """
    e, d, n = x.shape
    columns, jacobians, total, z = [], [], torch.zeros_like(x), x
    for stage in range(4):
        values = table.rows(z)
        out = operators @ values
        slope = out[:, :d]
        columns.append(values)
        jacobians.append(out[:, d:].view(e, d, d, n))
        total = total + _WEIGHTS[stage] * slope
        if stage < 3:
            z = x + _REACHES[stage] * h * slope
    eye = torch.eye(d, dtype=x.dtype, device=x.device)[..., None]
    length = h[:, None]
    owed: list[Tensor] = []
    for stage in (3, 2, 1, 0):
        own = (_WEIGHTS[stage] / 6.0) * length * eye
        if owed:
            own = own + _REACHES[stage] * length * _product(owed[-1], jacobians[stage + 1])
        owed.append(own)
    owed.reverse()
    by_start = eye.repeat(e, 1, 1, n)
    by_parameter = x.new_zeros(e, d, terms.row.shape[1], n)
    for own, jacobian, values in zip(owed, jacobians, columns, strict=True):
        by_start += _product(own, jacobian)
        by_parameter.addcmul_(terms.column[:, None] @ own, (terms.row @ values)[:, None])
    return Maps(x + h / 6.0 * total, by_start, by_parameter)


def rollouts(table: MonomialTable, coefficients: Tensor, start: Tensor, grid: Grid, bound: float) -> Tensor:
    """Paths (B, C, N, d) of C fields (B, C, m, d) for each context from starts (B, C, d), see `step_grid`.

    nan from where a field leaves ``|x| <= bound`` at a sample. In padding the path stands still. The host
    waits once, to learn how many contexts take each step.
    """
    b, c, m, d = coefficients.shape
    # contexts of many steps first, so that those still under way come before the others
    order = grid.counts.sum(-1).argsort(descending=True)
    grid, coefficients, start = grid.take(order), coefficients[order], start[order]
    ends = grid.counts[:, :-1].cumsum(-1)  # (B, I)
    under_way = _exceeding(ends[:, -1])
    number = torch.arange(len(under_way), device=start.device).expand(b, -1)
    interval = torch.searchsorted(ends, number.contiguous(), right=True)
    steps = grid.steps.gather(1, interval).T[..., None].expand(-1, -1, c).flatten(1)  # (S, B C)
    fields = coefficients.permute(3, 2, 0, 1).reshape(d, m, b * c)
    x = start.permute(2, 0, 1).reshape(d, b * c)
    states = x.new_empty(len(steps) + 1, d, b * c)
    states[0] = x
    for k, count in enumerate(under_way):
        lanes = count * c
        h, x = steps[k, :lanes], x[:, :lanes]
        z, total = x, torch.zeros_like(x)
        for stage in range(4):
            slope = (fields[..., :lanes] * table.rows(z)).sum(1)
            total = torch.add(total, slope, alpha=_WEIGHTS[stage])
            if stage < 3:
                z = torch.addcmul(x, _REACHES[stage] * h, slope)
        x = torch.addcmul(x, h / 6.0, total)
        states[k + 1, :, :lanes] = x
    at = pad(ends, (1, 0))  # (B, N)
    states = states.view(len(steps) + 1, d, b, c).permute(2, 0, 3, 1)  # (B, S + 1, C, d)
    path = states[torch.arange(b, device=x.device)[:, None], at].transpose(1, 2)[order.argsort()]
    inside = (path.abs() <= bound).all(-1)
    inside[:, :, 0] = True
    return torch.where(inside.to(torch.uint8).cummin(-1).values[..., None].bool(), path, torch.nan)
