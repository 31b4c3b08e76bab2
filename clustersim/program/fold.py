"""Replicas that behave alike are one, exactly: colours refined until nothing more can differ.

Data-parallel replicas run the same steps.  They can only differ in time if their traffic does:
another latency, another link, another neighbour on a link.  So replicas and links are coloured,

    colour of a link     = its capacity, and how much of which traffic of which colour crosses it
    colour of a replica  = for each of its transfers the latency and the colours of its links

and refined in turn until no colour splits (the coarsest equitable partition).  Replicas of one
colour then do the same at the same instants: max-min fair rates are unique, so they cannot tell
such replicas apart.  One of them is replayed, on one link of each colour, carrying the load that
all of them put there.

Links that can never slow anybody down are left out first: those whose capacity covers all that
everything crossing them could ask for at once.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from clustersim.traffic import Traffic

Name = tuple[Hashable, ...]
"""What a transfer is, the same for every replica: ``("send", "F", 3, 4)``."""


@dataclass(frozen=True)
class Folded:
    """Replicas by class, and the traffic of each class on the links that stand for all.

    Attributes
    ----------
    classes : replicas of each class, in order of their first
    traffic : by (name, class), what one member sends, with the load of the whole class
    joint : by name, traffic of all replicas together
    capacities, link_names : of the links left [B/s]
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
    kinds: Sequence[Hashable],
    *,
    together: bool,
) -> Folded:
    """Return the classes of replicas and their traffic.

    Parameters
    ----------
    own : for each replica its transfers by name
    joint : transfers that all replicas make together
    kinds : for each replica, what else tells it apart (the times of its blocks)
    together : False keeps every replica by itself
    """
    own = [{name: _capped(t, capacities) for name, t in each.items()} for each in own]
    joint = {name: _capped(t, capacities) for name, t in joint.items()}
    tight = _tight(own, joint, capacities)
    own = [{name: _only(tight, t) for name, t in transfers.items()} for transfers in own]
    joint = {name: _only(tight, t) for name, t in joint.items()}
    if together:
        colours, link_colours = _refined(own, joint, capacities, kinds)
    else:
        colours = list(range(len(own)))
        link_colours = {link: i for i, link in enumerate(sorted(tight))}
    return _quotient(own, joint, capacities, link_names, colours, link_colours)


def _capped(traffic: Traffic, capacities: Sequence[float]) -> Traffic:
    """Return the traffic with its rate alone as its cap, so that only shared links still count."""
    return traffic._replace(cap=traffic.uncontended_rate(capacities))


def _tight(
    own: Sequence[dict[Name, Traffic]], joint: dict[Name, Traffic], capacities: Sequence[float]
) -> set[int]:
    """Return the links that all that could cross them at once might fill."""
    asked: dict[int, float] = {}
    for traffic in _all(own, joint):
        for link, weight in zip(traffic.links, traffic.weights, strict=True):
            asked[link] = asked.get(link, 0.0) + weight * traffic.cap
    return {link for link, rate in asked.items() if rate > capacities[link] * (1 + 1e-12)}


def _all(own: Sequence[dict[Name, Traffic]], joint: dict[Name, Traffic]) -> Iterable[Traffic]:
    for transfers in own:
        yield from transfers.values()
    yield from joint.values()


def _only(kept: set[int], traffic: Traffic) -> Traffic:
    """Return the traffic on the links that count."""
    pairs = [(k, w) for k, w in zip(traffic.links, traffic.weights, strict=True) if k in kept]
    return traffic._replace(
        links=tuple(link for link, _ in pairs), weights=tuple(weight for _, weight in pairs)
    )


def _refined(
    own: Sequence[dict[Name, Traffic]],
    joint: dict[Name, Traffic],
    capacities: Sequence[float],
    kinds: Sequence[Hashable],
) -> tuple[list[int], dict[int, int]]:
    """Return a colour for each replica and each link, the same only where nothing can differ."""
    crossed: dict[int, list[tuple[Name, float, int]]] = {}
    for replica, transfers in enumerate(own):
        for name, traffic in transfers.items():
            for link, weight in zip(traffic.links, traffic.weights, strict=True):
                crossed.setdefault(link, []).append((name, weight, replica))
    shared: dict[int, list[tuple[Name, float]]] = {}
    for name, traffic in joint.items():
        for link, weight in zip(traffic.links, traffic.weights, strict=True):
            shared.setdefault(link, []).append((name, weight))
    links = sorted({*crossed, *shared})
    colours = _numbered(kinds)
    while True:
        link_colours = dict(
            zip(
                links,
                _numbered(
                    (
                        capacities[link],
                        tuple(shared.get(link, ())),
                        tuple(sorted((n, w, colours[r]) for n, w, r in crossed.get(link, ()))),
                    )
                    for link in links
                ),
                strict=True,
            )
        )
        finer = _numbered(
            (colours[replica], *(_seen(t, link_colours) for t in transfers.values()))
            for replica, transfers in enumerate(own)
        )
        if max(finer) == max(colours):
            return finer, link_colours
        colours = finer


def _seen(traffic: Traffic, link_colours: dict[int, int]) -> Hashable:
    pairs = zip(traffic.links, traffic.weights, strict=True)
    return (
        traffic.nbytes,
        traffic.latency,
        traffic.cap,
        tuple(sorted((link_colours[link], weight) for link, weight in pairs)),
    )


def _numbered(values: Iterable[Hashable]) -> list[int]:
    """Return for each value the number of its first equal, counting different values from 0."""
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
    """Put the load of each class on one link of each colour."""
    classes: list[list[int]] = [[] for _ in range(max(colours) + 1)]
    for replica, colour in enumerate(colours):
        classes[colour].append(replica)
    first: dict[int, int] = {}
    for link in sorted(link_colours):
        first.setdefault(link_colours[link], link)
    traffic = {}
    for number, members in enumerate(classes):
        for name in own[members[0]]:
            loads: dict[int, float] = {}
            for member in members:
                moved = own[member][name]
                for link, weight in zip(moved.links, moved.weights, strict=True):
                    if first[link_colours[link]] == link:
                        loads[link_colours[link]] = loads.get(link_colours[link], 0.0) + weight
            traffic[name, number] = _on(own[members[0]][name], loads)
    return Folded(
        classes=tuple(tuple(members) for members in classes),
        traffic=traffic,
        joint={
            name: _on(
                moved,
                {
                    link_colours[link]: weight
                    for link, weight in zip(moved.links, moved.weights, strict=True)
                },
            )
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
