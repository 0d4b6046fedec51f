"""Draw docs/picture.png: noisy observations, the field inferred from them, and the true field beside it."""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

import fim_dynsys
from fim_dynsys import corruption, systems

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OBSERVED, TRUE_PATH, INFERRED_PATH = "#d55e00", "#444444", "#0072b2"


def observe(field, starts, t, sigma, seed):
    """Noisy observations of the true field from each start."""
    clean = fim_dynsys.simulate(field, starts, t)
    return corruption.add_noise(clean, sigma, np.random.default_rng(seed), kind="additive")


def draw_stream(ax, field, low, high, n=41):
    """Streamlines of a planar field, paler where the field has no data nearby to rest on."""
    axes = [np.linspace(low[i], high[i], n) for i in range(2)]
    points = np.stack(np.meshgrid(*axes), axis=-1)
    u, v = np.moveaxis(field(points), -1, 0)
    support = field.support(points)
    ax.streamplot(
        *axes,
        u,
        v,
        color=0.25 + 0.75 * support,
        cmap="Greys",
        density=1.3,
        linewidth=0.8,
        arrowsize=0.8,
        norm=plt.Normalize(0.0, 1.6),
    )
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel="$x$", ylabel=r"$\dot x$")


def main():
    """Infer, simulate from a start that was not observed, draw, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="fim-ode")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("picture.png"))
    arguments = parser.parse_args()

    truth = systems.get("van_der_pol").field()
    t = np.linspace(0.0, 10.0, 120)
    noisy = observe(truth, np.array([[0.4, 0.1], [-3.0, 3.0]]), t, sigma=0.1, seed=0)
    inferred = fim_dynsys.load(arguments.model).fit(noisy).field_

    x0, later = np.array([2.6, -3.2]), np.linspace(0.0, 12.0, 600)
    low, high = np.array([-3.6, -4.2]), np.array([3.6, 4.2])
    figure, axes = plt.subplots(1, 3, figsize=(12.0, 4.0), constrained_layout=True, sharey=True)
    for _, x in noisy.arrays():
        axes[0].plot(*x.T, ".", color=OBSERVED, markersize=4)
        axes[1].plot(*x.T, ".", color=OBSERVED, markersize=3, alpha=0.35)
    axes[0].set(
        title="observed: two noisy trajectories",
        xlabel="$x$",
        ylabel=r"$\dot x$",
        xlim=(low[0], high[0]),
        ylim=(low[1], high[1]),
    )
    draw_stream(axes[1], inferred, low, high)
    axes[1].set(title=f"inferred by {arguments.model}", ylabel="")
    draw_stream(axes[2], truth, low, high)
    axes[2].set(title="truth", ylabel="")
    path = fim_dynsys.simulate(inferred, x0, later).x[0]
    true_path = fim_dynsys.simulate(truth, x0, later).x[0]
    for ax in axes[1:]:
        ax.plot(*true_path.T, color=TRUE_PATH, linewidth=3.0, alpha=0.5, label="true path, not observed")
    axes[1].plot(*path.T, color=INFERRED_PATH, linewidth=1.6, label="simulated in the inferred field")
    axes[1].plot(*x0, "o", color=INFERRED_PATH, markersize=5)
    axes[1].legend(loc="upper left", fontsize=8, framealpha=0.9)
    figure.savefig(arguments.out, dpi=110)


if __name__ == "__main__":
    main()
