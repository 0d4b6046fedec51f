"""What a step does once its batch is drawn: gradients, optimiser, running average; replayed on a GPU."""

from collections import Counter
from typing import NamedTuple

import torch
from torch import Tensor, nn

from training.checkpoint import State
from training.objective import Queries
from training.systems.corruption import Context

Batch = tuple[Context, Queries]

_PLAIN = 3  # steps with a shape of batch before it is recorded: compilers and libraries have set up by then


class Update:
    """Gradients of a batch, one step of the optimiser, and the running average of the weights.

    Parameters
    ----------
    state : State
        Whose weights change.
    trainee : nn.Module
        Its network with the loss; see `training.learner.Trainee`.
    clip : float
        Norm at which gradients are clipped.
    device : torch.device
        Where all of it is.
    in_bfloat16 : bool
        Whether layers compute in that type.
    """

    def __init__(
        self, state: State, trainee: nn.Module, clip: float, device: torch.device, in_bfloat16: bool
    ) -> None:
        self.device = device
        self._optimiser, self._trainee = state.optimiser, trainee
        self._clip, self._in_bfloat16 = clip, in_bfloat16
        self._weights, self._average = [*state.network.parameters()], [*state.average.parameters()]
        self._towards = torch.zeros((), device=device)  # of the average: the share of the new weights

    def __call__(self, batch: Batch, rate: float, towards: float) -> Tensor:
        """Loss, gradient norm, mean log error at the three places, uncertainty (6,)."""
        self.set(rate, towards)
        return self.run(batch)

    def set(self, rate: float, towards: float) -> None:
        """Give the next step its learning rate, and how far the average moves towards the weights."""
        for group in self._optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        self._towards.fill_(towards)

    def run(self, batch: Batch) -> Tensor:
        """The step itself, by operations on the device alone."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._in_bfloat16, cache_enabled=False):
            loss, errors, uncertainty = self._trainee(*batch)
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self._weights, self._clip)
        self._optimiser.step()
        with torch.no_grad():
            change = torch._foreach_sub(self._weights, self._average)
            torch._foreach_mul_(change, self._towards)
            torch._foreach_add_(self._average, change)
        places = torch.log1p(10 * errors.detach()).mean(0)
        known = torch.zeros_like(norm) if uncertainty is None else uncertainty
        parts = (loss.detach()[None], norm[None], places, known[None])
        return torch.cat([part.to(loss.dtype) for part in parts])


class _Recording(NamedTuple):
    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor, ...]
    result: Tensor


class Recorded:
    """An `Update` of which each shape of batch is recorded once as a CUDA graph, and replayed from then on.

    A step of the published network launches some 1,400 kernels, which the host queues more slowly than an
    H100 computes them. A graph is queued at once. Graphs share their memory, for one at a time is replayed.
    """

    def __init__(self, update: Update) -> None:
        self._update = update
        self._met: Counter[tuple] = Counter()
        self._recordings: dict[tuple, _Recording] = {}
        self._stream = torch.cuda.Stream(update.device)
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, batch: Batch, rate: float, towards: float) -> Tensor:
        """As `Update`."""
        self._update.set(rate, towards)
        parts = (*batch[0], *batch[1])
        shape = tuple(part.shape for part in parts)
        self._met[shape] += 1
        if self._met[shape] <= _PLAIN:
            return self._plainly(batch)
        if shape not in self._recordings:
            self._recordings[shape] = self._record(parts)
        graph, inputs, result = self._recordings[shape]
        for own, part in zip(inputs, parts, strict=True):
            own.copy_(part)
        graph.replay()
        return result.clone()

    def _plainly(self, batch: Batch) -> Tensor:
        """On the stream that records, where autograd's and libraries' workspaces are set up."""
        before = torch.cuda.current_stream(self._update.device)
        self._stream.wait_stream(before)
        with torch.cuda.stream(self._stream):
            result = self._update.run(batch)
        before.wait_stream(self._stream)
        return result

    def _record(self, parts: tuple[Tensor, ...]) -> _Recording:
        inputs = tuple(part.clone() for part in parts)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            result = self._update.run((Context(*inputs[:4]), Queries(*inputs[4:])))
        return _Recording(graph, inputs, result)
