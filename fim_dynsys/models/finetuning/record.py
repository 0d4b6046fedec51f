"""What a fine-tuning run has found so far, in a file from which a killed run goes on."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.writing import replace_file

FORMAT = "fim-dynsys-finetuning"


def digest_of(trajectories: Trajectories, *settings: object) -> str:
    """Hexadecimal digest of observations and settings: what a run's results follow from."""
    found = hashlib.sha256(repr(settings).encode())
    for t, x in trajectories.arrays():
        found.update(repr(x.shape).encode() + np.ascontiguousarray(t).tobytes())
        found.update(np.ascontiguousarray(x).tobytes())
    return found.hexdigest()


def foreign(path: str | os.PathLike, reason: str) -> ValueError:
    """The error of a checkpoint that this run cannot go on from."""
    return ValueError(
        f"finetune: expected a checkpoint of this run in {str(path)!r}, got {reason}; name another file or "
        "remove this one."
    )


class Record:
    """Results by name, each kept in the file as soon as it is there.

    Parameters
    ----------
    path : path-like or None
        None: nothing is kept.
    digest : str
        Of what the results follow from; a file with another is refused.
    """

    def __init__(self, path: str | os.PathLike | None, digest: str) -> None:
        self._path, self._digest = None if path is None else Path(path), digest
        self._results: dict[str, Any] = {}
        if self._path is not None and self._path.exists():
            self._results = self._read(self._path)

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise foreign(path, f"a file of another kind ({error})") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise foreign(path, "a file of another kind")
        if content.get("digest") != self._digest:
            raise foreign(path, "one of other data, another model or other settings")
        return content["results"]

    def remembered(self, name: str, find: Callable[[], Any]) -> Any:
        """The result of that name, found now unless it is there; what JSON holds exactly."""
        if name not in self._results:
            self._results[name] = find()
            if self._path is not None:
                content = {"format": FORMAT, "digest": self._digest, "results": self._results}
                replace_file(self._path, json.dumps(content))
        return self._results[name]

    def __contains__(self, name: str) -> bool:
        return name in self._results
