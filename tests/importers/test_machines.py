"""Importers: machine files from the output of other programs load, route and state their proof.

The files in `tests/data/import` are composed from facts about real machines; none is a copy.
"""

import json
from collections import Counter
from contextlib import suppress
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boxes import DATA
from clustersim.catalog import finding
from clustersim.catalog.facts import sourced
from clustersim.catalog.reading import parse_yaml
from clustersim.errors import CatalogError, ClustersimError, ScenarioError
from clustersim.importers.draft import Choices
from clustersim.importers.launch.formats import LAUNCHES
from clustersim.importers.machines import hardware
from clustersim.importers.machines.nearest import clusters, nodes
from clustersim.importers.registry import FORMATS, MODEL, import_file, import_source
from clustersim.importers.source import MOST_BYTES, Source, as_source
from clustersim.scenario.entries import entry
from clustersim.scenario.load import load
from clustersim.topology.cluster import build_cluster
from commands import ending, rejected
from wrong_values import wrong_values

FILES = Path(__file__).parents[1] / "data" / "import"
GOOD = {
    "nccl-h100.xml": {},
    "nccl-a100-pair.xml": {},
    "nccl-cloud-static.xml": {"accelerator": "a100-40gb"},
    "rccl-mi250x.xml": {},
    "rccl-mi300x.xml": {},
    "lstopo-dgx-a100.xml": {},
    "lstopo-frontier.xml": {},
    "lstopo-1.11-dgx-1v.xml": {},
    "lstopo-2x4090.xml": {},
    "nvidia-smi-dgx-1v.txt": {},
    "nvidia-smi-dgx-a100.txt": {},
    "nvidia-smi-polaris.txt": {},
    "nvidia-smi-2x5090.txt": {"accelerator": "rtx-5090"},
    "rocm-smi-mi250x.txt": {},
    "rocm-smi-pcie.txt": {"accelerator": "mi300x"},
    "astra-sim-h100.yml": {},
    "astra-sim-ring-switch.yml": {},
    "astra-sim-rings.yml": {},
    "astra-sim-mixed.yml": {},
    "infragraph-clos.yaml": {},
    "infragraph-one-tier.json": {},
    "ibnetdiscover-old.txt": {},
    "ibnetdiscover-rails.txt": {},
    "slurm-tree.conf": {},
    "slurm-uneven.conf": {},
    "slurm-blocks.conf": {},
}
"""Every file and the options that it needs."""
FRONTIER = {
    (0, 1): 4, (2, 3): 4, (4, 5): 4, (6, 7): 4, (0, 6): 2, (2, 4): 2,
    (0, 2): 1, (1, 3): 1, (1, 5): 1, (3, 7): 1, (4, 6): 1, (5, 7): 1
}  # fmt: skip


def imported(name, **choices):
    """Return what a file of the test data makes."""
    return import_file(FILES / name, Choices("mine", **{**GOOD.get(name, {}), **choices}))


def made_of(text, **choices):
    """Return what a text makes."""
    return import_source(Source("given.txt", text), Choices("mine", **choices))


def text_of(name, old="", new=""):
    """Return a file of the test data, with one text replaced by another."""
    return (FILES / name).read_text(encoding="utf-8").replace(old, new)


def used(tmp_path, name, nodes=2, **choices):
    """Return the cluster of a scenario in the folder of the imported file."""
    result = imported(name, **choices)
    (tmp_path / "mine.yaml").write_text(result.text, encoding="utf-8")
    cluster = {"name": "mine", "nodes": nodes}
    if result.draft.kind == "node":
        cluster = {"name": "dgx-a100", "nodes": nodes, "node": "mine"}
    scenario = {**DATA, "cluster": cluster}
    (tmp_path / "test.yaml").write_text(json.dumps(scenario), encoding="utf-8")
    loaded = load(tmp_path / "test.yaml")
    return loaded.scenario.cluster, build_cluster(loaded.scenario.cluster, nodes)


def counts(record, kind):
    """Return the links between each two devices."""
    links = record.node.interconnect.kinds[kind].between
    return {(a, b): n[0] if n else 1 for a, b, *n in links}


# --- every format ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GOOD)
def test_what_is_written_loads_beside_a_scenario_and_routes(tmp_path, name):
    """Between every two devices of a node and into the next node there is a way, both ways."""
    size = 1 if name == "astra-sim-h100.yml" else 2
    record, cluster = used(tmp_path, name, size)
    devices = range(record.node.devices)
    pairs = [*permutations(devices, 2), *((0, cluster.devices - 1),) * (size - 1)]

    for a, b in pairs:
        assert cluster.route(a, b).links
        assert cluster.route(b, a).links
        assert all(cluster.links.capacities[link] > 0 for link in cluster.route(a, b).links)


@pytest.mark.parametrize("name", GOOD)
def test_every_value_is_the_file_s_or_assumed_and_listed(name):
    """A fact is from the file or names its entry, and the summary lists the latter."""
    draft = imported(name).draft
    found = list(_facts(draft.data))
    open_ones = [fact for fact in found if "assumed" in fact]

    assert found
    assert all(("assumed" in fact) != (fact.get("source") == "import") for fact in found)
    assert len([line for line in draft.assumed if line not in draft.taken]) == len(open_ones)


def _facts(value):
    if isinstance(value, dict):
        if "value" in value:
            yield value
        else:
            for item in value.values():
                yield from _facts(item)


@pytest.mark.parametrize("name", GOOD)
def test_the_same_file_gives_the_same_bytes(name):
    """Nothing depends on the order of a set or on the clock."""
    assert imported(name).text == imported(name).text


def test_each_format_has_an_example():
    """No format of machines is without a file that exercises it."""
    assert {imported(name).format for name in GOOD} == FORMATS.keys() - {MODEL, *LAUNCHES}


# --- NCCL and RCCL --------------------------------------------------------------------------------


def test_eight_h100_hang_on_one_crossbar_of_450(tmp_path):
    """18 links of 25 GB/s to four switches are one crossbar link; each device has its own NIC."""
    record, cluster = used(tmp_path, "nccl-h100.xml")
    route = cluster.route(0, 7)

    assert record.node.accelerator.name == "h100-sxm"
    assert record.node.devices == 8
    assert record.node.interconnect.bandwidth == pytest.approx(450e9)
    assert record.node.nics.devices == list(range(8))
    assert record.node.nics.bus == pytest.approx(63e9, rel=1e-3)
    assert len(route.links) == 2
    assert cluster.node.nic_of == tuple(range(8))


def test_mi250x_has_the_links_of_frontier(tmp_path):
    """The link counts in the XML are those of the shipped node, at 50 GB/s each."""
    record, cluster = used(tmp_path, "rccl-mi250x.xml")

    assert counts(record, "xgmi") == FRONTIER
    assert record.node.interconnect.kinds["xgmi"].bandwidth == 50e9
    assert record.node.accelerator.name == "mi250x-gcd"
    assert cluster.node.nic_of == (0, 0, 1, 1, 2, 2, 3, 3)


def test_mi300x_is_a_full_mesh_by_its_compute_units(tmp_path):
    """gfx942 with 304 units is an MI300X: 28 links of 64 GB/s, a NIC next to each device."""
    record, cluster = used(tmp_path, "rccl-mi300x.xml")

    assert record.node.accelerator.name == "mi300x"
    assert Counter(counts(record, "xgmi").values()) == {1: 28}
    assert record.node.interconnect.kinds["xgmi"].bandwidth == 64e9
    assert cluster.node.nic_of == tuple(range(8))


def test_fewer_compute_units_are_another_chip():
    """gfx942 with 228 units is an MI300A."""
    text = text_of("rccl-mi300x.xml", '"304"', '"228"')

    assert made_of(text).draft.data["accelerator"] == "mi300a"


def test_a_bridged_pair_talks_over_its_links_and_not_over_the_sockets(tmp_path):
    """Two PCIe cards with 12 links between them use those; the NIC of socket 0 serves both."""
    record, cluster = used(tmp_path, "nccl-a100-pair.xml")

    assert counts(record, "nvlink") == {(0, 1): 12}
    assert [cluster.links.kinds[link] for link in cluster.route(0, 1).links] == ["nvlink"]
    assert record.node.nics.devices == ["cpu0"]
    assert cluster.node.nic_of == (0, 0)


def test_a_static_file_takes_its_links_from_the_chip_s_node(tmp_path):
    """A cloud's file without <gpu> has no NVLinks: they come from the catalogue."""
    record, _ = used(tmp_path, "nccl-cloud-static.xml")

    assert record.node.interconnect.type == "switch"
    inside = sourced(record.node.interconnect, "bandwidth")
    assert inside.assumed == "not in the file; as in dgx-a100-40gb"
    assert record.node.nics.devices == [0, 2, 4, 6]
    assert record.node.nics.bus == pytest.approx(15.75e9, rel=1e-3)


def test_a_device_without_links_to_the_switches_is_kept_and_told():
    """A fault of one device does not become the rate of all: PCIe remains."""
    head, tail = text_of("nccl-h100.xml").split('<gpu dev="3"')
    inside, rest = tail.split("</gpu>", 1)
    broken = f'{head}<gpu dev="3"{inside.partition(">")[0]}></gpu>{rest}'
    draft = made_of(broken).draft
    links = draft.data["interconnect"]["kinds"]["nvlink"]["between"]["value"]

    assert [device for device, _, _ in links] == [0, 1, 2, 4, 5, 6, 7]
    assert any("18, 18, 18, 0, 18" in note and "fault" in note for note in draft.notes)


def test_all_switches_of_a_rack_fused_in_one_are_a_crossbar():
    """Dumps of a multi-node domain name one target for every link."""
    gpu = (
        '<pci busid="000{0}:01:00.0" class="0x030200" link_speed="32.0 GT/s" link_width="16">'
        '<gpu dev="{0}" sm="103" rank="{0}"><c2c bw="44712" count="5"/>'
        '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/></gpu></pci>'
    )
    gpus = "".join(gpu.format(i) for i in range(4))
    data = made_of(f'<system><cpu numaid="0">{gpus}</cpu></system>').draft.data

    assert data["interconnect"]["bandwidth"]["value"] == "900 GB/s"
    assert data["host"]["link"] == {"value": "223.56 GB/s", "source": "import", "note": "C2C"}


def test_a_speed_that_no_net_has_is_not_believed():
    """Published samples hold 200000000 Mb/s."""
    draft = made_of(text_of("rccl-mi300x.xml", '"400000"', '"200000000"')).draft

    assert any("implausible speed of 200000000 Mb/s" in note for note in draft.notes)
    assert "GB/s" not in draft.data["nics"]["devices"]["note"]


def test_an_unknown_pcie_speed_counts_as_nccl_counts_it():
    """Speed unknown is 8 GT/s and width 0 is 16 lanes, and the user gets a note."""
    text = text_of("nccl-a100-pair.xml", "16.0 GT/s PCIe", "Unknown speed")
    draft = made_of(text.replace('link_width="16"', 'link_width="0"')).draft
    pcie = draft.data["interconnect"]["kinds"]["pcie"]

    assert pcie["bandwidth"]["value"].startswith("15.75")
    assert any("8 GT/s x16" in note for note in draft.notes)


def test_xml_is_bounded_in_depth_and_elements():
    """A nest or a flood of elements ends in a line, not in a full memory."""
    deep = "<pci>" * 100
    flood = f"<system>{'<cpu/>' * 100_001}</system>"

    with pytest.raises(CatalogError, match="<pci> is nested more than 64 levels deep"):
        made_of(deep)
    with pytest.raises(CatalogError, match="more than 100,000 elements"):
        made_of(flood)


def test_a_large_file_is_not_read():
    """The limit is on the bytes of the file."""
    with pytest.raises(CatalogError, match="is larger than 16 MB"):
        as_source("given.xml", b" " * (MOST_BYTES + 1))


# --- lstopo ---------------------------------------------------------------------------------------


def test_links_to_ports_of_nvswitches_are_one_crossbar(tmp_path):
    """Two NVLinks to each of six ports are 12 links of 25 GB/s; a NIC is behind each switch."""
    record, cluster = used(tmp_path, "lstopo-dgx-a100.xml")

    assert record.node.accelerator.name == "a100-80gb"
    assert record.node.interconnect.bandwidth == pytest.approx(300e9)
    assert record.node.nics.devices == list(range(8))
    assert cluster.node.nic_of == tuple(range(8))


def test_a_port_of_gen_4_is_not_slowed_by_what_nvml_states_of_the_gpu():
    """NVML's part of hwloc states 15.75 GB/s for any GPU since Gen 3; its port states 31.5."""
    text = text_of("lstopo-dgx-a100.xml", "NVLinkBandwidth", "Other")
    text = text.replace("A100-SXM4-80GB", "L40S").replace("NVSwitch", "")
    data = made_of(text).draft.data

    assert data["accelerator"] == "l40s"
    pcie = data["interconnect"]["kinds"]["pcie"]
    assert pcie["bandwidth"]["value"] == "31.50769 GB/s"
    assert [0, "pcie0"] in pcie["between"]["value"]


def test_pairs_of_one_hop_have_xgmi(tmp_path):
    """A bandwidth for every pair is not a link: hops of 1 are, with the counts of Frontier."""
    record, cluster = used(tmp_path, "lstopo-frontier.xml")

    assert counts(record, "xgmi") == FRONTIER
    assert record.node.accelerator.name == "mi250x-gcd"
    assert record.node.nics.devices == ["cpu0", "cpu1", "cpu2", "cpu3"]
    assert (cluster.node.nic_of[4], cluster.node.nic_of[0]) == (0, 3)


def test_hwloc_without_nvml_takes_links_from_the_nearest_node(tmp_path):
    """Version 1.11 states PCIe and the names of products; the mesh of a DGX-1V is assumed."""
    record, cluster = used(tmp_path, "lstopo-1.11-dgx-1v.xml")
    nvlink = record.node.interconnect.kinds["nvlink"]

    assert record.node.accelerator.name == "v100-sxm2-32gb"
    assert sourced(nvlink, "between").assumed == "not in the file; as in dgx-1v"
    assert cluster.node.nic_of == (0, 0, 1, 1, 2, 2, 3, 3)


def test_an_idle_card_is_noted_with_the_rate_of_its_link():
    """A link that saves power states 4 GB/s; the remedy is in the note."""
    draft = imported("lstopo-2x4090.xml").draft

    assert draft.data["interconnect"]["kinds"]["pcie"]["bandwidth"]["value"] == "4 GB/s"
    assert any("2 GPUs at 4 GB/s" in note and "under load" in note for note in draft.notes)


def test_a_nic_without_an_active_port_is_omitted():
    """Storage or management on a dead port carries nothing."""
    notes = imported("lstopo-dgx-a100.xml").draft.notes

    assert notes == ("omitted mlx5_8: none of its ports is active",)


def test_devices_that_differ_in_nvlinks_to_switches_are_noted():
    """A fault of one device is reported, whatever the format."""
    first = "1000000 0 0 0 0 0 0 0 50000 50000 "
    draft = made_of(text_of("lstopo-dgx-a100.xml", first, first[:-6] + "0 ")).draft

    assert any("(10, 12, 12, 12, 12, 12, 12, 12): a fault?" in note for note in draft.notes)


@pytest.mark.parametrize("name", [name for name in GOOD if name.endswith(".xml")])
def test_the_root_tells_two_formats_of_xml_apart(name):
    """Files of lstopo begin with a declaration and a document type, those of NCCL may."""
    text = "<?xml version='1.0'?>\n<!-- a dump -->\n" + text_of(name).partition("?>\n")[2]
    text = text if name.startswith("lstopo") else "<?xml version='1.0'?>\n" + text_of(name)

    assert made_of(text, **GOOD[name]).format == imported(name).format


# --- matrices -------------------------------------------------------------------------------------


def test_dgx_1v_is_a_hybrid_cube_mesh_over_a_tree(tmp_path):
    """Each V100 has 6 links; pairs share a switch with a NIC, and two switches a socket."""
    record, cluster = used(tmp_path, "nvidia-smi-dgx-1v.txt")
    shipped = entry("cluster", "dgx-1v").record
    each = Counter()
    for (a, b), count in counts(record, "nvlink").items():
        each.update({a: count, b: count})

    assert each == dict.fromkeys(range(8), 6)
    assert record.node.accelerator.name == "v100-sxm2-32gb"
    for kind in ("nvlink", "pcie", "qpi"):
        assert _as_sets(record, kind) == _as_sets(shipped, kind), kind
    assert record.node.nics.devices == ["pcie0", "pcie1", "pcie2", "pcie3"]
    assert cluster.node.nic_of == (0, 0, 1, 1, 2, 2, 3, 3)


def _as_sets(record, kind):
    between = record.node.interconnect.kinds[kind].between
    return {(frozenset((a, b)), n[0] if n else 1) for a, b, *n in between}


def test_polaris_has_four_links_for_every_pair(tmp_path):
    """NV4 to three peers is 12, what an A100 has: direct links, and a NIC at devices 1 and 3."""
    record, cluster = used(tmp_path, "nvidia-smi-polaris.txt")

    assert Counter(counts(record, "nvlink").values()) == {4: 6}
    assert record.node.accelerator.name == "a100-40gb"
    assert len(record.node.nics.devices) == 2
    assert (cluster.node.nic_of[3], cluster.node.nic_of[1]) == (0, 1)


def test_links_to_every_peer_above_the_chip_s_number_are_a_switch(tmp_path):
    """NV12 to seven peers is 84: a crossbar; NICs that are nearest to no device are omitted."""
    record, cluster = used(tmp_path, "nvidia-smi-dgx-a100.txt")

    assert record.node.interconnect.bandwidth == pytest.approx(300e9)
    assert record.node.accelerator.name == "a100-80gb"
    assert record.node.nics.devices == list(range(8))
    assert cluster.node.nic_of == tuple(range(8))
    assert imported("nvidia-smi-dgx-a100.txt").draft.notes[-1].startswith("omitted mlx5_8, mlx5_9")


def matrix_of(count, links):
    """Return a matrix in which every two of `count` devices have NV`links`."""
    names = [f"GPU{i}" for i in range(count)]
    rows = [[a, *("X" if a == b else f"NV{links}" for b in names), "0-63", "0"] for a in names]
    return "\n".join("  ".join(row) for row in [[*names, "CPU Affinity", "NUMA Affinity"], *rows])


@pytest.mark.parametrize(
    ("count", "links", "chip", "form", "rate"),
    [
        (16, 6, "v100-sxm2-32gb", "switch", "150 GB/s"),
        (8, 18, "h100-sxm", "switch", "450 GB/s"),
        (4, 6, "h100-sxm", "links", "25 GB/s"),
        (2, 4, "rtx-3090", "links", "14.0625 GB/s"),
    ],
)
def test_the_number_of_links_tells_chip_and_form(count, links, chip, form, rate):
    """More links to all peers than a chip has are a switch; the chip has just enough."""
    data = made_of(matrix_of(count, links)).draft.data
    inside = data["interconnect"]
    wide = inside if form == "switch" else inside["kinds"]["nvlink"]

    assert (data["accelerator"], inside["type"]) == (chip, form)
    assert wide["bandwidth"]["value"] == rate


@pytest.mark.parametrize(
    ("line", "chip"),
    [
        ("GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-0)", "a100-40gb"),
        ("GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-0)", "a100-80gb"),
    ],
)
def test_a_product_s_name_beside_the_matrix_tells_the_chip(line, chip):
    """What `nvidia-smi -L` prints settles what links leave open."""
    text = text_of("nvidia-smi-dgx-a100.txt")

    assert made_of(f"{line}\n{text}").draft.data["accelerator"] == chip


def test_a_matrix_without_links_needs_the_chip():
    """Two cards on a host bridge may be anything: the message lists the accelerators."""
    with pytest.raises(CatalogError, match="accelerator not detected: set --accel"):
        imported("nvidia-smi-2x5090.txt", accelerator=None)


def test_two_cards_on_a_host_bridge_meet_there(tmp_path):
    """PHB is a way over the one host bridge."""
    _, cluster = used(tmp_path, "nvidia-smi-2x5090.txt")

    assert [hop.name for hop in cluster.hops(0, 1)] == ["n0.dev0>n0.cpu0", "n0.cpu0>n0.dev1"]


def test_rocm_s_weights_of_one_hop_are_links_counted_by_the_catalogue(tmp_path):
    """Weight 15 is a link of its own, 30 is not; how many there are is assumed from Frontier."""
    record, _ = used(tmp_path, "rocm-smi-mi250x.txt")
    between = sourced(record.node.interconnect.kinds["xgmi"], "between")

    assert counts(record, "xgmi") == FRONTIER
    assert "as in frontier-ex235a" in between.assumed


def test_rocm_s_pcie_boxes_meet_between_sockets(tmp_path):
    """PCIE on four NUMA nodes is a way over two host bridges."""
    _, cluster = used(tmp_path, "rocm-smi-pcie.txt")

    assert len(cluster.route(0, 1).links) == 3


# --- networks -------------------------------------------------------------------------------------


def test_one_dimension_of_astra_sim_is_a_node(tmp_path):
    """A Switch of 400 GB/s and 936.25 ns a link: two links a transfer, rates as reached."""
    record, cluster = used(tmp_path, "astra-sim-h100.yml", 1)
    route = cluster.route(0, 1)

    assert cluster.links.capacities[route.links[0]] == pytest.approx(400e9)
    assert route.latency == pytest.approx(2 * 936.25e-9)
    assert record.size == 1


def test_outer_dimensions_of_astra_sim_are_the_network(tmp_path):
    """16 rings of four devices, each with a NIC of 25 GB/s on one switch."""
    record, cluster = used(tmp_path, "astra-sim-ring-switch.yml", 16)

    assert counts(record, "link") == {(0, 1): 1, (1, 2): 1, (2, 3): 1, (3, 0): 1}
    assert len(record.node.nics.devices) == 4
    assert record.nic.bandwidth == 25e9
    assert cluster.devices == 64


def test_rings_of_astra_sim_are_a_torus_with_the_inner_one_fastest(tmp_path):
    """Nodes 0 and 3 close a ring of four, nodes 0 and 8 one of three: neighbours by one cable."""
    record, cluster = used(tmp_path, "astra-sim-rings.yml", 12)
    between = {b: len(cluster.route(0, 2 * b).links) for b in range(1, 12)}

    assert record.fabric.shape == [3, 4]
    assert {b for b, links in between.items() if links == min(between.values())} == {1, 3, 4, 8}


def test_other_products_of_dimensions_are_cables(tmp_path):
    """Two nodes on a switch, three such pairs joined all to all: by the router of each node."""
    record, cluster = used(tmp_path, "astra-sim-mixed.yml", 6)
    width = {hop.name: hop.bandwidth for a in (0, 23) for hop in cluster.hops(a, 4)}

    assert record.fabric.type == "links"
    assert width["r5>r1"] == pytest.approx(4 * 12.5e9)
    assert width["r0>d1s0"] == pytest.approx(4 * 25e9)


def test_hosts_of_a_fabric_are_nodes_with_a_nic_on_each_rail(tmp_path):
    """Hosts in the order of their names, adapters as rails; a slow cable keeps its own rate."""
    record, cluster = used(tmp_path, "ibnetdiscover-rails.txt", 4)
    cables = Counter(tuple(cable) for cable in record.fabric.links)

    assert record.size == 4
    assert record.nic.bandwidth == 25e9
    assert {(f"n{i}.nic{j}", f"leaf{j + 1}", 25e9) for i in range(4) for j in range(2)} <= set(
        cables
    )
    assert cables["leaf1", "spine1", 25e9] == 2
    assert cables["leaf2", "spine1", 25e9] == cables["leaf2", "spine1", 6.25e9] == 1
    assert len(cables) == 8 + 3
    assert cluster.graph.has_edge("n0.nic0", "leaf1")


def test_a_fabric_without_host_names_counts_adapters_and_keeps_the_degraded_cable(tmp_path):
    """Three hosts that call themselves alike are three nodes; one trunk trained at 1xSDR."""
    record, _ = used(tmp_path, "ibnetdiscover-old.txt", 3)
    trunks = [rate for a, b, rate in record.fabric.links if a[0] == b[0] == "S"]

    assert record.size == 3
    assert sorted(trunks) == [0.25e9, 1e9]


def test_the_user_s_node_is_taken_and_its_nics_counted(tmp_path):
    """A network of two rails over nodes of eight NICs spreads its two over the devices."""
    record, _ = used(tmp_path, "ibnetdiscover-rails.txt", 4, node="dgx-h100")

    assert record.node.accelerator.name == "h100-sxm"
    assert record.node.nics.devices == [0, 4]


def test_an_imported_node_and_an_imported_network_make_one_machine(tmp_path):
    """The inside from one file, the outside from another."""
    node = imported("nccl-a100-pair.xml")
    (tmp_path / "inside.yaml").write_text(node.text, encoding="utf-8")
    record, cluster = used(tmp_path, "ibnetdiscover-rails.txt", 4, node="inside", folder=tmp_path)

    assert record.node.name == "inside"
    assert cluster.devices == 8
    assert cluster.route(0, 7).links


def test_a_fabric_that_is_cut_off_is_told():
    """Peers that the file never describes are a sign that its end is missing."""
    text = text_of("ibnetdiscover-old.txt")
    whole, cut = made_of(text), made_of(text.partition("\n\n")[0])

    assert not [note for note in whole.draft.notes if "truncated" in note]
    assert "3 devices are named as peers only (is the file truncated?)" in cut.draft.notes


def test_a_large_trace_is_told_by_what_it_is(capsys, tmp_path):
    """A trace of Kineto needs a machine; as a configuration it is not read as a whole."""
    path = tmp_path / "rank0.pt.trace.json"
    start = '{"schemaVersion": 1, "traceEvents": ['
    path.write_text(start + " " * MOST_BYTES + "]}", encoding="utf-8")

    assert "a trace states no machine (--cluster NAME" in rejected(capsys, "import", path)
    error = rejected(capsys, "import", path, "--format", "hugging-face")
    assert "is a trace of Kineto (torch.profiler) or Chrome, not the configuration of a m" in error


def test_a_folder_of_a_model_is_imported_by_its_configuration(capsys, tmp_path):
    """A downloaded model is named after its folder; another folder has nothing to import."""
    folder = tmp_path / "Gemma-2-9B"
    folder.mkdir()
    assert "is a folder without a config.json" in rejected(capsys, "import", folder)
    (folder / "config.json").write_text(text_of("gemma-2-9b.json"), encoding="utf-8")

    code, out, _ = importing(capsys, folder)

    assert (code, "name: gemma-2-9b\n" in out) == (0, True)


@pytest.mark.parametrize(
    ("adapter", "library"), [("mlx5_", "nccl-hopper"), ("eth", "nccl-hopper"), ("rdmap", "nccl-p5")]
)
def test_h100_with_mellanox_adapters_has_no_library_of_amazon(adapter, library):
    """The names of NICs tell the network, and the network the library; unknown ones are common."""
    made = made_of(text_of("nccl-h100.xml", "mlx5_", adapter))

    assert made.draft.data["library"] == library


@pytest.mark.parametrize(
    ("adapter", "library"), [("NIC0: mlx5_0", "nccl-hopper"), ("NIC0: rdmap79s0", "nccl-p5")]
)
def test_the_legend_of_nvidia_smi_tells_the_network(adapter, library):
    """The matrix numbers its NICs and names them below."""
    names = [f"GPU{i}" for i in range(8)]
    rows = [[a, *("X" if a == b else "NV18" for b in names), "SYS", "0-63", "0"] for a in names]
    rows = [[*names, "NIC0", "CPU Affinity"], *rows, ["NIC0", *["SYS"] * 8, "X"], [adapter]]

    assert made_of("\n".join("  ".join(row) for row in rows)).draft.data["library"] == library


@pytest.mark.parametrize(
    ("width", "node"),
    [("1xSDR", "dgx-1v"), ("4xEDR", "dgx-1v"), ("4xHDR", "dgx-a100"), ("4xNDR", "gh200-144gb")],
)
def test_hosts_of_ibnetdiscover_are_no_nodes_of_fugaku(width, node):
    """One adapter in each host, as in a node of Fugaku: the node is InfiniBand's, and assumed."""
    ports = [f'[{i}] "H-{i:016x}"[1]({i:x}) # "host{i} mlx5_0" lid {i} {width}' for i in (1, 2)]
    hosts = [
        f'Ca 1 "H-{i:016x}" # "host{i} mlx5_0"\n'
        f'[1]({i:x}) "S-00000000000000aa"[{i}] # lid {i} lmc 0 "leaf" lid 9 {width}\n'
        for i in (1, 2)
    ]
    switch = "\n".join(['Switch 2 "S-00000000000000aa" # "leaf" enhanced port 0 lid 9', *ports])
    draft = made_of("\n\n".join([switch, *hosts])).draft

    taken = draft.data["node"]
    assert (taken if isinstance(taken, str) else taken["name"]) == node
    assert draft.assumed[0].startswith(f"node {node}, with ")
    assert draft.assumed[0].endswith("describes no nodes; choose yours with --node")


def test_an_accelerator_without_a_node_takes_no_library_of_another_maker():
    """One card matches the form of a TPU; a card of the same line is nearer."""
    one = "GPU0  CPU Affinity\nGPU0  X  0-63"

    assert made_of(one, accelerator="rtx-5090").draft.data["library"].startswith("nccl")


def test_shipped_nodes_state_the_network_of_their_nics():
    """Nodes of a torus have no NICs of their own, and only Amazon's has EFA."""
    tori = {entry.node.name for entry in clusters() if entry.fabric == "torus"}
    networks = {entry.name: entry.data["nics"]["network"] for entry in nodes()}

    assert tori <= {name for name, network in networks.items() if network == "torus"}
    assert [name for name, network in networks.items() if network == hardware.EFA] == ["aws-p5"]


def test_a_node_is_not_named_for_a_file_that_has_its_own():
    """An option without effect is an error."""
    with pytest.raises(ScenarioError, match="--node: applies to ibnetdiscover and slurm"):
        imported("nccl-h100.xml", node="dgx-h100")


def test_an_even_tree_of_slurm_is_a_fat_tree(tmp_path):
    """Four leaves of eight nodes under one spine carry at every level what hangs below it."""
    record, _ = used(tmp_path, "slurm-tree.conf", 32)
    fabric = record.fabric

    assert (fabric.nodes_per_leaf, fabric.leaves_per_pod) == (8, 4)
    assert fabric.leaf_uplinks == 8 * len(record.node.nics.devices)
    assert record.size == 32
    assert sourced(record.nic, "bandwidth").assumed


def test_an_uneven_tree_of_slurm_is_a_list_of_cables(tmp_path):
    """Leaves of four and of two nodes have trunks for four and for two."""
    record, _ = used(tmp_path, "slurm-uneven.conf", 6)
    wide = {a: rate for a, b, rate in record.fabric.links if b == "spine"}

    assert wide["leaf1"] == pytest.approx(2 * wide["leaf2"])


@pytest.mark.parametrize(("text", "complaint"), wrong_values("trees of switches that are none"))
def test_a_tree_that_is_none_is_named_with_its_line(text, complaint):
    """One line states the switch and the reason."""
    with pytest.raises(CatalogError) as error:
        made_of(text)
    assert str(error.value).startswith(f"given.txt{complaint}")


@pytest.mark.parametrize(("name", "old", "new", "complaint"), wrong_values("files of machines"))
def test_a_broken_or_hostile_file_is_named_with_its_line(name, old, new, complaint):
    """One line states the first wrong place and what is allowed; no entity is ever expanded."""
    with pytest.raises(ClustersimError) as error:
        made_of(text_of(name, old, new))
    assert str(error.value).startswith(f"given.txt{complaint}")
    assert "\n" not in str(error.value)


# --- whatever comes -------------------------------------------------------------------------------


def reads_or_complains(content, format=None):
    """Read bytes as a file; only a complaint of ours may stop it."""
    with suppress(CatalogError, ScenarioError):
        import_source(as_source("given", content), Choices("mine", accelerator="a100-80gb"), format)


# --- InfraGraph -----------------------------------------------------------------------------------


def test_a_clos_fabric_has_its_cables_and_the_crossbar_of_its_servers(tmp_path):
    """Eight NICs to each leaf, and a cable to each spine, at the rates of their links."""
    record, cluster = used(tmp_path, "infragraph-clos.yaml", 4)
    cables = record.fabric.links

    assert record.node.accelerator.name == "h100-sxm"
    assert record.node.interconnect.bandwidth == pytest.approx(450e9)
    assert len(cables) == 4 * 8 + 4 * 4
    assert ["leaf-2", "spine-3", 100e9] in [list(cable) for cable in cables]
    assert record.nic.bandwidth == 50e9
    assert record.fabric.latency == pytest.approx(900e-9)
    assert cluster.node.nic_of == tuple(range(8))


def test_a_nic_inside_a_device_is_followed_to_its_slot(tmp_path):
    """An adapter with a processor of its own is no host bridge; one switch needs no cables."""
    record, cluster = used(tmp_path, "infragraph-one-tier.json", 4)
    pcie = record.node.interconnect.kinds["pcie"].between

    assert record.node.accelerator.name == "mi300x"
    assert Counter(counts(record, "xgmi").values()) == {1: 28}
    assert {end for pair in pcie for end in pair[:2] if str(end).startswith("cpu")} == {
        "cpu0",
        "cpu1",
    }
    assert cluster.node.nic_of == tuple(range(8))
    assert record.fabric.type == "switch"


def test_one_server_without_cables_is_a_node():
    """A file of a server alone, or with one instance of it, describes no cluster."""
    clos = parse_yaml(text_of("infragraph-clos.yaml"), "clos").data
    alone = made_of(json.dumps(clos["devices"][0])).draft
    below = {"infrastructure": {"devices": clos["devices"], "instances": clos["instances"][:1]}}

    assert (alone.kind, alone.data["devices"]["value"]) == ("node", 8)
    assert alone.data["nics"]["devices"]["note"].startswith("nic.0, nic.1")
    assert made_of(json.dumps(below)).draft.data == alone.data


def test_a_management_nic_does_not_become_one_of_the_network():
    """The NIC on a host bridge is further from every device than those on PCIe switches."""
    text = text_of("infragraph-clos.yaml")
    cable = text[text.index('  - {ep1: {instance: "host[0]"') :].partition("\n")[0]
    extra = cable.replace("component: nic}", "component: mgmt}").replace("port[0:8]", "port[15]")
    hosts = [
        extra.replace("host[0]", f"host[{i}]").replace("leaf[0]", f"leaf[{i}]") for i in "0123"
    ]
    draft = made_of(text + "\n".join(hosts) + "\n").draft

    assert len(draft.data["fabric"]["links"]["value"]) == 4 * 8 + 4 * 4


def test_links_without_a_rate_are_assumed_and_listed():
    """A name alone makes a cable, whose rate is that of the nearest cluster."""
    text = text_of("infragraph-clos.yaml")
    for rate in ("gigabits_per_second: 400", "gigabits_per_second: 800"):
        text = text.replace(rate, "note: none")
    draft = made_of(text).draft

    assert "assumed" in draft.data["fabric"]["links"]
    assert any(line.startswith("fabric.links") for line in draft.assumed)
    assert "assumed" in draft.data["nic"]["bandwidth"]


def test_a_ring_joins_neighbours_and_its_ends():
    """Four accelerators in a ring have four links, two only one."""
    device = {
        "name": "box",
        "components": [{"name": "xpu", "count": 4, "choice": "xpu", "description": "H100"}],
        "links": [{"name": "nvlink", "physical": {"bandwidth": {"gigabytes_per_second": 25}}}],
        "edges": [
            {
                "ep1": {"component": "xpu"},
                "ep2": {"component": "xpu"},
                "scheme": "ring",
                "link": "nvlink",
            }
        ],
    }
    data = made_of(json.dumps(device)).draft.data["interconnect"]["kinds"]["nvlink"]

    assert data["between"]["value"] == [[0, 1], [0, 3], [1, 2], [2, 3]]
    assert data["bandwidth"]["value"] == "25 GB/s"


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(GOOD)), st.floats(0, 1))
def test_no_truncation_makes_it_crash(name, share):
    """A file that ends anywhere is read or rejected with a message of ours."""
    content = (FILES / name).read_bytes()

    reads_or_complains(content[: int(share * len(content))])


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(GOOD)), st.data())
def test_no_spoilt_byte_makes_it_crash(name, data):
    """Bytes replaced, removed or repeated anywhere are read or rejected with a message of ours."""
    content = (FILES / name).read_bytes()
    at = data.draw(st.integers(0, len(content)))
    until = data.draw(st.integers(at, min(at + 40, len(content))))
    put = data.draw(
        st.one_of(st.binary(max_size=8), st.sampled_from([b'"', b"-1", b"99999999999"]))
    )

    reads_or_complains(content[:at] + put + content[until:])


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([None, *FORMATS]))
def test_no_bytes_make_it_crash(content, format):
    """Whatever the bytes and the format, only our own complaint stops it."""
    reads_or_complains(content, format)


# --- the command ----------------------------------------------------------------------------------


def importing(capsys, *arguments):
    """Return exit code, standard output and standard error of an import."""
    return ending(capsys, "import", *arguments)


def test_without_a_place_the_file_is_printed_and_the_summary_beside_it(capsys):
    """Standard output is the YAML alone; what is assumed goes to standard error."""
    code, out, err = importing(capsys, FILES / "nccl-h100.xml")

    assert code == 0
    assert parse_yaml(out, "out").data["name"] == "nccl-h100"
    assert "assumed   interconnect.bandwidth 450 GB/s" in err


def test_a_place_is_not_overwritten_unless_forced(capsys, tmp_path):
    """What is there stays as it was, and no half-written file is next to it."""
    place = tmp_path / "my-node.yaml"
    place.write_text("mine\n", encoding="utf-8")

    refused = importing(capsys, FILES / "nccl-h100.xml", "-o", place)
    kept = place.read_text(encoding="utf-8")
    forced = importing(capsys, FILES / "nccl-h100.xml", "-o", place, "--force")

    assert refused[0] == 2
    assert refused[2].endswith("already exists (use --force to replace it)\n")
    assert kept == "mine\n"
    assert forced[0] == 0
    assert parse_yaml(place.read_text(encoding="utf-8"), "out").data["name"] == "my-node"
    assert list(tmp_path.iterdir()) == [place]


def test_json_names_the_file_and_what_is_assumed(capsys, tmp_path):
    """One object: file, kind, name and every value that the imported file does not state."""
    place = tmp_path / "fabric.yaml"
    _, out, _ = importing(capsys, FILES / "ibnetdiscover-rails.txt", "-o", place, "--json")
    answer = json.loads(out)

    assert (answer["file"], answer["kind"], answer["name"]) == (str(place), "cluster", "fabric")
    assert answer["format"] == "ibnetdiscover"
    assert "nic.latency 1.1 us: not in the file; as in selene" in answer["assumed"]


def test_options_win_over_what_is_nearest(capsys):
    """Name, chip and library of the user stand in the file, and are not called assumed."""
    options = ("--name", "ours", "--accelerator", "h200-sxm", "--library", "nccl-hopper", "--json")
    _, out, _ = importing(capsys, FILES / "nccl-h100.xml", *options)
    answer = json.loads(out)

    assert answer["name"] == answer["record"]["name"] == "ours"
    assert answer["record"]["accelerator"] == "h200-sxm"
    assert not [line for line in answer["assumed"] if line.startswith(("accelerator", "library"))]


@pytest.mark.parametrize(
    "options", [("--accelerator", "h100-sxn"), ("--library", "nccl-hoper"), ("--accelerator", "/x")]
)
def test_a_name_in_no_catalogue_is_told_with_the_nearest(capsys, options):
    """A typing error costs one look."""
    assert options[0] in rejected(capsys, "import", FILES / "nccl-h100.xml", *options)


def test_a_chip_of_the_user_s_own_is_taken_from_beside_the_file(capsys, tmp_path):
    """An accelerator file next to the output is used like a shipped one."""
    chip = (finding.shipped("accelerator") / "h100-sxm.yaml").read_text(encoding="utf-8")
    (tmp_path / "my-chip.yaml").write_text(chip.replace("h100-sxm", "my-chip"), encoding="utf-8")
    place = tmp_path / "my-node.yaml"

    code, out, err = importing(
        capsys, FILES / "nccl-h100.xml", "-o", place, "--accelerator", "my-chip"
    )

    assert (code, err) == (0, "")
    assert "8 x my-chip" in out


# --- models ---------------------------------------------------------------------------------------


def test_a_configuration_of_a_model_is_told_by_its_content(capsys, tmp_path):
    """A JSON object is a model; its file is written whole, and has the name of the file."""
    place = tmp_path / "my-llama.yaml"
    code, out, err = importing(capsys, FILES / "llama3-8b.json", "-o", place)
    written = parse_yaml(place.read_text(encoding="utf-8"), "out").data

    assert (code, err) == (0, "")
    assert out.splitlines()[:2] == [
        "model     my-llama: my-llama, imported",
        "read      llama3-8b.json as hugging-face",
    ]
    assert (written["kind"], written["name"], written["kv_heads"]) == ("model", "my-llama", 8)
    assert list(tmp_path.iterdir()) == [place]


def test_json_tells_of_a_model_as_of_a_machine(capsys):
    """The keys of the answer are the same."""
    _, machine, _ = importing(capsys, FILES / "nccl-h100.xml", "--json")
    _, model, _ = importing(capsys, FILES / "gpt3-125m.json", "--json")
    answer = json.loads(model)

    assert answer.keys() == json.loads(machine).keys()
    assert (answer["kind"], answer["format"]) == ("model", "hugging-face")
    assert answer["record"]["parameters"]["value"] == 125_226_240


def test_a_file_called_config_is_named_after_its_architecture(capsys, tmp_path):
    """Every model on Hugging Face has a file of that name."""
    place = tmp_path / "config.json"
    place.write_text(text_of("gpt3-125m.json"), encoding="utf-8")

    assert "\nname: gpt2\n" in importing(capsys, place)[1]


@pytest.mark.parametrize(
    ("content", "options", "complaint"), wrong_values("files that are nothing to import")
)
def test_what_cannot_be_read_is_one_line_and_leaves_nothing_behind(
    capsys, here, content, options, complaint
):
    """No traceback: where, what, what now.  No file is made, not even half of one."""
    Path("f").write_bytes(content.encode().decode("unicode_escape").encode("latin-1"))
    error = rejected(capsys, "import", "f", "-o", "mine.yaml", *options.split())

    assert error.startswith(complaint)
    assert [path.name for path in here.iterdir()] == ["f"]


@pytest.mark.parametrize("name", ["infragraph-clos.yaml", "infragraph-one-tier.json"])
def test_an_imported_cluster_is_shown_and_times_collectives(capsys, here, name):
    """The file is one of the catalogue for every verb."""
    importing(capsys, FILES / name, "-o", "mine.yaml")
    options = ("--cluster", "mine", "--op", "all-reduce", "--devices", 32, "--bytes", "64MiB")

    assert ending(capsys, "show", "mine.yaml")[0] == 0
    assert "32 x " in ending(capsys, "collective", *options)[1]
