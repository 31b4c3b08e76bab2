"""How fast programs are compiled and replayed, by both methods of replay."""

from collections.abc import Iterator

from benchmarks.table import Table
from benchmarks.timing import best_of
from clustersim.engine.event_replay import EventReplay
from clustersim.engine.replay import replay, run_to_end
from clustersim.program.compile import compile_program
from clustersim.program.program import Program
from clustersim.program.schedules import SCHEDULES
from clustersim.program.schedules.batch_order import new_batch_order
from clustersim.program.uniform import uniform_program
from clustersim.reports.show.schedule import replay_schedule
from clustersim.scenario.load import Loaded, load
from clustersim.simulation.step.build import build_job
from clustersim.timeline import BACKWARD, FORWARD

SCENARIOS = ("frontier-22b", "megatron21-t1-530b", "frontier-1t")

DEEP = (("interleaved-1f1b", 35, 280, 3), ("dualpipe", 16, 480, 2))
"""Schedules of equal stages: name, stages, microbatches and chunks."""

STAGES = 16
MICROBATCHES = (64, 256, 1024, 4096, 16384, 65536)
"""Of a pipeline whose stages differ by 1 %."""


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
        "The first method derives periods that repeat, and only transfers on overloaded links go\n"
        "through the network.  The second replays each transfer in the network.",
    )
    yield Table(
        "microbatches",
        f"Replay of 1F1B on {STAGES} stages by microbatches",
        ("microbatches", "blocks", "order [s]", "periods derived [s]", "every period run [s]"),
        [_by_microbatches(microbatches, repeats) for microbatches in MICROBATCHES],
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
    seconds, plain = best_of(lambda: replay(program), repeats)
    slower, by_events = best_of(lambda: run_to_end(EventReplay(program)), repeats)
    rates = blocks / seconds, plain.activities / seconds
    return name, blocks, compiling, *rates, blocks / slower, by_events.activities / slower


def _by_microbatches(microbatches: int, repeats: int) -> tuple[int | float, ...]:
    schedule = SCHEDULES["1f1b"]
    ordering, order = best_of(lambda: new_batch_order(schedule, STAGES, microbatches, 1), repeats)
    program = uniform_program(
        order, schedule.wired(STAGES, 1), microbatches, {FORWARD: 1.0, BACKWARD: 2.0},
        [1 + 0.01 * (stage % 3) for stage in range(STAGES)], latency=0.01, nbytes=0.02,
    )  # fmt: skip
    derived, _ = best_of(lambda: replay(program), repeats)
    run, _ = best_of(lambda: replay(program, exact=True), repeats)
    return microbatches, 2 * STAGES * microbatches, ordering, derived, run


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
