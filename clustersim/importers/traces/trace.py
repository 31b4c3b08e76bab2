"""An execution trace: the operations of each rank, and what each of them follows.

    rank 0    compute --> send to 1 ----> compute --> all-reduce of 0 and 1
    rank 1    compute --> receive of 0 -> compute --> all-reduce of 0 and 1

Every format is read into this form (`chakra`, `kineto`), in which a program of our own is written
out as well; `program.traced` puts it on a machine.

The n-th send of a rank to another with a tag belongs to the n-th such receive of the other, and the
n-th collective of a group on one rank to the n-th on each other rank, unless operations name what
they run together with.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final, Literal, NamedTuple

from clustersim.errors import CatalogError
from clustersim.records import dataclass
from clustersim.units import counted

Kind = Literal["compute", "collective", "send", "receive"]

COMPUTE: Final = "compute"
COLLECTIVE: Final = "collective"
SEND: Final = "send"
RECEIVE: Final = "receive"

DEVICE: Final = "device"
HOST: Final = "host"

MOST_SHOWN: Final = 4
"""Ranks that a message lists."""


class Work(NamedTuple):
    """The work of an operation that computes: its FLOPs, and the bytes that it moves [B]."""

    flops: float
    nbytes: float


class Node(NamedTuple):
    """An operation of a rank.

    Attributes
    ----------
    id : number of the operation in its rank
    after : those that it follows
    seconds : time of one that computes, or of a collective that is not priced [s]
    unit : what runs one such operation of the rank at a time; empty for a timer
    part : what it is part of: `gemm`, `attention`, `elementwise`, ...
    work : of one that computes, where the trace states it
    operation : of a collective
    nbytes : of a collective the whole buffer, for an all-to-all what a rank sends; of a send or a
        receive its message [B]
    ranks : of the group, or sender and receiver
    tag : of a send and its receive
    together : number that all operations have that are one; None to match them in order
    share : share of the buffer that is moved now, by the algorithm for all of it
    recorded : its begin and its end in the trace [s]; None where they are not recorded
    """

    id: int
    name: str
    kind: Kind
    after: tuple[int, ...] = ()
    seconds: float = 0.0
    unit: str = DEVICE
    part: str = COMPUTE
    work: Work | None = None
    operation: str = ""
    nbytes: float = 0.0
    ranks: tuple[int, ...] = ()
    tag: int = 0
    together: int | None = None
    share: float = 1.0
    recorded: tuple[float, float] | None = None


class NotPlaced(NamedTuple):
    """Operations without a time, by their type and the reason."""

    type: str
    reason: str


@dataclass(frozen=True)
class Trace:
    """The operations of all ranks.

    Attributes
    ----------
    format : it was read from
    file : with which messages begin
    ranks : operations of each rank
    eager : whether a send begins without its receive
    not_placed : operations that have no time here, counted
    notes : what was read and how
    steps : steps that it covers
    """

    format: str
    file: str
    ranks: Sequence[Sequence[Node]]
    eager: bool = True
    not_placed: Mapping[NotPlaced, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    steps: int = 1

    @property
    def nodes(self) -> int:
        """Operations of all ranks."""
        return sum(map(len, self.ranks))

    def where(self, rank: int, node: Node | None = None) -> str:
        """Return the place of an operation, with which a message begins."""
        at = "" if node is None else f" operation {node.id} '{node.name}':"
        return f"{self.file}: rank {rank}:{at}"

    def check(self) -> None:
        """Check that each operation has all that it follows and all that it runs together with.

        Raises
        ------
        CatalogError
            in one line.
        """
        for rank, nodes in enumerate(self.ranks):
            self._check_order(rank, nodes)
        for meeting in self.meetings():
            self._check_meeting(meeting)

    def _check_order(self, rank: int, nodes: Sequence[Node]) -> None:
        """Check that operations of a rank follow existing ones, and not each other."""
        by_id = {node.id: node for node in nodes}
        if len(by_id) < len(nodes):
            twice = Counter(node.id for node in nodes).most_common(1)[0][0]
            raise CatalogError(f"{self.where(rank)} has two operations {twice}")
        missing = {node.id: len({*node.after}) for node in nodes}
        followers: dict[int, list[int]] = {}
        for node in nodes:
            for other in {*node.after}:
                if other not in by_id:
                    raise CatalogError(
                        f"{self.where(rank, node)} follows operation {other}, which the trace does"
                        " not have"
                    )
                followers.setdefault(other, []).append(node.id)
        ready = [number for number, count in missing.items() if not count]
        for number in ready:  # which grows
            for follower in followers.get(number, ()):
                missing[follower] -= 1
                if not missing[follower]:
                    ready.append(follower)
        if len(ready) < len(nodes):
            stuck = next(node for node in nodes if missing[node.id])
            cycle = _cycle(stuck, by_id, missing)
            raise CatalogError(f"{self.where(rank)} operations wait for each other: {cycle}")

    # --- what runs together -----------------------------------------------------------------------

    def meetings(self) -> "list[Meeting]":
        """Return what several ranks run together: collectives, and sends with their receives."""
        found: dict[Hashable, Meeting] = {}
        for rank, nodes in enumerate(self.ranks):
            times: Counter[Hashable] = Counter()
            for node in nodes:
                if node.kind == COMPUTE:
                    continue
                p2p = node.kind != COLLECTIVE
                key: Hashable = (node.together, p2p)
                if node.together is None:
                    channel = (node.ranks, node.tag if p2p else -1, node.kind)
                    key = (node.ranks, node.tag if p2p else -1, times[channel])
                    times[channel] += 1
                found.setdefault(key, Meeting([])).members.append((rank, node))
        return [*found.values()]

    def _check_meeting(self, meeting: "Meeting") -> None:
        rank, node = meeting.members[0]
        for other, each in meeting.members:
            if other not in each.ranks:
                raise CatalogError(
                    f"{self.where(other, each)} is of ranks {listed(each.ranks)}, and not its own"
                )
            if max(each.ranks) >= len(self.ranks) or min(each.ranks) < 0:
                gone = next(r for r in each.ranks if not 0 <= r < len(self.ranks))
                raise CatalogError(
                    f"{self.where(other, each)} needs rank {gone}, and the trace has"
                    f" {counted(len(self.ranks), 'rank')}: 0 to {len(self.ranks) - 1}"
                )
        if node.kind == COLLECTIVE:
            self._check_collective(meeting)
        else:
            self._check_message(rank, node, meeting)

    def _check_collective(self, meeting: "Meeting") -> None:
        rank, node = meeting.members[0]
        present = {other for other, _ in meeting.members}
        needed = {each for _, member in meeting.members for each in member.ranks}
        if missing := sorted(needed - present):
            raise CatalogError(
                f"{self.where(rank, node)} {node.operation} of ranks {listed(node.ranks)}, which"
                f" rank {missing[0]} does not run"
            )
        for other, each in meeting.members:
            if each.operation != node.operation:
                raise CatalogError(
                    f"{self.where(other, each)} {each.operation}, while rank {rank} of the same"
                    f" group runs {node.operation}"
                )

    def _check_message(self, rank: int, node: Node, meeting: "Meeting") -> None:
        sends, receives = (
            Counter(each.ranks for _, each in meeting.members if each.kind == kind)
            for kind in (SEND, RECEIVE)
        )
        if sends == receives:
            return
        (source, target), _ = next(iter(((sends - receives) or (receives - sends)).items()))
        missing = "receive" if sends - receives else "send"
        own, other = (source, target) if missing == "receive" else (target, source)
        tag = f" with tag {node.tag}" if node.together is None else ""
        preposition = "from" if missing == "receive" else "to"
        raise CatalogError(
            f"{self.where(rank, node)} has no {missing} on rank {other} {preposition} rank"
            f" {own}{tag}"
        )


class Meeting(NamedTuple):
    """Operations of several ranks that are one, each with its rank."""

    members: list[tuple[int, Node]]

    @property
    def first(self) -> Node:
        """The operation of the first of its ranks."""
        return self.members[0][1]

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """The groups of ranks that run it at the same time; of messages, senders and receivers."""
        return [*dict.fromkeys(node.ranks for _, node in self.members)]

    @property
    def nbytes(self) -> float:
        """The largest of their buffers [B]."""
        return max(node.nbytes for _, node in self.members)


def _cycle(stuck: Node, by_id: Mapping[int, Node], missing: Mapping[int, int]) -> str:
    """Return the names along a cycle of operations of which none can begin."""
    path: list[Node] = []
    while stuck not in path:
        path.append(stuck)
        stuck = by_id[next(other for other in stuck.after if missing[other])]
    return " <- ".join(f"{node.id} '{node.name}'" for node in path[path.index(stuck) :][:5])


def listed(ranks: Iterable[int]) -> str:
    """Return ranks as text, the first of many.

    >>> listed(range(9))
    '0, 1, 2, 3 and 5 more'
    """
    numbers = [*ranks]
    more = f" and {len(numbers) - MOST_SHOWN} more" if len(numbers) > MOST_SHOWN else ""
    return ", ".join(map(str, numbers[:MOST_SHOWN])) + more


def count_not_placed(found: Iterable[NotPlaced]) -> dict[NotPlaced, int]:
    """Return operations without a time, counted, the most first."""
    return dict(Counter(found).most_common())


def not_placed_lines(not_placed: Mapping[NotPlaced, int]) -> Iterator[str]:
    """Yield a line for each type and reason."""
    for (type_, reason), count in not_placed.items():
        yield f"{count:,} of type {type_}: {reason}"
