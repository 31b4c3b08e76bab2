"""Nodes and clusters as their files state them, with their power and storage.

Records have values with their sources and no physics, which is in the layers above.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from clustersim.catalog.fabrics import Dragonfly, FabricShape
from clustersim.catalog.facts import (
    MAX_IN_NODE,
    Bandwidth,
    Bytes,
    Fact,
    Fraction,
    InNode,
    Line,
    Nodes,
    Record,
    Seconds,
    Strict,
    Watts,
    Whole,
)
from clustersim.catalog.libraries import LibraryRecord
from clustersim.catalog.records.accelerators import AcceleratorRecord


class NodePowerFacts(Strict):
    """Electrical power of a node without its devices, in training.

    `host` is that of processors, memory, NICs and switches inside the node, `fans` that of its
    fans, none if missing.  `supply` is the efficiency of its power supplies, 1 if missing.
    """

    host: Fact[Watts]
    fans: Fact[Watts] | None = None
    supply: Fact[Fraction] | None = None


class NetworkPowerFacts(Strict):
    """Electrical power of the fabric: `switches` and transceivers, divided by the nodes."""

    switches: Fact[Watts]


class StorageRate(Strict):
    """One direction of a storage system: the servers with the network between them.

    `bandwidth` is that of all servers together, `efficiency` the share of it that checkpoints
    reach; all of it if missing.
    """

    bandwidth: Fact[Bandwidth]
    efficiency: Fact[Fraction] | None = None

    @property
    def achieved(self) -> float:
        """Rate that checkpoints reach [B/s]."""
        share = 1.0 if self.efficiency is None else self.efficiency
        return self.bandwidth * share


class NodeStorage(Strict):
    """Rates of one node: as a client of the storage system, or of its own drives."""

    write: Fact[Bandwidth]
    read: Fact[Bandwidth]


class LocalStorage(NodeStorage):
    """Drives of a node, which a checkpoint survives as long as the node does."""

    capacity: Fact[Bytes] | None = None


class StorageFacts(Strict):
    """The storage of a cluster: a shared system, drives of the nodes, or both."""

    name: Line = Field(description="name of the shared system, in the answer")
    network: Fact[Literal["fabric", "separate"]]
    write: StorageRate | None = Field(None, description="writing to the shared system")
    read: StorageRate | None = Field(None, description="reading from the shared system")
    client: NodeStorage | None = Field(
        None, description="rate of a node with the shared system; that of its NICs if missing"
    )
    local: LocalStorage | None = Field(None, description="drives of each node")

    @model_validator(mode="after")
    def _stores(self) -> Self:
        if (self.write is None) != (self.read is None):
            missing = "write" if self.write is None else "read"
            raise ValueError(f"{missing}: missing (a shared system is written and read)")
        if self.write is None and self.local is None:
            raise ValueError("has neither a shared system (write, read) nor drives (local)")
        return self


class DeviceSwitch(Strict):
    """Every device of the node is connected to one crossbar (NVSwitch).

    `reduces` is the share of the payload rate that is reached where the crossbar adds up the
    messages that pass it (NVLink SHARP); missing where it cannot.
    """

    type: Literal["switch"]
    bandwidth: Fact[Bandwidth]
    latency: Fact[Seconds]
    efficiency: Fact[Fraction]
    reduces: Fact[Fraction] | None = None


End = Whole | str
"""An end of a link in a node: a device by its number, or a switch or host bridge by name."""


class LinkKind(Strict):
    """Equal links inside a node: ``[end, end]``, or ``[end, end, how many side by side]``.

    `bandwidth` is that of one link in one direction, `efficiency` the share that is payload.
    """

    bandwidth: Fact[Bandwidth]
    latency: Fact[Seconds]
    efficiency: Fact[Fraction]
    between: Fact[Annotated[list[tuple[End, End] | tuple[End, End, InNode]], Field(min_length=1)]]


class DeviceLinks(Strict):
    """Links inside a node, by kind: NVLink or xGMI between devices, PCIe to host bridges."""

    type: Literal["links"]
    kinds: dict[str, LinkKind]

    def pairs(self) -> list[tuple[int | str, int | str]]:
        """Return the two ends of every link."""
        return [(a, b) for kind in self.kinds.values() for a, b, *_ in kind.between]


class OneDevice(Strict):
    """No links inside: the node is a single device."""

    type: Literal["none"]


NetworkType = Literal["infiniband", "roce", "ethernet", "omni-path", "slingshot", "efa", "torus"]
"""The network that NICs belong to; libraries are tuned for it."""


class NicPort(Strict):
    """The NICs of a node: NIC i is connected to ``devices[i]``, a device or a switch, by a bus."""

    network: NetworkType | None = None
    devices: Fact[Annotated[list[End], Field(min_length=1, max_length=MAX_IN_NODE)]]
    bus: Fact[Bandwidth]


class HostFacts(Strict):
    """Host memory, and the link of each device to it, per direction.

    `bandwidth` is that of the memory of the whole node, read and written together. `link` is used
    where the node has no host bridges, ends of links called ``cpu0``, ``cpu1`` and so on.
    `devices` are those of one operating system, where the node has several, as a rack of trays has.
    """

    memory: Fact[Bytes]
    devices: Fact[InNode] | None = None
    bandwidth: Fact[Bandwidth] | None = None
    link: Fact[Bandwidth] | None = None


class NodeRecord(Record):
    """``topologies/nodes/*.yaml``: a machine with devices, links between them and NICs."""

    kind: Literal["node"]
    accelerator: AcceleratorRecord
    devices: Fact[InNode]
    interconnect: DeviceSwitch | DeviceLinks | OneDevice = Field(discriminator="type")
    nics: NicPort
    library: LibraryRecord
    host: HostFacts | None = None
    power: NodePowerFacts | None = None

    @model_validator(mode="after")
    def _ends_exist(self) -> Self:
        count = self.devices
        inside = self.interconnect
        pairs = inside.pairs() if isinstance(inside, DeviceLinks) else []
        known = {*range(count), *(end for pair in pairs for end in pair if isinstance(end, str))}
        ends = {"nics.devices": self.nics.devices, "interconnect": [e for p in pairs for e in p]}
        for key, end in ((key, end) for key, named in ends.items() for end in named):
            if end not in known:
                what = "device" if isinstance(end, int) else "switch"
                raise ValueError(
                    f"{key}: names {what} {end}, but the node has devices 0 to {count - 1}"
                )
        if isinstance(inside, OneDevice) and count > 1:
            raise ValueError("interconnect.type: 'none' joins no devices (allowed: switch, links)")
        if isinstance(inside, DeviceLinks):
            _check_joined(count, pairs)
        return self


def _check_joined(devices: int, pairs: list[tuple[int | str, int | str]]) -> None:
    """Check that links connect every device to the others."""
    neighbours: dict[int | str, set[int | str]] = {}
    for a, b in pairs:
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
    joined: set[int | str] = {0}
    front: set[int | str] = {0}
    while front:
        front = {end for near in front for end in neighbours.get(near, ())} - joined
        joined |= front
    apart = sorted(set(range(devices)) - joined)
    if apart:
        raise ValueError(f"interconnect: no link leads from device 0 to device {apart[0]}")


class NicFacts(Strict):
    """One network interface, per direction; `efficiency` is payload over raw rate."""

    bandwidth: Fact[Bandwidth]
    latency: Fact[Seconds]
    efficiency: Fact[Fraction]


class ClusterRecord(Record):
    """``topologies/clusters/*.yaml``: nodes, their NICs and the fabric between them."""

    kind: Literal["cluster"]
    node: NodeRecord
    size: Fact[Nodes]
    nic: NicFacts
    fabric: FabricShape
    power: NetworkPowerFacts | None = None
    storage: StorageFacts | None = Field(None, description="what checkpoints are saved to")
    reliability: Fact[Line] | None = None

    @model_validator(mode="after")
    def _every_nic_has_a_switch(self) -> Self:
        nics = len(self.node.nics.devices)
        if isinstance(self.fabric, Dragonfly) and self.fabric.switches_per_group % nics:
            raise ValueError(
                f"fabric.switches_per_group: {self.fabric.switches_per_group} is not a"
                f" multiple of the {nics} NICs of a node, which have a switch each"
            )
        return self
