"""Network files of ASTRA-sim's analytical backend.

    topology: [ Ring, Switch ]     one entry for each dimension, inner first
    npus_count: [ 4, 8 ]           devices along it
    bandwidth: [ 200.0, 25.0 ]     GB/s of a device to a switch, or of a link to a neighbour
    latency: [ 300.0, 900.0 ]      ns of each link

The first dimension becomes the inside of a node, the others the network between nodes: device i of
every node has its own NIC, attached to the router of its node.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import prod
from typing import Any, Final

from clustersim.catalog.problems import as_stated
from clustersim.catalog.reading import Document, parse_yaml
from clustersim.errors import CatalogError
from clustersim.importers import draft
from clustersim.importers.draft import Choices, Draft, as_in, assumed, stated
from clustersim.importers.machines.cluster_file import MOST_CABLES, nic_part
from clustersim.importers.machines.nearest import NodeEntry, nearest_clusters, nodes
from clustersim.importers.source import Source
from clustersim.records import dataclass
from clustersim.units import counted

MOST_DEVICES: Final = 10**6
MOST_IN_NODE: Final = 256
_KEYS: Final = ("topology", "npus_count", "bandwidth", "latency")
_SHAPES: Final = ("Ring", "Switch", "FullyConnected")
_ORIGIN: Final = "ASTRA-sim analytical network"
_REACHED: Final = "the rates of the file are achieved rates"


@dataclass(frozen=True)
class Dimension:
    """One dimension: its shape, devices along it, rate [B/s] and latency [s] of a link."""

    shape: str
    length: int
    rate: float
    latency: float

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The positions along it that are joined by a link; none with a switch."""
        if self.shape == "FullyConnected":
            return list(combinations(range(self.length), 2))
        ring = [(i, (i + 1) % self.length) for i in range(self.length)]
        return ring[:1] if self.length == 2 else ring if self.length > 2 else []

    @property
    def out_of_one(self) -> float:
        """Injection of a device along it [B/s]."""
        links = {"Switch": 1, "Ring": min(2, self.length - 1), "FullyConnected": self.length - 1}
        return self.rate * max(links[self.shape], 1)


def read(source: Source, choices: Choices) -> Draft:
    """Return the cluster file of an ASTRA-sim network.

    Raises
    ------
    CatalogError
        with the line, when a list is missing, of wrong length, or has an invalid value.
    """
    inner, *outer = _dimensions(source)
    if inner.length > MOST_IN_NODE:
        raise source.wrong(None, f"npus_count[0]: more than {MOST_IN_NODE:,} devices in a node")
    size = prod(dimension.length for dimension in outer)
    if size * inner.length > MOST_DEVICES:
        raise source.wrong(None, f"npus_count: more than {MOST_DEVICES:,} devices")
    node = _nearest(inner, choices)
    rate = sum(dimension.out_of_one for dimension in outer) or None
    like = nearest_clusters(inner.length, rate or 25e9)[0]
    nic = nic_part(rate, like)
    if rate is not None:
        nic["efficiency"] = assumed(1.0, _REACHED)
        nic["latency"] = stated(draft.seconds(outer[-1].latency), "of a link")
    data = {
        "kind": "cluster",
        "name": choices.name,
        "title": f"{counted(size, 'node')} of {counted(inner.length, 'device')}, imported",
        "node": _node(inner, rate, node, choices, source),
        "size": stated(size),
        "nic": nic,
        "fabric": _fabric(source, outer, inner.length, size),
        "sources": draft.source_table(_ORIGIN, source.file),
    }
    return Draft(data, tuple(_taken(node, choices)), tuple(_notes(outer)))


def _taken(node: NodeEntry, choices: Choices) -> Iterator[str]:
    if choices.accelerator is None:
        yield f"accelerator {node.accelerator}: not in the file; as in {node.name}"
    if choices.library is None:
        yield f"library {node.library}: not in the file; as in {node.name}"


def _notes(outer: Sequence[Dimension]) -> Iterator[str]:
    latencies = sorted({dimension.latency for dimension in outer})
    if len(latencies) > 1:
        shown = ", ".join(draft.seconds(latency) for latency in latencies)
        yield f"dimensions differ in latency ({shown}): the largest is used for all cables"


# --- reading --------------------------------------------------------------------------------------


def _dimensions(source: Source) -> list[Dimension]:
    document = parse_yaml(source.text, source.file, CatalogError)
    data = document.data
    if not isinstance(data, dict):
        raise source.wrong(None, f"has no keys (expected {', '.join(_KEYS)})")
    columns = [_column(document, key) for key in _KEYS]
    lengths = {key: len(column) for key, column in zip(_KEYS, columns, strict=True)}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{key} {length}" for key, length in lengths.items())
        raise source.wrong(None, f"the lists have different lengths ({counts})")
    return [
        Dimension(shape, length, rate * 1e9, latency * 1e-9)
        for shape, length, rate, latency in zip(*columns, strict=True)
    ]


def _column(document: Document, key: str) -> list[Any]:
    values = document.data.get(key)
    if not isinstance(values, list) or not values:
        place = document.places.get((key,), document.file)
        raise CatalogError(f"{place}: {key}: must be a list with one entry for each dimension")
    for i, value in enumerate(values):
        allowed = _allowed(key, value)
        if allowed:
            place = document.places[key, i]
            raise CatalogError(f"{place}: {key}[{i}]: {as_stated(value)} is not {allowed}")
    return values


def _allowed(key: str, value: Any) -> str | None:
    """Return the allowed values of a key if `value` is not one of them."""
    if key == "topology":
        return None if value in _SHAPES else f"one of {', '.join(_SHAPES)}"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if key == "npus_count":
        whole = isinstance(value, int) and number and 1 <= value <= MOST_DEVICES
        return None if whole else f"a number from 1 to {MOST_DEVICES:,}"
    least = 1e-6 if key == "bandwidth" else 0.0
    return None if number and least <= value <= 1e9 else f"a number from {least:g} to 1e9"


# --- the node -------------------------------------------------------------------------------------


def _nearest(inner: Dimension, choices: Choices) -> NodeEntry:
    """Return the catalogue node of the same form and size with the nearest rate."""
    form = "none" if inner.length == 1 else "switch" if inner.shape == "Switch" else "links"

    def distance(entry: NodeEntry) -> tuple[bool, bool, int, float, str]:
        inside = entry.data["interconnect"]
        other = entry.accelerator != (choices.accelerator or entry.accelerator)
        fact = inside.get("bandwidth") or next(iter(entry.kinds.values()), {}).get("bandwidth")
        rate = draft.as_bandwidth(fact) if fact else inner.rate
        return (
            other,
            entry.form != form,
            abs(entry.devices - inner.length),
            abs(rate - inner.rate),
            entry.name,
        )

    return min(nodes(), key=distance)


def _node(
    inner: Dimension, rate: float | None, like: NodeEntry, choices: Choices, source: Source
) -> dict[str, Any]:
    bus = as_in(like.data["nics"]["bus"], like.name)
    if rate is not None and draft.as_bandwidth(bus) < rate:
        bus = assumed(draft.bandwidth(rate), "not in the file; at least the rate of the NIC")
    reason = "not in the file; each device is assumed to have its own"
    return {
        "kind": "node",
        "name": f"{choices.name}-node",
        "accelerator": choices.accelerator or like.accelerator,
        "devices": stated(inner.length),
        "interconnect": _interconnect(inner),
        "nics": {"devices": assumed(list(range(inner.length)), reason), "bus": bus},
        "library": choices.library or like.library,
        "sources": draft.source_table(_ORIGIN, source.file),
    }


def _interconnect(inner: Dimension) -> dict[str, Any]:
    if inner.length == 1:
        return {"type": "none"}
    links = 2 if inner.shape == "Switch" else 1
    facts = {
        "bandwidth": stated(draft.bandwidth(inner.rate)),
        "latency": stated(
            draft.seconds(links * inner.latency), f"{counted(links, 'link')} of the stated latency"
        ),
        "efficiency": assumed(1.0, _REACHED),
    }
    if inner.shape == "Switch":
        return {"type": "switch", **facts}
    between = stated([list(pair) for pair in inner.pairs])
    return {"type": "links", "kinds": {"link": {**facts, "between": between}}}


# --- the network ----------------------------------------------------------------------------------


def _fabric(source: Source, outer: Sequence[Dimension], nics: int, size: int) -> dict[str, Any]:
    """Return one switch, a torus, or the cables of another product of dimensions."""
    shapes = {dimension.shape for dimension in outer}
    if not outer or (len(outer) == 1 and shapes == {"Switch"}):
        return {"type": "switch"}
    latency = stated(draft.seconds(max(dimension.latency for dimension in outer)))
    if shapes == {"Ring"} and len({dimension.rate for dimension in outer}) == 1:
        lengths = [dimension.length for dimension in reversed(outer)]  # last axis fastest
        wide = draft.bandwidth(nics * outer[0].rate)
        return {
            "type": "torus",
            "shape": stated(lengths),
            "axes": [f"d{i}" for i in range(len(outer), 0, -1)],
            "ring": stated(lengths),
            "link": {"bandwidth": stated(wide, f"{nics} devices in parallel"), "latency": latency},
        }
    cables = _cables(source, outer, nics, size)
    return {"type": "links", "links": stated(cables), "latency": latency}


def _cables(source: Source, outer: Sequence[Dimension], nics: int, size: int) -> list[list[str]]:
    """Return the cables of routers, one for each node, along every dimension."""
    if size * nics > MOST_CABLES:
        raise source.wrong(None, f"needs more than {MOST_CABLES:,} cables")
    cables: list[list[str]] = []
    total = sum(dimension.out_of_one for dimension in outer)
    for node in range(size):
        cables += [[f"n{node}.nic{i}", f"r{node}", draft.bandwidth(total)] for i in range(nics)]
    for axis, dimension in enumerate(outer):
        wide = draft.bandwidth(nics * dimension.rate)
        for line, routers in enumerate(_lines(outer, axis)):
            if dimension.shape == "Switch":
                cables += [[f"r{router}", f"d{axis + 1}s{line}", wide] for router in routers]
            else:
                cables += [[f"r{routers[a]}", f"r{routers[b]}", wide] for a, b in dimension.pairs]
            if len(cables) > MOST_CABLES:
                raise source.wrong(None, f"needs more than {MOST_CABLES:,} cables")
    return cables


def _lines(outer: Sequence[Dimension], axis: int) -> Iterator[list[int]]:
    """Yield the nodes of each line along an axis; the first of `outer` varies fastest."""
    strides = [prod(d.length for d in outer[:i]) for i in range(len(outer))]
    others = [range(1 if i == axis else d.length) for i, d in enumerate(outer)]
    for positions in product(*others):
        start = sum(step * stride for step, stride in zip(positions, strides, strict=True))
        yield [start + i * strides[axis] for i in range(outer[axis].length)]
