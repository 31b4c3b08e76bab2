"""Folding: replicas that behave alike are replayed as one, exactly, by colour refinement.

Data-parallel replicas run the same steps.  Their times can only differ if their traffic does:
another latency, another link, another replica on a link.  So replicas and links are coloured,

    colour of a link     = its capacity, and how much of which traffic of which colour crosses it
    colour of a replica  = for each of its transfers the latency and the colours of its links

and refined in turn until no colour splits (the coarsest equitable partition).  Replicas of one
colour then run the same operations at the same instants: max-min fair rates are unique, so they are
equal for such replicas.  One of them is replayed, on one link of each colour, with the load of all.

As long as no link is overloaded, colours of links do not matter: replicas are one class by their
own latencies and rates.  Each link of another load keeps a colour of its own, so that the replay of
such classes shows whether any link was overloaded.

Links that can never limit a transfer are left out first: those with capacity for all the traffic
that crosses them, at full rate and at once.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from clustersim.arrays import Floats, Integers, numbered, ranked
from clustersim.traffic import Traffic, TrafficRows, link_rows

Name = tuple[Hashable, ...]
"""Name of a transfer, the same for every replica: ``("send", "F", 3, 4)``."""

Transfers = Mapping[Name, TrafficRows]

Folding = Literal["none", "alike", "like-times"]
NONE: Final = "none"
"""Every replica is a class of its own."""
ALIKE: Final = "alike"
"""Replicas are one class if no time can differ, also where links are overloaded."""
LIKE_TIMES: Final = "like-times"
"""Replicas are one class if no time can differ as long as no link is overloaded."""


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
    own: Transfers, joint: Transfers, capacities: Floats, link_names: Sequence[str],
    patterns: Integers, folding: Folding,
) -> Folded:  # fmt: skip
    """Return the classes of replicas and their traffic.

    Parameters
    ----------
    own : transfers of all replicas, a row each, by name
    joint : transfers of all replicas together, one row each
    patterns : for each replica, a number for what else distinguishes it (the times of its blocks)
    folding : which replicas are one class
    """
    own = {name: _capped(traffic, capacities) for name, traffic in own.items()}
    joint = {name: _capped(traffic, capacities) for name, traffic in joint.items()}
    tight = _tight([*own.values(), *joint.values()], capacities)
    own = {name: _only(tight, traffic) for name, traffic in own.items()}
    joint = {name: _only(tight, traffic) for name, traffic in joint.items()}
    (links,) = np.nonzero(tight)
    if folding == NONE:
        colours, link_colours = np.arange(len(patterns)), np.arange(len(links))
    else:
        once = folding == LIKE_TIMES
        colours, link_colours = _refined(own, joint, links, capacities, patterns, once=once)
    return _quotient(own, joint, Links(links, link_colours, capacities, link_names), colours)


def _capped(traffic: TrafficRows, capacities: Floats) -> TrafficRows:
    """Return the traffic with its uncontended rate as its cap, so that only shared links matter."""
    return replace(traffic, cap=traffic.uncontended_rates(capacities))


def _tight(traffic: Sequence[TrafficRows], capacities: Floats) -> NDArray[np.bool_]:
    """Return which links' capacity all traffic at once could exceed."""
    demand = np.zeros(len(capacities))
    for moved in traffic:
        demand += moved.crossings.scaled(moved.cap).totals(len(capacities))
    return demand > capacities * (1 + 1e-12)


def _only(kept: NDArray[np.bool_], traffic: TrafficRows) -> TrafficRows:
    """Return the traffic on some links only."""
    return replace(traffic, crossings=traffic.crossings.only(kept[traffic.crossings.links]))


# --- colours --------------------------------------------------------------------------------------


def _refined(
    own: Transfers, joint: Transfers, links: Integers, capacities: Floats, patterns: Integers, *,
    once: bool,
) -> tuple[Integers, Integers]:  # fmt: skip
    """Return a colour for each replica and each link, equal only where no time can differ.

    Parameters
    ----------
    once : whether the colours of links do not refine those of replicas
    """
    place = np.zeros(len(capacities), dtype=np.int64)
    place[links] = np.arange(len(links))
    crossed = _crossings(own, place)
    shared = _crossings(joint, place)
    facts = [np.stack([t.nbytes, t.latency, t.cap]).view(np.int64) for t in own.values()]
    of_replica = numbered(np.vstack([patterns[None], *facts]).T)
    of_link = numbered(
        np.stack([capacities[links].view(np.int64), _sets(shared.link, shared.kind, len(links))]).T
    )
    colours = of_replica
    while True:
        seen = _paired(crossed.kind, colours[crossed.replica])
        link_colours = numbered(np.stack([of_link, _sets(crossed.link, seen, len(links))]).T)
        if once:
            return colours, link_colours
        met = _paired(crossed.kind, link_colours[crossed.link])
        sets = _sets(crossed.replica, met, len(patterns))
        finer = numbered(np.stack([of_replica, colours, sets]).T)
        if finer.max() == colours.max():
            return finer, link_colours
        colours = finer


@dataclass(frozen=True)
class Crossings:
    """Crossings of a transfer of a replica and a link; of one kind where name and weight agree."""

    kind: Integers
    replica: Integers
    link: Integers


def _crossings(transfers: Transfers, place: Integers) -> Crossings:
    """Return all crossings, links by their place among the tight ones."""
    none = np.zeros(0, dtype=np.int64)
    parts = [traffic.crossings for traffic in transfers.values()]
    kinds, known = [none], 0
    for part in parts:
        whole = part.values.astype(
            np.int64
        )  # numbers of flows, which are whole with few exceptions
        fractions = (whole != part.values).any()
        weights, places = ranked(part.values.view(np.int64) if fractions else whole)
        kinds.append(known + places)
        known += len(weights)
    return Crossings(
        kind=np.concatenate(kinds),
        replica=np.concatenate([none, *(part.row for part in parts)]),
        link=place[np.concatenate([none, *(part.links for part in parts)])],
    )


def _paired(kind: Integers, colour: Integers) -> Integers:
    """Return a number for each pair."""
    pairs: Integers = kind * (colour.max(initial=0) + 1) + colour
    return pairs


def _sets(owner: Integers, items: Integers, owners: int) -> Integers:
    """Return a number for each owner, equal where the multisets of their items are equal."""
    width = int(items.max(initial=0)) + 1
    items = np.sort(owner * width + items) % width
    counts = np.bincount(owner, minlength=owners)
    first = np.cumsum(counts) - counts
    numbers = np.zeros(owners, dtype=np.int64)
    for length in np.unique(counts).tolist():
        same = np.flatnonzero(counts == length)
        rows = items[first[same][:, None] + np.arange(length)]
        found = numbered(rows) if length else np.zeros(len(same), dtype=np.int64)
        numbers[same] = numbers.max(initial=0) + 1 + found
    return numbers


# --- the quotient ---------------------------------------------------------------------------------


class Links:
    """The tight links, and one of each colour that represents the others.

    Parameters
    ----------
    numbers, colours : of the tight links
    capacities, names : of all links [B/s]
    """

    def __init__(
        self, numbers: Integers, colours: Integers, capacities: Floats, names: Sequence[str]
    ) -> None:
        _, first = np.unique(colours, return_index=True)
        self.capacities = tuple(capacities[numbers[first]].tolist())
        self.names = tuple(names[link] for link in numbers[first].tolist())
        self._colour = np.full(len(capacities), -1)
        self._colour[numbers[first]] = colours[first]

    def load(self, traffic: TrafficRows, colours: Integers, first: Integers) -> TrafficRows:
        """Return the traffic of each colour of replicas, with the load of all of them.

        Parameters
        ----------
        first : the first replica of each colour
        """
        crossings = traffic.crossings
        colour = self._colour[crossings.links]
        represents = colour >= 0
        row = colours[crossings.row[represents]]
        loads = link_rows(row, colour[represents], crossings.values[represents], len(first))
        amounts = traffic.nbytes[first], traffic.latency[first], traffic.cap[first]
        return TrafficRows(traffic.name, loads, *amounts)


def _quotient(own: Transfers, joint: Transfers, links: Links, colours: Integers) -> Folded:
    """Return the load of each class on one link of each colour."""
    _, first = np.unique(colours, return_index=True)
    loads = {name: links.load(traffic, colours, first) for name, traffic in own.items()}
    one = np.zeros(1, dtype=np.int64)
    members = np.split(np.argsort(colours, kind="stable"), np.cumsum(np.bincount(colours))[:-1])
    return Folded(
        classes=tuple(tuple(each.tolist()) for each in members),
        traffic={
            (name, number): load.of_row(number)
            for number in range(len(first))
            for name, load in loads.items()
        },
        joint={name: links.load(traffic, one, one).of_row(0) for name, traffic in joint.items()},
        capacities=links.capacities,
        link_names=links.names,
    )
