"""Host memory: the rate of copies to and from it, and the time of an optimiser on the host.

dev0 --pcie--> cpu0 --host--> memory      all devices of a node copy at once, so that they
dev1 --pcie--> cpu0 --host--> memory      share the links that they have in common
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from clustersim.errors import CatalogError
from clustersim.topology.cluster import Cluster
from clustersim.topology.links import Route


class HostRate(NamedTuple):
    """Bandwidth between a device and host memory when all devices of its node copy [B/s].

    Attributes
    ----------
    latency : of the longest route to host memory [s]
    """

    to_host: float
    from_host: float
    latency: float


def host_rate(cluster: Cluster) -> HostRate:
    """Return the rate of the slowest device of a node, all of them copying one way at once [B/s].

    Raises
    ------
    CatalogError
        when the node's file gives no links between devices and host memory.
    """
    devices = range(cluster.node.devices)
    up = [cluster.to_host(device) for device in devices]
    down = [cluster.from_host(device) for device in devices]
    latency = max(route.latency for route in up)
    return HostRate(_slowest(cluster, up), _slowest(cluster, down), latency)


def _slowest(cluster: Cluster, routes: Iterable[Route]) -> float:
    r"""Return the smallest rate of max-min fairness, that of the tightest link.

    .. math:: \min_l c_l / n_l

    with c the capacity of link l and n the flows that cross it.
    """
    crossed = Counter(link for route in routes for link in route.links)
    capacities = cluster.links.capacities
    return min(float(capacities[link]) / flows for link, flows in crossed.items())


def host_optimiser_seconds(cluster: Cluster, nbytes: float) -> float:
    """Return the time of optimisers on the host, limited by its memory [s].

    Every device's process runs one at the same time, so that they share the bandwidth.  Vectorised
    optimisers are limited by memory: Ren et al. 2021, ZeRO-Offload, arXiv:2101.06840, section 5.

    Parameters
    ----------
    nbytes : read and written by the optimiser of one device [B]

    Raises
    ------
    CatalogError
        when the node's file gives no bandwidth of host memory.
    """
    node = cluster.node
    if node.host_bandwidth is None:
        raise CatalogError(
            f"{node.name}: node.host.bandwidth: missing, but the optimiser runs on the host"
            " (give the bandwidth of the node's memory, read and written together)"
        )
    return nbytes * node.devices / node.host_bandwidth
