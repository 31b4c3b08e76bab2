"""Traffic: the load of one communication on the links, without a clock.

A communication is one fluid activity, not many messages.  A ring all-reduce over four
devices is one `Traffic` of four equal flows, each link crossed by one of them:

    d0 --l0--> d1 --l1--> d2 --l2--> d3 --l3--> d0      links (0, 1, 2, 3), weights (1, 1, 1, 1)

Point-to-point is the case of a single flow: every weight is 1.
"""

from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple


class Traffic(NamedTuple):
    """Equal flows that start at the same time, share links as one activity, and end together.

    Parameters
    ----------
    name : of the communication, as errors quote it
    links : the links that its flows cross, each once, as indices into the network's capacities
    weights : for each of `links`, how many of the flows cross it [flows]; above 0, may be
        fractional where a flow spreads over several paths
    nbytes : payload of each flow [B]
    latency : before the first byte, without use of bandwidth [s]
    cap : maximum rate of one flow, whatever the links allow [B/s]
    """

    name: str
    links: tuple[int, ...]
    weights: tuple[float, ...]
    nbytes: float
    latency: float
    cap: float = inf

    def crossings(self) -> Iterator[tuple[int, float]]:
        """Yield each link with the number of flows that cross it."""
        return zip(self.links, self.weights, strict=True)

    def uncontended_rate(self, capacities: Sequence[float]) -> float:
        """Return the rate of one flow with its links to itself [B/s]."""
        return min([self.cap, *(capacities[link] / weight for link, weight in self.crossings())])
