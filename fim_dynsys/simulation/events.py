"""Events: when functions of time and state change sign."""

import numpy as np

_BISECTIONS = 54


class Watch:
    """The events, what they have seen, and when they stop a trajectory."""

    def __init__(self, events, n):
        self.events = events
        self.direction = np.array([float(getattr(g, "direction", 0)) for g in events])[:, None]
        self.allowed = [int(getattr(g, "terminal", True)) for g in events]
        self.counts = np.zeros((len(events), n), dtype=int)
        self.occurrences = []

    @classmethod
    def of(cls, events, n):
        events = () if events is None else (events,) if callable(events) else tuple(events)
        for g in events:
            if not callable(g):
                raise TypeError(f"simulate: expected functions g(t, x) as events, got {g!r}.")
        return cls(events, n)

    def values(self, t, x):
        """All event functions ``(E, n)``, or None if there are no events."""
        if not self.events:
            return None
        return np.array([self._value(g, t, x) for g in self.events])

    def changes(self, old, new):
        """Where a sign change that counts took place, ``(E, n)``."""
        rising = (old < 0) & (new >= 0) & (self.direction >= 0)
        return rising | ((old > 0) & (new <= 0) & (self.direction <= 0))

    def locate(self, event, state_at, time_at, before):
        """Bisect for a sign change of one event on r steps at once: theta ``(r,)`` and states ``(r, d)``."""
        low, high = np.zeros(len(before)), np.ones(len(before))
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            value = self._value(self.events[event], time_at(middle), state_at(middle))
            earlier = value * np.sign(before) > 0
            low, high = np.where(earlier, middle, low), np.where(earlier, high, middle)
        return high, state_at(high)

    def note(self, row, t, event, state):
        """Write down an occurrence; tells whether it ends the trajectory."""
        self.occurrences.append((int(row), float(t), int(event), state))
        self.counts[event, row] += 1
        return self.counts[event, row] == self.allowed[event]

    @staticmethod
    def _value(g, t, x):
        value = np.asarray(g(t, x), dtype=float)
        if value.shape != t.shape:
            raise ValueError(f"simulate: expected an event to return shape {t.shape}, got {value.shape}.")
        return value
