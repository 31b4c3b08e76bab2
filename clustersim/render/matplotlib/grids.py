"""Heat maps and parallel coordinates as figures."""

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from clustersim.render.charts.grids import (
    Field,
    HeatMap,
    OwnerMap,
    ParallelCoordinates,
    ShareMap,
    height,
    share_of,
)
from clustersim.render.matplotlib.figure import (
    Room,
    fitting_size,
    name_columns,
    names_below,
    paint,
    plot_width,
    text_width,
)
from clustersim.render.palette import HEAT, SCALE, ink_on
from clustersim.units import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAXIMUM: Final = 2_000
"""Lines of parallel coordinates, the best ones."""


@cache
def shades() -> Any:
    """Return the colours from the worst, 0, to the best, 1."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("scale", SCALE)


# --- heat map -------------------------------------------------------------------------------------


def heat_map_room(picture: HeatMap) -> Room:
    """Return the room of a heat map: a row for each value of the upright axis."""
    rows = len(picture.y.ticks)
    left = 0.5 + text_width(name for _, name in picture.y.ticks)
    room = Room(min(9.0, max(1.6, 0.42 * rows)), left=left)
    return room._replace(below=names_below([name for _, name in picture.x.ticks], room.plot))


def draw_heat_map(axes: "Axes", picture: HeatMap) -> None:
    """Draw a field for each combination: coloured by value, hatched where a limit is exceeded."""
    from matplotlib.patches import Rectangle

    values = [field.value for field in picture.fields.values() if field.value is not None]
    texts = [field.text for field in picture.fields.values()]
    size = fitting_size(texts, 0.96 * plot_width(axes) / max(1, len(picture.x.ticks)))
    for (row, column), field in picture.fields.items():
        share = _share(field, values, picture.more_is_better)
        _draw_field(axes, (column, row), field, share, size)
    if picture.best is not None:
        row, column = picture.best
        frame: Any = {"fill": False, "edgecolor": paint("warning"), "linewidth": 2.4, "zorder": 4}
        axes.add_patch(Rectangle((column - 0.47, row - 0.47), 0.94, 0.94, **frame))
    name_columns(axes, [name for _, name in picture.x.ticks])
    axes.set_yticks(range(len(picture.y.ticks)), [name for _, name in picture.y.ticks])
    axes.set_xlim(-0.52, len(picture.x.ticks) - 0.48)
    axes.set_ylim(len(picture.y.ticks) - 0.48, -0.52)
    axes.set_xlabel(picture.x.title)
    axes.set_ylabel(picture.y.title)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _share(field: Field, values: list[float], more_is_better: bool) -> float | None:
    if field.value is None:
        return None
    return share_of(field.value, min(values), max(values), more_is_better)


def _draw_field(
    axes: "Axes", place: tuple[int, int], field: Field, share: float | None, size: float
) -> None:
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Rectangle

    x, y = place
    look: Any = {"facecolor": paint("ground"), "edgecolor": paint("line"), "linewidth": 0.6}
    plate: Any = None
    if share is not None:
        look["facecolor"] = shades()(share)
    elif field.hatched:
        look["hatch"] = "////"
        plate = {"facecolor": paint("ground"), "edgecolor": "none", "pad": 1.0}
    ink = ink_on(to_rgb(look["facecolor"]))
    axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, **look))
    axes.text(x, y, field.text, ha="center", va="center", size=size, color=ink, bbox=plate)


# --- map of shares --------------------------------------------------------------------------------


def share_map_room(picture: ShareMap) -> Room:
    """Return the room of a map of shares, with its scale to the right."""
    left = 0.3 + text_width(picture.names)
    return Room(max(0.8, 0.32 * len(picture.names)), left=left, right=0.8)


def draw_share_map(axes: "Axes", picture: ShareMap) -> None:
    """Draw rows of cells, and a bar with the scale from 0 to 100 %."""
    from matplotlib.colors import LinearSegmentedColormap

    heat = LinearSegmentedColormap.from_list("heat", HEAT)
    percents = [[100 * share for share in row] for row in picture.shares]
    image = axes.imshow(percents, cmap=heat, vmin=0, vmax=100, aspect="auto", interpolation="none")
    axes.set_yticks(range(len(picture.names)), picture.names)
    axes.set_xticks([])
    axes.set_xlabel(picture.cells)
    axes.tick_params(length=0)
    bar = axes.inset_axes((1.015, 0.0, 0.015, 1.0))
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.colorbar(image, cax=bar, label=picture.measure.title)


# --- map of owners --------------------------------------------------------------------------------


def owner_map_room(picture: OwnerMap) -> Room:
    """Return the room of a map of owners."""
    left = 0.3 + text_width(picture.names)
    return Room(min(4.5, max(0.4, 0.2 * len(picture.names))), left=left)


def draw_owner_map(axes: "Axes", picture: OwnerMap) -> None:
    """Draw cells in the colours of their owners."""
    from matplotlib.collections import PolyCollection

    boxes, colours = [], []
    for y, row in enumerate(picture.grid):
        for x, cell in enumerate(row):
            if cell is not None:
                boxes.append([(x - a, y - b) for a, b in CORNERS])
                colours.append(paint(picture.colours[cell.owner]))
    axes.add_collection(PolyCollection(boxes, facecolors=colours, linewidths=0), autolim=False)
    axes.set_xlim(-0.5, max(map(len, picture.grid)) - 0.5)
    axes.set_ylim(len(picture.grid) - 0.5, -0.5)
    step = -(-len(picture.names) // 20)
    axes.set_yticks(range(0, len(picture.names), step), picture.names[::step])
    axes.set_xticks([])
    axes.set_xlabel(picture.measure.title)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


CORNERS: Final = ((-0.44, -0.42), (0.44, -0.42), (0.44, 0.42), (-0.44, 0.42))
"""Corners of a cell around its middle."""


# --- parallel coordinates -------------------------------------------------------------------------


def parallel_room(picture: ParallelCoordinates) -> Room:
    """Return the room of parallel coordinates."""
    return Room(3.8, left=0.3)


def draw_parallel_coordinates(axes: "Axes", picture: ParallelCoordinates) -> None:
    """Draw the best lines, the darker the better, the best of all thick and on top."""
    lines = picture.heights(MAXIMUM)
    for line in reversed(lines):
        *places, share = line
        spread = [place + 0.03 * (share - 0.5) for place in places]
        look: Any = {"color": shades()(0.3 + 0.7 * share), "linewidth": 0.8, "alpha": 0.6}
        if line is lines[0]:
            look = {"color": paint("warning"), "linewidth": 2.2, "zorder": 5}
        axes.plot(range(len(spread) + 1), [*spread, share], **look)
    _draw_axes(axes, picture)
    last = len(picture.axes)
    axes.set_xlim(-0.35, last + 0.75)
    axes.set_ylim(-0.05, 1.2)
    axes.axis("off")


def _draw_axes(axes: "Axes", picture: ParallelCoordinates) -> None:
    """Draw an upright line for each axis with its values, and one for the measure."""
    best = picture.combinations[0].places if picture.combinations else ()
    for x, axis in enumerate((*picture.axes, picture.measure)):
        axes.plot([x, x], [0, 1], color=paint("quiet"), linewidth=0.8, zorder=3)
        title = axis.title.replace(" [", "\n[") if axis.unit else axis.title.replace(" ", "\n")
        axes.text(x, 1.06, title, ha="center", va="bottom", size=9)
        names = [name for _, name in axis.ticks]
        for i in range(0, len(names), max(1, len(names) // 12)):
            chosen = x < len(best) and best[x] == i
            _tag(axes, x, height(i, len(names)), names[i], chosen=chosen)
    if picture.combinations:
        worst, top = picture.ends()
        last = len(picture.axes)
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            text = format_number(worst + share * (top - worst))
            axes.text(last + 0.06, share, text, va="center", size=8)


def _tag(axes: "Axes", x: int, y: float, text: str, *, chosen: bool) -> None:
    plate: Any = {"facecolor": paint("ground"), "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
    look: Any = {"color": paint("warning"), "weight": "bold"} if chosen else {"color": paint("ink")}
    axes.text(x - 0.05, y, text, ha="right", va="center", size=8, bbox=plate, zorder=6, **look)
