"""All NICs on one ideal switch: only the NICs themselves limit a flow."""

from collections.abc import Iterator
from dataclasses import dataclass

from clustersim.topology.fabrics.port import Port, Switch
from clustersim.topology.links import Hop


@dataclass(frozen=True)
class SwitchFabric:
    """`nic` carries the payload bandwidth and latency of one NIC."""

    nic: Hop

    def port(self, node: int, nic: int) -> Port:
        """Return the place of a NIC on the one switch."""
        return Port("switch", f"n{node}.nic{nic}", self.nic, 0)

    def between(self, a: Switch, b: Switch) -> list[Hop]:
        """Return nothing: all ports are on one switch."""
        return []

    def edges(self, nodes: int) -> Iterator[tuple[str, str, Hop]]:
        """Yield nothing: the NICs' own cables are all there is."""
        return iter(())
