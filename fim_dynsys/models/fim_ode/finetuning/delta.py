"""What fine-tuning changed of a network: a small safetensors file that names the weights it belongs to."""

import copy
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from fim_dynsys.models.fim_ode.field import Decoder
from fim_dynsys.models.fim_ode.published_operators import DecodedOperator

_KEY = "fim_dynsys_delta"
_FORMAT_VERSION = 1
DOWN, UP = ".down", ".up"
"""Suffixes of the two factors whose product is added to a weight; a name without them replaces it."""


@dataclass(frozen=True, repr=False)
class Delta:
    """Changed weights, as the bytes of their file.

    Attributes
    ----------
    content : bytes
    """

    content: bytes

    @classmethod
    def of(cls, base: str, moves: str, tensors: Mapping[str, Tensor]) -> Self:
        """The delta of changed tensors, named as in the network.

        Parameters
        ----------
        base : str
            Version of the weights that were tuned: the first 8 hexadecimal digits of their sha256.
        moves : str
            Which weights moved.
        tensors : mapping of str to Tensor
            New values, or the two factors of what is added.
        """
        header = json.dumps({"format_version": _FORMAT_VERSION, "base": base, "moves": moves}, sort_keys=True)
        stored = {name: tensor.detach().cpu().float().contiguous() for name, tensor in tensors.items()}
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
        """Version of the weights it belongs to."""
        return self._header()["base"]

    @property
    def moves(self) -> str:
        """Which weights moved."""
        return self._header()["moves"]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The changed tensors, as `of` takes them."""
        try:
            return load(self.content)
        except SafetensorError as error:
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
        return f"Delta({self.version} of {self.base}, {self.moves}, {len(self.content)} bytes)"


def _not_a_delta(what: str) -> ValueError:
    return ValueError(f"Delta: expected a safetensors file of fine-tuned weights, got another ({what}).")


@lru_cache(maxsize=4)
def tuned_operator(operator: DecodedOperator, delta: Delta) -> DecodedOperator:
    """The network with a delta applied; the one given stays as it is.

    Raises
    ------
    ValueError
        If the delta belongs to other weights.
    """
    if delta.base != operator.version:
        raise ValueError(
            f"Delta: expected weights of version {delta.base}, from which the fine-tuned ones "
            f'{delta.version} were made, got {operator.version}; load("fim-ode-published", weights=FILE, '
            "delta=...) with the file of that version."
        )
    network = copy.deepcopy(operator.network)
    _apply(network, delta.tensors)
    return DecodedOperator(
        network, Decoder(network, torch.float64), f"{operator.version}+{delta.version}", operator.max_dim
    )


def _apply(network: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Write the changes into a network's own parameters."""
    own = dict(network.named_parameters())
    changed = {name.removesuffix(DOWN).removesuffix(UP) for name in tensors}
    if unknown := sorted(changed - own.keys()):
        raise ValueError(f"Delta: expected names of the network's weights, got {', '.join(unknown[:3])}.")
    with torch.no_grad():
        for name in changed:
            weight = own[name]
            if name in tensors:
                new = tensors[name].to(weight)
            else:
                new = weight + (tensors[name + UP] @ tensors[name + DOWN]).to(weight)
            if new.shape != weight.shape or not new.isfinite().all():
                raise ValueError(
                    f"Delta: expected finite values of shape {tuple(weight.shape)} for {name}, got others of "
                    f"shape {tuple(new.shape)}."
                )
            weight.copy_(new)
