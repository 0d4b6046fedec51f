"""Labelled contexts: made, kept in shards of files, and read as one padded batch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from fim_dynsys.trajectories.container import Trajectories
from training.choice.contexts import FUNCTIONS, KnownContext, draw, one_of, smallest_dim
from training.choice.labels import MakeCandidates
from training.evaluate import SETTINGS, development_systems, observed

SHARD = 100
SHARES = {"paper": 0.39, "sparse": 0.34, FUNCTIONS: 0.26, "chaotic": 0.01}
"""Of the contexts that are drawn from each prior."""
DIMS = {1: 0.2, 2: 0.4, 3: 0.4}


def make_shard(
    path: Path,
    seed: list[int],
    shares: Mapping[str, float],
    candidates: MakeCandidates,
    size: int = SHARD,
) -> None:
    """Draw contexts, make and label their candidates; written aside and renamed."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, np.ndarray] = {}
    for number in tqdm(range(size), desc=path.stem, disable=None, leave=False):
        prior, dim = one_of(shares, rng), one_of(DIMS, rng)
        context = draw(prior, max(dim, smallest_dim(prior)), rng)
        features, labels = candidates(context, Trajectories.from_arrays(context.x, context.t), rng)
        arrays[f"{number}/features"] = features.astype(np.float32)
        arrays[f"{number}/labels"] = labels.astype(np.float32)
        arrays[f"{number}/prior"] = np.array([list(shares).index(prior), context.field.dim])
    save_arrays(path, arrays)


def make_development(path: Path, candidates: MakeCandidates) -> None:
    """Contexts, candidates and labels as in a shard, of the development split under three settings."""
    arrays: dict[str, np.ndarray] = {}
    trials = [
        (known, own, setting) for known in development_systems() for own in (0, 1) for setting in SETTINGS
    ]
    for number, (known, own, (sigma, rho)) in enumerate(tqdm(trials, desc=path.stem, disable=None)):
        seen = observed(known, own, sigma, rho, 0)
        ((t, x),) = seen.arrays()
        context = KnownContext(known.source, known.truth, t, x, known.t, known.states[[own, 1 - own]])
        made = candidates(context, seen, np.random.default_rng([number]))
        arrays[f"{number}/features"], arrays[f"{number}/labels"] = made
        arrays[f"{number}/prior"] = np.array([SETTINGS.index((sigma, rho)), x.shape[1]])
    save_arrays(path, arrays)


def save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write an npz file aside and rename it, so that there is never half of one."""
    aside = path.with_suffix(".aside.npz")
    np.savez(aside, allow_pickle=False, **arrays)
    aside.rename(path)


@dataclass(frozen=True)
class LabelledContexts:
    """Padded contexts: features (N, C, F), labels (N, C, 5), mask (N, C), prior and dimension (N, 2)."""

    features: Tensor
    labels: Tensor
    mask: Tensor
    origin: Tensor

    def subset(self, index: Tensor) -> "LabelledContexts":
        """Some of the contexts."""
        return LabelledContexts(
            self.features[index], self.labels[index], self.mask[index], self.origin[index]
        )

    def to(self, device: torch.device | str) -> "LabelledContexts":
        """The same contexts on another device."""
        return LabelledContexts(
            *(getattr(self, name).to(device) for name in ("features", "labels", "mask", "origin"))
        )


def joined(first: LabelledContexts, second: LabelledContexts) -> LabelledContexts:
    """All contexts of both, padded to the larger number of candidates."""
    count = max(first.mask.shape[1], second.mask.shape[1])
    longer = [nn.functional.pad(d.mask, (0, count - d.mask.shape[1])) for d in (first, second)]
    parts = [
        torch.cat([nn.functional.pad(v, (0, 0, 0, count - v.shape[1])) for v in pair])
        for pair in ((first.features, second.features), (first.labels, second.labels))
    ]
    return LabelledContexts(*parts, torch.cat(longer), torch.cat([first.origin, second.origin]))


def read_shards(folders: Iterable[Path]) -> LabelledContexts:
    """All contexts in the shards of some runs, in the order of their names."""
    return read_contexts(sorted(p for folder in folders for p in folder.glob("shard-*.npz")))


def read_contexts(paths: Iterable[Path]) -> LabelledContexts:
    """All contexts in some files, see `read_shards`."""
    contexts = []
    for path in paths:
        with np.load(path) as file:
            for key in file.files:
                if key.endswith("/features"):
                    number = key.split("/")[0]
                    contexts.append([file[key], file[f"{number}/labels"], file[f"{number}/prior"]])
    longest = max(len(f) for f, _, _ in contexts)
    values = torch.zeros(len(contexts), longest, contexts[0][0].shape[1])
    labels, mask = (
        torch.zeros(len(contexts), longest, contexts[0][1].shape[1]),
        torch.zeros(len(contexts), longest, dtype=torch.bool),
    )
    for i, (f, lab, _) in enumerate(contexts):
        values[i, : len(f)], labels[i, : len(f)] = torch.tensor(f), torch.tensor(lab)
        mask[i, : len(f)] = True
    return LabelledContexts(values, labels, mask, torch.tensor(np.stack([o for _, _, o in contexts])))
