"""The links that a step uses, with their load: in arrays, and by name on demand."""

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from clustersim.arrays import Floats, Integers, first_of, ranked
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
    links : the links of the machine; None without a machine
    numbers : of the links, ascending
    nbytes : payload and protocol of the step on each [B]
    """

    def __init__(self, links: LinkTable | None, numbers: Integers, nbytes: Floats) -> None:
        super().__init__(len(numbers), self._use)
        self._table, self.numbers, self.nbytes = links, numbers, nbytes

    @property
    def _links(self) -> LinkTable:
        assert self._table is not None  # as no link is in use without a machine
        return self._table

    def _use(self, index: int) -> LinkUse:
        link = int(self.numbers[index])
        capacity = float(self._links.capacities[link])
        return LinkUse(self._links.names[link], capacity, float(self.nbytes[index]))

    @property
    def busiest(self) -> list[LinkUse]:
        """The links with the longest time for their bytes, the longest first.

        The first link represents others that differ only in the numbers of their names.
        """
        return [self[index] for index in self._busiest]

    @property
    def busiest_numbers(self) -> list[int]:
        """The numbers of the same links in the link table."""
        numbers: list[int] = self.numbers[self._busiest].tolist()
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
        every = np.arange(len(self))
        parts = (every[at : at + AT_ONCE] for at in range(0, len(self), AT_ONCE))
        first, rank = self._different(np.concatenate([self._different(part)[0] for part in parts]))
        different: dict[tuple[str, int], int] = {}
        for at in np.lexsort((first, -rank)).tolist():
            if len(different) == MOST:
                break
            name = self._links.names[int(self.numbers[first[at]])]
            different.setdefault((kind_of(name), int(rank[at])), int(first[at]))
        return [*different.values()]

    def _different(self, chosen: Integers) -> tuple[Integers, Integers]:
        """Return the first of those alike with equal times, and the ranks of their times."""
        numbers = self.numbers[chosen]
        seconds = self.nbytes[chosen] / self._links.capacities[numbers]
        scale = 10.0 ** (8 - np.floor(np.log10(np.where(seconds > 0, seconds, 1.0))))
        rounded = np.round(seconds * scale) / scale  # to nine digits, beyond which they are equal
        _, rank = ranked(rounded.view(np.int64))  # the bits of positive numbers ascend as they do
        _, alike = ranked(self._links.alike(numbers))
        _, number = ranked(alike * (rank.max() + 1) + rank)
        first = first_of(number)
        return chosen[first], rank[first]


_DIGITS = dict.fromkeys(map(ord, "0123456789"))


def kind_of(name: str) -> str:
    """Return a link's name without numbers: ``"n3.dev1>n3.nic0"`` is a ``"n.dev>n.nic"``."""
    return name.translate(_DIGITS)


NO_LINKS: Final = LinksInUse(None, np.zeros(0, dtype=np.int64), np.zeros(0))
