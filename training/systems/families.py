"""Families of systems beyond random polynomials: textbook terms, oscillators, potentials, smooth, stiff.

They are drawn from general forms with random parameters, never from named systems that a benchmark holds.
"""

import math
from dataclasses import dataclass
from functools import cache
from itertools import product

import torch
from torch import Tensor

from training.systems.fields import CPU, Fields, Ridge, exponents, monomial_table


class Drawn:
    """Random numbers on a generator's device, and starts from a normal distribution."""

    smallest_dim = 1
    integration = "dormand-prince"

    def starts(self, n: int, count: int, dim: int, generator: torch.Generator) -> Tensor:
        return _normal(generator, n, count, dim)


def uniform(generator: torch.Generator, low: float, high: float, *shape: int) -> Tensor:
    return low + (high - low) * torch.rand(*shape, generator=generator, device=generator.device)


def _log_uniform(generator: torch.Generator, low: float, high: float, *shape: int) -> Tensor:
    return torch.exp(uniform(generator, math.log(low), math.log(high), *shape))


def _normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, device=generator.device)


def chance(generator: torch.Generator, probability: float, *shape: int) -> Tensor:
    return uniform(generator, 0.0, 1.0, *shape) < probability


def _signs(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.where(chance(generator, 0.5, *shape), 1.0, -1.0)


def _one_hot(generator: torch.Generator, dim: int, *shape: int) -> Tensor:
    """A random unit vector along an axis, (*shape, dim)."""
    pick = torch.randint(dim, shape, generator=generator, device=generator.device)
    return torch.nn.functional.one_hot(pick, dim).to(torch.get_default_dtype())


def _linear_columns(dim: int) -> list[int]:
    """Where the dictionary lists the coordinates themselves."""
    rows = exponents(dim).tolist()
    return [rows.index([int(i == j) for i in range(dim)]) for j in range(dim)]


@dataclass(frozen=True)
class TermsPrior(Drawn):
    """A few linear and quadratic terms per equation, and functions of one coordinate or a combination.

    Every system has a function term, every equation at most `max_terms`, each times 1 or a coordinate. A
    term may appear in two equations with opposite signs, as where one species turns into another.
    """

    functions: tuple[str, ...] = ("sine",)
    max_terms: int = 2
    polynomial_terms: int = 2
    positive_share: float = 0.0

    def starts(self, n: int, count: int, dim: int, generator: torch.Generator) -> Tensor:
        """Normal; positive in a share of the systems, as concentrations are."""
        normal = _normal(generator, n, count, dim)
        return torch.where(chance(generator, self.positive_share, n, 1, 1), normal.abs(), normal)

    def fields(self, n: int, dim: int, generator: torch.Generator) -> Fields:
        """n fields; slot (i, k) holds function k in equation i."""
        scale = uniform(generator, 0.3, 2.0, n, 1, 1)
        slots = dim * len(self.functions)
        one = _one_hot(generator, dim, n, slots)
        both = one + _signs(generator, n, slots, 1) * _one_hot(generator, dim, n, slots)
        direction = torch.where(chance(generator, 0.75, n, slots, 1), one, both)
        direction = (
            direction * (_signs(generator, n, slots) * _log_uniform(generator, 0.4, 2.5, n, slots))[..., None]
        )
        offset = _normal(generator, n, slots) * chance(generator, 0.5, n, slots)
        alone = chance(generator, 0.6, n, slots, 1)
        factor = torch.cat(
            [alone.to(offset.dtype), torch.where(alone, 0.0, _one_hot(generator, dim, n, slots))], -1
        )
        size = _signs(generator, n, slots) * torch.exp(0.5 * _normal(generator, n, slots))
        size = size * self._kept(n, dim, generator)
        own = torch.eye(dim, device=size.device).repeat_interleave(len(self.functions), 0)
        shared = -_one_hot(generator, dim, n, slots) * chance(generator, 0.3, n, slots, 1)
        amplitude = (own + torch.where(own > 0, 0.0, shared)) * size[..., None]
        ridge = Ridge(self.functions * dim, direction, offset, amplitude * scale, factor)
        return Fields(self._polynomial(n, dim, generator) * scale, ridge)

    def _kept(self, n: int, dim: int, generator: torch.Generator) -> Tensor:
        """Which slots (n, dim * functions) are used: at most `max_terms` an equation, one at least in all."""
        many = len(self.functions)
        rank = uniform(generator, 0.0, 1.0, n, dim, many).argsort(-1).argsort(-1)
        most = min(self.max_terms, many) + 1
        count = torch.randint(0, most, (n, dim, 1), generator=generator, device=generator.device)
        sure = _one_hot(generator, dim, n)[..., None].to(count.dtype)
        return (rank < torch.maximum(count, sure)).flatten(1).to(torch.get_default_dtype())

    def _polynomial(self, n: int, dim: int, generator: torch.Generator) -> Tensor:
        """Linear damping or growth of every coordinate, and a few random terms up to degree 2."""
        degree = exponents(dim, generator.device).sum(1)
        rank = (
            uniform(generator, 0.0, 1.0, n, dim, len(degree))
            .masked_fill(degree > 2, 2.0)
            .argsort(-1)
            .argsort(-1)
        )
        most = self.polynomial_terms + 1
        kept = rank < torch.randint(0, most, (n, dim, 1), generator=generator, device=generator.device)
        values = 0.7 * _normal(generator, n, dim, len(degree)) * kept
        damping = -uniform(generator, -0.2, 1.2, n, dim)
        for i, column in enumerate(_linear_columns(dim)):
            values[:, i, column] += damping[:, i]
        return values.transpose(1, 2).contiguous()


@dataclass(frozen=True)
class PotentialPrior(Drawn):
    """f = (rotation S - damping) grad V with V a random quartic that grows outwards and S antisymmetric.

    Damping alone gives gradient fields, rotation alone conserves V. A third of the systems add cosines to V,
    which leave the polynomials.
    """

    damping: tuple[float, float] = (0.0, 0.0)
    rotation: float = 1.0
    n_waves: int = 2

    @property
    def smallest_dim(self) -> int:
        """An antisymmetric matrix needs two coordinates to turn anything."""
        return 2 if self.rotation else 1

    def fields(self, n: int, dim: int, generator: torch.Generator) -> Fields:
        """n fields."""
        turn = _normal(generator, n, dim, dim)
        turn = self.rotation * (turn - turn.transpose(1, 2)) / math.sqrt(2)
        damping = uniform(generator, *self.damping, n, 1, 1)
        matrix = uniform(generator, 0.3, 1.5, n, 1, 1) * (turn - damping * torch.eye(dim, device=turn.device))
        sizes, walls, derivative = _quartics(dim, turn.device)
        potential = sizes * _normal(generator, n, len(sizes)) * chance(generator, 0.6, n, len(sizes))
        potential = potential + walls * sizes * _log_uniform(generator, 0.5, 2.0, n, 1)
        gradient = torch.einsum("np,ipm->nmi", potential, derivative)
        direction = _normal(generator, n, self.n_waves, dim)
        waves = uniform(generator, 0.3, 1.5, n, self.n_waves, 1) * chance(generator, 1 / 3, n, 1, 1)
        ridge = Ridge(
            ("sine",) * self.n_waves,
            direction,
            uniform(generator, 0.0, 2 * math.pi, n, self.n_waves),
            -(waves * direction) @ matrix.transpose(1, 2),  # the gradient of a cosine is minus a sine
            torch.eye(1 + dim, device=turn.device)[0].expand(n, self.n_waves, -1).contiguous(),
        )
        return Fields((gradient @ matrix.transpose(1, 2)).contiguous(), ridge)


@cache
def _quartics(dim: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Of monomials up to degree 4: sizes (p,), which make V grow (p,), and derivatives (d, p, m).

    Derivatives are coefficients of the cubic dictionary.
    """
    rows = {tuple(row): k for k, row in enumerate(exponents(dim).tolist())}
    powers = [e for e in product(range(5), repeat=dim) if sum(e) <= 4]
    derivative = torch.zeros(dim, len(powers), len(rows))
    for p, e in enumerate(powers):
        for i in range(dim):
            if e[i]:
                derivative[i, p, rows[(*e[:i], e[i] - 1, *e[i + 1 :])]] = e[i]
    degree = torch.tensor(powers).sum(1)
    sizes = torch.tensor([0.0, 0.5, 0.7, 0.25, 0.08])[degree]
    walls = torch.tensor([float(max(e) in (2, 4) and max(e) == sum(e)) for e in powers])
    return sizes.to(device), walls.to(device), derivative.to(device)


@dataclass(frozen=True)
class OscillatorPrior(Drawn):
    """Attracting limit cycles seen from a random frame.

    Half are rotations whose radius saturates (the normal form of a Hopf bifurcation), half are Lienard
    systems, from nearly harmonic to relaxation; further coordinates are damped and driven by the first two.
    """

    smallest_dim = 2
    periods: tuple[float, float] = (0.7, 8.0)  # in ten units of time

    def fields(self, n: int, dim: int, generator: torch.Generator) -> Fields:
        """n fields."""
        rows = {tuple(row): k for k, row in enumerate(exponents(dim).tolist())}

        def monomial(x: int = 0, y: int = 0) -> int:
            return rows[(x, y, *[0] * (dim - 2))]

        omega = 2 * math.pi / 10 * _log_uniform(generator, *self.periods, n)
        growth = omega * _log_uniform(generator, 0.05, 1.5, n)
        shear = omega * uniform(generator, -0.4, 0.4, n)
        normal = torch.zeros(n, len(rows), dim, device=omega.device)
        for own, other, sign in ((0, 1, -1.0), (1, 0, 1.0)):
            axis = [(1, 0), (0, 1)]
            normal[:, monomial(*axis[own]), own] = growth
            normal[:, monomial(*axis[other]), own] = sign * omega
            for square in ((2, 0), (0, 2)):
                for along, size in ((own, -growth), (other, sign * shear)):
                    power = tuple(a + b for a, b in zip(square, axis[along], strict=True))
                    normal[:, monomial(*power), own] += size
        lienard = torch.zeros_like(normal)
        lienard[:, monomial(1, 0), 0] = 2 * growth
        lienard[:, monomial(3, 0), 0] = -2 * growth
        lienard[:, monomial(2, 0), 0] = growth * uniform(generator, -0.6, 0.6, n)
        lienard[:, monomial(0, 1), 0] = omega
        lienard[:, monomial(1, 0), 1] = -omega
        lienard[:, monomial(0, 1), 1] = -omega * uniform(generator, 0.0, 0.3, n)
        lienard[:, monomial(), 1] = omega * uniform(generator, -0.4, 0.4, n)
        values = torch.where(chance(generator, 0.5, n, 1, 1), normal, lienard)
        for k in range(2, dim):
            rate = _log_uniform(generator, 0.2, 5.0, n)
            values[:, _linear_columns(dim)[k], k] = -rate
            for power in ((1, 0), (0, 1), (2, 0), (1, 1)):
                driven = _normal(generator, n) * chance(generator, 0.5, n)
                values[:, monomial(*power), k] = rate * driven
        return Fields(reframed(values, *self._frame(n, dim, generator)))

    def _frame(self, n: int, dim: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A random linear map and shift from new coordinates to those of the normal form."""
        rotation, _ = torch.linalg.qr(_normal(generator, n, dim, dim))
        plain = torch.eye(dim, device=rotation.device)
        rotation = torch.where(chance(generator, 0.5, n, 1, 1), rotation, plain)
        shift = _normal(generator, n, dim) * chance(generator, 0.5, n, 1)
        return rotation * _log_uniform(generator, 0.5, 2.0, n, 1, dim), shift


def reframed(coefficients: Tensor, frame: Tensor, shift: Tensor) -> Tensor:
    """Coefficients (n, m, d) of z -> A^-1 f(A z + b): the same cubic system in other coordinates.

    The values at a few points determine a polynomial, so they are computed there and solved for.
    """
    nodes, inverse = _nodes(coefficients.shape[-1], coefficients.device)
    frame, shift = frame.double(), shift.double()
    values = Fields(coefficients)(nodes @ frame.transpose(1, 2) + shift[:, None])
    values = torch.linalg.solve_ex(frame, values.transpose(1, 2)).result.transpose(1, 2)
    return (inverse @ values).to(coefficients.dtype)


@cache
def _nodes(dim: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Points (k, d), and the matrix (m, k) that makes coefficients of a cubic's values there."""
    generator = torch.Generator().manual_seed(0)
    nodes = 2 * torch.rand(3 * len(exponents(dim)), dim, generator=generator, dtype=torch.float64) - 1
    inverse = torch.linalg.pinv(monomial_table(dim, CPU)(nodes))
    return nodes.to(device), inverse.to(device)


@dataclass(frozen=True)
class SmoothPrior(Drawn):
    """Random smooth fields: a Gaussian process by random Fourier features, and a weak pull to the origin."""

    n_features: int = 24
    length: tuple[float, float] = (0.7, 3.0)

    def fields(self, n: int, dim: int, generator: torch.Generator) -> Fields:
        """n fields; features of a Gaussian kernel (Rahimi and Recht 2007)."""
        many = self.n_features
        length = _log_uniform(generator, *self.length, n, 1, 1)
        size = uniform(generator, 0.2, 2.0, n, 1, 1) * math.sqrt(2 / many)
        coefficients = torch.zeros(n, len(exponents(dim)), dim, device=generator.device)
        pull = uniform(generator, 0.0, 0.5, n)
        for i, column in enumerate(_linear_columns(dim)):
            coefficients[:, column, i] = -pull
        ridge = Ridge(
            ("sine",) * many,
            _normal(generator, n, many, dim) / length,
            uniform(generator, 0.0, 2 * math.pi, n, many),
            size * _normal(generator, n, many, dim),
            torch.eye(1 + dim, device=generator.device)[0].expand(n, many, -1).contiguous(),
        )
        return Fields(coefficients, ridge)


@dataclass(frozen=True)
class LinearPrior(Drawn):
    """Stable linear systems whose rates spread over decades, some of them rotating, round a random point."""

    decades: float = 3.0
    fastest: float = 30.0

    def fields(self, n: int, dim: int, generator: torch.Generator) -> Fields:
        """n fields."""
        rate = self.fastest * 10 ** -uniform(generator, 0.0, self.decades, n, dim)
        block = torch.diag_embed(-rate)
        for k in range(0, dim - 1, 2):
            # a pair of coordinates turns at a few times its rate, in a third of the systems
            turn = rate[:, k] * _log_uniform(generator, 0.5, 10.0, n) * chance(generator, 1 / 3, n)
            block[:, k + 1, k + 1] = torch.where(turn > 0, block[:, k, k], block[:, k + 1, k + 1])
            block[:, k, k + 1], block[:, k + 1, k] = turn, -turn
        rotation, _ = torch.linalg.qr(_normal(generator, n, dim, dim))
        frame = rotation * _log_uniform(generator, 0.3, 3.0, n, 1, dim)
        matrix = torch.linalg.solve_ex(frame, block @ frame).result
        centre = _normal(generator, n, dim, 1) * chance(generator, 0.5, n, 1, 1)
        coefficients = torch.zeros(n, len(exponents(dim)), dim, device=generator.device)
        coefficients[:, 0] = -(matrix @ centre)[..., 0]
        for j, column in enumerate(_linear_columns(dim)):
            coefficients[:, column] = matrix[..., j]
        return Fields(coefficients)
