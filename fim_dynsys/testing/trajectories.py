"""The contract of models that learn from trajectories and forecast, with a vector field or without."""

import pickle
import tempfile
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.base import clone

from fim_dynsys.models.base import ModelKind, TrajectoryModel
from fim_dynsys.registry import load_fitted
from fim_dynsys.simulation.problem import Status
from fim_dynsys.testing.requirements import SAME, bad_data, close, example_data, refused, require, trains
from fim_dynsys.trajectories.container import Trajectories

Factory = Callable[[], TrajectoryModel]

_FAR = (1e3, 1e8, 1e200)  # starts that a forecast may fail from, in units of the data's size


def check_trajectory_model(factory: Factory, dim: int = 2, cheap: bool | None = None) -> None:
    """Hold a model to the contract of `TrajectoryModel`, on two short trajectories of unequal length.

    The model is fitted four times, to 80 observations at most; twice in the cheap mode, which leaves out
    gaps in the data and a second fit with the same seed. Seeds are the factory's to set.

    Parameters
    ----------
    factory : callable
        ``factory()`` gives the model, unfitted.
    dim : int
        States of the example data.
    cheap : bool, optional
        Default: whether the model is registered as one that needs training.

    Raises
    ------
    AssertionError
        Naming what does not hold.

    See Also
    --------
    check_model : Models with a vector field.

    Examples
    --------
    >>> from fim_dynsys import testing
    >>> try:
    ...     testing.check_trajectory_model(object)
    ... except AssertionError as error:
    ...     print(error)
    expected a TrajectoryModel, got object
    """
    model = factory()
    require(isinstance(model, TrajectoryModel), f"expected a TrajectoryModel, got {type(model).__name__}")
    cheap = trains(model.name) if cheap is None else cheap
    context = _irregular(dim)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _check_description(model)
        refused(lambda: model.forecast(np.zeros(dim), np.arange(3.0)), "forecast before fit")
        require(model.fit(context) is model, "fit: expected to return the model itself")
        _check_forecast(model, context)
        _check_failure(model, context)
        _check_refusals(model, context)
        _check_persistence(factory, model, context)
        _check_arrays(factory, model, context)
        if not cheap:
            _check_repetition(factory, model, context)
            _check_gaps(factory, context)


def _irregular(dim: int) -> Trajectories:
    """The example data, less a third of the samples at random, with names of their own."""
    rng = np.random.default_rng(7)
    x, t = example_data(dim)
    kept = [np.sort(rng.permutation(len(v))[: -(-2 * len(v) // 3)]) for v in t]
    return Trajectories.from_arrays(
        [v[k] for v, k in zip(x, kept, strict=True)],
        [v[k] for v, k in zip(t, kept, strict=True)],
        state_names=[f"state {k}" for k in range(dim)],
    )


def _check_description(model: TrajectoryModel) -> None:
    require(isinstance(model.name, str) and str(model.version), "name and version: expected text")
    kind = getattr(model, "kind", None)
    require(isinstance(kind, ModelKind), f"kind: expected a ModelKind, got {kind!r}")


def _starts(context: Trajectories) -> np.ndarray:
    return np.stack([x[0] for _, x in context.arrays()])


def _check_forecast(model: TrajectoryModel, context: Trajectories) -> None:
    """Trajectories at all the times asked for, one for each state, under the names of the data."""
    (t, _), starts = context.arrays()[0], _starts(context)
    one = model.forecast(starts[0], t)
    require(isinstance(one, Trajectories), f"forecast: expected Trajectories, got {type(one).__name__}")
    shape = (1, len(t), context.dim)
    require(one.x.shape == shape, f"forecast of one state: expected {shape}, got {one.x.shape}")
    require(
        one.state_names == context.state_names,
        f"forecast: expected the states {context.state_names}, got {one.state_names}",
    )
    _check_status(one)
    several = model.forecast(starts, t)
    require(len(several) == len(starts), f"forecast: expected {len(starts)}, got {len(several)}")
    size = np.nanmax(np.abs(starts))
    close(several.x[0], one.x[0], SAME, size, "forecast: a state alone differs from the same among others")
    each = np.stack([t, 0.5 * t])
    ahead = model.forecast(starts, each)
    for what, got, wanted in (("shared", several, np.stack([t, t])), ("own", ahead, each)):
        require(np.array_equal(got.t, wanted), f"forecast to {what} times: expected all of them, in order")
        _check_status(got)
    require(np.isfinite(several.x).all(), "forecast over the observed times: expected finite states")


def _check_status(forecast: Trajectories) -> None:
    """From the failure on all states are NaN, and the status tells of it exactly where there are some."""
    require("status" in forecast.coords, "forecast: expected a status for each trajectory")
    for x, status in zip(forecast.x, forecast.status, strict=True):
        finite = np.isfinite(x)
        require((finite.all(axis=1) == finite.any(axis=1)).all(), "forecast: a state that is NaN in part")
        rows = finite.all(axis=1)
        require((np.diff(rows.astype(int)) <= 0).all(), "forecast: states after a failure, expected NaN")
        ended = status == Status.SUCCESS
        require(bool(ended) == bool(rows.all()), f"forecast: status {Status(int(status)).name} is not so")


def _check_failure(model: TrajectoryModel, context: Trajectories) -> None:
    """From far out a forecast may fail, in the way it should, and keeps all its times."""
    t = np.linspace(0.0, 50.0, 11)
    starts = np.stack([np.abs(_starts(context)).max() * far * np.ones(context.dim) for far in _FAR])
    forecast = model.forecast(starts, t)
    require(forecast.x.shape == (len(_FAR), len(t), context.dim), "forecast from far out: times are lost")
    _check_status(forecast)


def _check_refusals(model: TrajectoryModel, context: Trajectories) -> None:
    """Bad input is refused with ValueError and leaves the earlier fit alone."""
    (t, x), start = context.arrays()[0], _starts(context)[0]
    before = model.forecast(start, t)
    for what, call in bad_data(model.fit, x, t).items():
        refused(call, what)
    wide = np.zeros(context.dim + 1)
    refused(lambda: model.forecast(wide, t), "forecast from another dimension")
    refused(lambda: model.forecast(start, 3.0), "forecast to a scalar time")
    refused(lambda: model.forecast(start, np.array([0.0, np.nan])), "forecast to a NaN time")
    refused(lambda: model.forecast(np.full(context.dim, np.nan), t), "forecast from a NaN state")
    again = model.forecast(start, t)
    require(np.array_equal(again.x, before.x, equal_nan=True), "a refused call changed the fitted model")


def _check_persistence(factory: Factory, model: TrajectoryModel, context: Trajectories) -> None:
    """Pickling gives the same forecast; so do `save` and `load_fitted`, and cloning, where offered."""
    (t, _), starts = context.arrays()[0], _starts(context)
    expected = model.forecast(starts, t).x
    again = pickle.loads(pickle.dumps(model))
    require(np.array_equal(again.forecast(starts, t).x, expected), "pickling the model: forecasts change")
    get_params = getattr(model, "get_params", None)
    if get_params is not None:
        fresh = clone(model)
        refused(lambda: fresh.forecast(starts, t), "a clone's forecast before fit")
        require(fresh.get_params().keys() == get_params().keys(), "clone: other parameters")
    save = getattr(model, "save", None)
    if save is not None:
        with tempfile.TemporaryDirectory() as folder:
            save(folder)
            restored = load_fitted(folder, factory=lambda **params: _with(factory(), params))
        close(
            restored.forecast(starts, t).x,
            expected,
            SAME,
            np.abs(expected).max(),
            "save and load_fitted: forecasts change",
        )


def _with(model: TrajectoryModel, params: dict) -> TrajectoryModel:
    set_params = getattr(model, "set_params", None)
    return model if set_params is None else set_params(**params)


def _check_arrays(factory: Factory, model: TrajectoryModel, context: Trajectories) -> None:
    """Lists of arrays are the same data under default names."""
    (t, _), start, pairs = context.arrays()[0], _starts(context)[0], context.arrays()
    other = factory().fit([x for _, x in pairs], [t for t, _ in pairs])
    forecast, expected = other.forecast(start, t), model.forecast(start, t)
    names = tuple(f"x{k}" for k in range(context.dim))
    require(forecast.state_names == names, f"fit to arrays: expected {names}, got {forecast.state_names}")
    size = np.abs(expected.x).max()
    close(forecast.x, expected.x, 1e-6, size, "fit to arrays: another forecast than of Trajectories")


def _check_repetition(factory: Factory, model: TrajectoryModel, context: Trajectories) -> None:
    (t, _), starts = context.arrays()[0], _starts(context)
    expected = model.forecast(starts, t).x
    again = factory().fit(context).forecast(starts, t).x
    # sums of threads may come in another order; training amplifies that
    close(again, expected, 1e-6, np.abs(expected).max(), "equal seeds give another forecast")


def _check_gaps(factory: Factory, context: Trajectories) -> None:
    """Missing observations are used, dropped, or refused by the model itself."""
    pairs = context.arrays()
    gaps = [x.copy() for _, x in pairs]
    gaps[0][5:8] = np.nan
    gaps[1][9, 0] = np.nan
    model, t = factory(), pairs[0][0]
    try:
        model.fit(gaps, [times for times, _ in pairs])
    except ValueError as error:
        named = any(name in str(error) for name in (model.name, type(model).__name__))
        require(named, f"missing observations: expected an error that names the model, got: {error}")
        return
    require(
        np.isfinite(model.forecast(_starts(context)[0], t).x).all(),
        "missing observations: expected finite forecasts",
    )
