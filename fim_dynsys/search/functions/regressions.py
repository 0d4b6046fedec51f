"""Trajectories as linear regressions on forcings: integrated along a path, or linearised about one."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.inputs import at, divided
from fim_dynsys.regression.kernels.integrals import integrals, without_starts
from fim_dynsys.regression.kernels.responses import responses
from fim_dynsys.regression.observed import STEP_LIMIT, Observations
from fim_dynsys.regression.rollout import rollout, substeps
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.pruning import compiled_maps

_LARGEST = 1e8  # terms that grow beyond this on the path (poles) cannot be distinguished from rounding
_SHORTEST = 8  # samples of a segment with a free start


@dataclass(frozen=True)
class Piece:
    """The path of one piece at the ends and middles of its steps, and where its samples are."""

    path: np.ndarray  # (2 F + 1, d)
    steps: np.ndarray  # (F,)
    observed: np.ndarray  # (n,) among the ends of steps
    curves: np.ndarray  # (2 F, 4, m) inputs over each half of a step

    @cached_property
    def extended(self) -> np.ndarray:
        """The path with the inputs (d + m, 2 F + 1)."""
        path = self.path
        if self.curves.shape[2]:
            inputs = np.concatenate([self.curves[:, 0], at(self.curves[-1:], 1.0)])
            path = np.concatenate([path, inputs], axis=1)
        return np.ascontiguousarray(path.T)


def _grid(
    t: np.ndarray, curves: np.ndarray, limits: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Steps, times of their ends and middles, which ends are samples, and inputs between these times."""
    counts = substeps(t, limits)
    steps = np.repeat(np.diff(t) / counts, counts)
    times = np.concatenate([[0.0], np.cumsum(np.repeat(0.5 * steps, 2))])
    return steps, times, np.concatenate([[0], np.cumsum(counts)]), divided(curves, 2 * counts)


def follow(observations: Observations, candidate: Candidate) -> list[Piece] | None:
    """Paths of a candidate over all pieces, for `Integrals` and `Surrogate`.

    Parameters
    ----------
    observations : Observations
        Data.
    candidate : Candidate
        Terms, coefficients and starts.

    Returns
    -------
    list or None
        None where the candidate diverges.
    """
    used, pieces = _in_use(candidate), []
    seen = observations
    pairs = zip(seen.samples, seen.curves, seen.limits, candidate.start, strict=True)
    for (t, _), inputs, limits, start in pairs:
        steps, times, observed, curves = _grid(t, inputs, limits)
        field, begun = used.coefficients[None], start[None, None]
        path = rollout(used.dictionary, field, begun, times[None], STEP_LIMIT, inputs=curves[None])[0, 0]
        if not np.isfinite(path).all():
            return None
        pieces.append(Piece(path, steps, observed, curves))
    return pieces


def bent(observations: Observations, candidate: Candidate) -> list[Piece] | None:
    """Paths of a candidate from each sample to the next, bent so that they meet it, for `Integrals`.

    Of samples that are hardly noisy they are nearer the truth than a smoothed path where an input jumps, and
    than a path of a candidate that is only nearly right.

    Parameters
    ----------
    observations : Observations
        Data.
    candidate : Candidate
        Terms and coefficients.

    Returns
    -------
    list or None
        None where the candidate diverges.
    """
    used, pieces = _in_use(candidate), []
    field = used.coefficients[None]
    for (t, z), inputs, limits in zip(
        observations.samples, observations.curves, observations.limits, strict=True
    ):
        steps, times, observed, curves = _grid(t, inputs, limits)
        path = np.empty((len(times), z.shape[1]))
        for k, (a, b) in enumerate(itertools.pairwise((2 * observed).tolist())):
            begun, within = z[k][None, None], times[None, a : b + 1]
            part = rollout(used.dictionary, field, begun, within, STEP_LIMIT, inputs=curves[None, a:b])[0, 0]
            path[a:b] = (part + (z[k + 1] - part[-1]) * np.linspace(0.0, 1.0, b - a + 1)[:, None])[:-1]
        path[-1] = z[-1]
        if not np.isfinite(path).all():
            return None
        pieces.append(Piece(path, steps, observed, curves))
    return pieces


def smooth(observations: Observations) -> list[Piece]:
    """Paths of the smoothed observations over all pieces, for `Integrals`."""
    from scipy.interpolate import CubicHermiteSpline  # deferred: models of noise-free data are sought without

    pieces = []
    for (t, _), inputs, limits, (states, slopes) in zip(
        observations.samples, observations.curves, observations.limits, observations.splines, strict=True
    ):
        steps, times, observed, curves = _grid(t, inputs, limits)
        path = CubicHermiteSpline(t, states, slopes)(t[0] + times)
        pieces.append(Piece(path, steps, observed, curves))
    return pieces


def _in_use(candidate: Candidate) -> Candidate:
    """The terms in use alone, all numbers inside them and all knowledge given."""
    return replace(candidate, restriction=None).in_use(())


def _forcings(functions: Dictionary, monomials: Dictionary, pieces: list[Piece]) -> list[np.ndarray]:
    """Products of functions and monomials on the paths (2 F + 1, q p); 0 where there is a pole."""
    with np.errstate(all="ignore"):
        values = []
        for piece in pieces:
            x = piece.extended
            products = functions.columns(x)
            if len(monomials) > 1 or monomials.exponents.any():
                products = (monomials.columns(x)[:, None] * products).reshape(-1, x.shape[1])
            values.append(np.ascontiguousarray(products.T))
        largest = np.max([np.abs(v).max(axis=0) for v in values], axis=0)
    poles = ~(largest < _LARGEST)
    if poles.any():
        for v in values:
            v[:, poles] = 0.0
    return values


class Integrals:
    """Observations as a free start for each segment plus integrals of forcings along paths.

    Each coordinate is a regression of its own. Since nothing is propagated, a wrong field does not mislead;
    errors of the paths do.

    Parameters
    ----------
    observations : Observations
        Data.
    pieces : list
        Paths from `follow` or `smooth`.
    variance : array (d,)
        Noise variance where weights are 1.
    segments : int
        Free starts in each piece.

    Attributes
    ----------
    targets : list of d arrays (n,)
        Observations in units of their noise, the starts projected out.
    coordinates : int
        Forced coordinates in each regression: 1.
    """

    coordinates = 1

    def __init__(
        self, observations: Observations, pieces: list[Piece], variance: np.ndarray, segments: int
    ) -> None:
        self._pieces = pieces
        self._roots = np.sqrt(np.concatenate(observations.weights_over(variance)).T.copy())
        heads, first = [], 0
        for t, _ in observations.samples:
            count = max(1, min(segments, len(t) // _SHORTEST))
            heads += (first + np.round(np.linspace(0, len(t), count + 1)[:-1])).astype(int).tolist()
            first += len(t)
        self._heads = np.array(heads)
        self._squares = np.add.reduceat(self._roots**2, self._heads, axis=1)
        self.targets = self._free(np.concatenate([z for _, z in observations.samples])[:, :, None])
        self.targets = [target[:, 0] for target in self.targets]

    def _free(self, values: np.ndarray, states: Sequence[int] | None = None) -> list[np.ndarray]:
        """Weighted values (n, d or 1, m) for some coordinates or all, starts of segments projected out."""
        own = range(len(self._roots)) if states is None else states
        columns = [np.ascontiguousarray(values[:, i % values.shape[1]]) for i in own]
        return [
            without_starts(part, self._roots[i], self._heads, self._squares[i])
            for i, part in zip(own, columns, strict=True)
        ]

    @property
    def states(self) -> np.ndarray:
        """States (N, d) along the paths."""
        return np.concatenate([piece.path for piece in self._pieces])

    @property
    def crosses_zero(self) -> np.ndarray:
        """Whether each state takes both signs along the paths (d,)."""
        path = self.states
        return (path.min(axis=0) < 0.0) & (path.max(axis=0) > 0.0)

    def columns(
        self, functions: Dictionary, monomials: Dictionary, states: Sequence[int] | None = None
    ) -> list[np.ndarray]:
        """Integrals of products of functions and monomials, as the observations of each coordinate see them.

        Parameters
        ----------
        functions : Dictionary
            ``p`` terms without monomials.
        monomials : Dictionary
            ``q`` terms.
        states : sequence of int, optional
            Coordinates that are asked for; default: all.

        Returns
        -------
        list of arrays (n, q p), one for each of these coordinates
            By monomial and function; 0 for products with a pole on the path.
        """
        terms = functions
        if len(monomials) > 1 or monomials.exponents.any():
            terms = monomials.times(functions)
        packed = terms.packed
        found = [integrals(packed, piece.extended, piece.steps, piece.observed) for piece in self._pieces]
        values = np.concatenate([part for part, _ in found])
        values[:, ~(np.max([largest for _, largest in found], axis=0) < _LARGEST)] = 0.0
        return self._free(values[:, None], states)

    def against(self, monomials: Dictionary) -> list[np.ndarray]:
        """Integrals of monomials over the coordinates themselves, likewise: ``int m(x) dx_i`` along the path.

        Parameters
        ----------
        monomials : Dictionary
            ``q`` terms.

        Returns
        -------
        list of d arrays (n, q)
        """
        one = Dictionary(np.zeros((1, monomials.dim), dtype=np.int64))
        parts = []
        for piece, v in zip(self._pieces, _forcings(one, monomials, self._pieces), strict=True):
            before, middle, after = (piece.path[k::2][: len(piece.steps), :, None] for k in range(3))
            # slopes of the parabola of each step at its ends and middle, times the step
            slopes = -3.0 * before + 4.0 * middle - after, after - before, before - 4.0 * middle + 3.0 * after
            values = (v[k::2][: len(piece.steps), None] for k in range(3))
            weighted = (w * m * s for w, m, s in zip((1.0, 4.0, 1.0), values, slopes, strict=True))
            parts.append(_from_start(sum(weighted, np.zeros(())) / 6.0)[piece.observed])
        return self._free(np.concatenate(parts))


def _from_start(steps: np.ndarray) -> np.ndarray:
    """Sums (F + 1, ...) of what each step adds (F, ...)."""
    return np.concatenate([np.zeros((1, *steps.shape[1:])), np.cumsum(steps, axis=0)])


class Surrogate:
    """Observations as the response to forcings about the path of one field.

    A field ``f`` that keeps near the path ``y`` of another one ``g`` follows ``y + e`` with
    ``e' = Dg(y) e + f(y) - g(y)``. With ``f = sum c_j phi_j`` the observations are linear in ``c`` and in the
    starts, and their noise is that of the observations; smoothed slopes have errors of their own. It is as
    good as ``Dg`` is.

    Parameters
    ----------
    observations : Observations
        Data.
    candidate : Candidate
        Terms, coefficients and starts of the field.
    variance : array (d,)
        Noise variance where weights are 1.
    pieces : list
        Paths from `follow`.

    Attributes
    ----------
    targets : list of one array (n d,)
        Observations minus the path plus the response to ``g``, in units of their noise, starts projected out.
    coordinates : int
        Forced coordinates in the regression: d.
    """

    def __init__(
        self, observations: Observations, candidate: Candidate, variance: np.ndarray, pieces: list[Piece]
    ) -> None:
        self.coordinates = d = observations.dim
        used = _in_use(candidate)
        terms, values = used.dictionary, used.coefficients
        self._pieces, self._maps, self._roots, self._starts, targets = pieces, [], [], [], []
        for k, (piece, (t, z)) in enumerate(zip(pieces, observations.samples, strict=True)):
            halves = np.repeat(0.5 * piece.steps, 2)
            once = np.ones(len(halves), dtype=np.int64)
            _, tangents = compiled_maps(used, piece.curves)(used.parameters, piece.path, halves, once)
            maps = np.ascontiguousarray(tangents[:, :, :d])
            responded, by_start = responses(
                maps, terms.columns(piece.extended).T @ values, piece.steps, piece.observed
            )
            root = np.sqrt(observations.weights[k][: len(t)] / variance)
            target = (z - piece.path[2 * piece.observed] + np.einsum("nicc->ni", responded)) * root
            starts, _ = np.linalg.qr((by_start * root[:, :, None]).reshape(-1, d))
            self._maps.append(maps)
            self._roots.append(root)
            self._starts.append(starts)
            targets.append(_without(starts, target.reshape(-1, 1))[:, 0])
        self.targets = [np.concatenate(targets)]

    def columns(self, functions: Dictionary, monomials: Dictionary) -> list[np.ndarray]:
        """Responses to forcings of each coordinate by products of functions and monomials.

        Parameters
        ----------
        functions : Dictionary
            ``p`` terms without monomials.
        monomials : Dictionary
            ``q`` terms.

        Returns
        -------
        list of one array (n d, d q p)
            By forced coordinate, monomial and function; 0 for products with a pole on the path.
        """
        parts = []
        forcings = _forcings(functions, monomials, self._pieces)
        for k, (piece, values) in enumerate(zip(self._pieces, forcings, strict=True)):
            response, _ = responses(self._maps[k], values, piece.steps, piece.observed)
            response *= self._roots[k][:, :, None, None]
            parts.append(_without(self._starts[k], response.reshape(len(self._starts[k]), -1)))
        return [np.concatenate(parts)]


def _without(orthonormal: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return columns - orthonormal @ (orthonormal.T @ columns)
