"""All forwards, then all backwards."""

from collections.abc import Iterator

from clustersim.program.ops import BACKWARD, FORWARD, Step


def gpipe(stage: int, stages: int, microbatches: int, chunks: int = 1) -> Iterator[Step]:
    """Yield one stage's steps: every microbatch forward, then every one backward.

    All `microbatches` are in flight on a stage at the turn. Huang et al. 2019, arXiv:1811.06965.
    """
    for microbatch in range(microbatches):
        yield Step(FORWARD, microbatch)
    for microbatch in range(microbatches):
        yield Step(BACKWARD, microbatch)
