"""Diagrams as files: a PNG, an SVG and a PDF of each, the same bytes every time."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clustersim.render.charts.picture import printable
from clustersim.render.diagram import FAINT, WIRES, Box, Diagram, Note, thickness
from clustersim.render.matplotlib.figure import FORMATS, STYLE, paint, save
from clustersim.render.palette import Colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEADER: Final = 0.72
FOOTER: Final = 0.32
"""Space above and below a diagram [in]."""


def write_diagram(diagram: Diagram, stem: Path, formats: Sequence[str] = FORMATS) -> None:
    """Write a diagram as ``stem.png`` and so on, a file for each format."""
    from matplotlib import rc_context

    with rc_context(STYLE):
        save(diagram_figure(printable(diagram)), stem, formats)


def diagram_figure(diagram: Diagram) -> "Figure":
    """Return the figure of a diagram, its title above and its caption below."""
    from matplotlib.figure import Figure

    width, height = diagram.width, diagram.height + HEADER + FOOTER
    figure = Figure(figsize=(width, height))
    left = 0.12 / width
    figure.text(left, 1 - 0.24 / height, diagram.title, size=12, weight="bold", va="center")
    figure.text(left, 0.15 / height, diagram.caption, size=7.5, color="0.35", va="center")
    axes = figure.add_axes((0, FOOTER / height, 1, diagram.height / height))
    axes.set_axis_off()
    axes.set_xlim(0, diagram.width)
    axes.set_ylim(0, diagram.height)
    colours = {kind: WIRES[i % len(WIRES)] for i, kind in enumerate(diagram.kinds)}
    _wires(axes, diagram, colours)
    for box in diagram.boxes:
        _box(axes, box)
    for note in diagram.notes:
        _note(axes, note)
    _legend(figure, diagram, colours)
    return figure


def _wires(axes: "Axes", diagram: Diagram, colours: dict[str, Colour]) -> None:
    """Draw all wires as one collection, the faint ones at the bottom."""
    from matplotlib.collections import LineCollection

    wires = sorted(diagram.wires, key=lambda wire: not wire.faint)
    axes.add_collection(
        LineCollection(
            [wire.points for wire in wires],
            colors=[FAINT if wire.faint else colours[wire.kind] for wire in wires],
            linewidths=[0.5 if wire.faint else thickness(wire.bandwidth) for wire in wires],
            capstyle="butt",
            zorder=1,
        ),
        autolim=False,
    )


def _box(axes: "Axes", box: Box) -> None:
    from matplotlib.patches import FancyBboxPatch

    corner = box.x - box.width / 2, box.y - box.height / 2
    rounded = f"round,pad=0,rounding_size={min(0.06, box.height / 4)}"
    axes.add_patch(
        FancyBboxPatch(
            corner,
            box.width,
            box.height,
            boxstyle=rounded,
            facecolor=box.colour,
            edgecolor=paint("edge"),
            linewidth=0.7,
            zorder=2,
        )
    )
    axes.text(box.x, box.y, box.text, size=box.size, ha="center", va="center", zorder=3)


def _note(axes: "Axes", note: Note) -> None:
    plate = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    dots = note.text == "..."  # lines may pass behind them
    axes.text(
        note.x,
        note.y,
        note.text,
        size=note.size,
        ha=note.align,
        va="center",
        weight="bold" if note.bold else "normal",
        bbox=None if dots else plate,
        zorder=4,
    )


def _legend(figure: "Figure", diagram: Diagram, colours: dict[str, Colour]) -> None:
    """Explain the kinds of wires in a line under the title."""
    from matplotlib.lines import Line2D

    handles = []
    for kind, words in diagram.kinds.items():
        widest = max((w.bandwidth for w in diagram.wires if w.kind == kind), default=0.0)
        thick = thickness(widest)
        handles.append(
            Line2D(
                [],
                [],
                color=colours[kind],
                linewidth=thick,
                solid_capstyle="butt",
                label=words,
            )
        )
    if not handles:
        return
    width, height = figure.get_size_inches()
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.12 / width, 1 - 0.42 / height),
        borderpad=0,
        borderaxespad=0,
        ncols=len(handles),
        frameon=False,
        fontsize=8,
        handlelength=2.0,
        columnspacing=1.6,
    )
