"""A dragonfly: groups of switches, all to all inside, every pair of groups joined by a few cables.

    group 0: s0 - s1 - s2 - s3 (each with each)  ==pair_links==  group 1: s0 - s1 - s2 - s3

A minimal route is at most local, global, local.  Adaptive routing (Slingshot) spreads traffic over
all cables of a switch, and of a group, as they fill: what limits then is the sum out of a switch
into its group and the sum out of a group, each one link of the summed bandwidth.  That is the best
a perfect balancer could do; minimal routing, cable by cable, is the worst.

Kim et al. 2008, doi:10.1109/ISCA.2008.19; De Sensi et al. 2020, arXiv:2008.08886.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from clustersim.topology.fabrics.port import Port, Switch
from clustersim.topology.links import Hop


@dataclass(frozen=True)
class DragonflyFabric:
    """`nic` and `cable` carry payload bandwidth and latency.

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
    adaptive: bool

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

    def between(self, up: Switch, down: Switch) -> list[Hop]:
        """Return the route between two switches, minimal or over bundles of adaptive cables."""
        assert isinstance(up, tuple)
        assert isinstance(down, tuple)
        return self._adaptive(up, down) if self.adaptive else self._minimal(up, down)

    def _minimal(self, up: tuple[int, int], down: tuple[int, int]) -> list[Hop]:
        """Local, global, local; of the cables between two groups the one with fewest hops."""
        if up == down:
            return []
        if up[0] == down[0]:
            return [self._cable(up, down)]
        out, home = self.gateways(up[0], down[0]), self.gateways(down[0], up[0])
        turn = (up[1] + down[1]) % self.pair_links
        cable = min(
            range(self.pair_links),
            key=lambda j: (
                (out[j] != up[1]) + (home[j] != down[1]),
                (j - turn) % self.pair_links,
            ),
        )
        leave, enter = (up[0], out[cable]), (down[0], home[cable])
        ends = [(up, leave), (leave, enter), (enter, down)]
        return [self._cable(x, y, cable) for x, y in ends if x != y]

    def _adaptive(self, up: tuple[int, int], down: tuple[int, int]) -> list[Hop]:
        if up == down:
            return []
        local = self.switches - 1
        hops = [self._bundle(f"{_name(up)}>group{up[0]}", local)]
        if up[0] != down[0]:
            reach = (self.groups - 1) * self.pair_links
            hops.append(self._bundle(f"group{up[0]}>world", reach))
            hops.append(self._bundle(f"world>group{down[0]}", reach, latency=0.0))
        latency = 0.0 if up[0] == down[0] else self.cable.latency
        hops.append(self._bundle(f"group{down[0]}>{_name(down)}", local, latency))
        return hops

    def _cable(self, a: tuple[int, int], b: tuple[int, int], number: int = 0) -> Hop:
        suffix = f"#{number}" if a[0] != b[0] else ""
        return self.cable._replace(name=f"{_name(a)}>{_name(b)}{suffix}")

    def _bundle(self, name: str, cables: int, latency: float | None = None) -> Hop:
        wait = self.cable.latency if latency is None else latency
        return Hop(name, self.cable.bandwidth * max(cables, 1), wait)

    def edges(self, nodes: int) -> Iterator[tuple[str, str, Hop]]:
        """Yield all cables inside and between the groups that hold `nodes` nodes."""
        used = (nodes - 1) // self.nodes_per_group + 1
        for group in range(used):
            for a in range(self.switches):
                for b in range(self.switches):
                    if a != b:
                        hop = self._cable((group, a), (group, b))
                        yield _name((group, a)), _name((group, b)), hop
            for other in range(used):
                if other != group:
                    pairs = zip(
                        self.gateways(group, other), self.gateways(other, group), strict=True
                    )
                    for number, (leave, enter) in enumerate(pairs):
                        ends = (group, leave), (other, enter)
                        yield _name(ends[0]), _name(ends[1]), self._cable(*ends, number)


def _name(switch: tuple[int, int]) -> str:
    return f"g{switch[0]}s{switch[1]}"
