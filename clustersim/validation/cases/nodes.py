"""The nodes of a cluster file, changed for a measured case: fewer devices, other ports.

cluster file --node_shape--> NodeShape --smaller_node, with_ports--> changes to the file
"""

import math
from functools import lru_cache
from typing import Any

from clustersim import units
from clustersim.catalog import finding
from clustersim.catalog.tree import is_fact
from clustersim.records import dataclass
from clustersim.validation.cases.reasons import Ungradable
from clustersim.validation.cases.settings import Settings
from clustersim.validation.cases.texts import Ports


@dataclass(frozen=True)
class NodeShape:
    """The properties of a node that a case may change.

    Attributes
    ----------
    devices : devices of the node
    linked : whether direct links join them, so that a subset of them is another kind of node
    nics : the device, or the named place on the board, that each NIC is attached to
    bandwidth : of a NIC [B/s]
    """

    devices: int
    linked: bool
    nics: tuple[int | str, ...]
    bandwidth: float


@lru_cache
def node_shape(cluster: str) -> NodeShape:
    """Return the shape of the nodes of a cluster file."""
    whole = finding.find("cluster", cluster).mapping()
    node = _named("node", whole["node"])
    return NodeShape(
        devices=_value(node["devices"]),
        linked=node["interconnect"]["type"] == "links",
        nics=tuple(_value(node["nics"]["devices"])),
        bandwidth=units.parse(_value(whole["nic"]["bandwidth"]), "bandwidth"),
    )


@lru_cache
def usual_precision(cluster: str) -> str:
    """Return the precision in which the devices of a cluster file usually train.

    bf16 where they have a peak rate of it, else fp16.
    """
    node = _named("node", finding.find("cluster", cluster).mapping()["node"])
    return "bf16" if "bf16" in _named("accelerator", node["accelerator"])["peak"] else "fp16"


def _named(kind: str, value: Any) -> dict[str, Any]:
    """Return a part of a machine that its file names or contains."""
    part: dict[str, Any] = {"name": value} if isinstance(value, str) else dict(value)
    if "name" in part and "kind" not in part:
        part = {**finding.find(kind, part["name"]).mapping(), **part}
    return part


def _value(fact: Any) -> Any:
    return fact["value"] if is_fact(fact) else fact


def smaller_node(devices: int, shape: NodeShape, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the changes that reduce a node to its first devices and their NICs.

    A single device needs no links, whatever its node is like.

    Raises
    ------
    Ungradable
        when direct links join the devices and more than one remains.
    """
    single = {"cluster.node.interconnect": {"type": "none"}, "cluster.node.nics.devices": [0]}
    if shape.linked and devices == 1:
        return {"cluster.node.devices": 1, **single}
    if shape.linked:
        detail = f"part of a node of direct links: {devices} of its {shape.devices} devices"
        raise Ungradable.because("part of a node of direct links", detail)
    nics = changes.get("cluster.node.nics.devices", shape.nics)
    return {
        "cluster.node.devices": devices,
        "cluster.node.nics.devices": [nic for nic in nics if nic < devices],
    }


def with_ports(ports: Ports, shape: NodeShape, devices: int) -> dict[str, Any]:
    """Return the changes that give a node of `devices` the stated ports.

    They are spread evenly over the devices; several ports of one device are one port with the sum
    of their rates.  There are no changes where the file has the same ports.
    """
    ends: list[int | str] = [nic for nic in shape.nics if isinstance(nic, str) or nic < devices]
    count = ports.count or len(ends)
    total = ports.total or count * (ports.each or shape.bandwidth)
    if all(isinstance(end, int) for end in ends):
        count = min(count, devices)
        if count != len(ends):
            ends = [end * devices // count for end in range(count)]
    each = total / len(ends)
    changes: dict[str, Any] = {}
    if abs(each / shape.bandwidth - 1) > 1e-9:
        changes["cluster.nic.bandwidth"] = f"{each:.6g} B/s"
    if tuple(ends) != tuple(nic for nic in shape.nics if isinstance(nic, str) or nic < devices):
        changes["cluster.node.nics.devices"] = ends
    return changes


def nodes_of(
    settings: Settings,
    cluster: str,
    changes: dict[str, Any],
    per_node: int | None,
    accelerator: str | None,
) -> tuple[int, dict[str, Any]]:
    """Return the number of nodes of a job, and all changes to the cluster file.

    Parameters
    ----------
    changes : facts of the machine that differ from the file
    per_node : devices of a node that the job uses, if fewer than the file has

    Raises
    ------
    Ungradable
        when the layout has another number of devices, or they do not fill whole nodes.
    """
    shape, changes = node_shape(cluster), dict(changes)
    devices = settings.devices or 0
    degrees = {axis: getattr(settings, axis) or 0 for axis in ("tensor", "pipeline", "data")}
    degrees |= {"context": settings.context} if settings.context > 1 else {}
    if math.prod(degrees.values()) != devices:
        product = " x ".join(f"{axis} {degree}" for axis, degree in degrees.items())
        detail = f"{product} is not the number of devices, {devices}"
        raise Ungradable.because("invalid layout", detail)
    per_node = min(per_node or shape.devices, devices)
    if per_node > shape.devices:
        detail = f"no machine file with {per_node} '{accelerator}' a node"
        raise Ungradable.because("no machine file", detail)
    if per_node < shape.devices:
        changes |= smaller_node(per_node, shape, changes)
    nodes, rest = divmod(devices, per_node)
    if rest:
        detail = f"{devices} devices do not fill whole nodes of {per_node}"
        raise Ungradable.because("devices do not fill whole nodes", detail)
    return nodes, changes
