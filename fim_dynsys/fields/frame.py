"""What a field carries beside its formula: characteristic sizes and notes of the inference."""

from dataclasses import dataclass, field

import numpy as np


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
        Free notes of the model: candidates tried, scores, settings chosen.
    """

    initial_states: np.ndarray | None = None
    noise_level: np.ndarray | None = None
    report: dict = field(default_factory=dict)
