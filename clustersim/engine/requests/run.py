"""Steps of an engine that differ in their contexts alone, derived in one go."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from math import nan

from clustersim.engine.requests.request import Request
from clustersim.inference.batch import Batch, Stretch, end_of


class Run:
    """A step, or steps that differ in their contexts alone, one after another.

    It is used as the event of its end.

    Attributes
    ----------
    batch : what the first step processes; a recomputed last token of a prompt decodes
    chunks : the requests whose prompts it processes, with their new tokens
    decoding : sequences that gain tokens, without those whose prompt ends in a recomputed token
    copying : time to copy KV blocks [s]
    admitting : whether requests were admitted as far as there was room
    waiting : requests without KV blocks when it begins
    start, end : of the first step, and of the last one [s]
    stretches : times of the steps
    growth : KV blocks that each step after the first needs
    callbacks : what its end calls; nothing if it was cut before
    """

    __slots__ = (
        "admitting", "batch", "callbacks", "chunks", "copying", "decoding", "end",
        "growth", "start", "stretches", "waiting",
    )  # fmt: skip
    _ok = True

    def __init__(
        self, batch: Batch, chunks: list[tuple[Request, int]], decoding: int, copying: float,
        admitting: bool, waiting: int,
    ) -> None:  # fmt: skip
        self.batch, self.chunks, self.decoding = batch, chunks, decoding
        self.copying, self.admitting, self.waiting = copying, admitting, waiting
        self.start = self.end = nan
        self.stretches: list[Stretch] = []
        self.growth: list[int] = []
        self.callbacks: Sequence[Callable[[Run], None]] = ()

    @property
    def steps(self) -> int:
        """Number of steps."""
        return 1 + len(self.growth)

    def begin(self, start: float, stretches: list[Stretch], growth: list[int]) -> None:
        """Set when its steps begin and end, and the KV blocks that they need."""
        self.start, self.stretches, self.growth = start, stretches, growth
        self.end = end_of(stretches[-1])

    def complete(self, now: float) -> int:
        """Return how many steps end before a time."""
        steps = 0
        for stretch in self.stretches:
            start, seconds, growth, count = stretch
            if end_of(stretch) >= now:
                each = range(1, count + 1)
                return steps + bisect_left(
                    each, now, key=lambda k: start + k * (seconds + growth * (k - 1))
                )
            steps += count
        return steps

    def first(self, steps: int) -> list[Stretch]:
        """Return the times of its first steps."""
        stretches = []
        for start, seconds, growth, count in self.stretches:
            stretches.append((start, seconds, growth, min(count, steps)))
            steps -= count
            if steps <= 0:
                break
        return stretches

    def cut(self, steps: int) -> None:
        """End it after its first steps."""
        self.begin(self.start, self.first(steps), self.growth[: steps - 1])
