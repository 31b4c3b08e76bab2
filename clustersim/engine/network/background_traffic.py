"""Communications concurrent with background traffic: their times, and the links that limit them.

The foreground runs once.  Each activity of the background is repeated as long as the foreground
runs, as the independent job of another user would be:

    foreground   |--------- all-reduce ---------|
    background   |-- all-to-all --|-- all-to-all --|

A foreground that lasts for thousands of repetitions is in a steady state: its first part is
replayed, and the rest continues at the rate of the second half of this part.
"""

from collections.abc import Sequence
from math import inf
from typing import Final

from simpy import Environment

from clustersim.engine.network.network import Network
from clustersim.engine.network.transfer import SHARED, Transfer
from clustersim.records import dataclass
from clustersim.traffic import Traffic

TIE = 1e-9
"""Relative difference below which rates, or a load and its capacity, count as equal."""


REPETITIONS: Final = 4_000
"""Repetitions of the background after which the rest of a foreground is extrapolated."""


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


def contention_of(
    traffic: Traffic, background: Sequence[Traffic], capacities: Sequence[float]
) -> tuple[float, Slowdown]:
    """Return when an activity completes that starts at 0 [s], and where contention limited it.

    With thousands of repetitions of the background the time has an error of about one of them.
    """
    alone = _uncontended(traffic, capacities)
    repeated = sum(alone / _uncontended(other, capacities) for other in _active(background))
    share = min(1.0, REPETITIONS / repeated) if repeated else 1.0

    def scene(share: float) -> _Scene:
        part = traffic._replace(nbytes=share * traffic.nbytes)
        return _Scene([part], background, capacities, most=4 * REPETITIONS)

    while (first := scene(share)).aborted:
        share /= 4
    if share == 1:
        return first.ends[0], _longest(first.limited[0])
    half, (limited,), more = scene(share / 2), first.limited, 2 / share - 2
    for link, seconds in limited.items():
        limited[link] = seconds + more * (seconds - half.limited[0].get(link, 0.0))
    return first.ends[0] + more * (first.ends[0] - half.ends[0]), _longest(limited)


def _uncontended(traffic: Traffic, capacities: Sequence[float]) -> float:
    """Return the time of an activity with its links to itself [s]."""
    return traffic.latency + traffic.nbytes / traffic.uncontended_rate(capacities)


def _active(background: Sequence[Traffic]) -> list[Traffic]:
    """Return the activities with bytes on a link: others would repeat without end."""
    return [traffic for traffic in background if traffic.nbytes and traffic.links]


def _longest(limited: dict[int, float]) -> Slowdown:
    link = max(limited, key=limited.__getitem__, default=None)
    return Slowdown(0.0, None) if link is None else Slowdown(limited[link], link)


class _Scene:
    """One run of the foreground concurrent with the background.

    Attributes
    ----------
    aborted : whether the background was repeated more often than `most` times
    ends : when each activity of the foreground completed [s]
    limited : for each of them, by link, how long the link limited it [s]
    """

    def __init__(
        self,
        foreground: Sequence[Traffic],
        background: Sequence[Traffic],
        capacities: Sequence[float],
        most: float = inf,
    ) -> None:
        self._env = env = Environment()
        self._network = Network(env, capacities, self._update_bottlenecks)
        self._running: dict[Transfer, int] = {}
        self._bottleneck: dict[Transfer, tuple[int | None, float]] = {}  # link, and since when
        self.ends = [0.0] * len(foreground)
        self.limited: list[dict[int, float]] = [{} for _ in foreground]
        for i, traffic in enumerate(foreground):
            self._running[self._network.start(traffic, self._finish)] = i
        self._remaining = most
        for traffic in _active(background):
            self._network.start(traffic, self._repeat)
        env.run()
        self.aborted = self._remaining < 0
        self._network.check()

    def _finish(self, transfer: Transfer) -> None:
        self._set_bottleneck(transfer, None)
        self.ends[self._running.pop(transfer)] = self._env.now

    def _repeat(self, transfer: Transfer) -> None:
        if self._running and self._remaining >= 0:
            self._remaining -= 1
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
    for other in network.routes.on_link[link]:
        if other.phase == SHARED:
            rate = network.rate(other)
            load += other.route.weight_at[link] * rate
            fastest = max(fastest, rate)
    return load, fastest
