"""Our operator's forward pass in numpy: what `amortised` trains in torch, for inference on the CPU.

One context at a time, its trajectories behind one another: no padding, no masks. Smoothing and regression
are the compiled ones of the regression room. Features and solves are in float64, layers in float32, as there.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import erf

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models.fim_ode.configuration import LARGEST_FLOOR, AmortisedConfig
from fim_dynsys.regression.forms import normal_forms
from fim_dynsys.regression.smoothing import smoothing_bank

Samples = Sequence[tuple[np.ndarray, np.ndarray]]
"""Times (n,) and states (n, d) of each trajectory of a context."""


class Estimate(NamedTuple):
    """Coefficients of one context in the units of the data."""

    solves: np.ndarray  # (S, m, d), the last solve being the answer
    variances: np.ndarray  # (m, d) posterior variances of the last solve
    information: np.ndarray  # (d, m, m) what the data say of them: weighted normal matrices
    scale: np.ndarray  # (d,) unit of each state, which the factors inside functions are of


class AmortisedInference:
    """The operator with fixed parameters, which no call changes.

    Parameters
    ----------
    config : AmortisedConfig
        Sizes.
    parameters : mapping of str to array
        As ``config.shapes()`` names them.
    """

    def __init__(self, config: AmortisedConfig, parameters: Mapping[str, np.ndarray]) -> None:
        self.config = config
        self._parameters = {
            name: np.ascontiguousarray(array.T, dtype=np.float32) for name, array in parameters.items()
        }

    def estimates(self, contexts: Sequence[Samples]) -> list[Estimate]:
        """What the operator says of each context.

        Parameters
        ----------
        contexts : sequence of lists of (times (n,), states (n, d))
            Increasing times from 0 for each trajectory, complete states, d at most ``config.largest_dim``.
        """
        with np.errstate(all="ignore"):  # infinities are the caller's to refuse
            return [self._estimate(samples) for samples in contexts]

    def _estimate(self, samples: Samples) -> Estimate:
        counts = [len(t) for t, _ in samples]
        banks = [smoothing_bank(t, x, self.config.widths) for t, x in samples]
        states, slopes = (np.concatenate(part, axis=1) for part in zip(*banks, strict=True))
        t, raw = (np.concatenate(part) for part in zip(*samples, strict=True))
        scale, deviation, time_unit = _units(raw, slopes)
        raw, states = raw / scale, states / scale
        slopes, time = slopes * (time_unit / scale), t / time_unit
        features = _features(time, counts, raw, states, slopes, deviation)
        embedding, *choices, floor, forms = self._context(features.astype(np.float32))
        local = self._local(_local_features(counts, raw, states, slopes).astype(np.float32), embedding)
        path, velocity = (
            _mixture(bank, choice + features)
            for bank, choice, features in zip((states, slopes), choices, local, strict=True)
        )
        # far from what was seen in training the floor may be anything, and must not make all weights zero
        rows = 1.0 / (path**2 + np.exp(np.minimum(floor.astype(float), LARGEST_FLOOR)))
        rows = rows / rows.sum(axis=0) * len(rows)
        dictionary = _dictionary(raw.shape[1], self.config.degree)
        regression = normal_forms(dictionary, time, raw, path, velocity, rows, counts, self.config.n_segments)
        solves, variances, information = self._solves(dictionary, *regression, forms, embedding)
        columns = np.exp(dictionary.exponents @ np.log(scale))
        factor = (scale / time_unit) / columns[:, None]
        transposed = factor.T
        information = information / (transposed[:, :, None] * transposed[:, None, :])
        return Estimate(solves * factor, variances * factor**2, information, scale)

    # --- layers ------------------------------------------------------------------------------------------

    def _linear(self, name: str, *parts: np.ndarray) -> np.ndarray:
        """A layer of the concatenation of arrays that broadcast against each other."""
        weight, first = self._parameters[f"{name}.weight"], 0
        out = self._parameters.get(f"{name}.bias", _NONE)
        for part in parts:
            width = part.shape[-1]
            flat = part.reshape(-1, width) @ weight[first : first + width]  # one product: stacks are slow
            out = out + flat.reshape(*part.shape[:-1], -1)
            first += width
        return out

    def _context(self, features: np.ndarray) -> tuple[np.ndarray, ...]:
        """(d, F) to embedding, level mixtures of state and slope, log floor, log weights of the forms."""
        local = self._linear("context.local.2", _gelu(self._linear("context.local.0", features)))
        pooled = local.mean(axis=0, keepdims=True)
        hidden = _gelu(self._linear("context.joint.0", local, pooled))
        embedding = self._linear("context.joint.2", hidden)
        out, n = self._linear("context.head", embedding), self.config.n_levels
        return embedding, out[:, :n], out[:, n : 2 * n], out[:, 2 * n] - np.float32(3.0), out[:, 2 * n + 1 :]

    def _local(self, features: np.ndarray, embedding: np.ndarray) -> list[np.ndarray]:
        """Features (N, d, F) and embedding (d, C) to logits (N, d, L) of states and of slopes."""
        hidden = _gelu(self._linear("local.embed", features) + self._linear("local.context", embedding))
        return np.split(self._linear("local.out", hidden), 2, axis=-1)

    def _update(
        self, name: str, hidden: np.ndarray, features: np.ndarray, factors: np.ndarray, mine: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """New hidden (d, m, H) and the change of the log precision (d, m); see `PrecisionUpdate`."""
        token = _gelu(hidden + self._linear(f"{name}.embed", features, factors, mine))
        over_terms, over_states = token.mean(axis=1, keepdims=True), token.mean(axis=0, keepdims=True)
        mixed = _gelu(self._linear(f"{name}.mix.0", token, over_terms, over_states))
        hidden = hidden + self._linear(f"{name}.mix.2", mixed)
        hidden = hidden - hidden.mean(axis=-1, keepdims=True)
        hidden = hidden / np.sqrt((hidden**2).mean(axis=-1, keepdims=True) + np.float32(1e-5))
        hidden = hidden * self._parameters[f"{name}.norm.weight"] + self._parameters[f"{name}.norm.bias"]
        return hidden, np.float32(3.0) * self._linear(f"{name}.out", hidden)[..., 0]

    def _solves(
        self,
        dictionary: Dictionary,
        power: np.ndarray,
        grams: np.ndarray,
        moments: np.ndarray,
        forms: np.ndarray,
        embedding: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ridge solves with learned updates of the log precisions between them; as in `Estimate`."""
        weight = np.exp(forms.astype(float))[..., None]
        gram, moment = (weight[..., None] * grams).sum(axis=1), (weight * moments).sum(axis=1)
        d, m = moment.shape
        exponents = dictionary.exponents.astype(np.float32)
        factors, mine = (exponents @ embedding)[None], embedding[:, None]
        shape = _term_features(exponents, power)
        hidden = np.zeros((d, m, self.config.token_width), np.float32)
        log_precision = np.broadcast_to(self._linear("start", embedding), (d, m))
        solution, variance = _ridge_solve(gram, moment, log_precision)
        steps = [solution]
        for k in range(self.config.n_updates):
            size = np.log(np.abs(solution) + 1e-5)  # terms below matter to no field: all alike
            ratio = np.log1p(solution**2 / variance)
            seen = np.stack([size, 0.5 * np.log(variance), ratio, log_precision], axis=-1)
            features = np.concatenate([seen.astype(np.float32) * np.float32(0.3), shape], axis=-1)
            hidden, change = self._update(f"updates.{k}", hidden, features, factors, mine)
            log_precision = log_precision + change
            solution, variance = _ridge_solve(gram, moment, log_precision)
            steps.append(solution)
        information = gram * (power[:, None] * power)
        return np.stack(steps).swapaxes(1, 2) / power[:, None], variance.T / power[:, None] ** 2, information


_NONE = np.zeros(1, np.float32)  # bias of a layer without one


@lru_cache(16)
def _dictionary(dim: int, degree: int) -> Dictionary:
    return Dictionary.polynomial(dim, degree)


def _gelu(x: np.ndarray) -> np.ndarray:
    return np.float32(0.5) * x * (np.float32(1.0) + erf(x * np.float32(np.sqrt(0.5))))


def _ridge_solve(
    gram: np.ndarray, moment: np.ndarray, log_precision: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean and variances (d, m) of a Gaussian linear model, scaled to a unit diagonal first."""
    eye = np.eye(gram.shape[-1])
    added = np.exp(np.clip(log_precision.astype(float), -20.0, 30.0))
    precision = gram + added[:, :, None] * eye
    scale = 1.0 / np.sqrt(np.diagonal(precision, axis1=1, axis2=2))
    scaled = scale[:, :, None] * precision * scale[:, None, :] + 1e-12 * eye
    factors = [cho_factor(matrix, lower=True, check_finite=False) for matrix in scaled]
    inverse = np.stack([cho_solve(factor, eye, check_finite=False) for factor in factors])
    solution = scale * (inverse @ (scale * moment)[..., None])[..., 0]
    return solution, np.diagonal(inverse, axis1=1, axis2=2) * scale**2


def _mixture(bank: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """Mean (N, d) of the levels of a bank (L, N, d) with weights from logits (N, d, L)."""
    logits = logits.astype(float)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return (bank.transpose(1, 2, 0) * weights).sum(axis=-1)


def _units(raw: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Root mean square (d,), standard deviation (d,) in units of it, and the unit of time."""
    scale = np.sqrt(np.mean(raw**2, axis=0))
    scale = np.where(scale > 0, scale, 1.0)
    unit = raw / scale
    deviation = np.sqrt(np.mean((unit - unit.mean(axis=0)) ** 2, axis=0))
    speed = np.mean((slopes[3] / scale) ** 2, axis=0)
    moving = deviation > 1e-9
    ratio = np.where(moving, speed / np.maximum(deviation, 1e-9) ** 2, 0.0)
    rate = np.sqrt(ratio.sum() / max(moving.sum(), 1))
    return scale, deviation, float(1.0 / max(rate, 1e-30) if rate > 0 else 1.0)


def _features(
    time: np.ndarray,
    counts: Sequence[int],
    raw: np.ndarray,
    states: np.ndarray,
    slopes: np.ndarray,
    deviation: np.ndarray,
) -> np.ndarray:
    """Features (d, F) of each coordinate; see `AmortisedNetwork`, which has the reasons for the floors."""
    residual = (raw - states[:-1]) ** 2
    spread = np.maximum(deviation, 1e-6)
    by_level = np.concatenate(
        [
            0.5 * np.log(residual.mean(axis=1) / spread**2 + 1e-14),
            0.5 * np.log((residual / (raw**2 + 1e-2)).mean(axis=1) + 1e-14),
            0.5 * np.log((slopes**2).mean(axis=1) / spread**2 + 1e-14),
        ]
    )
    gaps = np.concatenate([np.diff(part) for part in np.split(time, np.cumsum(counts)[:-1])])
    shared = np.log([gaps.sum() / len(counts), len(raw), len(counts), np.mean(gaps**2) / np.mean(gaps) ** 2])
    shared[1] -= 5.0
    features = [np.abs(raw.mean(axis=0)), deviation, np.log(spread), np.abs(raw).max(axis=0)]
    return np.column_stack([0.3 * by_level.T, *features, np.tile(shared, (raw.shape[1], 1))])


def _local_features(
    counts: Sequence[int], raw: np.ndarray, states: np.ndarray, slopes: np.ndarray
) -> np.ndarray:
    """Features (N, d, F): how much neighbouring bandwidths disagree, size and distance to an end."""
    noise = np.sqrt(np.mean((raw - states[2]) ** 2, axis=0)) + 1e-6
    speed = np.sqrt(np.mean(slopes[2] ** 2, axis=0)) + 1e-6
    apart = np.abs(states[:-2] - states[1:-1]) / noise
    slopes_apart = np.abs(slopes[:-2] - slopes[1:-1]) / speed
    by_level = np.log(np.concatenate([apart, slopes_apart]) + 1e-2).transpose(1, 2, 0)
    to_end = np.concatenate([np.minimum(np.arange(n), n - 1 - np.arange(n)) for n in counts])
    to_end = np.broadcast_to(np.log1p(to_end.astype(float))[:, None], raw.shape)
    size = np.log(np.abs(states[2]) + 3e-2)
    return 0.3 * np.concatenate([by_level, size[..., None], to_end[..., None]], axis=-1)


def _term_features(exponents: np.ndarray, power: np.ndarray) -> np.ndarray:
    """Features (d, m, 5) of each term as seen from each coordinate: its exponents and its size."""
    m, d = exponents.shape
    others = np.where(np.eye(d, dtype=bool)[:, None], np.float32(0.0), exponents)
    seen = [
        exponents.T,
        np.broadcast_to(exponents.sum(axis=1), (d, m)),
        others.max(axis=-1),
        (others > 0).sum(axis=-1),
        np.broadcast_to(np.log(power), (d, m)),
    ]
    return np.stack(seen, axis=-1).astype(np.float32)
