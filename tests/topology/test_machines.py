"""Shipped machines: what their sources state as totals follows from the parts in the files."""

import math
from collections import Counter
from functools import cache, partial
from itertools import pairwise

import pytest

from clustersim.catalog import finding
from clustersim.catalog.fabrics import Dragonfly, Torus
from clustersim.catalog.facts import facts
from clustersim.catalog.records.machines import DeviceLinks, DeviceSwitch
from clustersim.program.collectives.communicator import Communicator
from clustersim.scenario.entries import entry
from clustersim.topology.cluster import build_cluster
from clustersim.topology.node import build_node

CLUSTERS = finding.entry_names("cluster")
NODES = finding.entry_names("node")
ACCELERATORS = finding.entry_names("accelerator")
WIDTHS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4")
"""Precisions from the widest numbers to the narrowest; TF32 has 19 bits."""


@cache
def record(kind, name):
    """Return a shipped entry as it was read."""
    return entry(kind, name).record


cluster, node, accelerator = (partial(record, kind) for kind in ("cluster", "node", "accelerator"))


def of_shape(shape):
    """Return the names of the clusters that have a fabric of that shape."""
    return [name for name in CLUSTERS if isinstance(cluster(name).fabric, shape)]


def group_nodes(record):
    """Return how many nodes a group of a dragonfly has room for."""
    nics, fabric = len(record.node.nics.devices), record.fabric
    return fabric.switches_per_group // nics * fabric.nodes_per_switch


def inside_bandwidth(record, device, kind):
    """Return the raw bandwidth of all links of a kind that end at a device [B/s]."""
    links = record.interconnect.kinds[kind]
    ends = [row for row in links.between if device in row[:2]]
    return links.bandwidth * sum(row[2] if len(row) == 3 else 1 for row in ends)


# --- every file -----------------------------------------------------------------------------------


def test_every_node_and_accelerator_has_a_cluster():
    """Each node has a cluster, and each accelerator is in one, a lone card or fitted."""
    used = {cluster(name).node.name for name in CLUSTERS}
    cards = {node(name).accelerator.name for name in NODES}
    cards_without_a_box = {"h100-pcie", "h200-nvl", "mi250-gcd", "rtx-5090"}
    measured = set(finding.entry_names("kernels"))

    assert set(NODES) == used
    assert set(ACCELERATORS) - cards - measured == cards_without_a_box


@pytest.mark.parametrize(
    ("read", "name"),
    [(cluster, n) for n in CLUSTERS] + [(node, n) for n in NODES]
    + [(accelerator, n) for n in ACCELERATORS]
)  # fmt: skip
def test_what_nobody_read_is_never_of_high_confidence(read, name):
    """An assumed value has medium or low confidence, or with none."""
    assumed = [
        where for where, fact in facts(read(name)) if fact.assumed and fact.confidence == "high"
    ]

    assert assumed == []


@pytest.mark.parametrize("name", ACCELERATORS)
def test_no_device_is_slower_with_narrower_numbers(name):
    """Peaks rise from fp64 to fp4; both kinds of 16 bits are equal, and 8 bits twice as fast."""
    peak = accelerator(name).peak
    rates = [peak[precision] for precision in WIDTHS if precision in peak]
    halves = {peak[precision] for precision in ("fp16", "bf16") if precision in peak}

    assert rates == sorted(rates)
    assert len(halves) == 1
    assert peak.get("fp8", 2 * max(halves)) == pytest.approx(2 * max(halves), rel=0.02)


@pytest.mark.parametrize("name", NODES)
def test_devices_share_the_nics_evenly(name):
    """No NIC of a node serves two devices more than another on the same end, and none is idle."""
    shape = build_node(node(name))
    served = Counter(shape.nic_of)
    loads = [served[nic] for nic in range(len(shape.nic_ends))]

    assert min(loads) >= 1
    assert max(loads) - min(loads) <= 1


# --- routes ---------------------------------------------------------------------------------------


def is_a_way(hops, a, b):
    """Return whether links lead from one end to another, each beginning where the last ended."""
    ends = [hop.name.partition("#")[0].split(">") for hop in hops]
    joined = all(before[1] == after[0] for before, after in pairwise(ends))
    return joined and (ends[0][0], ends[-1][1]) == (a, b)


@pytest.mark.parametrize("name", CLUSTERS)
def test_all_devices_of_a_node_reach_each_other(name):
    """Between every two devices of a node there is a way of links that have a bandwidth."""
    machine = build_cluster(cluster(name), 1)
    devices = range(machine.devices)
    ways = {(a, b): machine.hops(a, b) for a in devices for b in devices if a != b}

    for (a, b), hops in ways.items():
        assert is_a_way(hops, f"n0.dev{a}", f"n0.dev{b}")
        assert min(hop.bandwidth for hop in hops) > 0


@pytest.mark.parametrize("name", CLUSTERS)
def test_the_first_and_the_last_node_reach_each_other(name):
    """Every device of the first node has a way to its fellow in the last one, and back."""
    record = cluster(name)
    machine = build_cluster(record, record.size)
    last, devices = record.size - 1, record.node.devices

    for a in range(devices):
        b = last * devices + devices - 1 - a
        far, back = machine.route(a, b), machine.route(b, a)
        assert far.network
        assert len(far.links) == len(back.links)
        assert far.latency == pytest.approx(back.latency)
        assert min(machine.links.capacities[link] for link in far.links) > 0


# --- totals that sources state --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "devices"),
    [
        ("frontier", 2 * 37_632),  # two dies in each of four packages a node
        ("lumi-g", 2 * 11_912),
        ("el-capitan", 44_544),
        ("aurora", 2 * 63_744),  # two tiles in each of six cards a node
        ("perlmutter", 7_168),
        ("polaris", 2_240),
        ("fugaku", 158_976),
        ("meta-24k", 24_576),
        ("eos", 4_608),
        ("superpod-a100", 1_120),
        ("superpod-b200", 16_384),
        ("tpu-v4-pod", 4_096),
        ("tpu-v5e-pod", 256),
        ("tpu-v5p-pod", 8_960),
    ],
)
def test_nodes_times_devices_is_the_machine(name, devices):
    """The published count of devices is the number of nodes times the devices of one."""
    record = cluster(name)

    assert record.size * record.node.devices == devices


@pytest.mark.parametrize("name", of_shape(Torus))
def test_the_axes_of_a_torus_hold_the_machine(name):
    """The product of the lengths is the number of nodes: 24 x 23 x 24 x 2 x 3 x 2 is 158,976."""
    record = cluster(name)

    assert math.prod(record.fabric.shape) == record.size


@pytest.mark.parametrize(
    ("name", "kind", "total"),
    [
        ("dgx-1v", "nvlink", 6 * 25e9),
        ("perlmutter-gpu", "nvlink", 12 * 25e9),
        ("polaris", "nvlink", 12 * 25e9),
        ("mi300x-oam8", "xgmi", 7 * 64e9),
        ("el-capitan", "xgmi", 3 * 128e9),
        ("desktop-2x3090", "nvlink", 56.25e9),
        ("workstation-2xa6000", "nvlink", 56.25e9),
    ],
)
def test_the_links_of_each_device_add_up(name, kind, total):
    """Every device of the node has the vendor's total of links to the others."""
    record = node(name)
    sums = [inside_bandwidth(record, device, kind) for device in range(record.devices)]

    assert sums == pytest.approx([total] * len(sums), rel=1e-3)


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("dgx-2", 6 * 25e9),
        ("dgx-a100", 12 * 25e9),
        ("dgx-h100", 18 * 25e9),
        ("dgx-h200", 18 * 25e9),
        ("dgx-b200", 18 * 50e9),
        ("dgx-b300", 18 * 50e9),
        ("gb300-nvl72", 130e12 / 2 / 72),
        ("gb200-nvl72", 130e12 / 2 / 72),  # 130 TB/s of the rack counts both directions
    ],
)
def test_the_crossbar_takes_all_links_of_a_device(name, total):
    """A device's port on its NVSwitch is as wide as all its NVLinks together."""
    inside = node(name).interconnect

    assert isinstance(inside, DeviceSwitch)
    assert inside.bandwidth == pytest.approx(total, rel=5e-3)


def test_hopper_and_blackwell_switches_add_up_and_older_ones_do_not():
    """NVLink SHARP came with the third NVSwitch."""
    adds = {name for name in NODES if build_node(node(name)).reduces}

    hopper = {"dgx-h100", "dgx-h200", "hgx-h100-roce", "hgx-h800", "hgx-h20", "aws-p5"}
    assert adds == hopper | {"dgx-b200", "dgx-b300", "gb200-nvl72", "gb300-nvl72"}


def test_lumi_is_wired_as_frontier():
    """One library table serves both nodes, so their links between dies are the same."""
    lumi, frontier = (node(name).interconnect for name in ("lumi-g", "frontier-ex235a"))

    assert lumi.pairs() == frontier.pairs()
    assert lumi.kinds["xgmi"].between == frontier.kinds["xgmi"].between


# --- fabrics --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", of_shape(Dragonfly))
def test_the_groups_of_a_dragonfly_hold_the_machine(name):
    """There is a port for every NIC, and no switch has more than the 64 of a Rosetta."""
    record = cluster(name)
    fabric = record.fabric
    switches = fabric.switches_per_group
    outside = (fabric.groups - 1) * fabric.links_per_group_pair / switches

    assert record.size <= fabric.groups * group_nodes(record)
    assert fabric.nodes_per_switch + switches - 1 + math.ceil(outside) <= 64


def test_frontier_tapers_to_0_57():
    """A group of Frontier sends 73 x 4 x 25 GB/s to the others, of 128 x 4 x 25 injected."""
    record = cluster("frontier")
    fabric = record.fabric
    out = (fabric.groups - 1) * fabric.links_per_group_pair * 25e9
    injected = group_nodes(record) * len(record.node.nics.devices) * 25e9

    assert fabric.link.bandwidth == record.nic.bandwidth == 25e9
    assert out / injected == pytest.approx(0.57, abs=0.005)


@pytest.mark.parametrize(("name", "total"), [("lumi-g", 276e12), ("aurora", 1.38e15)])
def test_the_links_between_groups_add_up(name, total):
    """All pairs of groups, both directions counted, make the total that is published."""
    fabric = cluster(name).fabric
    groups = math.comb(fabric.groups, 2)
    pair = 2 * fabric.links_per_group_pair * fabric.link.bandwidth

    assert groups * pair == pytest.approx(total, rel=0.01)


def below_and_above(record):
    """Return what enters a leaf and a pod from below and leaves it above, [B/s] each."""
    nics, fabric, cable = len(record.node.nics.devices), record.fabric, record.fabric.link
    rails = 1 if fabric.rail_optimised else nics
    leaf = fabric.nodes_per_leaf * rails * record.nic.bandwidth
    pod = leaf * fabric.leaves_per_pod
    above = (fabric.leaf_uplinks, fabric.pod_uplinks)
    return (leaf, above[0] * cable.bandwidth), (pod, above[1] * cable.bandwidth)


@pytest.mark.parametrize(
    "name", ["selene", "eos", "superpod-a100", "superpod-h100", "superpod-b200"]
)
def test_a_superpod_is_not_oversubscribed(name):
    """As much leads up from a leaf and from a pod as comes in from below."""
    for below, above in below_and_above(cluster(name)):
        assert below == above


def test_meta_oversubscribes_only_between_pods():
    """A rack is non-blocking, and the pods are joined by a seventh of what enters them."""
    leaf, pod = below_and_above(cluster("meta-24k"))

    assert leaf[0] == leaf[1]
    assert pod[0] / pod[1] == pytest.approx(7, rel=5e-3)


def test_the_largest_superpod_has_the_cables_of_its_table():
    """64 units of B200: 512 leaves, and 16,384 cables on each of the three levels."""
    record = cluster("superpod-b200")
    fabric = record.fabric
    leaves = 8 * record.size // fabric.nodes_per_leaf
    pods = leaves // fabric.leaves_per_pod

    assert leaves == 512
    assert 8 * record.size == 16_384
    assert leaves * fabric.leaf_uplinks == pods * fabric.pod_uplinks == 16_384


def test_a_put_to_the_next_node_of_fugaku_takes_as_long_as_measured():
    """0.49 us one way between neighbours, and 38.1 GB/s into six links of 6.35."""
    record = cluster("fugaku")
    share = record.nic.efficiency
    near = build_cluster(record, record.size).route(0, 1)

    assert near.latency == pytest.approx(0.49e-6)
    assert record.nic.bandwidth * share == pytest.approx(38.1e9, rel=1e-3)
    assert record.fabric.link.bandwidth * share == pytest.approx(6.35e9, rel=1e-3)


# --- boxes on PCIe --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kinds", "least", "most"),
    [
        ("desktop-2x3090", ["nvlink"], 40e9, 45e9),
        ("desktop-2x3090-pcie", ["pcie", "pcie"], 5e9, 10e9),
        ("desktop-2x4090", ["pcie", "pcie"], 5e9, 12e9),
        ("workstation-2xa5000", ["pcie", "pcie"], 23e9, 25e9),
        ("workstation-2xa6000", ["nvlink"], 40e9, 45e9),
    ],
)
def test_two_cards_meet_over_what_is_between_them(name, kinds, least, most):
    """Over a bridge, or by the host where there is none, large buffers at the rate seen there."""
    machine = build_cluster(cluster(name), 1)
    cost = Communicator(machine, [range(2)]).cost("all-reduce", 2**34)

    assert [hop.kind for hop in machine.hops(0, 1)] == kinds
    assert least <= 2**34 / cost.seconds <= most


@pytest.mark.parametrize("name", ["dgx-1v", "server-8xl40s"])
def test_the_far_socket_is_reached_over_one_link(name):
    """From host bridge to host bridge there is one link between sockets, the narrowest of all."""
    record = node(name)
    shape = build_node(record)
    (across,) = shape.hops("n0", "cpu0", "cpu1")

    assert isinstance(record.interconnect, DeviceLinks)
    assert across.bandwidth == min(shape.widths.values())


def test_a_server_of_l40s_crosses_sockets_only_between_its_halves():
    """Cards behind one switch stay behind it; a card of the other half is five links away."""
    shape = build_node(node("server-8xl40s"))
    ways = {
        (a, b): [hop.kind for hop in shape.hops("n0", a, b)] for a in range(8) for b in range(8)
    }

    for (a, b), kinds in ways.items():
        if a != b:
            near = a // 4 == b // 4
            assert kinds == (["pcie"] * 2 if near else ["pcie", "pcie", "upi", "pcie", "pcie"])
