"""Schedules that run the backward of inputs and that of weights separately.

Zero bubble: backwards of weights are delayed until a stage would be idle (ZB-H1, ZB-H2, ZB-V).

    stage 0   F0 F1 F2 F3 I0 W0 F4 I1 W1 ...
    stage 3   F0 I0 F1 I1 F2 I2 F3 I3 W0 ...

In ZB-V each stage holds two chunks, one on the way down and one on the way back.
Qi et al. 2023, section 2.2, arXiv:2401.10241; Qi et al. 2024, section 3, arXiv:2405.15362.

DualPipe: two pipelines share every stage; forwards of one overlap with backwards of the other.

    dualpipe     two copies of the model, the second with its stages in opposite order
    dualpipe-v   one model folded in a V; its second half is the other pipeline

The expert exchange of one pipeline overlaps with the compute of the other.  DeepSeek-AI 2024,
section 3.2.1, arXiv:2412.19437; the order of steps is that of deepseek-ai/DualPipe,
``dualpipe.py`` and ``dualpipev.py``.
"""

from collections.abc import Iterator

from clustersim.program.schedules.steps import Schedule, Step, whole_batch
from clustersim.timeline import BACKWARD, FORWARD, INPUT, WEIGHT


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


def dualpipe(stage: int, stages: int, microbatches: int, chunks: int = 2) -> Iterator[Step]:
    """Yield one stage's steps: for stages of the second half the pipelines change places."""
    half, swapped = stages // 2, stage >= stages // 2
    near = min(stage, stages - 1 - stage)
    per_pipeline = microbatches // 2
    return _Stage(near, half, per_pipeline, swapped=swapped, base=per_pipeline).steps()


def dualpipe_v(stage: int, stages: int, microbatches: int, chunks: int = 2) -> Iterator[Step]:
    """Yield one stage's steps."""
    return _Stage(stage, stages, microbatches).steps()


class _Stage:
    """Progress of one stage: `phase` 0 is the pipeline that begins nearer to it, 1 the other.

    Parameters
    ----------
    near : stages between this one and the end where both pipelines begin
    half : stages up to the middle
    microbatches : of each pipeline
    swapped : whether phase 0 is the second chunk
    base : number of the first microbatch of the second chunk
    """

    def __init__(
        self, near: int, half: int, microbatches: int, *, swapped: bool = False, base: int = 0
    ) -> None:
        self.near, self.half, self.microbatches = near, half, microbatches
        self.swapped, self.base = swapped, base
        self.done = {(kind, phase): 0 for kind in (FORWARD, BACKWARD) for phase in (0, 1)}
        self.waiting: list[Step] = []

    def steps(self) -> Iterator[Step]:
        """Yield all steps, in the eight parts of the published order."""
        rest = self.half - self.near - 1
        yield from (self.forward(0) for _ in range(2 * rest))
        for _ in range(self.near + 1):
            yield self.forward(0)
            yield self.forward(1)
        for _ in range(rest):
            yield self.inputs(1)
            yield self.weights()
            yield self.forward(1)
        for number in range(self.microbatches - 2 * self.half + self.near + 1):
            paired = number > 0 or rest > 0  # the last stage runs its first two one by one
            yield from self.pair(0, 1) if paired else (self.forward(0), self.backward(1))
            yield from self.pair(1, 0)
        for _ in range(rest):
            yield self.backward(1)
            yield from self.pair(1, 0)
        yield from self.last_backwards()
        for _ in range(rest):
            yield self.weights()
            yield self.inputs(0)
        while self.waiting:
            yield self.weights()

    def last_backwards(self) -> Iterator[Step]:
        """Yield backwards of both pipelines by turns, the later half of them split."""
        count = self.near + 1
        for number in range(2 * count):
            split = number >= 2 * (count // 2) + (self.near + 1) % 2
            phase = 1 - number % 2
            yield self.inputs(phase) if split else self.backward(phase)

    def step(self, kind: str, phase: int, *, joined: bool = False) -> Step:
        """Return the step of a pipeline's next microbatch."""
        direction = FORWARD if kind == FORWARD else BACKWARD
        number = self.done[direction, phase]
        self.done[direction, phase] += 1
        chunk = 1 - phase if self.swapped else phase
        return Step(kind, number + self.base * chunk, chunk, joined)

    def forward(self, phase: int) -> Step:
        """Take the next microbatch of a pipeline forward."""
        return self.step(FORWARD, phase)

    def backward(self, phase: int) -> Step:
        """Return a pipeline's next whole backward."""
        return self.step(BACKWARD, phase)

    def inputs(self, phase: int) -> Step:
        """Return a pipeline's next backward of inputs; that of the weights is delayed."""
        step = self.step(INPUT, phase)
        self.waiting.append(step._replace(kind=WEIGHT))
        return step

    def weights(self) -> Step:
        """Return the oldest delayed backward of weights."""
        return self.waiting.pop(0)

    def pair(self, ahead: int, back: int) -> tuple[Step, Step]:
        """Return a forward of one pipeline and a concurrent backward of the other."""
        return self.step(FORWARD, ahead, joined=True), self.backward(back)


def _dualpipe_obstacle(stages: int, microbatches: int, chunks: int) -> str | None:
    if stages % 2 or microbatches % 2 or microbatches < 2 * stages:
        return (
            "needs an even number of stages, and an even number of microbatches, at least twice as"
            f" many (stages are {stages}, microbatches {microbatches})"
        )
    return None


def _dualpipe_v_obstacle(stages: int, microbatches: int, chunks: int) -> str | None:
    if microbatches < 2 * stages:
        return (
            "needs at least twice as many microbatches as stages"
            f" (stages are {stages}, microbatches {microbatches})"
        )
    return None


DUALPIPE = Schedule(
    "dualpipe",
    "Two copies of the model in opposite order, forwards of one overlapping backwards of the other",
    dualpipe,
    wiring="mirrored",
    chunks=(2, 2),
    split=True,
    paired=True,
    obstacle=_dualpipe_obstacle,
    period=lambda stages: 2,
)
DUALPIPE_V = Schedule(
    "dualpipe-v",
    "One model folded in a V, forwards of one half overlapping backwards of the other",
    dualpipe_v,
    wiring="v",
    chunks=(2, 2),
    split=True,
    paired=True,
    obstacle=_dualpipe_v_obstacle,
)
