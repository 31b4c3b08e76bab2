"""Leaves, spines and cores: a Clos network, rail-optimised when each NIC has its own leaves.

    core          (pod_uplinks of them, one link to each pod)
     |  pod_uplinks
    spine         (leaf_uplinks of them in a pod, one link to each leaf of the pod)
     |  leaf_uplinks
    leaf          su 0 rail 0, su 0 rail 1, ...      NIC i of nodes_per_leaf nodes
     |
    n0.nic0

Adaptive routing spreads flows evenly over equal cables, so what can fill up is a leaf's uplinks
together, and a pod's.  Each such bundle is one link of the summed bandwidth.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from clustersim.topology.fabrics.port import Port, Switch
from clustersim.topology.links import Hop


@dataclass(frozen=True)
class FatTreeFabric:
    """A two- or three-level tree; `nic` and `cable` carry payload bandwidth and latency."""

    nic: Hop
    cable: Hop
    nics: int
    rail_optimised: bool
    nodes_per_leaf: int
    leaf_uplinks: int
    leaves_per_pod: int
    pod_uplinks: int

    def leaf(self, node: int, nic: int) -> int:
        """Return the leaf that a NIC hangs on."""
        block = node // self.nodes_per_leaf
        return block * self.nics + nic if self.rail_optimised else block

    def port(self, node: int, nic: int) -> Port:
        """Return the place of a NIC on its leaf."""
        leaf = self.leaf(node, nic)
        return Port(f"leaf{leaf}", f"n{node}.nic{nic}", self.nic, leaf)

    def between(self, up: Switch, down: Switch) -> list[Hop]:
        """Return up from a leaf to the lowest common level and down again."""
        assert isinstance(up, int)
        assert isinstance(down, int)
        if up == down:
            return []
        pod_up, pod_down = up // self.leaves_per_pod, down // self.leaves_per_pod
        middle = [] if pod_up == pod_down else self._over_the_core(pod_up, pod_down)
        return [
            self._bundle(f"leaf{up}>spines{pod_up}", self.leaf_uplinks),
            *middle,
            self._bundle(f"spines{pod_down}>leaf{down}", self.leaf_uplinks),
        ]

    def _over_the_core(self, pod_up: int, pod_down: int) -> list[Hop]:
        return [
            self._bundle(f"spines{pod_up}>cores", self.pod_uplinks),
            self._bundle(f"cores>spines{pod_down}", self.pod_uplinks),
        ]

    def _bundle(self, name: str, cables: int) -> Hop:
        return Hop(name, self.cable.bandwidth * cables, self.cable.latency)

    def edges(self, nodes: int) -> Iterator[tuple[str, str, Hop]]:
        """Yield leaf-spine and spine-core cables, both ways."""
        leaves = self.leaf(nodes - 1, self.nics - 1) + 1
        pods = (leaves - 1) // self.leaves_per_pod + 1
        cables = [
            (f"leaf{leaf}", f"spine{leaf // self.leaves_per_pod}.{spine}")
            for leaf in range(leaves)
            for spine in range(self.leaf_uplinks)
        ]
        if pods > 1:
            cables += [
                (f"spine{pod}.{i % self.leaf_uplinks}", f"core{i}")
                for pod in range(pods)
                for i in range(self.pod_uplinks)
            ]
        for a, b in cables:
            yield a, b, self.cable._replace(name=f"{a}>{b}")
            yield b, a, self.cable._replace(name=f"{b}>{a}")
