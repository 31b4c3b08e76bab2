"""The figure of a pipeline in time: each block of each stage, or as many as can be seen.

Drawing takes a picture and a file name, nothing else, so that another process can do it.
matplotlib is imported where it is used, and never pyplot, which keeps figures alive and looks for
a screen.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustersim.render.matplotlib.figure import DOTS, INK, legend, plots, save
from clustersim.render.palette import BLOCKS, BUBBLE, COMMUNICATION, OPTIMISER, WHITE, Colour
from clustersim.studies.run.pictures import KINDS, TimelinePicture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_SHAPES: Final = 1_500
"""Blocks that are drawn one by one; more of them are drawn as an image."""


class Panel(NamedTuple):
    """One view of the timeline: an interval [s] and what it is."""

    heading: str
    begin: float
    end: float


def panels(picture: TimelinePicture) -> list[Panel]:
    """Return the views: the whole step, and its two ends where blocks are too small to see."""
    whole = Panel("", 0.0, picture.duration)
    if len(picture.start) <= MOST_SHAPES // 2:
        return [whole]
    first = np.flatnonzero(picture.stage == 0)
    blocks = first[picture.microbatch[first] >= 0]
    count = min(max(2 * picture.stages * picture.chunks, 16), len(blocks)) - 1
    filled, drained = float(picture.end[blocks[count]]), float(picture.start[blocks[-1 - count]])
    return [
        whole._replace(heading="whole step (colours mix where blocks are narrower than a dot)"),
        Panel("how the pipeline fills", 0.0, filled),
        Panel("how it drains, and what follows", drained, picture.duration),
    ]


def draw_timeline(
    picture: TimelinePicture, stem: Path, formats: Sequence[str], unit: str = "s"
) -> None:
    """Draw the pipeline, stages down and time across into a file for each format."""
    views = panels(picture)
    height = float(np.clip(0.24 * picture.stages, 0.5, 5.0 if len(views) == 1 else 2.6))
    with plots(picture.title, picture.caption, 11.0, len(views), height) as (figure, axes):
        for view, place in zip(views, axes, strict=True):
            _draw_view(place, picture.within(view.begin, view.end), view)
        axes[-1].set_xlabel(f"time [{unit}]")
        legend(figure, _timeline_colours(picture))
        save(figure, stem, [f".{format}" for format in formats])


def _draw_view(axes: "Axes", picture: TimelinePicture, view: Panel) -> None:
    axes.set_xlim(view.begin, view.end)
    axes.set_ylim(picture.stages - 0.5, -0.5)
    axes.set_ylabel("stage")
    axes.set_facecolor(BUBBLE)
    axes.set_yticks(_stage_ticks(picture.stages))
    axes.text(0, 1.02, view.heading, transform=axes.transAxes, size=9, va="bottom")
    if len(picture.start) <= MOST_SHAPES:
        _draw_blocks(axes, picture)
        _draw_labels(axes, picture, view)
    else:
        _draw_image(axes, picture, view)


def _stage_ticks(stages: int) -> list[int]:
    """Return at most nine stages to name, the first and the last among them.

    >>> _stage_ticks(8), _stage_ticks(64)
    ([0, 1, 2, 3, 4, 5, 6, 7], [0, 16, 32, 48, 63])
    """
    if stages <= 9:
        return list(range(stages))
    step = max(1, stages // 4)
    return [*range(0, stages - step // 2, step), stages - 1]


def _palette(chunks: int) -> NDArray[np.float64]:
    """Return the colour of each code: each kind of block by chunk, then the two that follow."""
    share = np.linspace(0, 1, chunks)[:, None]
    shades = [np.array(a) * (1 - share) + np.array(b) * share for a, b in BLOCKS]
    return np.vstack([*shades, COMMUNICATION, OPTIMISER])


def _codes(picture: TimelinePicture) -> NDArray[np.int64]:
    """Return the row of the palette for each block."""
    chunks = picture.chunks
    blocks = len(BLOCKS)
    after = blocks * (chunks - 1) + picture.kind
    own = picture.kind * chunks + picture.chunk
    return np.where(picture.kind < blocks, own, after).astype(np.int64)


def _timeline_colours(picture: TimelinePicture) -> dict[str, Colour]:
    """Return what the legend explains."""
    palette = [(float(r), float(g), float(b)) for r, g, b in _palette(picture.chunks)]
    there = [kind for kind in range(len(BLOCKS)) if (picture.kind == kind).any()]
    split = KINDS.index("backward of inputs")
    both = split in there and split - 1 in there  # which have one colour
    named: dict[str, Colour] = {}
    for kind in there:
        if both and kind == split:
            continue
        row, what = kind * picture.chunks, KINDS[kind]
        what = f"{what}, whole or of inputs" if both and kind == split - 1 else what
        if picture.chunks == 1 or len(there) > 2:
            named[what] = palette[row]
        else:
            named[f"{what}, first chunk"] = palette[row]
            named[f"{what}, last chunk"] = palette[row + picture.chunks - 1]
    if picture.chunks > 1 and len(there) > 2:
        named["the last chunk is darker"] = palette[picture.chunks - 1]
    if (picture.microbatch < 0).any():
        named |= {"gradients, parameters": COMMUNICATION, "optimiser": OPTIMISER}
    return named | {"waiting (bubble)": BUBBLE}


def _draw_blocks(axes: "Axes", picture: TimelinePicture) -> None:
    """Draw every block as a box."""
    from matplotlib.collections import PolyCollection

    x = np.stack([picture.start, picture.end, picture.end, picture.start], axis=1)
    y = picture.stage[:, None] + np.array([-0.44, -0.44, 0.44, 0.44])
    colours = _palette(picture.chunks)[_codes(picture)]
    boxes = PolyCollection(
        list(np.stack([x, y], axis=2)), facecolors=colours, edgecolors="white", linewidths=0.4
    )
    axes.add_collection(boxes, autolim=False)


def _draw_labels(axes: "Axes", picture: TimelinePicture, view: Panel) -> None:
    """Write the microbatch's number into each block, if most of them have room for it."""
    blocks = picture.microbatch >= 0
    wide, high = _inches(axes)
    widths = (picture.end - picture.start)[blocks] / (view.end - view.begin) * wide * 72
    digits = len(str(int(picture.microbatch.max(initial=0))))
    room = float(np.quantile(widths, 0.1)) if len(widths) else 0.0
    size = min(8.0, room / (0.68 * digits), 0.7 * high * 72 / picture.stages)
    if size < 4.5:
        return
    inside = (picture.start >= view.begin) & (picture.end <= view.end) & blocks
    _write_numbers(axes, picture, inside & (picture.kind == 0), size, INK)
    _write_numbers(axes, picture, inside & (picture.kind > 0), size, WHITE)


def _write_numbers(
    axes: "Axes", picture: TimelinePicture, rows: NDArray[np.bool_], size: float, colour: Colour
) -> None:
    """Write microbatches as outlines, all at once: a text for each took a millisecond."""
    from matplotlib.collections import PathCollection
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    numbers = picture.microbatch[rows].tolist()
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
        offsets=np.stack([middle, picture.stage[rows]], axis=1),
        offset_transform=axes.transData,
        facecolors=[colour],
        linewidths=0,
    )
    text.set_transform(Affine2D().scale(1 / 72) + figure.dpi_scale_trans)
    axes.add_collection(text, autolim=False)


def _inches(axes: "Axes") -> tuple[float, float]:
    """Return the size of a plot on paper."""
    figure, place = axes.get_figure(root=True), axes.get_position()
    assert figure is not None
    width, height = figure.get_size_inches()
    return float(place.width * width), float(place.height * height)


def _draw_image(axes: "Axes", picture: TimelinePicture, view: Panel) -> None:
    """Paint the blocks into pixels, each the mean colour of what it covers."""
    wide, high = _inches(axes)
    image = paint(picture, view, pixels=round(wide * DOTS))
    extent = (view.begin, view.end, picture.stages - 0.5, -0.5)
    axes.imshow(image, extent=extent, aspect="auto", interpolation="none")
    if high * DOTS / picture.stages >= 5:  # there is room for a gap between stages
        gaps = np.arange(picture.stages - 1) + 0.5
        axes.hlines(gaps, view.begin, view.end, color=[BUBBLE], linewidth=0.7)


def paint(picture: TimelinePicture, view: Panel, pixels: int) -> NDArray[np.uint8]:
    """Return a row of pixels for each stage: red, green and blue from 0 to 255."""
    edges = np.linspace(view.begin, view.end, pixels + 1)
    palette, codes = _palette(picture.chunks), _codes(picture)
    image = np.empty((picture.stages, pixels, 3))
    image[:] = BUBBLE
    for stage in range(picture.stages):
        mine = slice(*np.searchsorted(picture.stage, [stage, stage + 1]))
        for code, colour in enumerate(palette):
            some = codes[mine] == code
            if some.any():
                share = covered(picture.start[mine][some], picture.end[mine][some], edges)
                image[stage] += share[:, None] * (colour - np.array(BUBBLE))
    return (255 * image.clip(0, 1)).round().astype(np.uint8)


def covered(
    start: NDArray[np.float64], end: NDArray[np.float64], edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the share of each bin between `edges` that intervals cover, these in order.

    >>> covered(np.array([0.0, 3.0]), np.array([1.0, 4.0]), np.array([0.0, 2.0, 3.5, 4.0]))
    array([0.5       , 0.33333333, 1.        ])
    """
    lengths = np.cumsum(end - start)
    times = np.stack([start, end], axis=1).ravel()
    sums = np.stack([np.concatenate([[0.0], lengths[:-1]]), lengths], axis=1).ravel()
    before: NDArray[np.float64] = np.interp(edges, times, sums)
    return np.diff(before) / np.diff(edges)


__all__ = ["Panel", "covered", "draw_timeline", "panels"]
