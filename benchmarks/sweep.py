"""Speed of a sweep: 1,080 layouts of gpt-175b on 512 A100, by two processes.

python benchmarks/sweep.py [layouts]

Prints layouts a second, processor seconds a layout, and how many have each verdict; with a number,
of as many layouts taken evenly from all.  Then the processor time of single layouts in one process:
from the settings to the cache key, and from the settings to the answer.
"""

import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import mean, median

from clustersim.catalog.changes import changes_of
from clustersim.errors import PlanError, ScenarioError
from clustersim.runs.arguments import study_of
from clustersim.runs.cache_key import key_of
from clustersim.runs.execution import run_all
from clustersim.runs.executors import workers
from clustersim.runs.scenario_files import ScenarioFiles
from clustersim.runs.store import Store
from clustersim.runs.table import verdict_text
from clustersim.runs.variants import Variant, run_variant
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


def seconds() -> float:
    """Return the processor time of this process and of its children that have ended [s]."""
    ended = os.times()
    return time.process_time() + ended.children_user + ended.children_system


def single_layouts(layouts: Sequence[Variant]) -> dict[str, list[float]]:
    """Return the processor times of layouts by what is computed, one after another [s]."""
    files, times = ScenarioFiles(), defaultdict[str, list[float]](list)
    for layout in layouts:
        began = seconds()
        try:
            key = key_of(layout.load(files), files.texts)
        except (ScenarioError, PlanError):
            continue
        times["cache key"].append(seconds() - began)
        began = seconds()
        run = run_variant(layout, key, files)
        times[run.verdict].append(seconds() - began)
    return times


def main(most: int | None) -> None:
    """Run the sweep and print its speed."""
    layouts = grid(SCENARIO, load(SCENARIO, SETTINGS), [SCHEDULES, *map(axis_of, OVER)])
    layouts = layouts[:: max(1, len(layouts) // (most or len(layouts)))]
    study = study_of("sweep", SCENARIO, SCENARIO, layouts)
    began, spent = time.perf_counter(), seconds()
    with Store() as store, workers(JOBS) as executor:
        runs = run_all(study, layouts, store, executor, jobs=JOBS)
    wall, spent = time.perf_counter() - began, seconds() - spent
    print(f"{len(layouts):,} layouts in {wall:.1f} s: {len(layouts) / wall:.1f} a second")
    print(f"{spent / len(layouts):.3f} processor seconds a layout")
    print(
        ", ".join(f"{count:,} {word}" for word, count in Counter(map(verdict_text, runs)).items())
    )
    for word, times in single_layouts(layouts[:: max(1, len(layouts) // SINGLE)]).items():
        print(
            f"{word:12} median {1000 * median(times):6.2f} ms, mean {1000 * mean(times):6.2f} ms"
            f" of {len(times)}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else None)
