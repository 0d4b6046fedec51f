"""The model card that lies beside the shipped weights, and the check that it describes those in use."""

import re
from pathlib import Path

from fim_dynsys.models.fim_ode.weights import SHIPPED

CARD = SHIPPED / "fim-ode.md"
_TITLE = "# Model card: fim-ode"


def title(version: str) -> str:
    """First line of the card of the weights with this version."""
    return f"{_TITLE} {version}"


def read_card(version: str, path: Path = CARD) -> str:
    """Text of a card, in Markdown.

    Parameters
    ----------
    version : str
        Of the weights in use.
    path : Path
        The card; ``python -m training.card`` writes the package's.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the card describes other weights.
    """
    text = path.read_text(encoding="utf-8")
    described = re.match(rf"{re.escape(_TITLE)} (\S+)\n", text)
    if described is None or described[1] != version:
        raise ValueError(
            f"FIMODE.card: expected the weights that {path.name} describes, fim-ode "
            f"{described[1] if described else 'unknown'}, got weights {version}, of which it says nothing; "
            "what a weights file says of itself is in its header (weights.read_header)."
        )
    return text
