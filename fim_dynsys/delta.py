"""What fine-tuning changed, as a small safetensors file that names what it belongs to."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

_KEY = "fim_dynsys_delta"
_FORMAT_VERSION = 1  # of the file; rises when older readers would misread it


@dataclass(frozen=True, repr=False)
class Delta:
    """Changed weights of a network, or what is added to a field, as the bytes of their file.

    Attributes
    ----------
    content : bytes
    """

    content: bytes

    @classmethod
    def of(cls, base: str, moves: str, tensors: Mapping[str, np.ndarray]) -> Self:
        """The delta of named arrays.

        Parameters
        ----------
        base : str
            What was tuned: the first 8 hexadecimal digits of the sha256 of a network's weights, or the sha256
            of a field's arrays (`arrays_digest`).
        moves : str
            Which weights moved, or ``"residual"``.
        tensors : mapping of str to array
            New values or the two factors of what is added to them; of a residual, its parts.
        """
        header = json.dumps({"format_version": _FORMAT_VERSION, "base": base, "moves": moves}, sort_keys=True)
        stored = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
        return cls(save(stored, metadata={_KEY: header}))

    @classmethod
    def read(cls, path: str | os.PathLike) -> Self:
        """The delta in a file.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If it is anything else.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(
                f"Delta: expected a file of fine-tuned weights at {str(path)!r}, got none."
            )
        delta = cls(path.read_bytes())
        _ = delta.tensors, delta.base
        return delta

    @property
    def version(self) -> str:
        """First 8 hexadecimal digits of the sha256 of its bytes."""
        return hashlib.sha256(self.content).hexdigest()[:8]

    @property
    def base(self) -> str:
        """What it belongs to, as `of` takes it."""
        return self._header()["base"]

    @property
    def moves(self) -> str:
        """Which weights moved, or ``"residual"``."""
        return self._header()["moves"]

    @property
    def tensors(self) -> dict[str, np.ndarray]:
        """The named arrays, as `of` takes them."""
        try:
            return load(self.content)
        except (SafetensorError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise _not_a_delta(str(error)) from error

    def _header(self) -> dict[str, str]:
        size = int.from_bytes(self.content[:8], "little")
        try:
            header = json.loads(json.loads(self.content[8 : 8 + size])["__metadata__"][_KEY])
            known = header["format_version"] == _FORMAT_VERSION and isinstance(header["base"], str)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise _not_a_delta(f"no header {_KEY!r}") from error
        if not known:
            raise _not_a_delta(f"a header of another version: {header}")
        return header

    def __repr__(self) -> str:
        return f"Delta({self.version} of {self.base[:8]}, {self.moves}, {len(self.content)} bytes)"


def _not_a_delta(what: str) -> ValueError:
    return ValueError(
        f"Delta: expected a safetensors file of what fine-tuning changed, got another ({what})."
    )


def arrays_digest(arrays: Mapping[str, np.ndarray]) -> str:
    """The sha256 of named arrays: of their names, types, shapes and numbers, in the order of the names."""
    found = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        found.update(f"{name} {array.dtype.str} {array.shape};".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
