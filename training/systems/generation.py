"""Systems of a prior integrated in parallel as tensors, with rejection of those that leave a box.

The priors `paper` and `sparse` are integrated as the FIM-ODE paper does, by Euler steps of 0.0025. All others
take steps of a fifth-order Dormand-Prince pair, whose embedded error estimates are summed along each
trajectory: a system is kept only if that sum stays below 1e-4 of the range of every coordinate.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from fim_dynsys.writing import replace_file
from training.systems.fields import Columns, Fields, Ridge, rates
from training.systems.priors import components, single

N_TRAJECTORIES = 9
N_SAMPLES = 200
SAMPLING_STEP = 0.05
EULER_STEPS = 20  # sub-steps of 0.0025 between samples, as the paper's generator takes
PAIR_STEPS = 4  # sub-steps of 0.0125 of the Dormand-Prince pair: as much work as the paper's
BOUND = 100.0
TOLERANCE = 1e-4
STILL = 1e-3  # a trajectory with a smaller standard deviation teaches nothing
_CHECK_EVERY = 5  # samples between removals of rejected systems
_DRAWN = 8000  # at once; fewer where few systems are wanted
_CONSTANT = ("paper", "sparse")  # priors that never change: their pools are named without parameters


@dataclass(frozen=True)
class Systems:
    """Accepted systems of one dimension: their fields, and clean states (n, 9, samples, d) in float32.

    Samples are evenly spaced over the span of 9.95.
    """

    fields: Fields
    states: Tensor

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, index: Tensor | slice) -> "Systems":
        return Systems(self.fields[index], self.states[index])

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.states.shape[-1]

    @property
    def step(self) -> float:
        """Time between samples."""
        return spacing(self.states.shape[2])

    @property
    def coefficients(self) -> Tensor:
        """Monomial coefficients (n, m, d); the whole field where there are no ridge terms."""
        return self.fields.coefficients

    def box(self) -> tuple[Tensor, Tensor]:
        """Corners (n, d) of the box round all trajectories of each system, widened by 10 % on each side."""
        low, high = self.states.amin((1, 2)), self.states.amax((1, 2))
        margin = 0.1 * (high - low)
        return low - margin, high + margin

    def moving(self) -> Tensor:
        """(n,) bool: no trajectory of the system stands still."""
        return (self.states.std(2).amax(-1) > STILL).all(1)

    def to(self, device: torch.device) -> "Systems":
        """The same systems on another device."""
        return Systems(self.fields.map(lambda tensor: tensor.to(device)), self.states.to(device))

    def record_stream(self, stream: torch.cuda.Stream) -> None:
        """Mark every tensor as read by another stream of the GPU."""
        self.states.record_stream(stream)
        self.fields.map(lambda tensor: tensor.record_stream(stream) or tensor)

    @staticmethod
    def join(parts: Sequence["Systems"]) -> "Systems":
        """All systems of some parts, one after the other."""
        return Systems(Fields.join([p.fields for p in parts]), torch.cat([p.states for p in parts]))


# --- integration ---


class Moment(NamedTuple):
    """n systems on the way, the systems last in each tensor: states, rates and summed errors (d, 9, n)."""

    x: Tensor
    rate: Tensor | None = None
    error: Tensor | None = None

    def keep(self, index: Tensor) -> "Moment":
        """Some of the systems."""
        return Moment(*(part if part is None else part[..., index].contiguous() for part in self))


Step = Callable[[Columns, Moment, float], Moment]


def _euler(columns: Columns, now: Moment, step: float) -> Moment:
    return Moment(torch.add(now.x, rates(columns, now.x), alpha=step))


_NODES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


def _combined(slopes: list[Tensor], weights: tuple[float, ...], step: float, start: Tensor) -> Tensor:
    for slope, weight in zip(slopes, weights, strict=True):
        if weight:
            start = torch.add(start, slope, alpha=step * weight)
    return start


def _dormand_prince(columns: Columns, now: Moment, step: float) -> Moment:
    """One step of order 5 that adds its embedded error estimate (Dormand and Prince 1980)."""
    slopes = [rates(columns, now.x) if now.rate is None else now.rate]
    for weights in _NODES:
        x = _combined(slopes, weights, step, now.x)
        slopes.append(rates(columns, x))
    error = _combined(slopes, _ERROR, step, torch.zeros_like(x)).abs()
    return Moment(x, slopes[-1], error if now.error is None else now.error + error)


# Name -> one step, and the longest step it takes: 0.0025 is the paper's.
SCHEMES: dict[str, tuple[Step, float]] = {
    "euler": (_euler, SAMPLING_STEP / EULER_STEPS),
    "dormand-prince": (_dormand_prince, SAMPLING_STEP / PAIR_STEPS),
}


def spacing(samples: int) -> float:
    """Time between samples where a trajectory has so many; the span is always the paper's 9.95."""
    return SAMPLING_STEP * ((N_SAMPLES - 1) / (samples - 1))


@torch.no_grad()
def integrate(
    fields: Fields,
    start: Tensor,
    integration: str = "euler",
    samples: int = N_SAMPLES,
    compact: bool = True,
) -> tuple[Tensor, Tensor]:
    """Trajectories of many systems at once, and which of them to keep.

    Parameters
    ----------
    fields : Fields
        n systems.
    start : Tensor
        Initial states (n, 9, d); its type is the type of the integration.
    integration : str
        A name in `SCHEMES`.
    samples : int
        States to return of each trajectory, evenly over the span.
    compact : bool
        Drop rejected systems on the way: less work, but the host must count them. Without it all shapes are
        fixed and nothing waits for the device.

    Returns
    -------
    states : Tensor
        (n', 9, samples, d); all n where not compacted.
    kept : Tensor
        Indices (n',) of the systems returned where compacted; else (n,) bool.
    """
    advance, longest = SCHEMES[integration]
    step = spacing(samples)
    substeps = math.ceil(step / longest - 1e-9)
    alive = torch.arange(len(fields), device=start.device)
    good = torch.ones(len(fields), dtype=torch.bool, device=start.device)
    now, columns = Moment(start.permute(2, 1, 0).contiguous()), fields.columns()
    path = [now.x]
    for number in range(1, samples):
        for _ in range(substeps):
            now = advance(columns, now, step / substeps)
        path.append(now.x)
        last = number == samples - 1
        if number % _CHECK_EVERY == 0 or last:
            good &= (torch.stack(path[-_CHECK_EVERY - 1 :]).abs() < BOUND).all(0).all(0).all(0)  # not NaN
            if last and now.error is not None:
                good &= _accurate(torch.stack(path), now.error)
            if compact and not good.all():
                alive, now, fields = alive[good], now.keep(good), fields[good]
                path = [x[..., good] for x in path]
                columns, good = fields.columns(), good[good]
    return torch.stack(path).permute(3, 2, 0, 1).contiguous(), alive if compact else good


def _accurate(path: Tensor, error: Tensor) -> Tensor:
    """Which systems (n,) have errors (d, 9, n) far below each coordinate's range on a path (N, d, 9, n)."""
    # far from zero float32 leaves a small range few digits: one percent of the size counts too
    size = path.amax(0) - path.amin(0) + 1e-2 * path.abs().amax(0)
    return (error <= TOLERANCE * size).all(0).all(0)


@dataclass(frozen=True)
class Integration:
    """How finely and in which type systems are integrated; a prior knows by which scheme.

    Attributes
    ----------
    samples : int
        States kept of each trajectory.
    dtype : torch.dtype
        float64 for errors near 1e-6 instead of 1e-4; states are kept in float32 all the same.
    """

    samples: int = N_SAMPLES
    dtype: torch.dtype = torch.float32

    def run(self, fields: Fields, start: Tensor, scheme: str, compact: bool) -> tuple[Tensor, Tensor]:
        """`integrate` with these settings; states in float32."""
        exact = fields.map(lambda tensor: tensor.to(self.dtype))
        states, kept = integrate(exact, start.to(self.dtype), scheme, self.samples, compact)
        return states.float(), kept


def generate(
    prior: str,
    dim: int,
    n: int,
    seed: int,
    settings: Integration = Integration(),
    device: torch.device | str = "cpu",
) -> Systems:
    """n accepted systems of a prior and dimension, the same for the same seed on one kind of device."""
    parts = [
        generate_single(name, dim, count, seed + 10**9 * number, settings, device)
        for number, (name, count) in enumerate(components(prior, dim, n))
    ]
    return Systems.join(parts)


def generate_single(
    name: str,
    dim: int,
    n: int,
    seed: int,
    settings: Integration,
    device: torch.device | str,
    at_once: int | None = None,
) -> Systems:
    """`generate` for a prior that is no mixture, so many systems drawn at once."""
    generator = torch.Generator(device).manual_seed(seed)
    sampler = single(name)
    parts, found = [], 0
    size = min(_DRAWN, 8 * n) if at_once is None else at_once
    while found < n:
        fields = sampler.fields(size, dim, generator)
        start = sampler.starts(size, N_TRAJECTORIES, dim, generator)
        states, alive = settings.run(fields, start, sampler.integration, compact=True)
        parts.append(Systems(fields[alive], states))
        found += len(alive)
    return Systems.join(parts)[:n]


def generate_fixed(
    name: str,
    dim: int,
    n: int,
    drawn: int,
    seed: int,
    device: torch.device,
    settings: Integration = Integration(),
) -> tuple[Systems, Tensor]:
    """n moving systems of a prior that is no mixture, without waiting for the device.

    Enough should be drawn that n are accepted almost surely; if not, accepted ones are repeated.
    The host waits where constants are copied to the device, at the first call, and for `chaotic` flows, which
    are found by trying.

    Returns
    -------
    Systems
        n systems on `device`.
    Tensor
        How many different ones there were to choose from, on `device`.
    """
    generator = torch.Generator(device).manual_seed(seed)
    sampler = single(name)
    fields = sampler.fields(drawn, dim, generator)
    start = sampler.starts(drawn, N_TRAJECTORIES, dim, generator)
    states, good = settings.run(fields, start, sampler.integration, compact=False)
    good = good & Systems(fields, states).moving()
    found = good.sum()
    order = (~good).to(torch.uint8).argsort(stable=True)
    chosen = order[torch.arange(n, device=device) % found.clamp(min=1)]
    return Systems(fields[chosen], states[chosen]), found


def cached(
    folder: Path, prior: str, dim: int, n: int, seed: int, settings: Integration = Integration()
) -> Systems:
    """`generate` kept in a file of `folder`, named by a hash of everything that determines it."""
    grid = (N_TRAJECTORIES, N_SAMPLES, SAMPLING_STEP, EULER_STEPS, BOUND, _DRAWN)
    recipe: tuple = (prior, dim, n, seed, *grid)
    if prior not in _CONSTANT:
        drawn = tuple((single(name), count) for name, count in components(prior, dim, n))
        recipe += drawn, TOLERANCE, PAIR_STEPS
    if settings != Integration():
        recipe += (settings.samples, settings.dtype)
    path = folder / f"{prior}-{dim}d-{hashlib.sha256(repr(recipe).encode()).hexdigest()[:12]}.safetensors"
    if path.exists():
        return load_systems(path)
    systems = generate(prior, dim, n, seed, settings)
    folder.mkdir(parents=True, exist_ok=True)
    save_systems(path, systems)
    return systems


def save_systems(path: Path, systems: Systems) -> None:
    """Write systems to a safetensors file."""
    tensors = {"coefficients": systems.coefficients, "states": systems.states}
    ridge = systems.fields.ridge
    if ridge is not None:
        tensors |= ridge.tensors()
    content = {name: tensor.contiguous() for name, tensor in tensors.items()}
    replace_file(path, save(content, {"functions": " ".join(ridge.functions if ridge else ())}))


def load_systems(path: Path) -> Systems:
    """Read what `save_systems` wrote."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        functions = tuple((file.metadata() or {}).get("functions", "").split())
    states, coefficients = tensors.pop("states"), tensors.pop("coefficients")
    return Systems(Fields(coefficients, Ridge(functions, **tensors) if functions else None), states)


def fingerprint(systems: Systems) -> str:
    """First 12 hexadecimal digits of a hash of all tensors."""
    tensors = [systems.states, systems.coefficients]
    if systems.fields.ridge is not None:
        tensors += systems.fields.ridge.tensors().values()
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:12]
