"""Wirings: the virtual stage that each chunk of a stage is, and where its output goes.

    loop       chunk c of stage s is virtual stage c p + s      0 1 2 3 | 4 5 6 7
    v          every other chunk goes back up the stages        0 1 2 3 | 7 6 5 4
    mirrored   two whole models, the second in reverse          0 1 2 3 | 3 2 1 0

with p stages; the examples are of four stages with two chunks each.  In a mirrored wiring half of
the microbatches go through either model.
"""

from dataclasses import dataclass
from functools import cached_property
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
    def virtual_stages(self) -> int:
        """Virtual stages that the model is divided into."""
        return self.stages if self.name == "mirrored" else self.stages * self.chunks

    @property
    def copies(self) -> int:
        """Chunks that are the same virtual stage."""
        return self.stages * self.chunks // self.virtual_stages

    @cached_property
    def ends_meet(self) -> bool:
        """Whether the first stage holds the end of the model as well."""
        return any(self.virtual_stage(0, c) == self.virtual_stages - 1 for c in range(self.chunks))

    def virtual_stage(self, stage: int, chunk: int) -> int:
        """Return the virtual stage of a chunk, counted from the embedding."""
        along = self.stages - 1 - stage if self._reversed(chunk) else stage
        return along if self.name == "mirrored" else chunk * self.stages + along

    def onward(self, stage: int, chunk: int, *, forward: bool) -> Place | None:
        """Return the chunk that receives the output of another; None at either end of the model."""
        along = self.virtual_stage(stage, chunk) + (1 if forward else -1)
        if not 0 <= along < self.virtual_stages:
            return None
        if self.name != "mirrored":
            chunk, along = divmod(along, self.stages)
        return Place(self.stages - 1 - along if self._reversed(chunk) else along, chunk)

    def upward(self, chunk: int, *, forward: bool) -> bool:
        """Return whether a chunk sends to the next stage, rather than to the one before."""
        return forward != self._reversed(chunk)

    def fed(self, stage: int, chunk: int, *, forward: bool) -> bool:
        """Return whether a chunk receives the output of another one."""
        return self.onward(stage, chunk, forward=not forward) is not None

    def batch(self, chunk: int, microbatches: int) -> range:
        """Return the microbatches that go through a chunk."""
        if self.name != "mirrored":
            return range(microbatches)
        half = microbatches // self.chunks
        return range(chunk * half, (chunk + 1) * half)

    def _reversed(self, chunk: int) -> bool:
        return self.name != "loop" and chunk % 2 == 1
