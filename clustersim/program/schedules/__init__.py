"""Pipeline schedules: pure generators of steps, one file each, and the table of their names."""

from collections.abc import Callable, Iterator

from clustersim.program.ops import Step
from clustersim.program.schedules.gpipe import gpipe
from clustersim.program.schedules.interleaved import interleaved
from clustersim.program.schedules.one_f_one_b import one_f_one_b

Schedule = Callable[[int, int, int, int], Iterator[Step]]
"""From stage, stages, microbatches and chunks to the steps of that stage."""

SCHEDULES: dict[str, Schedule] = {
    "gpipe": gpipe,
    "1f1b": one_f_one_b,
    "interleaved-1f1b": interleaved,
}


def grid(name: str, stages: int, microbatches: int, chunks: int = 1) -> list[tuple[Step, ...]]:
    """Return the steps of every stage of a schedule."""
    schedule = SCHEDULES[name]
    return [tuple(schedule(s, stages, microbatches, chunks)) for s in range(stages)]


def text(rows: list[tuple[Step, ...]]) -> str:
    """Return the steps of each stage as letters, one line a stage: ``stage 0   F0 F1 B0 B1``."""
    width = len(str(len(rows) - 1))
    return "\n".join(
        f"stage {stage:<{width}}   " + " ".join(str(step) for step in steps)
        for stage, steps in enumerate(rows)
    )
