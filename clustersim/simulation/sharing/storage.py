"""The storage of a shared machine: its servers as one link, which all saves and loads cross.

    node --NICs, where the storage is on the fabric--> servers

A save is a flow of each node, no faster than a client of the storage.  The fabric between NICs and
servers is taken as wide enough, as in `simulation.training_run.checkpoint_flows`.
"""

from collections.abc import Sequence
from math import inf

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.scenario.schema import ClusterUse
from clustersim.simulation.training_run.checkpoint_flows import storage_of
from clustersim.topology.cluster import Cluster
from clustersim.topology.links import Hop
from clustersim.traffic import TrafficRows, link_rows


class SharedStorage:
    """The storage of a machine.

    Parameters
    ----------
    use : the cluster of the scenario

    Attributes
    ----------
    facts : rates of the storage
    assumed : keys of the cluster that are assumed for it, with the reason
    used : whether any traffic crosses it
    """

    def __init__(self, cluster: Cluster, use: ClusterUse) -> None:
        self._cluster = cluster
        self.facts, self.assumed = storage_of(use)
        self.used = False

    def moved(
        self, name: str, nodes: Sequence[int], nbytes: float, *, reads: bool = False
    ) -> TrafficRows:
        """Return the traffic of bytes that nodes write or read, each its part of them.

        Parameters
        ----------
        nbytes : of all nodes together [B]
        """
        self.used = True
        links, weights = self._nics(nodes, reads=reads)
        links = np.append(links, self._servers(reads=reads))
        weights = np.append(weights, float(len(nodes)))
        crossings = link_rows(np.zeros(len(links), dtype=np.int64), links, weights, 1)
        each = np.array([nbytes / len(nodes)])
        return TrafficRows(
            name, crossings, each, np.zeros(1), np.array([self._client(reads=reads)])
        )

    def _servers(self, *, reads: bool) -> int:
        """Return the number of the link to or from the servers."""
        rate = self.facts.read if reads else self.facts.write
        assert rate is not None, "a storage that is assumed or stated has both"
        name = "storage>fabric" if reads else "fabric>storage"
        return self._cluster.links.number(Hop(name, rate.achieved, 0.0, "storage"))

    def _client(self, *, reads: bool) -> float:
        client = self.facts.client
        return inf if client is None else client.read if reads else client.write

    def _nics(self, nodes: Sequence[int], *, reads: bool) -> tuple[Integers, Floats]:
        """Return the links of NICs that a flow of each node divides itself among."""
        count = len(self._cluster.node.nic_ends) if self.facts.network == "fabric" else 0
        table = self._cluster.links
        ports = [(table.down if reads else table.up)(nic) for nic in range(count)]
        links = np.array(nodes)[:, None] * table.of_node + np.array(ports, dtype=np.int64)
        return links.ravel(), np.full(links.size, 1 / max(count, 1))
