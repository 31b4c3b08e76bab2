"""Collectives step by step: every round of every member, with the blocks that each message carries.

    round 1    0 --b3--> 1 --b0--> 2 --b1--> 3 --b2--> 0      the first round of a ring over four

For small groups, to check what is folded elsewhere.  Three things can be asked of it: what every
member holds at the end, what each sends to each other in all, and, with a network to replay it on,
how long it takes.  On links that are not shared that time agrees with the closed form

* of algorithms in rounds, and of rings whose hops are all alike: wholly;
* of chains, trees and levels, which are pipelined: in the bytes.  Cut in c pieces, R rounds become
  R + c - 1, so they take between 1 and 1 + (R - 1) / c times what the busiest link takes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product, zip_longest
from math import prod

from clustersim.program.collectives.algorithm import Message, Round
from clustersim.program.collectives.algorithms import ALGORITHMS
from clustersim.program.collectives.torus import axis_ring, starting_axes
from clustersim.program.collectives.trees import double_tree
from clustersim.topology.fabrics.grid import number_of

Held = list[dict[int, tuple[int, ...]]]
"""For each member, the blocks that it holds, and the members whose data is summed in each."""

Circle = tuple[Sequence[int], Sequence[Sequence[int]]]
"""Members in a circle, and for each of them the blocks that it gets to keep."""


@dataclass(frozen=True)
class Stepped:
    """A collective as rounds of messages.

    Attributes
    ----------
    members : numbered from 0
    blocks : equal parts of the buffer; the owner of a block is its number modulo `members`
    rounds : each starts when all messages of the last have arrived
    """

    members: int
    blocks: int
    rounds: tuple[Round, ...]

    def outcome(self, held: Held) -> Held:
        """Return what the members hold at the end when they begin with `held`."""
        now = [dict(own) for own in held]
        for messages in self.rounds:
            sent = [(m, block, now[m.source][block]) for m in messages for block in m.blocks]
            for (_, target, _, adds), block, content in sent:
                now[target][block] = now[target].get(block, ()) + content if adds else content
        return now

    def carried(self) -> dict[tuple[int, int], float]:
        """Return what each member sends to each other, for each byte of the buffer [B/B]."""
        total: dict[tuple[int, int], float] = {}
        for source, target, blocks, _ in (m for messages in self.rounds for m in messages):
            share = len(blocks) / self.blocks
            total[source, target] = total.get((source, target), 0.0) + share
        return total

    def pipelined(self, pieces: int) -> "Stepped":
        """Return the same with the buffer cut in pieces, each one round behind the one before."""
        trains = [
            [*([] for _ in range(piece)), *self._moved(piece * self.blocks)]
            for piece in range(pieces)
        ]
        return Stepped(self.members, pieces * self.blocks, _beside(trains))

    def _moved(self, first: int) -> Iterator[Round]:
        """Yield the rounds with blocks that are numbered from `first`."""
        for messages in self.rounds:
            yield [m._replace(blocks=[first + block for block in m.blocks]) for m in messages]


def in_rounds(algorithm: str, operation: str, ranks: int) -> Stepped:
    """Return an algorithm in rounds, its blocks counted from 0 to `ranks` - 1."""
    rounds = [
        [m._replace(blocks=[block % ranks for block in m.blocks]) for m in messages]
        for messages in ALGORITHMS[algorithm].rounds(operation, ranks)
    ]
    return Stepped(ranks, ranks, tuple(rounds))


# --- rings ----------------------------------------------------------------------------------------


def ring(operation: str, ranks: int) -> Stepped:
    """Return an all-reduce, or a half of one, around one ring."""
    circle = range(ranks), [[block] for block in range(ranks)]
    return Stepped(ranks, ranks, tuple(_levels(operation, [[circle]])))


def chain(operation: str, ranks: int) -> Stepped:
    """Return a broadcast from member 0 along an open ring, or a reduce along it to member 0."""
    adds = operation == "reduce"
    hops = [(i, (i + 1) % ranks) for i in range(ranks)]
    used = hops[1:] if adds else hops[:-1]
    return Stepped(ranks, 1, tuple([[Message(a, b, [0], adds)] for a, b in used]))


def hierarchical(operation: str, nodes: int, local: int) -> Stepped:
    """Return rings inside nodes, then a ring for each local index over all nodes."""
    ranks = nodes * local
    inside: list[Circle] = [
        (range(node * local, (node + 1) * local), [range(i, ranks, local) for i in range(local)])
        for node in range(nodes)
    ]
    rails: list[Circle] = [
        (range(i, ranks, local), [[block] for block in range(i, ranks, local)])
        for i in range(local)
    ]
    return Stepped(ranks, ranks, tuple(_levels(operation, [inside, rails])))


def torus(operation: str, lengths: Sequence[int], closed: Sequence[bool]) -> Stepped:
    """Return rings along all axes at once, both ways round, each part from another axis on."""
    axes = [axis for axis, length in enumerate(lengths) if length > 1]
    ranks, trains = prod(lengths), list[list[Round]]()
    for first in starting_axes(lengths, closed):
        turn = axes.index(first)
        order = [*axes[turn:], *axes[:turn]]
        for way in (1, -1):
            levels = [
                list(_lines(lengths, closed, order[: level + 1], len(trains) * ranks, way))
                for level in range(len(order))
            ]
            trains.append(_levels(operation, levels))
    return Stepped(ranks, len(trains) * ranks, _beside(trains))


def _lines(
    lengths: Sequence[int], closed: Sequence[bool], order: Sequence[int], first: int, way: int
) -> Iterator[Circle]:
    """Yield the rings along the last axis of `order` of a part already cut along those before."""
    *cut, axis = order
    places = list(product(*map(range, lengths)))
    along = axis_ring(range(lengths[axis]), closed=closed[axis])[::way]
    for start in places:
        if start[axis] == 0:
            line = [(*start[:axis], at, *start[axis + 1 :]) for at in along]
            owned = [
                [
                    first + number_of(owner, lengths)
                    for owner in places
                    if owner[axis] == at and all(owner[other] == start[other] for other in cut)
                ]
                for at in along
            ]
            yield [number_of(place, lengths) for place in line], owned


def _levels(operation: str, levels: Sequence[Sequence[Circle]]) -> list[Round]:
    """Return reduce-scatters level by level, then all-gathers back, or one of both."""
    rounds: list[Round] = []
    if operation != "all-gather":
        for circles in levels:
            rounds += _beside([_scattered(*circle) for circle in circles])
    if operation != "reduce-scatter":
        for circles in reversed(levels):
            rounds += _beside([_gathered(*circle) for circle in circles])
    return rounds


def _scattered(circle: Sequence[int], owned: Sequence[Sequence[int]]) -> list[Round]:
    """Return a ring's reduce-scatter: each passes on the sum that it got in the round before."""
    n = len(circle)
    return [
        [Message(circle[i - 1], circle[i], owned[(i - 2 - step) % n], adds=True) for i in range(n)]
        for step in range(n - 1)
    ]


def _gathered(circle: Sequence[int], owned: Sequence[Sequence[int]]) -> list[Round]:
    """Return a ring's all-gather: each passes on the blocks that it got in the round before."""
    n = len(circle)
    return [
        [Message(circle[i - 1], circle[i], owned[(i - 1 - step) % n]) for i in range(n)]
        for step in range(n - 1)
    ]


# --- trees ----------------------------------------------------------------------------------------


def tree(nodes: int, local: int = 1) -> Stepped:
    """Return an all-reduce over double binary trees by depth, a channel for each local index."""
    hung = [
        _hung(parents, channel, local) for channel in range(local) for parents in double_tree(nodes)
    ]
    trains = [_up_and_down(parents, block) for block, parents in enumerate(hung)]
    return Stepped(nodes * local, len(trains), _beside(trains))


def _hung(parents: Sequence[int | None], channel: int, local: int) -> list[int | None]:
    """Return each member's parent: the previous one in its node, or another node's gateway."""
    above: list[int | None] = []
    for node, parent in enumerate(parents):
        for index in range(local):
            if index != channel:
                above.append(node * local + (index - 1) % local)
            else:
                above.append(None if parent is None else parent * local + channel)
    return above


def _up_and_down(parents: Sequence[int | None], block: int) -> list[Round]:
    """Return sums from the deepest members up to the root, then the result down again."""
    depths = [_depth(parents, member) for member in range(len(parents))]
    rows = [
        [(child, up) for child, up in enumerate(parents) if up is not None and depths[child] == row]
        for row in range(1, max(depths) + 1)
    ]
    rising = [[Message(child, up, [block], adds=True) for child, up in row] for row in rows[::-1]]
    return [*rising, *([Message(up, child, [block]) for child, up in row] for row in rows)]


def _depth(parents: Sequence[int | None], member: int) -> int:
    """Return how many links lie between a member and the root."""
    parent = parents[member]
    return 0 if parent is None else 1 + _depth(parents, parent)


def _beside(trains: Iterable[Sequence[Round]]) -> tuple[Round, ...]:
    """Return the rounds of several that go on at the same time."""
    return tuple(
        [
            [message for messages in at_once for message in messages]
            for at_once in zip_longest(*trains, fillvalue=[])
        ]
    )
