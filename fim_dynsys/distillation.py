"""Sparse symbolic form of any vector field, with the error it makes."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.equation_text import Style, shown
from fim_dynsys.fields.presentation import html_block
from fim_dynsys.fields.terms import Dictionary, Kind
from fim_dynsys.regions import Region
from fim_dynsys.threads import on_one_thread

SUPPORTED = 0.5  # support from which a point counts as inside the data
# Errors of neighbouring points are not independent, so BIC counts points up to this many: a term
# stays if it lowers the squared residual by more than log(200)/200 = 2.6 %.
_EFFECTIVE_POINTS = 200
# Residuals below this share of the field's size are rounding (monomials of degree 3 lose about 1e-12).
_ROUNDING = 1e-10
# Unsupported points count, but barely: they settle terms that the supported ones leave undetermined.
_SMALLEST_WEIGHT = 1e-3
_LARGEST = 1e150  # its square is still a floating-point number


@dataclass(frozen=True)
class Distillation:
    """A field in finite terms, and how far it is from the one it stands for.

    Attributes
    ----------
    field : DictionaryField
        The sparse form; terms without effect have coefficient 0.
    residual_supported, residual_unsupported : float
        Root mean square of the error by root mean square of the field, the largest over states, on fresh
        points with support at least 0.5, and on the others; NaN where there are none.
    n_supported, n_unsupported : int
        Numbers of those points.
    region : Region
        The box they fill.
    """

    field: DictionaryField
    residual_supported: float
    residual_unsupported: float
    n_supported: int
    n_unsupported: int
    region: Region

    def equations(self, precision: int = 3, style: Style = "plain") -> list[str]:
        """Right-hand sides with `precision` significant digits; see `DictionaryField.equations`."""
        return self.field.equations(precision, style=style)

    def to_dataframe(self) -> pd.DataFrame:
        """The coefficients that are not zero; see `DictionaryField.to_dataframe`."""
        return self.field.to_dataframe()

    def __repr__(self) -> str:
        return "\n".join(
            [*shown(self.field.state_names, self.equations()), f"relative residual {self._misfit()}"]
        )

    def _repr_html_(self) -> str:
        rows = {"states": ", ".join(self.field.state_names), "relative residual": self._misfit()}
        return html_block("Distillation", rows, shown(self.field.state_names, self.equations()))

    def _misfit(self) -> str:
        return (
            f"{self.residual_supported:.2g} on {self.n_supported} supported points, "
            f"{self.residual_unsupported:.2g} on {self.n_unsupported} unsupported ones"
        )


@on_one_thread
def distill(
    field: VectorField,
    region: Region | None = None,
    degree: int = 3,
    trigonometric: bool = False,
    n_points: int = 512,
    seed: int = 0,
) -> Distillation:
    """Find a sparse sum of terms close to `field` where data support it.

    The field itself is regressed, at points that fill the region evenly and at the observed states, each
    weighted by its support. Terms are removed one by one, always the one that costs least, and the number
    kept is that of least BIC, for each state on its own.

    Parameters
    ----------
    field : VectorField
        Any field.
    region : Region, optional
        Box in which to compare; default the field's own.
    degree : int
        Largest total degree of the monomials.
    trigonometric : bool
        Whether sine and cosine of each state are candidates too.
    n_points : int
        Points that fill the region, and at most as many observed states.
    seed : int
        Of the points.

    Returns
    -------
    Distillation

    Raises
    ------
    ValueError
        Where no region is given and the field has none, the field is not finite at enough points, or squares
        of its rates or of the terms overflow.

    References
    ----------
    G. Schwarz, Estimating the dimension of a model, Annals of Statistics 6 (1978) 461 (BIC).

    See Also
    --------
    VectorFieldModel.equations : Distils where it has to.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> box = fim_dynsys.Region([-2], [2])
    >>> field = fim_dynsys.CallableField(lambda x: x - x**3, 1, region=box)
    >>> fim_dynsys.distill(field).equations()
    ['x0 - x0^3']
    """
    region = _region(field, region)
    dictionary = Dictionary.polynomial(field.dim, degree)
    if trigonometric:
        dictionary = dictionary + Dictionary.functions(field.dim, Kind.SIN)
        dictionary = dictionary + Dictionary.functions(field.dim, Kind.COS)
    points, values, weights = _samples(field, region, n_points, seed)
    if len(points) < 2 * len(dictionary):
        raise ValueError(
            f"distill: expected the field to be finite at {2 * len(dictionary)} points at least, got "
            f"{len(points)}; give a smaller region or degree, or more n_points."
        )
    with np.errstate(all="ignore"):
        columns = dictionary.evaluate(points)
    if not max(np.abs(columns).max(), np.abs(values).max()) <= _LARGEST:
        raise ValueError(
            f"distill: expected rates and terms of at most {_LARGEST:g}, whose squares are floating-point "
            f"numbers, got rates up to {np.abs(values).max():g} and states up to {np.abs(points).max():g}; "
            "change the units."
        )
    coefficients = sparse_fit(columns, values, weights)
    sparse = DictionaryField(
        dictionary,
        coefficients,
        context=field.context,
        state_names=field.state_names,
        region=region,
        scales=field.scales,
    )
    return _judged(field, sparse, region, n_points, seed + 1)


def _region(field: VectorField, region: Region | None) -> Region:
    region = field.region if region is None else region
    if region is None:
        raise ValueError(
            "distill: expected a region, since the field has none, got None; pass region=Region(low, high)."
        )
    return region.of_states(field.state_names, "distill")


def _samples(
    field: VectorField, region: Region, n_points: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, field values and weights where the field is finite."""
    points = _filling(region, n_points, seed)
    if field.context is not None:
        observed = np.concatenate([x for _, x in field.context.arrays()])
        observed = observed[np.isfinite(observed).all(axis=1)]
        observed = observed[region.contains(observed)]
        stride = -(-len(observed) // n_points) or 1
        points = np.concatenate([points, observed[::stride]])
    values = field(points)
    weights = np.maximum(field.support(points), _SMALLEST_WEIGHT)
    finite = np.isfinite(values).all(axis=1)
    return points[finite], values[finite], weights[finite]


def _filling(region: Region, n_points: int, seed: int) -> np.ndarray:
    return region.sobol(n_points, seed=seed)


def sparse_fit(columns: np.ndarray, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Coefficients of few columns, by backward elimination and BIC.

    Parameters
    ----------
    columns : array (n, m)
        Terms at the points.
    values : array (n, d)
        What they are to sum up to.
    weights : array (n,)
        Weights of the squared errors.

    Returns
    -------
    array (m, d)
        Zero for terms left out.
    """
    root = np.sqrt(weights / weights.sum())[:, None]
    columns, values = columns * root, values * root
    norms = np.linalg.norm(columns, axis=0)
    norms[norms == 0] = 1.0
    q, r = np.linalg.qr(columns / norms)
    coefficients = np.zeros((columns.shape[1], values.shape[1]))
    for state, target in enumerate(values.T):
        coefficients[:, state] = _least_bic(r, q.T @ target, target @ target) / norms
    return coefficients


def _least_bic(r: np.ndarray, projected: np.ndarray, total: float) -> np.ndarray:
    """Coefficients of least BIC on the elimination path of |r c - projected|^2 + what no column explains."""
    unexplained = max(total - projected @ projected, 0.0)
    floor = (_ROUNDING**2) * total
    support = np.arange(r.shape[1])
    best, least = np.zeros(r.shape[1]), np.inf
    while True:
        c = np.zeros(r.shape[1])
        c[support] = np.linalg.lstsq(r[:, support], projected, rcond=None)[0]
        squares = unexplained + np.sum((r @ c - projected) ** 2)
        squares = squares if squares > floor else floor
        bic = (
            _EFFECTIVE_POINTS * np.log(squares) + len(support) * np.log(_EFFECTIVE_POINTS)
            if squares > 0
            else -np.inf
        )
        if bic <= least:
            best, least = c, bic
        if not len(support):
            return best
        support = np.delete(support, _cheapest(r[:, support], c[support]))


def _cheapest(r: np.ndarray, c: np.ndarray) -> int:
    """Position of the column whose removal raises the squared residual least: c_j^2 / (R'R)^-1_jj."""
    inverse = np.linalg.pinv(r)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.sum(inverse**2, axis=1)  # none of a column that the others leave nothing of
        return int(np.argmin(np.divide(c**2, squares, out=np.zeros_like(c), where=squares > 0)))


def _judged(
    field: VectorField, sparse: DictionaryField, region: Region, n_points: int, seed: int
) -> Distillation:
    """Compare the two fields on fresh points."""
    points = _filling(region, n_points, seed)
    if field.context is not None:
        seen = np.concatenate([x for _, x in field.context.arrays()])
        seen = seen[np.isfinite(seen).all(axis=1)]
        points = np.concatenate([points, seen[:: -(-len(seen) // n_points) or 1]])
    supported = field.support(points) >= SUPPORTED
    truth, approximation = field(points), sparse(points)
    return Distillation(
        field=sparse,
        residual_supported=_relative_residual(truth[supported], approximation[supported]),
        residual_unsupported=_relative_residual(truth[~supported], approximation[~supported]),
        n_supported=int(supported.sum()),
        n_unsupported=int((~supported).sum()),
        region=region,
    )


def _relative_residual(truth: np.ndarray, approximation: np.ndarray) -> float:
    if not len(truth):
        return float("nan")
    with np.errstate(all="ignore"):
        size = np.sqrt(np.mean(truth**2, axis=0))
        error = np.sqrt(np.mean((approximation - truth) ** 2, axis=0))
    return float(np.max(error / np.where(size > 0, size, 1.0)))
