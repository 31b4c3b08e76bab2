"""Numbers for the links of a machine.

    links of node 0 | links of node 1 | ...    by arithmetic: equal nodes have equal links, in the
                                               order: inside, NICs to switches, switches to NICs
    links between switches of a torus or tree  by arithmetic as well
    links between other switches               in the order of their first use

So the links of many routes are numbered at once, and links are named on demand: a machine of
131,072 devices has a million of them.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Generic, TypeVar, overload

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.bounded_cache import BoundedCache
from clustersim.topology.fabrics.fabric import Fabric
from clustersim.topology.links import Hop

Text = TypeVar("Text")

MOST_HOPS: Final = 1 << 14
"""Links that are kept for the next layouts of a sweep, which name many of the same ones."""

_END = re.compile(r"n(\d+)\.(.+)")


class LinkTable:
    """The links of a machine, by number.

    Parameters
    ----------
    nodes : of the job
    inside : the links inside each node, named by their ends in it: ``".dev0>.nic0"``
    nics : of each node
    shares : by link, the share of its bandwidth that remains; all of it where it is missing
    """

    def __init__(
        self, nodes: int, inside: Sequence[Hop], nics: int, fabric: Fabric,
        shares: Mapping[str, float],
    ) -> None:  # fmt: skip
        self._inside, self._nodes, self._nics, self._fabric = inside, nodes, nics, fabric
        self._shares = shares
        self._numbers_inside = {hop.name: number for number, hop in enumerate(inside)}
        self.of_node = len(inside) + 2 * nics
        self._steps = fabric.numbered_links(nodes)
        self._first_step = nodes * self.of_node
        self._first_named = self._first_step + len(self._steps)
        self._named: list[Hop] = []
        self._numbers: dict[str, int] = {}
        self._capacities: Floats | None = None
        self._hops = BoundedCache(MOST_HOPS, 1)

    # --- numbers ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._first_named + len(self._named)

    @property
    def of_nodes(self) -> int:
        """Links of all nodes, which have the first numbers."""
        return self._first_step

    def up(self, nic: int) -> int:
        """Return the number of the link from a NIC to its switch among those of its node."""
        return len(self._inside) + nic

    def down(self, nic: int) -> int:
        """Return the number of the link from a switch to a NIC among those of the NIC's node."""
        return len(self._inside) + self._nics + nic

    def step(self, number: int) -> int:
        """Return the number of a link that the fabric numbers itself."""
        return self._first_step + number

    def number(self, hop: Hop) -> int:
        """Return the number of any link; one between switches is added on its first use."""
        number = self._numbers.get(hop.name)
        if number is None:
            number = self._numbered(hop.name)
            if number is None:
                number = self._numbers[hop.name] = len(self)
                self._named.append(hop)
        return number

    def _numbered(self, name: str) -> int | None:
        """Return the number of a link of a node or a step; None for one between switches."""
        ends = [_END.fullmatch(end) for end in name.split(">")]
        of_nodes = [(int(end[1]), end[2]) for end in ends if end is not None]
        if len(of_nodes) == 2:
            (node, a), (_, b) = of_nodes
            return node * self.of_node + self._numbers_inside[f".{a}>.{b}"]
        for node, nic in of_nodes:
            port = self.up if ends[0] else self.down
            return node * self.of_node + port(int(nic.removeprefix("nic")))
        step = self._steps.number(name)
        return None if step is None else self.step(step)

    @property
    def in_order_of_use(self) -> bool:
        """Whether some numbers depend on which routes were made before."""
        return bool(self._named)

    # --- facts -----------------------------------------------------------------------------------

    def bandwidths_of_nodes(self) -> Floats | None:
        """Return the payload bandwidth of each link of a node, where all nodes are equal [B/s]."""
        ports = self._fabric.port_bandwidths(self._nodes)
        if self._shares or self.in_order_of_use or (ports != ports[0]).any():
            return None
        inside = np.array([hop.bandwidth for hop in self._inside], dtype=np.float64)
        return np.concatenate([inside, ports[0], ports[0]])

    def between_switches(self) -> Floats:
        """Return the payload bandwidth of each link that the fabric numbers itself [B/s]."""
        return self._steps.bandwidths()

    def bandwidths(self, links: Integers) -> Floats:
        """Return the payload bandwidth of some links, without an array of all [B/s]."""
        of_node = None if self._capacities is not None else self.bandwidths_of_nodes()
        if of_node is None:
            return self.capacities[links]
        between = links - self._first_step + self.of_node
        place = np.where(links < self._first_step, links % self.of_node, between)
        return np.concatenate([of_node, self.between_switches()])[place]

    @property
    def capacities(self) -> Floats:
        """Payload bandwidth of each link [B/s]."""
        known = self._capacities
        if known is None:
            nodes = np.empty((self._nodes, self.of_node))
            nodes[:, : len(self._inside)] = [hop.bandwidth for hop in self._inside]
            ports = self._fabric.port_bandwidths(self._nodes)
            nodes[:, len(self._inside) :] = np.hstack([ports, ports])
            known = np.concatenate([nodes.ravel(), self._steps.bandwidths()])
            for name, share in self._shares.items():
                if (number := self._numbered(name)) is not None:
                    known[number] *= share
        if len(known) < len(self):
            new = self._named[len(known) - self._first_named :]
            wide = [hop.bandwidth * self._shares.get(hop.name, 1.0) for hop in new]
            known = np.concatenate([known, wide])
        self._capacities = known
        return known

    @property
    def names(self) -> "Column[str]":
        """The name of each link, made on demand."""
        return Column(len(self), lambda link: self.hop(link).name)

    @property
    def kinds(self) -> "Column[str]":
        """The kind of each link."""
        return Column(len(self), lambda link: self.hop(link).kind)

    def hop(self, link: int) -> Hop:
        """Return a link."""
        return self._hops.get(link, 1, partial(self._hop, link))

    def _hop(self, link: int) -> Hop:
        if link >= self._first_named:
            return self._named[link - self._first_named]
        if link >= self._first_step:
            return self._steps[link - self._first_step]
        node, number = divmod(link, self.of_node)
        if number < len(self._inside):
            hop = self._inside[number]
            a, b = hop.name.split(">")
            return hop._replace(name=f"n{node}{a}>n{node}{b}")
        downwards, nic = divmod(number - len(self._inside), self._nics)
        port = self._fabric.port(node, nic)
        return port.down if downwards else port.up

    def alike(self, links: Integers) -> Integers:
        """Return a number for each link, equal for the same link of different nodes or switches."""
        first = self._first_step
        of_switch = first + self._steps.alike(links - first)
        others = np.where(links < self._first_named, of_switch, links)
        return np.where(links < first, links % self.of_node, others)

    def examples(self, links: Integers) -> list[int]:
        """Return one of each links of the same kind and capacity, the first each."""
        facts = np.stack([self.alike(links), self.bandwidths(links).view(np.int64)])
        _, first = np.unique(facts, axis=1, return_index=True)
        numbers: list[int] = links[np.sort(first)].tolist()
        return numbers


class Column(Sequence[Text], Generic[Text]):
    """A column of the table, each entry made on demand."""

    def __init__(self, length: int, make: Callable[[int], Text]) -> None:
        self._length, self._make = length, make

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, link: int) -> Text: ...
    @overload
    def __getitem__(self, link: slice) -> list[Text]: ...
    def __getitem__(self, link: int | slice) -> Text | list[Text]:
        if isinstance(link, slice):
            return [self._make(number) for number in range(self._length)[link]]
        return self._make(int(range(self._length)[link]))

    def __iter__(self) -> Iterator[Text]:
        return map(self._make, range(self._length))
