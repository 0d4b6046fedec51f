"""Chaotic systems by random search: sparse quadratic flows that stay bounded and forget where they started.

J. C. Sprott found his simple chaotic flows in the same way (Some simple chaotic flows, Phys. Rev. E 50 (1994)
R647). The search makes no use of named systems, so benchmarks that hold some stay unseen. It counts survivors
on the host, unlike the other families: a minute of one core for about fifty systems.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from training.systems.families import Drawn, chance, uniform
from training.systems.fields import Fields, exponents, rates

_STEP = 0.05
_BOUND = 100.0
_SETTLED = 60  # time before a motion is looked at
_OBSERVED = 60  # time over which each of two exponents is measured
_APART = 1e-6
_MOVES = 1e-2  # least standard deviation of every coordinate
_DRAWN = 8000  # at once, of which about three are chaotic in three dimensions
_ROUNDS = 500


@dataclass(frozen=True)
class ChaoticPrior(Drawn):
    """Chaotic flows with five to eight monomials of degree two or less, half of them with factors of 1.

    States are scaled to a root mean square of 1 on the attractor and time such that the span of 9.95 holds
    between `shortest` and `longest` times in which the state travels one standard deviation. The largest
    Lyapunov exponent is at least `exponent` per such time in two successive windows.
    """

    terms: tuple[int, int] = (5, 8)
    shortest: float = 15.0
    longest: float = 80.0
    exponent: float = 0.01
    span: float = 9.95
    smallest_dim: int = 3

    def fields(self, n: int, dim: int, generator: torch.Generator) -> Fields:
        """n fields.

        Raises
        ------
        RuntimeError
            If four million random flows hold fewer: in two dimensions none can be chaotic, in many few stay
            bounded.
        """
        found: list[Tensor] = []
        for _ in range(_ROUNDS):
            if sum(map(len, found)) >= n:
                break
            flows = self._random(_DRAWN, dim, generator)
            found.append(self._scaled(*chaotic(flows, self.exponent, generator), generator))
        else:
            raise RuntimeError(
                f"ChaoticPrior: expected {n} chaotic flows in {dim} dimensions, found {sum(map(len, found))} "
                f"among {_ROUNDS * _DRAWN} random ones; ask for fewer, or for three dimensions."
            )
        return Fields(torch.cat(found)[:n])

    def _random(self, n: int, dim: int, generator: torch.Generator) -> Tensor:
        """Coefficients (n, m, dim), at least one in each equation."""
        where: dict[str, Any] = {"generator": generator, "device": generator.device}
        low = exponents(dim).sum(1) <= 2
        rank = torch.rand(n, dim, int(low.sum()), **where)
        first = torch.nn.functional.one_hot(rank.argmax(-1), rank.shape[-1])
        rank = (rank + first).flatten(1).argsort(1, descending=True).argsort(1).view(rank.shape)
        kept = rank < torch.randint(self.terms[0], self.terms[1] + 1, (n, 1, 1), **where)
        size = uniform(generator, 0.1, 4.0, *rank.shape)
        size = torch.where(chance(generator, 0.5, *rank.shape), 1.0, size)
        sign = 2.0 * torch.randint(0, 2, rank.shape, **where) - 1.0
        out = torch.zeros(n, len(low), dim, device=generator.device)
        # the dictionary lists monomials by degree
        out[:, : rank.shape[-1]] = (kept * size * sign).transpose(1, 2)
        return out

    def _scaled(self, flows: Tensor, size: Tensor, unit: Tensor, generator: torch.Generator) -> Tensor:
        """Coefficients of the same flows in other units of states and time."""
        powers = exponents(flows.shape[-1], flows.device).to(flows)
        columns = torch.exp(size.log() @ powers.T)[..., None]  # (n, m, 1)
        units = uniform(generator, self.shortest, self.longest, len(flows), 1, 1)
        return flows * columns / size[:, None] * unit[:, None, None] * units / self.span


@torch.no_grad()
def chaotic(flows: Tensor, exponent: float, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Those flows that are chaotic from a random start, with the size and the pace of their attractors.

    Parameters
    ----------
    flows : Tensor
        Coefficients (n, m, d).
    exponent : float
        Least growth of small separations per time in which the state travels one standard deviation.
    generator : torch.Generator
        Draws the starts.

    Returns
    -------
    flows : Tensor
        (k, m, d).
    size : Tensor
        Root mean squares (k, d).
    unit : Tensor
        Times (k,) in which the state travels one standard deviation.
    """
    n, _, d = flows.shape
    where: dict[str, Any] = {"generator": generator, "device": generator.device, "dtype": torch.float64}
    flows, x = flows.double(), 2.0 * torch.rand(d, 1, n, **where) - 1.0
    for _ in range(_SETTLED):
        x = _advanced(flows, x)[-1]
        bounded = (x.abs() < _BOUND).all(0).all(0)
        flows, x = flows[bounded], x[..., bounded]
    away = torch.randn(x.shape, **where)
    x = torch.cat([x, x + _APART * away / torch.linalg.vector_norm(away, dim=0)], 1)
    paths, growth = [], []
    for _ in range(2 * _OBSERVED):
        steps = _advanced(flows, x)
        paths.append(steps[:, :, 0])
        apart = steps[-1, :, 1] - steps[-1, :, 0]
        distance = torch.linalg.vector_norm(apart, dim=0)
        growth.append(torch.log(distance / _APART))
        x = torch.stack([steps[-1, :, 0], steps[-1, :, 0] + _APART * apart / distance], 1)
    path = torch.cat(paths)  # (time, d, k)
    spread = path.std(0)
    rate = ((path.diff(dim=0) / _STEP / spread) ** 2).mean((0, 1)).sqrt()
    slowest = torch.stack(growth).view(2, _OBSERVED, -1).mean(1).amin(0)
    # comparisons with what is not a number are false
    found = (path.abs() < _BOUND).all(0).all(0) & (spread > _MOVES).all(0) & (slowest > exponent * rate)
    size = (path**2).mean(0).sqrt().T
    return flows[found].float(), size[found].float(), (1.0 / rate)[found].float()


def _advanced(flows: Tensor, x: Tensor) -> Tensor:
    """States (steps, d, T, n) after each classical Runge-Kutta step of one unit of time from x (d, T, n)."""
    columns, path = Fields(flows).columns(), []
    for _ in range(round(1.0 / _STEP)):
        k1 = rates(columns, x)
        k2 = rates(columns, x + 0.5 * _STEP * k1)
        k3 = rates(columns, x + 0.5 * _STEP * k2)
        k4 = rates(columns, x + _STEP * k3)
        x = x + _STEP / 6.0 * (k1 + 2.0 * (k2 + k3) + k4)
        path.append(x)
    return torch.stack(path)
