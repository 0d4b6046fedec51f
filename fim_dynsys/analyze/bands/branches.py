"""branch_bands: a bifurcation diagram of data with the intervals of its branches."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fim_dynsys.analyze.bands.cycles import follow_orbit
from fim_dynsys.analyze.bands.draws import half_width
from fim_dynsys.analyze.bifurcation.measured import DataBifurcations
from fim_dynsys.analyze.equilibria.drawn import follow_into
from fim_dynsys.analyze.results import Effort, Result, Table, Variables, progress_bar
from fim_dynsys.analyze.tracing.branches import Branch, BranchKind
from fim_dynsys.errors import check_whole, earlier_name, renamed
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.family import PooledFamily
from fim_dynsys.regions import Region
from fim_dynsys.threads import on_one_thread
from fim_dynsys.wording import counted

_EQUILIBRIA, _CYCLES = 40, 12  # points of a branch that are followed
_SMALLEST = 1e-3  # extent of a cycle that is followed, as a share of the largest on its branch


@dataclass(frozen=True, eq=False)
class BranchBand:
    """A branch and its uncertainty over an ensemble, at n of its points.

    Attributes
    ----------
    kind : BranchKind
    branch : int
        Its number in the diagram.
    p : ndarray (n,)
        Values of the parameter.
    low, high : ndarray (n, d)
        Smallest and largest value of each state: the equilibrium itself, or over the cycle.
    low_half, high_half : ndarray (n, d)
        Half widths of their intervals at the same value of the parameter; NaN where fewer than two members
        have the object.
    existence : ndarray (n,)
        Share of the members that have it at this value.
    period, period_half : ndarray (n,) or None
        Of cycles.
    """

    kind: BranchKind
    branch: int
    p: np.ndarray
    low: np.ndarray
    high: np.ndarray
    low_half: np.ndarray
    high_half: np.ndarray
    existence: np.ndarray
    period: np.ndarray | None = None
    period_half: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.p)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BranchBands(Result):
    """A diagram of data with bands round its branches; made by `branch_bands`.

    Attributes
    ----------
    diagram : DataBifurcations
        The diagram.
    bands : tuple of BranchBand
        One for each branch.
    level : float
        Probability that the intervals are meant to have.
    n_draws : int
        Members of the ensemble.
    """

    drawn_by = "fim_dynsys.plot.bands:branch_bands"

    diagram: DataBifurcations
    bands: tuple[BranchBand, ...]
    level: float
    n_draws: int
    n_members = earlier_name("n_members", "n_draws")

    def _headline(self) -> str:
        return (
            f"{100 * self.level:g} % bands of {counted(len(self.bands), 'branch', 'branches')} "
            f"from {counted(self.n_draws, 'member')}"
        )

    def _rows(self) -> Table:
        columns = ["branch", "kind", self.diagram.parameter, *self.state_names]
        columns += [f"+- {name}" for name in self.state_names]
        rows = [
            [band.branch, band.kind, p, *high, *half, share]
            for band in self.bands
            for p, high, half, share in zip(band.p, band.high, band.high_half, band.existence, strict=True)
        ]
        return [*columns, "exists"], rows

    def __str__(self) -> str:
        lines = []
        for band in self.bands:
            known = [half[np.isfinite(half)] for half in band.high_half.T]
            width = [round(float(np.median(half)), 4) if len(half) else None for half in known]
            ends = f"{self.diagram.parameter} from {band.p.min():.4g} to {band.p.max():.4g}"
            share = f"exists in {band.existence.min():.0%} to {band.existence.max():.0%}"
            lines.append(
                f"branch {band.branch}: {band.kind.value}, {ends}, median half width {width}, {share}"
            )
        return "\n".join([self._headline(), *lines, *self._notes()])

    def _variables(self) -> Variables:
        by_state = ("point", "state")
        index = np.repeat([band.branch for band in self.bands], [len(band) for band in self.bands])
        return {
            "branch": (("point",), index.astype(int)),
            "p": (("point",), np.concatenate([band.p for band in self.bands])),
            "existence": (("point",), np.concatenate([band.existence for band in self.bands])),
            **{
                name: (by_state, np.concatenate([getattr(band, name) for band in self.bands]))
                for name in ("low", "high", "low_half", "high_half")
            },
        }


@on_one_thread
@renamed(n_members="n_draws")
def branch_bands(
    diagram: DataBifurcations,
    *,
    n_draws: int = 50,
    level: float | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> BranchBands:
    """Bands of the branches of a diagram: each point is followed into an ensemble at its own parameter value.

    The members are fits to resampled parameter values, as behind the intervals of the bifurcations. Near a
    fold, members whose fold comes earlier have no such point: `existence` falls there.

    Parameters
    ----------
    diagram : DataBifurcations
        Of `bifurcations_from_data`.
    n_draws : int
        Size of the ensemble.
    level : float, optional
        Probability that the intervals are meant to have; default that of the diagram.
    seed : int
        Of the resampling.
    progress : bool, optional
        Whether to show how far the work is; by default on a terminal only.

    Returns
    -------
    BranchBands

    Raises
    ------
    TypeError
        For something else than a diagram of data.
    ValueError
        For fewer than two members.

    See Also
    --------
    bifurcations_from_data : The diagram.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze
    >>> rates = np.array([-0.5, -0.25, 0.25, 0.5])
    >>> t = np.linspace(0, 8, 60)
    >>> fields = [fim_dynsys.SymbolicField([f"{mu}*x0 - x0**3"]) for mu in rates for _ in (0, 1)]
    >>> x = [fim_dynsys.simulate(f, [s], t).x[0] for f, s in zip(fields, [1.2, -0.9] * 4)]
    >>> data = fim_dynsys.Trajectories.from_arrays(x, [t] * 8, coords={"mu": np.repeat(rates, 2)})
    >>> model = fim_dynsys.load("sindy-strong")
    >>> found = analyze.bifurcations_from_data(model, data, n_draws=5, progress=False)
    >>> bands = analyze.branch_bands(found, n_draws=5, progress=False)
    >>> len(bands.bands)
    2
    """
    check_whole("branch_bands", 2, n_draws=n_draws)
    check_whole("branch_bands", 0, seed=seed)
    if not isinstance(diagram, DataBifurcations):
        raise TypeError(
            f"branch_bands: expected what bifurcations_from_data returns, got {type(diagram).__name__}."
        )
    level = diagram.level if level is None else level
    members = diagram.family.bootstrap(n_draws, seed)
    states = np.concatenate([np.concatenate([b.low, b.high]) for b in diagram.branches])
    region = diagram.family.region or Region(states.min(axis=0), states.max(axis=0))
    bands, spent = [], 0
    with progress_bar(progress, len(diagram.branches), "bands", "branches") as bar:
        for k, branch in enumerate(diagram.branches):
            found, points = _band(k, branch, diagram.family, members, region, level)
            bands.append(found)
            spent += points
            bar.update()
    return BranchBands(
        diagram=diagram,
        bands=tuple(bands),
        level=level,
        n_draws=n_draws,
        effort=Effort(sum(map(len, bands)), 0, spent, spent, False),
        state_names=diagram.state_names,
        units=diagram.units,
    )


def _band(
    number: int,
    branch: Branch,
    family: PooledFamily,
    members: Sequence[PooledFamily],
    region: Region,
    level: float,
) -> tuple[BranchBand, int]:
    cycles = branch.orbits is not None
    ends = np.linspace(0, len(branch) - 1, _CYCLES if cycles else _EQUILIBRIA)
    rows = np.unique(ends.astype(int))
    if branch.orbits is not None:  # where cycles shrink to an equilibrium nothing is left to follow
        extent = np.array([np.ptp(branch.orbits[row], axis=0).max() for row in rows])
        rows = rows[extent > _SMALLEST * extent.max()]
    weights = np.full(len(members), 1.0 / len(members))
    halves, existence, points = [], [], 0
    for row in rows:
        p = float(branch.p[row])
        fields = [member.at(p) for member in members]
        if branch.orbits is not None and branch.period is not None:
            orbit, period = branch.orbits[row], branch.period[row]
            followed = follow_orbit(fields, orbit, period, region.size)
            here = followed.exists[:, None]
            # the orbit itself followed into its own field: differences of sampling cancel
            retraced = follow_orbit([family.at(p)], orbit, period, region.size).orbits[0]
            low = np.where(here, followed.orbits.min(axis=1), np.nan)
            high = np.where(here, followed.orbits.max(axis=1), np.nan)
            time = np.where(followed.exists, followed.period, np.nan)
            values = np.concatenate([low, high, time[:, None]], axis=1)
            centre = np.concatenate([retraced.min(axis=0), retraced.max(axis=0), [period]])
            points += followed.points
        else:
            x = branch.x[row]
            drawn = follow_into(
                EnsembleField(fields), x[None], branch.eigenvalues[row][None], family.at(p).scales, region
            )
            values, centre = np.tile(drawn.x[0], 2), np.tile(x, 2)
            points += drawn.points
        existence.append(np.isfinite(values[:, 0]).mean())
        halves.append(half_width(values[None], centre[None], weights, level)[0])
    half, d = np.array(halves), len(region.size)
    timed = {"period": branch.period[rows], "period_half": half[:, -1]} if branch.period is not None else {}
    return (
        BranchBand(
            kind=branch.kind,
            branch=number,
            p=branch.p[rows],
            low=branch.low[rows],
            high=branch.high[rows],
            low_half=half[:, :d],
            high_half=half[:, d : 2 * d],
            existence=np.array(existence),
            **timed,
        ),
        points,
    )
