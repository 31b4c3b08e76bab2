"""A schedule: the order in which each stage runs its microbatches, and through which chunks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from clustersim.plan.wiring import Wiring, WiringName
from clustersim.program.steps import Row, Step

Steps = Callable[[int, int, int, int], Iterator[Step]]
"""From stage, stages, microbatches and chunks to the steps of that stage."""


def _no_obstacle(stages: int, microbatches: int, chunks: int) -> str | None:
    return None


@dataclass(frozen=True)
class Schedule:
    """A schedule by its name.

    Attributes
    ----------
    title : description in a few words
    steps : the generator of a stage's steps
    chunks : minimum and maximum of model chunks of a stage
    split : whether a backward is split into the gradients of inputs and those of weights
    obstacle : why numbers of stages, microbatches and chunks are not possible, or None
    shape : stages, microbatches and chunks, where it is written for these only
    """

    name: str
    title: str
    steps: Steps
    wiring: WiringName = "loop"
    chunks: tuple[int, int | None] = (1, 1)
    split: bool = False
    obstacle: Callable[[int, int, int], str | None] = _no_obstacle
    shape: tuple[int, int, int] | None = None

    def wired(self, stages: int, chunks: int) -> Wiring:
        """Return the wiring of its chunks."""
        return Wiring(self.wiring, stages, chunks)

    def rows(self, stages: int, microbatches: int, chunks: int) -> list[Row]:
        """Return the steps of every stage."""
        return [tuple(self.steps(s, stages, microbatches, chunks)) for s in range(stages)]

    def misfit(self, stages: int, microbatches: int, chunks: int) -> str | None:
        """Return why a shape is not possible, in words that follow its name, or None."""
        least, most = self.chunks
        if not least <= chunks <= (most or chunks):
            needed = f"{least}" if most == least else f"at least {least}"
            return f"needs {needed} chunk{'s' * (least > 1)} a stage, and there are {chunks}"
        if stages == 1 and least > 1:
            return "needs at least 2 stages"
        return self.obstacle(stages, microbatches, chunks)
