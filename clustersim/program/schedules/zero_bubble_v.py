"""Zero bubble in a V: each stage holds two chunks, one on the way down and one on the way back."""

from collections.abc import Iterator

from clustersim.program.schedules.schedule import Schedule
from clustersim.program.steps import FORWARD, INPUT, WEIGHT, Step


def zb_v(stage: int, stages: int, microbatches: int, chunks: int = 2) -> Iterator[Step]:
    """Yield one stage's steps; with F = I = W no stage waits between its first and its last.

    The order is made for at least 2 p - 1 microbatches; of fewer, those that there are not are
    left out. Qi et al. 2024, section 3, arXiv:2405.15362, where it is V-ZB; the order of PyTorch,
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
    """How far a chunk has got with each kind of step."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.done = dict.fromkeys((FORWARD, INPUT, WEIGHT), 0)

    def next(self, kind: str) -> Step:
        """Take the next microbatch."""
        self.done[kind] += 1
        return Step(kind, self.done[kind] - 1, self.number)

    def both(self) -> tuple[Step, Step]:
        """Take the next microbatch backward, inputs and weights."""
        return self.next(INPUT), self.next(WEIGHT)


ZB_V = Schedule(
    "zb-v",
    "Zero bubble in a V of two chunks a stage",
    zb_v,
    wiring="v",
    chunks=(2, 2),
    split=True,
)
