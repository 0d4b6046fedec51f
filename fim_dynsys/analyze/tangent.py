"""Fields that analyses integrate in place of the given one: counted, or with tangent vectors."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fim_dynsys.analyze.results import has_exact_jacobian, scales_within, with_steps
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.frame import Scales
from fim_dynsys.regions import Region
from fim_dynsys.simulation.pairs import pair
from fim_dynsys.simulation.problem import FAILURES
from fim_dynsys.simulation.solution import integrate

_NEIGHBOUR = 1e-5  # lengths: the flow's curvature leaves such a share of a derivative, the tolerance less
_NEIGHBOUR_RTOL = 1e-11  # of a step: neighbouring orbits differ by 1e-6 at first

STAGES = pair("dop853").n_stages
"""Field evaluations of a step of the integrator that analyses use."""


class CountedField(VectorField):
    """A field that counts the points at which it or its Jacobian is evaluated; otherwise the inner one.

    Parameters
    ----------
    inner : VectorField
        The field under analysis.
    region : Region, optional
        Where it is analysed; gives scales of its own, see `scales_within`.
    """

    def __init__(self, inner: VectorField, region: Region | None = None) -> None:
        scales = inner.scales if region is None else scales_within(inner, region)
        # without lengths, tolerances are those of `simulate`, relative to the start
        known = None if region is None and inner.frame.length is None else scales
        super().__init__(inner.dim, state_names=inner.state_names, scales=known)
        self.inner = inner
        self._differentiable = with_steps(inner, scales)
        self.points = 0

    def within(self, region: Region) -> "CountedField":
        """The same in another region, with the count so far."""
        found = CountedField(self.inner, region)
        found.points = self.points
        return found

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        self.points += len(x)
        return self.inner._rhs(x)

    @property
    def has_jacobian(self) -> bool:
        """Whether the inner field's Jacobian is exact; else it is differenced."""
        return has_exact_jacobian(self.inner)

    def _jac(self, x: np.ndarray) -> np.ndarray:
        self.points += len(x)
        return self._differentiable._jac(x)

    def _differenced(self, x: np.ndarray, step: float) -> np.ndarray:
        self.points += len(x)
        return self._differentiable._differenced(x, step)

    def _directional(self, x: np.ndarray, directions: Sequence[np.ndarray]) -> np.ndarray:
        self.points += len(x)
        return self._differentiable._directional(x, directions)

    def _support(self, x: np.ndarray) -> np.ndarray:
        return self.inner._support(x)


class TangentField(VectorField):
    """A field together with k tangent vectors and the integral of its divergence.

    Its state is ``(x, V, q)`` with dx/dt = f(x), dV/dt = J(x) V and dq/dt = trace J(x). The tangent vectors,
    the columns of V ``(d, k)`` written row by row, are in units of `length`, so that J acts on them scaled.

    Parameters
    ----------
    field : VectorField
        The field under analysis.
    k : int
        Number of tangent vectors.
    length : ndarray (d,)
        Unit of each state.
    """

    def __init__(self, field: VectorField, k: int, length: np.ndarray) -> None:
        d = field.dim
        size = d + d * k + 1
        units = np.concatenate([length, np.ones(size - d)])  # of states, tangent vectors, divergence
        super().__init__(size, scales=Scales(units, np.ones(size), 1.0))
        self._field, self._k, self._d = field, k, d
        self._change = length / length[:, None]

    def _rhs(self, z: np.ndarray) -> np.ndarray:
        d, k = self._d, self._k
        x = np.ascontiguousarray(z[:, :d])
        jac = self._field._jac(x)
        out = np.empty_like(z)
        out[:, :d] = self._field._rhs(x)
        vectors = z[:, d:-1].reshape(-1, d, k)
        np.matmul(jac * self._change, vectors, out=out[:, d:-1].reshape(-1, d, k))
        out[:, -1] = np.trace(jac, axis1=1, axis2=2)
        return out


class Carried(NamedTuple):
    """Where a batch of states and tangent vectors was carried to."""

    x: np.ndarray  # (n, d)
    vectors: np.ndarray  # (n, d, k), in units of length
    divergence: np.ndarray  # (n,), its integral
    failed: np.ndarray  # (n,) bool
    status: np.ndarray  # (n,)
    n_steps: int  # of the one that took most


def carry_by_neighbours(
    field: VectorField, x: np.ndarray, vectors: np.ndarray, duration: float | np.ndarray, length: np.ndarray
) -> Carried:
    """As `carry`, for a field that jumps: by neighbouring states, which cross the jump as the state does.

    Derivatives of the flow across a jump are not those of the variational equations: at the crossing, tangent
    vectors change by the saltation matrix. Differences of crossing neighbours contain it.

    Parameters
    ----------
    field, x, vectors, duration, length
        As for `carry`; vectors of lengths of order one.

    Returns
    -------
    Carried
        The integral of the divergence is NaN: on a jump it has none.

    References
    ----------
    R. I. Leine, H. Nijmeijer, Dynamics and Bifurcations of Non-Smooth Mechanical Systems, Springer 2004,
    section 7.1 (saltation matrix).
    """
    n, d, k = vectors.shape
    moves = _NEIGHBOUR * np.moveaxis(vectors, 2, 1) * length
    starts = np.concatenate([x[:, None], x[:, None] + moves, x[:, None] - moves], axis=1).reshape(-1, d)
    t = np.stack([np.zeros(n), np.broadcast_to(duration, (n,))], axis=1)
    solution = integrate(
        [field],
        starts,
        np.repeat(t, 2 * k + 1, axis=0),
        rtol=_NEIGHBOUR_RTOL,
        atol=_NEIGHBOUR_RTOL * length,
    )
    ends = solution.x_stop.reshape(n, 2 * k + 1, d)
    status = solution.status.reshape(n, 2 * k + 1)
    failed = np.isin(status, list(FAILURES))
    carried = (ends[:, 1 : k + 1] - ends[:, k + 1 :]) / (2.0 * _NEIGHBOUR * length)
    first = np.take_along_axis(status, np.argmax(failed, axis=1)[:, None], axis=1)[:, 0]
    return Carried(
        ends[:, 0],
        np.moveaxis(carried, 1, 2),
        np.full(n, np.nan),
        np.any(failed, axis=1),
        first,
        int(solution.n_steps.max()),
    )


def carry(
    field: VectorField,
    x: np.ndarray,
    vectors: np.ndarray,
    duration: float | np.ndarray,
    length: np.ndarray,
    rtol: float,
    max_steps: int = 100_000,
) -> Carried:
    """Carry states ``(n, d)`` and tangent vectors ``(n, d, k)`` along the flow.

    Parameters
    ----------
    field : VectorField
        The field.
    x, vectors : ndarray
        Where to start; the vectors in units of `length`.
    duration : float or ndarray (n,)
        For how long; negative goes backwards.
    length : ndarray (d,)
        Unit of each state, to which tolerances are relative too.
    rtol : float
        Relative tolerance of the local error.
    max_steps : int
        Steps that each may take.

    Returns
    -------
    Carried
    """
    n, d, k = vectors.shape
    z = np.concatenate([x, vectors.reshape(n, d * k), np.zeros((n, 1))], axis=1)
    tangent = TangentField(field, k, length)
    t = np.stack([np.zeros(n), np.broadcast_to(duration, (n,))], axis=1)
    # Tangent vectors may well grow by more than a trajectory may.
    solution = integrate(
        [tangent], z, t, rtol=rtol, atol=rtol * tangent.scales.length, escape=1e12, max_steps=max_steps
    )
    end = solution.x_stop
    failed = np.isin(solution.status, list(FAILURES))
    return Carried(
        end[:, :d],
        end[:, d:-1].reshape(n, d, k),
        end[:, -1],
        failed,
        solution.status,
        int(solution.n_steps.max()),
    )
