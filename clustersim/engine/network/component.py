"""Components: transfers that contended links connect, whose rates depend on each other."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from clustersim.engine.network.transfer import (
    LIMIT,
    SHARED,
    UNCONTENDED,
    RouteTable,
    Transfer,
    by_number,
)


class Component(NamedTuple):
    """Transfers that contended links connect.

    Attributes
    ----------
    transfers : in the order of their starts, those of the array solver excepted
    contended : the links that connect them
    crossings : transfers on each of these links, summed over the links [count]
    in_arrays : whether transfers of the array solver are connected as well
    """

    transfers: list[Transfer]
    contended: list[int]
    crossings: int
    in_arrays: bool


def component_of(
    members: Iterable[Transfer], routes: RouteTable, share: Callable[[Transfer], None]
) -> Component:
    """Return all transfers that contended links connect to some members.

    Parameters
    ----------
    share : called with each uncontended transfer on such a link; makes it shared, or has it wait
        for its latency
    """
    known = dict.fromkeys(members)
    queue = list(known)
    contended: dict[int, None] = {}
    crossings, in_arrays, demands = 0, False, routes.demands
    for transfer in queue:
        for link in transfer.route.links:
            if demands[link] <= LIMIT or link in contended:
                continue
            contended[link] = None
            for route in routes.crossing(link):
                crossings += len(route.in_flight)
                for other in route.in_flight:
                    if other.phase == UNCONTENDED:
                        share(other)
                    if other.row >= 0:
                        in_arrays = True
                    elif other.phase == SHARED and other not in known:
                        known[other] = None
                        queue.append(other)
    queue.sort(key=by_number)
    return Component(queue, list(contended), crossings, in_arrays)
