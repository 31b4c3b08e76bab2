"""DualPipe: two pipelines meet on every stage, forwards of one run beside backwards of the other.

    dualpipe     two copies of the model, the second with its stages in opposite order
    dualpipe-v   one model folded in a V; its way back is the other pipeline

What one pipeline sends to its experts travels while the other computes.  DeepSeek-AI 2024, section
3.2.1, arXiv:2412.19437; the order of steps is that of deepseek-ai/DualPipe, ``dualpipe.py`` and
``dualpipev.py``.
"""

from collections.abc import Iterator

from clustersim.program.schedules.schedule import Schedule
from clustersim.program.steps import BACKWARD, FORWARD, INPUT, WEIGHT, Step


def dualpipe(stage: int, stages: int, microbatches: int, chunks: int = 2) -> Iterator[Step]:
    """Yield one stage's steps: stages of the second half see both pipelines the other way round."""
    half, turned = stages // 2, stage >= stages // 2
    near = min(stage, stages - 1 - stage)
    each = microbatches // 2
    return _Stage(near, half, each, turned=turned, base=each).steps()


def dualpipe_v(stage: int, stages: int, microbatches: int, chunks: int = 2) -> Iterator[Step]:
    """Yield one stage's steps."""
    return _Stage(stage, stages, microbatches).steps()


class _Stage:
    """One stage on its way: `phase` 0 is the pipeline that begins here or nearer, 1 the other.

    Parameters
    ----------
    near : stages between this one and the end where both pipelines begin
    half : stages up to the turn
    each : microbatches of each pipeline
    turned : whether phase 0 is the second chunk
    base : what microbatches of the second chunk are counted from
    """

    def __init__(
        self, near: int, half: int, each: int, *, turned: bool = False, base: int = 0
    ) -> None:
        self.near, self.half, self.each = near, half, each
        self.turned, self.base = turned, base
        self.done = {(kind, phase): 0 for kind in (FORWARD, BACKWARD) for phase in (0, 1)}
        self.waiting: list[Step] = []

    def steps(self) -> Iterator[Step]:
        """Yield all steps, in the eight parts of the published order."""
        left = self.half - self.near - 1
        yield from (self.forward(0) for _ in range(2 * left))
        for _ in range(self.near + 1):
            yield self.forward(0)
            yield self.forward(1)
        for _ in range(left):
            yield self.inputs(1)
            yield self.weights()
            yield self.forward(1)
        for lap in range(self.each - 2 * self.half + self.near + 1):
            together = lap > 0 or left > 0  # at the turn the first pair is not run together
            yield from self.beside(0, 1) if together else (self.forward(0), self.backward(1))
            yield from self.beside(1, 0)
        for _ in range(left):
            yield self.backward(1)
            yield from self.beside(1, 0)
        yield from self.last_backwards()
        for _ in range(left):
            yield self.weights()
            yield self.inputs(0)
        while self.waiting:
            yield self.weights()

    def last_backwards(self) -> Iterator[Step]:
        """Yield backwards of both pipelines in turn, the later half of them split."""
        count = self.near + 1
        for number in range(2 * count):
            split = number >= 2 * (count // 2) + (self.near + 1) % 2
            phase = 1 - number % 2
            yield self.inputs(phase) if split else self.backward(phase)

    def step(self, kind: str, phase: int, *, joined: bool = False) -> Step:
        """Take the next microbatch of a pipeline."""
        way = FORWARD if kind == FORWARD else BACKWARD
        number = self.done[way, phase]
        self.done[way, phase] += 1
        chunk = 1 - phase if self.turned else phase
        return Step(kind, number + self.base * chunk, chunk, joined)

    def forward(self, phase: int) -> Step:
        """Take the next microbatch of a pipeline forward."""
        return self.step(FORWARD, phase)

    def backward(self, phase: int) -> Step:
        """Take the next microbatch of a pipeline backward."""
        return self.step(BACKWARD, phase)

    def inputs(self, phase: int) -> Step:
        """Take the next microbatch of a pipeline backward, but leave its weights for later."""
        step = self.step(INPUT, phase)
        self.waiting.append(step._replace(kind=WEIGHT))
        return step

    def weights(self) -> Step:
        """Make up for the oldest weights that were left."""
        return self.waiting.pop(0)

    def beside(self, ahead: int, back: int) -> tuple[Step, Step]:
        """Take one pipeline forward and the other backward at once."""
        return self.step(FORWARD, ahead, joined=True), self.backward(back)


def _dualpipe_asks(stages: int, microbatches: int, chunks: int) -> str | None:
    if stages % 2 or microbatches % 2 or microbatches < 2 * stages:
        return (
            "needs an even number of stages, and an even number of microbatches, at least twice as"
            f" many (stages are {stages}, microbatches {microbatches})"
        )
    return None


def _dualpipe_v_asks(stages: int, microbatches: int, chunks: int) -> str | None:
    if microbatches < 2 * stages:
        return (
            "needs at least twice as many microbatches as stages"
            f" (stages are {stages}, microbatches {microbatches})"
        )
    return None


DUALPIPE = Schedule(
    "dualpipe",
    "Two copies of the model in opposite order, forwards of one beside backwards of the other",
    dualpipe,
    wiring="mirrored",
    chunks=(2, 2),
    split=True,
    asks=_dualpipe_asks,
)
DUALPIPE_V = Schedule(
    "dualpipe-v",
    "One model folded in a V, forwards of one half beside backwards of the other",
    dualpipe_v,
    wiring="v",
    chunks=(2, 2),
    split=True,
    asks=_dualpipe_v_asks,
)
