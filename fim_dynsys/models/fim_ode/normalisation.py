"""Units in which the published network sees a context, and the transitions it reads in those units."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

MINIMUM_STD = 1e-6  # of a state that does not vary; as in training
TYPICAL_STEP = 0.01  # to which the geometric mean of the time steps is scaled; as in training
CLOCKS = ("step", "speed")


@dataclass(frozen=True)
class Normalisation:
    """Affine map of states and scale of time, one per context.

    In normalised units ``z = (x - mean) / std`` and ``s = rate * t``, so a field ``g(z)`` read there is
    ``std * rate * g`` in the units of the data.

    Attributes
    ----------
    mean, std : Tensor (B, D), float64
        Mean and population standard deviation over all observed points of all trajectories.
    rate : Tensor (B,), float64
        Normalised time per unit of time, see `normalise`.
    """

    mean: Tensor
    std: Tensor
    rate: Tensor

    def states(self, x: Tensor) -> Tensor:
        """Normalised states (B, ..., D) of `x` (B, ..., D)."""
        return (x - _align(self.mean, x)) / _align(self.std, x)

    def field(self, g: Tensor) -> Tensor:
        """Field (B, ..., D) in the units of the data, of `g` (B, ..., D) in normalised units."""
        return g * _align(self.std * self.rate[:, None], g)


@dataclass(frozen=True)
class Transitions:
    """Steps between successive observations of one trajectory, as the encoder reads them.

    Attributes
    ----------
    dt : Tensor (B, J, 1)
    x, dx : Tensor (B, J, D)
        State at the start of each step and its change, in normalised units; zero where `mask` is False.
    mask : Tensor (B, J), bool
        True for a real step. ``J = K (L - 1)`` slots; trajectories are not distinguished.
    """

    dt: Tensor
    x: Tensor
    dx: Tensor
    mask: Tensor


def normalise(t: Tensor, x: Tensor, mask: Tensor, clock: str = "step") -> tuple[Normalisation, Transitions]:
    """Bring contexts to normalised units and list their transitions.

    A step runs from an observed point to the *next observed* one of the same trajectory, with the time that
    really passed; what stands at unobserved slots is never read. All sums are taken in float64, and only
    differences of times are used, so that long times and large offsets cost no accuracy later on.

    Parameters
    ----------
    t : Tensor (B, K, L)
        Times, increasing over the observed points of each trajectory.
    x : Tensor (B, K, L, D)
        States.
    mask : Tensor (B, K, L), bool
        True where a point was observed.
    clock : {"step", "speed"}
        What normalised time is measured by: the geometric mean of the observed steps becomes 0.01, or the
        mean observed speed becomes 1 (one standard deviation of each state a unit of time; by steps where
        nothing moves).

    Returns
    -------
    Normalisation, Transitions
    """
    t, x = t.double(), x.double()
    following, has_next = _next_observed(mask)
    dt = torch.where(has_next, t.gather(-1, following) - t[..., :-1], 0.0)
    normalisation = Normalisation(*moments(x, mask), rate=_rate(dt, has_next))
    z = normalisation.states(torch.where(mask[..., None], x, 0.0))
    start = z[..., :-1, :]
    stop = z.gather(-2, following[..., None].expand_as(start))
    observed = has_next[..., None]
    dx = torch.where(observed, stop - start, 0.0)
    if clock == "speed":
        normalisation = replace(normalisation, rate=_pace(dx, dt, has_next, normalisation.rate))
    transitions = Transitions(
        dt=(dt * normalisation.rate[:, None, None]).flatten(1)[..., None],
        x=torch.where(observed, start, 0.0).flatten(1, 2),
        dx=dx.flatten(1, 2),
        mask=has_next.flatten(1),
    )
    return normalisation, transitions


def _next_observed(mask: Tensor) -> tuple[Tensor, Tensor]:
    """For slots 0 to L - 2: index of the next observed slot (valid everywhere), and whether a step starts."""
    length = mask.shape[-1]
    slots = torch.arange(length, device=mask.device).expand_as(mask)
    observed = torch.where(mask, slots, length)
    nearest = observed.flip(-1).cummin(-1).values.flip(-1)[..., 1:]
    return nearest.clamp(max=length - 1), mask[..., :-1] & (nearest < length)


def moments(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and population standard deviation (B, D) of the observed points of `x` (B, K, L, D)."""
    weight = mask[..., None].double()
    count = weight.sum((1, 2)).clamp(min=1.0)
    mean = torch.where(mask[..., None], x, 0.0).sum((1, 2)) / count
    deviation = torch.where(mask[..., None], x - _align(mean, x), 0.0)
    std = (deviation.square().sum((1, 2)) / count).sqrt()
    return mean, std.clamp(min=MINIMUM_STD)


def _rate(dt: Tensor, valid: Tensor) -> Tensor:
    valid = valid & (dt > 0)
    logs = torch.where(valid, dt, 1.0).log().sum((1, 2))
    return TYPICAL_STEP * torch.exp(-logs / valid.sum((1, 2)).clamp(min=1))


def _pace(dx: Tensor, dt: Tensor, valid: Tensor, otherwise: Tensor) -> Tensor:
    """Mean normalised speed (B,), a mean over moving states."""
    moves = (dx != 0).any((1, 2)).sum(-1).clamp(min=1)
    time = torch.where(valid & (dt > 0), dt, 0.0).sum((1, 2))
    pace = dx.abs().sum((1, 2, 3)) / (moves * time.clamp(min=torch.finfo(time.dtype).tiny))
    return torch.where((pace > 0) & pace.isfinite(), pace, otherwise)


def _align(statistic: Tensor, x: Tensor) -> Tensor:
    """Insert axes into (B, D) so that it broadcasts against (B, ..., D)."""
    return statistic.reshape(statistic.shape[0], *(1,) * (x.ndim - 2), statistic.shape[-1])
