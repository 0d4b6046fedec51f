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
from fim_dynsys.regression.observed import STEP_LIMIT, Observations
from fim_dynsys.regression.rollout import substeps

Likelihood = Callable[[np.ndarray], float]
"""``theta (q,) -> float``, a logarithm."""

_ARRAY, _TABLE = types.float64[::1], types.float64[:, ::1]
_RIGHT_HAND_SIDE = types.void(_ARRAY, _ARRAY, _ARRAY)
_FLOOR = -1e10  # of a solve that fails: finite, as nested sampling needs, and below all that succeed
_BOUND = 1e3  # in units of the states' root mean squares
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(32)
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
    steps of at most `STEP_LIMIT`. A solution that is not finite, or leaves a thousand times the data's size,
    gets -1e10 to -2e10, the lower the earlier it fails.

    Parameters
    ----------
    expressions : sequence of str
        Right-hand sides in x0, x1, ... and the parameters.
    names : sequence of str
        Parameters, the first arguments; initial states of all pieces follow.
    observations : Observations
        Data.
    noise : NoiseLevel
        In the units of the data.
    """

    def __init__(
        self, expressions: Sequence[str], names: Sequence[str], observations: Observations, noise: NoiseLevel
    ):
        self.expressions, self.names, self.noise = tuple(expressions), tuple(names), noise
        scale, unit = observations.scale, observations.time_unit
        self._bound = float(_BOUND * scale.max())
        self.dim, self.n = len(scale), observations.n
        self._ends = np.cumsum([0, *(len(t) for t, _ in observations.samples)])
        counts = [substeps(t, STEP_LIMIT) for t, _ in observations.samples]
        steps = [
            np.diff(t) * unit / count for (t, _), count in zip(observations.samples, counts, strict=True)
        ]
        # of the interval before each sample; there is none before the first of a piece
        self._counts = np.concatenate([np.append(0, count) for count in counts]).astype(np.int64)
        self._steps = np.concatenate([np.append(0.0, step) for step in steps])
        self._values = np.concatenate([z for _, z in observations.samples]) * scale
        self._weights = np.concatenate(observations.weights_over(1.0))
        self._log_weights = 0.5 * float(np.sum(np.log(self._weights)))

    def __call__(self, theta: ArrayLike) -> float:
        theta = np.asarray(theta, dtype=np.float64)
        q = len(self.names)
        squares = np.zeros(self.dim)
        reached = _solve(
            _right_hand_side(self.expressions, self.names, self.dim),
            theta[:q].copy(),
            theta[q:].reshape(-1, self.dim).copy(),
            self._ends,
            self._steps,
            self._counts,
            self._values,
            self._weights,
            self._bound,
            squares,
        )
        if reached < self.n:
            # no two failures alike: nested sampling orders points by their values
            return _FLOOR * (2.0 - reached / self.n) - float(np.sum(np.abs(np.arctan(theta))))
        return max(self.noise.log_likelihood(squares, self.n) + self._log_weights, _FLOOR)


@lru_cache(maxsize=64)
def _right_hand_side(expressions: tuple[str, ...], names: tuple[str, ...], dim: int) -> Callable:
    """The right-hand sides compiled, with an address: ``(x (d,), p (q,), out (d,))``."""
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

    @numba.cfunc(_RIGHT_HAND_SIDE, error_model="numpy")
    def right_hand_side(x: np.ndarray, p: np.ndarray, out: np.ndarray) -> None:
        slopes = values(x, p)
        for i in range(len(out)):
            out[i] = slopes[i]

    return right_hand_side


@compiled_as(
    types.int64(
        types.FunctionType(_RIGHT_HAND_SIDE),
        _ARRAY,
        _TABLE,
        types.int64[::1],
        _ARRAY,
        types.int64[::1],
        _TABLE,
        _TABLE,
        types.float64,
        _ARRAY,
    )
)
def _solve(
    rhs: Callable,
    p: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    steps: np.ndarray,
    counts: np.ndarray,
    values: np.ndarray,
    weights: np.ndarray,
    bound: float,
    squares: np.ndarray,
) -> int:
    """Classical Runge-Kutta paths of all pieces from their starts (P, d).

    Adds the weighted squares of the residuals to ``squares`` (d,) and returns the number of samples reached.
    """
    d = starts.shape[1]
    x, z, k, total = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    reached = 0
    for piece in range(len(starts)):
        x[:] = starts[piece]
        for j in range(ends[piece], ends[piece + 1]):
            h = steps[j]
            for _ in range(counts[j]):
                for i in range(d):
                    z[i], total[i] = x[i], 0.0
                for stage in range(4):
                    rhs(z, p, k)
                    weight = 1.0 if stage == 0 or stage == 3 else 2.0
                    reach = h if stage == 2 else 0.5 * h
                    for i in range(d):
                        total[i] += weight * k[i]
                        z[i] = x[i] + reach * k[i]
                for i in range(d):
                    x[i] += h / 6.0 * total[i]
            inside = True
            for i in range(d):
                inside = inside and abs(x[i]) <= bound
                squares[i] += weights[j, i] * (values[j, i] - x[i]) ** 2
            if not inside:
                break
            reached += 1
    return reached
