"""What an inference knows of its own errors, and the calibrated posterior that a network reads off it."""

from dataclasses import dataclass

import numpy as np

from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.criteria import noise_model
from fim_dynsys.regression.roots import inverse_root

N_CONTEXT, N_TOKEN = 11, 8
"""Numbers that describe a coordinate's fit, and each of its terms."""

_SMALLEST_POWER = 1e-9  # of a term on the path, relative to its size at one standard deviation of the states
_LOG_BOUND = 12.0  # of deviations, in units of the fit's rates


@dataclass(frozen=True)
class Evidence:
    """What an inference knows of m coefficients for d coordinates beside their best values.

    Attributes
    ----------
    operator : array (m, d)
        What a pretrained operator says of them.
    deviation : array (m, d)
        Its own posterior standard deviations.
    spread : array (m, d)
        Mean distance of other estimates from the best values.
    information : array (d, m, m)
        Normal matrices of the data, each over its residual variance.
    searched : bool
        Whether the best values come from a search among candidates.
    """

    operator: np.ndarray
    deviation: np.ndarray
    spread: np.ndarray
    information: np.ndarray
    searched: bool

    @classmethod
    def of(
        cls,
        field: DictionaryField,
        others: np.ndarray,
        solves: np.ndarray,
        variances: np.ndarray,
        information: np.ndarray,
        searched: bool,
    ) -> "Evidence":
        """Of a `DictionaryField`, estimates (A, m, d) beside it, and an operator's answer."""
        spread = np.mean(np.abs(others - field.coefficients), axis=0)
        return cls(solves[-1], np.sqrt(variances), spread, information, searched)


@dataclass(frozen=True)
class Description:
    """A fit and its evidence in units of its own path, where rates and terms are of order 1.

    Attributes
    ----------
    context : array (d, `N_CONTEXT`)
        Each coordinate's fit.
    tokens : array (d, m, `N_TOKEN`)
        Each term of each coordinate.
    information : array (d, m, m)
        As in `Evidence`.
    power : array (m,)
        Root mean square of each term on the path.
    rate : array (d,)
        Unit of each rate: one standard deviation of the state per time scale.
    """

    context: np.ndarray
    tokens: np.ndarray
    information: np.ndarray
    power: np.ndarray
    rate: np.ndarray


def describe(field: DictionaryField, evidence: Evidence) -> Description:
    """The `Description` of a `DictionaryField` with a context."""
    assert field.frame.smoothed is not None
    dictionary, scales = field.dictionary, field.scales
    paths, rates, _ = field.frame.smoothed
    path = np.concatenate(paths)
    columns = dictionary.evaluate(path)
    unit = scales.length / scales.time
    usual = np.prod(np.hypot(scales.length, path.mean(axis=0)) ** dictionary.exponents, axis=1)
    power = np.maximum(np.sqrt(np.mean(columns**2, axis=0)), _SMALLEST_POWER * usual)
    factor = unit[:, None] / power  # (d, m): unit of each coefficient
    information = evidence.information * factor[:, :, None] * factor[:, None, :]
    tokens = _tokens(dictionary, field.coefficients, evidence, factor, information)
    fitted = columns @ field.coefficients
    context = _context(field, path, rates, fitted, unit, information, evidence.searched)
    return Description(context, tokens, information, power, unit)


def _context(
    field: DictionaryField,
    path: np.ndarray,
    rates: np.ndarray,
    fitted: np.ndarray,
    unit: np.ndarray,
    information: np.ndarray,
    searched: bool,
) -> np.ndarray:
    assert field.context is not None
    (m, d), scales = field.coefficients.shape, field.scales
    samples = [(t[seen], x[seen]) for t, x in field.context.arrays() if (seen := ~np.isnan(x).any(1)).any()]
    noise = noise_model(samples).level / scales.length
    misfit = np.sqrt(np.mean((rates - fitted) ** 2, axis=0)) / unit
    speed = np.sqrt(np.mean(fitted**2, axis=0)) / unit
    standard = (path - path.mean(axis=0)) / scales.length
    flatness = np.linalg.eigvalsh(standard.T @ standard / len(path))[0]
    offset = scales.length / np.hypot(scales.length, path.mean(axis=0))
    kept = [
        0.3 * np.log(np.trace(information, axis1=1, axis2=2) / m + 1e-9),
        np.log(misfit + 1e-4),
        np.log(noise + 1e-4),
        np.log(speed + 1e-3),
        np.log(offset + 1e-3),
    ]
    shared = [
        np.log(sum(len(t) for t, _ in samples) / 100.0),
        np.log(misfit.mean() + 1e-4),
        np.log(noise.mean() + 1e-4),
        0.1 * np.log(max(flatness, 0.0) + 1e-9),
        d - 2.0,
        float(searched),
    ]
    return np.column_stack([*kept, *np.tile(np.array(shared)[:, None], d)])


def _tokens(
    dictionary: Dictionary,
    coefficients: np.ndarray,
    evidence: Evidence,
    factor: np.ndarray,
    information: np.ndarray,
) -> np.ndarray:
    exponents = dictionary.exponents

    def size(values: np.ndarray) -> np.ndarray:
        return np.log(np.abs(values.T / factor) + 1e-4)

    shape = coefficients.T.shape
    return np.stack(
        [
            size(coefficients),
            np.log(evidence.deviation.T / factor + 1e-6),
            size(evidence.operator - coefficients),
            size(evidence.spread),
            0.3 * np.log(np.einsum("imm->im", information) + 1e-9),
            np.broadcast_to(exponents.sum(axis=1) - 1.5, shape),
            exponents.T - 0.5,
            np.broadcast_to((exponents > 0).sum(axis=1) - 1.0, shape),
        ],
        axis=-1,
    )


@dataclass(frozen=True)
class Calibration:
    """Weights of the network that reads a posterior off a `Description`.

    Attributes
    ----------
    tensors : dict of array
        ``context_centre``, ``context_spread``, ``token_centre``, ``token_spread``; layers ``data_1``,
        ``data_2`` (weight of the information) and ``term_1``, ``term_2``, ``term_3`` (deviations), each with
        ``_weight`` (out, in) and ``_bias``; ``factor`` (D,), by which deviations in 1, 2, ... D dimensions
        are multiplied last.
    """

    tensors: dict[str, np.ndarray]

    def __post_init__(self) -> None:
        t = self.tensors
        try:
            context = (np.zeros((1, N_CONTEXT)) - t["context_centre"]) / t["context_spread"]
            tokens = (np.zeros((1, N_TOKEN)) - t["token_centre"]) / t["token_spread"]
            shapes = [
                self._layers(context, "data", 2).shape,
                self._layers(np.concatenate([context, tokens], axis=1), "term", 3).shape,
            ]
            sound = shapes == [(1, 1), (1, 1)] and t["factor"].ndim == 1 and len(t["factor"]) > 0
        except (IndexError, KeyError, ValueError) as error:
            raise ValueError(
                f"Calibration: expected the arrays of its layers, got others "
                f"({type(error).__name__}: {error})."
            ) from error
        if not sound:
            raise ValueError(f"Calibration: expected layers that end in one number, got {shapes}.")

    def roots(self, field: DictionaryField, evidence: Evidence) -> np.ndarray:
        """Matrices R (d, m, m) of the posterior covariances ``R^T R`` of a field's coefficients."""
        about = describe(field, evidence)
        t = self.tensors
        context = (about.context - t["context_centre"]) / t["context_spread"]
        tokens = (about.tokens - t["token_centre"]) / t["token_spread"]
        spread_out = np.broadcast_to(context[:, None], (*tokens.shape[:2], context.shape[1]))
        weight = self._layers(context, "data", 2)[:, 0] - 2.0
        deviation = self._layers(np.concatenate([spread_out, tokens], axis=2), "term", 3)[..., 0] - 1.0
        w = np.exp(np.clip(deviation, -_LOG_BOUND, _LOG_BOUND))
        v = np.exp(2.0 * np.clip(weight, -_LOG_BOUND, _LOG_BOUND))
        inner = w[:, :, None] * about.information * w[:, None, :] * v[:, None, None] + np.eye(w.shape[1])
        factor = t["factor"][min(len(w), len(t["factor"])) - 1]
        try:
            root = np.linalg.solve(np.linalg.cholesky(inner), np.eye(w.shape[1]) * w[:, None])
        except np.linalg.LinAlgError:  # rounding made an eigenvalue negative; none is below 1
            root = inverse_root(inner, np.ones(w.shape[1])) * w[:, None]
        return factor * root * about.rate[:, None, None] / about.power

    def _layers(self, x: np.ndarray, name: str, count: int) -> np.ndarray:
        for k in range(1, count + 1):
            x = x @ self.tensors[f"{name}_{k}_weight"].T + self.tensors[f"{name}_{k}_bias"]
            x = np.tanh(x) if k < count else x
        return x
