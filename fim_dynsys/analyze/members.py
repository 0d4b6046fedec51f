"""ensemble: one analysis for every member of an ensemble of fields, and what its results agree on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.special import chdtri

from fim_dynsys.analyze.matching import assigned
from fim_dynsys.analyze.results import (
    WIDENED,
    Effort,
    RegionLike,
    Result,
    Table,
    Variables,
    labels,
    progress_bar,
    resolve_region,
)
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.regions import Region
from fim_dynsys.threads import on_one_thread
from fim_dynsys.wording import counted

# Distance from the mean of its group, in units of the region, at which an object is another one.
_FARTHEST = 0.2
_PASSES = 3  # as in k-means from a good start: the first finds the groups, the others settle their means


@dataclass(frozen=True, eq=False)
class Group:
    """One object, as far as members have it.

    Attributes
    ----------
    existence : float
        Weight of the members that have it: the probability that it exists.
    kinds : dict
        Probability of each kind, given that it exists; most probable first.
    x : ndarray (m, d)
        Its position in each of those m members; for cycles the middle of the box round the orbit.
    member : ndarray (m,) of int
        Which members these are.
    weights : ndarray (m,)
        Their weights, with sum 1.
    support : float
        Mean support there.
    """

    existence: float
    kinds: dict
    x: np.ndarray
    member: np.ndarray
    weights: np.ndarray
    support: float

    @property
    def mean(self) -> np.ndarray:
        """Mean position, (d,)."""
        return self.weights @ self.x

    @property
    def covariance(self) -> np.ndarray:
        """Covariance of the position over members, (d, d); zero where only one has the object."""
        deviation = self.x - self.mean
        return (self.weights[:, None] * deviation).T @ deviation

    def ellipse(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Ellipse that holds the position with a probability, if positions are normally distributed.

        Parameters
        ----------
        level : float
            The probability.

        Returns
        -------
        lengths : ndarray (d,)
            Semi-axes, longest first.
        directions : ndarray (d, d)
            Unit vectors along them, in rows.
        """
        variances, axes = np.linalg.eigh(self.covariance)
        radius = np.sqrt(chdtri(len(variances), 1.0 - level))
        return radius * np.sqrt(np.maximum(variances[::-1], 0.0)), axes.T[::-1]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MemberResults(Result):
    """The results of all members and the objects in them, matched; made by `ensemble`.

    Attributes
    ----------
    results : tuple
        What the function returned for each member.
    weights : ndarray (n,)
        Weights of the members, with sum 1.
    groups : tuple of Group
        Objects, most probable first; empty where results hold none (such as Lyapunov exponents).
    """

    drawn_by = "fim_dynsys.plot.members:member_objects"

    results: tuple
    weights: np.ndarray
    groups: tuple[Group, ...]

    @property
    def existence(self) -> np.ndarray:
        """Probability that each object exists, (g,)."""
        return np.array([group.existence for group in self.groups])

    @property
    def x(self) -> np.ndarray:
        """Mean positions of the objects, (g, d)."""
        return np.array([group.mean for group in self.groups]).reshape(-1, len(self.state_names))

    def collect(self, name: str) -> np.ndarray:
        """One attribute of all results as an array, members first.

        Parameters
        ----------
        name : str
            Attribute with the same shape in every result, such as ``exponents``.

        Raises
        ------
        ValueError
            If shapes differ between members.
        """
        values = [np.asarray(getattr(result, name)) for result in self.results]
        shapes = {value.shape for value in values}
        if len(shapes) > 1:
            raise ValueError(
                f"ensemble: expected {name} of one shape in all members, got {sorted(shapes)}; see groups "
                "for objects that not all members have."
            )
        return np.stack(values)

    def _rows(self) -> Table:
        columns = ["existence", "kinds", *self.state_names, "standard deviations", "support"]
        rows = [
            [
                group.existence,
                ", ".join(f"{kind} {share:.2g}" for kind, share in group.kinds.items()),
                *group.mean,
                np.sqrt(np.diag(group.covariance)),
                group.support,
            ]
            for group in self.groups
        ]
        return columns, rows

    def _headline(self) -> str:
        return f"{counted(len(self.groups), 'object')} in {counted(len(self.results), 'member')}"

    def _variables(self) -> Variables:
        names = list(dict.fromkeys(str(kind) for group in self.groups for kind in group.kinds))
        shares = np.zeros((len(self.groups), len(names)))
        position = np.full((len(self.groups), len(self.results), len(self.state_names)), np.nan)
        for i, group in enumerate(self.groups):
            position[i, group.member] = group.x
            for kind, share in group.kinds.items():
                shares[i, names.index(str(kind))] = share
        return {
            "weight": (("member",), self.weights),
            "existence": (("object",), self.existence),
            "x": (("object", "member", "state"), position),
            "kind": (("kind_name",), np.array(names, dtype=np.str_)),
            "kind_probability": (("object", "kind_name"), shares),
            "support": (("object",), np.array([group.support for group in self.groups], dtype=float)),
        }


@on_one_thread
def ensemble(
    function: Callable[..., Any],
    fields: EnsembleField | Sequence[VectorField],
    region: RegionLike | None = None,
    *,
    progress: bool | None = None,
    **options: Any,
) -> MemberResults:
    """Run an analysis for each member of an ensemble and match what the results hold.

    Objects (fixed points, cycles) of different members are the same where an assignment of least total
    distance says so: each member's are assigned to the means of the groups found so far, distances measured
    in units of the region.

    Parameters
    ----------
    function : callable
        ``function(field, region, **options)``, such as `fixed_points`, `limit_cycles` or your own.
    fields : EnsembleField or sequence of VectorField
        The members; ``model.ensemble(n)`` makes some.
    region : Region, dict or pairs, optional
        The same for all members; default the box of all members' data widened by 10 % on each side.
    progress : bool, optional
        Whether to show how far the work is; by default on a terminal only.
    **options
        Passed to the function.

    Returns
    -------
    MemberResults

    Raises
    ------
    TypeError
        For something else than fields.
    ValueError
        For no members, or no region.

    See Also
    --------
    cycle_bands : Bands of the cycles of one posterior.

    Examples
    --------
    >>> from fim_dynsys import CallableField
    >>> from fim_dynsys.analyze import fixed_points
    >>> members = [CallableField(lambda x, a=a: a - x, 1) for a in (0.9, 1.0, 1.1)]
    >>> found = ensemble(fixed_points, members, [(0, 2)])
    >>> found.existence.tolist(), found.x.round(9).tolist()
    ([1.0], [[1.0]])
    """
    if not callable(function):
        raise TypeError(
            f"ensemble: expected an analysis, such as analyze.fixed_points, got {type(function).__name__} "
            f"{function!r}."
        )
    members = _members(fields)
    region = _common_region(members, region)
    found = []
    with progress_bar(progress, len(members), "ensemble", "members") as bar:
        for field in members:
            found.append(function(field, region, **options))
            bar.update()
    results = tuple(found)
    first = members[0]
    efforts = [result.effort for result in results if isinstance(result, Result)]
    return MemberResults(
        **labels(first),
        effort=Effort(
            seeds=sum(effort.seeds for effort in efforts),
            iterations=sum(effort.iterations for effort in efforts),
            points=sum(effort.points for effort in efforts),
            budget=sum(effort.budget for effort in efforts),
            exhausted=any(effort.exhausted for effort in efforts),
        ),
        results=results,
        weights=np.array(members.weights),
        groups=_groups(results, np.asarray(members.weights), region),
    )


def _members(fields: EnsembleField | Sequence[VectorField]) -> EnsembleField:
    if isinstance(fields, EnsembleField):
        return fields
    if not isinstance(fields, Sequence) or not all(isinstance(field, VectorField) for field in fields):
        raise TypeError(
            f"ensemble: expected an EnsembleField or a list of VectorFields, got {type(fields).__name__}; "
            "model.ensemble(n) makes one of a fitted model."
        )
    return EnsembleField(fields)


def _common_region(members: EnsembleField, region: RegionLike | None) -> Region:
    contexts = [field.context for field in members if field.context is not None]
    if region is None and len(contexts) == len(members):
        region = reduce(Region.union, [context.box() for context in contexts]).widened(WIDENED)
    return resolve_region(members[0], region, "ensemble")


# ---------------------------------------------------------------------- objects and groups


@runtime_checkable
class _HasObjects(Protocol):
    """A result with objects that have a position, a kind and a support."""

    x: np.ndarray
    kind: np.ndarray
    support: np.ndarray


@runtime_checkable
class _HasOrbits(_HasObjects, Protocol):
    """One whose objects are orbits."""

    orbits: Sequence[np.ndarray]


@dataclass(frozen=True, eq=False)
class _Objects:
    """What one result holds: features (n, f) in units of the region, positions (n, d), kinds and support."""

    features: np.ndarray
    x: np.ndarray
    kind: np.ndarray
    support: np.ndarray


def _objects(result: object, region: Region) -> _Objects | None:
    """Objects of a result with kinds, at points or round orbits; None where it is of another sort."""
    if not isinstance(result, _HasObjects):
        return None
    x = np.asarray(result.x).reshape(-1, region.dim)
    features = (x - region.low) / region.size
    if isinstance(result, _HasOrbits):
        low = np.array([orbit.min(axis=0) for orbit in result.orbits]).reshape(-1, region.dim)
        high = np.array([orbit.max(axis=0) for orbit in result.orbits]).reshape(-1, region.dim)
        x = (low + high) / 2.0
        # Root mean square over both corners, so that distances compare with those of points.
        features = np.hstack([(low - region.low) / region.size, (high - region.low) / region.size])
        features = features / np.sqrt(2.0)
    return _Objects(features, x, np.asarray(result.kind, dtype=object), np.asarray(result.support))


def _groups(results: Sequence[object], weights: np.ndarray, region: Region) -> tuple[Group, ...]:
    found = [objects for result in results if (objects := _objects(result, region)) is not None]
    if len(found) < len(results):
        return ()
    label = _matched([objects.features for objects in found])
    member = np.repeat(np.arange(len(found)), [len(objects.x) for objects in found])
    x, kind, support = (
        np.concatenate([getattr(objects, name) for objects in found]) for name in ("x", "kind", "support")
    )
    groups = []
    for rows in (label == number for number in np.unique(label)):
        shares_of_members = weights[member[rows]]
        share = shares_of_members / shares_of_members.sum()
        shares: dict[object, float] = {}
        for name, part in zip(kind[rows], share, strict=True):
            shares[name] = shares.get(name, 0.0) + float(part)
        kinds = dict(sorted(shares.items(), key=lambda item: -item[1]))
        mean_support = float(share @ support[rows].astype(float))
        groups.append(
            Group(float(shares_of_members.sum()), kinds, x[rows], member[rows], share, mean_support)
        )
    return tuple(sorted(groups, key=lambda group: -group.existence))


def _matched(features: Sequence[np.ndarray]) -> np.ndarray:
    """Number of the group of each object, all members' objects in a row.

    Each member's objects are assigned to the groups' means; what is left over begins groups of its own. The
    means start from the member with most objects and are renewed after each pass over all members.
    """
    everything = np.concatenate(features)
    means = max(features, key=len)
    for _ in range(_PASSES):
        groups = []
        for rows in features:
            group = np.full(len(rows), -1)
            for i, j in assigned(rows, means, _FARTHEST):
                group[i] = j
            unmatched = group < 0
            group[unmatched] = len(means) + np.arange(unmatched.sum())
            means = np.concatenate([means, rows[unmatched]])
            groups.append(group)
        _, label = np.unique(np.concatenate(groups), return_inverse=True)
        means = np.array([everything[label == g].mean(axis=0) for g in np.unique(label)])
        means = means.reshape(-1, everything.shape[1])
    return label
