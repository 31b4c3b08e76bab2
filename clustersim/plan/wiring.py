"""Wirings: which part of the model each chunk of a stage holds, and who gets what it makes.

    loop       chunk c of stage s holds part c p + s            0 1 2 3 | 4 5 6 7
    v          every other chunk goes back up the stages        0 1 2 3 | 7 6 5 4
    mirrored   two whole models, the second turned round        0 1 2 3 | 3 2 1 0

with p stages; parts are those of four stages with two chunks each.  Where it is mirrored half of
the microbatches go through either model.
"""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, get_args

WiringName = Literal["loop", "v", "mirrored"]

WIRINGS: Final[tuple[str, ...]] = get_args(WiringName)


class Place(NamedTuple):
    """A chunk of a stage."""

    stage: int
    chunk: int


@dataclass(frozen=True)
class Wiring:
    """How the chunks of all stages make up the model."""

    name: WiringName
    stages: int
    chunks: int

    @property
    def parts(self) -> int:
        """Parts that the model is cut into."""
        return self.stages if self.name == "mirrored" else self.stages * self.chunks

    @property
    def copies(self) -> int:
        """Chunks that hold the same part."""
        return self.stages * self.chunks // self.parts

    @property
    def ends_meet(self) -> bool:
        """Whether the first stage holds the end of the model as well."""
        return any(self.part(0, chunk) == self.parts - 1 for chunk in range(self.chunks))

    def part(self, stage: int, chunk: int) -> int:
        """Return which part of the model a chunk holds, counted from the embedding."""
        along = self.stages - 1 - stage if self._turned(chunk) else stage
        return along if self.name == "mirrored" else chunk * self.stages + along

    def onward(self, stage: int, chunk: int, *, forward: bool) -> Place | None:
        """Return who gets what a chunk makes; None at either end of the model."""
        part = self.part(stage, chunk) + (1 if forward else -1)
        if not 0 <= part < self.parts:
            return None
        if self.name != "mirrored":
            chunk, part = divmod(part, self.stages)
        return Place(self.stages - 1 - part if self._turned(chunk) else part, chunk)

    def upward(self, chunk: int, *, forward: bool) -> bool:
        """Return whether a chunk hands on to the next stage, rather than to the one before."""
        return forward != self._turned(chunk)

    def fed(self, stage: int, chunk: int, *, forward: bool) -> bool:
        """Return whether a chunk needs what another chunk makes."""
        return self.onward(stage, chunk, forward=not forward) is not None

    def batch(self, chunk: int, microbatches: int) -> range:
        """Return the microbatches that go through a chunk."""
        if self.name != "mirrored":
            return range(microbatches)
        half = microbatches // self.chunks
        return range(chunk * half, (chunk + 1) * half)

    def _turned(self, chunk: int) -> bool:
        return self.name != "loop" and chunk % 2 == 1
