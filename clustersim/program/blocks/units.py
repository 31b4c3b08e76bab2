"""Overlap: the time of a block whose data are moved while other layers compute.

    compute      | unit 0 | unit 1    | unit 2 |
    network   f0 | f1 | f2 | p0 |   p1 |    p2 |

Each unit (the layers, and what comes before and after them) is computed when its data have been
fetched, and pushes its results afterwards.  The device computes one unit after another; every
channel carries one move after another, in the order of the requests.  Units are fetched a fixed
number ahead of the current one.

    computed(i)          = max(computed(i - 1), fetched(i)) + compute(i)
    requested(fetch i)   = computed(i - 1 - ahead)        requested(push i) = computed(i)

With none ahead nothing overlaps: a unit is computed after the previous one has pushed its results.
A move may also be requested late, some time before the end of the unit that runs then.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from clustersim.program.collectives.axes import Call
from clustersim.traffic import Traffic

Channel = Literal["network", "from-host", "to-host"]
"""What carries data concurrently with the compute stream, one move after another."""


class OnStage(NamedTuple):
    """A collective that all replicas of a stage run together, on links that it shares."""

    traffic: Traffic


Shared = Traffic | OnStage
"""A collective inside a block that other traffic on its links can slow down."""


class SharedCollectives(NamedTuple):
    """The collectives inside blocks of a stage that share links, as traffic.

    Attributes
    ----------
    inner, moves : those between kernels, and those that move weights and gradients
    always : whether links are shared in every step, rather than only during the reduction of
        gradients
    serial : whether concurrent steps run one after another
    """

    inner: Mapping[Call, Shared]
    moves: Mapping[Call, Shared]
    always: bool = False
    serial: bool = False

    @property
    def any(self) -> bool:
        """Whether any collective of the stage shares links."""
        return bool(self.inner or self.moves)


NOT_SHARED: Final = SharedCollectives({}, {})


class Move(NamedTuple):
    """A move of data on a channel.

    Attributes
    ----------
    seconds : time on uncontended links [s]
    shared : the traffic of a move that shares links
    late : time before the end of the unit that runs at its request, before which it does not start
        [s]; None where it starts at once
    """

    channel: Channel
    seconds: float
    shared: Shared | None = None
    late: float | None = None


class Unit(NamedTuple):
    """A piece of a block, such as a layer.

    Attributes
    ----------
    compute : time on the device [s]
    fetch : moves of its data, one after another
    push : moves of its results, one after another
    segments : times [s] of its kernels, and between them the collectives that share links; empty
        where none does
    """

    compute: float
    fetch: tuple[Move, ...] = ()
    push: tuple[Move, ...] = ()
    segments: tuple[float | Shared, ...] = ()

    @property
    def moves(self) -> tuple[Move, ...]:
        """All its moves."""
        return (*self.fetch, *self.push)

    @property
    def moved(self) -> float:
        """Time of all its moves, one after another [s]."""
        return sum(move.seconds for move in self.moves)


def total_seconds(units: Sequence[Unit], ahead: int) -> float:
    """Return the time from the first fetch to the end of the last compute and push [s].

    Parameters
    ----------
    ahead : units that are fetched ahead of the current one; with 0 nothing overlaps

    >>> layer = Unit(2.0, fetch=(Move("network", 1.0),))
    >>> total_seconds([layer, layer, layer], ahead=1)
    7.0
    >>> total_seconds([layer, layer, layer], ahead=0)
    9.0
    >>> late = Unit(2.0, fetch=(Move("network", 1.0, late=0.5),))
    >>> total_seconds([late, late, late], ahead=1)
    8.0
    """
    if ahead == 0:
        return sum(unit.compute + unit.moved for unit in units)
    free: dict[Channel, float] = {}
    fetched: list[float] = []
    computed, pushed = 0.0, 0.0
    for number, unit in enumerate(units):
        for other in units[len(fetched) : number + 1 + ahead]:
            runs = len(fetched) > number
            begun = max(computed, fetched[number]) if runs else computed
            running = begun, unit.compute if runs else 0.0
            fetched.append(_carry(other.fetch, computed, free, running))
        computed = max(computed, fetched[number]) + unit.compute
        pushed = max(pushed, _carry(unit.push, computed, free))
    return max(computed, pushed)


def _carry(
    moves: Sequence[Move],
    requested: float,
    free: dict[Channel, float],
    running: tuple[float, float] = (0.0, 0.0),
) -> float:
    """Return when moves that are requested at an instant end, and update when channels are free.

    Parameters
    ----------
    running : start and duration of the unit that runs at the request [s]
    """
    done, (begun, compute) = requested, running
    for channel, seconds, _, late in moves:
        start = requested if late is None else begun + max(0.0, compute - late)
        done = max(done, start, free.get(channel, 0.0)) + seconds
        free[channel] = done
    return done


class Units(NamedTuple):
    """A block unit by unit, where its collectives share links.

    Attributes
    ----------
    units : in the order in which they run
    ahead : units that are fetched ahead of the current one; with 0 nothing overlaps
    rest : time after the last unit: host, local copies, and kernels slowed by collectives [s]
    always : whether links are shared in every step, rather than only during the reduction of
        gradients
    """

    units: tuple[Unit, ...]
    ahead: int
    rest: float
    always: bool


# --- longer kernels ------------------------------------------------------------------------------


def stretched_segments(
    segments: Sequence[float | Traffic], seconds: float
) -> tuple[float | Traffic, ...]:
    """Return a block in segments whose kernels take some time more in total, evenly [s].

    >>> stretched_segments((1.0, 3.0), 2.0)
    (1.5, 4.5)
    """
    if len(segments) == 1 and not isinstance(segments[0], Traffic):
        return (segments[0] + seconds,)
    total = sum(part for part in segments if not isinstance(part, Traffic))
    if not total:
        return (*segments, seconds)
    factor = (total + seconds) / total
    return tuple(part if isinstance(part, Traffic) else part * factor for part in segments)


def stretched_units(units: Units, seconds: float) -> Units:
    """Return a block in units whose kernels take some time more in total, evenly [s]."""
    total = units.rest + sum(map(_kernels, units.units))
    if not total:
        return units._replace(rest=seconds)
    factor = (total + seconds) / total
    return units._replace(
        units=tuple(
            unit._replace(
                compute=unit.compute * factor,
                segments=tuple(
                    part * factor if isinstance(part, float) else part for part in unit.segments
                ),
            )
            for unit in units.units
        ),
        rest=units.rest * factor,
    )


def _kernels(unit: Unit) -> float:
    """Return the time of a unit without the collectives that share links [s]."""
    if not unit.segments:
        return unit.compute
    return sum(part for part in unit.segments if isinstance(part, float))
