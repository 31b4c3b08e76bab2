"""A dragonfly: groups of switches, all-to-all inside, with a few cables between each two groups.

    group 0: s0 - s1 - s2 - s3 (all-to-all)  ==pair_links==  group 1: s0 - s1 - s2 - s3

A minimal route is at most local, global, local.  Adaptive routing (Slingshot) spreads traffic over
all cables of a switch, and of a group, by their load: the limits are then the summed bandwidth from
a switch into its group and the summed bandwidth out of a group, each modelled as one link.  This is
perfect load balancing, the best case; minimal routing, cable by cable, is the worst case.  Hashed
routing puts each flow, or each of its queue pairs, on one of the cables between its two groups;
sprayed packets take all of these cables in turn.

A detour (Valiant) passes a third group and crosses two global cables instead of one.  If a share f
of the traffic does so, under uniform traffic every group carries f of the others' traffic in
transit, and its cables serve 1 / (1 + f) of their bandwidth: a half if all traffic detours, as in
Kim et al., where Valiant routing doubles the load on the global cables.

Kim et al. 2008, doi:10.1109/ISCA.2008.19; De Sensi et al. 2020, arXiv:2008.08886.
"""

import re
from collections.abc import Iterator, Mapping

import numpy as np

from clustersim.arrays import Integers
from clustersim.records import dataclass
from clustersim.topology.fabrics.fabric import Fabric
from clustersim.topology.links import Hop, Port, Switch


@dataclass(frozen=True)
class DragonflyFabric(Fabric):
    """`nic` and `cable` carry payload bandwidth and latency; `routing` as in the cluster file.

    NIC k of a node is attached to switch k of its chassis: `nodes_per_switch` nodes share a set of
    switches, as many as a node has NICs.
    """

    nic: Hop
    cable: Hop
    nics: int
    groups: int
    switches: int
    nodes_per_switch: int
    pair_links: int
    routing: str
    detour: float = 0.0
    seed: int = 0
    queue_pairs: int = 1

    @property
    def nodes_per_group(self) -> int:
        """Nodes of one group."""
        return self.switches // self.nics * self.nodes_per_switch

    @property
    def units(self) -> Mapping[str, int]:
        """Nodes of a set of switches, and of a group."""
        return {"leaves": self.nodes_per_switch, "groups": self.nodes_per_group}

    def switch(self, node: int, nic: int) -> tuple[int, int]:
        """Return the group of a NIC, and its switch in the group."""
        group, local = divmod(node, self.nodes_per_group)
        return group, local // self.nodes_per_switch * self.nics + nic

    def gateways(self, group: int, other: int) -> list[int]:
        """Return the switches of `group` with cables to `other`, one for each cable."""
        port = (other if other < group else other - 1) * self.pair_links
        return [(port + cable) % self.switches for cable in range(self.pair_links)]

    def port(self, node: int, nic: int) -> Port:
        """Return the port of a NIC on its switch."""
        switch = self.switch(node, nic)
        return Port(_name(switch), f"n{node}.nic{nic}", self.nic, switch)

    def switch_numbers(self, nodes: Integers, nics: Integers) -> Integers:
        """Return a number for the switch of each NIC."""
        groups, local = np.divmod(nodes, self.nodes_per_group)
        numbers: Integers = (
            groups * self.switches + local // self.nodes_per_switch * self.nics + nics
        )
        return numbers

    def switch_of(self, number: int) -> Switch:
        """Return the switch of a number."""
        return divmod(number, self.switches)

    @property
    def several_paths(self) -> bool:
        """Whether there are several equal paths between any two switches."""
        return self.routing in ("hashed", "sprayed")

    @property
    def most_paths(self) -> int:
        """The cables between two groups, where flows choose among them."""
        return self.pair_links if self.several_paths else 1

    def path_count(self, a: Switch, b: Switch) -> int:
        """Return the number of cables that a flow between two switches can use."""
        assert isinstance(a, tuple)
        assert isinstance(b, tuple)
        return self.most_paths if a[0] != b[0] else 1

    def between(self, a: Switch, b: Switch, path_number: int = 0) -> list[Hop]:
        """Return the route between two switches, by cables or by adaptive bundles."""
        assert isinstance(a, tuple)
        assert isinstance(b, tuple)
        if a == b:
            return []
        if self.routing == "adaptive":
            return self._by_bundles(a, b)
        if a[0] == b[0]:
            return [self._cable(a, b)]
        return self._by_cable(a, b, path_number if self.several_paths else self._nearest(a, b))

    def _nearest(self, up: tuple[int, int], down: tuple[int, int]) -> int:
        """Return the cable between two groups with fewest hops; equal ones are used in turn."""
        out, home = self.gateways(up[0], down[0]), self.gateways(down[0], up[0])
        turn = (up[1] + down[1]) % self.pair_links
        return min(
            range(self.pair_links),
            key=lambda j: (
                (out[j] != up[1]) + (home[j] != down[1]),
                (j - turn) % self.pair_links,
            ),
        )

    def _by_cable(self, up: tuple[int, int], down: tuple[int, int], cable: int) -> list[Hop]:
        """Local, global, local; a switch with the global cable needs no local one."""
        leave = up[0], self.gateways(up[0], down[0])[cable]
        enter = down[0], self.gateways(down[0], up[0])[cable]
        ends = [(up, leave), (leave, enter), (enter, down)]
        return [self._cable(x, y, cable) for x, y in ends if x != y]

    def _by_bundles(self, up: tuple[int, int], down: tuple[int, int]) -> list[Hop]:
        local, wait = self.cable.bandwidth * max(self.switches - 1, 1), self.cable.latency
        hops = [Hop(f"{_name(up)}>group{up[0]}", local, wait, "local")]
        if up[0] != down[0]:
            reach = self.cable.bandwidth * (self.groups - 1) * self.pair_links / self._crossings
            hops.append(Hop(f"group{up[0]}>world", reach, wait, "global"))
            hops.append(Hop(f"world>group{down[0]}", reach, 0.0, "global"))
        latency = 0.0 if up[0] == down[0] else wait
        hops.append(Hop(f"group{down[0]}>{_name(down)}", local, latency, "local"))
        return hops

    @property
    def _crossings(self) -> float:
        """Global cables that a message between groups crosses, on average."""
        return 1.0 + (self.detour if self.groups > 2 else 0.0)  # two groups have no third

    def _cable(self, a: tuple[int, int], b: tuple[int, int], number: int = 0) -> Hop:
        if a[0] == b[0]:
            return self.cable._replace(name=f"{_name(a)}>{_name(b)}", kind="local")
        return self.cable._replace(name=f"{_name(a)}>{_name(b)}#{number}", kind="global")

    def edges(self, nodes: int) -> Iterator[tuple[str, str, Hop]]:
        """Yield all cables inside and between the groups of `nodes` nodes."""
        used = self._used(nodes)
        for group in range(used):
            for a in range(self.switches):
                for b in range(self.switches):
                    if a != b:
                        hop = self._cable((group, a), (group, b))
                        yield _name((group, a)), _name((group, b)), hop
            for other in range(used):
                if other != group:
                    for number, (leave, enter) in enumerate(self._pairs(group, other)):
                        ends = (group, leave), (other, enter)
                        yield _name(ends[0]), _name(ends[1]), self._cable(*ends, number)

    def links_of(self, a: str, b: str, cable: Hop) -> list[Hop]:
        """Return the cable itself, or the bundles at both of its ends."""
        if self.routing != "adaptive":
            return [cable]
        up, down = ((int(group), int(switch)) for group, switch in map(_SWITCH.findall, (a, b)))
        bundles = self._by_bundles(up, down)
        return [bundle for bundle in bundles if bundle.kind == cable.kind]

    def _used(self, nodes: int) -> int:
        return (nodes - 1) // self.nodes_per_group + 1

    def _pairs(self, group: int, other: int) -> Iterator[tuple[int, int]]:
        """Yield the switches at both ends of every cable between two groups."""
        yield from zip(self.gateways(group, other), self.gateways(other, group), strict=True)

    def bisection(self, nodes: int) -> float:
        """Return the narrowest cut between the first half of the nodes and the others [B/s].

        Only the groups of these nodes count. Whole groups go to one side; one group may be split
        between its switches, or at its NICs. Cutting every group in the middle, which could be
        narrower if groups have few switches and many cables, is not tried.
        """
        halves = (nodes // 2, nodes - nodes // 2)
        return min(
            self._cut(nodes, first, group, switches)
            for first in halves
            for group, switches in self._splits(first)
        )

    def _splits(self, first: int) -> Iterator[tuple[int, int]]:
        """Yield the group that is cut, and the number of its switches on the first side."""
        group, left = divmod(first, self.nodes_per_group)
        chassis = left // self.nodes_per_switch * self.nics
        yield 0, 0
        for switches in (0, chassis, min(chassis + self.nics, self.switches), self.switches):
            yield group, switches

    def _cut(self, nodes: int, first: int, group: int, switches: int) -> float:
        """Return the bandwidth of the cables and NICs with ends on different sides [B/s].

        The first side has the first nodes, the switches of all groups before `group` and its first
        `switches`.
        """
        used, start = self._used(nodes), group * self.nodes_per_group
        inside = start + min(switches // self.nics * self.nodes_per_switch, nodes - start)
        after = max(used - group - 1, 0)
        cables = group * after * self.pair_links + switches * (self.switches - switches)
        for other in range(used):
            if other != group < used:
                for leave, _ in self._pairs(group, other):
                    cables += (leave < switches) != (other < group)
        return abs(first - inside) * self.nics * self.nic.bandwidth + cables * self.cable.bandwidth

    def diameter(self, nodes: int) -> int:
        """Return the most links between NICs of two nodes on a minimal route.

        Adaptive routes of detoured messages are longer by a local and a global cable or two.
        """
        if nodes == 1:
            return 0
        homes = [self._homes(group, nodes) for group in range(self._used(nodes))]
        longest = 0 if self.nics == 1 and nodes <= self.nodes_per_switch else 1
        for group, here in enumerate(homes):
            for other in range(group):
                longest = max(longest, self._farthest(group, here, other, homes[other]))
        return 2 + longest

    def oversubscription(self, nodes: int) -> dict[str, float]:
        """Return injection over global bandwidth of a group [unitless]."""
        if nodes <= self.nodes_per_group:
            return {}
        cables = (self.groups - 1) * self.pair_links * self.cable.bandwidth
        return {"group": self.nodes_per_group * self.nics * self.nic.bandwidth / cables}

    def _homes(self, group: int, nodes: int) -> range:
        """Return the switches of a group with NICs of the first `nodes` nodes."""
        held = min(nodes - group * self.nodes_per_group, self.nodes_per_group)
        return range(-(-held // self.nodes_per_switch) * self.nics)

    def _farthest(self, group: int, first: range, other: int, second: range) -> int:
        """Return the cables between the two most distant switches of two groups."""
        joined = set(self._pairs(group, other))
        outs, enters = {leave for leave, _ in joined}, {enter for _, enter in joined}
        indirect = any(a not in outs for a in first), any(b not in enters for b in second)
        if all(indirect):
            return 3
        direct = all((a, b) in joined for a in first for b in second)
        return 1 if direct else 2


_SWITCH = re.compile(r"\d+")


def _name(switch: tuple[int, int]) -> str:
    return f"g{switch[0]}s{switch[1]}"
