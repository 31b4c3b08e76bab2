r"""Energy of a step: the integral of electrical power over its timeline.

    E = \sum_{parts} (device power in the state of the part) x seconds x devices     devices
        + (hosts, fans, losses, network) x step time                                 the rest

The trace has the power of the whole job over the step, a level for each interval between two
events.  Within a block it is the mean of its kernels, so that swings of milliseconds are not shown.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from clustersim.answers import in_brief, record
from clustersim.cost.power import Draw, MachinePower
from clustersim.metrics.attribution import TAIL_PARTS, parts_by_code
from clustersim.program.program import Actor
from clustersim.timeline import Floats, Timeline, Track


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
    """Power of a device of one rank class: from `start[i]` to the next start [s], [W]."""

    start: Floats
    watts: Floats

    @property
    def changes(self) -> Floats:
        """Change of the power at each start, from 0 before the first one [W]."""
        changes = self.watts.copy()
        changes[1:] -= self.watts[:-1]
        return changes


def power_trace(timeline: Timeline, actors: Sequence[Actor], machine: MachinePower) -> PowerTrace:
    """Return the power of a job over a step; its energy is that of `step_energy`."""
    ranks = sum(track.multiplicity for track in timeline.tracks)
    share = machine.devices / ranks  # devices without a rank are assumed to do as the others
    times, changes = [], []
    for track, actor in zip(timeline.tracks, actors, strict=True):
        levels = _levels(track, actor, timeline.duration, machine)
        times.append(levels.start)
        changes.append(share * track.multiplicity * levels.changes)
    at, change = np.concatenate(times), np.concatenate(changes)
    order = np.argsort(at, kind="stable")  # which merges what is in order already
    at = at[order]
    first = np.append(0, 1 + np.flatnonzero(at[1:] > at[:-1]))
    device = np.cumsum(np.add.reduceat(change[order], first)) / machine.devices
    rest = machine.of(0.0).total
    slope = machine.of(1.0).total - rest
    return PowerTrace(np.append(at[first], timeline.duration), rest + slope * device)


def _levels(track: Track, actor: Actor, duration: float, machine: MachinePower) -> _Levels:
    """Return the power of a rank class from the start of the step to its end."""
    waiting, moving = machine.in_state("waiting"), machine.in_state("communication")
    free, start, end = track.free, track.start, track.end
    watts = np.zeros(len(start))
    for rows, parts in parts_by_code(track, actor):
        taken = sum(parts.values())
        watts[rows] = _energy(parts, machine) / taken if taken else waiting
    arrival = np.where(np.isnan(track.sent), start, np.fmax(free[: len(start)], track.sent))
    arrival = np.minimum(arrival, start)
    of_steps = 4 * len(start)
    edges = np.empty(of_steps + 2 * len(track.tail) + 2)
    levels = np.full(len(edges), waiting)
    for offset, times in enumerate((free[:-1], arrival, start, end)):
        edges[offset:of_steps:4] = times
    levels[1:of_steps:2], levels[2:of_steps:4] = moving, watts
    for at, span in enumerate(track.tail):
        edges[of_steps + 2 * at :][:2] = span.ready, span.start
        levels[of_steps + 2 * at + 1] = machine.watts(TAIL_PARTS[span.name])
    edges[-2:] = track.finish, duration
    return _lasting(edges, levels)


def _lasting(edges: Floats, watts: Floats) -> _Levels:
    """Return the levels that last, each where it begins; the last edge is the end."""
    lasting = np.flatnonzero(edges[1:] > edges[:-1])
    changes = np.ones(len(lasting), dtype=np.bool_)
    np.not_equal(watts[lasting[1:]], watts[lasting[:-1]], out=changes[1:])
    changing = lasting[changes]
    return _Levels(edges[changing], watts[changing])


def _energy(parts: Mapping[str, float], machine: MachinePower) -> float:
    """Return the energy of one device in some components [J]."""
    return sum(seconds * machine.watts(part) for part, seconds in parts.items())
