"""Bundles of links: those of a node that differ only in the numbers of their names, as one.

    n0.dev0>n0.nic0, n0.dev1>n0.nic1, ... n0.dev7>n0.nic7      one bundle

Where groups have all devices of a node, the links of a bundle carry the same.  A load on links is
then known by a ninth of the numbers on a machine of nodes of eight devices.
"""

import re

import numpy as np

from clustersim.arrays import Floats, Integers, first_of, numbered, ranges
from clustersim.topology.link_table import Column, LinkTable


class LinkBundles:
    """The bundles of a machine of equal nodes by number; links between switches are one each.

    Bundles have the order of their first links.

    Parameters
    ----------
    links : the links of the machine
    of_node : the bandwidth of each link of a node, equal for all nodes [B/s]
    """

    def __init__(self, links: LinkTable, of_node: Floats) -> None:
        self.links = links
        kinds = [re.sub(r"\d", "", links.hop(link).name) for link in range(links.of_node)]
        facts = [kinds.index(kind) for kind in kinds], of_node.view(np.int64)
        self._of_link = numbered(np.stack(facts, axis=1))
        self._first = first_of(self._of_link)
        self._sizes = np.bincount(self._of_link)
        self._per_node = len(self._first)
        self.of_nodes = links.of_nodes // links.of_node * self._per_node
        nodes = np.tile(of_node[self._first], links.of_nodes // links.of_node)
        self.capacities: Floats = np.concatenate([nodes, links.between_switches()])

    @classmethod
    def among(cls, links: LinkTable) -> "LinkBundles | None":
        """Return the bundles of a machine; None where nodes differ in their links."""
        of_node = links.bandwidths_of_nodes()
        return None if of_node is None else cls(links, of_node)

    def __len__(self) -> int:
        return len(self.capacities)

    def numbers(self, links: Integers) -> Integers:
        """Return the bundle of each link."""
        node, own = np.divmod(links, self.links.of_node)
        inside = node * self._per_node + self._of_link[own]
        return np.where(links < self.links.of_nodes, inside, links + self._shift)

    @property
    def _shift(self) -> int:
        """What a bundle of a link between switches has more than the link."""
        return self.of_nodes - self.links.of_nodes

    def sizes(self, bundles: Integers) -> Integers:
        """Return the number of links of each bundle."""
        return np.where(bundles < self.of_nodes, self._sizes[bundles % self._per_node], 1)

    def first(self, bundles: Integers) -> Integers:
        """Return the first link of each bundle."""
        node, own = np.divmod(bundles, self._per_node)
        inside = node * self.links.of_node + self._first[own]
        return np.where(bundles < self.of_nodes, inside, bundles - self._shift)

    def apart(self, bundles: Integers) -> tuple[Integers, Integers]:
        """Return the links of some bundles, and for each of them the place of its bundle."""
        order = np.argsort(self._of_link, kind="stable")
        begins = np.cumsum(self._sizes) - self._sizes
        sizes, own = self.sizes(bundles), bundles % self._per_node
        place = np.repeat(np.arange(len(bundles)), sizes)
        in_nodes = (bundles < self.of_nodes)[place]
        at = ranges(np.where(bundles < self.of_nodes, begins[own], 0), sizes)
        inside = (bundles // self._per_node * self.links.of_node)[place] + order[at]
        return np.where(in_nodes, inside, (bundles - self._shift)[place]), place

    # --- facts, as those of `LinkTable` -----------------------------------------------------------

    @property
    def names(self) -> Column[str]:
        """The name of the first link of each bundle, made on demand."""
        return Column(len(self), lambda bundle: self.links.names[self._one(bundle)])

    @property
    def kinds(self) -> Column[str]:
        """The kind of the links of each bundle."""
        return Column(len(self), lambda bundle: self.links.kinds[self._one(bundle)])

    def _one(self, bundle: int) -> int:
        return int(self.first(np.array([bundle]))[0])

    def alike(self, bundles: Integers) -> Integers:
        """Return a number for each bundle, equal for the same of different nodes or switches."""
        return self.links.alike(self.first(bundles))
