"""Which replica gets a request."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import Final

from clustersim.engine.requests.replica import Replica

Route = Callable[[], Replica]
"""Returns the replica for the next request."""


def round_robin(replicas: Sequence[Replica]) -> Route:
    """Return a function that returns one replica after another."""
    order: Iterator[Replica] = cycle(replicas)
    return lambda: next(order)


def least_loaded(replicas: Sequence[Replica]) -> Route:
    """Return a function that returns the replica with the fewest requests, the first of equals."""
    return lambda: min(replicas, key=lambda replica: replica.load)


ROUTING: Final[Mapping[str, Callable[[Sequence[Replica]], Route]]] = {
    "round-robin": round_robin,
    "least-loaded": least_loaded,
}
"""Ways to route requests, by the name in a scenario."""
