"""Devices on a crossbar: a bar that all of them hang on, on both sides when there are many."""

from typing import Final, NamedTuple

from clustersim.catalog.records import DeviceSwitch, NicFacts, NodeRecord
from clustersim.render.diagram import DEVICE, NIC, SWITCH, Box, Note, Sketch, Wire, gigabytes
from clustersim.render.layouts.inside import BUS
from clustersim.topology.node import name_of

WIDEST: Final = 12.6
"""Paper for all devices of one side [in]."""

ROOM: Final = 1.0
"""A column at most [in]; below three quarters of it names are cut to numbers."""

DEVICES, NICS = 1.0, 2.0
"""How far devices and NICs stand from the bar [in]."""


class Column(NamedTuple):
    """The place of a device: its middle, up (1) or down (-1), and the room it has [in]."""

    x: float
    way: int
    pitch: float

    @property
    def roomy(self) -> bool:
        """Whether there is room for words and rates."""
        return self.pitch >= 0.75 * ROOM


def crossbar(record: NodeRecord, nic: NicFacts | None) -> Sketch:
    """Return the node with its crossbar across the middle."""
    assert isinstance(record.interconnect, DeviceSwitch)
    count, rate = record.devices.value, gigabytes(record.interconnect.bandwidth.value)
    sides = 1 if count <= 8 else 2
    columns = -(-count // sides)
    pitch = min(ROOM, WIDEST / columns)
    text = f"crossbar: each of {count} devices {rate} GB/s in, {rate} GB/s out"
    sketch = Sketch()
    for device in range(count):
        side, number = divmod(device, columns)
        _hang(record, device, Column((number + 0.5) * pitch, (-1, 1)[side], pitch), sketch)
    sketch.boxes.append(Box(columns * pitch / 2, 0, columns * pitch, 0.34, text, SWITCH, 9))
    nics = "NICs" if nic is None else f"NICs of\n{gigabytes(nic.bandwidth.value)} GB/s"
    for way in (-1, 1)[:sides]:
        sketch.notes += [
            Note(-0.12, way * DEVICES, "devices", 8, "right", True),
            Note(-0.12, way * NICS, nics, 8, "right", True),
        ]
    return sketch


def _hang(record: NodeRecord, device: int, column: Column, sketch: Sketch) -> None:
    """Hang a device on the bar, and its NICs on the device."""
    assert isinstance(record.interconnect, DeviceSwitch)
    x, way, pitch = column
    size = 8.0 if pitch > 0.4 else 6.5
    rate, y = record.interconnect.bandwidth.value, way * DEVICES
    name = f"device {device}" if column.roomy else f"{device}"
    sketch.wires.append(Wire(((x, 0), (x, y)), "crossbar", rate, ends=(f"dev{device}", "switch")))
    sketch.boxes.append(Box(x, y, 0.86 * pitch, 0.34, name, DEVICE, size))
    if column.roomy:
        sketch.notes.append(Note(x, way * DEVICES / 2, gigabytes(rate), 7))
    mine = [i for i, end in enumerate(record.nics.devices.value) if end == device]
    for place, number in enumerate(mine):
        across = x + ((place + 0.5) / len(mine) - 0.5) * 0.9 * pitch
        _hang_nic(record, number, column._replace(x=across, pitch=pitch / len(mine)), sketch)


def _hang_nic(record: NodeRecord, number: int, column: Column, sketch: Sketch) -> None:
    x, way, pitch = column
    bus, size = record.nics.bus.value, 7.5 if pitch > 0.4 else 6.5
    name = f"NIC {number}" if column.roomy else f"{number}"
    ends = name_of(record.nics.devices.value[number]), f"nic{number}"
    sketch.wires.append(Wire(((x, way * DEVICES), (x, way * NICS)), BUS, bus, ends=ends))
    sketch.boxes.append(Box(x, way * NICS, 0.8 * pitch, 0.3, name, NIC, size))
    if column.roomy:
        sketch.notes.append(Note(x, way * (DEVICES + NICS) / 2, gigabytes(bus), 7))


__all__ = ["crossbar"]
