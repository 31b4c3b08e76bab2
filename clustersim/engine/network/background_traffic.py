"""Communications concurrent with background traffic: their times, and the links that limit them.

The foreground runs once.  Each activity of the background is repeated as long as the foreground
runs, as the independent job of another user would be:

    foreground   |--------- all-reduce ---------|
    background   |-- all-to-all --|-- all-to-all --|
"""

from collections.abc import Sequence
from dataclasses import dataclass

from simpy import Environment

from clustersim.engine.network.network import Network
from clustersim.engine.network.transfer import SHARED, Transfer
from clustersim.traffic import Traffic

TIE = 1e-9
"""Relative difference below which rates, or a load and its capacity, count as equal."""


@dataclass(frozen=True)
class Slowdown:
    """The link at which contention limited an activity longest.

    Attributes
    ----------
    seconds : time that it was limited there [s]
    link : index of the link; None for an activity without contention
    """

    seconds: float
    link: int | None


def contended_seconds(
    foreground: Sequence[Traffic], background: Sequence[Traffic], capacities: Sequence[float]
) -> list[float]:
    """Return when each activity of the foreground completes, all having started at 0 [s].

    >>> def traffic(name, nbytes):
    ...     return Traffic(name, links=(0,), weights=(1.0,), nbytes=nbytes, latency=0.0)
    >>> contended_seconds([traffic("ours", 30.0)], [traffic("theirs", 10.0)], [10.0])
    [6.0]
    """
    return _Scene(foreground, background, capacities).ends


def slowdowns(
    foreground: Sequence[Traffic], background: Sequence[Traffic], capacities: Sequence[float]
) -> list[Slowdown]:
    """Return for each activity of the foreground where contention limited it longest.

    An activity is limited by the full link of its route on which no flow is faster, unless the
    activity itself fills that link.
    """
    return [_longest(limited) for limited in _Scene(foreground, background, capacities).limited]


def _longest(limited: dict[int, float]) -> Slowdown:
    link = max(limited, key=limited.__getitem__, default=None)
    return Slowdown(0.0, None) if link is None else Slowdown(limited[link], link)


class _Scene:
    """One run of the foreground concurrent with the background.

    Attributes
    ----------
    ends : when each activity of the foreground completed [s]
    limited : for each of them, by link, how long the link limited it [s]
    """

    def __init__(
        self,
        foreground: Sequence[Traffic],
        background: Sequence[Traffic],
        capacities: Sequence[float],
    ) -> None:
        self._env = env = Environment()
        self._network = Network(env, capacities, self._update_bottlenecks)
        self._running: dict[Transfer, int] = {}
        self._bottleneck: dict[Transfer, tuple[int | None, float]] = {}  # link, and since when
        self.ends = [0.0] * len(foreground)
        self.limited: list[dict[int, float]] = [{} for _ in foreground]
        for i, traffic in enumerate(foreground):
            self._running[self._network.start(traffic, self._finish)] = i
        for traffic in background:
            # Activities without bytes on a link cause no contention, and would repeat without end.
            if traffic.nbytes and traffic.links:
                self._network.start(traffic, self._repeat)
        env.run()
        self._network.check()

    def _finish(self, transfer: Transfer) -> None:
        self._set_bottleneck(transfer, None)
        self.ends[self._running.pop(transfer)] = self._env.now

    def _repeat(self, transfer: Transfer) -> None:
        if self._running:
            self._network.start(transfer.traffic, self._repeat)

    def _update_bottlenecks(self) -> None:
        """Record the links that limit the foreground from now on."""
        for transfer in self._running:
            self._set_bottleneck(transfer, _bottleneck_of(self._network, transfer))

    def _set_bottleneck(self, transfer: Transfer, link: int | None) -> None:
        """Record the link that limits a transfer from now on, and the time of the previous one."""
        before, since = self._bottleneck.get(transfer, (None, 0.0))
        if link == before:
            return
        now = float(self._env.now)
        if before is not None:
            limited = self.limited[self._running[transfer]]
            limited[before] = limited.get(before, 0.0) + now - since
        self._bottleneck[transfer] = link, now


def _bottleneck_of(network: Network, transfer: Transfer) -> int | None:
    """Return the full link that limits a transfer below its uncontended rate, if there is one.

    On that link no flow is faster; of several such links, the first of the route.
    """
    rate = network.rate(transfer)
    if transfer.phase != SHARED or rate >= transfer.route.rate * (1 - TIE):
        return None
    for link in transfer.route.links:
        if network.routes.contended(link):
            load, fastest = _load_of(network, link)
            if load >= network.capacities[link] * (1 - TIE) and fastest <= rate * (1 + TIE):
                return link
    return None


def _load_of(network: Network, link: int) -> tuple[float, float]:
    """Return the load of a contended link, and the rate of its fastest flow [B/s]."""
    load = fastest = 0.0
    for route in network.routes.crossing(link):
        weight = route.weights[route.links.index(link)]
        rates = [network.rate(other) for other in route.in_flight if other.phase == SHARED]
        load += weight * sum(rates)
        fastest = max(fastest, max(rates, default=0.0))
    return load, fastest
