"""Numbers and values in sentences, such as those of messages and tables."""

_ROUGHLY = 1000  # beyond it a rough number says no more than that it is large


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """A number and what it counts: "1 cycle", "2 cycles", "0 axes" with a plural of its own."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


def plain(value: float) -> str:
    """A rough number in plain decimals, for sentences: "2", "30", "over 1,000"."""
    if not value <= _ROUGHLY:
        return f"over {_ROUGHLY:,}"
    return f"{float(f'{value:.1g}'):,g}"


def value_text(value: object) -> str:
    """A value as Python writes it; its type where it cannot be written, as pysindy's library of functions."""
    try:
        return repr(value)
    except AttributeError:  # scikit-learn asks for arguments that the class does not keep
        return f"{type(value).__name__}(...)"
