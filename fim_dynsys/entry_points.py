"""What installed plugins offer through entry points: listed without importing them, loaded one at a time."""

import os
import sys
from functools import lru_cache
from importlib import metadata
from typing import Any

from fim_dynsys.errors import PluginError

API_VERSION = "1"
DISABLE_PLUGINS = "FIM_DYNSYS_DISABLE_PLUGINS"


def disabled() -> bool:
    """Whether the environment says that plugins are not to be used."""
    return os.environ.get(DISABLE_PLUGINS, "") not in ("", "0")


def listed(group: str, fresh: bool = False) -> dict[str, list[metadata.EntryPoint]]:
    """Entry points by name, unloaded, those of one name in the order of their distributions.

    Parameters
    ----------
    group : str
        Of the entry points.
    fresh : bool
        Whether to look again, for what may have been installed meanwhile.
    """
    if fresh:
        _scanned.cache_clear()
    return {} if disabled() else _scanned(tuple(sys.path), group)


@lru_cache(2)  # groups: models and proposers
def _scanned(path: tuple[str, ...], group: str) -> dict[str, list[metadata.EntryPoint]]:
    found: dict[str, list[metadata.EntryPoint]] = {}
    for entry_point in sorted(metadata.entry_points(group=group), key=distribution):
        found.setdefault(entry_point.name, []).append(entry_point)
    return found


def distribution(entry_point: metadata.EntryPoint) -> str:
    """The name of what was installed."""
    return entry_point.dist.name if entry_point.dist is not None else "an unknown distribution"


def owner(entry_point: metadata.EntryPoint) -> str:
    """The plugin that offers it, as messages name it."""
    return f"plugin {entry_point.name!r} of {distribution(entry_point)}"


def loaded(entry_point: metadata.EntryPoint, kind: Any) -> Any:
    """Import what one plugin offers and hold it against this version's contract.

    Parameters
    ----------
    entry_point : importlib.metadata.EntryPoint
        Of `listed`.
    kind : type
        What it has to be, with an ``api_version``.

    Raises
    ------
    PluginError
        If it cannot be imported, is something else, or is written for another version.
    """
    caller = owner(entry_point)
    try:
        found = entry_point.load()
    except (Exception, SystemExit) as error:  # what a foreign module raises belongs to that plugin alone
        raise PluginError(
            f"{caller}: cannot import {entry_point.value}: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(found, kind):
        raise PluginError(
            f"{caller}: expected {entry_point.value} to be a {kind.__name__}, got {type(found).__name__}."
        )
    if str(found.api_version).split(".")[0] != API_VERSION:
        raise PluginError(
            f"{caller}: expected a {kind.__name__} for API version {API_VERSION}, got {found.api_version}; "
            "install a release of the plugin that fits."
        )
    return found
