"""Draw the pictures of the pages, into docs/plots, where git does not keep them: `make docs` does so."""

import argparse
import io
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from PIL import Image

import fim_dynsys
from benchmarks import report, time_curve
from benchmarks.comparators.tables import draw as draw_comparators
from benchmarks.inputs.figures import draw as draw_inputs
from benchmarks.odebench.__main__ import BENCHMARK as ODEBENCH
from benchmarks.polynomials.figures import draw as draw_polynomials
from benchmarks.sparse.figures import draw as draw_sparse
from benchmarks.structure.figures import draw as draw_structure
from fim_dynsys import CallableField, FieldFamily, Region, Trajectories, analyze, corruption, plot, systems

matplotlib.use("Agg")

ROOT = Path(__file__).resolve().parents[1]
_COLORS = 160  # of the palette that a picture is stored with
_RESOLUTION = 90  # dots per inch


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


def _lorenz(r: float) -> CallableField:
    def rates(s):
        x, y, z = s.T
        return np.stack([10 * (y - x), x * (r - z) - y, x * y - 8 / 3 * z], axis=1)

    box = Region({"x": (-25, 25), "y": (-30, 30), "z": (-2, 55)})
    return CallableField(rates, 3, region=box, state_names=box.names)


def _record(n: int, step: float) -> Trajectories:
    path = fim_dynsys.simulate(_lorenz(28), [[1.0, 1.0, 20.0]], step * np.arange(n + 500)).x[0][500:]
    return Trajectories.from_arrays(path, step * np.arange(n), state_names=["x", "y", "z"])


def measures() -> plot.Drawing:
    """Lorenz's attractor beside simulations of two fields, of which one comes to rest."""
    return analyze.measures(_record(1500, 0.04), {"r = 28": _lorenz(28), "r = 20": _lorenz(20)}).plot()


def embedding() -> plot.Drawing:
    """The delay embedding of one state of Lorenz's attractor."""
    return analyze.delay_embedding(_record(4000, 0.02), "x").plot()


def correlation() -> plot.Drawing:
    """The correlation sum of Lorenz's attractor."""
    return analyze.correlation_dimension(_record(20_000, 0.1)).plot()


def space() -> plot.Drawing:
    """Lorenz's attractor with its fixed points."""
    field = _lorenz(28)
    path = fim_dynsys.simulate(field, [[1.0, 1.0, 20.0]], np.arange(0, 30, 0.01))
    return plot.portrait_3d(field, analyze.fixed_points(field), path)


def _fitted(name: str, starts: np.ndarray, n: int, noise: float):
    system = systems.get(name)
    clean = fim_dynsys.simulate(system.field(), starts, np.linspace(0, system.t_end, n))
    return fim_dynsys.load("fim-ode").fit(corruption.add_noise(clean, noise, np.random.default_rng(0)))


def cycles() -> plot.Drawing:
    """A predator and its prey: a limit cycle with those of drawn fields."""
    system = systems.get("rosenzweig_macarthur")
    return analyze.cycle_bands(_fitted(system.name, system.initial_states, 100, 0.05), n_draws=32).plot()


def separatrices() -> plot.Drawing:
    """A ball in two wells: its separatrices with bands."""
    region = systems.get("double_well").region
    return analyze.manifold_bands(
        _fitted("double_well", region.sobol(6), 100, 0.05), region, n_draws=16
    ).plot()


def doubt() -> plot.Drawing:
    """The same: basins, and where their boundary is in doubt."""
    region = systems.get("double_well").region
    model = _fitted("double_well", region.sobol(6), 100, 0.05)
    return analyze.basin_probabilities(model, region, n_draws=6, resolution=40, n_sample=64).plot()


def _switch() -> analyze.DataBifurcations:
    t, runs, values = np.linspace(0, 8, 60), [], []
    for mu in np.linspace(-0.2, 1.0, 9):
        field = CallableField(lambda x, mu=mu: mu + x - x**3, 1)
        runs += list(fim_dynsys.simulate(field, [[-1.6], [1.6]], t).x)
        values += [mu, mu]
    data = Trajectories.from_arrays(runs, t, coords={"mu": values})
    noisy = corruption.add_noise(data, 0.1, np.random.default_rng(1))
    return analyze.bifurcations_from_data(fim_dynsys.load("fim-ode"), noisy, "mu")


def branches() -> plot.Drawing:
    """A switch measured at nine values, with bands."""
    return analyze.branch_bands(_switch()).plot()


def following() -> plot.Drawing:
    """Where to measure the switch next."""
    return analyze.next_measurement(_switch()).plot()


def tipping() -> plot.Drawing:
    """A ramp that ends just before the fold, and noise."""
    family = FieldFamily.from_callable(lambda x, p: p + x - x**3, 1, "p", region=[(-2, 2)])
    return analyze.tipping(family, [-1.2], 20.0, ramp=(0.0, 0.36), hold=10.0, noise=0.15, n_paths=200).plot()


def cusp() -> plot.Drawing:
    """Two folds that meet, from trajectories at 16 pairs of values."""
    t, runs, pairs = np.linspace(0, 6, 60), [], []
    for h in np.linspace(-0.8, 0.8, 4):
        for r in np.linspace(-0.5, 1.5, 4):
            field = CallableField(lambda x, h=h, r=r: h + r * x - x**3, 1)
            runs += list(fim_dynsys.simulate(field, [[-1.6], [1.6]], t).x)
            pairs += [(h, r)] * 2
    values = np.array(pairs)
    data = Trajectories.from_arrays(runs, t, coords={"h": values[:, 0], "r": values[:, 1]})
    noisy = corruption.add_noise(data, 0.1, np.random.default_rng(1))
    return analyze.curves_from_data(fim_dynsys.load("fim-ode"), noisy, ("h", "r"), n_draws=8).plot()


def success_time(path: Path) -> None:
    """Success of models on ODEBench against CPU-seconds."""
    time_curve.draw_time(_table("odebench", "success_time"), path, ODEBENCH.title)


def _table(benchmark: str, name: str = "summary") -> pd.DataFrame:
    """A committed table of a benchmark."""
    (table,) = report.read_tables([ROOT / "benchmarks" / benchmark / "results"], name)
    return table


def _drawn(make: Callable[[], plot.Drawing]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        drawing = make()
        path.write_bytes(drawing.png(dpi=_RESOLUTION))
        drawing.close()

    return write


def _of_summary(benchmark: str, draw: Callable[[pd.DataFrame, Path], None]) -> Callable[[Path], None]:
    return lambda path: draw(_table(benchmark), path)


_OF_PLOTS = (portrait, diagram, basins, space)
_OF_MEASURES = (measures, embedding, correlation)
_OF_BANDS = (cycles, separatrices, doubt, branches, following, tipping, cusp)
PICTURES: dict[str, Callable[[Path], None]] = {
    **{make.__name__: _drawn(make) for make in (*_OF_PLOTS, *_OF_MEASURES, *_OF_BANDS)},
    "success_time": success_time,
    "comparators": _of_summary("comparators", draw_comparators),
    "inputs": _of_summary("inputs", draw_inputs),
    "polynomials": _of_summary("polynomials", draw_polynomials),
    "sparse": _of_summary("sparse", draw_sparse),
    "structure": _of_summary("structure", draw_structure),
}
"""From names to functions that write a picture to a file."""


def main() -> None:
    """Draw all pictures, or those named, into a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "plots", metavar="DIR")
    parser.add_argument("--missing", action="store_true", help="draw those alone that are not there")
    options = parser.parse_args()
    options.out.mkdir(exist_ok=True)
    for name in options.names or PICTURES:
        path = options.out / f"{name}.png"
        if options.missing and path.exists():
            continue
        PICTURES[name](path)
        image = Image.open(io.BytesIO(path.read_bytes())).convert("RGB").quantize(_COLORS)
        image.save(path, optimize=True)


if __name__ == "__main__":
    main()
