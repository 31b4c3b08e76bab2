r"""Collectives by size, as nccl-tests tells them, alone or beside other traffic.

sizes --communicator--> cost --> time, algorithm and bus bandwidth, bottleneck link
                        \--traffic--> beside background --> slowdown, the link that was shared
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from clustersim.cost.communication import Cost, bus_factor
from clustersim.program.collectives.communicator import Communicator, Prescribed
from clustersim.topology.cluster import Cluster
from clustersim.traffic import Traffic

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
        from clustersim.engine.network.background_traffic import contended_seconds, slowdowns

        ours = self.communicator.traffic(self.operation, self.operation, nbytes)
        links = self.cluster.links
        (seconds,) = contended_seconds([ours], others, links.capacities)
        (held,) = slowdowns([ours], others, links.capacities)
        return Beside(seconds, "" if held.link is None else links.names[held.link])

    def _bottleneck(self, cost: Cost) -> str:
        links = self.cluster.links
        load = self.communicator.load(cost.algorithm, self.operation)
        link = load.bottleneck(links.capacities)
        if link is None or cost.latency > cost.seconds / 2:
            return "latency"
        return links.names[link]
