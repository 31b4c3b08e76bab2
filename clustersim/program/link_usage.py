"""What every link carries in a step, which links limit it, and a bound of the error of fusion.

inside blocks     bytes for one microbatch, by stage and replica
stage transfers   flows, by replica and name of the traffic
joint             flows of all replicas together, by name; replica -1
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import product

import numpy as np

from clustersim.arrays import Floats
from clustersim.plan.parallelism import Plan
from clustersim.program.blocks import Blocks
from clustersim.program.fold import Name
from clustersim.program.job import Job
from clustersim.program.links_in_use import LinksInUse
from clustersim.program.movement.transfers import send_name
from clustersim.program.program import Crossing, Limit
from clustersim.program.steps import FORWARD, WHOLE
from clustersim.traffic import LinkRows, TrafficRows

JOINT = -1
"""Number of the replica that represents all replicas together."""

Transfers = Mapping[Name, TrafficRows]


class LinkUsage:
    """The traffic of a step on the links of the machine.

    Parameters
    ----------
    sends : stage transfers of all replicas, by name
    joint : traffic of all replicas together, by name
    """

    def __init__(self, job: Job, blocks: Blocks, sends: Transfers, joint: Transfers) -> None:
        self._job, self._blocks = job, blocks
        self._sends, self._joint = sends, joint
        self._links = job.cluster.links

    def _loads(self) -> Iterator[tuple[range, LinkRows, LinkRows]]:
        """Yield by run of stages the bytes of collectives for one microbatch [B].

        First those of each cell, then those of all replicas of each stage.
        """
        return zip(self._blocks.runs, self._of_cells, self._of_stages, strict=True)

    @cached_property
    def _of_cells(self) -> list[LinkRows]:
        return [self._blocks.carried(run) for run in self._blocks.runs]

    @cached_property
    def _of_stages(self) -> list[LinkRows]:
        return [self._blocks.carried_by_stage(run) for run in self._blocks.runs]

    # --- fusion ----------------------------------------------------------------------------------

    def fusion_bound(self) -> float:
        """Return the maximum share by which other traffic can lengthen a forward and backward.

        While a stage runs one microbatch forward and backward, each transfer on the links of its
        tensor group occurs at most once, and so do the collectives of other tensor groups. Each
        delays the group by no more than the time of its own bytes.
        """
        if not self._blocks.axes:
            return 0.0
        totals = self._bytes_of_microbatch()
        worst = 0.0
        for run, of_cells, of_stages in self._loads():
            seconds = [shortest_blocks(self._job, self._blocks, stage) for stage in run]
            of_cell = self._delays(totals, of_cells).reshape(len(run), -1)
            delays = np.maximum(self._delays(totals, of_stages)[:, None], of_cell)
            worst = max(worst, float((delays / np.stack(seconds)).max()))
        return worst

    def _bytes_of_microbatch(self) -> Floats:
        """Return the bytes on each link while a stage runs one microbatch of a chunk [B]."""
        plan, blocks = self._job.plan, (*self._of_cells, *self._of_stages)
        totals = np.zeros(len(self._links))  # the loads of blocks have numbered their links
        for traffic in self._sends.values():
            self._add(totals, traffic, 1.0)
        if self._job.overlapped_reduction:
            for (kind, *_), traffic in self._joint.items():
                if kind == "gradients":
                    self._add(totals, traffic, 1.0 / plan.microbatches)
        for carried in blocks:
            carried.add_to(totals, 1.0 / plan.chunks)
        return totals

    def _delays(self, totals: Floats, own: LinkRows) -> Floats:
        """Return for each row the longest time of other traffic on a link that it uses [s]."""
        others = totals[own.links] - own.values / self._job.plan.chunks
        return own.largest(others / self._links.capacities[own.links])

    # --- the step --------------------------------------------------------------------------------

    def carried(self) -> LinksInUse:
        """Return the load of every link in the step."""
        (used,) = np.nonzero(self._totals)
        return LinksInUse(self._links, used, self._totals[used])

    def seconds_of_others(self, stage: int) -> list[float]:
        """Return for each gather of a stage's new weights how long others occupy its links [s].

        The time of the bytes of all other traffic of the step, on the link where it is longest.
        """
        seconds = []
        for (kind, *rest), traffic in self._joint.items():
            if (kind, *rest[:1]) == ("parameters", stage):
                crossed = traffic.crossings.scaled(traffic.nbytes)
                others = self._totals[crossed.links] - crossed.values
                seconds.append(float((others / self._links.capacities[crossed.links]).max()))
        return seconds

    @cached_property
    def _totals(self) -> Floats:
        """The bytes of the step on each link [B]."""
        plan = self._job.plan
        blocks = (*self._of_cells, *self._of_stages) if self._blocks.axes else ()
        totals = np.zeros(len(self._links))
        for traffic in self._joint.values():
            self._add(totals, traffic, 1.0)
        times = _sends_of_step(plan)
        for name, traffic in self._sends.items():
            if name[0] == "send":
                self._add(totals, traffic, float(times[name]))
        for carried in blocks:
            carried.add_to(totals, plan.microbatches / plan.wired.copies)
        return totals

    def limits(self) -> dict[str, Limit]:
        """Return the link that limits each kind of communication of replica 0, without contention.

        Of several transfers of a kind, the longest decides.
        """
        loads: dict[str, LinkRows] = {}
        for axis in self._blocks.axes:
            stages = (range(run.start, run.start + 1) for run in self._blocks.runs)
            rows = (self._blocks.carried_along(axis, stage).take([0]) for stage in stages)
            loads[axis] = next(row for row in rows if len(row.links))
        for kind, prefix, transfers in (
            ("pipeline", "send", self._sends),
            ("data", "gradients", self._joint),
            ("embedding", "embedding", self._joint),
        ):
            moved = [traffic for (name, *_), traffic in transfers.items() if name == prefix]
            if moved:
                longest = max(moved, key=lambda traffic: float(traffic.nbytes[0] / traffic.cap[0]))
                loads[kind] = longest.crossings.take([0])
        links, capacities = self._links, self._links.capacities
        limits = {}
        for kind, load in loads.items():
            link = int(load.links[np.argmax(load.values / capacities[load.links])])
            limits[kind] = Limit(links.names[link], links.kinds[link], float(capacities[link]))
        return limits

    # --- what crosses a link ---------------------------------------------------------------------

    def crossings(self, used: LinksInUse) -> dict[str, Crossing]:
        """Return what crosses the links with the highest load, by their names.

        A step uses thousands of links, and only the crossings of these few are reported.
        """
        crossings = {link: Crossing({}, {}) for link in used.busiest_numbers}
        chosen = np.zeros(len(self._links), dtype=np.bool_)
        chosen[[*crossings]] = True
        inside = (
            (run, *each)
            for run, of_cells, of_stages in self._loads()
            for each in ((of_cells, 0, self._job.plan.data), (of_stages, JOINT, 1))
        )
        for run, load, first, rows in inside:
            few = load.only(chosen[load.links])
            for row, link, nbytes in zip(few.row, few.links, few.values, strict=True):
                stage, replica = divmod(int(row), rows)
                crossings[int(link)].inside[run[stage], first + replica] = float(nbytes)
        for replica, transfers in ((0, self._sends), (JOINT, self._joint)):
            for traffic in transfers.values():
                few = traffic.crossings.only(chosen[traffic.crossings.links])
                for row, link, weight in zip(few.row, few.links, few.values, strict=True):
                    crossings[int(link)].moved[traffic.name, replica + int(row)] = float(weight)
        return {self._links.names[link]: crossing for link, crossing in crossings.items()}

    def _add(self, totals: Floats, traffic: TrafficRows, times: float) -> None:
        """Add the bytes of traffic on each link, times a number."""
        traffic.crossings.scaled(traffic.nbytes).add_to(totals, times)


def shortest_blocks(job: Job, blocks: Blocks, stage: int) -> Floats:
    """Return for each replica the shortest time of a forward and backward of a chunk [s]."""
    numbers, first, inverse = np.unique(
        blocks.communicators.pattern_numbers[stage], return_index=True, return_inverse=True
    )
    seconds = np.empty(len(numbers))
    for place, replica in enumerate(first.tolist()):
        pattern = blocks.pattern(stage, replica)
        seconds[place] = min(
            sum(blocks.block(stage, chunk, kind, pattern)[0].total for kind in WHOLE)
            for chunk in range(job.plan.chunks)
        )
    return seconds[inverse]


def _sends_of_step(plan: Plan) -> Counter[Name]:
    """Return how often each stage transfer occurs in a step."""
    wiring, times = plan.wired, Counter[Name]()
    for kind, stage, chunk in product(WHOLE, range(plan.pipeline), range(plan.chunks)):
        if wiring.onward(stage, chunk, forward=kind == FORWARD) is not None:
            count = len(wiring.batch(chunk, plan.microbatches))
            times[send_name(kind, stage, chunk, wiring)] += count
    return times
