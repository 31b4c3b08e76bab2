"""A cluster file from the network between nodes that another file states."""

from typing import Any, Final

from clustersim.catalog.reading import MOST_VALUES
from clustersim.errors import CatalogError
from clustersim.importers import draft
from clustersim.importers.draft import Choices, Draft, as_in, assumed, stated
from clustersim.importers.machines.nearest import (
    ClusterEntry,
    NodeEntry,
    nearest_infiniband,
    nearest_tree,
    node_named,
)
from clustersim.importers.machines.sketch import End
from clustersim.records import dataclass
from clustersim.units import counted

MOST_CABLES: Final = MOST_VALUES // 5
"""A cable is a list of three values; with more of them the file could not be read back."""


@dataclass(frozen=True)
class Network:
    """The network that a file states, without assumptions.

    Attributes
    ----------
    origin : the format, as named in the table of sources
    nodes : number of nodes
    nics : NICs per node, None if the file does not state it
    rate : raw bandwidth of a NIC [B/s], None if the file does not state it
    cables : (end, end, bandwidth [B/s]) of a fabric that is a list of links; ends are switches and
        NICs ``n0.nic0``
    fabric : the plain values of a regular fabric, or None
    rates_assumed : why bandwidths of the cables are not from the file, empty if they are
    latency : latency of a link [s], None if the file does not state it
    """

    origin: str
    nodes: int
    nics: int | None
    rate: float | None
    cables: tuple[tuple[str, str, float], ...] = ()
    fabric: dict[str, Any] | None = None
    rates_assumed: str = ""
    latency: float | None = None
    remarks: tuple[str, ...] = ()


def template(
    nics: int | None, rate: float | None, choices: Choices
) -> tuple[NodeEntry, ClusterEntry]:
    """Return the node of the cluster, and the fat tree that supplies NIC values.

    The node is the chosen one, or one with similar NICs: such a file does not describe nodes.
    """
    tree = nearest_tree(rate or 25e9)
    if choices.node:
        return node_named(choices.node, choices.folder), tree
    if nics is None:
        return tree.node, tree
    return nearest_infiniband(nics, rate or tree.nic_rate) or tree.node, tree


def cluster_draft(
    network: Network, file: str, choices: Choices, inside: Draft | None = None
) -> Draft:
    """Return the cluster file of a network, every value with its source or reason.

    Parameters
    ----------
    inside : the node, None if the file does not describe it
    """
    if len(network.cables) > MOST_CABLES:
        raise CatalogError(
            f"{file}: {len(network.cables):,} cables exceed the limit of {MOST_CABLES:,} of a"
            " cluster file (describe the fabric by its shape instead)"
        )
    node, like = template(network.nics, network.rate, choices)
    data: dict[str, Any] = {
        "kind": "cluster",
        "name": choices.name,
        "title": f"{counted(network.nodes, 'node')}, imported",
        "node": inside.data if inside else node_part(node, network.nics, choices),
        "size": stated(network.nodes),
        "nic": nic_part(network.rate, like),
        "fabric": network.fabric or _links(network, like),
        "sources": draft.source_table(network.origin, file),
    }
    if inside:
        return Draft(data, inside.taken, (*inside.notes, *network.remarks))
    reason = "not in the file, which describes no nodes; choose yours with --node"
    taken = f"node {node.name}, with {node.accelerator}: {reason}"
    return Draft(data, () if choices.node else (taken,), network.remarks)


def node_part(node: NodeEntry, nics: int | None, choices: Choices) -> str | dict[str, Any]:
    """Return the node by name, with the values that differ from its file."""
    over: dict[str, Any] = {}
    if nics is not None and nics != len(node.nics):
        ends: list[End] = [i * node.devices // nics % node.devices for i in range(nics)]
        reason = f"{nics} NICs in the file; distributed over the devices of {node.name}"
        over["nics"] = {"devices": assumed(ends, reason)}
    if choices.accelerator:
        over["accelerator"] = choices.accelerator
    if choices.library:
        over["library"] = choices.library
    return {"name": node.name, **over} if over else node.name


def nic_part(rate: float | None, like: ClusterEntry) -> dict[str, Any]:
    """Return the NIC: the rate of the file if stated, other values of the nearest cluster."""
    facts = {key: as_in(like.data["nic"][key], like.name) for key in _NIC}
    return facts if rate is None else {**facts, "bandwidth": stated(draft.bandwidth(rate))}


_NIC: Final = ("bandwidth", "latency", "efficiency")


def _links(network: Network, like: ClusterEntry) -> dict[str, Any]:
    cables = [[a, b, draft.bandwidth(rate)] for a, b, rate in network.cables]
    usual = as_in(like.data["fabric"]["link"]["latency"], like.name)
    return {
        "type": "links",
        "links": assumed(cables, network.rates_assumed)
        if network.rates_assumed
        else stated(cables),
        "latency": usual if network.latency is None else stated(draft.seconds(network.latency)),
    }
