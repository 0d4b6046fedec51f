"""Linear sums of the states that a field conserves: found from its values, named, and read from text."""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.regions import Region

_POINTS = 64  # a random direction that is not conserved shows at any one of them
_PER_STATE = 4  # points for each state, where there are many
# Rounding leaves 1e-16 of the largest rate in a sum that cancels, or 1e-13 where rates are themselves small
# differences; coefficients that were fitted without the constraint miss by 1e-4 or more.
_CONSERVED = 1e-10
_NEARER = (1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12)  # of the distances from zero, where a region holds it
_BESIDE, _STEADY = 1e-6, 1e-2  # of a point to its neighbour, and of a sum that is no rounding between these
_MOST_RATIO = 1e3  # of a state's largest rate to the median, so that one point does not decide its size
_ROUNDING = 1e-8  # of a sum's weights, by which it may miss a combination of conserved ones
_INDEPENDENT = 1e-6  # smallest singular value of sums that are not combinations of each other
_NEGLIGIBLE = 1e-9  # share of the largest entry of a sum's weights that is rounding
_WHOLE = 1e-7  # by how much a weight may miss a whole number of quarters that it is meant to be
_LARGE = 1e3  # more than stoichiometry has
_MOST_WHOLE = 1e6  # weights beyond are measured numbers, or other units
_DENOMINATORS = (1, 2, 3, 4, 5, 6)  # of weights of sums, as stoichiometry has them
_MOST_CHOICES = 4000  # sets of states that are tried for sums of few states: all for 12 states and 4 sums


@dataclass(frozen=True, eq=False)
class ConservedSums:
    """Independent linear sums of the states that stay constant along every path of a field.

    Attributes
    ----------
    weights : ndarray (k, d)
        A row for each sum; k may be 0.
    state_names : tuple of str
        Names of the d states.
    rates : ndarray (d,)
        Sizes of the states' rates of change, by which weights are compared whatever the units.
    """

    weights: np.ndarray
    state_names: tuple[str, ...]
    rates: np.ndarray

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def names(self) -> tuple[str, ...]:
        """The sums as text, such as ``S + I + R`` and ``E + 2 C``."""
        return tuple(sum_text(row, self.state_names) for row in self.weights)

    def contain(self, row: np.ndarray) -> bool:
        """Whether a sum with these weights (d,) is a combination of the conserved ones."""
        if not len(self):
            return False
        off = self.combination(row) @ self.weights - row
        return bool(np.abs(off * self.rates).max() <= _ROUNDING * np.abs(row * self.rates).max())

    def combination(self, rows: np.ndarray) -> np.ndarray:
        """Coefficients (..., k) of sums with weights (..., d) in terms of the conserved ones."""
        scaled = self.weights * self.rates
        size = np.linalg.norm(scaled, axis=1)
        return np.linalg.lstsq((scaled.T / size), (rows * self.rates).T, rcond=None)[0].T / size

    def independent(self, rows: np.ndarray) -> bool:
        """Whether none of the sums with weights (m, d) is a combination of the others."""
        scaled = rows * self.rates
        scaled = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
        return len(rows) <= rows.shape[1] and np.linalg.svd(scaled, compute_uv=False)[-1] > _INDEPENDENT

    def rewritten(self, rows: Sequence[np.ndarray]) -> "ConservedSums":
        """The same space of sums, with these (d,) first."""
        kept: list[np.ndarray] = []
        for row in [*rows, *self.weights]:
            if len(kept) < len(self) and self.independent(np.array([*kept, row])):
                kept.append(row)
        return replace(self, weights=np.array(kept))

    def totals(self, x: np.ndarray) -> np.ndarray:
        """Values (..., k) of the sums at states (..., d)."""
        return x @ self.weights.T


def conserved_sums(field: VectorField, region: Region) -> ConservedSums:
    """Find the linear sums of the states that a field conserves: the left null space of its values.

    Parameters
    ----------
    field : VectorField
        The field.
    region : Region
        Where it is evaluated, at 64 points or four for each state.

    Returns
    -------
    ConservedSums
        Sums of few states first; none where the field is zero, or finite at too few points.

    References
    ----------
    S. Schuster, T. Höfer, Determining all extreme semi-positive conservation relations in chemical reaction
    systems, J. Chem. Soc. Faraday Trans. 87 (1991) 2561.

    Examples
    --------
    >>> from fim_dynsys import CallableField
    >>> def sir(x):
    ...     infected, recovered = 2.0 * x[:, 0] * x[:, 1], 0.5 * x[:, 1]
    ...     return np.stack([-infected, infected - recovered, recovered], axis=1)
    >>> field = CallableField(sir, 3, state_names=["S", "I", "R"])
    >>> conserved_sums(field, Region([(0, 1)] * 3)).names
    ('S + I + R',)
    """
    return conserved_by([field], field.state_names, region)


def sampled(dim: int) -> int:
    """Points at which a field of so many states is evaluated for its conserved sums."""
    return max(_POINTS, _PER_STATE * dim)


def conserved_by(
    rates: Sequence[Callable[[np.ndarray], np.ndarray]], state_names: Sequence[str], region: Region
) -> ConservedSums:
    """As `conserved_sums`, of sums that several functions ``(n, d) -> (n, d)`` conserve alike."""
    d = region.dim
    x = region.sobol(sampled(d))
    f = _values(rates, x)
    f = f[np.isfinite(f).all(axis=1)]
    nothing = ConservedSums(np.empty((0, d)), tuple(state_names), np.ones(d))
    if d < 2 or len(f) < 2 * d or not f.any():
        return nothing
    sizes = np.abs(f)
    medians = np.array([np.median(column[column > 0]) if column.any() else 1.0 for column in sizes.T])
    scale = np.minimum(
        np.sqrt(np.mean((sizes / sizes.max()) ** 2, axis=0)) * sizes.max(), _MOST_RATIO * medians
    )
    scale = np.where(scale > 0, scale, medians)
    rows = _of_size_one(f / scale)
    null = _null_space(rows)
    if len(null):
        everywhere = _null_space(np.concatenate([rows, *_near_zero(rates, x, region, scale, null)]))
        null = everywhere if len(everywhere) < len(null) else null
    if not len(null) or len(null) == d:
        return nothing
    sums = replace(nothing, weights=null / scale, rates=scale)
    return sums.rewritten(_simplest(null, scale))


def _values(rates: Sequence[Callable[[np.ndarray], np.ndarray]], x: np.ndarray) -> np.ndarray:
    """Values (k n, d) of k functions at points (n, d)."""
    with np.errstate(all="ignore"):
        return np.concatenate([rate(x) for rate in rates])


def _of_size_one(rows: np.ndarray) -> np.ndarray:
    """Rows (n, d) by their largest entries, without those that are zero."""
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    return rows[largest[:, 0] > 0] / largest[largest[:, 0] > 0]


def _null_space(rows: np.ndarray) -> np.ndarray:
    """Weights (k, d) of sums that vanish in all rows (n, d)."""
    _, singular, right = np.linalg.svd(rows, full_matrices=True)
    singular = np.concatenate([singular, np.zeros(rows.shape[1] - len(singular))])
    return right[singular <= _CONSERVED * singular[0]]


def _near_zero(
    rates: Sequence[Callable[[np.ndarray], np.ndarray]],
    x: np.ndarray,
    region: Region,
    scale: np.ndarray,
    null: np.ndarray,
) -> list[np.ndarray]:
    """Rows (n, d) as of the points, from points ever nearer to zero, where terms of lower degree show.

    In a region far larger than the states' scale, terms of high degree are so large that others are lost in
    their rounding. Rows are left out where sums (k, d) differ between neighbours: that is rounding.
    """
    inside = (region.low <= 0.0) & (region.high >= 0.0)
    found = []
    for share in _NEARER if inside.any() else ():
        near = np.where(inside, share * x, x)
        rows, beside = (_values(rates, points) / scale for points in (near, near * (1.0 + _BESIDE)))
        whole = np.isfinite(rows).all(axis=1) & np.isfinite(beside).all(axis=1)
        rows, beside = rows[whole], beside[whole]
        changes, sums = (np.linalg.norm(part @ null.T, axis=1) for part in (rows - beside, rows))
        found.append(_of_size_one(rows[changes <= _STEADY * sums]))
    return found


def _simplest(null: np.ndarray, scale: np.ndarray) -> list[np.ndarray]:
    """Sums in a space of weights (k, d), in units of the rates: those of few states first."""
    k, d = null.shape
    found: list[np.ndarray] = []
    for zeros in islice(combinations(range(d), k - 1), _MOST_CHOICES):
        # The row that vanishes at k - 1 states is unique unless these depend on each other.
        _, singular, right = np.linalg.svd(null[:, list(zeros)].T, full_matrices=True)
        if len(singular) and singular[-1] < _INDEPENDENT:
            continue
        found.append(_rounded(right[-1] @ null, scale))
    found += [_rounded(row, scale) for row in null]
    return sorted(
        found,
        key=lambda row: (
            (row < 0).any(),
            np.count_nonzero(row),
            np.abs(row).max() > _LARGE,  # a multiple of another sum is in it, beside which weights are lost
            tuple(-np.abs(np.sign(row))),
        ),
    )


def _rounded(row: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The row with whole numbers where it has such a multiple, positive for most states, its smallest 1."""
    row = np.where(np.abs(row) > _NEGLIGIBLE * np.abs(row).max(), row, 0.0) / scale
    row = row / np.abs(row[row != 0]).min()
    if (row < 0).sum() > (row > 0).sum() or ((row < 0).sum() == (row > 0).sum() and row[row != 0][0] < 0):
        row = -row
    for denominator in _DENOMINATORS:
        whole = np.round(denominator * row)
        if (
            np.abs(whole).max() < _MOST_WHOLE
            and np.abs(denominator * row - whole).max() <= _WHOLE * np.abs(whole).max()
        ):
            row = whole / np.gcd.reduce(whole.astype(int))
            break
    return row + 0.0  # no zeros with a sign


def sum_text(row: np.ndarray, state_names: Sequence[str]) -> str:
    """A weighted sum of states as text."""
    parts: list[str] = []
    for weight, name in zip(row.tolist(), state_names, strict=True):
        if weight:
            size = "" if abs(weight) == 1 else f"{abs(weight):.6g} "
            sign = ("-" if weight < 0 else "") if not parts else (" - " if weight < 0 else " + ")
            parts.append(f"{sign}{size}{name}")
    return "".join(parts)


def read_sum(text: str, state_names: Sequence[str], caller: str) -> np.ndarray:
    """Weights (d,) of a linear sum written as text.

    Parameters
    ----------
    text : str
        Such as ``"S+I+R"``, ``"E + 2*C"``, ``"E + 2 C"`` or ``"E + 2C"``; or the name of a state.
    state_names : sequence of str
        Names of the d states.
    caller : str
        The caller, for the error.

    Returns
    -------
    ndarray (d,)

    Raises
    ------
    ValueError
        For what is no linear sum of the states.
    """
    names = list(state_names)
    if text in names:
        return np.eye(len(names))[names.index(text)]
    parts = [part for part in text.replace("-", "+-").split("+") if part.strip()]
    row = np.zeros(len(names))
    for part in parts:  # names may be such that Python cannot read them
        sign, part = (-1.0, part.strip()[1:]) if part.strip().startswith("-") else (1.0, part)
        part = part.strip()
        number, _, name = part.replace("*", " ").rpartition(" ")
        if name not in names:  # as chemists write: 2B; the longest name that a number leaves
            name = next((n for n in sorted(names, key=len, reverse=True) if part.endswith(n)), name)
            number = part.removesuffix(name).rstrip("* ")
        try:
            weight = float(ast.literal_eval(number.strip())) if number.strip() else 1.0
        except (ValueError, SyntaxError, TypeError):
            weight = np.nan
        if name not in names or not np.isfinite(weight):
            raise ValueError(
                f"{caller}: expected a sum of the states {names} with numbers before them, such as "
                f"{' + '.join(names[:2])!r}, got {text!r}."
            )
        row[names.index(name)] += sign * weight
    if not row.any():
        raise ValueError(f"{caller}: expected a sum of the states {names}, got {text!r}.")
    return row


def as_given(sums: ConservedSums, level: object, caller: str) -> ConservedSums:
    """The same space of sums, written as the caller writes them in ``level`` where it does."""
    if not isinstance(level, Mapping):
        return sums
    return sums.rewritten([read_sum(text, sums.state_names, caller) for text in level])
