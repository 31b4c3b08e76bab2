"""Leaves, spines and cores: a Clos network, rail-optimised when each NIC has its own leaves.

    core          (pod_uplinks of them, one link to each pod; core i meets spine i mod leaf_uplinks)
     |  pod_uplinks
    spine         (leaf_uplinks of them in a pod, one link to each leaf of the pod)
     |  leaf_uplinks
    leaf          su 0 rail 0, su 0 rail 1, ...      NIC i of nodes_per_leaf nodes
     |
    n0.nic0

Adaptive routing spreads flows evenly over equal cables, so what can saturate is the sum of a leaf's
uplinks, and of a pod's.  Each such bundle is one link of the summed bandwidth.  Other routing goes
cable by cable: a path is by a spine inside a pod, by a core and its spines between pods.

The bisection is a minimum cut where the sides of the NICs are given: a cable is cut where its ends
are on different sides.  All cores that meet the same spines go to one side, so that the pods can be
minimised one by one; spines see only how many leaves are on the first side, and the leaves with
most NICs of the first side go there first.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise, product
from typing import NamedTuple

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.records import dataclass
from clustersim.topology.fabrics.fabric import Fabric, NumberedLinks
from clustersim.topology.links import Hop, Port, Switch
from clustersim.topology.routes import Walks

Leaf = tuple[int, int]
"""NICs of a leaf on the first side, and on the second."""


class Plane(NamedTuple):
    """Spines of every pod with the same number of cores."""

    spines: int
    cores: int


@dataclass(frozen=True)
class FatTreeFabric(Fabric):
    """A two- or three-level tree; `nic` and `cable` carry payload bandwidth and latency."""

    nic: Hop
    cable: Hop
    nics: int
    rail_optimised: bool
    nodes_per_leaf: int
    leaf_uplinks: int
    leaves_per_pod: int
    pod_uplinks: int
    routing: str = "adaptive"
    seed: int = 0
    queue_pairs: int = 1
    reduces: bool = False

    def leaf(self, node: int, nic: int) -> int:
        """Return the leaf of a NIC."""
        block = node // self.nodes_per_leaf
        return block * self.nics + nic if self.rail_optimised else block

    def port(self, node: int, nic: int) -> Port:
        """Return the port of a NIC on its leaf."""
        leaf = self.leaf(node, nic)
        return Port(f"leaf{leaf}", f"n{node}.nic{nic}", self.nic, leaf)

    @property
    def units(self) -> Mapping[str, int]:
        """Nodes below a leaf, or all leaves of a rail, and of a pod."""
        return {
            "leaves": self.nodes_per_leaf,
            "pods": max(1, self.leaves_per_pod // self._rails) * self.nodes_per_leaf,
        }

    @property
    def alike(self) -> bool:
        """Whether flows use all paths at once, and no node has leaves in two pods."""
        return not self.several_paths and self.leaves_per_pod % self._rails == 0

    @property
    def _rails(self) -> int:
        """Leaves that each node is connected to."""
        return self.nics if self.rail_optimised else 1

    def switch_numbers(self, nodes: Integers, nics: Integers) -> Integers:
        """Return a number for the switch of each NIC."""
        blocks = nodes // self.nodes_per_leaf
        return blocks * self.nics + nics if self.rail_optimised else blocks

    def numbered_links(self, nodes: int) -> NumberedLinks:
        """Return the bundles of cables; no links where routes go by single cables."""
        return NumberedLinks() if self.several_paths else Bundles(self, self._leaves(nodes))

    def walks(self, a: Integers, b: Integers) -> Walks | None:
        """Return the bundles between leaves; None where routes go by single cables."""
        if self.several_paths:
            return None
        pod_up, pod_down = a // self.leaves_per_pod, b // self.leaves_per_pod
        bundles = np.stack([4 * a, 4 * pod_up + 2, 4 * pod_down + 3, 4 * b + 1], axis=1)
        climbs, crosses = a != b, pod_up != pod_down
        taken = np.stack([climbs, crosses, crosses, climbs], axis=1)
        counts = np.count_nonzero(taken, axis=1)
        waits = np.array([0.0, *accumulate([self.cable.latency] * 4)])
        return counts, bundles[taken], waits[counts]

    @property
    def several_paths(self) -> bool:
        """Whether there are several equal paths between any two switches."""
        return self.routing != "adaptive"

    @property
    def most_paths(self) -> int:
        """The most equal paths between two leaves."""
        return max(self.leaf_uplinks, self.pod_uplinks) if self.several_paths else 1

    def places(self, nodes: Integers, nics: Integers) -> Integers:
        """Return the number of each of several NICs, one after another below each leaf."""
        return nodes if self.rail_optimised else nodes * self.nics + nics

    def path_count(self, a: Switch, b: Switch) -> int:
        """Return the number of spines, or cores, that a flow between two leaves can use."""
        assert isinstance(a, int)
        assert isinstance(b, int)
        if not self.several_paths or a == b:
            return 1
        same_pod = a // self.leaves_per_pod == b // self.leaves_per_pod
        return self.leaf_uplinks if same_pod else self.pod_uplinks

    def between(self, a: Switch, b: Switch, path_number: int = 0) -> list[Hop]:
        """Return the links from a leaf up to the lowest common level and down."""
        assert isinstance(a, int)
        assert isinstance(b, int)
        if a == b:
            return []
        return self._by_cable(a, b, path_number) if self.several_paths else self._by_bundles(a, b)

    def _by_cable(self, up: int, down: int, path_number: int) -> list[Hop]:
        pod_up, pod_down = up // self.leaves_per_pod, down // self.leaves_per_pod
        spine = path_number % self.leaf_uplinks
        middle = [f"spine{pod_up}.{spine}"]
        if pod_up != pod_down:
            middle += [f"core{path_number}", f"spine{pod_down}.{spine}"]
        path = [f"leaf{up}", *middle, f"leaf{down}"]
        return [self._cable(x, y) for x, y in pairwise(path)]

    def _by_bundles(self, up: int, down: int) -> list[Hop]:
        pod_up, pod_down = up // self.leaves_per_pod, down // self.leaves_per_pod
        middle = [] if pod_up == pod_down else self._over_the_core(pod_up, pod_down)
        return [
            self.bundle(f"leaf{up}>spines{pod_up}"),
            *middle,
            self.bundle(f"spines{pod_down}>leaf{down}"),
        ]

    def _over_the_core(self, pod_up: int, pod_down: int) -> list[Hop]:
        return [
            self.bundle(f"spines{pod_up}>cores"),
            self.bundle(f"cores>spines{pod_down}"),
        ]

    def bundle(self, name: str) -> Hop:
        """Return all cables between a leaf and its spines, or a pod and the cores, as one link."""
        of_leaf = "leaf" in name
        cables, kind = (
            (self.leaf_uplinks, "leaf-spine") if of_leaf else (self.pod_uplinks, "spine-core")
        )
        return Hop(name, self.cable.bandwidth * cables, self.cable.latency, kind)

    def _cable(self, a: str, b: str) -> Hop:
        to_core = a.startswith("core") or b.startswith("core")
        kind = "spine-core" if to_core else "leaf-spine"
        return Hop(f"{a}>{b}", self.cable.bandwidth, self.cable.latency, kind)

    def edges(self, nodes: int) -> Iterator[tuple[str, str, Hop]]:
        """Yield leaf-spine and spine-core cables in both directions."""
        leaves, pods = self._leaves(nodes), self._pods(nodes)
        cables = [
            (f"leaf{leaf}", f"spine{leaf // self.leaves_per_pod}.{spine}")
            for leaf in range(leaves)
            for spine in range(self.leaf_uplinks)
        ]
        if pods > 1:
            cables += [
                (f"spine{pod}.{core % self.leaf_uplinks}", f"core{core}")
                for pod in range(pods)
                for core in range(self.pod_uplinks)
            ]
        for a, b in cables:
            yield a, b, self._cable(a, b)
            yield b, a, self._cable(b, a)

    def links_of(self, a: str, b: str, cable: Hop) -> list[Hop]:
        """Return the cable itself, or the bundle that it is one of."""
        if self.several_paths:
            return [cable]
        bundled = (re.sub(r"^spine(\d+)\..*", r"spines\1", end) for end in (a, b))
        ends = (re.sub(r"^core\d+$", "cores", end) for end in bundled)
        return [self.bundle(">".join(ends))]

    def _leaves(self, nodes: int) -> int:
        return self.leaf(nodes - 1, self.nics - 1) + 1

    def _pods(self, nodes: int) -> int:
        return (self._leaves(nodes) - 1) // self.leaves_per_pod + 1

    def bisection(self, nodes: int) -> float:
        """Return the narrowest cut between the first half of the nodes and the others [B/s].

        Whole pods, then whole leaves, then the nodes of one leaf go to one side; spines, cores and
        leaves go to the side where they cut least.  If the nodes fill their leaves and pods evenly,
        no other halves have a narrower cut.
        """
        return min(self._cut(nodes, nodes // 2), self._cut(nodes, nodes - nodes // 2))

    def _cut(self, nodes: int, first: int) -> float:
        pods: list[list[tuple[int, int]]] = [[] for _ in range(self._pods(nodes))]
        for leaf in range(self._leaves(nodes)):
            block = leaf // self.nics if self.rail_optimised else leaf
            start = block * self.nodes_per_leaf
            end = min(start + self.nodes_per_leaf, nodes)
            ours = min(max(first - start, 0), end - start)
            ports = 1 if self.rail_optimised else self.nics
            pods[leaf // self.leaves_per_pod].append((ours * ports, (end - start - ours) * ports))
        return narrowest_cut(pods, self._planes(nodes), self.nic.bandwidth, self.cable.bandwidth)

    def _planes(self, nodes: int) -> list[Plane]:
        """Return the spines of a pod by their number of cores, which differs by one at most."""
        if self._pods(nodes) == 1:
            return [Plane(self.leaf_uplinks, 0)]
        cores, more = divmod(self.pod_uplinks, self.leaf_uplinks)
        return [Plane(more, cores + 1), Plane(self.leaf_uplinks - more, cores)]

    def diameter(self, nodes: int) -> int:
        """Return the most links between NICs: 2 by a leaf, 4 by a spine, 6 by a core."""
        if nodes == 1:
            return 0
        if self._leaves(nodes) == 1:
            return 2
        return 4 if self._pods(nodes) == 1 else 6

    def oversubscription(self, nodes: int) -> dict[str, float]:
        """Return injection over uplink bandwidth of a leaf, and of a pod [unitless]."""
        below = self.nodes_per_leaf * self.nics / self._rails * self.nic.bandwidth
        leaves = -(-nodes // self.nodes_per_leaf) * self._rails
        ratios = {}
        if leaves > 1:
            ratios["leaf"] = below / (self.leaf_uplinks * self.cable.bandwidth)
        if leaves > self.leaves_per_pod:
            below *= self.leaves_per_pod
            ratios["pod"] = below / (self.pod_uplinks * self.cable.bandwidth)
        return ratios


class Bundles(NumberedLinks):
    """The bundles over which adaptive routing spreads: four for each number of a leaf and a pod.

    leaf i to its spines, back, spines of pod i to the cores, back
    """

    def __init__(self, fabric: FatTreeFabric, leaves: int) -> None:
        self._fabric, self._leaves = fabric, leaves

    def __len__(self) -> int:
        return 4 * self._leaves

    def __getitem__(self, number: int, /) -> Hop:
        i, kind = divmod(number, 4)
        pod = i // self._fabric.leaves_per_pod
        below, above = (f"leaf{i}", f"spines{pod}") if kind < 2 else (f"spines{i}", "cores")
        return self._fabric.bundle(f"{above}>{below}" if kind % 2 else f"{below}>{above}")

    def bandwidths(self) -> Floats:
        """Return the payload bandwidth of each bundle [B/s]."""
        return np.tile([self[kind].bandwidth for kind in range(4)], self._leaves)

    def alike(self, numbers: Integers) -> Integers:
        """Return a number for each bundle, equal for the same level and direction."""
        return numbers % 4

    def number(self, name: str) -> int | None:
        """Return the number of a bundle by its name; None for another link."""
        for kind, pattern in enumerate(_BUNDLES):
            if match := pattern.fullmatch(name):
                return 4 * int(match[1]) + kind
        return None


_BUNDLES = [
    re.compile(pattern)
    for pattern in (
        r"leaf(\d+)>spines\d+", r"spines\d+>leaf(\d+)", r"spines(\d+)>cores", r"cores>spines(\d+)",
    )
]  # fmt: skip


def narrowest_cut(
    pods: Iterable[Sequence[Leaf]], planes: Sequence[Plane], nic: float, cable: float
) -> float:
    """Return the bandwidth from the NICs of the first side to those of the second [B/s].

    Parameters
    ----------
    pods : the leaves of each pod
    nic, cable : bandwidth of a NIC's cable and of one between switches [B/s]
    """
    kinds = Counter(tuple(sorted(leaves)) for leaves in pods)
    return min(
        sum(
            times * _pod_cut(leaves, planes, cores_ours, nic, cable)
            for leaves, times in kinds.items()
        )
        for cores_ours in product((False, True), repeat=len(planes))
    )


def _pod_cut(
    leaves: Sequence[Leaf],
    planes: Sequence[Plane],
    cores_ours: Sequence[bool],
    nic: float,
    cable: float,
) -> float:
    """Return the contribution of a pod when the side of the cores of each plane is given."""
    return min(
        nic * nics
        + cable
        * sum(
            plane.spines
            * min(
                len(leaves) - ours + (0 if core_ours else plane.cores),
                ours + (plane.cores if core_ours else 0),
            )
            for plane, core_ours in zip(planes, cores_ours, strict=True)
        )
        for ours, nics in _leaf_sides(leaves)
    )


def _leaf_sides(leaves: Sequence[Leaf]) -> Iterator[tuple[int, int]]:
    """Yield the number of leaves on the first side, and the number of NICs that this cuts.

    The leaves with the largest surplus of NICs of the first side go first.
    """
    cut = sum(ours for ours, _ in leaves)
    yield 0, cut
    for count, (ours, theirs) in enumerate(sorted(leaves, key=lambda leaf: leaf[1] - leaf[0]), 1):
        cut += theirs - ours
        yield count, cut
