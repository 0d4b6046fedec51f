"""How a field was inferred: the facts that code reads, and the entries of a report that they make."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Self

from fim_dynsys.wording import counted


class Noise(Enum):
    """What is assumed of the errors of observations."""

    ESTIMATED = "estimated"
    GIVEN = "given"
    POISSON = "Poisson"


class Judge(Enum):
    """What chose the answer among the candidates of a search."""

    EXACT = "fit to numerical precision"
    BIC = "BIC"
    EXTENDED_BIC = "extended BIC"
    HELD_OUT = "held-out trajectories"
    OPERATOR = "operator alone"


class Trust(Enum):
    """How far a fit may be relied on where there are no data."""

    HIGH = "high"
    LIMITED = "limited"
    LOW = "low"


_SELECTED = "select"  # what a report says of an answer that the user selected
# A network, the selector, once chose where the extended BIC does now.
_OF_OLD_REPORTS = {"fit to the digits": Judge.EXACT, "selector": Judge.EXTENDED_BIC}
_NOTES = "; "  # between notes in a report


@dataclass(frozen=True)
class Inference:
    """How a field was inferred. A fit report is written from it; code reads these facts, not the report.

    Attributes
    ----------
    judge : Judge or None
        What chose the answer; None where nothing was chosen.
    selected : bool
        Whether the user then made another candidate, or the same one, the answer.
    noise : Noise or None
        What was assumed of the errors of the observations.
    outliers : int
        Samples that were left out.
    positions : tuple of str
        States that were observed where the others are their velocities; empty for all.
    rates : tuple of str
        States whose rates are other states, as constraints say; empty for none.
    smoother : str or None
        Whose slopes the terms were regressed on.
    refined : bool or None
        Whether the coefficients were fitted to the trajectories.
    windows : int
        Windows over which candidates were compared and fitted, each with a free start; 0 for whole records.
    window : float or None
        Their mean length in time.
    elsewhere : float or None
        By how much rates of what the field may be as well differ from its own, in a box three times as wide
        as that of the data, in standard deviations of its rates there; inputs take the values of the record.
        None where that is not known.
    beyond_noise : float or None
        Times the noise that is left all along the record, where that is more than noise leaves.
    undetermined : tuple of str
        Relations that hold along the samples, or parameters: what the data do not determine.
    notes : tuple of str
        What a reader should know besides.
    given : bool
        Whether the equations were given, so that there was nothing to choose.
    scarce : bool
        Whether few samples decide, so that other equations may fit as well.
    relative : tuple of (str, float)
        States whose logarithms were fitted, and their relative errors, as estimated.
    """

    judge: Judge | None = None
    selected: bool = False
    noise: Noise | None = None
    outliers: int = 0
    positions: tuple[str, ...] = ()
    rates: tuple[str, ...] = ()
    smoother: str | None = None
    refined: bool | None = None
    windows: int = 0
    window: float | None = None
    elsewhere: float | None = None
    beyond_noise: float | None = None
    undetermined: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    given: bool = False
    scarce: bool = False
    relative: tuple[tuple[str, float], ...] = ()

    def noting(self, *said: str) -> Self:
        """The same with more notes."""
        return replace(self, notes=self.notes + said)

    def entries(self) -> dict[str, Any]:
        """Entries of a fit report, of plain values; what is not known is not in it."""
        found: dict[str, Any] = {}
        if self.judge is not None:
            found["chosen by"] = _SELECTED if self.selected else self.judge.value
        if self.selected and self.judge is not None:
            found["ranked by"] = self.judge.value
        if self.noise is not None:
            found["noise"] = self.noise.value
        if self.outliers:
            found["outliers"] = self.outliers
        if self.positions:
            found["positions"] = list(self.positions)
        if self.rates:
            found["states as rates"] = list(self.rates)
        if self.smoother is not None:
            found["smoother"] = self.smoother
        if self.refined is not None:
            found["refined"] = self.refined
        if self.window is not None:
            found["judged over"] = f"{counted(self.windows, 'window')} of {self.window:.3g} time units"
            found |= {"windows": self.windows, "window": self.window}
        if self.elsewhere is not None:
            found["members differ elsewhere"] = self.elsewhere
        if self.beyond_noise is not None:
            found["left beyond noise"] = self.beyond_noise
        if self.undetermined:
            found["not determined"] = list(self.undetermined)
        if self.notes:
            found["note"] = _NOTES.join(self.notes)
        if self.given:
            found["given"] = True
        if self.scarce:
            found["few samples"] = True
        if self.relative:
            found["relative errors"] = dict(self.relative)
        return found

    @classmethod
    def of_entries(cls, report: Mapping[str, Any]) -> Self:
        """The facts that a report was written from, for models that are read from files.

        Entries of other kinds than `entries` writes, and of later versions, are left to the report.
        """
        ranked = report.get("ranked by", report.get("chosen by"))
        known = {judge.value: judge for judge in Judge} | _OF_OLD_REPORTS
        noise = {kind.value: kind for kind in Noise}
        notes = report.get("note")
        return cls(
            judge=known.get(str(ranked)),
            selected=report.get("chosen by") == _SELECTED,
            noise=noise.get(str(report.get("noise"))),
            outliers=int(report.get("outliers", 0)),
            positions=tuple(report.get("positions", ())),
            rates=tuple(report.get("states as rates", ())),
            smoother=report.get("smoother"),
            refined=report.get("refined"),
            windows=int(report.get("windows", 0)),
            window=report.get("window"),
            elsewhere=report.get("members differ elsewhere"),
            beyond_noise=report.get("left beyond noise"),
            undetermined=tuple(report.get("not determined", report.get("undetermined", ()))),
            notes=tuple(str(notes).split(_NOTES)) if notes else (),
            given=bool(report.get("given", False)),
            scarce=bool(report.get("few samples", False)),
            relative=tuple((report.get("relative errors") or {}).items()),
        )


NOTHING_KNOWN = Inference()
"""Of fields that were not inferred, and of members of ensembles."""
