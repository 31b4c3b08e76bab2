"""The links of a machine by their names, as routes and answers name them.

n3.dev0>n3.dev1     inside a node
n3.nic0>leaf0       of a NIC
leaf0>spines0       between switches: a cable, or the bundle of cables over which routes spread
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from clustersim.topology.fabrics.fabric import Fabric
from clustersim.topology.links import Hop, Port, Switch
from clustersim.topology.node import Node

_INSIDE: Final = re.compile(r"n(\d+)\.[^>]*>n\1\.")
_OF_NIC: Final = re.compile(r"n\d+\.nic\d+>|.*>n\d+\.nic\d+$")


def node_of(link: str) -> int | None:
    """Return the node that a link is inside of; None for one outside of nodes.

    >>> node_of("n3.dev0>n3.dev1"), node_of("n3.nic0>leaf0")
    (3, None)
    """
    match = _INSIDE.match(link)
    return None if match is None else int(match[1])


def is_of_nic(link: str) -> bool:
    """Return whether a link has a NIC at one end.

    >>> is_of_nic("n3.nic0>leaf0"), is_of_nic("n3.nic0>n3.dev1"), is_of_nic("leaf0>spines0")
    (True, True, False)
    """
    return _OF_NIC.match(link) is not None


def reverse(link: str) -> str:
    """Return the name of a link in the other direction.

    >>> reverse("a>b"), reverse("s0.1>s1.0#2")
    ('b>a', 's1.0>s0.1#2')
    """
    ends, number, count = link.partition("#")
    a, _, b = ends.partition(">")
    return f"{b}>{a}{number}{count}"


def links_like(link: str, node: Node, fabric: Fabric, nodes: int) -> dict[str, Hop]:
    """Return the links of a machine of the kind of a name: of its node, or outside of nodes."""
    number = node_of(link)
    if number is not None:
        links = node_links(node, f"n{number}") if number < nodes else iter(())
    elif is_of_nic(link):
        links = _nic_links(node, fabric, nodes)
    else:
        links = _switch_links(node, fabric, nodes)
    return {hop.name: hop for hop in links}


def node_links(node: Node, name: str) -> Iterator[Hop]:
    """Yield the links between the devices of a node, and to its NICs."""
    for a, b in node.direct:
        yield from node.hops(name, a, b)
    if node.crossbar is not None:
        for device in range(node.devices):
            yield node.to_crossbar(name, device)
            yield node.from_crossbar(name, device)
    for nic in range(len(node.nic_ends)):
        yield from (node.to_bus(name, nic), node.from_bus(name, nic))


def _ports(node: Node, fabric: Fabric, nodes: int) -> Iterator[Port]:
    for number in range(nodes):
        for nic in range(len(node.nic_ends)):
            yield fabric.port(number, nic)


def _nic_links(node: Node, fabric: Fabric, nodes: int) -> Iterator[Hop]:
    for port in _ports(node, fabric, nodes):
        yield from (port.up, port.down)


def _switch_links(node: Node, fabric: Fabric, nodes: int) -> Iterator[Hop]:
    """Yield the links between switches: all cables where routes cross these, else the bundles."""
    switches = dict.fromkeys(port.switch for port in _ports(node, fabric, nodes))
    cables = {hop.name: hop for _, _, hop in fabric.edges(nodes)}
    routed = dict[str, Hop]()
    for a, b in _pairs([*switches]):
        for hop in (*fabric.between(a, b), *fabric.between(b, a)):
            if hop.name in cables:
                yield from cables.values()
                return
            routed[hop.name] = hop
    yield from routed.values()


def _pairs(switches: list[Switch]) -> Iterator[tuple[Switch, Switch]]:
    """Yield every switch with the next one, and with the first one."""
    yield from pairwise(switches)
    yield from ((switches[0], switch) for switch in switches[1:])
