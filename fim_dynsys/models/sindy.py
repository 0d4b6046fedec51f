"""sindy: stock pysindy behind the common interface."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import pysindy
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from fim_dynsys.errors import DataWarning, check_positive, warn
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.equation_text import Style, check_style, equation_text, refuse_errors, shown
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.notation import plain_sum
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.driving import InputFunction
from fim_dynsys.models.inputs import Observations, Times
from fim_dynsys.models.pysindy_objects import described, made
from fim_dynsys.saved import SavedModel
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.observations import is_list_of_trajectories

_PARTS = ("optimizer", "feature_library", "differentiation_method")
_SAID = (UserWarning, RuntimeWarning)  # what pysindy and scikit-learn say of the data


class SINDyConvergenceWarning(DataWarning, ConvergenceWarning):
    """pysindy's optimizer did not converge."""


class SINDy(VectorFieldModel):
    """`pysindy.SINDy` with its own defaults and the call surface of every other model.

    Coefficients equal those of `pysindy.SINDy` with the same objects. As there, `fit` fits the objects given
    in place, so that ``model.optimizer.coef_`` and ``model.feature_library`` are the fitted ones afterwards;
    `infer` and `ensemble` work on copies.

    Parameters
    ----------
    optimizer : pysindy optimizer, optional
        Default ``pysindy.STLSQ()``. This and what follows may be plain data instead, as in
        ``{"class": "STLSQ", "threshold": 0.2}``.
    feature_library : pysindy feature library, optional
        Default ``pysindy.PolynomialLibrary()``, degree 2.
    differentiation_method : pysindy differentiation, optional
        Default ``pysindy.FiniteDifference(axis=-2)``.

    References
    ----------
    S. L. Brunton, J. L. Proctor, J. N. Kutz, Discovering governing equations from data by sparse
    identification of nonlinear dynamical systems, PNAS 113 (2016) 3932, eq. 5-8; the same, Sparse
    identification of nonlinear dynamics with control (SINDYc), IFAC-PapersOnLine 49 (2016) 710, eq. 8.
    """

    name = "sindy"
    version = "1"
    min_observations = 3
    takes = frozenset({"inputs", "x_dot"})
    _equation_style = "pysindy"

    def __init__(
        self, optimizer: Any = None, feature_library: Any = None, differentiation_method: Any = None
    ) -> None:
        stock = pysindy.SINDy(made(optimizer), made(feature_library), made(differentiation_method))
        self.optimizer = stock.optimizer
        self.feature_library = stock.feature_library
        self.differentiation_method = stock.differentiation_method

    @classmethod
    def of_stock(cls, stock: Any) -> Self:
        """The same optimizer, library and differentiation as a `pysindy.SINDy`, which stays as it is.

        Raises
        ------
        ValueError
            For any other object of pysindy.
        """
        if not isinstance(stock, pysindy.SINDy):
            raise ValueError(f"sindy: expected a pysindy.SINDy, got {type(stock).__name__}.")
        return cls(*(deepcopy(getattr(stock, name)) for name in _PARTS))

    def fit(
        self,
        x: Observations,
        t: Times = None,
        x_dot: ArrayLike | Sequence[ArrayLike] | None = None,
        u: ArrayLike | Sequence[ArrayLike] | InputFunction | None = None,
        feature_names: Sequence[str] | None = None,
        **others: Any,
    ) -> Self:
        """As every model's, and with what pysindy's own accepts.

        With a library of derivatives (partial differential equations, implicit equations) there is no vector
        field: ``stock_`` is then the fitted `pysindy.SINDy`, which answers what is asked of it, and nothing
        else of a model works.
        A list of times, or of steps, has one entry for each trajectory; an array x (..., n, d) of more than
        two dimensions holds trajectories of equal times.
        """
        if (_has_derivatives(self.feature_library) or _is_implicit(self.optimizer)) and not others:
            self.stock_ = self._stock(lambda part: part).fit(x, t, x_dot, u, feature_names)
            for name in ("field_", "context_"):
                vars(self).pop(name, None)
            self.feature_names = self.stock_.feature_names
            return self
        if isinstance(t, list | tuple) and (is_list_of_trajectories(x) or not isinstance(x, list | tuple)):
            if not isinstance(x, list | tuple) or len(t) != len(x):
                raise ValueError(
                    f"sindy.fit: expected a list t with an entry for each trajectory in a list x, got "
                    f"{len(t)} with x of type {type(x).__name__}; pass the times of one array as an array."
                )
            t = cast(Any, [_times(e, z) for e, z in zip(t, x, strict=True)])
        if isinstance(x, np.ndarray) and x.ndim > 2 and x.size:
            if isinstance(x_dot, np.ndarray) and x_dot.shape == x.shape:
                x_dot = list(x_dot.reshape(-1, *x.shape[-2:]))
            x = list(x.reshape(-1, *x.shape[-2:]))
        super().fit(x, t, x_dot, u, feature_names, **others)
        vars(self).pop("stock_", None)
        return self

    def infer(self, trajectories: Trajectories, x_dot: Sequence[np.ndarray] | None = None) -> VectorField:
        """Fit `pysindy.SINDy` to all trajectories; `x_dot`, one array (n_i, d) each, saves differentiation.

        Raises
        ------
        ValueError
            A trajectory with fewer than three complete samples, unless `x_dot` is given.
        """
        return self._fitted(self._stock(deepcopy), trajectories, x_dot)

    def _infer_to_keep(self, trajectories: Trajectories, **given: Any) -> VectorField:
        return self._fitted(self._stock(lambda part: part), trajectories, given.get("x_dot"))

    def _fitted(
        self, model: Any, trajectories: Trajectories, x_dot: Sequence[np.ndarray] | None
    ) -> VectorField:
        """The field of a stock model, fitted in place."""
        for name in _PARTS:
            part, method = getattr(model, name), "__call__" if name.startswith("diff") else "fit"
            if isinstance(part, type) or not all(
                hasattr(part, method_name) for method_name in (method, "get_params")
            ):
                raise ValueError(f"{self._caller}: expected pysindy's {name}, got {part!r}.")
        constant = _constant_of(model.feature_library)
        x, t, x_dot, u = _complete(trajectories, x_dot)
        if x_dot is None and min(map(len, x), default=0) < self.min_observations:
            raise ValueError(
                f"sindy: expected at least {self.min_observations} complete samples in each trajectory, "
                f"got {min(map(len, x), default=0)}; leave the trajectory out or give x_dot."
            )
        names = [*trajectories.state_names, *trajectories.input_names]
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                model.fit(x, t=t, x_dot=x_dot, u=u if trajectories.input_names else None, feature_names=names)
        except ValueError as error:  # numpy's and scipy's too: overflow in the normal equations
            raise ValueError(
                f"sindy: expected observations that pysindy can regress, got its error {str(error)!r}; "
                "rescale states or times, or change the optimizer or library."
            ) from error
        for category, text in dict.fromkeys((w.category, str(w.message).strip()) for w in said):
            if issubclass(category, _SAID):
                unconverged = issubclass(category, ConvergenceWarning)
                warn(f"sindy: pysindy warns: {text}", SINDyConvergenceWarning if unconverged else DataWarning)
        info = FitInfo(
            initial_states=np.stack([v[0] for v in x]) if len(x) == len(trajectories) else None,
            report={"optimizer": _text(model.optimizer), "feature_library": _text(model.feature_library)},
        )
        inputs = len(trajectories.input_names)
        found = np.array(model.optimizer.coef_, dtype=np.float64).T
        coefficients = np.concatenate([found, np.zeros((len(found), inputs))], axis=1)
        about: dict[str, Any] = (
            {"state_names": names} if inputs else {"context": trajectories, "fit_info": info}
        )
        wrapped = isinstance(model.optimizer, pysindy.WrappedOptimizer)
        if _is_polynomial(model.feature_library) and not wrapped:
            powers = np.asarray(model.feature_library.powers_)
            field: Any = DictionaryField(Dictionary(powers), coefficients, **about)
        else:
            library = deepcopy(getattr(model.feature_library, "function_library", model.feature_library))
            rates = deepcopy(model.optimizer.predict) if wrapped else None
            field = LibraryField(library, coefficients, constant, rates, **about)
        if inputs:
            return DrivenField(field, trajectories.input_names, context=trajectories, fit_info=info)
        return field

    def differentiate(self, x: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Derivatives (n, d) of samples by `differentiation_method`."""
        return np.asarray(deepcopy(self.differentiation_method)(x, t))

    def _to_save(self) -> SavedModel:
        if "stock_" in vars(self):
            raise ValueError(
                "sindy.save: expected a fitted vector field, got equations with derivatives; keep the data "
                "and fit again."
            )
        saved = super()._to_save()
        return replace(saved, params={name: described(part) for name, part in saved.params.items()})

    def _stock(self, part: Callable[[Any], Any]) -> pysindy.SINDy:
        return pysindy.SINDy(**{name: part(value) for name, value in self.get_params(deep=False).items()})

    def __sklearn_is_fitted__(self) -> bool:
        return "stock_" in vars(self) or super().__sklearn_is_fitted__()

    if not TYPE_CHECKING:  # see `FittedModel`

        def __getattr__(self, name: str) -> Any:
            if name in ("field_", "context_") and "stock_" in vars(self):
                raise ValueError(
                    f"sindy.{name}: expected a library of functions of the state, and an optimizer of "
                    f"explicit equations, got {type(self.feature_library).__name__} and "
                    f"{type(self.optimizer).__name__}, whose equations are no vector field; use stock_, the "
                    "fitted pysindy.SINDy."
                )
            return super().__getattr__(name)

    def predict(self, x: Any, u: Any = None) -> Any:
        """As every model's."""
        return self._answering().predict(x, u)

    def score(self, x: Any, t: Any = None, x_dot: Any = None, u: Any = None, *args: Any, **kws: Any) -> float:
        """As every model's."""
        return self._answering().score(x, t, x_dot, u, *args, **kws)

    def equations(self, precision: int = 3, errors: bool = False, style: Style | None = None) -> list[str]:
        """As every model's, by default in pysindy's style; without errors, which are not known."""
        if "stock_" not in vars(self):
            return super().equations(precision, errors, style)
        if errors or style == "plain":
            raise ValueError(
                "sindy.equations: expected neither errors nor style='plain' for equations with derivatives, "
                f"got errors={errors}, style={style!r}; leave them out."
            )
        return self.stock_.equations(precision)

    def print(self, *args: Any, **kws: Any) -> None:
        """As every model's."""
        self._answering().print(*args, **kws)

    def coefficients(self) -> np.ndarray:
        """As every model's."""
        return self._answering().coefficients()

    def get_feature_names(self) -> list[str]:
        """As every model's."""
        return self._answering().get_feature_names()

    def _answering(self) -> Any:
        """Who answers: the stock model where there is no field, else the base class."""
        return vars(self).get("stock_", super())

    @property
    def n_output_features_(self) -> int:
        """Number of the library's columns, as pysindy names it."""
        self._fitted_field()
        return self.feature_library.n_output_features_

    @property
    def n_control_features_(self) -> int:
        """Number of inputs, as pysindy names it."""
        return len(getattr(self._fitted_field(), "input_names", ()))

    def _symbolic_field(self) -> Any:
        field = self._fitted_field()
        return field if isinstance(field, LibraryField) else super()._symbolic_field()


class LibraryField(VectorField):
    """A field made of the columns of any fitted pysindy feature library.

    The Jacobian is the base class's fourth-order difference quotient.

    Parameters
    ----------
    library : pysindy feature library
        Fitted; it is evaluated.
    coefficients : array (m, d)
        One row per column.
    constant : bool
        Whether a constant stands before the library's columns.
    predict : callable, optional
        Rates (n, k) of the first k states from the columns, where an optimizer predicts otherwise than by its
        coefficients, as pysindy's of scikit-learn's regressions do.
    **kwargs
        Passed to `VectorField`.
    """

    def __init__(
        self,
        library: Any,
        coefficients: np.ndarray,
        constant: bool = False,
        predict: Callable[[np.ndarray], np.ndarray] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(coefficients.shape[1], **kwargs)
        self.library, self.constant, self._predict = library, constant, predict
        self.coefficients = np.asfortranarray(coefficients)  # as pysindy multiplies, to the last digit

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        if not len(x):
            return np.zeros((0, self.dim))
        columns = np.asarray(self.library.transform(x))
        if self._predict is not None:
            rates = np.zeros_like(x)
            found = self._predict(columns)
            rates[:, : found.shape[1]] = found
            return rates
        return columns @ self.coefficients[int(self.constant) :] + self.constant * self.coefficients[0]

    @property
    def complexity(self) -> int:
        """Number of coefficients that are not zero."""
        return int(np.count_nonzero(self.coefficients))

    def get_feature_names(self) -> list[str]:
        """Names of the columns."""
        return ["1"] * self.constant + list(self.library.get_feature_names(list(self.state_names)))

    def equations(self, precision: int = 3, errors: bool = False, style: Style = "plain") -> list[str]:
        """Right-hand sides with `precision` significant digits; `errors` are not known."""
        if errors:
            refuse_errors(type(self).__name__)
        check_style(type(self).__name__, style)
        names = self.get_feature_names()
        write = plain_sum if style == "plain" else equation_text
        return [write(column, names, precision) for column in self.coefficients.T]

    def _shown_equations(self, errors: bool = True) -> list[str]:
        """Equations for display, a line for each state; see `VectorField._shown_equations`."""
        return shown(self.state_names, self.equations())


def _times(t: Any, x: Any) -> Any:
    """Times of one trajectory, where they may be given as a step."""
    if not isinstance(t, numbers.Real):
        return t
    check_positive("sindy.fit", t=t)
    return float(t) * np.arange(len(x))


def _complete(
    trajectories: Trajectories, x_dot: Sequence[np.ndarray] | None
) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray] | None, list[np.ndarray]]:
    """Complete samples, their times, slopes and inputs as lists, without trajectories that have none."""
    if x_dot is None:
        kept = trajectories.drop_incomplete("sindy")
        t, x = (list(part) for part in zip(*kept.arrays(), strict=True))
        return x, t, None, kept.input_arrays()
    parts = zip(trajectories.arrays(), x_dot, trajectories.input_arrays(), strict=True)
    rows = [(t, x, v, u, np.isfinite(x).all(axis=1) & np.isfinite(v).all(axis=1)) for (t, x), v, u in parts]
    found = [(t[r], x[r], v[r], u[r]) for t, x, v, u, r in rows if r.any()]
    t, x, v, u = (list(part) for part in zip(*found, strict=True))
    return x, t, v, u


def _is_polynomial(library: Any) -> bool:
    return type(library) is pysindy.PolynomialLibrary


def _has_derivatives(library: Any) -> bool:
    """Whether a library has columns that are no functions of the state."""
    return isinstance(library, pysindy.PDELibrary | pysindy.WeakPDELibrary) and bool(
        library.num_derivatives or library.implicit_terms
    )


def _is_implicit(optimizer: Any) -> bool:
    """Whether an optimizer regresses every column on the others; pysindy has it where cvxpy is installed."""
    return type(optimizer).__name__ == "SINDyPI"


def _constant_of(library: Any) -> bool:
    """Whether a library for partial differential equations puts a constant before its functions."""
    spatial = isinstance(library, pysindy.PDELibrary | pysindy.WeakPDELibrary)
    return spatial and bool(library.include_bias)


def _text(part: Any) -> str:
    """How an object of pysindy shows itself; its class where scikit-learn cannot tell its parameters."""
    try:
        return repr(part)
    except (AttributeError, RuntimeError):
        return type(part).__name__
