"""Timelines as figures: each block of each lane, or an image where they are too many to draw."""

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from clustersim.render.charts.timeline import Timeline, covered
from clustersim.render.matplotlib.figure import DOTS, Room, paint, text_width
from clustersim.render.palette import LIGHT, ink_on, parse_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_SHAPES: Final = 1_500
"""Blocks that are drawn one by one; more of them are drawn as an image."""


MOST_NAMES: Final = 24
"""Lanes up to which all that have names show them."""


def timeline_room(picture: Timeline) -> Room:
    """Return the room of a timeline: that of its lanes, less where it is an image."""
    most = 5.0 if len(picture.start) <= MOST_SHAPES else 2.6
    left = 0.65 + text_width(picture.names)
    return Room(float(np.clip(0.24 * picture.count, 0.5, most)), left=left, width=11.0)


def draw_timeline(axes: "Axes", picture: Timeline) -> None:
    """Draw lanes down and time across."""
    axes.set_xlim(*picture.limits)
    axes.set_ylim(picture.count - 0.5, -0.5)
    axes.set_xlabel(picture.time.title)
    axes.set_ylabel(picture.lanes)
    axes.set_facecolor(paint("bubble"))
    all_named = picture.names and picture.count <= MOST_NAMES
    ticks = [*range(picture.count)] if all_named else _lane_ticks(picture.count)
    axes.set_yticks(ticks, [picture.name(lane) for lane in ticks])
    if picture.ends is not None:
        axes.axvspan(picture.ends, picture.limits[1], color=paint("ground"), zorder=0.5)
    if len(picture.start) <= MOST_SHAPES:
        _draw_blocks(axes, picture)
        _draw_numbers(axes, picture)
    else:
        _draw_image(axes, picture)


def _lane_ticks(count: int) -> list[int]:
    """Return at most nine lanes to name, the first and the last among them.

    >>> _lane_ticks(8), _lane_ticks(64)
    ([0, 1, 2, 3, 4, 5, 6, 7], [0, 16, 32, 48, 63])
    """
    if count <= 9:
        return list(range(count))
    step = max(1, count // 4)
    return [*range(0, count - step // 2, step), count - 1]


def _shades(picture: Timeline) -> NDArray[np.float64]:
    """Return the red, green and blue of each kind by shade."""
    share = np.linspace(0, 1, picture.shades)[:, None]
    ends = [
        [np.array(parse_colour(LIGHT[name])) for name in kind.colours] for kind in picture.kinds
    ]
    return np.stack([first * (1 - share) + last * share for first, last in ends])


def _draw_blocks(axes: "Axes", picture: Timeline) -> None:
    """Draw every block as a box."""
    from matplotlib.collections import PolyCollection

    x = np.stack([picture.start, picture.end, picture.end, picture.start], axis=1)
    y = picture.lane[:, None] + np.array([-0.44, -0.44, 0.44, 0.44])
    colours = _shades(picture)[picture.kind, picture.shade.clip(0)]
    boxes = PolyCollection(
        list(np.stack([x, y], axis=2)), facecolors=colours, edgecolors="white", linewidths=0.4
    )
    axes.add_collection(boxes, autolim=False)


def _draw_numbers(axes: "Axes", picture: Timeline) -> None:
    """Write the number of each block into it, if most of them have room for it."""
    blocks, (begin, end) = picture.computes, picture.limits
    wide, high = _inches(axes)
    widths = (picture.end - picture.start)[blocks] / (end - begin) * wide * 72
    digits = len(str(int(picture.number.max(initial=0))))
    room = float(np.quantile(widths, 0.1)) if len(widths) else 0.0
    size = min(8.0, room / (0.68 * digits), 0.7 * high * 72 / picture.count)
    if size < 4.5:
        return
    inside = (picture.start >= begin) & (picture.end <= end) & blocks
    inks = [[ink_on(colour) for colour in shades] for shades in _shades(picture).tolist()]
    whites = np.array(inks)[picture.kind, picture.shade.clip(0), 0] > 0
    _write_numbers(axes, picture, inside & ~whites, size, "black")
    _write_numbers(axes, picture, inside & whites, size, "white")


def _write_numbers(
    axes: "Axes", picture: Timeline, rows: NDArray[np.bool_], size: float, colour: str
) -> None:
    """Write numbers as outlines, all at once: a text for each took a millisecond."""
    from matplotlib.collections import PathCollection
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    numbers = picture.number[rows].tolist()
    outlines = {}
    for number in sorted(set(numbers)):
        path = TextPath((0, 0), str(number), size=size)
        (left, bottom), (right, top) = path.get_extents().get_points()
        centre = Affine2D().translate(-(left + right) / 2, -(bottom + top) / 2)
        outlines[number] = path.transformed(centre)
    middle = (picture.start + picture.end)[rows] / 2
    figure = axes.get_figure(root=True)
    assert figure is not None
    text = PathCollection(
        [outlines[number] for number in numbers],
        offsets=np.stack([middle, picture.lane[rows]], axis=1),
        offset_transform=axes.transData,
        facecolors=[colour],
        linewidths=0,
    )
    text.set_transform(Affine2D().scale(1 / 72) + figure.dpi_scale_trans)
    axes.add_collection(text, autolim=False)


def _inches(axes: "Axes") -> tuple[float, float]:
    """Return the width and height of a plot."""
    figure, place = axes.get_figure(root=True), axes.get_position()
    assert figure is not None
    width, height = figure.get_size_inches()
    return float(place.width * width), float(place.height * height)


def _draw_image(axes: "Axes", picture: Timeline) -> None:
    """Paint the blocks into pixels, each the mean colour of what it covers."""
    wide, high = _inches(axes)
    begin, end = picture.limits
    extent = (begin, end, picture.count - 0.5, -0.5)
    image = _pixels(picture, columns=round(wide * DOTS))
    axes.imshow(image, extent=extent, aspect="auto", interpolation="none")
    if high * DOTS / picture.count >= 5:  # there is room for a gap between lanes
        gaps = np.arange(picture.count - 1) + 0.5
        end = end if picture.ends is None else picture.ends
        axes.hlines(gaps, begin, end, color=paint("bubble"), linewidth=0.7)


def _pixels(picture: Timeline, columns: int) -> NDArray[np.uint8]:
    """Return a row of pixels for each lane: red, green and blue from 0 to 255."""
    edges = np.linspace(*picture.limits, columns + 1)
    ground, shades = np.array(parse_colour(LIGHT["bubble"])), _shades(picture)
    image = np.empty((picture.count, columns, 3))
    image[:] = ground
    code = picture.kind * picture.shades + picture.shade.clip(0)
    for lane in range(picture.count):
        rows = slice(*np.searchsorted(picture.lane, [lane, lane + 1]))
        for number, colour in enumerate(shades.reshape(-1, 3)):
            some = code[rows] == number
            if some.any():
                share = covered(picture.start[rows][some], picture.end[rows][some], edges)
                image[lane] += share[:, None] * (colour - ground)
    if picture.ends is not None:
        image[:, edges[:-1] >= picture.ends] = parse_colour(LIGHT["ground"])
    return (255 * image.clip(0, 1)).round().astype(np.uint8)
