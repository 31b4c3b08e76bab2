"""All NICs on one ideal switch: only the NICs themselves limit a flow."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.topology.link_table import NoLinks
from clustersim.topology.links import Hop, Port, Switch


@dataclass(frozen=True)
class SwitchFabric:
    """`nic` carries the payload bandwidth and latency of one NIC; a node has `nics` of them."""

    nic: Hop
    nics: int
    seed: int = 0
    reduces: bool = False

    def port(self, node: int, nic: int) -> Port:
        """Return the port of a NIC on the switch."""
        return Port("switch", f"n{node}.nic{nic}", self.nic, 0)

    def port_bandwidths(self, nodes: int) -> Floats:
        """Return the payload bandwidth of the cable of each NIC, all equal [B/s]."""
        return np.full((nodes, self.nics), self.nic.bandwidth)

    def switch_numbers(self, nodes: Integers, nics: Integers) -> Integers:
        """Return a number for the switch of each NIC."""
        return np.zeros_like(nodes)

    def numbered_links(self, nodes: int) -> NoLinks:
        """Return no links: those between switches are named by `between`."""
        return NoLinks()

    def walks(self, a: Integers, b: Integers) -> None:
        """Return None: `between` gives the links."""

    def switch_of(self, number: int) -> Switch:
        """Return the switch of a number."""
        return number

    @property
    def several_paths(self) -> bool:
        """Whether there are several equal paths between any two switches."""
        return False

    def path_count(self, a: Switch, b: Switch) -> int:
        """Return one: there is a single path."""
        return 1

    def between(self, a: Switch, b: Switch, path_number: int = 0) -> list[Hop]:
        """Return no links: all ports are on one switch."""
        return []

    def edges(self, nodes: int) -> Iterator[tuple[str, str, Hop]]:
        """Yield no cables: there are only those of the NICs."""
        return iter(())

    def bisection(self, nodes: int) -> float:
        """Return the bandwidth of the NICs of the smaller half of `nodes` nodes [B/s]."""
        return nodes // 2 * self.nics * self.nic.bandwidth

    def diameter(self, nodes: int) -> int:
        """Return the most links between two NICs: up to the switch and down."""
        return 2 if nodes > 1 else 0

    def oversubscription(self, nodes: int) -> dict[str, float]:
        """Return nothing: an ideal switch has one level."""
        return {}
