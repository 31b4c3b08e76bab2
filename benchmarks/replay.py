"""How fast programs are compiled and replayed, by both methods of replay."""

from collections.abc import Iterator

from benchmarks.table import Table
from benchmarks.timing import best_of
from clustersim.engine.event_replay import EventReplay
from clustersim.engine.replay import run_to_end
from clustersim.engine.uncontended import UncontendedReplay
from clustersim.program.compile import compile_program
from clustersim.program.program import Program
from clustersim.program.schedules import SCHEDULES
from clustersim.scenario.load import Loaded, load
from clustersim.simulation.build import build_job
from clustersim.studies.show.schedule import replay_schedule

SCENARIOS = ("frontier-22b", "megatron21-t1-530b", "frontier-1t")

DEEP = (("interleaved-1f1b", 35, 280, 3), ("dualpipe", 16, 480, 2))
"""Schedules of equal stages: name, stages, microbatches and chunks."""


def replays(repeats: int, folder: str) -> Iterator[Table]:
    """Yield the speed of compilation and replay of scenarios, and of deep schedules."""
    yield Table(
        "replay",
        "Compilation and replay",
        (
            "scenario",
            "blocks",
            "compile [s]",
            "blocks per second",
            "activities per second",
            "event by event, blocks per second",
            "event by event, activities per second",
        ),
        [_replayed(name, repeats) for name in SCENARIOS],
        "The first method assumes that no link is shared, and is exact where that is confirmed.\n"
        "The second replays each transfer in the network.",
    )
    yield Table(
        "schedules",
        "Schedules of equal stages",
        ("schedule", "blocks", "processor time [s]", "blocks per second"),
        [_deep(*shape, repeats) for shape in DEEP],
    )


def _replayed(name: str, repeats: int) -> tuple[str | int | float, ...]:
    loaded = load(name)
    compiling, program = best_of(lambda: _compiled(loaded), repeats)
    blocks = sum(len(actor.steps) for actor in program.actors)
    seconds, plain = best_of(lambda: run_to_end(UncontendedReplay(program)), repeats)
    slower, by_events = best_of(lambda: run_to_end(EventReplay(program)), repeats)
    rates = blocks / seconds, plain.activities / seconds
    return name, blocks, compiling, *rates, blocks / slower, by_events.activities / slower


def _compiled(loaded: Loaded) -> Program:
    return compile_program(
        build_job(loaded), fold_replicas=True, fusion_bound=loaded.scenario.fusion_bound
    )


def _deep(
    name: str, stages: int, microbatches: int, chunks: int, repeats: int
) -> tuple[str, int, float, float]:
    seconds, shown = best_of(
        lambda: replay_schedule(SCHEDULES[name], stages, microbatches, chunks), repeats
    )
    blocks = sum(len(row) for row in shown.rows)
    shape = f"{name}, {stages} stages, {microbatches} microbatches, {chunks} chunks"
    return shape, blocks, seconds, blocks / seconds
