"""All forwards, then all backwards."""

from collections.abc import Iterator

from clustersim.program.schedules.schedule import Schedule
from clustersim.program.steps import BACKWARD, FORWARD, Step, whole_batch


def gpipe(stage: int, stages: int, microbatches: int, chunks: int = 1) -> Iterator[Step]:
    """Yield one stage's steps: every microbatch forward, then every one backward.

    All `microbatches` are in flight on a stage at the turn. Huang et al. 2019, arXiv:1811.06965.
    """
    yield from whole_batch(FORWARD, microbatches)
    yield from whole_batch(BACKWARD, microbatches)


GPIPE = Schedule("gpipe", "All forwards, then all backwards", gpipe)
