"""The pipeline of a run over time: every block of a small one, views and samples of a large one.

A step of a trillion parameters has 200,000 blocks.  Its timeline is drawn as a whole, where blocks
are too small to see, and in two views of its ends, where ranks wait most; a page shows some of the
stages of these views block by block.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from clustersim.metrics.attribution import BUBBLES
from clustersim.render.charts.picture import Axis
from clustersim.render.charts.timeline import COMPUTE_KINDS, STEP_KINDS, Timeline
from clustersim.render.plotly.timeline import INTERVALS, MOST_BARS, MOST_LANES, lanes_shown
from clustersim.render.tables import percent
from clustersim.units import counted, format_seconds

if TYPE_CHECKING:
    from clustersim.simulation.step.result import Result
    from clustersim.timeline import Track

MOST_STAGES: Final = 16
"""Stages of a sample; the first and the last are among them."""

FEWEST_STAGES: Final = 6
"""Stages of a sample before it covers less time instead."""

PHASES: Final = dict(zip(BUBBLES, ("pipeline fill", "steady state", "pipeline drain"), strict=True))
"""When ranks wait, in words."""


def longest_wait(result: "Result") -> str:
    """Return when ranks wait most: ``'mostly in the pipeline fill (5.0 %)'``; empty if never."""
    if result.bubble_fraction < 5e-4:
        return ""
    phase = max(BUBBLES, key=result.attribution.__getitem__)
    return (
        f"mostly in the {PHASES[phase]} ({percent(result.attribution[phase] / result.step_time)})"
    )


def pipeline(result: "Result") -> Timeline:
    """Return the blocks of the first replica class, and of the first shard of its stages."""
    tracks = [t for t in result.timeline.tracks if t.replica == 0 and t.tensor_rank == 0]
    columns = [_columns(track) for track in tracks]
    arrays: dict[str, Any] = {
        name: np.concatenate([column[name] for column in columns]) for name in columns[0]
    }
    waits = longest_wait(result)
    return Timeline(
        title=f"Pipeline bubbles take {percent(result.bubble_fraction)} of the step"
        + (f", {waits}" if waits else ""),
        caption=f"{result.scenario.title} ({result.name}); {_represented(result)}",
        description=f"{counted(result.program.stages, 'stage')} from top to bottom, time from left"
        " to right, with the blocks that each stage computes.",
        contents="stages of this chart",
        time=Axis("time", "s", limits=(0.0, result.step_time)),
        lanes="stage",
        count=result.program.stages,
        kinds=STEP_KINDS,
        shades=result.program.chunks,
        **arrays,
    )


def _columns(track: "Track") -> dict[str, NDArray[Any]]:
    """Return the blocks of one stage, then what follows the last one."""
    tail = [span for span in track.tail if span.end > span.start]
    after = np.full(len(tail), -1)
    kinds = [len(COMPUTE_KINDS) + (span.name == "optimiser") for span in tail]
    return {
        "lane": np.full(len(track.start) + len(tail), track.stage, np.int32),
        "kind": np.concatenate([track.kind, kinds]).astype(np.int8),
        "number": np.concatenate([track.microbatch, after]).astype(np.int32),
        "shade": np.concatenate([track.chunk, after]).astype(np.int32),
        "start": np.concatenate([track.start, [span.start for span in tail]]),
        "end": np.concatenate([track.end, [span.end for span in tail]]),
    }


def _represented(result: "Result") -> str:
    """Return which replicas and ranks the chart represents."""
    program, data = result.program, result.scenario.plan.data
    shard = ", tensor rank 0 of each stage" if program.tensor_ranks > 1 else ""
    if program.classes > 1:
        alike = len(program.actors[0].replicas)
        classes = f"first of {program.classes} replica classes"
        return f"{classes}, which represents {alike} of {data} replicas{shard}"
    return f"one of {data} identical replicas{shard}" if data > 1 else f"one replica{shard}"


def views(whole: Timeline) -> list[Timeline]:
    """Return the whole step; its two ends as well where blocks are too small to see."""
    if len(whole.start) <= MOST_BARS // 2:
        return [whole]
    first = np.flatnonzero(whole.lane == 0)
    blocks = first[whole.number[first] >= 0]
    count = min(max(2 * whole.count * whole.shades, 16), len(blocks)) - 1
    duration = whole.limits[1]
    fill = whole.within(0.0, float(whole.end[blocks[count]]))
    drain = whole.within(float(whole.start[blocks[-1 - count]]), duration)
    return [
        replace(whole, note="The colours of blocks that are narrower than a pixel are mixed."),
        replace(fill, title=f"Pipeline fill: {_last_to_begin(whole)}"),
        replace(drain, title=f"Pipeline drain: {_first_to_end(whole)}", at_end=True),
    ]


def _last_to_begin(whole: Timeline) -> str:
    """Return which stage begins last, and when."""
    first = np.unique(whole.lane, return_index=True)[1]
    stage = int(whole.start[first].argmax())
    return f"stage {stage} begins after {format_seconds(float(whole.start[first[stage]]), 3)}"


def _first_to_end(whole: Timeline) -> str:
    """Return which stage ends its last block first, and how long before the end of the step."""
    ends = np.zeros(whole.count)
    np.maximum.at(ends, whole.lane[whole.computes], whole.end[whole.computes])
    stage = int(ends.argmin())
    rest = format_seconds(whole.limits[1] - float(ends[stage]), 3)
    return f"stage {stage} ends its last block {rest} before the end of the step"


def page_views(whole: Timeline) -> list[Timeline]:
    """Return the views of a page, with a note on how many of the blocks each one shows."""
    every = len(whole.start)
    if every <= MOST_BARS and not whole.as_shares:
        return [replace(whole, note=f"All {counted(every, 'block')} are drawn.")]
    seconds = format_seconds(whole.limits[1] / INTERVALS, 3)
    lanes = len(lanes_shown(whole.count, MOST_LANES))
    note = (
        f"Share of time that a stage computes, in {INTERVALS} intervals of {seconds}, for {lanes}"
        f" of {counted(whole.count, 'stage')}; {every:,} blocks."
    )
    samples = [sampled(view) for view in views(whole)[1:]]
    return [replace(whole, note=note), *(_counted(sample, whole) for sample in samples)]


def sampled(view: Timeline) -> Timeline:
    """Return some stages of a view; of too many blocks those nearest to its end or beginning."""
    for most in range(MOST_STAGES, FEWEST_STAGES - 1, -1):
        rows = np.flatnonzero(np.isin(view.lane, lanes_shown(view.count, most)))
        if len(rows) <= MOST_BARS:
            break
    if len(rows) > MOST_BARS:
        order = np.argsort(-view.end[rows] if view.at_end else view.start[rows], kind="stable")
        rows = np.sort(rows[order[:MOST_BARS]])
    some = view.take(rows)
    if not len(rows):
        return some
    limits = float(some.start.min()), float(some.end.max())
    return replace(some, time=replace(view.time, limits=limits))


def _counted(sample: Timeline, whole: Timeline) -> Timeline:
    stages = f"{len(np.unique(sample.lane))} of {counted(whole.count, 'stage')}"
    some = f"{len(sample.start):,} of {len(whole.start):,} blocks are drawn, on {stages}."
    return replace(sample, note=some)
