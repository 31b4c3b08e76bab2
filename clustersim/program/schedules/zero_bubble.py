"""Zero bubble: backwards of weights are delayed until a stage would be idle (ZB-H1, ZB-H2, ZB-V).

    stage 0   F0 F1 F2 F3 I0 W0 F4 I1 W1 ...
    stage 3   F0 I0 F1 I1 F2 I2 F3 I3 W0 ...

In ZB-V each stage holds two chunks, one on the way down and one on the way back.
Qi et al. 2023, section 2.2, arXiv:2401.10241; Qi et al. 2024, section 3, arXiv:2405.15362.
"""

from collections.abc import Iterator

from clustersim.program.schedules.steps import Schedule, Step, whole_batch
from clustersim.timeline import FORWARD, INPUT, WEIGHT


def zb_h1(stage: int, stages: int, microbatches: int, chunks: int = 1) -> Iterator[Step]:
    """Yield one stage's steps: 1F1B with each W delayed, by one microbatch for each previous stage.

    As many microbatches are in flight on every stage as on the first one of 1F1B.
    """
    return _delayed(stages - stage - 1, stage, microbatches)


def zb_h2(stage: int, stages: int, microbatches: int, chunks: int = 1) -> Iterator[Step]:
    """Yield one stage's steps: twice the warm-up of ZB-H1, and W delayed twice as much.

    Up to 2 p - 1 microbatches are in flight on each of p stages. Stages neither begin nor end at
    the same time, so that synchronisation before the optimiser costs a part of the gain.
    """
    return _delayed(2 * (stages - stage - 1), 2 * stage, microbatches)


def _delayed(warmup: int, delay: int, microbatches: int) -> Iterator[Step]:
    """Yield 1F1B after some forwards, each W `delay` microbatches after its I."""
    warmup = min(warmup, microbatches)
    forwards, inputs, weights = (whole_batch(k, microbatches) for k in (FORWARD, INPUT, WEIGHT))
    yield from forwards[:warmup]
    for at in range(microbatches):
        yield from forwards[warmup + at : warmup + at + 1]
        yield inputs[at]
        yield from weights[at - delay : at - delay + 1] if at >= delay else ()
    yield from weights[max(0, microbatches - delay) :]


ZB_H1 = Schedule("zb-h1", "Zero bubble with the memory of 1F1B", zb_h1, split=True)
ZB_H2 = Schedule("zb-h2", "Zero bubble with twice the memory of 1F1B", zb_h2, split=True)


def zb_v(stage: int, stages: int, microbatches: int, chunks: int = 2) -> Iterator[Step]:
    """Yield one stage's steps; with F = I = W no stage is idle between its first and its last.

    The order is defined for at least 2 p - 1 microbatches; with fewer, the steps of the others
    are omitted. Qi et al. 2024, section 3, where it is V-ZB; the order of PyTorch,
    ``torch/distributed/pipelining/schedules.py``, ``ScheduleZBVZeroBubble``.
    """
    full = max(2 * stages - 1, microbatches)
    return (step for step in _order(stage, stages, full) if step.microbatch < microbatches)


def _order(stage: int, stages: int, microbatches: int) -> Iterator[Step]:
    """Yield the steps of at least 2 p - 1 microbatches."""
    down, up = _Chunk(0), _Chunk(1)
    for _ in range(2 * (stages - stage) - 1):
        yield down.next(FORWARD)
    for _ in range(stage):
        yield up.next(FORWARD)
        yield down.next(FORWARD)
    for _ in range(stages - stage):
        yield up.next(FORWARD)
        yield from up.both()
    while up.done[FORWARD] < microbatches:
        if down.done[FORWARD] < microbatches:
            yield down.next(FORWARD)
        yield from down.both()
        yield up.next(FORWARD)
        yield from up.both()
    for _ in range(stage):
        yield down.next(INPUT)
        yield up.next(INPUT)
    for _ in range(stages - stage):
        yield down.next(INPUT)
        yield down.next(WEIGHT)
    for chunk in (up, down):
        while chunk.done[WEIGHT] < microbatches:
            yield chunk.next(WEIGHT)


class _Chunk:
    """Progress of a chunk with each kind of step."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.done = dict.fromkeys((FORWARD, INPUT, WEIGHT), 0)

    def next(self, kind: str) -> Step:
        """Return the step of the next microbatch."""
        self.done[kind] += 1
        return Step(kind, self.done[kind] - 1, self.number)

    def both(self) -> tuple[Step, Step]:
        """Return both steps of the next backward, inputs and weights."""
        return self.next(INPUT), self.next(WEIGHT)


ZB_V = Schedule(
    "zb-v",
    "Zero bubble in a V of two chunks a stage",
    zb_v,
    wiring="v",
    chunks=(2, 2),
    split=True,
)
