"""A torus or mesh of any dimension: a grid of routers, one for each node, neighbours joined.

    r0.0 - r0.1 - r0.2 -+       an axis is a ring where its ends are joined (here the second),
     |      |      |    |       a line where they are not
    r1.0 - r1.1 - r1.2 -+

A message moves along the axes one after another, each in the shorter direction, the positive one if
both are equal: dimension-order routing (Dally and Seitz 1987, doi:10.1109/TC.1987.1676939).

Nodes are numbered row by row, the last axis fastest.  A virtual torus numbers them by virtual axes:
each is a walk through two axes of the machine, whose neighbours are neighbours in the machine.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import prod

import numpy as np

from clustersim.arrays import Integers
from clustersim.catalog.fabrics import Torus
from clustersim.errors import PlanError
from clustersim.records import dataclass
from clustersim.topology.fabrics.fabric import Fabric
from clustersim.topology.fabrics.grid import (
    Circuit,
    Steps,
    circuit,
    coordinates,
    cut_links,
    number_of,
)
from clustersim.topology.links import Hop, Port, Switch
from clustersim.topology.routes import Walks


@dataclass(frozen=True)
class VirtualAxis:
    """Two axes of the machine, by number, and the walk through them."""

    axes: tuple[int, int]
    walk: Circuit


@dataclass(frozen=True)
class TorusFabric(Fabric):
    """The block of routers of a job.

    Attributes
    ----------
    nic, cable : payload bandwidth and latency of a node's injection, and between routers
    nics : NICs of a node, all on its router
    axes, shape : name and length of each axis
    wraps : whether the ends of each axis are joined; axes of length two have one link, not two
    virtual : the axes of node numbers, if they are not those of the machine
    """

    nic: Hop
    cable: Hop
    nics: int
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    wraps: tuple[bool, ...]
    virtual: tuple[VirtualAxis, ...] = ()

    # --- positions --------------------------------------------------------------------------------

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """The length of each axis of node numbers."""
        return tuple(len(axis.walk.cells) for axis in self.virtual) or self.shape

    @cached_property
    def rings(self) -> tuple[bool, ...]:
        """Whether the ends of each of these axes are neighbours."""
        return tuple(axis.walk.closed for axis in self.virtual) or self.wraps

    @property
    def grid(self) -> tuple[int, ...]:
        """Lengths of the axes by which nodes are numbered."""
        return self.lengths

    def node(self, coordinates: Sequence[int]) -> int:
        """Return the node at a position in the axes of node numbers."""
        return number_of(coordinates, self.lengths)

    def coordinates(self, node: int) -> tuple[int, ...]:
        """Return a node's position in the axes of node numbers."""
        return coordinates(node, self.lengths)

    def position(self, node: int) -> tuple[int, ...]:
        """Return a node's position in the axes of the machine."""
        steps = self.coordinates(node)
        if not self.virtual:
            return steps
        position = [0] * len(self.shape)
        for axis, step in zip(self.virtual, steps, strict=True):
            first, second = axis.axes
            position[first], position[second] = axis.walk.cells[step]
        return tuple(position)

    def _router(self, node: int) -> int:
        return number_of(self.position(node), self.shape) if self.virtual else node

    # --- routes -----------------------------------------------------------------------------------

    def port(self, node: int, nic: int) -> Port:
        """Return the port of a NIC on its node's router."""
        router = self._router(node)
        return Port(self.steps.names[router], f"n{node}.nic{nic}", self.nic, router)

    def switch_numbers(self, nodes: Integers, nics: Integers) -> Integers:
        """Return the router of each node."""
        if not self.virtual:
            return nodes
        different, inverse = np.unique(nodes, return_inverse=True)
        return np.array([self._router(node) for node in different.tolist()])[inverse]

    def between(self, a: Switch, b: Switch, path_number: int = 0) -> list[Hop]:
        """Return the links along each axis in turn from one router to another."""
        assert isinstance(a, int)
        assert isinstance(b, int)
        _, numbers, _ = self.walks(np.array([a]), np.array([b]))
        return [self.steps[number] for number in numbers.tolist()]

    def walks(self, a: Integers, b: Integers) -> Walks:
        """Return the steps along each axis in turn from routers to others."""
        return self.steps.walks(a, b)

    def numbered_links(self, nodes: int) -> Steps:
        """Return the links between neighbours."""
        return self.steps

    @cached_property
    def steps(self) -> Steps:
        """The links between neighbours."""
        return Steps(self.shape, self.wraps, self.axes, self.cable)

    @cached_property
    def _strides(self) -> tuple[int, ...]:
        """The increment of a router's number per step along each axis."""
        return tuple(prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    # --- the whole --------------------------------------------------------------------------------

    def edges(self, nodes: int) -> Iterator[tuple[str, str, Hop]]:
        """Yield every cable of the routers that messages between `nodes` nodes may pass."""
        extents = self._extents(nodes)
        for position in (coordinates(i, extents) for i in range(prod(extents))):
            here = number_of(position, self.shape)
            for axis, stride in enumerate(self._strides):
                at = position[axis]
                if at + 1 < extents[axis]:
                    yield from self._both_directions(here, here + stride, axis)
                elif self.wraps[axis] and at + 1 == self.shape[axis]:
                    yield from self._both_directions(here, here - at * stride, axis)

    def _both_directions(self, a: int, b: int, axis: int) -> Iterator[tuple[str, str, Hop]]:
        names = self.steps.names
        yield names[a], names[b], self.steps.step(a, axis, backwards=False)
        yield names[b], names[a], self.steps.step(b, axis, backwards=True)

    def _extents(self, nodes: int) -> tuple[int, ...]:
        """Return the block of routers around the first `nodes` nodes, and around their routes.

        The first nodes fill the last axes, and the first axes only partly; if a job covers half of
        a ring, messages also take the other direction, through routers of other jobs.
        """
        if nodes == prod(self.shape):
            return self.shape
        extents: list[int] = []
        for stride, length, ring in zip(self._strides, self.shape, self.wraps, strict=True):
            held = length if any(e > 1 for e in extents) else -(-nodes // stride)
            extents.append(length if ring and 2 * (held - 1) >= length else held)
        return tuple(extents)

    def bisection(self, nodes: int) -> float:
        """Return the narrowest cut between two halves of the nodes [B/s].

        The block is cut across an axis, starting with the longest line or the ring of twice its
        length; if half of a slab remains, the slab is cut across the next axis, and so on. No cut
        is narrower: Arjona Aroca and Fernandez Anta 2012, arXiv:1202.6291. NICs are cut in place of
        cables where that is narrower. Nodes that do not fill their block are cut after the first
        half of them.
        """
        half, extents = nodes // 2, self._extents(nodes)
        axes = [
            (length, whole > 2 and ring and length == whole)
            for length, whole, ring in zip(extents, self.shape, self.wraps, strict=True)
        ]
        if prod(extents) == nodes:
            axes.sort(key=lambda axis: (1 + axis[1]) / axis[0])
        slab = prod(length for length, _ in axes[1:])
        bounds = (0, half, half // slab * slab, -(-half // slab) * slab)
        inject = self.nics * self.nic.bandwidth
        return min(
            cut_links(axes, bound) * self.cable.bandwidth + abs(half - bound) * inject
            for bound in bounds
        )

    def diameter(self, nodes: int) -> int:
        """Return the most links between NICs of two nodes: NIC, routers of all axes, NIC."""
        if nodes == 1:
            return 0
        steps, full = 0, False
        for stride, length, ring in zip(self._strides, self.shape, self.wraps, strict=True):
            held = length if full else -(-nodes // stride)
            full = full or held > 1
            steps += min(held - 1, length // 2) if ring else held - 1
        return 2 + steps


def build_torus(shape: Torus, nic: Hop, cable: Hop, nics: int, nodes: int) -> TorusFabric:
    """Return the block of a torus for a job of `nodes` nodes.

    Raises
    ------
    PlanError
        when the requested block has another number of nodes.
    """
    whole = tuple(shape.shape)
    lengths = whole if shape.job is None else tuple(shape.job)
    _check_block(shape, lengths, nodes)
    wraps = tuple(
        length > 2 and ring > 0 and length % ring == 0
        for length, ring in zip(lengths, shape.ring, strict=True)
    )
    pairs = shape.joined if shape.virtual and shape.joined is not None else []
    virtual = tuple(
        VirtualAxis((a, b), circuit((lengths[a], lengths[b]), (wraps[a], wraps[b])))
        for a, b in pairs
    )
    return TorusFabric(nic, cable, nics, tuple(shape.axes), lengths, wraps, virtual)


def _check_block(shape: Torus, lengths: tuple[int, ...], nodes: int) -> None:
    product, size = " x ".join(map(str, lengths)), prod(lengths)
    if shape.job is not None and size != nodes:
        raise PlanError(
            f"cluster.fabric.job: {product} is {size} nodes, but cluster.nodes is {nodes}"
            " (make them equal)"
        )
    if nodes > size:
        raise PlanError(f"cluster.nodes: {nodes}, but the torus {product} has {size} nodes")
    if shape.virtual and nodes != size:
        raise PlanError(
            f"cluster.fabric.virtual: requires a whole block of nodes, but {nodes} are a part of"
            f" {product} (set the lengths of the block in cluster.fabric.job)"
        )
