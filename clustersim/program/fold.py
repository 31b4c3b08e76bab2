"""Folding: replicas that behave alike are replayed as one, exactly, by colour refinement.

Data-parallel replicas run the same steps.  Their times can only differ if their traffic does:
another latency, another link, another replica on a link.  So replicas and links are coloured,

    colour of a link     = its capacity, and how much of which traffic of which colour crosses it
    colour of a replica  = for each of its transfers the latency and the colours of its links

and refined in turn until no colour splits (the coarsest equitable partition).  Replicas of one
colour then run the same operations at the same instants: max-min fair rates are unique, so they are
equal for such replicas.  One of them is replayed, on one link of each colour, with the load of all.

Links that can never limit a transfer are left out first: those with capacity for all the traffic
that crosses them, at full rate and at once.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from clustersim.traffic import Traffic

Name = tuple[Hashable, ...]
"""Name of a transfer, the same for every replica: ``("send", "F", 3, 4)``."""


@dataclass(frozen=True)
class Folded:
    """Replicas by class, and the traffic of each class on one link of each colour.

    Attributes
    ----------
    classes : replicas of each class, in order of their first
    traffic : by (name, class), what one member sends, with the load of the whole class
    joint : by name, traffic of all replicas together
    capacities, link_names : of the links that remain [B/s]
    """

    classes: tuple[tuple[int, ...], ...]
    traffic: dict[tuple[Name, int], Traffic]
    joint: dict[Name, Traffic]
    capacities: tuple[float, ...]
    link_names: tuple[str, ...]


def fold(
    own: Sequence[dict[Name, Traffic]],
    joint: dict[Name, Traffic],
    capacities: Sequence[float],
    link_names: Sequence[str],
    patterns: Sequence[Hashable],
    *,
    fold_replicas: bool,
) -> Folded:
    """Return the classes of replicas and their traffic.

    Parameters
    ----------
    own : for each replica its transfers by name
    joint : transfers of all replicas together
    patterns : for each replica, what else distinguishes it (the times of its blocks)
    fold_replicas : False keeps every replica separate
    """
    own = [{name: _capped(t, capacities) for name, t in transfers.items()} for transfers in own]
    joint = {name: _capped(t, capacities) for name, t in joint.items()}
    tight = _tight(own, joint, capacities)
    own = [{name: _only(tight, t) for name, t in transfers.items()} for transfers in own]
    joint = {name: _only(tight, t) for name, t in joint.items()}
    if fold_replicas:
        colours, link_colours = _refined(own, joint, capacities, patterns)
    else:
        colours = list(range(len(own)))
        link_colours = {link: i for i, link in enumerate(sorted(tight))}
    return _quotient(own, joint, capacities, link_names, colours, link_colours)


def _capped(traffic: Traffic, capacities: Sequence[float]) -> Traffic:
    """Return the traffic with its uncontended rate as its cap, so that only shared links matter."""
    return traffic._replace(cap=traffic.uncontended_rate(capacities))


def _tight(
    own: Sequence[dict[Name, Traffic]], joint: dict[Name, Traffic], capacities: Sequence[float]
) -> set[int]:
    """Return the links whose capacity all traffic at once could exceed."""
    demand: dict[int, float] = {}
    for traffic in _all(own, joint):
        for link, weight in traffic.crossings():
            demand[link] = demand.get(link, 0.0) + weight * traffic.cap
    return {link for link, rate in demand.items() if rate > capacities[link] * (1 + 1e-12)}


def _all(own: Sequence[dict[Name, Traffic]], joint: dict[Name, Traffic]) -> Iterable[Traffic]:
    for transfers in own:
        yield from transfers.values()
    yield from joint.values()


def _only(kept: set[int], traffic: Traffic) -> Traffic:
    """Return the traffic on some links only."""
    pairs = [(link, weight) for link, weight in traffic.crossings() if link in kept]
    return traffic._replace(
        links=tuple(link for link, _ in pairs), weights=tuple(weight for _, weight in pairs)
    )


def _refined(
    own: Sequence[dict[Name, Traffic]],
    joint: dict[Name, Traffic],
    capacities: Sequence[float],
    patterns: Sequence[Hashable],
) -> tuple[list[int], dict[int, int]]:
    """Return a colour for each replica and each link, equal only where no time can differ."""
    crossed: dict[int, list[tuple[Name, float, int]]] = {}
    for replica, transfers in enumerate(own):
        for name, traffic in transfers.items():
            for link, weight in traffic.crossings():
                crossed.setdefault(link, []).append((name, weight, replica))
    shared: dict[int, list[tuple[Name, float]]] = {}
    for name, traffic in joint.items():
        for link, weight in traffic.crossings():
            shared.setdefault(link, []).append((name, weight))
    links = sorted({*crossed, *shared})
    colours = _numbered(patterns)
    while True:
        of_links = (
            (
                capacities[link],
                tuple(shared.get(link, ())),
                tuple(sorted((n, w, colours[r]) for n, w, r in crossed.get(link, ()))),
            )
            for link in links
        )
        link_colours = dict(zip(links, _numbered(of_links), strict=True))
        finer = _numbered(
            (colours[replica], *(_signature(t, link_colours) for t in transfers.values()))
            for replica, transfers in enumerate(own)
        )
        if max(finer) == max(colours):
            return finer, link_colours
        colours = finer


def _signature(traffic: Traffic, link_colours: dict[int, int]) -> Hashable:
    return (
        traffic.nbytes,
        traffic.latency,
        traffic.cap,
        tuple(sorted((link_colours[link], weight) for link, weight in traffic.crossings())),
    )


def _numbered(values: Iterable[Hashable]) -> list[int]:
    """Return a number for each value, equal for equal values, in order of first appearance."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


def _quotient(
    own: Sequence[dict[Name, Traffic]],
    joint: dict[Name, Traffic],
    capacities: Sequence[float],
    link_names: Sequence[str],
    colours: Sequence[int],
    link_colours: dict[int, int],
) -> Folded:
    """Return the load of each class on one link of each colour."""
    classes: list[list[int]] = [[] for _ in range(max(colours) + 1)]
    for replica, colour in enumerate(colours):
        classes[colour].append(replica)
    first: dict[int, int] = {}
    for link in sorted(link_colours):
        first.setdefault(link_colours[link], link)
    representative = {link: colour for colour, link in first.items()}
    traffic = {}
    for number, members in enumerate(classes):
        for name, example in own[members[0]].items():
            loads: dict[int, float] = {}
            for member in members:
                for link, weight in own[member][name].crossings():
                    if link in representative:
                        colour = representative[link]
                        loads[colour] = loads.get(colour, 0.0) + weight
            traffic[name, number] = _on(example, loads)
    return Folded(
        classes=tuple(tuple(members) for members in classes),
        traffic=traffic,
        joint={
            name: _on(moved, {link_colours[link]: weight for link, weight in moved.crossings()})
            for name, moved in joint.items()
        },
        capacities=tuple(capacities[first[colour]] for colour in range(len(first))),
        link_names=tuple(link_names[first[colour]] for colour in range(len(first))),
    )


def _on(traffic: Traffic, loads: dict[int, float]) -> Traffic:
    """Return the traffic with other links and weights."""
    ordered = sorted(loads.items())
    return traffic._replace(
        links=tuple(link for link, _ in ordered), weights=tuple(weight for _, weight in ordered)
    )
