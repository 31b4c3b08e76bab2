r"""Energy of a step: the integral of electrical power over its timeline.

    E = \sum_{parts} (device power in the state of the part) x seconds x devices     devices
        + (hosts, fans, losses, network) x step time                                 the rest

The trace has the power of the whole job over the step, a level for each interval between two
events.  Within a block it is the mean of its kernels, so that swings of milliseconds are not shown.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from clustersim.answers import in_brief, record
from clustersim.cost.power import Draw, MachinePower
from clustersim.metrics.attribution import PARTS, TAIL_PARTS, in_parts, parts_by_code
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


def power_trace(timeline: Timeline, actors: Sequence[Actor], machine: MachinePower) -> PowerTrace:
    """Return the power of a job over a step; its energy is that of `step_energy`."""
    ranks = sum(track.multiplicity for track in timeline.tracks)
    share = 1 / ranks  # devices without a rank are assumed to do as the others
    parts = (
        _changes(tracks, of_tracks, timeline.duration, machine)
        for tracks, of_tracks in in_parts(timeline, actors)
    )
    at, change = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(at, kind="stable")  # which merges what is in order already
    at = at[order]
    first = np.append(0, 1 + np.flatnonzero(at[1:] > at[:-1]))
    device = share * np.cumsum(np.add.reduceat(change[order], first))
    rest = machine.of(0.0).total
    slope = machine.of(1.0).total - rest
    return PowerTrace(np.append(at[first], timeline.duration), rest + slope * device)


def _changes(
    tracks: Sequence[Track], actors: Sequence[Actor], duration: float, machine: MachinePower
) -> tuple[Floats, Floats]:
    """Return when the power of a device of each rank changes, and by how much, for some classes.

    It is 0 before the step.  Changes of a rank class, of all its ranks, are in order [s], [W].
    """
    first = np.cumsum([0, *(len(track.start) + len(track.tail) + 1 for track in tracks)])
    edges, levels = np.empty((2, first[-1], 4))
    edges[:] = _edges(tracks, duration)
    levels[:, 0] = machine.in_state("waiting")
    levels[:, 1] = levels[:, 3] = machine.in_state("communication")
    levels[:, 2] = _watts(tracks, actors, machine)
    edges, levels = edges.ravel(), levels.ravel()
    lasting = np.flatnonzero(edges[1:] > edges[:-1])  # the last edge of a rank is the end
    at, watts = edges[lasting], levels[lasting]
    bounds = np.searchsorted(lasting, 4 * first)
    before = np.append(0.0, watts[:-1])
    before[bounds[:-1]] = 0.0
    change = watts - before
    change *= np.repeat([float(track.multiplicity) for track in tracks], np.diff(bounds))
    some = change != 0.0
    some[bounds[:-1]] = True
    return at[some], change[some]


def _edges(tracks: Sequence[Track], duration: float) -> Floats:
    """Return when ranks wait, communicate, compute and communicate again, by step [s].

    Operations after the blocks follow as steps without communication, and as the last one the wait
    for the end of the step.
    """
    columns: list[list[Floats]] = [[], [], [], []]
    for track in tracks:
        tail = [(span.ready, np.nan, span.start) for span in track.tail]
        tail.append((track.finish, np.nan, duration))
        free, sent, start = np.array(tail).T
        end = np.append(free[1:], duration)
        steps = track.free[:-1], track.sent, track.start, track.end
        for column, own, behind in zip(columns, steps, (free, sent, start, end), strict=True):
            column += own, behind
    free, sent, start, end = map(np.concatenate, columns)
    arrival = np.where(np.isnan(sent), start, np.fmax(free, sent))
    return np.stack([free, np.minimum(arrival, start), start, end], axis=1)


def _watts(tracks: Sequence[Track], actors: Sequence[Actor], machine: MachinePower) -> Floats:
    """Return the power of a device in each of these steps: the mean of all blocks of a code [W]."""
    waiting, of_part = machine.in_state("waiting"), {part: machine.watts(part) for part in PARTS}
    columns: list[Any] = []
    each_rank = zip(tracks, actors, parts_by_code(Steps.of(tracks), actors), strict=True)
    for track, actor, by_code in each_rank:
        of_code = np.zeros(len(actor.order.codes))
        for code, parts in by_code.items():
            energy = sum(seconds * of_part[part] for part, seconds in parts.items())
            taken = sum(parts.values())
            of_code[code] = energy / taken if taken else waiting
        columns.append(of_code[actor.order.of[actor.position.stage]])
        columns.append([*(of_part[TAIL_PARTS[span.name]] for span in track.tail), waiting])
    return np.concatenate(columns)
