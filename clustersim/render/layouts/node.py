"""Layout of one node: its devices, the links between them, and their NICs.

A crossbar is a bar with all devices on it.  Devices joined only to each other are on a circle, the
widest links on the rim.  Switches and host bridges are in rows above their devices (`node_links`).
"""

from typing import Final, NamedTuple

from clustersim.catalog.records.machines import DeviceLinks, DeviceSwitch, NicFacts, NodeRecord
from clustersim.render.diagram import (
    DEVICE,
    NIC,
    SWITCH,
    Box,
    Diagram,
    Note,
    Sketch,
    Wire,
    gigabytes,
)
from clustersim.render.layouts.node_links import (
    BUS,
    device_row,
    inner_links,
    legend,
    mesh,
    named_ends,
)
from clustersim.topology.node import end_name


def node(record: NodeRecord, nic: NicFacts | None = None) -> Diagram:
    """Return the picture of a node; `nic` is the cluster's record of its NICs."""
    return _sketched(record, nic).diagram(
        title=f"{record.name}: {_finding(record, nic)}",
        caption="raw rates in GB/s, each way; lines grow with the root of their bandwidth"
        + _host(record),
        kinds=dict(legend(record)),
    )


def _sketched(record: NodeRecord, nic: NicFacts | None) -> Sketch:
    if isinstance(record.interconnect, DeviceSwitch):
        return crossbar(record, record.interconnect, nic)
    if record.devices > 2 and not named_ends(record):
        return mesh(record, nic)
    return device_row(record, nic)


def _host(record: NodeRecord) -> str:
    host = record.host
    if host is None:
        return ""
    text = f"; host memory {gigabytes(host.memory)} GB"
    if host.link is not None:
        text += f", {gigabytes(host.link)} GB/s to each device"
    return text


def _finding(record: NodeRecord, nic: NicFacts | None) -> str:
    """Return the raw bandwidth of a device inside its node, and that out of it."""
    count = record.devices
    bus = record.nics.bus
    outside = bus if nic is None else min(bus, nic.bandwidth)
    share = gigabytes(outside * len(record.nics.devices) / count)
    if count == 1:
        return f"one device with {share} GB/s out of its node"
    sums = [_inside(record, device) for device in range(count)]
    least, most = gigabytes(min(sums)), gigabytes(max(sums))
    span = least if least == most else f"{least} to {most}"
    out = "to NICs" if nic is None else "out of it"
    return f"a device has {span} GB/s inside its node and {share} GB/s {out}"


def _inside(record: NodeRecord, device: int) -> float:
    """Return the raw sum of a device's links inside its node [B/s]."""
    if isinstance(record.interconnect, DeviceLinks):
        links = inner_links(record)
        return sum(link.bandwidth for link in links if device in (link.a, link.b))
    assert isinstance(record.interconnect, DeviceSwitch)
    return record.interconnect.bandwidth


WIDEST: Final = 12.6
"""Width of all devices of one side [in]."""

ROOM: Final = 1.0
"""Largest width of a column [in]; below three quarters of it names are cut to numbers."""

DEVICES, NICS = 1.0, 2.0
"""Distances of devices and NICs from the bar [in]."""


class Column(NamedTuple):
    """The place of a device: its middle, up (1) or down (-1), and its width [in]."""

    x: float
    way: int
    pitch: float

    @property
    def roomy(self) -> bool:
        """Whether there is room for words and rates."""
        return self.pitch >= 0.75 * ROOM


def crossbar(record: NodeRecord, inside: DeviceSwitch, nic: NicFacts | None) -> Sketch:
    """Return the node with its crossbar across the middle."""
    count, rate = record.devices, gigabytes(inside.bandwidth)
    sides = 1 if count <= 8 else 2
    columns = -(-count // sides)
    pitch = min(ROOM, WIDEST / columns)
    text = f"crossbar: each of {count} devices {rate} GB/s in, {rate} GB/s out"
    sketch = Sketch()
    for device in range(count):
        side, number = divmod(device, columns)
        column = Column((number + 0.5) * pitch, (-1, 1)[side], pitch)
        _place_device(record, device, inside.bandwidth, column, sketch)
    sketch.boxes.append(Box(columns * pitch / 2, 0, columns * pitch, 0.34, text, SWITCH, 9))
    nics = "NICs" if nic is None else f"NICs of\n{gigabytes(nic.bandwidth)} GB/s"
    for way in (-1, 1)[:sides]:
        sketch.notes += [
            Note(-0.12, way * DEVICES, "devices", 8, "right", True),
            Note(-0.12, way * NICS, nics, 8, "right", True),
        ]
    return sketch


def _place_device(
    record: NodeRecord, device: int, rate: float, column: Column, sketch: Sketch
) -> None:
    """Place a device at the bar, and its NICs at the device."""
    x, way, pitch = column
    size = 8.0 if pitch > 0.4 else 6.5
    y = way * DEVICES
    name = f"device {device}" if column.roomy else f"{device}"
    sketch.wires.append(Wire(((x, 0), (x, y)), "crossbar", rate, ends=(f"dev{device}", "switch")))
    sketch.boxes.append(Box(x, y, 0.86 * pitch, 0.34, name, DEVICE, size))
    if column.roomy:
        sketch.notes.append(Note(x, way * DEVICES / 2, gigabytes(rate), 7))
    own = [i for i, end in enumerate(record.nics.devices) if end == device]
    for place, number in enumerate(own):
        across = x + ((place + 0.5) / len(own) - 0.5) * 0.9 * pitch
        _place_nic(record, number, column._replace(x=across, pitch=pitch / len(own)), sketch)


def _place_nic(record: NodeRecord, number: int, column: Column, sketch: Sketch) -> None:
    x, way, pitch = column
    bus, size = record.nics.bus, 7.5 if pitch > 0.4 else 6.5
    name = f"NIC {number}" if column.roomy else f"{number}"
    ends = end_name(record.nics.devices[number]), f"nic{number}"
    sketch.wires.append(Wire(((x, way * DEVICES), (x, way * NICS)), BUS, bus, ends=ends))
    sketch.boxes.append(Box(x, way * NICS, 0.8 * pitch, 0.3, name, NIC, size))
    if column.roomy:
        sketch.notes.append(Note(x, way * (DEVICES + NICS) / 2, gigabytes(bus), 7))
