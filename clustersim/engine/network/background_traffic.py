"""Communications beside background traffic: when each is through, and which link held it back.

The foreground runs once.  Each activity of the background starts again whenever it ends, as long
as the foreground runs, as a neighbour's job does that knows nothing of ours:

    foreground   |--------- all-reduce ---------|
    background   |-- all-to-all --|-- all-to-all --|
"""

from collections.abc import Sequence
from dataclasses import dataclass

from simpy import Environment

from clustersim.engine.network.network import Network
from clustersim.engine.network.transfer import Transfer
from clustersim.traffic import Traffic


@dataclass(frozen=True)
class Held:
    """How long others held an activity below its own pace, at the link that did so longest.

    Attributes
    ----------
    seconds : time that it was held there [s]
    link : index of the link; None for an activity that nobody slowed down
    """

    seconds: float
    link: int | None


def seconds_together(
    foreground: Sequence[Traffic], background: Sequence[Traffic], capacities: Sequence[float]
) -> list[float]:
    """Return when each activity of the foreground is through, all having started at 0 [s].

    >>> def traffic(name, nbytes):
    ...     return Traffic(name, links=(0,), weights=(1.0,), nbytes=nbytes, latency=0.0)
    >>> seconds_together([traffic("mine", 30.0)], [traffic("theirs", 10.0)], [10.0])
    [6.0]
    """
    return _Scene(foreground, background, capacities).ends


def held_back(
    foreground: Sequence[Traffic], background: Sequence[Traffic], capacities: Sequence[float]
) -> list[Held]:
    """Return for each activity of the foreground where others held it longest.

    The link that holds an activity is the full one on its way on which nobody is faster; where it
    is full by the activity alone, nobody is held back.
    """
    return [_longest(held) for held in _Scene(foreground, background, capacities).held]


def _longest(held: dict[int, float]) -> Held:
    link = max(held, key=held.__getitem__, default=None)
    return Held(0.0, None) if link is None else Held(held[link], link)


class _Scene:
    """One run of the foreground beside the background.

    Attributes
    ----------
    ends : when each activity of the foreground was through [s]
    held : for each of them, how long which link held it [s]
    """

    def __init__(
        self,
        foreground: Sequence[Traffic],
        background: Sequence[Traffic],
        capacities: Sequence[float],
    ) -> None:
        self._env = env = Environment()
        self._network = Network(env, capacities, self._look)
        self._running: dict[Transfer, int] = {}
        self._held: dict[Transfer, tuple[int | None, float]] = {}  # by which link, since when
        self.ends = [0.0] * len(foreground)
        self.held: list[dict[int, float]] = [{} for _ in foreground]
        for i, traffic in enumerate(foreground):
            self._running[self._network.start(traffic, self._finish)] = i
        for traffic in background:
            # What puts no bytes on a link disturbs nobody, and could start again in no time.
            if traffic.nbytes and traffic.links:
                self._network.start(traffic, self._again)
        env.run()
        self._network.check()

    def _finish(self, transfer: Transfer) -> None:
        self._hold(transfer, None)
        self.ends[self._running.pop(transfer)] = self._env.now

    def _again(self, transfer: Transfer) -> None:
        if self._running:
            self._network.start(transfer.traffic, self._again)

    def _look(self) -> None:
        """Note who is held by which link from now on."""
        for transfer in self._running:
            self._hold(transfer, self._network.held_by(transfer))

    def _hold(self, transfer: Transfer, link: int | None) -> None:
        """Note which link holds a transfer from now on, and for how long another one did."""
        before, since = self._held.get(transfer, (None, 0.0))
        if link == before:
            return
        now = float(self._env.now)
        if before is not None:
            held = self.held[self._running[transfer]]
            held[before] = held.get(before, 0.0) + now - since
        self._held[transfer] = link, now
