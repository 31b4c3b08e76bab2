"""DualPipe: two pipelines share every stage; forwards of one overlap with backwards of the other.

    dualpipe     two copies of the model, the second with its stages in opposite order
    dualpipe-v   one model folded in a V; its second half is the other pipeline

The expert exchange of one pipeline overlaps with the compute of the other.  DeepSeek-AI 2024,
section 3.2.1, arXiv:2412.19437; the order of steps is that of deepseek-ai/DualPipe,
``dualpipe.py`` and ``dualpipev.py``.
"""

from collections.abc import Iterator

from clustersim.program.schedules.steps import Schedule, Step
from clustersim.timeline import BACKWARD, FORWARD, INPUT, WEIGHT


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
