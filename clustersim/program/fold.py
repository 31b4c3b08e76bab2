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
the replay of such classes shows which links were overloaded, by several classes or by one alone.

Links that can never limit a transfer are left out first: those with capacity for all the traffic
that crosses them, at full rate and at once.  Links of equal capacity that the same transfers cross
alike, as the rails of a node, limit these transfers alike: one of them is coloured for all.

Jobs on one machine are folded together, since what crosses a link is the traffic of all of them:
replicas of two jobs never have the same colour, and a link has one colour for all jobs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from clustersim.arrays import (
    Booleans,
    Floats,
    Integers,
    add_hashes,
    first_of,
    mixed,
    multisets,
    numbered,
    ranked,
)
from clustersim.program.links.tables import TrafficTable, tables_of
from clustersim.records import dataclass
from clustersim.traffic import Name, Traffic, TrafficRows, Transfers, link_rows


@dataclass(frozen=True)
class Folded:
    """Replicas by class, and the traffic of each class on one link of each colour.

    Attributes
    ----------
    classes : replicas of each class, in order of their first
    traffic : of each class, by name, what one member sends, with the load of the whole class
    joint : by name, traffic of all replicas together
    links : the links of the machine by colour
    unfolded : whether no ranks are folded, those of tensor groups included
    """

    classes: tuple[tuple[int, ...], ...]
    traffic: tuple[dict[Name, Traffic], ...]
    joint: dict[Name, Traffic]
    links: "LinkColours"
    unfolded: bool = False

    def crowded(self) -> Integers:
        """Return the links of the machine that the replicas of one class fill alone.

        Their transfers slow each other there, which is exact if all of them cross these links.
        """
        capacities = self.links.capacities
        return self.links.of_colours(
            link
            for of_class in self.traffic
            for moved in of_class.values()
            for link, flows in moved.crossings()
            if flows * moved.cap > capacities[link] * (1 + 1e-12)
        )


class JobTraffic(NamedTuple):
    """The traffic of the replicas of a job.

    Attributes
    ----------
    own : transfers of all replicas, a row each, by name
    joint : transfers of all replicas together, one row each
    patterns : for each replica, a number for what else distinguishes it (the times of its blocks)
    """

    own: Transfers
    joint: Transfers
    patterns: Integers


class _Tables(NamedTuple):
    """The same on the links that could limit it; `first` is the number of the first replica."""

    own: list[TrafficTable]
    joint: list[TrafficTable]
    patterns: Integers
    first: int

    @property
    def replicas(self) -> slice:
        """Its replicas among those of all jobs."""
        return slice(self.first, self.first + len(self.patterns))


class ReplicaTraffic:
    """The traffic of the replicas of all jobs on the links that could limit it.

    Replicas are numbered through the jobs, in their order.

    Parameters
    ----------
    capacities, link_names : of the links of the machine [B/s]
    """

    def __init__(
        self, jobs: Sequence[JobTraffic], capacities: Floats, link_names: Sequence[str]
    ) -> None:
        every = [
            [[_capped(table, capacities) for table in tables_of(each)] for each in job[:2]]
            for job in jobs
        ]
        tight = _tight([table for job in every for each in job for table in each], capacities)
        firsts = np.cumsum([0, *(len(job.patterns) for job in jobs)]).tolist()
        of_replicas = [
            (table, first)
            for (own, joint), first in zip(every, firsts, strict=False)
            for tables, first in ((own, first), (joint, 0))
            for table in tables
        ]
        self._alike = LinksAlike.among(np.flatnonzero(tight), of_replicas, firsts[-1], capacities)
        self._links = self._alike.first
        chosen = np.zeros(len(capacities), dtype=np.bool_)
        chosen[self._links] = True
        self._jobs = [
            _Tables(_only(own, chosen), _only(joint, chosen), job.patterns, first)
            for job, (own, joint), first in zip(jobs, every, firsts, strict=False)
        ]
        self._count = firsts[-1]
        self._capacities, self._names = capacities, link_names

    def unfolded(self) -> tuple[Folded, ...]:
        """Return every replica of each job as a class of its own."""
        folded = self._quotient(np.arange(self._count), np.arange(len(self._links)))
        return tuple(replace(each, unfolded=True) for each in folded)

    def folded(self, overloaded: Integers | None = None) -> tuple[Folded, ...]:
        """Return for each job its replicas as one class where no time can differ.

        Parameters
        ----------
        overloaded : links of the machine that may be overloaded; all of them if left out
        """
        refining = np.ones(len(self._links), dtype=np.bool_)
        if overloaded is not None:
            refining = np.isin(self._links, overloaded)
        return self._quotient(*self._refined(refining))

    def differ(self, folded: Sequence[Folded], links: Integers) -> bool:
        """Return whether replicas of a class cross some links of the machine differently."""
        crossed = self._crossed
        some = crossed.only(np.isin(self._links, links)[crossed.link])
        colours = np.empty(self._count, dtype=np.int64)
        number = 0
        for job, of_job in zip(self._jobs, folded, strict=True):
            for members in of_job.classes:
                colours[np.add(job.first, members)] = number
                number += 1
        met = _paired(some.kind, folded[0].links.colours[self._alike.places[some.link]])
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

    @property
    def _index(self) -> Integers:
        """For each link of the machine, its place among those that are coloured."""
        return _index(self._links, len(self._capacities))

    @cached_property
    def _crossed(self) -> "Crossings":
        tables = [(table, job.first) for job in self._jobs for table in job.own]
        return _crossings(tables, self._index)

    @cached_property
    def _of_replica(self) -> Integers:
        """For each replica, a number for its job and its own latencies and rates."""
        parts: list[Integers] = []
        for job in self._jobs:
            facts = [
                amounts.view(np.int64).reshape(-1, len(job.patterns))
                for table in job.own
                for amounts in (table.moved.nbytes, table.moved.latency, table.moved.cap)
            ]
            known = int(parts[-1].max()) + 1 if parts else 0
            parts.append(known + numbered(np.vstack([job.patterns[None], *facts]).T))
        return np.concatenate(parts)

    @cached_property
    def _of_link(self) -> Integers:
        """For each of these, a number for its capacity and the joint traffic on it."""
        joint = _crossings([(table, 0) for job in self._jobs for table in job.joint], self._index)
        sets = multisets(joint.link, joint.kind, len(self._links))
        return numbered(np.stack([self._capacities[self._links].view(np.int64), sets]).T)

    # --- the quotient -----------------------------------------------------------------------------

    def _quotient(self, colours: Integers, link_colours: Integers) -> tuple[Folded, ...]:
        """Return for each job the load of each class on one link of each colour."""
        every = link_colours.astype(np.int32)[self._alike.of]
        links = LinkColours(self._alike.every, every, self._capacities, self._names)
        return tuple(self._of_job(job, colours[job.replicas], links) for job in self._jobs)

    def _of_job(self, job: _Tables, coloured: Integers, links: "LinkColours") -> Folded:
        _, first, colours = np.unique(coloured, return_index=True, return_inverse=True)
        traffic: list[dict[Name, Traffic]] = [{} for _ in first]
        for table in job.own:
            for name, number, moved in links.load(table, colours, first).traffic():
                traffic[number][name] = moved
        whole = np.zeros(1, dtype=np.int64)
        loads = (links.load(table, whole, whole) for table in job.joint)
        members = np.split(np.argsort(colours, kind="stable"), np.cumsum(np.bincount(colours))[:-1])
        return Folded(
            classes=tuple(tuple(each.tolist()) for each in members),
            traffic=tuple(traffic),
            joint={name: moved for load in loads for name, _, moved in load.traffic()},
            links=links,
        )


def _capped(table: TrafficTable, capacities: Floats) -> TrafficTable:
    """Return the traffic with its uncontended rate as its cap, so that only shared links matter."""
    rates = table.moved.uncontended_rates(capacities)
    return replace(table, moved=replace(table.moved, cap=rates))


def _only(tables: Iterable[TrafficTable], links: Booleans) -> list[TrafficTable]:
    return [table.only(links) for table in tables]


def _tight(tables: Iterable[TrafficTable], capacities: Floats) -> Booleans:
    """Return which links' capacity all traffic at once could exceed."""
    demand = np.zeros(len(capacities))
    for table in tables:
        table.crossings.scaled(table.moved.cap).add_to(demand)
    return demand > capacities * (1 + 1e-12)


def _index(links: Integers, count: int) -> Integers:
    """Return for each link of the machine its place among some; 0 for the others."""
    index = np.zeros(count, dtype=np.int32)
    index[links] = np.arange(len(links))
    return index


# --- links that are alike -------------------------------------------------------------------------


class LinksAlike(NamedTuple):
    """The tight links, those of equal capacity together that the same transfers cross alike.

    Attributes
    ----------
    every : the tight links
    first : the first of each set of links that are alike
    of : for each of `every`, the place of its set in `first`
    """

    every: Integers
    first: Integers
    of: Integers

    @classmethod
    def among(
        cls, tight: Integers, tables: Sequence["Numbered"], replicas: int, capacities: Floats
    ) -> "LinksAlike":
        """Return the tight links by what crosses them.

        Parameters
        ----------
        tables, replicas : all traffic, and how many replicas have it
        """
        index = _index(tight, len(capacities))
        alike = mixed(capacities[tight].view(np.uint64)).view(np.int64)
        chosen = np.zeros(len(capacities), dtype=np.bool_)
        chosen[tight] = True
        for kind, replica, links in _kinds((table.only(chosen), at) for table, at in tables):
            add_hashes(alike, index[links], kind * replicas + replica)
        of = numbered(alike[:, None])
        return cls(tight.astype(np.int32), tight[first_of(of)], of.astype(np.int32))

    @property
    def places(self) -> Integers:
        """The places of `first` in `every`."""
        return first_of(self.of)


# --- colours --------------------------------------------------------------------------------------


Numbered = tuple[TrafficTable, int]
"""A table, with the number of its first replica."""


@dataclass(frozen=True)
class Crossings:
    """Crossings of a transfer of a replica and a link; of one kind where name and weight agree."""

    kind: Integers
    replica: Integers
    link: Integers

    def only(self, chosen: Booleans) -> "Crossings":
        """Return some of the crossings."""
        return Crossings(self.kind[chosen], self.replica[chosen], self.link[chosen])


def _crossings(tables: Sequence[Numbered], index: Integers) -> Crossings:
    """Return all crossings, links by their place among those that are coloured."""
    entries = sum(len(table.crossings.links) for table, _ in tables)
    kinds, replicas, links = (np.empty(entries, dtype=np.int32) for _ in range(3))
    first = 0
    for kind, replica, crossed in _kinds(tables):
        own = slice(first, first + len(kind))
        kinds[own], replicas[own], links[own] = kind, replica, index[crossed]
        first = own.stop
    return Crossings(kinds, replicas, links)


def _kinds(tables: Iterable[Numbered]) -> Iterator[tuple[Integers, Integers, Integers]]:
    """Yield the kinds, the replicas and the links of the crossings of each table."""
    known = 0
    for table, before in tables:
        values = table.crossings.values
        whole = values.astype(np.int64)  # numbers of flows, which are whole with few exceptions
        fractions = (whole != values).any()
        weights, weight = ranked(values.view(np.int64) if fractions else whole)
        name, row = table.name_and_row
        yield known + name * len(weights) + weight, before + row, table.crossings.links
        known += len(table.names) * len(weights)


def _paired(kind: Integers, colour: Integers) -> Integers:
    """Return a number for each pair."""
    pairs: Integers = kind.astype(np.int64) * (int(colour.max(initial=0)) + 1) + colour
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
        first = first_of(colours)
        self.capacities = tuple(capacities[numbers[first]].tolist())
        self.names = tuple(names[link] for link in numbers[first].tolist())
        self._numbers, self.colours = numbers, colours
        self._representing = np.zeros(len(capacities), dtype=np.bool_)
        self._representing[numbers[first]] = True
        self._order = np.argsort(numbers[first])
        self._ordered = numbers[first][self._order]

    def of_colours(self, colours: Iterable[int]) -> Integers:
        """Return all links of the machine of some colours."""
        chosen = np.zeros(len(self.capacities), dtype=np.bool_)
        chosen[[*colours]] = True
        return self._numbers[chosen[self.colours]]

    def colours_of(self, links: Integers) -> frozenset[int]:
        """Return the colours of some links of the machine."""
        return frozenset(self.colours[np.isin(self._numbers, links)].tolist())

    def load(self, table: TrafficTable, colours: Integers, first: Integers) -> TrafficTable:
        """Return the traffic of each colour of replicas, with the load of all of them.

        Parameters
        ----------
        first : the first replica of each colour
        """
        crossings, moved, names = table.crossings, table.moved, len(table.names)
        represents = np.flatnonzero(self._representing[crossings.links])
        colour = self._order[np.searchsorted(self._ordered, crossings.links[represents])]
        name, replica = (of_entry[represents] for of_entry in table.name_and_row)
        row = name * len(first) + colours[replica]
        loads = link_rows(row, colour, crossings.values[represents], names * len(first))
        rows = (np.arange(names)[:, None] * table.rows + first).ravel()
        amounts = moved.nbytes[rows], moved.latency[rows], moved.cap[rows]
        return TrafficTable(table.names, table.titles, TrafficRows("", loads, *amounts))
