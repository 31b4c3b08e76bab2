"""Links, the hottest first, and the node that has the hottest inside, in the colours of heat.

What a link carries is counted over the whole step, so that one that is filled for a moment and
idle else counts little: it is the room that is left, not the longest queue.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clustersim.report.diagram import DEVICE, NIC, SWITCH, Box, Diagram, Note, Wire, thickness
from clustersim.report.page.chart import colour
from clustersim.report.page.page import Column, Drawing, Line, Section, Shape, Swatch, Table, Word
from clustersim.report.tables import percent
from clustersim.units import format_bandwidth, format_bytes

if TYPE_CHECKING:
    from clustersim.simulate import Result

Loads = Mapping[tuple[str, str], float]
"""Utilisation by the ends of a link, as links of a node call them."""

INCH: Final = 104.0
"""Pixels of an inch of a diagram, a little more than on paper: its letters are small."""

_INSIDE: Final = re.compile(r"(n\d+)\.(\w+)>\1\.(\w+)")


@dataclass(frozen=True)
class LinksPicture:
    """The hottest links, and all links inside one node.

    Attributes
    ----------
    hottest : name, capacity [B/s], payload of the step [B], utilisation; the hottest first
    node : the name of the node that is drawn, ``n0``
    loads : of its links
    """

    hottest: tuple[tuple[str, float, float, float], ...]
    node: str
    loads: dict[tuple[str, str], float]
    used: int


def links_picture(result: "Result") -> LinksPicture:
    """Return the hottest links, and the loads inside the node that has the hottest of its kind."""
    inside = (_INSIDE.fullmatch(link.name) for link in result.links)
    node = next((found[1] for found in inside if found), "n0")
    prefix = f"{node}."
    loads = {}
    for name, capacity, nbytes in result.program.carried:
        if name.startswith(prefix) and (found := _INSIDE.fullmatch(name)):
            loads[found[2], found[3]] = nbytes / capacity / result.step_time
    hottest = tuple((each.name, *each[1:]) for each in result.links)
    return LinksPicture(hottest, node, loads, len(result.program.carried))


def links(picture: LinksPicture, diagram: Diagram) -> Section:
    """Return the hottest links as a table, and the node `diagram` with what its links carry."""
    said = (
        "How much of what a link could carry in the step it did carry, per direction."
        " Of links that are alike only the first is named."
    )
    drawn = [_drawing(picture, diagram)] if diagram.wires else []
    return Section("Links", "links", (said,), (_table(picture), *drawn))


def _table(picture: LinksPicture) -> Table:
    columns = (
        Column("link"), Column("of its capacity", True), Column("capacity", True),
        Column("carries in a step", True),
    )  # fmt: skip
    lines = tuple(
        (name, percent(share), format_bandwidth(capacity), format_bytes(nbytes))
        for name, capacity, nbytes, share in picture.hottest
    )
    return Table(f"The hottest of {picture.used:,} links that are used", columns, lines)


# --- the drawing ----------------------------------------------------------------------------------

_FILLS: Final = {DEVICE: "box-device", SWITCH: "box-switch", NIC: "box-nic"}

_HEAT: Final = (
    (2 / 3, "hot", "hottest of these links, and from two thirds of it"),
    (1 / 3, "warm", "from a third of it"),
    (0.0, "compute", "less"),
)
"""Share of the hottest link from which on a colour is taken, its name and what it means."""


def _drawing(picture: LinksPicture, diagram: Diagram) -> Drawing:
    hottest = max(picture.loads.values(), default=0.0)
    loads = {wire: _load(wire, picture.loads) for wire in diagram.wires}
    wires = sorted(diagram.wires, key=loads.__getitem__)
    return Drawing(
        title=_finding(picture, diagram),
        description=f"{len(diagram.boxes)} boxes for devices, switches and NICs, joined by"
        f" {len(wires)} lines; those that carry more are in warmer colours.",
        width=round(diagram.width * INCH),
        height=round(diagram.height * INCH),
        lines=tuple(_line(wire, loads[wire], hottest, diagram) for wire in wires),
        shapes=tuple(_shape(box, diagram) for box in diagram.boxes),
        words=tuple(word for note in diagram.notes for word in _words(note, diagram)),
        table=_loads_table(picture),
        swatches=(*(Swatch(told, colour(name)) for _, name, told in _HEAT),
                  Swatch("unused in the step", colour("idle"))),
        note=f"Node {picture.node}; {diagram.caption.rpartition('; ')[0]}.",
    )  # fmt: skip


def _finding(picture: LinksPicture, diagram: Diagram) -> str:
    """Return the hottest link inside the node, and whether that is the hottest of all."""
    name = diagram.title.partition(": ")[0]
    if not picture.loads:
        return f"No link inside a node of {name} is used"
    (a, b), load = max(picture.loads.items(), key=lambda item: item[1])
    told = f"Inside a node of {name}, {a} to {b} is the hottest with {percent(load)}"
    first, _, _, most = picture.hottest[0]
    outside = not _INSIDE.fullmatch(first)
    return (
        f"{told}; of all links {first}, outside of nodes, with {percent(most)}" if outside else told
    )


def _load(wire: Wire, loads: Loads) -> float:
    """Return the load of the busier direction of a wire."""
    a, b = wire.ends
    return max(loads.get((a, b), 0.0), loads.get((b, a), 0.0))


def _line(wire: Wire, load: float, hottest: float, diagram: Diagram) -> Line:
    points = " ".join(f"{x * INCH:.1f},{(diagram.height - y) * INCH:.1f}" for x, y in wire.points)
    share = load / hottest if hottest else 0.0
    heat = next(name for least, name, _ in _HEAT if share >= least) if load else "idle"
    told = f"{' to '.join(wire.ends)}, {wire.kind}, raw {format_bandwidth(wire.bandwidth)}"
    used = f"{percent(load)} of its payload rate over the step" if load else "unused"
    return Line(points, round(1.6 * thickness(wire.bandwidth), 1), colour(heat), f"{told}: {used}")


def _shape(box: Box, diagram: Diagram) -> Shape:
    return Shape(
        x=round(box.x * INCH, 1),
        y=round((diagram.height - box.y) * INCH, 1),
        width=round(box.width * INCH, 1),
        height=round(box.height * INCH, 1),
        lines=tuple(box.text.split("\n")),
        size=_pixels(box.size),
        colour=colour(_FILLS.get(box.colour, "ground")),
    )


def _words(note: Note, diagram: Diagram) -> list[Word]:
    anchor = {"left": "start", "right": "end"}.get(note.align, "middle")
    lines, size = note.text.split("\n"), _pixels(note.size)
    top = (diagram.height - note.y) * INCH - (len(lines) - 1) / 2 * 1.15 * size
    return [
        Word(
            round(note.x * INCH, 1), round(top + 1.15 * size * i, 1), text, size, anchor, note.bold
        )
        for i, text in enumerate(lines)
    ]


def _pixels(points: float) -> float:
    return round(points * INCH / 72, 1)


def _loads_table(picture: LinksPicture) -> Table:
    lines = sorted(picture.loads.items(), key=lambda item: (-item[1], item[0]))
    return Table(
        f"links inside node {picture.node}",
        (Column("from"), Column("to"), Column("of its capacity", True)),
        tuple((a, b, percent(load)) for (a, b), load in lines),
    )


__all__ = ["LinksPicture", "links", "links_picture"]
