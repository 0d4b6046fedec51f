"""Models side by side on observations that they have not seen."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from fim_dynsys.analyze.results import PATIENCE, progress_bar
from fim_dynsys.errors import FitWarning, check_positive, check_whole, warn
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.symbolic import SymbolicField
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.inputs import Observations, as_trajectories
from fim_dynsys.models.parameters import separate
from fim_dynsys.models.paths import path_score
from fim_dynsys.threads import on_one_thread
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.ordering import in_order

_COLUMNS = ("path_r2", "path_error", "slope_error", "terms", "seconds")

Models = Mapping[str, Any] | Sequence[Any]
"""What users may pass as models, pysindy's own among them: by names of their own, or by registry names."""


@on_one_thread
def compare(
    models: Models,
    train: Observations,
    held_out: Observations | None = None,
    *,
    by: str | None = None,
    folds: int = 5,
    horizon: float | None = None,
    progress: bool | None = None,
) -> xr.Dataset:
    """Fit models to some observations and predict others; or cross-validate, where no others are given.

    Parameters
    ----------
    models : dict of str to model, or sequence of models
        Models of `fim_dynsys.load` and objects of ``pysindy.SINDy``. Fitted as copies: they stay as
        they are.
    train : Trajectories, Dataset or DataFrame
        What is fitted.
    held_out : Trajectories, Dataset or DataFrame, optional
        What is predicted. Default: parts of ``train`` in turn, see `by`.
    by : {"trajectory", "block"}, optional
        What a fold holds out: whole trajectories, every ``folds``-th of them; or one of so many blocks of
        consecutive samples of every trajectory, the samples before and after it being trajectories of their
        own. Default: by trajectory where there are as many as folds, else by block.
    folds : int
        Number of folds, two at least.
    horizon : float, optional
        Longest duration over which paths are predicted; longer records are cut, see
        ``model.score(metric="path")``. For chaos.
    progress : bool, optional
        Whether a bar with the time left is shown after two seconds; default on a terminal.

    Returns
    -------
    Dataset
        Over ``model`` and ``fold``; ``.to_dataframe()`` is a table. ``path_error`` and ``slope_error`` are
        root mean squares in standard deviations of the held-out states and slopes (infinite where a path or
        a slope is), ``path_r2`` is the score, ``terms`` counts the coefficients that are printed (NaN for
        fields that are not a finite sum of terms), ``seconds`` are those of the processor for the fit.
        `fim_dynsys.plot.comparison` draws it.

    Raises
    ------
    ValueError
        Where models have one name, arguments are not those above, or the observations are too few.

    Warns
    -----
    FitWarning
        A model refuses what it is to fit: its errors are infinite.

    See Also
    --------
    fim_dynsys.plot.comparison : Draws the table.
    VectorFieldModel.score : One model, one number.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> t = np.linspace(0, 5, 50)
    >>> data = fim_dynsys.Trajectories.from_arrays(3.0 * np.exp(-0.5 * t), t)
    >>> models = [fim_dynsys.load("sindy"), fim_dynsys.load("sindy-strong")]
    >>> table = fim_dynsys.compare(models, data, folds=2)
    >>> table["path_r2"].mean("fold").values.round(3)
    array([1., 1.])
    """
    named = _named(models)
    if horizon is not None:
        check_positive("compare", infinite=True, horizon=horizon)
    data = as_trajectories(train)
    if held_out is not None:
        if by is not None:
            raise ValueError(f"compare: expected by=None with held-out observations, got {by!r}.")
        splits = [(data, _alike(data, as_trajectories(held_out)))]
    else:
        splits = list(_splits(data, by, folds))
    values = np.empty((len(named), len(splits), len(_COLUMNS)))
    with progress_bar(progress, len(named) * len(splits), "compare", "fits", PATIENCE) as bar:
        for row, (name, model) in enumerate(named.items()):
            for fold, (seen, unseen) in enumerate(splits):
                values[row, fold] = _measured(name, model, seen, unseen, horizon)
                bar.update()
    return xr.Dataset(
        {name: (("model", "fold"), values[..., k]) for k, name in enumerate(_COLUMNS)},
        {"model": list(named), "fold": np.arange(len(splits))},
        {"horizon": "whole records" if horizon is None else horizon},
    )


def _named(models: Models) -> dict[str, VectorFieldModel]:
    if not isinstance(models, Mapping | list | tuple):
        raise ValueError(f"compare: expected a dict or a list of models, got {type(models).__name__}.")
    if isinstance(models, Mapping):
        named = list(models.items())
    else:
        named = [("pysindy" if _is_stock(m) else getattr(m, "name", ""), m) for m in models]
    pairs = [(str(name), _wrapped(model)) for name, model in named]
    wrong = [type(model).__name__ for _, model in pairs if not isinstance(model, VectorFieldModel)]
    if wrong or not pairs:
        raise ValueError(
            "compare: expected models as fim_dynsys.load gives them, or pysindy.SINDy, got "
            f"{', '.join(wrong) or 'none'}."
        )
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError(f"compare: expected models of different names, got {names}; pass a dict.")
    return dict(pairs)


def _is_stock(model: object) -> bool:
    """Whether a model is pysindy's own, found without importing pysindy."""
    return type(model).__module__.partition(".")[0] == "pysindy"


def _wrapped(model: Any) -> Any:
    """pysindy's own model behind the interface of the others; any other as it is."""
    if not _is_stock(model):
        return model
    from fim_dynsys.models.sindy import SINDy  # loads pysindy, which is loaded already

    return SINDy.of_stock(model)


def _alike(train: Trajectories, held_out: Trajectories) -> Trajectories:
    """The held-out observations, which must be of the states and inputs of those to be fitted."""
    expected, got = ((*data.state_names, *data.input_names) for data in (train, held_out))
    if train.dim != held_out.dim or len(expected) != len(got):
        raise ValueError(
            f"compare: expected held-out observations of the {train.dim} states and "
            f"{len(train.input_names)} inputs of train ({', '.join(expected)}), got {held_out.dim} and "
            f"{len(held_out.input_names)} ({', '.join(got)}); give both the same columns."
        )
    return in_order("compare", held_out, train.state_names, train.input_names)


def _measured(
    name: str, model: VectorFieldModel, seen: Trajectories, unseen: Trajectories, horizon: float | None
) -> tuple[float, ...]:
    copy = separate(model)
    began = time.process_time()
    try:
        copy.fit(seen)
    except ValueError as error:  # a model that refuses these data has failed on them, the others go on
        warn(f"compare: {name} failed: {error}", FitWarning)
        return -np.inf, np.inf, np.inf, np.nan, time.process_time() - began
    seconds = time.process_time() - began
    path_r2 = path_score("compare", copy.field_, unseen, horizon)
    field = copy.field_
    known = isinstance(field, DictionaryField | DrivenField | SymbolicField)
    return (
        path_r2,
        float(np.sqrt(1.0 - path_r2)),
        _slope_error(copy, unseen),
        copy.complexity if known else np.nan,
        seconds,
    )


def _slope_error(model: VectorFieldModel, unseen: Trajectories) -> float:
    field, pairs = model.field_, unseen.arrays()
    usable = [k for k, (t, _) in enumerate(pairs) if len(t) >= 3]
    if not usable:
        raise ValueError("compare: expected held-out stretches of three samples at least, got shorter ones.")
    slopes = np.concatenate([model.differentiate(pairs[k][1], pairs[k][0]) for k in usable])
    states = np.concatenate([pairs[k][1] for k in usable])
    rows = np.isfinite(slopes).all(axis=1) & np.isfinite(states).all(axis=1)
    if isinstance(field, DrivenField):
        inputs = unseen.input_arrays()
        found = field(states[rows], np.concatenate([inputs[k] for k in usable])[rows])
    else:
        found = field(states[rows])
    if not np.isfinite(found).all():
        return np.inf
    about = np.sum((slopes[rows] - slopes[rows].mean(axis=0)) ** 2, axis=0)
    squares = np.sum((slopes[rows] - found) ** 2, axis=0)
    return float(np.sqrt(np.mean(squares[about > 0] / about[about > 0])))


def _splits(data: Trajectories, by: str | None, folds: int) -> Iterator[tuple[Trajectories, Trajectories]]:
    """What is fitted and what is predicted in each fold."""
    check_whole("compare", 2, folds=folds)
    if by is None:
        by = "trajectory" if len(data) >= folds else "block"
    if not isinstance(by, str) or by not in ("trajectory", "block"):
        raise ValueError(f"compare: expected by 'trajectory' or 'block', got {by!r}.")
    if by == "trajectory":
        if len(data) < folds:
            raise ValueError(
                f"compare: expected at least {folds} trajectories for as many folds, got {len(data)}; "
                "lower folds, or hold out blocks."
            )
        for k in range(folds):
            out = np.arange(len(data)) % folds == k
            yield data[np.flatnonzero(~out)], data[np.flatnonzero(out)]
        return
    lengths = data.n_obs
    if lengths.max() < 3 * folds:
        raise ValueError(
            f"compare: expected a trajectory of {3 * folds} samples for {folds} blocks, got {lengths.max()} "
            "at most; lower folds."
        )
    for k in range(folds):
        edges = [(round(n * k / folds), round(n * (k + 1) / folds)) for n in lengths.tolist()]
        before_and_after = [
            (i, part) for i, (a, b) in enumerate(edges) for part in (slice(0, a), slice(b, int(lengths[i])))
        ]
        yield _cut(data, before_and_after), _cut(data, [(i, slice(*edge)) for i, edge in enumerate(edges)])


def _cut(data: Trajectories, parts: Sequence[tuple[int, slice]]) -> Trajectories:
    """Stretches of the trajectories as trajectories of their own; single samples are left out."""
    parts = [(i, part) for i, part in parts if part.stop - part.start >= 2]
    pairs, inputs = data.arrays(), data.input_arrays()
    return Trajectories.from_arrays(
        [pairs[i][1][part] for i, part in parts],
        [pairs[i][0][part] for i, part in parts],
        state_names=data.state_names,
        coords={name: value[[i for i, _ in parts]] for name, value in data.coords.items()},
        units=data.units,
        u=[inputs[i][part] for i, part in parts] if data.input_names else None,
        input_names=data.input_names or None,
    ).with_hold(data.hold)
