"""Score weights where choices are made: python -m training.evaluate [--weights PATH ...] [--n N].

Two sources, never the benchmark: held-out systems of the priors (seeds no training pool uses) and the
development split of `fim_dynsys.systems`. Every system gives two clean trajectories; each is observed under
each setting, a field is inferred from it and integrated from both starts. Reported per source, dimension
and setting: share with R2 > 0.9 on the own trajectory (reconstruction) and on the other one
(generalisation), and the median relative error and cosine of the field along both. Where fields state their
own deviation: the coverage of its 50 and 90 % bands at points on both paths and in their box, and the mean
interval score beside that of the constant width which is best in hindsight.
"""

import argparse
import csv
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tqdm.auto import tqdm

import fim_dynsys
from fim_dynsys.corruption import add_noise, drop
from fim_dynsys.errors import SimulationWarning
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.metrics import field_error, r2_score
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.systems import development
from fim_dynsys.trajectories.container import Trajectories
from training.calibration.bands import band_scores, draw_points, typical_rate
from training.systems.fields import MAX_DEGREE
from training.systems.generation import BOUND, N_SAMPLES, N_TRAJECTORIES, SAMPLING_STEP, Systems, cached

SETTINGS = ((0.0, 0.0), (0.05, 0.0), (0.05, 0.5))
HELD_OUT_SEED = 900_000
THRESHOLD = 0.9
MAX_STEPS = 3000  # a field that needs more is stiff where the truth is not: a failure
BATCH = 50
BAND_POINTS = 24  # of each place


@dataclass(frozen=True)
class KnownSystem:
    """A known system and clean trajectories of it on one time grid: two, and further ones to observe."""

    source: str
    name: str
    truth: VectorField
    t: np.ndarray
    states: np.ndarray  # (2 + k, n, d)


def held_out_systems(prior: str, dim: int, n: int, pools: Path) -> Iterator[KnownSystem]:
    """Systems of a prior from a seed that no training pool uses, without those that hardly move.

    Pools are integrated as training is, some by Euler steps, which leaves half a percent of a standard
    deviation or more: here their trajectories are integrated again, with a controlled error, from where they
    start. Systems that then leave the pool's bound, or need too many steps, are left out.
    """
    pool = cached(pools, prior, dim, n, HELD_OUT_SEED)
    t = SAMPLING_STEP * np.arange(N_SAMPLES)
    for number in range(len(pool)):
        truth = known_field(pool, number)
        starts = pool.states[number, :, 0].double().numpy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SimulationWarning)  # left out below
            states = simulate(truth, starts, t, rtol=1e-9, escape=BOUND).x
        if np.isfinite(states).all() and states[:2].std(1).max(-1).min() > 1e-3:
            yield KnownSystem(prior, f"{dim}d-{number}", truth, t, states)


def known_field(pool: Systems, number: int) -> VectorField:
    """The field of one system: a dictionary where it is a polynomial, a function otherwise."""
    if pool.fields.ridge is None:
        dictionary = Dictionary.polynomial(pool.dim, MAX_DEGREE)
        return DictionaryField(dictionary, pool.coefficients[number].double().numpy())
    own = pool.fields[number : number + 1]
    return CallableField(lambda x: own(torch.from_numpy(x)[None])[0].numpy(), pool.dim)


def development_systems() -> Iterator[KnownSystem]:
    """The development split of `fim_dynsys.systems`, 200 samples over each system's span."""
    for system in development():
        t = np.linspace(0.0, system.t_end, N_SAMPLES)
        truth = system.field()
        clean = simulate(truth, np.asarray(system.initial_states), t, rtol=1e-9)
        kind = "polynomial" if system.polynomial else "other"
        yield KnownSystem(f"development {kind}", system.name, truth, t, clean.x)


def evaluate_batch(
    model: VectorFieldModel,
    systems: list[KnownSystem],
    setting: tuple[float, float],
    seed: int,
    more: int = 0,
) -> list[dict]:
    """Two rows per system, of one dimension: the field inferred from each of its two trajectories.

    So many more trajectories are observed beside each.
    """
    sigma, rho = setting
    contexts = [observed(system, own, sigma, rho, seed, more) for system in systems for own in (0, 1)]
    fields = model.infer_many(contexts)
    starts = np.repeat([system.states[:2, 0] for system in systems], 2, axis=0)
    starts = starts.reshape(-1, starts.shape[-1])
    times = np.repeat([system.t for system in systems], 4, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulationWarning)  # a divergence is a failure in the table
        both = [field for field in fields for _ in (0, 1)]
        paths = simulate(both, starts, times, rtol=1e-6, max_steps=MAX_STEPS).x
    rows = []
    for number, field in enumerate(fields):
        system, own = systems[number // 2], number % 2
        pairs = zip(system.states[:2], paths[2 * number :][:2], strict=True)
        fit = [r2_score(truth, path) for truth, path in pairs]
        row: dict = {"source": system.source, "dim": system.truth.dim, "name": system.name}
        row |= {"sigma": sigma, "rho": rho}
        row["reconstruction"] = bool(fit[own] > THRESHOLD)
        row["generalisation"] = bool(fit[1 - own] > THRESHOLD)
        row["error own"] = field_error(field, system.truth, system.states[own])
        row["error other"] = field_error(field, system.truth, system.states[1 - own])
        row["cosine other"] = field_error(field, system.truth, system.states[1 - own], kind="cosine")
        row["bands"] = bands(field, system, own)
        rows.append(row)
    return rows


def bands(field: VectorField, system: KnownSystem, own: int) -> np.ndarray | None:
    """Errors and deviations (2, n) of a field in typical rates; None where it states no deviation.

    Points of the box where the true field is not defined are left out.
    """
    paths = system.states[[own, 1 - own]]
    points = draw_points(paths, BAND_POINTS, np.random.default_rng([own, *system.name.encode()]))
    with np.errstate(invalid="ignore", divide="ignore"):
        points = points[np.isfinite(system.truth(points)).all(axis=1)]
    deviations = field.scale(points)
    if deviations is None:
        return None
    truth, unit = system.truth(points), np.maximum(paths.std((0, 1)), np.finfo(float).tiny)
    typical = typical_rate(truth, unit)
    return np.stack([(field(points) - truth) / typical, deviations / typical]).reshape(2, -1)


def observed(
    system: KnownSystem, own: int, sigma: float, rho: float, seed: int, more: int = 0
) -> Trajectories:
    """What a model sees of one trajectory, and of so many more; the same for every model."""
    rng = np.random.default_rng([seed, own, *system.name.encode()])
    clean = Trajectories.from_arrays([system.states[own], *system.states[2 : 2 + more]], system.t)
    return drop(add_noise(clean, sigma, rng), rho, rng)


def summarise(rows: list[dict]) -> list[dict]:
    """Shares and medians per source, dimension and setting, and over all dimensions of a source."""
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        for dim in (row["dim"], "all"):
            groups.setdefault((row["source"], dim, row["sigma"], row["rho"]), []).append(row)
    table = []
    for (source, dim, sigma, rho), members in sorted(groups.items(), key=lambda item: str(item[0])):
        line = {"source": source, "dim": dim, "sigma": sigma, "rho": rho, "trials": len(members)}
        for key in ("reconstruction", "generalisation"):
            line[key] = 100 * float(np.mean([m[key] for m in members]))
        for key in ("error own", "error other", "cosine other"):
            line[key] = float(np.median([m[key] for m in members]))
        if all(m["bands"] is not None for m in members):
            line |= band_scores(*np.concatenate([m["bands"] for m in members], axis=1))
        table.append(line)
    return table


def evaluate(model: VectorFieldModel, systems: list[KnownSystem], seed: int = 0, more: int = 0) -> list[dict]:
    """All settings on all systems, in batches of one dimension; a progress bar on a terminal."""
    batches = []
    for dim in sorted({system.truth.dim for system in systems}):
        own = [system for system in systems if system.truth.dim == dim]
        batches += [own[i : i + BATCH] for i in range(0, len(own), BATCH)]
    work = [(batch, setting) for setting in SETTINGS for batch in batches]
    bar = tqdm(work, desc="batches", disable=not sys.stderr.isatty(), leave=False)
    return [row for batch, setting in bar for row in evaluate_batch(model, batch, setting, seed, more)]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m training.evaluate", description=__doc__)
    parser.add_argument("--weights", nargs="*", default=[None], help="weights files (default: shipped)")
    parser.add_argument(
        "--model", default="fim-ode", help="registry name; --weights applies to fim-ode and fim-ode-published"
    )
    parser.add_argument("--n", type=int, default=100, help="held-out systems per prior and dimension")
    parser.add_argument("--priors", nargs="*", default=["paper", "sparse"])
    parser.add_argument("--dims", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--trajectories",
        type=int,
        default=1,
        help="observed of each system, at most 8; above 1 the development split, which has two, is left out",
    )
    parser.add_argument("--pools", type=Path, default=Path("runs/pools"), help="cache of held-out systems")
    parser.add_argument("--out", type=Path, help="CSV of the table")
    arguments = parser.parse_args()
    if not 1 <= arguments.trajectories <= N_TRAJECTORIES - 1:
        parser.error(f"expected --trajectories from 1 to {N_TRAJECTORIES - 1}, got {arguments.trajectories}")
    systems = list(development_systems()) if arguments.trajectories == 1 else []
    for prior in arguments.priors:
        for dim in arguments.dims:
            systems += held_out_systems(prior, dim, arguments.n, arguments.pools)
    table = []
    for weights in arguments.weights:
        model = fim_dynsys.load(arguments.model, **({"weights": weights} if weights else {}))
        lines = summarise(evaluate(model, systems, arguments.seed, arguments.trajectories - 1))
        for line in lines:
            table.append({"model": arguments.model, "weights": weights or "shipped", **line})
        _show(str(weights or arguments.model), lines)
    if arguments.out:
        with arguments.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]))
            writer.writeheader()
            writer.writerows(table)


def _show(title: str, lines: list[dict]) -> None:
    print(title)
    print(f"{'source':24s} {'dim':>3s} {'setting':>10s} {'trials':>6s}  rec / gen   error own / other")
    for line in lines:
        setting = f"{line['sigma']:g}, {line['rho']:g}"
        print(
            f"{line['source']:24s} {line['dim']!s:>3s} {setting:>10s} {line['trials']:6d} "
            f"{line['reconstruction']:5.1f}/{line['generalisation']:4.1f}   "
            f"{line['error own']:.3f} / {line['error other']:.3f}"
        )
    if "cover 90" not in lines[0]:
        return
    print(
        f"{'source':24s} {'dim':>3s} {'setting':>10s} {'cover 50 / 90 %':>16s}  score 90 % (constant width)"
    )
    for line in lines:
        setting = f"{line['sigma']:g}, {line['rho']:g}"
        print(
            f"{line['source']:24s} {line['dim']!s:>3s} {setting:>10s} "
            f"{line['cover 50']:8.1f} / {line['cover 90']:4.1f}  {line['score 90']:.3g} "
            f"({line['constant 90']:.3g})"
        )


if __name__ == "__main__":
    main()
