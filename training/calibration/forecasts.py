"""Levels of forecast bands, learned from known systems: python -m training.calibration.forecasts.

Contexts are drawn as for the posterior (seeds of their own); a model, `fim-ode` or another, sees the first
two thirds of each and says how it goes on. The level of the truth among its paths, in each state at ten times
ahead, tells which share of the paths holds a given share of what happens. Each context counts alike. Printed
are the levels by what chose the field and number of states, as models have them (`forecast_levels`), and how
often bands at these levels hold other contexts. The command stores what is done in runs/NAME and goes on
from there.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm

import fim_dynsys
from fim_dynsys.errors import FimDynsysWarning
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.forecast_levels import NOMINAL, WIDEST, Levels
from fim_dynsys.models.forecasting import forecast_bands
from fim_dynsys.trajectories.container import Trajectories
from training.calibration.shards import HELD_OUT_EVERY, SHARES
from training.contexts import corrupted, draw, moves, one_of

SEED = 850_000
DIMS = (1, 2, 3)
SEEN, TIMES, MEMBERS = 2 / 3, 10, 20
_FINE = np.linspace(0.01, WIDEST, 99)


def truth_levels(model: VectorFieldModel, number: int) -> tuple[str, np.ndarray]:
    """What chose the field of context `number`, and the smallest levels of its paths that hold the truth.

    These are (times, d), see `Levels`.
    """
    rng = np.random.default_rng([SEED, number])
    dim = DIMS[number % len(DIMS)]
    while True:
        context = draw(one_of(SHARES, rng), dim, rng)
        t, path = context.label_t, context.paths[0]
        cut = round(SEEN * len(t))
        if moves(path[None, :cut]):
            break
    x, kept = corrupted(path[:cut], rng)
    seen = Trajectories.from_arrays(x[kept], t[:cut][kept])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FimDynsysWarning)  # not all systems are in its dictionary
        field = model.fit(seen).field_
    at = np.linspace(cut, len(t) - 1, TIMES).astype(int)
    ahead = t[at] - seen.t[0, -1]
    members = model.ensemble(MEMBERS)
    found = forecast_bands("truth_levels", field, members, seen, ahead, _FINE, observed=False, seed=0)
    low, high, median = found.low.values[:, 0], found.high.values[:, 0], found["median"].values[0]
    held = (low <= path[at]) & (path[at] <= high)
    off = path[at] - median
    with np.errstate(divide="ignore", invalid="ignore"):  # no path got there, or all are one
        stretched = WIDEST * off / np.where(off > 0, high[-1] - median, low[-1] - median)
    stretched = np.where(np.isfinite(stretched), stretched, np.inf)
    levels = np.where(held.any(axis=0), _FINE[np.argmax(held, axis=0)], stretched)
    judge = field.fit_info.inference.judge
    return "" if judge is None else judge.value, levels


def learned(contexts: list[np.ndarray]) -> tuple[float, ...]:
    """Levels of the paths for `NOMINAL`, of contexts that count alike."""
    values = np.concatenate([levels.ravel() for levels in contexts])
    weights = np.concatenate([np.full(levels.size, 1.0 / levels.size) for levels in contexts])
    order = np.argsort(values)
    below = np.cumsum(weights[order]) / len(contexts)
    return tuple(round(float(np.interp(share, below, values[order])), 3) for share in NOMINAL)


def held(contexts: list[np.ndarray], levels: Levels, share: float) -> float:
    """Percent of the truth that bands of a share hold at these levels, of contexts that count alike."""
    limits = [levels.of_paths(np.array(share), known.shape[1]) for known in contexts]
    return 100 * float(np.mean([np.mean(k <= limit) for k, limit in zip(contexts, limits, strict=True)]))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m training.calibration.forecasts", description=__doc__)
    parser.add_argument("--model", default="fim-ode", metavar="NAME", help="default: fim-ode")
    parser.add_argument("--run", default="forecasts", help="folder in runs/ for what is done")
    parser.add_argument("--contexts", type=int, default=300, help="of each dimension")
    options = parser.parse_args()
    model = fim_dynsys.load(options.model)
    store = Path("runs") / options.run / f"{model.name}-{model.version}.jsonl"
    store.parent.mkdir(parents=True, exist_ok=True)
    known = [] if not store.exists() else [json.loads(line) for line in store.read_text().splitlines()]
    with store.open("a") as stream:
        for number in tqdm(range(len(known), len(DIMS) * options.contexts), disable=None):
            judge, levels = truth_levels(model, number)
            known.append([judge, levels.tolist()])
            stream.write(json.dumps(known[-1]) + "\n")
            stream.flush()
    for judge in sorted({own for own, _ in known}):
        report(judge, [np.array(levels) for own, levels in known if own == judge])


def report(judge: str, found: list[np.ndarray]) -> None:
    """Print the levels of contexts whose fields one rule chose, and what they hold of others."""
    by_dim = [[own for own in found if own.shape[1] == dim] for dim in DIMS]
    print(f"{judge}: {[len(part) for part in by_dim]} contexts")
    if not all(len(part) > HELD_OUT_EVERY for part in by_dim):
        return
    fitted = Levels(NOMINAL, tuple(learned(own) for own in by_dim))
    print(json.dumps([fitted.nominal, *fitted.paths]))
    others = [[own for k, own in enumerate(part) if k % HELD_OUT_EVERY] for part in by_dim]
    apart = [own for part in by_dim for k, own in enumerate(part) if not k % HELD_OUT_EVERY]
    without = Levels(NOMINAL, tuple(learned(part) for part in others))
    raw = Levels(NOMINAL, (NOMINAL,))
    for share in (0.5, 0.9):
        print(f"{share:.0%}: {held(apart, raw, share):.1f} before, {held(apart, without, share):.1f} after")


if __name__ == "__main__":
    main()
