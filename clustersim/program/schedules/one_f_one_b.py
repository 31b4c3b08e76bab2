"""One forward, one backward: the schedule that holds few microbatches."""

from collections.abc import Iterator

from clustersim.program.schedules.schedule import Schedule
from clustersim.program.steps import BACKWARD, FORWARD, Step, whole_batch


def one_f_one_b(stage: int, stages: int, microbatches: int, chunks: int = 1) -> Iterator[Step]:
    """Yield one stage's steps: warm up, alternate forward and backward, drain.

    At most ``stages - stage`` microbatches are in flight on a stage, which is what saves memory
    over GPipe. Narayanan et al. 2021, section 2.2.1, arXiv:2104.04473.
    """
    warmup = min(stages - stage - 1, microbatches)
    forwards, backwards = whole_batch(FORWARD, microbatches), whole_batch(BACKWARD, microbatches)
    yield from forwards[:warmup]
    for forward, backward in zip(forwards[warmup:], backwards, strict=False):
        yield forward
        yield backward
    yield from backwards[microbatches - warmup :]


ONE_F_ONE_B = Schedule(
    "1f1b", "One forward, one backward: the schedule that holds few microbatches", one_f_one_b
)
