"""Overlap: what a row of units takes when their data come and go while others compute.

    compute      | unit 0 | unit 1    | unit 2 |
    network   f0 | f1 | f2 | p0 |   p1 |    p2 |

Each unit is computed once what it needs is fetched, and what it made is pushed off afterwards.
The device computes one unit after another; every channel carries one thing after another, in the
order in which they are asked for.  Units are fetched a fixed number ahead of the one at work.

    computed(i)    = max(computed(i - 1), fetched(i)) + compute(i)
    asked(fetch i) = computed(i - 1 - ahead)          asked(push i) = computed(i)

With none ahead nothing runs beside anything: a unit is computed when the one before is pushed off.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

Channel = Literal["network", "from-host", "to-host"]
"""What carries data beside the compute stream: each works by itself, one thing after another."""


class Move(NamedTuple):
    """Something carried by a channel [s]."""

    channel: Channel
    seconds: float


class Unit(NamedTuple):
    """A piece of a block, such as a layer.

    Attributes
    ----------
    compute : what the device takes for it [s]
    fetch : moves that bring what it needs, each after the one before
    push : moves that take away what it made, each after the one before
    """

    compute: float
    fetch: tuple[Move, ...] = ()
    push: tuple[Move, ...] = ()

    @property
    def moved(self) -> float:
        """All of its moves, one after another [s]."""
        return sum(move.seconds for move in (*self.fetch, *self.push))


def total_seconds(units: Sequence[Unit], ahead: int) -> float:
    """Return the time from the first fetch to the last unit computed and pushed off [s].

    Parameters
    ----------
    ahead : units that are fetched before the one at work is done; with 0 nothing overlaps

    >>> layer = Unit(2.0, fetch=(Move("network", 1.0),))
    >>> total_seconds([layer, layer, layer], ahead=1)
    7.0
    >>> total_seconds([layer, layer, layer], ahead=0)
    9.0
    """
    if ahead == 0:
        return sum(unit.compute + unit.moved for unit in units)
    free: dict[Channel, float] = {}
    fetched: list[float] = []
    computed, pushed = 0.0, 0.0
    for number, unit in enumerate(units):
        wanted = units[len(fetched) : number + 1 + ahead]
        fetched += [_carried(other.fetch, computed, free) for other in wanted]
        computed = max(computed, fetched[number]) + unit.compute
        pushed = max(pushed, _carried(unit.push, computed, free))
    return max(computed, pushed)


def _carried(moves: Sequence[Move], asked: float, free: dict[Channel, float]) -> float:
    """Return when moves asked for at some instant are done, and note when channels are free."""
    done = asked
    for channel, seconds in moves:
        done = max(done, free.get(channel, 0.0)) + seconds
        free[channel] = done
    return done
