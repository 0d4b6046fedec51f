"""Draw the pictures of docs/plot.md: a portrait, a bifurcation diagram of data, and basins of attraction."""

import argparse
import io
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image

import fim_dynsys
from fim_dynsys import CallableField, Trajectories, analyze, corruption, plot, systems

matplotlib.use("Agg")

_COLORS = 160  # of the palette that a picture is stored with


def portrait() -> plot.Drawing:
    """Two competing species: four fixed points, nullclines, and the curve that decides who wins."""
    system = systems.get("competition")
    starts = system.region.uniform(8, np.random.default_rng(3)).clip(0.1)
    clean = fim_dynsys.simulate(system.field(), starts, np.linspace(0.0, 6.0, 40))
    observed = corruption.add_noise(clean, 0.01, np.random.default_rng(0))
    model = fim_dynsys.load("fim-ode").fit(observed)
    points = analyze.fixed_points(model, system.region)
    found = [f(model, system.region) for f in (analyze.nullclines, analyze.manifolds)]
    return plot.phase_portrait(model, *found, points, region=system.region)


def diagram() -> plot.Drawing:
    """The Brusselator measured at 15 parameter values: a Hopf point and the cycles it gives birth to."""
    values, t = np.linspace(1.2, 2.8, 15), np.linspace(0.0, 15.0, 150)
    rng, paths = np.random.default_rng(0), []
    for value in values:
        system = systems.get("brusselator").with_parameters(B=float(value))
        clean = fim_dynsys.simulate(system.field(), system.initial_states, t).x
        paths += [x + 0.03 * x.std(axis=0) * rng.standard_normal(x.shape) for x in clean]
    coords = {"B": np.repeat(values, 2)}
    data = Trajectories.from_arrays(paths, t, state_names=("x", "y"), coords=coords)
    return analyze.bifurcations_from_data(fim_dynsys.load("fim-ode"), data, "B").plot()


def basins() -> plot.Drawing:
    """A ball in two wells: where it comes to rest, and the separatrix."""
    system = systems.get("double_well")
    field = CallableField(system.rhs, 2, jac=system.jacobian, state_names=("x", "v"))
    image = analyze.basins(field, system.region, resolution=200)
    drawing = image.plot()
    analyze.manifolds(field, system.region).plot(drawing.ax)
    return drawing


def main():
    """Draw all pictures, or those named, into a folder."""
    pictures = {f.__name__: f for f in (portrait, diagram, basins)}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(pictures), help=", ".join(pictures))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("plots"))
    arguments = parser.parse_args()
    arguments.out.mkdir(exist_ok=True)
    for name in arguments.names:
        drawing = pictures[name]()
        image = Image.open(io.BytesIO(drawing.png(dpi=90))).convert("RGB").quantize(_COLORS)
        image.save(arguments.out / f"{name}.png", optimize=True)
        drawing.close()


if __name__ == "__main__":
    main()
