"""The model cards that lie beside shipped weights, and the check that they describe those in use."""

import re
from pathlib import Path

from fim_dynsys.models.fim_ode.weights import SHIPPED


def title(name: str, version: str) -> str:
    """First line of the card of the weights of a model, by name, with this version."""
    return f"# Model card: {name} {version}"


def read_card(name: str, version: str, folder: Path = SHIPPED) -> str:
    """Text of a card, in Markdown.

    Parameters
    ----------
    name : str
        Of the model, whose card is ``NAME.md``.
    version : str
        Of the weights in use.
    folder : Path
        Where the cards are; ``python -m training.card`` writes the package's.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the card describes other weights.
    """
    text = (folder / f"{name}.md").read_text(encoding="utf-8")
    described = re.match(rf"{re.escape(title(name, ''))}(\S+)\n", text)
    if described is None or described[1] != version:
        raise ValueError(
            f"{name}: expected the weights that {name}.md describes, {name} "
            f"{described[1] if described else 'unknown'}, got weights {version}, of which it says nothing; "
            "what a weights file says of itself is in its header (weights.read_header)."
        )
    return text
