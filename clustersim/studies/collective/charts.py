"""The chart of a collective: bus bandwidth over the size of the buffer, marked by algorithm."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clustersim.render.charts import Axis, Lines, Series
from clustersim.render.charts.lines import colour_at, marker_at
from clustersim.units import format_bandwidth, format_binary

Line = Mapping[str, Any]
"""One size: ``bytes``, ``time_s``, ``algbw``, ``busbw``, ``algorithm`` and so on."""

TICKS: Final = 8
"""Sizes that are named on the axis."""


def bandwidth_chart(title: str, lines: Sequence[Line]) -> Lines:
    """Return the bus bandwidth of each size; with other traffic as well, where there is some."""
    sizes, rates = zip(
        *((float(line["bytes"]), line["busbw"] / 1e9) for line in lines), strict=True
    )
    series = [Series("", sizes, rates, "line", marker="", thin=True)]
    for place, algorithm in enumerate(dict.fromkeys(map(algorithm_of, lines))):
        points = [i for i, line in enumerate(lines) if algorithm_of(line) == algorithm]
        x, y = tuple(sizes[i] for i in points), tuple(rates[i] for i in points)
        series.append(Series(algorithm, x, y, colour_at(place), marker_at(place), "none"))
    if "slowdown" in lines[0]:
        slow = tuple(line["busbw"] / line["slowdown"] / 1e9 for line in lines)
        series.append(Series("with concurrent traffic", sizes, slow, "ink", "", "dashed"))
    ticks = tuple((size, format_binary(size)) for size in sizes[:: max(1, len(sizes) // TICKS)])
    return Lines(
        title=finding(lines),
        caption=title,
        description="Bus bandwidth over the size of the buffer, with a marker for each algorithm.",
        contents="bus bandwidth by size",
        x=Axis("size of the buffer", log=2, ticks=ticks),
        y=Axis("bus bandwidth", "GB/s", zero=True),
        series=tuple(series),
    )


def finding(lines: Sequence[Line]) -> str:
    """Return the largest bandwidth and the size that reaches half of it, as a title."""
    best = max(line["busbw"] for line in lines)
    half = next(line for line in lines if line["busbw"] >= best / 2)
    reached = f"{format_bandwidth(best)} of bus bandwidth"
    return f"{reached}, half of it from {format_binary(half['bytes'])}"


def algorithm_of(line: Line) -> str:
    """Return the algorithm of a size with its protocol."""
    return f"{line['algorithm']} {line['protocol']}"


__all__ = ["Line", "algorithm_of", "bandwidth_chart", "finding"]
