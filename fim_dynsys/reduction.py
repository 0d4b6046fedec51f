"""PCA with lifting: fewer coordinates for models of limited dimension, and the way back."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fim_dynsys.trajectories.container import Trajectories


@dataclass(frozen=True, eq=False)
class PCAReduction:
    """Affine map between states ``x`` (d) and a few principal components ``z`` (m).

    ``z = ((x - mean) / spread) @ components.T`` and back ``x = mean + spread * (z @ components)``. Signs
    are fixed: in each component the entry largest in magnitude is positive.

    Parameters
    ----------
    mean : ndarray, shape (d,)
        Mean of the observations.
    spread : ndarray, shape (d,)
        Standard deviation by which each state was divided, 1 where that was not asked for and in states
        that never change.
    components : ndarray, shape (m, d)
        Orthonormal rows.
    explained : ndarray, shape (m,)
        Share of the (standardised) variance in each component, falling.
    state_names : tuple of str
        Names of the d states.
    units : dict
        Their units, for lifting.

    References
    ----------
    Jolliffe, *Principal Component Analysis*, 2nd ed. (Springer 2002), sections 1.1 and 3.5.

    Examples
    --------
    >>> from fim_dynsys.trajectories.container import Trajectories
    >>> t = np.linspace(0, 6, 100)
    >>> data = Trajectories.from_arrays(np.column_stack([np.sin(t), np.cos(t), np.sin(t) + np.cos(t)]), t)
    >>> pca = PCAReduction.fit(data, n_components=2)
    >>> round(float(pca.explained.sum()), 12)
    1.0
    >>> bool(np.allclose(pca.lift(pca.reduce(data)).x, data.x))
    True
    """

    mean: np.ndarray
    spread: np.ndarray
    components: np.ndarray
    explained: np.ndarray
    state_names: tuple[str, ...]
    units: dict[str, str]

    @classmethod
    def fit(cls, trajectories: Trajectories, n_components: int, standardise: bool = True) -> "PCAReduction":
        """Principal components of all complete samples.

        Parameters
        ----------
        trajectories : Trajectories
            Samples with a missing coordinate are left out, with a warning.
        n_components : int
            Number of components m, at most d and less than the number of complete samples.
        standardise : bool
            Divide each state by its standard deviation first: without it the state with the largest
            numbers decides, which depends on units.

        Raises
        ------
        ValueError
            If ``n_components`` does not fit the data.
        """
        complete = trajectories.drop_incomplete("PCAReduction")
        x = np.concatenate([values for _, values in complete.arrays()])
        most = min(trajectories.dim, len(x) - 1)
        is_integer = isinstance(n_components, int | np.integer) and not isinstance(n_components, bool)
        if not is_integer or not 1 <= n_components <= most:
            raise ValueError(
                f"PCAReduction.fit: expected n_components from 1 to {most} for {len(x)} complete samples of "
                f"{trajectories.dim} states, got {n_components!r}; choose fewer or give more samples"
            )
        mean = x.mean(axis=0)
        spread = _spread(x) if standardise else np.ones(trajectories.dim)
        _, singular, rows = np.linalg.svd((x - mean) / spread, full_matrices=False)
        total = np.sum(singular**2)
        if total == 0:
            raise ValueError(
                "PCAReduction.fit: expected states that change, got the same sample "
                f"{len(x)} times; give data that move"
            )
        components = rows[:n_components]
        largest = components[np.arange(n_components), np.argmax(np.abs(components), axis=1)]
        units = {name: unit for name, unit in trajectories.units.items() if name in trajectories.state_names}
        return cls(
            mean=mean,
            spread=spread,
            components=components * np.sign(largest)[:, None],
            explained=singular[:n_components] ** 2 / total,
            state_names=trajectories.state_names,
            units=units,
        )

    @property
    def dim(self) -> int:
        """Number of states d."""
        return self.components.shape[1]

    @property
    def n_components(self) -> int:
        """Number of components m."""
        return self.components.shape[0]

    def reduce(self, data: Trajectories | np.ndarray) -> Trajectories | np.ndarray:
        """Components of trajectories, named ``pc0, pc1, ...``, or of points ``(..., d)``.

        A sample with a missing coordinate has no components and becomes missing as a whole.

        Raises
        ------
        ValueError
            If the states are not those that the reduction was fitted on.
        """
        if not isinstance(data, Trajectories):
            x = _points(data, self.dim, "reduce")
            return ((x - self.mean) / self.spread) @ self.components.T
        self._check_names(data.state_names, self.state_names, "reduce")
        return data.with_x(self.reduce(data.x), state_names=self._component_names())

    def lift(self, data: Trajectories | np.ndarray) -> Trajectories | np.ndarray:
        """States of trajectories of components, with names and units restored, or of points ``(..., m)``.

        Raises
        ------
        ValueError
            If there are not ``n_components`` of them.
        """
        if not isinstance(data, Trajectories):
            return self.mean + self.spread * (_points(data, self.n_components, "lift") @ self.components)
        self._check_names(data.state_names, self._component_names(), "lift")
        lifted = data.with_x(self.lift(data.x), state_names=self.state_names)
        return lifted.with_units({**lifted.units, **self.units})

    def _component_names(self) -> tuple[str, ...]:
        return tuple(f"pc{i}" for i in range(self.n_components))

    @staticmethod
    def _check_names(found: Sequence[str], wanted: Sequence[str], method: str) -> None:
        if tuple(found) != tuple(wanted):
            raise ValueError(
                f"PCAReduction.{method}: expected the states {list(wanted)}, got {list(found)}; "
                "select or rename them, or fit a reduction on these data"
            )


def _spread(x: np.ndarray) -> np.ndarray:
    spread = x.std(axis=0)
    # A constant state: its deviations are rounding errors, which division by them would blow up.
    constant = spread <= 1e-12 * np.abs(x).max(axis=0)
    return np.where(constant, 1.0, spread)


def _points(x: np.ndarray, dim: int, method: str) -> np.ndarray:
    x = np.asarray(x)
    if x.ndim == 0 or x.shape[-1] != dim or x.dtype.kind not in "iuf":
        raise ValueError(
            f"PCAReduction.{method}: expected real points of shape (..., {dim}), got {x.shape} of {x.dtype}"
        )
    return x.astype(np.float64)
