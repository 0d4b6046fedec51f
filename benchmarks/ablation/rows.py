"""Models with one stage of their search left out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from benchmarks.harness.rows import View
from fim_dynsys.fields.base import VectorField
from fim_dynsys.models.auto import Auto
from fim_dynsys.models.fim_ode.own import FIMODE
from fim_dynsys.search import stages
from fim_dynsys.search.stages import Row as Searched


def _without(*left_out: stages.Stage) -> Callable[[Searched], Searched]:
    return lambda row: row.without(*left_out)


def _amounts(**amounts: object) -> Callable[[Searched], Searched]:
    return lambda row: replace(row, effort=replace(row.effort, **amounts))


def _of_functions(**amounts: int) -> Callable[[Searched], Searched]:
    def changed(row: Searched) -> Searched:
        functions = replace(row.effort.functions, **amounts)
        return replace(row, effort=replace(row.effort, functions=functions))

    return changed


Changes = tuple[Callable[[Searched], Searched], ...]
LEFT_OUT: Mapping[str, Mapping[str, Changes]] = {
    "auto": {
        "": (),
        "operator": (_without(stages.operator),),
        "reselection": (_without(stages.reselection),),
        "windows": (_without(stages.windows),),
        "functions": (_without(stages.functions),),
        "functions chosen again": (_of_functions(repeated=0),),
        "all that is chosen again": (_without(stages.reselection), _of_functions(repeated=0)),
        "pairs of functions": (_of_functions(pairs=0),),
        "exact laws": (_amounts(exact_structures=None),),
    },
    "fim-ode": {
        "": (),
        "operator": (_without(stages.operator),),
        "regressions": (_amounts(structures=0),),
        "reselection": (_without(stages.reselection),),
        "windows": (_without(stages.windows),),
    },
}
"""What is left out of a model, by the name of what that is, and how."""


class _Auto(Auto):
    changes: Changes = ()

    @property
    def _row(self) -> Searched:
        return _changed(super()._row, self.changes)


class _FIMODE(FIMODE):
    changes: Changes = ()

    @property
    def _row(self) -> Searched:
        return _changed(super()._row, self.changes)


def _changed(row: Searched, changes: Changes) -> Searched:
    for change in changes:
        row = change(row)
    return row


@dataclass(frozen=True)
class AblatedRow:
    """A model without a part of its search; see `LEFT_OUT`."""

    model: str
    left_out: str = ""
    sees_truth: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """As the tables have it."""
        return f"{self.model} without {self.left_out}" if self.left_out else self.model

    @property
    def version(self) -> str:
        """The model's."""
        return str(self._loaded.version)

    @cached_property
    def _loaded(self) -> Auto | FIMODE:
        model = _Auto() if self.model == "auto" else _FIMODE()
        model.changes = LEFT_OUT[self.model][self.left_out]
        return model

    def infer(self, view: View) -> VectorField:
        """The field of a context."""
        return self._loaded.infer(view.context)
