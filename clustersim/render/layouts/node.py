"""One node: its devices, what joins them, and their NICs.

a crossbar is a bar that all devices hang on
devices joined only to each other stand around a circle, the widest links on the rim
switches and host bridges stand in rows above the devices they lead to
"""

from clustersim.catalog.records import DeviceLinks, DeviceSwitch, NicFacts, NodeRecord
from clustersim.render.diagram import Diagram, Sketch, gigabytes
from clustersim.render.layouts.crossbar import crossbar
from clustersim.render.layouts.inside import inner_links, legend, named_ends
from clustersim.render.layouts.mesh import mesh
from clustersim.render.layouts.rows import rows


def node(record: NodeRecord, nic: NicFacts | None = None) -> Diagram:
    """Return the picture of a node; `nic` is what a cluster says of its NICs."""
    return _sketched(record, nic).diagram(
        title=f"{record.name}: {_finding(record, nic)}",
        caption="raw rates in GB/s, each way; lines grow with the root of their bandwidth"
        + _host(record),
        kinds=legend(record),
    )


def _sketched(record: NodeRecord, nic: NicFacts | None) -> Sketch:
    if isinstance(record.interconnect, DeviceSwitch):
        return crossbar(record, nic)
    if record.devices.value > 2 and not named_ends(record):
        return mesh(record, nic)
    return rows(record, nic)


def _host(record: NodeRecord) -> str:
    host = record.host
    if host is None:
        return ""
    told = f"; host memory {gigabytes(host.memory.value)} GB"
    if host.link is not None:
        told += f", {gigabytes(host.link.value)} GB/s to each device"
    return told


def _finding(record: NodeRecord, nic: NicFacts | None) -> str:
    """Return inside against outside, for a device, in raw rates."""
    count = record.devices.value
    bus = record.nics.bus.value
    outside = bus if nic is None else min(bus, nic.bandwidth.value)
    share = gigabytes(outside * len(record.nics.devices.value) / count)
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
    return record.interconnect.bandwidth.value


__all__ = ["node"]
