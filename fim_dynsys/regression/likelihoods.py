"""Likelihood of the parameters and initial states of right-hand sides, given observed trajectories."""

from dataclasses import dataclass
from functools import lru_cache

import numba
import numpy as np
from numba import types

from fim_dynsys.regression.candidates import STEP_LIMIT
from fim_dynsys.regression.expressions import parse
from fim_dynsys.regression.rollout import substeps

_ARRAY = types.float64[::1]
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

    def log_likelihood(self, squares, n):
        """Of ``n`` residuals with weighted squared sums (d,), up to their weights."""
        total = -0.5 * n * len(squares) * np.log(2.0 * np.pi)
        for s, low, high in zip(squares, self.low, self.high, strict=True):
            if low == high:
                total += -n * np.log(low) - 0.5 * s / low**2
            else:
                total += _log_integral(s, n, low, high) - np.log(np.log(high / low))
        return float(total)


def _log_integral(s, n, low, high):
    """Logarithm of the integral of ``sigma^-n exp(-s / 2 sigma^2)`` over the logarithm of sigma.

    Gauss-Legendre nodes over the part of the interval that carries the mass: about the mode, or next to the
    end that is nearest to it.
    """
    mode = np.clip(0.5 * np.log(max(s, 1e-300) / n), np.log(low), np.log(high))
    # slope and curvature of the exponent at the mode set the width
    pull = abs(s * np.exp(-2.0 * mode) - n)
    width = min(_TAIL / np.sqrt(2.0 * n), _TAIL**2 / max(pull, 1e-300))
    a, b = max(np.log(low), mode - width), min(np.log(high), mode + width)
    nodes = 0.5 * (a + b) + 0.5 * (b - a) * _NODES
    exponents = -n * nodes - 0.5 * s * np.exp(-2.0 * nodes)
    top = exponents.max()
    return top + np.log(0.5 * (b - a) * np.sum(_NODE_WEIGHTS * np.exp(exponents - top)))


class TrajectoryLikelihood:
    """Log-likelihood of parameters and initial states, an object that pickles.

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

    def __init__(self, expressions, names, observations, noise):
        self.expressions, self.names, self.noise = tuple(expressions), tuple(names), noise
        scale, unit = observations.scale, observations.time_unit
        self._bound = float(_BOUND * scale.max())
        self._times, self._values, self._weights = [], [], []
        for k, (t, z) in enumerate(observations.samples):
            counts = substeps(t, STEP_LIMIT)
            self._times.append((np.diff(t) * unit / counts, counts))
            self._values.append(z * scale)
            self._weights.append(observations.weights[k][: len(t)])
        self.n = sum(len(z) for z in self._values)
        self.dim = len(scale)
        self._log_weights = 0.5 * sum(float(np.sum(np.log(w))) for w in self._weights)

    def paths(self, theta):
        """Solutions at the observation times, a list of (n, d), and the share of samples that they reach."""
        q = len(self.names)
        parameters = np.array(theta[:q], dtype=np.float64)
        starts = np.array(theta[q:], dtype=np.float64).reshape(len(self._values), self.dim)
        rhs = _right_hand_side(self.expressions, self.names, self.dim)
        paths, reached = [], 0
        for start, (steps, counts), z in zip(starts, self._times, self._values, strict=True):
            path = np.full(z.shape, np.nan)
            reached += _solve(rhs, parameters, start, steps, counts, self._bound, path)
            paths.append(path)
        return paths, reached / self.n

    def __call__(self, theta):
        paths, reached = self.paths(theta)
        if reached < 1.0:
            # no two failures alike: nested sampling orders points by their values
            return _FLOOR * (2.0 - reached) - float(np.sum(np.abs(np.arctan(theta))))
        squares = np.zeros(self.dim)
        for path, z, w in zip(paths, self._values, self._weights, strict=True):
            squares += np.sum(w * (z - path) ** 2, axis=0)
        return max(self.noise.log_likelihood(squares, self.n) + self._log_weights, _FLOOR)


@lru_cache(maxsize=64)
def _right_hand_side(expressions, names, dim):
    """The right-hand sides compiled: ``(x (d,), p (q,), out (d,))``."""
    import sympy

    # arguments that print as elements of the arrays x and p
    places = {f"x{i}": sympy.Symbol(f"x[{i}]") for i in range(dim)}
    places |= {name: sympy.Symbol(f"p[{k}]") for k, name in enumerate(names)}
    read = [parse(text, places) for text in expressions]
    read = tuple(sympy.Float(e) if e.is_number else e for e in read)
    function = sympy.lambdify(
        [sympy.Symbol("x"), sympy.Symbol("p")], sympy.Tuple(*read), modules="math", cse=True
    )
    values = numba.njit(function, error_model="numpy")

    @numba.njit(_RIGHT_HAND_SIDE, error_model="numpy")
    def right_hand_side(x, p, out):
        slopes = values(x, p)
        for i in range(len(out)):
            out[i] = slopes[i]

    return right_hand_side


@numba.njit(
    types.int64(
        types.FunctionType(_RIGHT_HAND_SIDE),
        _ARRAY,
        _ARRAY,
        _ARRAY,
        types.int64[::1],
        types.float64,
        types.float64[:, ::1],
    ),
    error_model="numpy",
    cache=True,
)
def _solve(rhs, p, start, steps, counts, bound, path):
    """Classical Runge-Kutta path (n, d) from a start; returns the number of samples reached."""
    d = len(start)
    x, z, k, total = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    for i in range(d):
        x[i] = path[0, i] = start[i]
    for j in range(len(steps)):
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
        for i in range(d):
            if not abs(x[i]) <= bound:
                return j + 1
            path[j + 1, i] = x[i]
    return len(steps) + 1
