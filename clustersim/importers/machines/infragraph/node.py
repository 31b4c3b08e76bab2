"""The inside of a host: accelerators, the switches between them, and the way to each NIC.

xpu.0 ==== nvlsw.0     links that are not PCIe, to switches with accelerators only, are a
xpu.0 ---- pciesw.0    crossbar; other components are bridges of a tree, and one with two
             |         neighbours is a part of the link between them
           nic.0
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import networkx as nx

from clustersim.importers.machines.infragraph.graph import Devices
from clustersim.importers.machines.sketch import Clues, End, Nic, Sketch, Wire
from clustersim.importers.source import natural
from clustersim.records import dataclass

ORIGIN: Final = "InfraGraph"

_OF_AMD: Final = ("amd", "instinct", "mi2", "mi3")
"""Parts of names of accelerators of AMD; others are thought to be of NVIDIA."""


@dataclass(frozen=True)
class Host:
    """A device with accelerators.

    Attributes
    ----------
    name : name of the device
    ports : paths of the components that cables lead to, empty without cables
    """

    devices: Devices
    name: str
    ports: tuple[str, ...] = ()

    def sketch(self) -> Sketch:
        """Return the node that the device is; the name of a NIC is the path of its component."""
        counts, rates = self._to_switches
        direct = [
            Wire(self.number[a], self.number[b], self._kind, count, link.rate)
            for a, b, links in self.graph.edges(data="links")
            for link, count in links.values()
            if a in self.number and b in self.number
        ]
        rates |= {wire.bandwidth for wire in direct if wire.bandwidth}
        return Sketch(
            origin=ORIGIN,
            devices=len(self.number),
            clues=self._clues,
            crossbar=tuple(counts[xpu] for xpu in self.number) if any(counts.values()) else None,
            link=min(rates, default=None),
            wires=(*direct, *self._wires()),
            nics=tuple(self._attached()),
            hosts=tuple(f"cpu{i}" for i in range(len(self._tree.nodes & set(self._of("cpu"))))),
            silent=not any(counts.values()) and not self._joined(direct),
            remarks=tuple(self._remarks(rates)),
        )

    # --- components -------------------------------------------------------------------------------

    @cached_property
    def graph(self) -> nx.Graph:
        """The components and their links."""
        return self.devices.graph(self.name)

    def _of(self, *choices: str) -> list[str]:
        parts = self.graph.nodes(data="part")
        return sorted((path for path, part in parts if part.choice in choices), key=natural)

    @cached_property
    def number(self) -> Mapping[str, int]:
        """The number of each accelerator by its path."""
        return {path: i for i, path in enumerate(self._of("xpu", "npu"))}

    @cached_property
    def nics(self) -> list[str]:
        """The components that are NICs of the node."""
        ends = [port for port in self._of("port") if self.graph.degree[port] == 1]
        return list(self.ports) or self._of("nic") or ends

    @property
    def _clues(self) -> Clues:
        part = self.graph.nodes[next(iter(self.number))]["part"]
        text = f"{part.name} {part.description} {self.name}"
        amd = any(word in text.lower() for word in _OF_AMD)
        return Clues("amd" if amd else "nvidia", product=text)

    @property
    def _kind(self) -> str:
        return "xgmi" if self._clues.maker == "amd" else "nvlink"

    # --- links between accelerators ---------------------------------------------------------------

    @cached_property
    def _to_switches(self) -> tuple[dict[str, int], set[float]]:
        """Return each accelerator's links to switches that join all of them, and their rates."""
        counts, rates = dict.fromkeys(self.number, 0), set[float]()
        for a, b, links in self._fast.edges(data="links"):
            for link, count in links:
                for end in {a, b} & counts.keys():
                    counts[end] += count
                    rates |= {link.rate} if link.rate else set()
        return counts, rates

    @cached_property
    def _fast(self) -> nx.Graph:
        """The switches that join all accelerators, with their links; empty if there are none."""
        ends = {*self._of("switch", "custom"), *self.number}
        fast = nx.Graph()
        for a, b, links in self.graph.edges(data="links"):
            chosen = [(link, count) for link, count in links.values() if not link.is_pcie]
            if chosen and not {a, b} <= self.number.keys():
                fast.add_edge(a, b, links=chosen)
        for group in list(nx.connected_components(fast)):
            if not self.number.keys() < group <= ends:
                fast.remove_nodes_from(group)
        return fast

    def _joined(self, direct: list[Wire]) -> bool:
        """Whether links of the file join all accelerators."""
        inside = nx.Graph((wire.a, wire.b) for wire in (*direct, *self._wires()))
        inside.add_nodes_from(self.number.values())
        return len({*self.number.values()} - nx.node_connected_component(inside, 0)) == 0

    # --- the tree ---------------------------------------------------------------------------------

    @cached_property
    def _tree(self) -> nx.Graph:
        """The other links: without components that lead nowhere, or have only two neighbours."""
        cpus, kept = set(self._of("cpu")), {*self.number, *self.nics}
        tree = nx.Graph()
        for a, b, links in self.graph.edges(data="links"):
            alike = {a, b} <= self.number.keys() or {a, b} <= cpus
            if not alike and not {a, b} & (self._fast.nodes - self.number.keys()):
                tree.add_edge(a, b, rate=max(link.rate or 0.0 for link, _ in links.values()))
        if len(cpus) > 1:  # which links outside of the tree join
            kept |= {cpu for cpu in cpus if cpu in tree}
        while ends := [v for v in tree if tree.degree[v] < 2 and v not in kept]:
            tree.remove_nodes_from(ends)
        tree.remove_nodes_from([cpu for cpu in cpus if cpu in tree and not tree.degree[cpu]])
        for vertex in [v for v in tree if v not in kept | cpus]:
            if tree.degree[vertex] == 2 and not tree.has_edge(*tree[vertex]):
                rates = [data["rate"] for data in tree[vertex].values() if data["rate"]]
                tree.add_edge(*tree[vertex], rate=min(rates, default=0.0))
                tree.remove_node(vertex)
        return tree

    @cached_property
    def _ends(self) -> dict[str, End]:
        """The name of each component of the tree but NICs."""
        cpus = set(self._of("cpu"))
        bridges = [
            v for v in sorted(self._tree, key=natural) if v not in {*self.number, *self.nics}
        ]
        return {
            **self.number,
            **{v: f"cpu{i}" for i, v in enumerate(v for v in bridges if v in cpus)},
            **{v: f"pcie{i}" for i, v in enumerate(v for v in bridges if v not in cpus)},
        }

    def _wires(self) -> Iterator[Wire]:
        for a, b, rate in self._tree.edges(data="rate"):
            if a in self._ends and b in self._ends:
                first, second = (b, a) if b in self.number else (a, b)
                yield Wire(self._ends[first], self._ends[second], "pcie", bandwidth=rate or None)

    def _attached(self) -> Iterator[Nic]:
        """Yield the NICs that a link joins to an accelerator or a bridge."""
        for nic in self.nics:
            links: dict[str, Any] = dict(self._tree[nic]) if nic in self._tree else {}
            near = sorted(links.keys() & self._ends.keys(), key=lambda v: (v not in self.number, v))
            if near:
                yield Nic(nic, self._ends[near[0]], bus=links[near[0]]["rate"] or None)

    def _remarks(self, rates: set[float]) -> Iterator[str]:
        attached = {nic.name for nic in self._attached()}
        if left := [nic for nic in self.nics if nic not in attached]:
            yield f"omitted {', '.join(left[:4])}: no link of {self.name} leads to it"
        if len(rates) > 1:
            yield "links between devices differ in their rate: the lowest is used"
        latencies = {
            link.latency for *_, d in self.graph.edges(data="links") for link, _ in d.values()
        }
        if latencies - {None}:
            yield f"latencies of links inside {self.name} are not used: the nearest node's are"
