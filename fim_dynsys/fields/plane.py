"""FieldPlane: vector fields with two parameters."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial, reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.bases import Basis
from fim_dynsys.fields.callable import CallableField, check_arguments
from fim_dynsys.fields.family import FieldFamily, common_scales, differenced
from fim_dynsys.fields.pooling import PooledRegression
from fim_dynsys.regions import Region

_FEWEST = 5  # pairs: a plane has three coefficients, and each pair is left out once
_KEPT = 16  # fields of the latest values: a Newton step takes differences about one


class FieldPlane:
    """Fields dx/dt = f(x, p, q) with two parameters.

    Parameters
    ----------
    at : callable
        ``at(p, q) -> VectorField``, smooth in both.
    parameters : pair of str
        Their names.

    Raises
    ------
    TypeError
        If `at` is no function of two numbers.
    ValueError
        If the names are not two different ones.

    Examples
    --------
    >>> cusp = FieldPlane.from_callable(lambda x, h, r: h + r * x - x**3, 1, ("h", "r"))
    >>> cusp.at(0.0, 1.0)([0.5])
    array([0.375])
    """

    def __init__(self, at: Callable[[float, float], VectorField], parameters: Sequence[str] = ("p", "q")):
        if not callable(at):
            raise TypeError(f"FieldPlane: expected a function of two parameters, got {at!r}.")
        check_arguments("FieldPlane", at, ("p", "q"))
        names = tuple(str(name) for name in parameters)
        if len(set(names)) != 2 or len(names) != 2:
            raise ValueError(f"FieldPlane: expected two different names of parameters, got {names}.")
        self.parameters = (names[0], names[1])
        self._at = lru_cache(maxsize=_KEPT)(at)

    @staticmethod
    def from_callable(
        fn: Callable[[np.ndarray, float, float], ArrayLike],
        dim: int,
        parameters: Sequence[str] = ("p", "q"),
        *,
        jac: Callable[[np.ndarray, float, float], ArrayLike] | None = None,
        **kwargs: Any,
    ) -> "FieldPlane":
        """Plane of a function.

        Parameters
        ----------
        fn : callable
            ``fn(x (n, d), p, q) -> (n, d)``, the rate of change at n points for two numbers.
        dim : int
            Number of states d.
        parameters : pair of str
            Names of the two.
        jac : callable, optional
            ``jac(x (n, d), p, q) -> (n, d, d)``; without it, fourth-order central differences.
        **kwargs
            As for `VectorField`.

        Returns
        -------
        FieldPlane
        """
        for part in (fn, jac):
            if part is not None:
                check_arguments("from_callable", part, ("x", "p", "q"))

        def at(p: float, q: float) -> VectorField:
            by_states = None if jac is None else lambda x: jac(x, p, q)
            return CallableField(lambda x: fn(x, p, q), dim, by_states, **kwargs)

        return FieldPlane(at, parameters)

    @staticmethod
    def from_fields(
        values: ArrayLike, fields: Iterable[VectorField], parameters: Sequence[str] = ("p", "q")
    ) -> "PooledPlane":
        """Plane of fields that are known, with errors, at some pairs of values.

        Parameters
        ----------
        values : array_like (K, 2)
            Different pairs, at least five, not all on a line.
        fields : sequence of K VectorField
            The field at each. Their coefficients are fitted by polynomials of both parameters, each field
            counted where its own data lie, of the total degree (at most 3) that predicts left-out ones best.
        parameters : pair of str
            Names of the two.

        Returns
        -------
        PooledPlane

        Raises
        ------
        ValueError
            For too few pairs, pairs that repeat, or numbers that do not fit.
        """
        pairs, known = np.asarray(values, dtype=float), tuple(fields)
        if pairs.ndim != 2 or pairs.shape != (len(known), 2) or not np.isfinite(pairs).all():
            raise ValueError(
                f"from_fields: expected finite values ({len(known)}, 2) for as many fields, got shape "
                f"{pairs.shape}."
            )
        if len(np.unique(pairs, axis=0)) < len(pairs) or not _spread(pairs):
            raise ValueError(
                f"from_fields: expected at least {_FEWEST} different pairs that are not on a line, got "
                f"{len(pairs)}; measure at more."
            )
        basis = Basis.of(known)
        return PooledPlane(pairs, known, parameters, basis, basis.regression(pairs))

    def at(self, p: float, q: float) -> VectorField:
        """The field of one pair of values."""
        return self._at(float(p), float(q))

    def family(self, q: float) -> FieldFamily:
        """The fields of one value of the second parameter, over the first."""
        return _PlaneFamily(self, float(q))

    def __repr__(self) -> str:
        return f"FieldPlane(parameters={self.parameters})"


class _PlaneFamily(FieldFamily):
    """The fields of a plane at one value of its second parameter."""

    knows_dp = False

    def __init__(self, plane: FieldPlane, q: float):
        field = plane.at(0.0, q)
        super().__init__(
            field.dim,
            plane.parameters[0],
            state_names=field.state_names,
            region=field.region,
            scales=None if field.frame.length is None else field.scales,
        )
        self._plane, self._q = plane, q

    def _at(self, p: float) -> VectorField:
        return self._plane.at(p, self._q)

    def _dp(self, x: np.ndarray, p: float) -> np.ndarray:
        return differenced(lambda p: self._at(p)(x), p)


class PooledPlane(FieldPlane):
    """A plane whose coefficients are polynomials of both parameters; see `FieldPlane.from_fields`.

    Attributes
    ----------
    values : ndarray (K, 2)
        Pairs of values at which fields are known.
    fields : tuple of K VectorField
        Those.
    region : Region or None
        Box round those of the fields.
    degree : int
        Total degree of the polynomials.
    """

    def __init__(
        self,
        values: np.ndarray,
        fields: tuple[VectorField, ...],
        parameters: Sequence[str],
        basis: Basis,
        regression: PooledRegression,
        weights: np.ndarray | None = None,
    ):
        self.values, self.fields = values, fields
        boxes = [field.region for field in fields if field.region is not None]
        self.region = reduce(Region.union, boxes) if boxes else None
        self._basis, self._regression = basis, regression
        self._surface = regression.surface(weights)
        self._scales = common_scales(fields)
        super().__init__(self._member, parameters)

    @property
    def degree(self) -> int:
        """Total degree of the polynomials in both parameters."""
        return self._surface.degree

    def support(self, x: ArrayLike, p: float, q: float) -> np.ndarray:
        """Support at points: that of the field of the nearest pair, in units of the pairs' ranges."""
        away = (self.values - [p, q]) / np.ptp(self.values, axis=0)
        return self.fields[int(np.argmin(np.linalg.norm(away, axis=1)))].support(x)

    def bootstrap(self, n: int, seed: int = 0) -> "list[PooledPlane]":
        """Planes fitted to pairs drawn with replacement, the degree chosen each time.

        Parameters
        ----------
        n : int
            How many.
        seed : int
            Of the resampling.

        Returns
        -------
        list of PooledPlane
        """
        rng, count = np.random.default_rng(seed), len(self.values)
        members: list[PooledPlane] = []
        while len(members) < n:
            weights = np.bincount(rng.integers(count, size=count), minlength=count)
            if _spread(self.values[weights > 0]):
                members.append(
                    PooledPlane(
                        self.values, self.fields, self.parameters, self._basis, self._regression, weights
                    )
                )
        return members

    def _member(self, p: float, q: float) -> VectorField:
        return self._basis.member(
            self._surface(p, q),
            partial(self.support, p=p, q=q),
            state_names=self.fields[0].state_names,
            region=self.region,
            scales=self._scales,
        )


def _spread(pairs: np.ndarray) -> bool:
    """Whether there are enough pairs of values to fit a plane and leave one out."""
    return len(pairs) >= _FEWEST and bool(np.linalg.matrix_rank(pairs - pairs.mean(axis=0), tol=1e-9) == 2)
