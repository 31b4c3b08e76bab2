"""From a list of cables to a network: every NIC has its switch, and all switches are joined."""

import re

from clustersim.catalog.fabrics import LinkList
from clustersim.errors import CatalogError
from clustersim.topology.fabrics.explicit import ExplicitFabric
from clustersim.topology.fabrics.port import Port
from clustersim.topology.links import Hop

KEY = "cluster.fabric.links"
"""Where a complaint begins: the key in a scenario."""

NIC = re.compile(r"n(?:0|[1-9]\d*)\.nic(0|[1-9]\d*)")

Cables = dict[str, dict[str, tuple[Hop, ...]]]


def build_explicit(
    shape: LinkList, nic: Hop, efficiency: float, nics: int, nodes: int
) -> ExplicitFabric:
    """Return the network of a list of cables.

    Parameters
    ----------
    nic : payload bandwidth and latency of a NIC
    efficiency : share of a cable's bandwidth that is payload

    Raises
    ------
    CatalogError
        when a NIC has no cable or two, or when no way joins two NICs.
    """
    ports: dict[str, Port] = {}
    cables: Cables = {}
    for number, (a, b, bandwidth) in enumerate(shape.links.value):
        _check_ends(number, a, b, nics)
        wide = bandwidth * efficiency
        if _is_nic(a) or _is_nic(b):
            _plug(number, _ports(a, b, nic._replace(bandwidth=min(wide, nic.bandwidth))), ports)
        else:
            cable = Hop("", wide, shape.latency.value, "cable")
            _lay(cable, a, b, cables)
            _lay(cable, b, a, cables)
    wanted = [[f"n{node}.nic{i}" for i in range(nics)] for node in range(nodes)]
    _check_complete(wanted, ports)
    hung = tuple(tuple(ports[name] for name in names) for names in wanted)
    _check_joined(hung, cables)
    return ExplicitFabric(hung, cables, shape.seed)


def _plug(number: int, plugs: list[Port], ports: dict[str, Port]) -> None:
    """Add the NICs at the ends of cable `number` to the others, each for the first time."""
    for port in plugs:
        if port.nic_name in ports:
            raise CatalogError(
                f"{KEY}[{number}]: {port.nic_name} has a cable already"
                " (a NIC has one; put a switch between)"
            )
        ports[port.nic_name] = port


def _lay(cable: Hop, a: str, b: str, cables: Cables) -> None:
    """Add a cable from one switch to another, beside those that are there."""
    beside = cables.setdefault(a, {}).get(b, ())
    name = f"{a}>{b}" + (f"#{len(beside)}" if beside else "")
    cables[a][b] = (*beside, cable._replace(name=name))


def _ports(a: str, b: str, cable: Hop) -> list[Port]:
    """Return the NICs at the ends of a cable; two NICs meet in its middle as on a switch."""
    if _is_nic(a) and _is_nic(b):
        middle = f"{a}-{b}"
        return [Port(middle, end, cable, middle) for end in (a, b)]
    nic, switch = (a, b) if _is_nic(a) else (b, a)
    return [Port(switch, nic, cable, switch)]


def _is_nic(end: str) -> bool:
    return NIC.fullmatch(end) is not None


def _check_ends(number: int, a: str, b: str, nics: int) -> None:
    if a == b:
        raise CatalogError(f"{KEY}[{number}]: joins {a} to itself")
    for end in (a, b):
        nic = NIC.fullmatch(end)
        if (nic is None and re.match(r"n\d+\.", end)) or (nic and int(nic[1]) >= nics):
            raise CatalogError(
                f"{KEY}[{number}]: {end} is no NIC: those of a node are nic0 to nic{nics - 1}"
            )
        if not end or {">", "#"} & set(end):
            raise CatalogError(f"{KEY}[{number}]: {end!r} is no name (no '>' or '#' in it)")


def _check_complete(wanted: list[list[str]], ports: dict[str, Port]) -> None:
    missing = [name for names in wanted for name in names if name not in ports]
    if missing:
        more = f", nor have {len(missing) - 1} others" if missing[1:] else ""
        raise CatalogError(
            f"{KEY}: {missing[0]} has no cable{more}"
            f" (each NIC of the {len(wanted)} nodes needs one: [{missing[0]}, SWITCH, BANDWIDTH])"
        )


def _check_joined(hung: tuple[tuple[Port, ...], ...], cables: Cables) -> None:
    first = hung[0][0]
    joined = front = {str(first.switch)}
    while front:
        front = {far for near in front for far in cables.get(near, {})} - joined
        joined = joined | front
    for ports in hung:
        for port in ports:
            if port.switch not in joined:
                raise CatalogError(f"{KEY}: no way leads from {first.nic_name} to {port.nic_name}")
