"""Directed links, routes over them, and the ports of NICs on the fabric.

The capacity of a link is its raw bandwidth times the share that carries payload.
"""

from typing import NamedTuple

import numpy as np

from clustersim.arrays import Integers, mixed


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
    shares : for each of `links`, the share of the message that crosses it
    """

    links: tuple[int, ...]
    latency: float
    network: bool
    shares: tuple[float, ...]


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
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def _mixed(value: int) -> int:
    value = (value + _STEP) & _MASK
    value = ((value ^ (value >> 30)) * _FIRST) & _MASK
    value = ((value ^ (value >> 27)) * _SECOND) & _MASK
    return value ^ (value >> 31)


def choose_each(
    path_counts: Integers, seed: int, a: Integers, b: Integers, queue_pair: Integers
) -> Integers:
    """Return the path, below its `path_counts`, of a queue pair of each flow from `a` to `b`.

    A switch with hashed routing (ECMP) keeps all packets of a queue pair on one path, so that they
    stay in order, and two flows may share one cable while another is idle. The hash is the
    finaliser of SplitMix64: Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195.

    >>> one, a, b = np.array([4]), np.array([3]), np.array([8])
    >>> [choose_each(one, 7, a, b, np.array([pair])).tolist() for pair in range(4)]
    [[1], [3], [1], [1]]
    """
    start = np.uint64(_mixed(seed & _MASK))
    hashed = mixed(mixed(start + a.astype(np.uint64)) + b.astype(np.uint64))
    further = mixed(hashed + queue_pair.astype(np.uint64))
    hashed = np.where(queue_pair > 0, further, hashed)
    return (hashed % path_counts.astype(np.uint64)).astype(np.int64)
