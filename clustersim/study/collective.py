r"""Collectives by size, as nccl-tests tells them, alone or beside other traffic.

sizes --communicator--> cost --> time, algorithm and bus bandwidth, bottleneck link
                        \--traffic--> beside background --> slowdown, the link that was shared
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Final, NamedTuple

from clustersim import units
from clustersim.catalog.fabrics import Torus
from clustersim.catalog.libraries import OPERATIONS
from clustersim.catalog.tree import nearest
from clustersim.cost.collectives import Cost, bus_factor
from clustersim.errors import ScenarioError
from clustersim.program.collectives.communicator import RUNS, Communicator, Prescribed
from clustersim.scenario.schema import ClusterUse
from clustersim.topology.cluster import Cluster
from clustersim.traffic import Traffic

MOST_SIZES: Final = 200
"""Sizes of one table, at most."""


COPIES: Final = {"device-to-host": Cluster.to_host, "host-to-device": Cluster.from_host}
"""Copies that background traffic may be, beside the operations of a library."""


class Beside(NamedTuple):
    """What background traffic does to a collective.

    Attributes
    ----------
    time : with the background [s]
    link : that held it up longest; empty where nothing did
    """

    time: float
    link: str


@dataclass(frozen=True)
class Timing:
    """One line of the table.

    Attributes
    ----------
    nbytes : the whole buffer; for an all-to-all, what each rank sends [B]
    time : alone on its links [s]
    algbw, busbw : algorithm and bus bandwidth [B/s], as nccl-tests define them
    bottleneck : the link that its bytes wait for, or ``latency`` where these are the smaller part
    beside : the same with background traffic, where there is any
    """

    operation: str
    ranks: int
    nbytes: float
    cost: Cost
    bottleneck: str
    beside: Beside | None = None

    @property
    def time(self) -> float:
        """Time alone [s]."""
        return self.cost.seconds

    @property
    def algbw(self) -> float:
        """Bytes of the buffer in a second [B/s]."""
        return self.nbytes / self.time

    @property
    def busbw(self) -> float:
        """Bandwidth of one link that a ring would need for this [B/s]."""
        return self.algbw * bus_factor(self.operation, self.ranks)

    @property
    def slowdown(self) -> float:
        """Time with the background over time alone [unitless]."""
        return 1.0 if self.beside is None else self.beside.time / self.time

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the keys are stable and documented."""
        values: dict[str, Any] = {
            "bytes": self.nbytes,
            "time_s": self.time,
            "algbw": self.algbw,
            "busbw": self.busbw,
            "algorithm": self.cost.algorithm,
            "protocol": self.cost.protocol,
            "bottleneck": self.bottleneck,
        }
        if self.beside is not None:
            values |= {"time_with_s": self.beside.time, "slowdown": self.slowdown}
            values |= {"shared_link": self.beside.link or None}
        return values


class Background(NamedTuple):
    """Traffic that goes on beside: ``all-to-all 64MiB on 0-31``."""

    operation: str
    nbytes: float
    devices: tuple[int, ...]


@dataclass(frozen=True)
class Bench:
    """One collective, over one group of devices or several side by side, and what goes on beside.

    Attributes
    ----------
    groups : of equal size; all of them run the operation at the same time
    """

    cluster: Cluster
    groups: tuple[tuple[int, ...], ...]
    operation: str
    fixed: Mapping[str, Prescribed]
    background: tuple[Background, ...] = ()

    @property
    def name(self) -> str:
        """Name of the folder that the answer goes to."""
        split = f"-in-{len(self.groups)}" if len(self.groups) > 1 else ""
        devices = sum(map(len, self.groups))
        return f"collective-{self.cluster.name}-{self.operation}-{devices}{split}"

    @property
    def title(self) -> str:
        """What is measured, in one line."""
        span, cluster = self.communicator.span, self.cluster
        nodes = "1 node" if span.nodes == 1 else f"{span.nodes} nodes"
        over = f"{span.ranks} x {cluster.accelerator.name}"
        split = f", {len(self.groups):,} groups side by side" if len(self.groups) > 1 else ""
        return f"{self.operation} over {over} on {nodes} of {cluster.name}{split}"

    @cached_property
    def communicator(self) -> Communicator:
        """The groups' communicator."""
        return Communicator(self.cluster, self.groups, self.fixed)

    def timings(self, sizes: Sequence[float]) -> Iterator[Timing]:
        """Yield the line of each size."""
        others = [self._traffic(each) for each in self.background]
        for nbytes in sizes:
            cost = self.communicator.cost(self.operation, nbytes)
            beside = self._beside(nbytes, others) if others else None
            link = self._bottleneck(cost)
            yield Timing(self.operation, self.communicator.span.ranks, nbytes, cost, link, beside)

    def _traffic(self, other: Background) -> Traffic:
        if other.operation in COPIES:
            return self._copies(other)
        communicator = Communicator(self.cluster, [other.devices])
        name = f"{other.operation} on {len(other.devices)} devices"
        return communicator.traffic(name, other.operation, other.nbytes)

    def _copies(self, other: Background) -> Traffic:
        """Return copies between devices and host memory, one flow for each device."""
        way = COPIES[other.operation]
        weights: dict[int, float] = {}
        for device in other.devices:
            for link in way(self.cluster, device).links:
                weights[link] = weights.get(link, 0.0) + 1.0
        name = f"{other.operation} of {len(other.devices)} devices"
        return Traffic(name, tuple(weights), tuple(weights.values()), other.nbytes, 0.0)

    def _beside(self, nbytes: float, others: Sequence[Traffic]) -> Beside:
        from clustersim.engine.together import held_back, seconds_together

        ours = self.communicator.traffic(self.operation, self.operation, nbytes)
        links = self.cluster.links
        (seconds,) = seconds_together([ours], others, links.capacities)
        (held,) = held_back([ours], others, links.capacities)
        return Beside(seconds, "" if held.link is None else links.names[held.link])

    def _bottleneck(self, cost: Cost) -> str:
        links = self.cluster.links
        load = self.communicator.load(cost.algorithm, self.operation)
        link = load.bottleneck(links.capacities)
        if link is None or cost.latency > cost.seconds / 2:
            return "latency"
        return links.names[link]


def check(
    devices: Sequence[int], operation: str, what: str, operations: Sequence[str] = OPERATIONS
) -> None:
    """Refuse a group that cannot run one of the operations.

    Raises
    ------
    ScenarioError
        in one line that begins with `what`.
    """
    if operation not in operations:
        known = ", ".join(operations)
        raise ScenarioError(
            f"{what}: no operation '{operation}'{nearest(operation, operations)} (known: {known})"
        )
    if len(devices) < 2 and operation not in COPIES:
        raise ScenarioError(f"{what}: a collective needs at least 2 devices")


def nodes_of(record: ClusterUse, last: int, what: str) -> int:
    """Return the nodes of a machine that are built: up to device `last`, or the job of a torus.

    Raises
    ------
    ScenarioError
        in one line that begins with `what`, when the machine has no such device.
    """
    size, fabric = record.node.devices.value, record.fabric
    nodes = prod(fabric.job) if isinstance(fabric, Torus) and fabric.job else record.nodes
    if last >= nodes * size:
        raise ScenarioError(
            f"{what}: has {nodes * size} devices, 0 to {nodes * size - 1}, and device {last} is"
            " asked for"
        )
    return nodes if nodes < record.nodes else last // size + 1


def prescribed(operation: str, algorithm: str | None) -> dict[str, Prescribed]:
    """Return the algorithm that is to run an operation, where one is named.

    Raises
    ------
    ScenarioError
        when there is none of that name, or it cannot do the operation.
    """
    if algorithm is None:
        return {}
    able = [name for name, operations in RUNS.items() if operation in operations]
    if algorithm not in able:
        hint = nearest(algorithm, able)
        raise ScenarioError(
            f"--algorithm {algorithm}: does no {operation}{hint} (these do: {', '.join(able)})"
        )
    return {operation: Prescribed(algorithm, f"--algorithm {algorithm}")}


# --- what is written on a command line ------------------------------------------------------------


def sizes_of(text: str) -> list[float]:
    """Return buffer sizes [B]: one, a list ``1MiB,4MiB``, or doublings ``32KiB:16GiB``.

    Raises
    ------
    ScenarioError
        for what is no size, in one line.

    >>> sizes_of("1KiB:4KiB")
    [1024.0, 2048.0, 4096.0]
    """
    parts = [_size(part, text) for part in re.split("[:,]", text)]
    if ":" not in text:
        return parts
    if len(parts) != 2 or parts[0] > parts[1]:
        raise ScenarioError(f"--bytes {text}: needs a smaller and a larger size (32KiB:16GiB)")
    found = [parts[0]]
    while found[-1] * 2 <= parts[1] and len(found) <= MOST_SIZES:
        found.append(found[-1] * 2)
    return found


def _size(text: str, whole: str) -> float:
    try:
        nbytes = units.parse(text.strip(), "bytes")
    except ValueError as problem:
        raise ScenarioError(f"--bytes {whole}: {problem}") from None
    if nbytes <= 0:
        raise ScenarioError(f"--bytes {whole}: must be greater than 0")
    return nbytes


def devices_of(text: str, what: str) -> tuple[int, ...]:
    """Return devices from a list of numbers and ranges.

    >>> devices_of("0-3,8", "--on")
    (0, 1, 2, 3, 8)
    """
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,7})(?:-(\d{1,7}))?\s*", part)
        if match is None:
            raise ScenarioError(f"{what}: '{part}' is no device and no range (write 0-31,64)")
        first, last = int(match[1]), int(match[2] or match[1])
        found += range(first, last + 1)
    if len(set(found)) != len(found) or not found:
        raise ScenarioError(f"{what}: names a device twice, or a range backwards: '{text}'")
    return tuple(found)


def split_of(devices: Sequence[int], text: str | None) -> tuple[tuple[int, ...], ...]:
    """Return groups of equal size, as nccl-tests splits ranks: ``MOD 8`` or ``DIV 8``.

    ``MOD n`` puts those ranks together whose numbers leave the same remainder, ``DIV n`` those
    that follow each other.

    >>> split_of(range(4), "MOD 2"), split_of(range(4), "DIV 2")
    (((0, 2), (1, 3)), ((0, 1), (2, 3)))
    """
    if text is None:
        return (tuple(devices),)
    match = re.fullmatch(r"\s*(MOD|DIV)\s+(\d{1,7})\s*", text, re.IGNORECASE)
    count = int(match[2]) if match else 0
    if match is None or count == 0:
        raise ScenarioError(f"--split {text}: not understood (write 'MOD 8' or 'DIV 8')")
    each = len(devices) // count if match[1].upper() == "MOD" else count
    if len(devices) % count or each < 2:
        raise ScenarioError(
            f"--split {text}: makes no equal groups of 2 or more of {len(devices)} devices"
        )
    if match[1].upper() == "MOD":
        return tuple(tuple(devices[first::count]) for first in range(count))
    return tuple(tuple(devices[first : first + each]) for first in range(0, len(devices), each))


def background_of(text: str) -> Background:
    """Return background traffic as it is written: ``all-to-all 64MiB on 0-31``.

    Raises
    ------
    ScenarioError
        in one line.
    """
    what = f"--with '{text}'"
    match = re.fullmatch(r"\s*(\S+)\s+(\S+)\s+on\s+(\S+)\s*", text)
    if match is None:
        raise ScenarioError(f"{what}: not understood (write 'all-to-all 64MiB on 0-31')")
    try:
        nbytes = units.parse(match[2], "bytes")
    except ValueError as problem:
        raise ScenarioError(f"{what}: {problem}") from None
    return Background(match[1], nbytes, devices_of(match[3], what))
