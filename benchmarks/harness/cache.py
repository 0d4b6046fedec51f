"""Outcomes kept on disk as they come, so that an interrupted run goes on where it stopped."""

import hashlib
import json
import re
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any

from fim_dynsys.many import append_line, read_lines


@dataclass
class RowCache:
    """Outcomes of one row, one JSON line each, appended as they come; damaged lines are left out and counted.

    What an outcome belongs to is named by a key of any frozen dataclass with fields that JSON can hold,
    such as a `Trial`: a line keeps the name of its class, its fields, the digest of the data and the outcome.

    Attributes
    ----------
    path : Path
        The file.
    needed : collection of str
        What an outcome must hold.
    skipped : int
        Damaged lines found in the file.
    """

    path: Path
    needed: Collection[str] = ()
    skipped: int = 0
    outcomes: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def open(
        cls, folder: Path, row: dict[str, Any], fresh: bool = False, needed: Collection[str] = ()
    ) -> "RowCache":
        """Open the file that belongs to `row` (name, version, parameters, integrator) under `folder`."""
        text = json.dumps(row, sort_keys=True, default=str)
        stem = re.sub(r"[^A-Za-z0-9.-]+", "_", str(row["name"]))[:60]
        path = folder / f"{stem}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        if fresh:
            path.unlink(missing_ok=True)
        cache = cls(path, needed)
        if path.exists():
            cache._read()
        else:
            append_line(path, text)
        return cache

    def __contains__(self, entry: tuple[Any, str]) -> bool:
        """Whether there is an outcome of a (key, digest)."""
        key, data = entry
        return (*_identity(key), data) in self.outcomes

    def get(self, key: Any, data: str) -> dict[str, Any]:
        """Return the outcome of a key on data with this digest."""
        return self.outcomes[*_identity(key), data]

    def add(self, key: Any, data: str, outcome: dict[str, Any]) -> None:
        """Keep the outcome of a key on data with this digest, on disk first."""
        name, _ = identity = _identity(key)
        append_line(self.path, json.dumps({name: asdict(key), "data": data, "outcome": outcome}))
        self.outcomes[*identity, data] = outcome

    def _read(self) -> None:
        if not self.path.read_bytes().endswith(b"\n"):
            with self.path.open("ab") as file:
                file.write(b"\n")
        self.skipped = read_lines(self.path, self._take, first=1)  # the first names the row

    def _take(self, entry: Any) -> None:
        match entry:
            case {"data": str(data), "outcome": dict(outcome), **key} if len(key) == 1:
                ((name, fields),) = key.items()
                if isinstance(fields, dict) and outcome.keys() >= set(self.needed):
                    self.outcomes[name, _hashable(fields), data] = outcome
                    return
        raise ValueError(f"Cache: expected a key, data and an outcome in each line of {self.path}.")


def _identity(key: Any) -> tuple[str, Any]:
    """Name of the key's class and its fields."""
    if not is_dataclass(key) or isinstance(key, type) or type(key).__hash__ is None:
        raise TypeError(
            f"Cache: expected an instance of a frozen dataclass as key, got {key!r}; declare its class with "
            "@dataclass(frozen=True)."
        )
    return type(key).__name__.lower(), _hashable(asdict(key))


def _hashable(value: Any) -> Any:
    """The same for what goes to JSON and for what comes back from it."""
    if isinstance(value, dict):
        return tuple((name, _hashable(value[name])) for name in sorted(value))
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value
