"""1F1B over several model chunks a stage: a shorter bubble for more traffic."""

from collections.abc import Iterator

from clustersim.program.ops import BACKWARD, FORWARD, Step


def interleaved(stage: int, stages: int, microbatches: int, chunks: int) -> Iterator[Step]:
    """Yield one stage's steps: microbatches go round in groups of `stages`, chunk by chunk.

    `microbatches` must be a multiple of `stages`. With as many microbatches as stages all
    forwards come first. Narayanan et al. 2021, section 2.2.2, arXiv:2104.04473; the order is that
    of ``forward_backward_pipelining_with_interleaving`` in Megatron-LM, ``megatron/schedules.py``.
    """
    total = microbatches * chunks
    warmup = 2 * (stages - stage - 1) + (chunks - 1) * stages
    warmup = total if microbatches == stages else min(warmup, total)
    forwards = [_turn(FORWARD, k, stages, chunks) for k in range(total)]
    backwards = [_turn(BACKWARD, k, stages, chunks) for k in range(total)]
    yield from forwards[:warmup]
    for k in range(total - warmup):
        yield forwards[warmup + k]
        yield backwards[k]
    yield from backwards[total - warmup :]


def _turn(kind: str, k: int, stages: int, chunks: int) -> Step:
    """Return the k-th step of a kind: `stages` microbatches of a chunk, then the next chunk."""
    lap, place = divmod(k, stages * chunks)
    chunk, microbatch = divmod(place, stages)
    chunk = chunk if kind == FORWARD else chunks - 1 - chunk
    return Step(kind, lap * stages + microbatch, chunk)
