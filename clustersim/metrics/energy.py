r"""Energy of a step: the integral of electrical power over its timeline.

    E = \sum_{parts} (device power in the state of the part) x seconds x devices     devices
        + (hosts, fans, losses, network) x step time                                 the rest

The trace has the power of the whole job over the step, a level for each interval between two
events.  Within a block it is the mean of its kernels, so that swings of milliseconds are not shown.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustersim.answers import in_brief, record
from clustersim.arrays import ranges
from clustersim.cost.power import Draw, MachinePower
from clustersim.metrics.attribution import PARTS, TAIL_PARTS, code_rows, in_parts, parts_by_code
from clustersim.program.program import Actor
from clustersim.timeline import Floats, Steps, Timeline, Track


class PowerTrace(NamedTuple):
    """Power of a job over a step: `watts[i]` from `time[i]` to `time[i + 1]` [s], [W]."""

    time: Floats
    watts: Floats

    def __repr__(self) -> str:
        """Return the values in one short line."""
        return in_brief(self)

    @property
    def peak(self) -> float:
        """Highest level [W]."""
        return float(self.watts.max())

    @property
    def energy(self) -> float:
        """Integral over the step [J]."""
        return float((self.watts * np.diff(self.time)).sum())

    def thinned(self, levels: int) -> "PowerTrace":
        """Return the means over at most `levels` equal intervals, with the same energy."""
        if len(self.watts) <= levels:
            return self
        total = np.concatenate([[0.0], np.cumsum(self.watts * np.diff(self.time))])
        time = np.linspace(self.time[0], self.time[-1], levels + 1)
        return PowerTrace(time, np.diff(np.interp(time, self.time, total)) / np.diff(time))


@record
class StepEnergy:
    """Energy of one step of a job.

    Attributes
    ----------
    seconds : time of the step [s]
    machine : the power of its nodes
    by_part : energy of the devices by component of the step, which adds up to theirs [J]
    mean : power by component of the machine, mean of the step [W]
    """

    seconds: float
    machine: MachinePower
    by_part: Mapping[str, float]
    mean: Draw

    @property
    def joules(self) -> float:
        """Energy of the step, all components of the machine [J]."""
        return self.mean.total * self.seconds

    @property
    def device(self) -> float:
        """Power of a device, mean of devices and time [W]."""
        return self.mean.devices / self.machine.devices


def step_energy(attribution: Mapping[str, float], machine: MachinePower) -> StepEnergy:
    """Return the energy of a step.

    Parameters
    ----------
    attribution : seconds of each component, mean of all ranks, which add up to the step time [s]
    """
    seconds = sum(attribution.values())
    by_part = {
        part: machine.devices * machine.watts(part) * taken for part, taken in attribution.items()
    }
    device = sum(by_part.values()) / machine.devices / seconds
    return StepEnergy(seconds, machine, by_part, machine.of(device))


# --- over the step --------------------------------------------------------------------------------


class _Levels(NamedTuple):
    """Power of devices of some rank classes: from `start[i]` on, the one of `rank[i]` [s], [W]."""

    rank: NDArray[np.int64]
    start: Floats
    watts: Floats

    @property
    def changes(self) -> Floats:
        """Change of the power at each start, from 0 before the first one of a rank class [W]."""
        changes = self.watts.copy()
        changes[1:] -= np.where(self.rank[1:] == self.rank[:-1], self.watts[:-1], 0.0)
        return changes


def power_trace(timeline: Timeline, actors: Sequence[Actor], machine: MachinePower) -> PowerTrace:
    """Return the power of a job over a step; its energy is that of `step_energy`."""
    ranks = sum(track.multiplicity for track in timeline.tracks)
    share = machine.devices / ranks  # devices without a rank are assumed to do as the others
    times, changes = [], []
    for tracks, of_tracks in in_parts(timeline, actors):
        levels = _levels(tracks, of_tracks, timeline.duration, machine)
        devices = share * np.array([track.multiplicity for track in tracks])
        times.append(levels.start)
        changes.append(devices[levels.rank] * levels.changes)
    at, change = np.concatenate(times), np.concatenate(changes)
    order = np.argsort(at, kind="stable")  # which merges what is in order already
    at = at[order]
    first = np.append(0, 1 + np.flatnonzero(at[1:] > at[:-1]))
    device = np.cumsum(np.add.reduceat(change[order], first)) / machine.devices
    rest = machine.of(0.0).total
    slope = machine.of(1.0).total - rest
    return PowerTrace(np.append(at[first], timeline.duration), rest + slope * device)


def _levels(
    tracks: Sequence[Track], actors: Sequence[Actor], duration: float, machine: MachinePower
) -> _Levels:
    """Return the power of some rank classes from the start of the step to its end."""
    steps = Steps.of(tracks)
    arrival = np.where(np.isnan(steps.sent), steps.start, np.fmax(steps.free, steps.sent))
    arrival = np.minimum(arrival, steps.start)
    more = [2 * len(track.tail) + 2 for track in tracks]  # edges of a rank after its steps
    before = np.cumsum([0, *more])
    at = 4 * np.arange(len(steps.start)) + steps.of_rows(before[:-1])
    edges = np.empty(4 * len(steps.start) + before[-1])
    waiting = machine.in_state("waiting")
    levels = np.full(len(edges), waiting)
    for offset, times in enumerate((steps.free, arrival, steps.start, steps.end)):
        edges[at + offset] = times
    levels[at + 1] = levels[at + 3] = machine.in_state("communication")
    levels[at + 2] = _watts(steps, actors, machine)
    behind: list[tuple[float, float]] = []
    for track in tracks:
        for span in track.tail:
            behind += (span.ready, waiting), (span.start, machine.watts(TAIL_PARTS[span.name]))
        behind += (track.finish, waiting), (duration, waiting)
    at = ranges(4 * steps.first[1:] + before[:-1], np.array(more))
    edges[at], levels[at] = np.array(behind).T
    rank = np.repeat(np.arange(len(tracks)), 4 * np.diff(steps.first) + np.array(more))
    return _lasting(rank, edges, levels)


def _watts(steps: Steps, actors: Sequence[Actor], machine: MachinePower) -> Floats:
    """Return the power of a device in each block: the mean of all blocks of a code [W]."""
    waiting, of_part = machine.in_state("waiting"), {part: machine.watts(part) for part in PARTS}
    watts = np.zeros((len(actors), len(actors[0].order.codes)))
    for rank, by_code in enumerate(parts_by_code(steps, actors)):
        for code, parts in by_code.items():
            energy = sum(seconds * of_part[part] for part, seconds in parts.items())
            taken = sum(parts.values())
            watts[rank, code] = energy / taken if taken else waiting
    return watts.ravel()[code_rows(steps, actors)]


def _lasting(rank: NDArray[np.int64], edges: Floats, watts: Floats) -> _Levels:
    """Return the levels that last, each where it begins; the last edge of a rank is the end."""
    lasting = np.flatnonzero(edges[1:] > edges[:-1])
    changes = np.ones(len(lasting), dtype=np.bool_)
    rank, watts = rank[lasting], watts[lasting]
    changes[1:] = (watts[1:] != watts[:-1]) | (rank[1:] != rank[:-1])
    return _Levels(rank[changes], edges[lasting[changes]], watts[changes])
