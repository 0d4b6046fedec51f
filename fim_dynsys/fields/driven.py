"""Fields with inputs: dx/dt = f(x, u), autonomous once the inputs are held."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fim_dynsys.errors import check_named, real_array
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField, aligned_latex, latex_names
from fim_dynsys.fields.equation_text import Style, shown
from fim_dynsys.fields.family import FieldFamily
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.ordering import by_labels

if TYPE_CHECKING:
    from sympy import Expr, Symbol


class Extended(Protocol):
    """A field of states and inputs together that is a sum of named terms; inputs stand still."""

    @property
    def dim(self) -> int: ...

    @property
    def coefficients(self) -> np.ndarray: ...

    def __call__(self, x: ArrayLike) -> np.ndarray: ...

    def jacobian(self, x: ArrayLike) -> np.ndarray: ...

    @property
    def standard_errors(self) -> np.ndarray | None: ...

    @property
    def _has_errors(self) -> bool: ...

    def get_feature_names(self) -> list[str]: ...

    def _table_in(self, units: Mapping[str, str]) -> pd.DataFrame: ...

    def equations(self, precision: int = 3, errors: bool = False, style: Style = "plain") -> list[str]: ...

    def sympy(self, symbols: "Sequence[Symbol] | None" = None) -> "list[Expr]": ...

    def _latex_sides(self, precision: int) -> list[str]: ...


class DrivenField(VectorField):
    """A field ``dx/dt = f(x, u)`` of states (d,) and inputs (m,).

    It is no autonomous field: what analyses read is `at_input`, or `family` over one of the inputs.

    Parameters
    ----------
    extended : VectorField
        The field of states and inputs (d + m,), whose last m rates are zero.
    input_names : sequence of str
        Names of the m inputs.
    **kwargs
        Passed to `VectorField`; of the states.
    """

    def __init__(self, extended: Extended, input_names: Sequence[str], **kwargs: Any) -> None:
        super().__init__(extended.dim - len(input_names), **kwargs)
        self.extended = extended
        self.input_names = tuple(input_names)

    @classmethod
    def of(
        cls, dictionary: Dictionary, coefficients: np.ndarray, context: Trajectories, fit_info: FitInfo
    ) -> "DrivenField":
        """The field of coefficients (terms, d + m), zero for the inputs, inferred from such a context."""
        names = [*context.state_names, *context.input_names]
        extended = DictionaryField(dictionary, coefficients, state_names=names)
        return cls(extended, context.input_names, context=context, fit_info=fit_info)

    def __call__(self, x: ArrayLike, u: ArrayLike | None = None) -> np.ndarray:
        """Rate of change at states ``(..., d)`` under inputs that broadcast to ``(..., m)``.

        Raises
        ------
        TypeError
            Where the inputs are missing.
        ValueError
            Where shapes do not fit.
        """
        if u is None:
            self._refuse()
        x, rows = self._rows(x)
        return self.extended(self._joined(rows, u))[:, : self.dim].reshape(x.shape)

    def at_input(self, u: ArrayLike | Mapping[str, float]) -> VectorField:
        """The autonomous field under constant inputs.

        Parameters
        ----------
        u : array_like (m,), mapping or Series
            Values of the inputs, in their order or by name.

        Returns
        -------
        VectorField
            A `DictionaryField` where f is a polynomial.

        Raises
        ------
        ValueError
            Where inputs are missing or too many, or not finite.
        """
        values = self._values(by_labels("at_input", "inputs", u, self.input_names))
        frame, info = self.frame, self.fit_info
        if isinstance(self.extended, DictionaryField) and self.extended.dictionary.is_polynomial:
            powers = self.extended.dictionary.exponents
            factors = np.prod(values ** powers[:, self.dim :], axis=1)
            kept, place = np.unique(powers[:, : self.dim], axis=0, return_inverse=True)
            coefficients = np.zeros((len(kept), self.dim))
            np.add.at(
                coefficients, place.ravel(), factors[:, None] * self.extended.coefficients[:, : self.dim]
            )
            order = np.lexsort((*-kept.T[::-1], kept.sum(axis=1)))
            return DictionaryField(Dictionary(kept[order]), coefficients[order], frame=frame, fit_info=info)
        return _Held(self, values, frame=frame, fit_info=info)

    def family(self, input_name: str, at: Mapping[str, float] | None = None) -> FieldFamily:
        """The fields over one input as parameter, for bifurcation diagrams.

        Parameters
        ----------
        input_name : str
            The input that varies.
        at : mapping, optional
            Values of all others.

        Raises
        ------
        ValueError
            For names that are not inputs, or others without a value.
        """
        if input_name not in self.input_names:
            raise ValueError(
                f"DrivenField.family: expected an input among {list(self.input_names)}, got {input_name!r}."
            )
        others = check_named("DrivenField.family", "at", at)

        def rates(x: np.ndarray, p: float) -> np.ndarray:
            return self(x, self._values(others | {input_name: p}))

        rates(np.zeros((1, self.dim)), 0.0)
        return FieldFamily.from_callable(
            rates, self.dim, input_name, state_names=self.state_names, region=self.region
        )

    @property
    def coefficients(self) -> np.ndarray:
        """Coefficients (terms, d) of the terms named by `get_feature_names`."""
        return self.extended.coefficients[:, : self.dim]

    @property
    def standard_errors(self) -> np.ndarray | None:
        """Standard errors (terms, d) of the coefficients; None where they are not known."""
        errors = self.extended.standard_errors
        return None if errors is None else errors[:, : self.dim]

    @property
    def _has_errors(self) -> bool:
        """Whether equations can be given with standard errors."""
        return self.extended._has_errors

    def to_dataframe(self) -> pd.DataFrame:
        """The coefficients as a table; see `DictionaryField.to_dataframe`."""
        table = self.extended._table_in({} if self.context is None else self.context.units)
        return table[table["state"].isin(self.state_names)].reset_index(drop=True)

    @property
    def complexity(self) -> int:
        """Number of coefficients that are not zero."""
        return int(np.count_nonzero(self.coefficients))

    def get_feature_names(self) -> list[str]:
        """Names of the terms, in states and inputs."""
        return self.extended.get_feature_names()

    def equations(self, precision: int = 3, errors: bool = False, style: Style = "plain") -> list[str]:
        """Right-hand sides as text, one for each state; see `DictionaryField.equations`."""
        return self.extended.equations(precision, errors, style)[: self.dim]

    def sympy(self, symbols: "Sequence[Symbol] | None" = None) -> "list[Expr]":
        """Right-hand sides as sympy expressions, one for each state; see `DictionaryField.sympy`.

        Parameters
        ----------
        symbols : sequence of sympy.Symbol, optional
            One per state and input, in this order.
        """
        return self.extended.sympy(symbols)[: self.dim]

    def latex(self, precision: int = 3) -> str:
        """Right-hand sides as one aligned LaTeX block; see `DictionaryField.latex`."""
        return aligned_latex(latex_names(self.state_names), self.extended._latex_sides(precision)[: self.dim])

    def _repr_latex_(self) -> str:
        return f"$${self.latex()}$$"

    def _shown_equations(self, errors: bool = True) -> list[str]:
        """Equations for display, a line for each state; see `VectorField._shown_equations`."""
        known = errors and self._has_errors
        return shown(self.state_names, self.equations(errors=known))

    def _picture(self) -> str:
        """None: the flow depends on the inputs."""
        return ""

    def _joined(self, rows: np.ndarray, u: ArrayLike) -> np.ndarray:
        inputs = real_array(u, "DrivenField", "inputs u")
        inputs = inputs[..., None] if inputs.ndim <= 1 and len(self.input_names) == 1 else inputs
        inputs = inputs.reshape(-1, inputs.shape[-1]) if inputs.ndim > 1 else inputs
        try:
            inputs = np.broadcast_to(inputs, (len(rows), len(self.input_names)))
        except ValueError:
            raise ValueError(
                f"DrivenField: expected inputs of shape ({len(rows)}, {len(self.input_names)}) with as many "
                f"states, got {np.shape(u)}."
            ) from None
        return np.concatenate([rows, inputs], axis=1)

    def _values(self, u: ArrayLike | Mapping[str, float]) -> np.ndarray:
        if isinstance(u, Mapping):
            if set(u) != set(self.input_names):
                raise ValueError(
                    f"DrivenField: expected values of the inputs {list(self.input_names)}, got those of "
                    f"{sorted(map(str, u))}."
                )
            u = [u[name] for name in self.input_names]
        values = np.atleast_1d(real_array(u, "DrivenField", "inputs u"))
        if values.shape != (len(self.input_names),) or not np.isfinite(values).all():
            raise ValueError(
                f"DrivenField: expected {len(self.input_names)} finite values, of the inputs "
                f"{', '.join(self.input_names)}, got {u!r}."
            )
        return values

    def _refuse(self) -> NoReturn:
        raise TypeError(
            f"DrivenField: expected inputs u, of {', '.join(self.input_names)}, beside the states; give "
            "them, or hold them by field.at_input(u) to have the autonomous field that analyses need."
        )

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        self._refuse()


class _Held(VectorField):
    """A driven field under constant inputs (m,)."""

    def __init__(self, driven: DrivenField, u: np.ndarray, **kwargs: Any) -> None:
        super().__init__(driven.dim, **kwargs)
        self._driven, self._u = driven, u

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        return self._driven(x, self._u)

    def _jac(self, x: np.ndarray) -> np.ndarray:
        return self._driven.extended.jacobian(self._driven._joined(x, self._u))[:, : self.dim, : self.dim]
