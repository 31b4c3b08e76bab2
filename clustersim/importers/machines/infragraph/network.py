"""The cables of a file between its hosts and switches, and the cluster or node that it becomes."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from clustersim.importers.draft import Choices, Draft
from clustersim.importers.machines.cluster_file import Network, cluster_draft
from clustersim.importers.machines.infragraph.graph import Devices
from clustersim.importers.machines.infragraph.node import ORIGIN, Host
from clustersim.importers.machines.infragraph.schema import (
    Infrastructure,
    Instance,
    InstanceEnd,
    Link,
    read_file,
)
from clustersim.importers.machines.links import nearest_nics
from clustersim.importers.machines.nearest import nearest_clusters
from clustersim.importers.machines.node_file import node_draft
from clustersim.importers.source import Source, natural
from clustersim.records import dataclass

_ASSUMED_RATE = 25e9
"""A rate by which to look for the nearest cluster if no link has one [B/s]."""

Vertex = tuple[str, int]
"""An instance by its name and its index."""


def read(source: Source, choices: Choices) -> Draft:
    """Return the cluster of a file, or the node if no cable leads to its host.

    Raises
    ------
    CatalogError
        when the file does not have the schema, or has no host with accelerators.
    """
    file = read_file(source)
    cabling = Cabling(Devices.of(source, file), file)
    host = Host(cabling.devices, cabling.host)
    if not cabling.ports:
        return node_draft(host.sketch(), source.file, choices)
    sketch = replace(host, ports=cabling.ports).sketch()
    sketch = replace(sketch, nics=tuple(sketch.nics[i] for i in nearest_nics(sketch)))
    inside = node_draft(sketch, source.file, replace(choices, name=f"{choices.name}-node"))
    network = cabling.network([nic.name for nic in sketch.nics])
    return cluster_draft(network, source.file, choices, inside)


@dataclass(frozen=True)
class Cabling:
    """The instances of a file and the edges between them."""

    devices: Devices
    file: Infrastructure

    @cached_property
    def instances(self) -> Mapping[str, Instance]:
        """The instances by name; the only device of a file without any is one."""
        given = {instance.name: instance for instance in self.file.instances}
        first = self.file.devices[0].name
        alone = len(self.file.devices) == 1 or not self.file.instances
        return given or ({first: Instance(name=first, device=first, count=1)} if alone else {})

    @cached_property
    def host(self) -> str:
        """The device with accelerators that most instances are copies of."""
        copies = Counter[str]()
        for instance in self.instances.values():
            self.devices.named(instance.device, f"instances: {instance.name}")
            if self.devices.has_xpu(instance.device):
                copies[instance.device] += instance.count
        if not copies:
            raise self.devices.wrong("instances", "no device of them has a component of choice xpu")
        return copies.most_common(1)[0][0]

    @cached_property
    def cables(self) -> list[tuple[Vertex, str, Vertex, str, Link]]:
        """The edges between instances: (instance, component, instance, component, link)."""
        links = {link.name: link for link in self.file.links}
        found = []
        for number, edge in enumerate(self.file.edges):
            where = f"edges[{number}]"
            a, b = (self._expanded(end, where) for end in (edge.ep1, edge.ep2))
            link = links.get(edge.link, Link(name=edge.link))
            pairs = self.devices.pairs(list(a), list(b), edge.scheme, where)
            found += [(*{**a, **b}[x], *{**a, **b}[y], link) for x, y in pairs]
        return found

    def _expanded(self, end: InstanceEnd, where: str) -> dict[str, tuple[Vertex, str]]:
        """Return what an end names: instances and components by their whole path."""
        name = end.instance.partition("[")[0]
        if name not in self.instances:
            known = ", ".join(self.instances)
            raise self.devices.wrong(where, f"no instance has the name '{name}' (known: {known})")
        instance = self.instances[name]
        copies = self.devices.indices(end.instance, instance.count, where)
        paths = self.devices.paths(self.devices.named(instance.device, where), end.component, where)
        return {f"{name}.{i}.{path}": ((name, i), path) for i in copies for path in paths}

    def _is_host(self, vertex: Vertex) -> bool:
        return self.instances[vertex[0]].device == self.host

    @cached_property
    def ports_of(self) -> Mapping[Vertex, tuple[str, ...]]:
        """The components of each host that cables lead to."""
        found: dict[Vertex, set[str]] = {}
        for a, port, b, other, _ in self.cables:
            for vertex, component in ((a, port), (b, other)):
                if self._is_host(vertex):
                    found.setdefault(vertex, set()).add(component)
        return {vertex: tuple(sorted(ports, key=natural)) for vertex, ports in found.items()}

    @cached_property
    def ports(self) -> tuple[str, ...]:
        """The components of a usual host that cables lead to."""
        usual = Counter(self.ports_of.values())
        return max(usual, key=lambda ports: (usual[ports], len(ports), ports), default=())

    def network(self, nics: list[str]) -> Network:
        """Return the network of the hosts with the usual ports, of which `nics` are used."""
        hosts = sorted(v for v, ports in self.ports_of.items() if ports == self.ports)
        number = {host: i for i, host in enumerate(hosts)}
        stated = [link.rate for *_, link in self.cables if link.rate]
        unknown = min(stated, default=nearest_clusters(len(nics), _ASSUMED_RATE)[0].nic_rate)
        cables, rates = list[tuple[str, str, float]](), Counter[float]()
        for a, port, b, other, link in self.cables:
            ends = [self._end(a, port, number, nics), self._end(b, other, number, nics)]
            if self._is_host(a) and self._is_host(b):
                raise self.devices.wrong("edges", f"{a[0]}[{a[1]}] leads to a host, not a switch")
            if all(ends):
                cables.append((ends[0], ends[1], link.rate or unknown))
                if self._is_host(a) or self._is_host(b):
                    rates[link.rate or unknown] += 1
        switches = {end for cable in cables for end in cable[:2] if ".nic" not in end}
        latencies = [
            link.latency
            for a, _, b, _, link in self.cables
            if link.latency and not (self._is_host(a) or self._is_host(b))
        ] or [link.latency for *_, link in self.cables if link.latency]
        all_stated = all(link.rate for *_, link in self.cables)
        return Network(
            origin=ORIGIN,
            nodes=len(hosts),
            nics=len(nics),
            rate=max(rates) if all_stated else None,
            cables=() if len(switches) == 1 else tuple(cables),
            fabric={"type": "switch"} if len(switches) == 1 else None,
            rates_assumed="" if all_stated else "links are from the file; not every one has a rate",
            latency=max(latencies, default=None),
            remarks=tuple(self._remarks(hosts, rates)),
        )

    def _end(self, vertex: Vertex, port: str, number: Mapping[Vertex, int], nics: list[str]) -> str:
        """Return the end of a cable in a cluster file, empty for one that is omitted."""
        if not self._is_host(vertex):
            return f"{self._names[vertex[0]]}-{vertex[1]}"
        if vertex not in number or port not in nics:
            return ""
        return f"n{number[vertex]}.nic{nics.index(port)}"

    @cached_property
    def _names(self) -> Mapping[str, str]:
        """The names of instances as ends of cables can have them."""
        plain = {name: re.sub("[^A-Za-z0-9_-]+", "-", name) for name in self.instances}
        distinct = len(set(plain.values())) == len(plain)
        return plain if distinct else {name: f"switch{i}" for i, name in enumerate(self.instances)}

    def _remarks(self, hosts: list[Vertex], rates: Counter[float]) -> Iterator[str]:
        left = [f"{name}[{i}]" for name, i in self.ports_of.keys() - set(hosts)]
        if left:
            yield f"omitted {', '.join(sorted(left)[:4])}: their ports differ from those of others"
        if len(rates) > 1:
            yield "NICs differ in their rate: the highest is used"
        yield "a switch is one crossbar: components and links inside it are not used"
