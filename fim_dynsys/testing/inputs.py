"""What models do with data that are bad, missing, constant or in other units."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from fim_dynsys.errors import DataWarning, IgnoredInputWarning
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.testing.fields import sample_points
from fim_dynsys.testing.requirements import bad_data, caught, close, example_data, refused, require

Factory = Callable[[], VectorFieldModel]
Data = tuple[list[np.ndarray], list[np.ndarray]]


def largest_dim(model: VectorFieldModel) -> int:
    """Of the example data that the model takes."""
    return 3 if model.max_dim is None else min(3, model.max_dim)


def check_refusals(model: VectorFieldModel, data: Data) -> None:
    """Bad input is refused with ValueError and leaves the earlier fit alone."""
    (x, *_), (t, *_) = data
    d = x.shape[1]
    before = dict(vars(model))
    control: Any = t  # whatever it is
    cases = bad_data(model.fit, x, t)
    if "inputs" not in model.takes:
        cases["inputs"] = lambda: model.fit(x, t, u=control)
    cases["x_dot of another shape"] = lambda: model.fit(x, t, x_dot=x[:-1])
    cases["too few names"] = lambda: model.fit(x, t, feature_names=["a"] * (d + 1))
    few = max(model.min_observations - 1, 0)
    if few:
        cases["too few points"] = lambda: model.fit(x[:few], t[:few])
    for what, call in cases.items():
        refused(call, what)
    if model.max_dim is not None:
        wide = np.random.default_rng(0).standard_normal((len(x), model.max_dim + 1))
        refused(lambda: model.fit(wide, t), "too many states", str(model.max_dim), "PCAReduction")
    refused(lambda: model.predict(np.zeros((3, d + 1))), "predict in another dimension")
    refused(lambda: model.simulate(x[0], 3.0), "simulate to a scalar time")
    refused(lambda: model.simulate(np.zeros(d + 1), t), "simulate from another dimension")
    now = vars(model)
    same = now.keys() == before.keys() and all(now[key] is value for key, value in before.items())
    require(same, "a refused call changed the fitted model")


def check_gaps(factory: Factory, data: Data) -> None:
    """Missing observations are no obstacle."""
    (x, *_), (t, *_) = data
    gaps = x.copy()
    gaps[5:8] = np.nan
    gaps[12, 0] = np.nan
    model = factory()
    caught(lambda: model.fit(gaps, t), DataWarning)
    require(np.isfinite(model.predict(x)).all(), "missing observations: expected finite predictions")


def check_warnings(factory: Factory, data: Data) -> None:
    """One warning for x_dot and inputs without effect, one for constant coordinates."""
    (x, *_), (t, *_) = data
    model = factory()
    warned = caught(lambda: model.fit(x, t, x_dot=np.gradient(x, t, axis=0)), IgnoredInputWarning)
    wanted = 0 if model.takes & {"x_dot", "rates"} else 1
    require(warned == wanted, "x_dot: expected one IgnoredInputWarning exactly where it has no effect")
    warned = caught(lambda: model.predict(x, u=t), IgnoredInputWarning)
    require(warned == 1, "inputs: expected one IgnoredInputWarning from a model that was fitted without")
    if x.shape[1] > 1:
        constant = x.copy()
        constant[:, 1] = 0.7
        model = factory()
        warned = caught(lambda: model.fit(constant, t), DataWarning)
        require(warned >= 1, "constant coordinate: expected a DataWarning")
        finite = np.isfinite(model.predict(constant)).all()
        require(finite, "constant coordinate: expected finite predictions")


def check_scaling(factory: Factory, tolerance: float) -> None:
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

    See Also
    --------
    check_model : The whole contract.

    Examples
    --------
    >>> import fim_dynsys
    >>> from fim_dynsys import testing
    >>> testing.check_scaling(lambda: fim_dynsys.load("sindy-strong"), 1e-3)
    """
    dim = min(2, largest_dim(factory()))
    x, t = example_data(dim)
    scale, hour = np.array([1e3, 1e-2, 7.0])[:dim], 60.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        field = factory().fit(x, t).field_
        rescaled = factory().fit([v * scale for v in x], [hour * v + 5.0 for v in t]).field_
    points = sample_points(field)
    expected = field(points)
    size = np.abs(expected).max(axis=0)
    close(rescaled(points * scale) * hour / scale, expected, tolerance, size, "rescaled states and time")
