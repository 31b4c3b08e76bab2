"""Load of a collective on each link, for each byte of its buffer.

    algorithm --edges--> (from, to, share) --routes--> link: bytes for each byte of the buffer

A pipelined algorithm keeps all its links busy at once, so its load is one phase.  An algorithm in
rounds has a phase for each, because a round waits for the slowest link of the previous one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from clustersim.cost.closed_form import GroupSpan
from clustersim.topology.cluster import Cluster

Edge = tuple[int, int, float]
"""From device, to device, bytes for each byte of the buffer."""

Phase = dict[int, float]
"""Link: bytes for each byte of the buffer."""


@dataclass(frozen=True)
class Load:
    """Load of a collective on each link.

    Attributes
    ----------
    phases : load of each round, or of all flows at once [B/B]
    unit : bytes of one of the equal flows that represent it in the engine [B/B]
    span : extent of one group on the machine
    """

    phases: tuple[Phase, ...]
    unit: float
    span: GroupSpan

    @cached_property
    def shares(self) -> Phase:
        """Bytes on each link, of all phases."""
        total: Phase = {}
        for phase in self.phases:
            for link, share in phase.items():
                total[link] = total.get(link, 0.0) + share
        return total

    @property
    def links(self) -> tuple[int, ...]:
        """The links in use."""
        return tuple(self.shares)

    @property
    def weights(self) -> tuple[float, ...]:
        """How many of the equal flows cross each of them."""
        return tuple([share / self.unit for share in self.shares.values()])

    def seconds_per_byte(self, capacities: Sequence[float]) -> float:
        """Return the time of a byte of the buffer on uncontended links [s/B]."""
        return sum(
            [
                max([share / capacities[link] for link, share in phase.items()], default=0.0)
                for phase in self.phases
            ]
        )

    def bottleneck(self, capacities: Sequence[float]) -> int | None:
        """Return the link with the longest time for its share; None without links."""
        times = {link: share / capacities[link] for link, share in self.shares.items()}
        return max(times, key=times.__getitem__) if times else None


def span_of(cluster: Cluster, groups: Sequence[Sequence[int]]) -> GroupSpan:
    """Return the extent of the widest of several groups on the machine."""
    spans = []
    for group in groups:
        counts: dict[int, int] = {}
        for device in group:
            node = device // cluster.node.devices
            counts[node] = counts.get(node, 0) + 1
        spans.append(GroupSpan(len(group), len(counts), max(counts.values())))
    return max(spans, key=lambda span: (span.nodes, span.ranks))


def by_node(cluster: Cluster, group: Sequence[int]) -> dict[int, list[int]]:
    """Return the devices of a group by their node, both in the order of the group."""
    homes: dict[int, list[int]] = {}
    for device in group:
        homes.setdefault(device // cluster.node.devices, []).append(device)
    return homes


def phase_of(cluster: Cluster, edges: Iterable[Edge]) -> Phase:
    """Return the load of edges on the links of their routes."""
    phase: Phase = {}
    for a, b, share in edges:
        for link in cluster.route(a, b).links:
            phase[link] = phase.get(link, 0.0) + share
    return phase


def neighbours(members: Sequence[int]) -> list[tuple[int, int]]:
    """Return each member with the next, the last with the first; no pair for a single member."""
    if len(members) < 2:
        return []
    return list(zip(members, [*members[1:], members[0]], strict=True))


def exchange(
    cluster: Cluster, groups: Sequence[Sequence[int]], shares: Sequence[float] | None = None
) -> Phase:
    """Return the load of an all-to-all posted at once, for each byte that a rank sends.

    Every rank sends a block to every other. Each message takes its own route, by the neighbour on
    the receiver's rail where the library relays (NCCL's PXN).

    Parameters
    ----------
    shares : of every rank's bytes, for each receiver, such as the expert with most tokens; equal
        shares if it is left out
    """
    route = cluster.relayed if cluster.library.relay else cluster.route
    phase: Phase = {}
    for group in groups:
        to_each = shares or [1 / len(group)] * len(group)
        for source in group:
            for target, share in zip(group, to_each, strict=True):
                if source != target and share:
                    for link in route(source, target).links:
                        phase[link] = phase.get(link, 0.0) + share
    return phase
