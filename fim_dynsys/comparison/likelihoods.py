"""Likelihood of the parameters and initial states of right-hand sides, given observed trajectories."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numba
import numpy as np
from numba import types
from numpy.typing import ArrayLike

from fim_dynsys.fields.expressions import parse
from fim_dynsys.regression.kernels.compiler import compiled_as
from fim_dynsys.regression.observed import Observations
from fim_dynsys.regression.rollout import substeps

Likelihood = Callable[[np.ndarray], float]
"""``theta (q,) -> float``, a logarithm."""

# One, two and three axes.
_ARRAY, _TABLE, _CURVES = types.float64[::1], types.float64[:, ::1], types.float64[:, :, ::1]
_EXPRESSIONS = types.void(_ARRAY, _ARRAY, _ARRAY)
_FLOOR = -1e10  # of a solve that fails: finite, as nested sampling needs, and below all that succeed
_BOUND = 1e3  # in units of the states' root mean squares
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(32)  # exact for polynomials of degree 63
_TAIL = 8.0  # standard deviations of the noise's logarithm that are integrated over


@dataclass(frozen=True)
class NoiseLevel:
    """Standard deviation of each state's noise: known, or log-uniform between two ends and integrated out.

    Attributes
    ----------
    low, high : arrays (d,)
        Ends; equal where the level is known.
    """

    low: np.ndarray
    high: np.ndarray

    def weights(self, observations: Observations) -> list[np.ndarray]:
        """Weights (n, d) of the samples of each piece: 1 of states whose level is known.

        Elsewhere those that the data suggest, as of errors that grow with the states.
        """
        known = self.low == self.high
        return [np.where(known, 1.0, weights) for weights in observations.weights_over(1.0)]

    def log_likelihood(self, squares: np.ndarray, n: int) -> float:
        """Of ``n`` residuals with weighted squared sums (d,), up to their weights."""
        total = -0.5 * n * len(squares) * np.log(2.0 * np.pi)
        for s, low, high in zip(squares, self.low, self.high, strict=True):
            if low == high:
                total += -n * np.log(low) - 0.5 * s / low**2
            else:
                total += _log_integral(s, n, low, high) - np.log(np.log(high / low))
        return float(total)


@compiled_as(types.float64(types.float64, types.int64, types.float64, types.float64))
def _log_integral(s: float, n: int, low: float, high: float) -> float:
    """Logarithm of the integral of ``sigma^-n exp(-s / 2 sigma^2)`` over the logarithm of sigma.

    Gauss-Legendre nodes over the part of the interval that carries the mass: about the mode, or next to the
    end that is nearest to it.
    """
    first, last = np.log(low), np.log(high)
    mode = min(max(0.5 * np.log(max(s, 1e-300) / n), first), last)
    # slope and curvature of the exponent at the mode set the width
    pull = abs(s * np.exp(-2.0 * mode) - n)
    width = min(_TAIL / np.sqrt(2.0 * n), _TAIL**2 / max(pull, 1e-300))
    a, b = max(first, mode - width), min(last, mode + width)
    nodes = 0.5 * (a + b) + 0.5 * (b - a) * _NODES
    exponents = -n * nodes - 0.5 * s * np.exp(-2.0 * nodes)
    top = exponents.max()
    return top + np.log(0.5 * (b - a) * np.sum(_NODE_WEIGHTS * np.exp(exponents - top)))


class TrajectoryLikelihood:
    """Log-likelihood of parameters and initial states, an object that pickles.

    Called with ``theta (q + P d,)``, parameters and then the first states of all P pieces, in the units of
    the data; returns a finite float. Right-hand sides are integrated by the classical Runge-Kutta method in
    steps of at most `STEP_LIMIT`. A solution that is not finite, or leaves a thousand times the states' size,
    gets -1e10 to -2e10, the lower the earlier it fails.

    Parameters
    ----------
    expressions : sequence of str
        Right-hand sides in x0, x1, ... (inputs behind the d states) and the parameters.
    names : sequence of str
        Parameters, the first arguments; initial states of all pieces follow.
    observations : Observations
        Data.
    noise : NoiseLevel
        Of the observations, in the units of the data.
    seen : sequence of str, optional
        What was observed, in the same symbols; default the states.
    size : float, optional
        Of the states; default that of the observations.
    """

    def __init__(
        self,
        expressions: Sequence[str],
        names: Sequence[str],
        observations: Observations,
        noise: NoiseLevel,
        seen: Sequence[str] | None = None,
        size: float | None = None,
    ):
        self.expressions, self.names, self.noise = tuple(expressions), tuple(names), noise
        self.dim, self.n = len(expressions), observations.n
        self.seen = tuple(f"x{i}" for i in range(self.dim)) if seen is None else tuple(seen)
        scale, unit = observations.scale, observations.time_unit
        self._bound = float(_BOUND * (scale.max() if size is None else size))
        self._ends = np.cumsum([0, *(len(t) for t, _ in observations.samples)])
        pairs = zip(observations.samples, observations.limits, strict=True)
        counts = [substeps(t, limits) for (t, _), limits in pairs]
        steps = [
            np.diff(t) * unit / count for (t, _), count in zip(observations.samples, counts, strict=True)
        ]
        # of the interval before each sample; there is none before the first of a piece
        self._counts = np.concatenate([np.append(0, count) for count in counts]).astype(np.int64)
        self._steps = np.concatenate([np.append(0.0, step) for step in steps])
        self._values = np.concatenate([z for _, z in observations.samples]) * scale
        self._weights = np.concatenate(noise.weights(observations))
        self._log_weights = 0.5 * float(np.sum(np.log(self._weights)))
        self._inputs = np.concatenate(observations.inputs) * observations.input_scale
        self._curves = np.ascontiguousarray(observations.interval_curves * observations.input_scale)

    def __call__(self, theta: ArrayLike) -> float:
        theta = np.asarray(theta, dtype=np.float64)
        q, total = len(self.names), self.dim + self._inputs.shape[1]
        squares = np.zeros(len(self.seen))
        reached = _solve(
            _compiled(self.expressions, self.names, total),
            _compiled(self.seen, self.names, total),
            theta[:q].copy(),
            theta[q:].reshape(-1, self.dim).copy(),
            self._ends,
            self._steps,
            self._counts,
            self._values,
            self._weights,
            self._inputs,
            self._curves,
            self._bound,
            squares,
        )
        if reached < self.n:
            # no two failures alike: nested sampling orders points by their values
            return _FLOOR * (2.0 - reached / self.n) - float(np.sum(np.abs(np.arctan(theta))))
        return max(self.noise.log_likelihood(squares, self.n) + self._log_weights, _FLOOR)


@lru_cache(maxsize=64)
def _compiled(expressions: tuple[str, ...], names: tuple[str, ...], dim: int) -> Callable:
    """Expressions in x0, x1, ... and names compiled, with an address: ``(x (dim,), p (q,), out (k,))``."""
    import sympy

    # arguments that print as elements of the arrays x and p
    places = {f"x{i}": sympy.Symbol(f"x[{i}]") for i in range(dim)}
    places |= {name: sympy.Symbol(f"p[{k}]") for k, name in enumerate(names)}
    parsed = (parse(text, places) for text in expressions)
    read = tuple(sympy.Float(e) if e.is_number else e for e in parsed)
    function = sympy.lambdify(
        [sympy.Symbol("x"), sympy.Symbol("p")], sympy.Tuple(*read), modules="math", cse=True
    )
    values = numba.njit(function, error_model="numpy")

    @numba.cfunc(_EXPRESSIONS, error_model="numpy")
    def evaluated(x: np.ndarray, p: np.ndarray, out: np.ndarray) -> None:
        found = values(x, p)
        for i in range(len(out)):
            out[i] = found[i]

    return evaluated


@compiled_as(
    types.int64(
        types.FunctionType(_EXPRESSIONS),
        types.FunctionType(_EXPRESSIONS),
        _ARRAY,
        _TABLE,
        types.int64[::1],
        _ARRAY,
        types.int64[::1],
        _TABLE,
        _TABLE,
        _TABLE,
        _CURVES,
        types.float64,
        _ARRAY,
    )
)
def _solve(
    rhs: Callable,
    see: Callable,
    p: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    steps: np.ndarray,
    counts: np.ndarray,
    values: np.ndarray,
    weights: np.ndarray,
    inputs: np.ndarray,
    curves: np.ndarray,
    bound: float,
    squares: np.ndarray,
) -> int:
    """Classical Runge-Kutta paths of all pieces from their starts (P, d), along inputs (N, m).

    Adds the weighted squares of the residuals of what is seen of them to ``squares`` (k,) and returns the
    number of samples reached.
    """
    d, m = starts.shape[1], inputs.shape[1]
    x, z, k, total = np.empty(d + m), np.empty(d + m), np.empty(d), np.empty(d)
    seen = np.empty(len(squares))
    reached = 0
    for piece in range(len(starts)):
        x[:d] = starts[piece]
        for j in range(ends[piece], ends[piece + 1]):
            h = steps[j]
            for part in range(counts[j]):
                for i in range(d):
                    z[i], total[i] = x[i], 0.0
                for stage in range(4):
                    gone = (part + 0.5 * ((stage + 1) // 2)) / counts[j]
                    for i in range(m):
                        c = curves[j - 1, :, i]
                        z[d + i] = c[0] + gone * (c[1] + gone * (c[2] + gone * c[3]))
                    rhs(z, p, k)
                    weight = 1.0 if stage == 0 or stage == 3 else 2.0
                    reach = h if stage == 2 else 0.5 * h
                    for i in range(d):
                        total[i] += weight * k[i]
                        z[i] = x[i] + reach * k[i]
                for i in range(d):
                    x[i] += h / 6.0 * total[i]
            for i in range(m):
                x[d + i] = inputs[j, i]
            see(x, p, seen)
            inside = True
            for i in range(d):
                inside = inside and abs(x[i]) <= bound
            for i in range(len(seen)):
                inside = inside and np.isfinite(seen[i])
                squares[i] += weights[j, i] * (values[j, i] - seen[i]) ** 2
            if not inside:
                break
            reached += 1
    return reached
