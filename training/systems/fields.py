"""Batches of random fields as tensors: polynomials plus ridge functions, evaluated for all systems at once.

Every system of a batch is

    f(x) = sum_m C_m x^m + sum_s A_s (p_s + q_s . x) g_s(w_s . x + b_s)

with a polynomial, of degree 3 in most priors, and any number of ridge functions g. That holds the usual
terms of textbooks (sines, Hill and saturation terms, exponentials), their products with a coordinate, and
Fourier features of random smooth fields, in tensors of one shape for all systems; a system without such
terms has zero amplitudes.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models.fim_ode.monomials import MonomialTable, factored_monomials

MAX_DEGREE = 3
CPU = torch.device("cpu")

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sine": torch.sin,
    "exponential": torch.exp,
    "gaussian": lambda u: torch.exp(-u * u),
    "sigmoid": torch.tanh,
    "hill": lambda u: u * u / (1 + u * u),
    "inverse": lambda u: 1 / (1 + u * u),
    "peak": lambda u: u / (1 + u * u),
    "saturation": lambda u: u / (1 + u.abs()),
    "logarithm": lambda u: torch.log1p(u.abs()),
}


@dataclass(frozen=True)
class Ridge:
    """Ridge terms of n systems in s slots; a slot has one function in all of them."""

    functions: tuple[str, ...]
    direction: Tensor  # w (n, s, d)
    offset: Tensor  # b (n, s)
    amplitude: Tensor  # A (n, s, d)
    factor: Tensor  # p and q (n, s, 1 + d)

    def map(self, change: Callable[[Tensor], Tensor]) -> "Ridge":
        """The same terms with every tensor changed."""
        return Ridge(self.functions, *map(change, self.tensors().values()))

    def tensors(self) -> dict[str, Tensor]:
        """The tensors by name."""
        return {name: getattr(self, name) for name in ("direction", "offset", "amplitude", "factor")}


@dataclass(frozen=True)
class Fields:
    """n fields of one dimension: coefficients (n, m, d) of all monomials up to a degree, and ridge terms."""

    coefficients: Tensor
    ridge: Ridge | None = None

    def __len__(self) -> int:
        return len(self.coefficients)

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.coefficients.shape[-1]

    @property
    def degree(self) -> int:
        """Largest total degree of the monomials."""
        n_monomials = self.coefficients.shape[-2]
        return next(k for k in itertools.count() if math.comb(self.dim + k, k) >= n_monomials)

    def map(self, change: Callable[[Tensor], Tensor]) -> "Fields":
        """The same fields with every tensor changed."""
        return Fields(change(self.coefficients), self.ridge and self.ridge.map(change))

    def __getitem__(self, index: Tensor | slice) -> "Fields":
        return self.map(lambda tensor: tensor[index])

    def __call__(self, x: Tensor) -> Tensor:
        """Every field at points of its own: (n, ..., d) to (n, ..., d), in float64."""
        n, *middle, d = x.shape
        x = x.double()
        table = monomial_table(d, x.device, self.degree)
        value = table(x) @ self.coefficients.double().view(n, *[1] * (len(middle) - 1), -1, d)
        return value if self.ridge is None else value + _ridge_values(self.ridge, x)

    @staticmethod
    def join(parts: Sequence["Fields"]) -> "Fields":
        """All systems of some batches, one after the other; ridge terms of each get slots of their own."""
        coefficients = torch.cat([part.coefficients for part in parts])
        ridges = [part.ridge for part in parts]
        if all(ridge is None for ridge in ridges):
            return Fields(coefficients)
        functions = tuple(name for ridge in ridges if ridge for name in ridge.functions)
        d = coefficients.shape[-1]
        widths = {"direction": (d,), "offset": (), "amplitude": (d,), "factor": (1 + d,)}
        joined = {
            name: coefficients.new_zeros(len(coefficients), len(functions), *shape)
            for name, shape in widths.items()
        }
        row = slot = 0
        for part in parts:
            if part.ridge is not None:
                for name, tensor in part.ridge.tensors().items():
                    rows, slots = slice(row, row + len(part)), slice(slot, slot + tensor.shape[1])
                    joined[name][rows, slots] = tensor
                slot += len(part.ridge.functions)
            row += len(part)
        return Fields(coefficients, Ridge(functions, **joined))

    def columns(self) -> "Columns":
        """The same numbers with the systems last, as `rates` takes them."""
        plan = _nested(self.dim, self.degree)
        polynomial = self.coefficients.permute(1, 2, 0)[:, :, None].contiguous().unbind()
        if self.ridge is None:
            return Columns(plan, polynomial)
        last = (tensor.movedim(0, -1).contiguous() for tensor in self.ridge.tensors().values())
        return Columns(plan, polynomial, self.ridge.functions, *last)


class Columns(NamedTuple):
    """Fields with the systems as last axis.

    The order in which a polynomial is folded, the coefficients (d, 1, n) of each monomial, and what `Ridge`
    holds.
    """

    plan: tuple[tuple[int, int, int], ...]
    coefficients: tuple[Tensor, ...]
    functions: tuple[str, ...] = ()
    direction: Tensor | None = None
    offset: Tensor | None = None
    amplitude: Tensor | None = None
    factor: Tensor | None = None


def rates(columns: Columns, x: Tensor) -> Tensor:
    """Fields at states (d, T, n), T of each system.

    Every operation is element-wise along the systems, which are the last axis, and takes all coordinates at
    once: a GPU's host queues a few million of them for each block of systems.
    """
    partial = list(columns.coefficients)
    for k, lower, j in columns.plan:
        partial[lower] = torch.addcmul(partial[lower], partial[k], x[j])
    out = partial[0]
    for s, name in enumerate(columns.functions):
        u, size = columns.offset[s], columns.factor[s, 0]
        for j, state in enumerate(x):
            u = torch.addcmul(u, columns.direction[s, j], state)
            size = torch.addcmul(size, columns.factor[s, 1 + j], state)
        value = size * FUNCTIONS[name](u)
        out = torch.addcmul(out, columns.amplitude[s][:, None], value)
    return out


@cache
def monomial_table(dim: int, device: torch.device, degree: int = MAX_DEGREE) -> MonomialTable:
    """Monomials up to a degree on a device."""
    return MonomialTable(dim, degree).to(device)


@cache
def exponents(dim: int, device: torch.device = CPU, degree: int = MAX_DEGREE) -> Tensor:
    """Exponents (m, dim) of all monomials up to a degree, in the order of the operator's dictionary.

    Constants are kept for each device: the host waits for a GPU whenever it copies numbers there.
    """
    return torch.tensor(Dictionary.polynomial(dim, degree).exponents.tolist(), device=device)


@cache
def _nested(dim: int, degree: int) -> tuple[tuple[int, int, int], ...]:
    """Monomials by falling degree: the order in which nested multiplication folds a polynomial."""
    powers = exponents(dim, CPU, degree)
    return tuple(sorted(factored_monomials(powers), key=lambda factor: -int(powers[factor[0]].sum())))


@cache
def _slots(functions: tuple[str, ...], name: str, device: torch.device) -> Tensor:
    """Indices of the slots of a function."""
    return torch.tensor([i for i, own in enumerate(functions) if own == name], device=device)


def _ridge_values(ridge: Ridge, x: Tensor) -> Tensor:
    """Sum of the ridge terms at points (n, ..., d), the slots of one function at a time."""
    n, *middle, d = x.shape
    points = x.reshape(n, -1, d)
    total = torch.zeros_like(points)
    for name in sorted(set(ridge.functions)):
        slots = _slots(ridge.functions, name, x.device)
        direction, offset, amplitude, factor = (t[:, slots].double() for t in ridge.tensors().values())
        u = points @ direction.transpose(1, 2) + offset[:, None]
        size = points @ factor[..., 1:].transpose(1, 2) + factor[:, None, :, 0]
        total = total + (size * FUNCTIONS[name](u)) @ amplitude
    return total.view(n, *middle, d)
