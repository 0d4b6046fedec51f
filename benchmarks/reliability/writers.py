"""Everything that writes a file worth keeping: what it writes, and how one tells what can be read again."""

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fim_dynsys
from benchmarks.reliability.subjects import make, spiral
from fim_dynsys.trajectories.container import Trajectories

ROWS = (2500, 3000)  # of the tables


@dataclass(frozen=True)
class Writer:
    """One kind of file, with two contents, 0 and 1.

    Attributes
    ----------
    name : str
        File or folder.
    prepare : callable
        ``prepare(number)`` makes the content; what it gives is kept for the process.
    write : callable
        ``write(content, path)``, over what may be there.
    read : callable
        ``read(path)`` gives what `digest` takes; raises where nothing whole is there.
    digest : callable
        Of a content, or of what was read: the same text for the same content.
    """

    name: str
    prepare: Callable[[int], Any]
    write: Callable[[Any, Path], object]
    read: Callable[[Path], Any]
    digest: Callable[[Any], str]

    def whole(self, path: Path) -> int:
        """Return the number of the content that is there.

        Raises
        ------
        ValueError
            Where something else is read; and whatever `read` raises.
        """
        found = self.digest(self.read(path))
        for number in (0, 1):
            if found == self.digest(content(self, number)):
                return number
        raise ValueError(
            f"{self.name}: expected one of the two contents, got another that loads as if whole."
        )


@functools.cache
def content(writer: Writer, number: int) -> Any:
    """Return what a writer prepares."""
    return writer.prepare(number)


def _sha(*arrays: np.ndarray) -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()


def _fitted(number: int) -> Any:
    return make("sindy").fit(spiral(number, 60 + 20 * number))


def _model_digest(model: Any) -> str:
    points = np.random.default_rng(0).normal(size=(20, model.context_.dim))
    return _sha(model.predict(points), *(x for _, x in model.context_.arrays()))


def _table(number: int) -> Trajectories:
    return spiral(number, ROWS[number])


def _table_digest(data: Trajectories) -> str:
    return _sha(*(part for pair in data.arrays() for part in pair))


def _network(number: int) -> tuple[Any, Any]:
    import torch

    from fim_dynsys.models.fim_ode.amortised import AmortisedNetwork
    from fim_dynsys.models.fim_ode.configuration import AmortisedConfig

    config = AmortisedConfig(context_width=24, token_width=16, n_updates=2)
    with torch.random.fork_rng():
        torch.manual_seed(number)
        return AmortisedNetwork(config), config


def _write_weights(made: tuple[Any, Any], path: Path) -> None:
    import torch

    from fim_dynsys.models.fim_ode.networks import save_weights

    save_weights(path, *_ordered(made), max_dim=3, dtype=torch.float32)


def _ordered(made: tuple[Any, Any]) -> tuple[Any, str, Any]:
    return made[0], "amortised", made[1]


def _read_weights(path: Path) -> tuple[Any, Any]:
    from fim_dynsys.models.fim_ode.networks import build_network

    return build_network(path)


def _weights_digest(made: tuple[Any, Any]) -> str:
    return _sha(*(v.numpy() for _, v in sorted(made[0].state_dict().items())))


def _run_state(number: int) -> Any:
    from training.checkpoint import new_state
    from training.preset import read_preset

    state = new_state(read_preset("ci", {"seed": number}))
    state.step = 10 + number
    return state


def _write_checkpoint(state: Any, path: Path) -> None:
    from training.checkpoint import save_checkpoint

    save_checkpoint(path, state)


def _read_checkpoint(path: Path) -> Any:
    from training.checkpoint import load_checkpoint

    state = _run_state(2)
    load_checkpoint(path, state)
    return state


def _checkpoint_digest(state: Any) -> str:
    return f"{state.step} {_sha(*(v.numpy() for v in state.network.state_dict().values()))}"


def _write_table(data: Trajectories, path: Path) -> None:
    data.to_file(path)


WRITERS = {
    "model": Writer(
        "model", _fitted, lambda model, path: model.save(path), fim_dynsys.load_fitted, _model_digest
    ),
    "CSV": Writer("data.csv", _table, _write_table, Trajectories.from_file, _table_digest),
    "netCDF": Writer("data.nc", _table, _write_table, Trajectories.from_file, _table_digest),
    "weights": Writer("w.safetensors", _network, _write_weights, _read_weights, _weights_digest),
    "checkpoint": Writer(
        "checkpoint.safetensors", _run_state, _write_checkpoint, _read_checkpoint, _checkpoint_digest
    ),
}
