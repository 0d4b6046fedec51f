"""Pictures of what was drawn and how training went: python -m training.describe prior|run|scaling|sizes ...

`prior NAME` shows a prior's statistics: how large the field is inside the box of its trajectories and how
fast it grows outside, with the system that stands out inside; how far its values scatter in the units that
operators train in; examples. `run FOLDER` shows the losses, gradient norm and learning rate of a run;
`scaling` the curves of the scaling study, `sizes` what larger pretraining sets bring.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from training.objective import PLACES, TRIVIAL_LOSS
from training.scaling.tables import end_points, read_rows
from training.systems.generation import SAMPLING_STEP, Systems, generate
from training.systems.priors import names

DISTANCES = np.linspace(-1.0, 2.0, 31)  # in half widths of the box, negative inside, -1 in its middle
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
EXAMPLES = 4


# --- a prior's statistics ---


def growth(systems: Systems, seed: int = 0) -> Tensor:
    """Size of the field (n, len(DISTANCES)) at distances from the box, relative to that on the trajectories.

    Each system is asked along eight random rays from the middle of its box, which is a cube in units of its
    half widths; sizes are in the same units.
    """
    low, high = (corner.double() for corner in systems.box())
    middle, half = (low + high) / 2, ((high - low) / 2).clamp(min=1e-9)
    generator = torch.Generator().manual_seed(seed)
    ray = torch.randn(len(systems), 8, 1, systems.dim, generator=generator, dtype=torch.float64)
    ray = ray / ray.abs().amax(-1, keepdim=True)  # ends on the surface of the cube
    reach = torch.from_numpy(1 + DISTANCES).view(1, 1, -1, 1)
    points = middle[:, None, None] + half[:, None, None] * ray * reach
    out = (systems.fields(points) / half[:, None, None]).norm(dim=-1).mean(1)
    inside = systems.fields(systems.states) / half[:, None, None]
    return out / inside.norm(dim=-1).mean((1, 2)).clamp(min=1e-12)[:, None]


def targets(systems: Systems) -> tuple[Tensor, Tensor]:
    """Largest size of the field on each first trajectory (n,) in the paper's units and in ours.

    The paper divides by the standard deviation and makes a mean time step 0.01; ours makes the time in which
    the state travels one standard deviation the unit.
    """
    path = systems.states[:, :1].double()
    field = systems.fields(path)[:, 0] / path.std(2).clamp(min=1e-9)
    paper = field * (SAMPLING_STEP / 0.01)
    ours = field / field.square().mean((1, 2), keepdim=True).sqrt().clamp(min=1e-12)
    return paper.abs().amax((1, 2)), ours.abs().amax((1, 2))


def statistics(systems: Systems) -> dict[str, float]:
    """A few numbers of a prior; ranges and rest are over all trajectories."""
    span = (systems.states.amax(2) - systems.states.amin(2)).amax(-1).flatten()
    late = systems.states[:, :, 3 * systems.states.shape[2] // 4 :]
    rest = (late.amax(2) - late.amin(2)).amax(-1) < 0.01
    paper, ours = targets(systems)
    return {
        "median range": float(span.median()),
        "95 % range": float(span.quantile(0.95)),
        "at rest at the end, %": 100 * float(rest.double().mean()),
        "terms": float((systems.coefficients != 0).sum((1, 2)).double().mean()),
        "largest target, paper's units": float(paper.max()),
        "largest target, ours": float(ours.max()),
    }


def prior_figure(name: str, pools: dict[int, Systems]) -> Figure:
    """One row per dimension: size inside and outside the box, scatter of targets, examples."""
    figure = Figure(figsize=(11, 3.1 * len(pools)), layout="constrained")
    grid = figure.subplots(len(pools), 3, squeeze=False)
    for row, (dim, systems) in zip(grid, sorted(pools.items()), strict=True):
        _draw_growth(row[0], growth(systems))
        _draw_targets(row[1], targets(systems))
        _draw_examples(row[2], systems)
        row[0].set_ylabel(f"d = {dim}: |f| / mean |f| on paths")
    grid[0, 0].set_title("field inside and outside the box")
    grid[0, 1].set_title("largest target of a context")
    grid[0, 2].set_title("examples")
    figure.suptitle(f"prior {name}")
    return figure


def _draw_growth(axes: Axes, size: Tensor) -> None:
    bands = np.quantile(size.numpy(), LEVELS, axis=0)
    axes.fill_between(DISTANCES, bands[0], bands[4], alpha=0.2, label="90 %")
    axes.fill_between(DISTANCES, bands[1], bands[3], alpha=0.35, label="50 %", color="tab:blue")
    axes.plot(DISTANCES, bands[2], label="median")
    axes.plot(DISTANCES, size.mean(0).numpy(), "--", label="mean")
    inside = size[:, DISTANCES <= 0].mean(1)
    axes.plot(DISTANCES, size[int(inside.argmax())].numpy(), ":", label="the outlier inside")
    axes.axvline(0, color="0.5", lw=0.8)
    axes.set(yscale="log", xlabel="distance to the box, in half widths")
    axes.legend(fontsize=7)


def _draw_targets(axes: Axes, values: tuple[Tensor, Tensor]) -> None:
    share = 1 - np.arange(len(values[0])) / len(values[0])
    for label, own in zip(("paper's units", "unit of travel"), values, strict=True):
        axes.step(
            np.sort(own.numpy()), 100 * share, where="post", label=f"{label}: up to {float(own.max()):.3g}"
        )
    axes.set(xscale="log", yscale="log", xlabel="size", ylabel="contexts with more, %")
    axes.legend(fontsize=7)


def _draw_examples(axes: Axes, systems: Systems) -> None:
    """A few trajectories of each example, in units of their system's box."""
    moving = systems[systems.moving()]  # of a mixture, one family after the other
    chosen = moving[torch.linspace(0, len(moving) - 1, EXAMPLES).long()]
    low, high = chosen.box()
    states = ((chosen.states - low[:, None, None]) / (high - low).clamp(min=1e-9)[:, None, None]).numpy()
    for k, own in enumerate(states):
        for path in own[:5]:
            if systems.dim == 1:
                axes.plot(SAMPLING_STEP * np.arange(len(path)), path[:, 0] + 1.1 * k, color=f"C{k}", lw=0.8)
            else:
                axes.plot(path[:, 0] + 1.1 * k, path[:, 1], color=f"C{k}", lw=0.8)
    axes.set_yticks([])
    axes.set_xlabel("time" if systems.dim == 1 else "first two coordinates, each example in its box")


# --- how training went ---


def _columns(path: Path) -> dict[str, np.ndarray]:
    rows = read_rows(path)
    return {key: np.array([float(row[key] or "nan") for row in rows]) for key in rows[0]}


def run_figure(folder: Path) -> Figure:
    """Losses, weighted and plain, of training and validation; gradient norm and learning rate.

    Where there is an uncertainty head, its mean estimates beside the losses.
    """
    log = _columns(folder / "log.csv")
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    steps = log["step"]
    for key, label in (("loss", "weighted"), ("plain", "plain")):
        (line,) = left.plot(steps, log[key], label=f"train, {label}", lw=1)
        left.plot(
            steps, log[f"validation {key}"], label=f"validation, {label}", color=line.get_color(), ls="--"
        )
    if "validation uncertainty" in log:
        (line,) = left.plot(steps, log["uncertainty"], label="train, uncertainty", lw=1)
        left.plot(
            steps,
            log["validation uncertainty"],
            label="validation, uncertainty",
            color=line.get_color(),
            ls="--",
        )
    left.axhline(TRIVIAL_LOSS, color="0.6", lw=0.8)
    wide = np.nanmax(np.abs(log["loss"])) > 2.0 * TRIVIAL_LOSS  # an objective with deviations, of either sign
    left.set(xlabel="step", ylabel="loss", title=folder.name, yscale="symlog" if wide else "linear")
    for place in PLACES:
        for key in (k for k in log if k.startswith(f"validation {place} ")):
            middle.plot(steps, log[key], label=key.removeprefix("validation "), lw=1)
    middle.set(xlabel="step", ylabel="median relative error, validation", yscale="log")
    right.plot(steps, log["gradient"], color="tab:gray", label="gradient norm")
    right.set(xlabel="step", yscale="log", ylabel="gradient norm")
    rate = right.twinx()
    rate.plot(steps, log["rate"], color="tab:red")
    rate.set_ylabel("learning rate", color="tab:red")
    left.legend(fontsize=7)
    middle.legend(fontsize=6, ncols=2)
    return figure


def scaling_figure(folder: Path) -> Figure:
    """End points of the scaling study with their power laws, and the losses on the way."""
    points = end_points(read_rows(folder / "accuracy.csv"))
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    error, success, way = figure.subplots(1, 3)
    for k, ((design, use), of_design) in enumerate(sorted(points.items())):
        minutes = np.array(list(of_design))
        values, shares = np.array(list(of_design.values())).T
        label, colour = f"{design}, {use}", f"C{k}"
        error.plot(minutes, values, "o", color=colour, label=label)
        success.plot(minutes, shares, "o-", color=colour, label=label)
        if len(minutes) > 1:
            slope, level = np.polyfit(np.log(minutes), np.log(values), 1)
            ahead = np.geomspace(minutes[0], 720, 30)
            error.plot(ahead, np.exp(level) * ahead**slope, "--", lw=0.8, color=colour)
    error.set(xscale="log", yscale="log", xlabel="CPU-minutes", ylabel="relative error off the path")
    success.set(xscale="log", xlabel="CPU-minutes", ylabel="generalisation, %")
    error.legend(fontsize=7)
    _draw_way(way, folder / "curves.csv")
    return figure


def sizes_figure(folder: Path) -> Figure:
    """Successes and errors against the number of systems that were learnt from, and the last losses.

    Means over the sources; of the losses, on systems that were learnt from and on held-out ones.
    """
    table = pd.read_csv(folder / "accuracy.csv")
    curves = pd.read_csv(folder / "curves.csv")
    for rows in (table, curves):
        rows["systems"] = rows.design.str.split().str[0].str.replace(",", "").astype(int)
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    success, error, losses = figure.subplots(1, 3)
    for (sigma, rho), own in table[table.dim == "all"].groupby(["sigma", "rho"]):
        means = own.groupby("systems")
        (line,) = success.plot(means.generalisation.mean(), "o-", label=f"noise {sigma:g}, dropped {rho:g}")
        success.plot(means.reconstruction.mean(), "s--", color=line.get_color())
        for column, style in (("error other", "o-"), ("error own", "s--")):
            logs = np.log(own[column]).groupby(own.systems).mean()
            error.plot(np.exp(logs), style, color=line.get_color())
    last = curves[curves.step == curves.step.max()].groupby("systems")
    for column, label in (("plain", "learnt from"), ("validation plain", "held out")):
        losses.plot(last[column].mean(), "o-", label=label)
    for axes in (success, error, losses):
        axes.set(xscale="log", xlabel="systems in the pretraining set")
    success.set(ylabel="%, generalisation; dashed: reconstruction")
    error.set(yscale="log", ylabel="relative error, other paths; dashed: own")
    losses.set(ylabel="loss, plain")
    success.legend(fontsize=7)
    losses.legend(fontsize=7)
    return figure


def _draw_way(axes: Axes, path: Path) -> None:
    rows = read_rows(path)
    runs: dict[tuple[str, ...], list[dict]] = {}
    for row in rows:
        runs.setdefault((row["design"], row["minutes"], row["seed"]), []).append(row)
    colour = {design: f"C{k}" for k, design in enumerate(sorted({key[0] for key in runs}))}
    for (design, minutes, _), own in sorted(runs.items()):
        x = [float(row["seconds"]) / 60 for row in own]
        y = [float(row["validation plain"]) for row in own]
        axes.plot(x, y, lw=1, color=colour[design], label=f"{design}, {minutes} min")
    axes.axhline(TRIVIAL_LOSS, color="0.6", lw=0.8)
    axes.set(xscale="log", xlabel="CPU-minutes", ylabel="validation loss, plain")
    axes.legend(fontsize=6)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m training.describe", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    prior = kinds.add_parser("prior", help="statistics of a prior")
    prior.add_argument("name", help=f"one of {', '.join(names())}")
    prior.add_argument("--dims", type=int, nargs="*", default=[1, 2, 3])
    prior.add_argument("--n", type=int, default=300, help="systems per dimension")
    prior.add_argument("--seed", type=int, default=0)
    run = kinds.add_parser("run", help="losses of a run")
    run.add_argument("folder", type=Path)
    scaling = kinds.add_parser("scaling", help="curves of the scaling study")
    scaling.add_argument("--folder", type=Path, default=Path(__file__).parent / "scaling")
    sizes = kinds.add_parser("sizes", help="what larger pretraining sets bring")
    sizes.add_argument("--folder", type=Path, default=Path(__file__).parent / "scaling" / "sizes")
    for kind in (prior, run, scaling, sizes):
        kind.add_argument("--out", type=Path, help="image file")
    options = parser.parse_args()
    if options.kind == "prior":
        pools = {dim: generate(options.name, dim, options.n, options.seed) for dim in options.dims}
        for dim, systems in pools.items():
            print(
                f"{options.name} {dim}-D:", ", ".join(f"{k} {v:.3g}" for k, v in statistics(systems).items())
            )
        figure, default = prior_figure(options.name, pools), Path(f"prior-{options.name}.png")
    elif options.kind == "run":
        figure, default = run_figure(options.folder), options.folder / "log.png"
    elif options.kind == "scaling":
        figure, default = scaling_figure(options.folder), options.folder / "scaling.png"
    else:
        figure, default = sizes_figure(options.folder), options.folder / "sizes.png"
    figure.savefig(options.out or default, dpi=130)
    print(f"written: {options.out or default}")


if __name__ == "__main__":
    main()
