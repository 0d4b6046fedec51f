"""A run of pretraining that processes share, as a script under torchrun or by processes of a test."""

import os
import socket
import sys
from pathlib import Path

import torch

from training.preset import Preset, read_preset
from training.pretrain import pretrain


def preset() -> Preset:
    """Five steps of a small published network."""
    network = {"width": 32, "heads": 4, "feedforward": 64, "decoder_layers": 2, "uncertainty_layers": 1}
    changes = {
        "architecture": "published",
        "network": network | {"dropout": 0.0},
        "pools": [["paper", 1, 60]],
    }
    return read_preset("ci", changes | {"steps": 5, "log_every": 5, "learning_rate": 1e-3})


def free_port() -> int:
    """A port of this machine that nobody listens to."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def share(folder: Path, rank: int, count: int, port: int) -> None:
    """One process of several, told of the others by the variables that torchrun sets."""
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_PORT": port}
    os.environ.update({"MASTER_ADDR": "127.0.0.1", **{key: str(value) for key, value in places.items()}})
    run(folder)


def run(folder: Path) -> None:
    """Train; leave this process's weights beside the run's files."""
    state = pretrain(preset(), folder)
    torch.save([p.detach() for p in state.network.parameters()], folder / f"rank{os.environ['RANK']}.pt")


if __name__ == "__main__":
    run(Path(sys.argv[1]))
