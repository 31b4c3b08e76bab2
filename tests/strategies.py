"""Generators that several test files share, and the smallest programs that can be replayed."""

from typing import NamedTuple

from hypothesis import strategies as st

from clustersim.program import uniform
from clustersim.program.schedules import SCHEDULES
from clustersim.program.schedules.batch_order import batch_order
from clustersim.program.schedules.steps import Order, Row
from clustersim.program.uniform import NO_TAIL
from clustersim.timeline import BACKWARD, FORWARD, INPUT, WEIGHT

CLASSIC = ("gpipe", "1f1b", "interleaved-1f1b")
"""Schedules that split no backward, in chunks that loop."""


class Shape(NamedTuple):
    """A schedule and the pipeline that it is for."""

    schedule: str
    stages: int
    microbatches: int
    chunks: int

    @property
    def rows(self) -> list[Row]:
        """Return the steps of each stage."""
        return SCHEDULES[self.schedule].rows(self.stages, self.microbatches, self.chunks)

    @property
    def order(self) -> Order:
        """Return the steps of all stages as numbers."""
        schedule = SCHEDULES[self.schedule]
        return batch_order(schedule, self.stages, self.microbatches, self.chunks)

    @property
    def wiring(self):
        """Return how the chunks make up the model."""
        return SCHEDULES[self.schedule].wired(self.stages, self.chunks)


@st.composite
def shapes(draw, schedules=CLASSIC):
    """Up to 8 stages, 16 microbatches and 4 chunks, as the schedule allows."""
    schedule = SCHEDULES[draw(st.sampled_from(sorted(schedules)))]
    least, most = schedule.chunks
    chunks = draw(st.integers(least, most or 4))
    allowed = [
        (stages, microbatches)
        for stages in range(1, 9)
        for microbatches in range(1, 17)
        if schedule.misfit(stages, microbatches, chunks) is None
    ]
    return Shape(schedule.name, *draw(st.sampled_from(allowed)), chunks)


def durations(least=0.001):
    """Seconds of a block."""
    return st.floats(least, 100.0, allow_nan=False)


def uniform_program(shape, forward=1.0, backward=2.0, *, weights=None, factors=None, **facts):
    """Return a program of equal stages, each with links of its own up and down.

    `forward` and `backward` are of a whole stage, `weights` is the part of the backward that can
    wait, half of it if it is left out; `factors` by stage make some of them longer.
    """
    late = backward / 2 if weights is None else weights
    whole = {FORWARD: forward, BACKWARD: backward, INPUT: backward - late, WEIGHT: late}
    seconds = {kind: taken / shape.chunks for kind, taken in whole.items()}
    return uniform.uniform_program(
        shape.order, shape.wiring, shape.microbatches, seconds, factors or (), **facts
    )


__all__ = ["CLASSIC", "NO_TAIL", "Shape", "durations", "shapes", "uniform_program"]
