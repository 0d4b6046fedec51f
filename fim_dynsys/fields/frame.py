"""What surrounds a field's formula: data, names, box, sizes, support, notes of the inference."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from fim_dynsys.fields.inference import NOTHING_KNOWN, Inference, Judge, Noise, Trust
from fim_dynsys.fields.support import Nearness, Smoothed, frozen, smoothed, spread
from fim_dynsys.regions import Region
from fim_dynsys.trajectories.container import Trajectories

_ASSUMED: dict[Noise | None, str] = {
    Noise.GIVEN: "; errors as given",
    Noise.POISSON: "; counts with Poisson errors",
}
OPEN = 2.0
"""Deviation of rates beyond the data, in their spread, from which a fit has low trust."""

_AGREED, _SYSTEMATIC = 0.1, 1.5  # the same up to which it has high trust; noise levels left in short windows
_REGION_POINTS = 64  # at which the speed of a field without data is measured


@dataclass(frozen=True)
class Scales:
    """Characteristic sizes of a field, to which tolerances are relative.

    Attributes
    ----------
    length : ndarray (d,)
        Standard deviation of each observed state; never zero.
    speed : ndarray (d,)
        Root mean square of each state's rate of change along the smoothed observations; never zero.
    time : float
        ``1 / rms(speed / length)``, at most the longest observed time span.
    """

    length: np.ndarray
    speed: np.ndarray
    time: float

    @classmethod
    def of_rates(cls, length: np.ndarray, rates: np.ndarray, span: float) -> Self:
        """Those of rates of change (n, d), the finite ones, over times of at most ``span``."""
        rates = rates[np.isfinite(rates).all(axis=1)]
        speed = np.sqrt(np.mean(rates**2, axis=0)) if len(rates) else np.zeros(len(length))
        relative = np.sqrt(np.mean((speed / length) ** 2))
        time = min(1.0 / relative if relative > 0 else np.inf, span)
        time = time if np.isfinite(time) and time > 0 else 1.0
        speed = np.where(speed > 1e-12 * length / time, speed, length / time)
        return cls(frozen(length), frozen(speed), float(time))


@dataclass(frozen=True)
class FitInfo:
    """What inference learned beside the field itself.

    Attributes
    ----------
    initial_states : ndarray (K, d) or None
        Estimated state at the first time of each observed trajectory.
    noise_level : ndarray (d,) or None
        Estimated standard deviation of the observation noise per state.
    report : dict
        Notes for readers: candidates tried, scores, settings chosen, and what `inference` knows.
    inference : Inference
        What chose the field, from which observations, by which assumptions: the facts that code reads.
    path_r2 : float or None
        Share of the variance of the data, each state in its standard deviation, that the field's path from
        the fitted starts explains; minus infinity where the path ends before the data do. This and what
        follows is found by `fit`, and None where it was not called.
    window_r2 : float or None
        Share of the motion away from smoothed states, over windows in which the state travels one standard
        deviation, that the field started there explains: what a chaotic record is judged by.
    residual_over_noise : float or None
        What is left in these windows, over the noise level: of the state where it is largest, by root mean
        squares. The noise counts as .001 standard deviations at least. Where it is more than 1.5, starts are
        corrected within the noise first, as their errors grow where paths diverge; not for networks, whose
        paths take long. Equations that were fitted to numerical precision may start at the samples.
    follows : float or None
        Share of the record before the path is half a standard deviation, and twice the noise, off the data.
    follows_for : float or None
        The same as a time, the mean over trajectories.
    to_precision : bool or None
        Whether an answer that a fit "to numerical precision" chose misses the samples by no more than their
        integration errors, or by their noise. False for an approximation; None for other answers.
    problems : tuple of str
        Why the fit fails, as `FitWarning` says; empty where it does not.

    See Also
    --------
    Trust : Levels of `trust`, which sums this up.
    """

    initial_states: np.ndarray | None = None
    noise_level: np.ndarray | None = None
    report: dict = field(default_factory=dict)
    path_r2: float | None = None
    window_r2: float | None = None
    residual_over_noise: float | None = None
    follows: float | None = None
    follows_for: float | None = None
    to_precision: bool | None = None
    problems: tuple[str, ...] = ()
    inference: Inference = NOTHING_KNOWN

    def __post_init__(self) -> None:
        object.__setattr__(self, "report", {**self.report, **self.inference.entries()})

    def noting(self, *said: str) -> Self:
        """The same with more notes for readers."""
        return replace(self, inference=self.inference.noting(*said))

    @property
    def trust(self) -> Trust | None:
        """How far the field may be relied on, beyond the data too; None where it was not compared with data.

        Low where the fit fails, or fields that are as likely differ from it by far more than its rates vary
        in a box three times as wide as that of the data; high where they differ by a tenth at most, or where
        equations follow noise-free samples to numerical precision; else limited, as for approximations of
        noise-free samples, for those of one closed orbit, for equations from noisy positions alone or under
        constraints x' = v, and where few samples decide. How often fields of each level are wrong for unseen
        starts, `benchmarks.records` measures.
        """
        if self.path_r2 is None:
            return None
        apart = self.inference.elsewhere
        if self.problems or (apart is not None and apart > OPEN):
            return Trust.LOW
        exact = self.inference.judge is Judge.EXACT
        # from positions alone functions are not sought, and no rival shows what a polynomial stands for;
        # where one state is the rate of another in all rivals, these share the terms that are left
        alike = bool(self.inference.positions or self.inference.rates)
        agreed = exact if apart is None else apart < _AGREED and (exact or not alike)
        as_noise = exact or (self.residual_over_noise or 0.0) < _SYSTEMATIC
        sound = self.to_precision is not False and not self.inference.scarce
        sound &= not self.inference.undetermined or self.inference.given
        return Trust.HIGH if agreed and as_noise and sound else Trust.LIMITED

    def summary(self) -> str:
        """How well the field fits, in one line."""
        if self.path_r2 is None or self.follows is None:
            return "not compared with the data"
        assumed = _ASSUMED.get(self.inference.noise, "")
        whole = "the whole record" if self.follows >= 1.0 else f"{100 * self.follows:.0f} % of the record"
        return (
            f"path R2 {self.path_r2:.3g}, in short windows {self.window_r2:.3g} and "
            f"{self.residual_over_noise:.2g} noise levels left; follows {whole} "
            f"(to {self.follows_for:.4g}){assumed}{self._said_of_trust()}"
        )

    def _said_of_trust(self) -> str:
        apart, level = self.inference.elsewhere, self.trust
        if level is None:
            return ""
        if self.inference.undetermined and not self.inference.given and level is Trust.LIMITED:
            return "; trust: limited (determined along the data alone)"
        if apart is None and level is Trust.LIMITED:
            said = "; trust: limited (not compared with other equations)"
            return "" if self.inference.given else said
        if apart is None or self.problems:
            return f"; trust: {level.value}"
        return f"; trust: {level.value} (beyond the data rates may be off by {apart:.1g} of their spread)"


class Given(NamedTuple):
    """The parts of a frame that its maker gave; None where it is to be found out."""

    context: Trajectories | None = None
    state_names: tuple[str, ...] | None = None
    region: Region | None = None
    scales: Scales | None = None

    @classmethod
    def checked(
        cls,
        caller: str,
        dim: int,
        context: Trajectories | None = None,
        state_names: Sequence[str] | None = None,
        region: Region | None = None,
        scales: Scales | None = None,
    ) -> Self:
        """The parts, all of dimension ``dim``; a ValueError that names ``caller`` where one is not."""
        if isinstance(state_names, str) or not (state_names is None or np.iterable(state_names)):
            raise ValueError(f"{caller}: expected state_names as a list of text, got {state_names!r}.")
        for part, its_dim in (
            ("context", dim if context is None else context.dim),
            ("region", dim if region is None else region.dim),
            ("state_names", dim if state_names is None else len(state_names)),
            ("scales", dim if scales is None else len(scales.length)),
        ):
            if its_dim != dim:
                raise ValueError(f"{caller}: expected {part} of dimension {dim}, got {its_dim}.")
        names = None if state_names is None else tuple(str(name) for name in state_names)
        if names is not None and len(set(names)) < len(names):
            raise ValueError(f"{caller}: expected different state_names, got {list(names)}.")
        if region is not None and region.is_named and (names is not None or context is None):
            region = region.of_states([f"x{i}" for i in range(dim)] if names is None else names, caller)
        return cls(context, names, region, scales)

    @property
    def has_box(self) -> bool:
        """Whether data or a region say where the field lives."""
        return self.context is not None or self.region is not None


@dataclass(frozen=True, eq=False)
class Frame:
    """What surrounds a field's formula. What is not given is found out when first asked for, and kept.

    Fields inferred from the same data may share one frame, and with it the smoothed observations.

    Attributes
    ----------
    dim : int
        Number of states d.
    given : Given
        The parts that are known from the start.
    rates : callable or None
        ``(n, d) -> (n, d)``, the field itself; needed only where its speed is measured on a region.
    """

    dim: int
    given: Given
    rates: Callable[[np.ndarray], np.ndarray] | None

    def around(self, rates: Callable[[np.ndarray], np.ndarray]) -> Self:
        """This frame; or, where the speed depends on the field, a new one about the field of these rates."""
        needed = self.given.context is None and self.given.region is not None and self.given.scales is None
        return replace(self, rates=rates) if needed else self

    @cached_property
    def context(self) -> Trajectories | None:
        """The observations."""
        return self.given.context

    @cached_property
    def state_names(self) -> tuple[str, ...]:
        """Names of the states, a tuple of d strings."""
        if self.given.state_names is not None:
            return self.given.state_names
        if self.given.context is not None:
            return tuple(self.given.context.state_names)
        return tuple(f"x{i}" for i in range(self.dim))

    @cached_property
    def region(self) -> Region | None:
        """Box in which the field is meant to be used: as given, else the data's box, else None."""
        if self.given.region is None and self.given.context is not None:
            return self.given.context.box()
        if self.given.region is None or self.given.context is None or not self.given.region.is_named:
            return self.given.region
        return self.given.region.of_states(self.state_names, "VectorField")

    @cached_property
    def length(self) -> np.ndarray | None:
        """The length part of `scales`, (d,); None where nothing is known."""
        if self.given.scales is not None:
            return self.given.scales.length
        if self.given.context is not None:
            return frozen(spread(self.given.context.x.reshape(-1, self.dim)))
        return None if self.given.region is None else frozen(self.given.region.size / np.sqrt(12.0))

    @cached_property
    def scales(self) -> Scales:
        """Length, speed and time scale."""
        if self.given.scales is not None:
            return self.given.scales
        if self.length is None:
            return Scales(frozen(np.ones(self.dim)), frozen(np.ones(self.dim)), 1.0)
        if self.given.context is not None and self.smoothed is not None:
            return Scales.of_rates(self.length, self.smoothed.slopes, self.smoothed.span)
        assert self.given.region is not None and self.rates is not None  # else there were no length
        return Scales.of_rates(self.length, self.rates(self.given.region.sobol(_REGION_POINTS)), np.inf)

    @cached_property
    def smoothed(self) -> Smoothed | None:
        """The smoothed observations: states, slopes and span."""
        with np.errstate(all="ignore"):
            return None if self.context is None else smoothed(self.context)

    @cached_property
    def _nearness(self) -> Nearness | None:
        if self.smoothed is None or self.length is None:
            return None
        return Nearness(self.smoothed.states, self.length)

    def support(self, x: np.ndarray) -> np.ndarray:
        """Support at rows (n, d), shape (n,): 1 everywhere without data."""
        return np.ones(len(x)) if self._nearness is None else self._nearness(x)
