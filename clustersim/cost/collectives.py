"""Closed forms of collectives and messages: the time when nobody else is on the links.

The engine replays the same collectives as fluid activities; tests hold the two together where no
link is shared.  Formulas are those of Thakur et al. 2005, doi:10.1177/1094342005051521, with the
latencies of the collective library.
"""

import math
from dataclasses import dataclass

from clustersim.topology.library import Library, Protocol

RING_PASSES: dict[str, int] = {"all-reduce": 2, "reduce-scatter": 1, "all-gather": 1}
"""Times that a ring passes the buffer round, less one share of it."""


@dataclass(frozen=True)
class Cost:
    """What a collective takes alone on its links.

    Attributes
    ----------
    latency : paid before the first byte and for every step [s]
    wire_bytes : payload and protocol that each hop of the ring carries [B]
    bandwidth : of the ring's slowest link for this group [B/s]
    """

    protocol: str
    latency: float
    wire_bytes: float
    bandwidth: float

    @property
    def seconds(self) -> float:
        """Latency, then bytes over bandwidth [s]."""
        return self.latency + self.wire_bytes / self.bandwidth


def ring(
    operation: str, nbytes: float, ranks: int, nodes: int, bandwidth: float, library: Library
) -> Cost:
    r"""Return the cost of a ring collective by the protocol that is fastest.

    .. math:: t = o + b + k \left[(p - n) a_d + (n - 1) a_n\right] + k \frac{p-1}{p} \frac{S}{B e}

    with S = `nbytes` of the whole buffer, p = `ranks` on n = `nodes`, k = 2 passes for an
    all-reduce and 1 for its halves, B = `bandwidth`; o the library's call overhead and b, a_d,
    a_n, e its protocol's base, hop latencies in a node and between nodes, and payload share.
    NCCL 2.30, ``src/graph/tuning.cc``.

    >>> from clustersim.topology.library import Library, Protocol
    >>> simple = Protocol("simple", base=8e-6, device_hop=3e-6, network_hop=14e-6, bandwidth=1.0)
    >>> round(
    ...     ring("all-reduce", 1e9, 8, 1, 1e11, Library("x", 0.0, {"ring": (simple,)}, {})).seconds,
    ...     5,
    ... )
    0.01755
    """
    passes = RING_PASSES[operation]
    wire = passes * (ranks - 1) / ranks * nbytes
    costs = [
        Cost(
            protocol.name,
            library.call_overhead + _ring_latency(passes, ranks, nodes, protocol),
            wire / protocol.bandwidth,
            bandwidth,
        )
        for protocol in library.algorithms["ring"]
    ]
    return min(costs, key=lambda cost: cost.seconds)


def _ring_latency(passes: int, ranks: int, nodes: int, protocol: Protocol) -> float:
    hops = (ranks - nodes) * protocol.device_hop + (nodes - 1) * protocol.network_hop
    return protocol.base + passes * hops


def message(nbytes: float, network: bool, bandwidth: float, path: float, library: Library) -> Cost:
    r"""Return the cost of one message between two devices by the protocol that is fastest.

    .. math:: t = \max(o + b + a, l) + \frac{S}{B e}

    with a the hop latency inside a node or across the network, and l = `path`, the latency of the
    links themselves [s]. The library's latency was measured from end to end, so it contains a
    usual path; only a longer one shows.
    """
    costs = []
    for protocol in library.algorithms["ring"]:
        hop = protocol.network_hop if network else protocol.device_hop
        latency = max(library.call_overhead + protocol.base + hop, path)
        costs.append(Cost(protocol.name, latency, nbytes / protocol.bandwidth, bandwidth))
    return min(costs, key=lambda cost: cost.seconds)


def scalar_reduction(ranks: int, nodes: int, library: Library) -> float:
    r"""Return the time of an all-reduce of one number, down and up a tree [s].

    .. math:: t = o + b + 2 \left[(p / n - 1) a_d + \lceil \log_2 n \rceil a_n\right]

    with letters as in `ring`. NCCL 2.30, ``src/graph/tuning.cc``.
    """

    def seconds(protocol: Protocol) -> float:
        inside = max(0.0, ranks / nodes - 1) * protocol.device_hop
        across = math.ceil(math.log2(nodes)) * protocol.network_hop
        return library.call_overhead + protocol.base + 2 * (inside + across)

    return min(seconds(protocol) for protocol in library.algorithms["ring"])
