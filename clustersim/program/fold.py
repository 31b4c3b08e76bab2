"""Folding: replicas that behave alike are replayed as one, exactly, by colour refinement.

Data-parallel replicas run the same steps.  Their times can only differ if their traffic does:
another latency, another rate, another replica on a link that both need.  Only links that are ever
overloaded can slow a transfer, so replicas and these links are coloured,

    colour of a link     = its capacity, and how much of which traffic of which colour crosses it
    colour of a replica  = for each of its transfers the latency and the colours of such links

and refined in turn until no colour splits (the coarsest equitable partition).  Replicas of one
colour then run the same operations at the same instants: max-min fair rates are unique, so they are
equal for such replicas.  One of them is replayed, on one link of each colour, with the load of all.

Which links are overloaded is the result of a replay.  At first none is, and replicas are one class
by their own latencies and rates.  The other links have colours as well, which refine no replicas:
the replay of such classes shows which links were overloaded.

Links that can never limit a transfer are left out first: those with capacity for all the traffic
that crosses them, at full rate and at once.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from clustersim.arrays import Booleans, Floats, Integers, multisets, numbered, ranked
from clustersim.traffic import Traffic, TrafficRows, link_rows

Name = tuple[Hashable, ...]
"""Name of a transfer, the same for every replica: ``("send", "F", 3, 4)``."""

Transfers = Mapping[Name, TrafficRows]


@dataclass(frozen=True)
class Folded:
    """Replicas by class, and the traffic of each class on one link of each colour.

    Attributes
    ----------
    classes : replicas of each class, in order of their first
    traffic : by (name, class), what one member sends, with the load of the whole class
    joint : by name, traffic of all replicas together
    links : the links of the machine by colour
    unfolded : whether no ranks are folded, those of tensor groups included
    """

    classes: tuple[tuple[int, ...], ...]
    traffic: dict[tuple[Name, int], Traffic]
    joint: dict[Name, Traffic]
    links: "LinkColours"
    unfolded: bool = False


class ReplicaTraffic:
    """The traffic of all replicas on the links that could limit it.

    Parameters
    ----------
    own : transfers of all replicas, a row each, by name
    joint : transfers of all replicas together, one row each
    capacities, link_names : of the links of the machine [B/s]
    patterns : for each replica, a number for what else distinguishes it (the times of its blocks)
    """

    def __init__(
        self, own: Transfers, joint: Transfers, capacities: Floats, link_names: Sequence[str],
        patterns: Integers,
    ) -> None:  # fmt: skip
        own = {name: _capped(traffic, capacities) for name, traffic in own.items()}
        joint = {name: _capped(traffic, capacities) for name, traffic in joint.items()}
        tight = _tight([*own.values(), *joint.values()], capacities)
        self._own = {name: _only(tight, traffic) for name, traffic in own.items()}
        self._joint = {name: _only(tight, traffic) for name, traffic in joint.items()}
        (self._links,) = np.nonzero(tight)
        self._capacities, self._names, self._patterns = capacities, link_names, patterns

    def unfolded(self) -> Folded:
        """Return every replica as a class of its own."""
        folded = self._quotient(np.arange(len(self._patterns)), np.arange(len(self._links)))
        return replace(folded, unfolded=True)

    def folded(self, overloaded: Integers | None = None) -> Folded:
        """Return replicas as one class where no time can differ.

        Parameters
        ----------
        overloaded : links of the machine that may be overloaded; all of them if left out
        """
        refining = np.ones(len(self._links), dtype=np.bool_)
        if overloaded is not None:
            refining = np.isin(self._links, overloaded)
        return self._quotient(*self._refined(refining))

    def differ(self, folded: Folded, links: Integers) -> bool:
        """Return whether replicas of a class cross some links of the machine differently."""
        crossed = self._crossed
        some = crossed.only(np.isin(self._links, links)[crossed.link])
        colours = np.empty(len(self._patterns), dtype=np.int64)
        for number, members in enumerate(folded.classes):
            colours[[*members]] = number
        met = _paired(some.kind, folded.links.colours[some.link])
        sets = multisets(some.replica, met, len(colours))
        return bool(numbered(np.stack([colours, sets]).T).max() > colours.max())

    # --- colours ----------------------------------------------------------------------------------

    def _refined(self, refining: Booleans) -> tuple[Integers, Integers]:
        """Return a colour for each replica and each link, equal only where no time can differ.

        Parameters
        ----------
        refining : whether the colour of a link refines those of replicas
        """
        of_link, crossed, links = self._of_link, self._crossed, len(self._links)
        refines, chosen = crossed.only(refining[crossed.link]), np.flatnonzero(refining)
        link, own = (np.cumsum(refining) - 1)[refines.link], of_link[chosen]
        colours = finer = self._of_replica
        while len(link):
            sets = multisets(link, _paired(refines.kind, colours[refines.replica]), len(chosen))
            met = _paired(refines.kind, numbered(np.stack([own, sets]).T)[link])
            sets = multisets(refines.replica, met, len(colours))
            finer = numbered(np.stack([self._of_replica, colours, sets]).T)
            if finer.max() == colours.max():
                break
            colours = finer
        seen = _paired(crossed.kind, finer[crossed.replica])
        return finer, numbered(np.stack([of_link, multisets(crossed.link, seen, links)]).T)

    @cached_property
    def _place(self) -> Integers:
        """For each link of the machine, its place among the tight ones."""
        place = np.zeros(len(self._capacities), dtype=np.int64)
        place[self._links] = np.arange(len(self._links))
        return place

    @cached_property
    def _crossed(self) -> "Crossings":
        return _crossings(self._own, self._place)

    @cached_property
    def _of_replica(self) -> Integers:
        """For each replica, a number for its own latencies and rates."""
        traffic = self._own.values()
        facts = [np.stack([t.nbytes, t.latency, t.cap]).view(np.int64) for t in traffic]
        return numbered(np.vstack([self._patterns[None], *facts]).T)

    @cached_property
    def _of_link(self) -> Integers:
        """For each tight link, a number for its capacity and the joint traffic on it."""
        joint = _crossings(self._joint, self._place)
        sets = multisets(joint.link, joint.kind, len(self._links))
        return numbered(np.stack([self._capacities[self._links].view(np.int64), sets]).T)

    # --- the quotient -----------------------------------------------------------------------------

    def _quotient(self, colours: Integers, link_colours: Integers) -> Folded:
        """Return the load of each class on one link of each colour."""
        links = LinkColours(self._links, link_colours, self._capacities, self._names)
        _, first = np.unique(colours, return_index=True)
        loads = {name: links.load(moved, colours, first) for name, moved in self._own.items()}
        one = np.zeros(1, dtype=np.int64)
        members = np.split(np.argsort(colours, kind="stable"), np.cumsum(np.bincount(colours))[:-1])
        return Folded(
            classes=tuple(tuple(each.tolist()) for each in members),
            traffic={
                (name, number): load.of_row(number)
                for number in range(len(first))
                for name, load in loads.items()
            },
            joint={
                name: links.load(moved, one, one).of_row(0) for name, moved in self._joint.items()
            },
            links=links,
        )


def _capped(traffic: TrafficRows, capacities: Floats) -> TrafficRows:
    """Return the traffic with its uncontended rate as its cap, so that only shared links matter."""
    return replace(traffic, cap=traffic.uncontended_rates(capacities))


def _tight(traffic: Sequence[TrafficRows], capacities: Floats) -> Booleans:
    """Return which links' capacity all traffic at once could exceed."""
    demand = np.zeros(len(capacities))
    for moved in traffic:
        moved.crossings.scaled(moved.cap).add_to(demand)
    return demand > capacities * (1 + 1e-12)


def _only(kept: Booleans, traffic: TrafficRows) -> TrafficRows:
    """Return the traffic on some links only."""
    return replace(traffic, crossings=traffic.crossings.only(kept[traffic.crossings.links]))


# --- colours --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Crossings:
    """Crossings of a transfer of a replica and a link; of one kind where name and weight agree."""

    kind: Integers
    replica: Integers
    link: Integers

    def only(self, kept: Booleans) -> "Crossings":
        """Return some of the crossings."""
        return Crossings(self.kind[kept], self.replica[kept], self.link[kept])


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


# --- the quotient ---------------------------------------------------------------------------------


class LinkColours:
    """The tight links by colour; one of each colour represents the others.

    Parameters
    ----------
    numbers, colours : of the tight links
    capacities, names : of all links [B/s]

    Attributes
    ----------
    capacities, names : of a link of each colour [B/s]
    """

    def __init__(
        self, numbers: Integers, colours: Integers, capacities: Floats, names: Sequence[str]
    ) -> None:
        _, first = np.unique(colours, return_index=True)
        self.capacities = tuple(capacities[numbers[first]].tolist())
        self.names = tuple(names[link] for link in numbers[first].tolist())
        self._numbers, self.colours = numbers, colours
        self._representing = np.full(len(capacities), -1)
        self._representing[numbers[first]] = colours[first]

    def of_colours(self, colours: Iterable[int]) -> Integers:
        """Return all links of the machine of some colours."""
        chosen = np.zeros(len(self.capacities), dtype=np.bool_)
        chosen[[*colours]] = True
        return self._numbers[chosen[self.colours]]

    def colours_of(self, links: Integers) -> frozenset[int]:
        """Return the colours of some links of the machine."""
        return frozenset(self.colours[np.isin(self._numbers, links)].tolist())

    def load(self, traffic: TrafficRows, colours: Integers, first: Integers) -> TrafficRows:
        """Return the traffic of each colour of replicas, with the load of all of them.

        Parameters
        ----------
        first : the first replica of each colour
        """
        crossings = traffic.crossings
        colour = self._representing[crossings.links]
        represents = colour >= 0
        row = colours[crossings.row[represents]]
        loads = link_rows(row, colour[represents], crossings.values[represents], len(first))
        amounts = traffic.nbytes[first], traffic.latency[first], traffic.cap[first]
        return TrafficRows(traffic.name, loads, *amounts)
