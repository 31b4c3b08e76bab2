"""Pipeline schedules: generators of steps, and the table of their names."""

from clustersim.program.schedules.classic import GPIPE, INTERLEAVED, LOOPED, ONE_F_ONE_B
from clustersim.program.schedules.controlled_memory import V_HALF, V_MIN
from clustersim.program.schedules.split_backward import DUALPIPE, DUALPIPE_V, ZB_H1, ZB_H2, ZB_V
from clustersim.program.schedules.steps import Row, Schedule, steps_text

SCHEDULES: dict[str, Schedule] = {
    schedule.name: schedule
    for schedule in (
        GPIPE,
        ONE_F_ONE_B,
        INTERLEAVED,
        LOOPED,
        ZB_H1,
        ZB_H2,
        ZB_V,
        V_HALF,
        V_MIN,
        DUALPIPE,
        DUALPIPE_V,
    )
}


def schedule_text(rows: list[Row]) -> str:
    """Return the steps of each stage as letters, one line a stage: ``stage 0   F0 F1 B0 B1``."""
    width = len(str(len(rows) - 1))
    return "\n".join(
        f"stage {stage:<{width}}   {steps_text(steps)}" for stage, steps in enumerate(rows)
    )


__all__ = ["SCHEDULES", "Schedule", "schedule_text"]
