"""The contract of models that infer vector fields."""

import contextlib
import io
import pickle
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from fim_dynsys.fields.equation_text import left_side
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.inputs import as_trajectories
from fim_dynsys.registry import load_fitted
from fim_dynsys.testing.fields import check_field, sample_points
from fim_dynsys.testing.inputs import (
    Data,
    Factory,
    check_gaps,
    check_refusals,
    check_scaling,
    check_warnings,
    largest_dim,
)
from fim_dynsys.testing.requirements import SAME, close, example_data, refused, require, trains
from fim_dynsys.trajectories.container import Trajectories


def check_model(factory: Factory, smooth: bool = True, cheap: bool | None = None) -> None:
    """Hold a model to the contract of `VectorFieldModel`, on small data of one to three states.

    The model is fitted about fifteen times, to 80 observations at most. The cheap mode fits it about four
    times, in one dimension: what it leaves out are the other dimensions, units, constant coordinates,
    batches and the repetition of ensembles.

    Parameters
    ----------
    factory : callable
        ``factory()`` gives the model, unfitted.
    smooth : bool
        Whether its fields have second derivatives; see `check_field`.
    cheap : bool, optional
        Default: whether the model is registered as one that needs training.

    Raises
    ------
    AssertionError
        Naming what does not hold.

    See Also
    --------
    check_field : Fields alone.

    Examples
    --------
    >>> import fim_dynsys
    >>> from fim_dynsys import testing
    >>> testing.check_model(lambda: fim_dynsys.load("sindy"))
    """
    model = factory()
    require(isinstance(model, VectorFieldModel), f"expected a VectorFieldModel, got {type(model).__name__}")
    cheap = trains(model.name) if cheap is None else cheap
    dim = min(2, largest_dim(model))
    data = example_data(dim)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _check_estimator(factory)
        require(model.fit(*data, feature_names=_names(dim)) is model, "fit: expected to return the model")
        _check_fit(model, smooth)
        _check_infer(factory, model, as_trajectories(*data, _names(dim)), batches=not cheap)
        _check_input_forms(data)
        _check_answers(model, data)
        _check_equations(model)
        check_refusals(model, data)
        _check_persistence(factory, model)
        _check_ensemble(model, repeat=not cheap)
        if not cheap:
            for other in {1, 2, 3} - {dim}:
                if other <= largest_dim(model):
                    _check_fit(factory().fit(*example_data(other), feature_names=_names(other)), smooth)
    check_gaps(factory, data)
    if not cheap:
        check_warnings(factory, data)
        if model.scale_equivariance is not None:
            check_scaling(factory, model.scale_equivariance)


def _names(dim: int) -> list[str]:
    return [f"state {k}" for k in range(dim)]


def _check_estimator(factory: Factory) -> None:
    """Parameters, cloning, display and refusal to answer before fitting."""
    model = factory()
    require(isinstance(model.name, str) and str(model.version), "name and version: expected text")
    again = clone(model)
    require(
        again.get_params(deep=False).keys() == model.get_params(deep=False).keys(), "clone: other parameters"
    )
    require(
        model.set_params(**model.get_params(deep=False)) is model, "set_params: expected to return the model"
    )
    require(
        isinstance(repr(model), str) and "<table" in model._repr_html_(), "display: expected repr and HTML"
    )
    x = np.zeros((5, 1))
    calls: dict[str, Callable[[], object]] = {
        "predict": lambda: model.predict(x),
        "simulate": lambda: model.simulate(x[0], np.arange(3.0)),
        "score": lambda: model.score(x, 0.1),
        "equations": model.equations,
        "print": model.print,
        "coefficients": model.coefficients,
        "forecast": lambda: model.forecast(x[0], np.arange(3.0)),
        "ensemble": lambda: model.ensemble(2),
        "save": lambda: model.save("unused"),
    }
    for what, call in calls.items():
        refused(call, f"{what} before fit", error=NotFittedError)


def _check_fit(model: VectorFieldModel, smooth: bool) -> None:
    """Dimension and names are those of the data, and the field holds its own contract."""
    field, dim = model.field_, len(model.feature_names)
    names = _names(dim)
    require(field.dim == dim, f"fit: expected a field of dimension {dim}, got {field.dim}")
    require(field.state_names == tuple(names), f"state names are lost: {field.state_names}")
    require(model.feature_names == names and model.feature_names_ == names, "feature_names are lost")
    require(model.n_features_in_ == dim, "n_features_in_ differs from the dimension")
    check_field(field, smooth=smooth)


def _check_infer(factory: Factory, model: VectorFieldModel, context: Trajectories, batches: bool) -> None:
    """`infer` is pure, repeatable and what `fit` uses; a list of contexts gives the same."""
    other = factory()
    before = _contents(other)
    field = other.infer(context)
    after = _contents(other)
    changed = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    require(not changed, f"infer: changed the model, in {', '.join(changed)}")
    points = sample_points(model.field_)
    expected = model.field_(points)
    size = np.abs(expected).max() or 1.0
    close(field(points), expected, SAME, size, "infer: another field than fit's")
    if batches:
        fitted = dict(vars(model))
        (single,) = model.infer_many([context])
        # batches may be padded and summed in another order, in the precision of the encoder
        close(single(points), expected, 1e-5, size, "infer_many: another field than infer's")
        now = vars(model)
        same = now.keys() == fitted.keys() and all(now[key] is value for key, value in fitted.items())
        require(same, "infer_many: changed the fitted model")


def _contents(model: VectorFieldModel) -> dict[str, tuple[int, bytes]]:
    """All attributes, private ones too: which object each is, and what is in it."""
    return {key: (id(value), pickle.dumps(value)) for key, value in vars(model).items()}


def _check_input_forms(data: Data) -> None:
    """Labelled forms of one data set are the same Trajectories."""
    reference = as_trajectories(*data)
    forms: dict[str, Any] = {
        "Trajectories": reference,
        "Dataset": reference.dataset,
        "DataFrame": reference.to_dataframe(),
    }
    for name, form in forms.items():
        same = as_trajectories(form)
        require(np.array_equal(same.x, reference.x, equal_nan=True), f"{name}: other observations")
        require(np.array_equal(same.t, reference.t, equal_nan=True), f"{name}: other times")


def _check_answers(model: VectorFieldModel, data: Data) -> None:
    """Shapes and types of predict, simulate, forecast and score."""
    (x, *_), (t, *_) = data
    d = x.shape[1]
    values = model.predict(x)
    require(
        type(values) is np.ndarray and values.shape == x.shape, "predict: expected an array of the shape of x"
    )
    require(np.array_equal(values, model.field_(x)), "predict: expected the field's values")
    parts = model.predict([x, x[:3]])
    require(isinstance(parts, list) and len(parts) == 2, "predict: expected a list for a list")
    require(
        np.array_equal(parts[0], values) and parts[1].shape == (3, d), "predict: the list's values differ"
    )
    require(np.shape(model.predict(x[0])) == (d,), "predict: expected shape (d,) for one point")
    labelled = xr.DataArray(x, dims=("time", "state"), coords={"time": t})
    answer = model.predict(labelled)
    if not isinstance(answer, xr.DataArray) or answer.dims != labelled.dims:
        raise AssertionError(f"predict: expected a DataArray of {labelled.dims}, got {type(answer).__name__}")
    require(np.array_equal(answer.coords["time"], t), "predict: coordinates are lost")
    path = model.simulate(x[0], t)
    require(
        type(path) is np.ndarray and path.shape == x.shape,
        f"simulate: expected {x.shape}, got {np.shape(path)}",
    )
    require(np.array_equal(path[0], x[0]), "simulate: expected to start at x0")
    future = model.forecast(np.stack([x[0], x[1]]), t)
    require(isinstance(future, Trajectories) and len(future) == 2, "forecast: expected Trajectories of two")
    require(future.status.shape == (2,), "forecast: expected a status for each trajectory")
    score = model.score(*data)
    require(isinstance(score, float) and score <= 1.0, f"score: expected a float of at most 1, got {score!r}")
    given = model.score(x, t, x_dot=model.predict(x))
    require(given == 1.0, f"score: expected 1 against its own prediction, got {given}")


def _check_equations(model: VectorFieldModel) -> None:
    """Equations, coefficients and names fit each other."""
    d = model.field_.dim
    equations, names, coefficients = model.equations(), model.get_feature_names(), model.coefficients()
    require(
        len(equations) == d and all(isinstance(text, str) for text in equations), f"equations: expected {d}"
    )
    require(
        coefficients.shape == (d, len(names)),
        f"coefficients: expected shape {(d, len(names))}, got {coefficients.shape}",
    )
    require(model.complexity == np.count_nonzero(coefficients), "complexity: differs from the coefficients")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        model.print(precision=2)
    lines = printed.getvalue().splitlines()
    wanted = [f"{left_side(name, model._equation_style)} = " for name in model.feature_names]
    require(
        all(line.startswith(left) for line, left in zip(lines, wanted, strict=False)) and len(lines) >= d,
        f"print: expected one line for each state, got {lines}",
    )


def _check_persistence(factory: Factory, model: VectorFieldModel) -> None:
    """Pickling and save/load give the same field."""
    points = sample_points(model.field_)
    expected = model.field_(points)
    size = np.abs(expected).max() or 1.0
    again = pickle.loads(pickle.dumps(model))
    require(np.array_equal(again.field_(points), expected), "pickling the model: values change")
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        restored = load_fitted(folder, factory=lambda **params: factory().set_params(**params))
    close(restored.field_(points), expected, SAME, size, "save and load_fitted: values change")
    close(restored.field_.support(points), model.field_.support(points), SAME, 1.0, "load_fitted: support")
    require(restored.feature_names == model.feature_names, "save and load_fitted: names change")
    require(not clone(model).__sklearn_is_fitted__(), "clone: expected an unfitted model")


def _check_ensemble(model: VectorFieldModel, repeat: bool) -> None:
    """Members are as many as asked for, finite, and the same for the same seed."""
    points = sample_points(model.field_)
    count = 2 if repeat else 1
    members = model.ensemble(count, seed=5)
    require(len(members) == count, f"ensemble: expected {count} members, got {len(members)}")
    require(all(np.isfinite(member(points)).all() for member in members), "ensemble: expected finite values")
    if repeat:
        again = zip(members, model.ensemble(count, seed=5), strict=True)
        same = all(np.array_equal(a(points), b(points)) for a, b in again)
        require(same, "ensemble: equal seeds give other members")
    refused(lambda: model.ensemble(0), "an ensemble of none")
