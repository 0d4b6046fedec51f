"""How well a fit fits: its path against the data, and what it leaves of them against their noise."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.inference import Judge
from fim_dynsys.models.restarts import (
    Corrected,
    Stretch,
    bounded,
    distances,
    paths_over,
    quick,
    windows_of,
)
from fim_dynsys.models.scarcity import FEW
from fim_dynsys.models.unrelated import unrelated_samples, unrelated_steps
from fim_dynsys.regression.criteria import Known, Noise, autocorrelation, noise_model, precise
from fim_dynsys.regression.gaps import completed
from fim_dynsys.regression.inputs import curves
from fim_dynsys.regression.smoothing import smoothing_bank
from fim_dynsys.trajectories.container import Trajectories

_WIDTHS = (1.0, 3.0, 8.0)  # of local cubics, in mean gaps
_ACCURACY = 1e-3  # standard deviations: nothing is asked beyond
_MISSED = 4.0  # noise levels by which a smoothed state is off that is not believed
_STILL = 1e-9  # of its size: a state that varies less does not move
_APART = 0.5  # standard deviations beyond twice the noise: the path no longer follows
_AWAY = 10.0  # standard deviations: the path has left the data
_ESTIMATED = 1e9  # so long a unit makes nothing of errors in what was not observed
_POOR, _POOR_AHEAD = 0.5, 0.6  # R2 of the path and of the windows below which a fit fails
_NOTHING = 0.1  # R2 below which a field explains nothing
_NO_STEP, _AT_LARGE = 0.2, 0.97  # R2 in windows and of the path, below which steps are not explained
_DIFFER = 0.3  # of the spread of its rates: models of noise-free samples that differ by so much are not one
_NOTICED, _SMALL = 3.0, 0.1  # noise levels, and standard deviations, beyond which it fails too
_GIVEN = 2.0  # noise levels that were given: standard errors are then too small by half
_ASIDE = 1.5  # noise levels by which a path misses; right equations leave 1.2 at most, nearly uncorrelated
_FOLLOWING, _CHANCE = 0.4, 4.0  # autocorrelation of misses that are no noise, and its standard errors
_BESIDE, _TOGETHER = 0.01, 0.3  # standard deviations: of another start, and of paths that chaos drives apart
_SYSTEMATIC = 1.5  # noise levels, beyond which starts are corrected before more is made of what is left
_INTEGRATED = 2e-5  # standard deviations that samples may be off which were integrated to a relative 1e-6
_NEARLY = 1e-4  # the same, beyond which equations are not those of noise-free samples
_FITTED_AWAY = 0.3  # noise levels: fits miss samples by more, unless the level is one of wide gaps
_BEYOND_NOISE = 10.0  # the same: misses that are no noise


def compared(field: VectorField, context: Trajectories, sigma: Known | None = None) -> FitInfo:
    """The field's `fit_info` with how well the field fits the data; see `FitInfo`.

    The field is integrated from the fitted starts (else the smoothed first samples) over the whole record,
    and from smoothed states over windows in which the state travels one standard deviation: a chaotic path,
    which nothing follows for long, is judged by these.

    Parameters
    ----------
    field : VectorField
        Inferred.
    context : Trajectories
        The observations, of which single states may be missing.
    sigma : list of arrays (n, d), or Noise, optional
        Known errors of the observations, by which they count; ones that are far worse than most are left out.

    Returns
    -------
    FitInfo
        As it was where no trajectory has two complete samples, or no state moves.
    """
    info = field.fit_info
    try:
        whole = completed(None, context, sigma)
    except ValueError:  # nowhere all states are known
        return info
    pairs, errors = whole.trajectories.arrays(), None if isinstance(whole.errors, Noise) else whole.errors
    rows: list[np.ndarray] = [np.ones(len(t), dtype=bool) for t, _ in pairs]
    if errors is not None:
        rows = [np.logical_and.reduce(well, axis=1) for well in precise(errors, [x for _, x in pairs])]
    kept = [k for k, complete in enumerate(rows) if complete.sum() >= 2]
    if not kept:
        return info
    every = np.concatenate([pairs[k][1][rows[k]] for k in kept])
    with np.errstate(over="ignore", invalid="ignore"):
        unit = every.std(axis=0)
    size = np.abs(every).max(axis=0)
    moves = unit > _STILL * size
    if not (np.isfinite(unit).all() and moves.any()):
        return info
    unit = np.where(moves, unit, np.where(size > 0, size, 1.0))
    observed = info.inference.positions or context.state_names
    unit = np.where(np.isin(context.state_names, observed), unit, _ESTIMATED * unit)
    samples = [(pairs[k][0][rows[k]] - pairs[k][0][rows[k]][0], pairs[k][1][rows[k]] / unit) for k in kept]
    level = _noise(info, samples, unit)
    smooth = [_smoothed(t, z, level) for t, z in samples]
    starts = [states[0] for states, _ in smooth]
    begun = [t[0] for t, _ in context.arrays()]
    if info.initial_states is not None and np.shape(info.initial_states) == (len(begun), field.dim):
        for i, k in enumerate(kept):
            begins = len(pairs) == len(begun) and pairs[k][0][0] == begun[k] and rows[k][0]
            starts[i] = np.asarray(info.initial_states[k]) / unit if begins else starts[i]
    slopes = np.concatenate([v for _, v in smooth])
    pace = 1.0 / max(float(np.sqrt(np.mean(slopes**2))), 1.0 / max(float(t[-1]) for t, _ in samples))
    roots = [np.ones(z.shape) for _, z in samples]
    if errors is not None:
        given = [errors[k][rows[k]] for k in kept]  # nan where they are not known, inf where nothing was seen
        roots = [np.where(np.isnan(error), 1.0, level * unit / error) for error in given]
    inputs = [_inputs(whole.trajectories, k, rows[k]) for k in kept]
    each = zip(samples, starts, roots, inputs, strict=True)
    records = [Stretch(t, z, start, root, *known) for (t, z), start, root, known in each]
    windows = windows_of(records, smooth, pace)
    stretches = [*records, *windows]
    paths, endings = paths_over(field, stretches, unit, len(records))
    # fewer may be noisy ones, of which no record shows it
    exact = info.inference.judge is Judge.EXACT and max(len(z) for _, z in samples) > FEW
    apart = distances(stretches, paths, unit)
    along, ahead = apart[: len(records)], apart[len(records) :]
    least = np.maximum(level, _ACCURACY)
    left = _left(windows, ahead)
    if exact and np.max(left) > _INTEGRATED:  # samples without noise are better starts than smoothed states
        at_samples = [window._replace(start=window.x[0]) for window in windows]
        again, _ = paths_over(field, at_samples, unit, 0)
        left = min(left, _left(at_samples, distances(at_samples, again, unit)), key=np.max)
    elif not exact and np.max(left / least) > _SYSTEMATIC and quick(field):
        corrected = Corrected(field, unit, least, np.isin(context.state_names, observed))
        left = _left(windows, corrected.apart(windows, paths[len(records) :]))
    found = _judged(records, windows, along, ahead, left, level, endings, exact)
    everywhere = _root_mean_square(np.concatenate(along), np.concatenate([r.root for r in records]), 0)
    # Approximations miss noise-free states, and equations that are to be exact are judged by that; such small
    # misses of others are those of other equations. Inputs are known less well.
    noisy = (level > _ACCURACY) | (not context.input_names)
    missed = np.minimum(left, everywhere) / np.maximum(level, _NEARLY)
    beyond = float(np.max(missed[noisy], initial=0.0))
    # from fitted starts alone, and not where chaos drives paths away
    begins = info.initial_states is not None and not info.inference.windows and found["follows"] == 1.0
    aside = _aside(records, paths, unit, level) if begins else 0.0
    elsewhere = info.inference.elsewhere
    if exact and elsewhere is not None and elsewhere > _DIFFER:
        said = "equations that come as close to the noise-free samples have other rates elsewhere"
        found["problems"] += (f"{said}: an approximation",)
    if whole.errors is None:
        found["problems"] += _no_flow([x for _, x in samples], found)
    if not found["problems"] and found["path_r2"] < _POOR and found["follows"] < _POOR:
        found["problems"] = _strays(field, records, paths, unit, found)
    noticed = _NOTICED if errors is None else _GIVEN
    is_said = (beyond > noticed or aside > _ASIDE) and not (exact or found["problems"])
    # of few samples the noise is not known unless it was given: estimates may be zero
    is_said &= whole.errors is not None or sum(len(z) for _, z in samples) > FEW
    facts = replace(info.inference, beyond_noise=max(beyond, aside) if is_said else None)
    return replace(info, **found, inference=facts)


def _inputs(trajectories: Trajectories, k: int, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times (r,) from the first sample on, and the inputs between these: cubics (r - 1, 4, m)."""
    t, u, at = trajectories.arrays()[k][0], trajectories.input_arrays()[k], np.flatnonzero(samples)
    if not u.shape[1]:
        return t[at] - t[at[0]], np.empty((len(at) - 1, 4, 0))
    first, last = at[[0, -1]]
    return t[first : last + 1] - t[first], curves(t, u, trajectories.hold).cubics[first:last]


def _judged(
    records: Sequence[Stretch],
    windows: Sequence[Stretch],
    along: Sequence[np.ndarray],
    ahead: Sequence[np.ndarray],
    left: np.ndarray,
    level: np.ndarray,
    endings: Sequence[str],
    exact: bool,
) -> dict:
    """The entries of `FitInfo`, from distances (n, d) of the path to the samples of each stretch.

    ``left`` (d,) is what windows leave whose starts were corrected within the noise, or are samples without
    noise. ``endings`` says why paths over whole records ended early: these have no score. ``exact`` says that
    the samples were taken for noise-free ones.
    """
    seen, roots = np.concatenate([r.x[1:] for r in records]), np.concatenate([r.root[1:] for r in records])
    still = np.concatenate([(w.x - w.start) * w.root for w in windows])
    off = [_root_mean_square(a, r.root, 1) for a, r in zip(along, records, strict=True)]
    limit = _APART + 2.0 * float(np.sqrt(np.mean(level**2)))
    ends = [float(r.t[-1]) for r in records]
    times = [
        float(r.t[np.argmax(o > limit)]) if (o > limit).any() else end
        for r, o, end in zip(records, off, ends, strict=True)
    ]
    # the first samples are where paths start, and no prediction
    centre = np.average(seen, axis=0, weights=np.maximum(roots**2, 1e-300))  # 0: not observed
    path_r2 = _explained(np.concatenate([a[1:] for a in along]), (seen - centre) * roots)
    path_r2 = -np.inf if endings else path_r2
    window_r2 = _explained(np.concatenate(ahead), still)
    least = np.maximum(level, _ACCURACY)
    over = float(np.max(left / least))
    # errors of starts grow in fast transients: windows are no problem of a path that follows all samples
    everywhere = _root_mean_square(np.concatenate(along), np.concatenate([r.root for r in records]), 0)
    on_whole = float(np.max(everywhere / least))
    follows = sum(times) / sum(ends) if sum(ends) > 0 else 0.0
    problems = list(endings[:1])
    if max(map(np.max, off)) > _AWAY:
        problems.append("its path leaves the data")
    if min(over, on_whole) > _NOTICED and left.max() > _SMALL:
        problems.append(f"restarted in short windows it leaves {over:.2g} times the noise")
    # fast transients need accurate starts, and chaos short windows: equations that are exact pass one of both
    missed = min(float(left.max()), float(np.sqrt(1.0 - path_r2)))
    noise = float(level.max())
    as_noise = _FITTED_AWAY * noise < missed < _SYSTEMATIC * noise
    if exact and not problems and missed > max(_BEYOND_NOISE * noise, _NEARLY):
        said = f"{100.0 * missed:.1g} % of their spread"
        problems.append(f"it misses noise-free samples by {said}: an approximation")
    if not endings and path_r2 < _POOR and window_r2 < _POOR_AHEAD and follows < _POOR:
        problems.append(
            f"its path has R2 {path_r2:.2g} and follows {100 * follows:.0f} % of the record, and R2 "
            f"{window_r2:.2g} in short windows"
        )
    return {
        "path_r2": path_r2,
        "window_r2": window_r2,
        "residual_over_noise": over,
        "follows": follows,
        "follows_for": float(np.mean(times)),
        "to_precision": missed < _INTEGRATED or as_noise if exact else None,
        "problems": tuple(problems),
    }


def _aside(
    records: Sequence[Stretch], paths: Sequence[np.ndarray], unit: np.ndarray, level: np.ndarray
) -> float:
    """Noise levels by which paths miss noisy samples where misses follow each other, as no noise does.

    Of the state where it is largest; 0 where none is noisy. Windows restart, and may leave hardly anything.
    """
    off = np.concatenate([p / unit - r.x for p, r in zip(paths, records, strict=False)])
    root = np.concatenate([r.root for r in records])
    noisy = (level > _ACCURACY) & np.isfinite(off).all(axis=0) & (root > 0.0).all(axis=0)
    if not noisy.any():
        return 0.0
    off = (off * root)[:, noisy]
    missed = np.sqrt(np.mean(off**2, axis=0)) / level[noisy]
    following = autocorrelation(off) > max(_FOLLOWING, _CHANCE / np.sqrt(len(off)))
    return float(np.max(missed[following], initial=0.0))


def _left(windows: Sequence[Stretch], ahead: Sequence[np.ndarray]) -> np.ndarray:
    """Root mean square (d,) of what windows leave."""
    return _root_mean_square(np.concatenate(ahead), np.concatenate([w.root for w in windows]), 0)


def _root_mean_square(apart: np.ndarray, root: np.ndarray, axis: int) -> np.ndarray:
    """Of distances (n, d) along an axis, those to values that were observed."""
    seen = np.maximum(np.count_nonzero(root > 0.0, axis=axis), 1)
    return np.sqrt(np.sum(apart**2, axis=axis) / seen)


def _no_flow(samples: Sequence[np.ndarray], found: Mapping[str, Any]) -> tuple[str, ...]:
    """Why no field of these states explains the samples, where the field that was fitted does not.

    A path may follow the excursions of a random walk at large (R2 .9) by equations that explain none of its
    steps.
    """
    said = None
    if found["path_r2"] < _NOTHING and found["window_r2"] < _POOR_AHEAD:
        said = unrelated_samples(samples)
    aimless = found["residual_over_noise"] > _SYSTEMATIC and found["window_r2"] < _NO_STEP
    aimless = aimless and found["path_r2"] < _AT_LARGE
    if said is None and (aimless or (found["problems"] and found["window_r2"] < _NOTHING)):
        said = unrelated_steps(samples)
    return () if said is None else (said,)


def _strays(
    field: VectorField,
    records: Sequence[Stretch],
    paths: Sequence[np.ndarray],
    unit: np.ndarray,
    found: Mapping[str, Any],
) -> tuple[str, ...]:
    """That a path misses the record where paths from nearby starts stay together: it is not chaos."""
    beside, _ = paths_over(field, [r._replace(start=r.start + _BESIDE) for r in records], unit, 0)
    apart = np.concatenate([(b - p) / unit for b, p in zip(beside, paths, strict=False)])
    if not float(np.sqrt(np.mean(bounded(np.abs(apart)) ** 2))) < _TOGETHER:
        return ()
    return (
        f"its path follows {100 * found['follows']:.0f} % of the record and has R2 {found['path_r2']:.2g}, "
        "although paths from nearby starts stay together",
    )


def _explained(residual: np.ndarray, given: np.ndarray) -> float:
    """Share of the sum of squares of what is given that is not left over."""
    total = float(np.sum(given**2))
    return 1.0 - float(np.sum(residual**2)) / total if total > 0 else 1.0


def _noise(info: FitInfo, samples: Sequence[tuple[np.ndarray, np.ndarray]], unit: np.ndarray) -> np.ndarray:
    """Noise (d,) in standard deviations of the states: as the model has it, else estimated."""
    if info.noise_level is not None and np.shape(info.noise_level) == unit.shape:
        return np.asarray(info.noise_level, dtype=float) / unit
    return noise_model(samples).level


def _smoothed(t: np.ndarray, z: np.ndarray, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """States and slopes (n, d) of the widest local cubics that leave hardly more than the noise.

    Where the cubics miss samples by far, as in fast transients, the states are these.
    """
    states, slopes = smoothing_bank(t, z, _WIDTHS)
    residual = np.sqrt(np.mean((states[:-1] - z) ** 2, axis=1))
    fine = np.flatnonzero((residual <= 1.1 * np.maximum(level, _ACCURACY)).all(axis=1))
    best = int(fine[-1]) if len(fine) else 0
    missed = np.abs(states[best] - z) > _MISSED * np.maximum(level, _ACCURACY)
    return np.where(missed, z, states[best]), slopes[best]
