"""Directed links, the table that numbers those in use, and the ports of NICs on the fabric.

A machine of 100,000 devices has millions of links; only those that some flow crosses get a row in
the table.  The capacity of a link is its raw bandwidth times the share that carries payload.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Hop(NamedTuple):
    """One directed link of a route.

    Attributes
    ----------
    name : its ends, ``"n3.gcd1>n3.nic0"``; a bundle of equal links names what it joins
    bandwidth : payload per second in this direction [B/s]
    latency : time for the first byte to pass [s]
    kind : type of the link: ``"xgmi"``, ``"nic"``, ``"leaf-spine"``
    """

    name: str
    bandwidth: float
    latency: float
    kind: str = ""


class Route(NamedTuple):
    """The route of a message from one device to another.

    Attributes
    ----------
    links : rows of the link table, in order
    latency : sum over the links [s]
    network : whether it leaves its node
    """

    links: tuple[int, ...]
    latency: float
    network: bool


class LinkTable:
    """Numbers for the links that are in use, in the order of their first use.

    Parameters
    ----------
    shares : by link, the share of its bandwidth that remains; all of it where it is missing
    """

    def __init__(self, shares: Mapping[str, float] | None = None) -> None:
        self._shares = shares or {}
        self.names: list[str] = []
        self.capacities: list[float] = []
        self.kinds: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, hop: Hop) -> int:
        """Return the row of a link, added on its first use."""
        number = self._numbers.get(hop.name)
        if number is None:
            number = self._numbers[hop.name] = len(self.names)
            self.names.append(hop.name)
            self.capacities.append(hop.bandwidth * self._shares.get(hop.name, 1.0))
            self.kinds.append(hop.kind)
        return number

    def __len__(self) -> int:
        return len(self.names)


Switch = int | str | tuple[int, int]
"""The identifier of a switch in its fabric."""


class Port(NamedTuple):
    """The attachment of a NIC to its switch.

    Attributes
    ----------
    switch_name, nic_name : ends of the cable
    cable : its payload bandwidth, latency and kind
    switch : the switch's identifier, for routes between switches
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


_MASK = 2**64 - 1
_STEP = 0x9E3779B97F4A7C15


def choose(path_count: int, seed: int, a: int, b: int) -> int:
    """Return the path, from 0 to `path_count` - 1, of the flow from device `a` to device `b`.

    A switch with hashed routing (ECMP) keeps all packets of a flow on one path, so that they stay
    in order, and two flows may share one cable while another is idle. The hash is the finaliser of
    SplitMix64: Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195.

    >>> choose(4, seed=0, a=0, b=8) == choose(4, seed=0, a=0, b=8)
    True
    """
    return _mixed(_mixed(_mixed(seed & _MASK) + a) + b) % path_count


def _mixed(value: int) -> int:
    value = (value + _STEP) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
