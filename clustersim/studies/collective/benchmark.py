r"""A collective on a machine: its time by size, alone or with concurrent traffic.

size --communicator--> cost --> time, algorithm and the link that limits it
                       \--traffic--> with background --> time, the link that is shared

The arguments are texts such as 32KiB:16GiB, 0-31,64, MOD 8 and ``all-to-all 64MiB on 0-31``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Final, NamedTuple

from clustersim import units
from clustersim.catalog.fabrics import Torus
from clustersim.cost.closed_form import Cost
from clustersim.engine.network.background_traffic import contention_of
from clustersim.errors import ScenarioError
from clustersim.importers.logs.nccl_tests import read_collective_log
from clustersim.program.collectives.algorithms import ALGORITHMS
from clustersim.program.collectives.communicator import Communicator, Prescribed
from clustersim.records import dataclass
from clustersim.scenario.ranges import numbers_of, sizes_in
from clustersim.scenario.schema import ClusterUse
from clustersim.suggestions import nearest
from clustersim.topology.cluster import Cluster
from clustersim.traffic import Traffic

COPIES: Final = {"device-to-host": Cluster.to_host, "host-to-device": Cluster.from_host}
"""Copies that background traffic may consist of, in addition to collectives."""


class Background(NamedTuple):
    """Concurrent traffic, which is repeated: ``all-to-all 64MiB on 0-31``."""

    operation: str
    nbytes: float
    devices: tuple[int, ...]


class Contended(NamedTuple):
    """A collective with background traffic.

    Attributes
    ----------
    time : with the background [s]
    link : at which contention limited it longest; None without contention
    """

    time: float
    link: str | None


@dataclass(frozen=True)
class Benchmark:
    """One collective over one or several groups of devices, and the traffic concurrent with it.

    Attributes
    ----------
    groups : of equal size; all of them run the operation at the same time
    """

    cluster: Cluster
    groups: tuple[tuple[int, ...], ...]
    operation: str
    prescribed: Mapping[str, Prescribed]
    background: tuple[Background, ...] = ()

    @property
    def name(self) -> str:
        """A name for the output folder."""
        split = f"-in-{len(self.groups)}" if len(self.groups) > 1 else ""
        return f"{self.cluster.name}-{self.operation}-{sum(map(len, self.groups))}{split}"

    @property
    def title(self) -> str:
        """What is measured, in one line."""
        span, cluster = self.communicator.span, self.cluster
        nodes = "1 node" if span.nodes == 1 else f"{span.nodes:,} nodes"
        over = f"{span.ranks:,} x {cluster.accelerator.name}"
        split = f", {len(self.groups):,} concurrent groups" if len(self.groups) > 1 else ""
        return f"{self.operation} over {over} on {nodes} of {cluster.name}{split}"

    @cached_property
    def communicator(self) -> Communicator:
        """The communicator of the groups."""
        return Communicator(self.cluster, self.groups, self.prescribed)

    def cost(self, nbytes: float) -> Cost:
        """Return the time and the algorithm of a size without background."""
        return self.communicator.cost(self.operation, nbytes)

    def bottleneck(self, nbytes: float) -> str:
        """Return the link that limits a size; ``library`` or ``latency`` where these do."""
        links = self.cluster.links
        load = self.communicator.load(self.cost(nbytes).algorithm, self.operation)
        link = load.bottleneck(links.capacities)
        by = self.communicator.limited_by(self.operation, nbytes)
        return links.names[link] if by == "link" and link is not None else by

    def contended(self, nbytes: float) -> Contended:
        """Return the time of a size with the background."""
        ours = self.communicator.traffic(self.operation, self.operation, nbytes)
        links, others = self.cluster.links, self._others
        seconds, slowdown = contention_of(ours, others, links.capacities.tolist())
        return Contended(seconds, None if slowdown.link is None else links.names[slowdown.link])

    @cached_property
    def _others(self) -> Sequence[Traffic]:
        return [self._traffic(other) for other in self.background]

    def _traffic(self, other: Background) -> Traffic:
        if other.operation in COPIES:
            return self._copies(other)
        communicator = Communicator(self.cluster, [other.devices])
        name = f"{other.operation} on {len(other.devices)} devices"
        return communicator.traffic(name, other.operation, other.nbytes)

    def _copies(self, other: Background) -> Traffic:
        """Return copies between devices and host memory, one flow for each device."""
        route = COPIES[other.operation]
        weights: dict[int, float] = {}
        for device in other.devices:
            for link in route(self.cluster, device).links:
                weights[link] = weights.get(link, 0.0) + 1.0
        name = f"{other.operation} of {len(other.devices)} devices"
        return Traffic(name, tuple(weights), tuple(weights.values()), other.nbytes, 0.0)


MAXIMUM: Final = 200
"""Sizes of one table."""


def check_operation(
    devices: Sequence[int], operation: str, option: str, operations: Sequence[str]
) -> None:
    """Reject an unknown operation, and a group that is too small for it."""
    if operation not in operations:
        known = ", ".join(operations)
        hint = nearest(operation, operations)
        raise ScenarioError(f"{option}: unknown operation '{operation}'{hint} (known: {known})")
    if len(devices) < 2 and operation not in COPIES:
        raise ScenarioError(f"{option}: a collective needs at least 2 devices")


def nodes_for(record: ClusterUse, last: int, option: str) -> int:
    """Return the nodes that are built: up to the `last` device, or the job of a torus."""
    size, fabric = record.node.devices, record.fabric
    nodes = prod(fabric.job) if isinstance(fabric, Torus) and fabric.job else record.nodes
    if last >= nodes * size:
        raise ScenarioError(
            f"{option}: there is no device {last} (the last one is {nodes * size - 1:,})"
        )
    return nodes if nodes < record.nodes else last // size + 1


def prescribed_of(operation: str, algorithm: str | None) -> dict[str, Prescribed]:
    """Return the algorithm of an operation, where one is given."""
    if algorithm is None:
        return {}
    able = [name for name, each in ALGORITHMS.items() if operation in each.operations]
    if algorithm not in able:
        hint = nearest(algorithm, able)
        raise ScenarioError(
            f"--algorithm {algorithm}: not an algorithm of {operation}{hint}"
            f" (allowed: {', '.join(able)})"
        )
    return {operation: Prescribed(algorithm, f"--algorithm {algorithm}")}


def sizes_of(sizes: str | float | Sequence[float]) -> list[float]:
    """Return sizes of a buffer [B]: one, a list ``1MiB,4MiB``, or doublings ``32KiB:16GiB``.

    Raises
    ------
    ScenarioError
        when a size is invalid, in one line.

    >>> sizes_of("1KiB:4KiB")
    [1024.0, 2048.0, 4096.0]
    """
    listed = sizes if isinstance(sizes, Iterable) else [sizes]
    text = listed if isinstance(listed, str) else ",".join(f"{size} B" for size in listed)
    try:
        values = sizes_in(text)
    except ValueError as problem:
        raise ScenarioError(f"--bytes {text}: {problem}") from None
    if len(values) > MAXIMUM:
        raise ScenarioError(f"--bytes {text}: more than {MAXIMUM} sizes")
    return values


def devices_of(devices: str | Sequence[int], option: str) -> tuple[int, ...]:
    """Return devices from a list of numbers and ranges.

    >>> devices_of("0-3,8", "--on")
    (0, 1, 2, 3, 8)
    """
    text = devices if isinstance(devices, str) else ",".join(map(str, devices))
    try:
        return tuple(numbers_of(text, "device"))
    except ValueError as problem:
        raise ScenarioError(f"{option}: {problem}") from None


def split_of(devices: Sequence[int], text: str | None) -> tuple[tuple[int, ...], ...]:
    """Return groups of equal size, as nccl-tests splits ranks: ``MOD 8`` or ``DIV 8``.

    ``MOD n`` makes n groups, of ranks whose numbers leave the same remainder; ``DIV n`` makes
    groups of n consecutive ranks.

    >>> split_of(range(4), "MOD 2"), split_of(range(4), "DIV 2")
    (((0, 2), (1, 3)), ((0, 1), (2, 3)))
    """
    if text is None:
        return (tuple(devices),)
    match = re.fullmatch(r"\s*(MOD|DIV)\s+(\d{1,7})\s*", text, re.IGNORECASE)
    count = int(match[2]) if match else 0
    if match is None or count == 0:
        raise ScenarioError(f"--split {text}: not of the form 'MOD 8' or 'DIV 8'")
    size = len(devices) // count if match[1].upper() == "MOD" else count
    if len(devices) % count or size < 2:
        raise ScenarioError(
            f"--split {text}: {len(devices)} devices do not split into equal groups of 2 or more"
        )
    if match[1].upper() == "MOD":
        return tuple(tuple(devices[first::count]) for first in range(count))
    return tuple(tuple(devices[first : first + size]) for first in range(0, len(devices), size))


def background_of(text: str) -> Background:
    """Return concurrent traffic from a text such as ``all-to-all 64MiB on 0-31``.

    Raises
    ------
    ScenarioError
        in one line.
    """
    option = f"--with '{text}'"
    match = re.fullmatch(r"\s*(\S+)\s+(\S+)\s+on\s+(\S+)\s*", text)
    if match is None:
        raise ScenarioError(f"{option}: not of the form 'all-to-all 64MiB on 0-31'")
    try:
        nbytes = units.parse_size(match[2])
    except ValueError as problem:
        raise ScenarioError(f"{option}: {problem}") from None
    return Background(match[1], nbytes, devices_of(match[3], option))


def measured_times(log: Path, benchmark: Benchmark) -> Mapping[float, float]:
    """Return the times of a log of nccl-tests by size [s], [B].

    Raises
    ------
    CatalogError, ScenarioError
        in one line, when it has none, or another operation or number of ranks.
    """
    found = read_collective_log(log)
    if found.operation not in (None, benchmark.operation):
        raise ScenarioError(f"{found.file}: is of {found.operation}, not of {benchmark.operation}")
    ranks = sum(map(len, benchmark.groups))
    if found.ranks not in (None, ranks):
        raise ScenarioError(f"{found.file}: is of {found.ranks} ranks, not of {ranks} (--devices)")
    return found.seconds
