"""The table of a collective by size."""

from typing import Final

from clustersim.studies.collective.answer import CollectiveAnswer, Timing
from clustersim.units import format_bandwidth, format_binary, format_seconds

HEADINGS: Final = ("size", "time", "algbw", "busbw", "algorithm", "bottleneck")
CONTENDED: Final = ("with", "slowdown", "shared link")
"""Further columns with background traffic."""

WORDS: Final = ("algorithm", "bottleneck", "shared link")
"""Columns that are words."""


def table(answer: CollectiveAnswer) -> list[list[str]]:
    """Return the rows of the table, its heading first."""
    contended = answer.timings[0].slowdown is not None
    head = [*HEADINGS, *(CONTENDED if contended else ())]
    return [head, *map(_cells, answer.timings)]


def _cells(timing: Timing) -> list[str]:
    cells = [
        format_binary(timing.bytes),
        format_seconds(timing.time_s),
        format_bandwidth(timing.algbw),
        format_bandwidth(timing.busbw),
        f"{timing.algorithm} {timing.protocol}",
        timing.bottleneck,
    ]
    if timing.time_with_s is not None and timing.slowdown is not None:
        contended = format_seconds(timing.time_with_s), f"{timing.slowdown:.2f} x"
        cells += [*contended, timing.shared_link or "none"]
    return cells
