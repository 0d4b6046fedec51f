"""Train what chooses among candidate fields: python -m training.choice --run NAME.

Contexts of known systems are drawn, candidates made as at inference, and each labelled by what it does.
Shards of 100 contexts are kept in runs/NAME, so an interrupted command goes on where it was; several may work
at once on different --worker numbers. The result is runs/NAME/weights.safetensors, the operator and its
selector.
"""

import argparse
from pathlib import Path

import torch

import fim_dynsys
from fim_dynsys.models.fim_ode.own import DEFAULT_WEIGHTS
from fim_dynsys.models.fim_ode.weights import SELECTOR, read_part, shipped
from fim_dynsys.search.selector import CLIP, Selector
from training.choice.labels import MakeCandidates, operator_candidates
from training.choice.ranker import export, report, selector_tensors, train
from training.choice.shards import (
    SHARD,
    SHARES,
    LabelledContexts,
    joined,
    make_development,
    make_shard,
    read_contexts,
    read_shards,
)
from training.evaluate import SETTINGS


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m training.choice", description=__doc__)
    parser.add_argument("--run", required=True, help="folder in runs/ for shards and weights")
    parser.add_argument("--contexts", type=int, default=10_000, help="contexts to have, of all workers")
    parser.add_argument(
        "--worker", type=int, nargs=2, default=(0, 1), metavar=("K", "OF"), help="share of shards"
    )
    parser.add_argument("--also", nargs="*", default=[], metavar="NAME", help="runs whose contexts add to it")
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
        options = {"weights": arguments.weights} if arguments.weights else {}
        candidates = operator_candidates(fim_dynsys.load("fim-ode", **options))
        if arguments.only == "judge":
            _judge(folder, candidates)
            return
        for number, path in _missing(arguments, folder):
            make_shard(path, [arguments.seed, number], SHARES, candidates)
    if arguments.only != "generate":
        _train_and_export(arguments, folder)


def _missing(arguments: argparse.Namespace, folder: Path) -> list[tuple[int, Path]]:
    """Numbers and paths of this worker's shards that are not there yet."""
    worker, workers = arguments.worker
    numbers = range(worker, -(-arguments.contexts // SHARD), workers)
    pairs = [(number, folder / f"shard-{number:05d}.npz") for number in numbers]
    return [(number, path) for number, path in pairs if not path.exists()]


def _judge(folder: Path, candidates: MakeCandidates) -> None:
    """The trained choice beside BIC's and an oracle's on the development split, by setting."""
    path = folder / "development.npz"
    if not path.exists():
        make_development(path, candidates)
    arrays = read_part(folder / "weights.safetensors", SELECTOR)
    selector = Selector.from_tensors(arrays)
    data = read_contexts([path])
    logits = torch.full(data.mask.shape, -torch.inf)
    for own, values, mask in zip(logits, data.features.double().numpy(), data.mask, strict=True):
        own[mask] = torch.from_numpy(selector.logits(values[mask.numpy()])).float()
    for k, setting in enumerate(SETTINGS):
        part = data.origin[:, 0] == k
        for name, line in report(data.subset(part), logits[part]).items():
            print(f"{setting!s:12s} {_line(name, line)}")


def _line(name: str, scores: dict[str, float]) -> str:
    return f"{name:10s} " + " / ".join(f"{value:.1f}" for value in scores.values())


def _train_and_export(arguments: argparse.Namespace, folder: Path) -> None:
    data = read_shards([folder])
    held_out = torch.arange(len(data.mask)) % 10 == 0
    known, unknown = data.subset(~held_out), data.subset(held_out)
    if arguments.also:
        more = read_shards([Path("runs") / name for name in arguments.also])
        known = joined(known, more)
    seen = known.features[known.mask]
    centre, spread = seen.mean(0), seen.std(0).clamp(min=1e-3)
    known, unknown = (
        LabelledContexts(((d.features - centre) / spread).clamp(-CLIP, CLIP), d.labels, d.mask, d.origin)
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
        print(_line(name, line))
    header = {"contexts": len(known.mask), "steps": arguments.steps, "held out": result}
    selector = selector_tensors(members, centre, spread)
    operator = Path(arguments.weights) if arguments.weights else shipped(DEFAULT_WEIGHTS)
    export(folder / "weights.safetensors", operator, selector, header)


if __name__ == "__main__":
    main()
