"""The processes of one run under torchrun; a run without it is one process."""

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True)
class Processes:
    """This process among those that train together: its rank, how many there are, and its device."""

    rank: int
    count: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def share(self, n: int) -> slice:
        """Rows of a batch of n that this process computes."""
        if n % self.count:
            raise ValueError(
                f"pretrain: expected a batch that {self.count} processes can share equally, got {n}; change "
                "batch or the number of processes."
            )
        return slice(n // self.count * self.rank, n // self.count * (self.rank + 1))

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module with its gradients averaged over all processes."""
        if self.count == 1:
            return module
        return DistributedDataParallel(module, broadcast_buffers=False)

    def mean(self, values: Tensor) -> Tensor:
        """Mean of a tensor over all processes, the same in each."""
        if self.count > 1:
            values = values.to(self.device, copy=True)
            dist.all_reduce(values)
            values /= self.count
        return values

    def from_leader(self, number: int) -> int:
        """The leader's value of an integer."""
        if self.count == 1:
            return number
        value = torch.tensor(number, device=self.device)
        dist.broadcast(value, 0)
        return int(value)

    def wait(self) -> None:
        """Until every process has come here."""
        if self.count > 1:
            dist.barrier()


def join(device: str) -> Processes:
    """Find the other processes that torchrun started; gloo on the CPU, nccl on GPUs."""
    count, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    where = torch.device(device)
    if where.type == "cuda":
        if not torch.cuda.is_available():
            raise ValueError(
                f"pretrain: expected a CUDA device for device {device!r}, got none; give --device cpu."
            )
        where = torch.device("cuda", where.index or int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(where)
    if count > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if where.type == "cuda" else "gloo", device_id=None)
    return Processes(rank, count, where)


def leave(processes: Processes) -> None:
    """Release what `join` took."""
    if processes.count > 1:
        dist.destroy_process_group()
