"""Networks of several weight decays and folds, trained together by shooting."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fim_dynsys.deadline import Deadline
from fim_dynsys_common.data import Batch
from fim_dynsys_common.heldout import held_out_blocks
from fim_dynsys_common.networks import Networks, Weights
from fim_dynsys_common.rollout import DenseRk4
from fim_dynsys_common.shooting import Segments
from fim_dynsys_common.training import generator, train

MAX_STEP = 0.4  # of Runge-Kutta, in units of time of the data
_MATCHING_STEPS, _MATCHING_RATE = 300, 5e-3
_MATCHED, _ROLLED = 1000, 64  # samples and segments in one step
_TIGHTEST = 100.0  # factor by which jumps cost more in the end
_EVERY, _PATIENCE = 25, 150


@dataclass(frozen=True)
class Settings:
    """What the model's parameters say of training; see `NeuralODE`."""

    hidden: tuple[int, ...]
    segment: int | None
    decays: Sequence[float]
    steps: int
    learning_rate: float
    folds: int
    seed: int


@dataclass(frozen=True)
class Choice:
    """The network that was chosen.

    Attributes
    ----------
    weights : Weights
        Of one network, fitted to all samples.
    starts : ndarray (K, d)
        First state of each trajectory, in normalised units.
    weight_decay : float
    held_out : float
        Mean squared error of the networks of this weight decay on the blocks that each did not see.
    step : int
        Steps it was trained for.
    ended : str
        As of `Trained`.
    """

    weights: Weights
    starts: np.ndarray
    weight_decay: float
    held_out: float
    step: int
    ended: str


class Shooting:
    """``Q (F + 1)`` networks: for each of Q weight decays one for each of F folds and one for all samples."""

    def __init__(self, batch: Batch, settings: Settings):
        self.settings = settings
        held = held_out_blocks(batch.n_obs, settings.folds)
        self.n_folds, self.n_decays = len(held), len(settings.decays)
        held = torch.cat([held, torch.zeros_like(held[:1])])
        source, dtype = generator(settings.seed), batch.x.dtype
        count = self.n_decays * len(held)
        self.networks = Networks(count, batch.dim, settings.hidden, source, dtype, alike=True)
        self.decay = torch.tensor(settings.decays, dtype=dtype).repeat_interleave(len(held))
        self.source = source
        self.segments = segments = Segments.of(batch, settings.segment)
        self.linked = torch.zeros(len(segments), dtype=dtype)
        self.linked[segments.linked] = 1.0
        self.observed = segments.gather(batch.x)
        out = torch.stack([segments.gather(mask) for mask in held])
        self.fitted = self._shares(segments.own & ~out)
        self.judged = (segments.own & out)[:-1].to(dtype)
        smooth = [batch.smooth(mask) for mask in held]
        starts = torch.stack([segments.starts(states) for states, _ in smooth])
        self.starts = starts.repeat(self.n_decays, 1, 1).requires_grad_()
        self._sampled = torch.tensor(np.arange(batch.t.shape[1]) < np.array(batch.n_obs)[:, None])
        self._smooth = smooth
        self._seen = ~held[:, self._sampled]

    def _shares(self, chosen: Tensor) -> Tensor:
        """Weights (Q (F + 1), S, W + 1) of samples, of sum 1 for each network."""
        share = chosen.to(self.linked.dtype)
        return (share / share.sum(dim=(1, 2), keepdim=True)).repeat(self.n_decays, 1, 1)

    def match_slopes(self, deadline: Deadline) -> None:
        """Fit the networks to the slopes of smoothed paths; the linear parts start by least squares."""
        states, slopes = (torch.stack([part[k][self._sampled] for part in self._smooth]) for k in (0, 1))
        seen = self._seen.to(states.dtype)[..., None]
        if states.shape[1] > _MATCHED:
            rows = torch.randperm(states.shape[1], generator=self.source)[:_MATCHED]
            states, slopes, seen = states[:, rows], slopes[:, rows], seen[:, rows]
        columns = torch.cat([states, torch.ones_like(seen)], dim=-1) * seen
        # not torch.linalg.lstsq, which wants columns of full rank: a coordinate may be constant
        solution = torch.linalg.pinv(columns) @ (slopes * seen)
        with torch.no_grad():
            self.networks.linear.add_(solution[:, :-1].repeat(self.n_decays, 1, 1))
            self.networks.biases[-1].add_(solution[:, -1:].repeat(self.n_decays, 1, 1))
        states, slopes, seen = (part.repeat(self.n_decays, 1, 1) for part in (states, slopes, seen))
        share = seen / seen.sum(dim=1, keepdim=True)
        optimiser = torch.optim.Adam(self.networks.parameters(), lr=_MATCHING_RATE)
        for _ in range(_MATCHING_STEPS):
            if deadline.passed():
                return
            errors = ((self.networks(states) - slopes) ** 2 * share).sum(dim=1).mean(dim=1)
            optimiser.zero_grad()
            (errors + self.decay * self.networks.squares()).sum().backward()
            optimiser.step()

    def shoot(self, caller: str, deadline: Deadline, progress: bool | None) -> Choice:
        """Fit networks and starts to the samples, and choose by the blocks that networks did not see."""
        groups = [self.networks.parameters(), [self.starts]]
        optimiser = torch.optim.Adam([{"params": list(group)} for group in groups])
        scores = torch.zeros(self.n_decays)

        def step(i: int) -> float:
            done = i / self.settings.steps
            for group in optimiser.param_groups:
                group["lr"] = self.settings.learning_rate * (
                    0.01 + 0.99 * math.cos(0.5 * math.pi * done) ** 2
                )
            loss = self._loss(self._rows(), _TIGHTEST**done)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            return loss.item()

        def score() -> float:
            scores.copy_(self._held_out())
            return float(scores.min())

        def snapshot() -> tuple[int, float, Weights, np.ndarray]:
            best = int(scores.argmin())
            place = best * (self.n_folds + 1) + self.n_folds
            starts = self.starts.detach()[place, self.segments.is_first].double().numpy()
            return best, float(scores[best]), self.networks.copy([place]), starts

        trained = train(
            caller,
            step,
            score,
            snapshot,
            steps=self.settings.steps,
            every=_EVERY,
            patience=_PATIENCE,
            deadline=deadline,
            progress=progress,
        )
        best, held_out, weights, starts = trained.state
        return Choice(weights, starts, self.settings.decays[best], held_out, trained.step, trained.ended)

    def _rows(self) -> Tensor:
        count = len(self.segments)
        return (
            torch.randperm(count, generator=self.source)[:_ROLLED] if count > _ROLLED else torch.arange(count)
        )

    def _paths(self, rows: Tensor) -> Tensor:
        return DenseRk4(self.segments.times[rows], MAX_STEP)(self.networks, self.starts[:, rows])

    def _loss(self, rows: Tensor, tightness: float) -> Tensor:
        paths, part = self._paths(rows), len(self.segments) / len(rows)
        errors = ((paths - self.observed[rows]) ** 2).mean(dim=-1)
        misfit = part * (errors * self.fitted[:, rows]).sum(dim=(1, 2))
        after = (rows + 1).clamp(max=len(self.segments) - 1)
        jumps = ((self.starts[:, after] - paths[:, :, -1]) ** 2).mean(dim=-1) * self.linked[rows]
        continuity = part * jumps.sum(dim=1) / max(len(self.segments.linked), 1)
        return (misfit + tightness * continuity + self.decay * self.networks.squares()).sum()

    @torch.no_grad()
    def _held_out(self) -> Tensor:
        """Mean squared error (Q,) over the held-out samples of all folds."""
        total = torch.zeros(self.n_decays, self.n_folds, dtype=self.starts.dtype)
        for rows in torch.arange(len(self.segments)).split(4 * _ROLLED):
            errors = ((self._paths(rows) - self.observed[rows]) ** 2).mean(dim=-1)
            by_fold = errors.unflatten(0, (self.n_decays, self.n_folds + 1))[:, :-1]
            total += (by_fold * self.judged[:, rows]).sum(dim=(2, 3))
        return (total.sum(dim=1) / self.judged.sum()).float()
