"""How far equations that explain the data about as well differ from the answer, at large and on a path."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.inference import Trust
from fim_dynsys.models.judging import judged
from fim_dynsys.regions import Region
from fim_dynsys.trajectories.container import Trajectories

N_DRAWS = 12
"""Draws that stand for rivals where there are none: their mean square deviation is known within a third."""

_N_RIVALS = 8  # that are compared, the most preferred ones
_TEMPERATURE = 4.0  # of their weights: a BIC of twice this behind the best is still a rival
_GROWN = 3.0  # times the box of the data: starts that users ask for lie as far out
_SAME = 1e-12  # of its square: the variance of a rate that is constant but for rounding
_POINTS = 64  # in it; uniform, since an even sequence would take half a second to import
_LEADS_ELSEWHERE = 0.5  # R2 of the answer's path by that of a rival, below which they part
# of draw 0 of python -m benchmarks.records --only trust
_CONTESTED, _AGREED = 0.3, 0.05  # shares of rivals that lead elsewhere: low trust, high trust


class Rivals(NamedTuple):
    """Equations that explain the data about as well as the answer, itself among them."""

    fields: Sequence[VectorField]
    weights: np.ndarray  # (C,) sum 1

    @classmethod
    def of(cls, log_weights: np.ndarray, field: Callable[[int], VectorField]) -> "Rivals":
        """The most preferred of some candidates, by their log weights (C,) and what makes a field of one."""
        places, weights = preferred(log_weights)
        return cls([field(int(k)) for k in places], weights)

    @classmethod
    def drawn(cls, field: VectorField) -> "Rivals | None":
        """Draws from the posterior of a field, which weigh the same; None where it has none."""
        found = None if isinstance(field, DrivenField) else field.draws(N_DRAWS, 0)
        return None if found is None else cls.alike(list(found))

    @classmethod
    def alike(cls, fields: Sequence[VectorField]) -> "Rivals":
        """Fields that weigh the same."""
        return cls(fields, np.full(len(fields), 1.0 / len(fields)))


def preferred(log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of the most preferred candidates, and how much each counts as a rival; both (C,)."""
    places = np.argsort(-log_weights, kind="stable")[:_N_RIVALS]
    weights = np.exp((log_weights[places] - log_weights[places[0]]) / _TEMPERATURE)
    return places, weights / weights.sum()


def points_elsewhere(context: Trajectories) -> np.ndarray:
    """States (64, d) in a box three times that of the data; no state has a sign that it never had."""
    box = context.box()
    centre, half = (box.low + box.high) / 2.0, (box.high - box.low) / 2.0
    x = Region(centre - _GROWN * half, centre + _GROWN * half, box.names).uniform(_POINTS, 0)
    x = np.where(box.low >= 0.0, np.abs(x), x)
    return np.where(box.high <= 0.0, -np.abs(x), x)


def inputs_elsewhere(context: Trajectories) -> tuple[np.ndarray, ...]:
    """Inputs (64, m) for `points_elsewhere`, those of samples of all times; nothing without inputs."""
    if not context.input_names:
        return ()
    u = np.concatenate(context.input_arrays())
    return (u[np.linspace(0.0, len(u) - 1.0, _POINTS).astype(int)],)


def deviation_by_constants(field: VectorField, context: Trajectories) -> float | None:
    """`deviation` of a field from itself where states have other values that the data hold constant."""
    constant = _widths(context) == 0.0
    if not constant.any():
        return None
    x, u = points_elsewhere(context), inputs_elsewhere(context)
    other = np.where(constant, x * np.linspace(1.0 / _GROWN, _GROWN, len(x))[:, None], x)
    with np.errstate(all="ignore"):
        return deviation(field(x, *u), field(other, *u)[None], np.ones(1), context)


def deviation(
    rates: np.ndarray, of_rivals: np.ndarray, weights: np.ndarray, context: Trajectories
) -> float | None:
    """Root mean square deviation of the rates (C, n, d) of rivals from those (n, d) of the answer.

    Returns
    -------
    float or None
        In standard deviations of the latter, of the state where it is largest; None where it is not finite.
    """
    with np.errstate(all="ignore"):
        spread = _unit_squares(rates, context)
        apart = weights @ np.mean((of_rivals - rates) ** 2, axis=1)
        largest = float(np.sqrt(np.max(apart / spread)))
    return largest if np.isfinite(largest) else None


def _unit_squares(rates: np.ndarray, context: Trajectories) -> np.ndarray:
    """Squares (d,) of what deviations of rates (n, d) are small or large beside.

    Their variance; of a rate that is the same everywhere its square; of one that is zero that of crossing
    the data within the longest record. A state that the data hold constant at rest has none.
    """
    square, variance = np.mean(rates**2, axis=0), rates.var(axis=0)
    unit = np.where(variance > _SAME * square, variance, square)
    span = max(t[-1] - t[0] for t, _ in context.arrays())
    across = (_widths(context) / span) ** 2 if span > 0 else np.ones(context.dim)
    unit = np.where(unit > 0.0, unit, across)
    return np.where(unit > 0.0, unit, np.inf)


def _widths(context: Trajectories) -> np.ndarray:
    """Range (d,) of each state in the data."""
    x = np.concatenate([x for _, x in context.arrays()])
    return np.nanmax(x, axis=0) - np.nanmin(x, axis=0)


def together(*apart: float | None) -> float | None:
    """Deviations of independent origin as one; None where none is known."""
    known = [one for one in apart if one is not None]
    return math.hypot(*known) if known else None


def deviation_by_errors(field: VectorField, context: Trajectories) -> float | None:
    """As `deviation_elsewhere` of draws by the standard errors of coefficients, as if independent."""
    errors = field.standard_errors
    terms = field.extended if isinstance(field, DrivenField) else field
    if errors is None or not isinstance(terms, DictionaryField):
        return None
    at = points_elsewhere(context), *inputs_elsewhere(context)
    with np.errstate(all="ignore"):
        spread = _unit_squares(field(*at), context)
        apart = np.mean(terms.dictionary.evaluate(np.concatenate(at, axis=1)) ** 2, axis=0) @ errors**2
        largest = float(np.sqrt(np.max(apart / spread)))
    return largest if np.isfinite(largest) else None


def deviation_elsewhere(field: VectorField, rivals: Rivals, context: Trajectories) -> float | None:
    """`deviation` of the rivals of a field at `points_elsewhere` of its context."""
    at = points_elsewhere(context), *inputs_elsewhere(context)
    with np.errstate(all="ignore"):
        rates = np.stack([rival(*at) for rival in rivals.fields])
        return deviation(field(*at), rates, rivals.weights, context)


def share_elsewhere(field: VectorField, rivals: Rivals, starts: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Share of the rivals, by weight, that lead elsewhere from states.

    Parameters
    ----------
    field : VectorField
        The answer.
    rivals : Rivals
        Of it.
    starts : array (n, d)
        States at the first time.
    t : array (m,)
        Increasing times.

    Returns
    -------
    array (n,)
        nan where the answer's own path ends early, of which `simulate` warns.
    """
    times = [t] * len(starts)

    def paths(moving: VectorField) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.stack(judged(moving, list(starts), times).paths)

    reached, share = paths(field), np.zeros(len(starts))
    with np.errstate(all="ignore"):
        spread = np.maximum(np.sum((reached - reached.mean(axis=1, keepdims=True)) ** 2, axis=1), 1e-300)
        for rival, weight in zip(rivals.fields, rivals.weights, strict=True):
            r2 = np.mean(1.0 - np.sum((paths(rival) - reached) ** 2, axis=1) / spread, axis=-1)
            share += weight * ~(r2 > _LEADS_ELSEWHERE)  # nan: it ends early
    return np.where(np.isfinite(reached).all(axis=(1, 2)), share, np.nan)


def trust_by(share: float, overall: Trust) -> Trust:
    """Trust in a path, by the share of rivals that lead elsewhere and the trust in the fit."""
    if not share <= _CONTESTED:  # nan: the path ends early
        return Trust.LOW
    return Trust.HIGH if overall is Trust.HIGH and share <= _AGREED else Trust.LIMITED


def is_contested(share: np.ndarray) -> np.ndarray:
    """Whether rivals with these shares (n,) make a path one of low trust."""
    return share > _CONTESTED
