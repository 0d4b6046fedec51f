"""basin_probabilities: where a state leads, with a probability, over fields drawn from a posterior."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fim_dynsys.analyze.bands.draws import drawn_fields
from fim_dynsys.analyze.matching import assigned, extents
from fim_dynsys.analyze.phase_space.basin import Basins, basins
from fim_dynsys.analyze.results import (
    Effort,
    FieldLike,
    RegionLike,
    Result,
    Table,
    Variables,
    labels,
    progress_bar,
    resolve_region,
    unwrap,
)
from fim_dynsys.errors import check_number, check_whole, renamed
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.threads import on_one_thread
from fim_dynsys.wording import counted

_FARTHEST = 0.25  # of the region's size by which an attractor's extent may be off


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BasinProbabilities(Result):
    """Probability maps of basins; made by `basin_probabilities`.

    Attributes
    ----------
    basins : Basins
        Those of the field itself.
    probability : ndarray (k, n, n) or (k, n)
        Share of the draws in which a grid point leads to each of its k attractors.
    fractions : ndarray (m, k)
        Share of the region that leads to each attractor, in each draw; 0 where the draw lacks it.
    existence : ndarray (k,)
        Share of the draws that have each attractor.
    n_draws : int
        Draws that were done.
    level : float
        Probability that `fraction_interval` is meant to have.
    """

    drawn_by = "fim_dynsys.plot.bands:basin_probabilities"

    basins: Basins
    probability: np.ndarray
    fractions: np.ndarray
    existence: np.ndarray
    n_draws: int
    level: float

    @property
    def doubt(self) -> np.ndarray:
        """Probability that a grid point does not lead where the field says: a map of the boundary's band."""
        labels = self.basins.labels
        held = np.take_along_axis(self.probability, np.maximum(labels, 0)[None], axis=0)[0]
        return np.where(labels >= 0, 1.0 - held, np.sum(self.probability, axis=0))

    @property
    def fraction_interval(self) -> np.ndarray:
        """Interval of the share of the region that leads to each attractor, (k, 2)."""
        tail = (1.0 - self.level) / 2.0
        return np.quantile(self.fractions, [tail, 1.0 - tail], axis=0).T

    def _headline(self) -> str:
        return f"Basins of {counted(len(self.existence), 'attractor')} in {counted(self.n_draws, 'draw')}"

    def _rows(self) -> Table:
        rows = [
            [k, a.kind, a.points[0], self.existence[k], self.basins.fractions[k], self.fraction_interval[k]]
            for k, a in enumerate(self.basins.attractors)
        ]
        return ["label", "ends", "at", "exists", "share", f"its {100 * self.level:g} %"], rows

    def _notes(self) -> list[str]:
        return [f"{np.mean(self.doubt > 0.05):.1%} of the image in doubt by over 5 %", *super()._notes()]

    def _variables(self) -> Variables:
        variables = self.basins._variables()
        names = variables["label"][0]
        return {
            **variables,
            "probability": (("attractor", *names), self.probability),
            "existence": (("attractor",), self.existence),
            "fraction_drawn": (("draw", "attractor"), self.fractions),
        }


@on_one_thread
@renamed(draws="n_draws")
def basin_probabilities(
    field: FieldLike,
    region: RegionLike | None = None,
    *,
    n_draws: int | EnsembleField = 16,
    resolution: int = 50,
    n_sample: int = 256,
    level: float = 0.9,
    budget: int = 500_000_000,
    seed: int = 0,
    progress: bool | None = None,
    **options: Any,
) -> BasinProbabilities:
    """Basins of attraction over fields drawn from the posterior: probability maps of their boundaries.

    `basins` runs for the field and for each draw; attractors of a draw are those of the field by an
    assignment of least distance between their extents. What leads elsewhere counts for none.

    Parameters
    ----------
    field : VectorField or fitted model
        The field under analysis.
    region : Region, dict or pairs, optional
        Where to look; default the data's box widened by 10 % on each side.
    n_draws : int or EnsembleField
        Fields drawn from the posterior, or an ensemble such as ``model.ensemble(16)``.
    resolution, n_sample : int
        As for `basins`.
    level : float
        Probability that the intervals of the shares are meant to have.
    budget : int
        Number of field evaluations after which no further draw is begun.
    seed : int
        Of the draws and of the samples.
    progress : bool, optional
        Whether to show how far the work is; by default on a terminal only.
    **options
        As for `basins`, such as ``coordinates``.

    Returns
    -------
    BasinProbabilities

    Raises
    ------
    ValueError
        If the field has no posterior and no ensemble is given, or an option does not fit.
    TypeError
        If `field` has no vector field in the space of the observations.

    See Also
    --------
    basins : Of one field.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze
    >>> box = fim_dynsys.Region([-2, -2], [2, 2])
    >>> wells = fim_dynsys.SymbolicField(["x1", "x0 - x0**3 - 0.5*x1"], region=box)
    >>> rng = np.random.default_rng(0)
    >>> t = np.linspace(0, 12, 120)
    >>> starts = [[1.5, 1.5], [-1.5, -1.5], [0.2, 1.8], [-0.2, -1.8]]
    >>> x = fim_dynsys.simulate(wells, starts, t).x
    >>> noisy = [own + 0.02 * rng.standard_normal(own.shape) for own in x]
    >>> model = fim_dynsys.load("fim-ode").fit(noisy, t)
    >>> options = {"n_draws": 3, "resolution": 10, "n_sample": 32}
    >>> found = analyze.basin_probabilities(model, wells.region, **options, progress=False)
    >>> found.state_names
    ('x0', 'x1')
    """
    check_whole("basin_probabilities", 0, seed=seed)
    level = check_number("basin_probabilities", "level", level, 0.0, 1.0)
    field = unwrap(field, "basin_probabilities")
    region = resolve_region(field, region, "basin_probabilities")
    drawn = drawn_fields(field, n_draws, seed, "basin_probabilities")
    common = {"resolution": resolution, "n_sample": n_sample, "seed": seed, "progress": False, **options}
    whole = basins(field, region, budget=budget, **common)
    k = len(whole.attractors)
    total, fractions, weights = np.zeros((k, *whole.labels.shape)), [], []
    existence = np.zeros(k)
    points = whole.effort.points
    with progress_bar(progress, len(drawn), "basins", "draws") as bar:
        for member, weight in zip(drawn, drawn.weights, strict=True):
            if points >= budget:
                break
            found = basins(member, region, budget=budget - points, **common)
            points += found.effort.points
            shares = np.zeros(k)
            ours, theirs = (extents([a.points for a in image.attractors], region) for image in (whole, found))
            for i, j in assigned(ours, theirs, _FARTHEST * np.sqrt(region.dim)):
                total[i] += weight * (found.labels == j)
                existence[i] += weight
                shares[i] = found.fractions[j]
            fractions.append(shares)
            weights.append(weight)
            bar.update()
    if not fractions:
        raise ValueError(
            f"basin_probabilities: expected a budget for at least one draw, got {budget:,}, of which the "
            f"field itself took {whole.effort.points:,}."
        )
    done = sum(weights)
    return BasinProbabilities(
        basins=whole,
        probability=total / done,
        fractions=np.array(fractions),
        existence=existence / done,
        n_draws=len(fractions),
        level=level,
        effort=Effort(
            whole.effort.seeds * (1 + len(fractions)), 0, points, budget, len(fractions) < len(drawn)
        ),
        **labels(field),
    )
