"""Generators that several test files share, and the smallest programs that can be replayed."""

from typing import NamedTuple

from hypothesis import strategies as st

from clustersim.cost.compute import Seconds
from clustersim.program.ops import (
    BACKWARD,
    FORWARD,
    Actor,
    Block,
    Fused,
    Position,
    Program,
    Step,
    Tail,
    hand_over,
)
from clustersim.program.schedules import grid
from clustersim.traffic import Traffic

NO_TAIL = Tail((), False, None, 0.0, ())
NONE = Seconds()


class Shape(NamedTuple):
    """A schedule and the pipeline that it is for."""

    schedule: str
    stages: int
    microbatches: int
    chunks: int

    @property
    def rows(self) -> list[tuple[Step, ...]]:
        """Return the steps of each stage."""
        return grid(*self)


@st.composite
def shapes(draw, schedules=("gpipe", "1f1b", "interleaved-1f1b")):
    """Up to 8 stages, 16 microbatches and 4 chunks, as the schedule allows."""
    schedule = draw(st.sampled_from(schedules))
    if schedule != "interleaved-1f1b":
        return Shape(schedule, draw(st.integers(1, 8)), draw(st.integers(1, 16)), 1)
    stages = draw(st.integers(2, 8))
    laps = draw(st.integers(1, 16 // stages))
    return Shape(schedule, stages, laps * stages, draw(st.integers(2, 4)))


def durations(least=0.001):
    """Seconds of a block."""
    return st.floats(least, 100.0, allow_nan=False)


def uniform_program(
    shape, forward=1.0, backward=2.0, *, latency=0.0, nbytes=0.0, bandwidth=1.0, blocking=False,
    tail=NO_TAIL, norm_sync=0.0, factors=None,
):  # fmt: skip
    """Return a program of equal stages, each with links of its own up and down.

    `forward` and `backward` are of a whole stage, `factors` by stage make some of them longer;
    a transfer takes `latency` and its `nbytes` over `bandwidth`.
    """
    _, stages, microbatches, chunks = shape
    factors = factors or [1.0] * stages
    actors = []
    for stage, steps in enumerate(grid(*shape)):
        blocks, send = {}, {}
        for chunk in range(chunks):
            for kind, whole in ((FORWARD, forward), (BACKWARD, backward)):
                seconds = whole * factors[stage] / chunks
                blocks[kind, chunk] = Block(Seconds(gemm=seconds), NONE, (seconds,))
                link = 2 * stage + (kind == BACKWARD)
                moved = Traffic(f"{kind} of {stage}", (link,), (1.0,), nbytes, latency, bandwidth)
                onward = hand_over(Step(kind, 0, chunk), stage, stages, chunks)
                send[kind, chunk] = None if onward is None else moved
        actors.append(Actor(Position(0, stage), 1, (0,), steps, blocks, send, tail))
    return Program(
        actors=tuple(actors),
        stages=stages,
        chunks=chunks,
        microbatches=microbatches,
        parts=1,
        blocking=blocking,
        norm_sync=norm_sync,
        capacities=(bandwidth,) * (2 * stages),
        link_names=tuple(f"{way} of {s}" for s in range(stages) for way in ("up", "down")),
        fused=Fused(True, 0.0),
        carried=(),
        limits={},
    )
