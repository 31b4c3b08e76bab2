"""Directed links, and the table that gives each one that is used a number.

A machine of a hundred thousand devices has millions of links; only those that some flow crosses
get a row here.  A link's capacity is its raw bandwidth times the share that carries payload.
"""

from typing import NamedTuple


class Hop(NamedTuple):
    """One directed link of a route.

    Attributes
    ----------
    name : its ends, ``"n3.gcd1>n3.nic0"``; a bundle of equal links names what it joins
    bandwidth : payload per second in this direction [B/s]
    latency : time for the first byte to pass [s]
    kind : what sort of link it is: ``"xgmi"``, ``"nic"``, ``"leaf-spine"``
    """

    name: str
    bandwidth: float
    latency: float
    kind: str = ""


class Route(NamedTuple):
    """How a message gets from one device to another.

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
    """Numbers for the links that are in use, in the order of their first use."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.capacities: list[float] = []
        self.kinds: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, hop: Hop) -> int:
        """Return the row of a link, made on first sight."""
        number = self._numbers.get(hop.name)
        if number is None:
            number = self._numbers[hop.name] = len(self.names)
            self.names.append(hop.name)
            self.capacities.append(hop.bandwidth)
            self.kinds.append(hop.kind)
        return number

    def __len__(self) -> int:
        return len(self.names)
