"""1F1B over several model chunks a stage: a shorter bubble for more traffic."""

from collections.abc import Iterator
from functools import lru_cache

from clustersim.program.schedules.schedule import Schedule
from clustersim.program.steps import BACKWARD, FORWARD, Step, whole_batch


def interleaved(stage: int, stages: int, microbatches: int, chunks: int) -> Iterator[Step]:
    """Yield one stage's steps: microbatches go round in groups of `stages`, chunk by chunk.

    `microbatches` must be a multiple of `stages`. With as many microbatches as stages all
    forwards come first. Narayanan et al. 2021, section 2.2.2, arXiv:2104.04473; the order is that
    of ``forward_backward_pipelining_with_interleaving`` in Megatron-LM, ``megatron/schedules.py``.
    """
    total = microbatches * chunks
    warmup = 2 * (stages - stage - 1) + (chunks - 1) * stages
    warmup = total if microbatches == stages else min(warmup, total)
    forwards = _turns(FORWARD, stages, microbatches, chunks)
    backwards = _turns(BACKWARD, stages, microbatches, chunks)
    yield from forwards[:warmup]
    for k in range(total - warmup):
        yield forwards[warmup + k]
        yield backwards[k]
    yield from backwards[total - warmup :]


@lru_cache(maxsize=16)
def _turns(kind: str, stages: int, microbatches: int, chunks: int) -> tuple[Step, ...]:
    """Return the steps of a kind: `stages` microbatches of a chunk, then the next chunk's."""
    order = range(chunks) if kind == FORWARD else range(chunks - 1, -1, -1)
    batch = {chunk: whole_batch(kind, microbatches, chunk) for chunk in order}
    return tuple(
        step
        for lap in range(0, microbatches, stages)
        for chunk in order
        for step in batch[chunk][lap : lap + stages]
    )


def _asks(stages: int, microbatches: int, chunks: int) -> str | None:
    if microbatches % stages:
        return f"needs the microbatches to be a multiple of the {stages} stages, not {microbatches}"
    return None


INTERLEAVED = Schedule(
    "interleaved-1f1b",
    "1F1B over several model chunks a stage: a shorter bubble for more traffic",
    interleaved,
    chunks=(2, None),
    asks=_asks,
)
