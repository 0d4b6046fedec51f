"""manifold_bands: stable and unstable manifolds with how far those of drawn fields lie from them."""

from dataclasses import dataclass

import numpy as np

from fim_dynsys.analyze.bands.draws import drawn_fields, half_width
from fim_dynsys.analyze.bands.lines import nearest
from fim_dynsys.analyze.phase_space.invariant import Manifolds, manifolds
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
from fim_dynsys.fields.frame import Scales
from fim_dynsys.threads import on_one_thread
from fim_dynsys.wording import counted

_FARTHEST = 0.2  # of the region's diagonal: beyond, a branch is another one
_POINTS = 100  # of a branch


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ManifoldBands(Result):
    """Manifolds with bands; made by `manifold_bands`.

    Attributes
    ----------
    manifolds : Manifolds
        Those of the field itself.
    paths : tuple of ndarray (m, d)
        Points along each of its branches, inside the region.
    half_widths : tuple of ndarray (m,)
        Distance within which the branch of a drawn field passes with the probability `level`, in units of
        `length`.
    existence : tuple of ndarray (m,)
        Share of the draws with such a branch near the point.
    length : ndarray (d,)
        Units of the states.
    level : float
        The probability.
    n_draws : int
        Number of draws.
    """

    drawn_by = "fim_dynsys.plot.bands:manifold_bands"

    manifolds: Manifolds
    paths: tuple[np.ndarray, ...]
    half_widths: tuple[np.ndarray, ...]
    existence: tuple[np.ndarray, ...]
    length: np.ndarray
    level: float
    n_draws: int

    def _headline(self) -> str:
        branches = counted(len(self.paths), "branch", "branches")
        return f"{100 * self.level:g} % bands of {branches} of manifolds from {counted(self.n_draws, 'draw')}"

    def _rows(self) -> Table:
        rows = [
            [
                self.manifolds.fixed_points.x[branch.origin],
                "stable" if branch.stable else "unstable",
                float(np.nanmedian(half)) if np.isfinite(half).any() else np.nan,
                float(np.nanmax(half)) if np.isfinite(half).any() else np.nan,
                share.mean(),
            ]
            for branch, half, share in zip(
                self.manifolds.branches, self.half_widths, self.existence, strict=True
            )
        ]
        return ["saddle", "manifold", "median half width", "largest", "exists"], rows

    def _notes(self) -> list[str]:
        return [f"widths in units of {self.length.round(6).tolist()}", *super()._notes()]

    def _variables(self) -> Variables:
        d = len(self.state_names)
        index = np.repeat(np.arange(len(self.paths)), [len(path) for path in self.paths])
        return {
            "branch": (("point",), index),
            "x": (("point", "state"), np.concatenate([np.empty((0, d)), *self.paths])),
            "half_width": (("point",), np.concatenate([np.empty(0), *self.half_widths])),
            "existence": (("point",), np.concatenate([np.empty(0), *self.existence])),
            "length": (("state",), self.length),
        }


@on_one_thread
@renamed(draws="n_draws")
def manifold_bands(
    field: FieldLike,
    region: RegionLike | None = None,
    *,
    n_draws: int | EnsembleField = 32,
    level: float = 0.9,
    seed: int = 0,
    progress: bool | None = None,
) -> ManifoldBands:
    """Bands of the manifolds of saddles, separatrices among them, from fields drawn from the posterior.

    The manifolds of each draw are traced from the start; each branch of the field is compared with the one
    that follows it most closely.

    Parameters
    ----------
    field : VectorField or fitted model
        The field under analysis.
    region : Region, dict or pairs, optional
        Where saddles are sought; default the data's box widened by 10 % on each side.
    n_draws : int or EnsembleField
        Fields drawn from the posterior, or an ensemble such as ``model.ensemble(32)``.
    level : float
        Probability that the bands are meant to have, at each point.
    seed : int
        Of the draws.
    progress : bool, optional
        Whether to show how far the work is; by default on a terminal only.

    Returns
    -------
    ManifoldBands

    Raises
    ------
    ValueError
        If the field has no posterior and no ensemble is given.
    TypeError
        If `field` has no vector field in the space of the observations.

    See Also
    --------
    manifolds : Of one field.

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
    >>> bands = analyze.manifold_bands(model, wells.region, n_draws=4, progress=False)
    >>> type(bands).__name__
    'ManifoldBands'
    """
    check_whole("manifold_bands", 0, seed=seed)
    level = check_number("manifold_bands", "level", level, 0.0, 1.0)
    field = unwrap(field, "manifold_bands")
    region = resolve_region(field, region, "manifold_bands")
    drawn = drawn_fields(field, n_draws, seed, "manifold_bands")
    traced = manifolds(field, region)
    length = _unit(field.scales, region.size)
    paths = tuple(_thinned(branch.path[region.contains(branch.path)]) for branch in traced.branches)
    limit = _FARTHEST * float(np.linalg.norm(region.size / length))
    away: list[list[np.ndarray]] = [[] for _ in paths]
    points = traced.effort.points
    with progress_bar(progress, len(drawn), "manifolds", "draws") as bar:
        for member in drawn:
            found = manifolds(member, region)
            points += found.effort.points
            for k, branch in enumerate(traced.branches):
                same = [b.path / length for b in found.branches if b.stable == branch.stable]
                away[k].append(nearest(paths[k] / length, same, limit))
            bar.update()
    weights = np.array(drawn.weights)
    halves = [half_width(np.array(rows).T, np.zeros(len(rows[0])), weights, level) for rows in away]
    shares = [weights @ np.isfinite(rows) for rows in away]
    return ManifoldBands(
        manifolds=traced,
        paths=paths,
        half_widths=tuple(halves),
        existence=tuple(shares),
        length=length,
        level=level,
        n_draws=len(drawn),
        effort=Effort(traced.effort.seeds * (1 + len(drawn)), 0, points, points, False),
        **labels(field),
    )


def _unit(scales: Scales, size: np.ndarray) -> np.ndarray:
    """Units of the states: length scales, at most the region's size."""
    return np.minimum(scales.length, size)


def _thinned(path: np.ndarray) -> np.ndarray:
    return path[np.unique(np.linspace(0, len(path) - 1, _POINTS).astype(int))]
