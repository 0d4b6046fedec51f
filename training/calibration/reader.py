"""The network that says how far coefficients may be off: its loss, training and scores."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import relu
from tqdm.auto import tqdm

from fim_dynsys.models.fim_ode.calibration import N_CONTEXT, N_TOKEN
from training.calibration.bands import QUANTILES, band_scores
from training.calibration.shards import N_POINTS
from training.objective import PLACES

SCORE_WEIGHT = 0.5
_LOG_BOUND = 12.0


class Reader(nn.Module):
    """The network of `fim_dynsys.models.fim_ode.calibration.Calibration`, batched in torch for training."""

    context_centre: Tensor
    context_spread: Tensor
    token_centre: Tensor
    token_spread: Tensor

    def __init__(self) -> None:
        super().__init__()
        width = 16
        self.data_1, self.data_2 = nn.Linear(N_CONTEXT, width), nn.Linear(width, 1)
        self.term_1 = nn.Linear(N_CONTEXT + N_TOKEN, width)
        self.term_2, self.term_3 = nn.Linear(width, width), nn.Linear(width, 1)
        for name, size in (("context", N_CONTEXT), ("token", N_TOKEN)):
            self.register_buffer(f"{name}_centre", torch.zeros(size))
            self.register_buffer(f"{name}_spread", torch.ones(size))

    def standardise_by(self, parts: list[dict[str, Tensor]]) -> None:
        """Take centre and spread of the inputs from data."""
        for name, key in (("context", "context"), ("token", "tokens")):
            rows = torch.cat([part[key].flatten(0, -2) for part in parts])
            getattr(self, f"{name}_centre").copy_(rows.mean(0))
            getattr(self, f"{name}_spread").copy_(rows.std(0).clamp(min=1e-3))

    def forward(self, data: dict[str, Tensor]) -> Tensor:
        """Deviations (B, P, d) at the points of B contexts, in units of their rates."""
        context = (data["context"] - self.context_centre) / self.context_spread
        tokens = (data["tokens"] - self.token_centre) / self.token_spread
        weight = self.data_2(self.data_1(context).tanh())[..., 0] - 2.0
        repeated = context[:, :, None].expand(-1, -1, tokens.shape[2], -1)
        hidden = self.term_2(self.term_1(torch.cat([repeated, tokens], -1)).tanh()).tanh()
        deviation = self.term_3(hidden)[..., 0] - 1.0
        w = torch.exp(deviation.clamp(-_LOG_BOUND, _LOG_BOUND))
        v = torch.exp(2.0 * weight.clamp(-_LOG_BOUND, _LOG_BOUND))[..., None, None]
        eye = torch.eye(w.shape[-1], dtype=w.dtype)
        lower = torch.linalg.cholesky(w[..., :, None] * data["information"] * w[..., None, :] * v + eye)
        columns = (data["columns"][:, None] * w[:, :, None]).transpose(-1, -2)
        return torch.linalg.solve_triangular(lower, columns, upper=False).norm(dim=-2).transpose(1, 2)

    def arrays(self, factor: list[float]) -> dict[str, np.ndarray]:
        """What `Calibration` reads."""
        named = {name.replace(".", "_"): value.numpy() for name, value in self.state_dict().items()}
        return named | {"factor": np.array(factor)}


def loss(reader: Reader, data: dict[str, Tensor]) -> Tensor:
    """How far the 90 % quantile of the errors is from its place, plus the log of the interval score.

    Both count each context and point alike, however large its errors.
    """
    deviation, error = reader(data) + 1e-7, data["errors"].abs()
    z = QUANTILES[90]
    ratio = torch.log(error + 1e-7) - torch.log(z * deviation)
    quantile = torch.maximum(0.9 * ratio, -0.1 * ratio).mean()
    score = 2 * z * deviation + 20 * relu(error - z * deviation)
    return quantile + SCORE_WEIGHT * torch.log1p(score / data["typical"][:, None]).mean()


def fit(parts: list[dict[str, Tensor]], steps: int) -> Reader:
    """A reader trained on contexts of several dimensions, as many of each in every step."""
    batch, rate = 64, 1e-2
    torch.manual_seed(0)
    reader = Reader().double()
    reader.standardise_by(parts)
    optimiser = torch.optim.AdamW(reader.parameters(), lr=rate, weight_decay=1e-3)
    for step in tqdm(range(steps), desc="steps", disable=None, leave=False):
        for group in optimiser.param_groups:
            group["lr"] = rate * (1 - step / steps)
        total = torch.zeros(())
        for part in parts:
            index = torch.randint(len(part["errors"]), (batch,))
            total = total + loss(reader, {name: values[index] for name, values in part.items()})
        optimiser.zero_grad()
        total.backward()
        nn.utils.clip_grad_norm_(reader.parameters(), 1.0, error_if_nonfinite=True)
        optimiser.step()
    return reader


@torch.no_grad()
def last_factor(reader: Reader, data: dict[str, Tensor]) -> float:
    """By which deviations are multiplied so that 90 % of the errors lie within their band."""
    ratio = data["errors"].abs() / (reader(data) + 1e-12)
    return float(torch.quantile(ratio.flatten(), 0.9)) / QUANTILES[90]


@torch.no_grad()
def scores(reader: Reader, data: dict[str, Tensor], factor: float) -> dict[str, float]:
    """`band_scores` in typical rates, and the coverage in each place."""
    typical = data["typical"][:, None]
    errors, deviations = data["errors"] / typical, factor * reader(data) / typical
    result = band_scores(errors.numpy(), deviations.numpy())
    for k, place in enumerate(PLACES):
        rows = slice(k * N_POINTS, (k + 1) * N_POINTS)
        inside = errors[:, rows].abs() <= QUANTILES[90] * deviations[:, rows]
        result[f"cover 90, {place}"] = 100 * float(inside.double().mean())
    return result
