r"""A collective on a machine: its time by size, alone or with concurrent traffic.

size --communicator--> cost --> time, algorithm and the link that limits it
                       \--traffic--> with background --> time, the link that is shared
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from clustersim.cost.closed_form import Cost
from clustersim.engine.network.background_traffic import contended_seconds, slowdowns
from clustersim.program.collectives.communicator import Communicator, Prescribed
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
        nodes = "1 node" if span.nodes == 1 else f"{span.nodes} nodes"
        over = f"{span.ranks} x {cluster.accelerator.name}"
        split = f", {len(self.groups):,} concurrent groups" if len(self.groups) > 1 else ""
        return f"{self.operation} over {over} on {nodes} of {cluster.name}{split}"

    @cached_property
    def communicator(self) -> Communicator:
        """The communicator of the groups."""
        return Communicator(self.cluster, self.groups, self.prescribed)

    def cost(self, nbytes: float) -> Cost:
        """Return the time and the algorithm of a size without background."""
        return self.communicator.cost(self.operation, nbytes)

    def bottleneck(self, cost: Cost) -> str:
        """Return the link that limits it; ``latency`` where that is more than half of the time."""
        links = self.cluster.links
        load = self.communicator.load(cost.algorithm, self.operation)
        link = load.bottleneck(links.capacities)
        if link is None or cost.latency > cost.seconds / 2:
            return "latency"
        return links.names[link]

    def contended(self, nbytes: float) -> Contended:
        """Return the time of a size with the background."""
        ours = self.communicator.traffic(self.operation, self.operation, nbytes)
        links = self.cluster.links
        capacities = links.capacities.tolist()
        (seconds,) = contended_seconds([ours], self._others, capacities)
        (slowdown,) = slowdowns([ours], self._others, capacities)
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
