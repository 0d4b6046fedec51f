"""Events: when functions of time and state change sign."""

from collections.abc import Callable, Iterable
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

_BISECTIONS = 54  # until the ends are neighbouring numbers

Event = Callable[[np.ndarray, np.ndarray], ArrayLike]
"""``g(t (n,), x (n, d)) -> (n,)``."""
Events = Event | Iterable[Event] | None


class EventDetector:
    """The events, what they have seen, and when they stop a trajectory."""

    def __init__(self, events: tuple[Event, ...], n: int):
        self.events = events
        self.direction = np.array([float(getattr(g, "direction", 0)) for g in events])[:, None]
        self.allowed = [int(getattr(g, "terminal", True)) for g in events]
        self.counts = np.zeros((len(events), n), dtype=int)
        self.occurrences: list[tuple[int, float, int, np.ndarray]] = []

    @classmethod
    def of(cls, events: Events, n: int) -> Self:
        events = () if events is None else (events,) if callable(events) else tuple(events)
        for g in events:
            if not callable(g):
                raise TypeError(f"simulate: expected functions g(t, x) as events, got {g!r}.")
        return cls(events, n)

    def values(self, t: np.ndarray, x: np.ndarray) -> np.ndarray:
        """All event functions ``(E, n)``."""
        return np.array([self._value(g, t, x) for g in self.events]).reshape(len(self.events), len(t))

    def changes(self, old: np.ndarray, new: np.ndarray) -> np.ndarray:
        """Where a sign change that counts took place, ``(E, n)``."""
        rising = (old < 0) & (new >= 0) & (self.direction >= 0)
        return rising | ((old > 0) & (new <= 0) & (self.direction <= 0))

    def locate(
        self,
        event: int,
        state_at: Callable[[np.ndarray], np.ndarray],
        time_at: Callable[[np.ndarray], np.ndarray],
        before: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Bisect for a sign change of one event on r steps at once: theta ``(r,)`` and states ``(r, d)``."""
        low, high = np.zeros(len(before)), np.ones(len(before))
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            value = self._value(self.events[event], time_at(middle), state_at(middle))
            earlier = value * np.sign(before) > 0
            low, high = np.where(earlier, middle, low), np.where(earlier, high, middle)
        return high, state_at(high)

    def note(self, row: int, t: float, event: int, state: np.ndarray) -> bool:
        """Write down an occurrence; tells whether it ends the trajectory."""
        self.occurrences.append((int(row), float(t), int(event), state))
        self.counts[event, row] += 1
        return self.counts[event, row] == self.allowed[event]

    @staticmethod
    def _value(g: Event, t: np.ndarray, x: np.ndarray) -> np.ndarray:
        value = np.asarray(g(t, x), dtype=float)
        if value.shape != t.shape:
            raise ValueError(f"simulate: expected an event to return shape {t.shape}, got {value.shape}.")
        return value
