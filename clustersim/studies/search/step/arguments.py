"""What a search chooses, from its arguments.

--free framework=megatron-lm,megatron-core   values of another key
--free plan.tensor=1:8                       only these values of a key that is free
--set plan.zero=1                            a key that is set is fixed
--limit memory<=70GiB --limit plan.tensor<=8
"""

import re
from collections.abc import Mapping, Sequence
from itertools import product
from math import inf
from typing import Any, Final

from clustersim.catalog import finding
from clustersim.catalog.changes import Change, changes_of
from clustersim.catalog.tree import dotted
from clustersim.errors import ScenarioError
from clustersim.records import dataclass
from clustersim.scenario.load import Loaded
from clustersim.scenario.ranges import values_of
from clustersim.simulation.limits import Limits
from clustersim.studies.search.free_values import check_values
from clustersim.studies.search.step.space import FREE
from clustersim.suggestions import nearest
from clustersim.units import parse_number

_LIMIT: Final = re.compile(r"^\s*([a-z_.]+)\s*(<=|>=)\s*(.+?)\s*$")

_LIMITED: Final = tuple(
    key
    for key in FREE
    if key not in ("plan.context_method", "plan.placement", "plan.sequence_parallel", "recompute")
    and key not in ("plan.schedule", "plan.layers")
)
"""Keys of numbers, which can be limited."""


Ranges = Mapping[str, tuple[float, float]]
"""Least and greatest value by key of a layout."""


def allows(ranges: Ranges, key: str, value: Any) -> bool:
    """Return whether a value of a key is within its limits."""
    low, high = ranges.get(key, (-inf, inf))
    return not isinstance(value, int | float) or low <= value <= high


@dataclass(frozen=True)
class Freed:
    """What is free.

    Attributes
    ----------
    values : values of keys of a layout, where these are not generated
    axes : values of other keys; each combination is a scenario of its own
    """

    values: Mapping[str, tuple[Any, ...]]
    axes: Mapping[str, tuple[Change, ...]]

    def combinations(self) -> list[tuple[Change, ...]]:
        """Return the changes of each scenario that is searched."""
        return [*product(*self.axes.values())]


def freed_of(texts: Sequence[str], base: Loaded) -> Freed:
    """Return what is free from texts as ``--free`` takes them.

    Raises
    ------
    ScenarioError
        in one line, for an unknown key, an invalid value, or a key without values.
    """
    values: dict[str, tuple[Any, ...]] = {}
    axes: dict[str, tuple[Change, ...]] = {}
    for text in texts:
        key, equals, listed = text.partition("=")
        key, where = key.strip(), f"--free {text}"
        if key in FREE and not equals:
            continue
        changes = _changes(key, listed if equals else None, where)
        check_values(base, key, changes, where)
        if key in FREE:
            values[key] = tuple(_value(key, change) for change in changes)
        else:
            axes[key] = changes
    return Freed(values, axes)


def _changes(key: str, listed: str | None, where: str) -> tuple[Change, ...]:
    if listed is None:
        if key != "framework":
            known = ", ".join((*FREE, "framework"))
            raise ScenarioError(
                f"{where}: has no values of its own{nearest(key, [*FREE, 'framework'])} (give them:"
                f" --free {key or 'KEY'}=VALUES; without values: {known})"
            )
        texts = [*finding.entry_names("framework")]
    else:
        try:
            texts = values_of(listed)
        except ValueError as problem:
            raise ScenarioError(f"{where}: {problem}") from None
    return changes_of([f"{key}={text}" for text in texts])


def _value(key: str, change: Change) -> Any:
    if key == "plan.layers" and isinstance(change.value, list):
        return tuple(change.value)
    return change.value


def split_limits(limits: Limits) -> tuple[Ranges, Limits]:
    """Return the ranges of keys of a layout, which are texts, and the limits of measures.

    >>> split_limits(["memory<=70GB", "plan.tensor<=8"])
    ({'plan.tensor': (-inf, 8.0)}, ['memory<=70GB'])

    Raises
    ------
    ScenarioError
        in one line, for a value of a key that is not a number.
    """
    ranges, others = dict[str, tuple[float, float]](), list[str]()
    if isinstance(limits, Mapping):
        return ranges, limits
    for text in limits:
        match = _LIMIT.match(text)
        if match is None or match[1] not in _LIMITED:
            others.append(text)
            continue
        key, sign, value = match.groups()
        low, high = ranges.get(key, (-inf, inf))
        try:
            number = parse_number(value)
        except ValueError as problem:
            raise ScenarioError(f"--limit {text}: {problem}") from None
        ranges[key] = (low, min(high, number)) if sign == "<=" else (max(low, number), high)
    return ranges, others


def device_changes(base: Loaded, devices: int | None) -> tuple[Change, ...]:
    """Return the change of a scenario to some number of devices.

    Raises
    ------
    ScenarioError
        in one line, for a number that the machine does not have.
    """
    if devices is None:
        return ()
    cluster = base.scenario.cluster
    size, most = cluster.node.devices, cluster.size
    if devices < 1 or devices % size:
        below = devices // size * size
        near = {min(max(number, size), most * size) for number in (below, below + size)}
        raise ScenarioError(
            f"--devices {devices}: is not a positive multiple of the {size} devices of a node of"
            f" '{cluster.name}' (nearest: {', '.join(map(str, sorted(near)))})"
        )
    if devices // size > most:
        raise ScenarioError(
            f"--devices {devices}: '{cluster.name}' has {most * size:,} devices, {most:,} nodes of"
            f" {size}"
        )
    return changes_of({"cluster.nodes": devices // size})


def fixed_keys(changes: Sequence[Change], free: Sequence[str]) -> list[str]:
    """Return the keys of a layout that settings fix: those that are set, unless they are freed."""
    set_keys = [dotted(change.path) for change in changes]
    freed = {text.partition("=")[0].strip() for text in free}
    return [
        key
        for key in FREE
        if key not in freed
        and any(
            (key + ".").startswith(f"{one}.") or (one + ".").startswith(f"{key}.")
            for one in set_keys
        )
    ]
