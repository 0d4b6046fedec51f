"""Samples of equal times, and thinning."""

import numpy as np

from fim_dynsys.trajectories.reading import clocks
from fim_dynsys.trajectories.reading.options import Notes, Options, refusal
from fim_dynsys.wording import counted

_TICKS = 3  # equal times that a rounded clock has, at least


def without_repeats(
    t: np.ndarray, x: np.ndarray, u: np.ndarray | None, runs: list[np.ndarray], options: Options, notes: Notes
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, list[np.ndarray]]:
    """Rows written twice once; samples of one tick of a rounded clock spread over it."""
    kept, dropped, spread = [], 0, 0
    for run in runs:
        if (np.diff(t[run]) > 0).all():
            kept.append(run)
            continue
        again = np.concatenate([[False], np.diff(t[run]) == 0])
        same = again & np.concatenate([[False], _equal_rows(x[run[1:]], x[run[:-1]])])
        if u is not None:
            same &= np.concatenate([[False], _equal_rows(u[run[1:]], u[run[:-1]])])
        # A logger that stutters, or rows that are all doubled, and no slow quantity in a fast record.
        doubled = options.repeated is None and np.array_equal(same, again)
        if same.mean() <= 0.2 or (doubled and not clocks.looks_spread(t[run], x[run])):
            dropped += int(same.sum())
            run = run[~same]
        kept.append(run)
    if dropped:
        notes.decide(f"dropped {counted(dropped, 'row')} repeated from the one before")
    t = t.copy() if any((np.diff(t[run]) == 0).any() for run in kept) else t
    final: list[np.ndarray] = []
    for run in kept:
        if not (np.diff(t[run]) == 0).any():
            final.append(run)
            continue
        if options.repeated == "trials":
            final += _replicates(t, run)
            continue
        few = int((np.diff(t[run]) == 0).sum()) < _TICKS  # a slip of the pen, and no clock
        if options.repeated is None and (few or not clocks.looks_spread(t[run], x[run])):
            at = int(np.argmax(np.diff(t[run]) == 0))
            raise refusal(
                "each time once in a trajectory",
                f"{t[run][at]:g} several times, with other values",
                'give repeated="spread" for a rounded clock, repeated="trials" for repeated measurements, '
                "or trajectory= where a column tells them apart",
            )
        spread += 1
        t[run] = clocks.spread(t[run])
        final.append(run)
    if spread:
        notes.decide("a rounded clock: samples of equal times evenly spaced inside each tick (repeated=)")
    if len(final) > len(kept):
        notes.say(f"{len(final)} trajectories of repeated measurements")
    return t, x, u, final


def _equal_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ((a == b) | (np.isnan(a) & np.isnan(b))).all(axis=1)


def _replicates(t: np.ndarray, run: np.ndarray) -> list[np.ndarray]:
    """The first sample of each time, the second of each, and so on."""
    times, places, counts = np.unique(t[run], return_index=True, return_counts=True)
    if counts.min() < counts.max():
        raise refusal(
            "as many measurements at each time",
            f"{counts.min()} to {counts.max()}",
            "tell them apart by a column and trajectory=",
        )
    return [run[places + k] for k in range(counts[0])] if len(times) else [run]


def thinned(runs: list[np.ndarray], options: Options, notes: Notes) -> list[np.ndarray]:
    if options.every == 1:
        return runs
    notes.say(f"one of {options.every} samples")
    return [run[:: options.every] for run in runs]
