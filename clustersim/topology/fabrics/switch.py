"""All NICs on one ideal switch: only the NICs themselves limit a flow."""

from collections.abc import Iterator
from dataclasses import dataclass

from clustersim.topology.links import Hop


@dataclass(frozen=True)
class SwitchFabric:
    """`nic` carries the payload bandwidth and latency of one NIC."""

    nic: Hop

    def path(self, a: int, nic_a: int, b: int, nic_b: int) -> list[Hop]:
        """Return up and down the one switch."""
        return [
            self.nic._replace(name=f"n{a}.nic{nic_a}>switch"),
            self.nic._replace(name=f"switch>n{b}.nic{nic_b}", latency=0.0),
        ]

    def edges(self, nodes: int) -> Iterator[tuple[str, str, Hop]]:
        """Yield nothing: the NICs' own cables are all there is."""
        return iter(())
