"""The table and the figure of a collective by size, from the plain values of ``--json``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from clustersim.render import folder
from clustersim.render.frames import write_lines
from clustersim.render.matplotlib import write_figure
from clustersim.render.tables import aligned
from clustersim.studies.collective.charts import Line, algorithm_of, bandwidth_chart
from clustersim.units import format_bandwidth, format_binary, format_seconds

FILES: Final = (folder.SUMMARY, "collective.csv")
FIGURE: Final = "collective"
"""Files of the verb; the figure with ``--figures``, but not for a barrier, which has no sizes."""

WORDS: Final = ("algorithm", "bottleneck", "shared link")
"""Columns that are words."""


def rows(lines: Sequence[Line]) -> list[list[str]]:
    """Return the rows of the table, its heading first."""
    head = ["size", "time", "algbw", "busbw", "algorithm", "bottleneck"]
    table = [[*head, "with", "slowdown", "shared link"] if "slowdown" in lines[0] else head]
    for line in lines:
        row = [
            format_binary(line["bytes"]),
            format_seconds(line["time_s"]),
            format_bandwidth(line["algbw"]),
            format_bandwidth(line["busbw"]),
            algorithm_of(line),
            line["bottleneck"],
        ]
        if "slowdown" in line:
            with_it = format_seconds(line["time_with_s"])
            row += [with_it, f"{line['slowdown']:.2f} x", line["shared_link"] or "none"]
        table.append(row)
    return table


def text(title: str, lines: Sequence[Line]) -> str:
    """Return the table as it is printed, numbers to the right."""
    return "\n".join([title, "", *aligned(rows(lines), WORDS)])


def write(
    title: str,
    lines: Sequence[Line],
    place: Path,
    *,
    formats: Sequence[str] = (),
    force: bool = False,
) -> None:
    """Write the numbers and the figure into a folder; without formats no figure is written.

    Raises
    ------
    ScenarioError
        when the folder is taken, or cannot be written.
    """
    folder.check_free(place, force=force)
    with folder.replacing(place) as new:
        drawn = formats if lines[0]["bytes"] > 0 else ()
        files = [*FILES, *(f"{FIGURE}.{format}" for format in drawn)]
        folder.write_summary({"title": title, "timings": lines}, files, new)
        head = [*lines[0]]
        cells = ([line[key] for key in head] for line in lines)
        write_lines([head, *cells], new / "collective.csv")
        if drawn:
            write_figure(bandwidth_chart(title, lines), new / FIGURE, drawn)
