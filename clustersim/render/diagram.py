"""A diagram of boxes and wires as plain data [in], before anything is drawn.

`render.layouts` makes diagrams of machines, `render.matplotlib.diagram` draws them in files.  The
thickness of a wire is the root of its bandwidth, on the same scale in every diagram.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import field
from itertools import pairwise
from math import cos, pi, sin, sqrt
from typing import Final, NamedTuple, TypeVar

import numpy as np

from clustersim import __version__
from clustersim.records import dataclass
from clustersim.render.palette import LIGHT, LINKS, Colour, parse_colour

Point = tuple[float, float]
End = TypeVar("End", bound=Hashable)

DEVICE, SWITCH, NIC, FAINT = (
    parse_colour(LIGHT[name]) for name in ("box-device", "box-switch", "box-nic", "faint")
)
WIRES: Final[tuple[Colour, ...]] = tuple(
    parse_colour(LIGHT[f"wire-{i}"]) for i in range(len(LINKS))
)
"""Colours of kinds of links, in the order of their first use."""

LETTER: Final = 0.62 / 72
"""Mean width of a letter for each point of its size [in]."""

_TITLE, _CAPTION, _LEGEND = 0.101, 0.061, 0.066
"""Width of a letter of title, caption and legend, with a small reserve [in]."""

MARGIN: Final = 0.2
"""Margin around everything [in]."""

Frame = tuple[float, float, float, float]
"""Left, bottom, right and top of a rectangle."""


class Box(NamedTuple):
    """A rectangle with a name around `x`, `y`."""

    x: float
    y: float
    width: float
    height: float
    text: str
    colour: Colour
    size: float = 8.0


class Wire(NamedTuple):
    """A link, along points; `kind` is what the legend explains, `label` its bandwidth.

    In a node `ends` are the names that links have there: ``("dev0", "nic0")``.
    """

    points: tuple[Point, ...]
    kind: str
    bandwidth: float
    label: str = ""
    faint: bool = False
    ends: tuple[str, str] = ("", "")


class Note(NamedTuple):
    """A text; `align` is left, center or right of `x`, and `y` is its middle."""

    x: float
    y: float
    text: str
    size: float = 8.0
    align: str = "center"
    bold: bool = False


@dataclass(frozen=True)
class Diagram:
    """A diagram: its finding (`title`), what is drawn and how to read it (`caption`).

    Attributes
    ----------
    kinds : the text of the legend for each kind of wire, in the order of their colours
    """

    title: str
    caption: str
    width: float
    height: float
    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]
    notes: tuple[Note, ...] = ()
    kinds: dict[str, str] = field(default_factory=dict)


@dataclass
class Sketch:
    """A diagram being built: things are placed anywhere; its extent is computed at the end."""

    boxes: list[Box] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def dots(self, x: float, y: float) -> None:
        """Mark with dots that more exist than are drawn."""
        self.notes.append(Note(x, y, "...", 14, bold=True))

    def diagram(self, title: str, caption: str, kinds: dict[str, str]) -> Diagram:
        """Return the diagram, with room for its title, its caption and its legend."""
        left, bottom, right, top = self._extent()
        caption = f"{caption}; clustersim {__version__}"
        words = max(
            _TITLE * len(title),
            _CAPTION * len(caption),
            sum(0.65 + _LEGEND * len(text) for text in kinds.values()),
        )
        width = max(right - left, words) + 2 * MARGIN
        x, y = (width - right + left) / 2 - left, MARGIN - bottom
        return Diagram(
            title=title,
            caption=caption,
            width=width,
            height=top - bottom + 2 * MARGIN,
            boxes=tuple(box._replace(x=box.x + x, y=box.y + y) for box in self.boxes),
            wires=tuple(
                wire._replace(points=tuple((a + x, b + y) for a, b in wire.points))
                for wire in self.wires
            ),
            notes=tuple(note._replace(x=note.x + x, y=note.y + y) for note in self.notes),
            kinds=kinds,
        )

    def _extent(self) -> Frame:
        """Return the rectangle around everything."""
        frames = [frame(box.x, box.y, box.width, box.height) for box in self.boxes]
        frames += [frame_of(note) for note in self.notes]
        frames += [(a, b, a, b) for wire in self.wires for a, b in wire.points]
        lefts, bottoms, rights, tops = zip(*frames, strict=True)
        return min(lefts), min(bottoms), max(rights), max(tops)


def thickness(bandwidth: float) -> float:
    """Return the width of a wire [pt]: 1 for 22 GB/s, 4.5 for 450 GB/s, at most 8."""
    return min(max(0.213 * sqrt(bandwidth / 1e9), 0.6), 8.0)


def whole(share: float) -> str:
    """Return a share in whole percent: ``'94 %'``."""
    return f"{100 * share:.0f} %"


def gigabytes(bandwidth: float) -> str:
    """Return a bandwidth for a label: a number of GB/s.

    >>> gigabytes(450e9), gigabytes(31.5e9), gigabytes(12.8e12)
    ('450', '31.5', '12,800')
    """
    return f"{bandwidth / 1e9:,.4g}" if bandwidth < 1e12 else f"{bandwidth / 1e9:,.0f}"


def picked(count: int, most: int) -> list[int | None]:
    """Return which `most` of `count` things are drawn, the first and the last; None for dots.

    >>> picked(3, 4), picked(20, 4)
    ([0, 1, 2], [0, 1, 2, None, 19])
    """
    return list(range(count)) if count <= most else [*range(most - 1), None, count - 1]


def around(x: float, y: float, wide: float, high: float, turn: float) -> Point:
    """Return a point of an ellipse, clockwise from the top by `turn` of the whole."""
    return x + wide * sin(2 * pi * turn), y + high * cos(2 * pi * turn)


def arc(a: Point, b: Point, rise: float) -> tuple[Point, ...]:
    """Return half an ellipse from `a` to `b`, bulging by `rise` to the left of its direction.

    >>> [(round(x, 2), round(y, 2)) for x, y in arc((0, 0), (2, 0), -1)][30]
    (1.0, -1.0)
    """
    middle = (a[0] + b[0]) / 2, (a[1] + b[1]) / 2
    half = (b[0] - a[0]) / 2, (b[1] - a[1]) / 2
    length = (half[0] ** 2 + half[1] ** 2) ** 0.5 or 1.0
    up = -half[1] / length * rise, half[0] / length * rise
    turns = [pi * step / 60 for step in range(61)]
    return tuple(
        (
            middle[0] - half[0] * cos(turn) + up[0] * sin(turn),
            middle[1] - half[1] * cos(turn) + up[1] * sin(turn),
        )
        for turn in turns
    )


def along(points: Sequence[Point], share: float) -> Point:
    """Return the point at a share of the length of a line."""
    pieces = list(pairwise(points))
    lengths = [((c - a) ** 2 + (d - b) ** 2) ** 0.5 for (a, b), (c, d) in pieces]
    left = share * sum(lengths)
    for ((a, b), (c, d)), length in zip(pieces, lengths, strict=True):
        if left <= length and length > 0:
            return a + (c - a) * left / length, b + (d - b) * left / length
        left -= length
    return points[-1]


def frame(x: float, y: float, width: float, height: float) -> Frame:
    """Return a rectangle by its middle and size."""
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def frame_of(note: Note) -> Frame:
    """Return the rectangle that a note covers, about."""
    lines = note.text.split("\n")
    width = LETTER * note.size * max(map(len, lines))
    height = 1.25 / 72 * note.size * len(lines)
    shift = {"left": width / 2, "right": -width / 2}.get(note.align, 0.0)
    return frame(note.x + shift, note.y, width, height)


def shared(a: Frame, b: Frame) -> float:
    """Return the area that two rectangles share."""
    wide = min(a[2], b[2]) - max(a[0], b[0])
    high = min(a[3], b[3]) - max(a[1], b[1])
    return wide * high if wide > 0 and high > 0 else 0.0


_PLACES: Final = (0.5, 0.42, 0.58, 0.34, 0.66, 0.27, 0.73, 0.2, 0.8)
"""Shares of a wire where its label may be placed, the best first."""


def labels(sketch: Sketch, size: float = 7.0) -> list[Note]:
    """Return the bandwidth of each wire as a label, off boxes, other labels and other wires.

    Labels are placed one after another, each at the best free place; in the middle if all tie.
    """
    taken = [frame(box.x, box.y, box.width, box.height) for box in sketch.boxes]
    crossed = np.array(
        [[along(wire.points, step / 30) for step in range(31)] for wire in sketch.wires]
    ).reshape(-1, 31, 2)
    notes = []
    for number, wire in enumerate(sketch.wires):
        if not wire.label:
            continue
        x, y = np.moveaxis(np.delete(crossed, number, axis=0), -1, 0)
        best = None
        for rank, share in enumerate(_PLACES):
            note = Note(*along(wire.points, share), wire.label, size)
            own = frame_of(note)
            inside = (own[0] < x) & (x < own[2]) & (own[1] < y) & (y < own[3])
            hidden = np.count_nonzero(inside)
            cost = 1000 * sum(shared(own, other) for other in taken) + 2 * hidden + 0.5 * rank
            if best is None or cost < best[0]:
                best = cost, note, own
        assert best is not None
        notes.append(best[1])
        taken.append(best[2])
    return notes


def levels(links: Iterable[tuple[End, End]], bottom: Iterable[End]) -> dict[End, int]:
    """Return the row of each end of some links: its distance from the nearest end at the bottom.

    >>> levels([("n0", "leaf"), ("leaf", "spine"), ("n1", "leaf")], ["n0", "n1"])
    {'n0': 0, 'n1': 0, 'leaf': 1, 'spine': 2}
    """
    level = dict.fromkeys(bottom, 0)
    around = neighbours(links)
    front = list(level)
    while front:
        reached = dict.fromkeys(b for a in front for b in around.get(a, ()) if b not in level)
        level |= dict.fromkeys(reached, level[front[0]] + 1)
        front = list(reached)
    return level


def neighbours(links: Iterable[tuple[End, End]]) -> dict[End, list[End]]:
    """Return the other ends of the links of each end."""
    others: dict[End, list[End]] = {}
    for a, b in links:
        others.setdefault(a, []).append(b)
        others.setdefault(b, []).append(a)
    return others
