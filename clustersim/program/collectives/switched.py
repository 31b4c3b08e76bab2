"""Reductions in switches: a switch sums what it receives and copies what it sends.

In a node (NVLS): each device owns a share.  It reads the share reduced, so that the switch reads it
from all devices, and writes the result, which the switch copies to all:

    up each link:     the whole buffer read by owners, and the own share written
    down each link:   the own share read reduced, and the whole buffer written by owners

Over nodes (NVLS tree): the same inside, and a double binary tree on every rail.  In the fabric
(SHARP): every NIC sends its share up once and receives the sum once.  Graham et al. 2016,
doi:10.1109/COMHPC.2016.006; NCCL 2.30, ``src/device/all_reduce.h``.
"""

from collections.abc import Sequence

from clustersim.program.collectives.double_tree import edges_between
from clustersim.program.collectives.link_load import Phase, by_node, phase_of
from clustersim.program.collectives.ring import ring_edges
from clustersim.topology.cluster import Cluster


def nvls(cluster: Cluster, group: Sequence[int], operation: str) -> Phase:
    """Return the load of a reduction in the node's crossbar on each link, for each byte.

    The rate that is lost in the crossbar counts as additional bytes.
    """
    if len(group) < 2:
        return {}
    own = 1 / len(group)
    up = {"all-reduce": 1 + own, "reduce-scatter": 1.0, "all-gather": own}[operation]
    down = {"all-reduce": 1 + own, "reduce-scatter": own, "all-gather": 1.0}[operation]
    phase: Phase = {}
    for device in group:
        node, local = divmod(device, cluster.node.devices)
        links, shape = cluster.links, cluster.node
        phase[links.number(shape.to_crossbar(f"n{node}", local))] = up / shape.reduces
        phase[links.number(shape.from_crossbar(f"n{node}", local))] = down / shape.reduces
    return phase


def nvls_tree(cluster: Cluster, group: Sequence[int], operation: str) -> Phase:
    """Return the load of reductions in all nodes, and of the trees between them, on each link."""
    nodes = list(by_node(cluster, group).values())
    phase: Phase = {}
    for members in nodes:
        _add(phase, nvls(cluster, members, operation))
    local = len(nodes[0])
    for index in range(local):
        gateways = [members[index] for members in nodes]
        _add(phase, phase_of(cluster, edges_between(gateways, 1 / local)))
    return phase


def sharp(cluster: Cluster, group: Sequence[int], operation: str) -> Phase:
    """Return the load of a reduction in the fabric: up and down once, from every NIC.

    Inside the node the buffer is reduced and distributed by the crossbar, or else by a ring.
    """
    nodes = list(by_node(cluster, group).values())
    phase: Phase = {}
    for members in nodes:
        if cluster.node.reduces:
            _add(phase, nvls(cluster, members, operation))
        else:
            _add(phase, phase_of(cluster, ring_edges(cluster, members, operation)))
    local = len(nodes[0])
    for index in range(local):
        _add(phase, _reduced_in_fabric(cluster, [members[index] for members in nodes], 1 / local))
    return phase


def _reduced_in_fabric(cluster: Cluster, gateways: Sequence[int], share: float) -> Phase:
    """Return the load from one NIC of each node to the root of a tree of switches, and back."""
    fabric = cluster.fabric
    hops, switches = [], []
    for device in gateways:
        node, local = divmod(device, cluster.node.devices)
        shape = cluster.node_at(node)
        port = fabric.port(node, shape.nic_of[local])
        hops += [*shape.to_nic(f"n{node}", local), port.up]
        hops += [port.down, *shape.from_nic(f"n{node}", local)]
        switches.append(port.switch)
    root = switches[0]
    for switch in dict.fromkeys(switches):
        hops += [*fabric.between(switch, root), *fabric.between(root, switch)]
    phase: Phase = {}
    for hop in hops:  # set, not added: where routes of several switches join, one sum continues
        phase[cluster.links.number(hop)] = share
    return phase


def _add(phase: Phase, more: Phase) -> None:
    for link, share in more.items():
        phase[link] = phase.get(link, 0.0) + share
