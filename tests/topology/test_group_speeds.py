"""Well-known properties of these machines, as signs: which group is slower, and by which link."""

import pytest

from clustersim.program.collectives.communicator import Communicator
from clustersim.scenario.machine import load_cluster
from clustersim.topology.cluster import build_cluster

MiB = 2**20


def communicator(name, groups, settings=()):
    """Return the communicator of groups of devices of a shipped cluster."""
    record = load_cluster(name, None, settings)
    last = max(device for group in groups for device in group)
    return Communicator(build_cluster(record, last // record.node.devices + 1), groups)


def seconds(name, groups, nbytes, operation="all-reduce"):
    return communicator(name, groups).cost(operation, nbytes).seconds


@pytest.mark.parametrize("nbytes", [8 * MiB, 64 * MiB, 1024 * MiB])
def test_a_tensor_group_of_frontier_is_slower_the_farther_it_reaches(nbytes):
    """Per byte: 2 GCDs of a package, then 8 of a node, then 16 and 32 over nodes.

    The bus bandwidth is 86 GB/s in a node and 88 over nodes, as measured, so that little more than
    the number of ranks tells large reductions apart.
    """
    times = [seconds("frontier", [range(size)], nbytes) for size in (2, 8, 16, 32)]

    assert times == sorted(times)
    assert times[1] > 1.7 * times[0]
    assert times[3] > 1.1 * times[1]


def test_reductions_across_pods_of_meta_are_limited_by_the_links_between_pods():
    """Groups with a member in every pod share 439 uplinks among 3,072 NICs: 7 times slower.

    Each device reduces with its peers: 8 in its own pod, or one in each of the 8 pods.
    """
    within = communicator("meta-24k", [range(first, 3072, 384) for first in range(384)])
    across = communicator("meta-24k", [range(first, 24576, 3072) for first in range(3072)])
    slowdown = (
        across.cost("all-reduce", 1024 * MiB).seconds
        / within.cost("all-reduce", 1024 * MiB).seconds
    )
    load = across.load(across.cost("all-reduce", 1024 * MiB).algorithm, "all-reduce")
    links = across.cluster.links
    bottleneck = load.bottleneck(links.capacities)

    assert slowdown == pytest.approx(7, rel=0.05)
    assert links.kinds[bottleneck] == "spine-core"


@pytest.mark.parametrize("operation", ["all-reduce", "all-gather"])
def test_groups_of_fugaku_are_faster_as_boxes_than_as_lines(operation):
    """48 nodes: a box of 4 x 2 x 3 x 2 uses four axes at once, a line of 24 and its turn two."""
    job = "cluster.fabric.job=[24, 2, 24, 2, 3, 2]"
    cluster = build_cluster(load_cluster("fugaku", 13824, [job]), 13824)
    place = cluster.fabric.node
    box = [
        place((0, 0, z, a, b, c))
        for z in range(4)
        for a in range(2)
        for b in range(3)
        for c in range(2)
    ]
    line = [place((x, y, 0, 0, 0, 0)) for y in range(2) for x in range(24)]
    times = [
        Communicator(cluster, [group]).cost(operation, 64 * MiB).seconds for group in (box, line)
    ]

    assert times[1] > 1.3 * times[0]


def test_a_tpu_slice_is_faster_than_its_parts_are_long():
    """A cube of 4 x 4 x 4 with all its rings closed beats 64 chips in a line of 4 x 16."""
    cube = communicator("tpu-v5p-pod", [range(64)], ["cluster.fabric.job=[4, 4, 4]"])
    flat = communicator("tpu-v5p-pod", [range(64)], ["cluster.fabric.job=[4, 16, 1]"])
    times = [each.cost("all-reduce", 1024 * MiB).seconds for each in (cube, flat)]

    assert times[0] < times[1]


def test_two_gaming_cards_without_a_bridge_wait_for_their_host():
    """Two RTX 3090 reduce several times faster over the NVLink bridge than by way of the host."""
    bridge = seconds("desktop-2x3090", [range(2)], 64 * MiB)
    staged = seconds("desktop-2x3090-pcie", [range(2)], 64 * MiB)

    assert staged > 3 * bridge
