"""How far laws of clean data are off, learned from known systems: python -m training.calibration.laws.

Systems are drawn as for the posterior (seeds of their own) and integrated with a controlled error; 200
samples have relative noise between 1e-5 and .01. Where `fim-ode` fits them to their digits, the normal bands
of its fit, of the field along the observed path and another, are held against the truth: a law that is the
right one is as wrong as its fit says, one that mimics the truth by more. Printed are the degrees of freedom
and the width of Student's distribution under which bands of 50 and 90 % hold as much; each context counts
alike. They stand in `fim_dynsys.fields.posterior`. The command stores what is done in runs/NAME and goes on
from there.
"""

import argparse
import json
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import norm, t
from tqdm.auto import tqdm

from fim_dynsys.errors import FimDynsysWarning
from fim_dynsys.fields.posterior import STATED, LawField
from fim_dynsys.models.fim_ode.own import FIMODE
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.trajectories.container import Trajectories
from training.calibration.shards import SHARES
from training.contexts import draw, one_of

SEED = 870_000
DIMS = (1, 2, 3)
SAMPLES, POINTS, RTOL = 200, 20, 1e-11
NOISE = (1e-5, 1e-2)
BANDS = (0.5, 0.9)
LEVELS = 0.5 + np.array(BANDS) / 2.0
FREEDOM = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 30.0)


def ratios(model: FIMODE, number: int) -> list[float] | None:
    """Errors in standard errors of the fit, of all points; None where no law is found."""
    rng = np.random.default_rng([SEED, number])
    context = draw(one_of(SHARES, rng), DIMS[number % len(DIMS)], rng)
    times = np.linspace(0.0, context.label_t[-1], SAMPLES)
    sigma = np.exp(rng.uniform(*np.log(NOISE)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FimDynsysWarning)  # not all systems are in its dictionary
        paths = simulate(context.field, context.paths[:2, 0], times, rtol=RTOL).x
        if not np.isfinite(paths).all():
            return None
        noisy = paths[0] * (1.0 + sigma * rng.standard_normal(paths[0].shape))
        field = model.infer(Trajectories.from_arrays(noisy, times))
    if not isinstance(field, LawField):
        return None
    at = np.linspace(0, SAMPLES - 1, POINTS).astype(int)
    points = paths[:, at].reshape(-1, paths.shape[-1])
    stated = field.scale(points)
    if stated is None:
        return None
    error = np.abs(context.field(points) - field(points))
    return (error / np.maximum(stated / STATED, 1e-300)).ravel().tolist()


def held(found: list[np.ndarray], widths: Sequence[float]) -> list[float]:
    """Percent of the truth within so many standard errors, of contexts that count alike."""
    return [100 * float(np.mean([np.mean(errors <= width) for errors in found])) for width in widths]


def learned(found: list[np.ndarray]) -> tuple[float, float]:
    """Degrees of freedom and width under which both bands hold their share as nearly as they can."""
    best = (np.inf, FREEDOM[-1], 1.0)
    for freedom in FREEDOM:
        for width in np.exp(np.linspace(np.log(0.5), np.log(8.0), 80)):
            off = np.subtract(held(found, width * t.ppf(LEVELS, freedom)), 100 * np.array(BANDS))
            best = min(best, (float(np.sum(off**2)), freedom, float(width)))
    return best[1], best[2]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m training.calibration.laws", description=__doc__)
    parser.add_argument("--run", default="laws", help="folder in runs/ for what is done")
    parser.add_argument("--contexts", type=int, default=150)
    options = parser.parse_args()
    model = FIMODE()
    store = Path("runs") / options.run / f"{model.name}-{model.version}.jsonl"
    store.parent.mkdir(parents=True, exist_ok=True)
    known = [] if not store.exists() else [json.loads(line) for line in store.read_text().splitlines()]
    with store.open("a") as stream:
        for number in tqdm(range(len(known), options.contexts), disable=None):
            known.append(ratios(model, number))
            stream.write(json.dumps(known[-1]) + "\n")
            stream.flush()
    found = [np.array(own) for own in known[: options.contexts] if own is not None]
    freedom, width = learned(found)
    normal = held(found, norm.ppf(LEVELS))
    print(f"{len(found)} laws; normal bands of {BANDS} hold {normal[0]:.1f} and {normal[1]:.1f} %")
    print(f"{freedom:g} degrees of freedom, width {width:.2f}")


if __name__ == "__main__":
    main()
