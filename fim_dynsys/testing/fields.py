"""The contract of vector fields."""

import pickle
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.fields.base import VectorField
from fim_dynsys.testing.requirements import SAME, close, refused, require

# Fourth-order differences with a step of 1e-3 of the length scale err by about 1e-10 where the fifth
# derivative is moderate.
_DERIVATIVE, _STEP = 1e-5, 1e-3
# Between kinks a smaller step errs by rounding alone, 1e-11; few points lie that near to a kink.
_KINKED_STEP, _KINKED_SHARE = 1e-5, 0.75


def check_field(
    field: VectorField, points: ArrayLike | None = None, pickling: bool = True, smooth: bool = True
) -> None:
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

    See Also
    --------
    check_model : Models.

    Examples
    --------
    >>> import fim_dynsys
    >>> from fim_dynsys import testing
    >>> box = fim_dynsys.Region([-1], [1])
    >>> testing.check_field(fim_dynsys.SymbolicField(["-x0"], region=box))
    """
    require(isinstance(field, VectorField), f"expected a VectorField, got {type(field).__name__}")
    x = sample_points(field) if points is None else np.asarray(points, dtype=np.float64)
    _check_description(field)
    _check_values(field, x)
    _check_jacobian(field, x, smooth)
    if smooth:
        _check_second_derivatives(field, x)
    _check_support(field, x)
    _check_bad_points(field)
    if pickling:
        again = pickle.loads(pickle.dumps(field))
        require(np.array_equal(again(x), field(x)), "pickling: values change")


def sample_points(field: VectorField) -> np.ndarray:
    """Sixteen points of the field's region, or of the unit box."""
    if field.region is None:
        return np.random.default_rng(0).uniform(size=(16, field.dim))
    return field.region.sobol(16, seed=0)


def _check_description(field: VectorField) -> None:
    d = field.dim
    require(isinstance(d, int) and d >= 1, f"dim: expected a positive int, got {d!r}")
    names = field.state_names
    require(
        isinstance(names, tuple) and len(names) == d, f"state_names: expected {d} in a tuple, got {names!r}"
    )
    require(field.region is None or field.region.dim == d, "region: dimension differs from the field's")
    sizes = [field.scales.length, field.scales.speed]
    require(all(np.shape(size) == (d,) for size in sizes), f"scales: expected shape ({d},)")
    require(
        all((size > 0).all() for size in sizes) and field.scales.time > 0, "scales: expected positive values"
    )


def _check_values(field: VectorField, x: np.ndarray) -> None:
    d = field.dim
    before = x.copy()
    values = field(x)
    require(values.shape == x.shape, f"field(x): expected shape {x.shape}, got {values.shape}")
    require(values.dtype == np.float64, f"field(x): expected float64, got {values.dtype}")
    require(np.isfinite(values).all(), "field(x): expected finite values in its own region")
    require(np.array_equal(x, before), "field(x): changed its argument")
    require(np.array_equal(field(x), values), "field(x): a second call gives other values")
    size = np.abs(values).max() or 1.0
    rows = np.stack([field(row) for row in x])
    close(rows, values, SAME, size, "field(x): a row alone differs from the same row among others")
    order = np.random.default_rng(0).permutation(len(x))
    close(field(x[order]), values[order], SAME, size, "field(x): values depend on the order of rows")
    close(
        field(x.reshape(2, -1, d)).reshape(-1, d),
        values,
        SAME,
        size,
        "field(x): values depend on leading axes",
    )
    require(field(x[:0]).shape == (0, d), "field(x): no points must give an empty array of shape (0, d)")
    close(field.ivp(0.0, x[0]), values[0], SAME, size, "ivp(t, x) with x (d,)")
    close(field.ivp(0.0, x.T), values.T, SAME, size, "ivp(t, x) with x (d, k)")
    which = np.arange(len(x)) % 2
    close(type(field).stack([field, field])(x, which), values, SAME, size, "stack of the field with itself")


def _check_jacobian(field: VectorField, x: np.ndarray, smooth: bool) -> None:
    d = field.dim
    jacobian = field.jacobian(x)
    require(
        jacobian.shape == (*x.shape, d), f"jacobian(x): expected shape {(*x.shape, d)}, got {jacobian.shape}"
    )
    require(field.jacobian(x[0]).shape == (d, d), "jacobian of one point: expected shape (d, d)")
    length, step = field.scales.length, _STEP if smooth else _KINKED_STEP
    size = np.abs(jacobian * length).max() or 1.0
    differences = np.stack(
        [_difference(field, x, length[j] * unit, step) for j, unit in enumerate(np.eye(d))], axis=-1
    )
    errors = np.abs(jacobian * length - differences).max(axis=(1, 2))
    worst = errors.max() if smooth else np.quantile(errors, _KINKED_SHARE)
    close(worst, 0.0, _DERIVATIVE, size, "jacobian against differences of the field")
    v = np.random.default_rng(1).standard_normal(x.shape) * length
    along = np.einsum("nij,nj->ni", jacobian, v)
    close(field.directional(x, v), along, _DERIVATIVE, size, "directional(x, v) against the Jacobian times v")


def _check_second_derivatives(field: VectorField, x: np.ndarray) -> None:
    rng = np.random.default_rng(2)
    v, w = (rng.standard_normal(x.shape) * field.scales.length for _ in range(2))
    second = field.directional(x, v, w)
    require(second.shape == x.shape, f"directional(x, v, w): expected shape {x.shape}, got {second.shape}")
    size = max(np.abs(field.directional(x, v)).max(), np.abs(second).max()) or 1.0
    close(second, field.directional(x, w, v), _DERIVATIVE, size, "directional(x, v, w) against (x, w, v)")
    differences = _difference(lambda y: field.directional(y, v), x, w, _STEP)
    close(second, differences, _DERIVATIVE, size, "directional(x, v, w) against differences along w")


def _difference(
    fn: Callable[[np.ndarray], np.ndarray], x: np.ndarray, v: np.ndarray, step: float
) -> np.ndarray:
    """Derivative of fn along v by central differences of fourth order."""
    near = fn(x + step * v) - fn(x - step * v)
    far = fn(x + 2 * step * v) - fn(x - 2 * step * v)
    return (8 * near - far) / (12 * step)


def _check_support(field: VectorField, x: np.ndarray) -> None:
    support = field.support(x)
    require(support.shape == x.shape[:-1], f"support(x): expected shape {x.shape[:-1]}, got {support.shape}")
    require(((support >= 0) & (support <= 1)).all(), "support(x): expected values between 0 and 1")
    require(field.context is not None or (support == 1).all(), "support(x): expected 1 without data")
    scale = field.scale(x)
    if scale is not None:
        require(scale.shape == x.shape, f"scale(x): expected shape {x.shape}, got {scale.shape}")
        require((scale > 0).all(), "scale(x): expected positive standard deviations")


def _check_bad_points(field: VectorField) -> None:
    d = field.dim
    wrong = np.zeros((4, d + 1))
    calls: tuple[Callable[[np.ndarray], object], ...] = (field, field.jacobian, field.support)
    for call in calls:
        refused(partial(call, wrong), "points of another dimension", f"{d}", f"{wrong.shape}")
    refused(lambda: field(np.zeros((4, d), dtype=complex)), "complex points", "complex")
    refused(lambda: field(np.full((4, d), "a")), "points that are strings")
