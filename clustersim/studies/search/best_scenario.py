"""The scenario of the best layout, as plain values of a scenario file."""

import copy
from collections.abc import Mapping
from typing import Any

from clustersim.catalog.changes import Scale
from clustersim.catalog.writing import to_yaml
from clustersim.scenario.load import Loaded

LEFT_OUT = ("published", "scaling", "assumed")
"""Keys of a scenario that belong to its own layout."""


def best_values(base: Loaded, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario file with its changes and with the values of a layout.

    Parameters
    ----------
    base : the scenario with the changes of the search
    values : of the layout, by dotted key
    """
    data = copy.deepcopy(dict(base.origin.document.data))
    for key in LEFT_OUT:
        data.pop(key, None)
    for change in base.changes:
        value = change.value
        if isinstance(value, Scale):
            value = _at(base.tree.data, change.path)
        _put(data, change.path, value)
    for key, value in values.items():
        _put(data, tuple(key.split(".")), value)
    return data


def _put(data: Any, path: tuple[str | int, ...], value: Any) -> None:
    """Set a value in a tree; a name on the way becomes a table with that name."""
    *way, last = path
    for key in way:
        inner = data.get(key) if isinstance(data, dict) else data[key]
        if isinstance(inner, str):
            inner = {"name": inner}
        elif inner is None:
            inner = {}
        data[key] = inner
        data = inner
    data[last] = value


def _at(data: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


def scenario_text(scenario: Mapping[str, Any], gap: float | None, command: str) -> str:
    """Return the scenario of the best layout as a file, with the command that found it.

    Parameters
    ----------
    gap : by how much another layout can be better at most, share of the best; None if not known
    """
    proof = "" if gap is None else f", at most {100 * gap:.1f} % from the best"
    return to_yaml(dict(scenario), [f"The best layout of `{command}`{proof}."])


__all__ = ["best_values", "scenario_text"]
