"""Inside one node: devices, the links between them, and the NICs that they reach.

gcd0 == gcd1 -- nic0        a mesh has direct links only: a message between devices without
 |        |                 one is passed on by the devices between
gcd2 == gcd3 -- nic1        a switch joins all devices, each by one link each way
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise

from clustersim.catalog.records import DeviceMesh, NodeRecord
from clustersim.topology.links import Hop


@dataclass(frozen=True)
class Node:
    """The shape that every node of a cluster shares.

    Attributes
    ----------
    devices : how many it holds
    direct : links of a mesh, (from, to, payload bandwidth [B/s]), each direction its own
    switch : payload bandwidth of each device's link to the crossbar [B/s], None for a mesh
    latency : of one link between devices [s]
    nic_devices : NIC i hangs on device ``nic_devices[i]``
    bus : bandwidth between a NIC and its device [B/s]
    """

    name: str
    devices: int
    direct: tuple[tuple[int, int, float], ...]
    switch: float | None
    latency: float
    nic_devices: tuple[int, ...]
    bus: float

    def hops(self, prefix: str, a: int, b: int) -> Iterator[Hop]:
        """Yield the links from device `a` to device `b` of the node named `prefix`."""
        if a == b:
            return
        if self.switch is not None:
            yield Hop(f"{prefix}.dev{a}>{prefix}.switch", self.switch, self.latency / 2)
            yield Hop(f"{prefix}.switch>{prefix}.dev{b}", self.switch, self.latency / 2)
            return
        path = self.paths[a, b]
        for c, d in pairwise(path):
            yield Hop(f"{prefix}.dev{c}>{prefix}.dev{d}", self.widths[c, d], self.latency)

    @cached_property
    def widths(self) -> dict[tuple[int, int], float]:
        """Payload bandwidth of the direct link from a device to another [B/s]."""
        return {(a, b): width for a, b, width in self.direct}

    @cached_property
    def paths(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """Devices passed between each pair: fewest links first, then the widest, then the first."""
        found: dict[tuple[int, int], tuple[int, ...]] = {}
        for start in range(self.devices):
            best: dict[int, tuple[int, float, tuple[int, ...]]] = {start: (0, 0.0, (start,))}
            front = [start]
            while front:
                reached: dict[int, tuple[int, float, tuple[int, ...]]] = {}
                for a in front:
                    hops, narrowest, path = best[a]
                    for b in range(self.devices):
                        width = self.widths.get((a, b))
                        if width is None or b in best:
                            continue
                        key = (hops + 1, max(narrowest, 1 / width), (*path, b))
                        reached[b] = min(reached.get(b, key), key)
                best.update(reached)
                front = sorted(reached)
            found.update({(start, b): path for b, (_, _, path) in best.items()})
        return found

    @cached_property
    def nic_of(self) -> tuple[int, ...]:
        """For each device the NIC that it uses: the one fewest links away, then by the widest.

        Behind a crossbar all are equally far; devices with neighbouring numbers share a host bus.
        """
        nics = range(len(self.nic_devices))
        return tuple(min(nics, key=partial(self._distance, d)) for d in range(self.devices))

    def _distance(self, device: int, nic: int) -> tuple[int, float, int]:
        owner = self.nic_devices[nic]
        if self.switch is not None or owner == device:
            return (int(owner != device), float(abs(owner - device)), nic)
        path = self.paths[device, owner]
        widths = [self.widths[c, d] for c, d in pairwise(path)]
        return (len(widths), 1 / min(widths), nic)

    def to_nic(self, prefix: str, device: int) -> Iterator[Hop]:
        """Yield the links from a device out of its NIC's bus."""
        nic = self.nic_of[device]
        owner = self.nic_devices[nic]
        yield from self.hops(prefix, device, owner)
        yield Hop(f"{prefix}.dev{owner}>{prefix}.nic{nic}", self.bus, 0.0)

    def from_nic(self, prefix: str, device: int) -> Iterator[Hop]:
        """Yield the links from a device's NIC to the device."""
        nic = self.nic_of[device]
        owner = self.nic_devices[nic]
        yield Hop(f"{prefix}.nic{nic}>{prefix}.dev{owner}", self.bus, 0.0)
        yield from self.hops(prefix, owner, device)


def build_node(record: NodeRecord) -> Node:
    """Return the node that a catalogue file describes; bandwidths are of payload."""
    inside = record.interconnect
    direct: list[tuple[int, int, float]] = []
    if isinstance(inside, DeviceMesh):
        for a, b, bandwidth in inside.links.value:
            payload = bandwidth * inside.efficiency.value
            direct += [(a, b, payload), (b, a, payload)]
    return Node(
        name=record.name,
        devices=record.devices.value,
        direct=tuple(direct),
        switch=None
        if isinstance(inside, DeviceMesh)
        else inside.bandwidth.value * inside.efficiency.value,
        latency=inside.latency.value,
        nic_devices=tuple(record.nics.devices.value),
        bus=record.nics.bus.value,
    )
