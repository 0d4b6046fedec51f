"""Where the systems of each step come from: pools kept in files, shared by all steps of a run."""

import time
from dataclasses import replace
from pathlib import Path

from training.generation import Systems, cached, fingerprint
from training.preset import Preset

HELD_OUT = 500  # seeds of the validation pools, in thousands; no training pool has them


def pools_by_dim(preset: Preset, folder: Path, seed_offset: int = 0) -> dict[int, Systems]:
    """Systems per dimension, the pools of one dimension joined, without those that hardly move."""
    joined: dict[int, list[Systems]] = {}
    for number, (prior, dim, n) in enumerate(preset.pools):
        start = time.monotonic()
        systems = cached(folder, prior, dim, n, 1000 * (preset.seed + seed_offset) + number)
        print(f"pool {prior} {dim}-D: {len(systems)} systems in {time.monotonic() - start:.0f} s", flush=True)
        joined.setdefault(dim, []).append(systems[systems.moving()])
    return {dim: Systems.join(parts) for dim, parts in joined.items()}


def held_out(preset: Preset, folder: Path) -> tuple[dict[int, Systems], str]:
    """Validation systems per dimension, the same for every run with these priors, and their hash."""
    pools = tuple((prior, dim, preset.validation) for prior, dim, _ in preset.pools)
    systems = pools_by_dim(replace(preset, pools=pools, seed=0), folder, HELD_OUT)
    return systems, "-".join(fingerprint(own) for _, own in sorted(systems.items()))
