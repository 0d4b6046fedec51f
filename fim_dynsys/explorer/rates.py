"""Fields as JavaScript: their own equations where they have some, else a table of values with its error."""

import base64
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from fim_dynsys.distillation import distill
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.symbolic import SymbolicField
from fim_dynsys.regions import Region

if TYPE_CHECKING:
    from sympy import Expr

_NODES = {1: 401, 2: 101, 3: 33}  # of a table along each axis, by its dimension
_BYTES = 3e6  # of all tables of a page, encoded
_FEWEST = 9  # nodes along an axis
_MARGIN = 0.25  # how far a table reaches beyond the region on each side, as a share of its size
_CHECKED = 1024  # points at which a table is compared with its field


@dataclass(frozen=True)
class Rates:
    """A field as a page holds it.

    Attributes
    ----------
    code : str
        JavaScript expression of a function ``(x, f)`` that writes dx/dt at the state x into f.
    equations : tuple of str
        Right-hand sides in x0, x1, ... as `SymbolicField` reads them; empty for a table.
    note : str
        How the page's field differs from the one it was made of; empty where it is the same.
    error : float
        By how much, relative to the size of the field.
    """

    code: str
    equations: tuple[str, ...] = ()
    note: str = ""
    error: float = 0.0


def rates_of(field: VectorField, region: Region, fields: int = 1) -> Rates:
    """The field as JavaScript.

    Sums of terms and expressions become code. Other fields of up to three states become a table, between
    whose nodes cubics interpolate; those of more states are distilled (`fim_dynsys.distill`).

    Parameters
    ----------
    field : VectorField
        Autonomous.
    region : Region
        Where the page shows it.
    fields : int
        Fields that share the page: the more, the fewer nodes has the table of each.

    Returns
    -------
    Rates
    """
    if isinstance(field, DictionaryField | SymbolicField):
        rates = _code(field)
        if rates is not None:
            return rates
    if field.dim in _NODES:
        return _table(field, region, fields)
    found = distill(field, region)
    rates = _code(found.field)
    if rates is None:
        raise ValueError("rates_of: expected monomials from the distillation, got terms without JavaScript.")
    error = found.residual_supported
    note = f"distilled equations, relative residual {error:.2g} near the data"
    return Rates(rates.code, rates.equations, note, error)


def _code(field: DictionaryField | SymbolicField) -> Rates | None:
    """As a function; None where an expression has a part that JavaScript does not know."""
    import sympy

    symbols = [sympy.Symbol(f"x{i}", real=True) for i in range(field.dim)]
    expressions: list[Expr] = field.sympy(symbols)
    lines = [sympy.jscode(expression) for expression in expressions]
    if any("//" in line or "\n" in line for line in lines):  # how sympy says that it has no such function
        return None
    names = ", ".join(f"x{i} = x[{i}]" for i in range(field.dim))
    body = " ".join(f"f[{i}] = {line};" for i, line in enumerate(lines))
    return Rates(
        f"(x, f) => {{ const {names}; {body} }}",
        tuple(str(expression).replace("Abs(", "abs(") for expression in expressions),
    )


def _table(field: VectorField, region: Region, fields: int) -> Rates:
    box = region.widened(_MARGIN)
    room = _BYTES / (fields * field.dim * 16 / 3)  # four bytes a number, a third more as text
    n = max(min(_NODES[field.dim], int(room ** (1 / field.dim))), _FEWEST)
    axes = [np.linspace(low, high, n) for low, high in zip(box.low, box.high, strict=True)]
    nodes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    values = field(nodes).astype(np.float32)
    points = region.sobol(_CHECKED)
    truth = field(points)
    with np.errstate(all="ignore"):
        missed = between_nodes(values, box, points) - truth
        error = float(np.max(np.sqrt(np.nanmean(missed**2, axis=0) / np.nanmean(truth**2, axis=0))))
    encoded = base64.b64encode(values.tobytes()).decode("ascii")
    low, high = ([float(v) for v in end] for end in (box.low, box.high))
    return Rates(
        f'tabulated({{low: {low}, high: {high}, n: {n}, dim: {field.dim}, values: "{encoded}"}})',
        note=f"a table of {n} values along each axis with cubics between them, relative error {error:.1g}",
        error=error,
    )


def between_nodes(values: np.ndarray, box: Region, x: np.ndarray) -> np.ndarray:
    """What the page reads from a table: tensor products of cubics through the four nearest nodes.

    Parameters
    ----------
    values : array (n, ..., n, d)
        At evenly spaced nodes, d axes of n.
    box : Region
        That they fill.
    x : array (m, d)
        Points in the box.

    Returns
    -------
    array (m, d)
    """
    d, n = x.shape[1], values.shape[0]
    place = (x - box.low) / box.size * (n - 1)
    first = np.clip(np.floor(place).astype(int), 1, n - 3)
    s = place - first
    weights = np.stack(
        [
            -s * (s - 1) * (s - 2) / 6,
            (s + 1) * (s - 1) * (s - 2) / 2,
            -(s + 1) * s * (s - 2) / 2,
            (s + 1) * s * (s - 1) / 6,
        ]
    )
    total = np.zeros(x.shape)
    for offsets in product(range(4), repeat=d):
        weight = np.prod([weights[k, :, i] for i, k in enumerate(offsets)], axis=0)
        node = tuple(first[:, i] + k - 1 for i, k in enumerate(offsets))
        total += weight[:, None] * values[node]
    return total
