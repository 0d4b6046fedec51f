"""The network that ranks candidate fields: its training, scores and export."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from fim_dynsys.models.fim_ode.weights import CALIBRATION, SELECTOR, write_part
from training.choice.shards import LabelledContexts

EXACT = 0.25
"""Of a success, for exactly the terms of a polynomial system."""


class Ranker(nn.Module):
    """The network of `fim_dynsys.search.selector.Selector`, in torch for training."""

    def __init__(self, n_features: int, width: int = 48, dropout: float = 0.2):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.first = nn.Linear(n_features, width)
        self.own = nn.Linear(width, width)
        self.mix, self.pool = nn.Linear(width, width), nn.Linear(3 * width, width, bias=False)
        self.mix2, self.pool2 = nn.Linear(width, width), nn.Linear(3 * width, width, bias=False)
        self.out = nn.Linear(width, 1, bias=False)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Logits (B, C) of standardised features (B, C, F); -inf where the mask (B, C) is false."""
        gelu = nn.GELU(approximate="tanh")
        hidden = self.drop(gelu(self.own(self.drop(gelu(self.first(x))))))
        for mix, pool in ((self.mix, self.pool), (self.mix2, self.pool2)):
            hidden = hidden + self.drop(gelu(mix(hidden) + pool(_pooled(hidden, mask))[:, None]))
        return self.out(hidden)[..., 0].masked_fill(~mask, -torch.inf)

    def tensors(self) -> dict[str, Tensor]:
        """Tensors under the names that `Selector` reads."""
        named = {"in": self.first, "own": self.own, "mix": self.mix, "mix2": self.mix2}
        named |= {"pool": self.pool, "pool2": self.pool2, "out": self.out}
        out = {}
        for name, layer in named.items():
            out[name] = layer.weight.detach().T
            if layer.bias is not None:
                out[f"{name}_bias"] = layer.bias.detach()
        return out


def _pooled(hidden: Tensor, mask: Tensor) -> Tensor:
    kept = mask[..., None]
    mean = (hidden * kept).sum(1) / kept.sum(1)
    highest = hidden.masked_fill(~kept, -torch.inf).amax(1)
    return torch.cat([mean, highest, hidden[:, 0]], -1)


def utility(labels: Tensor) -> Tensor:
    """What a choice is worth: both successes, and shares for a field near the truth and its very terms."""
    near = 1.0 / (1.0 + 5.0 * labels[..., 2]) + 1.0 / (1.0 + 2.0 * labels[..., 3])
    return labels[..., 0] + labels[..., 1] + 0.25 * near + EXACT * labels[..., 4]


def train(
    data: LabelledContexts, seed: int, steps: int, width: int = 48, device: torch.device | str = "cpu"
) -> Ranker:
    """Raise the expected utility of a choice drawn from the softmax, by AdamW with a cosine schedule.

    Trained on `device`, returned on the CPU.
    """
    torch.manual_seed(seed)
    data = data.to(device)
    ranker = Ranker(data.features.shape[2], width).to(device)
    optimiser = torch.optim.AdamW(ranker.parameters(), lr=2e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    effective_sample_size = utility(data.labels)
    generator = torch.Generator(device).manual_seed(seed)
    for _ in tqdm(range(steps), desc=f"member {seed}", disable=None, leave=False):
        index = torch.randint(len(effective_sample_size), (128,), generator=generator, device=device)
        values, mask = data.features[index], data.mask[index]
        values = values + 0.1 * torch.randn(values.shape, generator=generator, device=device)
        logits = ranker(values, mask)
        loss = -(logits.softmax(-1) * effective_sample_size[index]).sum(-1).mean()
        # some cross-entropy to the softened best keeps gradients where a choice is sure and wrong
        target = (4.0 * effective_sample_size[index]).masked_fill(~mask, -torch.inf).softmax(-1)
        loss = loss - 0.1 * (target * logits.log_softmax(-1).clamp(min=-50)).sum(-1).mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(ranker.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return ranker.eval().cpu()


def scores(data: LabelledContexts, choice: Tensor) -> dict[str, float]:
    """Means of one choice (N,) per context, in percent; exact terms where some candidate has them."""
    chosen = data.labels[torch.arange(len(choice)), choice]
    determined = data.labels[..., 4].amax(1) > 0
    return {
        "reconstruction": 100 * float(chosen[:, 0].mean()),
        "generalisation": 100 * float(chosen[:, 1].mean()),
        "exact, where one is": 100 * float(chosen[determined, 4].mean()),
    }


def report(data: LabelledContexts, logits: Tensor) -> dict[str, dict[str, float]]:
    """The choice beside that of BIC (the first candidate) and of an oracle of the same utility."""
    effective_sample_size = utility(data.labels).masked_fill(~data.mask, -torch.inf)
    rules = {"BIC": scores(data, torch.zeros(len(effective_sample_size), dtype=torch.long))}
    return rules | {
        "selector": scores(data, logits.argmax(-1)),
        "oracle": scores(data, effective_sample_size.argmax(-1)),
    }


def selector_tensors(members: list[Ranker], centre: Tensor, spread: Tensor) -> dict[str, Tensor]:
    """Tensors that `Selector.from_tensors` reads."""
    tensors = {f"{i}/{name}": v for i, member in enumerate(members) for name, v in member.tensors().items()}
    return tensors | {"centre": centre, "spread": spread}


def export(path: Path, operator: Path, selector: dict[str, Tensor], header: dict) -> None:
    """The operator's weights file with another `Selector`, float16, and no calibration: that comes last."""
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in selector.items()}
    write_part(operator, path, CALIBRATION, {}, {"calibration": None})
    write_part(path, path, SELECTOR, arrays, {"selector": header}, np.float16)
