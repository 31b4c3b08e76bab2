"""A dragonfly: groups of switches, all to all inside, every pair of groups joined by a few cables.

    group 0: s0 - s1 - s2 - s3 (each with each)  ==pair_links==  group 1: s0 - s1 - s2 - s3

A minimal route is at most local, global, local.  Adaptive routing (Slingshot) spreads traffic over
all cables of a switch, and of a group, as they fill: what limits then is the sum out of a switch
into its group and the sum out of a group, each one link of the summed bandwidth.  That is the best
a perfect balancer could do; minimal routing, cable by cable, is the worst.  Hashed routing puts
each flow on one of the cables between its two groups.

A detour (Valiant) goes by a third group and crosses two global cables instead of one.  Where a
share f of the traffic does so, under uniform traffic every group carries f of the others' in
transit, and its cables serve 1 / (1 + f) of their bandwidth: a half when all traffic detours, as in
Kim et al., where Valiant's routing doubles the load on the global cables.

Kim et al. 2008, doi:10.1109/ISCA.2008.19; De Sensi et al. 2020, arXiv:2008.08886.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from clustersim.topology.links import Hop, Port, Switch


@dataclass(frozen=True)
class DragonflyFabric:
    """`nic` and `cable` carry payload bandwidth and latency; `routing` as in the cluster file.

    NIC k of a node hangs on switch k of its chassis: `nodes_per_switch` nodes share one set of as
    many switches as a node has NICs.
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
    reduces: bool = False

    @property
    def nodes_per_group(self) -> int:
        """Nodes of one group."""
        return self.switches // self.nics * self.nodes_per_switch

    def switch(self, node: int, nic: int) -> tuple[int, int]:
        """Return the group and the switch in it that a NIC hangs on."""
        group, local = divmod(node, self.nodes_per_group)
        return group, local // self.nodes_per_switch * self.nics + nic

    def gateways(self, group: int, other: int) -> list[int]:
        """Return the switches of `group` that hold its cables to `other`, one for each cable."""
        port = (other if other < group else other - 1) * self.pair_links
        return [(port + cable) % self.switches for cable in range(self.pair_links)]

    def port(self, node: int, nic: int) -> Port:
        """Return the place of a NIC on its switch."""
        switch = self.switch(node, nic)
        return Port(_name(switch), f"n{node}.nic{nic}", self.nic, switch)

    def ways(self, a: Switch, b: Switch) -> int:
        """Return how many cables a flow between two switches chooses from."""
        assert isinstance(a, tuple)
        assert isinstance(b, tuple)
        return self.pair_links if self.routing == "hashed" and a[0] != b[0] else 1

    def between(self, a: Switch, b: Switch, way: int = 0) -> list[Hop]:
        """Return the route between two switches, by cables or over bundles of adaptive ones."""
        assert isinstance(a, tuple)
        assert isinstance(b, tuple)
        if a == b:
            return []
        if self.routing == "adaptive":
            return self._by_bundles(a, b)
        if a[0] == b[0]:
            return [self._cable(a, b)]
        return self._by_cable(a, b, way if self.routing == "hashed" else self._nearest(a, b))

    def _nearest(self, up: tuple[int, int], down: tuple[int, int]) -> int:
        """Return the cable between two groups with fewest hops; of equal ones they take turns."""
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
        """Local, global, local; a switch that holds the cable needs no local one."""
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
        """Yield all cables inside and between the groups that hold `nodes` nodes."""
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

    def _used(self, nodes: int) -> int:
        return (nodes - 1) // self.nodes_per_group + 1

    def _pairs(self, group: int, other: int) -> Iterator[tuple[int, int]]:
        """Yield the switches at both ends of every cable between two groups."""
        yield from zip(self.gateways(group, other), self.gateways(other, group), strict=True)

    def bisection(self, nodes: int) -> float:
        """Return the narrowest cut between the first half of the nodes and the others [B/s].

        Only the groups that hold the nodes count. Whole groups go to one side; one group may be
        split between its switches, or at its NICs. Cutting every group through its middle, which
        could be narrower where groups have few switches and many cables, is not tried.
        """
        halves = (nodes // 2, nodes - nodes // 2)
        return min(
            self._cut(nodes, first, group, switches)
            for first in halves
            for group, switches in self._splits(first)
        )

    def _splits(self, first: int) -> Iterator[tuple[int, int]]:
        """Yield the group where a cut runs, and how many of its switches are on the first side."""
        group, left = divmod(first, self.nodes_per_group)
        chassis = left // self.nodes_per_switch * self.nics
        yield 0, 0
        for switches in (0, chassis, min(chassis + self.nics, self.switches), self.switches):
            yield group, switches

    def _cut(self, nodes: int, first: int, group: int, switches: int) -> float:
        """Return the bandwidth of the cables and NICs with their ends on different sides [B/s].

        The first nodes are ours, and so are the switches of all groups before `group` and its
        first `switches`.
        """
        used, start = self._used(nodes), group * self.nodes_per_group
        ours = start + min(switches // self.nics * self.nodes_per_switch, nodes - start)
        after = max(used - group - 1, 0)
        cables = group * after * self.pair_links + switches * (self.switches - switches)
        for other in range(used):
            if other != group < used:
                for leave, _ in self._pairs(group, other):
                    cables += (leave < switches) != (other < group)
        return abs(first - ours) * self.nics * self.nic.bandwidth + cables * self.cable.bandwidth

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

    def _homes(self, group: int, nodes: int) -> range:
        """Return the switches of a group that the NICs of the first `nodes` nodes hang on."""
        held = min(nodes - group * self.nodes_per_group, self.nodes_per_group)
        return range(-(-held // self.nodes_per_switch) * self.nics)

    def _farthest(self, group: int, here: range, other: int, there: range) -> int:
        """Return the cables between the two switches of two groups that are farthest apart."""
        joined = set(self._pairs(group, other))
        outs, enters = {leave for leave, _ in joined}, {enter for _, enter in joined}
        behind = any(a not in outs for a in here), any(b not in enters for b in there)
        if all(behind):
            return 3
        direct = all((a, b) in joined for a in here for b in there)
        return 1 if direct else 2


def _name(switch: tuple[int, int]) -> str:
    return f"g{switch[0]}s{switch[1]}"
