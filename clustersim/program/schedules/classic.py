"""Schedules with whole backwards: GPipe, 1F1B, interleaved 1F1B, looped breadth-first."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain

from clustersim.program.schedules.steps import Schedule, Step, whole_batch
from clustersim.timeline import BACKWARD, FORWARD


def gpipe(stage: int, stages: int, microbatches: int, chunks: int = 1) -> Iterator[Step]:
    """Yield one stage's steps: every microbatch forward, then every one backward.

    All `microbatches` are in flight on a stage after the last forward. Huang et al. 2019,
    arXiv:1811.06965.
    """
    yield from whole_batch(FORWARD, microbatches)
    yield from whole_batch(BACKWARD, microbatches)


GPIPE = Schedule("gpipe", "All forwards, then all backwards", gpipe)


def one_f_one_b(stage: int, stages: int, microbatches: int, chunks: int = 1) -> Iterator[Step]:
    """Yield one stage's steps: warm up, alternate forward and backward, drain.

    At most ``stages - stage`` microbatches are in flight on a stage, fewer than in GPipe.
    Narayanan et al. 2021, section 2.2.1, arXiv:2104.04473.
    """
    warmup = min(stages - stage - 1, microbatches)
    forwards, backwards = whole_batch(FORWARD, microbatches), whole_batch(BACKWARD, microbatches)
    yield from forwards[:warmup]
    yield from chain.from_iterable(zip(forwards[warmup:], backwards, strict=False))
    yield from backwards[microbatches - warmup :]


ONE_F_ONE_B = Schedule("1f1b", "One forward, one backward: few microbatches in flight", one_f_one_b)


def interleaved(stage: int, stages: int, microbatches: int, chunks: int) -> Iterator[Step]:
    """Yield one stage's steps: microbatches in groups of `stages`, chunk by chunk.

    `microbatches` must be a multiple of `stages`. With as many microbatches as stages all
    forwards come first. Narayanan et al. 2021, section 2.2.2, arXiv:2104.04473; the order is that
    of ``forward_backward_pipelining_with_interleaving`` in Megatron-LM, ``megatron/schedules.py``,
    and in Megatron-Core up to 0.9.
    """
    first = microbatches * chunks if microbatches == stages else 0
    yield from interleaved_early(stage, stages, microbatches, chunks, first)


def interleaved_early(
    stage: int, stages: int, microbatches: int, chunks: int, first: int = 0
) -> Iterator[Step]:
    """Yield the steps of `interleaved` with backwards as early as possible.

    The last stage keeps a microbatch of its last chunk only until it has computed its loss, also
    with as many microbatches as stages: PyTorch, ``torch/distributed/pipelining/schedules.py``,
    ``_get_warmup_ops``; Megatron-Core from 0.10 on, ``get_pp_rank_microbatches``.

    Parameters
    ----------
    first : forwards that at least come before any backward
    """
    total = microbatches * chunks
    warmup = max(first, min(2 * (stages - stage - 1) + (chunks - 1) * stages, total))
    forwards = _turns(FORWARD, stages, microbatches, chunks)
    backwards = _turns(BACKWARD, stages, microbatches, chunks)
    yield from forwards[:warmup]
    yield from chain.from_iterable(zip(forwards[warmup:], backwards, strict=False))
    yield from backwards[total - warmup :]


@lru_cache(maxsize=16)
def _turns(kind: str, stages: int, microbatches: int, chunks: int) -> tuple[Step, ...]:
    """Return the steps of a kind: `stages` microbatches of a chunk, then the next chunk's."""
    order = range(chunks) if kind == FORWARD else range(chunks - 1, -1, -1)
    batch = {chunk: whole_batch(kind, microbatches, chunk) for chunk in order}
    return tuple(
        step
        for first in range(0, microbatches, stages)
        for chunk in order
        for step in batch[chunk][first : first + stages]
    )


def _interleaved_obstacle(stages: int, microbatches: int, chunks: int) -> str | None:
    if microbatches % stages:
        return f"needs the microbatches to be a multiple of the {stages} stages, not {microbatches}"
    return None


INTERLEAVED = Schedule(
    "interleaved-1f1b",
    "1F1B over several model chunks a stage: a shorter bubble for more traffic",
    interleaved,
    chunks=(2, None),
    obstacle=_interleaved_obstacle,
    period=lambda stages: stages,
    early=interleaved_early,
    short="interleaved",
)


def looped(stage: int, stages: int, microbatches: int, chunks: int) -> Iterator[Step]:
    """Yield one stage's steps: all forwards chunk by chunk, then all backwards in reverse order.

    The bubble is that of interleaved 1F1B, all chunks of all microbatches are in flight after the
    last forward, and the gradients of a chunk are complete while other chunks still compute.
    Lamy-Poirier 2023, section 4, arXiv:2211.05953.
    """
    for chunk in range(chunks):
        yield from whole_batch(FORWARD, microbatches, chunk)
    for chunk in range(chunks - 1, -1, -1):
        yield from whole_batch(BACKWARD, microbatches, chunk)


def _looped_obstacle(stages: int, microbatches: int, chunks: int) -> str | None:
    if microbatches < stages:
        return f"needs at least as many microbatches as its {stages} stages, not {microbatches}"
    return None


LOOPED = Schedule(
    "looped-bfs",
    "Looped breadth-first: the whole batch through one chunk after another",
    looped,
    chunks=(2, None),
    obstacle=_looped_obstacle,
)
