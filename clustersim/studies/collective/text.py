"""The table and the figure of a collective by size, from the plain values of ``--json``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clustersim import __version__
from clustersim.render import folder
from clustersim.render.frames import write_lines
from clustersim.render.matplotlib.figure import INK, plots, save
from clustersim.render.tables import aligned
from clustersim.units import format_bandwidth, format_binary, format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILES: Final = (folder.SUMMARY, "collective.csv")
FIGURES: Final = ("collective.png", "collective.svg")
"""What the verb leaves; a barrier, which has no sizes, no figures."""

COLOURS: Final = ("#1f5a8c", "#e08a1e", "#5a9e6f", "#8c3f8c", "#b03a2e", "#555555")
MARKERS: Final = "os^Dvx"

Line = Mapping[str, Any]
"""One size: ``bytes``, ``time_s``, ``algbw``, ``busbw``, ``algorithm`` and so on."""

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
            _way(line),
            line["bottleneck"],
        ]
        if "slowdown" in line:
            with_it = format_seconds(line["time_with_s"])
            row += [with_it, f"{line['slowdown']:.2f} x", line["shared_link"] or "none"]
        table.append(row)
    return table


def _way(line: Line) -> str:
    return f"{line['algorithm']} {line['protocol']}"


def text(title: str, lines: Sequence[Line]) -> str:
    """Return the table as it is printed, numbers to the right."""
    return "\n".join([title, "", *aligned(rows(lines), WORDS)])


def write(title: str, lines: Sequence[Line], place: Path, *, force: bool = False) -> None:
    """Write the numbers and the figure into a folder.

    Raises
    ------
    ScenarioError
        when the folder is taken, or cannot be written.
    """
    folder.check_free(place, force=force)
    with folder.replacing(place) as new:
        drawn = lines[0]["bytes"] > 0
        files = (*FILES, *FIGURES) if drawn else FILES
        folder.write_summary({"title": title, "timings": lines}, files, new)
        head = [*lines[0]]
        cells = ([line[key] for key in head] for line in lines)
        write_lines([head, *cells], new / "collective.csv")
        if drawn:
            draw(title, lines, new / "collective")


def finding(lines: Sequence[Line]) -> str:
    """Return what the figure shows, as its title."""
    best = max(line["busbw"] for line in lines)
    half = next(line for line in lines if line["busbw"] >= best / 2)
    reached = f"{format_bandwidth(best)} of bus bandwidth"
    return f"{reached}, half of it from {format_binary(half['bytes'])}"


def draw(title: str, lines: Sequence[Line], stem: Path) -> None:
    """Draw bus bandwidth by size, marked by algorithm, as ``stem.png`` and ``stem.svg``."""
    with plots(finding(lines), f"{title}; clustersim {__version__}", 8.0, 1, 3.4) as (figure, axs):
        axes = axs[0]
        sizes = [line["bytes"] for line in lines]
        rates = [line["busbw"] / 1e9 for line in lines]
        axes.plot(sizes, rates, color="0.75", linewidth=1, zorder=1)
        for i, way in enumerate(dict.fromkeys(map(_way, lines))):
            mine = [(line["bytes"], line["busbw"] / 1e9) for line in lines if _way(line) == way]
            look: Any = {"color": COLOURS[i % 6], "marker": MARKERS[i % 6], "linestyle": "none"}
            axes.plot(*zip(*mine, strict=True), label=way, **look)
        if "slowdown" in lines[0]:
            slow = [line["busbw"] / line["slowdown"] / 1e9 for line in lines]
            dashed: Any = {"color": INK, "linewidth": 1, "linestyle": "--"}
            axes.plot(sizes, slow, label="with the traffic beside it", **dashed)
        _label(axes, sizes)
        save(figure, stem)


def _label(axes: "Axes", sizes: Sequence[float]) -> None:
    """Name the axes and mark every fourth power of two."""
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("size of the buffer")
    axes.set_ylabel("bus bandwidth [GB/s]")
    step = max(1, len(sizes) // 8)
    axes.set_xticks(sizes[::step], [format_binary(size) for size in sizes[::step]])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.9")
    axes.legend(frameon=False, fontsize=8)
