"""Parameters of models by scikit-learn's conventions, which takes most of a second to import."""

import inspect
from copy import copy, deepcopy
from typing import Any, Self, TypeVar

_Model = TypeVar("_Model", bound="Estimator")


def separate(model: _Model) -> _Model:
    """A copy whose fits leave a model as it is: pysindy's objects are written to."""
    return copy(model).set_params(**deepcopy(model.get_params(deep=False)))


class Estimator:
    """What `sklearn.base.clone`, grid searches and pipelines ask of an estimator.

    Parameters are those of ``__init__``, which keeps each under its own name.
    """

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """Parameters by name, with their defaults."""
        known = inspect.signature(cls).parameters.values()
        return {p.name: p.default for p in known if p.kind is not p.VAR_KEYWORD}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep`, those of parameters that are estimators too, as ``name__its``.

        Examples
        --------
        >>> import fim_dynsys
        >>> fim_dynsys.load("sindy-strong", degree=2).get_params()["degree"]
        2
        """
        found: dict[str, Any] = {}
        for name in sorted(self._defaults()):
            found[name] = value = getattr(self, name)
            if deep and not isinstance(value, type) and callable(getattr(value, "get_params", None)):
                found |= {f"{name}__{inner}": part for inner, part in value.get_params().items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Change parameters, named as `get_params` names them; returns the model itself.

        Raises
        ------
        ValueError
            For a name that it does not have.

        Examples
        --------
        >>> import fim_dynsys
        >>> model = fim_dynsys.load("sindy-strong").set_params(degree=2)
        >>> model.get_params()["degree"]
        2
        """
        known = self._defaults()
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, _, inner = key.partition("__")
            if name not in known:
                caller, names = type(self).__name__, ", ".join(sorted(known))
                raise ValueError(f"{caller}.set_params: expected parameters among {names}, got {name!r}.")
            if inner:
                nested.setdefault(name, {})[inner] = value
            else:
                setattr(self, name, value)
        for name, values in nested.items():
            getattr(self, name).set_params(**values)
        return self

    def __repr__(self) -> str:
        given = []
        for name, default in self._defaults().items():
            value = getattr(self, name)
            if value is not default and repr(value) != repr(default):
                given.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(given)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator  # deferred: only scikit-learn itself asks

        return BaseEstimator().__sklearn_tags__()
