"""An algorithm of collectives: one record with all that other modules require of it.

    algorithm --edges or rounds--> (from, to, share) --routes--> load of the links
              --steps--> latency

A pipelined algorithm keeps all its links busy at once: it is described by its edges.  An algorithm
in rounds is described round by round, because a round waits for the slowest link of the last one.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from clustersim.cost.closed_form import Cost, GroupSpan, StepCounts, collective_cost
from clustersim.records import dataclass
from clustersim.topology.cluster import Cluster
from clustersim.topology.library import Library

HALVES: Final = ("all-reduce", "reduce-scatter", "all-gather")
"""An all-reduce, and its halves."""

CROSSBAR: Final = -1
"""In place of a device, the crossbar of the other device's node."""

Edge = tuple[int, int, float]
"""From device, to device, bytes for each byte of the buffer."""

Edges = Callable[[Cluster, Sequence[int], str], Iterator[Edge]]
"""What the devices of a group send for an operation."""


Switched = Callable[[Cluster, Sequence[int]], Iterator[tuple[int, float]]]
"""Links between nodes that a reduction in the fabric crosses, and its bytes there."""


class Message(NamedTuple):
    """Member `source` sends `blocks` to member `target`, which `adds` them to its own."""

    source: int
    target: int
    blocks: Sequence[int]
    adds: bool = False


Round = list[Message]


class Groups(NamedTuple):
    """The groups of a communicator, as far as algorithms have requirements.

    Attributes
    ----------
    even : whether all their nodes have equally many of their devices
    boxes : whether each group fills a box of a torus
    """

    cluster: Cluster
    span: GroupSpan
    even: bool
    boxes: bool

    @property
    def spread(self) -> bool:
        """Whether they span several nodes, with equally many devices on each."""
        return self.even and self.span.nodes > 1


class Need(NamedTuple):
    """What an algorithm needs, in words that follow *needs*, and whether groups have it."""

    words: str
    met: Callable[[Groups], bool]


NOTHING: Final = Need("", lambda groups: True)


@dataclass(frozen=True)
class Algorithm:
    """An algorithm of collectives.

    Attributes
    ----------
    operations : that it runs
    steps : sequential steps of an operation, by the extent of the group
    edges : what devices of a group send all at once; None for an algorithm in rounds
    rounds : the rounds of an operation, by the number of ranks
    need : what it needs of the groups
    pipelined : whether it cuts the buffer into pieces, each of which starts before the last arrives
    doubled : whether its all-reduce has twice the load of an all-gather
    paired : whether it is slower in a pair of devices of a larger node (`Library.pairing`)
    posted : whether the host posts each of its messages, all at once
    flows : equal flows that leave a rank of a group in one node
    switched : what crosses the fabric where its switches reduce
    """

    name: str
    operations: tuple[str, ...]
    steps: Callable[[str, GroupSpan], StepCounts]
    edges: Edges | None = None
    rounds: Callable[[str, int], Iterator[Round]] | None = None
    need: Need = NOTHING
    pipelined: bool = False
    doubled: bool = False
    paired: bool = False
    posted: bool = False
    flows: Callable[[Cluster, Sequence[int]], int] = lambda cluster, group: 1
    switched: Switched | None = None

    def obstacle(self, operation: str, groups: Groups) -> str:
        """Return why it is not possible for an operation; an empty text if it is."""
        if operation not in self.operations:
            return f"has no {operation} (it has {', '.join(self.operations)})"
        return "" if self.need.met(groups) else f"needs {self.need.words}"

    def cost(
        self, operation: str, nbytes: float, span: GroupSpan, seconds_per_byte: float, unit: float,
        library: Library,
    ) -> Cost:  # fmt: skip
        """Return the cost of an uncontended operation, with its best protocol.

        Parameters
        ----------
        nbytes, unit : as in `cost.closed_form.collective_cost`
        seconds_per_byte : time in which the links carry a byte of the buffer [s/B]
        """
        pair = self.paired and span.nodes == 1 and span.ranks == 2
        return collective_cost(
            self.name,
            operation,
            nbytes,
            span,
            (library.pairing if pair else 1.0) * seconds_per_byte,
            unit,
            library,
            self.steps(operation, span),
            pipelined=self.pipelined,
            posts=span.ranks - 1 if self.posted else 0,
        )


def by_node(cluster: Cluster, group: Sequence[int]) -> dict[int, list[int]]:
    """Return the devices of a group by their node, both in the order of the group."""
    homes: dict[int, list[int]] = {}
    for device in group:
        homes.setdefault(device // cluster.node.devices, []).append(device)
    return homes


def neighbours(members: Sequence[int]) -> list[tuple[int, int]]:
    """Return each member with the next, the last with the first; no pair for a single member."""
    if len(members) < 2:
        return []
    return list(zip(members, [*members[1:], members[0]], strict=True))
