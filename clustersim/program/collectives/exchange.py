"""All-to-all posted at once: every rank sends a block to every other, nobody waits for a round.

Each message takes its own route, by the neighbour on the receiver's rail where the library relays
(NCCL's PXN).  A receiver may be asked for more than its part: the expert that most tokens want.
"""

from collections.abc import Sequence

from clustersim.program.collectives.load import Phase
from clustersim.topology.cluster import Cluster


def exchange(
    cluster: Cluster, groups: Sequence[Sequence[int]], wanted: Sequence[float] | None = None
) -> Phase:
    """Return what all messages put on links, for each byte that a rank sends.

    Parameters
    ----------
    wanted : share of every rank's bytes that goes to each rank; all alike where it is left out
    """
    route = cluster.relayed if cluster.library.relay else cluster.route
    phase: Phase = {}
    for group in groups:
        shares = wanted or [1 / len(group)] * len(group)
        for source in group:
            for target, share in zip(group, shares, strict=True):
                if source != target and share:
                    for link in route(source, target).links:
                        phase[link] = phase.get(link, 0.0) + share
    return phase
