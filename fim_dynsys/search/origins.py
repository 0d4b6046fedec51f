"""Where a candidate comes from: the stage that made it, with which setting, from which other candidate."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Self


class Stage(Enum):
    """Stages of the search that make candidates."""

    NO_MOTION = "no motion"
    REGRESSION = "regression of slopes"
    SOLVE = "operator, solve"
    STRUCTURE = "operator, structure"
    SCREENING = "screened"
    PRUNING = "pruned"
    RESELECTION = "reselected"
    FUNCTIONS = "functions"
    NEIGHBOURS = "neighbouring samples"
    IMPLICIT_REGRESSION = "implicit regression"
    CROSSING = "right-hand sides of several models"
    PROPOSED = "proposed"
    REFIT = "refit"
    GIVEN = "given"


_NAMED_BY_SETTING = frozenset({Stage.REGRESSION, Stage.FUNCTIONS, Stage.PROPOSED})
"""Stages that readers know by their settings alone."""


def named(coordinate: int) -> str:
    """A state or input in a setting: `Origin.text` writes its name there."""
    return f"{{x{coordinate}}}"


@dataclass(frozen=True)
class Origin:
    """Where a candidate comes from.

    Attributes
    ----------
    stage : Stage
        What made it.
    setting : str
        Of the stage, in words; states and inputs as `named` writes them.
    number : int
        Of several answers of a stage, in their order.
    parent : Origin or None
        Of the candidate that it was made from.
    """

    stage: Stage
    setting: str = ""
    number: int = 0
    parent: Self | None = None

    def then(self, stage: Stage) -> "Origin":
        """Of a candidate that a stage makes from this one; pruning at the end is not repeated."""
        repeated = {stage, Stage.PRUNING}
        before = self
        while before.stage in repeated and before.parent is not None:
            repeated.discard(before.stage)
            before = before.parent
        return Origin(stage, parent=before)

    def passed(self, stage: Stage) -> bool:
        """Whether the candidate, or one that it was made from, went through a stage."""
        return self.stage is stage or (self.parent is not None and self.parent.passed(stage))

    @property
    def source(self) -> Stage:
        """The stage that made the first of the candidates that this one was made from."""
        return self.stage if self.parent is None else self.parent.source

    def text(self, coordinates: Sequence[int] | None = None) -> str:
        """In words; the states and inputs are x0, x1, ..., or numbered by ``coordinates``."""
        if self.parent is not None:
            return f"{self.parent.text(coordinates)}, {self.stage.value}"
        setting = self.setting.format_map(_Names(coordinates))
        if self.stage in _NAMED_BY_SETTING:
            return setting
        name = f"{self.stage.value} {self.number}" if self.stage is Stage.SOLVE else self.stage.value
        return f"{name}: {setting}" if setting else name


class _Names(dict[str, str]):
    def __init__(self, coordinates: Sequence[int] | None) -> None:
        self._coordinates = coordinates

    def __missing__(self, key: str) -> str:
        return key if self._coordinates is None else f"x{self._coordinates[int(key[1:])]}"
