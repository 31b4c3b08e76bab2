"""A loaded scenario as plain values of a scenario file, with its changes."""

import copy
from collections.abc import Mapping
from typing import Any, Final

from clustersim.catalog.changes import Scale
from clustersim.scenario.load import Loaded, LoadedService
from clustersim.scenario.references import WORDS

LEFT_OUT: Final = ("published", "scaling", "assumed")
"""Keys of a scenario that belong to its own layout."""


def file_values(loaded: Loaded | LoadedService, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a scenario file that is loaded with its changes and other values.

    Parameters
    ----------
    loaded : the scenario with its changes, of which those by a factor become numbers
    values : by dotted key, of another layout
    """
    data = copy.deepcopy(dict(loaded.origin.document.data))
    for key in LEFT_OUT:
        data.pop(key, None)
    for change in loaded.changes:
        value = change.value
        if isinstance(value, Scale):
            value = _at(loaded.tree.data, change.path)
        _put(data, change.path, value)
    for key, value in values.items():
        _put(data, tuple(key.split(".")), value)
    return data


def _put(data: Any, path: tuple[str | int, ...], value: Any) -> None:
    """Set a value in a tree; a word on the way becomes a table with that word."""
    words = WORDS if "load" in data else {}
    *way, last = path
    for key in way:
        inner = data.get(key) if isinstance(data, dict) else data[key]
        if isinstance(inner, str):
            inner = {words.get(str(key), "name"): inner}
        elif inner is None:
            inner = {}
        data[key] = inner
        data = inner
    data[last] = value


def _at(data: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        data = data[key]
    return data
