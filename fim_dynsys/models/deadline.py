"""When a fit that takes long has to end."""

import math
import numbers
import time


class Deadline:
    """A moment, `seconds` of wall-clock time from now, or never; stages of a fit share one.

    Parameters
    ----------
    who : str
        For the message.
    seconds : float or None

    Raises
    ------
    ValueError
        Where `seconds` is not positive.
    """

    def __init__(self, who: str, seconds: float | None) -> None:
        if seconds is not None and not (isinstance(seconds, numbers.Real) and seconds > 0):
            raise ValueError(f"{who}: expected max_seconds above 0, or None for no limit, got {seconds!r}.")
        self._end = math.inf if seconds is None else time.perf_counter() + seconds

    def remaining(self) -> float:
        """Seconds left, infinite without a limit."""
        return self._end - time.perf_counter()

    def passed(self) -> bool:
        """Whether no time is left."""
        return self.remaining() <= 0.0
