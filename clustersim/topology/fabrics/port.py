"""Where a NIC meets the fabric: one switch, reached by one cable each way."""

from typing import NamedTuple

from clustersim.topology.links import Hop

Switch = int | str | tuple[int, int]
"""What a fabric numbers its switches by."""


class Port(NamedTuple):
    """A NIC's place on its switch.

    Attributes
    ----------
    switch_name, nic_name : ends of the cable
    cable : its payload bandwidth, latency and kind
    switch : the switch's number, to find ways between switches
    """

    switch_name: str
    nic_name: str
    cable: Hop
    switch: Switch

    @property
    def up(self) -> Hop:
        """The link from the NIC to the switch."""
        _, bandwidth, latency, kind = self.cable
        return Hop(f"{self.nic_name}>{self.switch_name}", bandwidth, latency, kind)

    @property
    def down(self) -> Hop:
        """The link from the switch to the NIC."""
        _, bandwidth, latency, kind = self.cable
        return Hop(f"{self.switch_name}>{self.nic_name}", bandwidth, latency, kind)
