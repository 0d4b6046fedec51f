"""The authors' weights: a pickle, opened only where its hash and the user's consent allow."""

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import torch

from fim_dynsys.errors import PluginError

_READ: dict[str, Any] = {}  # networks by the hash of their file: reading takes seconds


def network(weights: str | os.PathLike, sha256: str | None, trust: bool) -> Any:
    """The network in a file, read once.

    Parameters
    ----------
    weights : path
        The authors' ``odeformer.pt``.
    sha256 : str, optional
        What the file must hash to.
    trust : bool
        Consent to unpickle the file, which runs whatever code it holds.

    Returns
    -------
    odeformer.model.ModelWrapper

    Raises
    ------
    FileNotFoundError
        No such file.
    ValueError
        Another hash, no consent, or something else in the file.
    """
    path = Path(weights)
    if not path.is_file():
        raise FileNotFoundError(f"odeformer: expected a file of weights, got {path}, which is none.")
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if sha256 is not None and digest != sha256.lower():
        raise ValueError(f"odeformer: expected {path} with sha256 {sha256}, got {digest}; fetch it again.")
    if not trust:
        raise ValueError(
            f"odeformer: expected trust=True for {path} (sha256 {digest}), got {trust!r}; the file is a "
            "pickle, and opening it runs whatever code it holds: make sure that it is the authors'."
        )
    if digest not in _READ:
        _READ[digest] = _unpickled(content, path)
    return _READ[digest]


def _unpickled(content: bytes, path: Path) -> Any:
    try:
        from odeformer.model import ModelWrapper
    except ImportError as error:
        raise PluginError(
            f"odeformer: expected the authors' package, got {error}; `pip install --no-deps "
            "odeformer==0.1.7` installs it."
        ) from error
    found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=False)
    if not isinstance(found, ModelWrapper):
        raise ValueError(
            f"odeformer: expected a ModelWrapper of odeformer 0.1.7 in {path}, got {type(found).__name__}."
        )
    return found.eval()
