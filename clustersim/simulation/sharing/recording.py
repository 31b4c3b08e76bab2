"""What is kept of a replay for figures: the last passes of each job, and the load of all links.

It is bounded by the operations that `engine.operation_replay` keeps, and is no part of the answer.
"""

from functools import cached_property

import numpy as np

from clustersim.arrays import Floats
from clustersim.program.fold import LinkColours
from clustersim.program.operations import Operations
from clustersim.records import dataclass
from clustersim.topology.cluster import Cluster

STEPS_SHOWN = 3
"""Steps of the job with the longest ones that figures show."""

Spans = tuple[Floats, Floats]
"""When spans begin and end, none before the one before it has ended [s]."""


@dataclass(frozen=True, eq=False)
class JobRecord:
    """The last passes of a job.

    Attributes
    ----------
    name : of the job
    nodes : of the machine that it has
    graph : its operations
    colours : the links of the machine that can be full, as its traffic numbers them
    passes : when each operation began and ended in each of the last passes [s]
    """

    name: str
    nodes: tuple[int, ...]
    graph: Operations
    colours: LinkColours
    passes: tuple[tuple[Floats, Floats], ...]

    @property
    def begin(self) -> float:
        """When the first of these passes begins [s]."""
        return float(np.nanmin(self.passes[0][0]))

    @property
    def end(self) -> float:
        """When the last of them ends [s]."""
        return float(np.nanmax(self.passes[-1][1]))

    @cached_property
    def computing(self) -> Spans:
        """When any of its operations computes."""
        return self._spans(sends=False)

    @cached_property
    def communicating(self) -> Spans:
        """When any of its traffic is under way."""
        return self._spans(sends=True)

    def flows(self, link: int) -> list[tuple[Floats, Floats, Floats]]:
        """Return when its traffic crosses a link of the machine, and at which mean rate [B/s]."""
        numbers = self.colours.colours_of(np.array([link]))
        moved = [
            (number, weight * traffic.nbytes, traffic.latency)
            for number, traffic in enumerate(self.graph.traffic)
            if traffic is not None
            for crossed, weight in traffic.crossings()
            if crossed in numbers
        ]
        flows = []
        for number, nbytes, latency in moved:
            begin = np.array([begins[number] for begins, _ in self.passes]) + latency
            end = np.array([ends[number] for _, ends in self.passes])
            some = end > begin
            flows.append((begin[some], end[some], nbytes / (end - begin)[some]))
        return flows

    def _spans(self, *, sends: bool) -> Spans:
        chosen = np.array([(traffic is not None) == sends for traffic in self.graph.traffic])
        begin = np.concatenate([begins[chosen] for begins, _ in self.passes])
        end = np.concatenate([ends[chosen] for _, ends in self.passes])
        return joined(begin, end)


@dataclass(frozen=True, eq=False)
class Recording:
    """The last passes of all jobs next to each other.

    Attributes
    ----------
    cluster : the machine
    jobs : each job
    loads : by job and link, the share of its capacity in use, mean over the time of all
    """

    cluster: Cluster
    jobs: tuple[JobRecord, ...]
    loads: Floats

    @cached_property
    def window(self) -> tuple[float, float]:
        """The last time in which all jobs were running and are recorded [s]."""
        end = min(job.end for job in self.jobs)
        longest = max((job.end - job.begin) / len(job.passes) for job in self.jobs)
        begin = max(max(job.begin for job in self.jobs), end - STEPS_SHOWN * longest)
        return min(begin, end), end


def joined(begin: Floats, end: Floats) -> Spans:
    """Return the time that spans cover, as spans that do not overlap.

    >>> joined(np.array([4.0, 0.0, 1.0, 2.0]), np.array([5.0, 2.0, 1.5, 3.0]))
    (array([0., 4.]), array([3., 5.]))
    """
    some = end > begin
    order = np.argsort(begin[some], kind="stable")
    begins, ends = begin[some][order], np.maximum.accumulate(end[some][order])
    first = np.append(True, begins[1:] > ends[:-1])[: len(begins)]
    last = np.append(first[1:], True)[: len(begins)]
    return begins[first], ends[last]
