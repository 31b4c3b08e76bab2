"""Counters of a trace: the memory of stages and the load of links over time.

A counter is a level from each of its instants to the next.  If there are more levels than a viewer
can show, memory is the maximum of each interval of time, and a link the mean.

    a block with fused collectives     its bytes, spread evenly over forward and backward
    a stage transfer                   from its departure, at the rate without other traffic
    a collective of rank classes       its bytes, spread evenly from begin to end

So the load of a link may exceed its capacity: transfers that share it take longer than shown.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from clustersim.program.links.usage import JOINT
from clustersim.records import dataclass
from clustersim.timeline import Floats
from clustersim.units import GIB

if TYPE_CHECKING:
    from clustersim.memory.levels import MemoryCurve
    from clustersim.metrics.communication import HotLink
    from clustersim.program.program import Actor, Crossing, Program
    from clustersim.simulation.step.result import Result
    from clustersim.timeline import Track
    from clustersim.traffic import Traffic

MOST_LEVELS: Final = 6_000
"""Levels of all counters of a kind together."""

FEWEST: Final = 40
"""Levels of one counter, however many counters there are."""


@dataclass(frozen=True)
class Counter:
    """A number that changes in time.

    Attributes
    ----------
    name, unit : what it is, with its unit, and the unit alone
    time : when each level begins, ascending [s]
    level : from then on, in the unit of the name; the last stays
    thinned : whether levels were joined
    """

    name: str
    unit: str
    time: Floats
    level: Floats
    thinned: bool


def memory_counters(result: "Result") -> list[Counter]:
    """Return what a rank of each stage holds, without what its allocator caches."""
    curves = result.memory_curves
    most = max(FEWEST, MOST_LEVELS // len(curves))
    return [_memory(curve, most) for curve in curves]


def _memory(curve: "MemoryCurve", most: int) -> Counter:
    time, held = curve.time, curve.total / GIB
    thinned = len(time) > most
    if thinned:
        time, held = _fullest(time, held, np.linspace(0.0, time[-1], most))
    rows = _changed(time, held)
    name = f"memory of stage {curve.stage} [GiB]"
    return Counter(name, "GiB", time[rows], held[rows], thinned)


def _fullest(time: Floats, level: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """Return the highest level of each stretch between edges, and the last level."""
    first = np.searchsorted(time, edges[:-1], side="right") - 1
    last = np.searchsorted(time, edges[1:], side="left") - 1
    highest = np.maximum(np.maximum.reduceat(level, first), level[last])
    return edges, np.append(highest, level[-1])


def _changed(time: Floats, level: Floats) -> NDArray[np.intp]:
    """Return the rows that begin a level other than the last, one an instant."""
    last = np.append(np.diff(time) > 0, True)
    rows: NDArray[np.intp] = np.flatnonzero(last)
    new: NDArray[np.intp] = rows[np.append(True, np.diff(level[rows]) != 0)]
    return new


# --- links ----------------------------------------------------------------------------------------

Flow = tuple[Floats, Floats, Floats]
"""Transfers that cross a link: when they begin and end [s], and what they take of it [B/s]."""


def link_counters(result: "Result") -> list[Counter]:
    """Return the load of the links that are used most, the busiest first."""
    most = max(FEWEST, MOST_LEVELS // max(1, len(result.links)))
    return [_link(result, link, most) for link in result.links]


def _link(result: "Result", link: "HotLink", most: int) -> Counter:
    flows = [*_flows(result, result.program.crossings[link.name])]
    return load_counter(link.name, link.capacity, flows, result.step_time, most)


def load_counter(
    link: str, capacity: float, flows: "list[Flow]", end: float, most: int, job: str = ""
) -> Counter:
    """Return the load of a link, of one job if it is named; means of intervals of many changes."""
    time, load = _sum(flows)
    thinned = len(time) > most
    if thinned:
        time, load = _means(time, load, np.linspace(0.0, end, most))
    rows = _changed(time, load)
    by = f" by {job}" if job else ""
    name = f"link {link}{by} [% of {capacity / 1e9:.4g} GB/s]"
    return Counter(name, "%", time[rows], 100 * load[rows] / capacity, thinned)


def _flows(result: "Result", crossing: "Crossing") -> Iterator[Flow]:
    """Yield what crosses a link: inside blocks, between stages, and of rank classes together."""
    program = result.program
    for track, actor in zip(result.timeline.tracks, program.actors, strict=True):
        if track.tensor_rank == 0:  # the parts of a stage do the same, and are counted with it
            yield from _inside(track, actor, program, crossing)
            yield from _sends(track, actor, program, crossing)
    for joint in result.timeline.collectives:
        if flows := crossing.moved.get((joint.name, JOINT)):
            begin, end = np.array([joint.begin]), np.array([joint.end])
            yield _one(begin, end, flows * joint.nbytes)


def _one(begin: Floats, end: Floats, nbytes: float) -> Flow:
    """Return transfers of `nbytes` each at their mean rate, without those that take no time."""
    some = (end > begin) & (nbytes > 0)
    return begin[some], end[some], nbytes / (end - begin)[some]


def _inside(
    track: "Track", actor: "Actor", program: "Program", crossing: "Crossing"
) -> Iterator[Flow]:
    """Yield what collectives inside the blocks of a rank class put on a link."""
    replicas = [*actor.replicas, *([JOINT] if track.replica == 0 else [])]
    nbytes = sum(crossing.inside.get((track.stage, replica), 0.0) for replica in replicas)
    seconds = track.end - track.start
    rate = nbytes * program.microbatches / program.wiring.copies / seconds.sum()
    if rate > 0:
        yield track.start, track.end, np.full(len(seconds), rate)


def _sends(
    track: "Track", actor: "Actor", program: "Program", crossing: "Crossing"
) -> Iterator[Flow]:
    """Yield the stage transfers of a rank class that cross a link, those of a way in turn."""
    codes: dict[Traffic, list[int]] = {}
    for number, code in enumerate(program.order.codes):
        if (traffic := actor.send.get(code)) is not None:
            codes.setdefault(traffic, []).append(number)
    for traffic, numbers in codes.items():
        flows = sum(crossing.moved.get((traffic.name, r), 0.0) for r in actor.replicas)
        if not flows or not traffic.nbytes:
            continue
        leaves = track.end[np.isin(program.order.of[track.stage], numbers)]
        alone = traffic.latency + traffic.nbytes / traffic.cap
        if not program.blocking:
            turn = alone * np.arange(len(leaves))
            leaves = np.maximum.accumulate(leaves - turn) + turn
        yield _one(leaves + traffic.latency, leaves + alone, flows * traffic.nbytes)


def _sum(flows: list[Flow]) -> tuple[Floats, Floats]:
    """Return when the sum of all rates changes, and to what, nothing before the first."""
    begins, ends, rates = (
        np.concatenate([np.zeros(0), *each]) for each in zip(*flows, strict=True)
    )
    times = np.concatenate([[0.0], begins, ends])
    order = np.argsort(times, kind="stable")
    load = np.cumsum(np.concatenate([[0.0], rates, -rates])[order])
    load[load < 1e-9 * load.max(initial=0.0)] = 0.0  # what rounding leaves
    return times[order], load


def _means(time: Floats, load: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """Return the mean load between edges, and nothing after the last."""
    passed = np.concatenate([[0.0], np.cumsum(load[:-1] * np.diff(time))])
    mean = np.diff(np.interp(edges, time, passed)) / np.diff(edges)
    return edges, np.append(mean, 0.0)
