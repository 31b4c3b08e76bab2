"""Which links can limit transfers: the network needs no others.

    n0.dev0>n0.nic0     a flow takes 1/63 of it for each GB/s
    n0.nic0>leaf0       1/47
    leaf0>spines0       16/752 = 1/47, of 16 NICs

Where each transfer takes no larger share of a link than of another one, the other one is full when
the link is, and crossed by all that cross the link.  So max-min fair rates are the same without it.
"""

from collections.abc import Collection, Mapping, Sequence

from clustersim.traffic import Traffic

Shares = Mapping[int, float]
"""For each transfer on a link, by its number, the share that it takes at a rate of 1 [s/B]."""


def limiting_links(moved: Collection[Traffic], capacities: Sequence[float]) -> frozenset[int]:
    """Return the links that can limit some traffic; the first of those that limit it alike.

    >>> both = Traffic("both", (0, 1, 2), (1.0, 1.0, 2.0), 8.0, 0.0)
    >>> sorted(limiting_links([both, Traffic("one", (2,), (2.0,), 8.0, 0.0)], [4.0, 6.0, 8.0]))
    [2]
    """
    shares: dict[int, dict[int, float]] = {}
    routes = [traffic.links for traffic in moved]
    for number, traffic in enumerate(moved):
        for link, weight in traffic.crossings():
            shares.setdefault(link, {})[number] = weight / capacities[link]
    return frozenset(link for link in shares if not _spared(link, shares, routes))


def _spared(link: int, shares: Mapping[int, Shares], routes: Sequence[tuple[int, ...]]) -> bool:
    """Return whether another link limits all that cross a link before it does."""
    own = shares[link]
    shortest = min((routes[number] for number in own), key=len)
    return any(
        _within(own, shares[other]) and (other < link or not _within(shares[other], own))
        for other in shortest
        if other != link
    )


def _within(own: Shares, other: Shares) -> bool:
    """Return whether each transfer takes no larger share of a link than of another one."""
    return all(share <= other.get(number, 0.0) for number, share in own.items())
