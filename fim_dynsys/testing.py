"""The public contract of fields and models, as checks that any plugin can call."""

import contextlib
import io
import pickle
import tempfile
import warnings

import numpy as np
import xarray as xr
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from fim_dynsys.errors import DataWarning, IgnoredInputWarning
from fim_dynsys.fields.base import VectorField
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.inputs import as_trajectories
from fim_dynsys.registry import load_fitted
from fim_dynsys.trajectories import Trajectories

# Relative to the size of the field over its region. Rows computed alone or together may take another
# order of summation: 1e-9 leaves room for that in float64, none for float32.
_SAME = 1e-9
# Fourth-order differences with a step of 1e-3 of the length scale err by about 1e-10 where the fifth
# derivative is moderate.
_DERIVATIVE, _STEP = 1e-5, 1e-3
# Between kinks a smaller step errs by rounding alone, 1e-11; few points lie that near to a kink.
_KINKED_STEP, _KINKED_SHARE = 1e-5, 0.75


def _require(condition, message):
    if not condition:
        raise AssertionError(message)


def _refused(call, what, *words, error=ValueError):
    """Require that `call` raises `error` with a message that holds `words`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except error as raised:
        missing = [word for word in words if word not in str(raised)]
        _require(not missing, f"{what}: expected the message to name {missing}, got: {raised}")
    except Exception as raised:
        raise AssertionError(
            f"{what}: expected {error.__name__}, got {type(raised).__name__}: {raised}"
        ) from raised
    else:
        raise AssertionError(f"{what}: expected {error.__name__}, got no error")


def _close(a, b, tolerance, scale, message):
    error = float(np.max(np.abs(np.asarray(a) - np.asarray(b)) / scale, initial=0.0))
    _require(
        error <= tolerance, f"{message}: relative difference {error:.2g}, expected at most {tolerance:g}"
    )


# ---------------------------------------------------------------------- fields


def check_field(field: VectorField, points=None, pickling: bool = True, smooth: bool = True) -> None:
    """Hold a field to the contract of `VectorField`.

    Parameters
    ----------
    field : VectorField
        Any field.
    points : array (n, d), optional
        Where to check; default 16 points of its region, or of the unit box.
    pickling : bool
        Whether the field must survive pickling (a field round a lambda cannot).
    smooth : bool
        Whether second derivatives exist; without them (a network of ReLUs) the Jacobian must agree with
        differences at three points of four, and higher orders are left out.

    Raises
    ------
    AssertionError
        Naming what does not hold.
    """
    _require(isinstance(field, VectorField), f"expected a VectorField, got {type(field).__name__}")
    x = _points(field) if points is None else np.asarray(points, dtype=np.float64)
    _check_description(field)
    _check_values(field, x)
    _check_jacobian(field, x, smooth)
    if smooth:
        _check_second_derivatives(field, x)
    _check_support(field, x)
    _check_bad_points(field)
    if pickling:
        again = pickle.loads(pickle.dumps(field))
        _require(np.array_equal(again(x), field(x)), "pickling: values change")


def _points(field) -> np.ndarray:
    if field.region is None:
        return np.random.default_rng(0).uniform(size=(16, field.dim))
    return field.region.sobol(16, seed=0)


def _check_description(field):
    d = field.dim
    _require(isinstance(d, int) and d >= 1, f"dim: expected a positive int, got {d!r}")
    names = field.state_names
    _require(
        isinstance(names, tuple) and len(names) == d, f"state_names: expected {d} in a tuple, got {names!r}"
    )
    _require(field.region is None or field.region.dim == d, "region: dimension differs from the field's")
    sizes = [field.scales.length, field.scales.speed]
    _require(all(np.shape(size) == (d,) for size in sizes), f"scales: expected shape ({d},)")
    _require(
        all((size > 0).all() for size in sizes) and field.scales.time > 0, "scales: expected positive values"
    )


def _check_values(field, x):
    d = field.dim
    before = x.copy()
    values = field(x)
    _require(values.shape == x.shape, f"field(x): expected shape {x.shape}, got {values.shape}")
    _require(values.dtype == np.float64, f"field(x): expected float64, got {values.dtype}")
    _require(np.isfinite(values).all(), "field(x): expected finite values in its own region")
    _require(np.array_equal(x, before), "field(x): changed its argument")
    _require(np.array_equal(field(x), values), "field(x): a second call gives other values")
    size = np.abs(values).max() or 1.0
    rows = np.stack([field(row) for row in x])
    _close(rows, values, _SAME, size, "field(x): a row alone differs from the same row among others")
    order = np.random.default_rng(0).permutation(len(x))
    _close(field(x[order]), values[order], _SAME, size, "field(x): values depend on the order of rows")
    _close(
        field(x.reshape(2, -1, d)).reshape(-1, d),
        values,
        _SAME,
        size,
        "field(x): values depend on leading axes",
    )
    _require(field(x[:0]).shape == (0, d), "field(x): no points must give an empty array of shape (0, d)")
    _close(field.ivp(0.0, x[0]), values[0], _SAME, size, "ivp(t, x) with x (d,)")
    _close(field.ivp(0.0, x.T), values.T, _SAME, size, "ivp(t, x) with x (d, k)")
    which = np.arange(len(x)) % 2
    _close(type(field).stack([field, field])(x, which), values, _SAME, size, "stack of the field with itself")


def _check_jacobian(field, x, smooth):
    d = field.dim
    jacobian = field.jacobian(x)
    _require(
        jacobian.shape == (*x.shape, d), f"jacobian(x): expected shape {(*x.shape, d)}, got {jacobian.shape}"
    )
    _require(field.jacobian(x[0]).shape == (d, d), "jacobian of one point: expected shape (d, d)")
    length, step = field.scales.length, _STEP if smooth else _KINKED_STEP
    size = np.abs(jacobian * length).max() or 1.0
    differences = np.stack(
        [_difference(field, x, length[j] * unit, step) for j, unit in enumerate(np.eye(d))], axis=-1
    )
    errors = np.abs(jacobian * length - differences).max(axis=(1, 2))
    worst = errors.max() if smooth else np.quantile(errors, _KINKED_SHARE)
    _close(worst, 0.0, _DERIVATIVE, size, "jacobian against differences of the field")
    v = np.random.default_rng(1).standard_normal(x.shape) * length
    along = np.einsum("nij,nj->ni", jacobian, v)
    _close(
        field.directional(x, v), along, _DERIVATIVE, size, "directional(x, v) against the Jacobian times v"
    )


def _check_second_derivatives(field, x):
    rng = np.random.default_rng(2)
    v, w = (rng.standard_normal(x.shape) * field.scales.length for _ in range(2))
    second = field.directional(x, v, w)
    _require(second.shape == x.shape, f"directional(x, v, w): expected shape {x.shape}, got {second.shape}")
    size = max(np.abs(field.directional(x, v)).max(), np.abs(second).max()) or 1.0
    _close(second, field.directional(x, w, v), _DERIVATIVE, size, "directional(x, v, w) against (x, w, v)")
    differences = _difference(lambda y: field.directional(y, v), x, w, _STEP)
    _close(second, differences, _DERIVATIVE, size, "directional(x, v, w) against differences along w")


def _difference(fn, x, v, step):
    """Derivative of fn along v by central differences of fourth order."""
    near = fn(x + step * v) - fn(x - step * v)
    far = fn(x + 2 * step * v) - fn(x - 2 * step * v)
    return (8 * near - far) / (12 * step)


def _check_support(field, x):
    support = field.support(x)
    _require(support.shape == x.shape[:-1], f"support(x): expected shape {x.shape[:-1]}, got {support.shape}")
    _require(((support >= 0) & (support <= 1)).all(), "support(x): expected values between 0 and 1")
    _require(field.context is not None or (support == 1).all(), "support(x): expected 1 without data")
    scale = field.scale(x)
    if scale is not None:
        _require(scale.shape == x.shape, f"scale(x): expected shape {x.shape}, got {scale.shape}")
        _require((scale > 0).all(), "scale(x): expected positive standard deviations")


def _check_bad_points(field):
    d = field.dim
    wrong = np.zeros((4, d + 1))
    for call in (field, field.jacobian, field.support):
        _refused(lambda call=call: call(wrong), "points of another dimension", f"{d}", f"{wrong.shape}")
    _refused(lambda: field(np.zeros((4, d), dtype=complex)), "complex points", "complex")
    _refused(lambda: field(np.full((4, d), "a")), "points that are strings")


# ---------------------------------------------------------------------- models


def check_model(factory, smooth: bool = True) -> None:
    """Hold a model to the contract of `VectorFieldModel`, on small data of one to three states.

    The model is fitted about fifteen times, to 80 observations at most.

    Parameters
    ----------
    factory : callable
        ``factory()`` gives the model, unfitted.
    smooth : bool
        Whether its fields have second derivatives; see `check_field`.

    Raises
    ------
    AssertionError
        Naming what does not hold.
    """
    _require(
        isinstance(factory(), VectorFieldModel),
        f"expected a VectorFieldModel, got {type(factory()).__name__}",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _check_estimator(factory)
        _check_dimensions(factory, smooth)
        data = example_data(min(2, _largest_dim(factory())))
        model = factory()
        _require(model.fit(*data) is model, "fit: expected to return the model itself")
        _check_infer(factory, model, data)
        _check_input_forms(data)
        _check_answers(model, data)
        _check_equations(model)
        _check_refusals(model, data)
        _check_persistence(factory, model)
        _check_ensemble(model)
    _check_warnings(factory, data)
    if model.scale_equivariance is not None:
        check_scaling(factory, model.scale_equivariance)


def example_data(dim: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Two short noisy trajectories (45 and 35 observations) of a damped oscillator and its relatives.

    Parameters
    ----------
    dim : int
        1: relaxation; 2: damped oscillation; more: further relaxing states.

    Returns
    -------
    x, t : lists of arrays
    """
    rng = np.random.default_rng(dim)
    x, t = [], []
    for n, amplitude in ((45, 1.0), (35, -1.5)):
        times = np.linspace(0.0, 5.0, n)
        states = [np.exp(-times / (2.0 + k)) * amplitude * (1.0 + 0.3 * k) for k in range(dim)]
        if dim > 1:
            states[0] = amplitude * np.exp(-0.1 * times) * np.cos(2 * times)
            states[1] = -amplitude * np.exp(-0.1 * times) * np.sin(2 * times)
        clean = np.stack(states, axis=1)
        x.append(clean + 0.005 * rng.standard_normal(clean.shape))
        t.append(times)
    return x, t


def _largest_dim(model) -> int:
    return 3 if model.max_dim is None else min(3, model.max_dim)


def _check_estimator(factory):
    """Parameters, cloning, display and refusal to answer before fitting."""
    model = factory()
    _require(isinstance(model.name, str) and str(model.version), "name and version: expected text")
    again = clone(model)
    _require(
        again.get_params(deep=False).keys() == model.get_params(deep=False).keys(), "clone: other parameters"
    )
    _require(
        model.set_params(**model.get_params(deep=False)) is model, "set_params: expected to return the model"
    )
    _require(
        isinstance(repr(model), str) and "<table" in model._repr_html_(), "display: expected repr and HTML"
    )
    x = np.zeros((5, 1))
    calls = {
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
        _refused(call, f"{what} before fit", error=NotFittedError)


def _check_dimensions(factory, smooth):
    """Every dimension up to three is fitted, and the field holds its own contract."""
    for dim in range(1, _largest_dim(factory()) + 1):
        model = factory()
        names = [f"state {k}" for k in range(dim)]
        model.fit(*example_data(dim), feature_names=names)
        _require(model.field_.dim == dim, f"fit: expected a field of dimension {dim}, got {model.field_.dim}")
        _require(
            model.field_.state_names == tuple(names), f"state names are lost: {model.field_.state_names}"
        )
        _require(model.feature_names == names and model.feature_names_ == names, "feature_names are lost")
        _require(model.n_features_in_ == dim, "n_features_in_ differs from the dimension")
        check_field(model.field_, smooth=smooth)


def _check_infer(factory, model, data):
    """`infer` is pure, repeatable and what `fit` uses; a list of contexts gives the same."""
    context = as_trajectories(*data)
    other = factory()
    before = _public_state(other)
    field = other.infer(context)
    _require(_public_state(other) == before, "infer: changed the model")
    points = _points(model.field_)
    expected = model.field_(points)
    size = np.abs(expected).max() or 1.0
    _close(field(points), expected, _SAME, size, "infer: another field than fit's")
    (single,) = other.infer_many([context])
    # batches may be padded and summed in another order, in the precision of the encoder
    _close(single(points), expected, 1e-5, size, "infer_many: another field than infer's")


def _public_state(model) -> dict:
    """Attributes by identity, without private ones such as a network that is read at first use."""
    return {key: id(value) for key, value in vars(model).items() if not key.startswith("_")}


def _check_input_forms(data):
    """Labelled forms of one data set are the same Trajectories."""
    reference = as_trajectories(*data)
    forms = {
        "Trajectories": reference,
        "Dataset": reference.dataset,
        "DataFrame": reference.to_dataframe(),
    }
    for name, form in forms.items():
        same = as_trajectories(form)
        _require(np.array_equal(same.x, reference.x, equal_nan=True), f"{name}: other observations")
        _require(np.array_equal(same.t, reference.t, equal_nan=True), f"{name}: other times")


def _check_answers(model, data):
    """Shapes and types of predict, simulate, forecast and score."""
    (x, *_), (t, *_) = data
    d = x.shape[1]
    values = model.predict(x)
    _require(
        type(values) is np.ndarray and values.shape == x.shape, "predict: expected an array of the shape of x"
    )
    _require(np.array_equal(values, model.field_(x)), "predict: expected the field's values")
    parts = model.predict([x, x[:3]])
    _require(isinstance(parts, list) and len(parts) == 2, "predict: expected a list for a list")
    _require(
        np.array_equal(parts[0], values) and parts[1].shape == (3, d), "predict: the list's values differ"
    )
    _require(model.predict(x[0]).shape == (d,), "predict: expected shape (d,) for one point")
    labelled = xr.DataArray(x, dims=("time", "state"), coords={"time": t})
    answer = model.predict(labelled)
    _require(
        isinstance(answer, xr.DataArray) and answer.dims == labelled.dims, "predict: expected a DataArray"
    )
    _require(np.array_equal(answer.coords["time"], t), "predict: coordinates are lost")
    path = model.simulate(x[0], t)
    _require(
        type(path) is np.ndarray and path.shape == x.shape,
        f"simulate: expected {x.shape}, got {np.shape(path)}",
    )
    _require(np.array_equal(path[0], x[0]), "simulate: expected to start at x0")
    future = model.forecast(np.stack([x[0], x[1]]), t)
    _require(isinstance(future, Trajectories) and len(future) == 2, "forecast: expected Trajectories of two")
    _require(future.status.shape == (2,), "forecast: expected a status for each trajectory")
    score = model.score(*data)
    _require(
        isinstance(score, float) and score <= 1.0, f"score: expected a float of at most 1, got {score!r}"
    )
    given = model.score(x, t, x_dot=model.predict(x))
    _require(given == 1.0, f"score: expected 1 against its own prediction, got {given}")


def _check_equations(model):
    """Equations, coefficients and names fit each other."""
    d = model.field_.dim
    equations, names, coefficients = model.equations(), model.get_feature_names(), model.coefficients()
    _require(
        len(equations) == d and all(isinstance(text, str) for text in equations), f"equations: expected {d}"
    )
    _require(
        coefficients.shape == (d, len(names)),
        f"coefficients: expected shape {(d, len(names))}, got {coefficients.shape}",
    )
    _require(model.complexity == np.count_nonzero(coefficients), "complexity: differs from the coefficients")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        model.print(precision=2)
    lines = printed.getvalue().splitlines()
    wanted = [f"({name})' = " for name in model.feature_names]
    _require(
        all(line.startswith(left) for line, left in zip(lines, wanted, strict=False)) and len(lines) >= d,
        f"print: expected one line for each state, got {lines}",
    )


def _check_refusals(model, data):
    """Bad input is refused with ValueError and leaves the earlier fit alone."""
    (x, *_), (t, *_) = data
    n, d = x.shape
    field, state = model.field_, _public_state(model)
    nan_time, shuffled, repeated, infinite = t.copy(), t[::-1].copy(), t.copy(), x.copy()
    nan_time[3], repeated[4], infinite[2, 0] = np.nan, repeated[3], np.inf
    cases = {
        "NaN time": lambda: model.fit(x, nan_time),
        "decreasing times": lambda: model.fit(x, shuffled),
        "repeated time": lambda: model.fit(x, repeated),
        "infinite observation": lambda: model.fit(infinite, t),
        "other length": lambda: model.fit(x, t[:-1]),
        "no times": lambda: model.fit(x),
        "other dimension": lambda: model.fit([x, np.zeros((n, d + 1))], [t, t]),
        "no trajectory": lambda: model.fit([], []),
        "complex": lambda: model.fit(x.astype(complex), t),
        "object": lambda: model.fit(x.astype(object), t),
        "strings": lambda: model.fit(x.astype(str), t),
        "control input": lambda: model.fit(x, t, u=t),
        "x_dot of another shape": lambda: model.fit(x, t, x_dot=x[:-1]),
        "too few names": lambda: model.fit(x, t, feature_names=["a"] * (d + 1)),
    }
    few = max(model.min_observations - 1, 0)
    if few:
        cases["too few points"] = lambda: model.fit(x[:few], t[:few])
    for what, call in cases.items():
        _refused(call, what)
    if model.max_dim is not None:
        wide = np.random.default_rng(0).standard_normal((n, model.max_dim + 1))
        _refused(lambda: model.fit(wide, t), "too many states", str(model.max_dim), "PCAReduction")
    _refused(lambda: model.predict(np.zeros((3, d + 1))), "predict in another dimension")
    _refused(lambda: model.predict(x, u=t), "predict with control input")
    _refused(lambda: model.simulate(x[0], 3.0), "simulate to a scalar time")
    _refused(lambda: model.simulate(np.zeros(d + 1), t), "simulate from another dimension")
    unchanged = model.field_ is field and _public_state(model) == state
    _require(unchanged, "a refused call changed the fitted model")


def _check_persistence(factory, model):
    """Pickling and save/load give the same field."""
    points = _points(model.field_)
    expected = model.field_(points)
    size = np.abs(expected).max() or 1.0
    again = pickle.loads(pickle.dumps(model))
    _require(np.array_equal(again.field_(points), expected), "pickling the model: values change")
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        restored = load_fitted(folder, factory=lambda **params: factory().set_params(**params))
    _close(restored.field_(points), expected, _SAME, size, "save and load_fitted: values change")
    _close(restored.field_.support(points), model.field_.support(points), _SAME, 1.0, "load_fitted: support")
    _require(restored.feature_names == model.feature_names, "save and load_fitted: names change")
    _require(not clone(model).__sklearn_is_fitted__(), "clone: expected an unfitted model")


def _check_ensemble(model):
    points = _points(model.field_)
    first, second = (model.ensemble(2, seed=5) for _ in range(2))
    _require(len(first) == 2, f"ensemble(2): expected 2 members, got {len(first)}")
    same = all(np.array_equal(a(points), b(points)) for a, b in zip(first, second, strict=True))
    _require(same, "ensemble: equal seeds give other members")
    _refused(lambda: model.ensemble(0), "an ensemble of none")


def _check_warnings(factory, data):
    """One warning for x_dot without effect, one for constant coordinates; gaps are no obstacle."""
    (x, *_), (t, *_) = data
    model = factory()
    _require(
        _caught(lambda: model.fit(x, t, x_dot=np.gradient(x, t, axis=0)), IgnoredInputWarning)
        == (0 if model.uses_x_dot else 1),
        "x_dot: expected one IgnoredInputWarning exactly where it has no effect",
    )
    if x.shape[1] > 1:
        constant = x.copy()
        constant[:, 1] = 0.7
        model = factory()
        _require(
            _caught(lambda: model.fit(constant, t), DataWarning) >= 1,
            "constant coordinate: expected a DataWarning",
        )
        _require(
            np.isfinite(model.predict(constant)).all(), "constant coordinate: expected finite predictions"
        )
    gaps = x.copy()
    gaps[5:8] = np.nan
    gaps[12, 0] = np.nan
    model = factory()
    _caught(lambda: model.fit(gaps, t), DataWarning)
    _require(np.isfinite(model.predict(x)).all(), "missing observations: expected finite predictions")


def _caught(call, category) -> int:
    """How many warnings of the category the call issues."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return sum(issubclass(warning.category, category) for warning in caught)


def check_scaling(factory, tolerance: float) -> None:
    """Require that units of states and time do not matter.

    Parameters
    ----------
    factory : callable
        As for `check_model`.
    tolerance : float
        Relative to the size of the field.

    Raises
    ------
    AssertionError
        Where the field inferred from rescaled data is not the rescaled field.
    """
    dim = min(2, _largest_dim(factory()))
    x, t = example_data(dim)
    scale, hour = np.array([1e3, 1e-2, 7.0])[:dim], 60.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        field = factory().fit(x, t).field_
        rescaled = factory().fit([v * scale for v in x], [hour * v + 5.0 for v in t]).field_
    points = _points(field)
    expected = field(points)
    size = np.abs(expected).max(axis=0)
    _close(rescaled(points * scale) * hour / scale, expected, tolerance, size, "rescaled states and time")
