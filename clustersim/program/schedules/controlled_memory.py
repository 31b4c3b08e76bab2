"""Schedules in a V that hold a half or a third of the microbatches of 1F1B.

One microbatch takes four slots on each stage: down and up, forward and backward.  The same slots
come again after six for the next microbatch, and the backwards of weights fill the two that remain:

    v-min, 4 stages          0   1   2   3   4   5   6   7   8   9  10  11  12  13  14  15
                 stage 0    F.0                         F.1 I.1                         I.0
                 stage 3                F.0 F.1                         I.1 I.0

The sooner a backward follows its forward, the less a stage holds.  Qi et al. 2024, section 3,
arXiv:2405.15362; the slots are those of sail-sg/zero-bubble-pipeline-parallelism,
``megatron/core/pipeline_parallel/zerobubble/scheduler/zbv_greedy.py``, ``stable_pattern_v_min`` and
``stable_pattern_v_half``, repeated from the first microbatch to the last.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from clustersim.program.schedules.steps import Schedule, Step
from clustersim.timeline import FORWARD, INPUT, WEIGHT

PERIOD: Final = 6
"""Slots of a microbatch on a stage: three steps of each of its two chunks."""

Slots = tuple[int, int, int, int]
"""Slots of a stage's first microbatch: forward down and up, backward of inputs the same way."""


def v_min(stage: int, stages: int, microbatches: int, chunks: int = 2) -> Iterator[Step]:
    """Yield one stage's steps: each pass through all stages follows the one before at once.

    A backward of 3 q stages begins two slots later, as its slots would meet others.
    """
    later = 2 if stages % 3 == 0 else 0
    slots = (
        stage,
        2 * stages - stage - 1,
        2 * stages + later + stage,
        4 * stages + later - stage - 1,
    )
    return _repeated(slots, microbatches)


def v_half(stage: int, stages: int, microbatches: int, chunks: int = 2) -> Iterator[Step]:
    """Yield one stage's steps: passes away from the first stage take two slots a stage.

    A backward of an even number of stages begins three slots later, as its slots would meet others.
    """
    later = 3 if stages % 2 == 0 else 0
    back = 3 * stages + later + 2 * stage - 1
    return _repeated(
        (2 * stage, 3 * stages - stage - 2, back, 6 * stages + later - stage - 2), microbatches
    )


def _repeated(slots: Slots, microbatches: int) -> Iterator[Step]:
    """Yield the steps of all microbatches, each backward of weights in the first free slot."""
    passes = ((FORWARD, 0), (FORWARD, 1), (INPUT, 1), (INPUT, 0))
    taken = {
        slot + PERIOD * microbatch: Step(kind, microbatch, chunk)
        for slot, (kind, chunk) in zip(slots, passes, strict=True)
        for microbatch in range(microbatches)
    }
    waiting = deque[Step]()
    for slot in range(max(taken) + 1):
        if slot in taken:
            step = taken[slot]
            yield step
            if step.kind == INPUT:
                waiting.append(step._replace(kind=WEIGHT))
        elif waiting:
            yield waiting.popleft()
    yield from waiting


V_MIN = Schedule(
    "v-min",
    "A V of two chunks a stage with a third of the memory of 1F1B",
    v_min,
    wiring="v",
    chunks=(2, 2),
    split=True,
)
V_HALF = Schedule(
    "v-half",
    "A V of two chunks a stage with half of the memory of 1F1B",
    v_half,
    wiring="v",
    chunks=(2, 2),
    split=True,
)
