"""The nodes of a cluster file, and how a measured case may change them: fewer devices, other ports.

cluster file --node_shape--> NodeShape --smaller_node, with_ports--> changes to the file
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from clustersim import units
from clustersim.catalog import finding
from clustersim.catalog.tree import is_fact
from clustersim.validation.cases.ports import Ports
from clustersim.validation.cases.reasons import Reason, Ungradable


@dataclass(frozen=True)
class NodeShape:
    """What a case may change about a node.

    Attributes
    ----------
    devices : how many it has
    linked : whether they are joined one by one, so that a part of them is another node
    nics : what each NIC hangs on, a device or a named part of the board
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
    node = whole["node"]
    given: dict[str, Any] = {"name": node} if isinstance(node, str) else dict(node)
    if "name" in given and "kind" not in given:
        given = {**finding.find("node", given["name"]).mapping(), **given}
    return NodeShape(
        devices=_value(given["devices"]),
        linked=given["interconnect"]["type"] == "links",
        nics=tuple(_value(given["nics"]["devices"])),
        bandwidth=units.parse(_value(whole["nic"]["bandwidth"]), "bandwidth"),
    )


def _value(fact: Any) -> Any:
    return fact["value"] if is_fact(fact) else fact


def smaller_node(each: int, shape: NodeShape, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the changes that leave `each` devices of a node, with the NICs that hang on them.

    A device alone has no links to others, whatever its node is like.

    Raises
    ------
    Ungradable
        when devices are joined one by one and more than one is left.
    """
    alone = {"cluster.node.interconnect": {"type": "none"}, "cluster.node.nics.devices": [0]}
    if shape.linked and each == 1:
        return {"cluster.node.devices": 1, **alone}
    if shape.linked:
        told = f"part of a node of direct links: {each} of its {shape.devices} devices"
        raise Ungradable(Reason("part of a node of direct links", told))
    nics = changes.get("cluster.node.nics.devices", shape.nics)
    return {
        "cluster.node.devices": each,
        "cluster.node.nics.devices": [nic for nic in nics if nic < each],
    }


def with_ports(ports: Ports, shape: NodeShape, devices: int) -> dict[str, Any]:
    """Return the changes that give a node of `devices` the ports that a case tells of.

    They are shared out evenly over the devices; several of one device are one port of their sum.
    Nothing is changed where the file has the same.
    """
    places: list[int | str] = [nic for nic in shape.nics if isinstance(nic, str) or nic < devices]
    count = ports.count or len(places)
    total = ports.together or count * (ports.each or shape.bandwidth)
    if all(isinstance(place, int) for place in places):
        count = min(count, devices)
        if count != len(places):
            places = [place * devices // count for place in range(count)]
    each = total / len(places)
    changes: dict[str, Any] = {}
    if abs(each / shape.bandwidth - 1) > 1e-9:
        changes["cluster.nic.bandwidth"] = f"{each:.6g} B/s"
    if tuple(places) != tuple(nic for nic in shape.nics if isinstance(nic, str) or nic < devices):
        changes["cluster.node.nics.devices"] = places
    return changes
