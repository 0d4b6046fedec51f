"""Train what chooses among candidate fields: python -m training.selection --run NAME [--model auto].

Contexts of known systems are drawn (`training.contexts`), candidates made as at inference, and each labelled
by what it does: whether it reconstructs the observed trajectory and follows two others of the system
(R2 > 0.9), and how far its field is off along them. Shards of 100 contexts are kept in runs/NAME, so an
interrupted command goes on where it was; several may work at once on different --worker numbers. The result
is runs/NAME/weights.safetensors, the operator and its selector, or with --model auto
runs/NAME/auto-selector.safetensors, the selector of the portfolio.
"""

import argparse
from functools import partial
from pathlib import Path

import numpy as np
import torch
from tqdm.auto import tqdm

import fim_dynsys
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.metrics import r2_score
from fim_dynsys.models.auto import SELECTOR_FILE, Auto
from fim_dynsys.models.fim_ode.choice import consider
from fim_dynsys.models.fim_ode.own import DEFAULT_WEIGHTS
from fim_dynsys.models.fim_ode.weights import (
    SELECTOR,
    read_part,
    read_selector,
    save_selector,
    shipped,
)
from fim_dynsys.regression.rollout import rollout
from fim_dynsys.search.selector import CLIP, Selector
from fim_dynsys.trajectories import Trajectories
from training.contexts import FUNCTIONS, KnownContext, draw, smallest_dim
from training.evaluate import SETTINGS, development_cases, observed
from training.fields import MAX_DEGREE
from training.ranker import (
    Data,
    export,
    joined,
    read_contexts,
    read_shards,
    report,
    selector_tensors,
    some,
    train,
)

SHARD = 100
PRIORS = {
    "fim-ode": {"paper": 0.39, "sparse": 0.34, FUNCTIONS: 0.26, "chaotic": 0.01},
    "auto": {
        "paper": 0.2,
        "sparse": 0.35,
        FUNCTIONS: 0.15,
        "trigonometric": 0.08,
        "rational": 0.12,
        "exponential": 0.07,
        "mixed": 0.03,
    },
}
FAST_SHARE = 0.3
"""Of the portfolio's contexts that are searched on its small budget."""
DIMS = {1: 0.2, 2: 0.4, 3: 0.4}
THRESHOLD = 0.9
"""R2 above which a trajectory is followed."""
WORST = 1e3
"""Relative error of a field, beyond which it makes no difference."""
POINTS = 100
"""Points along each path of a label where fields are compared."""
STEP = 0.1
"""Longest Runge-Kutta step of a label, in the data's unit of time."""


def label(context, observations, dictionary, coefficients):
    """Reconstruction, mean generalisation and errors of the field along both (C, 4).

    Parameters
    ----------
    context : KnownContext
        What was observed of which system.
    observations : Observations
        The same in scaled units.
    dictionary : Dictionary
        Terms of all candidates.
    coefficients : array (C, m, d)
        Candidates, in scaled units.
    """
    starts = np.tile(context.paths[:, 0] / observations.scale, (len(coefficients), 1, 1))
    times = context.label_t[None] / observations.time_unit
    success = np.zeros((len(coefficients), len(context.paths)))
    for k, truth in enumerate(context.paths):  # one at a time: a field that fails one is not given up
        paths = rollout(dictionary, coefficients, starts[:, k : k + 1], times, STEP)
        for c, path in enumerate(paths[:, 0] * observations.scale):
            success[c, k] = np.isfinite(path).all() and r2_score(truth, path) > THRESHOLD
    errors = []
    for points in (context.paths[0], context.paths[1:].reshape(-1, observations.dim)):
        points = points[:: max(len(points) // POINTS, 1)]
        truth = context.field(points) * observations.time_unit / observations.scale
        scaled = points / observations.scale
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            said = np.stack([DictionaryField(dictionary, own)(scaled) for own in coefficients])
        gap = np.nan_to_num(np.abs(said - truth).mean(axis=(1, 2)), nan=WORST, posinf=WORST)
        errors.append(np.minimum(gap / (np.abs(truth).mean() + 1e-9), WORST))
    return np.column_stack([success[:, 0], success[:, 1:].mean(axis=1), *errors])


def operator_candidates(model):
    """What makes features and labels of the operator's candidates for one context."""

    def found(context, observed, _):
        ((solves, variances),) = model.opinions([observed])
        dictionary = Dictionary.polynomial(observed.dim, MAX_DEGREE)
        found = consider(observed, dictionary, solves, variances)
        coefficients = np.stack([c.coefficients for c in found.candidates])
        return found.features(), label(context, found.search.observations, dictionary, coefficients)

    return found


def portfolio_candidates(context, observed, rng, fast_share=FAST_SHARE):
    """Features and labels of the portfolio's candidates for one context, on either budget."""
    budget = "fast" if rng.random() < fast_share else "full"
    found = Auto(budget, seed=int(rng.integers(2**31))).portfolio(observed)
    return found.features(), label(context, found.search.observations, found.terms, found.coefficients)


def make_shard(path, seed, priors, candidates, size=SHARD):
    """Draw contexts, make and label their candidates; written aside and renamed."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for number in tqdm(range(size), desc=path.stem, disable=None, leave=False):
        context = _next_context(priors, rng)
        found = candidates(context, Trajectories.from_arrays(context.x, context.t), rng)
        arrays |= _entries(number, *found, context.prior, priors, context.field.dim)
    _save(path, arrays)


def _next_context(priors, rng):
    prior = str(rng.choice(list(priors), p=list(priors.values())))
    dim = int(rng.choice(list(DIMS), p=list(DIMS.values())))
    return draw(prior, max(dim, smallest_dim(prior)), rng)


def _entries(number, values, labels, prior, priors, dim):
    """The arrays of one context in a shard."""
    return {
        f"{number}/features": values.astype(np.float32),
        f"{number}/labels": labels.astype(np.float32),
        f"{number}/prior": np.array([list(priors).index(prior), dim]),
    }


def _save(path, arrays):
    aside = path.with_suffix(".aside.npz")
    np.savez(aside, **arrays)
    aside.rename(path)


def make_development(path, candidates):
    """Contexts, candidates and labels as in a shard, of the development split under three settings."""
    cases = list(development_cases())
    arrays = {}
    trials = [(case, own, setting) for case in cases for own in (0, 1) for setting in SETTINGS]
    for number, (case, own, (sigma, rho)) in enumerate(tqdm(trials, desc=path.stem, disable=None)):
        seen = observed(case, own, sigma, rho, 0)
        ((t, x),) = seen.arrays()
        context = KnownContext(case.source, case.truth, t, x, case.t, case.states[[own, 1 - own]])
        rng = np.random.default_rng([number])
        arrays[f"{number}/features"], arrays[f"{number}/labels"] = candidates(context, seen, rng)
        arrays[f"{number}/prior"] = np.array([SETTINGS.index((sigma, rho)), x.shape[1]])
    _save(path, arrays)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m training.selection", description=__doc__)
    parser.add_argument("--run", required=True, help="folder in runs/ for shards and weights")
    parser.add_argument("--model", choices=sorted(PRIORS), default="fim-ode", help="whose candidates")
    parser.add_argument("--contexts", type=int, default=10_000, help="contexts to have, of all workers")
    parser.add_argument(
        "--worker", type=int, nargs=2, default=(0, 1), metavar=("K", "OF"), help="share of shards"
    )
    parser.add_argument("--also", nargs="*", default=[], metavar="NAME", help="runs whose contexts add to it")
    parser.add_argument("--take", type=int, metavar="N", help="train on so many of the contexts only")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--weights", help="operator's weights (default: shipped)")
    parser.add_argument("--only", choices=("generate", "train", "judge"))
    parser.add_argument("--device", default="cpu", help="of the ranker's training")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder = Path("runs") / arguments.run
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.only != "train":
        candidates = portfolio_candidates
        if arguments.model == "fim-ode":
            options = {"weights": arguments.weights} if arguments.weights else {}
            candidates = operator_candidates(fim_dynsys.load("fim-ode", **options))
        if arguments.only == "judge":
            if arguments.model == "auto":
                candidates = partial(portfolio_candidates, fast_share=0.0)
            _judge(arguments, folder, candidates)
            return
        for number, path in _missing(arguments, folder):
            make_shard(path, [arguments.seed, number], PRIORS[arguments.model], candidates)
    if arguments.only != "generate":
        _train_and_export(arguments, folder)


def _missing(arguments, folder: Path) -> list[tuple[int, Path]]:
    """Numbers and paths of this worker's shards that are not there yet."""
    worker, workers = arguments.worker
    numbers = range(worker, -(-arguments.contexts // SHARD), workers)
    pairs = [(number, folder / f"shard-{number:05d}.npz") for number in numbers]
    return [(number, path) for number, path in pairs if not path.exists()]


def _judge(arguments, folder: Path, candidates) -> None:
    """The trained choice beside BIC's and an oracle's on the development split, by setting."""
    path = folder / "development.npz"
    if not path.exists():
        make_development(path, candidates)
    weights = folder / (
        f"{SELECTOR_FILE}.safetensors" if arguments.model == "auto" else "weights.safetensors"
    )
    arrays = read_selector(weights) if arguments.model == "auto" else read_part(weights, SELECTOR)
    selector = Selector.from_tensors(arrays)
    data = read_contexts([path])
    logits = torch.full(data.mask.shape, -torch.inf)
    for own, values, mask in zip(logits, data.features.double().numpy(), data.mask, strict=True):
        own[mask] = torch.from_numpy(selector.logits(values[mask.numpy()])).float()
    for k, setting in enumerate(SETTINGS):
        part = data.origin[:, 0] == k
        for name, line in report(data.subset(part), logits[part]).items():
            print(f"{setting!s:12s} {name:10s} {line['reconstruction']:.1f} / {line['generalisation']:.1f}")


def _train_and_export(arguments, folder: Path) -> None:
    data = read_shards([folder])
    held_out = torch.arange(len(data.mask)) % 10 == 0
    known, unknown = data.subset(~held_out), data.subset(held_out)
    if arguments.also:
        more = read_shards([Path("runs") / name for name in arguments.also], data.features.shape[2])
        known = joined(known, more)
    if arguments.take is not None:
        known = some(known, arguments.take, arguments.seed)
    seen = known.features[known.mask]
    centre, spread = seen.mean(0), seen.std(0).clamp(min=1e-3)
    known, unknown = (
        Data(((d.features - centre) / spread).clamp(-CLIP, CLIP), d.labels, d.mask, d.origin)
        for d in (known, unknown)
    )
    members = [
        train(known, arguments.seed + k, arguments.steps, device=arguments.device)
        for k in range(arguments.members)
    ]
    with torch.no_grad():
        logits = torch.stack([m(unknown.features, unknown.mask) for m in members]).mean(0)
    result = report(unknown, logits)
    for name, line in result.items():
        print(f"{name:10s} {line['reconstruction']:.1f} / {line['generalisation']:.1f}")
    header = {"contexts": len(known.mask), "steps": arguments.steps, "held out": result}
    selector = selector_tensors(members, centre, spread)
    if arguments.model == "auto":
        save_selector(folder / f"{SELECTOR_FILE}.safetensors", selector, header)
        return
    operator = Path(arguments.weights) if arguments.weights else shipped(DEFAULT_WEIGHTS)
    export(folder / "weights.safetensors", operator, selector, header)


if __name__ == "__main__":
    main()
