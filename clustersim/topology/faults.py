"""Faults of the network: links, NICs and cables that carry less than the machine's files state.

slow link, slow NIC     a share of the bandwidth remains
failed NIC              the devices of its node use the other NICs
failed cable            of a bundle: the others remain; a single one: routes go around it
failed switch           all of its cables; the NICs on it fail

Routes between switches around links that carry nothing.

leaf0 --x-- spine0 --- leaf1        the same flow takes another equal path, chosen as before;
  +-------- spine1 -----+           without one, the shortest other path of single cables
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import pairwise, permutations, product
from typing import TYPE_CHECKING, Final

from clustersim.errors import PlanError
from clustersim.records import dataclass
from clustersim.suggestions import nearest
from clustersim.topology.fabrics.fabric import Fabric
from clustersim.topology.link_names import is_of_nic, links_like, node_of, reverse
from clustersim.topology.links import Hop, Port, Switch
from clustersim.topology.node import Node, end_name

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class SlowLink:
    """A link of which a `share` of the bandwidth remains; `where` begins messages about it."""

    link: str
    share: float
    where: str


@dataclass(frozen=True)
class FailedCable:
    """A cable that carries nothing in either direction, by the name of one of its links."""

    link: str
    where: str


@dataclass(frozen=True)
class FaultyNic:
    """A NIC of which a `share` of the bandwidth remains; 0 for a failed one.

    `key` is what messages name: the NIC, or the switch that it is on.
    """

    node: int
    nic: int
    share: float
    where: str
    key: str = "nic"


@dataclass(frozen=True)
class FailedSwitch:
    """A switch that carries nothing."""

    switch: str
    where: str


Fault = SlowLink | FailedCable | FailedSwitch | FaultyNic


@dataclass(frozen=True)
class Faults:
    """What the faults of a machine change.

    Attributes
    ----------
    shares : by link, the share of its bandwidth that remains
    failed : links that carry nothing, with the place of their fault
    nodes : nodes that differ from the others
    """

    shares: Mapping[str, float] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[int, Node] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.shares or self.failed or self.nodes)

    def blocked(self, hops: Iterable[Hop]) -> bool:
        """Return whether a path has a link that carries nothing."""
        return not self.failed.keys().isdisjoint(hop.name for hop in hops)


NO_FAULTS: Final = Faults()


def goodput(loss: float, window: int) -> float:
    r"""Return the share of a link's bandwidth that remains when it loses packets [unitless].

    .. math:: \frac{1 - p}{1 - p + p w}

    with p = `loss`, the share of packets that are lost, and w = `window`, the packets that are sent
    again for each of them: 1 with selective repeat, those in flight with go-back-N. Bertsekas and
    Gallager 1992, Data Networks, section 2.4.

    >>> goodput(0.5, 1)
    0.5
    """
    return (1 - loss) / (1 - loss + loss * window)


def find_faults(faults: Sequence[Fault], node: Node, fabric: Fabric, nodes: int) -> Faults:
    """Return what faults change on a machine of `nodes` equal nodes.

    Raises
    ------
    PlanError
        where the machine has no such link or NIC, or a node would be cut in two.
    """
    shares: dict[str, float] = {}
    failed: dict[str, str] = {}
    lost: dict[int, dict[int, str]] = {}
    for fault in _single_faults(faults, node, fabric, nodes):
        if isinstance(fault, FaultyNic):
            port = _port(fault, node, fabric, nodes)
            if not fault.share:
                lost.setdefault(fault.node, {})[fault.nic] = f"{fault.where}.{fault.key}"
            remaining = dict.fromkeys((port.up.name, port.down.name), fault.share or 1.0)
        elif isinstance(fault, FailedSwitch):
            remaining = _without_switch(fault, fabric, nodes)
        else:
            known = links_like(fault.link, node, fabric, nodes)
            _check_known(fault, known)
            remaining = {fault.link: fault.share} if isinstance(fault, SlowLink) else {}
            if isinstance(fault, FailedCable):
                both = fault.link, reverse(fault.link)
                remaining = {link: _without_one_cable(known[link], fabric) for link in both}
        for link, share in remaining.items():
            shares[link] = shares.get(link, 1.0) * share
            if not share:
                key = "switch" if isinstance(fault, FailedSwitch) else "link"
                failed[link] = f"{fault.where}.{key}"
    return Faults(
        {link: share for link, share in shares.items() if 0.0 < share < 1.0},
        failed,
        dict(_changed_nodes(node, lost, failed)),
    )


def _single_faults(
    faults: Sequence[Fault], node: Node, fabric: Fabric, nodes: int
) -> Iterator[Fault]:
    """Yield faults, with the failed NICs of the nodes on a failed switch."""
    for fault in faults:
        yield fault
        if isinstance(fault, FailedSwitch):
            for number, nic in product(range(nodes), range(len(node.nic_ends))):
                if fabric.port(number, nic).switch_name == fault.switch:
                    yield FaultyNic(number, nic, 0.0, fault.where, "switch")


def _without_switch(fault: FailedSwitch, fabric: Fabric, nodes: int) -> dict[str, float]:
    """Return the share that remains of each link with cables of a switch."""
    cables = [*fabric.edges(nodes)]
    own = [each for each in cables if fault.switch in each[:2]]
    switches = {end for a, b, _ in cables for end in (a, b)}
    ports = {
        fabric.port(number, nic).switch_name
        for number in range(nodes)
        for nic in range(fabric.nics)
    }
    if fault.switch not in switches | ports:
        known = [*dict.fromkeys(end for a, b, _ in cables for end in (a, b)), *sorted(ports)]
        example = f" (a switch is '{known[0]}')" if known else ""
        raise PlanError(
            f"{fault.where}.switch: '{fault.switch}' is no switch of the job's machine"
            f"{nearest(fault.switch, known) or example}"
        )
    lost: dict[Hop, float] = {}
    for a, b, cable in own:
        for link in fabric.links_of(a, b, cable):
            lost[link] = lost.get(link, 0.0) + cable.bandwidth
    shares = {link.name: 1.0 - width / link.bandwidth for link, width in lost.items()}
    return {link: share if share > NOTHING else 0.0 for link, share in shares.items()}


NOTHING: Final = 1e-9
"""Share of a link below which it carries nothing: rounding."""


def _port(fault: FaultyNic, node: Node, fabric: Fabric, nodes: int) -> Port:
    """Return the port of a NIC, which is checked to exist."""
    if fault.node >= nodes:
        raise PlanError(
            f"{fault.where}.node: {fault.node} is no node of the job (it has 0 to {nodes - 1})"
        )
    nics = len(node.nic_ends)
    if fault.nic >= nics:
        raise PlanError(
            f"{fault.where}.nic: {fault.nic} is no NIC of a node (it has 0 to {nics - 1})"
        )
    return fabric.port(fault.node, fault.nic)


def _check_known(fault: SlowLink | FailedCable, known: Mapping[str, Hop]) -> None:
    """Check that routes of the machine can cross a link, and that it is not that of a NIC."""
    here = f"{fault.where}.link: '{fault.link}'"
    if fault.link not in known:
        example = f" (a link of this kind is '{next(iter(known))}')" if known else ""
        raise PlanError(
            f"{here} is no link of the job's machine{nearest(fault.link, known) or example}"
        )
    if isinstance(fault, FailedCable) and is_of_nic(fault.link):
        raise PlanError(f"{here} is the cable of a NIC (use type: failed-nic)")


def _without_one_cable(link: Hop, fabric: Fabric) -> float:
    """Return the share of a link that remains without one of its cables."""
    cable = getattr(fabric, "cable", None)
    if not isinstance(cable, Hop) or node_of(link.name) is not None:
        return 0.0
    share = 1.0 - cable.bandwidth / link.bandwidth
    return share if share > NOTHING else 0.0


def _changed_nodes(
    node: Node, lost: Mapping[int, Mapping[int, str]], failed: Mapping[str, str]
) -> Iterator[tuple[int, Node]]:
    """Yield the nodes with failed NICs or cables, which are checked to be whole."""
    cut: dict[int, dict[str, str]] = {}
    for link, where in failed.items():
        number = node_of(link)
        if number is not None:
            cut.setdefault(number, {})[link] = where
    for number in sorted({*lost, *cut}):
        nics, links = lost.get(number, {}), cut.get(number, {})
        if len(nics) == len(node.nic_ends):
            raise PlanError(
                f"{[*nics.values()][-1]}: no NIC of node {number} remains, which cuts the job"
                " in two (leave one of its NICs)"
            )
        cables = tuple(
            (a, b, cable)
            for a, b, cable in node.cables
            if f"n{number}.{end_name(a)}>n{number}.{end_name(b)}" not in links
        )
        changed = replace(node, cables=cables, lost_nics=frozenset(nics))
        if links:
            _check_whole(changed, number, [*links.values()][-1])
        yield number, changed


def _check_whole(node: Node, number: int, where: str) -> None:
    """Check that every device of a node reaches the others and all NICs."""
    ends = dict.fromkeys((*range(node.devices), *node.nic_ends))
    if node.crossbar is not None or any(pair not in node.paths for pair in permutations(ends, 2)):
        raise PlanError(
            f"{where}: a device of node {number} has no other way to the rest, which cuts the"
            " job in two (use type: slow-link, or leave it out)"
        )


MOST_PATHS: Final = 1_024
"""Equal paths of which one without a fault is searched, before any other path."""


class Detours:
    """Routes between switches around links that carry nothing.

    Parameters
    ----------
    nodes : of the machine
    """

    def __init__(self, fabric: Fabric, faults: Faults, nodes: int) -> None:
        self._fabric, self._faults, self._nodes = fabric, faults, nodes

    def between(self, a: Port, b: Port, path_number: int) -> list[Hop]:
        """Return the links from one switch to another, on a path without failed ones.

        First an equal path, then the shortest other one.

        Raises
        ------
        PlanError
            when there is none.
        """
        fabric, faults = self._fabric, self._faults
        hops = fabric.between(a.switch, b.switch, path_number)
        if not faults or not faults.blocked(hops):
            return hops
        count = fabric.path_count(a.switch, b.switch)
        for more in range(1, min(count, MOST_PATHS)):
            other = fabric.between(a.switch, b.switch, (path_number + more) % count)
            if not faults.blocked(other):
                return other
        culprit = next(hop.name for hop in hops if hop.name in faults.failed)
        return self._around(a.switch_name, b.switch_name, culprit)

    @cached_property
    def _graph(self) -> "nx.DiGraph":
        """The single cables between switches; none where a bundle has failed as a whole."""
        import networkx as nx

        graph, failed = nx.DiGraph(), self._faults.failed
        cables = [*self._fabric.edges(self._nodes)]
        if not failed.keys().isdisjoint(hop.name for _, _, hop in cables):
            for start, end, hop in cables:
                if hop.name not in failed and not graph.has_edge(start, end):
                    graph.add_edge(start, end, hop=hop)
        return graph

    def _around(self, a: str, b: str, culprit: str) -> list[Hop]:
        """Return the shortest path of single cables without failed ones."""
        import networkx as nx  # imported here: it takes 0.12 s, and most runs need no graph

        graph = self._graph
        if {a, b} <= graph.nodes and nx.has_path(graph, a, b):
            path = nx.shortest_path(graph, a, b)
            return [graph.edges[ends]["hop"] for ends in pairwise(path)]
        where = self._faults.failed[culprit]
        raise PlanError(
            f"{where}: without {culprit} there is no route from {a} to {b}, which"
            " cuts the job in two (use type: slow-link, or leave it out)"
        )

    def alive(self, a: Switch, b: Switch) -> list[int]:
        """Return the equal paths between two switches that have no failed link."""
        count = min(self._fabric.path_count(a, b), MOST_PATHS)
        return [
            path
            for path in range(count)
            if not self._faults.blocked(self._fabric.between(a, b, path))
        ]
