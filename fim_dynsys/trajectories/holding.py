"""What measured inputs do between their samples."""

import enum


class Hold(enum.Enum):
    """What an input does from one sample to the next."""

    PREVIOUS = "previous"
    """It keeps its value, and jumps at the next sample: switches, valves, sampled-and-held signals."""
    LINEAR = "linear"
    """It goes to the next value along a line."""
    SMOOTH = "smooth"
    """It follows a smooth curve through the samples."""
    PIECES = "pieces"
    """It follows smooth curves, and jumps from one to the next at samples: doses that decay, saw-tooths."""
    AUTO = "auto"
    """One of these, as the samples of each input look."""

    @classmethod
    def of(cls, caller: str, given: object) -> "Hold":
        """That of a name.

        Raises
        ------
        ValueError
            Where it is none.
        """
        names = [member.value for member in cls]
        if isinstance(given, Hold):
            return given
        if not isinstance(given, str) or given not in names:
            raise ValueError(f"{caller}: expected hold among {', '.join(names)}, got {given!r}.")
        return cls(given)
