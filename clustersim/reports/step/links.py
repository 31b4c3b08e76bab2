"""The utilisation of links: the busiest, all links between nodes, and all links of one node.

Utilisation is the mean over the step, so a link that is full for a moment and idle otherwise has a
low one.  Its colours are those of one scale from 0 to 100 %, the same on every page.
"""

import re
from collections.abc import Callable, Mapping
from math import hypot
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.records import dataclass
from clustersim.render.charts.grids import ShareMap
from clustersim.render.charts.picture import Axis, Table, text_table
from clustersim.render.diagram import (
    DEVICE,
    NIC,
    SWITCH,
    Box,
    Diagram,
    Note,
    Point,
    Wire,
    thickness,
)
from clustersim.render.page.page import Drawing, Line, Section, Shape, Swatch, Word
from clustersim.render.palette import HEAT
from clustersim.render.plotly import page_chart
from clustersim.render.plotly.pieces import colour
from clustersim.render.tables import percent
from clustersim.units import format_bandwidth, format_bytes

if TYPE_CHECKING:
    from clustersim.metrics.communication import HotLink
    from clustersim.program.links.in_use import LinksInUse, LinkUse
    from clustersim.simulation.step.result import Result


_NODE: Final = re.compile(r"(?:^|>)(n\d+)\.")
"""A node at either end of a link: ``n3.dev0>n3.nic0``, ``leaf7>n3.nic0``."""


class NodeLink(NamedTuple):
    """A link of the node that is drawn.

    Attributes
    ----------
    ends : names in the node, ``("dev0", "nic0")``; for an end outside of it, that in the network
    capacity : payload per second [B/s]
    load : utilisation over the step [unitless]
    """

    ends: tuple[str, str]
    capacity: float
    load: float


@dataclass(frozen=True)
class LinkLoads:
    """The busiest links of a job, and all links of one node.

    Attributes
    ----------
    busiest : the links with the highest utilisation, the highest first
    node : the name of the node that is drawn, ``n0``
    inside, cables : its links in each direction; cables lead to the network
    count : links of the job that carry payload
    """

    busiest: "tuple[HotLink, ...]"
    node: str
    inside: tuple[NodeLink, ...]
    cables: tuple[NodeLink, ...]
    count: int


def link_loads(result: "Result") -> LinkLoads:
    """Return the busiest links, and all links of the node at the busiest one that has a node."""
    matches = (_NODE.search(link.name) for link in result.links)
    node = next((match[1] for match in matches if match), "n0")
    prefix = f"{node}."
    inside: list[NodeLink] = []
    cables: list[NodeLink] = []
    for name, capacity, nbytes in result.program.carried.of_node(int(node[1:])):
        a, _, b = name.partition(">")
        in_node = [end.startswith(prefix) for end in (a, b)]
        ends = a.removeprefix(prefix), b.removeprefix(prefix)
        load = nbytes / capacity / result.step_time
        (inside if all(in_node) else cables).append(NodeLink(ends, capacity, load))
    count = len(result.program.carried)
    return LinkLoads(tuple(result.links), node, tuple(inside), tuple(cables), count)


def links(result: "Result") -> Section:
    """Return the busiest links as a table, and a drawing of a node with the load of its links."""
    from clustersim.render.layouts.node import node

    cluster, loads = result.scenario.cluster, link_loads(result)
    drawn = drawing(loads, node(cluster.node, cluster.nic))
    fabric = [page_chart(shown) for shown in [fabric_map(result)] if shown is not None]
    text = (
        "Utilisation is payload over capacity, mean of the step, in each direction."
        " Of identical links only the first is listed."
    )
    return Section("Link utilisation", "links", (text,), (_busiest(loads), *fabric, drawn))


def _busiest(loads: LinkLoads) -> Table:
    lines = (
        (
            link.name,
            percent(link.utilisation),
            format_bandwidth(link.capacity),
            format_bytes(link.nbytes),
        )
        for link in loads.busiest
    )
    names = ("link", ">utilisation", ">capacity", ">payload per step")
    return text_table(f"Busiest of {loads.count:,} links in use", names, lines)


# --- between nodes --------------------------------------------------------------------------------

CELLS: Final = 96
"""Cells of a row, each of which shows the busiest of its links."""


def fabric_map(result: "Result") -> ShareMap | None:
    """Return the utilisation of all links between nodes, a row for each kind; None without any."""
    used = result.program.carried
    caption = f"{result.scenario.title} ({result.name})"
    return link_map(used, used.seconds / result.step_time, caption)


def link_map(
    used: "LinksInUse", shares: Floats, caption: str, users: Callable[[int], str] = lambda _: ""
) -> ShareMap | None:
    """Return the utilisation of all links between nodes, a row for each kind; None without any.

    Parameters
    ----------
    shares : utilisation of each link
    users : returns which jobs use a link, by its position
    """
    rows = _kinds_between_nodes(used)
    if not rows:
        return None
    cells = {name: _cells(positions, shares) for name, positions in rows.items()}
    busiest = max((cell for row in cells.values() for cell in row), key=shares.__getitem__)
    count = sum(map(len, rows.values()))
    return ShareMap(
        title=f"Between nodes, {used[busiest].name} has the highest utilisation,"
        f" {percent(float(shares[busiest]))}",
        caption=caption,
        description=f"A row for each of {len(rows)} kinds of links between nodes, its links in the"
        " order of their numbers from left to right.",
        note=f"All {count:,} links between nodes that are used, each kind from its first link to"
        f" its last; a cell is one link, or the busiest of neighbours where a kind has more than"
        f" {CELLS}.",
        contents="busiest link of each kind",
        cells="links of each kind, in order",
        names=tuple(f"{name}, up to {percent(float(shares[row].max()))}"
                    for name, row in cells.items()),
        measure=Axis("utilisation", "%"),
        shares=tuple(tuple(shares[row].tolist()) for row in cells.values()),
        hover=tuple(
            tuple(_share_of(used[cell], shares[cell], users(int(cell))) for cell in row)
            for row in cells.values()
        ),
    )  # fmt: skip


def _kinds_between_nodes(used: "LinksInUse") -> dict[str, Integers]:
    """Return the positions of links outside of nodes by kind, named as ``nic to leaf``."""
    kinds: dict[str, list[Integers]] = {}
    for positions in used.kinds:
        a, _, b = used[int(positions[0])].name.partition(">")
        node = a.partition(".")[0]
        if not (b.startswith(f"{node}.") and _NODE.match(a)):
            kinds.setdefault(_kind(a, b), []).append(positions)
    return {name: np.sort(np.concatenate(each)) for name, each in kinds.items()}


def _kind(a: str, b: str) -> str:
    """Return the kind of a link from its ends; between like ends, along which axis it leads.

    >>> _kind("n3.nic0", "leaf7"), _kind("leaf7", "spines0"), _kind("g0s3", "group0")
    ('nic to leaf', 'leaf to spines', 'switch to group')
    >>> _kind("r0.0.1", "r0.1.1"), _kind("r0.3.1", "r0.0.1")
    ('axis 1', 'axis 1')
    """
    names = [re.sub(r"\d|\.", "", end.rpartition("nic")[1] or end) for end in (a, b)]
    if names[0] != names[1]:
        return " to ".join({"gs": "switch", "r": "router"}.get(name, name) for name in names)
    places = zip(re.findall(r"\d+", a), re.findall(r"\d+", b), strict=False)
    axes = [str(axis) for axis, (one, other) in enumerate(places) if one != other]
    return f"axis {' and '.join(axes)}"


def _cells(positions: Integers, shares: Floats) -> Integers:
    """Return for each cell of a row the position of its busiest link."""
    first = np.arange(CELLS) * len(positions) // CELLS
    last = np.maximum(np.arange(1, CELLS + 1) * len(positions) // CELLS, first + 1)
    parts = (positions[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True))
    return np.array([part[shares[part].argmax()] for part in parts])


def _share_of(link: "LinkUse", share: float, users: str) -> str:
    by = f" ({users})" if users else ""
    return f"{link.name}: {percent(float(share))} of {format_bandwidth(link.capacity)}{by}"


# --- of one node ----------------------------------------------------------------------------------

INCH: Final = 104.0
"""Pixels of an inch of a diagram."""

CABLE: Final = 0.45
"""Length of a cable that is drawn outside of its NIC [in]."""

_FILLS: Final = {DEVICE: "box-device", SWITCH: "box-switch", NIC: "box-nic"}

_STEPS: Final = len(HEAT)
"""Colours of the scale of utilisation, each of as many percent."""

Ends = frozenset[str]


def drawing(loads: LinkLoads, diagram: Diagram) -> Drawing:
    """Return the drawing of a node with the load of its links and cables."""
    inside = _busier(loads.inside)
    cables = {nic: used for used in loads.cables for nic in used.ends if nic.startswith("nic")}
    cables = {nic: _busier(loads.cables)[frozenset(used.ends)] for nic, used in cables.items()}
    lines = [_wire(wire, inside.get(frozenset(wire.ends)), diagram) for wire in diagram.wires]
    words = [word for note in diagram.notes for word in _words(note, diagram)]
    for wire in diagram.wires:
        if used := cables.get(wire.ends[1]):
            end, beyond = _way_out(wire, diagram)
            text = f"{' to '.join(used.ends)}, payload {format_bandwidth(used.capacity)}"
            way = _path((wire.points[-1], end), diagram)
            lines.append(_line(way, used.capacity, text, used))
            words += _words(Note(*beyond, percent(used.load), 7.5), diagram)
    shapes = [_shape(box, diagram) for box in diagram.boxes]
    return Drawing(
        title=_title(loads),
        description=f"{len(diagram.boxes)} boxes for devices, switches and NICs, joined by"
        f" {len(lines)} lines; redder and darker colours mean higher utilisation.",
        extent=_extent(lines, shapes, words),
        lines=tuple(lines),
        shapes=tuple(shapes),
        words=tuple(words),
        table=_of_node(loads),
        swatches=(
            *(Swatch(_range(step), colour(f"heat-{step}")) for step in range(_STEPS)),
            Swatch("not used in the step", colour("idle")),
        ),
        note=f"Node {loads.node}, a {diagram.title.partition(': ')[0]};"
        f" {diagram.caption.rpartition('; ')[0]}"
        + ("; next to each NIC, the utilisation of its cable." if cables else "."),
    )


def _busier(links: tuple[NodeLink, ...]) -> Mapping[Ends, NodeLink]:
    """Return the busier direction of each pair of ends."""
    return {frozenset(link.ends): link for link in sorted(links, key=lambda link: link.load)}


def _title(loads: LinkLoads) -> str:
    """Return the busiest link of the node, and whether it is the busiest of all."""
    links = (*loads.inside, *loads.cables)
    if not links:
        return "No link of a node is used"
    busiest, first = max(links, key=lambda link: link.load), loads.busiest[0]
    name, share = " to ".join(busiest.ends), percent(busiest.load)
    if busiest.load >= first.utilisation:
        return f"The link {name} has the highest utilisation, {share}"
    return (
        f"The link {name} has the highest utilisation in a node, {share};"
        f" {first.name} between nodes has {percent(first.utilisation)}"
    )


# --- lines ----------------------------------------------------------------------------------------


def _wire(wire: Wire, used: NodeLink | None, diagram: Diagram) -> Line:
    text = f"{' to '.join(wire.ends)}, {wire.kind}, raw {format_bandwidth(wire.bandwidth)}"
    return _line(_path(wire.points, diagram), wire.bandwidth, text, used)


def _line(points: str, bandwidth: float, text: str, used: NodeLink | None) -> Line:
    width = round(max(1.8, 1.6 * thickness(bandwidth)), 1)
    return Line(points, width, colour(_heat(used)), f"{text}: {_load(used)}")


def _heat(used: NodeLink | None) -> str:
    if used is None:
        return "idle"
    return f"heat-{min(int(used.load * _STEPS), _STEPS - 1)}"


def _range(step: int) -> str:
    """Return what a colour of the scale means.

    >>> _range(0), _range(4)
    ('utilisation of 0 to 20 %', '80 to 100 %')
    """
    words = "utilisation of " if step == 0 else ""
    return f"{words}{100 * step // _STEPS} to {100 * (step + 1) // _STEPS} %"


def _load(used: NodeLink | None) -> str:
    if used is None:
        return "not used"
    return f"{percent(used.load)} of its payload rate, mean of the step"


def _path(points: tuple[Point, ...], diagram: Diagram) -> str:
    return " ".join(f"{x * INCH:.1f},{(diagram.height - y) * INCH:.1f}" for x, y in points)


def _way_out(wire: Wire, diagram: Diagram) -> tuple[Point, Point]:
    """Return where the drawn part of a NIC's cable ends, and the place of the text next to it.

    A cable has the direction of the bus that leads to its NIC.
    """
    (a, b), (x, y) = wire.points[-2:]
    length = hypot(x - a, y - b) or 1.0
    right, up = (x - a) / length, (y - b) / length
    box = min(diagram.boxes, key=lambda box: hypot(box.x - x, box.y - y))
    sides = ((box.width / 2, abs(right)), (box.height / 2, abs(up)))
    edge = min(half / share for half, share in sides if share > 1e-6)
    words = CABLE + 0.12 + 0.14 * abs(right)
    return (
        (x + right * (edge + CABLE), y + up * (edge + CABLE)),
        (x + right * (edge + words), y + up * (edge + words)),
    )


def _extent(
    lines: list[Line], shapes: list[Shape], words: list[Word]
) -> tuple[float, float, float, float]:
    """Return left, top, width and height of all that is drawn, with a small margin."""
    points = [tuple(map(float, p.split(","))) for line in lines for p in line.points.split()]
    points += [
        (each.x + way * each.width / 2, each.y + way * each.height / 2)
        for each in shapes
        for way in (-1, 1)
    ]
    for word in words:
        wide, high = 0.66 * word.size * len(word.text), 0.7 * word.size
        left = {"start": 0.0, "end": -wide}.get(word.anchor, -wide / 2)
        points += [(word.x + left, word.y - high), (word.x + left + wide, word.y + high)]
    xs, ys = zip(*points, strict=True)
    left, top = round(min(xs)) - 8, round(min(ys)) - 8
    return left, top, round(max(xs)) + 8 - left, round(max(ys)) + 8 - top


# --- boxes and words ------------------------------------------------------------------------------


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
    x, lines, size = round(note.x * INCH, 1), note.text.split("\n"), _pixels(note.size)
    step = 1.15 * size
    top = (diagram.height - note.y) * INCH - (len(lines) - 1) / 2 * step
    return [
        Word(x, round(top + step * i, 1), text, size, anchor, note.bold)
        for i, text in enumerate(lines)
    ]


def _pixels(points: float) -> float:
    return round(points * INCH / 72, 1)


def _of_node(loads: LinkLoads) -> Table:
    links = (*loads.inside, *loads.cables)
    lines = (
        (*used.ends, format_bandwidth(used.capacity), percent(used.load))
        for used in sorted(links, key=lambda used: (-used.load, used.ends))
    )
    names = ("from", "to", ">capacity", ">utilisation")
    return text_table(f"links of node {loads.node}", names, lines)
