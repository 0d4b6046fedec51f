"""Where the systems of each step come from: pools kept in files, or blocks made while training goes on."""

import math
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import torch

from training.preset import Preset
from training.systems.generation import (
    Integration,
    Systems,
    cached,
    fingerprint,
    generate,
    generate_fixed,
    generate_single,
)
from training.systems.priors import components

_VALIDATION_SEED = 500  # of the validation pools, in thousands; no training pool has it
_STREAM_SEED = 10**12  # seeds of streamed blocks start here, beyond those of pools
_AT_ONCE = 3  # systems drawn for each one wanted: most priors have at least a third accepted
_TRIAL = 2000  # systems drawn to estimate an acceptance rate

Pools = dict[int, Systems]


def settings(preset: Preset) -> Integration:
    """How a preset integrates."""
    return Integration(preset.samples, getattr(torch, preset.generation))


def pools_by_dim(preset: Preset, folder: Path, seed_offset: int = 0) -> Pools:
    """Systems per dimension, the pools of one dimension joined, without those that hardly move."""
    joined: dict[int, list[Systems]] = {}
    for number, (prior, dim, n) in enumerate(preset.pools):
        start = time.monotonic()
        seed = 1000 * (preset.seed + seed_offset) + number
        systems = cached(folder, prior, dim, n, seed, settings(preset))
        print(f"pool {prior} {dim}-D: {len(systems)} systems in {time.monotonic() - start:.0f} s", flush=True)
        joined.setdefault(dim, []).append(systems[systems.moving()])
    return {dim: Systems.join(parts) for dim, parts in joined.items()}


def held_out(preset: Preset, folder: Path) -> tuple[Pools, str]:
    """Validation systems per dimension, the same for every run with these priors, and their hash."""
    pools = tuple((prior, dim, preset.validation) for prior, dim, _ in preset.pools)
    systems = pools_by_dim(replace(preset, pools=pools, seed=0), folder, _VALIDATION_SEED)
    return systems, "-".join(fingerprint(own) for _, own in sorted(systems.items()))


class Stored:
    """The same pools at every step: kept in files, or made anew by processes of their own."""

    def __init__(self, preset: Preset, folder: Path, device: torch.device):
        if preset.makers:
            self._pools = made_by_processes(preset, device)
        else:
            self._pools = {dim: pool.to(device) for dim, pool in pools_by_dim(preset, folder).items()}

    def at(self, step: int, total: int) -> Pools:
        """Systems for a step of so many."""
        return self._pools

    def seconds_per_step(self) -> float:
        """Time that making systems takes, spread over the steps they serve."""
        return 0.0

    def report(self) -> str:
        """Throughput for the log."""
        return ""


def _made(name: str, dim: int, n: int, seed: int, settings: Integration, device: str) -> Systems:
    """Systems that move, made in a process of its own and handed over through shared memory."""
    torch.set_num_threads(1)
    torch.multiprocessing.set_sharing_strategy("file_system")
    made = generate_single(name, dim, n, seed, settings, device, at_once=_AT_ONCE * n)
    return made[made.moving()].to(torch.device("cpu"))


def made_by_processes(preset: Preset, device: torch.device) -> Pools:
    """Systems per dimension, made by the preset's processes: one prior that is no mixture after the other.

    A GPU makes many systems in hardly more time than few, since the host queues the same operations. So each
    process draws all that it needs at once, and processes work side by side.
    """
    began = time.monotonic()
    jobs = []
    for part, (prior, dim, n) in enumerate(preset.pools):
        for number, (name, count) in enumerate(components(prior, dim, n)):
            seed = _STREAM_SEED * (1 + preset.seed) + 1000 * part + number
            jobs.append((name, dim, count, seed, settings(preset), str(device)))
    jobs.sort(key=lambda job: -job[1])  # those of most states take longest
    torch.multiprocessing.set_sharing_strategy("file_system")
    with torch.multiprocessing.get_context("spawn").Pool(preset.makers) as processes:
        made = processes.starmap(_made, jobs, chunksize=1)
    parts: dict[int, list[Systems]] = {}
    for (_, dim, *_), systems in zip(jobs, made, strict=True):
        parts.setdefault(dim, []).append(systems.to(device))
    pools = {dim: Systems.join(own) for dim, own in parts.items()}
    count, seconds = sum(map(len, pools.values())), time.monotonic() - began
    print(f"{preset.makers} processes made {count:,} systems in {seconds:.0f} s", flush=True)
    return pools


class Stream:
    """Blocks of fresh systems, each serving `refresh` steps, made on the device that trains.

    While one block serves, a worker thread makes the next: on a second core, or on a GPU's stream of its own.
    A block is seeded by the run's seed and its number, so that a resumed run sees the same systems. Every
    process of a run makes all of every block.

    Parameters
    ----------
    preset : Preset
        With `refresh` above 0.
    device : torch.device
        Where systems are made and wanted.
    fixed : bool, optional
        Make blocks by tensors of fixed shape only, so that the host queues work and never waits; default: on
        all devices but CPUs. Otherwise rejected systems are dropped on the way, which is less work.
    """

    def __init__(self, preset: Preset, device: torch.device, fixed: bool | None = None):
        self._preset, self._device = preset, device
        self._worker = ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(preset.threads,))
        self._waiting: dict[int, Future] = {}
        self._number = -1
        self._block: Pools = {}
        self._made, self._seconds, self._short = 0, 0.0, 0
        self._side = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._plan: list[tuple[str, int, int, int]] = []  # prior, dimension, number, drawn
        if device.type != "cpu" if fixed is None else fixed:
            self._plan = self._worker.submit(self._planned).result()

    def at(self, step: int, total: int) -> Pools:
        """Systems for a step of so many; waits only where the worker is slower than training."""
        number = step // self._preset.refresh
        if number != self._number:
            self._block, self._number = self._submit(number).result(), number
            self._waiting = {k: future for k, future in self._waiting.items() if k > number}
            if self._side is not None:
                for systems in self._block.values():
                    systems.record_stream(torch.cuda.current_stream(self._device))
        if (number + 1) * self._preset.refresh < total:
            self._submit(number + 1)
        return self._block

    def seconds_per_step(self) -> float:
        """Time that making systems takes, spread over the steps they serve."""
        for number in (0, 1):
            self._submit(number).result()
        return self._seconds / 2 / self._preset.refresh

    def report(self) -> str:
        """Throughput for the log."""
        repeated = f" ({self._short} repeated)" if self._short else ""
        return f"made {self._made / max(self._seconds, 1e-9):.0f} systems/s{repeated}, "

    def _submit(self, number: int) -> Future:
        if number not in self._waiting:
            self._waiting[number] = self._worker.submit(self._timed, number)
        return self._waiting[number]

    def _timed(self, number: int) -> Pools:
        began = time.monotonic()
        with torch.cuda.stream(self._side):  # of no effect where it is None
            block = self._fixed(number) if self._plan else self._compact(number)
        if self._side is not None:
            self._side.synchronize()  # this thread waits for the device, training does not
        self._seconds += time.monotonic() - began
        self._made += sum(map(len, block.values()))
        return block

    def _compact(self, number: int) -> Pools:
        parts: dict[int, list[Systems]] = {}
        for part, (prior, dim, n) in enumerate(self._preset.pools):
            seed = self._seed(number, part)
            made = generate(prior, dim, n, seed, settings(self._preset), self._device)
            parts.setdefault(dim, []).append(made[made.moving()])
        return {dim: Systems.join(own) for dim, own in parts.items()}

    def _fixed(self, number: int) -> Pools:
        parts: dict[int, list[Systems]] = {}
        missing = []
        for part, (name, dim, count, drawn) in enumerate(self._plan):
            seed = self._seed(number, part)
            made, found = generate_fixed(name, dim, count, drawn, seed, self._device, settings(self._preset))
            parts.setdefault(dim, []).append(made)
            missing.append((count - found).clamp(min=0))
        block = {dim: Systems.join(own) for dim, own in parts.items()}
        self._short += int(torch.stack(missing).sum())
        return block

    def _planned(self) -> list[tuple[str, int, int, int]]:
        """What to draw for a block: so many that running short is a four-sigma event."""
        plan = []
        for prior, dim, n in self._preset.pools:
            for name, count in components(prior, dim, n):
                _, found = generate_fixed(name, dim, 1, _TRIAL, dim, self._device, settings(self._preset))
                rate = max(int(found), 1) / _TRIAL
                plan.append((name, dim, count, math.ceil(1.05 * (count + 4 * math.sqrt(count)) / rate)))
        return plan

    def _seed(self, number: int, part: int) -> int:
        return _STREAM_SEED * (1 + self._preset.seed) + 1000 * number + part


Source = Stored | Stream


def open_source(preset: Preset, folder: Path, device: torch.device) -> Source:
    """Pools in files, or a stream where the preset refreshes them."""
    return Stream(preset, device) if preset.refresh else Stored(preset, folder, device)
