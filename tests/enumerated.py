"""Communication one replica and one message at a time: what the arrays of a program stand for."""

import numpy as np

from clustersim.program.collectives.axes import Communicators
from clustersim.program.movement.transfers import joint_collectives
from clustersim.traffic import TrafficRows, link_rows


def joint_traffic(job):
    """Return the collectives of all replicas of a job, by name."""
    found = joint_collectives(job, Communicators(job, {}))
    return {name: rows.of_row(0) for name, rows in found.items()}


def traffic_rows(traffic):
    """Return the traffic of one name of several replicas as rows."""
    row = np.repeat(np.arange(len(traffic)), [len(moved.links) for moved in traffic])
    links = np.array([link for moved in traffic for link in moved.links], dtype=np.int64)
    weights = np.array([weight for moved in traffic for weight in moved.weights], dtype=float)
    amounts = np.array([(moved.nbytes, moved.latency, moved.cap) for moved in traffic]).T
    return TrafficRows(traffic[0].name, link_rows(row, links, weights, len(traffic)), *amounts)


def loads_of_edges(cluster, edges):
    """Return the load of edges on links, edge by edge and link by link."""
    loads = {}
    for a, b, share in edges:
        for link in cluster.route(a, b).links:
            loads[link] = loads.get(link, 0.0) + share
    return loads
