"""A residual beside a field, fitted to observations by multiple shooting."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.residual import RadialBasis, ResidualField
from fim_dynsys.regression.observed import Observations, observe
from fim_dynsys.regression.refinement import TrajectoryFit, fit_trajectory

_WINDOW = 12.0  # units of time, about two turns: an error of the start is still small at the end
_MOST_SAMPLES = 2000  # in the windows used: the cost of a fit grows with them
_MOST_CENTRES = 60  # of basis functions: a fit's time grows with the square
_SPACING = 0.8  # of a width, between centres: nearer ones add nothing but rounding
_JITTER = 1e-6  # on the diagonal of the Gram matrix
_STEP = 0.25  # longest Runge-Kutta step in units of time
_ITERATIONS = 20  # of each fit
_SMALLEST_RELATIVE_VARIANCE = 0.1  # the model of the noise is an estimate; no sample outweighs ten
_AMPLITUDE, _AMPLITUDES = 0.1, (1e-3, 2.0)  # first and bounds, in standard deviations by unit of time
_AMPLITUDE_ROUNDS = 4  # of the amplitudes: they settle to a few per cent, which the loss does not see
_STILL = 1e-9  # standard deviation below which a state is constant


@dataclass(frozen=True, eq=False)
class Windows:
    """Stretches of the observations, in standard deviations of the smoothed states and units of their pace.

    Attributes
    ----------
    samples : list of (t (n,), u (n, d))
    weights : list of arrays (n, d)
        Inverse variances of the noise.
    paths : list of arrays (n, d)
        Smoothed states.
    place : list of (int, slice)
        Piece of the observations, and the samples of it.
    unit : array (d,)
        What 1 is, in the units of the data.
    time_unit : float
        Likewise.
    observations : Observations
    """

    samples: list[tuple[np.ndarray, np.ndarray]]
    weights: list[np.ndarray]
    paths: list[np.ndarray]
    place: list[tuple[int, slice]]
    unit: np.ndarray
    time_unit: float
    observations: Observations

    @classmethod
    def of(cls, samples: Sequence[tuple[np.ndarray, np.ndarray]], whole: bool) -> Self:
        """Windows of complete samples; whole pieces where `whole`."""
        seen = observe(samples)
        spread = np.concatenate(seen.path).std(axis=0)
        spread = np.where(spread > _STILL, spread, 1.0)
        place: list[tuple[int, slice]] = []
        for k, (t, _) in enumerate(seen.samples):
            count = 1 if whole else max(1, min(int(np.ceil(t[-1] / _WINDOW)), len(t) // 4))
            bounds = np.round(np.linspace(0, len(t), count + 1)).astype(int).tolist()
            place += [(k, slice(a, b)) for a, b in pairwise(bounds)]
        if not whole:
            place = place[:: -(-seen.n // _MOST_SAMPLES)]
        variance = seen.noise_variance
        found: list[tuple] = []
        for k, part in place:
            (t, z), path = seen.samples[k], seen.path[k][part]
            relative = np.maximum(seen.noise.relative_variance(path), _SMALLEST_RELATIVE_VARIANCE)
            found.append(
                ((t[part] - t[part][0], z[part] / spread), spread**2 / (variance * relative), path / spread)
            )
        parts, weights, paths = map(list, zip(*found, strict=True))
        return cls(parts, weights, paths, place, seen.scale * spread, seen.time_unit, seen)

    @property
    def dim(self) -> int:
        """Number of states."""
        return len(self.unit)

    @property
    def lengths(self) -> list[int]:
        """Samples of each window."""
        return [len(t) for t, _ in self.samples]

    def without(self, masks: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Pieces (t, x) in the units of the data, less the samples of the windows where a mask is True."""
        kept = [np.ones(len(t), dtype=bool) for t, _ in self.observations.samples]
        for (k, part), mask in zip(self.place, masks, strict=True):
            kept[k][part] = ~mask
        scale, pace = self.observations.scale, self.time_unit
        pieces = zip(self.observations.samples, kept, strict=True)
        return [(t[rows] * pace, z[rows] * scale) for (t, z), rows in pieces]

    def basis(self, width: float) -> RadialBasis:
        """Gaussians of that width, in standard deviations, along the smoothed paths."""
        points = np.concatenate(self.paths)
        return RadialBasis(_spread_out(points, _SPACING * width), np.full(self.dim, width))

    def shoot(
        self,
        base: VectorField,
        basis: RadialBasis | None = None,
        precision: np.ndarray | None = None,
        held_out: Sequence[np.ndarray] | None = None,
        paths: Sequence[np.ndarray] | None = None,
    ) -> TrajectoryFit:
        """Fit the starts, and the coefficients (m, d) of a basis beside the base, to what is not held out.

        Parameters
        ----------
        base : VectorField
            The mean, in the units of the data.
        basis : RadialBasis, optional
            None: the starts alone.
        precision : array (m d, m d), optional
            Of the coefficients about zero; needed with a basis.
        held_out : list of bool arrays (n,), optional
            Samples that do not count.
        paths : list of arrays (n, d), optional
            States to start from; default the smoothed ones.
        """
        unit, pace, d = self.unit, self.time_unit, self.dim
        m = 0 if basis is None else len(basis)

        def rates(u: np.ndarray, p: np.ndarray) -> np.ndarray:
            f = base(u * unit) / unit * pace
            return f if basis is None else f + basis.values(u) @ p.reshape(m, d)

        def by_state(u: np.ndarray, p: np.ndarray) -> np.ndarray:
            jacobian = base.jacobian(u * unit) * unit / unit[:, None] * pace
            if basis is None:
                return jacobian
            return jacobian + np.einsum("nmj,mi->nij", basis.gradients(u), p.reshape(m, d))

        def by_coefficients(u: np.ndarray, p: np.ndarray) -> np.ndarray:
            out = np.zeros((len(u), d, m, d))
            if basis is not None:
                out[:, range(d), :, range(d)] = basis.values(u)
            return out.reshape(len(u), d, m * d)

        weights = self.weights
        if held_out is not None:
            weights = [np.where(mask[:, None], 0.0, w) for mask, w in zip(held_out, weights, strict=True)]
        paths = self.paths if paths is None else paths
        return fit_trajectory(
            rates,
            by_state,
            by_coefficients,
            np.zeros(m * d),
            np.stack([path[0] for path in paths]),
            self.samples,
            weights,
            (4, 1) if paths is self.paths else (1,),
            precision,
            paths=paths,
            max_step=_STEP,
            max_iterations=_ITERATIONS,
            check=False,
        )

    def squares(self, fit: TrajectoryFit) -> list[np.ndarray]:
        """Squared distances (n,) of the fitted paths to the samples, the mean over states, in variances."""
        with np.errstate(over="ignore", invalid="ignore"):
            return [
                np.mean(w * (path - u) ** 2, axis=1)
                for w, path, (_, u) in zip(self.weights, fit.paths, self.samples, strict=True)
            ]

    def residual_field(
        self, base: VectorField, basis: RadialBasis, coefficients: np.ndarray
    ) -> ResidualField:
        """The base with the fitted residual, in the units of the data."""
        scaled = RadialBasis(basis.centres * self.unit, basis.widths * self.unit)
        amounts = coefficients.reshape(len(basis), self.dim) * self.unit / self.time_unit
        return ResidualField(base, scaled, amounts, frame=base.frame, fit_info=base.fit_info)


class Prior(NamedTuple):
    """Gaussian process of the residual: independent for each state, covariance by the basis' width.

    Attributes
    ----------
    gram : array (m, m)
        Of the basis at its centres.
    amplitudes : array (d,)
        Standard deviation of each component of the residual.
    """

    gram: np.ndarray
    amplitudes: np.ndarray

    @classmethod
    def of(cls, basis: RadialBasis) -> Self:
        gram = basis.values(basis.centres) + _JITTER * np.eye(len(basis))
        return cls(gram, np.full(len(basis.widths), _AMPLITUDE))

    @property
    def precision(self) -> np.ndarray:
        """Of the coefficients (m, d), flattened."""
        return np.kron(self.gram, np.diag(self.amplitudes**-2.0))

    def updated(self, fit: TrajectoryFit) -> "Prior":
        """With the amplitudes under which the fitted coefficients are as large as expected."""
        d = len(self.amplitudes)
        coefficients = fit.parameters.reshape(-1, d)
        covariance = np.linalg.inv(fit.information)
        found = []
        for i, amplitude in enumerate(self.amplitudes):
            free = len(self.gram) - np.sum(self.gram * covariance[i::d, i::d].T) / amplitude**2
            size = coefficients[:, i] @ self.gram @ coefficients[:, i]
            found.append(np.sqrt(size / max(free, 1e-9)))
        return Prior(self.gram, np.clip(found, *_AMPLITUDES))


def fit_residual(windows: Windows, base: VectorField, basis: RadialBasis) -> tuple[TrajectoryFit, Prior, int]:
    """Fit a residual and the amplitudes of its prior to all samples; also the iterations this took.

    References
    ----------
    D. J. C. MacKay, Bayesian interpolation, Neural Computation 4 (1992) 415, section 4 (the amplitudes).
    """
    prior, iterations = Prior.of(basis), 0
    paths: list[np.ndarray] | None = None
    for last in range(_AMPLITUDE_ROUNDS):
        fit = windows.shoot(base, basis, prior.precision, paths=paths)
        iterations += fit.iterations
        if last == _AMPLITUDE_ROUNDS - 1 or not np.isfinite(fit.misfit):
            break
        prior, paths = prior.updated(fit), fit.paths
    return fit, prior, iterations


def _spread_out(points: np.ndarray, spacing: float) -> np.ndarray:
    """Points (m, d) out of many, each farthest from those before it, until all are within the spacing."""
    chosen = [int(np.argmin(np.sum((points - points.mean(axis=0)) ** 2, axis=1)))]
    away = np.sum((points - points[chosen[0]]) ** 2, axis=1)
    while len(chosen) < _MOST_CENTRES and away.max() > spacing**2:
        chosen.append(int(np.argmax(away)))
        away = np.minimum(away, np.sum((points - points[chosen[-1]]) ** 2, axis=1))
    return points[chosen]
