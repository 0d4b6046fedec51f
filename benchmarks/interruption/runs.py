"""What is killed: a module of its own, since processes of a fork server do not know the command."""

import warnings
from pathlib import Path

import numpy as np

import fim_dynsys
from benchmarks.oscillators.tasks import FIXED_SEED, tasks

CHECKPOINT, LOG, WEIGHTS = "checkpoint.safetensors", "log.csv", "weights.safetensors"


def finetuned(name: str, options: dict[str, int], folder: Path) -> None:
    """Fine-tune a model on the draw that the literature shares."""
    folder.mkdir(parents=True, exist_ok=True)
    data = tasks()[0].context(FIXED_SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a field stays as it is, is an outcome like another
        model = fim_dynsys.load(name).fit(data)
        tuned = model.finetune(
            data, max_seconds=None, progress=False, checkpoint=folder / CHECKPOINT, **options
        )
    tuned.history_.to_csv(folder / LOG, index=False)
    tuned.save(folder / "model")
    deltas = sorted((folder / "model").glob("*.safetensors"))
    points = np.random.default_rng(0).normal(size=(64, data.dim))
    parts = [path.read_bytes() for path in deltas] or [tuned.field_(points).tobytes()]
    (folder / WEIGHTS).write_bytes(b"".join(parts))
