"""A machine as a file of InfraGraph 2, which ASTRA-sim 3 reads: its importer reversed.

devices    host: xpu, nic, the switches and bridges between them     each switch: its ports
instances  host[nodes], leaf[..], spine[..]                          by the names of switches
edges      a cable each, from port to port, at the raw rate of its link
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from clustersim.answers import record
from clustersim.catalog import finding
from clustersim.catalog.changes import Settings
from clustersim.catalog.files import is_file
from clustersim.catalog.reading import MOST_VALUES, read_yaml
from clustersim.catalog.records.machines import DeviceLinks, DeviceSwitch, NodeRecord
from clustersim.catalog.writing import to_yaml
from clustersim.errors import CatalogError, ScenarioError
from clustersim.importers.source import natural
from clustersim.scenario.load import load_any
from clustersim.scenario.machine import load_cluster
from clustersim.scenario.origins import scenario_text
from clustersim.scenario.schema import ClusterUse
from clustersim.topology.cluster import build_cluster

INFRAGRAPH: Final = "infragraph"
"""The format of this export, as `clustersim export --as` names it."""

MOST_CABLES: Final = MOST_VALUES // 10
"""A cable has some ten values; a file with more could not be read back."""

HOST: Final = "host"
"""The instance of all nodes."""

PCIE: Final = "PCI Express"

Cable = tuple[str, str, float, float | None]
"""A cable: its ends, its raw rate [B/s], and its latency [s] where it joins switches."""


@record
class MachineExport:
    """A machine as a file of InfraGraph.

    Attributes
    ----------
    as_ : format of the file
    file : file that was written; null without `--out`
    text : the file
    nodes : number of nodes
    switches : number of switches
    cables : number of cables between nodes and switches
    command : command that imports the file
    not_expressed : what the format has no key for, each with the value
    """

    as_: Annotated[str, Field(alias="as")]
    file: str | None
    text: str
    nodes: int
    switches: int
    cables: int
    command: str
    not_expressed: Mapping[str, str]


def export_machine(
    machine: str | Path | Mapping[str, Any],
    settings: Settings = (),
    *,
    file: str | Path | None = None,
) -> MachineExport:
    """Return a machine, or that of a scenario, as a file of InfraGraph.

    Rates are raw ones, per direction.

    Parameters
    ----------
    machine : name or file of a cluster, or of a scenario; or the keys and values of a scenario
    settings : changes, ``["cluster.nodes=4"]``
    file : name of the file in the command that imports it; it is not written

    Raises
    ------
    ScenarioError, CatalogError
        in one line, for invalid input, and when the machine has too many cables.

    Examples
    --------
    >>> exported = export_machine("dgx-h100", ["cluster.nodes=2"])
    >>> exported.nodes, exported.switches, exported.cables
    (2, 1, 16)
    """
    use = _cluster_of(machine, settings)
    cables = [*islice(_cables(use), MOST_CABLES + 1)] if use.nodes <= MOST_CABLES else []
    if not 0 < len(cables) <= MOST_CABLES:
        raise ScenarioError(
            f"--as infragraph: {use.nodes:,} nodes have more than {MOST_CABLES:,} cables, so that"
            " their file could not be read back (fewer nodes: --set cluster.nodes=64)"
        )
    graph = _Graph(use, cables)
    name = str(file) if file is not None else f"{use.name}.yaml"
    node = use.node
    command = (
        f"clustersim import {name} --format infragraph --accelerator {node.accelerator.name}"
        f" --library {node.library.name}"
    )
    remarks = [f"{use.title or use.name}: {use.nodes:,} nodes", "import it:", f"  {command}"]
    return MachineExport(
        as_=INFRAGRAPH,
        file=None if file is None else str(file),
        text=to_yaml(graph.data(), remarks),
        nodes=use.nodes,
        switches=len(graph.switches),
        cables=len(cables),
        command=command,
        not_expressed=_not_expressed(use),
    )


def _cluster_of(machine: str | Path | Mapping[str, Any], settings: Settings) -> ClusterUse:
    """Return the cluster of a machine or a scenario."""
    if isinstance(machine, str | Path) and _is_cluster(str(machine)):
        return load_cluster(str(machine), None, settings)
    return load_any(scenario_text(machine), settings).scenario.cluster


def _is_cluster(given: str) -> bool:
    """Whether a name or file is that of a cluster."""
    file = Path(given)
    if not is_file(file):
        return given in finding.entry_names("cluster")
    data = read_yaml(file, CatalogError).data if file.suffix in (".yaml", ".yml") else None
    return isinstance(data, dict) and data.get("kind") == "cluster"


def _cables(use: ClusterUse) -> Iterator[Cable]:
    """Yield each cable once, those of NICs first."""
    fabric = build_cluster(use, use.nodes).fabric
    share = use.nic.efficiency
    for node in range(use.nodes):
        for nic in range(len(use.node.nics.devices)):
            port = fabric.port(node, nic)
            yield port.nic_name, port.switch_name, port.cable.bandwidth / share, None
    for a, b, hop in fabric.edges(use.nodes):
        if natural(a) < natural(b):
            yield a, b, hop.bandwidth / share, hop.latency


class _Graph:
    """The tables of a file."""

    def __init__(self, use: ClusterUse, cables: list[Cable]) -> None:
        self.use, self.cables = use, cables
        ends = {end for cable in cables for end in cable[:2]}
        self.switches = sorted((end for end in ends if ".nic" not in end), key=natural)
        self._instances: dict[str, tuple[str, int]] = {}
        counts = Counter[str]()
        for switch in self.switches:
            kind = _kind_of(switch)
            self._instances[switch] = kind, counts[kind]
            counts[kind] += 1
        self._counts = dict(counts)
        self._ports = Counter[str]()
        self._links: dict[str, dict[str, Any]] = {}

    def data(self) -> dict[str, Any]:
        """Return the file as plain values."""
        edges = [self._edge(*cable) for cable in self.cables]
        most = dict.fromkeys(self._counts, 0)
        for switch, ports in self._ports.items():
            kind, _ = self._instances[switch]
            most[kind] = max(most[kind], ports)
        switches = [
            _device(f"{kind}-switch", [_component("port", ports, "port")])
            for kind, ports in most.items()
        ]
        instances = {HOST: (HOST, self.use.nodes)}
        instances |= {kind: (f"{kind}-switch", count) for kind, count in self._counts.items()}
        return {
            "name": self.use.name,
            "devices": [_host(self.use.node), *switches],
            "links": [*self._links.values()],
            "instances": [
                {"name": name, "device": device, "count": count}
                for name, (device, count) in instances.items()
            ],
            "edges": edges,
        }

    def _edge(self, a: str, b: str, rate: float, latency: float | None) -> dict[str, Any]:
        link = _link(f"cable-{rate * 8 / 1e9:.6g}" + ("" if latency else "-nic"), rate, latency)
        self._links.setdefault(link["name"], link)
        return {"ep1": self._end(a), "ep2": self._end(b), "scheme": "one2one", "link": link["name"]}

    def _end(self, end: str) -> dict[str, str]:
        if ".nic" in end:
            node, nic = end.removeprefix("n").split(".nic")
            return {"instance": f"{HOST}[{node}]", "component": f"nic[{nic}]"}
        kind, number = self._instances[end]
        port, self._ports[end] = self._ports[end], self._ports[end] + 1
        return {"instance": f"{kind}[{number}]", "component": f"port[{port}]"}


def _kind_of(switch: str) -> str:
    """Return the name of switches that differ in numbers only.

    >>> _kind_of("leaf3"), _kind_of("spine0.12"), _kind_of("leaf-a")
    ('leaf', 'spine', 'leaf-a')
    """
    plain = re.sub(r"[^A-Za-z_-]+", "", switch).strip("-")
    return "switch" if plain in ("", HOST) else plain


def _host(node: NodeRecord) -> dict[str, Any]:
    """Return the device of a node: its accelerators, NICs, and what joins them."""
    inside = node.interconnect
    bus = _link("bus", node.nics.bus, None, PCIE)
    links, edges, others = [bus], list[dict[str, Any]](), list[dict[str, Any]]()
    if isinstance(inside, DeviceSwitch):
        others.append(_component("crossbar", 1, "switch"))
        links.append(_link("fast", inside.bandwidth, inside.latency))
        edges.append(_joined("xpu", "crossbar", "fast", "many2many"))
    elif isinstance(inside, DeviceLinks):
        names = {end for facts in inside.kinds.values() for pair in facts.between
                 for end in pair[:2] if isinstance(end, str)}  # fmt: skip
        names |= {end for end in node.nics.devices if isinstance(end, str)}
        for name in sorted(names, key=natural):
            others.append(_component(name, 1, "cpu" if name.startswith("cpu") else "custom"))
        for kind, facts in inside.kinds.items():
            pcie = PCIE if kind == "pcie" else ""
            links.append(_link(kind, facts.bandwidth, facts.latency, pcie))
            for a, b, *count in facts.between:
                edges += [_joined(_inner(a), _inner(b), kind)] * (count[0] if count else 1)
    edges += [
        _joined(f"nic[{nic}]", _inner(end), "bus") for nic, end in enumerate(node.nics.devices)
    ]
    accelerator = node.accelerator
    parts = [
        _component("xpu", node.devices, "xpu", accelerator.title or accelerator.name),
        _component("nic", len(node.nics.devices), "nic"),
        *others,
    ]
    return {**_device(HOST, parts), "links": links, "edges": edges}


def _inner(end: int | str) -> str:
    """Return an end of a link inside a node as a component."""
    return f"xpu[{end}]" if isinstance(end, int) else f"{end}[0]"


def _device(name: str, components: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "components": components}


def _component(name: str, count: int, choice: str, description: str = "") -> dict[str, Any]:
    words = {"description": description} if description else {}
    return {"name": name, **words, "count": count, "choice": choice}


def _joined(a: str, b: str, link: str, scheme: str = "one2one") -> dict[str, Any]:
    ends = {"ep1": {"component": a}, "ep2": {"component": b}}
    return {**ends, "scheme": scheme, "link": link}


def _link(name: str, rate: float, latency: float | None, description: str = "") -> dict[str, Any]:
    """Return a kind of link; rates in Gb/s, latencies in ns."""
    physical: dict[str, Any] = {
        "bandwidth": {
            "choice": "gigabits_per_second",
            "gigabits_per_second": float(f"{rate * 8 / 1e9:.12g}"),
        }
    }
    if latency:
        physical["latency"] = {"choice": "ns", "ns": float(f"{latency * 1e9:.12g}")}
    words = {"description": description} if description else {}
    return {"name": name, **words, "physical": physical}


def _not_expressed(use: ClusterUse) -> dict[str, str]:
    """Return what the format has no key for."""
    found = {
        "cluster.nic.efficiency": f"{use.nic.efficiency:g} (rates are raw ones)",
        "cluster.nic.latency": f"{use.nic.latency * 1e6:g} us",
        "node.accelerator": f"{use.node.accelerator.name} (by name only)",
        "node.library": use.node.library.name,
    }
    if routing := getattr(use.fabric, "routing", None):
        found["cluster.fabric.routing"] = str(routing)
    return found
