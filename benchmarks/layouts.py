"""How fast layouts are evaluated: a sweep of gpt-175b on 512 A100, and single layouts."""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import mean, median

from benchmarks.table import Table, Value
from clustersim.catalog.changes import changes_of
from clustersim.errors import PlanError, ScenarioError
from clustersim.runs.arguments import study_of
from clustersim.runs.cache_key import key_of
from clustersim.runs.execution import run_all
from clustersim.runs.executors import workers
from clustersim.runs.runs_in_memory import RunsInMemory
from clustersim.runs.scenario_files import ScenarioFiles
from clustersim.runs.variants import MEMORY_ONLY, RAN, Variant, run_variant
from clustersim.scenario.load import load
from clustersim.studies.sweep.arguments import SweepAxis, SweepChoice, axis_of
from clustersim.studies.sweep.combinations import grid

SCENARIO = "korthikanti-175b-seqsel"
SETTINGS = ("cluster.nodes=64", "batch.global=1536")
OVER = (
    "plan.tensor=1:8",
    "plan.pipeline=2:32",
    "plan.data=fill",
    "batch.micro=1:4",
    "recompute=none,selective,full",
    "plan.sequence_parallel=true,false",
)


def _choice(values: dict[str, object]) -> SweepChoice:
    """Return a choice of several values."""
    return SweepChoice(
        {key: changes_of({key: value})[0] for key, value in values.items()}, "schedules"
    )


SCHEDULES = SweepAxis(
    tuple(
        _choice({"plan.schedule": name, "plan.chunks": chunks})
        for name, chunks in (("1f1b", 1), ("interleaved-1f1b", 2), ("interleaved-1f1b", 3))
    )
)
JOBS = 2

SINGLE = 100
"""Layouts that are timed one by one."""


MOST = 216
"""Layouts of the sweep that are run, taken evenly from all."""

VERDICTS = {RAN: ("replayed", 40.0), MEMORY_ONLY: ("memory only", 5.0)}
"""What is computed of a layout, and the most that the median may take [ms]."""


def layouts(repeats: int, folder: str) -> Iterator[Table]:
    """Yield layouts per second of a sweep, and the processor time of single layouts."""
    every = grid(SCENARIO, load(SCENARIO, SETTINGS), [SCHEDULES, *map(axis_of, OVER)])
    chosen = every[:: max(1, len(every) // MOST)]
    began = time.perf_counter()
    with RunsInMemory() as store, workers(JOBS) as executor:
        run_all(study_of("sweep", SCENARIO, SCENARIO, chosen), chosen, store, executor)
    wall = time.perf_counter() - began
    rows: list[tuple[Value, ...]] = [
        (f"a sweep in {JOBS} processes", len(chosen), 1e3 * wall / len(chosen), None, None)
    ]
    singles = single_layouts(chosen[:: max(1, len(chosen) // SINGLE)])
    for verdict, times in singles.items():
        work, limit = VERDICTS.get(verdict, (verdict, None))
        ms = [1e3 * seconds for seconds in times]
        rows.append((f"one layout, {work}", len(ms), mean(ms), median(ms), limit))
    yield Table(
        "layouts",
        "Layouts of gpt-175b on 512 A100",
        ("work", "layouts", "mean [ms]", "median [ms]", "limit of the median [ms]"),
        rows,
        f"{len(every):,} combinations of tensor, pipeline, data, microbatch, recomputation,"
        " sequence parallelism and schedule.\nThe time of the sweep is that of a clock, divided by"
        " its layouts.\nThe others are processor time in one process, from the settings to the"
        " answer.",
    )


def single_layouts(layouts: Sequence[Variant]) -> dict[str, list[float]]:
    """Return the processor times of layouts by verdict, one after another [s]."""
    files, times = ScenarioFiles(), defaultdict[str, list[float]](list)
    for layout in layouts:
        began = time.process_time()
        try:
            key = key_of(layout.load_any(files))
        except (ScenarioError, PlanError):
            continue
        run = run_variant(layout, key, files)
        times[run.verdict].append(time.process_time() - began)
    return times
