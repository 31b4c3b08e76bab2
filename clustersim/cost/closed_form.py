"""Closed forms of collectives and messages: their time on uncontended links.

    call overhead | base | hops of the algorithm | pieces of a pipelined buffer | bytes

The engine replays the same collectives as fluid activities on links; tests compare the two where no
link is shared.  Each algorithm gives its number of steps (`program.collectives`): those of Thakur
et al. 2005, doi:10.1177/1094342005051521, and of NCCL 2.30, ``src/graph/tuning.cc``, whose
latencies they are multiplied with.
"""

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

from clustersim.records import dataclass
from clustersim.topology.library import Library, Protocol

ONE_WAY: Final = frozenset({"reduce-scatter", "all-gather"})
"""Halves of an all-reduce."""

STREAMED: Final = frozenset({"broadcast", "reduce"})
"""Operations that pass a chain or a tree once."""


Box = tuple[tuple[int, ...], ...]
"""The places that a group occupies along each axis of a torus."""


class GroupSpan(NamedTuple):
    """Extent of a group on the machine.

    Attributes
    ----------
    ranks : of one group
    nodes : that it spans
    fullest : ranks on the node with most of them
    shared : whether other groups on its nodes run the same at the same time
    box : the box of a torus that it fills
    """

    ranks: int
    nodes: int
    fullest: int
    shared: bool = False
    box: Box | None = None


class StepCounts(NamedTuple):
    """Sequential steps, inside a node and across the network."""

    device: float
    network: float


@dataclass(frozen=True)
class Cost:
    """Cost of a collective or a message on uncontended links.

    Attributes
    ----------
    algorithm, protocol : what the library runs
    latency : before the first byte, of every step and every piece of the buffer [s]
    nbytes : payload and protocol of one of its equal flows [B]
    rate : of such a flow on uncontended links [B/s]
    ranked : time by which the library's tuner ranks it, without the pieces [s]
    """

    algorithm: str
    protocol: str
    latency: float
    nbytes: float
    rate: float
    ranked: float

    @property
    def seconds(self) -> float:
        """Latency, then bytes over rate [s]."""
        return self.latency + (self.nbytes / self.rate if self.nbytes else 0.0)


def passes(operation: str) -> int:
    """Return how often the buffer goes round a ring, less one share of it: 2 or 1.

    A barrier is an all-reduce of one number: PyTorch, ``ProcessGroupNCCL::barrier``.
    """
    return 2 if operation in ("all-reduce", "barrier") else 1


def bus_factor(operation: str, ranks: int) -> float:
    """Return bus bandwidth over algorithm bandwidth [unitless].

    2 (p - 1) / p for an all-reduce, (p - 1) / p for its halves and for an all-to-all, else 1:
    nccl-tests, ``doc/PERFORMANCE.md``.

    >>> bus_factor("all-reduce", 8)
    1.75
    """
    if operation == "all-reduce":
        return 2 * (ranks - 1) / ranks
    if operation in ONE_WAY or operation == "all-to-all":
        return (ranks - 1) / ranks
    return 1.0


BETWEEN_TWO: Final = frozenset({"send"})
"""Operations in which a device sends or receives: limits were measured where it does both."""

# --- time -----------------------------------------------------------------------------------------


def collective_cost(
    algorithm: str,
    operation: str,
    nbytes: float,
    span: GroupSpan,
    seconds_per_byte: float,
    unit: float,
    library: Library,
    steps: StepCounts,
    *,
    pipelined: bool = False,
    posts: int = 0,
) -> Cost:
    r"""Return the cost of a collective by the protocol that the library's tuner ranks first.

    .. math:: t = o + b + n_d a_d + n_n a_n + q c + 2 \sqrt{q c x} + x,
              \quad x = \max\left(\frac{S}{B e}, \frac{f S}{L}\right)

    with S = `nbytes`, B the bytes of the buffer that the links carry in a second, which is
    1 / `seconds_per_byte`, f the factor to bus bandwidth; o the library's call overhead, and of
    the protocol b its base, a_d and a_n its hop latencies for n_d and n_n steps in a node and
    across the network, e its payload share, L its limit, and c the time of one more piece on each
    of q steps. The terms with c are those of a pipeline cut into pieces of the best size:
    :math:`(\sqrt{q c} + \sqrt{x})^2`, Hoefler et al. 2007, doi:10.1016/j.parco.2007.09.005. The
    tuner ignores the pieces (NCCL 2.30, ``src/graph/tuning.cc``).

    Parameters
    ----------
    nbytes : the whole buffer; for an all-to-all, what each rank sends [B]
    unit : bytes of one of the equal flows for each byte of the buffer
    pipelined : whether the buffer is cut into pieces
    posts : messages that the host posts one by one

    >>> simple = Protocol("simple", base=8e-6, device_hop=3e-6, network_hop=14e-6, bandwidth=1.0)
    >>> library = Library("x", 0.0, {"ring": (simple,)}, {})
    >>> span, pace, steps = GroupSpan(ranks=8, nodes=1, fullest=8), 1.75 / 1e11, StepCounts(14, 0)
    >>> cost = collective_cost("ring", "all-reduce", 1e9, span, pace, 1.75, library, steps)
    >>> round(cost.seconds, 5)
    0.01755
    """
    costs = []
    for protocol in protocols(library, algorithm):
        latency = _latency(protocol, steps) + posts * library.post
        limit = math.inf if operation in BETWEEN_TWO else _limit(protocol, span)
        limited = bus_factor(operation, span.ranks) / limit
        moving = nbytes * max(seconds_per_byte / protocol.bandwidth, limited)
        pieces = _pieces(protocol, steps, moving) if pipelined else 0.0
        wire = nbytes * unit / protocol.bandwidth
        costs.append(
            Cost(
                algorithm,
                protocol.name,
                library.call_overhead + latency + pieces,
                wire,
                wire / moving if moving else math.inf,
                library.call_overhead + latency + moving,
            )
        )
    return ranked_first(costs)


def protocols(library: Library, algorithm: str) -> tuple[Protocol, ...]:
    """Return the protocols of an algorithm; of one that the library lacks, those of its ring."""
    return library.algorithms.get(algorithm) or library.algorithms["ring"]


def ranked_first(costs: Iterable[Cost]) -> Cost:
    """Return the cost that a tuner would choose."""
    return min(costs, key=lambda cost: cost.ranked)


def _limit(protocol: Protocol, span: GroupSpan) -> float:
    """Return the highest bus bandwidth of a protocol in a group of this extent [B/s]."""
    if span.nodes == 1:
        return protocol.limit
    shared = span.fullest * protocol.shared_limit if span.shared else math.inf
    return min(protocol.network_limit, shared)


def _latency(protocol: Protocol, steps: StepCounts) -> float:
    hops = steps.device * protocol.device_hop + steps.network * protocol.network_hop
    return protocol.base + hops


def _pieces(protocol: Protocol, steps: StepCounts, moving: float) -> float:
    """Return what the pieces of a pipelined buffer add to its bytes [s]."""
    once = (steps.network or steps.device) * protocol.chunk
    return once + 2 * math.sqrt(once * moving)


def message_cost(
    nbytes: float, network: bool, bandwidth: float, path: float, library: Library,
    algorithm: str | None = None,
) -> Cost:  # fmt: skip
    r"""Return the cost of one message between two devices by the protocol that is fastest.

    .. math:: t = \max(o + b + a, l) + \frac{S}{\min(B, M) e}

    with a the hop latency inside a node or across the network, l = `path`, the latency of the
    links themselves [s], and M the most that the library moves to one device in another node. The
    library's latency was measured from end to end, so it contains a usual path; only a longer one
    shows.

    Parameters
    ----------
    algorithm : of the library, whose protocols the message has; if left out that of its messages
    """
    costs = []
    for protocol in protocols(library, algorithm or library.choices["send"][0]):
        hop = protocol.network_hop if network else protocol.device_hop
        latency = max(library.call_overhead + protocol.base + hop, path)
        wire = nbytes / protocol.bandwidth
        limit = protocol.network_limit if network else protocol.limit
        most = min(bandwidth, library.message) if network else bandwidth
        rate = min(most, limit / protocol.bandwidth)
        costs.append(Cost("send", protocol.name, latency, wire, rate, latency + wire / rate))
    return ranked_first(costs)
