"""The level set of a field's conserved sums: its own field, region and draws, and the way back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.analyze.conserved import ConservedSums, as_given, conserved_sums, read_sum
from fim_dynsys.analyze.results import with_steps_within
from fim_dynsys.errors import real_array
from fim_dynsys.fields.base import StackedRates, VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.frame import Scales
from fim_dynsys.regions import Region
from fim_dynsys.trajectories.container import Trajectories

LevelLike = Mapping[str, float] | ArrayLike
"""Totals by sum, such as ``{"S+I+R": 1}``, or a state on the level set."""

_SLACK = 1e-9  # of the region's size, by which a state that the sums give may miss the region
_DEPENDENT = 0.1  # share of the best pivot from which a state is good enough to be expressed by the others
_CONSERVING = 1e-8  # of the rates that are summed, what a drawn field may leave of a conserved sum
_APART = 4.0  # standard errors by which the means of two trajectories' totals differ if the totals do


@dataclass(frozen=True, eq=False)
class LevelSet:
    """States on which the conserved sums have given totals, in the coordinates of some of the states.

    Attributes
    ----------
    sums : ConservedSums
        The k sums.
    totals : ndarray (k,)
        Their values.
    independent : ndarray (d - k,) of int
        States that serve as coordinates; the others follow from the sums.
    origin : ndarray (d,)
        The state whose coordinates are all 0.
    basis : ndarray (d, d - k)
        Derivatives of the states by the coordinates.
    by_totals : ndarray (d, k)
        Derivatives of the states by the totals, at fixed coordinates.
    note : str
        Where the totals come from, unless the caller gave them.
    """

    sums: ConservedSums
    totals: np.ndarray
    independent: np.ndarray
    origin: np.ndarray
    basis: np.ndarray
    by_totals: np.ndarray
    note: str = ""

    @classmethod
    def of(cls, sums: ConservedSums, totals: np.ndarray, keep: Sequence[int] = (), note: str = "") -> Self:
        """The level set of these totals.

        Parameters
        ----------
        sums : ConservedSums
            At least one.
        totals : ndarray (k,)
            Their values.
        keep : sequence of int
            States that should be coordinates, where the sums allow it.
        note : str
            As the attribute.
        """
        k, d = sums.weights.shape
        order = [*(i for i in reversed(range(d)) if i not in keep), *reversed(keep)]
        remaining, dependent = sums.weights * sums.rates, []
        remaining /= np.abs(remaining).max(axis=1, keepdims=True)
        for _ in range(k):
            sizes = np.linalg.norm(remaining, axis=0)
            pivot = next(i for i in order if sizes[i] >= _DEPENDENT * sizes.max() and i not in dependent)
            dependent.append(pivot)
            unit = remaining[:, pivot] / sizes[pivot]
            remaining = remaining - np.outer(unit, unit @ remaining)
        independent = np.setdiff1d(np.arange(d), dependent)
        inverse = np.linalg.inv(sums.weights[:, dependent])
        basis, by_totals = np.zeros((d, d - k)), np.zeros((d, k))
        basis[independent, np.arange(d - k)] = 1.0
        basis[dependent] = -inverse @ sums.weights[:, independent]
        by_totals[dependent] = inverse
        return cls(sums, totals, independent, by_totals @ totals, basis, by_totals, note)

    def at(self, totals: np.ndarray) -> "LevelSet":
        """The level set of other totals (k,), in the same coordinates."""
        return LevelSet(
            self.sums,
            totals,
            self.independent,
            self.by_totals @ totals,
            self.basis,
            self.by_totals,
            self.note,
        )

    # ---------------------------------------------------------------- points

    def states(self, z: np.ndarray) -> np.ndarray:
        """States (..., d) of coordinates (..., d - k)."""
        return self.origin + z @ self.basis.T

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Coordinates (..., d - k) of states (..., d)."""
        return np.asarray(x)[..., self.independent]

    def inside(self, x: np.ndarray, region: Region) -> np.ndarray:
        """Whether states (..., d) of the level set lie in a region, but for rounding."""
        return region.widened(_SLACK).contains(x)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates."""
        return tuple(self.sums.state_names[i] for i in self.independent)

    @property
    def text(self) -> tuple[str, ...]:
        """The sums with their totals, a line each, for a result."""
        note = f" ({self.note})" if self.note else ""
        pairs = zip(self.sums.names, self.totals.tolist(), strict=True)
        return tuple(f"{name} = {total:.6g}{note}" for name, total in pairs)

    # ---------------------------------------------------------------- fields

    def region(self, region: Region) -> Region:
        """The box of the coordinates in a region of all states."""
        return Region(region.low[self.independent], region.high[self.independent], self.names)

    def field(self, field: VectorField, region: Region | None = None) -> "LevelField":
        """The field on the level set; differenced Jacobians have steps that suit the region."""
        inner = field if region is None else with_steps_within(field, region)
        return LevelField(field, inner, self)

    def draws(self, draws: EnsembleField) -> EnsembleField | None:
        """Drawn fields on the level set; None where they do not conserve the sums."""
        x = self.states(np.zeros(len(self.independent))) + np.linalg.qr(self.basis)[0].sum(axis=1)
        for drawn in draws:
            f = drawn(x)
            size = np.abs(self.sums.weights) @ np.abs(f)
            if not (np.abs(self.sums.weights @ f) <= _CONSERVING * size).all():
                return None
        return EnsembleField([self.field(drawn) for drawn in draws], draws.weights)


class LevelField(VectorField):
    """A field on a level set of its conserved sums, in the coordinates of the states that are left.

    Parameters
    ----------
    field : VectorField
        The field of all states.
    rates : VectorField
        The same, as it is to be evaluated and differentiated.
    level : LevelSet
        The level set.
    """

    def __init__(self, field: VectorField, rates: VectorField, level: LevelSet) -> None:
        kept = level.independent
        scales = None
        if rates.frame.length is not None:
            own = rates.scales
            scales = Scales(own.length[kept], own.speed[kept], own.time)
        context = field.context
        if context is not None:
            runs = context.arrays()
            context = Trajectories.from_arrays(
                [x[:, kept] for _, x in runs], [t for t, _ in runs], state_names=level.names
            )
        super().__init__(len(kept), context=context, state_names=level.names, scales=scales)
        self._field, self._rates, self._level = field, rates, level
        self.has_jacobian = getattr(rates, "has_jacobian", True) and type(rates)._jac is not VectorField._jac

    @classmethod
    def stack(cls, fields: Sequence[Self]) -> StackedRates:
        """As `VectorField.stack`; vectorised where the inner kind's is."""
        kinds = {type(field._rates) for field in fields}
        level = fields[0]._level
        if len(kinds) != 1 or any(field._level is not level for field in fields):
            return super().stack(fields)
        inner = kinds.pop().stack([field._rates for field in fields])
        return lambda z, which: inner(level.states(z), which)[:, level.independent]

    def draws(self, n: int, seed: int = 0) -> EnsembleField | None:
        """Draws of the field of all states on the level set; None where these do not conserve the sums."""
        drawn = self._field.draws(n, seed)
        if drawn is None:
            return None
        return self._level.draws(drawn if isinstance(drawn, EnsembleField) else EnsembleField(drawn))

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        return self._rates._rhs(self._level.states(x))[:, self._level.independent]

    def _jac(self, x: np.ndarray) -> np.ndarray:
        return self._rates._jac(self._level.states(x))[:, self._level.independent] @ self._level.basis

    def _directional(self, x: np.ndarray, directions: Sequence[np.ndarray]) -> np.ndarray:
        ways = [v @ self._level.basis.T for v in directions]
        return self._rates._directional(self._level.states(x), ways)[:, self._level.independent]

    def _support(self, x: np.ndarray) -> np.ndarray:
        return self._field._support(self._level.states(x))


# ---------------------------------------------------------------------- which level


def level_set(
    field: VectorField,
    region: Region,
    level: LevelLike | None,
    caller: str,
    keep: Sequence[int] = (),
    sums: ConservedSums | None = None,
) -> tuple[ConservedSums, LevelSet | None]:
    """The conserved sums of a field, and the level set that an analysis is to be done on.

    Parameters
    ----------
    field : VectorField
        The field.
    region : Region
        Where it is analysed.
    level : dict, array_like (d,) or None
        Totals by sum, or a state on the level set; default the level of the field's data.
    caller : str
        The caller, for errors.
    keep : sequence of int
        States that should be coordinates.
    sums : ConservedSums, optional
        Where they are known.

    Returns
    -------
    sums : ConservedSums
        Those of the field, as the caller writes them.
    level : LevelSet or None
        None without a conserved sum, or without totals.

    Raises
    ------
    ValueError
        For sums that are not conserved, or too few totals.
    """
    sums = conserved_sums(field, region) if sums is None else sums
    if not len(sums):
        if level is not None:
            raise ValueError(
                f"{caller}: expected a field that conserves a linear sum of its states for level={level!r}, "
                "got one that conserves none; leave level out."
            )
        return sums, None
    sums = as_given(_checked(sums, level, caller), level, caller)
    known, note = _data_totals(field, sums)
    if level is None:
        return sums, None if known is None else LevelSet.of(sums, known, keep, note)
    if not isinstance(level, Mapping):
        x = real_array(level, caller, "level")
        if x.shape != (len(sums.state_names),) or not np.isfinite(x).all():
            raise ValueError(
                f"{caller}: expected level as totals such as {{{sums.names[0]!r}: 1}}, or as a finite state "
                f"of shape ({len(sums.state_names)},), got {level!r}."
            )
        return sums, LevelSet.of(sums, sums.totals(x), keep, "that of the given state")
    given = np.array([float(total) for total in level.values()])
    if not np.isfinite(given).all():
        raise ValueError(f"{caller}: expected finite totals as level, got {level!r}.")
    rows = np.array([read_sum(text, sums.state_names, caller) for text in level])
    if not sums.independent(rows):
        raise ValueError(f"{caller}: expected independent sums as level, got {level!r}.")
    if len(rows) < len(sums):
        missing = ", ".join(repr(name) for name in sums.names[len(rows) :])
        if known is None:
            raise ValueError(
                f"{caller}: expected a total of {missing} as well, got {level!r}; add it to level."
            )
        return sums, LevelSet.of(sums, np.concatenate([given, known[len(rows) :]]), keep, "")
    return sums, LevelSet.of(sums, np.linalg.solve(sums.combination(rows), given), keep)


def _checked(sums: ConservedSums, level: LevelLike | None, caller: str) -> ConservedSums:
    for text in level if isinstance(level, Mapping) else ():
        if not isinstance(text, str) or not sums.contain(read_sum(text, sums.state_names, caller)):
            raise ValueError(
                f"{caller}: expected sums that the field conserves as level, among combinations of "
                f"{', '.join(sums.names)}, got {text!r}."
            )
    return sums


def _data_totals(field: VectorField, sums: ConservedSums) -> tuple[np.ndarray | None, str]:
    """The totals in the data, and a note; those of the first trajectory where trajectories differ."""
    if field.context is None:
        return None, ""
    runs = [sums.totals(x[np.isfinite(x).all(axis=1)]) for _, x in field.context.arrays()]
    runs = [run for run in runs if len(run)]
    if not runs:
        return None, ""
    means = np.array([run.mean(axis=0) for run in runs])
    errors = np.array([run.std(axis=0) / np.sqrt(len(run)) for run in runs])
    rounding = 1e-9 * np.abs(means).max(axis=0)
    differ = np.abs(means - means[0]) > _APART * np.hypot(errors, errors[0]) + rounding
    if differ.any():
        return means[0], (
            f"that of the first trajectory; others lie on other levels, up to {means.max():.6g}"
        )
    return means.mean(axis=0), "the mean of the data"
