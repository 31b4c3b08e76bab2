"""The interface of every fabric, and the simplest one: all NICs on an ideal switch.

A fabric names the links between two switches by `between`.  A regular one with very many also
numbers them by arithmetic (`numbered_links`, `walks`), so that none is looked up by its name.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.records import dataclass
from clustersim.topology.links import Hop, Port, Switch
from clustersim.topology.routes import Walks


class NumberedLinks:
    """The links between switches that a fabric numbers itself: none, where it names each."""

    def bandwidths(self) -> Floats:
        """Return the payload bandwidth of each link [B/s]."""
        return np.zeros(0)

    def alike(self, numbers: Integers) -> Integers:
        """Return a number for each link, equal for links at the same place of other switches."""
        return numbers

    def number(self, name: str) -> int | None:
        """Return the number of a link by its name; None for another link."""
        return None

    def __len__(self) -> int:
        return 0

    def __getitem__(self, number: int, /) -> Hop:
        raise IndexError(number)


class Fabric(ABC):
    """The switches and cables between nodes.

    Attributes
    ----------
    nic : payload bandwidth and latency of a NIC's cable, where all are equal
    nics : NICs of a node
    routing : how flows choose among equal paths, where there are several: a key of
        `topology.paths.PATHS`
    queue_pairs : parts of a flow that are hashed on their own
    """

    nic: Hop
    nics: int
    routing: str = "hashed"
    queue_pairs: int = 1

    @property
    def seed(self) -> int:
        """Seed of the hash that chooses between equal paths, in addition to a flow's two ends."""
        return 0

    @property
    def reduces(self) -> bool:
        """Whether the switches reduce in the network."""
        return False

    @abstractmethod
    def port(self, node: int, nic: int) -> Port:
        """Return the port of a NIC of a node."""

    def port_bandwidths(self, nodes: int) -> Floats:
        """Return the payload bandwidth of the cable of each NIC, by node and NIC [B/s]."""
        return np.full((nodes, self.nics), self.nic.bandwidth)

    @abstractmethod
    def switch_numbers(self, nodes: Integers, nics: Integers) -> Integers:
        """Return a number for the switch of each of several NICs, equal for the same switch."""

    def switch_of(self, number: int) -> Switch:
        """Return the switch of a number."""
        return number

    def places(self, nodes: Integers, nics: Integers) -> Integers:
        """Return a number for each of several NICs, by which static routing chooses a path."""
        return nodes * self.nics + nics

    @property
    def several_paths(self) -> bool:
        """Whether there are several equal paths between any two switches."""
        return False

    @property
    def most_paths(self) -> int:
        """The most equal paths between two switches."""
        return 1

    def path_count(self, a: Switch, b: Switch) -> int:
        """Return the number of equal paths between two switches, of which `routing` chooses."""
        return 1

    @abstractmethod
    def between(self, a: Switch, b: Switch, path_number: int = 0) -> list[Hop]:
        """Return the links from one switch to another on one of these paths."""

    def numbered_links(self, nodes: int) -> NumberedLinks:
        """Return the links between switches that the fabric of a job of some nodes numbers."""
        return NumberedLinks()

    def walks(self, a: Integers, b: Integers) -> Walks | None:
        """Return the routes between several pairs of switches, or None.

        None where the fabric numbers no links itself: `between` then gives the links of each pair.
        """
        return None

    @property
    def units(self) -> Mapping[str, int]:
        """Nodes below the switches of each level, by its name, the smallest first.

        Nodes of a unit follow each other: node n is in unit n // nodes.
        """
        return {}

    @property
    def rails_apart(self) -> bool:
        """Whether no cable joins NICs of different numbers, so that nodes forward between rails."""
        return False

    @property
    def alike(self) -> bool:
        """Whether nodes below a switch are alike, and switches below one of the next level.

        Nodes that are exchanged then change no time, as no path depends on their numbers.
        """
        return False

    @property
    def grid(self) -> tuple[int, ...]:
        """Lengths of the axes by which nodes are numbered, the last one fastest; none elsewhere."""
        return ()

    @abstractmethod
    def edges(self, nodes: int) -> Iterator[tuple[str, str, Hop]]:
        """Yield every directed cable of a fabric of that many nodes."""

    def links_of(self, a: str, b: str, cable: Hop) -> list[Hop]:
        """Return the links that routes cross which have a cable between two switches."""
        return [cable]

    @abstractmethod
    def bisection(self, nodes: int) -> float:
        """Return the narrowest cut between two halves of the nodes, per direction [B/s].

        It counts payload, and is at most the bandwidth of the NICs of one half.
        """

    @abstractmethod
    def diameter(self, nodes: int) -> int:
        """Return the most links between NICs of two different nodes, their own cables included."""

    def oversubscription(self, nodes: int) -> dict[str, float]:
        """Return injection from below over bandwidth upwards, by level [unitless].

        1 where all injected traffic can pass, 7 where a seventh can. Levels that contain all of the
        `nodes` nodes are omitted; an ideal switch and a torus have none.
        """
        return {}


@dataclass(frozen=True)
class SwitchFabric(Fabric):
    """All NICs on one ideal switch: only the NICs themselves limit a flow."""

    nic: Hop
    nics: int
    reduces: bool = False

    def port(self, node: int, nic: int) -> Port:
        """Return the port of a NIC on the switch."""
        return Port("switch", f"n{node}.nic{nic}", self.nic, 0)

    def switch_numbers(self, nodes: Integers, nics: Integers) -> Integers:
        """Return a number for the switch of each NIC."""
        return np.zeros_like(nodes)

    def between(self, a: Switch, b: Switch, path_number: int = 0) -> list[Hop]:
        """Return no links: all ports are on one switch."""
        return []

    @property
    def alike(self) -> bool:
        """True: there is one switch."""
        return True

    def edges(self, nodes: int) -> Iterator[tuple[str, str, Hop]]:
        """Yield no cables: there are only those of the NICs."""
        return iter(())

    def bisection(self, nodes: int) -> float:
        """Return the bandwidth of the NICs of the smaller half of `nodes` nodes [B/s]."""
        return nodes // 2 * self.nics * self.nic.bandwidth

    def diameter(self, nodes: int) -> int:
        """Return the most links between two NICs: up to the switch and down."""
        return 2 if nodes > 1 else 0
