"""Machines written as InfraGraph: their import has the same cables, links, NICs and routes."""

from collections import Counter
from itertools import product

import pytest

import clustersim
from clustersim.catalog.finding import entry_names
from clustersim.errors import ScenarioError
from clustersim.exporters.infragraph import export_machine
from clustersim.importers.draft import Choices
from clustersim.importers.registry import import_source
from clustersim.importers.source import Source
from clustersim.scenario.machine import load_cluster
from clustersim.topology.cluster import build_cluster
from commands import output

SEVERAL_RATES = {"aurora"}
"""Machines whose devices are joined by links of several rates, of which an import has one."""

FEW = {"dgx-h100", "fugaku", "frontier", "server-8xl40s", "superpod-a100", "tpu-v5e-pod"}


def round_trip(tmp_path, name, nodes):
    """Return a machine as it is shipped, and as it is imported from its export."""
    own = load_cluster(name, nodes)
    chosen = {"accelerator": own.node.accelerator.name, "library": own.node.library.name}
    text = export_machine(name, [f"cluster.nodes={nodes}"]).text
    file = tmp_path / "mine.yaml"
    made = import_source(Source("x.yaml", text), Choices("mine", **chosen)).text
    file.write_text(made, encoding="utf-8")
    return own, load_cluster(str(file), nodes)


def cables(use, nodes):
    """Return how many cables between switches there are of each raw rate [MB/s]."""
    fabric = build_cluster(use, nodes).fabric
    rates = (hop.bandwidth / use.nic.efficiency for _, _, hop in fabric.edges(nodes))
    return Counter(round(rate / 1e6) for rate in rates)


def inside(use):
    """Return the links inside a node by their rate, whatever the name of their kind."""
    links = use.node.interconnect
    kinds = getattr(links, "kinds", {}).values()
    between = {
        (kind.bandwidth, *map(str, sorted(pair[:2], key=str)), *(pair[2:] or [1]))
        for kind in kinds
        for pair in kind.between
    }
    return links.type, getattr(links, "bandwidth", None), between


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in FEW else [pytest.mark.large])
        for name in entry_names("cluster")
    ],
)
def test_an_exported_machine_is_imported_with_its_rates(name, tmp_path):
    """NICs, buses, links of nodes and cables of each shipped machine, at their raw rates."""
    own, other = round_trip(tmp_path, name, 4)

    assert other.nic.bandwidth == own.nic.bandwidth
    assert (other.node.nics.bus, other.node.nics.devices) == (own.node.nics.bus,
                                                              own.node.nics.devices)  # fmt: skip
    assert cables(other, 4) == cables(own, 4)
    if name not in SEVERAL_RATES:
        assert inside(other) == inside(own)


@pytest.mark.parametrize(("name", "nodes"), [("superpod-a100", 24), ("fugaku", 12), ("selene", 8)])
def test_its_routes_cross_as_many_links(name, nodes, tmp_path):
    """Between any two devices, through spines and routers as well."""
    own, other = (build_cluster(use, nodes) for use in round_trip(tmp_path, name, nodes))
    devices = range(0, own.devices, max(1, own.devices // 16))

    for a, b in product(devices, devices):
        if a != b:
            assert len(other.hops(a, b)) == len(own.hops(a, b))
    assert other.fabric.diameter(nodes) == own.fabric.diameter(nodes)


def test_the_machine_of_a_scenario_is_that_of_its_cluster():
    """With the nodes of the scenario; also of several jobs."""
    from_scenario = export_machine("megatron21-t1-1.7b")
    from_cluster = export_machine("selene", [f"cluster.nodes={from_scenario.nodes}"])

    assert from_scenario.cables == from_cluster.cables
    assert export_machine("superpod-hashed-neighbours").nodes == 64


def test_the_command_writes_a_file_that_is_imported(capsys, here):
    """It prints the counts, and the command that imports the file."""
    shown = output(capsys, "export", "superpod-a100", "--as", "infragraph", "--set",
                   "cluster.nodes=24", "-o", "graph.yaml")  # fmt: skip
    output(capsys, "import", "graph.yaml", "--format", "infragraph", "-o", "mine.yaml")
    words = output(capsys, "export", "dgx-h100", "--set", "cluster.nodes=2", "--as", "infragraph")

    assert "24 nodes, " in shown
    assert "clustersim import graph.yaml --format infragraph" in shown
    assert words.startswith("# ")
    assert (here / "mine.yaml").exists()


def test_other_exports_name_its_function():
    """A machine is no launch file."""
    with pytest.raises(ScenarioError, match=r"is no launch file \(clustersim\.export_machine"):
        clustersim.export("frontier-22b", "infragraph")
