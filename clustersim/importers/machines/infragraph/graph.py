"""The vertices and edges of a file: components by path, such as ``nic.2`` or ``cx5.0.port.0``."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final

import networkx as nx

from clustersim.errors import CatalogError
from clustersim.importers.machines.infragraph.schema import Device, Infrastructure, Link
from clustersim.importers.source import Source
from clustersim.records import dataclass

MOST_VERTICES: Final = 20_000
MOST_EDGES: Final = 200_000
MOST_LEVELS: Final = 8
"""Levels of devices that consist of devices."""

_ELEMENT: Final = re.compile(
    r"([^\[\].]+)(?:\[([0-9]{0,7})(?:(:)([0-9]{0,7})(?::([0-9]{0,7}))?)?\])?"
)


@dataclass(frozen=True)
class Devices:
    """The devices of a file by name, with the file for messages."""

    source: Source
    by_name: Mapping[str, Device]

    @classmethod
    def of(cls, source: Source, file: Infrastructure) -> "Devices":
        """Return the devices of a file."""
        return cls(source, {device.name: device for device in file.devices})

    def wrong(self, where: str, problem: str) -> CatalogError:
        """Return the error about an edge or an instance."""
        return self.source.wrong(None, f"{where}: {problem}")

    def named(self, name: str, where: str) -> Device:
        """Return a device by its name."""
        if name not in self.by_name:
            known = ", ".join(self.by_name)
            raise self.wrong(where, f"no device has the name '{name}' (known: {known})")
        return self.by_name[name]

    def has_xpu(self, name: str, level: int = 0) -> bool:
        """Whether a device contains accelerators, at any depth."""
        if level > MOST_LEVELS:
            raise self.wrong(name, f"contains devices more than {MOST_LEVELS} levels deep")
        parts = self.by_name[name].components if name in self.by_name else []
        return any(
            part.count > 0
            and (
                part.choice in ("xpu", "npu")
                or (part.choice == "device" and self.has_xpu(part.name, level + 1))
            )
            for part in parts
        )

    def graph(self, name: str) -> nx.Graph:
        """Return the graph of a device: vertices with their component, edges with their links."""
        graph = nx.Graph()
        self._expand(graph, self.named(name, "instances"), "", 0)
        return graph

    def _expand(self, graph: nx.Graph, device: Device, prefix: str, level: int) -> None:
        if level > MOST_LEVELS:
            raise self.wrong(device.name, f"contains devices more than {MOST_LEVELS} levels deep")
        of_host = self.has_xpu(device.name)
        for given in device.components:
            # A NIC may contain a processor, which is no host bridge.
            inside = given.choice == "cpu" and not of_host
            part = given.model_copy(update={"choice": "custom"}) if inside else given
            inner = self.by_name.get(part.name) if part.choice == "device" else None
            if graph.number_of_nodes() + part.count > MOST_VERTICES:
                raise self.wrong(device.name, f"has more than {MOST_VERTICES:,} components")
            for i in range(part.count):
                if inner is None:
                    graph.add_node(f"{prefix}{part.name}.{i}", part=part)
                else:
                    self._expand(graph, inner, f"{prefix}{part.name}.{i}.", level + 1)
        links = {link.name: link for link in device.links}
        for number, edge in enumerate(device.edges):
            where = f"{device.name}: edges[{number}]"
            ends = [
                self.paths(device, f"{end.device}.{end.component}" if end.device else end.component,
                           where)
                for end in (edge.ep1, edge.ep2)
            ]  # fmt: skip
            link = links.get(edge.link, Link(name=edge.link))
            for a, b in self.pairs(ends[0], ends[1], edge.scheme, where):
                for end in (a, b):
                    if f"{prefix}{end}" not in graph:
                        raise self.wrong(where, f"{end} is a device: name a component inside it")
                _add(graph, f"{prefix}{a}", f"{prefix}{b}", link)

    def paths(self, device: Device, text: str, where: str) -> list[str]:
        """Return the paths of components that a text with slices names."""
        paths, here = [""], device
        for element in text.split("."):
            parts = {part.name: part for part in here.components}
            name = element.partition("[")[0]
            if name not in parts:
                known = ", ".join(parts)
                raise self.wrong(where, f"'{text}' names no component of {here.name} ({known})")
            part = parts[name]
            indices = self.indices(element, part.count, where)
            if len(paths) * len(indices) > MOST_EDGES:
                raise self.wrong(where, f"'{text}' names more than {MOST_EDGES:,} components")
            dot = "." if paths != [""] else ""
            paths = [f"{path}{dot}{part.name}.{i}" for path in paths for i in indices]
            here = self.by_name.get(part.name, here)
        return paths

    def indices(self, text: str, count: int, where: str) -> range:
        """Return the indices of ``name``, ``name[1]``, ``name[0:8]`` or ``name[0:8:2]``."""
        match = _ELEMENT.fullmatch(text)
        if match is None:
            raise self.wrong(where, f"'{text}' is not a name with a slice such as nic[0:8]")
        _, start, colon, stop, step = match.groups()
        if not start and not colon:
            return range(count)
        first = int(start or 0)
        last = first + 1 if not colon else int(stop) if stop else count
        if not first < last <= count or (step and int(step) < 1):
            raise self.wrong(where, f"'{text}': there are {count} of them, counted from 0")
        return range(first, last, int(step or 1))

    def pairs(
        self, a: Sequence[str], b: Sequence[str], scheme: str, where: str
    ) -> Iterator[tuple[str, str]]:
        """Yield each pair of a scheme once; an end of ``one2one`` without a partner has no edge."""
        if scheme == "many2many" and len(a) * len(b) > MOST_EDGES:
            raise self.wrong(where, f"makes more than {MOST_EDGES:,} edges")
        chosen: Iterable[tuple[str, str]] = zip(a, b, strict=False)
        if scheme == "many2many":
            chosen = product(a, b)
        elif scheme == "ring":
            chosen = zip(a, [*b[1:], *b[:1]], strict=False)
        seen = dict.fromkeys((min(pair), max(pair)) for pair in chosen if pair[0] != pair[1])
        yield from seen


def _add(graph: nx.Graph, a: str, b: str, link: Link) -> None:
    """Add one edge; `count` is that of parallel edges of the same link."""
    known = graph.get_edge_data(a, b, {"links": {}})["links"]
    _, count = known.get(link.name, (link, 0))
    graph.add_edge(a, b, links={**known, link.name: (link, count + 1)})
