"""Systems of a prior integrated in parallel, with the paper's rejection of those that leave a box."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from fim_dynsys.models.fim_ode.amortised import factored_monomials
from training.prior import PRIORS, exponents

N_TRAJECTORIES = 9
N_SAMPLES = 200
SAMPLING_STEP = 0.05
EULER_STEPS = 20  # sub-steps of 0.0025 between samples, as the paper's generator takes
BOUND = 100.0
_CHECK_EVERY = 5  # samples between removals of rejected systems
_CANDIDATES = 8000  # drawn at once; fewer where few systems are wanted


@dataclass(frozen=True)
class Systems:
    """Accepted systems of one dimension: coefficients (n, m, d) and clean states (n, 9, 200, d), float32."""

    coefficients: Tensor
    states: Tensor

    def __len__(self) -> int:
        return len(self.coefficients)

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.states.shape[-1]

    def box(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Corners (B, d) of the box round all trajectories of some systems, widened by 10 % on each side."""
        states = self.states[index]
        low, high = states.amin((1, 2)), states.amax((1, 2))
        margin = 0.1 * (high - low)
        return low - margin, high + margin


def _field(x: Tensor, columns: list[list[Tensor]], plan: list[tuple[int, int, int]]) -> Tensor:
    """Polynomial field at x (d, 9, n) by nested multiplication; columns[c][k] are coefficients (n,)."""
    out = []
    for own in columns:
        partial = list(own)
        for k, lower, j in plan:
            partial[lower] = torch.addcmul(partial[lower], partial[k], x[j])
        out.append(partial[0])
    return torch.stack(out)


@torch.no_grad()
def integrate(coefficients: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """Euler trajectories (n', 9, 200, d) of the systems that stay bounded, and their indices (n',).

    Parameters
    ----------
    coefficients : Tensor
        Monomial coefficients (n, m, d).
    start : Tensor
        Initial states (n, 9, d).
    """
    n, _, d = coefficients.shape
    powers = exponents(d)
    # highest degree first: the order in which nested multiplication folds a polynomial
    plan = sorted(factored_monomials(powers), key=lambda factor: -int(powers[factor[0]].sum()))
    alive = torch.arange(n)
    x = start.permute(2, 1, 0).contiguous()
    table = coefficients.permute(2, 1, 0).contiguous()
    columns = [list(own) for own in table]
    samples = [x]
    step = SAMPLING_STEP / EULER_STEPS
    for number in range(1, N_SAMPLES):
        for _ in range(EULER_STEPS):
            x = torch.add(x, _field(x, columns, plan), alpha=step)
        samples.append(x)
        if number % _CHECK_EVERY == 0 or number == N_SAMPLES - 1:
            recent = torch.stack(samples[-_CHECK_EVERY - 1 :])
            good = (recent.abs() < BOUND).all(0).all(0).all(0)  # NaN compares false
            if not good.all():
                alive, table, x = alive[good], table[..., good], x[..., good].contiguous()
                columns = [list(own) for own in table.contiguous()]
                samples = [s[..., good] for s in samples]
    return torch.stack(samples).permute(3, 2, 0, 1).contiguous(), alive


def generate(prior: str, dim: int, n: int, seed: int) -> Systems:
    """n accepted systems of one prior and dimension, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    sampler = PRIORS[prior]()
    coefficients, states, found = [], [], 0
    size = min(_CANDIDATES, 8 * n)
    while found < n:
        candidates = sampler.sample(size, dim, generator)
        start = torch.randn(size, N_TRAJECTORIES, dim, generator=generator)
        trajectories, alive = integrate(candidates, start)
        coefficients.append(candidates[alive])
        states.append(trajectories)
        found += len(alive)
    return Systems(torch.cat(coefficients)[:n], torch.cat(states)[:n])


def cached(folder: Path, prior: str, dim: int, n: int, seed: int) -> Systems:
    """`generate` kept in a file of `folder`, named by a hash of everything that determines it."""
    recipe = (prior, dim, n, seed, N_TRAJECTORIES, N_SAMPLES, SAMPLING_STEP, EULER_STEPS, BOUND, _CANDIDATES)
    path = folder / f"{prior}-{dim}d-{hashlib.sha256(repr(recipe).encode()).hexdigest()[:12]}.safetensors"
    if path.exists():
        return Systems(**load_file(path))
    systems = generate(prior, dim, n, seed)
    folder.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".tmp")
    save_file({"coefficients": systems.coefficients, "states": systems.states.contiguous()}, aside)
    aside.rename(path)
    return systems
