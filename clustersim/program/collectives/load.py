"""Load of a collective on each link, for each byte of its buffer.

    algorithm --messages--> (from, to, share) --routes--> link: bytes for each byte of the buffer

A pipelined algorithm keeps all its links busy at once, so its load is one phase.  An algorithm in
rounds has a phase for each, because a round waits for the slowest link of the previous one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from clustersim.arrays import Floats
from clustersim.topology.cluster import Cluster
from clustersim.traffic import LinkRows, added

CROSSBAR = -1
"""In place of a device, the crossbar of the other device's node."""

Edge = tuple[int, int, float]
"""From device, to device, bytes for each byte of the buffer."""


@dataclass(frozen=True, eq=False)
class Load:
    """Load of a collective on each link, a row for each of several sets of groups.

    Attributes
    ----------
    phases : load of each round, or of all flows at once [B/B]
    units : of each row, bytes of one of the equal flows that represent it in the engine [B/B]
    """

    phases: tuple[LinkRows, ...]
    units: Floats

    @cached_property
    def total(self) -> LinkRows:
        """Bytes on each link, of all phases."""
        return added(self.phases, len(self.units))

    @property
    def shares(self) -> dict[int, float]:
        """Bytes on each link of the first row, of all phases."""
        return self.total.of_row(0)

    @property
    def unit(self) -> float:
        """Bytes of one of the equal flows of the first row [B/B]."""
        return float(self.units[0])

    def seconds_per_byte(self, capacities: Floats) -> Floats:
        """Return for each row the time of a byte of the buffer on uncontended links [s/B]."""
        seconds = np.zeros(len(self.units))
        for phase in self.phases:
            seconds += phase.largest(phase.values / capacities[phase.links])
        return seconds

    def bottleneck(self, capacities: Floats) -> int | None:
        """Return the link of the first row with the longest time for its share; None without."""
        row = self.total.take([0])
        if not len(row.links):
            return None
        return int(row.links[np.argmax(row.values / capacities[row.links])])


def by_node(cluster: Cluster, group: Sequence[int]) -> dict[int, list[int]]:
    """Return the devices of a group by their node, both in the order of the group."""
    homes: dict[int, list[int]] = {}
    for device in group:
        homes.setdefault(device // cluster.node.devices, []).append(device)
    return homes


def neighbours(members: Sequence[int]) -> list[tuple[int, int]]:
    """Return each member with the next, the last with the first; no pair for a single member."""
    if len(members) < 2:
        return []
    return list(zip(members, [*members[1:], members[0]], strict=True))
