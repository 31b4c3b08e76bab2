"""The table of all algorithms of collectives: a new one is a file, and a line here.

Algorithms in rounds: each rank sends to one other, and a round ends with its slowest message.

    round 1   0 --> 1   2 --> 3        a message names the blocks that it carries, and whether the
    round 2   0 --> 2   1 --> 3        receiver adds them to its own or puts them in their place

Members of a group are numbered from 0.  A buffer is cut into as many blocks as there are members,
counted modulo p: block p is block 0.  A block keeps its number along its route.
Thakur et al. 2005, doi:10.1177/1094342005051521.
"""

import math
from collections.abc import Iterator
from typing import Final

from clustersim.cost.closed_form import GroupSpan, StepCounts, passes
from clustersim.program.collectives.algorithm import HALVES, Algorithm, Message, Need, Round
from clustersim.program.collectives.ring import HIERARCHICAL, RING
from clustersim.program.collectives.torus import TORUS
from clustersim.program.collectives.trees import NVLS, NVLS_TREE, SHARP, TREE
from clustersim.topology.library import Library


def doubling(operation: str, ranks: int) -> Iterator[Round]:
    """Yield the rounds of recursive doubling: the whole buffer, to partners at doubling distances.

    For small buffers: log2 p rounds, each of all bytes. The number of ranks is a power of two.
    """
    for distance in _powers(ranks):
        yield [Message(i, i ^ distance, range(ranks), adds=True) for i in range(ranks)]


def halving_doubling(operation: str, ranks: int) -> Iterator[Round]:
    """Yield vector halving to partners at doubling distances, then vector doubling back.

    Rabenseifner's all-reduce: its first half is a reduce-scatter, its second an all-gather. The
    largest messages go to the nearest partners. The number of ranks is a power of two.
    """
    if operation != "all-gather":
        for distance in _powers(ranks):
            yield [
                Message(i, i ^ distance, _same_bits(i ^ distance, 2 * distance, ranks), adds=True)
                for i in range(ranks)
            ]
    if operation != "reduce-scatter":
        for distance in reversed(_powers(ranks)):
            yield [
                Message(i, i ^ distance, _same_bits(i, 2 * distance, ranks)) for i in range(ranks)
            ]


def _same_bits(member: int, modulus: int, ranks: int) -> range:
    """Return the blocks whose numbers end in the same bits as a member's."""
    return range(member % modulus, ranks, modulus)


def binomial(operation: str, ranks: int) -> Iterator[Round]:
    """Yield the rounds of a binomial tree from member 0, or towards it for a reduce."""
    spreading = [
        [(i, i + distance) for i in range(distance) if i + distance < ranks]
        for distance in _powers(ranks)
    ]
    if operation == "broadcast":
        for pairs in spreading:
            yield [Message(a, b, range(ranks)) for a, b in pairs]
        return
    for pairs in reversed(spreading):
        yield [Message(b, a, range(ranks), adds=True) for a, b in pairs]


def bruck(operation: str, ranks: int) -> Iterator[Round]:
    """Yield the rounds of Bruck's algorithm: ceil(log2 p) of them for any number of ranks.

    An all-gather sends what it has received so far, an all-to-all the blocks whose distance has the
    round's bit. Bruck et al. 1997, doi:10.1109/71.642949.
    """
    for distance in _powers(ranks):
        if operation == "all-gather":
            count = min(distance, ranks - distance)
            yield [Message(i, (i - distance) % ranks, range(i, i + count)) for i in range(ranks)]
        else:
            moved = [block for block in range(ranks) if block & distance]
            yield [Message(i, (i + distance) % ranks, moved) for i in range(ranks)]


def pairwise(operation: str, ranks: int) -> Iterator[Round]:
    """Yield a round for each distance: every rank sends one block to the rank at that distance.

    The blocks of an all-to-all are numbered by their distance.
    """
    if operation == "send":
        yield [Message(0, ranks - 1, range(ranks))]
        return
    for distance in range(1, ranks):
        block = range(distance, distance + 1)
        yield [Message(i, (i + distance) % ranks, block) for i in range(ranks)]


def grouped(operation: str, ranks: int) -> Iterator[Round]:
    """Yield all messages of an all-to-all, posted at once: one round."""
    yield [message for messages in pairwise(operation, ranks) for message in messages]


def dissemination(operation: str, ranks: int) -> Iterator[Round]:
    """Yield the rounds of a barrier: to partners at doubling distances, the members that arrived.

    Hensgen, Finkel and Manber 1988, doi:10.1007/BF01379320.
    """
    for distance in _powers(ranks):
        yield [
            Message(i, (i + distance) % ranks, range(i - distance + 1, i + 1)) for i in range(ranks)
        ]


def _powers(ranks: int) -> list[int]:
    """Return 1, 2, 4 and so on below `ranks`."""
    return [1 << bit for bit in range((ranks - 1).bit_length())]


# --- steps ----------------------------------------------------------------------------------------


def _outward(operation: str, span: GroupSpan) -> StepCounts:
    """Distances double: the first partners are in the node."""
    if span.nodes == 1:
        return _in(span, _levels(span.ranks))
    inside = math.floor(math.log2(span.fullest))
    return StepCounts(inside, _levels(span.ranks) - inside)


def _out_and_back(operation: str, span: GroupSpan) -> StepCounts:
    device, network = _outward(operation, span)
    return StepCounts(passes(operation) * device, passes(operation) * network)


def _around(operation: str, span: GroupSpan) -> StepCounts:
    """All members use one distance: in every round some partner is on another node."""
    return _in(span, _levels(span.ranks))


def _in(span: GroupSpan, count: float) -> StepCounts:
    """Return steps of which each has messages across the network where there are several nodes."""
    return StepCounts(0, count) if span.nodes > 1 else StepCounts(count, 0)


def _levels(count: int) -> float:
    return math.ceil(math.log2(count))


# --- algorithms -----------------------------------------------------------------------------------

POWER_OF_TWO: Final = Need(
    "a power of two of ranks", lambda groups: groups.span.ranks & (groups.span.ranks - 1) == 0
)

DOUBLING = Algorithm("doubling", ("all-reduce",), _outward, rounds=doubling, need=POWER_OF_TWO)
HALVING_DOUBLING = Algorithm(
    "halving-doubling", HALVES, _out_and_back, rounds=halving_doubling, need=POWER_OF_TWO
)
BINOMIAL = Algorithm("binomial", ("broadcast", "reduce"), _outward, rounds=binomial)
BRUCK = Algorithm("bruck", ("all-gather", "all-to-all"), _around, rounds=bruck)
PAIRWISE = Algorithm(
    "pairwise",
    ("all-to-all", "send"),
    lambda operation, span: _in(span, 1 if operation == "send" else span.ranks - 1),
    rounds=pairwise,
)
GROUPED = Algorithm(
    "grouped",
    ("all-to-all", "send"),
    lambda operation, span: _in(span, 1),
    rounds=grouped,
    posted=True,
)
DISSEMINATION = Algorithm("dissemination", ("barrier",), _around, rounds=dissemination)


ALGORITHMS: Final[dict[str, Algorithm]] = {
    algorithm.name: algorithm
    for algorithm in (
        RING,
        TREE,
        NVLS,
        NVLS_TREE,
        SHARP,
        HIERARCHICAL,
        TORUS,
        HALVING_DOUBLING,
        DOUBLING,
        BINOMIAL,
        BRUCK,
        PAIRWISE,
        GROUPED,
        DISSEMINATION,
    )
}


def scalar_reduction(span: GroupSpan, library: Library) -> float:
    """Return the time of an all-reduce of one number: the quickest algorithm's latency [s]."""
    algorithms = (RING,) if span.nodes == 1 else (RING, TREE)
    costs = (
        algorithm.cost("all-reduce", 0.0, span, 0.0, 1.0, library)
        for algorithm in algorithms
        if algorithm.name in library.algorithms
    )
    return min(cost.latency for cost in costs)
