"""Forecasts with bands: members of an ensemble, each from states that the last samples allow."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from fim_dynsys.analyze.results import PATIENCE, progress_bar
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.models.forecast_levels import WIDEST, Levels
from fim_dynsys.models.inputs import real_array
from fim_dynsys.models.scatter import deviations, scattered
from fim_dynsys.regression.criteria import Known, Noise, noise_model
from fim_dynsys.regression.gaps import completed
from fim_dynsys.regression.smoothing import smoothing_bank
from fim_dynsys.simulation.solution import AUTO, integrate
from fim_dynsys.trajectories.container import Trajectories

_DRAWS = 8  # starts of each member
_STEPS = 3  # of Gauss-Newton for a start
_LONGEST = 64  # samples that a start is fitted to
_TIMES = 100  # of a forecast whose times are not given
_RTOL = 1e-6  # of a step: the spread of the draws is far larger
_NUDGE = 1e-4  # of a standard deviation, for derivatives by the start


class _Tail(NamedTuple):
    """The samples at the end of a trajectory that its state is estimated from."""

    t: np.ndarray  # (n,) from the first of them
    x: np.ndarray  # (n, d), those that were not observed estimated
    seen: np.ndarray  # (n, d), which were observed
    noise: np.ndarray  # (n, d), standard deviations of what was observed
    last: float  # time of the last one


def forecast_bands(
    caller: str,
    field: VectorField,
    ensemble: EnsembleField,
    trajectories: Trajectories,
    horizon: ArrayLike,
    bands: Sequence[float],
    observed: bool,
    seed: int,
    levels: Levels | None = None,
    progress: bool | None = None,
    positive: np.ndarray | None = None,
    sigma: Known | None = None,
) -> xr.Dataset:
    """How trajectories go on; see `VectorFieldModel.forecast`.

    Every member is fitted to the last samples of each trajectory, over about one time scale of the field, by
    Gauss-Newton in the state at their beginning; the state at their end is drawn with the covariance that
    the noise leaves, and integrated on. Bands are quantiles of all paths, at calibrated levels where there
    are any.

    Parameters
    ----------
    caller : str
        The caller, for errors.
    field : VectorField
        Its scales and noise level are used.
    ensemble : EnsembleField
        What is integrated.
    trajectories : Trajectories
        What was observed so far.
    horizon : float or array (m,)
        Time beyond the last sample, or increasing times after it.
    bands : sequence of float
        Shares between 0 and 1.
    observed : bool
        Whether noise is added, for bands of what will be measured.
    seed : int
        Of the draws.
    levels : Levels, optional
        Of these members.
    progress : bool, optional
        Whether a bar is shown after two seconds; default on a terminal.
    positive : bool array (d,), optional
        States that are never negative: neither starts nor bands are.
    sigma : list of arrays (n, d), optional
        Errors of the samples that the field was fitted to.

    Returns
    -------
    xarray.Dataset
    """
    ahead = _ahead(caller, horizon)
    shares = np.asarray(bands, dtype=float).ravel()
    if not len(shares) or not ((shares > 0) & (shares < 1)).all():
        raise ValueError(f"{caller}: expected bands between 0 and 1, such as (0.5, 0.9), got {bands!r}.")
    if trajectories.dim != field.dim:
        raise ValueError(
            f"{caller}: expected trajectories of {field.dim} states, got {trajectories.dim}; where "
            "states are hidden, the record of the fit with its hidden states is model.field_.context."
        )
    unit, noise = field.scales.length, _noise(field, trajectories)
    errors = [_own_errors(field, sigma, noise, *pair) for pair in trajectories.arrays()]
    tails = [_tail(caller, k, trajectories[[k]], field, errors[k]) for k in range(len(trajectories))]
    rng = np.random.default_rng(seed)
    shape = (len(tails), len(ensemble), _DRAWS, len(ahead), field.dim)
    paths = np.empty(shape)
    bar = progress_bar(progress, len(tails), "forecast", "trajectories", PATIENCE)
    for k, tail in enumerate(tails):
        starts, roots = _starts(ensemble, tail, unit)
        normal = rng.standard_normal((len(ensemble), _DRAWS, field.dim))
        drawn = starts[:, None] + np.einsum("mij,mnj->mni", roots, normal)
        if positive is not None:
            drawn = np.where(positive, np.maximum(drawn, 0.0), drawn)
        which = np.repeat(np.arange(len(ensemble)), _DRAWS)
        paths[k] = _paths(ensemble, drawn.reshape(-1, field.dim), np.append(0.0, ahead), which)[
            :, 1:
        ].reshape(shape[1:])
        bar.update()
    bar.close()
    flat = paths.reshape(len(tails), -1, len(ahead), field.dim)
    weights = np.repeat(ensemble.weights / _DRAWS, _DRAWS)
    alive = np.einsum("knt,n->kt", np.isfinite(flat).all(axis=-1), weights)
    if levels is not None:
        flat = _relevelled(flat, weights, levels)
        weights = np.full(flat.shape[1], 1.0 / flat.shape[1])
    if observed:
        levels_of = [_of_measurements(field, tail, own) for tail, own in zip(tails, flat, strict=True)]
        normal = rng.standard_normal(flat.shape)
        flat = scattered(field.fit_info.report, field.state_names, flat, normal, np.stack(levels_of))
    if positive is not None:
        flat = np.where(positive, np.maximum(flat, 0.0), flat)  # NaN stays
    return _dataset(trajectories, tails, ahead, shares, weights, flat, alive)


def rolled(
    caller: str,
    trajectories: Trajectories,
    origins: ArrayLike,
    forecast: Callable[[Trajectories], xr.Dataset],
) -> xr.Dataset:
    """Forecasts from the samples up to each of several times, along a first dimension ``origin``."""
    times = np.atleast_1d(real_array(origins, caller, "origins"))
    if times.ndim != 1 or not len(times) or not np.isfinite(times).all():
        raise ValueError(f"{caller}: expected times to forecast from, got origins {origins!r}.")
    pairs = trajectories.arrays()
    late = max(float(t[np.isfinite(x).all(axis=1)].min(initial=np.inf)) for t, x in pairs)
    if times.min() < late:
        raise ValueError(
            f"{caller}: expected origins from the first complete sample of each trajectory on ({late:g}), "
            f"got {times.min():g}."
        )
    early = min(float(t[-1]) for t, _ in pairs)
    if times.max() > early:
        raise ValueError(
            f"{caller}: expected origins up to the last sample of each trajectory ({early:g}), got "
            f"{times.max():g}."
        )
    parts = [
        forecast(trajectories.select_samples([np.flatnonzero(t <= time) for t, _ in pairs])) for time in times
    ]
    return xr.concat(parts, xr.DataArray(times, dims="origin", name="origin"))


def _ahead(caller: str, horizon: ArrayLike) -> np.ndarray:
    times = np.atleast_1d(real_array(horizon, caller, "horizon"))
    if times.ndim != 1 or not np.isfinite(times).all() or not times[0] > 0 or (np.diff(times) <= 0).any():
        raise ValueError(
            f"{caller}: expected a time beyond the last sample, or increasing times after it, got "
            f"{horizon!r}."
        )
    return np.linspace(0.0, float(times[0]), _TIMES + 1)[1:] if np.ndim(horizon) == 0 else times


def _tail(caller: str, k: int, trajectory: Trajectories, field: VectorField, noise: np.ndarray) -> _Tail:
    try:
        whole = completed(None, trajectory)
    except ValueError as error:
        raise ValueError(
            f"{caller}: expected a complete observation in each trajectory, got none in {k}."
        ) from error
    ((t, x),) = whole.trajectories.arrays()
    errors = None if isinstance(whole.errors, Noise) else whole.errors
    seen = np.ones(x.shape, dtype=bool) if errors is None else ~np.isinf(errors[0])
    positions = field.fit_info.inference.positions
    if positions:  # velocities are computed from these
        seen = seen & np.isin(field.state_names, positions)
    within = int((t >= t[-1] - field.scales.time).sum())
    n = min(max(within, 2 * field.dim + 2), _LONGEST, len(t))
    # rows without an observation are left out of x
    errors_at = noise[np.isin(trajectory.arrays()[0][0], t)]
    return _Tail(t[-n:] - t[-n], x[-n:], seen[-n:], errors_at[-n:], float(t[-1]))


def _noise(field: VectorField, trajectories: Trajectories) -> np.ndarray:
    """Standard deviations (d,): as the model has them, else estimated; never quite zero."""
    level = field.fit_info.noise_level
    if level is None or np.shape(level) != (field.dim,):
        seen = [(t, x, np.isfinite(x).all(axis=1)) for t, x in trajectories.arrays()]
        level = noise_model([(t[rows], x[rows]) for t, x, rows in seen]).level
    return np.maximum(level, 1e-9 * field.scales.length)


def _own_errors(
    field: VectorField, sigma: Known | None, noise: np.ndarray, t: np.ndarray, x: np.ndarray
) -> np.ndarray:
    """Standard deviations (n, d) of samples: as they were given, or as exact equations leave them.

    Both are known of samples that the field was fitted to; of others the noise level is.
    """
    info = field.fit_info
    own = deviations(info.report, field.state_names, x)
    everywhere = np.where(np.isfinite(own), np.maximum(own, 1e-9 * field.scales.length), noise)
    hidden = "noise by column" in info.report  # errors are those of columns, not of states
    given = None if isinstance(sigma, Noise) or hidden else sigma
    if field.context is None or not (info.to_precision or given is not None):
        return everywhere
    for k, (own_t, own_x) in enumerate(field.context.arrays()):
        at = np.minimum(np.searchsorted(own_t, t), len(own_t) - 1)
        if own_x.shape[1] != x.shape[1] or not np.array_equal(own_t[at], t):
            continue
        if not np.array_equal(own_x[at], x, equal_nan=True):
            continue
        if given is not None:
            errors = given[k][at]
            return np.where(np.isfinite(errors) & (errors > 0), errors, everywhere)
        left = 0.0 if info.residual_over_noise is None else info.residual_over_noise
        return np.maximum(left * everywhere, _RTOL * field.scales.length)
    return everywhere


def _of_measurements(field: VectorField, tail: _Tail, paths: np.ndarray) -> np.ndarray:
    """Noise of what is measured along paths (..., d); of states that are hidden none is.

    It is in proportion to the values where that says the errors of the last samples better.
    """
    by_column = field.fit_info.report.get("noise by column")
    if by_column is not None:
        return np.broadcast_to([by_column.get(name, 0.0) for name in field.state_names], paths.shape)
    with np.errstate(divide="ignore"):
        share = np.where(tail.x != 0.0, tail.noise / np.abs(tail.x), np.inf)
    relative = np.isfinite(share).all(axis=0)
    relative &= np.ptp(np.log(np.where(relative, share, 1.0)), axis=0) < np.ptp(np.log(tail.noise), axis=0)
    return np.where(relative, np.median(share, axis=0) * np.abs(paths), np.median(tail.noise, axis=0))


def _starts(ensemble: EnsembleField, tail: _Tail, unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """States (M, d) at the last sample, one for each member, and roots (M, d, d) of their covariances."""
    m, d, noise = len(ensemble), ensemble.dim, tail.noise
    if len(tail.t) < d + 1:
        return np.tile(tail.x[-1], (m, 1)), np.tile(np.diag(noise[-1]), (m, 1, 1))
    first = smoothing_bank(tail.t, tail.x, (3.0,))[0][0, 0] if len(tail.t) > 4 else tail.x[0]
    start = np.tile(np.where(np.isfinite(first), first, tail.x[0]), (m, 1))
    least, best = np.full(m, np.inf), start.copy()
    nudges = np.vstack([np.zeros(d), _NUDGE * np.diag(unit)])
    ends, roots = np.tile(tail.x[-1], (m, 1)), np.tile(np.diag(noise[-1]), (m, 1, 1))
    for _ in range(_STEPS + 1):
        which = np.repeat(np.arange(m), d + 1)
        begun = (start[:, None] + nudges).reshape(-1, d)
        path = _paths(ensemble, begun, tail.t, which).reshape(m, d + 1, len(tail.t), d)
        for i in range(m):
            residuals = np.where(tail.seen, (tail.x - path[i, 0]) / noise, 0.0).ravel()
            slopes = ((path[i, 1:] - path[i, 0]) / (_NUDGE * unit)[:, None, None]).transpose(1, 2, 0)
            size = float(residuals @ residuals)
            if not np.isfinite(size) or not np.isfinite(slopes).all() or size >= least[i]:
                start[i] = (start[i] + best[i]) / 2  # half the way back
                continue
            least[i], best[i] = size, start[i]
            jac = np.where(tail.seen[:, :, None], slopes / noise[:, :, None], 0.0).reshape(-1, d)
            step, *_ = np.linalg.lstsq(jac, residuals, rcond=None)
            covariance = slopes[-1] @ np.linalg.pinv(jac.T @ jac) @ slopes[-1].T
            # what the member leaves of the samples beyond their noise is no smaller at their end
            excess = max(size / max(int(tail.seen.sum()) - d, 1), 1.0)
            values, vectors = np.linalg.eigh(excess * covariance)
            ends[i], roots[i] = path[i, 0, -1], vectors * np.sqrt(np.maximum(values, 0.0))
            start[i] = start[i] + step
    return ends, roots


def _paths(ensemble: EnsembleField, starts: np.ndarray, t: np.ndarray, which: np.ndarray) -> np.ndarray:
    solution = integrate(
        list(ensemble), starts, t, which=which, rtol=_RTOL, method=AUTO, max_steps=5000, escape=1e3
    )
    return solution.x


def _relevelled(paths: np.ndarray, weights: np.ndarray, levels: Levels) -> np.ndarray:
    """States (K, N, times, d) of equal weight whose quantiles are those of the paths at calibrated levels."""
    n = paths.shape[1]
    nominal = (2.0 * np.arange(n) + 1.0) / n - 1.0  # of a band that ends there, negative below the median
    of_paths = levels.of_paths(np.abs(nominal), paths.shape[-1])
    half = np.copysign(np.minimum(of_paths, WIDEST), nominal)
    median, *ends = _quantiles(paths, weights, (1.0 + np.append(0.0, half)) / 2.0)
    stretch = np.maximum(of_paths / WIDEST, 1.0)
    return (median + stretch[:, None, None, None] * (np.array(ends) - median)).swapaxes(0, 1)


def _dataset(
    trajectories: Trajectories,
    tails: Sequence[_Tail],
    ahead: np.ndarray,
    shares: np.ndarray,
    weights: np.ndarray,
    paths: np.ndarray,
    alive: np.ndarray,
) -> xr.Dataset:
    levels = np.concatenate([[0.5], (1 - shares) / 2, (1 + shares) / 2])
    quantiles = _quantiles(paths, weights, levels)
    median, low, high = quantiles[0], quantiles[1 : 1 + len(shares)], quantiles[1 + len(shares) :]
    dims = ("trajectory", "ahead", "state")
    found = {
        "median": (dims, median),
        "low": (("band", *dims), low),
        "high": (("band", *dims), high),
        "t": (("trajectory", "ahead"), np.array([tail.last + ahead for tail in tails])),
        "alive": (("trajectory", "ahead"), alive),
    }
    coords = {"state": list(trajectories.state_names), "ahead": ahead, "band": shares}
    return xr.Dataset(found, coords, {"units": str(dict(trajectories.units))} if trajectories.units else {})


def _quantiles(paths: np.ndarray, weights: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Weighted quantiles (levels, K, times, d) over the second axis; of the paths that got so far."""
    order = np.argsort(paths, axis=1)  # NaN last
    values = np.take_along_axis(paths, order, axis=1)
    share = np.where(np.isfinite(values), weights[order], 0.0)
    total = share.sum(axis=1, keepdims=True)
    below = (np.cumsum(share, axis=1) - share / 2) / np.where(total > 0, total, 1.0)
    out = np.full((len(levels), *paths.shape[:1], *paths.shape[2:]), np.nan)
    for place in np.ndindex(*total[:, 0].shape):
        at = (place[0], slice(None), *place[1:])
        alive = share[at] > 0
        if alive.any():
            out[(slice(None), *place)] = np.interp(levels, below[at][alive], values[at][alive])
    return out
