"""The nodes with which jobs are slowed least, of a stated set of candidates.

candidates --bytes of each link, times alone--> bounds --best first--> replays --> the best

A slowdown is over the shortest time alone in any candidate, so that nodes on which a job is slow
alone are none of the best.  When no other bound is below the best, the first candidate of each
other rule is replayed as well, for what it costs.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from clustersim.arrays import Floats
from clustersim.scenario.sharing import Sharing
from clustersim.simulation.sharing.answer import PlaceCandidate, PlaceChoice
from clustersim.simulation.sharing.bound import least_slowdown
from clustersim.simulation.sharing.candidates import Candidate, Nodes, candidate_places
from clustersim.simulation.sharing.machine import SharedMachine
from clustersim.simulation.sharing.nodes import ranges
from clustersim.simulation.sharing.replays import ROUNDING, Replays


class _Tried(NamedTuple):
    """A candidate, with what bounds it.

    Attributes
    ----------
    alone : time of a step of each job with the machine to itself [s]
    rates : by job and link, the share of its capacity that a step of one second takes
    """

    candidate: Candidate
    alone: Floats
    rates: Floats


class _Replayed(NamedTuple):
    """A candidate that was replayed, with the slowdown of each job."""

    value: float
    slowdowns: Floats
    replays: Replays


def best_places(machine: SharedMachine, sharing: Sharing) -> tuple[Replays, PlaceChoice]:
    """Return the replays of the best candidate, and how it was chosen.

    Raises
    ------
    ScenarioError
        when the machine has too few nodes for the jobs.
    """
    objective = sharing.best.objective
    tried = [_tried(machine, each, sharing.steps) for each in _candidates(machine, sharing)]
    least = np.min([each.alone for each in tried], axis=0)
    bounds = [
        least_slowdown(each.rates / least[:, None], each.alone / least, objective) for each in tried
    ]
    order = sorted(range(len(tried)), key=lambda at: (bounds[at], at))
    replayed: dict[int, _Replayed] = {}
    for at in _most_promising(order, tried, bounds, replayed, sharing.best.replays):
        replays = _replays(machine, tried[at].candidate, sharing.steps)
        replayed[at] = _slowdowns(replays, least, objective)
    best = min(replayed, key=lambda at: (replayed[at].value, order.index(at)))
    value = replayed[best].value
    others = [bounds[at] for at in order if at not in replayed]
    gap = 1 - min(others, default=value) / value
    ranked = sorted(order, key=lambda at: replayed[at].value if at in replayed else np.inf)
    choice = PlaceChoice(
        objective=objective,
        candidates=tuple(
            _answer(machine, tried[at], least, bounds[at], replayed.get(at)) for at in ranked
        ),
        replayed=len(replayed),
        gap=gap if gap > ROUNDING else 0.0,
    )
    return replayed[best].replays, choice


def _most_promising(
    order: Sequence[int], tried: Sequence[_Tried], bounds: Sequence[float],
    replayed: Mapping[int, _Replayed], most: int,
) -> Iterator[int]:  # fmt: skip
    """Yield candidates to replay: until no other can be better, then the first of each rule."""
    for at in order:
        if replayed and bounds[at] >= min(each.value for each in replayed.values()) - ROUNDING:
            break
        if len(replayed) < most:
            yield at
    for at in order:
        rules = {tried[each].candidate.rule for each in replayed}
        if tried[at].candidate.rule not in rules and len(replayed) < most:
            yield at


def _candidates(machine: SharedMachine, sharing: Sharing) -> Sequence[Candidate]:
    """Return the candidates, on the nodes that all other jobs leave free."""
    choosers = machine.choosers
    taken = {node for nodes in machine.assigned for node in nodes}
    others = [nodes for number, nodes in enumerate(machine.assigned) if number not in choosers]
    fabric = machine.cluster.fabric
    return candidate_places(
        [machine.chooser(number) for number in choosers],
        [node for node in range(machine.total) if node not in taken],
        machine.seed,
        fabric,
        alike=fabric.alike and not sharing.disturbances and not any(others),
    )


def _chosen(machine: SharedMachine, candidate: Candidate) -> Mapping[int, Nodes]:
    return dict(zip(machine.choosers, candidate.nodes, strict=True))


def _replays(machine: SharedMachine, candidate: Candidate, steps: int) -> Replays:
    return Replays(machine.placed(_chosen(machine, candidate)), steps)


def _tried(machine: SharedMachine, candidate: Candidate, steps: int) -> _Tried:
    """Return a candidate with times alone and bytes; jobs keep the times for its replay."""
    replays = _replays(machine, candidate, steps)
    return _Tried(candidate, np.array(replays.alone), replays.rates)


def _slowdowns(replays: Replays, least: Floats, objective: str) -> _Replayed:
    times = np.array([replays.together.mean(number) for number in range(len(least))])
    slowdowns = times / least
    slowdowns = np.where(np.abs(slowdowns - 1) < ROUNDING, 1.0, slowdowns)
    value = slowdowns.mean() if objective == "mean" else slowdowns.max()
    return _Replayed(float(value), slowdowns, replays)


def _answer(
    machine: SharedMachine, tried: _Tried, least: Floats, bound: float, replayed: _Replayed | None
) -> PlaceCandidate:
    total = (tried.rates / least[:, None]).sum(axis=0)
    fullest = int(total.argmax()) if len(total) and total.max() else None
    names, table = machine.names, machine.cluster.links
    slowdowns = {} if replayed is None else dict(zip(names, replayed.slowdowns, strict=True))
    return PlaceCandidate(
        rule=tried.candidate.rule,
        places=tried.candidate.places,
        nodes={
            names[number]: ranges(nodes)
            for number, nodes in _chosen(machine, tried.candidate).items()
        },
        bound=bound,
        demand=0.0 if fullest is None else float(total[fullest]),
        link=None if fullest is None else table.names[fullest],
        slowdown=None if replayed is None else replayed.value,
        slowdowns={name: float(value) for name, value in slowdowns.items()},
    )
