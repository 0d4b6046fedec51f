"""What a reader may be asked for, and what it says it has done."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from fim_dynsys.errors import check_positive, check_whole

WHO = "Trajectories.from_file"


def refusal(expected: str, got: str, remedy: str = "") -> ValueError:
    """An error about a file, in the form of all of them."""
    return ValueError(f"{WHO}: expected {expected}, got {got}{f'; {remedy}' if remedy else ''}")


def quoted(names: Iterable[Any]) -> str:
    """Names as one lists them in a sentence."""
    return ", ".join(repr(str(name)) for name in names)


@dataclass(frozen=True)
class Options:
    """Arguments of :meth:`Trajectories.from_file`, which documents them."""

    time: str | None = None
    trajectory: str | Sequence[str] | None = None
    states: Sequence[str] | None = None
    inputs: Sequence[str] | None = None
    coords: Sequence[str] | None = None
    units: Mapping[str, str] | None = None
    step: float | None = None
    every: int = 1
    trials: str = "restart"
    repeated: str | None = None
    missing: Any = None
    bad_rows: str = "error"
    separator: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    comment: str | None = None
    encoding: str | None = None
    names: Sequence[str] | None = None
    dayfirst: bool | None = None
    time_format: str | None = None
    sheet: str | None = None
    format: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Checked options.

        Raises
        ------
        ValueError
            For an argument that there is not, or a value that it cannot have.
        """
        known = [item.name for item in fields(cls)]
        unknown = [name for name in given if name not in known]
        if unknown:
            raise refusal(f"arguments among {', '.join(known)}", quoted(unknown))
        options = cls(**given)
        if options.step is not None:
            check_positive(WHO, step=options.step)
        check_whole(WHO, 1, every=options.every)
        for name, allowed in _CHOICES.items():
            value = getattr(options, name)
            if value not in allowed:
                choices = " or ".join(repr(choice) for choice in allowed if choice is not None)
                raise refusal(f"{name} as {choices}", repr(value))
        for name in ("time", "separator", "decimal", "thousands", "comment", "encoding", "sheet"):
            value = getattr(options, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise refusal(f"{name} as text", repr(value))
        return options

    def columns(self, name: str) -> list[str]:
        """Names of columns given for a role."""
        value = getattr(self, name)
        if value is None:
            return []
        return [value] if isinstance(value, str) else [str(item) for item in value]

    def with_units(self, of_file: Mapping[str, str]) -> Mapping[str, str]:
        """Units of a file with those that are given beside them, or in their place."""
        return {**of_file, **self.units} if isinstance(self.units, Mapping) else self.units or of_file

    @property
    def unit_of_time(self) -> str:
        """The unit that is given for the times; empty where none is."""
        return self.units.get("t", "") if isinstance(self.units, Mapping) else ""

    @property
    def missing_values(self) -> tuple[list[str], list[float]]:
        """Texts and numbers that were said to stand for missing values."""
        given = [] if self.missing is None else self.missing
        given = [given] if isinstance(given, str | int | float) else list(given)
        texts, numbers = [str(value) for value in given], []
        for text in texts:
            try:
                numbers.append(float(text))
            except ValueError:
                continue
        return texts, [number for number in numbers if not math.isnan(number)]


_CHOICES: dict[str, tuple[Any, ...]] = {
    "trials": ("restart", "suffix", "none"),
    "repeated": (None, "spread", "trials"),
    "bad_rows": ("error", "drop"),
    "format": (None, "text", "excel", "matlab", "numpy", "hdf5", "parquet", "feather", "netcdf", "csv"),
}


@dataclass
class Notes:
    """What was done to a file, in this order; `decided` is what the file did not say itself."""

    done: list[str] = field(default_factory=list)
    decided: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Note what follows from the file."""
        self.done.append(text)

    def decide(self, text: str) -> None:
        """Note what could be otherwise."""
        self.done.append(text)
        self.decided.append(text)

    def add(self, others: "Notes") -> None:
        """Note what a part of the reading noted by itself."""
        self.done += others.done
        self.decided += others.decided
