"""Inference without the samples that neither their neighbours nor the field found without them explain."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.models.judging import between, judged
from fim_dynsys.regression.inputs import kinks
from fim_dynsys.regression.outliers import beside, beyond
from fim_dynsys.trajectories.container import Trajectories

_F = TypeVar("_F", bound=VectorField)
_AROUND = 1  # samples beside one at which an input switches: paths bend there
_BACK = 0.75  # turns: a longer step is one back
_MOSTLY = 0.8  # share of such steps behind which the path goes on as before
_ROUNDED = 1.001  # turns: rounded angles may exceed one
_FREQUENT = 0.05  # of the samples: so many beside their neighbours need no confirmation


def inferred_robustly(
    infer: Callable[[Trajectories, Trajectories], _F], complete: Trajectories, context: Trajectories
) -> _F | None:
    """The field of samples some of which look like outliers.

    Samples far from their neighbours are left out; then those are that are far from the path of the field
    found without them, and no others. They are none where the field of all samples follows them too. The
    field's context holds what was not left out.

    Parameters
    ----------
    infer : callable
        From complete samples, and the context that is to be the field's, to a field.
    complete, context : Trajectories
        Complete samples, and the observations as given.

    Returns
    -------
    VectorField or None
        None where no sample is far from its neighbours; the field of all samples where those are no outliers.
    """
    suspected = beside(complete.arrays())
    if not any(rows.any() for rows in suspected):
        return None
    whole = infer(complete, context)
    about_whole = _beyond(whole, complete, suspected)
    if about_whole is not None and not _share(about_whole, suspected):
        return whole
    seen = complete.select_samples([np.flatnonzero(~rows) for rows in suspected])
    field = infer(seen, seen)
    outside = _beyond(field, complete, suspected)
    if outside is None:  # as in chaos
        if about_whole is not None or seen.n_obs.sum() > (1.0 - _FREQUENT) * complete.n_obs.sum():
            return whole
    else:
        if not _share(outside, suspected if about_whole is None else about_whole):
            return whole
        kept = complete.select_samples([np.flatnonzero(~rows) for rows in outside])
        if not kept.equals(seen):
            seen, field = kept, infer(kept, kept)
    return _noted(field, int((complete.n_obs - seen.n_obs).sum()))


def samples_of(field: VectorField, context: Trajectories) -> Trajectories:
    """The observations without those that were left out of them as outliers."""
    if not field.fit_info.inference.outliers or field.context is None:
        return context
    return field.context


def suspects(trajectories: Trajectories) -> np.ndarray:
    """Times (n,) of samples that may be outliers: far from their neighbours, where no input switches."""
    found = []
    for (t, x), u in zip(trajectories.arrays(), trajectories.input_arrays(), strict=True):
        rows = np.flatnonzero(np.isfinite(x).all(axis=1))
        (out,) = beside([(t[rows], x[rows])])
        if u.size and len(t) > 1:
            bends = np.convolve(kinks(t, u, trajectories.hold), np.ones(2 * _AROUND + 1), "same") > 0
            out &= ~bends[rows]
        found.append(t[rows][out])
    return np.concatenate(found)


def wrapped_angles(trajectories: Trajectories) -> dict[str, float]:
    """States (name: turn) that jump back by a turn, in radians or degrees, wherever they come to its end."""
    found = {}
    for k, name in enumerate(trajectories.state_names):
        columns = [x[np.isfinite(x[:, k]), k] for _, x in trajectories.arrays()]
        values = np.concatenate(columns)
        for turn in (2.0 * np.pi, 360.0):
            goes_on = np.concatenate([_goes_on(x, turn) for x in columns])
            if len(goes_on) and goes_on.mean() > _MOSTLY and np.ptp(values) <= turn * _ROUNDED:
                found[name] = turn
    return found


def _goes_on(x: np.ndarray, turn: float) -> np.ndarray:
    """For each step (k,) back by a turn, whether the path would go on as before without it."""
    back = np.flatnonzero(np.abs(np.diff(x)) > _BACK * turn)
    steps = np.diff(np.unwrap(x, period=turn))
    inner = back[(back > 0) & (back < len(steps) - 1)]
    before, after = steps[inner - 1], steps[inner + 1]
    return np.abs(steps[inner] - (before + after) / 2.0) <= np.maximum(np.abs(before), np.abs(after)) / 2.0


def with_outliers_of(field: _F, other: VectorField) -> _F:
    """A field of the same samples as another, which says of outliers what the other does."""
    count = other.fit_info.inference.outliers
    return _noted(field, count) if count else field


def _noted(field: _F, count: int) -> _F:
    said = f"{count} outlier{'s' if count > 1 else ''} left out"
    return field.with_fit_info(inference=replace(field.fit_info.inference, outliers=count).noting(said))


def _share(some: list[np.ndarray], others: list[np.ndarray]) -> bool:
    """Whether any sample is among both."""
    return any((rows & other).any() for rows, other in zip(some, others, strict=True))


def _beyond(
    field: VectorField, complete: Trajectories, suspected: list[np.ndarray]
) -> list[np.ndarray] | None:
    """Which samples are outliers about the field's paths; None where these do not explain the others."""
    starts = field.fit_info.initial_states
    if starts is None:
        return None
    pairs = complete.arrays()
    inputs = [between(field, t, u) for (t, _), u in zip(pairs, complete.input_arrays(), strict=True)]
    paths = judged(field, list(starts), [t for t, _ in pairs], inputs).paths
    return beyond([x for _, x in pairs], paths, suspected)
