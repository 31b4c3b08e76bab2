"""What each member of a group sends to which other, by algorithm, as arrays.

    algorithm --edges of one example group--> messages by member --groups in equivalent places-->
    messages of thousands of groups --routes--> bytes on each link

Groups are in equivalent places when their members are distributed over nodes in the same way: the
same places in the nodes, on the same of the group's nodes; on a torus, in a box of the same size.
An algorithm then sends the same from member to member, so that its rings and trees are computed
for one example of them.  The routes of the messages are those of each group.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from clustersim.arrays import Booleans, Floats, Integers, first_of, numbered
from clustersim.cost.closed_form import GroupSpan
from clustersim.program.collectives.algorithm import CROSSBAR, Algorithm, Edge, by_node
from clustersim.program.collectives.torus import box
from clustersim.topology.cluster import Cluster
from clustersim.topology.fabrics.torus import TorusFabric


class Messages(NamedTuple):
    """Messages that are sent at the same time, by the members of a group.

    Attributes
    ----------
    source, target : members, or `CROSSBAR` for the crossbar of the other's node
    share : bytes for each byte of the buffer
    relayed : whether they enter the network on the receiver's rail, where the library relays
    """

    source: Integers
    target: Integers
    share: Floats
    relayed: bool = False

    @property
    def key(self) -> bytes:
        """A key that is equal for equal messages."""
        return b"".join(each.tobytes() for each in self[:3]) + bytes([self.relayed])


class Arrangement:
    """How the members of equivalent groups are distributed over nodes, by one example of them."""

    def __init__(self, cluster: Cluster, group: Sequence[int]) -> None:
        self._cluster, self.group = cluster, tuple(group)
        self._messages: dict[tuple[str, str], tuple[Messages, ...]] = {}

    @cached_property
    def span(self) -> GroupSpan:
        """The extent of the group on the machine."""
        counts = self.counts
        filled = box(self._cluster, self.group)
        return GroupSpan(len(self.group), len(counts), max(counts), box=filled)

    @cached_property
    def counts(self) -> list[int]:
        """Members on each of its nodes."""
        return [len(members) for members in by_node(self._cluster, self.group).values()]

    def messages(self, algorithm: Algorithm, operation: str) -> tuple[Messages, ...]:
        """Return the messages of each round, or all at once for a pipelined algorithm."""
        key = algorithm.name, operation
        if key not in self._messages:
            self._messages[key] = tuple(self._sent(algorithm, operation))
        return self._messages[key]

    def _sent(self, algorithm: Algorithm, operation: str) -> Iterator[Messages]:
        ranks = len(self.group)
        if algorithm.posted and operation == "all-to-all":
            yield exchange(ranks)
        elif algorithm.rounds:
            for messages in algorithm.rounds(operation, ranks):
                edges = [(m.source, m.target, len(m.blocks) / ranks) for m in messages]
                yield _as_arrays(edges)
        elif algorithm.edges:
            member = {device: i for i, device in enumerate(self.group)} | {CROSSBAR: CROSSBAR}
            sent = algorithm.edges(self._cluster, self.group, operation)
            yield _as_arrays([(member[a], member[b], share) for a, b, share in sent])


def exchange(ranks: int) -> Messages:
    """Return an all-to-all posted at once: every rank sends a block to every other.

    Each message takes its own route, by the neighbour on the receiver's rail where the library
    relays (NCCL's PXN).
    """
    source, target = (index.ravel() for index in np.indices((ranks, ranks)))
    sent = source != target
    share = np.full(np.count_nonzero(sent), 1 / ranks)
    return Messages(source[sent], target[sent], share, relayed=True)


def _as_arrays(edges: Sequence[Edge]) -> Messages:
    source, target, share = zip(*edges, strict=True) if edges else ((), (), ())
    ints = np.array(source, dtype=np.int64), np.array(target, dtype=np.int64)
    return Messages(*ints, np.array(share, dtype=float))


# --- equivalent places ----------------------------------------------------------------------------


def arrangements(cluster: Cluster, groups: Integers) -> tuple[Integers, list[Arrangement]]:
    """Return for each group the number of its arrangement, and the arrangements.

    Parameters
    ----------
    groups : devices of each group, a row a group, in rank order
    """
    keys = _keys(cluster, groups)
    numbers = numbered(keys)
    different = []
    for example in first_of(numbers).tolist():
        of_example = partial(Arrangement, cluster, groups[example].tolist())
        key = "arrangement", keys[example].tobytes()
        different.append(cluster.kept.get(key, groups.shape[1], of_example))
    return numbers, different


def _keys(cluster: Cluster, groups: Integers) -> Integers:
    """Return for each group a row of numbers, equal for groups in equivalent places."""
    size = cluster.node.devices
    nodes, local = np.divmod(groups, size)
    first, alone = _first_of_equal(nodes)
    keys = [first * size + np.where(alone, 0, local)]  # its place matters to neighbours alone
    fabric = cluster.fabric
    if isinstance(fabric, TorusFabric) and size == 1:
        positions = np.stack(np.unravel_index(groups, fabric.lengths), axis=-1)
        keys.append((positions - positions.min(axis=1, keepdims=True)).reshape(len(groups), -1))
    return np.hstack(keys)


def places_on_machine(cluster: Cluster, rows: Integers) -> Integers:
    """Return for each row of devices numbers that are equal where the routes between them are.

    Where nodes differ by their switches alone, a device has its place in its node, and for its
    node and each switch above it the first member of the row there.  Rows with equal numbers are
    images of each other by an exchange of nodes and switches, which changes no time.
    """
    if not cluster.fabric.alike or cluster.faults:
        return rows
    nodes, local = np.divmod(rows, cluster.node.devices)
    units = (nodes // size for size in (1, *cluster.fabric.units.values()))
    return np.hstack([local, *(_first_of_equal(unit)[0] for unit in units)])


def _first_of_equal(numbers: Integers) -> tuple[Integers, Booleans]:
    """Return for each number the first one of its row that is equal, and if it is alone."""
    if (numbers == numbers[:, :1]).all():  # as those of groups inside nodes
        return np.zeros_like(numbers), np.full(numbers.shape, numbers.shape[1] == 1)
    order = np.argsort(numbers, axis=1, kind="stable")
    ordered = np.take_along_axis(numbers, order, axis=1)
    begins = np.ones_like(ordered, dtype=np.bool_)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    ends = np.ones_like(begins)
    ends[:, :-1] = begins[:, 1:]
    alone = np.empty_like(begins)
    np.put_along_axis(alone, order, begins & ends, axis=1)
    at = np.maximum.accumulate(np.where(begins, np.arange(numbers.shape[1]), 0), axis=1)
    first = np.empty_like(order)
    np.put_along_axis(first, order, np.take_along_axis(order, at, axis=1), axis=1)
    return first, alone
