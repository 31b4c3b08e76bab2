"""How fast programs are compiled and replayed: blocks a second, by both replay methods.

python benchmarks/replay.py [scenario ...]

Without scenarios, deep pipelines of equal stages as well: 35 stages of 3 chunks and 280
microbatches, and 16 stages of DualPipe with 480.
"""

import sys
import time
from collections.abc import Callable
from typing import TypeVar

from clustersim.engine.event_replay import EventReplay
from clustersim.engine.replay import run_to_end
from clustersim.engine.uncontended import UncontendedReplay
from clustersim.program.compile import compile_program
from clustersim.program.schedules import SCHEDULES
from clustersim.scenario.load import load
from clustersim.simulation.build import build_job
from clustersim.studies.show.schedule import replay_schedule

Value = TypeVar("Value")


def timed(work: Callable[[], Value]) -> tuple[float, Value]:
    """Return the best of three times [s], and the last value."""
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        value = work()
        best = min(best, time.perf_counter() - began)
    return best, value


def main(names: list[str]) -> None:
    """Print a line for each scenario."""
    print(
        f"{'scenario':20} {'blocks':>8} {'compile':>9} {'uncontended':>13} {'event replay':>13}"
        f" {'ratio':>6}"
    )
    for name in names:
        loaded = load(name)
        compiling, program = timed(
            lambda loaded=loaded: compile_program(  # type: ignore[misc]
                build_job(loaded), fold_replicas=True, fusion_bound=loaded.scenario.fusion_bound
            )
        )
        blocks = sum(len(actor.steps) for actor in program.actors)
        seconds, uncontended = timed(lambda program=program: run_to_end(UncontendedReplay(program)))  # type: ignore[misc]
        events, _ = timed(lambda program=program: run_to_end(EventReplay(program)))  # type: ignore[misc]
        note = "  (contended: only the event replay is exact)" if uncontended.contended() else ""
        print(
            f"{name:20} {blocks:8,} {compiling:7.3f} s {blocks / seconds:11,.0f}/s"
            f" {blocks / events:11,.0f}/s {events / seconds:6.1f}{note}"
        )


def deep(name: str, stages: int, microbatches: int, chunks: int) -> None:
    """Print a line for a schedule on equal stages and free links."""
    schedule = SCHEDULES[name]
    seconds, shown = timed(lambda: replay_schedule(schedule, stages, microbatches, chunks))
    blocks = sum(len(row) for row in shown.rows)
    shape = f"{name}, {stages} stages, {microbatches} microbatches, {chunks} chunks"
    print(f"{shape}: {blocks:,} blocks in {seconds:.3f} s, {blocks / seconds:,.0f}/s")


if __name__ == "__main__":
    if not sys.argv[1:]:
        deep("interleaved-1f1b", 35, 280, 3)
        deep("dualpipe", 16, 480, 2)
    main(sys.argv[1:] or ["frontier-22b", "megatron21-t1-530b", "frontier-1t"])
