"""How fast layouts are searched: 175B on 1,024 A100, the bounds of all and the replays of a few.

A sample of the same space, replayed without any bound, states what the search would have missed.
"""

import random
from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks.table import Table
from clustersim import search
from clustersim.catalog.changes import changes_of
from clustersim.runs.arguments import study_of
from clustersim.runs.execution import run_study
from clustersim.runs.variants import Run, Variant
from clustersim.scenario.load import load
from clustersim.studies.search.step.candidates import part_bounds
from clustersim.studies.search.step.lower_bound.step_bound import StepBounds
from clustersim.studies.search.step.space import Choices, Space

SCENARIO = "megatron21-t2-175b"
DEVICES = 1024
SETTINGS = ("batch.global=1536",)
NODES = ("cluster.nodes=128",)
JOBS = 2

SAMPLED = 30
"""Layouts of each sample."""


def searches(repeats: int, folder: str) -> Iterator[Table]:
    """Time a whole search, the best of some."""
    answers = [
        search(SCENARIO, devices=DEVICES, settings=SETTINGS, jobs=JOBS) for _ in range(repeats)
    ]
    answer = min(answers, key=lambda answer: answer.wall_s)
    counts = answer.layouts
    valid = counts.possible - counts.excluded
    row = (
        counts.possible,
        valid,
        counts.replayed,
        answer.tightness or 0.0,
        answer.wall_s,
        valid / answer.wall_s,
    )
    columns = (
        "possible layouts",
        "valid",
        "replayed",
        "median bound / replay",
        "time [s]",
        "valid layouts/s",
    )
    text = f"The best layout of {SCENARIO} on {DEVICES:,} devices, proven, by {JOBS} processes."
    yield Table("search", "Search", columns, [row], text)
    assert answer.best is not None, "175B fit on 1,024 devices"
    yield _sampled(answer.best.step_time_s)


def _sampled(best: float) -> Table:
    """Replay samples of the space, and compare them with the best layout that was found."""
    rows = []
    for title, variants in samples(SAMPLED).items():
        times = step_times(variants)
        faster = sum(time < best for time in times)
        rows.append((title, len(variants), len(times), min(times), median(times), faster))
    return Table(
        "samples",
        "Samples of the searched space",
        ("sample", "layouts", "fit", "least step [s]", "median step [s]", "faster than the best"),
        rows,
        f"Layouts of the same space, drawn with seed 0 and replayed; the best has {best:.2f} s.",
    )


def samples(count: int, seed: int = 0) -> dict[str, list[Variant]]:
    """Return random layouts of the space that was searched, of those that may fit by the bound.

    Parameters
    ----------
    count : layouts of each sample
    """
    loaded = load(SCENARIO, (*NODES, *SETTINGS))
    bounds, rng = StepBounds(loaded), random.Random(seed)
    capacity = float(bounds.jobs.cluster.accelerator.memory_capacity)
    found = []
    for layouts in Space(bounds.jobs, Choices(loaded)).layouts:
        part = part_bounds(bounds, layouts, capacity)
        places = zip(part.seconds.tolist(), part.shape, part.column, strict=True)
        found += [(bound, layouts, int(shape), int(column)) for bound, shape, column in places]
    found.sort(key=lambda one: one[0])
    drawn = {
        f"of the {10 * count:,} with the least bounds": rng.sample(found[: 10 * count], count),
        f"of the {100 * count:,} with the least bounds": rng.sample(found[: 100 * count], count),
    }
    return {
        title: [
            Variant(
                SCENARIO,
                (*NODES, *SETTINGS, *changes_of(layouts.layout(shape, column).settings)),
                memory_first=True,
            )
            for _, layouts, shape, column in layouts_of
        ]
        for title, layouts_of in drawn.items()
    }


def step_times(variants: Sequence[Variant]) -> list[float]:
    """Return the step times of the layouts that fit, without a bound of any [s]."""
    study = study_of("sweep", SCENARIO, SCENARIO, variants)
    return [_step_time(run) for run in run_study(study, variants, jobs=JOBS) if run.fits]


def _step_time(run: Run) -> float:
    assert run.answer is not None, "it fits"
    return run.answer.step_time_s


__all__ = ["samples", "searches", "step_times"]
