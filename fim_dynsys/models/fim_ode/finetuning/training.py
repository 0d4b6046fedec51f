"""The training loop of one context: Adam on rollouts, the best state by what is held out, resumable."""

import copy
import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from safetensors.torch import save
from torch import Tensor

from fim_dynsys.analyze.results import progress_bar
from fim_dynsys.deadline import Deadline
from fim_dynsys.delta import Delta
from fim_dynsys.errors import TuningWarning, warn
from fim_dynsys.models.fim_ode.batching import padded_batch, power_units, scaled_samples
from fim_dynsys.models.fim_ode.finetuning.decoding import MOVES, FoldedDecoder, effective, movable
from fim_dynsys.models.fim_ode.finetuning.rollouts import Rollouts
from fim_dynsys.models.fim_ode.published_operators import DecodedOperator
from fim_dynsys.models.fim_ode.weights import opened_safetensors
from fim_dynsys.models.finetuning.blocks import FOLDS, held_out_blocks
from fim_dynsys.models.finetuning.record import digest_of, foreign
from fim_dynsys.models.finetuning.residual import HISTORY, METHODS, check_method
from fim_dynsys.regression.observed import SPLINE
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.writing import replace_file

_BLOCK = 5  # samples in a held-out block
_WINDOWS = (4, 8, 16, 25)  # samples that starts are followed for: a wrong field is lost on longer ways
_GROWS = 30  # steps with each but the last
_FAR = 100  # samples: a field that follows windows alone may leave the data in the long run
_CLIP = 1.0  # largest norm of a gradient
_KEY = "fim_dynsys_finetuning"
_SAVING = 0.1  # largest share of the time that writing checkpoints takes
_VERSION = 3  # raised when results change: a checkpoint of an earlier way is then refused
# What moves little by little, and what starts at zero or is small.
_RATES = {"all": 2e-5, "decoder": 5e-4, "low-rank": 1e-3, "last": 1e-3}


@dataclass(frozen=True)
class NetworkTuning:
    """How a network is tuned.

    Attributes
    ----------
    method : {"multiple-shooting", "single-shooting"}
    moves : {"all", "decoder", "low-rank", "last"}
    steps : int
        Of the optimiser, at most.
    learning_rate : float or None
        None: one for what moves.
    start_noise : float
        Standard deviation of what is added to the starts in each step, in standard deviations of the states;
        the default is a fifth of the typical step of normalised time, as in the paper.
    every, patience : int
        Steps between scores, and without a better one before it ends.
    seed : int
        Of the noise, of new factors, and of which blocks are held out.
    """

    method: str = METHODS[0]
    moves: str = "decoder"
    steps: int = 300
    learning_rate: float | None = None
    start_noise: float = 2e-3
    every: int = 5
    patience: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        check_method(self.method)
        if self.moves not in MOVES:
            raise ValueError(f"finetune: expected moves among {', '.join(MOVES)}, got {self.moves!r}.")
        least = {"steps": 1, "every": 1, "patience": 1, "seed": 0}
        wrong = [name for name, low in least.items() if not _is_int(getattr(self, name), low)]
        if wrong or not 0 <= self.start_noise < math.inf or not 0 < self.rate < math.inf:
            raise ValueError(
                "finetune: expected steps, every and patience from 1, a seed and start_noise from 0 and a "
                f"learning_rate above 0, got {self}."
            )

    @property
    def rate(self) -> float:
        """The learning rate."""
        return _RATES[self.moves] if self.learning_rate is None else self.learning_rate


def _is_int(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


class Outcome(NamedTuple):
    """What tuning a network came to.

    Attributes
    ----------
    delta : Delta or None
        None where no state of the training predicted better than the first.
    history : DataFrame
        See `fim_dynsys.models.finetuning.residual.Tuned`.
    about : dict
        What `fit_info.report` says of it.
    """

    delta: Delta | None
    history: pd.DataFrame
    about: dict[str, Any]


class Problem:
    """One context, some blocks of it held out from the loss, and the loss of a network on it.

    Parameters
    ----------
    operator : DecodedOperator
        A copy of its network is tuned.
    trajectories : Trajectories
        Complete samples.
    how : NetworkTuning
    """

    def __init__(self, operator: DecodedOperator, trajectories: Trajectories, how: NetworkTuning) -> None:
        self.network, self.how = copy.deepcopy(operator.network), how
        self.dim = trajectories.dim
        self.moved = movable(self.network, how.moves, torch.Generator().manual_seed(how.seed))
        device = next(self.network.parameters()).device
        self.half = device.type == "cpu" and _multiplies_bfloat16()
        counts = [int(n) for n in trajectories.n_obs]
        masks = held_out_blocks(counts, _BLOCK)[how.seed % FOLDS]
        held_out = [torch.as_tensor(mask, device=device) for mask in masks]
        samples = scaled_samples(trajectories, power_units(trajectories))
        t, x, mask = (torch.as_tensor(part, device=device) for part in padded_batch([samples], self.dim))
        self.context = t, x, mask
        with torch.no_grad():
            self._encoding = self.network.encode(*self.context)
        units, dtype = self._encoding.normalisation, self._encoding.tokens.dtype
        z = (x[0] - units.mean[0, : self.dim]) / units.std[0, : self.dim]
        s = t[0] * units.rate[0]
        times = [s[k, :n].to(dtype) for k, n in enumerate(counts)]
        states = [z[k, :n].to(dtype) for k, n in enumerate(counts)]
        paths = [_smoothed(*seen) for seen in zip(times, states, held_out, strict=True)]
        windows = _WINDOWS if how.method == METHODS[0] else (None,)
        self.windows = [Rollouts.of(times, states, paths, held_out, window) for window in windows]
        self.rollouts = self.windows[-1]
        self._far = Rollouts.of(times, states, paths, held_out, _FAR)

    def decoder(self) -> FoldedDecoder:
        """The decoder with the context in it, as the weights are."""
        encoding = self.network.encode(*self.context) if self.how.moves == "all" else self._encoding
        weights = effective(self.network, self.moved)
        return FoldedDecoder(self.network, weights, encoding.tokens, encoding.mask)

    def losses(self) -> tuple[Tensor, Tensor]:
        """Loss of what is learnt from, and of what is held out."""
        return self.rollouts.losses(self.rollouts.paths(self.decoder(), self.rollouts.starts))

    def scores(self) -> tuple[float, float]:
        """Loss of what is learnt from, and the mean error of what is held out, on short and long ways."""
        with torch.no_grad():
            decoder = self.decoder()
            fitted, near = self.rollouts.losses(self.rollouts.paths(decoder, self.rollouts.starts))
            _, far = self._far.losses(self._far.paths(decoder, self._far.starts))
        return float(fitted), 0.5 * float(near + far)

    def at(self, step: int) -> Rollouts:
        """What a step learns from: windows grow."""
        return self.windows[min(step // _GROWS, len(self.windows) - 1)]

    def backward(self, rolls: Rollouts, noise: Tensor | float = 0.0) -> float:
        """The loss of what is learnt from, its gradients left with what moves; NaN where they are not finite.

        One point after another only its field is asked for. All derivatives follow from one evaluation of
        these points together: along the paths the field is its linearisation, which gives the loss'
        derivatives by each of its values, and these those by the weights. That evaluation is in bfloat16
        where the processor multiplies it: gradients to a percent, the loss and its paths as they are.
        `noise` (S, d) is added to the starts.
        """
        starts = rolls.starts + noise
        with torch.no_grad():
            fixed, points, found = self.decoder(), [], []

            def rate(z: Tensor) -> Tensor:
                points.append(z)
                found.append(fixed(z))
                return found[-1]

            rolls.paths(rate, starts)
        z = torch.cat(points).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.half):
            field = self.decoder()(z)
        rows = [torch.autograd.grad(column.sum(), z, retain_graph=True)[0] for column in field.T]
        values = torch.cat(found).requires_grad_()
        jacobians = torch.stack(rows, dim=1)
        n = len(starts)
        pieces = zip(points, values.split(n), jacobians.split(n), strict=True)

        def linear(z: Tensor) -> Tensor:
            at, value, jacobian = next(pieces)
            return value + (jacobian @ (z - at)[:, :, None])[:, :, 0]

        loss, _ = rolls.losses(rolls.paths(linear, starts))
        (by_field,) = torch.autograd.grad(loss, values)
        if not by_field.isfinite().all():
            return math.nan
        field.backward(by_field.to(field))
        return loss.item()

    def noise(self, step: int) -> Tensor:
        """What is added to the starts in a step; the same whenever it is asked for."""
        generator = torch.Generator().manual_seed(self.how.seed * 1_000_003 + step)
        starts = self.at(step).starts
        return self.how.start_noise * torch.randn(starts.shape, generator=generator).to(starts)


def _multiplies_bfloat16() -> bool:
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def _smoothed(t: Tensor, z: Tensor, held_out: Tensor) -> Tensor:
    """States (n, d) without most of their noise, by what is not held out; the rest stay as they are."""
    path, kept = z.clone(), (~held_out).cpu().numpy()
    states, _ = SPLINE(t.cpu().double().numpy()[kept], z.cpu().double().numpy()[kept])
    path[~held_out] = torch.as_tensor(states).to(path)
    return path


class _Run:
    """The state of a training, and its file."""

    def __init__(self, problem: Problem, digest: str, path: str | os.PathLike | None) -> None:
        self.problem, self._digest = problem, digest
        self._path = None if path is None else Path(path)
        self.moved = problem.moved
        self.optimiser = torch.optim.Adam(self.moved.values(), lr=problem.how.rate, foreach=False)
        self.step, self.best_step, self.seconds = 0, 0, 0.0
        self.rows: list[list[float]] = []
        self.best = self._snapshot()
        self._written, self._writing = time.perf_counter(), 0.0
        if self._path is not None and self._path.exists():
            self._restore(self._path)

    def _snapshot(self) -> dict[str, Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self.moved.items()}

    @property
    def best_loss(self) -> float:
        return min((row[2] for row in self.rows), default=math.inf)

    def score(self) -> float:
        """Score the state as it is."""
        fitted, held_out = self.problem.scores()
        held_out = held_out if math.isfinite(held_out) else math.inf
        if not self.rows or held_out < self.best_loss:
            self.best, self.best_step = self._snapshot(), self.step
        self.rows.append([self.step, fitted, held_out, self.seconds])
        return held_out

    def advance(self) -> float:
        """One step of the optimiser; the loss before it."""
        self.optimiser.zero_grad()
        loss = self.problem.backward(self.problem.at(self.step), self.problem.noise(self.step))
        if math.isfinite(loss):
            torch.nn.utils.clip_grad_norm_(self.moved.values(), _CLIP)
            self.optimiser.step()
            self.step += 1
        return loss

    def write(self, last: bool) -> None:
        """Keep the state, unless this would take too much of the time."""
        elapsed = time.perf_counter() - self._written
        if self._path is None or not (last or self._writing <= _SAVING * elapsed):
            return
        start = time.perf_counter()
        about = {
            "digest": self._digest,
            "step": self.step,
            "best_step": self.best_step,
            "seconds": self.seconds,
            "rows": self.rows,
        }
        parts = {"now": self._snapshot(), "best": self.best}
        for key in ("exp_avg", "exp_avg_sq") if self.step else ():
            parts[key] = {name: self.optimiser.state[tensor][key] for name, tensor in self.moved.items()}
        tensors = {f"{part}/{name}": value for part, named in parts.items() for name, value in named.items()}
        replace_file(self._path, save(tensors, metadata={_KEY: json.dumps(about)}))
        self._written = time.perf_counter()
        self._writing = self._written - start

    def _restore(self, path: Path) -> None:
        try:
            with opened_safetensors(path, "pt") as file:
                about = json.loads(file.metadata()[_KEY])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (ValueError, KeyError, RecursionError) as error:
            raise foreign(path, f"a file of another kind ({error})") from error
        if about["digest"] != self._digest:
            raise foreign(path, "one of other data, other weights or other settings")
        self.step, self.best_step, self.seconds = about["step"], about["best_step"], about["seconds"]
        self.rows = about["rows"]
        with torch.no_grad():
            for name, tensor in self.moved.items():
                tensor.copy_(tensors[f"now/{name}"])
                self.best[name] = tensors[f"best/{name}"]
                if self.step:
                    self.optimiser.state[tensor] = {
                        "step": torch.tensor(float(self.step)),
                        "exp_avg": tensors[f"exp_avg/{name}"].to(tensor),
                        "exp_avg_sq": tensors[f"exp_avg_sq/{name}"].to(tensor),
                    }


def tune_network(
    operator: DecodedOperator,
    trajectories: Trajectories,
    how: NetworkTuning,
    deadline: Deadline,
    progress: bool | None = None,
    checkpoint: str | os.PathLike | None = None,
) -> Outcome:
    """Move a network's weights until the field it infers of one context follows the samples.

    Some blocks of samples are neither learnt from nor started at: by these the best state is chosen and the
    training ends. The context that is encoded holds them, so that what is scored is what will be inferred: a
    decoder is tuned to its context, and noise makes another of it where samples are added. A run that is
    killed goes on from its file to the same bytes, on the CPU with as many threads.

    Parameters
    ----------
    operator : DecodedOperator
        Left as it is.
    trajectories : Trajectories
        Complete samples.
    how : NetworkTuning
        What moves, and how.
    deadline : Deadline
        When to stop at the latest, up to one step and one score.
    progress : bool, optional
        Whether a bar is shown; default on a terminal.
    checkpoint : path-like, optional
        The file.

    Returns
    -------
    Outcome

    Raises
    ------
    ValueError
        If the samples are too few to hold any out, or the checkpoint belongs to another run.

    Warns
    -----
    TuningWarning
        Where no state predicts the held-out blocks better than the first.
    """
    with torch.inference_mode(False), torch.enable_grad():
        problem = Problem(operator, trajectories, how)
        run = _Run(problem, digest_of(trajectories, operator.version, how, _VERSION), checkpoint)
        ended = _trained(run, how, deadline, progress)
    if run.best_step == 0:
        warn(
            "finetune: no state of the training predicts the held-out blocks better than the untuned one, "
            "whose field is returned.",
            TuningWarning,
        )
    history = pd.DataFrame(run.rows, columns=HISTORY[:4]).astype({"step": int})
    history["best"] = history["step"] == run.best_step
    about = {
        "moves": how.moves,
        "method": how.method,
        "best_step": run.best_step,
        "held_out": run.best_loss,
        "held_out_untuned": run.rows[0][2],
        "ended": ended,
    }
    changed = {name: tensor.cpu().float().numpy() for name, tensor in run.best.items()}
    delta = Delta.of(operator.version, how.moves, changed) if run.best_step else None
    return Outcome(delta, history, about)


def _trained(run: _Run, how: NetworkTuning, deadline: Deadline, progress: bool | None) -> str:
    """Train, and say why it ended."""
    with progress_bar(progress, how.steps, "finetune", "steps") as bar:
        bar.update(run.step)
        if not run.rows:
            run.score()
        while run.step < how.steps:
            if run.step - run.best_step >= how.patience:
                return "no improvement"
            if deadline.passed():
                run.write(last=True)
                return "out of time"
            start = time.process_time()
            loss = run.advance()
            if not math.isfinite(loss):
                return "diverged"
            bar.update()
            if run.step % how.every == 0 or run.step == how.steps:
                bar.set_postfix(loss=loss, held_out=run.score())
            run.seconds += time.process_time() - start
            if run.step % how.every == 0:
                run.write(last=run.step == how.steps)
    return "all steps"
