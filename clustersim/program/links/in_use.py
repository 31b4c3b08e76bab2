"""The links that a step uses, with their load: in arrays, and by name on demand."""

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from clustersim.arrays import Floats, Integers, first_of, ranked
from clustersim.topology.link_bundles import LinkBundles
from clustersim.topology.link_table import Column, LinkTable

AT_ONCE: Final = 1 << 18
"""Links that are compared at the same time, which bounds the memory."""

MOST: Final = 10
"""Busiest links that are reported."""


class LinkUse(NamedTuple):
    """Load of one link of the machine in a step, folded ranks counted in full.

    Attributes
    ----------
    capacity : payload per second in its direction [B/s]
    nbytes : payload and protocol of the step [B]
    """

    name: str
    capacity: float
    nbytes: float


class LinksInUse(Column[LinkUse]):
    """Every link in use, in the order of the link table.

    Parameters
    ----------
    loaded : the links of the machine, or bundles of them; None without a machine
    numbers : of these, ascending
    nbytes : payload and protocol of the step on each link [B]
    """

    def __init__(
        self, loaded: LinkTable | LinkBundles | None, numbers: Integers, nbytes: Floats
    ) -> None:
        count = (
            int(loaded.sizes(numbers).sum()) if isinstance(loaded, LinkBundles) else len(numbers)
        )
        super().__init__(count, self._use)
        self._table, self._loads = loaded, (numbers, nbytes)

    @property
    def _loaded(self) -> LinkTable | LinkBundles:
        assert self._table is not None  # as no link is in use without a machine
        return self._table

    @property
    def _links(self) -> LinkTable:
        loaded = self._loaded
        return loaded.links if isinstance(loaded, LinkBundles) else loaded

    @cached_property
    def _apart(self) -> tuple[Integers, Floats]:
        """The links by number, and the load of each."""
        numbers, nbytes = self._loads
        if not isinstance(self._table, LinkBundles):
            return numbers, nbytes
        links, place = self._table.apart(numbers)
        order = np.argsort(links)
        return links[order], nbytes[place[order]]

    @property
    def numbers(self) -> Integers:
        """The links by number, ascending."""
        return self._apart[0]

    @property
    def nbytes(self) -> Floats:
        """Payload and protocol of the step on each [B]."""
        return self._apart[1]

    def _use(self, index: int) -> LinkUse:
        link = int(self.numbers[index])
        capacity = float(self._links.capacities[link])
        return LinkUse(self._links.names[link], capacity, float(self.nbytes[index]))

    def _use_of(self, number: int, nbytes: float) -> LinkUse:
        loaded = self._loaded
        return LinkUse(loaded.names[number], float(loaded.capacities[number]), nbytes)

    @property
    def busiest(self) -> list[LinkUse]:
        """The links with the longest time for their bytes, the longest first.

        The first link represents others that differ only in the numbers of their names.
        """
        numbers, nbytes = self._loads
        return [self._use_of(int(numbers[at]), float(nbytes[at])) for at in self._busiest]

    @property
    def busiest_numbers(self) -> list[int]:
        """The numbers of the same links, or of their bundles."""
        numbers: list[int] = self._loads[0][self._busiest].tolist()
        return numbers

    @property
    def seconds(self) -> Floats:
        """Time of each link for its bytes at its capacity [s]."""
        return self.nbytes / self._links.capacities[self.numbers]

    @property
    def kinds(self) -> list[Integers]:
        """Positions of links that differ only in the numbers of their names, kind by kind."""
        _, kind = ranked(self._links.alike(self.numbers))
        return [np.flatnonzero(kind == number) for number in range(int(kind.max(initial=-1)) + 1)]

    def of_node(self, node: int) -> list[LinkUse]:
        """Return the links inside a node, and those between it and the network."""
        first = node * self._links.of_node
        begin, end = np.searchsorted(self.numbers, [first, first + self._links.of_node])
        return self[begin:end]

    @cached_property
    def _busiest(self) -> list[int]:
        if not len(self):
            return []
        every = np.arange(len(self._loads[0]))
        parts = (every[at : at + AT_ONCE] for at in range(0, len(every), AT_ONCE))
        first, rank = self._different(np.concatenate([self._different(part)[0] for part in parts]))
        different: dict[tuple[str, int], int] = {}
        for at in np.lexsort((first, -rank)).tolist():
            if len(different) == MOST:
                break
            name = self._loaded.names[int(self._loads[0][first[at]])]
            different.setdefault((kind_of(name), int(rank[at])), int(first[at]))
        return [*different.values()]

    def _different(self, chosen: Integers) -> tuple[Integers, Integers]:
        """Return the first of those alike with equal times, and the ranks of their times."""
        numbers = self._loads[0][chosen]
        seconds = self._loads[1][chosen] / self._loaded.capacities[numbers]
        scale = 10.0 ** (8 - np.floor(np.log10(np.where(seconds > 0, seconds, 1.0))))
        rounded = np.round(seconds * scale) / scale  # to nine digits, beyond which they are equal
        _, rank = ranked(rounded.view(np.int64))  # the bits of positive numbers ascend as they do
        _, alike = ranked(self._loaded.alike(numbers))
        _, number = ranked(alike * (rank.max() + 1) + rank)
        first = first_of(number)
        return chosen[first], rank[first]


_DIGITS = dict.fromkeys(map(ord, "0123456789"))


def kind_of(name: str) -> str:
    """Return a link's name without numbers: ``"n3.dev1>n3.nic0"`` is a ``"n.dev>n.nic"``."""
    return name.translate(_DIGITS)


NO_LINKS: Final = LinksInUse(None, np.zeros(0, dtype=np.int64), np.zeros(0))
