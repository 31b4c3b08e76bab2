"""Looped breadth-first: the whole batch through one chunk after another."""

from collections.abc import Iterator

from clustersim.program.schedules.schedule import Schedule
from clustersim.program.steps import BACKWARD, FORWARD, Step, whole_batch


def looped(stage: int, stages: int, microbatches: int, chunks: int) -> Iterator[Step]:
    """Yield one stage's steps: all forwards of a chunk, then of the next; backwards in return.

    The bubble is that of interleaved 1F1B, all chunks of all microbatches are in flight at the
    turn, and the gradients of a chunk are complete while other chunks still compute.
    Lamy-Poirier 2023, section 4, arXiv:2211.05953.
    """
    for chunk in range(chunks):
        yield from whole_batch(FORWARD, microbatches, chunk)
    for chunk in range(chunks - 1, -1, -1):
        yield from whole_batch(BACKWARD, microbatches, chunk)


def _asks(stages: int, microbatches: int, chunks: int) -> str | None:
    if microbatches < stages:
        return f"needs at least as many microbatches as its {stages} stages, not {microbatches}"
    return None


LOOPED = Schedule(
    "looped-bfs",
    "Looped breadth-first: the whole batch through one chunk after another",
    looped,
    chunks=(2, None),
    asks=_asks,
)
