"""What a search of a service chooses, from its arguments.

--free precision=fp8,int4     values of another key
--free plan.tensor=4,8        only these values of a key that is free
--set plan.tensor=8           a key that is set is fixed
--set pools=false             no pools for prefill and decode
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from clustersim.catalog.changes import Change, Settings, changes_of
from clustersim.errors import ScenarioError
from clustersim.runs.arguments import parse_settings
from clustersim.scenario.load import LoadedService, load_service
from clustersim.scenario.ranges import values_of
from clustersim.studies.service_search.service_layouts import FREE


@dataclass(frozen=True)
class ServiceRequest:
    """Scenarios whose layouts are searched.

    Attributes
    ----------
    scenario : file, or name of a shipped one
    bases : the scenario with each combination of further free values
    points : changes of each of them
    devices : most devices
    allowed : values of keys of a layout that are not generated
    pools : whether replicas for prefill and decode are tried
    """

    scenario: str
    bases: tuple[LoadedService, ...]
    points: tuple[tuple[Change, ...], ...]
    devices: int
    allowed: Mapping[str, Sequence[int]]
    pools: bool


def request_of(
    scenario: str, devices: int | None, free: Sequence[str], settings: Settings
) -> ServiceRequest:
    """Return what a search of a service is requested to find.

    Raises
    ------
    ScenarioError, CatalogError
        in one line, for an invalid key, value or number of devices.
    """
    given = parse_settings(settings)
    fixed = [change for change in given if change.text.partition("=")[0] in FREE]
    others = [change for change in given if change not in fixed]
    plain = load_service(scenario, others)
    allowed: dict[str, Sequence[int]] = {}
    for change in fixed:
        allowed[change.text.partition("=")[0]] = _counts([change], f"--set {change.text}")
    axes: list[tuple[Change, ...]] = []
    for text in free:
        key, changes = _freed(text)
        if key in FREE:
            if changes:
                allowed[key] = _counts(changes, f"--free {text}")
        else:
            axes.append(changes)
    most = plain.scenario.devices if devices is None else devices
    if most < 1:
        raise ScenarioError(f"--devices {most}: must be at least 1")
    node = plain.scenario.cluster.node.devices
    nodes = max(plain.scenario.cluster.nodes, -(-most // node))
    sized = [*others, *changes_of({"cluster.nodes": nodes})]
    points = tuple(tuple(combination) for combination in product(*axes))
    bases = tuple(load_service(scenario, [*sized, *point]) for point in points)
    size = plain.scenario.cluster.size
    if nodes > size:
        raise ScenarioError(
            f"--devices {most}: {nodes:,} nodes of '{plain.scenario.cluster.name}', which has"
            f" {size:,}"
        )
    load = plain.scenario.load
    pools = allowed.pop("pools", [1]) != [0] and not load.cached and load.kind != "batch"
    return ServiceRequest(scenario, bases, points, most, allowed, pools)


def _freed(text: str) -> tuple[str, tuple[Change, ...]]:
    """Return a key and its values from ``key=values``; none for a key that is free anyway."""
    key, equals, listed = text.partition("=")
    if not equals and key in FREE:
        return key, ()
    try:
        values = values_of(listed)
    except ValueError as problem:
        raise ScenarioError(f"--free {text}: {problem}") from None
    return key, changes_of([f"{key}={value}" for value in values])


def _counts(changes: Sequence[Change], where: str) -> list[int]:
    """Return the values of a key of a layout, which are counts or, of pools, true or false."""
    values = [change.value for change in changes]
    boolean = changes[0].text.partition("=")[0] == "pools"
    for value in values:
        if not isinstance(value, bool if boolean else int) or (not boolean and value < 1):
            allowed = "true or false" if boolean else "a whole number of at least 1"
            raise ScenarioError(f"{where}: must be {allowed}")
    return [int(value) for value in values]
