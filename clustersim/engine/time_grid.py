"""The grid of instants of a replay: sums and differences of times on it are exact.

Durations are rounded once to multiples of 2^k seconds, chosen so that the whole step is less than
2^53 of them.  Then a period of a pipeline that begins a time later is the same period to the last
bit, which `steady_state` uses.  A duration changes by less than 2^-52 of the step.
"""

from collections.abc import Mapping
from math import frexp, ldexp
from typing import NamedTuple

from clustersim.program.program import Actor, Program
from clustersim.program.schedules.steps import Code

MANTISSA = 53
"""Bits of a double-precision number."""

CONTENTION = 2.0
"""Factor by which waiting and contention may prolong the step before its instants are rounded."""


class TimeGrid(NamedTuple):
    """Instants that are multiples of `step` [s]; 0 for all instants.

    `magnitude` is added to a duration and subtracted again, which rounds it to the grid: the sum
    has no bits for less than a step.

    >>> grid = TimeGrid.up_to(1000.0)
    >>> x, y = grid.round(0.1), grid.round(0.2)
    >>> (x + y) + 100.0 - 100.0 == x + y
    True
    """

    step: float
    magnitude: float

    @classmethod
    def up_to(cls, seconds: float) -> "TimeGrid":
        """Return the finest grid on which instants up to this one are exact."""
        if not seconds:
            return CONTINUOUS
        step = ldexp(1.0, frexp(seconds)[1] - MANTISSA)
        return cls(step, 1.5 * ldexp(step, MANTISSA - 1))

    def round(self, seconds: float) -> float:
        """Return the multiple of the step that is nearest to a duration [s]."""
        return seconds + self.magnitude - self.magnitude


CONTINUOUS = TimeGrid(0.0, 0.0)
"""Every instant that is a double-precision number."""


def time_grid(program: Program) -> TimeGrid:
    """Return the grid of a program: fine for the steps of its busiest rank, and one of each rank.

    A step that takes longer is replayed as well, with instants that are rounded.
    """
    ranks = [*zip(program.actors, program.rates, strict=True)]
    busiest = max(_work(*rank, program, repeated=True) for rank in ranks)
    once = sum(_work(*rank, program, repeated=False) for rank in ranks[: program.stages])
    return TimeGrid.up_to(CONTENTION * (busiest + once))


def _work(actor: Actor, rates: Mapping[Code, float], program: Program, *, repeated: bool) -> float:
    """Return the time of the blocks and transfers of a rank, of each code once or of all steps."""
    seconds = 0.0
    for code, times in program.order.times(actor.position.stage).items():
        traffic = actor.send[code]
        sent = 0.0
        if traffic is not None:
            sent = traffic.latency + traffic.nbytes / rates[code]
        seconds += (actor.blocks[code].seconds.total + sent) * (times if repeated else 1)
    return seconds
