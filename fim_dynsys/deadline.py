"""When work that takes long has to end: a deadline, and the one that everything below a call obeys."""

import contextlib
import math
import numbers
import time
from collections.abc import Iterator
from contextvars import ContextVar

# Integrations are called from deep within searches; a limit that each layer hands on is lost in some.
_CURRENT: ContextVar[float] = ContextVar("end of the time allowed", default=math.inf)


class Deadline:
    """A moment, `seconds` of wall-clock time from now, or never; stages of a fit share one.

    Parameters
    ----------
    caller : str
        For the message.
    seconds : float or None

    Raises
    ------
    ValueError
        Where `seconds` is not positive.
    """

    def __init__(self, caller: str, seconds: float | None) -> None:
        if seconds is not None and not (isinstance(seconds, numbers.Real) and seconds > 0):
            raise ValueError(
                f"{caller}: expected max_seconds above 0, or None for no limit, got {seconds!r}."
            )
        self.end = math.inf if seconds is None else time.perf_counter() + seconds

    def remaining(self) -> float:
        """Seconds left, infinite without a limit."""
        return self.end - time.perf_counter()

    def passed(self) -> bool:
        """Whether no time is left."""
        return self.remaining() <= 0.0


@contextlib.contextmanager
def time_limit(caller: str, seconds: float | None) -> Iterator[None]:
    """Limit the time of all integrations and searches inside a ``with`` block.

    They end early with what they have, as they do when their budget is spent; nothing is raised. A limit
    inside another can only be shorter.

    Parameters
    ----------
    caller : str
        For the message.
    seconds : float or None
        Time on the clock; None for no limit of this block's own.

    Raises
    ------
    ValueError
        Where `seconds` is not positive.

    Examples
    --------
    >>> with time_limit("example", 60.0):
    ...     out_of_time()
    False
    """
    token = _CURRENT.set(min(_CURRENT.get(), Deadline(caller, seconds).end))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def out_of_time() -> bool:
    """Whether the `time_limit` that holds here, if any, has passed."""
    end = _CURRENT.get()
    return end < math.inf and time.perf_counter() >= end
