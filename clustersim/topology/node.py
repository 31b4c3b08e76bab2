"""One node: devices, the links between them, and their NICs.

gcd0 == gcd1 -- nic0        direct links: devices forward messages between devices without a link
 |        |
gcd2 == gcd3 -- nic1

gpu0 -- pcie0 -- cpu -- pcie1 -- gpu2      switches and host bridges have links as well

gpu0 -- (crossbar) -- gpu1                 a crossbar has one link per device and direction
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

from clustersim.catalog.records.machines import DeviceLinks, DeviceSwitch, NodeRecord
from clustersim.errors import CatalogError
from clustersim.records import dataclass
from clustersim.topology.links import Hop

End = int | str
"""A device by its number, or a switch or host bridge by its name."""


@dataclass(frozen=True)
class Cable:
    """Parallel links from one end to another: summed payload bandwidth [B/s], latency [s], kind."""

    bandwidth: float
    latency: float
    kind: str


@dataclass(frozen=True, eq=False)  # identity: rings are cached per node
class Node:
    """The structure of every node of a cluster.

    Attributes
    ----------
    devices : number of devices
    cables : direct links, (from, to, cable), one entry per direction
    crossbar : each device's link to the crossbar, None where there is none
    reduces : share of its payload rate that the crossbar reaches in in-switch reductions; 0 if it
        has none
    nic_ends : NIC i is attached to ``nic_ends[i]``
    bus : bandwidth between a NIC and its end [B/s]
    host_link, host_bandwidth : of each device to host memory, and of that memory [B/s]; or None
    host_memory : size of host memory [B], or None
    lost_nics : NICs that no device uses
    """

    name: str
    devices: int
    cables: tuple[tuple[End, End, Cable], ...]
    crossbar: Cable | None
    reduces: float
    nic_ends: tuple[End, ...]
    bus: float
    host_link: float | None = None
    host_bandwidth: float | None = None
    host_memory: float | None = None
    lost_nics: frozenset[int] = frozenset()

    def hops(self, prefix: str, a: End, b: End) -> Iterator[Hop]:
        """Yield the links from end `a` to end `b` of the node named `prefix`."""
        if a == b:
            return
        if self.crossbar is not None:
            yield self.to_crossbar(prefix, a)
            yield self.from_crossbar(prefix, b)
            return
        for c, d in pairwise(self.paths[a, b]):
            cable = self.direct[c, d]
            name = f"{prefix}.{end_name(c)}>{prefix}.{end_name(d)}"
            yield Hop(name, cable.bandwidth, cable.latency, cable.kind)

    def to_crossbar(self, prefix: str, a: End) -> Hop:
        """Return the link from a device up to the crossbar."""
        return self._half_of_crossbar(f"{prefix}.{end_name(a)}>{prefix}.switch")

    def from_crossbar(self, prefix: str, b: End) -> Hop:
        """Return the link from the crossbar down to a device."""
        return self._half_of_crossbar(f"{prefix}.switch>{prefix}.{end_name(b)}")

    def _half_of_crossbar(self, name: str) -> Hop:
        assert self.crossbar is not None
        return Hop(name, self.crossbar.bandwidth, self.crossbar.latency / 2, self.crossbar.kind)

    @cached_property
    def links(self) -> tuple[Hop, ...]:
        """All links inside the node, each named by its ends in it: ``".dev0>.nic0"``."""
        hops: list[Hop] = []
        if self.crossbar is None:
            for a, b in self.direct:
                hops += self.hops("", a, b)
        for device in range(self.devices):
            if self.crossbar is not None:
                hops += [self.to_crossbar("", device), self.from_crossbar("", device)]
            if not self.host_bridges and self.host_link is not None:
                hops += [self._own_host_link("", device, back=back) for back in (False, True)]
        for nic in range(len(self.nic_ends)):
            hops += [self.to_bus("", nic), self.from_bus("", nic)]
        return (*hops, *self._memory(""))

    @cached_property
    def link_numbers(self) -> dict[str, int]:
        """The number of each of these links, by its name."""
        return {hop.name: number for number, hop in enumerate(self.links)}

    def to_host(self, prefix: str, device: int) -> Iterator[Hop]:
        """Yield the links from a device to host memory.

        Raises
        ------
        CatalogError
            when neither a host bridge nor the bandwidth of a device's own link is known.
        """
        if bridge := self._nearest_bridge(device):
            yield from self.hops(prefix, device, bridge)
        else:
            yield self._own_host_link(prefix, device, back=False)
        yield from self._memory(prefix)

    def from_host(self, prefix: str, device: int) -> Iterator[Hop]:
        """Yield the links from host memory to a device, as `to_host` does."""
        if bridge := self._nearest_bridge(device):
            yield from self.hops(prefix, bridge, device)
        else:
            yield self._own_host_link(prefix, device, back=True)
        yield from self._memory(prefix)

    def _nearest_bridge(self, device: int) -> str:
        """Return the host bridge with the fewest links to a device; empty if there is none."""
        return min(self.host_bridges, key=lambda end: len(self.paths[device, end]), default="")

    def _own_host_link(self, prefix: str, device: int, *, back: bool) -> Hop:
        """Return a device's own link to its host, or back from it."""
        if self.host_link is None:
            raise CatalogError(
                f"{self.name}: node.host.link: missing, but the run copies data to host memory"
                " (give the bandwidth per direction of a device's link to its host)"
            )
        a, b = end_name(device), "host"
        a, b = (b, a) if back else (a, b)
        return Hop(f"{prefix}.{a}>{prefix}.{b}", self.host_link, 0.0, "host")

    def _memory(self, prefix: str) -> list[Hop]:
        """Return the link of host memory, which both directions share; none where it is unknown."""
        if self.host_bandwidth is None:
            return []
        return [Hop(f"{prefix}.host>{prefix}.memory", self.host_bandwidth, 0.0, "host")]

    @cached_property
    def direct(self) -> dict[tuple[End, End], Cable]:
        """The direct links from each end to another; parallel ones are merged."""
        joined: dict[tuple[End, End], Cable] = {}
        for a, b, cable in self.cables:
            parallel = joined.get((a, b))
            wide = cable.bandwidth + (parallel.bandwidth if parallel else 0.0)
            joined[a, b] = replace(cable, bandwidth=wide)
        return joined

    @cached_property
    def widths(self) -> dict[tuple[End, End], float]:
        """Payload bandwidth of the direct link from an end to another [B/s]."""
        return {ends: cable.bandwidth for ends, cable in self.direct.items()}

    @cached_property
    def paths(self) -> dict[tuple[End, End], tuple[End, ...]]:
        """The path between each pair of ends: fewest links, then widest, then first."""
        paths: dict[tuple[End, End], tuple[End, ...]] = {}
        for start in self._ends:
            best: dict[End, tuple[int, float, tuple[int, ...], tuple[End, ...]]] = {
                start: (0, 0.0, (), (start,))
            }
            front = [start]
            while front:
                reached: dict[End, tuple[int, float, tuple[int, ...], tuple[End, ...]]] = {}
                for a in front:
                    hops, narrowest, before, path = best[a]
                    for b, width in self._neighbours[a]:
                        if b in best:
                            continue
                        numbers = (*before, self._ends[b])
                        key = (hops + 1, max(narrowest, 1 / width), numbers, (*path, b))
                        if b not in reached or key[:3] < reached[b][:3]:
                            reached[b] = key
                best.update(reached)
                front = sorted(reached, key=self._ends.__getitem__)
            paths.update({(start, b): path for b, (*_, path) in best.items()})
        return paths

    @cached_property
    def host_bridges(self) -> tuple[str, ...]:
        """The ends that are host bridges, named ``cpu0``, ``cpu1`` and so on."""
        return tuple(end for end in self._ends if isinstance(end, str) and end.startswith("cpu"))

    @cached_property
    def _ends(self) -> dict[End, int]:
        """All ends with their order: devices by number, then the others in order of mention."""
        named = [end for a, b, _ in self.cables for end in (a, b) if isinstance(end, str)]
        return {end: i for i, end in enumerate([*range(self.devices), *dict.fromkeys(named)])}

    @cached_property
    def _neighbours(self) -> dict[End, list[tuple[End, float]]]:
        neighbours: dict[End, list[tuple[End, float]]] = {end: [] for end in self._ends}
        for (a, b), width in self.widths.items():
            neighbours[a].append((b, width))
        return neighbours

    @cached_property
    def nic_of(self) -> tuple[int, ...]:
        """The NIC of each device: fewest links away, then by the widest links.

        Devices that share a switch take its NICs in turn. Behind a crossbar all NICs are equally
        far; devices with neighbouring numbers share a host bus.
        """
        nics = [nic for nic in range(len(self.nic_ends)) if nic not in self.lost_nics]
        chosen: list[int] = []
        taken: dict[int, int] = dict.fromkeys(nics, 0)
        for device in range(self.devices):
            distances = {nic: self._distance(device, nic) for nic in nics}
            nearest = min(distances.values())
            first = next(nic for nic in nics if distances[nic] == nearest)
            candidates = [nic for nic in nics if self.nic_ends[nic] == self.nic_ends[first]]
            nic = min(candidates, key=taken.__getitem__)
            taken[nic] += 1
            chosen.append(nic)
        return tuple(chosen)

    def _distance(self, device: int, nic: int) -> tuple[int, float]:
        owner = self.nic_ends[nic]
        if owner == device:
            return (0, 0.0)
        if self.crossbar is not None:
            assert isinstance(owner, int)
            return (1, float(abs(owner - device)))
        widths = [self.widths[c, d] for c, d in pairwise(self.paths[device, owner])]
        return (len(widths), 1 / min(widths))

    def to_nic(self, prefix: str, device: int) -> Iterator[Hop]:
        """Yield the links from a device to its NIC."""
        nic = self.nic_of[device]
        yield from self.hops(prefix, device, self.nic_ends[nic])
        yield self.to_bus(prefix, nic)

    def from_nic(self, prefix: str, device: int) -> Iterator[Hop]:
        """Yield the links from a device's NIC to the device."""
        nic = self.nic_of[device]
        yield self.from_bus(prefix, nic)
        yield from self.hops(prefix, self.nic_ends[nic], device)

    def to_bus(self, prefix: str, nic: int) -> Hop:
        """Return the link from the end of a NIC to the NIC."""
        end = end_name(self.nic_ends[nic])
        return Hop(f"{prefix}.{end}>{prefix}.nic{nic}", self.bus, 0.0, "bus")

    def from_bus(self, prefix: str, nic: int) -> Hop:
        """Return the link from a NIC to its end."""
        end = end_name(self.nic_ends[nic])
        return Hop(f"{prefix}.nic{nic}>{prefix}.{end}", self.bus, 0.0, "bus")


def end_name(end: End) -> str:
    """Return the name of an end in link names: ``dev3``, or the name of a switch."""
    return f"dev{end}" if isinstance(end, int) else end


def build_node(record: NodeRecord) -> Node:
    """Return the node that a catalogue file describes; bandwidths are of payload."""
    inside, host = record.interconnect, record.host
    cables: list[tuple[End, End, Cable]] = []
    crossbar, reduces = None, 0.0
    if isinstance(inside, DeviceLinks):
        for kind, facts in inside.kinds.items():
            payload = facts.bandwidth * facts.efficiency
            for a, b, *count in facts.between:
                cable = Cable(payload * (count[0] if count else 1), facts.latency, kind)
                cables += [(a, b, cable), (b, a, cable)]
    elif isinstance(inside, DeviceSwitch):
        payload = inside.bandwidth * inside.efficiency
        crossbar = Cable(payload, inside.latency, "crossbar")
        reduces = inside.reduces or 0.0
    return Node(
        name=record.name,
        devices=record.devices,
        cables=tuple(cables),
        crossbar=crossbar,
        reduces=reduces,
        nic_ends=tuple(record.nics.devices),
        bus=record.nics.bus,
        host_link=None if host is None else host.link,
        host_bandwidth=None if host is None else host.bandwidth,
        host_memory=None if host is None else host.memory,
    )
