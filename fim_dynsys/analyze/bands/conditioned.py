"""conditioned_draws: draws of a posterior that also follow the trajectories they were inferred from."""

from collections.abc import Sequence

import numpy as np

from fim_dynsys.analyze.bands.draws import drawn_fields
from fim_dynsys.analyze.results import FieldLike, unwrap
from fim_dynsys.errors import check_whole, renamed
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.simulation.solution import integrate
from fim_dynsys.threads import on_one_thread

_SHARE = 1e-3  # of a draw's deviation: paths of many turns are linear in so little
_START = 1e-4  # of the length scale, for derivatives by the initial state
_RTOL, _MOST_STEPS = 1e-9, 20_000  # of a step, well below `_SHARE`; of one path
_LONGEST_MEMORY = 0.95  # correlation of successive residuals, beyond which it is taken for this


@on_one_thread
@renamed(draws="n_draws")
def conditioned_draws(field: FieldLike, n_draws: int | EnsembleField = 64, *, seed: int = 0) -> EnsembleField:
    """Draws of the posterior that are narrowed by how well whole trajectories tell them apart.

    A posterior that is local in time knows rates of change, but not that an oscillation kept its phase over
    many turns. The paths' derivatives along the deviations of the draws, and by the initial states, make the
    data linear in them; the draws are replaced by those of the normal distribution that is left, whose middle
    moves from the field where other paths follow the data more closely. The noise is what the field's own
    paths leave of the data, enlarged where successive residuals are alike, so that a field that does not fit
    is not called sure.

    Parameters
    ----------
    field : VectorField or fitted model
        A field with its data; it and its draws sums of the same terms.
    n_draws : int or EnsembleField
        Fields drawn from the posterior.
    seed : int
        Of the draws.

    Returns
    -------
    EnsembleField of DictionaryField
        The draws themselves where the field's paths cannot be followed through the data.

    Raises
    ------
    ValueError
        For a field without data or a posterior, or draws of other terms.

    References
    ----------
    G. Evensen, Data Assimilation: The Ensemble Kalman Filter, 2nd ed., Springer 2009, chapter 9 (ensemble
    smoother).

    See Also
    --------
    cycle_bands : Uses them.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze
    >>> box = fim_dynsys.Region([-3, -3], [3, 3])
    >>> vdp = fim_dynsys.SymbolicField(["x1", "mu*(1 - x0**2)*x1 - x0"], {"mu": 1.0}, region=box)
    >>> rng = np.random.default_rng(0)
    >>> t = np.linspace(0, 12, 120)
    >>> exact = fim_dynsys.simulate(vdp, [[0.5, 0.0], [3.0, 1.0]], t)
    >>> noisy = [x + 0.02 * rng.standard_normal(x.shape) for x in exact.x]
    >>> model = fim_dynsys.load("fim-ode").fit(noisy, t)
    >>> len(analyze.conditioned_draws(model, n_draws=4))
    4
    """
    check_whole("conditioned_draws", 0, seed=seed)
    field = unwrap(field, "conditioned_draws")
    drawn = drawn_fields(field, n_draws, seed, "conditioned_draws")
    known = [member for member in drawn if isinstance(member, DictionaryField)]
    alike = isinstance(field, DictionaryField) and len(known) == len(drawn)
    if field.context is None or not isinstance(field, DictionaryField) or not alike:
        raise ValueError(
            f"conditioned_draws: expected a sum of terms with its data and draws of it, got "
            f"{type(field).__name__}."
        )
    if any(member.dictionary != field.dictionary for member in known):
        raise ValueError("conditioned_draws: expected draws of the field's own terms, got others.")
    away = np.array([member.coefficients for member in known]) - field.coefficients
    paths = _Paths(field)
    if not paths.follow():
        return drawn
    slopes = paths.along([_shifted(field, _SHARE * deviation) for deviation in away], _SHARE)
    usable = np.isfinite(slopes).all(axis=1)
    if not usable.any():
        return drawn
    away, m = away[usable], int(usable.sum())
    by_start = paths.by_start()
    # unknown: m standard normal numbers, and the initial states, of which nothing is known before
    matrix = np.concatenate([slopes[usable] / np.sqrt(m), by_start]) / paths.noise
    prior = np.concatenate([np.ones(m), np.zeros(len(by_start))])
    precision = np.diag(prior) + matrix @ matrix.T
    values, vectors = np.linalg.eigh(precision)
    root = vectors / np.sqrt(np.maximum(values, 1e-12 * values[-1]))
    middle = root @ (root.T @ (matrix @ (paths.residuals / paths.noise)))
    scatter = root @ np.random.default_rng(seed).standard_normal((len(values), len(drawn)))
    chosen = middle[:, None] + scatter
    moved = np.einsum("in,imd->nmd", chosen[:m] / np.sqrt(m), away)
    return EnsembleField([_shifted(field, deviation) for deviation in moved])


def _shifted(field: DictionaryField, deviation: np.ndarray) -> DictionaryField:
    return DictionaryField(field.dictionary, field.coefficients + deviation, frame=field.frame)


class _Paths:
    """The field's paths along its data, and how they change."""

    def __init__(self, field: DictionaryField) -> None:
        self.field = field
        assert field.context is not None
        self.data = [(t, x) for t, x in field.context.arrays() if len(t) > 1]
        first = [t[0] for t, _ in self.data]
        self.times = [t - start for (t, _), start in zip(self.data, first, strict=True)]
        self.starts = self._initial_states()

    def _initial_states(self) -> np.ndarray:
        known = self.field.fit_info.initial_states
        if known is not None and len(known) == len(self.data):
            return np.asarray(known, dtype=float)
        smoothed = self.field.frame.smoothed
        paths = [] if smoothed is None else [x for x in smoothed.states if len(x)]
        if len(paths) == len(self.data):
            return np.array([x[0] for x in paths])
        return np.array([x[np.isfinite(x).all(axis=1)][0] for _, x in self.data])

    def follow(self) -> bool:
        """Whether the field can be followed through all data; sets the residuals' size."""
        self.own = self._flown([self.field], np.zeros(len(self.starts), dtype=int), self.starts)[0]
        observed = np.concatenate([x.ravel() for _, x in self.data])
        self.kept = np.isfinite(observed)
        if not np.isfinite(self.own).all():
            return False
        d = self.field.dim
        residuals = np.where(self.kept, observed - self.own, np.nan).reshape(-1, d)
        size = np.sqrt(np.nanmean(residuals**2, axis=0))
        alike = np.nanmean(residuals[1:] * residuals[:-1], axis=0) / np.maximum(size**2, np.finfo(float).tiny)
        memory = np.clip(alike, 0.0, _LONGEST_MEMORY)
        size = np.maximum(size * np.sqrt((1.0 + memory) / (1.0 - memory)), 1e-9 * self.field.scales.length)
        self.noise = np.tile(size, len(residuals))[self.kept]
        self.residuals = residuals.ravel()[self.kept]
        return True

    def along(self, fields: Sequence[VectorField], share: float) -> np.ndarray:
        """Change of the observed values (m, n) with each field, by its share of the way."""
        n, k = len(fields), len(self.starts)
        which = np.repeat(np.arange(n), k)
        flown = self._flown(fields, which, np.tile(self.starts, (n, 1)))
        return ((flown - self.own) / share)[:, self.kept]

    def by_start(self) -> np.ndarray:
        """Change of the observed values (K d, n) with each coordinate of each initial state."""
        d, k = self.field.dim, len(self.starts)
        step = _START * self.field.scales.length
        rows = []
        for i in range(d):
            moved = self.starts.copy()
            moved[:, i] += step[i]
            change = (self._flown([self.field], np.zeros(k, dtype=int), moved)[0] - self.own) / step[i]
            ends = np.cumsum([len(t) * d for t in self.times])
            for first, last in zip([0, *ends[:-1]], ends, strict=True):
                row = np.zeros(len(change))
                row[first:last] = change[first:last]
                rows.append(row)
        return np.nan_to_num(np.array(rows)[:, self.kept])

    def _flown(self, fields: Sequence[VectorField], which: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Paths at the observed times, one row for each field."""
        longest = max(map(len, self.times))
        t = np.full((len(self.times), longest), np.nan)
        for row, times in zip(t, self.times, strict=True):
            row[: len(times)] = times
        n = len(starts) // len(self.times)
        x = integrate(
            fields,
            starts,
            np.tile(t, (n, 1)),
            which=which,
            rtol=_RTOL,
            atol=_RTOL * self.field.scales.length,
            max_steps=_MOST_STEPS,
        ).x
        x = x.reshape(n, len(self.times), longest, -1)
        return np.concatenate([x[:, k, : len(t)].reshape(n, -1) for k, t in enumerate(self.times)], axis=1)
